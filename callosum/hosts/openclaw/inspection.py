"""Inspect OpenClaw."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from callosum.hosts.checkup import canary, program
from callosum.hosts.checkup.finding import Finding, ago, say
from callosum.hosts.inspection import HostInspection, TranscriptCall, TranscriptCalls, UserContext, moment, settings_in
from callosum.hosts.openclaw import FOLDER, ID, ungated_paths
from callosum.hosts.openclaw.install import faults, settings_path

if TYPE_CHECKING:
    from callosum.hosts.checkup.examine import Checkup

PORT: Final = 18789
BEAT: Final = 30.0
"""Seconds between two heartbeats of the plugin if its settings name no interval."""
_LATE_BEATS: Final = 3
"""Number of missing heartbeats after which the plugin counts as silent."""
_WRAPPERS: Final = frozenset(("tool_call", "tool_search", "tool_describe", "tool_search_code"))
"""Tools that only lead to another call, which the gate decides itself."""
_NESTED: Final = "openclaw.nested-tool.v1"
_EVENTS: Final = (
    "SELECT event_json FROM transcript_events WHERE created_at >= ? AND event_json IS NOT NULL "
    "AND (event_json LIKE '%\"toolCall\"%' OR event_json LIKE '%\"toolCallId\"%') "
    "ORDER BY created_at DESC LIMIT 50000"
)
_COMPRESSED: Final = (
    "SELECT count(*) FROM transcript_events WHERE created_at >= ? AND event_json IS NULL "
    'AND navigation_json LIKE \'%"role":"assistant"%\''
)


class OpenClawInspection(HostInspection):
    """Inspect OpenClaw, which has a plugin instead of hooks."""

    def look(self, checkup: Checkup) -> Iterator[Finding]:
        """As in ``HostInspection``."""
        host, here = self.host, checkup.here
        executable = program.find(host.program, here.environ)
        usual = settings_path(here.home, here.environ)
        paths = checkup.paths(host, usual, lambda path: names(settings_in(path)))
        if not paths:
            yield from checkup.without(host, executable)
            return
        yield from checkup.version(self, executable)
        for path in paths:
            settings = settings_in(path)
            plugin_finding = self._plugin(path)
            yield plugin_finding
            if plugin_finding.level == "ok" and (node := shutil.which("node", path=here.environ.get("PATH"))):
                canary_script, config = FOLDER / "canary.mjs", config_of(settings)
                send = partial(canary.send_to_plugin, host, node, canary_script, config, here.environ)
                yield checkup.judged(host, send, f"callosum install {host.name}")
            yield self._beat(checkup, settings)
        if ways := ungated_paths():
            listed = "; ".join(way.way for way in ways)
            says = f"these bypass the gate, because {host.title} has no hook for them: {listed}"
            yield say(host, "around", "advice", says, "docs/hosts.md")
        yield from checkup.compare(self, paths)

    def standing(self, checkup: Checkup, path: Path) -> Iterable[Finding]:  # noqa: ARG002 - the file says it all
        """As in ``HostInspection``."""
        return [self._plugin(path)]

    def _plugin(self, path: Path) -> Finding:
        """Return whether the settings contain the plugin as they should."""
        if sentences := faults(settings_in(path), FOLDER):
            return say(
                self.host, "entries", "wrong", f"{path}: {'; '.join(sentences)}", f"callosum install {self.host.name}"
            )
        return say(self.host, "entries", "ok", f"the plugin is in {path}")

    def _beat(self, checkup: Checkup, settings: Mapping[str, Any]) -> Finding:
        """Return whether the plugin in a running gateway reports its health."""
        config = config_of(settings)
        instance = str(config.get("instanceId", self.host.name))
        every = config.get("heartbeatSeconds")
        every = float(every) if isinstance(every, int | float) else BEAT
        at = checkup.alive.get(instance)
        if not runs(settings):
            return say(self.host, "heartbeat", "ok", "its gateway is not running")
        if config.get("mode") == "remote":
            return say(self.host, "heartbeat", "advice", f"it goes to {config.get('url')}; ask doctor there")
        if at is not None and checkup.now - at <= _LATE_BEATS * every:
            return say(self.host, "heartbeat", "ok", f"{instance} was heard {ago(checkup.now - at)}")
        silent = f"for {ago(checkup.now - at).removesuffix(' ago')}" if at is not None else "all the time"
        says = f"its gateway runs, and the plugin in it is silent {silent}: its calls may run without being asked about"
        advice = "openclaw plugins inspect callosum --runtime, and restart the gateway"
        return say(self.host, "heartbeat", "wrong", says, advice)

    def transcripts(self, here: UserContext, since: float) -> TranscriptCalls:
        """Read the database of each agent. Its long messages are compressed and stay unread."""
        state = here.environ.get("OPENCLAW_STATE_DIR")
        folder = Path(state).expanduser() if state else settings_path(here.home, {}).parent
        calls: dict[str, TranscriptCall] = {}
        unread = []
        for path in sorted(folder.glob("agents/*/agent/openclaw-agent.sqlite"))[:100]:
            try:
                with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2)) as database:
                    rows = database.execute(_EVENTS, (int(since * 1000),)).fetchall()
                    compressed = database.execute(_COMPRESSED, (int(since * 1000),)).fetchone()[0]
            except sqlite3.Error as error:
                unread.append(f"{path} cannot be read: {error}")
                continue
            calls |= {made.id: made for made in _calls_in(text for (text,) in reversed(rows)) if made.at >= since}
            if compressed:
                unread.append(f"{compressed} long messages in {path} are compressed and were not read")
        return TranscriptCalls(tuple(calls.values()), unread)


def config_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the config of the plugin, or {} if it has none."""
    value: Any = settings
    for step in ("plugins", "entries", ID, "config"):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def names(settings: Mapping[str, Any]) -> bool:
    """Return True if the settings mention the plugin."""
    value: Any = settings
    for step in ("plugins", "entries"):
        value = value.get(step) if isinstance(value, Mapping) else None
    return isinstance(value, Mapping) and ID in value


def runs(settings: Mapping[str, Any]) -> bool:
    """Return True if something listens on the port of its gateway on this machine."""
    gateway = settings.get("gateway")
    port = gateway.get("port") if isinstance(gateway, Mapping) else None
    with socket.socket() as connection:
        connection.settimeout(1)
        try:
            connection.connect(("127.0.0.1", port if isinstance(port, int) and 0 < port < 65536 else PORT))
        except OSError:
            return False
    return True


def _calls_in(texts: Iterator[str]) -> Iterator[TranscriptCall]:
    calls: dict[str, TranscriptCall] = {}
    ran: dict[str, bool] = {}
    for text in texts:
        event = json.loads(text)
        message = event.get("message")
        if not isinstance(message, dict):
            continue
        at = moment(event.get("timestamp"))
        own = message.get("__openclaw")
        run = str(own.get("runId")) if isinstance(own, dict) else ""
        if message.get("role") == "assistant":
            parts = message.get("content")
            for part in parts if isinstance(parts, list) else ():
                if isinstance(part, dict) and part.get("type") == "toolCall":
                    arguments, tool = part.get("arguments"), part.get("name")
                    if tool in _WRAPPERS or (tool == "exec" and isinstance(arguments, dict) and "code" in arguments):
                        continue
                    id = f"{run}:{part.get('id')}"
                    calls[id] = TranscriptCall(session=run, tool=str(tool), id=id, at=at, ran=None)
        elif message.get("role") == "toolResult":
            ran[f"{run}:{message.get('toolCallId')}"] = message.get("isError") is not True
        elif message.get("customType") == _NESTED and isinstance(details := message.get("details"), dict):
            id = f"{details.get('runId')}:{details.get('toolCallId')}"
            calls[id] = TranscriptCall(
                session=str(details.get("runId")), tool=str(details.get("toolName")), id=id, at=at, ran=True
            )
    for id, call in calls.items():
        if ran.get(id, True):  # a refused or invalid call returns an error
            yield TranscriptCall(session=call.session, tool=call.tool, id=id, at=call.at, ran=call.ran or ran.get(id))
