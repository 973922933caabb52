"""What happened in the last day, kept up to date from the journal: actions, sessions, and pauses and how they ended."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from callosum.journal import ENDS, EntryFilter, Journal, is_canary, shown_keys
from callosum.model import HOUR, MINUTE, SECOND, Entry, Event, Outcome, State, Verdict
from callosum.regions.learning.endings import Ending, EndingTracker

BACK: Final = 24 * HOUR
"""Span of a picture, in microseconds."""
MOST: Final = 200_000
"""Maximum number of actions in a picture."""
_SESSIONS: Final = 2000
_HELD: Final = 5000
"""Maximum number of calls that are kept for a person; questions are dropped last."""
_NAMES: Final = 10_000
"""Number of cached texts beyond those of the actions, before unused ones are dropped."""
_ENDINGS: Final = 20_000
OPEN_PAUSE: Final = 15 * MINUTE
"""How long a pause that was not repeated is shown to a person."""
OPEN_BLOCK: Final = HOUR
"""How long a block is offered to a person."""
_BRIEFLY: Final = 50_000
"""How long an action without a report counts as running, in microseconds."""


class Bar(Struct, gc=False):
    """An action in a session's lane. Moments are in microseconds; ``end`` 0: it still runs. ``key`` is its first."""

    id: int
    session: str
    tool: str
    tier: int
    verdict: Verdict
    state: State
    begin: int
    end: int
    key: str
    met: tuple[int, ...] = ()


class RecentSession(Struct):
    """A session: when it was last active, its number of calls, and its newest action."""

    name: str
    last: int = 0
    calls: int = 0
    newest: Bar | None = None
    worktree: str = ""


class Picture:
    """The last day of one namespace. ``update`` reads new entries. Use it from one thread at a time."""

    def __init__(self, journal: Journal, namespace: str) -> None:
        self.namespace = namespace
        self.bars: OrderedDict[int, Bar] = OrderedDict()
        self.sessions: OrderedDict[str, RecentSession] = OrderedDict()
        self.held: OrderedDict[int, Entry] = OrderedDict()
        """Calls that did not run and were not made again since, by the id of their entry."""
        self.endings: deque[Ending] = deque(maxlen=_ENDINGS)
        self._journal = journal
        self._endings = EndingTracker()
        self._places: dict[tuple[str, str, str], int] = {}
        self._names: dict[str, str] = {}
        self.upto = 0
        """``seq`` of the newest entry that was read."""

    def update(self) -> bool:
        """Read the new entries; return True if there were any. Raises ``StoreError``."""
        before = self.upto
        now = self._journal.store.now()
        wanted = EntryFilter(namespace=self.namespace, since=0 if before else max(0, now - BACK))
        for entry in self._journal.read(wanted, after=before):
            if not is_canary(entry):
                self._take(entry)
            self.upto = entry.seq
        self.endings.extend(self._endings.pass_time(now))
        self._forget(now)
        return self.upto != before

    # --- Update ---

    def _take(self, entry: Entry) -> None:
        self.endings.extend(self._endings.feed(entry))
        event = entry.event
        if event in (Event.INTERCEPT, Event.LOCK, Event.LATE):
            self._begun(entry)
        elif event is Event.APPROVE or event is Event.DENY:
            self.held.pop(entry.action, None)
        elif event in ENDS and (bar := self.bars.get(entry.action)) is not None and bar.verdict.proceed:
            bar.state = State((entry.outcome or Outcome.DONE).value)
            bar.end = entry.seq

    def _begun(self, entry: Entry) -> None:
        verdict, tier = entry.verdict or Verdict.ALLOW, entry.tier or 0
        name = self._name(entry.session)
        key = self._name(next(iter(shown_keys(entry)), ""))
        leased = verdict.proceed and (tier > 2 or entry.event is Event.LOCK)
        over = entry.event is Event.LATE or not leased
        conflicts = entry.body.get("conflicts") or ()
        bar = Bar(
            entry.seq,
            name,
            self._name(entry.tool),
            tier,
            verdict,
            State.OPEN if leased else State.DONE if verdict.proceed else State.ASKED,
            entry.seq,
            entry.seq + _BRIEFLY if over else 0,
            key,
            tuple(one["id"] for one in conflicts if isinstance(one, dict) and isinstance(one.get("id"), int)),
        )
        if entry.event is Event.LATE and entry.outcome is not None:
            bar.state = State(entry.outcome.value)
        self.bars[entry.seq] = bar
        seen = self.sessions.get(name)
        if seen is None:
            seen = self.sessions[name] = RecentSession(name)
        self.sessions.move_to_end(name)
        seen.last, seen.newest = entry.seq, bar
        seen.calls += 1
        worktree = entry.body.get("worktree")
        if isinstance(worktree, dict) and isinstance(worktree.get("root"), str):
            seen.worktree = self._name(worktree["root"])
        elif isinstance(cwd := entry.body.get("cwd"), str):
            seen.worktree = seen.worktree or self._name(cwd)
        place = (name, bar.tool, key)
        if verdict is Verdict.ASK and not entry.action:
            return  # the question was put before, and still waits
        earlier = self._places.pop(place, None)
        if earlier is not None:
            self.held.pop(earlier, None)  # the call was repeated: the newer entry replaces this one
        if not verdict.proceed:
            self.held[entry.seq] = entry
            self._places[place] = entry.seq

    def _name(self, text: str) -> str:
        return self._names.setdefault(text, text)

    def _forget(self, now: int) -> None:
        while self.bars and (len(self.bars) > MOST or next(iter(self.bars)) < now - BACK):
            self.bars.popitem(last=False)
        while len(self.sessions) > _SESSIONS or (
            self.sessions and next(iter(self.sessions.values())).last < now - BACK
        ):
            self.sessions.popitem(last=False)
        for id, entry in list(self.held.items()):
            lasts = {Verdict.CONFIRM: OPEN_PAUSE, Verdict.ASK: BACK}.get(entry.verdict or Verdict.ASK, OPEN_BLOCK)
            if entry.seq + lasts < now:
                del self.held[id]
        while len(self.held) > _HELD:
            del self.held[
                next((id for id, entry in self.held.items() if entry.verdict is not Verdict.ASK), next(iter(self.held)))
            ]
        if len(self._names) > 4 * len(self.bars) + _NAMES:
            kept = [text for bar in self.bars.values() for text in (bar.session, bar.tool, bar.key)]
            self._names = {text: text for text in [*kept, *(seen.worktree for seen in self.sessions.values())]}
        if len(self._places) > 4 * len(self.held) + 1000:
            self._places = {place: id for place, id in self._places.items() if id in self.held}

    # --- Queries ---

    def between(self, begin: int, end: int) -> Iterator[Bar]:
        """Yield the actions that ran in a span, oldest first."""
        for bar in self.bars.values():
            if bar.begin > end:
                return
            if (bar.end or end) >= begin:
                yield bar


def seconds(moment: int) -> float:
    """Return a moment in Unix seconds."""
    return moment / SECOND
