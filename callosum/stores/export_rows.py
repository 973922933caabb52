"""Convert rows of the SQL stores to engine-independent records, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from callosum.errors import StoreError
from callosum.model import DEFAULT_NAMESPACE, Content, Entry, Event, Key, Mode, State
from callosum.stores.export import (
    KEPT,
    ActionRecord,
    DigestRecord,
    EntryRecord,
    MarkRecord,
    PastAction,
    SessionRecord,
    chained,
    kept,
)
from callosum.stores.keys import covers, scoped
from callosum.stores.records import ACTED, LIVE
from callosum.stores.rows import (
    RareFields,
    Stored,
    as_json,
    before_of,
    content_of,
    encode,
    entry_of,
    extra_of,
    mark_of,
    note_of,
    stored_keys,
)

_WIDTH: Final = 13
_BAR: Final = "\x1f"
_encode_place: Final = msgspec.msgpack.Encoder().encode
_decode_place: Final = msgspec.msgpack.Decoder(tuple[Any, ...]).decode
_UNREPORTED: Final = frozenset({"open", "done", "unknown"})

Life = tuple[str | None, int | None, int | None, str | None]
"""State, end, tier and keys (JSON) of an action."""
Look = Callable[[Sequence[int]], Mapping[int, Life]]
Reads = Callable[[str, int], Sequence[tuple[int, str]]]


def split(name: str) -> tuple[str, str]:
    """Return the namespace and the bare name: the inverse of ``scoped``."""
    namespace, bar, rest = name.partition(_BAR)
    return (namespace, rest) if bar else (DEFAULT_NAMESPACE, name)


def shown(place: Sequence[Any]) -> str:
    """Return a position among rows as text."""
    return _encode_place(place).hex()


def place(text: str, *first: Any) -> Sequence[Any]:
    """Return the position: the inverse of ``shown``. Empty text gives ``first``."""
    found: Sequence[Any] = _decode_place(bytes.fromhex(text)) if text else first
    return found


# --- To records -----------------------------------------------------------------------------------------


def entry_record_of(row: Sequence[Any]) -> EntryRecord:
    """Return the record in a row of ``written``."""
    entry = entry_of(row)
    state, ended, expires, approved, content, extra, call, params = row[_WIDTH:]
    if state is None:
        refused = entry.event is Event.INTERCEPT
        kept_ = ActionRecord(opened=False, state=State.ASKED, content=content_of(content) if content else Content())
        return EntryRecord(entry, kept_ if refused else None)
    more = extra_of(extra) if extra else RareFields()
    return EntryRecord(
        entry,
        ActionRecord(
            opened=True,
            state=State(state),
            ended=ended or 0,
            expires=expires or 0,
            limit=more.limit,
            lock=more.lock,
            host=more.host,
            content=content_of(content) if content else Content(),
            supersedes=more.supersedes,
            approved=approved or 0,
            call=bytes(call or b""),
            params=bytes(params or b""),
        ),
    )


class MarkCursor(Struct):
    """One session's mark on a key, while its actions there are followed back."""

    row: Sequence[Any]
    namespace: str
    key: str
    at: int
    traces: list[PastAction]


def known_in(rows: Iterable[Sequence[Any]], look: Look, reads: Reads) -> list[MarkRecord]:
    """Return the records of mark rows: key, session, read, told, kind, note and acted.

    ``look`` returns actions by id. ``reads`` returns ids and keys of a session's unreported actions that were opened
    within ``rows.NEXT`` microseconds from a given time.
    """
    sights = []
    for row in rows:
        namespace, key = split(row[0])
        sights.append(MarkCursor(row, namespace, key, row[6] or 0, []))
    walking = sights
    for _ in range(KEPT):
        walking = [sight for sight in walking if sight.at]
        if not walking:
            break
        lives = look(sorted({sight.at for sight in walking}))
        for sight in walking:
            _step(sight, lives.get(sight.at))
    return [
        MarkRecord(
            sight.namespace,
            sight.row[1],
            sight.key,
            mark_of(sight.row[1:]),
            kept(sight.traces),
            _looks(sight, reads) if sight.row[2] else (),
        )
        for sight in sights
    ]


def _step(sight: MarkCursor, life: Life | None) -> None:
    """Note the current action and go back to the previous one."""
    id, sight.at = sight.at, 0
    if life is None:
        return
    state, ended, tier, keys = life
    sight.at = before_of(keys, sight.key)
    if state is None or State(state) not in ACTED:
        return
    mode = next((key.mode for key in stored_keys(keys) if key.name == sight.key), "write") if keys else "write"
    trace = PastAction(id, tier or 0, mode, settled=state == "done" and bool(ended))
    sight.traces.append(trace)
    if trace.settled and trace.tier >= 4 and trace.mode == "write":
        sight.at = 0  # it hides all earlier ones


def _looks(sight: MarkCursor, reads: Reads) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    at = int(sight.row[2])
    while at and len(found) < KEPT:
        by, before = 0, 0
        for id, keys in reads(sight.row[1], at):
            mine = next((key for key in stored_keys(keys) if key.name == sight.key and key.mode == "read"), None)
            if mine is not None and mine.before < at:
                by, before = id, mine.before
                break
        found.append((at, by))
        at = before
    return chained(found)


def unreported(state: str | None, ended: int | None) -> bool:
    """Return True if an action may still fail."""
    return state in _UNREPORTED and not ended


# --- From records ---------------------------------------------------------------------------------------


def row_of(record: EntryRecord, about: Mapping[int, Entry]) -> tuple[Any, ...]:
    """Return the journal row of a record. ``about`` holds the entries of other actions, by id.

    Fields that equal those of the action's own entry are left out.
    """
    entry, act = record.entry, record.act
    other = about.get(entry.action) if entry.action != entry.seq else None
    names = [(key.name, key.mode.value, 0) for key in entry.keys]
    same = other is not None and (other.tool, other.tier, other.run, other.keys) == (
        entry.tool, entry.tier, entry.run, entry.keys,
    )  # fmt: skip
    opened = act if act is not None and act.opened else None
    extra = None
    if opened is not None and (opened.limit or opened.host is not None or opened.lock or opened.supersedes):
        extra = encode(RareFields(opened.limit, opened.host, opened.lock, opened.supersedes))
    return (
        entry.seq,
        entry.event.value,
        entry.namespace,
        entry.session,
        None if same else entry.run or None,
        None if same else entry.tool or None,
        None if same else entry.tier,
        entry.verdict.value if entry.verdict is not None else None,
        entry.rule or None,
        entry.action or None,
        entry.outcome.value if entry.outcome is not None else None,
        scoped(entry.namespace, names[0][0]) if names and not same else None,
        as_json(names) if names and not same else None,
        as_json(entry.body) if entry.body else None,
        (opened.call or None) if opened is not None else None,
        opened.state.value if opened is not None else None,
        opened.ended if opened is not None else None,
        opened.expires if opened is not None else None,
        opened.approved if opened is not None else None,
        encode(act.content) if act is not None and (act.opened or act.content != Content()) else None,
        extra,
    )


def apart(records: Iterable[EntryRecord], there: Mapping[int, str]) -> None:
    """Raise ``StoreError`` if two namespaces have an entry at the same time; ``there`` are the namespaces by time."""
    seen = dict(there)
    for record in records:
        seq, namespace = record.entry.seq, record.entry.namespace
        if seen.setdefault(seq, namespace) != namespace:
            raise StoreError(
                f"the namespaces {seen[seq]!r} and {namespace!r} both have an entry at the moment {seq}: "
                "only a Redis Cluster can hold that"
            )


def opener(row: Sequence[Any]) -> Entry:
    """Return the entry that a row of seq, tool, tier, run and keys describes, as far as ``row_of`` compares it."""
    seq, tool, tier, run, keys = row
    names = tuple(Key(key.name, Mode(key.mode)) for key in stored_keys(keys)) if keys else ()
    return Entry(Event.INTERCEPT, "", seq=seq, tool=tool or "", tier=tier, run=run or "", keys=names)


def lives_in(records: Iterable[EntryRecord], openness: Callable[[State], int]) -> list[tuple[str, int, int]]:
    """Return the rows of ``live``: key, openness, id."""
    return [
        (scoped(record.entry.namespace, key.name), openness(record.act.state), record.entry.seq)
        for record in records
        if record.act is not None and record.act.opened and record.act.state in LIVE
        for key in record.entry.keys
    ]


def covers_in(records: Iterable[EntryRecord | MarkRecord]) -> list[str]:
    """Return the rows of ``cover``: trees, and the prefixes of facets."""
    found: set[str] = set()
    for record in records:
        if isinstance(record, MarkRecord):
            names = [scoped(record.namespace, record.key)]
        elif record.act is not None and record.act.opened:
            names = [scoped(record.entry.namespace, key.name) for key in record.entry.keys]
        else:
            continue
        found.update(over for name in names for over in covers(name))
    return sorted(found)


def mark_row(record: MarkRecord, lives: Mapping[int, Life]) -> tuple[Any, ...]:
    """Return the row of ``mark`` for a record; ``lives`` are the session's actions."""
    mark = record.mark
    acts = [id for id in record.acts if id in lives]
    changed = [
        lives[id][1] or id if lives[id][0] == "done" else id  # the report's time is the time of the change
        for id in acts
    ]
    return (
        scoped(record.namespace, record.key),
        record.session,
        mark.read,
        mark.notified,
        mark.notified_kind,
        note_of(mark),
        acts[0] if acts else None,
        max(changed, default=0),
    )


def befores(records: Iterable[MarkRecord], lives: Mapping[int, Life]) -> dict[int, str]:
    """Return the keys, as JSON, of those actions in ``lives`` that must name the session's earlier actions."""
    changed: dict[int, list[Stored]] = {}
    for record in records:
        acts = [id for id in record.acts if id in lives]
        steps = list(zip(acts, [*acts[1:], 0], strict=False))
        looks = [*record.looks, (0, 0)]
        steps += [(by, looks[at + 1][0]) for at, (_, by) in enumerate(record.looks) if by in lives]
        for id, before in steps:
            text = lives[id][3]
            mine = changed.get(id) or (stored_keys(text) if text else ())
            changed[id] = [Stored(key.name, key.mode, before if key.name == record.key else key.before) for key in mine]
    return {id: text for id, keys in changed.items() if (text := as_json(keys)) != lives[id][3]}


def ids_of(records: Iterable[MarkRecord]) -> list[int]:
    """Return the ids of the actions that mark records name."""
    return sorted({id for record in records for id in (*record.acts, *(by for _, by in record.looks if by))})


def print_of(row: Sequence[Any]) -> DigestRecord:
    """Return the record in a row of key, print and id."""
    return DigestRecord(*split(row[0]), bytes(row[1]), row[2])


def session_of(namespace: str, name: str, row: Sequence[Any]) -> SessionRecord:
    """Return the record of a session; the row holds seen, parent and continues."""
    return SessionRecord(namespace, name, row[0], row[1] or "", row[2] or "")
