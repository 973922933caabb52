"""Inspect the hosts on this machine, one after the other."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from callosum.client.local import listens
from callosum.errors import ConfigError
from callosum.hosts import files, hook_entries, remote
from callosum.hosts.adapters import code_of
from callosum.hosts.checkup import canary, program
from callosum.hosts.checkup.compare import JournalledCalls, earliest, undecided
from callosum.hosts.checkup.finding import Finding, ago, say
from callosum.hosts.inspection import HostInspection, UserContext, settings_in
from callosum.hosts.last_seen import load as load_heard
from callosum.hosts.mcp import install as mcp
from callosum.hosts.native import windows
from callosum.hosts.remote import RemoteServer
from callosum.hosts.script import Hook, names_of, native_path, script_path
from callosum.hosts.setup import hook_for, wanted_in, who_decides
from callosum.journal import is_canary
from callosum.merging.git import git_of
from callosum.model import SECOND, Entry
from callosum.programs import HOSTS
from callosum.programs.program import Program
from callosum.settings import Settings
from callosum.sockets import socket_path, stranger_at

DAY: Final = 86400.0
_NAMED: Final = 5
"""Maximum number of calls without a decision that a finding names."""

Read = Callable[[int], Iterable[Entry]]
"""Function that returns the journal's entries of all namespaces since a time."""


class InstalledEntries(NamedTuple):
    """Hold what was found about the entries in a settings file.

    ``wanted`` are the entries that should be there, and ``missing`` the events whose entry is not. ``server`` is the
    server that the entries ask (None: the local gate) and ``hook`` is the hook that they start.
    """

    findings: list[Finding]
    wanted: Mapping[str, hook_entries.Group]
    missing: list[str]
    server: RemoteServer | None
    hook: Hook


def examine(settings: Settings, here: UserContext, read: Read, *, now: float | None = None) -> Iterator[Finding]:
    """Yield the findings about every host that is installed or set up here. ``now``: Unix seconds, for tests."""
    checkup = Checkup(settings, here, read, time.time() if now is None else now)
    for checks in all_checks():
        yield from checks.look(checkup)
    if checkup.local:
        yield _gate(settings)
        if settings.snapshots and not git_of(settings.state):
            says = "writes are not merged: there is no git that only root can change, and none was recorded"
            mend = "Install git for the whole system, or `callosum install HOST` with git in PATH."
            yield Finding("git", "advice", says, mend)
    yield from _mcp(settings)


def standing(settings: Settings, here: UserContext) -> Iterator[Finding]:
    """Yield what is wrong with the installed entries. Read only files, and run neither programs nor the gate."""
    checkup = Checkup(settings, here, lambda _: (), time.time())
    for checks in all_checks():
        for path in files.installed_files(settings.state, checks.host.name):
            yield from checks.standing(checkup, path)
    yield from _mcp(settings)


def all_checks() -> list[HostInspection]:
    """Return the inspection of every host."""
    return [code_of(host.checks)(host) for host in HOSTS]


def _gate(settings: Settings) -> Finding:
    path = socket_path(settings.state)
    if (other_gate := stranger_at(path)) is not None:
        pid, why = other_gate
        mend = f"End process {pid}, or `callosum install HOST` by the installation that hooks should use."
        return Finding("gate", "wrong", f"{path} is not used: {why}", mend if pid else f"Find out who made {path}.")
    if listens(path):
        return Finding("gate", "ok", f"answers on {path}")
    return Finding("gate", "ok", "not running; the next call of a host or `callosum serve` starts it")


class Checkup:
    """Inspect everything once."""

    def __init__(self, settings: Settings, here: UserContext, read: Read, now: float) -> None:
        self.settings, self.here, self.now = settings, here, now
        self._read = read
        self._heard, self.alive = load_heard(settings.state)
        self.local = False
        """True if a hook asks the gate of this machine."""

    def paths(self, host: Program, usual: Path, speaks_of_us: Callable[[Path], bool]) -> list[Path]:
        """Return the settings files of a host that hold, or should hold, the gate's entries."""
        recorded = files.installed_files(self.settings.state, host.name)
        return [path for path in dict.fromkeys([usual, *recorded]) if path in recorded or speaks_of_us(path)]

    def without(self, host: Program, executable: Path | None) -> Iterator[Finding]:
        """Yield the finding that an installed host does not ask the gate."""
        if executable is not None:
            yield say(host, "entries", "advice", f"{host.title} does not ask the gate", f"callosum install {host.name}")

    def hooks(self, checks: HostInspection) -> Iterator[Finding]:
        """Yield the findings about a host with command hooks, or nothing if it is not installed here."""
        host = checks.host
        executable = program.find(host.program, self.here.environ)
        usual = host.settings_path(self.here.home, self.here.environ)
        paths = self.paths(host, usual, lambda path: bool(hook_entries.ours(settings_in(path), host.asks)))
        if not paths:
            yield from self.without(host, executable)
            return
        yield from self.version(checks, executable)
        servers: list[RemoteServer | None] = []
        for path in paths:
            installed = self.entries(checks, path)
            yield from installed.findings
            servers.append(installed.server)
            if (reviewed := checks.reviewed(executable, self.here, path)) is not None:
                yield say(host, "trust", *reviewed)
            # Start no hook that differs from what was written, because its origin is unknown.
            if (yield from self._script(host, installed.server, installed.hook)) and host.asks not in installed.missing:
                if installed.server is not None:
                    yield self._greeting(host, installed.server)
                yield from self._canary(host, installed.wanted[host.asks]["hooks"], installed.server)
        for server in dict.fromkeys(server for server in servers if server is not None):
            says = f"not compared: its calls are in the journal of {server.url}"
            yield say(host, "transcripts", "advice", says, "callosum doctor there looks after that server alone")
        if None not in servers:
            return
        self.local = True
        yield self._last_heard(host)
        yield from self.compare(checks, paths)

    def entries(self, checks: HostInspection, path: Path) -> InstalledEntries:
        """Return what was found about the entries in a settings file."""
        host = checks.host
        settings = settings_in(path)
        script = str(script_path(self.settings, host.name))
        named = any(script in str(hook.get("command")) for hook in hook_entries.ours(settings, host.asks))
        server = remote.load(self.settings.state, host.name) if named else None  # None for the gate of this machine
        hook = self._hook_of(host, settings, server)
        wanted = wanted_in(settings, host, str(hook.path), names_of(self.settings), bounded=hook.native)
        missing = hook_entries.missing(settings, wanted)
        usual = host.settings_path(self.here.home, self.here.environ)
        mend = f"callosum install {host.name}" + ("" if path == usual else f" {path}")
        names = ", ".join(missing[:4]) + (" ..." if len(missing) > 4 else "")
        findings = [
            say(host, "entries", "wrong", f"missing or outdated in {path}: {names}", mend)
            if missing
            else say(host, "entries", "ok", f"all {len(wanted)} in {path}")
        ]
        for sentence in checks.switched_off(self.here, settings):
            advice = "Remove it from the settings; until then the host does not ask the gate."
            findings.append(say(host, "switch", "wrong", sentence, advice))
        return InstalledEntries(findings, wanted, missing, server, hook)

    def version(self, checks: HostInspection, executable: Path | None) -> Iterator[Finding]:
        """Yield the host's version, and whether the entries work in it."""
        host = checks.host
        if executable is None:
            yield say(
                host, "version", "advice", f"{host.program} is not in the search path, but its entries are installed"
            )
            return
        version = program.version_of(executable, host.package, self.here.environ)
        too_old = checks.too_old(program.numbers(version)) if version else ""
        if not version:
            yield say(host, "version", "advice", f"{executable} does not print its version")
        elif too_old:
            yield say(host, "version", "wrong", f"{host.title} {version}: {too_old}", f"Update {host.title}.")
        else:
            yield say(host, "version", "ok", f"{host.title} {version}, {executable}")

    def _hook_of(self, host: Program, settings: Mapping[str, Any], server: RemoteServer | None) -> Hook:
        """Return the hook that the entries call. If they call none, return the one that an installation would write."""
        best = hook_for(host, self.settings, server)
        if windows.is_here():
            return best
        called = str(settings.get("hooks"))
        if str(native_path(self.settings)) in called or str(script_path(self.settings)) not in called:
            return best
        return hook_for(host, self.settings, server, script=True)

    def _greeting(self, host: Program, server: RemoteServer) -> Finding:
        try:
            remote.greet(server, self.settings, host.name)
        except ConfigError as error:
            return say(host, "server", "wrong", str(error), "Until it answers, risky calls are blocked.")
        return say(host, "server", "ok", f"{server.url} answers and takes the token")

    def _script(self, host: Program, server: RemoteServer | None, hook: Hook) -> Generator[Finding, None, bool]:
        """Yield which hook is installed, and return whether it can be started."""
        path = hook.path
        mend = f"callosum install {host.name}"
        if not path.is_file():
            yield say(host, "script", "wrong", f"{path} is missing: nothing runs", mend)
            return False
        if not os.access(path, os.X_OK):
            yield say(host, "script", "wrong", f"{path} cannot be started: nothing runs", f"chmod 700 {path}")
            return False
        best = hook_for(host, self.settings, server)
        if not hook.is_written:
            yield say(host, "script", "wrong", f"{path} is outdated or was changed", mend)
        elif hook.native != best.native:
            says = f"{path} is {hook.kind}; {best.kind} of this installation takes a fraction of its time"
            yield say(host, "script", "advice", says, mend)
        else:
            yield say(host, "script", "ok", f"{path} is {hook.kind}")
        return True

    def _canary(
        self, host: Program, hooks: Iterable[Mapping[str, Any]], server: RemoteServer | None
    ) -> Iterator[Finding]:
        for hook in hooks:
            mend = f"callosum install {host.name}"
            if hook.get("type") == "http":
                mend = f"Until that server answers no tool runs: start it, or go back with {mend}"
            away = "" if server is None else f"{server.url} is unreachable: see above"
            yield self.judged(host, partial(canary.send, host, hook, self.here.environ), mend, away)

    def judged(
        self, host: Program, send: Callable[[], canary.CanaryResult], mend: str, unreachable_advice: str = ""
    ) -> Finding:
        """Return the finding about the test call that must be refused."""
        started = int(time.time() * SECOND)
        result = send()
        if result.by_gate:
            return say(host, "canary", "ok", "a call that must be refused was refused")
        if result.refused:
            log = self.settings.state / "server.log"
            advice = unreachable_advice or f"The gate does not start or does not answer: see {log}"
            return say(host, "canary", "wrong", f"refused, but not by the gate: {result.says}", advice)
        if result.refused is None:
            return say(host, "canary", "wrong", f"the entry does not work: {result.says}", mend)
        if any(is_canary(entry) and entry.rule == canary.RULE for entry in self._read(started)):
            return say(host, "canary", "advice", "a call that must be refused passed: the gate only observes")
        return say(host, "canary", "wrong", f"a call that must be refused was let through: {result.says}", mend)

    def _last_heard(self, host: Program) -> Finding:
        times = self._heard.get(host.name, {})
        if not times:
            return say(host, "heard", "ok", "no hook was called yet")
        event = max(times, key=lambda event: times[event])
        before = times.get(host.asks)
        asked = f"; last asked about a call {ago(self.now - before)}" if before else "; never asked about a call yet"
        return say(host, "heard", "ok", f"{event} {ago(self.now - times[event])}{asked}")

    def _since(self, path: Path) -> float:
        """Return the time since which a file has had its current entries."""
        installed_at = files.installed_at(self.settings.state, path)
        if installed_at is not None:
            return installed_at
        try:
            return path.stat().st_mtime
        except OSError:
            return 0.0

    def compare(self, checks: HostInspection, paths: Iterable[Path]) -> Iterator[Finding]:
        """Yield whether the calls in the transcripts were decided, from the installation of the entries on."""
        host = checks.host
        since = max([self.now - DAY, *map(self._since, paths)])
        in_transcripts = checks.transcripts(self.here, since)
        for sentence in in_transcripts.unread:
            yield say(host, "transcripts", "advice", sentence)
        journalled = JournalledCalls(self._read(earliest(since)) if in_transcripts.calls else (), self.settings.state)
        missing = undecided(in_transcripts.calls, journalled, self.now, host.known)
        if not missing:
            if in_transcripts.calls:
                yield say(
                    host,
                    "transcripts",
                    "ok",
                    f"{_calls(len(in_transcripts.calls))} since {_at(since)}: each was decided",
                )
            return
        names = "; ".join(
            f"{call.tool} {call.id} of session {call.session} at {_at(call.at)}" for call in missing[:_NAMED]
        )
        rest = f"; and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        total = _calls(len(in_transcripts.calls))
        says = f"{len(missing)} of {total} since {_at(since)} ran without a decision: {names}{rest}"
        advice = (
            "If nothing above explains it: restart sessions that started before the installation; they run without the "
            "gate."
        )
        yield say(host, "transcripts", "wrong", says, advice)


def _mcp(settings: Settings) -> Iterator[Finding]:
    """Yield the findings about configurations whose MCP servers were put behind the gate."""
    for path in files.installed_files(settings.state, "mcp"):
        servers = mcp.covered(settings_in(path))
        unwrapped = [name for name, passes in servers.items() if not passes]
        skipped = {name for name, _ in mcp.skipped(settings_in(path))}
        yield from _startable(path)
        if missing := [name for name in unwrapped if name not in skipped]:
            says = f"without the gate in {path}: {', '.join(missing[:5])}"
            yield Finding("mcp entries", "wrong", says, f"callosum install mcp {path}", host="mcp")
        elif not servers:
            yield Finding("mcp entries", "wrong", f"{path} has no servers any more, or cannot be read", host="mcp")
        else:
            suffix = "; ".join([f", {len(unwrapped)} cannot" if unwrapped else "", *who_decides(settings.state)])
            yield Finding(
                "mcp entries", "ok", f"{len(servers) - len(unwrapped)} servers in {path} ask{suffix}", host="mcp"
            )


def _startable(path: Path) -> Iterator[Finding]:
    """Yield what keeps the entries in a configuration from starting."""
    configuration = settings_in(path)
    starters = mcp.programs(configuration)
    for name, starter in starters.items():
        if shutil.which(starter) is not None:
            continue
        says = f"server {name} in {path} cannot be started: there is no program {starter}"
        yield Finding("mcp programs", "wrong", says, f"callosum install mcp {path}", host="mcp")
    for module, name in mcp.needed(configuration).items():
        if starters.get(name) == sys.executable and find_spec(module) is None:
            says = f"server {name} in {path} cannot be started: {module} is not installed"
            yield Finding("mcp programs", "wrong", says, "pip install 'callosum-protocol[mcp]'", host="mcp")


# --- Text ----------------------------------------------------------------------------------------------


def _calls(count: int) -> str:
    return f"{count} call" if count == 1 else f"{count} calls"


def _at(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")
