"""One hook event of a host, all the way: read by its adapter, asked of the gate, answered in the host's words.

::

    payload ── adapter.read ── Told, ... ──┬── Before ── intercept ──┐
                                           ├── After ── complete     ├── Answer ── adapter.render ── what is printed
                                           ├── Wondering ── brief ───┘
                                           └── Closed, Settled ── complete what was not reported

A host does not report every call: it denies one itself, is interrupted, ends. So what is under way is remembered
here, by session and call id, and settled when the host says that it is through. This memory is bounded, and a
restarted gate begins with none: then a report finds its action by tool and params, and a lease that nobody reports
ends with the host's process.

What the store would not take is spooled, for no host tells anything twice, and entered before the next decision. What
cannot be spooled either is owed to the store: ``make_good``, which a server asks for every second while there is
something.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from callosum.corpus.events import CorpusEvent
from callosum.deadline import Expiry
from callosum.errors import CallosumError, StoreError
from callosum.gate import intake
from callosum.gate.course import Course, Courses, Look
from callosum.hosts.events import (
    BackgroundEnded,
    BriefRequested,
    CallRefused,
    CallReturned,
    CallsClosed,
    CallStarting,
    CorpusEmission,
    FinalAnswer,
    HookAnswer,
    HostEvent,
    HostIdentity,
    HostSession,
    OtherEvent,
    PromptTyped,
    SessionIdle,
    SettingsChanging,
)
from callosum.hosts.tasks import SESSION_ENDED, OpenCall, TaskReporter
from callosum.model import Call, Decision, Host, Outcome, Report, Verdict
from callosum.wire import Brief, Complete, LateCall
from callosum.worktree import at_home, located

if TYPE_CHECKING:
    from callosum.brain import Brain
    from callosum.hosts.hook_adapter import HookAdapter

logger = logging.getLogger("callosum")

MAX_ACTORS: Final = 4096
"""Most actors whose calls are remembered; who was heard longest ago gives way."""
MAX_UNDERWAY: Final = 1000
"""Most calls of one actor that are remembered, oldest out first."""
MAX_UNSAID: Final = 10
"""Most texts that wait until an actor's model can be told something, oldest out first."""
MAX_FAILURES: Final = 100
"""Most failed calls of one actor that are remembered, oldest out first."""
MAX_OWED: Final = 10_000
"""Most reports that are kept in memory for a store that takes none, oldest out first."""


class _Owed(NamedTuple):
    """How a call of an actor ended, which the store does not know yet."""

    actor: HostSession
    call: OpenCall
    outcome: Outcome
    error: str = ""
    why: str = ""
    result: Any = None


class _Calls:
    """What one actor has under way, by call id (or by tool and params), and in the background, by its name.

    ``given_up`` are those that ended as ``unknown`` because nothing was said of them: it may still be on its way.
    """

    def __init__(self, actor: HostSession) -> None:
        self.actor = actor
        self.open: OrderedDict[str, list[OpenCall]] = OrderedDict()
        self.background: OrderedDict[str, OpenCall] = OrderedDict()
        self.given_up: OrderedDict[str, OpenCall] = OrderedDict()
        self.failures: OrderedDict[str, int] = OrderedDict()
        """How often the same call failed in a row, by tool and params, nothing having been changed in between."""
        self.purpose = ""
        """The prompt that a person typed last."""
        self.unsaid: deque[str] = deque(maxlen=MAX_UNSAID)
        """What the model is to be told, and could not be told with the report that it comes from."""

    def attempt(self, call: Call) -> int:
        """Return which attempt a call is, from 1."""
        return self.failures.get(_repeated(call.tool, call.params), 0) + 1 if self.failures else 1

    def learn(self, told: CallReturned, tier: int) -> None:
        """Count a call that failed; what was changed, or the same call done, ends the row."""
        if told.outcome is Outcome.FAILED:
            repeated = _repeated(told.tool, told.params)
            self.failures[repeated] = self.failures.get(repeated, 0) + 1
            while len(self.failures) > MAX_FAILURES:
                self.failures.popitem(last=False)
        elif told.outcome is Outcome.DONE and tier:
            self.failures.clear()
        elif told.outcome is Outcome.DONE and self.failures:
            self.failures.pop(_repeated(told.tool, told.params), None)

    def add(self, identity: str, call: OpenCall) -> bool:
        """Remember a call; return False if it was remembered before: an answer may be asked for twice."""
        calls = self.open.setdefault(identity, [])
        if calls and calls[-1].id == call.id:
            return False
        calls.append(call)
        while len(self.open) > MAX_UNDERWAY:
            self.open.popitem(last=False)
        return True

    def around(self, agent: str) -> str:
        """Return the task whose sub-agent has this name, "" if it is not known."""
        known = self.background.get(agent)
        if known is not None:
            return known.task
        begun = [call for calls in self.open.values() for call in calls if call.agents]
        return begun[0].task if len(begun) == 1 else ""

    def take(self, identity: str) -> OpenCall | None:
        waiting = self.open.get(identity)
        if not waiting:
            return self.given_up.pop(identity, None)
        found = waiting.pop(0)
        if not waiting:
            del self.open[identity]
        return found

    def give_up(self, but: str) -> list[OpenCall]:
        """All but those of one tool."""
        ended = [(identity, calls) for identity, calls in self.open.items() if calls[0].tool != but]
        for identity, calls in ended:
            del self.open[identity]
            self.given_up[identity] = calls[-1]
        while len(self.given_up) > MAX_UNDERWAY:
            self.given_up.popitem(last=False)
        return [call for _, calls in ended for call in calls]


class Dispatcher:
    """What the hook events of all sessions go through.

    ``brief`` tells an actor what the others do, ``emit`` hands an event to the corpus and ``tell`` does so behind what
    the gate told before, ``parsed`` is told of each call before it is decided, ``changed`` looks at a settings
    file of the host and says why it may not take effect ("": it may), ``decided`` is told of each decision. ``keep``
    spools a report that the store would not take, and returns whether it did. Its courses may be driven from any
    thread: a long event is read beside the loop.
    """

    def __init__(
        self,
        courses: Courses,
        *,
        brief: Callable[[BriefRequested], Brief],
        emit: Callable[[CorpusEvent], object],
        changed: Callable[[HookAdapter, str], str],
        decided: Callable[[Decision], object] = lambda _decision: None,
        keep: Callable[[LateCall], bool] = lambda _record: False,
        parsed: Callable[[Call], object] = lambda _call: None,
        tell: Callable[[CorpusEvent], object] | None = None,
    ) -> None:
        self._tasks = TaskReporter(tell or emit)
        self._courses = courses
        self._parsed = parsed
        self._keep = keep
        self._decided = decided
        self._look_at_change = changed
        self._brief = brief
        self._emit = emit
        self._actors: OrderedDict[tuple[str, str], _Calls] = OrderedDict()
        self._answers: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._owed: deque[_Owed] = deque()
        self._remembering = threading.Lock()
        """Around whatever is done with ``_actors``, what is in it, ``_answers`` and ``_owed``; never across a yield."""

    def handle(
        self,
        adapter: HookAdapter,
        payload: Mapping[str, Any],
        place: HostIdentity,
        host: Host | None = None,
        *,
        here: bool = True,
        expiry: Expiry | None = None,
    ) -> Course[Mapping[str, Any]]:
        """Does what a hook event asks for, and returns what the hook prints.

        ``host`` is the host's process, on this machine, to which leases are tied. ``here``: its files are this
        machine's too, and may be looked at. ``expiry`` tells whether the hook still waits: if not, a call that it asks
        about is not decided, and what it reports is recorded all the same. Raises ``ConfigError`` for a payload that
        says too little, and what the gate raises; what was told before that stands.
        """
        answer = HookAnswer()
        for told in adapter.read(payload, place):
            answer = _joined(answer, (yield from self._heed(adapter, told, host, expiry, place.home, here=here)))
        return adapter.render(payload, answer)

    @property
    def owes(self) -> bool:
        """Whether there are reports that the store has not taken yet."""
        return bool(self._owed)

    def make_good(self) -> Course[None]:
        """Reports what is owed, oldest first, as far as the store takes it."""
        while self.owes:
            with self._remembering:
                owed = self._owed.popleft() if self._owed else None
            if owed is not None and not (yield from self._tell(owed, again=True)):
                return

    def retract(self, adapter: HookAdapter, payload: Mapping[str, Any], place: HostIdentity) -> Course[None]:
        """Takes back what an event opened, because its answer reached nobody: the host went on without it."""
        for told in adapter.read(payload, place):
            if isinstance(told, CallStarting):
                call = told.call
                actor = HostSession(instance=call.instance, session=call.session or "", namespace=call.namespace)
                with self._remembering:
                    found = self._calls(actor).take(call.call_id or _identity(call.tool, call.params))
                yield from self._report([_Owed(actor, found, Outcome.CANCELLED)] if found else [])

    def _heed(
        self,
        adapter: HookAdapter,
        told: HostEvent,
        host: Host | None,
        expiry: Expiry | None,
        home: str | None,
        *,
        here: bool,
    ) -> Course[HookAnswer]:
        match told:
            case CallStarting():
                return (yield from self._before(adapter, at_home(told.call, home), host, expiry))
            case CallReturned():
                return (yield from self._after(adapter, told))
            case BackgroundEnded():
                with self._remembering:
                    mine = [self._calls(told.actor), *self._with_children(told.actor)]
                    found = [(calls.actor, calls.background.pop(told.background, None)) for calls in mine]
                ends = [_Owed(actor, ended, told.outcome, told.error) for actor, ended in found if ended]
                yield from self._report(ends)
            case CallsClosed():
                with self._remembering:
                    calls = self._calls(told.actor)
                    left = [(id, call) for id in told.calls if (call := calls.take(id)) is not None]
                closed = [_Owed(told.actor, call, told.outcome, result=told.results.get(id)) for id, call in left]
                yield from self._report(closed)
            case SessionIdle():
                yield from self._settle(told)
            case FinalAnswer():
                self._keep_answer(told)
            case PromptTyped():
                with self._remembering:
                    self._calls(told.actor).purpose = told.prompt
            case BriefRequested():
                brief: Brief = yield Look(lambda: self._brief(told))
                return HookAnswer(inform=_together(self._unsaid(told.actor), brief.text))
            case OtherEvent():
                yield from self._heard(told.actor, told.what, told.details, self._last_answer(told))
            case SettingsChanging() if here:
                return (yield from self._changed(adapter, told))
            case CallRefused():
                details = {"tool": told.tool, "params": told.params, "reason": told.reason}
                yield from self._heard(told.actor, "refused call", details)
                return HookAnswer(refuse=told.reason)
            case CorpusEmission():
                self._emit(told.event)
        return HookAnswer()

    def _before(self, adapter: HookAdapter, call: Call, host: Host | None, expiry: Expiry | None) -> Course[HookAnswer]:
        if host is not None:
            call = located(replace(call, host=host))  # a host of this machine, and so a folder of it
        actor = HostSession(instance=call.instance, session=call.session or "", namespace=call.namespace)
        with self._remembering:
            attempt = self._calls(actor).attempt(call)
            around = self._around(actor, call.parent)
            purpose = call.purpose or self._purpose(actor)
        begins, agents = adapter.begins(call)
        task = (call.call_id or f"task-{uuid.uuid4().hex[:12]}") if begins else ""
        if attempt > 1 or task or around or purpose:
            call = replace(call, attempt=attempt, task_id=task or around or None, purpose=purpose)
        self._parsed(call)
        decision = yield from self._courses.intercept(call, expiry, here=host is not None)
        self._decided(decision)
        inform = (decision.warning or "") if decision.verdict is Verdict.WARN else ""
        if decision.proceed:
            later = "" if adapter.informs_before else inform
            runs = call.params if decision.params is None else decision.params  # which is what the host reports
            identity = call.call_id or _identity(call.tool, runs)
            opened = OpenCall(
                decision.id, call.tool, later, decision.tier, call.call_id, task, agents, time.monotonic()
            )
            with self._remembering:
                is_new = self._calls(actor).add(identity, opened)
            if task and is_new:
                self._tasks.begun(actor, opened)
        if not adapter.informs_before:
            return HookAnswer(decision)
        return HookAnswer(decision, _together(self._unsaid(actor), inform) if decision.proceed else inform)

    def _after(self, adapter: HookAdapter, told: CallReturned) -> Course[HookAnswer]:
        actor = told.actor
        identity = told.call_id or _identity(told.tool, told.params)
        with self._remembering:
            calls = self._calls(actor)
            found = calls.take(identity)
            calls.learn(told, found.tier if found is not None else 0)
            around = self._around(actor, actor.parent)
            becomes = found is not None and told.background and not found.task
            if found is not None and told.background:
                found = found._replace(task=found.task or found.call_id or f"task-{found.id}")
                calls.background[told.background] = found
                while len(calls.background) > MAX_UNDERWAY:
                    calls.background.popitem(last=False)
        if found is not None and becomes:
            self._tasks.begun(actor, found)
        elif found is not None and not told.background:
            if found.task:
                self._tasks.ended(actor, found, told.outcome, error=_error(told.result))
            elif around and told.outcome is Outcome.DONE:
                self._tasks.stepped(actor, found._replace(task=around))
        report: Report | None = None
        if found is not None and not told.background:
            try:
                report = yield from self._courses.complete(_ended(actor, told.outcome, id=found.id, result=told.result))
            finally:
                if report is None:  # without its result, which may be what could not be taken
                    self._owe(_Owed(actor, found, told.outcome))
        elif found is None and not told.background:
            ended = _ended(actor, told.outcome, tool=told.tool, params=told.params, result=told.result)
            report = yield from self._courses.complete(ended)
        overwritten = (report.warning if report is not None else None) or ""
        if overwritten and not adapter.informs_after:
            with self._remembering:
                calls.unsaid.append(overwritten)
            overwritten = ""
        return HookAnswer(inform=_together(found.inform if found is not None else "", overwritten))

    def _unsaid(self, actor: HostSession) -> str:
        """Return, once, what the model of an actor could not be told before."""
        with self._remembering:
            calls = self._actors.get((actor.namespace, actor.name))
            texts = list(calls.unsaid) if calls is not None else []
            if calls is not None:
                calls.unsaid.clear()
        return _together(*texts)

    def _changed(self, adapter: HookAdapter, told: SettingsChanging) -> Course[HookAnswer]:
        reason: str = yield Look(lambda: self._look_at_change(adapter, told.path))
        if reason:
            yield from self._heard(told.actor, "refused settings", {"path": told.path, "reason": reason})
        return HookAnswer(refuse=reason)

    def _heard(self, actor: HostSession, what: str, details: Mapping[str, Any], summary: str = "") -> Course[None]:
        return self._courses.heard(
            actor.instance, what, details, session=actor.session, namespace=actor.namespace, summary=summary
        )

    def _keep_answer(self, told: FinalAnswer) -> None:
        with self._remembering:
            self._answers[told.actor.namespace, told.actor.name] = told.answer
            self._answers.move_to_end((told.actor.namespace, told.actor.name))
            while len(self._answers) > MAX_ACTORS:
                self._answers.popitem(last=False)

    def _last_answer(self, told: OtherEvent) -> str:
        """Return with what a session that ends answered last; ``""`` for any other event."""
        with self._remembering:
            return self._answers.pop((told.actor.namespace, told.actor.name), "") if told.ends else ""

    def _settle(self, told: SessionIdle) -> Course[None]:
        with self._remembering:
            ended = list(self._with_children(told.actor)) if told.all else [self._calls(told.actor)]
            left = [(mine.actor, mine.give_up(told.but)) for mine in ended]
            if told.all:
                left += [(mine.actor, [*mine.background.values()]) for mine in ended]
                for mine in ended:
                    mine.background.clear()
                    if not mine.given_up:
                        self._actors.pop((mine.actor.namespace, mine.actor.name), None)
        why = SESSION_ENDED if told.all else ""
        owed = [_Owed(actor, call, told.outcome, why=why) for actor, calls in left for call in calls]
        yield from self._report(owed)

    def _purpose(self, actor: HostSession) -> str | None:
        """Return what a person asked of the actor, or of the session whose sub-agent it is."""
        for name in (actor.name, actor.name.partition(":")[0]):
            found = self._actors.get((actor.namespace, name))
            if found is not None and found.purpose:
                return found.purpose
        return None

    def _with_children(self, actor: HostSession) -> Iterator[_Calls]:
        """The actor's calls, and those of its sub-agents: their session is its own with a colon and more behind it."""
        for (namespace, name), calls in self._actors.items():
            if namespace == actor.namespace and (name == actor.name or name.startswith(f"{actor.name}:")):
                yield calls

    def _report(self, ended: list[_Owed]) -> Course[None]:
        """Reports each; that one cannot be reported leaves the others their report."""
        left = deque(ended)
        for actor, call, outcome, error, why, _ in ended:
            if call.task:
                self._tasks.ended(actor, call, outcome, error=error, why=why)
        try:
            while left:
                yield from self._tell(left.popleft())
        finally:
            for owed in left:  # broken off
                self._owe(owed)

    def _tell(self, owed: _Owed, *, again: bool = False) -> Course[bool]:
        """Makes one report, and returns whether the store took it. What it would not take now is owed to it."""
        actor, call, outcome, *_ = owed
        keep, first = True, False
        try:
            yield from self._courses.complete(_ended(actor, outcome, id=call.id, result=owed.result))
            keep = False
        except StoreError as error:
            first = again
            if not again:
                logger.warning("%s: the end of %s %s waits for the store: %s", actor.name, call.tool, call.id, error)
        except CallosumError as error:
            keep = False
            logger.warning("%s: %s of %s was not settled: %s", actor.name, call.tool, call.id, error)
            return True
        finally:
            if keep:
                self._owe(owed, first=first)
        return not keep

    def _owe(self, owed: _Owed, *, first: bool = False) -> None:
        """Keep a report for later, on disk if that can be; ``first``: in the place that it had, before the others."""
        actor, owed = owed.actor, owed._replace(result=None)  # which may be long, or what could not be taken
        who = Call(actor.instance, intake.UNNAMED, {}, session=actor.session, namespace=actor.namespace)
        record = LateCall(call=who, outcome=owed.outcome, kind=intake.REPORT, v=2, id=owed.call.id, ended=time.time())
        if self._keep(record):
            return
        with self._remembering:
            if first:
                self._owed.appendleft(owed)
            else:
                self._owed.append(owed)
            lost = self._owed.popleft() if len(self._owed) > MAX_OWED else None
        if lost is not None:
            logger.warning(
                "%s: the end of %s %s is not reported: too many are", lost.actor.name, lost.call.tool, lost.call.id
            )

    def _around(self, actor: HostSession, parent: str | None) -> str:
        """Return the task in whose sub-agent an actor works, "" if it is none or not known."""
        if parent is None:
            return ""
        calls = self._actors.get((actor.namespace, parent))
        return calls.around(actor.name.removeprefix(f"{parent}:")) if calls is not None else ""

    def _calls(self, actor: HostSession) -> _Calls:
        name = (actor.namespace, actor.name)
        calls = self._actors.get(name)
        if calls is None:
            calls = self._actors[name] = _Calls(actor)
            while len(self._actors) > MAX_ACTORS:
                self._actors.popitem(last=False)
        else:
            self._actors.move_to_end(name)
        return calls


def brief_for(brain: Brain, told: BriefRequested) -> Brief:
    """Return an actor's brief. After a compaction it also lists the actor's own open actions and commitments."""
    actor = told.actor
    return brain.brief(
        actor.instance,
        actor.session,
        namespace=actor.namespace,
        cwd=actor.cwd,
        prompt=told.prompt,
        forgot=told.forgot,
    )


def _ended(actor: HostSession, outcome: Outcome, **call: Any) -> Complete:
    return Complete(instance=actor.instance, outcome=outcome, session=actor.session, namespace=actor.namespace, **call)


def _together(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def _joined(one: HookAnswer, other: HookAnswer) -> HookAnswer:
    """What several words of one event come to."""
    decision: Decision | None = other.decision or one.decision
    return HookAnswer(decision, _together(one.inform, other.inform), one.refuse or other.refuse)


def _error(result: Any) -> str:
    error = result.get("error") if isinstance(result, Mapping) else None
    return error if isinstance(error, str) else ""


def _repeated(tool: str, params: Mapping[str, Any]) -> str:
    """What a call is known by when it is made again: a model words its description anew."""
    return _identity(tool, {name: value for name, value in params.items() if name != "description"})


def _identity(tool: str, params: Mapping[str, Any]) -> str:
    """What a call without an id is known by; no id of a host begins like it."""
    written = msgspec.json.encode([tool, params], order="deterministic")
    return f"={blake2b(written, digest_size=16).hexdigest()}"
