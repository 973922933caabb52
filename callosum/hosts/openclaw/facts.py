"""What there is to know of OpenClaw to look it over."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from callosum.hosts.facts import Found, Known, Made, Surroundings, moment
from callosum.hosts.openclaw import ID
from callosum.hosts.openclaw.install import settings_path
from callosum.programs.openclaw import HOST

name: Final = "openclaw"
title: Final = HOST.title
program: Final = HOST.program
package: Final = HOST.package
known: Known = "id"

PORT: Final = 18789
BEAT: Final = 30.0
"""How often the plugin tells that it lives where its settings say nothing, in seconds."""
_WRAPPERS: Final = frozenset(("tool_call", "tool_search", "tool_describe", "tool_search_code"))
"""What only leads to another call, which is asked about itself."""
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


def too_old(version: tuple[int, ...]) -> str:  # noqa: ARG001 - one of the facts
    """As in ``Facts``."""
    return ""


def switched_off(here: Surroundings, settings: Mapping[str, Any]) -> list[str]:  # noqa: ARG001 - see install.faults
    """As in ``Facts``."""
    return []


def config_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the plugin is told, {} where nothing is."""
    found: Any = settings
    for step in ("plugins", "entries", ID, "config"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def names(settings: Mapping[str, Any]) -> bool:
    """Whether the settings speak of the plugin at all."""
    found: Any = settings
    for step in ("plugins", "entries"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return isinstance(found, Mapping) and ID in found


def runs(settings: Mapping[str, Any]) -> bool:
    """Whether something listens where its gateway does, on this machine."""
    gateway = settings.get("gateway")
    port = gateway.get("port") if isinstance(gateway, Mapping) else None
    with socket.socket() as tried:
        tried.settimeout(1)
        try:
            tried.connect(("127.0.0.1", port if isinstance(port, int) and 0 < port < 65536 else PORT))
        except OSError:
            return False
    return True


def transcripts(here: Surroundings, since: float) -> Found:
    """As in ``Facts``: from the database that each agent has. Its long messages are compressed and stay unread."""
    state = here.environ.get("OPENCLAW_STATE_DIR")
    folder = Path(state).expanduser() if state else settings_path(here.home, {}).parent
    calls: dict[str, Made] = {}
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
    return Found(tuple(calls.values()), unread)


def _calls_in(texts: Iterator[str]) -> Iterator[Made]:
    made: dict[str, Made] = {}
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
                if isinstance(part, dict) and part.get("type") == "toolCall" and not _wraps(part):
                    id = f"{run}:{part.get('id')}"
                    made[id] = Made(session=run, tool=str(part.get("name")), id=id, at=at, ran=None)
        elif message.get("role") == "toolResult":
            ran[f"{run}:{message.get('toolCallId')}"] = message.get("isError") is not True
        elif message.get("customType") == _NESTED and isinstance(details := message.get("details"), dict):
            id = f"{details.get('runId')}:{details.get('toolCallId')}"
            made[id] = Made(
                session=str(details.get("runId")), tool=str(details.get("toolName")), id=id, at=at, ran=True
            )
    for id, call in made.items():
        if ran.get(id, True):  # a call that was refused, or that does not fit its tool, comes back as an error
            yield Made(session=call.session, tool=call.tool, id=id, at=call.at, ran=call.ran or ran.get(id))


def _wraps(part: Mapping[str, Any]) -> bool:
    arguments = part.get("arguments")
    script = part.get("name") == "exec" and isinstance(arguments, Mapping) and "code" in arguments
    return part.get("name") in _WRAPPERS or script
