"""Copy everything that a gate needs from one store into another, and verify that it arrived.

First each sort of records is loaded in order. The target notes how far, so that an interrupted copy continues from
there. Then source and target are compared completely, by counts and digests. What differs is copied again until a
comparison finds no difference. Writes to the source meanwhile do no harm, as long as they end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from callosum.errors import ConfigError
from callosum.settings import Settings
from callosum.stores.export import (
    Record,
    RecordDigests,
    Sort,
    Stamp,
    StoreExport,
    alike,
    bucket_of,
    in_pages,
    place_of,
    shown,
)
from callosum.stores.opening import file_of, open_store, scheme_of
from callosum.stores.versions import version_of

ROUNDS: Final = 4
"""Number of comparisons that may find a difference before the source counts as in use."""
HELD: Final = 100_000
"""Number of records that are held in memory while differences are searched."""
_ALL: Final = "."


class SortComparison(Struct, frozen=True):
    """The result of comparing one sort that does not differ: ``count`` and ``digest`` of both stores."""

    count: int
    digest: str


class CopyResult(Struct, frozen=True):
    """The result of a copy. ``verified``: the target holds what the source holds, and nothing wrote meanwhile.

    ``loaded`` counts the records that were loaded before the comparison, by sort; ``mended`` counts those that
    comparisons found different. ``first`` describes the first difference of the last comparison.
    """

    verified: bool
    sorts: dict[str, SortComparison]
    loaded: dict[str, int]
    mended: int = 0
    first: str = ""


Tell = Callable[[str, int], None]
"""Called with the current work (``journal``, ``compare journal``) and the number of records done."""


def carrier_of(settings: Settings, *, create: bool = False) -> StoreExport:
    """Open the store of these settings as records; ``create`` creates it if it is absent.

    Raises as ``open_store`` does, and ``ConfigError`` for a store in memory or an absent one.
    """
    scheme = scheme_of(settings)
    if scheme == "memory":
        raise ConfigError("a store in memory lives as long as its process: there is nothing to copy", at="store")
    if not create and (version := version_of(settings)).newer:
        raise ConfigError(
            "there is no store of Callosum there"
            if version.found is None
            else f"it has version {version.found}: bring it to {version.known} first, with callosum store migrate",
            at="FROM",
        )
    open_store(settings).close()  # raises an error that says clearly why it cannot be opened
    if scheme == "sqlite":
        from callosum.stores.sqlite.export import SqliteExport  # noqa: PLC0415 - with its driver

        return SqliteExport(file_of(settings))
    if scheme in ("postgresql", "postgres"):
        from callosum.stores.postgres.export import PostgresExport  # noqa: PLC0415 - with its driver

        return PostgresExport(settings.store)
    from callosum.stores.redis.export import RedisExport  # noqa: PLC0415 - with its driver

    return RedisExport(settings.store)


def copy(source: StoreExport, target: StoreExport, tell: Tell = lambda _what, _count: None) -> CopyResult:
    """Copy, or continue a copy, and verify it.

    Raises ``ConfigError`` if the target is the source, or holds anything but an unfinished copy of the source.
    """
    work = _Copying(source, target, tell, _stamp_of(source, target))
    loaded = {sort.value: work.load(sort) for sort in Sort}
    mended, first = 0, ""
    sorts: dict[str, SortComparison] = {}
    for _ in range(ROUNDS):
        newest = source.newest()
        work.put(newest=newest, verified=False)
        differences: list[str] = []
        for sort in Sort:
            sorts[sort.value], found = work.mend(sort)
            differences += found
        if not differences and source.newest() == newest:
            work.put(verified=True)
            return CopyResult(verified=True, sorts=sorts, loaded=loaded, mended=mended)
        mended += len(differences)
        first = differences[0] if differences else "the source got new entries"
    return CopyResult(verified=False, sorts=sorts, loaded=loaded, mended=mended, first=first)


def _stamp_of(source: StoreExport, target: StoreExport) -> Stamp:
    """Return the target's stamp, from which to continue, or a new one if the target is empty."""
    if source.name == target.name:
        raise ConfigError(f"source and target are the same store: {source.name}", at="TO")
    found = target.stamp()
    if found is None:
        if not target.empty():
            raise ConfigError(f"the target must be empty, or an unfinished copy of the source: {target.name}", at="TO")
        return Stamp(source.name)
    if found.source != source.name:
        raise ConfigError(f"the target is a copy of another store, of {found.source}", at="TO")
    if target.newest() > found.newest:
        raise ConfigError(
            f"a gate has written to the target since, which copying again would take away: {target.name}", at="TO"
        )
    return found


class _Copying:
    """One run of a copy. ``stamp`` is what the target knows of it."""

    def __init__(self, source: StoreExport, target: StoreExport, tell: Tell, stamp: Stamp) -> None:
        self._source, self._target, self._tell = source, target, tell
        self._stamp = stamp
        target.put_stamp(stamp)

    def put(self, *, newest: int = 0, verified: bool = False, at: Mapping[str, str] | None = None) -> None:
        """Write the stamp: before the work it permits, and after the work it reports."""
        stamp = self._stamp
        self._stamp = replace(stamp, newest=max(stamp.newest, newest), at={**stamp.at, **(at or {})}, verified=verified)
        self._target.put_stamp(self._stamp)

    def load(self, sort: Sort) -> int:
        """Load the records of one sort that are not there yet. Return their number."""
        place = self._stamp.at.get(sort.value, "")
        if place == _ALL:
            return 0
        count = 0
        at: dict[str, str] = {}
        for records, after in self._source.scan(sort, place):
            self.put(newest=_newest(sort, records), at=at)
            if records:
                self._target.load(sort, records)
            count += len(records)
            self._tell(sort.value, count)
            at = {sort.value: after} if after else {}
        # Gates may extend the journal meanwhile; the next run continues from its end.
        self.put(at=at if sort is Sort.JOURNAL else {sort.value: _ALL})
        return count

    def mend(self, sort: Sort) -> tuple[SortComparison, list[str]]:
        """Compare one sort and copy again what differs. Return the differences in words."""
        theirs, ours = _sums(self._source, sort, self._tell), _sums(self._target, sort, self._tell)
        same = SortComparison(theirs.count, theirs.digest)
        found: list[str] = []
        for buckets in _groups(theirs.differ(ours)):
            right, wrong = _within(self._source, sort, buckets), _within(self._target, sort, buckets)
            lacking = [record for place, record in right.items() if not alike(wrong.get(place), record)]
            spare = [record for place, record in wrong.items() if place not in right]
            for record in lacking:
                how = "differs" if place_of(record) in wrong else "is missing"
                found.append(f"{sort.value} {shown(record)} {how}")
            found += [f"{sort.value} {shown(record)} is not in the source" for record in spare]
            for page in in_pages(spare):
                self._target.drop(sort, page)
            self.put(newest=_newest(sort, lacking))
            for page in in_pages(sorted(lacking, key=place_of)):
                self._target.load(sort, page)
        return same, found


def _newest(sort: Sort, records: Sequence[Any]) -> int:
    return max((record.entry.seq for record in records), default=0) if sort is Sort.JOURNAL else 0


def _sums(carrier: StoreExport, sort: Sort, tell: Tell) -> RecordDigests:
    sums, count = RecordDigests(), 0
    for records, _ in carrier.scan(sort):
        for record in records:
            sums.add(record)
        count += len(records)
        tell(f"compare {sort.value}", count)
    return sums


def _groups(differing: list[tuple[int, int]]) -> Iterator[set[int]]:
    """Group buckets, as long as a group does not hold too many records."""
    group: set[int] = set()
    size = 0
    for bucket, count in differing:
        if group and size + count > HELD:
            yield group
            group, size = set(), 0
        group.add(bucket)
        size += count
    if group:
        yield group


def _within(carrier: StoreExport, sort: Sort, buckets: set[int]) -> dict[tuple[Any, ...], Record]:
    """Return the records of a sort in these buckets, by their primary key."""
    return {
        place_of(record): record
        for records, _ in carrier.scan(sort)
        for record in records
        if bucket_of(record) in buckets
    }
