"""The hosts on this machine, looked over one after the other."""

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
from types import ModuleType
from typing import Any, Final, cast

from callosum.client.local import listens
from callosum.errors import ConfigError
from callosum.hosts import entries, files, remote
from callosum.hosts.checkup import canary, program
from callosum.hosts.checkup.compare import Decided, earliest, undecided
from callosum.hosts.checkup.finding import Finding
from callosum.hosts.claude_code import facts as claude_code
from callosum.hosts.claude_code import setup as claude_code_setup
from callosum.hosts.codex import facts as codex
from callosum.hosts.codex import setup as codex_setup
from callosum.hosts.facts import Facts, Found, Surroundings, settings_in
from callosum.hosts.gemini import facts as gemini
from callosum.hosts.gemini import setup as gemini_setup
from callosum.hosts.heard import load as load_heard
from callosum.hosts.mcp import install as mcp
from callosum.hosts.native import windows
from callosum.hosts.openclaw import FOLDER, around
from callosum.hosts.openclaw import facts as openclaw
from callosum.hosts.openclaw import install as openclaw_install
from callosum.hosts.refusal import BEFORE
from callosum.hosts.remote import Remote
from callosum.hosts.script import Hook, hook_of, names_of, native_path, script_path
from callosum.model import SECOND, Entry
from callosum.settings import Settings
from callosum.sockets import socket_path, stranger_at

DAY: Final = 86400.0
_NAMED: Final = 5
"""So many calls without a decision are named."""
_LATE_BEATS: Final = 3

Read = Callable[[int], Iterable[Entry]]
"""The journal's entries of all namespaces from a moment on."""


def examine(settings: Settings, here: Surroundings, read: Read, *, now: float | None = None) -> Iterator[Finding]:
    """Yields what is found of every host that is here, or that was set up. ``now``: Unix seconds, for tests."""
    asked = _Asked(settings, here, read, time.time() if now is None else now)
    for facts, setup in _BY_SCRIPT:
        yield from asked.by_script(facts, setup)
    if asked.local:
        yield _gate(settings)
    yield from asked.openclaw()
    yield from _mcp(settings)


def standing(settings: Settings, here: Surroundings) -> Iterator[Finding]:
    """Yields what is wrong with the entries that were put in, as the files say it: no program and no gate is asked."""
    asked = _Asked(settings, here, lambda _: (), time.time())
    for facts, setup in _BY_SCRIPT:
        for path in files.installed_files(settings.state, facts.name):
            found, *_ = asked.entries(facts, setup, path)
            yield from found
    for path in files.installed_files(settings.state, openclaw.name):
        yield asked.plugin(path)
    yield from _mcp(settings)


_BY_SCRIPT: Final = cast(
    "tuple[tuple[Facts, ModuleType], ...]",
    ((claude_code, claude_code_setup), (codex, codex_setup), (gemini, gemini_setup)),
)


def _gate(settings: Settings) -> Finding:
    path = socket_path(settings.state)
    if (found := stranger_at(path)) is not None:
        pid, why = found
        mend = f"End process {pid}, or `callosum install HOST` by the installation that hooks are to use."
        return Finding("gate", "wrong", f"{path} is not asked: {why}", mend if pid else f"Find out who made {path}.")
    if listens(path):
        return Finding("gate", "ok", f"answers on {path}")
    return Finding("gate", "ok", "none runs; the next call of a host starts it, and so does `callosum serve`")


class _Asked:
    """One look at everything."""

    def __init__(self, settings: Settings, here: Surroundings, read: Read, now: float) -> None:
        self._settings, self._here, self._read, self._now = settings, here, read, now
        self._heard, self._alive = load_heard(settings.state)
        self.local = False
        """Whether a hook asks the gate of this machine."""

    def by_script(self, facts: Facts, setup: Any) -> Iterator[Finding]:
        """A host with command hooks; nothing if it is not here."""
        say = partial(_say, facts)
        where = program.find(facts.program, self._here.environ)
        usual = setup.settings_path(self._here.home, self._here.environ)
        recorded = files.installed_files(self._settings.state, facts.name)
        paths = [path for path in dict.fromkeys([usual, *recorded]) if path in recorded or _has_ours(path, facts)]
        if not paths:
            if where is not None:
                yield say("entries", "advice", f"{facts.title} does not ask the gate", f"callosum install {facts.name}")
            return
        yield from self._version(facts, where)
        servers: list[Remote | None] = []
        for path in paths:
            found, wanted, missing, server, hook = self.entries(facts, setup, path)
            yield from found
            servers.append(server)
            if facts is codex:
                yield from self._trust(path, where)
            asks = BEFORE[facts.name]
            # Nothing is started that is not as it was written: whose command that is nobody knows.
            if (yield from self._script(facts, server, hook)) and asks not in missing:
                if server is not None:
                    yield self._greeting(facts, server)
                yield from self._canary(facts, wanted[asks]["hooks"], server)
        for server in dict.fromkeys(server for server in servers if server is not None):
            says = f"not compared: its calls are in the journal of {server.url}"
            yield say("transcripts", "advice", says, "callosum doctor there looks after that server alone")
        if None not in servers:
            return
        self.local = True
        yield self._last_heard(facts)
        since = max([self._now - DAY, *(self._since(path) for path in paths)])
        yield from self._compare(facts, facts.transcripts(self._here, since), since)

    def entries(
        self, facts: Facts, setup: Any, path: Path
    ) -> tuple[list[Finding], Mapping[str, entries.Group], list[str], Remote | None, Hook]:
        """The entries in a settings file: findings, how they should be, which are not, whom they ask, by which hook."""
        say = partial(_say, facts)
        settings = settings_in(path)
        server = self._server_of(facts, settings)
        hook = self._hook_of(facts, settings, server)
        if facts is claude_code:
            wanted = setup.wanted(settings, str(hook.path), names_of(self._settings))
        else:
            wanted = setup.entries(str(hook.path), bounded=hook.native)
        missing = entries.missing(settings, wanted)
        usual = setup.settings_path(self._here.home, self._here.environ)
        mend = f"callosum install {facts.name}" + ("" if path == usual else f" {path}")
        names = ", ".join(missing[:4]) + (" ..." if len(missing) > 4 else "")
        found = [
            say("entries", "wrong", f"not as they should be in {path}: {names}", mend)
            if missing
            else say("entries", "ok", f"all {len(wanted)} in {path}")
        ]
        for sentence in facts.switched_off(self._here, settings):
            advice = "Take that out of the settings; nothing is asked until then."
            found.append(say("switch", "wrong", sentence, advice))
        return found, wanted, missing, server, hook

    def plugin(self, path: Path) -> Finding:
        """Whether OpenClaw's settings have the plugin as it should be."""
        faults = openclaw_install.faults(settings_in(path), FOLDER)
        if faults:
            return _say(openclaw, "entries", "wrong", f"{path}: {'; '.join(faults)}", "callosum install openclaw")
        return _say(openclaw, "entries", "ok", f"the plugin is in {path}")

    def _version(self, facts: Facts, where: Path | None) -> Iterator[Finding]:
        if where is None:
            yield _say(facts, "version", "advice", f"{facts.program} is not in the search path, its entries are there")
            return
        version = program.version_of(where, facts.package, self._here.environ)
        fault = facts.too_old(program.numbers(version)) if version else ""
        if not version:
            yield _say(facts, "version", "advice", f"{where} does not say which version it is")
        elif fault:
            yield _say(facts, "version", "wrong", f"{facts.title} {version}: {fault}", f"Update {facts.title}.")
        else:
            yield _say(facts, "version", "ok", f"{facts.title} {version}, {where}")

    def _trust(self, path: Path, where: Path | None) -> Iterator[Finding]:
        left = codex.untrusted(where, self._here, path)
        if left:
            says = f"not reviewed by you, so Codex skips them without a word: {', '.join(left[:4])}"
            yield _say(codex, "trust", "wrong", says, "Only you can: start `codex`, open /hooks, trust the entries.")
        elif left is None:
            yield _say(
                codex, "trust", "advice", "reviewed once; Codex could not be asked whether since the last change"
            )
        else:
            yield _say(codex, "trust", "ok", "you have reviewed the entries as they stand")

    def _server_of(self, facts: Facts, settings: Mapping[str, Any]) -> Remote | None:
        """The server that the entries ask, None if it is the gate of this machine."""
        script = str(script_path(self._settings, facts.name))
        asks = entries.ours(settings, BEFORE[facts.name])
        named = any(script in str(hook.get("command")) for hook in asks)
        return remote.load(self._settings.state, facts.name) if named else None

    def _hook_of(self, facts: Facts, settings: Mapping[str, Any], server: Remote | None) -> Hook:
        """The hook that the entries call; where they call none, the one that an installation would write."""
        own = facts.name if server is not None else ""
        best = hook_of(self._settings, server, own)
        if windows.is_here():
            return best
        called = str(settings.get("hooks"))
        if str(native_path(self._settings)) in called or str(script_path(self._settings)) not in called:
            return best
        return hook_of(self._settings, server, own, script=True)

    def _greeting(self, facts: Facts, server: Remote) -> Finding:
        try:
            remote.greet(server, self._settings, facts.name)
        except ConfigError as error:
            return _say(facts, "server", "wrong", str(error), "Until it answers, what can do harm is held.")
        return _say(facts, "server", "ok", f"{server.url} answers and takes the token")

    def _script(self, facts: Facts, server: Remote | None, hook: Hook) -> Generator[Finding, None, bool]:
        """Whether the hook can be started, and which it is."""
        path = hook.path
        mend = f"callosum install {facts.name}"
        if not path.is_file():
            yield _say(facts, "script", "wrong", f"{path} is not there: nothing runs", mend)
            return False
        if not os.access(path, os.X_OK):
            yield _say(facts, "script", "wrong", f"{path} cannot be started: nothing runs", f"chmod 700 {path}")
            return False
        best = hook_of(self._settings, server, facts.name if server is not None else "")
        if not hook.is_written:
            yield _say(facts, "script", "wrong", f"{path} is of another version, or was changed", mend)
        elif hook.native != best.native:
            says = f"{path} is {hook.kind}; {best.kind}, which this installation has, takes a fraction of its time"
            yield _say(facts, "script", "advice", says, mend)
        else:
            yield _say(facts, "script", "ok", f"{path} is {hook.kind}")
        return True

    def _canary(self, facts: Facts, hooks: Iterable[Mapping[str, Any]], server: Remote | None) -> Iterator[Finding]:
        for hook in hooks:
            mend = f"callosum install {facts.name}"
            if hook.get("type") == "http":
                mend = f"Until that server answers no tool runs: start it, or go back with {mend}"
            away = "" if server is None else f"{server.url} cannot be asked: see above"
            yield self._judged(facts, partial(canary.send, facts.name, hook, self._here.environ), mend, away)

    def _judged(self, facts: Facts, send: Callable[[], canary.Answered], mend: str, away: str = "") -> Finding:
        began = int(time.time() * SECOND)
        answered = send()
        if answered.by_gate:
            return _say(facts, "canary", "ok", "a call that must be refused was refused")
        if answered.refused:
            log = self._settings.state / "server.log"
            advice = away or f"The gate does not start or does not answer: see {log}"
            return _say(facts, "canary", "wrong", f"refused, but not by the gate: {answered.says}", advice)
        if answered.refused is None:
            return _say(facts, "canary", "wrong", f"the entry does not work: {answered.says}", mend)
        if any(canary.is_own(entry) for entry in self._read(began)):
            return _say(facts, "canary", "advice", "a call that must be refused passed: the gate only observes")
        return _say(facts, "canary", "wrong", f"a call that must be refused was not: {answered.says}", mend)

    def _last_heard(self, facts: Facts) -> Finding:
        times = self._heard.get(facts.name, {})
        if not times:
            return _say(facts, "heard", "ok", "no hook of it was called yet")
        event = max(times, key=lambda event: times[event])
        before = times.get(BEFORE[facts.name])
        asked = f"; last asked about a call {_ago(self._now - before)}" if before else "; never asked about a call yet"
        return _say(facts, "heard", "ok", f"{event} {_ago(self._now - times[event])}{asked}")

    def _since(self, path: Path) -> float:
        """Since when the entries stand in a file as they do."""
        known = files.installed_at(self._settings.state, path)
        if known is not None:
            return known
        try:
            return path.stat().st_mtime
        except OSError:
            return 0.0

    def _compare(self, facts: Facts, found: Found, since: float) -> Iterator[Finding]:
        for sentence in found.unread:
            yield _say(facts, "transcripts", "advice", sentence)
        decided = Decided(self._read(earliest(since)) if found.calls else (), self._settings.state)
        missing = undecided(found.calls, decided, self._now, facts.known)
        if not missing:
            if found.calls:
                yield _say(
                    facts, "transcripts", "ok", f"{_calls(len(found.calls))} since {_at(since)}: each was decided"
                )
            return
        names = "; ".join(
            f"{call.tool} {call.id} of session {call.session} at {_at(call.at)}" for call in missing[:_NAMED]
        )
        rest = f"; and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        says = f"{len(missing)} of {_calls(len(found.calls))} since {_at(since)} ran without a decision: {names}{rest}"
        advice = (
            "If nothing above says why: sessions from before the gate was put in go on without it, start them anew."
        )
        yield _say(facts, "transcripts", "wrong", says, advice)

    # --- OpenClaw -------------------------------------------------------------------------------------

    def openclaw(self) -> Iterator[Finding]:
        """OpenClaw; nothing if it is not here."""
        say = partial(_say, openclaw)
        where = program.find(openclaw.program, self._here.environ)
        usual = openclaw_install.settings_path(self._here.home, self._here.environ)
        recorded = files.installed_files(self._settings.state, openclaw.name)
        paths = [
            path for path in dict.fromkeys([usual, *recorded]) if path in recorded or openclaw.names(settings_in(path))
        ]
        if not paths:
            if where is not None:
                yield say("entries", "advice", "OpenClaw does not ask the gate", "callosum install openclaw")
            return
        yield from self._version(openclaw, where)
        for path in paths:
            settings = settings_in(path)
            there = self.plugin(path)
            yield there
            if there.level == "ok" and (node := shutil.which("node", path=self._here.environ.get("PATH"))):
                config = openclaw.config_of(settings)
                send = partial(canary.send_to_plugin, node, FOLDER / "canary.mjs", config, self._here.environ)
                yield self._judged(cast("Facts", openclaw), send, "callosum install openclaw")
            yield self._beat(settings)
        ways = around()
        if ways:
            names = "; ".join(way.way for way in ways)
            yield say(
                "around", "advice", f"not asked about, for OpenClaw offers no hook there: {names}", "docs/hosts.md"
            )
        since = max([self._now - DAY, *(self._since(path) for path in paths)])
        yield from self._compare(cast("Facts", openclaw), openclaw.transcripts(self._here, since), since)

    def _beat(self, settings: Mapping[str, Any]) -> Finding:
        """Whether the plugin in a gateway that runs says that it lives."""
        config = openclaw.config_of(settings)
        instance = str(config.get("instanceId", openclaw.name))
        every = config.get("heartbeatSeconds")
        every = float(every) if isinstance(every, int | float) else openclaw.BEAT
        at = self._alive.get(instance)
        if not openclaw.runs(settings):
            return _say(openclaw, "heartbeat", "ok", "its gateway does not run")
        if config.get("mode") == "remote":
            return _say(openclaw, "heartbeat", "advice", f"it goes to {config.get('url')}; ask doctor there")
        if at is not None and self._now - at <= _LATE_BEATS * every:
            return _say(openclaw, "heartbeat", "ok", f"{instance} was heard {_ago(self._now - at)}")
        silent = f"for {_ago(self._now - at).removesuffix(' ago')}" if at is not None else "all the time"
        says = f"its gateway runs, and the plugin in it is silent {silent}: its calls may run without being asked about"
        advice = "openclaw plugins inspect callosum --runtime, and restart the gateway"
        return _say(openclaw, "heartbeat", "wrong", says, advice)


def _mcp(settings: Settings) -> Iterator[Finding]:
    """The configurations whose servers were put behind the gate."""
    for path in files.installed_files(settings.state, "mcp"):
        servers = mcp.covered(settings_in(path))
        bare = [name for name, passes in servers.items() if not passes]
        left = {name for name, _ in mcp.skipped(settings_in(path))}
        yield from _startable(path)
        if wrong := [name for name in bare if name not in left]:
            says = f"without the gate in {path}: {', '.join(wrong[:5])}"
            yield Finding("mcp entries", "wrong", says, f"callosum install mcp {path}", host="mcp")
        elif not servers:
            yield Finding("mcp entries", "wrong", f"{path} has no servers any more, or cannot be read", host="mcp")
        else:
            kept = f", {len(bare)} cannot" if bare else ""
            yield Finding("mcp entries", "ok", f"{len(servers) - len(bare)} servers in {path} ask{kept}", host="mcp")


def _startable(path: Path) -> Iterator[Finding]:
    """What keeps the entries in a configuration from starting."""
    found = settings_in(path)
    starters = mcp.programs(found)
    for name, starter in starters.items():
        if shutil.which(starter) is not None:
            continue
        says = f"server {name} in {path} cannot be started: there is no program {starter}"
        yield Finding("mcp programs", "wrong", says, f"callosum install mcp {path}", host="mcp")
    for module, name in mcp.needed(found).items():
        if starters.get(name) == sys.executable and find_spec(module) is None:
            says = f"server {name} in {path} cannot be started: {module} is not installed"
            yield Finding("mcp programs", "wrong", says, "pip install 'callosum-protocol[mcp]'", host="mcp")


# --- words ----------------------------------------------------------------------------------------------


def _say(facts: Facts | ModuleType, check: str, level: Any, says: str, advice: str = "") -> Finding:
    return Finding(f"{facts.name} {check}", level, says, advice, facts.name)


def _has_ours(path: Path, facts: Facts) -> bool:
    return bool(entries.ours(settings_in(path), BEFORE[facts.name]))


def _ago(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


def _calls(count: int) -> str:
    return f"{count} call" if count == 1 else f"{count} calls"


def _at(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")
