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
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from callosum.corpus.events import CorpusEvent
from callosum.errors import CallosumError
from callosum.gate.course import Course, Courses, Look
from callosum.hosts.told import (
    Actor,
    Adapter,
    After,
    Answer,
    Before,
    Changed,
    Closed,
    Emitted,
    Ended,
    Heard,
    Place,
    Refused,
    Settled,
    Told,
    Wondering,
)
from callosum.model import Call, Decision, Host, Outcome, Verdict
from callosum.wire import Brief
from callosum.worktree import located

logger = logging.getLogger("callosum")

MAX_ACTORS: Final = 4096
"""Most actors whose calls are remembered; who was heard longest ago gives way."""
MAX_UNDERWAY: Final = 1000
"""Most calls of one actor that are remembered, oldest out first."""


class _Underway(NamedTuple):
    """A call that may run and is not reported. ``outcome`` is what the host told, where that could not be reported."""

    id: int
    tool: str
    inform: str
    outcome: Outcome | None = None


class _Calls:
    """What one actor has under way, by call id (or by tool and params), and in the background, by its name."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.open: OrderedDict[str, list[_Underway]] = OrderedDict()
        self.background: OrderedDict[str, _Underway] = OrderedDict()

    def add(self, identity: str, call: _Underway) -> None:
        calls = self.open.setdefault(identity, [])
        if not calls or calls[-1].id != call.id:  # an answer may be asked for twice
            calls.append(call)
        while len(self.open) > MAX_UNDERWAY:
            self.open.popitem(last=False)

    def take(self, identity: str) -> _Underway | None:
        waiting = self.open.get(identity)
        if not waiting:
            return None
        found = waiting.pop(0)
        if not waiting:
            del self.open[identity]
        return found

    def take_all(self, but: str) -> list[_Underway]:
        """All but those of one tool."""
        ended = [(identity, calls) for identity, calls in self.open.items() if calls[0].tool != but]
        for identity, _ in ended:
            del self.open[identity]
        return [call for _, calls in ended for call in calls]


class Dispatcher:
    """What the hook events of all sessions go through.

    ``brief`` tells an actor what the others do, ``emit`` hands an event to the corpus, ``changed`` looks at a settings
    file of the host and says why it may not take effect ("": it may), ``decided`` is told of each decision. Its courses
    may be driven from any thread: a long event is read beside the loop.
    """

    def __init__(
        self,
        courses: Courses,
        *,
        brief: Callable[[Actor, str | None], Brief],
        emit: Callable[[CorpusEvent], object],
        changed: Callable[[Adapter, str], str],
        decided: Callable[[Decision], object] = lambda _decision: None,
    ) -> None:
        self._courses = courses
        self._decided = decided
        self._look_at_change = changed
        self._brief = brief
        self._emit = emit
        self._actors: OrderedDict[tuple[str, str], _Calls] = OrderedDict()
        self._remembering = threading.Lock()
        """Around whatever is done with ``_actors`` and what is in it; never across a yield."""

    def handle(
        self, adapter: Adapter, payload: Mapping[str, Any], place: Place, host: Host | None = None
    ) -> Course[Mapping[str, Any]]:
        """Does what a hook event asks for, and returns what the hook prints.

        ``host`` is the host's process, on this machine, to which leases are tied. Raises ``ConfigError`` for a
        payload that says too little, and what the gate raises; what was told before that stands.
        """
        answer = Answer()
        for told in adapter.read(payload, place):
            answer = _joined(answer, (yield from self._heed(adapter, told, host)))
        return adapter.render(payload, answer)

    def retract(self, adapter: Adapter, payload: Mapping[str, Any], place: Place) -> Course[None]:
        """Takes back what an event opened, because its answer reached nobody: the host went on without it."""
        for told in adapter.read(payload, place):
            if isinstance(told, Before):
                call = told.call
                actor = Actor(instance=call.instance, session=call.session or "", namespace=call.namespace)
                with self._remembering:
                    found = self._calls(actor).take(call.call_id or _identity(call.tool, call.params))
                yield from self._report(actor, [found] if found else [], Outcome.CANCELLED)

    def _heed(self, adapter: Adapter, told: Told, host: Host | None) -> Course[Answer]:
        match told:
            case Before():
                return (yield from self._before(adapter, told.call, host))
            case After():
                return (yield from self._after(told))
            case Ended():
                with self._remembering:
                    mine = [self._calls(told.actor), *self._with_children(told.actor)]
                    found = [(calls.actor, calls.background.pop(told.background, None)) for calls in mine]
                for actor, ended in found:
                    yield from self._report(actor, [ended] if ended else [], told.outcome)
            case Closed():
                with self._remembering:
                    calls = self._calls(told.actor)
                    left = [call for id in told.calls if (call := calls.take(id)) is not None]
                yield from self._report(told.actor, left, told.outcome)
            case Settled():
                yield from self._settle(told)
            case Wondering():
                brief: Brief = yield Look(lambda: self._brief(told.actor, told.prompt))
                return Answer(inform=brief.text)
            case Heard():
                yield from self._heard(told.actor, told.what, told.details)
            case Changed():
                return (yield from self._changed(adapter, told))
            case Refused():
                details = {"tool": told.tool, "params": told.params, "reason": told.reason}
                yield from self._heard(told.actor, "refused call", details)
                return Answer(refuse=told.reason)
            case Emitted():
                self._emit(told.event)
        return Answer()

    def _before(self, adapter: Adapter, call: Call, host: Host | None) -> Course[Answer]:
        if host is not None:
            call = located(replace(call, host=host))  # a host of this machine, and so a folder of it
        decision = yield from self._courses.intercept(call)
        self._decided(decision)
        inform = (decision.warning or "") if decision.verdict is Verdict.WARN else ""
        if decision.proceed:
            actor = Actor(instance=call.instance, session=call.session or "", namespace=call.namespace)
            later = "" if adapter.informs_before else inform
            identity = call.call_id or _identity(call.tool, call.params)
            with self._remembering:
                self._calls(actor).add(identity, _Underway(decision.id, call.tool, later))
        return Answer(decision, inform if adapter.informs_before else "")

    def _after(self, told: After) -> Course[Answer]:
        actor = told.actor
        identity = told.call_id or _identity(told.tool, told.params)
        with self._remembering:
            calls = self._calls(actor)
            found = calls.take(identity)
            if found is not None and told.background:
                calls.background[told.background] = found
                while len(calls.background) > MAX_UNDERWAY:
                    calls.background.popitem(last=False)
        if found is not None and not told.background:
            try:
                yield from self._courses.complete(
                    actor.instance,
                    id=found.id,
                    result=told.result,
                    outcome=told.outcome,
                    session=actor.session,
                    namespace=actor.namespace,
                )
            except CallosumError:
                with self._remembering:  # no host tells it twice: it is reported with what is settled next
                    self._calls(actor).add(identity, found._replace(outcome=told.outcome))
                raise
        elif found is None and not told.background:
            yield from self._courses.complete(
                actor.instance,
                tool=told.tool,
                params=told.params,
                result=told.result,
                outcome=told.outcome,
                session=actor.session,
                namespace=actor.namespace,
            )
        return Answer(inform=found.inform if found is not None else "")

    def _changed(self, adapter: Adapter, told: Changed) -> Course[Answer]:
        reason: str = yield Look(lambda: self._look_at_change(adapter, told.path))
        if reason:
            yield from self._heard(told.actor, "refused settings", {"path": told.path, "reason": reason})
        return Answer(refuse=reason)

    def _heard(self, actor: Actor, what: str, details: Mapping[str, Any]) -> Course[None]:
        return self._courses.heard(actor.instance, what, details, session=actor.session, namespace=actor.namespace)

    def _settle(self, told: Settled) -> Course[None]:
        with self._remembering:
            ended = list(self._with_children(told.actor)) if told.all else [self._calls(told.actor)]
            left = [(calls.actor, calls.take_all(told.but)) for calls in ended]
            if told.all:
                left += [(calls.actor, [*calls.background.values()]) for calls in ended]
                for calls in ended:
                    self._actors.pop((calls.actor.namespace, calls.actor.name), None)
        for actor, unreported in left:
            yield from self._report(actor, unreported, told.outcome)

    def _with_children(self, actor: Actor) -> Iterator[_Calls]:
        """The actor's calls, and those of its sub-agents: their session is its own with a colon and more behind it."""
        for (namespace, name), calls in self._actors.items():
            if namespace == actor.namespace and (name == actor.name or name.startswith(f"{actor.name}:")):
                yield calls

    def _report(self, actor: Actor, calls: list[_Underway], outcome: Outcome) -> Course[None]:
        """Reports each, as the host told if it did; that one cannot be reported leaves the others their report."""
        for call in calls:
            try:
                yield from self._courses.complete(
                    actor.instance,
                    id=call.id,
                    outcome=call.outcome or outcome,
                    session=actor.session,
                    namespace=actor.namespace,
                )
            except CallosumError as error:
                logger.warning("%s: %s of %s was not settled: %s", actor.name, call.tool, call.id, error)

    def _calls(self, actor: Actor) -> _Calls:
        name = (actor.namespace, actor.name)
        calls = self._actors.get(name)
        if calls is None:
            calls = self._actors[name] = _Calls(actor)
            while len(self._actors) > MAX_ACTORS:
                self._actors.popitem(last=False)
        else:
            self._actors.move_to_end(name)
        return calls


def _joined(one: Answer, other: Answer) -> Answer:
    """What several words of one event come to."""
    decision: Decision | None = other.decision or one.decision
    return Answer(decision, "\n\n".join(filter(None, (one.inform, other.inform))), one.refuse or other.refuse)


def _identity(tool: str, params: Mapping[str, Any]) -> str:
    """What a call without an id is known by; no id of a host begins like it."""
    written = msgspec.json.encode([tool, params], order="deterministic")
    return f"={blake2b(written, digest_size=16).hexdigest()}"
