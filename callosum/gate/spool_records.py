"""Read the records of a spool, and enter them: calls that ran without the gate, and how calls ended.

A page of records is one transaction, unless a session's calls and reports alternate in it::

    record ──> generator ─┐ requests of all records   ┌─ results ──> observers
    record ──> generator ─┴──────> store.transact ────┴─ a report without an action enters its call
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import blake2b
from os import urandom
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from callosum.errors import ConfigError, StoreError
from callosum.gate.check import check_call, with_json_params, without_secrets
from callosum.gate.effects import Effects, Read
from callosum.model import (
    MAX_KEY,
    MAX_NAME,
    MAX_SUMMARY,
    SECOND,
    Action,
    Applied,
    Call,
    Classification,
    Content,
    Entry,
    Event,
    Find,
    Key,
    Outcome,
    Report,
    Scope,
    State,
    Tier,
)
from callosum.policy import spooled
from callosum.policy.answer import origin_of
from callosum.policy.call_facts import keys_of
from callosum.policy.lifecycle import Requester
from callosum.redact import SecretDigests, said, summarise
from callosum.rules import RuleSet
from callosum.rules.keys import with_old_spelling
from callosum.spool import FILE
from callosum.wire import LateCall, LateClassification, read
from callosum.worktree import located

if TYPE_CHECKING:
    from callosum.gate.operations import Operations
    from callosum.stores.base import Request, Store

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
_WITHOUT: Final = "ran while the gate could not be asked"
_REFUSED: Final = "ran although the gate refused to judge it"
_DECODER: Final = msgspec.json.Decoder(LateCall)
decode: Final = _DECODER.decode
_Page = list[tuple[LateCall, Effects[None]]]
_Since = dict[tuple[str, str], int]
"""The moment at which the gate last answered a session, by namespace and actor."""


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


def spelled(keys: tuple[Key, ...], secrets: SecretDigests) -> tuple[Key, ...]:
    """Return keys without secrets, spelled as the rules spell the keys of calls."""
    return with_old_spelling(tuple([Key(secrets.key(key.name), key.mode) for key in keys]))


# --- The action of a record -----------------------------------------------------------------------


def identity_of(call: Call, actor: str, digest: bytes) -> bytes | None:
    """Return the identity by which a call and its reports are recognised; None without a call id."""
    if not call.call_id:
        return None
    return blake2b(f"{call.namespace}\0{actor}\0{call.call_id}".encode() + digest, digest_size=16).digest()


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


# --- Entering ------------------------------------------------------------------------------------


def take_in(
    gate: Operations, records: Iterable[LateCall], now: float | None = None, since: _Since | None = None
) -> Effects[None]:
    """Enter a page of a spool's records, which ``check_record`` accepts, in one transaction.

    Entering a record again changes nothing. One that cannot be entered is logged and does not stop the others.
    ``now`` is the clock of their writer in Unix seconds, None if that is this store's machine. ``since`` remembers
    from page to page when the gate last answered a session.

    Raises:
        StoreError: The store does not accept them.
    """
    at: int = yield Read(gate.store.now)
    offset = at - round(now * SECOND) if now is not None else 0
    since = {} if since is None else since
    page: _Page = []
    kinds: dict[tuple[str, str], bool] = {}
    for record in records:
        is_call, session = record.kind == CALL, (record.call.namespace, record.call.actor)
        if kinds.setdefault(session, is_call) is not is_call:  # a session's calls and reports enter in their order
            yield from _together(page)
            page, kinds = [], {session: is_call}
        if now is None and record.found is None:  # the spool and the folders it names are on this machine
            record = replace(record, call=located(record.call))  # noqa: PLW2901
        entering = _enter_call(gate, record, offset, since)
        page.append((record, entering if is_call else _end_call(gate, record, at, offset, entering)))
    yield from _together(page)


def _enter_call(gate: Operations, record: LateCall, offset: int, since: _Since) -> Effects[None]:
    """Enter a call that ran without the gate as an action, with its outcome if that is known."""
    began = time.perf_counter()
    rules, settings = gate.rules, gate.settings
    found = classification_of(record, rules.current(), rules.fingerprint)
    found = replace(found, keys=spelled(found.keys, rules.secrets))
    call = gate.with_shown_texts(without_secrets(record.call, rules.secrets))
    session = call.namespace, call.actor
    if session not in since:
        since[session] = yield Read(partial(answered_at, gate.store, call))
    outcome = None if record.running else record.outcome
    note = f"{_REFUSED}: {said(record.why, MAX_SUMMARY)}" if record.why else _WITHOUT
    body: dict[str, Any] = {**origin_of(call), "note": note}
    params = journalled_params(call, settings.journal_params)
    if params is not None:
        body["params"] = params
    arriving = spooled.SpooledCall(
        call,
        keys_of(found, call.tool),
        found,
        body,
        outcome,
        moment_of(record.started, offset),
        moment_of(record.ended, offset),
        since[session],
        int(settings.lease_ttl * SECOND),
    )
    # The end finds its action by the identity; a call without an id gets one that no other call has.
    identity = identity_of(call, call.actor, found.content.digest) or urandom(16)
    scope = Scope(call.namespace, call.actor, arriving.keys, identity, durable=found.tier >= Tier.HIGH)
    requests: list[Request] = [(replace(scope, parent=call.parent or ""), partial(spooled.enter, arriving))]
    requester = Requester(call.actor, call.namespace)
    if outcome is not None:
        requests.append((replace(scope, keys=()), partial(spooled.conclude, requester, arriving, outcome)))
    applied: list[Applied] = yield requests
    gate.announce(Event.LATE, requester, began, applied[0], call=call, outcome=outcome)
    if outcome is not None and applied[1].ids:
        report: Report = applied[1].change.answer
        gate.announce(Event.COMPLETE, requester, began, applied[1], report=report, outcome=outcome)


def _end_call(gate: Operations, record: LateCall, at: int, offset: int, entering: Effects[None]) -> Effects[None]:
    """End the action of a report or a cancellation; enter the call of a report that has no action."""
    began = time.perf_counter()
    call = record.call
    requester = Requester(without_secrets(call, gate.rules.secrets).actor, call.namespace)
    ended = min(moment_of(record.ended, offset), at)
    scope = yield from _scope_of_record(gate, record)
    if record.kind == CANCEL:
        outcome, step = Outcome.CANCELLED, partial(spooled.withdraw, requester, ended or at)
    else:
        outcome, step = record.outcome, partial(spooled.report, requester, record.outcome, ended)
    (applied,) = yield [(scope, step)]
    report: Report = applied.change.answer
    if applied.ids:
        gate.announce(Event.COMPLETE, requester, began, applied, report=report, outcome=outcome)
    elif record.kind == REPORT and report.id is None and call.tool != UNNAMED:
        yield from entering


def _scope_of_record(gate: Operations, record: LateCall) -> Effects[Scope]:
    """Return the scope that finds the action of a report or a cancellation: by id, call id, content or key."""
    rules, call = gate.rules, record.call
    shown = without_secrets(call, rules.secrets)
    scope = Scope(call.namespace, shown.actor, durable=True)
    if record.id is not None:
        return replace(scope, find=Find(id=record.id))
    ours = record.found is not None and record.content_key == rules.fingerprint
    digest = record.found.content.digest if record.found is not None and ours else b""
    if call.call_id is not None:
        seen: Action | None = yield Read(partial(action_of_call, gate.store, shown))
        if seen is not None:
            return replace(scope, find=Find(id=seen.id))
        return replace(scope, call=identity_of(shown, shown.actor, digest)) if digest else scope
    if record.found is None and record.v >= 2 and call.tool != UNNAMED:
        digest = rules.current().classify(call).content.digest
    if digest:
        return replace(scope, find=Find(digest=digest))
    keys = spelled(record.found.keys, rules.secrets) if record.found is not None else ()
    return replace(scope, find=Find(key=keys[0].name)) if keys else scope


def _together(page: _Page) -> Effects[None]:
    """Run the operations of a page side by side: the requests that they want at the same time are one transaction.

    One that fails is logged: it must not keep the others, and all decisions, waiting.
    """
    running: list[tuple[LateCall, Effects[None], Any]] = [(record, effects, None) for record, effects in page]
    while running:
        wanted = []
        for record, effects, answer in running:
            try:
                need: Any = effects.throw(answer) if isinstance(answer, Exception) else effects.send(answer)
                while type(need) is Read:
                    need = effects.send((yield need))
                wanted.append((record, effects, need))
            except StopIteration:
                pass
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001
                logger.warning("a spooled %s of %s is not entered: %s", record.kind, record.call.actor, error)
        page_requests = [request for _, _, requests in wanted for request in requests]
        answers = iter((yield page_requests) if page_requests else ())
        running = []
        for record, effects, requests in wanted:
            applied = [next(answers) for _ in requests]
            running.append((record, effects, next((one for one in applied if isinstance(one, Exception)), applied)))
