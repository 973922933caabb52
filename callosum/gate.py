"""The gate: what stands between a tool call and its execution.

``Gate`` is the face that every gate has; ``LocalGate`` is the embedded one, over a store in the
state folder. One call, all the way::

    Call ──classify──> Classification ──scope_of──> Scope ─┐
                                                           ├─ Store.transact(scope, admit) ─> Decision
                                     Ask (all but the view)┘

``intercept``, ``complete``, ``lock``, ``release``, ``renew``, ``resolve`` and ``approve`` are the
same verb with different steps (``callosum.policy``). Each answers with a value and raises only when
the gate itself failed (``StoreUnavailable``) or the input cannot be used (``ConfigError``).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self

import msgspec
from msgspec.structs import replace

from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.journal import Rotation
from callosum.model import (
    DEFAULT_NAMESPACE,
    MAX_KEY,
    MAX_NAME,
    SECOND,
    Action,
    Applied,
    Call,
    Change,
    Classification,
    Decision,
    Entry,
    Event,
    Find,
    Holding,
    Host,
    Key,
    Lease,
    LockResult,
    Observation,
    Outcome,
    RecentAction,
    Report,
    Scope,
    State,
    Status,
    Tier,
    View,
)
from callosum.policy import settle
from callosum.policy.admit import APPROVAL_TTL, admit
from callosum.policy.ask import Ask, Ruling, keys_of, scope_of
from callosum.policy.evidence import LONGEST_LOOK
from callosum.policy.settle import Who, visible
from callosum.redact import summarise
from callosum.rulebook import Rulebook, content_secret
from callosum.settings import Settings, load
from callosum.stores.base import Store
from callosum.stores.sqlite import SqliteStore

logger = logging.getLogger("callosum")

DATABASE: Final = "gate.db"
MAX_WAIT: Final = 60.0
"""Longest ``wait`` of a call, in seconds."""
MAX_PARAMS: Final = 4_000_000
"""Longest params of a call, in bytes as JSON."""
MAX_TTL: Final = 24 * 3600.0
"""Longest lease, in seconds."""
UPKEEP_EVERY: Final = 1000
"""One decision in so many also forgets what nobody can ask for, and rotates the journal.

Which ones is told by their ids, so that processes which decide once and end do their share.
"""
_POLL_FIRST: Final = 0.01
_POLL_LAST: Final = 0.25
_BACKLOG: Final = 1000

Observer = Callable[[Observation], None]


class Gate(Protocol):
    """What every gate does, embedded or over a wire.

    ``instance`` and ``session`` name the actor (``Call.actor``); ``namespace`` is who shares a
    memory. Ids are those of ``Decision.id``. All methods raise ``StoreUnavailable`` (or
    ``GateUnavailable``) if the gate cannot answer, ``ConfigError`` on input that cannot be used.
    """

    def intercept(self, call: Call) -> Decision:
        """Decides a call before it runs. A "no" is a value: look at ``Decision.proceed``.

        Idempotent by call id for a day where the call was let through; a "no" is judged afresh.
        Waits up to ``call.wait`` seconds while another session holds a key.
        """
        ...

    def complete(
        self,
        instance: str,
        *,
        id: int | None = None,
        context_key: str | None = None,
        tool: str | None = None,
        params: Mapping[str, Any] | None = None,
        action: str | None = None,
        result: Any = None,
        outcome: Outcome | str | None = None,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Report:
        """Reports how an action ended, found by id, else by tool and params, else by key.

        Without id and tool, ``context_key`` None means the newest action without a key. A result
        with an ``error`` is ``failed``; otherwise ``outcome`` says, default ``done``.
        """
        ...

    def lock(
        self,
        instance: str,
        context_key: str,
        tier: int = 3,
        ttl: float | None = None,
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        host: Host | None = None,
    ) -> LockResult:
        """Takes a lease of ``ttl`` seconds on a key without a tool call; a tier below 3 counts as 3."""
        ...

    def release(
        self,
        instance: str,
        context_key: str,
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        by: str = "",
        force: bool = False,
    ) -> Report:
        """Frees this actor's leases on the key; with ``force`` (a person, named by ``by``) all."""
        ...

    def renew(
        self,
        instance: str,
        id: int,
        ttl: float | None = None,
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Report:
        """Moves the end of a lease to ``ttl`` seconds from now."""
        ...

    def resolve(
        self, id: int, *, happened: bool, by: str = "", note: str = "", namespace: str = DEFAULT_NAMESPACE
    ) -> Report:
        """Ends an ``unknown`` action: somebody looked, and it happened or it did not."""
        ...

    def approve(self, id: int, *, by: str = "", channel: str = "", namespace: str = DEFAULT_NAMESPACE) -> Report:
        """Lets a call that was asked or blocked run once, within an hour, as it was shown."""
        ...

    def deny(self, id: int, *, by: str = "", channel: str = "", namespace: str = DEFAULT_NAMESPACE) -> Report:
        """Refuses a call that was asked."""
        ...

    def status(self, context_key: str | None = None, *, namespace: str = DEFAULT_NAMESPACE) -> Status:
        """Shows live leases and recent actions, of one key or of all."""
        ...


class LocalGate:
    """The gate embedded in this process, over a store that other processes may share.

    ``state`` is the state folder (default: settings). ``settings`` replaces the configuration that
    would be looked up, ``store`` the SQLite file in the state folder. ``observer`` is handed each
    decision and each outcome after it is in the store; what it raises is logged and harms nobody.
    ``sleep`` is for tests. Close it, or use it as a context manager; usable from any thread.
    """

    def __init__(
        self,
        state: str | Path | None = None,
        *,
        settings: Settings | None = None,
        store: Store | None = None,
        rules: Rulebook | None = None,
        observer: Observer | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if settings is None:
            settings = load({"state": str(state)} if state is not None else None)
        self.settings = settings
        self.observer = observer
        self._sleep = sleep
        self._ttl = int(settings.lease_ttl * SECOND)
        self._observes = settings.mode == "observe"
        folder = Path(settings.state)
        self.store: Store = store if store is not None else SqliteStore(folder / DATABASE)
        if rules is None:
            secret = content_secret(folder) if store is None else b""
            rules = Rulebook(settings.rules or folder / "tiers.json", secret=secret, protected=(str(folder),))
        self.rules = rules
        self._rotation = Rotation(self.store, folder, age=settings.journal_age, size=settings.journal_size)
        self._backlog: deque[tuple[Call, str]] = deque(maxlen=_BACKLOG)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the store's connections. Idempotent."""
        self.store.close()

    # --- the decision ----------------------------------------------------------------------------

    def intercept(self, call: Call) -> Decision:
        began = time.perf_counter()
        ask, identity = self._ask(call)
        ruling, applied = self._decide(ask, identity)
        if ruling.queued:
            ruling, applied = self._wait(ask, identity, applied)
        decision = _filled(ruling.decision, applied)
        if self._backlog:
            self._flush_backlog()
        if self.observer is not None:
            self._observe(
                Event.INTERCEPT,
                ask.actor,
                call.namespace,
                began,
                call=call,
                classification=ask.found,
                decision=decision,
            )
        if decision.id % UPKEEP_EVERY == 0:
            self._upkeep()
        return decision

    def explain(self, call: Call) -> tuple[Classification, Decision]:
        """Says what a call would get now, and why. Nothing is recorded and nothing waits."""
        ask, identity = self._ask(replace(call, wait=0))
        shown: list[Decision] = []

        def look(view: View) -> Change:
            shown[:] = [admit(ask, view).answer.decision]
            return Change()

        self._transact(scope_of(ask, identity), look)
        return ask.found, shown[0]

    def _ask(self, call: Call) -> tuple[Ask, bytes | None]:
        _check_call(call)
        params = _written(call.params)
        found = self.rules.current().classify(call)
        actor = call.actor
        identity = None
        call_print = b""
        if call.call_id:
            call_print = call.call_id.encode()
            who = f"{call.namespace}\0{actor}\0".encode()
            identity = blake2b(who + call_print + found.content.digest, digest_size=16).digest()
        return (
            Ask(
                call,
                actor,
                found,
                keys_of(found),
                call_print,
                summarise(call.params, mode=self.settings.journal_params) if call.params else None,
                self._ttl,
                params if call.rewrite else None,
                call.wait > 0,
                0,
                self._observes,
            ),
            identity,
        )

    def _decide(self, ask: Ask, identity: bytes | None) -> tuple[Ruling, Applied]:
        applied = self._transact(scope_of(ask, identity), partial(admit, ask))
        return applied.change.answer, applied

    def _wait(self, ask: Ask, identity: bytes | None, applied: Applied) -> tuple[Ruling, Applied]:
        """Polls from a place in the queue until its turn comes or the time is up."""
        ends = applied.now + int(min(ask.call.wait, MAX_WAIT) * SECOND)
        pause = _POLL_FIRST
        waiter = applied.ids[-1]
        while True:
            left = (ends - applied.now) / SECOND
            self._sleep(min(pause, max(left, 0)))
            pause = min(pause * 1.5, _POLL_LAST)
            ask = replace(ask, waiter=waiter, waits=left > 0)
            ruling, applied = self._decide(ask, identity)
            if not ruling.queued:
                return ruling, applied
            if applied.change.open is not None:
                waiter = applied.ids[-1]  # its place was given up while this process slept too long

    # --- the outcome -----------------------------------------------------------------------------

    def complete(
        self,
        instance: str,
        *,
        id: int | None = None,
        context_key: str | None = None,
        tool: str | None = None,
        params: Mapping[str, Any] | None = None,
        action: str | None = None,
        result: Any = None,
        outcome: Outcome | str | None = None,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Report:
        began = time.perf_counter()
        who = _who(instance, session, namespace)
        ended = outcome_of(result, outcome)
        if id is not None:
            find = Find(id=_id(id))
        elif tool is not None:
            call = Call(instance, tool, params or {}, action=action, session=session, namespace=namespace)
            _check_call(call)
            find = Find(digest=self.rules.current().classify(call).content.digest)
        else:
            find = Find(key=_key(context_key).name if context_key else "")
        kept = _kept(result, self.settings.journal_params)
        report = self._settle(who, find, partial(settle.finish, who, ended, kept))
        if self.observer is not None:
            self._observe(Event.COMPLETE, who.session, namespace, began, report=report, outcome=ended, result=kept)
        return report

    def _settle(self, who: Who, find: Find, step: Callable[[View], Change], *, durable: bool = False) -> Report:
        scope = Scope(who.namespace, who.session, find=find, durable=durable)
        answer: Report = self._transact(scope, step).change.answer
        return answer

    # --- leases ----------------------------------------------------------------------------------

    def lock(
        self,
        instance: str,
        context_key: str,
        tier: int = 3,
        ttl: float | None = None,
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        host: Host | None = None,
    ) -> LockResult:
        who = _who(instance, session, namespace)
        key = _key(context_key)
        if type(tier) is not int or not 0 <= tier <= Tier.CRITICAL:
            raise ConfigError(f"expected an integer from 0 to 4, got {tier!r}", at="tier")
        scope = Scope(namespace, who.session, (key,), floor=2, live=True, durable=True)
        step = partial(settle.lock, who, key, tier, self._duration(ttl), host)
        applied = self._transact(scope, step)
        result: LockResult = applied.change.answer
        if result.lease is not None and not result.lease.token:
            id = applied.ids[-1]
            result = replace(result, id=id, lease=replace(result.lease, token=id))
        return result

    def release(
        self,
        instance: str,
        context_key: str,
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        by: str = "",
        force: bool = False,
    ) -> Report:
        who = _who(instance, session, namespace, by=by, force=force)
        key = _key(context_key)
        scope = Scope(namespace, who.session, (key,), live=True)
        answer: Report = self._transact(scope, partial(settle.release, who, key.name)).change.answer
        return answer

    def renew(
        self,
        instance: str,
        id: int,
        ttl: float | None = None,
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Report:
        who = _who(instance, session, namespace)
        action = self.store.action(namespace, _id(id))  # its keys never change, so looking first is safe
        keys = action.keys if action is not None else ()
        scope = Scope(namespace, who.session, keys, floor=2, live=True, find=Find(id=id), durable=True)
        answer: Report = self._transact(scope, partial(settle.renew, who, self._duration(ttl))).change.answer
        return answer

    # --- people ----------------------------------------------------------------------------------

    def resolve(
        self, id: int, *, happened: bool, by: str = "", note: str = "", namespace: str = DEFAULT_NAMESPACE
    ) -> Report:
        who = Who("", namespace, by=_check_note(by, "by"), force=True)
        _check_note(note, "note")
        return self._settle(who, Find(id=_id(id)), partial(settle.resolve, who, happened, note), durable=True)

    def approve(self, id: int, *, by: str = "", channel: str = "", namespace: str = DEFAULT_NAMESPACE) -> Report:
        return self._answer(id, by, channel, namespace, agrees=True)

    def deny(self, id: int, *, by: str = "", channel: str = "", namespace: str = DEFAULT_NAMESPACE) -> Report:
        return self._answer(id, by, channel, namespace, agrees=False)

    def _answer(self, id: int, by: str, channel: str, namespace: str, *, agrees: bool) -> Report:
        began = time.perf_counter()
        _check_note(by, "by")
        who = Who("", namespace, by=" ".join(part for part in (by, f"({channel})" if channel else "") if part))
        step = partial(settle.answer, who, agrees, APPROVAL_TTL)
        report = self._settle(who, Find(id=_id(id)), step, durable=True)
        if report.ok:
            event = Event.APPROVE if agrees else Event.DENY
            self._observe(event, channel, namespace, began, report=report)
        return report

    def observe(self, seconds: float, *, by: str = "", namespace: str = DEFAULT_NAMESPACE) -> float:
        """Lets everything pass for ``seconds`` (0 ends it), in all processes; returns until when.

        Everything is still decided and journalled, with what would have been stopped.
        """
        if not 0 <= seconds <= 30 * 86_400:
            raise ConfigError("expected 0 to 30 days, in seconds", at="seconds")
        _check_note(by, "by")

        def step(view: View) -> Change:
            until = view.now + int(seconds * SECOND) if seconds else 0
            body = {"until": until / SECOND, "by": by} if by else {"until": until / SECOND}
            entry = Entry(Event.OBSERVE, by or "person", namespace, body=body)
            return Change((entry,), observe_until=until, answer=until)

        until: int = self._transact(Scope(namespace, by or "person", durable=True), step).change.answer
        return until / SECOND

    # --- looking ---------------------------------------------------------------------------------

    def status(self, context_key: str | None = None, *, namespace: str = DEFAULT_NAMESPACE) -> Status:
        key = _key(context_key).name if context_key else None
        states = (State.OPEN, State.QUEUED, State.ASKED, State.UNKNOWN)
        actions = self.store.live(namespace, states, key)
        live = [_holding(action) for action in actions if action.approved >= 0]  # a refused question is answered
        now = self.store.now() / SECOND
        until = self.store.observing() / SECOND
        return Status(
            locks=tuple(h for h in live if h.state is State.OPEN and h.expires > now),
            recent_actions=tuple(_recent(action) for action in self.store.recent(namespace, key)),
            unknown=tuple(
                replace(h, state=State.UNKNOWN)
                for h in live
                if h.state is State.UNKNOWN or (h.state is State.OPEN and h.expires <= now)
            ),
            waiting=tuple(h for h in live if h.state is State.QUEUED and h.expires > now),
            asked=tuple(h for h in live if h.state is State.ASKED and h.expires > now and not h.approved),
            observing_until=until if until > now else None,
        )

    def entries(
        self,
        *,
        after: int = 0,
        limit: int = 500,
        namespace: str | None = None,
        session: str | None = None,
        newest: bool = False,
    ) -> list[Entry]:
        """Returns a page of the journal, as ``Store.entries`` does (without rotated segments)."""
        return self.store.entries(after=after, limit=limit, namespace=namespace, session=session, newest=newest)

    # --- when the store is away -------------------------------------------------------------------

    def remember_late(self, call: Call, outcome: str) -> None:
        """Keeps a call that ran while the store was away, to journal it once it is back."""
        self._backlog.append((call, outcome))

    def _flush_backlog(self) -> None:
        while self._backlog:
            call, outcome = self._backlog[0]
            body = {
                "params": summarise(call.params, mode=self.settings.journal_params),
                "note": "ran while the store was away",
            }
            entry = Entry(Event.LATE, call.actor, call.namespace, tool=call.tool, outcome=Outcome(outcome), body=body)
            late = Change((entry,))
            try:
                self._transact(Scope(call.namespace, call.actor), partial(_just, late))
            except StoreUnavailable:
                return
            self._backlog.popleft()

    # --- inside ----------------------------------------------------------------------------------

    def _transact(self, scope: Scope, step: Callable[[View], Change]) -> Applied:
        (applied,) = self.store.transact(((scope, step),))
        if isinstance(applied, Exception):
            raise applied
        return applied

    def _duration(self, ttl: float | None) -> int:
        if ttl is None:
            return self._ttl
        if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl <= MAX_TTL:
            raise ConfigError(f"expected seconds, more than 0 and at most {MAX_TTL:.0f}, got {ttl!r}", at="ttl")
        return int(ttl * SECOND)

    def _upkeep(self) -> None:
        """Forgets a little. A failure here is no failure of the call."""
        horizon = time.time_ns() // 1000 - max(LONGEST_LOOK, self.rules.current().longest_window)
        try:
            self.store.maintain(horizon)
            self._rotation.run(horizon)
        except StoreError as error:
            logger.warning("upkeep put off: %s", error)

    def _observe(self, event: Event, session: str, namespace: str, began: float, **facts: Any) -> None:
        if self.observer is None:
            return
        try:
            self.observer(Observation(event, session, namespace, time.perf_counter() - began, **facts))
        except Exception:
            logger.exception("the observer failed on %s", event)


def _just(change: Change, _view: View) -> Change:
    """A step that wants the same whatever it sees."""
    return change


# --- input ------------------------------------------------------------------------------------------

_encode = msgspec.json.Encoder(enc_hook=lambda value: f"<{type(value).__name__}>").encode


def _written(params: Mapping[str, Any]) -> bytes:
    """The params as JSON; refuses what cannot be written so, or is too long."""
    try:
        written = _encode(params)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"cannot be written as JSON: {error}", at="params") from error
    if len(written) > MAX_PARAMS:
        raise ConfigError(f"{len(written)} bytes as JSON, at most {MAX_PARAMS} are taken", at="params")
    return written


def _check_call(call: Call) -> None:
    """Refuses a call that cannot be used, naming the field."""
    _check_name(call.instance, "instance")
    _check_name(call.tool, "tool")
    if call.call_id is not None:
        _check_name(call.call_id, "callId")
    if call.session is not None:
        _check_name(call.session, "session")
    if call.run is not None:
        _check_name(call.run, "run")
    if call.parent is not None:
        _check_name(call.parent, "parent")
    if call.continues is not None:
        _check_name(call.continues, "continues")
    if call.origin is not None:
        _check_name(call.origin, "origin")
    if call.namespace != DEFAULT_NAMESPACE:
        _check_name(call.namespace, "namespace")
    if not isinstance(call.params, Mapping):
        raise ConfigError(f"expected an object, got {type(call.params).__name__}", at="params")
    wait, timeout = call.wait, call.timeout
    if wait != 0 and not (isinstance(wait, int | float) and 0 <= wait <= MAX_WAIT):
        raise ConfigError(f"expected 0 to {MAX_WAIT:.0f} seconds, got {wait!r}", at="wait")
    if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout <= MAX_TTL):
        raise ConfigError(f"expected seconds, more than 0 and at most {MAX_TTL:.0f}", at="timeout")
    if call.cwd is not None and type(call.cwd) is not str:
        raise ConfigError(f"expected text, got {type(call.cwd).__name__}", at="cwd")
    if call.after is not None and type(call.after) is not int:
        raise ConfigError(f"expected the id of a decision, got {call.after!r}", at="after")


def _check_name(value: object, at: str) -> None:
    if type(value) is not str:
        raise ConfigError(f"expected text, got {type(value).__name__}", at=at)
    if not 0 < len(value) <= MAX_NAME:
        raise ConfigError(f"expected 1 to {MAX_NAME} characters, got {len(value)}", at=at)
    if not value.isprintable():
        raise ConfigError("control characters and broken Unicode are not allowed", at=at)


def _who(instance: str, session: str | None, namespace: str, *, by: str = "", force: bool = False) -> Who:
    if not force or instance:
        _check_name(instance, "instance")
    if session is not None:
        _check_name(session, "session")
    _check_name(namespace, "namespace")
    return Who(f"{instance}/{session}" if session else instance, namespace, _check_note(by, "by"), force)


def _check_note(value: str, at: str) -> str:
    """A person's words for the journal: any text that can be stored."""
    if type(value) is not str or len(value) > 4096:
        raise ConfigError("expected a text of at most 4096 characters", at=at)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError("broken Unicode is not allowed", at=at) from None
    return value


def _key(name: str) -> Key:
    if type(name) is not str:
        raise ConfigError(f"expected text, got {type(name).__name__}", at="contextKey")
    if not 0 < len(name) <= MAX_KEY:
        raise ConfigError(f"expected 1 to {MAX_KEY} characters, got {len(name)}", at="contextKey")
    if not name.isprintable():
        raise ConfigError("control characters and broken Unicode are not allowed", at="contextKey")
    return Key(name)


def _id(value: int) -> int:
    if type(value) is not int or not 0 < value < 2**63:
        raise ConfigError(f"expected the id of a decision, got {value!r}", at="id")
    return value


_LOST_WORDS: Final = (
    "timeout",
    "timed out",
    "connection reset",
    "connection lost",
    "connection closed",
    "econnreset",
)


def outcome_of(result: Any, outcome: Outcome | str | None) -> Outcome:
    """What a report says: an ``error`` in the result is ``failed``, otherwise ``outcome``, else done.

    Only a definite refusal is ``failed``: an error that speaks of a timeout or a lost connection
    leaves it ``unknown``, as does an explicit ``unknown``. Raises ``ConfigError`` at ``outcome``.
    """
    if outcome is not None:
        try:
            outcome = Outcome(outcome)
        except ValueError:
            choices = ", ".join(Outcome)
            raise ConfigError(f"expected one of {choices}, got {outcome!r}", at="outcome") from None
    error = result.get("error") if isinstance(result, Mapping) else None
    if not error:
        return outcome or Outcome.DONE
    if outcome in (Outcome.UNKNOWN, Outcome.CANCELLED):
        return outcome
    text = error if isinstance(error, str) else str(error)[:1000]
    lowered = text[:1000].lower()
    if outcome is None and any(word in lowered for word in _LOST_WORDS):
        return Outcome.UNKNOWN
    return Outcome.FAILED


def _kept(result: Any, mode: Literal["summary", "full", "none"]) -> Any:
    """What the journal keeps of a result: like params."""
    if result is None or mode == "none":
        return None
    if isinstance(result, dict):
        return summarise(result, mode=mode)
    return summarise({"result": result}, mode=mode)["result"]


# --- output -----------------------------------------------------------------------------------------


def _filled(decision: Decision, applied: Applied) -> Decision:
    """The decision with what the store knows: its id, and the lease of a repeated answer."""
    opening = applied.change.open
    id = decision.id or applied.ids[-1]
    if decision.repeated:
        return decision
    lease = None
    if opening is not None and opening.state is State.OPEN:
        lease = Lease(id, max(opening.expires, opening.limit) / SECOND)
    return replace(decision, id=id, lease=lease)


def _first(names: Iterable[str]) -> str | None:
    return next(iter(names), None)


def _holding(action: Action) -> Holding:
    return Holding(
        context_key=_first(visible(action.keys)),
        instance=action.session,
        tool=action.tool,
        tier=action.tier,
        state=action.state,
        id=action.id,
        token=action.id,
        at=action.started / SECOND,
        expires=(max(action.expires, action.limit) if action.alive else action.expires) / SECOND
        if action.alive is not False
        else 0.0,
        lock=action.lock,
        approved=action.approved > 0,
    )


def _recent(action: Action) -> RecentAction:
    return RecentAction(
        context_key=_first(visible(action.keys)),
        instance=action.session,
        tool=action.tool,
        tier=action.tier,
        state=action.state,
        id=action.id,
        at=(action.ended or action.started) / SECOND,
        reported=bool(action.ended),
    )
