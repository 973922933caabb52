"""What may be forgotten: one rule a kind of record, asked by one sweep, and which entries may leave the journal.

Most records are recent, which their own moments tell: the sweep looks at them without a lock and asks no further. A
mark lasts as long as its session is active. ``stale`` has no time window, so an old change lasts as long as a session
is active that began before it, and whose last look at the key is older than it. An action lasts as long as a record
needs it: its record goes with the entry that opened it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from callosum.model import HOUR, NO_MARK, Action, Entry, Mode
from callosum.policy.commitments import is_in_force, lookup_keys
from callosum.stores import names
from callosum.stores.draft import Draft
from callosum.stores.keys import above, covering
from callosum.stores.port import Reader
from callosum.stores.records import READS, REMEMBERED, ActionRecord, Found, MarkRecord, SessionRecord, finished
from callosum.stores.view import chain

EXAMINED: Final = 4_000
"""Number of records, or entries, that are examined at once."""
PROGRESS: Final = names.named(b"u", "")
"""Names the record of how far the sweeps of all processes have come together."""
_FIRST: Final = b"b"
"""The first name that the sweep examines: the records of entries go with them."""
_BELOW: Final = 256
"""Number of a session's marks below a tree that are compared with a change of the tree."""
_FOREVER: Final = 2**63 - 1
"""Moment of a change that has no outcome yet."""


def examine(draft: Draft, horizon: int, budget: int) -> tuple[list[bytes], bytes]:
    """Return the names of at most ``budget`` of the next records that may go or be cut, and where to go on."""
    rules = Rules(draft, horizon)
    at = draft.get(PROGRESS) or _FIRST
    found = draft.scan(at, b"\xff", EXAMINED)
    rules.load(found)
    going: list[bytes] = []
    for name, record in found:
        if rules.may_go(name, record):
            going.append(name)
            if len(going) == budget:
                return going, name + b"\x00"
    return going, found[-1][0] + b"\x00" if len(found) == EXAMINED else b""


def forget(draft: Draft, horizon: int, going: Sequence[bytes], at: bytes) -> int:
    """Put the removal of those of these records into the draft that still may go. Return how many go.

    ``at`` is where the next sweep begins.
    """
    rules = Rules(draft, horizon)
    there = [(name, record) for name, record in zip(going, draft.all(going), strict=True) if record is not False]
    rules.load(there)
    gone = 0
    for name, record in there:
        if rules.may_go(name, record):
            draft.new[name] = left = rules.left(name, record)
            gone += left is False
    draft.new[PROGRESS] = at or False
    return gone


class Rules:
    """The rules of forgetting, by kind of record. Nothing before ``horizon`` counts."""

    def __init__(self, draft: Draft, horizon: int) -> None:
        self._draft = draft
        self._horizon = horizon
        self._day = draft.now - REMEMBERED
        self._old: dict[bytes, list[str]] = {}
        self._kinds: dict[bytes, Callable[[bytes, Any], bool]] = {
            b"c": lambda name, id: id < self._day and not self._is_live(name[1:17], id),
            b"h": lambda name, _: names.id_in(name) < horizon,
            b"m": self._mark,
            b"o": lambda name, _: names.id_in(name) < self._day and not self._is_live(name[1:17], names.id_in(name)),
            b"p": lambda name, found: len(self.counting(name, found)) < len(found),
            b"s": self._session,
            b"t": lambda name, _: self._facets(name),
            b"x": lambda name, _: not self._binds(name[1:17], names.id_in(name)),
        }

    def may_go(self, name: bytes, record: Any) -> bool:
        """Return True if nothing can ask any more for a record, or for a part of it."""
        rule = self._kinds.get(name[:1])
        return rule is not None and rule(name, record)

    def load(self, found: Sequence[tuple[bytes, Any]]) -> None:
        """Read, in one question, what the rules must know of the old records among these."""
        wanted: list[bytes] = []
        for name, record in found:
            kind = name[:1]
            ids: Sequence[int] = ()
            if kind == b"m" and record.changed < self._horizon and record.mark.read < self._horizon:
                wanted += (b"s" + name[1:33], b"k" + name[1:17] + names.text(record.key))
                ids = [act[0] for act in record.acts] + [id for _, id in record.reads if id]
            elif kind == b"p":
                ids = [id for id, _ in record if id < self._horizon]
            elif kind == b"c" and record < self._day:
                ids = (record,)
            elif kind in (b"o", b"x") and names.id_in(name) < self._day:
                ids = (names.id_in(name),)
            wanted += [b"a" + name[1:17] + names.number(id) for id in ids]
        self._draft.load(wanted)

    def left(self, name: bytes, record: Any) -> Any:
        """Return what is left of a record that may go, False if nothing is."""
        if name[:1] == b"p":
            return tuple(self.counting(name, record)) or False
        return self._mark_left(name, record) if name[:1] == b"m" else False

    # --- Actions ---

    def _action(self, space: bytes, id: int) -> ActionRecord | None:
        record = self._draft.get(b"a" + space + names.number(id)) if id else None
        return record if record and record.opened else None

    def _is_live(self, space: bytes, id: int) -> bool:
        record = self._action(space, id)
        return record is not None and record.live()

    def _binds(self, space: bytes, id: int) -> bool:
        """Return True if an action is live, or a commitment in force."""
        record = self._action(space, id)
        return record is not None and (record.live() or is_in_force(record.action, self._draft.now))

    def counting(self, name: bytes, found: Found) -> list[tuple[int, str]]:
        """Return those of the actions with a digest that can still be a duplicate of something."""
        space, horizon = name[1:17], self._horizon
        return [
            one for one in found if one[0] >= horizon or self._is_recent(space, one[0]) or self._binds(space, one[0])
        ]

    def _is_recent(self, space: bytes, id: int) -> bool:
        record = self._action(space, id)
        return record is not None and dated(record.action) >= self._horizon

    # --- Sessions ---

    def is_active(self, session: SessionRecord | bool) -> bool:
        """Return True if a session made a call since the hour before the horizon."""
        return isinstance(session, SessionRecord) and session.seen + HOUR >= self._horizon

    def _session(self, name: bytes, session: SessionRecord) -> bool:
        """Return True for a session that is not active and has no action without an outcome."""
        return not self.is_active(session) and not self._draft.under(b"o" + name[1:], 1)

    def _long_active(self, space: bytes) -> list[str]:
        """Return the active sessions of a namespace that began before the horizon, with those that they continue."""
        if space not in self._old:
            every: dict[str, SessionRecord] = {one.session: one for _, one in self._draft.under(b"s" + space)}
            old = [one for one in every.values() if one.began < self._horizon and self.is_active(one)]
            before = [
                name
                for one in old
                for name in chain(one.continues, lambda name: every[name].continues if name in every else "")
            ]
            self._old[space] = [*dict.fromkeys([*(one.session for one in old), *before])]
        return self._old[space]

    # --- Keys ---

    def _facets(self, name: bytes) -> bool:
        """Return True for a key of which no facet has a record."""
        start = b"k" + name[1:17] + names.facets(name[17:])
        return not self._draft.scan(start, names.after(start), 1)

    def _mark(self, name: bytes, mark: MarkRecord) -> bool:
        """Return True for a mark with a change that nobody needs, or without one whose session is not active."""
        horizon = self._horizon
        if mark.changed >= horizon or mark.mark.read >= horizon:
            return False
        if mark.acts:
            return not (self.is_needed(name[1:17], mark) or self.is_look(name, mark))
        return self._mark_left(name, mark) is False

    def _mark_left(self, name: bytes, mark: MarkRecord) -> MarkRecord | bool:
        """Return a mark without its changes; False if nothing is left. A finished write is left as a read."""
        space = name[1:17]
        if mark.acts:
            own = self._action(space, mark.acts[0][0])
            if own is not None and finished(own.action) and own.action.started > mark.mark.read:
                read = own.action.started
                mark = replace(mark, mark=replace(mark.mark, read=read), reads=(*mark.reads, (read, 0))[-READS:])
            mark = replace(mark, acts=(), changed=0)
            self._drop_change(space, mark)
        active = self.is_active(self._draft.get(b"s" + name[1:33]))
        keeps = (active and mark.mark != NO_MARK) or any(self._may_fail(space, id) for _, id in mark.reads)
        return mark if keeps else False

    def _drop_change(self, space: bytes, mark: MarkRecord) -> None:
        """Let a key no longer name the session of a mark among those that changed it."""
        at = b"k" + space + names.text(mark.key)
        if (key := self._draft.get(at)) and mark.session in key.sessions:
            sessions = tuple([one for one in key.sessions if one != mark.session])
            self._draft.new[at] = replace(key, sessions=sessions) if sessions or key.live else False

    def is_needed(self, space: bytes, mark: MarkRecord) -> bool:
        """Return True if somebody can still ask for the changes of a mark."""
        changed = self._changed(space, mark)
        if changed >= self._horizon:
            return True
        active, around = self._long_active(space), {*covering(mark.key), *above(mark.key)}
        self._draft.load(b"m" + space + names.digest(one) + names.text(key) for one in active for key in around)
        for session in active:
            if session != mark.session and any(0 < look < changed for look in self._looks(space, session, mark.key)):
                return True
        return False

    def is_look(self, name: bytes, mark: MarkRecord) -> bool:
        """Return True if a finished write of an active session is its look before another session's change."""
        space = name[1:17]
        own = self._action(space, mark.acts[0][0])
        if own is None or not finished(own.action) or not self.is_active(self._draft.get(b"s" + name[1:33])):
            return False
        key = self._draft.get(b"k" + space + names.text(mark.key))
        others = [one for one in key.sessions if one != mark.session] if key else []
        marks = self._draft.all([b"m" + space + names.digest(one) + names.text(mark.key) for one in others])
        return any(theirs and theirs.acts and self._changed(space, theirs) > own.action.started for theirs in marks)

    def _changed(self, space: bytes, mark: MarkRecord) -> int:
        """Return the moment of a session's newest change of a key, as evidence."""
        moments = [mark.changed]
        for id, _, _ in mark.acts:
            if (record := self._action(space, id)) is not None:
                moments.append(_FOREVER if record.live() else dated(record.action))
        return max(moments)

    def _looks(self, space: bytes, session: str, key: str) -> Iterator[int]:
        """Yield the moments at which a session last looked at what a change of a key concerns."""
        draft, mine = self._draft, b"m" + space + names.digest(session)
        for name in {*covering(key), *above(key)}:
            if mark := draft.get(mine + names.text(name)):
                yield from self._looked(space, mark)
        if key[-1:] == "/":
            for _, mark in draft.scan(*names.below(mine, key), _BELOW):
                yield from self._looked(space, mark)

    def _looked(self, space: bytes, mark: MarkRecord) -> Iterator[int]:
        """Yield the moments that can be a session's newest look at a key, now or once reads were taken back."""
        own = self._action(space, mark.acts[0][0]) if mark.acts else None
        certain = own.action.started if own is not None and finished(own.action) else 0
        for moment, id in reversed(mark.reads):
            if not id or not self._may_fail(space, id):
                certain = max(certain, moment)
                break
            yield max(certain, moment)
        yield certain

    def _may_fail(self, space: bytes, id: int) -> bool:
        record = self._action(space, id)
        if record is None or record.action.ended:
            return False
        return record.live() or self._draft.now < record.action.expires


def dated(action: Action) -> int:
    """Return the time of the action as evidence: its report, otherwise when it can no longer be running."""
    return max(action.id, action.ended or action.expires)


# --- The journal -------------------------------------------------------------------------------------


def free(draft: Draft, entries: Sequence[Entry], horizon: int) -> list[Entry]:
    """Return the entries that may leave.

    An action's record goes with the entry that opened it, so the entry stays while another record names the action, and
    while it is live, remembered, or evidence since the horizon.
    """
    draft.load({names.action(one.namespace, id) for one in entries for id in (one.seq, one.action) if id})
    about = [[*_actions_of(draft, one)] for one in entries]
    draft.load(name for records in about for record in records for name in _naming(record))
    rules = Rules(draft, horizon)
    return [
        entry
        for entry, records in zip(entries, about, strict=True)
        if not any(_is_needed(draft, rules, entry.seq, record, horizon) for record in records)
    ]


def leave(seqs: Sequence[int], horizon: int, draft: Draft) -> tuple[None, list[Entry]]:
    """Return those of these entries that still may leave, and put what is left of the marks that name their actions.

    A finished write is left as a read.
    """
    wanted, after, found = set(seqs), seqs[0] - 1, list[Entry]()
    while page := before_the_newest(draft.reader, after, seqs[-1]):
        found += [entry for entry in page if entry.seq in wanted]
        after = page[-1].seq
    gone, rules = free(draft, found, horizon), Rules(draft, horizon)
    for entry in gone:
        record = draft.action(entry.namespace, entry.seq)
        for key in record.action.keys if record is not None and record.opened else ():
            at = names.mark(entry.namespace, entry.session, key.name)
            if (mark := draft.get(at)) and mark.acts and mark.acts[0][0] == entry.seq:
                draft.new[at] = rules.left(at, mark)
    return None, gone


def before_the_newest(reader: Reader, after: int, until: int) -> list[Entry]:
    """Return a page of entries behind ``after``. The newest stays, so that the store's time does not run backwards."""
    newest = reader.page(0, 1, newest=True)
    return [entry for entry in reader.page(after, EXAMINED) if entry.seq <= until and entry.seq < newest[0].seq]


def _actions_of(draft: Draft, entry: Entry) -> Iterator[ActionRecord]:
    """Yield the action that an entry opens, and the one that it is about."""
    for id in {entry.seq, entry.action}:
        record = draft.action(entry.namespace, id) if id else None
        if record is not None and record.opened:
            yield record


def _naming(record: ActionRecord) -> list[bytes]:
    """Return the names of the records that may name an action."""
    action = record.action
    space, me = action.namespace, action.session
    keys = [key.name for key in action.keys if key.mode is not Mode.READ]
    found = [key.name for key in lookup_keys(action)] if record.prints else []
    return [
        *([names.call(space, record.call)] if record.call else ()),
        *[names.mark(space, me, key) for key in keys],
        *[names.print_of(space, key, print_) for key in found for print_ in record.prints],
    ]


def _is_needed(draft: Draft, rules: Rules, seq: int, record: ActionRecord, horizon: int) -> bool:
    """Return True if an action keeps the entry ``seq``, which opened it or is about it."""
    action = record.action
    id = action.id
    if record.live() or (record.call and draft.get(names.call(action.namespace, record.call))):
        return True
    if seq != id:
        return False
    changes = any(key.mode is not Mode.READ for key in action.keys)
    if (changes and dated(action) >= horizon) or is_in_force(action, draft.now):
        return True
    return any(_names_it(draft, rules, found, id, name) for name in _naming(record) if (found := draft.get(name)))


def _names_it(draft: Draft, rules: Rules, found: Any, id: int, name: bytes) -> bool:
    """Return True if a record that is there needs an action that is over."""
    kind, space = name[:1], name[1:17]
    if kind == b"m":
        if not found.acts:
            return False
        newest: ActionRecord | None = draft.get(b"a" + space + names.number(found.acts[0][0])) or None
        if newest is not None and newest.live() and id in newest.before:
            return True  # it counts again if the newest did nothing
        if not any(act[0] == id for act in found.acts):
            return False
        return rules.is_needed(space, found) or (found.acts[0][0] == id and rules.is_look(name, found))
    return kind == b"p" and any(one[0] == id for one in rules.counting(name, found))
