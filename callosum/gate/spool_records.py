"""Read the records of a spool: check them, classify their calls, and find the actions that they are about."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from callosum.errors import ConfigError
from callosum.gate.check import check_call, with_json_params
from callosum.model import MAX_KEY, MAX_NAME, SECOND, Action, Call, Classification, Content, Entry, Event, State, Tier
from callosum.redact import summarise
from callosum.rules import RuleSet
from callosum.spool import FILE
from callosum.wire import LateCall, LateClassification, read

if TYPE_CHECKING:
    from callosum.stores.base import Store

logger = logging.getLogger("callosum")

CALL: Final = "call"
REPORT: Final = "report"
CANCEL: Final = "cancel"
KINDS: Final = (CALL, REPORT, CANCEL)
UNNAMED: Final = "?"
"""The tool in a report or a cancellation whose caller knows only an id."""
_LONGEST_HASHES: Final = 512
"""Maximum length of a digest or a list of word hashes in a record, in bytes."""
_NEWEST: Final = 32
"""Number of a session's newest actions that are searched for a call id."""
_DECODER: Final = msgspec.json.Decoder(LateCall)


def record_of(line: bytes) -> LateCall | None:
    """Parse one line of a spool. Return None for a kind that only a later version knows.

    Raises:
        ConfigError: The line holds no record that can be used; the error names the field.
    """
    record = read(_DECODER, line)
    return record if check_record(record) else None


def records_of(lines: Iterable[bytes]) -> Iterator[LateCall]:
    """Yield the records among the lines of a spool. A line that cannot be used is logged and skipped."""
    for line in lines:
        try:
            record = record_of(line)
        except ConfigError as error:
            logger.warning("%s: a record cannot be used: %s", FILE, error)
        else:
            if record is not None:
                yield record
            else:
                logger.warning("%s: a record is of a kind that only a later version knows: %.100r", FILE, line)


def check_record(record: LateCall, at: str = "") -> bool:
    """Check a record of any kind. Return True if this version knows its kind.

    Raises:
        ConfigError: The record cannot be used. The error's field starts with ``at``.
    """
    try:
        check_call(record.call)
        with_json_params(record.call)
    except ConfigError as error:
        raise ConfigError(error.message, at=f"{at}call.{error.at}") from None
    check_seconds(record.started, f"{at}started")
    check_seconds(record.ended, f"{at}ended")
    if record.found is not None:
        _check_found(record.found, f"{at}found")
    return record.kind in KINDS


def check_seconds(moment: float | None, at: str) -> None:
    """Check that a value is a moment in Unix seconds, or None.

    Raises:
        ConfigError: It is not.
    """
    if moment is not None and not (math.isfinite(moment) and 0 <= moment < 2**33):
        raise ConfigError(f"expected Unix seconds, got {moment!r}", at=at)


def _check_found(recorded: LateClassification, at: str) -> None:
    for number, key in enumerate(recorded.keys):
        if not 0 < len(key.name) <= MAX_KEY:
            raise ConfigError(f"expected 1 to {MAX_KEY} characters", at=f"{at}.keys[{number}]")
        _check_text(key.name, f"{at}.keys[{number}]")
    content = recorded.content
    for name in ("digest", "whole", "words", "numbers", "origin"):
        if len(getattr(content, name)) > _LONGEST_HASHES:
            raise ConfigError(f"expected at most {_LONGEST_HASHES} bytes", at=f"{at}.content.{name}")
    if len(content.stance) > MAX_NAME:
        raise ConfigError(f"expected at most {MAX_NAME} characters", at=f"{at}.content.stance")
    _check_text(content.stance, f"{at}.content.stance")
    for name in ("rule", "effect"):
        _check_text(getattr(recorded, name), f"{at}.{name}")


def _check_text(text: str, at: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError("broken Unicode is not allowed", at=at) from None
    if "\0" in text:
        raise ConfigError("control characters are not allowed", at=at)


def classification_of(record: LateCall, rules: RuleSet, fingerprint: str) -> Classification:
    """Return the classification that the record holds, otherwise the one that the rules make of its call.

    Hashes can be compared only if they were made with this gate's content key. Of a record with another content key, or
    with only a summary of its params, the digest serves to tell records apart and for nothing else.
    """
    recorded = record.found
    if recorded is None:
        classification = rules.classify(record.call)
        if record.v >= 2:
            return classification
        # No call of a higher tier runs without the gate, and gaps in a summary must not raise the tier.
        tier = min(classification.tier, Tier.MEDIUM)
        return replace(classification, tier=tier, content=_identifying(classification.content))
    content = recorded.content
    if not content.digest:
        content = replace(content, digest=rules.classify(record.call).content.digest)
    if record.content_key != fingerprint:
        content = _identifying(content)
    return Classification(recorded.tier, recorded.keys, recorded.rule, recorded.effect, content, gap=recorded.gap)


def _identifying(content: Content) -> Content:
    return Content(digest=content.digest, stance=content.stance)


def moment_of(seconds: float | None, offset: int) -> int:
    """Return a caller's time as a moment of this machine's clock, in microseconds; 0 if the caller gave none."""
    return max(1, round(seconds * SECOND) + offset) if seconds is not None else 0


def journalled_params(call: Call, mode: Any) -> Any:
    """Return what the journal shows of the params. A summary that was made where the call ran is redacted again."""
    return summarise(call.params, mode=mode) if call.params else None


# --- The action of a record -----------------------------------------------------------------------


def action_of_call(store: Store, call: Call) -> Action | None:
    """Return the newest action that this session opened under the call's id, None if a bounded search finds none."""
    if call.call_id is None:
        return None
    return next((action for action, id in _calls(store, call) if id == call.call_id), None)


def recurs(store: Store, call: Call, digest: bytes) -> bool:
    """Return True if the session has opened another call too under this call's id, as a bounded search finds it.

    A host's hook and the MCP wrap may name the server of one call differently: ``mcp__SERVER__TOOL``.
    """
    tool = call.tool.rpartition("__")[2]
    return any(
        id == call.call_id
        and action.state is not State.ASKED
        and (opened := store.action(call.namespace, action.id)) is not None
        and opened.content.digest != digest
        and (action.tool == call.tool or not call.tool.startswith("mcp__") or action.tool.rpartition("__")[2] != tool)
        for action, id in _calls(store, call)
    )


def answered_at(store: Store, call: Call) -> int:
    """Return the moment of the gate's last answer to the call's session, 0 if a bounded search finds none."""
    for action in store.touched(call.namespace, (call.actor,), _NEWEST):
        entry = _entry(store, call, action)
        if entry is not None and entry.event is not Event.LATE:  # the gate never answered a spooled call
            return action.id
    return 0


def _calls(store: Store, call: Call) -> Iterator[tuple[Action, object]]:
    """Yield the session's unknown and newest actions with their call ids, newest first."""
    unknown = store.live(call.namespace, (State.OPEN, State.UNKNOWN))
    newest = store.touched(call.namespace, (call.actor,), _NEWEST)
    actions = {action.id: action for action in (*unknown, *newest) if action.session == call.actor}
    for id in sorted(actions, reverse=True):
        entry = _entry(store, call, actions[id])
        yield actions[id], entry.body.get("callId") if entry is not None else None


def _entry(store: Store, call: Call, action: Action) -> Entry | None:
    """Return the journal entry that opened an action."""
    entries = store.entries(namespace=call.namespace, after=action.id - 1, limit=1)
    return entries[0] if entries and entries[0].seq == action.id else None
