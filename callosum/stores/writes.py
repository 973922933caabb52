"""What a step's change means for the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from callosum.model import (
    HOUR,
    Action,
    Applied,
    Change,
    Entry,
    Event,
    Key,
    Mark,
    Mode,
    Opening,
    Revision,
    Scope,
    Settle,
    State,
    Verdict,
)
from callosum.policy.commitments import COMMITTED, lookup_keys
from callosum.stores import names
from callosum.stores.draft import Draft
from callosum.stores.port import Written
from callosum.stores.records import (
    ACTED,
    LIVE,
    PRINTS,
    READS,
    SESSIONS,
    TAKEN_BACK,
    Act,
    ActionRecord,
    KeyRecord,
    MarkRecord,
    SessionRecord,
    without_outweighed,
)
from callosum.stores.view import ScopeReader

_Moves = Mapping[str, Mark]
_as_json: Final = msgspec.json.Encoder().encode
_FURTHEST: Final = 64
"""Maximum number of earlier actions of a session that are looked at when one is taken back."""
_READ, _APPEND = Mode.READ, Mode.APPEND  # an enum's attributes are slow, and so is its hash
_LIVE, _ACTED, _TAKEN_BACK = tuple(LIVE), tuple(ACTED), tuple(TAKEN_BACK)
_INTERCEPT, _HOST = Event.INTERCEPT, Event.HOST
_OPEN, _DONE, _UNKNOWN, _QUEUED, _ASKED = State.OPEN, State.DONE, State.UNKNOWN, State.QUEUED, State.ASKED


def apply(draft: Draft, look: ScopeReader, change: Change) -> Applied:
    """Put a change into the draft. Its entries are numbered from the view's now."""
    now, entries, scope, opening, moves = look.now, change.entries, look.scope, change.open, change.moves
    for settle in change.settles:
        _settle(draft, look, settle)
    if change.revisions:
        _revise(draft, change.revisions)
    if change.observe_until is not None:
        draft.new[names.OBSERVE] = change.observe_until
    if moves and opening is None:
        _move(draft, scope, moves, 0)
    if not entries:
        draft.keep(())
        return Applied(change, (), now)
    before: list[Written] = []
    seq, last = now, entries[-1]
    if entries[1:]:
        for one in entries[:-1]:
            before.append(Written(seq, one, _as_json(one.body) if one.body else b"", _about(draft, look, one)))
            seq += 1
    if last.event is _HOST and last.body.get("summary"):
        draft.new[names.named(b"h", last.namespace, names.number(seq))] = last.session
    body = _as_json(last.body) if last.body else b""
    if opening is not None:
        record = _open(draft, scope, seq, last, opening, moves)
        written = Written(seq, last, body, None, True, names.action(last.namespace, seq), record)
    elif last.event is _INTERCEPT:
        record = ActionRecord(opened(seq, last, Opening(_ASKED, 0, content=change.content)), opened=False)
        about = _about(draft, look, last)
        written = Written(seq, last, body, about, False, names.action(last.namespace, seq), record)
    else:
        about = look.record.action if look.record is not None else None
        if about is None or about.id != last.action:
            about = _about(draft, look, last)
        written = Written(seq, last, body, about)
    if (mine := look.mine) is not None and (scope.parent or scope.continues or not 0 <= now - mine.seen < HOUR):
        _note_session(draft, scope, now, mine)
    draft.keep([*before, written])
    return Applied(change, (now,) if seq == now else tuple(range(now, seq + 1)), now)


def _about(draft: Draft, look: ScopeReader, entry: Entry) -> Action | None:
    """Return the action that an entry is about."""
    id, record = entry.action, look.record
    if not id:
        return None
    if record is None or record.action.id != id:
        record = draft.action(entry.namespace, id)
    return record.action if record is not None else None


def _note_session(draft: Draft, scope: Scope, now: int, old: SessionRecord) -> None:
    """Note that a session made a call, once an hour, and where it comes from."""
    if (
        not 0 <= now - old.seen < HOUR
        or (scope.parent and scope.parent != old.parent)
        or (scope.continues and scope.continues != old.continues)
    ):
        parent, continues = scope.parent or old.parent, scope.continues or old.continues
        at = names.session(scope.namespace, scope.session)
        draft.new[at] = SessionRecord(scope.session, now, parent, continues, old.began or now)


# --- An action begins --------------------------------------------------------------------------------


def _open(
    draft: Draft, scope: Scope, id: int, entry: Entry, opening: Opening, moves: Mapping[str, Mark]
) -> ActionRecord:
    """Return the action that an entry opens, and put everything that lets other calls find it."""
    new, space, me, state = draft.new, entry.namespace, entry.session, opening.state
    runs = state is _DONE or state is _OPEN
    changes = (runs or state is _UNKNOWN) and not opening.lock
    live = 0 if state is _DONE else 1
    marks = {**moves}
    known = draft.known if draft.used is None else new  # what an engine compares is asked for by ``get``
    before: tuple[int, ...] = ()
    for key in entry.keys:
        name = key.name
        if "|" in name:
            at = names.named(b"t", space, names.text(name[: name.index("|")]))
            if known is new or known.get(at) is not True:
                new[at] = True
        if key.mode is _READ or not changes:
            before += (0,)
            if live:
                _add_live(draft, space, name, id)
            continue
        at = names.mark(space, me, name)
        mark = (known[at] if at in known and at not in new else draft.get(at)) or MarkRecord(name, me)
        acts = mark.acts
        before += (acts[0][0] if acts else 0,)
        appends = key.mode is _APPEND
        act = (id, entry.tier or 0, appends)
        if not acts or (not acts[1:] and act[1] >= acts[0][1] and (acts[0][2] or not appends)):
            acts = (act,)
        else:
            acts = without_outweighed([act, *acts])
        shown = mark.mark
        if name in marks:
            shown = marks[name]
            del marks[name]
        new[at] = MarkRecord(name, me, shown, mark.reads, acts, id)
        at = names.key(space, name)
        there = known[at] if at in known and at not in new else draft.get(at)
        if live or not there or there.sessions[:1] != (me,):
            _changed_by(draft, at, there or KeyRecord(name), me, id if live else 0)
    record = ActionRecord(
        opened(id, entry, opening),
        True,
        (scope.call or b"") if runs else b"",
        opening.prints if runs else (),
        opening.params or b"",
        before,
    )
    if record.call:
        new[names.call(space, record.call)] = id
    if record.prints:
        _add_prints(draft, record)
    if state is _QUEUED:
        new[names.named(b"q", space, names.number(id))] = True
    if live or not record.call:
        new[names.unreported(space, me, id)] = state._value_
    if marks:
        _move(draft, scope, marks, id)
    return record


def _add_prints(draft: Draft, record: ActionRecord) -> None:
    action = record.action
    keys = action.keys if action.content.commitment is None else lookup_keys(action)
    for key in keys:
        if key.mode is not _READ:
            for print_ in record.prints:
                if print_:
                    _add_print(draft, action, key.name, print_)


def _changed_by(draft: Draft, at: bytes, record: KeyRecord, session: str, live: int = 0) -> None:
    """Note that a session changed a key last; ``live`` is its action if that is live."""
    sessions = record.sessions
    if sessions[:1] != (session,):
        sessions = (session, *[one for one in sessions if one != session])[:SESSIONS]
    live_ = (*record.live, live) if live else record.live
    draft.new[at] = KeyRecord(record.key, live_, sessions, record.turned, record.renewed)


def _add_live(draft: Draft, space: str, key: str, id: int) -> None:
    record = draft.key(space, key)
    draft.put_key(space, replace(record, live=(*record.live, id)))


def _drop_live(draft: Draft, space: str, key: str, id: int) -> None:
    at = names.key(space, key)
    record = draft.get(at)
    if record and id in record.live:
        live = tuple([one for one in record.live if one != id]) if record.live[1:] else ()
        gone = not (live or record.sessions)
        draft.new[at] = not gone and KeyRecord(record.key, live, record.sessions, record.turned, record.renewed)


def _add_print(draft: Draft, action: Action, key: str, print_: bytes) -> None:
    at = names.print_of(action.namespace, key, print_)
    found = draft.known[at] if draft.used is None and at in draft.known and at not in draft.new else draft.get(at)
    draft.new[at] = ((action.id, action.session), *(found or ()))[:PRINTS]
    if print_ == COMMITTED:
        draft.new[names.named(b"x", action.namespace, names.number(action.id))] = True


def _move(draft: Draft, scope: Scope, moves: _Moves, id: int) -> None:
    """Set the session's marks. A read that the step's action made is noted with it, so that it can be taken back."""
    space, me = scope.namespace, scope.session
    for name in moves:
        mark = moves[name]
        at = names.mark(space, me, name)
        old = draft.get(at) or MarkRecord(name, me)
        reads = old.reads
        if mark.read > old.mark.read:
            by = 0
            for key in scope.keys:
                if key.name == name and key.mode is _READ:
                    by = id
            reads = (*reads, (mark.read, by))[-READS:]
        draft.new[at] = MarkRecord(name, me, mark, reads, old.acts, old.changed)


def opened(id: int, entry: Entry, opening: Opening) -> Action:
    """Return the action that an entry opens, as found through its first key."""
    keys = entry.keys
    key, mode = (keys[0].name, keys[0].mode) if keys else ("", Mode.WRITE)
    return Action(
        id,
        entry.namespace,
        entry.session,
        entry.tool,
        entry.tier or 0,
        opening.state,
        id,
        0,
        opening.expires,
        opening.limit,
        entry.run,
        entry.rule,
        opening.lock,
        opening.host,
        None,
        opening.content,
        keys,
        key,
        mode,
        opening.supersedes,
        0,
        entry.verdict or Verdict.ALLOW,
    )


# --- An action changes -------------------------------------------------------------------------------


def _settle(draft: Draft, look: ScopeReader, settle: Settle) -> None:
    """Set an action's state, and by which records it is found in it."""
    before, state, old = settle.action, settle.state, look.record
    space, me, id = before.namespace, before.session, before.id
    if old is not None and old.action.id == id:
        at = look.at
    else:
        at = names.action(space, id)
        old = draft.get(at)
        if not old:
            return
    before = old.action
    action = replace(
        before,
        state=state,
        ended=settle.ended,
        expires=before.expires if settle.expires is None else settle.expires,
        approved=before.approved if settle.approved is None else settle.approved,
    )
    new = ActionRecord(action, True, old.call, old.prints, old.params if state is _ASKED else b"", old.before)
    draft.new[at] = new
    if before.state is _DONE and state is _DONE and old.call:
        _settle_changes(draft, new, stands=not action.lock)
        return
    was_live, live = old.opened and before.state in _LIVE, state in _LIVE
    if was_live is not live:
        for key in action.keys:
            (_add_live if live else _drop_live)(draft, space, key.name, id)
    elif live:
        for key in action.keys:
            record = draft.key(space, key.name)
            turned = record.turned if before.state is state else draft.now
            draft.put_key(space, replace(record, turned=turned, renewed=draft.now))
    if before.state is _QUEUED or state is _QUEUED:
        draft.new[names.named(b"q", space, names.number(id))] = live and state is _QUEUED
    unreported = live or (state is _DONE and not action.ended)
    if was_live or not old.call or unreported:
        draft.new[names.unreported(space, me, id)] = unreported and state._value_
    stands = state in _ACTED and not action.lock
    if stands or old.evidence():
        _settle_changes(draft, new, stands=stands)
    if state in _TAKEN_BACK and before.state is not _QUEUED:
        _drop_prints(draft, new)
        for key in action.keys:
            _take_back_read(draft, draft.mark(space, me, key.name), action)


def _settle_changes(draft: Draft, new: ActionRecord, *, stands: bool) -> None:
    """Date a session's changes by their report, or take them back if they did nothing after all."""
    action = new.action
    space, me, id = action.namespace, action.session, action.id
    for number, key in enumerate(action.keys):
        if key.mode is _READ:
            continue
        name = key.name
        at = names.key(space, name)
        record, mark = draft.all((at, names.mark(space, me, name)))
        acts = mark.acts if mark else ()
        if stands:
            if acts and acts[0][0] == id and record and record.sessions and record.sessions[0] == me:
                continue  # nobody changed the key after it
            mark = mark or MarkRecord(name, me)
            moment = action.ended or action.started
            if mark.changed < moment or not _has(acts, id):
                act = (id, action.tier, key.mode is _APPEND)
                acts = without_outweighed([act, *[one for one in acts if one[0] != id]])
                draft.put_mark(space, replace(mark, acts=acts, changed=max(mark.changed, moment)))
                _changed_by(draft, at, record or KeyRecord(name), me)
        elif _has(acts, id):
            mark = _standing(draft, new, number, key, mark)
            draft.put_mark(space, mark)
            if record and not mark.acts:
                draft.put_key(space, replace(record, sessions=tuple([one for one in record.sessions if one != me])))


def _has(acts: tuple[Act, ...], id: int) -> bool:
    return id in [act[0] for act in acts]


def _standing(draft: Draft, gone: ActionRecord, number: int, key: Key, mark: MarkRecord) -> MarkRecord:
    """Return a session's mark without its action ``gone``: what stands are the actions before it."""
    space = gone.action.namespace
    acts = [act for act in mark.acts if act[0] > gone.action.id]
    changed = mark.changed if acts else 0
    id = gone.before[number] if number < len(gone.before) else 0
    for _ in range(_FURTHEST):
        earlier = draft.action(space, id) if id else None
        if earlier is None:
            break
        action = earlier.action
        place = next((at for at, one in enumerate(action.keys) if one.name == key.name), None)
        if place is None:
            break
        if earlier.evidence():
            acts.append((id, action.tier, action.keys[place].mode is _APPEND))
            changed = max(changed, action.ended or action.started)
        id = earlier.before[place] if place < len(earlier.before) else 0
    return replace(mark, acts=without_outweighed(acts), changed=changed)


def _drop_prints(draft: Draft, gone: ActionRecord) -> None:
    """Let no digest find an action that did nothing after all, so that it hides none that did."""
    action = gone.action
    for print_ in gone.prints:
        for key in lookup_keys(action):
            at = names.print_of(action.namespace, key.name, print_)
            if found := draft.get(at):
                draft.new[at] = tuple([one for one in found if one[0] != action.id]) or False


def _take_back_read(draft: Draft, mark: MarkRecord, action: Action) -> None:
    reads = tuple(read for read in mark.reads if read[1] != action.id)
    if reads != mark.reads:
        newest = max((read[0] for read in reads), default=0)
        draft.put_mark(action.namespace, replace(mark, reads=reads, mark=replace(mark.mark, read=newest)))


def _revise(draft: Draft, revisions: Sequence[Revision]) -> None:
    for revision in revisions:
        at = names.action(revision.action.namespace, revision.action.id)
        if record := draft.get(at):
            draft.new[at] = replace(record, action=replace(record.action, content=revision.content))
            if revision.also:
                _add_print(draft, record.action, revision.also, COMMITTED)
