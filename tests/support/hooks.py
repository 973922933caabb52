"""The hook of a host with command hooks as the installer writes it: the native client and the script."""

from pathlib import Path
from typing import Any, Final

from callosum.hosts.install import write_hook
from callosum.hosts.native import CONFIGURATION, client_path
from callosum.hosts.script import hook_of
from callosum.settings import Settings

KINDS: Final = ("native", "script") if client_path() else ("script",)
"""What a hook can be here. Without a compiler (`make native`) there is no native client to try."""


def written(state: Path, kind: str = KINDS[0], **settings: Any) -> Path:
    """Write the hook of a state folder and return its path."""
    hook = hook_of(Settings(state=state, hook=kind, **settings))  # type: ignore[arg-type]
    assert hook.native == (kind == "native")
    write_hook(hook)
    return hook.path


def installed(state: Path) -> Path:
    """Return the hook that `callosum install` has written."""
    return hook_of(Settings(state=state)).path


def edit(hook: Path, old: str, new: str) -> None:
    """Make the hook use another name than the recorded one."""
    beside = hook.with_name(hook.name + CONFIGURATION)
    path = beside if beside.exists() else hook
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
