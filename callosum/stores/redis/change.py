"""Turn a step's change into the commands that ``apply.lua`` runs."""

from __future__ import annotations

from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from callosum.model import Action, Change, Entry, Key, Mode, Revision, Scope, Settle, State
from callosum.policy.commitments import COMMITTED
from callosum.stores.keys import covers
from callosum.stores.records import TAKEN_BACK, Record, happened
from callosum.stores.redis.names import (
    QUEUE,
    NamespaceKeys,
    changed_by,
    known_by,
    learnt_by,
    of_action,
    of_call,
    of_kin,
    of_reports,
)
from callosum.stores.redis.records import NOTHING, KeyAction, KeyKnowledge, OwnIds, blob_of, line_of, text_of
from callosum.stores.redis.view import ViewData
from callosum.stores.writes import about, is_late, kept, revised, settled, takes_back

_WAITS: Final = frozenset({State.QUEUED, State.ASKED, State.OPEN})
_NOBODY: Final = "0" * 16
_SELDOM: Final = 64
_UNREPORTED: Final = 1000
"""Number of unreported calls without a lease that are listed for a session; an older one needs its id to be found."""


Commands = list[Raw | str | int]
"""Commands in a row, each preceded by the number of its words. They are commands of Redis or of ``apply.lua``."""


def missing(seen: ViewData, scope: Scope, change: Change) -> tuple[set[int], set[tuple[str, str]]]:
    """Return the ids and the (key, session) pairs that a change needs and its view data lacks."""
    me = scope.session
    acts = {settle.action.id for settle in change.settles} | {entry.action for entry in change.entries if entry.action}
    places = {(move.key, me) for move in change.moves}
    if change.open is not None:
        places.update((key.name, me) for key in change.entries[-1].keys)
    acts.update(revision.action.id for revision in change.revisions)
    for settle in change.settles:
        if settle.ended or settle.state in TAKEN_BACK:
            places.update((key.name, settle.action.session) for key in settle.action.keys)
    return acts.difference(seen.records), {
        place for place in places if place not in seen.known and not (place[1] == me and place[0] in seen.names)
    }


class ChangeWriter:
    """Collect the commands of one change.

    ``changed``: names under which others notice the change. ``depends``: names of the values it overwrites, which
    must not have changed meanwhile (see ``names``). ``opened``: the action it opens. ``settled``: actions whose state
    it changes. ``docs``: what sessions know of keys afterwards. ``noted``: True if this process recorded the session
    a short while ago.
    """

    def __init__(
        self, space: NamespaceKeys, scope: Scope, seen: ViewData, own: OwnIds, first: int, *, noted: bool
    ) -> None:
        self.space = space
        self.scope = scope
        self.seen = seen
        self.own = own
        self.first = first
        self.commands: Commands = []
        self.opened: Record | None = None
        self.changed: set[str] = set()
        self.depends: set[str] = set()
        self.noted = noted
        self.wakes = False
        self.docs: dict[tuple[str, str], KeyKnowledge] = {}
        self.settled: dict[int, Record] = {}
        self.late: set[tuple[str, str]] = set()
        """Entries of ``docs`` whose action is reported so late that upkeep may have made it unfindable.

        Upkeep of an older version counts too.
        """

    def write(self, change: Change) -> None:
        """Collect the commands of the whole change. Raises an error if a value cannot be stored."""
        for settle in change.settles:
            self._settle(settle)
        for revision in change.revisions:
            self._revise(revision)
        self.own.count = max(self.own.count, self.first - self.own.base + len(change.entries))
        last = self.first + len(change.entries) - 1
        opening = change.open
        for id, entry in enumerate(change.entries, self.first):
            self._entry(id, entry, own=id == last and opening is not None)
        if change.entries and (record := kept(last, change, self.scope)) is not None:
            self._keep(record)
            if record.opened:
                self._open(record)
        reading = {key.name for key in self.scope.keys if key.mode is Mode.READ}
        for move in change.moves:
            by = self.own(last) if opening is not None and move.key in reading else _NOBODY
            self._know(move.key, self.scope.session, self._known(move.key, self.scope.session).marked(move.mark, by))
        if change.entries:
            self._session()
        for (name, session), known in self.docs.items():
            self._doc(name, session, known)

    def _do(self, *command: Raw | str | int) -> None:
        self.commands.append(len(command))
        self.commands += command

    # --- entries ---

    def _entry(self, id: int, entry: Entry, *, own: bool) -> None:
        if entry.action and not own:
            entry = about(entry, self.seen.records.get(entry.action))
        line = line_of(replace(entry, seq=0, action=0 if own else entry.action))
        self._do(
            "XADD", self.space.key("log"), f"{self.own(id)}-0", "o" if own else "e", text_of(line), "n", self.own.name
        )

    def _keep(self, record: Record) -> None:
        """Store the decision's own entry as an action, or as a refused call that a person may still approve."""
        action = record.action
        at = self.own(action.id)
        self._do("HSET", self.space.key("a"), at, text_of(blob_of(record, self.own)))
        if action.keys:
            self._do("ZADD", self.space.key("t", action.session), at, at)
        if record.opened:
            self._do("ZADD", self.space.key("ids"), at, at)

    def _open(self, record: Record) -> None:
        """Add an action to the lists that find it."""
        action = record.action
        space, at, state, session = self.space, self.own(action.id), action.state, action.session
        self.opened = record
        self.changed.add(of_reports(session))
        if record.call:
            self._do("ZADD", space.key("calls"), at, record.call.hex())
            self.changed.add(of_call(record.call))
        if state is not State.DONE:
            self._live(at, action.keys, state)
        if state is State.OPEN:
            self._do("ZADD", space.key("h", session), at, at)
        elif state is State.DONE:
            self._do("ZADD", space.key("u", session), at, at)
            if action.id % _SELDOM == 0:
                self._do("ZREMRANGEBYRANK", space.key("u", session), 0, -_UNREPORTED - 1)
        for key in action.keys:
            if beneath := covers(key.name):
                self._do("SADD", space.key("cov"), *beneath)
            if not happened(action) or key.mode is Mode.READ:
                continue
            known = self._known(key.name, session)
            self._know(key.name, session, known.acted(KeyAction(at, action.tier, key.mode.value, at)))
            self.changed.update(changed_by(key.name))
            self._print(at, record, key)

    def _print(self, at: str, record: Record, key: Key) -> None:
        """Make an action findable by its fingerprints."""
        if record.prints:
            members = [f"{print_.hex()}:{at}:{record.action.session}" for print_ in record.prints]
            self._do("ZADD", self.space.key("p", key.name), *(part for one in members for part in (0, one)))
            dated = (part for one in members for part in (at, f"{key.name}\0{one}"))
            self._do("ZADD", self.space.key("prints"), *dated)
            if COMMITTED in record.prints:
                self._commit(at, record, key.name)

    def _commit(self, at: str, record: Record, name: str) -> None:
        """Make a commitment findable on a key until it ends; upkeep removes fingerprints by the moment noted here."""
        made = record.action.content.commitment
        if made is not None:
            member = f"{COMMITTED.hex()}:{at}:{record.action.session}"
            self._do("ZADD", self.space.key("p", name), 0, member)
            self._do("ZADD", self.space.key("prints"), made.until, f"{name}\0{member}")

    def _revise(self, revision: Revision) -> None:
        id = revision.action.id
        after = revised(self._before(id), revision)
        at = self._replace(after)
        made = revision.content.commitment
        action = after.action
        names = [key.name for key in action.keys if happened(action) and key.mode is not Mode.READ]
        if made is not None and made.thing:
            names.append(made.thing)
        for name in names:
            self.changed.update(changed_by(name))
            self._commit(at, after, name)

    def _before(self, id: int) -> Record:
        return self.settled.get(id) or self.seen.records[id]

    def _replace(self, after: Record) -> str:
        """Overwrite a stored action; return its id as 16 digits."""
        action = after.action
        at = f"{action.id:016d}"
        self._do("HSET", self.space.key("a"), at, text_of(blob_of(after)))
        self.settled[action.id] = after
        self.changed.update((of_action(action.id), of_reports(action.session)))
        self.depends.add(of_action(action.id))
        return at

    # --- settling ---

    def _settle(self, settle: Settle) -> None:
        state, before = settle.state, self._before(settle.action.id)
        was = before.action.state if before.opened else None
        after = settled(before, settle)
        action = after.action
        at = self._replace(after)
        if not before.opened:
            self._do("ZADD", self.space.key("ids"), at, at)
        if was is not state:
            self._moves_on(at, action, was, state)
        if action.ended and was is not State.OPEN:
            self._do("ZREM", self.space.key("u", action.session), at)
        for key in action.keys:
            self.changed.update(changed_by(key.name))
            if takes_back(before, settle):
                self._take_back(at, before, key)
            elif state is State.DONE and action.ended and happened(action) and key.mode is not Mode.READ:
                known = self._known(key.name, action.session)
                act = KeyAction(at, action.tier, key.mode.value, f"{settle.ended:016d}", settled=True)
                self._know(key.name, action.session, known.reported(act))
                if is_late(settle):
                    self.late.add((key.name, action.session))
                    self._print(at, after, key)
        self.wakes |= was is not state or settle.approved is not None

    def _moves_on(self, at: str, action: Action, was: State | None, state: State) -> None:
        """Move an action from one list of live actions to another."""
        space = self.space
        if was in _WAITS or was is State.UNKNOWN:
            self._do("ZREM", space.key("open"), at)
            for key in action.keys:
                self._do("ZREM", space.key("n" if was is State.UNKNOWN else "l", key.name), at)
        if was is State.QUEUED:
            self._do("ZREM", space.key("q"), at)
            self.changed.add(QUEUE)
        if was in (State.OPEN, State.UNKNOWN) and state not in (State.OPEN, State.UNKNOWN):
            self._do("ZREM", space.key("h", action.session), at)
        if state in _WAITS or state is State.UNKNOWN:
            self._live(at, action.keys, state)
            if state in (State.OPEN, State.UNKNOWN):
                self._do("ZADD", space.key("h", action.session), at, at)
        else:
            for key in action.keys:
                self._do("?live", key.name)

    def _live(self, at: str, keys: tuple[Key, ...], state: State) -> None:
        space = self.space
        self._do("ZADD", space.key("open"), at, at)
        for key in keys:
            self._do("ZADD", space.key("n" if state is State.UNKNOWN else "l", key.name), at, at)
            self._do("ZADD", space.key("live"), 0, key.name)
            self.changed.update(changed_by(key.name))
        if state is State.QUEUED:
            self._do("ZADD", space.key("q"), at, at)
            self.changed.add(QUEUE)

    def _take_back(self, at: str, record: Record, key: Key) -> None:
        """Undo a failed or cancelled action: it is no session's newest action, and its read does not count."""
        session = record.action.session
        known = self._known(key.name, session)
        without = known.without(at)
        if without != known:
            self._know(key.name, session, without)
        for print_ in record.prints:
            member = f"{print_.hex()}:{at}:{session}"
            self._do("ZREM", self.space.key("p", key.name), member)
            self._do("ZREM", self.space.key("prints"), f"{key.name}\0{member}")

    # --- what sessions know ---

    def _known(self, name: str, session: str) -> KeyKnowledge:
        place = (name, session)
        return self.docs.get(place) or self.seen.known.get(place, NOTHING)

    def _know(self, name: str, session: str, known: KeyKnowledge) -> None:
        self.docs[name, session] = known

    def _doc(self, name: str, session: str, known: KeyKnowledge) -> None:
        space, before = self.space, self.seen.known.get((name, session))
        self._do("HSET", space.key("m", name), session, text_of(known.blob()))
        self.changed.update(learnt_by(name, session))
        self.depends.add(known_by(name, session))
        late = (name, session) in self.late
        if late:
            self._do("ZADD", space.key("seen"), "NX", self.own(self.first), session)
        if late or before is None or before is NOTHING:
            self._do("ZADD", space.key("sk", session), 0, name)
            if beneath := covers(name):
                self._do("SADD", space.key("cov"), *beneath)
        had = before is not None and bool(before.acts)
        if known.acts:
            changed = known.changed
            if late or not had:
                self._do("ZADD", space.key("names"), 0, name)
            if late or before is None or before.changed != changed:
                self._do("ZADD", space.key("c", name), changed, session)
                self._do("ZADD", space.key("chg"), "GT", changed, name)
        elif had:
            self._do("ZREM", space.key("c", name), session)
            self._do("?names", name)

    def _session(self) -> None:
        scope, space = self.scope, self.space
        if not self.noted:
            self._do("ZADD", space.key("seen"), self.own(self.first), scope.session)
        origin = {"parent": scope.parent, "continues": scope.continues}
        if any(origin.values()):
            fields = [part for name, value in origin.items() if value for part in (name, value)]
            self._do("HSET", space.key("s", scope.session), *fields)
            if not self.noted:
                self.changed.add(of_kin(scope.session))
