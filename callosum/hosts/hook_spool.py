"""Spool what a hook cannot report while the gate is unreachable: calls that run, outcomes, and calls given up.

The hook process classifies the call itself, because the call's folder is on its machine. Classification needs packages
that a hook process starts without. A call that only reads is spooled unclassified: the gate derives its keys from the
summary, which keeps file names.
"""

from __future__ import annotations

import json
import os
import re
import sys
from time import time

from callosum.spool import Spool, written
from callosum.unclean import call_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final

_LONGEST: Final = 2000
"""Maximum length in characters of a param's text in a summary that is made without packages."""
_NAMING: Final = ("path", "file", "pattern", "glob")
"""Suffixes of the names of params whose text goes into such a summary."""
_SECRETIVE: Final = re.compile(r"(?=[A-Za-z_+/=-]{0,200}\d)[A-Za-z0-9_+=-]{20,}")
"""Matches a run of characters that may be a secret and needs a closer look."""
_LOOKED: Final = 4096
"""Maximum length in characters of a text that is searched for such a run. ``re`` takes seconds on a long text."""


def note_call(
    state: str, folder: str, target: str, host: str, payload: Mapping[str, Any], tier: int, refused: str
) -> None:
    """Spool a call that runs without the gate. If the spool cannot be written, the call still runs.

    ``state`` is the state folder with the rules and ``folder`` is the folder of the spool. ``target`` is the path and
    query that the gate was asked for. ``tier`` is the call's tier by the tier table.
    ``refused`` is why the gate refused to judge it, if it did.
    """
    when = {"running": True, "outcome": "done", "started": round(time(), 6), **({"why": refused} if refused else {})}
    tool, params = call_in(payload)
    loaded = "re2" in sys.modules  # the rules classified a shell line
    if tier == 0 and not loaded and not _secretive(json.dumps(params)):
        _add(folder, {"kind": "call", "v": 1, "call": _words(target, host, payload, tool, params), **when})
        return
    try:
        for record in _read(state, folder, target, host, payload):
            _add(folder, {**record, **when})
    except Exception:  # noqa: BLE001 - after any failure, spool what is known without packages
        _add(folder, {"kind": "call", "v": 1, "call": _words(target, host, payload, tool, params), **when})


def note_outcome(state: str, folder: str, target: str, host: str, payload: Mapping[str, Any]) -> None:
    """Spool the outcomes of calls that an event reports, if it reports any."""
    try:
        for record in _read(state, folder, target, host, payload):
            if record["kind"] == "report":
                _add(folder, {**record, "ended": round(time(), 6)})
    except Exception as error:  # noqa: BLE001 - the tool has run; an outcome without a report becomes unknown
        print(f"Callosum: this event could not be kept for the gate: {error}", file=sys.stderr)  # noqa: T201


def note_given_up(folder: str, target: str, host: str, payload: Mapping[str, Any], tool: str) -> None:
    """Spool that a call was given up before the gate answered, and does not run."""
    if payload.get("tool_use_id"):
        call = _words(target, host, payload, tool, {})
        _add(folder, {"kind": "cancel", "v": 2, "call": call, "outcome": "cancelled", "ended": round(time(), 6)})


def _add(folder: str, record: Mapping[str, Any]) -> None:
    Spool(folder).add(written(record))


# --- With packages ------------------------------------------------------------------------------------


def _read(state: str, folder: str, target: str, host: str, payload: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spool records of an event, as the host's adapter reads it."""
    import site  # noqa: PLC0415

    site.main()
    from callosum.client.classify import Classifier  # noqa: PLC0415
    from callosum.client.messages import plain  # noqa: PLC0415
    from callosum.gate.check import outcome_of  # noqa: PLC0415
    from callosum.hosts.adapters import adapter_of  # noqa: PLC0415
    from callosum.hosts.events import CallReturned, CallsClosed, CallStarting, HostIdentity  # noqa: PLC0415
    from callosum.model import Call  # noqa: PLC0415
    from callosum.redact import summarise  # noqa: PLC0415

    parameters = _said(target)
    identity = HostIdentity(parameters.get("instance", host), parameters.get("namespace", "default"))
    classify = Classifier(state, folder)

    def record(kind: str, call: Call) -> dict[str, Any]:
        words = {name: value for name, value in plain(call).items() if value is not None}
        return {"kind": kind, "v": 2, "call": {**words, "params": summarise(call.params)}, **classify.of(call)}

    for event in adapter_of(host).read(payload, identity):
        match event:
            case CallStarting():
                call = event.call
                if call.call_id is None:
                    from msgspec.structs import replace  # noqa: PLC0415

                    call = replace(call, call_id=os.urandom(16).hex())
                yield record("call", call)
            case CallReturned() if not event.background:
                actor = event.actor
                call = Call(
                    actor.instance,
                    event.tool,
                    event.params,
                    session=actor.session,
                    namespace=actor.namespace,
                    call_id=event.call_id,
                    cwd=actor.cwd,
                    run=actor.run,
                )
                yield {**record("report", call), "outcome": outcome_of(event.result, event.outcome).value}
            case CallsClosed():
                actor = event.actor
                session_words = {"instance": actor.instance, "session": actor.session, "namespace": actor.namespace}
                for id in event.calls:
                    call_words = {**session_words, "tool": "?", "callId": id}
                    yield {"kind": "report", "v": 2, "call": call_words, "outcome": event.outcome.value}


# --- Without packages ---------------------------------------------------------------------------------


def _words(target: str, host: str, payload: Mapping[str, Any], tool: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the call on the wire that need no packages to compute."""
    parameters = _said(target)
    cwd, agent = payload.get("cwd"), payload.get("agent_id")
    session = f"{payload.get('session_id', '')}{f':{agent}' if isinstance(agent, str) and agent else ''}"
    call: dict[str, Any] = {
        "instance": parameters.get("instance", host),
        "namespace": parameters.get("namespace", "default"),
        "session": session[:256] or None,
        "tool": tool,
        "callId": str(payload.get("tool_use_id") or os.urandom(16).hex())[:256],
        "cwd": cwd if isinstance(cwd, str) else None,
        "params": _summarised(params),
    }
    return {name: value for name, value in call.items() if value is not None}


def _said(target: str) -> dict[str, str]:
    """Return the decoded query parameters."""
    parameters = dict(part.split("=", 1) for part in target.partition("?")[2].split("&") if "=" in part)
    return {name: _plain(value) for name, value in parameters.items()}


def _plain(said: str) -> str:
    begin, *parts = said.replace("+", " ").split("%")
    written = begin.encode() + b"".join(bytes.fromhex(part[:2]) + part[2:].encode() for part in parts)
    return written.decode("utf-8", "replace")


def _secretive(text: str) -> bool:
    """Return True if the text may contain a secret, or is too long to be searched."""
    return len(text) > _LOOKED or _SECRETIVE.search(text) is not None


def _summarised(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the params in the form in which they may be stored: of texts, only file names and search patterns."""
    return {
        name: value
        if not isinstance(value, str) or (name.endswith(_NAMING) and not _secretive(value))
        else f"({len(value)} characters)"
        for name, value in params.items()
        if isinstance(value, int | float | bool) or (isinstance(value, str) and len(value) <= _LONGEST)
    }
