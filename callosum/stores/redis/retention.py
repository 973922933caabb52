"""Delete marks, fingerprints and calls that no rule can need, and entries that were copied into segments."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from callosum.model import HOUR, Entry, Mode
from callosum.policy.commitments import COMMITTED
from callosum.stores.records import LIVE, REMEMBERED, Record, happened
from callosum.stores.redis.connection import Script
from callosum.stores.redis.journal import RedisJournal
from callosum.stores.redis.names import NamespaceKeys
from callosum.stores.redis.reads import PAGE, RedisReads
from callosum.stores.redis.spaces import Namespaces

PRINTS: Final = Script("evidence", "fingerprints")
FORGET: Final = Script("evidence", "reads", "forget")
NEEDED: Final = Script("evidence", "reads", "needed")
DROP: Final = Script("evidence", "drop")
_AT_ONCE: Final = 200
"""Number of fingerprints or keys that one script run examines, so that other clients are not kept waiting."""
_ACTS_AT_ONCE: Final = 50
"""Number of actions per script run; for each the script may read all marks on a key."""


class RedisRetention:
    """Implement ``Store.maintain`` and ``Store.take``."""

    def __init__(self, spaces: Namespaces, reads: RedisReads, journal: RedisJournal) -> None:
        self._spaces = spaces
        self._link = spaces.link
        self._reads = reads
        self._journal = journal
        self._passed: dict[tuple[str, str], int] = {}
        self._prints_passed: dict[str, int] = {}
        self._entries_passed: dict[str, int] = {}

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        gone = 0
        with self._link.explained():
            now = self._journal.now()
            for space in self._spaces.all():
                gone += self._forget_calls(space, now, budget)
                gone += self._forget_prints(space, horizon, budget)
                gone += self._forget_marks(space, horizon, budget)
                # Moments so old that every running transaction read its view after them.
                self._trim(space.key("v"), now - HOUR, budget)
        return gone

    def _trim(self, name: str, until: int, budget: int) -> list[bytes]:
        """Remove and return the oldest members of a sorted set, up to a moment."""
        old: list[bytes] = self._link.client.zrangebyscore(name, "-inf", f"({until}", 0, budget)
        if old:
            self._link.client.zrem(name, *old)
        return old

    def _forget_calls(self, space: NamespaceKeys, now: int, budget: int) -> int:
        return len(self._trim(space.key("calls"), now - REMEMBERED, budget))

    def _forget_prints(self, space: NamespaceKeys, horizon: int, budget: int) -> int:
        """Delete fingerprints of actions that no window reaches; an action without an outcome keeps its own.

        Fingerprints that must stay are skipped, as marks are: few actions are reported so late.
        """
        start, gone, left = self._prints_passed.pop(space.namespace, 0), 0, budget
        while left > 0:
            size = min(left, _AT_ONCE)
            looked, went = map(int, self._spaces.run(PRINTS, space, horizon, start, size))
            start, gone, left = start + looked - went, gone + went, left - looked
            if looked < size:
                return gone
        self._prints_passed[space.namespace] = start
        return gone

    def _forget_marks(self, space: NamespaceKeys, horizon: int, budget: int) -> int:
        """Delete the marks of sessions whose last call is older than the longest window.

        A change stays while it has no outcome, and while an active session read the key before it: stale conflicts
        have no window. Marks that must stay are skipped, so that a round costs no more than its budget.
        """
        client, gone, left = self._link.client, 0, budget
        name, passed = space.key("seen"), self._passed
        first = passed.get((space.namespace, ""), 0)
        old = client.zrangebyscore(name, "-inf", f"({horizon - HOUR}", first, budget)
        for session in (name.decode() for name in old):
            if left <= 0:
                break
            place = (space.namespace, session)
            start = passed.pop(place, 0)
            while left > 0:
                size = min(left, _AT_ONCE)
                names = client.zrange(space.key("sk", session), start, start + size - 1)
                went = int(self._spaces.run(FORGET, space, session, horizon - HOUR, *names))
                start, gone, left = start + len(names) - went, gone + went, left - len(names)
                if len(names) < size:
                    break
            else:
                passed[place] = start
        passed[space.namespace, ""] = 0 if gone or len(old) < budget else first + len(old)
        return gone

    def take(
        self,
        until: int,
        horizon: int,
        limit: int = 5000,
        *,
        delete: bool = False,
        only: Collection[int] | None = None,
    ) -> list[Entry]:
        with self._link.explained():
            found: list[tuple[NamespaceKeys, Entry, Record | None]] = []
            spaces = self._spaces.all()
            newest = [self._journal.page(space, 0, 1, None, None, newest=True)[1] for space in spaces]
            last = max((entries[0].seq for entries in newest if entries), default=0)
            named = set(only) if delete and only is not None else None
            for space in spaces:
                found += self._free(space, until, horizon, limit, last, named)
            found = sorted(found, key=lambda row: row[1].seq)[:limit]
            if not delete:
                return [entry for _, entry, _ in found]
            for space in spaces:
                rows = [(entry, record) for where, entry, record in found if where is space]
                for at in range(0, len(rows), PAGE):
                    facts: list[str | int] = []
                    for entry, record in rows[at : at + PAGE]:
                        facts += [
                            f"{entry.seq:016d}",
                            record.action.session if record else "",
                            record.call.hex() if record else "",
                            record.action.ended if record else 0,
                        ]
                    self._spaces.run(DROP, space, *facts)
        return [entry for _, entry, _ in found]

    def _free(
        self, space: NamespaceKeys, until: int, horizon: int, limit: int, last: int, only: set[int] | None
    ) -> list[tuple[NamespaceKeys, Entry, Record | None]]:
        """Return a namespace's oldest entries that nothing needs any more, with the actions that they opened.

        Skipped entries stay skipped until the end of the journal is reached, so that many entries that must stay are
        not examined again for each segment.
        """
        found: list[tuple[NamespaceKeys, Entry, Record | None]] = []
        start = self._entries_passed.get(space.namespace, 0)
        start = start if start < until else 0
        if only is not None:
            start, until = min(only, default=1) - 1, min(until, max(only, default=0))
        after = start
        while len(found) < limit:
            _, page = self._journal.page(space, after, PAGE, None, None, newest=False)
            entries = [entry for entry in page if entry.seq <= until and entry.seq != last]
            free = self._needless(space, [e for e in entries if only is None or e.seq in only], horizon)
            found += [(space, entry, record) for entry, record in free]
            if len(page) == PAGE and page[-1].seq < until:
                after = page[-1].seq
            elif only is None and start and not found:
                start = after = 0  # skipped entries may have become free
            else:
                break
        if only is None:
            self._entries_passed[space.namespace] = found[0][1].seq - 1 if len(found) >= limit > 0 else 0
        return found[:limit]

    def _needless(self, space: NamespaceKeys, entries: list[Entry], horizon: int) -> list[tuple[Entry, Record | None]]:
        """Return the entries that nothing needs any more."""
        ids = sorted({id for entry in entries for id in (entry.seq, entry.action) if id})
        records = self._reads.records(space, [f"{id:016d}".encode() for id in ids])
        calls = [record.call.hex() for record in records.values() if record.call]
        moments = self._link.client.zmscore(space.key("calls"), calls) if calls else []
        remembered = {call for call, moment in zip(calls, moments, strict=True) if moment is not None}
        free: list[tuple[Entry, Record | None]] = []
        now = self._journal.now()
        for entry in entries:
            own, about = records.get(entry.seq), records.get(entry.action)
            recent = own is not None and own.opened and _dated(entry.seq, own) >= horizon
            if not (recent or _wanted(own, remembered) or _wanted(about, remembered) or _commits(own, now)):
                free.append((entry, own))
        needed = self._needed(space, free, horizon)
        return [(entry, own) for entry, own in free if entry.seq not in needed]

    def _needed(self, space: NamespaceKeys, acts: list[tuple[Entry, Record | None]], horizon: int) -> set[int]:
        """Return the actions that an active session must still be notified about, and the reads that make it so."""
        places = [
            (key.name, record.action.session, entry.seq)
            for entry, record in acts
            if record is not None and record.opened
            for key in record.action.keys
            if key.mode is not Mode.READ and happened(record.action)
        ]
        needed: set[int] = set()
        for at in range(0, len(places), _ACTS_AT_ONCE):
            some = places[at : at + _ACTS_AT_ONCE]
            words = [word for name, session, id in some for word in (name, session, f"{id:016d}")]
            answers = self._spaces.run(NEEDED, space, horizon - HOUR, *words)
            needed.update(id for (_, _, id), answer in zip(some, answers, strict=True) if int(answer))
        return needed


def _wanted(record: Record | None, remembered: set[str]) -> bool:
    """Return True if an action can still be needed whatever its age: it is live, or its call is remembered."""
    if record is None or not record.opened:
        return False
    return record.action.state in LIVE or record.call.hex() in remembered


def _commits(record: Record | None, now: int) -> bool:
    """Return True if an action's commitment still counts."""
    if record is None or COMMITTED not in record.prints:
        return False
    made = record.action.content.commitment
    return made is not None and now < made.until


def _dated(id: int, record: Record) -> int:
    """Return when an action counts as evidence: at its report, or without one when it can no longer be running."""
    return max(id, record.action.ended or record.action.expires)
