"""Plan the changes that make a host ask the gate, or undo them, and carry them out."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

from msgspec import Struct

from callosum import launch
from callosum.client.fallback import FILE, load_table, write_table
from callosum.errors import ConfigError
from callosum.hosts import files, remote
from callosum.hosts.adapters import code_of, unknown
from callosum.hosts.files import FileChange
from callosum.hosts.mcp import install as mcp
from callosum.hosts.native import windows
from callosum.hosts.remote import RemoteServer
from callosum.hosts.script import Hook, program_in_no_project
from callosum.hosts.setup import InstallSite, InstallTarget, hook_for, who_decides
from callosum.loopback import make_token, read_token
from callosum.merging.git import git_of
from callosum.programs import NAMED, WITH_HOOKS
from callosum.rulebook import Rulebook
from callosum.settings import Settings, handed_on, load, user_config
from callosum.sockets import socket_path, stranger_at


class InstallPlan(Struct, frozen=True):
    """Describe what an installation does for a host.

    ``hook`` is the hook to write. ``remote`` is the server that the hook asks, with that server's tier table. ``then``
    has one sentence for each thing that the user has to know or do afterwards.
    """

    host: str
    changes: tuple[FileChange, ...]
    hook: Hook | None = None
    remote: tuple[RemoteServer, dict[str, int]] | None = None
    then: tuple[str, ...] = ()

    @property
    def writes_hook(self) -> bool:
        """Return True if the hook is missing or outdated."""
        return self.hook is not None and not self.hook.is_written

    @property
    def changes_something(self) -> bool:
        """Return True if anything would be written."""
        return self.writes_hook or any(change.changes for change in self.changes)


_NEEDS: Final = ("uvicorn", "starlette", "apscheduler")
"""Packages that a gate started by a host needs, beside this one."""


def plan_install(host: str, settings: Settings, where: InstallTarget) -> InstallPlan:
    """Plan the installation of the gate for a host. Raises ``ConfigError`` with the file and the place."""
    if windows.is_here() and where.remote is None and host in WITH_HOOKS:
        raise ConfigError(
            "there is no local gate on Windows: name a server of several machines with --url", at="callosum install"
        )
    site = _site(host, settings, where)
    missing = next((name for name in _NEEDS if find_spec(name) is None), None)
    if missing is not None and where.remote is None:  # no gate could start, so the entries would block every call
        raise ConfigError(f"{missing} is not installed: pip install 'callosum-protocol[server]'", at="callosum install")
    if site.path is None:
        raise ConfigError(f"name the settings file: callosum install {host} FILE", at="FILE")
    hook = hook_for(WITH_HOOKS[host], settings, where.remote) if host in WITH_HOOKS else None
    then: tuple[str, ...] = ()

    def added(settings_object: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal then
        then = site.then(settings_object)
        return site.added(settings_object)

    change = files.changed(site.path, added)
    server_and_tiers = (where.remote, remote.greet(where.remote, settings, host)) if where.remote is not None else None
    if where.remote is None and host != "mcp":
        names = sorted(handed_on(where.environ).keys() - {"CALLOSUM_CONFIG", "CALLOSUM_NAMESPACE"})
        unread = f"Gates that hosts start read no variables: write {', '.join(names)} into callosum.toml instead."
        then = (*then, unread) if names else then
    return InstallPlan(host, (change,), hook, server_and_tiers, (*then, *who_decides(settings.state, host)))


def plan_uninstall(host: str, settings: Settings, where: InstallTarget) -> InstallPlan:
    """Plan the removal from every place of installation. The hook's files stay, because other hosts may use them."""
    site = _site(host, settings, where)
    paths = dict.fromkeys([] if site.path is None else [site.path])
    if where.project is None and where.file is None:
        paths |= dict.fromkeys(files.installed_files(settings.state, host))
    changes = [files.reverted(files.changed(path, site.removed), settings.state) for path in paths]
    return InstallPlan(host, tuple(change for change in changes if change.before is not None))


def install(plan: InstallPlan, settings: Settings) -> None:
    """Carry out a plan. Write first what the entries need, so that no entry ever names a missing file.

    Raises: ``ConfigError`` if a file cannot be written, or if the user's rules cannot be used.
    """
    if plan.remote is not None:
        server, tools = plan.remote
        remote.save(server, settings.state, plan.host, tools)
    else:
        _write_tiers(settings)
        if plan.hook is not None:
            remote.forget(settings.state, plan.host)
        _record(settings)
    if plan.hook is not None:
        write_hook(plan.hook)
    token = read_token(settings.state).encode()
    for change in plan.changes:
        if token and token in (change.after or b"") and change.path.exists():
            change.path.chmod(0o600)  # before the token is in it
    files.install([*plan.changes], settings.state, plan.host)
    if plan.remote is None:
        other_gate = stranger_at(socket_path(settings.state))
        if other_gate is not None and other_gate[0]:  # it answers its pending calls, and the next call starts ours
            with suppress(ProcessLookupError):
                os.kill(other_gate[0], signal.SIGTERM)


def write_hook(hook: Hook) -> None:
    """Write the hook's files, each atomically, so that a running host starts either the old hook or the new one."""
    for path, content, mode in hook.files:
        files.write(path, content, mode)


def uninstall(plan: InstallPlan, settings: Settings) -> None:
    """Carry out a plan to uninstall."""
    files.uninstall([*plan.changes], settings.state)
    remote.forget(settings.state, plan.host)


def _record(settings: Settings) -> None:
    """Record the settings file and the git for the gates that hosts start, and make the machine's own token.

    These gates read no project's settings, and start no program that is found in ``PATH``.
    """
    path = settings.state / launch.RECORD
    recorded = {}
    if settings.config is not None and settings.config != user_config():
        recorded["config"] = str(settings.config)
    try:
        make_token(settings.state)
        if not git_of("") and (git := program_in_no_project("git")):
            recorded["git"] = git
        if recorded:
            files.write(path, json.dumps(recorded).encode() + b"\n", 0o600)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", at=str(error.filename or path)) from None


def _write_tiers(settings: Settings) -> None:
    """Write the tier table by which calls are decided while the gate is unreachable, including the very first call."""
    path = settings.state / FILE
    tools = Rulebook.of(settings).current().highest_tiers()
    try:
        if load_table(path) == tools:
            return
    except (OSError, ValueError):
        pass  # missing or malformed, so it is written
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_table(path, tools)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", at=str(path)) from None


# --- Hosts ----------------------------------------------------------------------------------------------


TARGETS: Final = (*NAMED, "mcp")
"""Everything that the gate can be installed for."""


def _site(name: str, settings: Settings, where: InstallTarget) -> InstallSite:
    if name not in TARGETS:
        raise unknown(name, TARGETS, "HOST")
    host = NAMED.get(name)
    if where.project is not None and where.file is not None:
        raise ConfigError("a project and a file: name one of them", at="--project")
    if where.url is not None:
        if host is None or not host.asks_urls:
            raise ConfigError(f"{name} has no HTTP hooks; leave --http away", at="--http")
        if where.remote is not None:
            raise ConfigError(
                f"either the script asks the server, or {host.title} does: not --url as well", at="--http"
            )
        server = remote.server_at(where.url, "--http", "http://127.0.0.1:7700")
        if not remote.is_loopback(server.host):  # it would send no token, and may reach no private address
            fault = f"so {host.title} asks a server of this machine; for another machine's say --url"
            raise ConfigError(fault, at="--http")
    if where.remote is not None and name not in WITH_HOOKS:
        raise ConfigError(host.elsewhere if host is not None else _MCP_ELSEWHERE, at="--url")
    return code_of(host.site)(host, settings, where) if host is not None else _mcp(settings, where)


def _mcp(settings: Settings, where: InstallTarget) -> InstallSite:
    """Return how to wrap each server in a configuration of MCP servers."""
    if where.project is not None:
        raise ConfigError("name the file with the servers instead: callosum install mcp FILE", at="--project")

    def then(configuration: Mapping[str, Any]) -> tuple[str, ...]:
        if not mcp.covered(configuration):
            raise ConfigError("there are no MCP servers in it", at="mcpServers")
        for module, name in mcp.needed(configuration).items():
            if find_spec(module) is None:  # the entry would exit at once
                message = f"{module} is not installed, which its gate needs: pip install 'callosum-protocol[mcp]'"
                raise ConfigError(message, at=f"server {name}")
        notes = [f"{name} stays without the gate: {why}." for name, why in mcp.skipped(configuration)]
        if settings.state != load(environ={}).state:
            notes.append(f"Have the host set CALLOSUM_STATE={settings.state}, else its servers ask another gate.")
        return (*notes, "Restart the host so that it starts its servers anew.")

    return InstallSite(where.file, partial(mcp.installed, command=tuple(launch.command())), mcp.removed, then)


_MCP_ELSEWHERE: Final = "the servers ask the gate that CALLOSUM_URL and CALLOSUM_TOKEN name"
