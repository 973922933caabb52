"""The options that commands share, and what they open with them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.models import OptionInfo

from callosum.cli.codes import NO
from callosum.settings import Settings, load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callosum.gate import LocalGate
    from callosum.rulebook import Rulebook
    from callosum.stores.base import Store


def option(names: str, metavar: str, help: str, **more: Any) -> OptionInfo:
    """Return an option that takes a value. ``names`` are its spellings, separated by spaces: ``--last -n``."""
    found: OptionInfo = typer.Option(*names.split(), metavar=metavar, help=help, **more)
    return found


def flag(names: str, help: str, **more: Any) -> OptionInfo:
    """Return an option that takes no value. ``names`` are its spellings, separated by spaces."""
    found: OptionInfo = typer.Option(*names.split(), help=help, **more)
    return found


State = Annotated[Path | None, option("--state", "DIR", "State folder (or CALLOSUM_STATE).")]
Namespace = Annotated[
    str | None, option("--namespace", "NAME", "Namespace: the group of sessions that see each other.")
]
Only = Annotated[str | None, option("--namespace", "NAME", "Only this namespace (default: all).")]
Config = Annotated[Path | None, option("--config", "FILE", "Settings file (callosum.toml) to read.")]
Json = Annotated[bool, flag("--json", "Print JSON for programs.")]
Since = Annotated[str | None, option("--since", "TIME", 'Start here: a time, or how long ago ("2h").')]
Last = Annotated[int, option("--last -n", "N", "Show the newest N; 0 shows all.", min=0)]
Follow = Annotated[bool, flag("--follow -f", "Continue with new entries until interrupted.")]
_COMMON: Final[Mapping[str, Any]] = {"state": State, "namespace": Namespace, "config": Config, "json": Json}

InNamespace = Annotated[Settings, "state namespace config"]
"""Settings that a command gets by these options (``with_settings``)."""
InFolder = Annotated[Settings, "state config"]
"""Settings that a command gets by these options, and by its own ``namespace``, if it takes one name."""


def with_settings(command: Callable[..., object]) -> Callable[..., None]:
    """Return a command as typer takes it, with the options that its parameter ``settings`` stands for.

    They follow the command's own options, and ``--json`` follows them. A command that returns False ends with code 1.
    """
    own = inspect.signature(command, eval_str=True).parameters
    read = own["settings"].annotation.__metadata__[0].split() if "settings" in own else []
    names = [*(name for name in own if name not in ("settings", "json")), *read, *(["json"] if "json" in own else [])]

    def run(**given: Any) -> None:
        if read:
            namespace = given.pop("namespace") if "namespace" in read else given.get("namespace")
            inside = namespace if isinstance(namespace, str) else None
            given["settings"] = settings_of(given.pop("state"), inside, given.pop("config"))
        if command(**given) is False:
            raise typer.Exit(NO)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    common = {name: Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=_COMMON[name]) for name in read}
    taken = [common.get(name) or own[name].replace(kind=Parameter.KEYWORD_ONLY) for name in names]
    run.__signature__ = Signature(taken)  # type: ignore[attr-defined]
    return run


NOTHING_YET: Final = "Nothing has been decided here yet."


def one_of(names: Iterable[str]) -> str:
    """Return names as in a sentence: ``a, b or c``."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def settings_of(
    state: Path | None, namespace: str | None = None, config: Path | None = None, *, project: bool = True, **flags: Any
) -> Settings:
    """Return the settings in force: flags, then ``CALLOSUM_*``, then ``callosum.toml``, then defaults.

    ``project`` False leaves out a ``callosum.toml`` of the working folder. Raises ``ConfigError`` with the place of the
    error.
    """
    return load({"state": state, "namespace": namespace, "config": config, **flags}, project=project)


def exists(settings: Settings) -> bool:
    """Return True if there is a store; before the first decision there may be none."""
    from callosum.stores.opening import exists

    return exists(settings)


def open_gate(settings: Settings, *, create: bool = False) -> LocalGate:
    """Open the gate of a state folder for a person's command; close it, or use it in a ``with``.

    If nothing has ever been decided, it is a gate over an empty store, so that reading creates nothing; ``create``
    creates the store. The user's rules are not read, so that a person can inspect and decide while they are broken.
    """
    from callosum.gate import LocalGate
    from callosum.rulebook import Rulebook, kept_secret
    from callosum.stores.memory import MemoryStore
    from callosum.stores.opening import open_store

    store: Store = MemoryStore()
    if create or exists(settings):
        store = open_store(settings)
    return LocalGate(settings=settings, store=store, rules=Rulebook(None, secret=kept_secret(settings.state)))


def rulebook_of(settings: Settings) -> Rulebook:
    """Return the rules as a gate of this state folder has them; the folder need not exist.

    Raises ``ConfigError`` with the place if the user's rules are broken.
    """
    from callosum.rulebook import Rulebook

    return Rulebook.of(settings)
