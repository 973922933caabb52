"""What an engine offers: records by name, in one order, with a revision each, and a journal that only grows.

An engine knows no word of the policy. ``Kernel`` makes a ``Store`` of it: it says which names mean what, reads them for
a step and writes what the step changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.model import Action, Entry
from callosum.stores.base import Request, StoreCheck

Found = tuple[bytes, bytes]
"""A record: its name and its value."""


encode: Final = msgspec.msgpack.Encoder().encode
"""How every record is written."""
OF_ENTRY: Final = ord("a")
OF_KEY: Final = ord("k")
"""Letter of the records that belong to a journal entry: the entry's position ends the name, and they go with it."""
SELDOM: Final = (ord("c"), ord("p"))
"""Letters of the records that a call asks for under a name of its own, which are seldom there."""


class Written(Struct, frozen=True, gc=False):
    """An entry to append at ``seq``, with its body as JSON, empty if it has none.

    ``about`` is the action that it is about; ``opens``: it opens one itself. ``record`` is the record that belongs to
    the entry, decoded, as it was when the entry was made, and ``name`` its name; None if none does.
    """

    seq: int
    entry: Entry
    body: bytes
    about: Action | None = None
    opens: bool = False
    name: bytes = b""
    record: Any = None

    def whole(self) -> Entry:
        """Return the entry as the journal shows it: with tool, tier and keys of the action that it is about."""
        entry, about = self.entry, self.about
        if about is None:
            return replace(entry, seq=self.seq, action=self.seq if self.opens else entry.action)
        run = entry.run or about.run
        return replace(entry, seq=self.seq, tool=about.tool, tier=about.tier, keys=about.keys, run=run)


def values(changed: Mapping[bytes, Any], entries: Sequence[Written]) -> tuple[dict[bytes, bytes], list[bytes]]:
    """Return the values that ``Transaction.commit`` writes, by name, and the names of the records that go."""
    records = {one.name: one.record for one in entries if one.record is not None}
    records.update(changed)
    gone = [name for name, record in records.items() if record is False]
    return {name: encode(record) for name, record in records.items() if record is not False}, gone


class Overtaken(Exception):
    """Others changed what a transaction had read: nothing was written, and its steps run again."""


class Uncertain(Exception):
    """A commit was sent, and whether it was made cannot be found out: the store does not answer any more."""


class Reader(Protocol):
    """One consistent look at records and journal.

    ``clock`` is the engine's clock, ``time`` the later of it and the newest entry, and ``now`` is later than every
    entry.
    """

    @property
    def clock(self) -> int: ...
    @property
    def time(self) -> int:
        """Return the later of the clock and the newest entry."""

    @property
    def now(self) -> int: ...

    known: dict[bytes, Any]
    """Decoded records that need not be read, False for one that is not there. The kernel adds what it reads."""
    used: set[bytes] | None
    """Names of the records that the kernel took from ``known`` or read, for an engine that compares them at commit."""

    def get(self, names: Sequence[bytes]) -> list[Found]:
        """Return the records with these names, in any order; absent ones are left out."""

    def scan(self, start: bytes, end: bytes, limit: int, *, newest: bool = False) -> list[Found]:
        """Return the first ``limit`` records from ``start`` up to, not including, ``end``; ``newest``: the last ones.

        With ``newest`` they come in descending order.
        """

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies, as JSON, of a namespace's journal entries with these positions; none for an empty one."""

    def opened(self, namespace: str, within: int, sessions: Collection[str] | None, limit: int) -> list[int]:
        """Return the positions of entries of a namespace that have a record, newest first, at most ``limit``.

        They are among the newest ``within`` entries of all namespaces, and of these sessions if any are given.
        """

    def count(self) -> int:
        """Return the number of journal entries."""

    def page(
        self,
        after: int,
        limit: int,
        *,
        newest: bool = False,
        namespace: str | None = None,
        session: str | None = None,
        key: str | None = None,
        settled: bool = False,
    ) -> list[Entry]:
        """Return entries behind ``after`` in ascending order: the first ``limit``, or the last with ``newest``.

        Of a divided engine also the others at the position of the last one of the first ``limit``.

        ``key`` selects entries whose first key it is. ``settled``: no entry appears before the last one any more; this
        waits for writers that may still commit one there.
        """


class Transaction(Reader, Protocol):
    """A look that ends with a write, all or nothing. Nobody else writes what it locked in between.

    ``last`` is the position of the newest entry; after ``commit`` its own count too.
    """

    @property
    def last(self) -> int: ...

    def commit(
        self,
        changed: Mapping[bytes, Any],
        entries: Sequence[Written],
        *,
        dropped: Collection[Entry] = (),
        durable: bool = False,
    ) -> None:
        """Append ``entries``, write records, and drop the entries ``dropped``.

        A copy gives entries positions of its own, which may lie before the newest entry.
        ``changed`` are decoded records, to be written as ``encode`` returns them; False stands for one that goes.
        """

    def rollback(self) -> None:
        """End without writing; what is in ``known`` may never have existed."""

    def refusal(self) -> Exception | None:
        """Return why nothing that must survive a power failure may be answered now, None if it may."""


class Engine(Protocol):
    """Where records and journal are kept."""

    kind: str
    """Name and version of what keeps it, for people."""
    place: str
    """Where it is, for people, without a password: two engines with the same place are one store."""
    divided: bool
    """True if each namespace has a clock of its own, so that two may have an entry at one position."""
    prefetches: bool
    """True if ``begin`` fetches what the steps ask for first; otherwise it is not told."""

    def begin(self, requests: Sequence[Request], first: Sequence[bytes], *, wait: bool = True, tries: int = 0) -> Any:
        """Begin a ``Transaction`` for these requests; of two whose scopes' keys overlap, one waits for the other.

        It ends with ``commit`` or ``rollback``. ``first`` are the records that will be asked for in any case, so that
        an engine can fetch them with the locks. ``commit`` may raise ``Overtaken`` instead of waiting; then the
        transaction is over, and the kernel begins again with one more in ``tries``. Without ``wait`` it is None if it
        cannot begin at once.
        """

    def explained(self, error: BaseException) -> BaseException:
        """Return an error of the driver as Callosum's, any other as it is."""

    def snapshot(self) -> AbstractContextManager[Reader]:
        """Return a look that locks nothing."""

    def sync(self, seq: int) -> None:
        """Put everything up to entry ``seq`` where it survives a power failure."""

    def prove(self) -> None:
        """Write something tiny, as ``Store.prove`` says."""

    def accept(self, now: int) -> str:
        """Accept a store that was replaced, as ``Store.accept`` says. Whoever asks may."""

    def check(self) -> StoreCheck:
        """Examine the store without changing it; what is live and who registered is left out."""

    def size(self) -> int:
        """Return the number of bytes that records and journal take."""

    def close(self) -> None:
        """Release what this process holds. Idempotent."""
