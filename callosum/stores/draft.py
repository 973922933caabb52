"""A transaction with the changes that are not written yet: each step of a batch sees those of the steps before it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from msgspec import ValidationError

from callosum.model import NO_MARK, Entry
from callosum.stores import names
from callosum.stores.port import OF_ENTRY, Reader, Written
from callosum.stores.records import (
    DECODE,
    LONGER,
    ActionRecord,
    KeyRecord,
    MarkRecord,
    SessionRecord,
    lengthened,
    longer,
)

_ALL: Final = 1 << 30


class Draft:
    """Records as a step sees them, decoded.

    ``known`` are those that need not be read, False for one that is not there; ``new`` are those that the running step
    has put, False for one that goes. A step that is kept moves them to ``known`` and to ``changed``, which is what the
    transaction writes.
    """

    __slots__ = ("changed", "known", "new", "now", "reader", "used", "written")

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.now = reader.now
        self.known = reader.known
        self.used = reader.used
        self.new: dict[bytes, Any] = {}
        self.changed: dict[bytes, Any] = {}
        self.written: list[Written] = []

    def keep(self, written: Sequence[Written]) -> None:
        """Keep what the step has put, and its entries."""
        new, known = self.new, self.known
        if new:
            if LONGER:
                new = {name: lengthened(record, known.get(name)) for name, record in new.items()}
            known |= new
            self.changed = self.changed | new if self.changed else new
            self.new = {}
        if written:
            last = written[-1]
            if last.record is not None:  # only the last entry of a step has one
                known[last.name] = last.record
            self.written = [*self.written, *written]
            self.now = last.seq + 1

    def drop(self) -> None:
        """Drop what the step has put."""
        self.new = {}

    # --- Any record ---

    def all(self, wanted: Sequence[bytes]) -> list[Any]:
        """Return these records, False where there is none, read with one question."""
        known = self.known
        if self.used is not None:
            self.used.update(wanted)
        found = [*map(known.get, wanted)]
        if None in found:
            self.read([name for name in wanted if name not in known])
            found = [*map(known.get, wanted)]
        if new := self.new:
            for at, name in enumerate(wanted):
                if name in new:
                    found[at] = new[name]
        return found

    def load(self, wanted: Iterable[bytes]) -> None:
        """Read those of these records that are not known, with one question."""
        if self.used is not None:
            wanted = [*wanted]
            self.used.update(wanted)
        missing = [name for name in dict.fromkeys(wanted) if name not in self.known]
        if missing:
            self.read(missing)

    def read(self, missing: Sequence[bytes]) -> None:
        """Read these records anew."""
        known = self.known
        for name in missing:
            known[name] = False
        for name, value in self.reader.get(missing):
            try:
                record = DECODE[name[0]](value)
            except ValidationError:
                record = longer(name, value)
            known[name] = record
            if name[0] == OF_ENTRY and names.digest(record.action.namespace) != name[1:17]:
                known[name] = False  # the entry is another namespace's

    def get(self, name: bytes) -> Any:
        """Return a record, False if there is none."""
        if name in self.new:
            return self.new[name]
        if self.used is not None:
            self.used.add(name)
        if name in self.known:
            return self.known[name]
        self.read((name,))
        return self.known[name]

    def scan(self, start: bytes, end: bytes, limit: int = _ALL, *, newest: bool = False) -> list[tuple[bytes, Any]]:
        """Return the first ``limit`` records in a range in ascending order; ``newest``: the last, descending."""
        changed = {name: new for name, new in {**self.changed, **self.new}.items() if start <= name < end}
        rows = self.reader.scan(start, end, limit + len(changed), newest=newest)
        try:
            found = [(name, DECODE[name[0]](value)) for name, value in rows]
        except (ValidationError, KeyError):
            found = [(name, longer(name, value)) for name, value in rows]
        if changed:
            there = dict(found) | changed
            found = sorted([one for one in there.items() if one[1] is not False], reverse=newest)
        return found[:limit]

    def under(self, prefix: bytes, limit: int = _ALL, *, newest: bool = False) -> list[tuple[bytes, Any]]:
        """Return the records whose names begin with ``prefix``, as ``scan`` does."""
        return self.scan(prefix, names.after(prefix), limit, newest=newest)

    # --- The journal ---

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of entries as the engine does, with those that are not written yet."""
        found = self.reader.bodies(namespace, ids)
        for one in self.written:
            if one.seq in ids and one.body and one.entry.namespace == namespace:
                found[one.seq] = one.body
        return found

    def opened(
        self, namespace: str, within: int, sessions: Collection[str] | None = None, limit: int = _ALL
    ) -> list[int]:
        """Return the positions of entries with a record as the engine does, with those that are not written yet."""
        new = [
            one.seq
            for one in reversed(self.written)
            if one.record is not None
            and one.entry.namespace == namespace
            and (sessions is None or one.entry.session in sessions)
        ]
        return [*new, *self.reader.opened(namespace, within, sessions, limit)][:limit]

    def page(self, limit: int) -> list[Entry]:
        """Return the newest entries in ascending order, with the ones that are not written yet."""
        return (self.reader.page(0, limit, newest=True) + [one.whole() for one in self.written])[-limit:]

    # --- Records by kind ---

    def key(self, namespace: str, key: str) -> KeyRecord:
        """Return who changed a key."""
        return self.get(names.key(namespace, key)) or KeyRecord(key)

    def put_key(self, namespace: str, record: KeyRecord) -> None:
        """Set who changed a key."""
        self.new[names.key(namespace, record.key)] = record if record.live or record.sessions else False

    def mark(self, namespace: str, session: str, key: str) -> MarkRecord:
        """Return what a session has seen of a key."""
        return self.get(names.mark(namespace, session, key)) or MarkRecord(key, session)

    def put_mark(self, namespace: str, record: MarkRecord) -> None:
        """Set what a session has seen of a key."""
        there = record.acts or record.reads or record.mark != NO_MARK
        self.new[names.mark(namespace, record.session, record.key)] = record if there else False

    def action(self, namespace: str, id: int) -> ActionRecord | None:
        """Return an action, or a refused call."""
        return (self.get(names.action(namespace, id)) or None) if 0 < id < 1 << 63 else None

    def actions(self, namespace: str, ids: Sequence[int]) -> list[ActionRecord]:
        """Return these actions, those that there are, read with one question."""
        return [record for record in self.all([names.action(namespace, id) for id in ids]) if record]

    def session(self, namespace: str, session: str) -> SessionRecord:
        """Return where a session comes from."""
        return self.get(names.session(namespace, session)) or SessionRecord(session)

    def fact(self, name: str) -> int:
        """Return a fact of the whole store, 0 if it was never set."""
        return self.get(names.fact(name)) or 0

    def open_of(self, namespace: str, session: str) -> list[int]:
        """Return the actions of a session that have no report, and the unknown ones, oldest first."""
        return [names.id_in(name) for name, _ in self.under(names.named(b"o", namespace, names.digest(session)))]
