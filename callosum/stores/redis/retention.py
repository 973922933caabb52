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
_ACTIONS_AT_ONCE: Final = 50
"""Number of actions per script run; for each the script may read all marks on a key."""


class RedisRetention:
    """Implement ``Store.maintain`` and ``Store.take``."""

    def __init__(self, spaces: Namespaces, reads: RedisReads, journal: RedisJournal) -> None:
        self._spaces = spaces
        self._link = spaces.link
        self._reads = reads
        self._journal = journal
        self._marks_skipped: dict[tuple[str, str], int] = {}
        self._prints_skipped: dict[str, int] = {}
        self._entries_skipped: dict[str, int] = {}

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        deleted = 0
        with self._link.explained():
            now = self._journal.now()
            for space in self._spaces.all():
                deleted += len(self._trim(space.key("calls"), now - REMEMBERED, budget))
                deleted += self._delete_prints(space, horizon, budget)
                deleted += self._delete_marks(space, horizon, budget)
                # Moments so old that every running transaction read its view after them.
                self._trim(space.key("v"), now - HOUR, budget)
        return deleted

    def _trim(self, name: str, until: int, budget: int) -> list[bytes]:
        """Remove and return the oldest members of a sorted set, up to a moment."""
        old: list[bytes] = self._link.client.zrangebyscore(name, "-inf", f"({until}", 0, budget)
        if old:
            self._link.client.zrem(name, *old)
        return old

    def _delete_prints(self, space: NamespaceKeys, horizon: int, budget: int) -> int:
        """Delete fingerprints of actions that no window reaches; an action without an outcome keeps its own.

        Fingerprints that must stay are skipped, as marks are: few actions are reported so late.
        """
        start, deleted, left = self._prints_skipped.pop(space.namespace, 0), 0, budget
        while left > 0:
            size = min(left, _AT_ONCE)
            examined, deleted_now = map(int, self._spaces.run(PRINTS, space, horizon, start, size))
            start, deleted, left = start + examined - deleted_now, deleted + deleted_now, left - examined
            if examined < size:
                return deleted
        self._prints_skipped[space.namespace] = start
        return deleted

    def _delete_marks(self, space: NamespaceKeys, horizon: int, budget: int) -> int:
        """Delete the marks of sessions whose last call is older than the longest window.

        A change stays while it has no outcome, and while an active session read the key before it: stale conflicts
        have no window. Marks that must stay are skipped, so that a round costs no more than its budget.
        """
        client, deleted, left = self._link.client, 0, budget
        name, passed = space.key("seen"), self._marks_skipped
        first = passed.get((space.namespace, ""), 0)
        old = client.zrangebyscore(name, "-inf", f"({horizon - HOUR}", first, budget)
        for session in (name.decode() for name in old):
            if left <= 0:
                break
            position = (space.namespace, session)
            start = passed.pop(position, 0)
            while left > 0:
                size = min(left, _AT_ONCE)
                names = client.zrange(space.key("sk", session), start, start + size - 1)
                deleted_now = int(self._spaces.run(FORGET, space, session, horizon - HOUR, *names))
                start, deleted, left = start + len(names) - deleted_now, deleted + deleted_now, left - len(names)
                if len(names) < size:
                    break
            else:
                passed[position] = start
        passed[space.namespace, ""] = 0 if deleted or len(old) < budget else first + len(old)
        return deleted

    def take(
        self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: Collection[int] | None = None
    ) -> list[Entry]:
        with self._link.explained():
            free: list[tuple[NamespaceKeys, Entry, Record | None]] = []
            spaces = self._spaces.all()
            newest = [self._journal.page(space, 0, 1, None, None, newest=True)[1] for space in spaces]
            last = max((entries[0].seq for entries in newest if entries), default=0)
            named = set(only) if delete and only is not None else None
            for space in spaces:
                free += self._free_entries(space, until, horizon, limit, last, named)
            free = sorted(free, key=lambda row: row[1].seq)[:limit]
            if not delete:
                return [entry for _, entry, _ in free]
            for space in spaces:
                rows = [(entry, record) for owner, entry, record in free if owner is space]
                for start in range(0, len(rows), PAGE):
                    facts: list[str | int] = []
                    for entry, record in rows[start : start + PAGE]:
                        facts += [
                            f"{entry.seq:016d}",
                            record.action.session if record else "",
                            record.call.hex() if record else "",
                            record.action.ended if record else 0,
                        ]
                    self._spaces.run(DROP, space, *facts)
        return [entry for _, entry, _ in free]

    def _free_entries(
        self, space: NamespaceKeys, until: int, horizon: int, limit: int, last: int, only: set[int] | None
    ) -> list[tuple[NamespaceKeys, Entry, Record | None]]:
        """Return a namespace's oldest entries that nothing needs any more, with the actions that they opened.

        Skipped entries stay skipped until the end of the journal is reached, so that many entries that must stay are
        not examined again for each segment.
        """
        result: list[tuple[NamespaceKeys, Entry, Record | None]] = []
        start = self._entries_skipped.get(space.namespace, 0)
        start = start if start < until else 0
        if only is not None:
            start, until = min(only, default=1) - 1, min(until, max(only, default=0))
        after = start
        while len(result) < limit:
            _, page = self._journal.page(space, after, PAGE, None, None, newest=False)
            entries = [entry for entry in page if entry.seq <= until and entry.seq != last]
            page_free = self._unneeded(space, [e for e in entries if only is None or e.seq in only], horizon)
            result += [(space, entry, record) for entry, record in page_free]
            if len(page) == PAGE and page[-1].seq < until:
                after = page[-1].seq
            elif only is None and start and not result:
                start = after = 0  # skipped entries may have become free
            else:
                break
        if only is None:
            self._entries_skipped[space.namespace] = result[0][1].seq - 1 if len(result) >= limit > 0 else 0
        return result[:limit]

    def _unneeded(self, space: NamespaceKeys, entries: list[Entry], horizon: int) -> list[tuple[Entry, Record | None]]:
        """Return the entries that nothing needs any more."""
        ids = sorted({id for entry in entries for id in (entry.seq, entry.action) if id})
        records = self._reads.records(space, [f"{id:016d}".encode() for id in ids])
        calls = [record.call.hex() for record in records.values() if record.call]
        moments = self._link.client.zmscore(space.key("calls"), calls) if calls else []
        remembered = {call for call, moment in zip(calls, moments, strict=True) if moment is not None}
        free: list[tuple[Entry, Record | None]] = []
        now = self._journal.now()
        for entry in entries:
            own, opener = records.get(entry.seq), records.get(entry.action)
            recent = own is not None and own.opened and _dated(entry.seq, own) >= horizon
            if not (
                recent
                or _is_live_or_remembered(own, remembered)
                or _is_live_or_remembered(opener, remembered)
                or _is_in_force(own, now)
            ):
                free.append((entry, own))
        needed = self._needed(space, free, horizon)
        return [(entry, own) for entry, own in free if entry.seq not in needed]

    def _needed(self, space: NamespaceKeys, candidates: list[tuple[Entry, Record | None]], horizon: int) -> set[int]:
        """Return the actions that an active session must still be notified about, and the reads that make it so."""
        written_keys = [
            (key.name, record.action.session, entry.seq)
            for entry, record in candidates
            if record is not None and record.opened
            for key in record.action.keys
            if key.mode is not Mode.READ and happened(record.action)
        ]
        needed: set[int] = set()
        for start in range(0, len(written_keys), _ACTIONS_AT_ONCE):
            chunk = written_keys[start : start + _ACTIONS_AT_ONCE]
            words = [word for name, session, id in chunk for word in (name, session, f"{id:016d}")]
            answers = self._spaces.run(NEEDED, space, horizon - HOUR, *words)
            needed.update(id for (_, _, id), answer in zip(chunk, answers, strict=True) if int(answer))
        return needed


def _is_live_or_remembered(record: Record | None, remembered: set[str]) -> bool:
    """Return True if an action can still be needed whatever its age: it is live, or its call is remembered."""
    if record is None or not record.opened:
        return False
    return record.action.state in LIVE or record.call.hex() in remembered


def _is_in_force(record: Record | None, now: int) -> bool:
    """Return True if an action's commitment still counts."""
    if record is None or COMMITTED not in record.prints:
        return False
    commitment = record.action.content.commitment
    return commitment is not None and now < commitment.until


def _dated(id: int, record: Record) -> int:
    """Return when an action counts as evidence: at its report, or without one when it can no longer be running."""
    return max(id, record.action.ended or record.action.expires)
