"""Reading the records of a spool: what a gate takes, what it makes of a record, which action a record means."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from callosum.errors import ConfigError
from callosum.gate.check import check_call, written
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
"""The tool of a report or a cancellation whose caller knows no more than an id."""
_LONGEST_HASHES: Final = 512
"""Longest digest or list of word hashes in a record, in bytes."""
_NEWEST: Final = 32
"""How many of a session's newest actions are looked through for a call id."""
_DECODER: Final = msgspec.json.Decoder(LateCall)


def record_of(line: bytes) -> LateCall | None:
    """Read one line of a spool. Return None for a kind that only a later version knows.

    Raises:
        ConfigError: The line holds no record, or one that cannot be used; the place is named.
    """
    record = read(_DECODER, line)
    return record if check_record(record) else None


def records_of(lines: Iterable[bytes]) -> Iterator[LateCall]:
    """Yield the records among the lines of a spool; a line that cannot be used is named in the log and passed over."""
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
    """Check a record; return whether it is of a kind that this version knows.

    Raises:
        ConfigError: The record cannot be used. The place starts with ``at``.
    """
    if record.kind not in KINDS:
        return False
    try:
        check_call(record.call)
        written(record.call)
    except ConfigError as error:
        raise ConfigError(error.message, at=f"{at}call.{error.at}") from None
    check_seconds(record.started, f"{at}started")
    check_seconds(record.ended, f"{at}ended")
    if record.found is not None:
        _check_found(record.found, f"{at}found")
    return True


def check_seconds(moment: float | None, at: str) -> None:
    """Refuse what is no moment in Unix seconds."""
    if moment is not None and not (math.isfinite(moment) and 0 <= moment < 2**33):
        raise ConfigError(f"expected Unix seconds, got {moment!r}", at=at)


def _check_found(found: LateClassification, at: str) -> None:
    for place, key in enumerate(found.keys):
        if not 0 < len(key.name) <= MAX_KEY:
            raise ConfigError(f"expected 1 to {MAX_KEY} characters", at=f"{at}.keys[{place}]")
        _check_text(key.name, f"{at}.keys[{place}]")
    content = found.content
    for name in ("digest", "whole", "words", "numbers", "origin"):
        if len(getattr(content, name)) > _LONGEST_HASHES:
            raise ConfigError(f"expected at most {_LONGEST_HASHES} bytes", at=f"{at}.content.{name}")
    if len(content.stance) > MAX_NAME:
        raise ConfigError(f"expected at most {MAX_NAME} characters", at=f"{at}.content.stance")
    _check_text(content.stance, f"{at}.content.stance")
    for name in ("rule", "effect"):
        _check_text(getattr(found, name), f"{at}.{name}")


def _check_text(text: str, at: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError("broken Unicode is not allowed", at=at) from None
    if "\0" in text:
        raise ConfigError("control characters are not allowed", at=at)


def classification_of(record: LateCall, rules: RuleSet, fingerprint: str) -> Classification:
    """Return the classification that the record holds, else the one that the rules make of its call.

    Hashes are compared only where they were made with this gate's content key. Elsewhere, and of a mere summary, the
    digest tells the record from others and no more.
    """
    found = record.found
    if found is None:
        classification = rules.classify(record.call)
        if record.v >= 2:
            return classification
        # Nothing of a higher tier runs without the gate; what a summary leaves out must not make it look graver.
        tier = min(classification.tier, Tier.MEDIUM)
        return replace(classification, tier=tier, content=_identifying(classification.content))
    content = found.content
    if not content.digest:
        content = replace(content, digest=rules.classify(record.call).content.digest)
    if record.content_key != fingerprint:
        content = _identifying(content)
    return Classification(found.tier, found.keys, found.rule, found.effect, content, gap=found.gap)


def _identifying(content: Content) -> Content:
    return Content(digest=content.digest, stance=content.stance)


def moment_of(seconds: float | None, offset: int) -> int:
    """Return a moment of the caller's in microseconds of this machine's clock; 0 where none was said."""
    return max(1, round(seconds * SECOND) + offset) if seconds is not None else 0


def shown(call: Call, mode: Any) -> Any:
    """Return what the journal shows of the params. A summary that was made where the call ran is redacted once more."""
    return summarise(call.params, mode=mode) if call.params else None


# --- which action a record means -----------------------------------------------------------------------


def action_of_call(store: Store, call: Call) -> Action | None:
    """Return the newest action that this session opened under the call's id, as far as a bounded look shows it."""
    if call.call_id is None:
        return None
    return next((action for action, id in _calls(store, call) if id == call.call_id), None)


def answered_at(store: Store, call: Call) -> int:
    """Return the moment of the gate's last answer to the call's session, 0 where a bounded look shows none."""
    for action in store.touched(call.namespace, (call.actor,), _NEWEST):
        entry = _entry(store, call, action)
        if entry is not None and entry.event is not Event.LATE:  # what was taken in late was not answered
            return action.id
    return 0


def _calls(store: Store, call: Call) -> Iterator[tuple[Action, object]]:
    """Yield the session's unknown and newest actions, newest first, each with its call id."""
    unknown = store.live(call.namespace, (State.OPEN, State.UNKNOWN))
    newest = store.touched(call.namespace, (call.actor,), _NEWEST)
    actions = {action.id: action for action in (*unknown, *newest) if action.session == call.actor}
    for id in sorted(actions, reverse=True):
        entry = _entry(store, call, actions[id])
        yield actions[id], entry.body.get("callId") if entry is not None else None


def _entry(store: Store, call: Call, action: Action) -> Entry | None:
    """Return the journal entry that opened an action."""
    found = store.entries(namespace=call.namespace, after=action.id - 1, limit=1)
    return found[0] if found and found[0].seq == action.id else None
