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
    knowledge_of,
    names_of_change,
    names_of_learning,
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


def missing(data: ViewData, scope: Scope, change: Change) -> tuple[set[int], set[tuple[str, str]]]:
    """Return the ids and the (key, session) pairs that a change needs and its view data lacks."""
    session = scope.session
    ids = {settle.action.id for settle in change.settles} | {entry.action for entry in change.entries if entry.action}
    marks = {(move.key, session) for move in change.moves}
    if change.open is not None:
        marks.update((key.name, session) for key in change.entries[-1].keys)
    ids.update(revision.action.id for revision in change.revisions)
    for settle in change.settles:
        if settle.ended or settle.state in TAKEN_BACK:
            marks.update((key.name, settle.action.session) for key in settle.action.keys)
    return ids.difference(data.records), {
        mark for mark in marks if mark not in data.knowledge and not (mark[1] == session and mark[0] in data.names)
    }


class ChangeWriter:
    """Collect the commands of one change.

    ``changed``: names under which others notice the change. ``depends``: names of the values it overwrites, which
    must not have changed meanwhile (see ``names``). ``opened``: the action it opens. ``settled``: actions whose state
    it changes. ``knowledge``: what sessions know of keys afterwards. ``noted``: True if this process recorded the
    session a short while ago.
    """

    def __init__(
        self, space: NamespaceKeys, scope: Scope, data: ViewData, own: OwnIds, first: int, *, noted: bool
    ) -> None:
        self.space = space
        self.scope = scope
        self.data = data
        self.own = own
        self.first = first
        self.commands: Commands = []
        self.opened: Record | None = None
        self.changed: set[str] = set()
        self.depends: set[str] = set()
        self.noted = noted
        self.wakes = False
        self.knowledge: dict[tuple[str, str], KeyKnowledge] = {}
        self.settled: dict[int, Record] = {}
        self.late: set[tuple[str, str]] = set()
        """Entries of ``knowledge`` whose action is reported so late that upkeep may have made it unfindable.

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
            self._write_entry(id, entry, own=id == last and opening is not None)
        if change.entries and (record := kept(last, change, self.scope)) is not None:
            self._store_action(record)
            if record.opened:
                self._list_action(record)
        reading = {key.name for key in self.scope.keys if key.mode is Mode.READ}
        for move in change.moves:
            reader = self.own(last) if opening is not None and move.key in reading else _NOBODY
            self._set_knowledge(
                move.key, self.scope.session, self._knowledge_of(move.key, self.scope.session).marked(move.mark, reader)
            )
        if change.entries:
            self._record_session()
        for (name, session), knowledge in self.knowledge.items():
            self._write_knowledge(name, session, knowledge)

    def _command(self, *command: Raw | str | int) -> None:
        self.commands.append(len(command))
        self.commands += command

    # --- entries ---

    def _write_entry(self, id: int, entry: Entry, *, own: bool) -> None:
        if entry.action and not own:
            entry = about(entry, self.data.records.get(entry.action))
        line = line_of(replace(entry, seq=0, action=0 if own else entry.action))
        self._command(
            "XADD", self.space.key("log"), f"{self.own(id)}-0", "o" if own else "e", text_of(line), "n", self.own.name
        )

    def _store_action(self, record: Record) -> None:
        """Store the decision's own entry as an action, or as a refused call that a person may still approve."""
        action = record.action
        digits = self.own(action.id)
        self._command("HSET", self.space.key("a"), digits, text_of(blob_of(record, self.own)))
        if action.keys:
            self._command("ZADD", self.space.key("t", action.session), digits, digits)
        if record.opened:
            self._command("ZADD", self.space.key("ids"), digits, digits)

    def _list_action(self, record: Record) -> None:
        """Add an action to the lists that find it."""
        action = record.action
        space, digits, state, session = self.space, self.own(action.id), action.state, action.session
        self.opened = record
        self.changed.add(of_reports(session))
        if record.call:
            self._command("ZADD", space.key("calls"), digits, record.call.hex())
            self.changed.add(of_call(record.call))
        if state is not State.DONE:
            self._list_live(digits, action.keys, state)
        if state is State.OPEN:
            self._command("ZADD", space.key("h", session), digits, digits)
        elif state is State.DONE:
            self._command("ZADD", space.key("u", session), digits, digits)
            if action.id % _SELDOM == 0:
                self._command("ZREMRANGEBYRANK", space.key("u", session), 0, -_UNREPORTED - 1)
        for key in action.keys:
            if covering := covers(key.name):
                self._command("SADD", space.key("cov"), *covering)
            if not happened(action) or key.mode is Mode.READ:
                continue
            knowledge = self._knowledge_of(key.name, session)
            self._set_knowledge(
                key.name, session, knowledge.acted(KeyAction(digits, action.tier, key.mode.value, digits))
            )
            self.changed.update(names_of_change(key.name))
            self._add_prints(digits, record, key)

    def _add_prints(self, digits: str, record: Record, key: Key) -> None:
        """Make an action findable by its fingerprints."""
        if record.prints:
            members = [f"{print_.hex()}:{digits}:{record.action.session}" for print_ in record.prints]
            self._command("ZADD", self.space.key("p", key.name), *(part for member in members for part in (0, member)))
            by_moment = (part for member in members for part in (digits, f"{key.name}\0{member}"))
            self._command("ZADD", self.space.key("prints"), *by_moment)
            if COMMITTED in record.prints:
                self._add_commitment(digits, record, key.name)

    def _add_commitment(self, digits: str, record: Record, name: str) -> None:
        """Make a commitment findable on a key until it ends; upkeep removes fingerprints by the moment noted here."""
        commitment = record.action.content.commitment
        if commitment is not None:
            member = f"{COMMITTED.hex()}:{digits}:{record.action.session}"
            self._command("ZADD", self.space.key("p", name), 0, member)
            self._command("ZADD", self.space.key("prints"), commitment.until, f"{name}\0{member}")

    def _revise(self, revision: Revision) -> None:
        id = revision.action.id
        after = revised(self._record_before(id), revision)
        digits = self._replace(after)
        commitment = revision.content.commitment
        action = after.action
        names = [key.name for key in action.keys if happened(action) and key.mode is not Mode.READ]
        if commitment is not None and commitment.thing:
            names.append(commitment.thing)
        for name in names:
            self.changed.update(names_of_change(name))
            self._add_commitment(digits, after, name)

    def _record_before(self, id: int) -> Record:
        return self.settled.get(id) or self.data.records[id]

    def _replace(self, after: Record) -> str:
        """Overwrite a stored action; return its id as 16 digits."""
        action = after.action
        digits = f"{action.id:016d}"
        self._command("HSET", self.space.key("a"), digits, text_of(blob_of(after)))
        self.settled[action.id] = after
        self.changed.update((of_action(action.id), of_reports(action.session)))
        self.depends.add(of_action(action.id))
        return digits

    # --- settling ---

    def _settle(self, settle: Settle) -> None:
        state, before = settle.state, self._record_before(settle.action.id)
        state_before = before.action.state if before.opened else None
        after = settled(before, settle)
        action = after.action
        digits = self._replace(after)
        if not before.opened:
            self._command("ZADD", self.space.key("ids"), digits, digits)
        if state_before is not state:
            self._move_lists(digits, action, state_before, state)
        if action.ended and state_before is not State.OPEN:
            self._command("ZREM", self.space.key("u", action.session), digits)
        for key in action.keys:
            self.changed.update(names_of_change(key.name))
            if takes_back(before, settle):
                self._undo(digits, before, key)
            elif state is State.DONE and action.ended and happened(action) and key.mode is not Mode.READ:
                knowledge = self._knowledge_of(key.name, action.session)
                key_action = KeyAction(digits, action.tier, key.mode.value, f"{settle.ended:016d}", settled=True)
                self._set_knowledge(key.name, action.session, knowledge.reported(key_action))
                if is_late(settle):
                    self.late.add((key.name, action.session))
                    self._add_prints(digits, after, key)
        self.wakes |= state_before is not state or settle.approved is not None

    def _move_lists(self, digits: str, action: Action, state_before: State | None, state: State) -> None:
        """Move an action from one list of live actions to another."""
        space = self.space
        if state_before in _WAITS or state_before is State.UNKNOWN:
            self._command("ZREM", space.key("open"), digits)
            for key in action.keys:
                self._command("ZREM", space.key("n" if state_before is State.UNKNOWN else "l", key.name), digits)
        if state_before is State.QUEUED:
            self._command("ZREM", space.key("q"), digits)
            self.changed.add(QUEUE)
        if state_before in (State.OPEN, State.UNKNOWN) and state not in (State.OPEN, State.UNKNOWN):
            self._command("ZREM", space.key("h", action.session), digits)
        if state in _WAITS or state is State.UNKNOWN:
            self._list_live(digits, action.keys, state)
            if state in (State.OPEN, State.UNKNOWN):
                self._command("ZADD", space.key("h", action.session), digits, digits)
        else:
            for key in action.keys:
                self._command("?live", key.name)

    def _list_live(self, digits: str, keys: tuple[Key, ...], state: State) -> None:
        space = self.space
        self._command("ZADD", space.key("open"), digits, digits)
        for key in keys:
            self._command("ZADD", space.key("n" if state is State.UNKNOWN else "l", key.name), digits, digits)
            self._command("ZADD", space.key("live"), 0, key.name)
            self.changed.update(names_of_change(key.name))
        if state is State.QUEUED:
            self._command("ZADD", space.key("q"), digits, digits)
            self.changed.add(QUEUE)

    def _undo(self, digits: str, record: Record, key: Key) -> None:
        """Undo a failed or cancelled action: it is no session's newest action, and its read does not count."""
        session = record.action.session
        knowledge = self._knowledge_of(key.name, session)
        without = knowledge.without(digits)
        if without != knowledge:
            self._set_knowledge(key.name, session, without)
        for print_ in record.prints:
            member = f"{print_.hex()}:{digits}:{session}"
            self._command("ZREM", self.space.key("p", key.name), member)
            self._command("ZREM", self.space.key("prints"), f"{key.name}\0{member}")

    # --- what sessions know ---

    def _knowledge_of(self, name: str, session: str) -> KeyKnowledge:
        mark = (name, session)
        return self.knowledge.get(mark) or self.data.knowledge.get(mark, NOTHING)

    def _set_knowledge(self, name: str, session: str, knowledge: KeyKnowledge) -> None:
        self.knowledge[name, session] = knowledge

    def _write_knowledge(self, name: str, session: str, knowledge: KeyKnowledge) -> None:
        space, before = self.space, self.data.knowledge.get((name, session))
        self._command("HSET", space.key("m", name), session, text_of(knowledge.blob()))
        self.changed.update(names_of_learning(name, session))
        self.depends.add(knowledge_of(name, session))
        late = (name, session) in self.late
        if late:
            self._command("ZADD", space.key("seen"), "NX", self.own(self.first), session)
        if late or before is None or before is NOTHING:
            self._command("ZADD", space.key("sk", session), 0, name)
            if covering := covers(name):
                self._command("SADD", space.key("cov"), *covering)
        had_actions = before is not None and bool(before.actions)
        if knowledge.actions:
            changed = knowledge.changed
            if late or not had_actions:
                self._command("ZADD", space.key("names"), 0, name)
            if late or before is None or before.changed != changed:
                self._command("ZADD", space.key("c", name), changed, session)
                self._command("ZADD", space.key("chg"), "GT", changed, name)
        elif had_actions:
            self._command("ZREM", space.key("c", name), session)
            self._command("?names", name)

    def _record_session(self) -> None:
        scope, space = self.scope, self.space
        if not self.noted:
            self._command("ZADD", space.key("seen"), self.own(self.first), scope.session)
        origin = {"parent": scope.parent, "continues": scope.continues}
        if any(origin.values()):
            fields = [part for name, value in origin.items() if value for part in (name, value)]
            self._command("HSET", space.key("s", scope.session), *fields)
            if not self.noted:
                self.changed.add(of_kin(scope.session))
