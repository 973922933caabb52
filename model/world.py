"""A bounded world: a few sessions that make a few calls through the real gate, over the store in memory.

A **state** is what the store holds, the time, and what an outside observer knows from the gate's answers alone: which
calls were let through and how they ended, which sessions wait, what each session was shown. A **transition** is one
thing that can happen next. The gate itself makes it: its operations are driven as a server drives them, up to the
moment at which they would sleep.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from callosum import wire
from callosum.gate.effects import Effects, Read, Sleep, TakenIn
from callosum.gate.operations import Operations
from callosum.model import (
    DEFAULT_NAMESPACE,
    SECOND,
    Action,
    Applied,
    Call,
    Change,
    Commits,
    Decision,
    Outcome,
    Report,
    Verdict,
)
from callosum.model import State as Stage
from callosum.policy.call_facts import CallFacts, Decided
from callosum.policy.evidence import horizon
from callosum.rulebook import Rulebook
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock
from callosum.wire import LateCall
from model.held import Held

RULES: Final = Path(__file__).with_name("rules.json")
QUANTUM: Final = 1_100_000
"""Shortest time that can pass, in microseconds. No limit of the policy is a multiple of it, so none is met exactly."""
INSTANT: Final = 10_000
"""Microseconds: more than pass at one time. Entries that are made at once are one microsecond apart."""
TTL: Final = 2 * SECOND
"""Length of a lease, in microseconds."""
WINDOW: Final = 4 * SECOND
"""Window of this world's rules, in microseconds."""


class Choice(Struct, frozen=True):
    """A call that sessions can choose to make. ``wait`` is in seconds; ``side`` is a commitment that it declares."""

    tool: str
    on: str
    also: str = ""
    pause: bool = False
    wait: float = 0
    side: str = ""

    @property
    def tier(self) -> int:
        """Return the tier that the rules give the call."""
        return int(self.tool[-1])

    @property
    def mode(self) -> str:
        """Return what the call does to its keys: read, write or append."""
        return {"look": "read", "add": "append"}.get(self.tool[:-1], "write")

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of the call's keys."""
        return (self.on, self.also) if self.also else (self.on,)

    def __str__(self) -> str:
        """Return the name of the call in a trace."""
        extras = ["pausing"] * self.pause + [f"waiting up to {self.wait:g} s"] * bool(self.wait)
        extras += [f"committing to {self.side}"] * bool(self.side)
        return f"{self.tool} on {' and '.join(self.keys)}" + (f" ({', '.join(extras)})" if extras else "")


class Acted(Struct, frozen=True, gc=False):
    """A call that was let through, as an observer of the answers knows it.

    ``until`` is the end of its lease, 0 for none. ``outcome`` is empty until it is reported, and ``ended`` is then 0.
    ``alive`` says that its session still runs it and will report. ``question`` is the id of the approval it needed, 0
    for none.
    """

    id: int
    session: str
    choice: Choice
    until: int = 0
    outcome: str = ""
    ended: int = 0
    alive: bool = True
    question: int = 0


class Waiting(Struct, frozen=True, gc=False):
    """A call in the queue: its id, its place, the end of its wait and its last poll."""

    choice: Choice
    call_id: str
    place: int
    ends: int
    polled: int


class Shown(Struct, frozen=True, gc=False):
    """A conflict that a session was shown: the action, the kind, and the moment of the answer."""

    id: int
    kind: str
    at: int


class Question(Struct, frozen=True, gc=False):
    """A call with the verdict ask or block. ``answered`` is the moment of a person's yes, negative for a no, or 0."""

    id: int
    choice: Choice
    answered: int = 0


class Session(Struct, frozen=True, gc=False):
    """What is known of a session: the number of calls it ``made``, and those that have not ended.

    ``pauses`` are the moments of its two newest pauses.
    """

    made: int = 0
    waiting: Waiting | None = None
    question: Question | None = None
    shown: tuple[Shown, ...] = ()
    pauses: tuple[int, ...] = ()


class State(Struct, frozen=True, gc=False):
    """One state of the world. ``tokens`` are the newest fencing token of each key, with its session."""

    clock: int
    held: Held
    sessions: dict[str, Session]
    acted: tuple[Acted, ...] = ()
    tokens: dict[str, tuple[int, str]] = {}


class Transition(Struct, frozen=True, gc=False):
    """One thing that can happen. ``id`` is an action's or question's, ``text`` an outcome, ``time`` microseconds."""

    what: str
    who: str = ""
    choice: Choice | None = None
    id: int = 0
    text: str = ""
    time: int = 0


class Taken(Struct, frozen=True, gc=False):
    """A transition that was made: the states before and after, the moment, and the gate's answer."""

    before: State
    transition: Transition
    after: State
    now: int
    decision: Decision | None = None
    report: Report | None = None
    choice: Choice | None = None


class Bounds(Struct, frozen=True, kw_only=True):
    """What can happen in a world.

    ``calls`` is the maximum number of calls of each session. ``outcomes`` are those that sessions report, ``spooled``
    also late, through the spool. ``times`` are the periods that can pass at once, in microseconds. Ages of more than
    ``oldest`` count as alike. ``state`` limits the number of explored states.
    """

    sessions: tuple[str, ...] = ("mira", "doug")
    calls: int = 2
    choices: tuple[Choice, ...]
    outcomes: tuple[str, ...] = ("done",)
    spooled: bool = False
    renews: bool = False
    crashes: bool = False
    sweeps: bool = False
    answers: tuple[bool, ...] = ()
    resolves: tuple[bool, ...] = ()
    rotates: bool = False
    times: tuple[int, ...] = (QUANTUM,)
    oldest: int = 5 * QUANTUM
    states: int = 1_000_000


class _Operations(Operations):
    """The gate's operations. The classification of a call is computed once for each of its forms."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._asked: dict[Any, tuple[CallFacts, bytes | None]] = {}

    def _facts_of(self, call: Call, *, here: bool = False) -> tuple[CallFacts, bytes | None]:
        form = (call.instance, call.tool, *call.params.values(), call.call_id, call.pause, call.wait, call.commits)
        if form not in self._asked:
            self._asked[form] = super()._facts_of(call, here=here)
        return self._asked[form]


class World:
    """The gate under test with its store and its clock. Every method first restores a given state."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)
        settings = Settings(state=RULES.parent, rules=RULES, lease_ttl=TTL / SECOND)
        self.gate = _Operations(settings, self.store, Rulebook(RULES, secret=b"model"))

    def start(self) -> State:
        """Return the state in which nothing has happened."""
        return State(ManualClock().now, Held(), {name: Session() for name in self.bounds.sessions})

    # --- What can happen -------------------------------------------------------------------------

    def transitions(self, state: State) -> Iterator[Transition]:
        """Yield what can happen next, always in the same order."""
        bounds = self.bounds
        for name in state.sessions:
            yield from self._of_session(state, name)
        for one in state.acted:
            yield from self._of_action(one)
        if bounds.sweeps:
            yield Transition("sweep")
        if bounds.rotates:
            yield Transition("rotate")
        for time in bounds.times:
            yield Transition("time", time=time)

    def _of_session(self, state: State, name: str) -> Iterator[Transition]:
        bounds, session = self.bounds, state.sessions[name]
        if session.waiting is not None:
            yield Transition("poll", name)
        elif session.made < bounds.calls:
            for choice in bounds.choices:
                yield Transition("intercept", name, choice)
        if bounds.crashes and (session.waiting or any(one.alive and one.session == name for one in state.acted)):
            yield Transition("crash", name)
        if session.question is not None and not session.question.answered:
            for agrees in bounds.answers:
                yield Transition("approve" if agrees else "refuse", name, id=session.question.id)

    def _of_action(self, one: Acted) -> Iterator[Transition]:
        bounds = self.bounds
        if one.alive:
            for outcome in bounds.outcomes:
                yield Transition("complete", one.session, id=one.id, text=outcome)
                if bounds.spooled:
                    yield Transition("report late", one.session, id=one.id, text=outcome)
            if bounds.renews and one.until:
                yield Transition("renew", one.session, id=one.id)
        if one.until and one.outcome in ("", "unknown"):
            for happened in bounds.resolves:
                yield Transition("resolve", id=one.id, text="happened" if happened else "not")

    # --- Making it happen ------------------------------------------------------------------------

    def take(self, state: State, transition: Transition) -> Taken:
        """Make a transition from a state."""
        state.held.put_into(self.store)
        self.clock.now = state.clock
        taken: Taken = getattr(self, "_" + transition.what.replace(" ", "_"))(state, transition)
        after = _forget(replace(taken.after, held=Held.of(self.store)), self.bounds)
        return replace(taken, after=after)

    def _drive(self, operation: Effects[Any]) -> tuple[Any, Applied | None]:
        """Run an operation until it would sleep. Return its result and its last transaction.

        An operation that would sleep returns None.
        """
        reply: Any = None
        applied: Applied | None = None
        while True:
            try:
                wanted = operation.send(reply)
            except StopIteration as ended:
                return ended.value, applied
            if isinstance(wanted, Sleep):
                operation.close()
                return None, applied
            if isinstance(wanted, Read):
                reply = wanted.read()
                continue
            assert not isinstance(wanted, TakenIn), "nothing is spooled"
            answers = self.store.transact(wanted if isinstance(wanted, list) else [wanted])
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
                applied = answer
            reply = answers if isinstance(wanted, list) else applied

    def _intercept(self, state: State, transition: Transition) -> Taken:
        session, choice = state.sessions[transition.who], transition.choice
        assert choice is not None
        call_id = f"{session.made + 1}"
        state = _with(state, transition.who, replace(session, made=session.made + 1))
        decision, applied = self._drive(self.gate.intercept(_call(transition.who, choice, call_id)))
        assert applied is not None
        if decision is not None:
            return self._decided(state, transition, choice, decision, applied)
        ends = applied.now + round(choice.wait * SECOND)
        return self._queued(state, transition, Waiting(choice, call_id, 0, ends, 0), applied)

    def _poll(self, state: State, transition: Transition) -> Taken:
        """Run the waiting operation from one sleep to the next. It starts again from its previous state."""
        waiting = state.sessions[transition.who].waiting
        assert waiting is not None
        facts, identity = self.gate._facts_of(_call(transition.who, waiting.choice, waiting.call_id))
        left = (waiting.ends - waiting.polled) / SECOND
        facts = replace(facts, call=replace(facts.call, wait=left))
        before = Applied(Change(), (), waiting.polled)
        waits = self.gate._wait(facts, identity, None, [before], waiting.place, set())
        next(waits)  # the sleep that ends now
        decided, applied = self._drive(waits)
        assert applied is not None
        if decided is None:
            return self._queued(state, transition, waiting, applied)
        return self._decided(state, transition, waiting.choice, decided.decision, applied)

    def _queued(self, state: State, transition: Transition, waiting: Waiting, applied: Applied) -> Taken:
        decided: Decided = applied.change.answer
        waiting = replace(waiting, place=decided.waiter_id, polled=applied.now)
        after = _with(state, transition.who, replace(state.sessions[transition.who], waiting=waiting))
        return Taken(state, transition, after, applied.now, choice=waiting.choice)

    def _decided(
        self, state: State, transition: Transition, choice: Choice, decision: Decision, applied: Applied
    ) -> Taken:
        now, who = applied.now, transition.who
        session = replace(state.sessions[who], waiting=None)
        shown = tuple(Shown(one.id, one.kind.value, now) for one in decision.conflicts)
        known = {(one.id, one.kind) for one in session.shown}
        session = replace(session, shown=(*session.shown, *(one for one in shown if (one.id, one.kind) not in known)))
        if decision.verdict is Verdict.CONFIRM:
            session = replace(session, pauses=(*session.pauses, now)[-2:])
        question, acted, tokens = session.question, state.acted, state.tokens
        if decision.proceed:
            used = 0
            if question is not None and f"approved this call ({question.id})" in (decision.warning or ""):
                used, question = question.id, None
            until = round(decision.lease.expires * SECOND) if decision.lease is not None else 0
            acted = (*acted, Acted(decision.id, who, choice, until, question=used))
            if decision.lease is not None:
                tokens = {**tokens, **dict.fromkeys(choice.keys, (decision.lease.token, who))}
        elif decision.verdict in (Verdict.ASK, Verdict.BLOCK) and (question is None or not question.answered):
            question = Question(decision.id, choice)
        after = _with(state, who, replace(session, question=question))
        after = replace(after, acted=acted, tokens=tokens)
        return Taken(state, transition, after, now, decision, choice=choice)

    def _complete(self, state: State, transition: Transition) -> Taken:
        operation = self.gate.complete(
            wire.Complete(instance=transition.who, id=transition.id, outcome=Outcome(transition.text))
        )
        report, applied = self._drive(operation)
        return self._reported(state, transition, applied, report)

    def _report_late(self, state: State, transition: Transition) -> Taken:
        call = Call(transition.who, "?", call_id=None)
        record = LateCall(call=call, kind="report", id=transition.id, outcome=Outcome(transition.text), v=2)
        _, applied = self._drive(self.gate.take_in([record]))
        assert applied is not None
        return self._reported(state, transition, applied, applied.change.answer)

    def _reported(self, state: State, transition: Transition, applied: Applied | None, report: Report) -> Taken:
        assert applied is not None
        now = applied.now
        acted = []
        for one in state.acted:
            if one.id == transition.id:
                first = report.ok and one.outcome in ("", "unknown")  # the first report counts
                said = replace(one, outcome=transition.text, ended=now) if first else one
                acted.append(replace(said, alive=False))
            elif _repeated(one, state, transition, self.store.action(DEFAULT_NAMESPACE, one.id)):
                acted.append(replace(one, outcome="cancelled", ended=now))
            else:
                acted.append(one)
        return Taken(state, transition, replace(state, acted=tuple(acted)), now, report=report)

    def _renew(self, state: State, transition: Transition) -> Taken:
        report, applied = self._drive(self.gate.renew(wire.Renew(instance=transition.who, id=transition.id)))
        until = round(report.lease.expires * SECOND) if report.ok else 0
        acted = tuple(replace(one, until=until or one.until) if one.id == transition.id else one for one in state.acted)
        return Taken(state, transition, replace(state, acted=acted), applied.now if applied else 0, report=report)

    def _resolve(self, state: State, transition: Transition) -> Taken:
        happened = transition.text == "happened"
        report, applied = self._drive(self.gate.resolve(wire.Resolve(id=transition.id, happened=happened)))
        now = applied.now if applied else 0
        outcome = "done" if happened else "failed"
        acted = tuple(
            replace(one, outcome=outcome, ended=one.ended or now) if one.id == transition.id and report.ok else one
            for one in state.acted
        )
        return Taken(state, transition, replace(state, acted=acted), now, report=report)

    def _approve(self, state: State, transition: Transition) -> Taken:
        return self._answered(state, transition, agrees=True)

    def _refuse(self, state: State, transition: Transition) -> Taken:
        return self._answered(state, transition, agrees=False)

    def _answered(self, state: State, transition: Transition, *, agrees: bool) -> Taken:
        report, applied = self._drive(self.gate.answer((wire.Approve if agrees else wire.Deny)(id=transition.id)))
        session = state.sessions[transition.who]
        now = applied.now if applied else 0
        question = replace(session.question, answered=now if agrees else -now) if session.question else None
        after = _with(state, transition.who, replace(session, question=question if report.ok else None))
        return Taken(state, transition, after, now, report=report)

    def _crash(self, state: State, transition: Transition) -> Taken:
        """End the session's process: it polls and reports no more. Another one with the same name continues."""
        session = replace(state.sessions[transition.who], waiting=None)
        acted = tuple(replace(one, alive=False) if one.session == transition.who else one for one in state.acted)
        after = replace(_with(state, transition.who, session), acted=acted)
        return Taken(state, transition, after, state.clock)

    def _sweep(self, state: State, transition: Transition) -> Taken:
        self._drive(self.gate.sweep())
        return Taken(state, transition, state, self.store.now())

    def _rotate(self, state: State, transition: Transition) -> Taken:
        """Drop everything that the store need not keep, as the gate's upkeep does."""
        now = self.store.now()
        self.store.maintain(horizon(now, WINDOW))
        self.store.take(now, horizon(now, WINDOW), delete=True)
        return Taken(state, transition, state, self.store.now())

    def _time(self, state: State, transition: Transition) -> Taken:
        return Taken(state, transition, replace(state, clock=state.clock + transition.time), state.clock)


# --- What an observer concludes ---------------------------------------------------------------------


def _call(who: str, choice: Choice, call_id: str) -> Call:
    params = {"on": choice.on, "also": choice.also} if choice.also else {"on": choice.on}
    commits = Commits(choice.side) if choice.side else None
    return Call(who, choice.tool, params, call_id=call_id, pause=choice.pause, wait=choice.wait, commits=commits)


def _with(state: State, who: str, session: Session) -> State:
    return replace(state, sessions={**state.sessions, who: session})


def overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return True if two calls share a key, or one has a tree over a key of the other."""
    return any(
        a == b or (a.endswith("/") and b.startswith(a)) or (b.endswith("/") and a.startswith(b))
        for a in one
        for b in other
    )


def _repeated(one: Acted, state: State, reported: Transition, action: Action | None) -> bool:
    """Return True if an action of unknown outcome ended rightly because a later call that repeated it is done."""
    if reported.text != "done" or action is None or action.state is not Stage.CANCELLED:
        return False
    by = next(other for other in state.acted if other.id == reported.id)
    same = by.choice.tool == one.choice.tool and by.choice.keys == one.choice.keys
    own = by.session == one.session and by.choice.tool == one.choice.tool and overlap(by.choice.keys, one.choice.keys)
    return (same or own) and one.id < by.id and (one.outcome == "unknown" or one.until <= by.id)


def _forget(state: State, bounds: Bounds) -> State:
    """Drop what no promise needs any more: actions that did not happen, and those that ended long ago.

    A session's later action hides an earlier one that ended after it, so the later stays as long as the earlier.
    """
    lasting = any(choice.side for choice in bounds.choices)
    acted: list[Acted] = []
    for one in state.acted:
        over = one.outcome not in ("", "unknown", "done")
        old = one.outcome == "done" and not lasting and state.clock + INSTANT - one.ended >= bounds.oldest
        hides = any(older.session == one.session for older in acted)
        if one.alive or not (over or (old and not hides)):
            acted.append(one)
    ids = {one.id for one in acted}
    sessions = {
        name: replace(session, shown=tuple(one for one in session.shown if one.id in ids))
        for name, session in state.sessions.items()
    }
    return replace(state, acted=tuple(acted), sessions=sessions)
