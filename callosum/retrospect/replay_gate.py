"""A gate under one set of rules, in which recorded calls are made again at their recorded time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from callosum import wire
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.journal import shown_keys
from callosum.model import Applied, Call, Decision, Entry, Event, Outcome, Verdict
from callosum.policy.evidence import horizon
from callosum.policy.marks import PAUSE_SPAN
from callosum.rulebook import Rulebook
from callosum.rules import RuleSet
from callosum.settings import Settings
from callosum.stores.base import Request
from callosum.stores.sqlite import SqliteStore

_FOLLOWED: Final = 50_000
"""Most actions without an outcome that are remembered."""
_ENDS: Final = frozenset({Event.COMPLETE, Event.LAPSE})


class _Store(SqliteStore):
    """A store that need not survive a power cut."""

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        return super().transact([(replace(scope, durable=False), step) for scope, step in requests])


class _Book(Rulebook):
    """Rules that no file changes."""

    def __init__(self, rules: RuleSet) -> None:
        super().__init__(None)
        self._rules = rules

    def current(self) -> RuleSet:
        return self._rules


class _Gate(LocalGate):
    """A gate that keeps its journal in one place and does not look at the disk, whose state then is unknown."""

    located = staticmethod(lambda call: call)
    here = False

    def require_person(self, what: str) -> tuple[str, ...]:  # noqa: ARG002 - nobody waits for what is settled here
        return ()

    def upkeep(self) -> None:
        self.store.maintain(horizon(self.store.now(), self.rules.current().longest_window))


class ReplayGate:
    """A gate under one set of rules in which the recorded calls are made."""

    def __init__(self, folder: Path, rules: RuleSet) -> None:
        self._now = 0
        store = _Store(folder / "gate.db", clock=lambda: self._now, probe=lambda _: None)
        self._gate = _Gate(settings=Settings(state=folder, journal_params="none"), store=store, rules=_Book(rules))
        self._gate.operations.refused = None
        self._ids: OrderedDict[int, int] = OrderedDict()
        """The action here, by recorded action."""
        self._ran: OrderedDict[tuple[str, str, str, str], tuple[int, int]] = OrderedDict()
        """Calls that were really stopped but ran here: the moment and the action."""
        self._stopped: OrderedDict[tuple[str, str, str, str], int] = OrderedDict()
        """Calls that were stopped here: the id of the decision."""

    def close(self) -> None:
        self._gate.close()

    def ask(self, call: Call, entry: Entry) -> Decision | None:
        """Return this gate's decision for a recorded call; None if it refuses the call.

        Earlier calls count as ``trial`` describes under "History".
        """
        self._now = max(self._now, entry.seq)
        place = (call.namespace, call.instance, call.tool, (*shown_keys(entry), "")[0])
        happened = entry.verdict is not None and entry.verdict.proceed
        earlier = self._ran.pop(place, None) if happened else None
        if earlier is not None and entry.seq - earlier[0] < PAUSE_SPAN:
            _keep(self._ids, entry.action, earlier[1])
            return SPARED
        try:
            decision = self._gate.handle(replace(call, after=self._stopped.pop(place, None)))
            if decision.proceed:
                self._let_through(decision.id, entry, place, happened=happened)
            elif happened:
                self._force(call, decision, entry)
            else:
                _keep(self._stopped, place, decision.id)
        except ConfigError:
            return None
        return decision

    def _let_through(self, id: int, entry: Entry, place: tuple[str, str, str, str], *, happened: bool) -> None:
        if happened:
            _keep(self._ids, entry.action, id)
            return
        self._gate.complete(entry.session, id=id, outcome=Outcome.DONE, namespace=entry.namespace)
        _keep(self._ran, place, (entry.seq, id))

    def _force(self, call: Call, decision: Decision, entry: Entry) -> None:
        """Make a call run that really ran: confirmed by its session, else approved by a person."""
        for number in range(2):
            if number or decision.verdict is not Verdict.CONFIRM:
                self._gate.approve(decision.id, namespace=call.namespace)
            decision = self._gate.handle(replace(call, call_id=f"{call.call_id}-{number}", after=decision.id))
            if decision.proceed:
                _keep(self._ids, entry.action, decision.id)
                return

    def lock(self, entry: Entry) -> None:
        """Take a lock that was recorded."""
        self._now = max(self._now, entry.seq)
        for name in shown_keys(entry)[:1]:
            tier = entry.tier or 3
            taken = self._gate.handle(
                wire.Lock(instance=entry.session, context_key=name, tier=tier, namespace=entry.namespace)
            )
            if taken.id is not None:
                _keep(self._ids, entry.action, taken.id)

    def go_on(self, entry: Entry) -> None:
        """Apply a recorded report to an action that also runs here."""
        id = self._ids.get(entry.action)
        if id is None:
            return
        self._now = max(self._now, entry.seq)
        if entry.event is Event.RESOLVE:
            self._gate.resolve(id, happened=entry.outcome is Outcome.DONE, namespace=entry.namespace)
        elif entry.event is Event.RENEW:
            self._gate.renew(entry.session, id, namespace=entry.namespace)
        elif entry.event is Event.RELEASE:
            for name in shown_keys(entry)[:1]:
                self._gate.handle(wire.ReleaseAt(instance=entry.session, context_key=name, namespace=entry.namespace))
        elif entry.event in _ENDS:
            lost = entry.event is Event.LAPSE
            outcome = entry.outcome or (Outcome.UNKNOWN if lost else Outcome.DONE)
            self._gate.complete(entry.session, id=id, outcome=outcome, namespace=entry.namespace)
            if not lost:
                del self._ids[entry.action]


SPARED: Final = Decision(True, 0, None, 0, Verdict.ALLOW, (), "", repeated=True)
"""The decision for a repeat that would not have happened."""


def _keep(kept: OrderedDict[Any, Any], place: Any, value: Any) -> None:
    kept[place] = value
    if len(kept) > _FOLLOWED:
        kept.popitem(last=False)
