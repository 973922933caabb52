"""What a copy compares and writes: the records and entries that an engine holds, in one order for all engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from callosum.model import Action, Entry, State
from callosum.stores import names
from callosum.stores.port import OF_ENTRY, Engine, Written

PAGE: Final = 1_000
"""Number of entries or records that are read or written at once."""
JOURNAL: Final = "journal"
KINDS: Final[Mapping[str, str]] = {
    "c": "calls",
    "f": "facts",
    "h": "farewells",
    "k": "keys",
    "m": "marks",
    "o": "unreported",
    "p": "fingerprints",
    "q": "waiting",
    "s": "sessions",
    "t": "facets",
    "u": "upkeep",
    "x": "commitments",
}
"""What people call the records of a kind, by the letter of their names."""
_OPENINGS: Final = 100_000
"""Number of openings that are remembered, so that an entry about one of them is stored in its short form."""
_as_json: Final = msgspec.json.Encoder().encode
_comparable: Final = msgspec.json.Encoder(enc_hook=str, order="deterministic").encode


class CopyItem(Struct, frozen=True):
    """An entry with the record that belongs to it, or a record.

    ``place`` orders the items: for an entry its position and namespace, for a record its name. ``about`` is the opening
    that an entry repeats tool, tier and keys of.
    """

    place: bytes
    value: bytes
    entry: Entry | None = None
    about: Entry | None = None

    def same(self, other: CopyItem) -> bool:
        """Return True if a gate finds the same in both."""
        return self.value == other.value and self.text() == other.text()

    def text(self) -> bytes:
        """Return an entry in one form, whatever order the engine gives the fields of its body."""
        return _comparable(astuple(self.entry)) if self.entry is not None else b""

    def kind(self) -> str:
        """Return what people call the kind."""
        letter = chr(self.place[0])
        return JOURNAL if self.entry is not None else KINDS.get(letter, letter)

    def shown(self) -> str:
        """Return kind and place for people."""
        where = f"{self.entry.namespace}/{self.entry.seq}" if self.entry is not None else self.place.hex()
        return f"{self.kind()} {where}"


def records_of(engine: Engine, after: bytes) -> Iterator[list[CopyItem]]:
    """Yield the records behind a name in pages. Those of entries come with the journal."""
    for first, end in ((after + b"\x00", bytes((OF_ENTRY,))), (max(after + b"\x00", b"b"), b"\xff")):
        start = first
        while start < end:
            with engine.snapshot() as reader:
                found = reader.scan(start, end, PAGE)
            if found:
                yield [CopyItem(bytes(name), bytes(value)) for name, value in found]
            if len(found) < PAGE:
                break
            start = bytes(found[-1][0]) + b"\x00"


def journal_of(engine: Engine, after: bytes) -> Iterator[list[CopyItem]]:
    """Yield the entries behind a place in pages, each with its record."""
    at = max(0, int.from_bytes(after[:8], "big") - 1)  # another namespace may have an entry at the same position
    openings: dict[int, Entry] = {}
    while True:
        with engine.snapshot() as reader:
            page = reader.page(at, PAGE, settled=True)
            wanted = [names.action(entry.namespace, entry.seq) for entry in page]
            values = {bytes(name): bytes(value) for name, value in reader.get(wanted)}
        items = []
        for name, entry in zip(wanted, page, strict=True):
            if entry.action == entry.seq:
                openings[entry.seq] = entry
            first = openings.get(entry.action)
            about = first if first is not None and entry.seq != first.seq and _repeats(entry, first) else None
            items.append(CopyItem(name[-8:] + name[1:17], values.get(name, b""), entry, about))
        if len(openings) > _OPENINGS:
            openings.clear()
        items = sorted([item for item in items if item.place > after], key=lambda item: item.place)
        if items:
            yield items
        if len(page) < PAGE:
            return
        at = page[-1].seq


def _repeats(entry: Entry, opening: Entry) -> bool:
    """Return True if an entry says what its action's opening says, and no verdict of its own."""
    return (
        (entry.namespace, entry.tool, entry.tier, entry.run, entry.keys)
        == (opening.namespace, opening.tool, opening.tier, opening.run, opening.keys)
    ) and not (entry.verdict or entry.rule)


def merged(
    ours: Iterator[list[CopyItem]], theirs: Iterator[list[CopyItem]]
) -> Iterator[tuple[CopyItem | None, CopyItem | None]]:
    """Yield what has the same place in both, and what only one of them has, in the order of places."""
    right = (item for page in ours for item in page)
    left = (item for page in theirs for item in page)
    one, other = next(right, None), next(left, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one.place < other.place):
            yield one, None
            one = next(right, None)
        elif one is None or other.place < one.place:
            yield None, other
            other = next(left, None)
        else:
            yield one, other
            one, other = next(right, None), next(left, None)


def written(item: CopyItem, one: Entry) -> Written:
    """Return an entry with its record as a transaction takes it."""
    about = None
    if (first := item.about) is not None:
        about = Action(first.seq, one.namespace, one.session, one.tool, one.tier or 0, State.DONE, 0, keys=one.keys)
    body, value = _as_json(one.body) if one.body else b"", item.value
    if not value:
        return Written(one.seq, one, body, about, one.action == one.seq)
    return Written(one.seq, one, body, about, one.action == one.seq, names.action(one.namespace, one.seq), Raw(value))
