"""Compute the hook entries of a host from its description, and say whose settings to change."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from msgspec import Struct

from callosum.hosts import files, hook_entries
from callosum.hosts.hook_entries import MARK, Group
from callosum.hosts.remote import RemoteServer
from callosum.hosts.script import HERE, REPORT, Hook, closed, hook_of, names_of
from callosum.loopback import read_token
from callosum.programs import WITH_HOOKS

if TYPE_CHECKING:
    from callosum.programs.program import HookSubscription, Program
    from callosum.settings import Settings

SettingsEdit = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Function from the object in a settings file to the object that should be there."""
_SECONDS: Final = 20
"""Seconds that a hook may take."""
_USUAL: Final[Mapping[str, str]] = {}


class InstallTarget(Struct, frozen=True, kw_only=True):
    """Say whose settings to change.

    ``project`` is a folder, for the settings of one project instead of the user's. ``file`` names the settings file.
    ``url`` is a server on this machine that the host asks itself over HTTP, if it can. ``remote`` is a server that the
    hook script asks instead of the local gate.
    """

    home: Path
    environ: Mapping[str, str]
    project: Path | None = None
    file: Path | None = None
    url: str | None = None
    remote: RemoteServer | None = None

    @classmethod
    def here(cls, **named: Any) -> InstallTarget:
        """Return the target for the user of this process."""
        return cls(home=Path.home(), environ=os.environ, **named)


class InstallSite(NamedTuple):
    """Describe one settings file: its path, and the functions that add and remove the gate's entries.

    ``path`` is None if the host has no usual settings file. ``then`` takes the object in the file and returns one
    sentence for each thing that the user has to know or do afterwards.
    """

    path: Path | None
    added: SettingsEdit
    removed: SettingsEdit
    then: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda _: ()


def hooks_site(host: Program, settings: Settings, where: InstallTarget) -> InstallSite:
    """Return how the gate is added to the settings of a host with command hooks."""
    hook = hook_for(host, settings, where.remote)
    path = where.file or host.settings_path(where.home, where.environ, where.project)
    url = where.url and where.url.rstrip("/")
    token = read_token(settings.state) if url and path == host.settings_path(where.home, where.environ, None) else ""
    headers = {"Authorization": f"Bearer {token}"} if token else None  # never in a file that a project shares
    wanted = entries_of(host, str(hook.path), url, names_of(settings), bounded=hook.native, headers=headers)
    return InstallSite(path, partial(hook_entries.installed, wanted=wanted), hook_entries.removed, lambda _: host.then)


def who_decides(state: Path, host: str = "") -> tuple[str, ...]:
    """Return a sentence if hooks and wraps see the same calls. ``host`` is about to be installed."""
    titles = [one.title for one in WITH_HOOKS.values() if one.name == host or files.installed_files(state, one.name)]
    if not titles or not (host == "mcp" or files.installed_files(state, "mcp")):
        return ()
    return (f"MCP calls of {', '.join(titles)} are decided by the hook; the wrap passes them on and decides the rest.",)


def hook_for(host: Program, settings: Settings, server: RemoteServer | None, *, script: bool = False) -> Hook:
    """Return the hook of a host. Hosts that ask the local gate share one; a host that asks a ``server`` has its own."""
    return hook_of(settings, server, host.name if server is not None else "", script=script)


def entries_of(
    host: Program,
    script: str,
    url: str | None = None,
    names: Mapping[str, str] = _USUAL,
    *,
    bounded: bool = False,
    headers: Any = None,
) -> dict[str, Group]:
    """Return the entries by event.

    ``script`` is the path of the hook. ``url`` is the server for HTTP hooks. ``names`` is the result of ``names_of``,
    used for HTTP hooks only, because the script contains its names. An HTTP hook costs less per call, but no tool runs
    while the server is down, not even reads; ``headers`` are those of its requests. ``bounded`` is as in
    ``script.closed``.
    """
    address = None if url is None else f"{url}{_endpoint(host)}?{urlencode({'via': MARK, **names})}"
    by_url = {"type": "http", "url": address, **({"headers": headers} if headers else {})} if address else None
    return {event: _group(host, on, script, by_url, bounded=bounded) for event, on in host.events.items()}


def wanted_in(
    settings: Mapping[str, Any], host: Program, script: str, names: Mapping[str, str] = _USUAL, *, bounded: bool = False
) -> dict[str, Group]:
    """Return the entries that these settings should have. Entries that use HTTP keep using it."""
    by_url = next((one for one in hook_entries.ours(settings, host.asks) if one.get("type") == "http"), None)
    if by_url is None:
        return entries_of(host, script, None, names, bounded=bounded)
    url = str(by_url.get("url")).partition(_endpoint(host))[0]
    return entries_of(host, script, url, names, bounded=bounded, headers=by_url.get("headers"))


def _endpoint(host: Program) -> str:
    return f"/hooks/{host.name}"


def _group(
    host: Program, on: HookSubscription, script: str, by_url: Mapping[str, Any] | None, *, bounded: bool
) -> Group:
    word = HERE if on.role == "settings" else REPORT if on.reports else ""
    hook: dict[str, Any]
    if by_url is not None and on.by_url:
        hook = {**by_url}
    elif host.words_apart:
        hook = {"type": "command", **host.entry, "command": script, "args": [host.name, *filter(None, [word])]}
    else:
        line = closed(script, host.name, _SECONDS, asks=on.can_stop, word=word, bounded=bounded)
        hook = {"type": "command", **host.entry, "command": line}
    hook["timeout"] = host.timeout
    if on.can_stop:
        hook |= host.entry_that_stops
    return {"hooks": [hook]} if on.matcher is None else {"matcher": on.matcher, "hooks": [hook]}
