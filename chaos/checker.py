"""What must hold of a history, of the remaining journal, and of what the leases guarded. Pure functions.

The checker is sound: a violation that it reports has really happened, whatever the machine did in between.

* A lease is **surely held** from the moment its answer was read until its end was first requested, or until its time
  has run out, counted from before it was requested. Whenever the store really granted it and really ended it, the lease
  was live all that time. So two leases that exclude one another and are surely held at one moment were both live then.
* A request without an answer may or may not have been carried out. It proves nothing about other sessions, so it makes
  no interval; if it ends something, it ends it as early as possible.
* Whether an order of grants and ends exists that fits all answers (linearizability of a lock) is a question of
  neighbours only: in the order of tokens, each lease must be able to end before the next one's grant is known. The
  first two rules check this together: intervals that do not overlap, and tokens in the order of time.

The journal claims to be that order. A small interpreter replays it. It knows what an entry does to a lease and nothing
of how the gate decides, so it also judges what no worker saw.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from callosum.model import Entry, Outcome
from callosum.model import Event as Did
from callosum.policy.checkouts import CHANGES
from chaos.history import Event
from chaos.resource import Written

_NS: Final = 1_000_000_000
_US: Final = 1_000_000
SLACK: Final = 0.05
"""Seconds by which two clocks of one machine may differ about the length of a lease."""
_ENDINGS: Final = frozenset({Did.COMPLETE, Did.RELEASE, Did.RESOLVE})
_ENTERED: Final = frozenset({Did.INTERCEPT, Did.LATE})
_LEASED: Final = 3
"""The lowest tier whose actions hold a lease."""


class Promise(Struct, frozen=True, kw_only=True):
    """What the store under test promises.

    ``ttl`` is the length of every lease in seconds. Decisions of ``tier`` and above are never lost once answered (0:
    none is); with ``reports`` the same holds for their reports. ``clock`` is the number of nanoseconds by which the
    store's clock is ahead of the history's, None if that is not checked. With ``spools``, a call that its session gave
    up holds no other session off, and a report without an answer arrives later.
    """

    ttl: float
    tier: int = 0
    reports: bool = True
    clock: int | None = None
    spools: bool = False


class Violation(NamedTuple):
    """A violation. ``rule`` is its name in the README, ``at`` its place in the history (0: only in the journal)."""

    rule: str
    told: str
    at: int = 0


class _Lease:
    """What one worker knows of one lease. Times are in nanoseconds."""

    def __init__(self, asked: Event, id: int, first: int) -> None:
        self.asked = asked
        self.id = id
        self.first = first
        self.known: list[tuple[int, int]] = []
        self.ends = 2**63
        self.ended = 2**63
        self.unsure = False

    def surely(self) -> list[tuple[int, int]]:
        """Return when the lease was live, whatever happened to the requests without an answer."""
        if self.unsure:
            return []
        merged: list[tuple[int, int]] = []
        for start, runs_out in sorted(self.known):
            end = min(runs_out, self.ends)
            if start >= end:
                continue
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], end)
            else:
                merged.append((start, end))
        return merged

    def __str__(self) -> str:
        return f"{self.id} of {self.asked.who} ({self.asked.op}) on {', '.join(self.asked.keys)}"


class _Told(Struct):
    """The history in the form in which the rules query it."""

    pairs: list[tuple[Event, Event]]
    open: list[Event]
    leases: dict[int, _Lease]
    first: dict[str, int]
    found: list[Violation]


def check(
    events: Sequence[Event], journal: Sequence[Entry], counters: Mapping[str, Sequence[Written]], promise: Promise
) -> list[Violation]:
    """Return all violations, those of the history first. ``events`` are in the order of time."""
    told = _read(events, promise)
    return [
        *told.found,
        *_finished(events, told),
        *_alone(told),
        *_tokens(told),
        *_refusals(told, promise),
        *_repeats(told, promise),
        *_timed(told, promise),
        *_kept(told, journal, promise),
        *(_spooled(events, journal) if promise.spools else ()),
        *_replayed(journal, promise),
        *_in_line(events, journal),
        *_counted(events, counters, told),
    ]


def meet(one: Iterable[str], other: Iterable[str]) -> bool:
    """Return True if two sets of keys overlap: they share a key, or one has a tree over a key of the other."""
    return any(
        mine == theirs
        or (mine[-1] == "/" and theirs.startswith(mine))
        or (theirs[-1] == "/" and mine.startswith(theirs))
        for mine in one
        for theirs in other
    )


def _read(events: Sequence[Event], promise: Promise) -> _Told:
    told = _Told([], [], {}, {}, [])
    asked: dict[tuple[str, str], Event] = {}
    given_up: set[tuple[str, str]] = set()
    killed: list[Event] = []
    for event in events:
        name = (event.who, event.op)
        if event.what == "invoke":
            asked[name] = event
            if event.verb in ("intercept", "lock"):
                told.first.setdefault(event.op, event.at)
            if event.verb in ("complete", "release") and (lease := told.leases.get(event.id)):
                lease.ends = min(lease.ends, event.at)
        elif event.what == "unknown":
            lost = asked.pop(name)
            for lease in told.leases.values() if lost.verb == "intercept" else ():
                if lease.asked.op == event.op:  # repeated and given up, so what the call had opened is undone
                    lease.ends = min(lease.ends, lost.at)
            if lost.verb in ("lock", "release"):
                # Locks go by the key alone, so this request may still open or end a lock of the session.
                given_up |= {(event.who, key) for key in lost.keys}
        elif event.what == "answer":
            request = asked.pop(name)
            told.pairs.append((request, event))
            _learn(told, request, event, promise, given_up)
        elif event.verb == "killed":
            killed.append(event)
        elif event.verb == "crash":
            told.found.append(Violation("no crash", f"{event.who}: {event.text}", event.at))
    told.open = list(asked.values())
    for death in killed:
        for lease in told.leases.values():
            if lease.asked.host and _of(lease.asked.who, death.who):
                lease.ends = min(lease.ends, death.at)
    return told


def _learn(told: _Told, asked: Event, answer: Event, promise: Promise, given_up: set[tuple[str, str]]) -> None:
    """Add one answer to what is known of the leases."""
    lease = told.leases.get(answer.id if asked.verb in ("intercept", "lock") else asked.id)
    length = int((promise.ttl - SLACK) * _NS)
    if asked.verb in ("intercept", "lock"):
        if not answer.ok or asked.tier < 3:
            return
        # A repeated answer may belong to an earlier try, whose lease began earlier.
        since = told.first[asked.op] if answer.repeated else asked.at
        if lease is None:
            lease = told.leases[answer.id] = _Lease(asked, answer.id, told.first[asked.op])
            lease.unsure = any((asked.who, key) in given_up for key in asked.keys)
        elif lease.asked.op != asked.op:
            if asked.verb != "lock" or asked.who != lease.asked.who:
                told.found.append(Violation("tokens", f"{asked.op} was given the token of {lease}", answer.at))
                return
            lease.unsure = True  # the session has locked its own key again, so its later tokens are greater
        lease.known.append((answer.at, since + length))
    elif lease is None:
        return
    elif asked.verb == "renew" and answer.ok:
        lease.known.append((answer.at, asked.at + length))
    elif asked.verb in ("complete", "release") and answer.ok:
        lease.ended = min(lease.ended, answer.at)


def _of(who: str, process: str) -> bool:
    """Return True if a session belongs to a process."""
    return who.partition(":")[0] == process


# --- The history alone ------------------------------------------------------------------------------


def _finished(events: Sequence[Event], told: _Told) -> list[Violation]:
    """Check that every worker that was not killed got an answer, or an error that says that there is none."""
    dead = {event.who for event in events if event.verb == "killed"}
    return [
        Violation("no hang", f"{asked.who} never came back from {asked.verb} ({asked.op})", asked.at)
        for asked in told.open
        if not any(_of(asked.who, process) for process in dead)
    ]


def _exclusive(asked: Event) -> bool:
    """Return True if the lease excludes others. At tier 3 a lease warns; at tier 4 it excludes."""
    return asked.tier >= 4


def _alone(told: _Told) -> list[Violation]:
    """Check that two leases that exclude one another are never held at once."""
    spans = sorted((start, end, lease.id) for lease in told.leases.values() for start, end in lease.surely())
    found = []
    live: list[tuple[int, _Lease]] = []
    for start, end, id in spans:
        mine = told.leases[id]
        live = [(until, other) for until, other in live if until > start]
        for _, other in live:
            if other is mine or other.asked.who == mine.asked.who or not meet(mine.asked.keys, other.asked.keys):
                continue
            if _exclusive(mine.asked) or _exclusive(other.asked):
                found.append(Violation("exclusion", f"{mine} was held beside {other}", start))
        live.append((end, mine))
    return found


def _tokens(told: _Told) -> list[Violation]:
    """Check that of two leases with a common key, the one requested after the other's grant has the greater token."""
    leases = [lease for lease in told.leases.values() if not lease.unsure]
    moments = sorted(
        [(lease.first, 0, lease.id) for lease in leases]
        + [(min(start for start, _ in lease.known), 1, lease.id) for lease in leases]
    )
    newest: dict[str, int] = {}
    found = []
    for at, granted, id in moments:
        lease = told.leases[id]
        if granted:
            for key in lease.asked.keys:
                newest[key] = max(newest.get(key, 0), id)
            continue
        before = max((token for key, token in newest.items() if meet((key,), lease.asked.keys)), default=0)
        if before > id:
            found.append(Violation("tokens", f"{lease} came after {told.leases[before]} was granted", at))
    return found


def _refusals(told: _Told, promise: Promise) -> list[Violation]:
    """Check that no session is held off by a lease that had ended before it asked."""
    if not promise.reports:
        return []
    return [
        Violation("refusals", f"{asked.op} was refused for {holder}, which had ended", asked.at)
        for asked, answer in told.pairs
        if asked.verb in ("intercept", "lock") and not answer.ok
        if (holder := told.leases.get(answer.holder)) is not None and holder.ended < asked.at
    ]


def _repeats(told: _Told, promise: Promise) -> list[Violation]:
    """Check that the same call always gets the same answer, and so does the same report."""
    found = []
    let: dict[str, _Lease] = {}
    states: dict[int, tuple[str, Event]] = {}
    for asked, answer in told.pairs:
        if asked.verb == "intercept" and asked.tier >= 3:
            before = let.get(asked.op)
            if before is not None and answer.id != before.id and _stands(before, asked, answer, promise):
                said = f"{answer.id} let through" if answer.ok else "refused"
                found.append(Violation("idempotence", f"{before} was asked again and {said}", answer.at))
            if answer.ok:
                let[asked.op] = told.leases[answer.id]
        elif asked.verb == "complete" and answer.state:
            known, first = states.setdefault(asked.id, (answer.state, asked))
            if known != answer.state and promise.reports:
                said = f"{asked.op} was told {known} as {first.who}, and now {answer.state}"
                found.append(Violation("outcomes", said, answer.at))
            if answer.ok and answer.state != asked.outcome:
                found.append(Violation("outcomes", f"{asked.op}: {asked.outcome} became {answer.state}", answer.at))
    return found


def _stands(lease: _Lease, asked: Event, answer: Event, promise: Promise) -> bool:
    """Return True if the answer that opened the lease still had to be repeated: it was live, or its report counted."""
    live = any(start < asked.at and answer.at < end for start, end in lease.known) and answer.at < lease.ends
    return live or (promise.reports and lease.ended < asked.at and not lease.unsure)


def _timed(told: _Told, promise: Promise) -> list[Violation]:
    """Check that a decision's moment lies between its request and its answer, by the store's clock and no other."""
    if promise.clock is None:
        return []
    found = []
    for asked, answer in told.pairs:
        if asked.verb != "intercept" or not answer.id:
            continue
        # A repeated answer was decided at an earlier try.
        since = told.first[asked.op] if answer.repeated else asked.at
        early, late = (answer.id - (at + promise.clock) / 1000 for at in (since, answer.at))
        if early < -SLACK * _US or late > SLACK * _US:
            said = (
                f"{asked.op} was decided {early / _US:.3f} s after it was asked and {late / _US:.3f} s after the answer"
            )
            found.append(Violation("clock", said, answer.at))
    return found


# --- The history and the journal --------------------------------------------------------------------


def _kept(told: _Told, journal: Sequence[Entry], promise: Promise) -> list[Violation]:
    """Check that every answer is in the journal once, and that the journal holds nothing that was not requested."""
    found = []
    at = {entry.seq: entry for entry in journal}
    of: dict[int, list[Entry]] = defaultdict(list)
    for entry in journal:
        of[entry.action].append(entry)
    tiers: dict[int, int] = {}
    for asked, answer in told.pairs:
        if asked.verb in ("intercept", "lock") and answer.id:
            tiers[answer.id] = asked.tier
            if asked.tier >= promise.tier:
                found += _decided(asked, answer, at.get(answer.id))
        elif (
            asked.verb in ("complete", "release", "renew") and answer.ok and (promise.reports or asked.verb == "renew")
        ):
            id = answer.id or asked.id
            if tiers.get(id, 0) < promise.tier:
                continue
            entries = [entry for entry in of[id] if entry.event == asked.verb]
            if not entries:
                found.append(Violation("nothing lost", f"{asked.verb} of {id} by {asked.who} is not there", answer.at))
            elif asked.verb == "complete" and entries[0].outcome != answer.state:
                said = f"{id} was reported {answer.state} and stands as {entries[0].outcome}"
                found.append(Violation("outcomes", said, answer.at))
    return found


def _spooled(events: Sequence[Event], journal: Sequence[Entry]) -> list[Violation]:
    """Return the leases of calls that were given up and yet ran out, and the reports and late calls that never arrived.

    A session whose process was killed could not spool anything, so its calls are left out.
    """
    killed = {event.who for event in events if event.verb == "killed"}
    last: dict[tuple[str, str], Event] = {}
    reports: dict[str, int] = {}
    for event in events:
        if event.verb in ("intercept", "complete") and event.who.partition(":")[0] not in killed:
            last[event.verb, event.op] = event
            if event.verb == "complete" and event.what == "invoke":
                reports[event.op] = event.id
    unknown = {key: event for key, event in last.items() if event.what == "unknown"}
    opened: dict[int, Event] = {}
    completed = set()
    entered = {(entry.session, entry.body.get("callId")) for entry in journal if entry.event in _ENTERED}
    found = [
        Violation("no lost late call", f"{event.op} of {event.who} ran without the gate and is not there", event.at)
        for event in events
        if event.verb == "late" and event.who.partition(":")[0] not in killed and (event.who, event.op) not in entered
    ]
    for entry in journal:
        if entry.event is Did.INTERCEPT and entry.verdict is not None and entry.verdict.proceed:
            call = "intercept", str(entry.body.get("callId", ""))
            if call in unknown and (entry.tier or 0) >= _LEASED:
                opened[entry.seq] = unknown[call]
        elif entry.event in _ENDINGS:
            opened.pop(entry.action, None)
            completed.add(entry.action)
        elif entry.event is Did.LAPSE and entry.action in opened:
            event = opened.pop(entry.action)
            said = f"{event.op} of {event.who} was given up, and its lease {entry.action} stood until it ran out"
            found.append(Violation("no stray lease", said, event.at))
    for (verb, op), event in unknown.items():
        if verb == "complete" and reports[op] not in completed:
            found.append(Violation("no lost report", f"{event.who} reported {reports[op]}, which has no end", event.at))
    return found


def _decided(asked: Event, answer: Event, entry: Entry | None) -> list[Violation]:
    """Compare one decision with the entry that has its number."""
    what = f"{asked.verb} {asked.op} of {asked.who}, answered as {answer.id}"
    if entry is None:
        return [Violation("nothing lost", f"{what}, is not there", answer.at)]
    if asked.verb == "lock":
        same = entry.event is Did.LOCK and entry.session == asked.who
        same = same and [key.name for key in entry.keys] == list(asked.keys)
    else:
        same = entry.event is Did.INTERCEPT and entry.session == asked.who and entry.body.get("callId") == asked.op
        # A call whose action is over is refused under the action's own number.
        over = answer.repeated and not answer.ok
        same = same and entry.verdict is not None and (over or entry.verdict.proceed == answer.ok)
    if same:
        return []
    there = f"{entry.event} by {entry.session}, {entry.body.get('callId')}, {entry.verdict}"
    return [Violation("nothing lost", f"{what}; there is {there}", answer.at)]


class _Live(Struct):
    """An open lease, or a waiter, as the journal has it. Moments are in microseconds."""

    entry: Entry
    expires: int

    @property
    def keys(self) -> list[str]:
        # A key on which a session is notified of changes through a tree is no claim.
        return [key.name for key in self.entry.keys if not key.name.endswith(CHANGES)]

    @property
    def exclusive(self) -> bool:
        return (self.entry.tier or 0) >= 4

    def __str__(self) -> str:
        return f"{self.entry.seq} of {self.entry.session} on {', '.join(self.keys)}"


def _replayed(journal: Sequence[Entry], promise: Promise) -> list[Violation]:
    """Replay the journal: it is one order, each grant finds its keys free, each action ends once."""
    replay = _Replay(promise)
    for entry in journal:
        replay.take(entry)
    return replay.found


class _Replay:
    def __init__(self, promise: Promise) -> None:
        self._ttl = int(promise.ttl * _US)
        self.found: list[Violation] = []
        self._open: dict[int, _Live] = {}
        self._gone: dict[int, _Live] = {}
        self._line: dict[int, _Live] = {}
        self._waited: set[int] = set()
        self._ended: dict[int, Entry] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._refused: dict[tuple[str, str], list[int]] = {}
        self._last = 0

    def _say(self, rule: str, told: str) -> None:
        self.found.append(Violation(rule, f"journal {self._last}: {told}"))

    def take(self, entry: Entry) -> None:
        before, self._last = self._last, entry.seq
        if entry.seq <= before:
            self._say("order", f"it comes after {before}")
        if entry.event is Did.QUEUE:
            self._line[entry.seq] = _Live(entry, 0)
            self._waited.add(entry.seq)
        elif entry.event in (Did.INTERCEPT, Did.LOCK):
            self._decision(entry)
        elif entry.event is Did.REFUSE:
            # If a request was sent twice, one copy may be refused late while the other keeps its place.
            self._refused[entry.session, str(entry.body.get("callId", ""))] = self._left_line(entry)
        elif entry.event is Did.RENEW:
            self._renewed(entry)
        elif entry.event is Did.LAPSE:
            self._lapsed(entry)
        elif entry.event in _ENDINGS:
            self._ending(entry)

    def _decision(self, entry: Entry) -> None:
        call = str(entry.body.get("callId", ""))
        places = self._left_line(entry) or self._refused.pop((entry.session, call), [])
        if entry.verdict is None or not entry.verdict.proceed:
            return
        if call:
            earlier = self._calls.get((entry.session, call))
            ended = self._ended.get(earlier or 0)
            taken_back = ended is not None and ended.outcome is Outcome.CANCELLED
            # At tier 1, what does no harm when repeated is judged afresh once its time has run out.
            afresh = (entry.tier or 0) <= 1 and entry.seq >= (earlier or 0) + self._ttl
            if earlier is not None and earlier not in self._gone and not (taken_back or afresh):
                self._say("nothing doubled", f"{call} of {entry.session} was let through before, as {earlier}")
            self._calls[entry.session, call] = entry.seq
        if (entry.tier or 0) < 3:
            return
        mine = _Live(entry, entry.seq + self._ttl)
        for other in self._open.values():
            if (
                other.entry.session != entry.session
                and (mine.exclusive or other.exclusive)
                and meet(mine.keys, other.keys)
            ):
                self._say("exclusion", f"{mine} was let through while {other} was live")
        for waiter in self._line.values():
            if not mine.exclusive or waiter.entry.session == entry.session or not meet(mine.keys, waiter.keys):
                continue
            if not places or waiter.entry.seq < places[0]:
                self._say("line", f"{mine} overtook {waiter}, who waited")
        self._open[entry.seq] = mine

    def _left_line(self, entry: Entry) -> list[int]:
        """Forget the waiters of the call. Return their numbers.

        A call whose request was sent twice may have two waiters; which of them it gave up is not known.
        """
        if not entry.body.get("callId"):
            return []
        places = [seq for seq, one in self._line.items() if one.entry.session == entry.session]
        for seq in places:
            del self._line[seq]
        return places

    def _renewed(self, entry: Entry) -> None:
        live = self._open.get(entry.action)
        if live is None and (live := self._gone.pop(entry.action, None)) is not None:
            for other in self._open.values():
                if (
                    other.entry.session != entry.session
                    and (live.exclusive or other.exclusive)
                    and meet(live.keys, other.keys)
                ):
                    self._say("exclusion", f"{live} was opened again while {other} was live")
            self._open[entry.action] = live
        if live is None:
            self._say("outcomes", f"{entry.action} was renewed, and was not open")
        else:
            live.expires = max(live.expires, entry.seq + self._ttl)

    def _lapsed(self, entry: Entry) -> None:
        if entry.action in self._waited:
            self._line.pop(entry.action, None)
            return
        live = self._open.pop(entry.action, None)
        if live is None:
            self._say("outcomes", f"{entry.action} ran out, and was not open")
            return
        self._gone[entry.action] = live
        # An entry may be numbered a little after the moment from which its lease's time counts.
        if entry.body.get("note") == "the lease ran out" and entry.seq < live.expires - SLACK * _US:
            self._say("exclusion", f"{live} ran out {(live.expires - entry.seq) / _US:.3f} s too soon")

    def _ending(self, entry: Entry) -> None:
        action = entry.action
        if action in self._ended:
            first = self._ended[action]
            self._say("nothing doubled", f"{action} ended as {entry.outcome}, and before as {first.outcome}")
            return
        self._ended[action] = entry
        if self._open.pop(action, None) is None and self._gone.get(action) is None and (entry.tier or 0) >= 3:
            self._say("outcomes", f"{action} ended as {entry.outcome}, and was never open")


def _in_line(events: Sequence[Event], journal: Sequence[Entry]) -> list[Violation]:
    """Check that a session that queued after another was known to wait has a later place. A session waits once."""
    places: dict[str, int] = {}
    for entry in journal:
        if entry.event is Did.QUEUE:
            places.setdefault(entry.session, entry.seq)
    found = []
    seen = set()
    last = 0
    for event in events:
        mine = places.get(event.who, 0)
        if event.verb == "queued":
            last = max(last, mine)
        elif event.what == "invoke" and event.wait and event.who not in seen:
            seen.add(event.who)
            if 0 < mine < last:
                said = f"{event.op} came after {last} was in line, and has place {mine}"
                found.append(Violation("line", said, event.at))
    return found


# --- The history and the counters -------------------------------------------------------------------


def _counted(events: Sequence[Event], counters: Mapping[str, Sequence[Written]], told: _Told) -> list[Violation]:
    """Check that no increment is lost, and that no session is fenced off while its lease is live."""
    found = []
    for name, writes in counters.items():
        for number, (before, now) in enumerate(zip((0, *(one.value for one in writes)), writes, strict=False)):
            if now.value != before + 1:
                found.append(
                    Violation("no lost update", f"{name}: write {number} by {now.op} set {now.value} over {before}")
                )
        tokens = [one.token for one in writes]
        if tokens != sorted(tokens):
            found.append(Violation("tokens", f"{name} was written with smaller tokens after greater ones"))
    done = {(name, one.op) for name, writes in counters.items() for one in writes}
    for asked, answer in told.pairs:
        if asked.verb not in ("begin", "write"):
            continue
        if answer.ok and asked.verb == "write" and (asked.keys[0], asked.op) not in done:
            found.append(
                Violation("no lost update", f"{asked.keys[0]}: the write of {asked.op} is not there", answer.at)
            )
        lease = told.leases.get(asked.id)
        if not answer.ok and lease is not None:
            spans = lease.surely()
            place = bisect_left(spans, (asked.at, 0)) - 1
            if place >= 0 and answer.at < spans[place][1] and _exclusive(lease.asked):
                found.append(
                    Violation("fence", f"{lease} was fenced off while its lease stood: {answer.text}", answer.at)
                )
    return found
