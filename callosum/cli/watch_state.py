"""Hold what ``callosum watch`` shows: the sessions, and the calls that wait for a person. Uses no terminal."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from callosum.cli.shortid import short_of
from callosum.journal import shown_keys
from callosum.model import SECOND, Entry, Event, Holding, State, Status, Verdict
from callosum.policy.summary import journalled_call, summary_of

if TYPE_CHECKING:
    from callosum.gate import LocalGate

BACK: Final = 900 * SECOND
"""Microseconds of the journal that are read at the start."""
_MOST: Final = 200
"""Maximum number of sessions that are remembered."""
OVERRIDE: Final = 600.0
"""Seconds for which a person is offered to override a block."""


class _SessionActivity(Struct):
    """A session, summed up from its entries. Times are Unix seconds."""

    name: str
    last: float = 0.0
    calls: int = 0
    tool: str = ""
    key: str = ""
    verdict: Verdict | None = None
    summary: str = ""


class PendingCall(Struct, frozen=True):
    """A call that a person may approve or deny: one with an open question, or one blocked recently."""

    id: int
    instance: str
    tool: str
    tier: int
    key: str
    at: float
    verdict: Verdict
    warning: str = ""
    rule: str = ""
    params: Any = None

    @property
    def short(self) -> str:
        """Return the short id, for people."""
        return short_of(self.id)

    def facts(self) -> dict[str, Any]:
        """Return the facts passed to the ``notify`` command; ``event`` is ``approval`` or ``block``."""
        names = "id short instance tool tier key rule params warning at".split()
        event = "approval" if self.verdict is Verdict.ASK else "block"
        return {"event": event, **{name: getattr(self, name) for name in names}}


class WatchState:
    """Follows one namespace. ``update`` reads new entries; ``status`` is the gate's status at that time."""

    def __init__(self, gate: LocalGate, namespace: str) -> None:
        self._gate = gate
        self._namespace = namespace
        self.sessions: OrderedDict[str, _SessionActivity] = OrderedDict()
        self.waiting: OrderedDict[int, PendingCall] = OrderedDict()
        self.status: Status = gate.status(namespace=namespace)
        newest = gate.entries(limit=1, newest=True)
        self._after = 0
        if newest:
            self._after = max(0, newest[-1].seq - BACK)
        self._began = newest[-1].seq if newest else 0

    def update(self) -> list[PendingCall]:
        """Read the new entries; return the calls that began to wait for a person since the start."""
        fresh: list[PendingCall] = []
        while page := self._gate.entries(after=self._after, namespace=self._namespace):
            self._after = page[-1].seq
            for entry in page:
                self._take(entry)
                found = _waiting(entry)
                if found is not None:
                    self.waiting[found.id] = found
                    if entry.seq > self._began:
                        fresh.append(found)
        self.status = self._gate.status(namespace=self._namespace)
        self._forget(self.status.asked)
        return fresh

    def _take(self, entry: Entry) -> None:
        if entry.event in (Event.APPROVE, Event.DENY):
            self.waiting.pop(entry.action, None)
        if entry.event is not Event.INTERCEPT:
            return
        seen = self.sessions.setdefault(entry.session, _SessionActivity(entry.session))
        self.sessions.move_to_end(entry.session)
        seen.last, seen.calls = entry.seq / SECOND, seen.calls + 1
        seen.tool, seen.verdict = entry.tool, entry.verdict
        seen.key = next(iter(shown_keys(entry)), "")
        seen.summary = summary_of(journalled_call(entry.body), seen.key)
        if len(self.sessions) > _MOST:
            self.sessions.popitem(last=False)

    def _forget(self, asked: tuple[Holding, ...]) -> None:
        """Drop calls that are settled; add open questions that are older than the entries read at the start."""
        open_ = {holding.id: holding for holding in asked}
        now = time.time()
        for id, waiting in list(self.waiting.items()):
            if waiting.verdict is Verdict.ASK:
                gone = id not in open_ or self._settled(id)
            else:
                gone = now - waiting.at > OVERRIDE or self._settled(id)
            if gone:
                del self.waiting[id]
        for id in open_:
            if id not in self.waiting and not self._settled(id):
                found = next(map(_waiting, self._gate.entries(after=id - 1, limit=1)), None)
                if found is not None and found.id == id:
                    self.waiting[id] = found

    def _settled(self, id: int) -> bool:
        action = self._gate.store.action(self._namespace, id)
        return action is None or action.approved != 0 or action.state is not State.ASKED


def _waiting(entry: Entry) -> PendingCall | None:
    """Return the call of an entry that a person may settle: a new question or a block; None for others."""
    if entry.event is not Event.INTERCEPT or entry.verdict not in (Verdict.ASK, Verdict.BLOCK):
        return None
    if entry.verdict is Verdict.ASK and entry.action != entry.seq:
        return None  # a repeated call whose question is still open
    return PendingCall(
        entry.seq,
        entry.session,
        entry.tool,
        entry.tier or 0,
        next(iter(shown_keys(entry)), ""),
        entry.seq / SECOND,
        entry.verdict,
        f"{entry.body.get('warning', '')}{entry.body.get('details', '')}",
        entry.rule,
        entry.body.get("params"),
    )
