"""Copy records and journal from one engine into another, and verify that they arrived.

Both engines show their entries and records in the same order, so one walk through both finds what the target lacks, has
differently or has in excess, and mends it. The first walk begins where the target's stamp says that an earlier one was
interrupted; then both stores are walked completely until nothing differs. Writes to the source meanwhile do no harm, as
long as they end.

Values are copied as bytes: what a newer version has appended to a record stays.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.model import Entry
from callosum.settings import Settings
from callosum.stores import names
from callosum.stores.copy_items import JOURNAL, PAGE, CopyItem, journal_of, merged, records_of, written
from callosum.stores.kernel import Kernel
from callosum.stores.opening import open_store, scheme_of
from callosum.stores.port import Engine, Overtaken, Written
from callosum.stores.versions import version_of

ROUNDS: Final = 4
"""Number of comparisons that may find a difference before the source counts as in use."""
_LATE: Final = 0.1
"""Seconds after which a divided engine shows an entry to whoever reads all namespaces."""
_UNDECIDED: Final = b"fu"
"""Kinds that a store may have although nothing was ever decided there."""
_RECORDS: Final = "records"
_WHOLE: Final = "."
_STAMP: Final = names.named(b"\xff", "", b"copy")
"""Name of the stamp. No kind of record has its letter, so that upkeep never meets it."""
_TRIES: Final = 64
"""Number of times that a write runs at most, because others changed something meanwhile."""


class Stamp(Struct, frozen=True):
    """What a target knows of the copy that it is or was. It is written before the work it describes.

    ``source`` names the source store. No entry later than ``newest`` came from the copy. ``at`` says how far journal
    and records are loaded, ``"."`` for all of them. ``verified``: everything was found to be the same.
    """

    source: str
    newest: int = 0
    at: Mapping[str, str] = {}
    verified: bool = False


class Compared(Struct, frozen=True):
    """The result of comparing one kind: ``count`` and ``digest`` of what the source has."""

    count: int
    digest: str


class CopyResult(Struct, frozen=True):
    """The result of a copy. ``verified``: the target holds what the source holds, and nothing wrote meanwhile.

    ``sorts`` are the results by kind. ``loaded`` counts what the first walk wrote, ``mended`` the differences that
    comparisons found. ``first`` describes the first difference of the last comparison.
    """

    verified: bool
    sorts: dict[str, Compared]
    loaded: dict[str, int]
    mended: int = 0
    first: str = ""


Tell = Callable[[str, int], None]
"""Called with the current work (``journal``, ``compare journal``) and the number of items done."""


def opened(settings: Settings, *, create: bool = False) -> Kernel:
    """Return the store of these settings, whose ``engine`` is copied; ``create`` creates it if it is absent.

    Raises as ``open_store`` does, and ``ConfigError`` for a store in memory or an absent one.
    """
    if scheme_of(settings) == "memory":
        raise ConfigError("a store in memory lives as long as its process: there is nothing to copy", at="store")
    if not create and (version := version_of(settings)).newer:
        raise ConfigError(
            "there is no store of Callosum there"
            if version.found is None
            else f"it has version {version.found}: bring it to {version.known} first, with callosum store migrate",
            at="FROM",
        )
    store = open_store(settings)
    if isinstance(store, Kernel):
        return store
    store.close()
    raise ConfigError(f"{type(store).__name__} cannot be copied: it is no store of records", at="store")


def copy(source: Engine, target: Engine, tell: Tell = lambda _what, _count: None) -> CopyResult:
    """Copy, or continue a copy, and verify it.

    Raises ``ConfigError`` if the target is the source, or holds anything but an unfinished copy of the source.
    """
    work = _Copying(source, target, tell, _begun(source, target))
    loaded = {what: work.load(what) for what in (JOURNAL, _RECORDS)}
    mended, first = 0, ""
    sorts: dict[str, Compared] = {}
    for _ in range(ROUNDS):
        newest = _newest(source)
        work.put_stamp(newest=newest)
        differences: list[str] = []
        sorts = {}
        for what in (JOURNAL, _RECORDS):
            found, different = work.compare(what)
            sorts |= found
            differences += different
        if not differences and _newest(source) == newest == _newest(target):
            work.put_stamp(verified=True)
            return CopyResult(verified=True, sorts=sorts, loaded=loaded, mended=mended)
        mended += len(differences)
        first = differences[0] if differences else "the source got new entries"
        time.sleep(_LATE)
    return CopyResult(verified=False, sorts=sorts, loaded=loaded, mended=mended, first=first)


def stamp_of(engine: Engine) -> Stamp | None:
    """Return the stamp of a store that is a copy, or was made as one."""
    with engine.snapshot() as reader:
        found = reader.get((_STAMP,))
    return msgspec.msgpack.decode(found[0][1], type=Stamp) if found else None


def counts(engine: Engine) -> dict[str, int]:
    """Return the number of records by kind."""
    found: Counter[str] = Counter()
    for page in records_of(engine, b""):
        found.update(item.kind() for item in page)
    return dict(sorted(found.items()))


def _begun(source: Engine, target: Engine) -> Stamp:
    """Return the target's stamp, from which to continue, or a new one if the target is empty."""
    if source.place == target.place:
        raise ConfigError(f"source and target are the same store: {source.place}", at="TO")
    found = stamp_of(target)
    if found is None:
        if _newest(target) or any(item.place[0] not in _UNDECIDED for page in records_of(target, b"") for item in page):
            raise ConfigError(f"the target must be empty, or an unfinished copy of the source: {target.place}", at="TO")
        return Stamp(source.place)
    if found.source != source.place:
        raise ConfigError(f"the target is a copy of another store, of {found.source}", at="TO")
    if _newest(target) > found.newest:
        raise ConfigError(
            f"a gate has written to the target since, which copying again would take away: {target.place}", at="TO"
        )
    return found


def _newest(engine: Engine) -> int:
    """Return the position of the newest entry; 0 if there is none."""
    with engine.snapshot() as reader:
        return max((entry.seq for entry in reader.page(0, 1, newest=True)), default=0)


_NONE: Final = CopyItem(b"", b"")
_WALKS: Final[Mapping[str, Callable[[Engine, bytes], Iterator[list[CopyItem]]]]] = {
    JOURNAL: journal_of,
    _RECORDS: records_of,
}


class _Copying:
    """One run of a copy. ``stamp`` is what the target knows of it."""

    def __init__(self, source: Engine, target: Engine, tell: Tell, stamp: Stamp) -> None:
        self._source, self._target, self._tell = source, target, tell
        self._stamp = replace(stamp, verified=False)
        self.put_stamp()

    def put_stamp(self, *, newest: int = 0, verified: bool = False, at: Mapping[str, str] | None = None) -> None:
        """Write the stamp: before the work it permits, and after the work it reports."""
        stamp = self._stamp
        self._stamp = replace(stamp, newest=max(stamp.newest, newest), at={**stamp.at, **(at or {})}, verified=verified)
        self._commit({_STAMP: Raw(msgspec.msgpack.encode(self._stamp))})

    def load(self, what: str) -> int:
        """Write what is not there yet, noting how far. Return how many were written."""
        reached = self._stamp.at.get(what, "")
        if reached == _WHOLE:
            return 0
        count = 0
        for at, _, different in self._walk(what, what, bytes.fromhex(reached)):
            count += len(different)
            self.put_stamp(at={what: at.hex()})
        if what == _RECORDS:  # gates may extend the journal meanwhile; the next run continues from its end
            self.put_stamp(at={what: _WHOLE})
        return count

    def compare(self, what: str) -> tuple[dict[str, Compared], list[str]]:
        """Compare everything and mend what differs. Return counts and digests by kind, and the differences in words."""
        found: dict[str, tuple[int, Any]] = {}
        words: list[str] = []
        for _, items, different in self._walk(what, f"compare {what}", b""):
            for item in items:
                count, digest = found.get(item.kind(), (0, None))
                digest = digest or blake2b(digest_size=16)
                digest.update(b"%d %s %s %s" % (len(item.value), item.place, item.value, item.text()))
                found[item.kind()] = count + 1, digest
            words += different
        return {kind: Compared(count, digest.hexdigest()) for kind, (count, digest) in found.items()}, words

    def _walk(self, what: str, work: str, after: bytes) -> Iterator[tuple[bytes, list[CopyItem], list[str]]]:
        """Go through both stores behind a place and make the target the same, page by page.

        Yield the place that was reached, what the source has up to there, and the differences in words.
        """
        walk = _WALKS[what]
        items: list[CopyItem] = []
        lacking: list[CopyItem] = []
        spare: list[CopyItem] = []
        words: list[str] = []
        previous: CopyItem | None = None
        count = 0
        for ours, theirs in merged(walk(self._source, after), walk(self._target, after)):
            if ours is not None:
                self._refuse_same_moment(previous, ours)
                items.append(ours)
                previous = ours
            if ours is None or theirs is None or not ours.same(theirs):
                if ours is not None:
                    lacking.append(ours)
                if theirs is not None:
                    spare.append(theirs)
                how = "is not in the source" if ours is None else "is missing" if theirs is None else "differs"
                words.append(f"{(ours or theirs or _NONE).shown()} {how}")
            if max(len(items), len(words)) >= PAGE:
                self._mend(lacking, spare)
                count += len(items)
                self._tell(work, count)
                yield (ours or theirs or _NONE).place, items, words
                items, lacking, spare, words = [], [], [], []
        if items or words:
            self._mend(lacking, spare)
            self._tell(work, count + len(items))
            yield (previous or _NONE).place, items, words

    def _refuse_same_moment(self, one: CopyItem | None, other: CopyItem) -> None:
        """Refuse two namespaces with an entry at one moment, which only an engine with a clock for each can hold."""
        if one is None or one.entry is None or other.entry is None or one.entry.seq != other.entry.seq:
            return
        if not self._target.divided:
            raise StoreError(
                f"the namespaces {one.entry.namespace} and {other.entry.namespace} both have an entry at the moment "
                f"{other.entry.seq}: only a Redis Cluster can hold both"
            )

    def _mend(self, lacking: Sequence[CopyItem], spare: Sequence[CopyItem]) -> None:
        """Take from the target what is spare, and write what it lacks."""
        dropped = [item.entry for item in spare if item.entry is not None]
        if dropped:
            read = [names.action(one.namespace, one.seq) for one in dropped]
            self._commit({}, dropped=dropped, read=read)
        entries = [written(item, item.entry) for item in lacking if item.entry is not None]
        if entries:
            self.put_stamp(newest=entries[-1].seq)
        changed: dict[bytes, Any] = {item.place: False for item in spare if item.entry is None}
        changed |= {item.place: Raw(item.value) for item in lacking if item.entry is None}
        if changed or entries:
            self._commit(changed, entries, read=[name for name, record in changed.items() if record is False])

    def _commit(
        self,
        changed: Mapping[bytes, Any],
        entries: Sequence[Written] = (),
        *,
        dropped: Sequence[Entry] = (),
        read: Sequence[bytes] = (),
    ) -> None:
        """Commit. What goes is read before, because some engines let a transaction without keys remove only that."""
        for tries in range(_TRIES):
            transaction = self._target.begin((), (), tries=tries)
            try:
                if read:
                    transaction.get(read)
                transaction.commit(changed, entries, dropped=dropped)
            except Overtaken:
                continue
            except BaseException as error:
                transaction.rollback()
                raise self._target.explained(error) from error
            return
        raise StoreUnavailable(f"{self._target.place} is too busy: what a copy writes there changes again and again")
