"""What is not over: actions with unknown outcome, open leases, and questions that wait for a person."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from callosum.journal import ENDS
from callosum.model import Entry, Event, Outcome, State, Tier, Verdict
from callosum.pages.action_lines import ActionLine, begun, ended, follow, line
from callosum.pages.totals import UNKNOWNS, cut

_SHOWN: Final = 20
HINT: Final = "These may or may not have happened; `callosum resolve ID --happened` (or `--not`) settles one:"


class UnfinishedActions:
    """Take the entries of a part of the journal, in order, and keep the actions that are not over at its end.

    Beyond ``UNKNOWNS`` actions the rest is left out.
    """

    def __init__(self) -> None:
        self._acts: dict[int, ActionLine] = {}

    def add(self, entry: Entry) -> None:
        """Take the next entry."""
        event, acts = entry.event, self._acts
        if event in (Event.INTERCEPT, Event.LOCK):
            verdict = entry.verdict or Verdict.ALLOW
            leased = event is Event.LOCK or (entry.tier or 0) >= Tier.HIGH
            if (verdict.proceed and leased) or verdict is Verdict.ASK:
                self._keep(entry.action or entry.seq, begun(entry))
        elif event in (Event.APPROVE, Event.DENY):
            acts.pop(entry.action, None)
        elif event in ENDS:
            act = acts.pop(entry.action, None)
            if entry.outcome is Outcome.UNKNOWN and entry.tier != Tier.NONE:
                self._keep(entry.action, ended(entry, late="") if act is None else act)
        if (act := acts.get(entry.action)) is not None and act.id != entry.seq:
            follow(act, entry)

    def _keep(self, id: int, act: ActionLine) -> None:
        act.id = id
        if len(self._acts) < UNKNOWNS:
            self._acts[id] = act

    def unknown(self, total: int) -> list[str]:
        """Return the ``total`` actions with unknown outcome as list items, the highest tier first."""
        unknown = sorted(self._in(State.UNKNOWN), key=lambda act: (-act.tier, act.id))
        return cut((f"{line(act, who=True)} (id `{act.id}`)" for act in unknown), _SHOWN, "action", total=total)

    def waiting(self) -> list[str]:
        """Return the open leases and unanswered questions as list items."""
        waiting = sorted((*self._in(State.ASKED), *self._in(State.OPEN)), key=lambda act: act.id)
        return cut((line(act, who=True, day=True) for act in waiting), _SHOWN, "action", total=len(waiting))

    def _in(self, state: State) -> Iterable[ActionLine]:
        return (act for act in self._acts.values() if act.state is state)
