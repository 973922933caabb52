"""What a store holds, in records that belong to no engine, so that it can be carried into another store.

A record says what a gate can ask for, not how a store finds it: which leases are open follows from the actions, which
trees are in use from the keys. Two stores whose records are the same decide alike. Each store package has an ``export``
that writes its rows as records (``StoreExport.scan``) and makes rows of them again (``StoreExport.load``).
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
"""How many records are read or written at once."""
KEPT: Final = 64
"""How far back a session's own acts on a key are followed, for when the newest are taken back."""
BUCKETS: Final = 4096


class ActionRecord(Struct, frozen=True, array_like=True):
    """The life of the action that an entry opened.

    Or (``opened`` False) of a refused call that a person may still approve. ``call`` is its identity while it is
    remembered, ``params`` those of a question while it is pending; empty otherwise. The rest of an action stands in the
    entry.
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


class Written(Struct, frozen=True, array_like=True):
    """A journal entry, with the action that it opened."""

    entry: Entry
    act: ActionRecord | None = None


class MarkRecord(Struct, frozen=True, array_like=True):
    """What a session knows of a key, and did there.

    ``acts``: the ids of its acts that others are shown or may be again, newest first: without those that failed, and
    without those that an act with its report hides for good. ``looks``: the looks at the key that a failure could
    still take back, newest first, each with the action that looked; behind them the one that stays, with 0.
    """

    namespace: str
    session: str
    key: str
    mark: Mark
    acts: tuple[int, ...] = ()
    looks: tuple[tuple[int, int], ...] = ()


class Print(Struct, frozen=True, array_like=True):
    """A digest of an act that happens again when it is repeated, on a key."""

    namespace: str
    key: str
    print: bytes
    id: int


class SessionRecord(Struct, frozen=True, array_like=True):
    """Where a session comes from, and the moment at which it was last noted."""

    namespace: str
    name: str
    seen: int
    parent: str = ""
    continues: str = ""


class Fact(Struct, frozen=True, array_like=True):
    """A value of the whole store: ``observe``, the moment until which the gate only observes."""

    name: str
    value: int


Record = Written | MarkRecord | Print | SessionRecord | Fact


class Sort(StrEnum):
    """The sorts of records, in the order in which they are loaded: a later one may refer to earlier ones."""

    JOURNAL = "journal"
    MARKS = "marks"
    PRINTS = "prints"
    SESSIONS = "sessions"
    FACTS = "facts"


Page = tuple[list[Any], str]
"""Records of one sort, and the place to go on from after them (``""``: only from the beginning)."""


class Stamp(Struct, frozen=True, omit_defaults=True):
    """What a target knows of the copy that it is or was. Written before what it speaks of.

    ``source``: of which store. ``newest``: no entry after this moment came from the copy. ``at``: for each sort how far
    it is loaded, ``"."`` for all of it. ``verified``: all was found to be the same.
    """

    source: str
    newest: int = 0
    at: Mapping[str, str] = {}
    verified: bool = False


class StoreExport(Protocol):
    """A store as records. Nobody else should write to it meanwhile; what comes of that, comparing finds."""

    @property
    def name(self) -> str:
        """Which store it is, for people and for ``Stamp.source``: without a password."""
        ...

    def newest(self) -> int:
        """Return the newest moment that was given to an entry; 0 in an empty store."""
        ...

    def empty(self) -> bool:
        """Whether nothing was ever decided here."""
        ...

    def scan(self, sort: Sort, after: str = "") -> Iterator[Page]:
        """All records of a sort, each once, in pages; from the place ``after``, if the sort has places.

        Entries come in their order. Raises ``StoreUnavailable`` if the engine is away.
        """
        ...

    def load(self, sort: Sort, records: Sequence[Any]) -> None:
        """Put records in, in place of what stands there; the same ones a second time change nothing."""
        ...

    def drop(self, sort: Sort, records: Sequence[Any]) -> None:
        """Take records out."""
        ...

    def stamp(self) -> Stamp | None:
        """Return what ``put_stamp`` wrote last; None where nothing was ever copied to."""
        ...

    def put_stamp(self, stamp: Stamp) -> None:
        """Write the stamp. What was loaded before is on disk when this returns."""
        ...

    def close(self) -> None:
        """Close its connections."""
        ...


# --- comparing --------------------------------------------------------------------------------------

_encode: Final = msgspec.msgpack.Encoder().encode
_encode_json: Final = msgspec.json.Encoder(enc_hook=str, order="deterministic").encode


def place_of(record: Record) -> tuple[Any, ...]:
    """Return the primary key of a record among those of its sort."""
    match record:
        case Written():
            return (record.entry.namespace, record.entry.seq)
        case MarkRecord():
            return (record.namespace, record.session, record.key)
        case Print():
            return (record.namespace, record.key, record.print, record.id)
        case SessionRecord():
            return (record.namespace, record.name)
        case Fact():
            return (record.name,)


def bucket_of(record: Record) -> int:
    """In which of the ``BUCKETS`` a record is counted."""
    return int.from_bytes(blake2b(_encode(place_of(record)), digest_size=2).digest()) % BUCKETS


def alike(one: Record | None, other: Record) -> bool:
    """Whether two records are the same to the last digit: what ``Sums`` compares."""
    return one is not None and _text(one) == _text(other)


def _text(record: Record) -> bytes:
    """Return a record as it is compared: an entry with all fields, because its origin decides which are omitted."""
    return _encode_json((astuple(record.entry), record.act) if isinstance(record, Written) else record)


def shown(record: Record) -> str:
    """Return a record's place, as it is named to a person."""
    return "/".join(part.hex() if isinstance(part, bytes) else str(part) for part in place_of(record))


class Sums:
    """The count and digest of many records, whatever their order: by bucket, so that a difference can be found."""

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self._sums = [0] * BUCKETS

    def add(self, record: Record) -> None:
        """Count a record."""
        bucket = bucket_of(record)
        self._counts[bucket] += 1
        self._sums[bucket] += int.from_bytes(blake2b(_text(record), digest_size=16).digest())

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(self._counts)

    @property
    def digest(self) -> str:
        """Of all of them: 32 hexadecimal digits."""
        whole = b"".join((value % 2**128).to_bytes(16) for value in self._sums)
        return blake2b(whole, digest_size=16).hexdigest()

    def differ(self, other: Sums) -> list[tuple[int, int]]:
        """Return the buckets in which the two are not the same, each with the larger of its counts."""
        return [
            (at, max(self._counts[at], other._counts[at]))
            for at in range(BUCKETS)
            if (self._counts[at], self._sums[at]) != (other._counts[at], other._sums[at])
        ]


# --- what is left of a session's acts and looks ------------------------------------------------------


class Trace(Struct, frozen=True):
    """One of a session's acts on a key. ``settled``: it has its report, so it will not be taken back."""

    id: int
    tier: int
    mode: str
    settled: bool

    def hides(self, older: Trace) -> bool:
        """Whether whoever sees this need not see an older one."""
        return self.settled and self.tier >= older.tier and self.mode in ("write", older.mode)


def kept(traces: Iterable[Trace]) -> tuple[int, ...]:
    """Return the ids of those acts, newest first, that no newer one hides for good."""
    found: list[Trace] = []
    for trace in traces:
        if not any(newer.hides(trace) for newer in found):
            found.append(trace)
    return tuple(trace.id for trace in found[:KEPT])


def chained(looks: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return looks, newest first, as ``MarkRecord.looks`` has them.

    Nothing stands behind the first that stays; there are none if nothing can go.
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
    """Record in lists of ``size``."""
    page: list[Any] = []
    for record in records:
        page.append(record)
        if len(page) >= size:
            yield page
            page = []
    if page:
        yield page
