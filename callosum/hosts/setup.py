"""The entries of command hooks that hold in a host, by the host's description; and whose settings are meant."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from msgspec import Struct

from callosum.hosts import hook_entries
from callosum.hosts.hook_entries import MARK, Group
from callosum.hosts.remote import RemoteServer
from callosum.hosts.script import HERE, REPORT, Hook, closed, hook_of, names_of

if TYPE_CHECKING:
    from callosum.programs.program import HookSubscription, Program
    from callosum.settings import Settings

SettingsEdit = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From the object in a settings file to what is to stand there."""
_SECONDS: Final = 20
"""Seconds that a hook may take."""
_USUAL: Final[Mapping[str, str]] = {}


class InstallTarget(Struct, frozen=True, kw_only=True):
    """Whose settings are meant.

    ``project``: a folder, for the settings of one project instead of the user's. ``file``: a file that is named.
    ``url``: a server on this machine that the host itself is to ask over HTTP, where it can. ``remote``: a server that
    the hook script is to ask, in place of the local gate.
    """

    home: Path
    environ: Mapping[str, str]
    project: Path | None = None
    file: Path | None = None
    url: str | None = None
    remote: RemoteServer | None = None

    @classmethod
    def here(cls, **named: Any) -> InstallTarget:
        """The user who runs this process."""
        return cls(home=Path.home(), environ=os.environ, **named)


class InstallSite(NamedTuple):
    """One settings file (None: none that is the usual one), what stands in it with the gate, and what without.

    ``then``: what there is to know or to do afterwards, one sentence each, from what stands in the file.
    """

    path: Path | None
    added: SettingsEdit
    removed: SettingsEdit
    then: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda _: ()


def hooks_site(host: Program, settings: Settings, where: InstallTarget) -> InstallSite:
    """Return how the gate is put into the settings of a host with command hooks."""
    hook = hook_for(host, settings, where.remote)
    path = where.file or host.settings_path(where.home, where.environ, where.project)
    url = where.url and where.url.rstrip("/")
    wanted = entries_of(host, str(hook.path), url, names_of(settings), bounded=hook.native)
    return InstallSite(path, partial(hook_entries.installed, wanted=wanted), hook_entries.removed, lambda _: host.then)


def hook_for(host: Program, settings: Settings, server: RemoteServer | None, *, script: bool = False) -> Hook:
    """Return the hook of a host: one for all hosts that ask the local gate, one for each that asks a ``server``."""
    return hook_of(settings, server, host.name if server is not None else "", script=script)


def entries_of(
    host: Program, script: str, url: str | None = None, names: Mapping[str, str] = _USUAL, *, bounded: bool = False
) -> dict[str, Group]:
    """Return the entries by event. ``script``: the hook's path. ``url``: of a server, for HTTP hooks.

    ``names``: as ``names_of`` has them, for HTTP hooks; the script says them by itself. HTTP hooks cost less a call,
    but a server that is down then stops every tool, reading too. ``bounded``: as in ``script.closed``.
    """
    address = None if url is None else f"{url}{_endpoint(host)}?{urlencode({'via': MARK, **names})}"
    return {event: _group(host, on, script, address, bounded=bounded) for event, on in host.events.items()}


def wanted_in(
    settings: Mapping[str, Any], host: Program, script: str, names: Mapping[str, str] = _USUAL, *, bounded: bool = False
) -> dict[str, Group]:
    """Return the entries as they should be in these settings of the host's: over HTTP where they are so already."""
    urls = [str(hook.get("url")) for hook in hook_entries.ours(settings, host.asks) if hook.get("type") == "http"]
    url = urls[0].partition(_endpoint(host))[0] if urls else None
    return entries_of(host, script, url, names, bounded=bounded)


def _endpoint(host: Program) -> str:
    return f"/hooks/{host.name}"


def _group(host: Program, on: HookSubscription, script: str, address: str | None, *, bounded: bool) -> Group:
    word = HERE if on.role == "settings" else REPORT if on.reports else ""
    hook: dict[str, Any]
    if address is not None and on.by_url:
        hook = {"type": "http", "url": address}
    elif host.words_apart:
        hook = {"type": "command", **host.entry, "command": script, "args": [host.name, *filter(None, [word])]}
    else:
        line = closed(script, host.name, _SECONDS, asks=on.can_stop, word=word, bounded=bounded)
        hook = {"type": "command", **host.entry, "command": line}
    hook["timeout"] = host.timeout
    if on.can_stop:
        hook |= host.entry_that_stops
    return {"hooks": [hook]} if on.matcher is None else {"matcher": on.matcher, "hooks": [hook]}
