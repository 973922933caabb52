"""What a store holds, as records that belong to no engine, so that another store can load them.

A record says what a gate can ask for, not how a store finds it: which leases are open follows from the actions, which
trees are in use from the keys. Two stores with the same records decide alike. Each store package has an ``export``
module that writes its rows as records (``StoreExport.scan``) and makes rows of them again (``StoreExport.load``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from callosum.model import Content, Entry, Host, Mark, State

PAGE: Final = 1000
"""Number of records that are read or written at once."""
KEPT: Final = 64
"""How many of a session's own actions on a key are followed back, in case the newest are taken back."""
BUCKETS: Final = 4096


class ActionRecord(Struct, frozen=True, array_like=True):
    """The life of the action that an entry opened, or (``opened`` False) of a refused call that may still be approved.

    ``call`` is its identity while that is remembered, ``params`` those of a pending question; both are empty otherwise.
    The entry has the rest of an action.
    """

    opened: bool
    state: State
    ended: int = 0
    expires: int = 0
    limit: int = 0
    lock: bool = False
    host: Host | None = None
    content: Content = Content()
    supersedes: tuple[int, ...] = ()
    approved: int = 0
    call: bytes = b""
    params: bytes = b""


class EntryRecord(Struct, frozen=True, array_like=True):
    """A journal entry, with the action that it opened."""

    entry: Entry
    act: ActionRecord | None = None


class MarkRecord(Struct, frozen=True, array_like=True):
    """What a session knows of a key and did there.

    ``acts`` holds the ids of its actions that other sessions are shown or may be shown again, newest first. It leaves
    out actions that failed, and those that a newer reported action hides for good. ``looks`` holds the reads of the key
    that a failure could still take back, newest first, each with the action that read; the last is the read that stays,
    with 0.
    """

    namespace: str
    session: str
    key: str
    mark: Mark
    acts: tuple[int, ...] = ()
    looks: tuple[tuple[int, int], ...] = ()


class DigestRecord(Struct, frozen=True, array_like=True):
    """A digest, on a key, of an action whose repetition has an effect of its own."""

    namespace: str
    key: str
    print: bytes
    id: int


class SessionRecord(Struct, frozen=True, array_like=True):
    """Where a session comes from, and the time at which it was last noted."""

    namespace: str
    name: str
    seen: int
    parent: str = ""
    continues: str = ""


class FactRecord(Struct, frozen=True, array_like=True):
    """A value of the whole store: ``observe`` is the time until which the gate only observes."""

    name: str
    value: int


Record = EntryRecord | MarkRecord | DigestRecord | SessionRecord | FactRecord


class Sort(StrEnum):
    """The sorts of records, in the order in which they are loaded. A sort may refer to earlier ones."""

    JOURNAL = "journal"
    MARKS = "marks"
    PRINTS = "prints"
    SESSIONS = "sessions"
    FACTS = "facts"


Page = tuple[list[Any], str]
"""Records of one sort, and the position from which to continue after them (``""``: only from the beginning)."""


class Stamp(Struct, frozen=True, omit_defaults=True):
    """What a target knows of the copy that it is or was. It is written before the work it describes.

    ``source`` names the source store. No entry later than ``newest`` came from the copy. ``at`` says for each sort how
    far it is loaded, ``"."`` for all of it. ``verified``: everything was found to be the same.
    """

    source: str
    newest: int = 0
    at: Mapping[str, str] = {}
    verified: bool = False


class StoreExport(Protocol):
    """A store as records. Nothing else should write to it meanwhile; a comparison finds it if something did."""

    @property
    def name(self) -> str:
        """Return the store's name for people and for ``Stamp.source``, without a password."""
        ...

    def newest(self) -> int:
        """Return the newest time that an entry has; 0 in an empty store."""
        ...

    def empty(self) -> bool:
        """Return True if nothing was ever decided here."""
        ...

    def scan(self, sort: Sort, after: str = "") -> Iterator[Page]:
        """Return all records of a sort in pages, each once; from the position ``after``, if the sort has positions.

        Entries come in their order. Raises ``StoreUnavailable`` if the engine cannot be reached.
        """
        ...

    def load(self, sort: Sort, records: Sequence[Any]) -> None:
        """Write records over those with the same key. Loading the same records again changes nothing."""
        ...

    def drop(self, sort: Sort, records: Sequence[Any]) -> None:
        """Delete records."""
        ...

    def stamp(self) -> Stamp | None:
        """Return what ``put_stamp`` wrote last; None if nothing was ever copied to this store."""
        ...

    def put_stamp(self, stamp: Stamp) -> None:
        """Write the stamp. What was loaded before is on disk when this returns."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


# --- Comparing --------------------------------------------------------------------------------------

_encode: Final = msgspec.msgpack.Encoder().encode
_encode_json: Final = msgspec.json.Encoder(enc_hook=str, order="deterministic").encode


def place_of(record: Record) -> tuple[Any, ...]:
    """Return the primary key of a record among those of its sort."""
    match record:
        case EntryRecord():
            return (record.entry.namespace, record.entry.seq)
        case MarkRecord():
            return (record.namespace, record.session, record.key)
        case DigestRecord():
            return (record.namespace, record.key, record.print, record.id)
        case SessionRecord():
            return (record.namespace, record.name)
        case FactRecord():
            return (record.name,)


def bucket_of(record: Record) -> int:
    """Return the one of the ``BUCKETS`` in which a record is counted."""
    return int.from_bytes(blake2b(_encode(place_of(record)), digest_size=2).digest()) % BUCKETS


def alike(one: Record | None, other: Record) -> bool:
    """Return True if two records are identical in everything that ``Sums`` compares."""
    return one is not None and _text(one) == _text(other)


def _text(record: Record) -> bytes:
    """Return a record as it is compared. An entry has all its fields, because stores differ in which ones they omit."""
    return _encode_json((astuple(record.entry), record.act) if isinstance(record, EntryRecord) else record)


def shown(record: Record) -> str:
    """Return a record's primary key as people read it."""
    return "/".join(part.hex() if isinstance(part, bytes) else str(part) for part in place_of(record))


class RecordDigests:
    """Count and digest of many records in any order, by bucket, so that a difference can be found."""

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self._sums = [0] * BUCKETS

    def add(self, record: Record) -> None:
        """Add a record."""
        bucket = bucket_of(record)
        self._counts[bucket] += 1
        self._sums[bucket] += int.from_bytes(blake2b(_text(record), digest_size=16).digest())

    @property
    def count(self) -> int:
        """Return the number of records."""
        return sum(self._counts)

    @property
    def digest(self) -> str:
        """Return the digest of all records: 32 hexadecimal digits."""
        whole = b"".join((value % 2**128).to_bytes(16) for value in self._sums)
        return blake2b(whole, digest_size=16).hexdigest()

    def differ(self, other: RecordDigests) -> list[tuple[int, int]]:
        """Return the buckets that differ, each with the larger of its two counts."""
        return [
            (at, max(self._counts[at], other._counts[at]))
            for at in range(BUCKETS)
            if (self._counts[at], self._sums[at]) != (other._counts[at], other._sums[at])
        ]


# --- What is left of a session's actions and reads ---------------------------------------------------


class PastAction(Struct, frozen=True):
    """One of a session's actions on a key. ``settled``: it has its report, so it will not be taken back."""

    id: int
    tier: int
    mode: str
    settled: bool

    def hides(self, older: PastAction) -> bool:
        """Return True if a reader that sees this action need not see the older one."""
        return self.settled and self.tier >= older.tier and self.mode in ("write", older.mode)


def kept(traces: Iterable[PastAction]) -> tuple[int, ...]:
    """Return the ids, newest first, of the actions that no newer one hides for good."""
    found: list[PastAction] = []
    for trace in traces:
        if not any(newer.hides(trace) for newer in found):
            found.append(trace)
    return tuple(trace.id for trace in found[:KEPT])


def chained(looks: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return reads, newest first, as ``MarkRecord.looks`` holds them.

    The list ends with the first read that stays; it is empty if none can be taken back.
    """
    found: list[tuple[int, int]] = []
    for read, by in looks:
        if read <= 0:
            break
        found.append((read, by))
        if not by:
            break
    return () if len(found) == 1 and not found[0][1] else tuple(found)


def in_pages(records: Iterable[Any], size: int = PAGE) -> Iterator[list[Any]]:
    """Yield the records in lists of ``size``."""
    page: list[Any] = []
    for record in records:
        page.append(record)
        if len(page) >= size:
            yield page
            page = []
    if page:
        yield page
