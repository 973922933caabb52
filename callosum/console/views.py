"""What each page shows: plain data for its template, read through the gate's own operations."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import islice
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from callosum import standing
from callosum.console.coverage import Coverage
from callosum.console.lanes import Lanes, draw
from callosum.console.picture import BACK, Bar, Picture, RecentSession
from callosum.console.rates import Ended, rates
from callosum.corpus.bus import Corpus
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.gate.records import commitments_of
from callosum.journal import EntryFilter, Journal, is_canary, shown_keys
from callosum.model import HOUR, SECOND, Entry, Event, Holding, State, Status, Verdict
from callosum.pages.action_lines import ActionLine, begun, follow, without_spellings
from callosum.policy.summary import journalled_call, summary_of
from callosum.regions.learning.endings import Ending, EndingTracker
from callosum.regions.search import Cortex
from callosum.retrospect import Like, Suggestion, Trial, like, suggest_from, try_rules
from callosum.rules import StandingApproval

if TYPE_CHECKING:
    from callosum.server.metrics import DecisionTimes

P = ParamSpec("P")
R = TypeVar("R")

WEEK: Final = 7 * 24 * HOUR
LATER: Final = 900.0
"""Seconds for which a postponed call is hidden."""
_LISTED: Final = 200
_SCANNED: Final = 5000
_HITS: Final = 50
_SHOWN: Final = 50
_OF_ONE: Final = 20
"""Maximum number of calls of one session that are shown at once: a session that floods the page hides only its own."""
_CARDS: Final = 200
_ENDINGS: Final = 50_000
"""Maximum number of endings that are read for spans of more than a day."""
_EXAMINED: Final = 5000
"""Number of newest endings that are searched for rules to suggest."""
_KEEPS: Final = 300.0
"""Seconds for which the endings of more than a day are cached."""
_MINUTE: Final = 60.0
_TRIED: Final = 20_000
"""Number of journalled calls on which a standing approval is tried."""
_PLAYED: Final = 1000
"""Maximum number of calls sharing a key with those that are played again."""
_LISTED_LIKE: Final = 20
"""Number of calls that are listed for each difference that a standing approval makes."""
_SHARED: Final = 1.0
"""Seconds for which the gate's status is shared while nothing is journalled; leases expire by time alone."""
_SAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "ask": {"approve": "Approve", "deny": "Refuse"},
    "block": {"approve": "Let it run once", "deny": "Refuse"},
    "confirm": {},
    "unknown": {"happened": "It happened", "not": "It did not happen"},
}
_ACTING: Final = 20 * SECOND
"""How long after its newest call a session counts as acting."""


class Waiting(Struct, frozen=True, kw_only=True):
    """Something that waits for a person. ``sort`` is ``ask``, ``block``, ``confirm`` or ``unknown``.

    ``digest`` covers everything that is shown of it: an answer with another digest is refused.
    """

    id: int
    sort: str
    session: str
    tool: str
    tier: int
    at: float
    keys: tuple[str, ...]
    what: str
    rule: str = ""
    purpose: str = ""
    warning: str = ""
    params: str = ""
    place: str = ""
    conflicts: tuple[Mapping[str, Any], ...] = ()
    like: bool = False
    """True if similar calls can be approved beforehand."""
    digest: str = ""

    @property
    def says(self) -> Mapping[str, str]:
        """Return the possible answers, each with the text of its button."""
        return {**_SAYS[self.sort], "like": "Approve similar calls"} if self.like else _SAYS[self.sort]


class Standing(Struct, frozen=True):
    """A standing approval; ``counts`` is False if the rule that it was given under has changed."""

    approval: StandingApproval
    counts: bool


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session as the list shows it. ``state`` is ``acting``, ``person``, ``queue`` or ``quiet``.

    ``needs`` is the number of its calls that wait for a person. ``depth`` is 1 for a sub-agent, which is listed below
    its parent.
    """

    name: str
    state: str
    last: float
    calls: int
    newest: Bar | None
    holds: tuple[str, ...]
    worktree: str
    needs: int
    depth: int = 0


class Group(Struct, frozen=True):
    """Sessions that share a worktree."""

    worktree: str
    sessions: tuple[SessionRow, ...]


def _in_turn(look: Callable[Concatenate[Views, P], R]) -> Callable[Concatenate[Views, P], R]:
    """Let one thread at a time read or update the picture."""

    @wraps(look)
    def looked(self: Views, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self._turn:
            return look(self, *arguments, **named)

    return looked


class Views:
    """The pages of one namespace. Each method reads, and is called in a thread beside the loop."""

    def __init__(
        self,
        gate: LocalGate,
        namespace: str,
        clock: Callable[[], float] = time.time,
        took: Callable[[], DecisionTimes | None] = lambda: None,
    ) -> None:
        """Create the views. ``took`` returns how long decisions took, if that is measured."""
        self.namespace = namespace
        self._took = took
        self._suggested: tuple[float, int, list[Suggestion]] | None = None
        self._told: dict[int, tuple[float, list[Ending]]] = {}
        self.gate = gate
        self.journal = Journal(gate.store, gate.settings.state)
        self.picture = Picture(self.journal, namespace)
        self.later: dict[int, float] = {}
        """Calls that a person postponed, and until when in Unix seconds."""
        self._coverage = Coverage(gate.settings)
        self._parents: dict[str, str] = {}
        self._clock = clock
        self._turn = RLock()
        self._kept: dict[int, Waiting] = {}
        """Waiting calls as they were read: their entries never change."""
        self._asked = (-1, 0.0)
        self._status: Status

    @_in_turn
    def update(self) -> bool:
        """Read new journal entries; return True if there were any."""
        return self.picture.update()

    def put_off(self, id: int) -> None:
        """Hide a call for a quarter of an hour."""
        now = self._clock()
        self.later = {one: until for one, until in self.later.items() if until > now}
        self.later[id] = now + LATER

    # --- Waiting calls ---

    @_in_turn
    def waiting(self) -> Mapping[str, Any]:
        """Return everything that waits for a person, oldest first, and the postponed calls separately."""
        found = self.all_waiting()
        now = self._clock()
        shown: list[Waiting] = []
        off: list[Waiting] = []
        counts: Counter[str] = Counter()
        more: Counter[str] = Counter()
        sorts: Counter[str] = Counter(dict.fromkeys(_SAYS, 0))
        for one in found:
            counts[one.session] += 1
            put_off = self.later.get(one.id, 0) > now
            sorts[one.sort] += not put_off
            if counts[one.session] > _OF_ONE or len(shown) + len(off) >= _CARDS:
                more[one.session] += 1
            else:
                (off if put_off else shown).append(one)
        return {
            "waiting": shown,
            "later": off,
            "more": more,
            "count": sorts.total() - sorts["confirm"],
            "sorts": {sort: number for sort, number in sorts.items() if number},
        }

    def all_waiting(self) -> list[Waiting]:
        """Return everything that waits for a person, oldest first."""
        status = self.status()
        asked = {one.id for one in status.asked}
        found = []
        for id, entry in self.picture.held.items():
            if entry.verdict is Verdict.ASK and id not in asked:
                continue  # it was answered, or has lapsed
            found.append(self._kept.get(id) or self._held(id, entry))
        found += [self._kept.get(one.id) or self._unknown(one) for one in status.unknown]
        self._kept = {one.id: one for one in found}
        return sorted(found, key=lambda one: (one.at, one.id))

    @_in_turn
    def find(self, id: int) -> Waiting | None:
        """Return what waits under this id; None if nothing does any more."""
        one = next((one for one in self.all_waiting() if one.id == id), None)
        return None if one is None or (one.sort == "block" and not self._is_open(id)) else one

    def status(self) -> Status:
        """Return the gate's status; pages made at the same moment share one."""
        now = self._clock()
        if self._asked[0] != self.picture.upto or now - self._asked[1] > _SHARED:
            self._asked = (self.picture.upto, now)
            self._status = self.gate.status(namespace=self.namespace)
        return self._status

    def _is_open(self, id: int) -> bool:
        action = self.gate.store.action(self.namespace, id)
        return action is not None and action.approved == 0 and action.state is State.ASKED

    def _held(self, id: int, entry: Entry) -> Waiting:
        body, keys = entry.body, shown_keys(entry)
        kept = journalled_call(body)
        conflicts = body.get("conflicts") or ()
        return _sealed(
            Waiting(
                id=id,
                sort=str(entry.verdict or Verdict.ASK),
                session=entry.session,
                tool=entry.tool,
                tier=entry.tier or 0,
                at=entry.seq / SECOND,
                keys=without_spellings(keys),
                what=summary_of(kept, next(iter(keys), "")),
                rule=entry.rule,
                purpose=kept.purpose,
                warning=f"{body.get('warning', '')}{body.get('details', '')}",
                params=_params(body.get("params")),
                place=_place(body),
                conflicts=tuple(one for one in conflicts if isinstance(one, Mapping)),
                like=like(entry, self.gate.rules.current()) is not None,
            )
        )

    def _unknown(self, held: Holding) -> Waiting:
        entry = self.journal.entry(held.id)
        if entry is None:
            keys = (held.context_key,) if held.context_key else ()
            return _sealed(
                Waiting(
                    id=held.id,
                    sort="unknown",
                    session=held.instance,
                    tool=held.tool,
                    tier=held.tier,
                    at=held.at,
                    keys=keys,
                    what=held.summary,
                )
            )
        return _sealed(
            msgspec.structs.replace(self._held(held.id, entry), sort="unknown", conflicts=(), warning="", like=False)
        )

    # --- Sessions ---

    @_in_turn
    def sessions(self) -> Mapping[str, Any]:
        """Return all sessions of the last day by worktree, the newest first."""
        status, now = self.status(), self._clock()
        holds: dict[str, list[str]] = {}
        for one in status.locks:
            holds.setdefault(one.instance, []).append(one.context_key or one.tool)
        needs = Counter(one.session for one in self.all_waiting() if one.sort != "confirm")
        queued = {one.instance for one in status.waiting}
        groups: dict[str, list[SessionRow]] = {}
        for seen, depth in self._by_parent():
            stopped = seen.newest is not None and seen.newest.verdict in (Verdict.ASK, Verdict.BLOCK)
            if stopped and needs[seen.name]:  # it made no other call since
                state = "person"
            elif seen.name in queued:
                state = "queue"
            else:
                state = "acting" if seen.name in holds or now - seen.last / SECOND < _ACTING / SECOND else "quiet"
            lane = SessionRow(
                name=seen.name,
                state=state,
                last=seen.last / SECOND,
                calls=seen.calls,
                newest=seen.newest,
                holds=tuple(holds.get(seen.name, ())),
                worktree=seen.worktree,
                needs=needs[seen.name],
                depth=depth,
            )
            groups.setdefault(seen.worktree, []).append(lane)
        shared = [Group(tree, tuple(lanes)) for tree, lanes in groups.items() if tree and len(lanes) > 1]
        alone = [lane for tree, lanes in groups.items() if not tree or len(lanes) == 1 for lane in lanes]
        return {
            "held": sorted((one for one in status.locks if one.context_key), key=lambda one: one.at)[:_SHOWN],
            "groups": shared,
            "alone": alone,
            "hosts": self._coverage.hosts(),
            "states": Counter(lane.state for lanes in groups.values() for lane in lanes),
        }

    def _by_parent(self) -> list[tuple[RecentSession, int]]:
        """Return the sessions, the newest first, each sub-agent below its parent."""
        sessions = self.picture.sessions
        if len(self._parents) > 2 * len(sessions) + 1000:
            self._parents = {name: parent for name, parent in self._parents.items() if name in sessions}
        below: dict[str, list[RecentSession]] = {}
        for seen in reversed(sessions.values()):
            if seen.name not in self._parents:
                self._parents[seen.name] = self.gate.store.kin(self.namespace, seen.name).parent
            parent = self._parents[seen.name]
            below.setdefault(parent if parent in sessions else "", []).append(seen)
        found: list[tuple[RecentSession, int]] = []

        def add(parent: str, depth: int) -> None:
            for seen in below.pop(parent, ()):
                found.append((seen, depth))
                add(seen.name, 1)

        add("", 0)
        for parent in list(below):  # sessions that are each other's parents are listed by themselves
            add(parent, 0)
        return found

    # --- Lanes ---

    @_in_turn
    def lanes(self, span: float, end: float) -> Mapping[str, Any]:
        """Return the lanes of a span of seconds that ends at ``end`` (0: now), laid out."""
        until = int((end or self._clock()) * SECOND)
        begin = until - int(span * SECOND)
        drawn: Lanes = draw(list(self.picture.between(begin, until)), begin, until)
        return {"lanes": drawn, "span": span, "end": end, "begins": begin / SECOND, "ends": until / SECOND}

    # --- Conflicts ---

    def conflicts(self, span: int) -> Mapping[str, Any]:
        """Return how the conflicts of a span of seconds ended, by rule and kind and over time, and what to change then.

        The newest, those still open and the standing approvals are included.
        """
        now = self._clock()
        since = int(now * SECOND) - span * SECOND
        endings = self._endings(span, now)
        with self._turn:
            held = [self._kept.get(id) or self._held(id, entry) for id, entry in self.picture.held.items()]
        newest = [one for one in reversed(endings) if "." not in one.how]
        return {
            "rates": rates(endings, since, int(now * SECOND)),
            "newest": newest[:_SHOWN],
            "open": [one for one in held if one.conflicts],
            "suggestions": self._suggestions(span, endings, now),
            "standing": self.standing(),
            "span": span,
        }

    def _endings(self, span: int, now: float) -> list[Ending]:
        """Return the endings of the last ``span`` seconds: of a day from the picture, otherwise read and cached."""
        since = int(now * SECOND) - span * SECOND
        if span * SECOND <= BACK:
            with self._turn:
                return [one for one in self.picture.endings if one.at >= since]
        kept = self._told.get(span)
        if kept is None or now - kept[0] > _KEEPS:
            endings = EndingTracker()
            found: deque[Ending] = deque(maxlen=_ENDINGS)
            for entry in self.journal.read(EntryFilter(namespace=self.namespace, since=since)):
                found.extend(endings.feed(entry))
            found.extend(endings.pass_time(int(now * SECOND)))
            kept = self._told[span] = (now, list(found))
        return kept[1]

    def _suggestions(self, span: int, endings: list[Ending], now: float) -> list[Suggestion]:
        """Return the suggestions of ``callosum rules suggest`` for these endings, recomputed once a minute."""
        kept = self._suggested
        if kept is None or kept[1] != span or now - kept[0] > _MINUTE:
            made = suggest_from(endings[-_EXAMINED:], self.gate.rules.current())
            kept = self._suggested = (now, span, made)
        return kept[2]

    # --- Standing approvals ---

    def standing(self) -> list[Standing]:
        """Return the standing approvals that have not ended, the newest first."""
        counting = {one.id for one in self.gate.rules.current().standing}
        try:
            found = standing.read(standing.path_of(self.gate.settings.state))
        except ConfigError:
            return []  # the log says why, and nothing is approved
        now = self._clock()
        return [Standing(one, one.id in counting) for one in sorted(found, key=lambda one: -one.at) if one.until > now]

    def like(self, id: int) -> Like | None:
        """Return what can be approved for calls like a waiting one; None if nothing can."""
        self.gate.rules.reload()
        with self._turn:
            entry = self.picture.held.get(id)
        return like(entry, self.gate.rules.current()) if entry is not None else None

    def try_standing(self, approval: StandingApproval) -> Trial:
        """Return what a standing approval would have changed for the calls of the last week, in all namespaces."""
        rules = self.gate.rules.current()
        others = [one for one in rules.standing if one.id != approval.id]
        with self._turn:
            newest = list(islice(reversed(self.picture.bars), _TRIED))
        since = int(self._clock() * SECOND) - WEEK
        if len(newest) == _TRIED:
            since = newest[-1]
        return try_rules(
            lambda: self.journal.read(EntryFilter(since=max(0, since - HOUR))),
            rules.with_standing(others),
            rules.with_standing((*others, approval)),
            since=since,
            most=_PLAYED,
            examples=_LISTED_LIKE,
        )

    # --- One key, one action ---

    def key(self, name: str) -> Mapping[str, Any]:
        """Return the holders of a key, the commitments on it, and the actions that touched it."""
        status = self.gate.status(name, namespace=self.namespace)
        commitments = commitments_of(self.gate.store, self.namespace, name)
        entries = self.gate.entries(key=name, namespace=self.namespace, limit=_LISTED, newest=True)
        return {"key": name, "status": status, "commitments": commitments, "acts": _acts(entries)}

    @_in_turn
    def action(self, id: int) -> Mapping[str, Any] | None:
        """Return the whole history of an action; None if there is none with this id."""
        first = self.journal.entry(id)
        if first is None or first.namespace != self.namespace:
            return None
        entries = [first]
        wanted = EntryFilter(namespace=self.namespace, session=first.session, since=id + 1)
        for count, entry in enumerate(self.journal.read(wanted)):
            if entry.action == id:
                entries.append(entry)
            if count > _SCANNED:
                break
        act = next(iter(_acts(entries)), None)
        waiting = self.find(id)
        return {
            "act": act,
            "first": first,
            "id": id,
            "keys": shown_keys(first),
            "kept": journalled_call(first.body),
            "params": _params(first.body.get("params")),
            "place": _place(first.body),
            "warning": f"{first.body.get('warning', '')}{first.body.get('details', '')}",
            "conflicts": first.body.get("conflicts") or (),
            "entries": entries,
            "waiting": waiting,
        }

    def search(self, words: str) -> Mapping[str, Any]:
        """Return the hits for the words, best first. Raises ``ConfigError`` for words that cannot be searched."""
        if not words.strip():
            return {"words": "", "hits": ()}
        with Corpus() as corpus:
            cortex = Cortex(corpus, store=self.gate.store, state=self.gate.settings.state)
            cortex.index()
            hits = cortex.search(words, limit=_HITS, namespace=self.namespace)
        return {"words": words, "hits": hits}

    # --- Report ---

    def report(self) -> Mapping[str, Any]:
        """Return what was prevented in the last seven days, with the evidence, and what that cost."""
        since = int(self._clock() * SECOND) - WEEK
        counts: Counter[str] = Counter()
        stopped: list[Entry] = []
        endings = EndingTracker()
        ended = Ended()
        for entry in self.journal.read(EntryFilter(namespace=self.namespace, since=since)):
            ended.add(endings.feed(entry))
            if entry.event is not Event.INTERCEPT or is_canary(entry):
                continue
            counts["calls"] += 1
            verdict = str(entry.body.get("observed") or entry.verdict or "")
            counts[verdict] += 1
            if verdict in ("confirm", "ask", "block"):
                stopped.append(entry)
                del stopped[:-_LISTED]
        ended.add(endings.pass_time(int(self._clock() * SECOND)))
        return {
            "counts": counts,
            "stopped": _acts(list(reversed(stopped))),
            "ended": ended,
            "prevented": ended.prevented(_SHOWN),
            "took": self._took(),
        }


def _sealed(one: Waiting) -> Waiting:
    seal = hashlib.sha256(msgspec.json.encode(one)).hexdigest()[:32]
    return msgspec.structs.replace(one, digest=seal)


def _params(params: Any) -> str:
    if not params:
        return ""
    return msgspec.json.format(msgspec.json.encode(params), indent=2).decode()


def _place(body: Mapping[str, Any]) -> str:
    worktree = body.get("worktree")
    root = worktree.get("root") if isinstance(worktree, Mapping) else None
    place = root or body.get("cwd")
    return place if isinstance(place, str) else ""


def _acts(entries: list[Entry]) -> list[ActionLine]:
    """Return the actions that the entries are about, in their order."""
    found: dict[int, ActionLine] = {}
    for entry in entries:
        if entry.event in (Event.INTERCEPT, Event.LOCK, Event.LATE):
            found[entry.seq] = begun(entry)
            found[entry.seq].id = entry.seq
        elif entry.action in found:
            follow(found[entry.action], entry)
    return list(found.values())
