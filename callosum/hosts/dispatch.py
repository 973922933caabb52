"""Handle a hook event from end to end: an adapter reads it, the gate decides, the adapter renders the answer.

::

    payload ── adapter.read ── HostEvents ──┬── CallStarting ── intercept ──┐
                                            ├── CallReturned ── complete    ├── HookAnswer ── adapter.render ── output
                                            ├── BriefRequested ── brief ────┘
                                            └── CallsClosed, SessionIdle ── complete the calls without a report

A host does not report every call: it may deny a call itself, be interrupted, or exit. The dispatcher therefore
remembers open calls by session and call id, and completes them when the host says that it has finished. This memory is
bounded and starts empty when the gate restarts. After a restart, a report finds its action by tool and params, and a
lease that nobody reports ends with the host's process.

No host reports an event twice, so a report that the store rejects is spooled and entered before the next decision. A
report that cannot be spooled either stays in memory. ``make_good`` retries such reports; the server calls it every
second while there are any.
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
from callosum.gate import Effects, Operations, Read, spool_records
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
from callosum.model import Action, Call, Decision, Host, Outcome, Report, State, Verdict
from callosum.process import process_name
from callosum.wire import Brief, Complete, LateCall
from callosum.worktree import at_home, located

if TYPE_CHECKING:
    from callosum.hosts.hook_adapter import HookAdapter

logger = logging.getLogger("callosum")

MAX_ACTORS: Final = 4096
"""Maximum number of sessions whose calls are remembered. The session heard from least recently is dropped first."""
MAX_UNDERWAY: Final = 1000
"""Maximum number of open calls remembered for one session. The oldest is dropped first."""
MAX_UNSAID: Final = 10
"""Maximum number of texts that wait until a session's model can be informed. The oldest is dropped first."""
MAX_FAILURES: Final = 100
"""Maximum number of failed calls remembered for one session. The oldest is dropped first."""
MAX_DOUBTS: Final = 5
"""Maximum number of unknown outcomes, the newest, for which a brief asks the hosts' transcripts."""
MAX_OWED: Final = 10_000
"""Maximum number of reports kept in memory while the store takes none. The oldest is dropped first."""


class _Owed(NamedTuple):
    """Hold the outcome of a call that the store has not recorded yet."""

    actor: HostSession
    call: OpenCall
    outcome: Outcome
    error: str = ""
    why: str = ""
    result: Any = None


class _Calls:
    """Hold the calls of one session: open calls by call id (or by tool and params), background work by its name.

    ``given_up`` holds calls that ended as ``unknown`` for lack of a report, which may still arrive.
    """

    def __init__(self, actor: HostSession) -> None:
        self.actor = actor
        self.open: OrderedDict[str, list[OpenCall]] = OrderedDict()
        self.background: OrderedDict[str, OpenCall] = OrderedDict()
        self.given_up: OrderedDict[str, OpenCall] = OrderedDict()
        self.failures: OrderedDict[str, int] = OrderedDict()
        """Number of consecutive failures of the same call by tool and params, with no change made in between."""
        self.purpose = ""
        """Last prompt that a person typed."""
        self.unsaid: deque[str] = deque(maxlen=MAX_UNSAID)
        """Texts for the model that could not be delivered with the report that caused them."""

    def attempt(self, call: Call) -> int:
        """Return the number of this attempt at the call, counting from 1."""
        return self.failures.get(_repeated(call.tool, call.params), 0) + 1 if self.failures else 1

    def learn(self, returned: CallReturned, tier: int) -> None:
        """Count a failed call. A successful change, or success of the same call, ends the count."""
        if returned.outcome is Outcome.FAILED:
            identity = _repeated(returned.tool, returned.params)
            self.failures[identity] = self.failures.get(identity, 0) + 1
            while len(self.failures) > MAX_FAILURES:
                self.failures.popitem(last=False)
        elif returned.outcome is Outcome.DONE and tier:
            self.failures.clear()
        elif returned.outcome is Outcome.DONE and self.failures:
            self.failures.pop(_repeated(returned.tool, returned.params), None)

    def add(self, identity: str, call: OpenCall) -> bool:
        """Remember a call. Return False if it was remembered before, because a hook may ask twice."""
        calls = self.open.setdefault(identity, [])
        if calls and calls[-1].id == call.id:
            return False
        calls.append(call)
        while len(self.open) > MAX_UNDERWAY:
            self.open.popitem(last=False)
        return True

    def around(self, agent: str) -> str:
        """Return the task whose sub-agent has this name, or "" if the task is unknown."""
        background_call = self.background.get(agent)
        if background_call is not None:
            return background_call.task
        starting_agents = [call for calls in self.open.values() for call in calls if call.agents]
        return starting_agents[0].task if len(starting_agents) == 1 else ""

    def take(self, identity: str) -> OpenCall | None:
        open_calls = self.open.get(identity)
        if not open_calls:
            return self.given_up.pop(identity, None)
        call = open_calls.pop(0)
        if not open_calls:
            del self.open[identity]
        return call

    def give_up(self, but: str) -> list[OpenCall]:
        """Give up all open calls except those of the tool ``but``."""
        ended = [(identity, calls) for identity, calls in self.open.items() if calls[0].tool != but]
        for identity, calls in ended:
            del self.open[identity]
            self.given_up[identity] = calls[-1]
        while len(self.given_up) > MAX_UNDERWAY:
            self.given_up.popitem(last=False)
        return [call for _, calls in ended for call in calls]


class Dispatcher:
    """Handle the hook events of all sessions.

    ``brief`` returns a session's brief. ``emit`` hands an event to the corpus, and ``tell`` does so after the events
    that the gate emitted before. ``parsed`` receives each call before its decision and ``decided`` receives each
    decision. ``changed`` inspects a settings file of the host and returns why it may not take effect, or "" if it may.
    ``keep`` spools a report that the store rejected and returns whether it could. Any thread may run the returned
    operations: a long event is read outside the event loop.
    """

    def __init__(
        self,
        operations: Operations,
        *,
        brief: Callable[[BriefRequested], Brief],
        emit: Callable[[CorpusEvent], object],
        changed: Callable[[HookAdapter, str], str],
        decided: Callable[[Decision, float], object] = lambda *_: None,
        keep: Callable[[LateCall], bool] = lambda _record: False,
        parsed: Callable[[Call], object] = lambda _call: None,
        tell: Callable[[CorpusEvent], object] | None = None,
    ) -> None:
        self._tasks = TaskReporter(tell or emit)
        self._courses = operations
        self._parsed = parsed
        self._keep = keep
        self._decided = decided
        self._look_at_change = changed
        self._brief = brief
        self._emit = emit
        self._actors: OrderedDict[tuple[str, str], _Calls] = OrderedDict()
        self._answers: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._owed: deque[_Owed] = deque()
        self.at_servers: OrderedDict[tuple[str, str | None, str], tuple[_Calls, str, Decision]] = OrderedDict()
        """Running calls of MCP servers, by namespace, the host's process as a wrap names it, and the call itself."""
        self._remembering = threading.Lock()
        """Lock for ``_actors`` and its contents, ``_answers`` and ``_owed``. It is never held across a yield."""

    def handle(
        self,
        adapter: HookAdapter,
        payload: Mapping[str, Any],
        identity: HostIdentity,
        host: Host | None = None,
        *,
        here: bool = True,
        expiry: Expiry | None = None,
    ) -> Effects[Mapping[str, Any]]:
        """Handle a hook event and return what the hook prints.

        ``host`` is the host's process on this machine; leases end with it. ``here`` says that the host's files are on
        this machine, so they may be read. ``expiry`` says whether the hook still waits. If it does not, a call is not
        decided, but a report is still recorded.

        Raises: ``ConfigError`` for an incomplete payload, and the errors of the gate. Events handled before the error
        keep their effect.
        """
        answer = HookAnswer()
        for event in adapter.read(payload, identity):
            also: HookAnswer = yield from self._heed(adapter, event, host, expiry, identity.home, here=here)
            refuse = answer.refuse or also.refuse
            answer = HookAnswer(also.decision or answer.decision, _together(answer.inform, also.inform), refuse)
        return adapter.render(payload, answer)

    @property
    def owes(self) -> bool:
        """Return True if there are reports that the store has not recorded yet."""
        return bool(self._owed)

    def make_good(self) -> Effects[None]:
        """Send the reports that the store lacks, oldest first, until the store rejects one."""
        while self.owes:
            with self._remembering:
                owed = self._owed.popleft() if self._owed else None
            if owed is not None and not (yield from self._tell(owed, again=True)):
                return

    def retract(self, adapter: HookAdapter, payload: Mapping[str, Any], identity: HostIdentity) -> Effects[None]:
        """Undo what an event opened, because its answer reached no hook and the host continued without it."""
        for event in adapter.read(payload, identity):
            if isinstance(event, CallStarting):
                call = event.call
                actor = HostSession(instance=call.instance, session=call.session or "", namespace=call.namespace)
                with self._remembering:
                    open_call = self._calls(actor).take(call.call_id or _identity(call.tool, call.params))
                yield from self._report([_Owed(actor, open_call, Outcome.CANCELLED)] if open_call else [])

    def _heed(
        self,
        adapter: HookAdapter,
        event: HostEvent,
        host: Host | None,
        expiry: Expiry | None,
        home: str | None,
        *,
        here: bool,
    ) -> Effects[HookAnswer]:
        match event:
            case CallStarting():
                return (yield from self._before(adapter, at_home(event.call, home), host, expiry))
            case CallReturned():
                return (yield from self._after(adapter, event))
            case BackgroundEnded():
                with self._remembering:
                    session_calls = [self._calls(event.actor), *self._with_children(event.actor)]
                    ended_calls = [
                        (calls.actor, calls.background.pop(event.background, None)) for calls in session_calls
                    ]
                reports = [_Owed(actor, ended, event.outcome, event.error) for actor, ended in ended_calls if ended]
                yield from self._report(reports)
            case CallsClosed():
                with self._remembering:
                    calls = self._calls(event.actor)
                    closed_calls = [(id, call) for id in event.calls if (call := calls.take(id)) is not None]
                reports = [
                    _Owed(event.actor, call, event.outcome, result=event.results.get(id)) for id, call in closed_calls
                ]
                yield from self._report(reports)
            case SessionIdle():
                yield from self._settle(event)
            case FinalAnswer():
                with self._remembering:
                    self._answers[event.actor.namespace, event.actor.name] = event.answer
                    self._answers.move_to_end((event.actor.namespace, event.actor.name))
                    while len(self._answers) > MAX_ACTORS:
                        self._answers.popitem(last=False)
            case PromptTyped():
                with self._remembering:
                    self._calls(event.actor).purpose = event.prompt
            case BriefRequested():
                store, namespace = self._courses.store, event.actor.namespace
                unknown: list[Action] = yield Read(lambda: store.live(namespace, (State.UNKNOWN,)))
                yield from self._courses.settle_refused(namespace, [one.id for one in unknown[-MAX_DOUBTS:]])
                brief: Brief = yield Read(lambda: self._brief(event))
                return HookAnswer(inform=_together(self._unsaid(event.actor), brief.text))
            case OtherEvent():
                with self._remembering:
                    answer = self._answers.pop((event.actor.namespace, event.actor.name), "") if event.ends else ""
                yield from self._heard(event.actor, event.what, event.details, answer)
            case SettingsChanging() if here:
                return (yield from self._changed(adapter, event))
            case CallRefused():
                details = {"tool": event.tool, "params": event.params, "reason": event.reason}
                yield from self._heard(event.actor, "refused call", details)
                return HookAnswer(refuse=event.reason)
            case CorpusEmission():
                self._emit(event.event)
        return HookAnswer()

    def _before(
        self, adapter: HookAdapter, call: Call, host: Host | None, expiry: Expiry | None
    ) -> Effects[HookAnswer]:
        if host is not None:
            call = located(replace(call, host=host))  # the host runs on this machine, so its folder exists here
        if call.call_id is not None:
            call = replace(call, dispatch=f"{call.call_id}@{host.pid}" if host is not None else call.call_id)
        actor = HostSession(instance=call.instance, session=call.session or "", namespace=call.namespace)
        with self._remembering:
            own = self._calls(actor)
            attempt = own.attempt(call)
            parent_task = self._around(actor, call.parent)
            above = own if own.purpose else self._actors.get((actor.namespace, actor.name.partition(":")[0]), own)
            purpose = call.purpose or above.purpose or None
        begins, agents = adapter.begins(call)
        task = (call.call_id or f"task-{uuid.uuid4().hex[:12]}") if begins else ""
        if attempt > 1 or task or parent_task or purpose:
            call = replace(call, attempt=attempt, task_id=task or parent_task or None, purpose=purpose)
        self._parsed(call)
        began = time.perf_counter()
        decision = yield from self._courses.intercept(call, expiry, here=host is not None)
        self._decided(decision, time.perf_counter() - began)
        inform = (decision.warning or "") if decision.verdict is Verdict.WARN else ""
        if decision.proceed:
            later_inform = "" if adapter.informs_before else inform
            reported_params = (
                call.params if decision.params is None else decision.params
            )  # the host reports the params that it ran
            identity = call.call_id or _identity(call.tool, reported_params)
            open_call = OpenCall(
                decision.id, call.tool, later_inform, decision.tier, call.call_id, task, agents, time.monotonic()
            )
            with self._remembering:
                is_new = self._calls(actor).add(identity, open_call)
                if host is not None and call.tool.startswith("mcp__"):
                    place = call.namespace, process_name(host), _identity(call.tool, reported_params)
                    self.at_servers[place] = self._calls(actor), identity, decision
                    while len(self.at_servers) > MAX_UNDERWAY:
                        self.at_servers.popitem(last=False)
            if task and is_new:
                self._tasks.begun(actor, open_call)
        if not adapter.informs_before:
            return HookAnswer(decision)
        return HookAnswer(decision, _together(self._unsaid(actor), inform) if decision.proceed else inform)

    def by_hook(self, call: Call) -> Decision | None:
        """Return what a wrap of an MCP server is told, once, about a running call that the host's hook let through.

        The decision has no id: the hook reports the outcome. None if no hook decided the call.
        """
        place = call.namespace, call.session, _identity(call.tool, call.params)
        with self._remembering:
            decided = self.at_servers.pop(place, None)
            if decided is None or all(one.id != decided[2].id for one in decided[0].open.get(decided[1], ())):
                return None
        return replace(decided[2], id=0, verdict=Verdict.ALLOW, warning=None, lease=None, params=None)

    def _after(self, adapter: HookAdapter, returned: CallReturned) -> Effects[HookAnswer]:
        actor = returned.actor
        identity = returned.call_id or _identity(returned.tool, returned.params)
        with self._remembering:
            calls = self._calls(actor)
            open_call = calls.take(identity)
            calls.learn(returned, open_call.tier if open_call is not None else 0)
            parent_task = self._around(actor, actor.parent)
            starts_task = open_call is not None and returned.background and not open_call.task
            if open_call is not None and returned.background:
                open_call = open_call._replace(task=open_call.task or open_call.call_id or f"task-{open_call.id}")
                calls.background[returned.background] = open_call
                while len(calls.background) > MAX_UNDERWAY:
                    calls.background.popitem(last=False)
        if open_call is not None and starts_task:
            self._tasks.begun(actor, open_call)
        elif open_call is not None and not returned.background:
            if open_call.task:
                error = returned.result.get("error") if isinstance(returned.result, Mapping) else None
                self._tasks.ended(actor, open_call, returned.outcome, error=error if isinstance(error, str) else "")
            elif parent_task and returned.outcome is Outcome.DONE:
                self._tasks.stepped(actor, open_call._replace(task=parent_task))
        report: Report | None = None
        if open_call is not None and not returned.background:
            try:
                report = yield from self._courses.complete(
                    _ended(actor, returned.outcome, id=open_call.id, result=returned.result)
                )
            finally:
                if report is None:  # without its result, which may be what the store cannot take
                    self._owe(_Owed(actor, open_call, returned.outcome))
        elif open_call is None and not returned.background:
            completion = _ended(
                actor, returned.outcome, tool=returned.tool, params=returned.params, result=returned.result
            )
            report = yield from self._courses.complete(completion)
        overwritten = (report.warning if report is not None else None) or ""
        if overwritten and not adapter.informs_after:
            with self._remembering:
                calls.unsaid.append(overwritten)
            overwritten = ""
        return HookAnswer(inform=_together(open_call.inform if open_call is not None else "", overwritten))

    def _unsaid(self, actor: HostSession) -> str:
        """Return the texts that could not be delivered to the session's model before, and forget them."""
        with self._remembering:
            calls = self._actors.get((actor.namespace, actor.name))
            texts = list(calls.unsaid) if calls is not None else []
            if calls is not None:
                calls.unsaid.clear()
        return _together(*texts)

    def _changed(self, adapter: HookAdapter, event: SettingsChanging) -> Effects[HookAnswer]:
        reason: str = yield Read(lambda: self._look_at_change(adapter, event.path))
        if reason:
            yield from self._heard(event.actor, "refused settings", {"path": event.path, "reason": reason})
        return HookAnswer(refuse=reason)

    def _heard(self, actor: HostSession, what: str, details: Mapping[str, Any], summary: str = "") -> Effects[None]:
        return self._courses.heard(
            actor.instance, what, details, session=actor.session, namespace=actor.namespace, summary=summary
        )

    def _settle(self, event: SessionIdle) -> Effects[None]:
        with self._remembering:
            sessions = list(self._with_children(event.actor)) if event.all else [self._calls(event.actor)]
            given_up = [(session_calls.actor, session_calls.give_up(event.but)) for session_calls in sessions]
            if event.all:
                given_up += [(session_calls.actor, [*session_calls.background.values()]) for session_calls in sessions]
                for session_calls in sessions:
                    session_calls.background.clear()
                    if not session_calls.given_up:
                        self._actors.pop((session_calls.actor.namespace, session_calls.actor.name), None)
        why = SESSION_ENDED if event.all else ""
        reports = [_Owed(actor, call, event.outcome, why=why) for actor, calls in given_up for call in calls]
        yield from self._report(reports)

    def _with_children(self, actor: HostSession) -> Iterator[_Calls]:
        """Yield the calls of the session and of its sub-agents, whose names start with its name and a colon."""
        for (namespace, name), calls in self._actors.items():
            if namespace == actor.namespace and (name == actor.name or name.startswith(f"{actor.name}:")):
                yield calls

    def _report(self, reports: list[_Owed]) -> Effects[None]:
        """Report each call. A failure to report one call does not affect the others."""
        remaining = deque(reports)
        for actor, call, outcome, error, why, _ in reports:
            if call.task:
                self._tasks.ended(actor, call, outcome, error=error, why=why)
        try:
            while remaining:
                yield from self._tell(remaining.popleft())
        finally:
            for owed in remaining:  # interrupted
                self._owe(owed)

    def _tell(self, owed: _Owed, *, again: bool = False) -> Effects[bool]:
        """Report one call and return whether the store recorded it. Keep the report if the store rejects it for now."""
        actor, call, outcome, *_ = owed
        must_keep, first = True, False
        try:
            if outcome is Outcome.UNKNOWN and (yield from self._courses.settle_refused(actor.namespace, [call.id])):
                must_keep = False
                return True
            yield from self._courses.complete(_ended(actor, outcome, id=call.id, result=owed.result))
            must_keep = False
        except StoreError as error:
            first = again
            if not again:
                logger.warning("%s: the end of %s %s waits for the store: %s", actor.name, call.tool, call.id, error)
        except CallosumError as error:
            must_keep = False
            logger.warning("%s: %s of %s was not settled: %s", actor.name, call.tool, call.id, error)
            return True
        finally:
            if must_keep:
                self._owe(owed, first=first)
        return not must_keep

    def _owe(self, owed: _Owed, *, first: bool = False) -> None:
        """Keep a report for later, on disk if possible. With ``first`` it keeps its place before the other reports."""
        actor, owed = owed.actor, owed._replace(result=None)  # the result may be long, or what the store cannot take
        placeholder = Call(actor.instance, spool_records.UNNAMED, {}, session=actor.session, namespace=actor.namespace)
        record = LateCall(
            call=placeholder, outcome=owed.outcome, kind=spool_records.REPORT, v=2, id=owed.call.id, ended=time.time()
        )
        if self._keep(record):
            return
        with self._remembering:
            if first:
                self._owed.appendleft(owed)
            else:
                self._owed.append(owed)
            dropped = self._owed.popleft() if len(self._owed) > MAX_OWED else None
        if dropped is not None:
            logger.warning(
                "%s: the end of %s %s is not reported: too many are",
                dropped.actor.name,
                dropped.call.tool,
                dropped.call.id,
            )

    def _around(self, actor: HostSession, parent: str | None) -> str:
        """Return the task whose sub-agent is this session, or "" if there is none or it is unknown."""
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


def _ended(actor: HostSession, outcome: Outcome, **call: Any) -> Complete:
    return Complete(instance=actor.instance, outcome=outcome, session=actor.session, namespace=actor.namespace, **call)


def _together(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def _repeated(tool: str, params: Mapping[str, Any]) -> str:
    """Return the identity of a repeated call. Leave out the description, which a model words differently each time."""
    return _identity(tool, {name: value for name, value in params.items() if name != "description"})


def _identity(tool: str, params: Mapping[str, Any]) -> str:
    """Return the identity of a call without an id. It starts with a character that no host's id starts with."""
    written = msgspec.json.encode([tool, params], order="deterministic")
    return f"={blake2b(written, digest_size=16).hexdigest()}"
