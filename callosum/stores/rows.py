"""Rows of the SQL stores and what they represent: columns, codecs, names with their namespace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from callosum.model import NO_MARK, Action, Content, Entry, Event, Host, Key, Mark, Mode, Outcome, State, Verdict
from callosum.stores.base import Probe
from callosum.stores.statements import SHARED, load
from callosum.stores.view import waiting

PARTS: Final = load(SHARED, "rows.sql", {})
"""Parts of statements. ``action_of``, ``mark_of`` and ``entry_of`` know their columns by position."""
ACTION_WIDTH: Final = 14
MARK_WIDTH: Final = 6
NEXT: Final = 256
"""An action's id is at most this many microseconds after the time of its step."""
OPENERS: Final = ("intercept", "lock", "queue", "late")
"""The events whose entries can be actions."""

_STATES: Final = {state.value: state for state in State}
_VERDICTS: Final = {verdict.value: verdict for verdict in Verdict}
_TAKEN_BACK: Final = ("failed", "cancelled")
_NO_CONTENT: Final = Content()
_DONE: Final = State.DONE  # an enum's attributes are slow


class Stored(Struct, array_like=True, gc=False):
    """A key as the journal stores it.

    ``before`` is the session's previous action on the key, or, for a read, its previous read.
    """

    name: str
    mode: str
    before: int = 0


class RareFields(Struct, array_like=True, gc=False):
    """Fields that few actions have."""

    limit: int = 0
    host: Host | None = None
    lock: bool = False
    supersedes: tuple[int, ...] = ()


class NotifiedNote(Struct, array_like=True, gc=False):
    """What a mark knows of the last notification: the fields of ``Mark`` from ``notified_at`` on."""

    notified_at: int = 0
    notified_call: bytes = b""
    notified_run: str = ""
    notified_before: int = 0
    notified_before_kind: int = 0
    pauses: tuple[int, ...] = ()


_NO_EXTRA: Final = RareFields()
_encode_json = msgspec.json.Encoder().encode
encode = msgspec.msgpack.Encoder().encode
stored_keys = msgspec.json.Decoder(tuple[Stored, ...]).decode
_keys_of = msgspec.json.Decoder(tuple[Key, ...]).decode  # without the previous action of each key
content_of = msgspec.msgpack.Decoder(Content).decode
extra_of = msgspec.msgpack.Decoder(RareFields).decode
_note_of = msgspec.msgpack.Decoder(NotifiedNote).decode


def as_json(value: object) -> str:
    """Return JSON as text, readable in any SQL shell."""
    return str(_encode_json(value), "utf-8")


def action_of(row: Sequence[Any], at: int, key: str, probe: Probe, verdict: str | None = None) -> Action:
    """Return the action in a row whose ``action`` columns begin at ``at``, as found through ``key``.

    An empty ``key`` stands for the action's first key.
    """
    seq, namespace, session, run, tool, tier, state, ended, expires, rule, keys, content, extra, approved = row[
        at : at + ACTION_WIDTH
    ]
    mode = Mode.WRITE
    names: tuple[Key, ...] = ()
    if keys:
        names = _keys_of(keys)
        if not key:
            key, mode = names[0].name, names[0].mode
        else:
            for item in names:
                if item.name == key:
                    mode = item.mode
                    break
    more = extra_of(extra) if extra else _NO_EXTRA
    return Action(
        seq,
        namespace,
        session,
        tool or "",
        tier or 0,
        _STATES[state] if state else State.ASKED,
        seq,
        ended or 0,
        expires or 0,
        more.limit,
        run or "",
        rule or "",
        more.lock,
        more.host,
        probe(more.host) if more.host is not None and state == "open" else None,
        content_of(content) if content else _NO_CONTENT,
        names,
        key,
        mode,
        more.supersedes,
        approved or 0,
        _VERDICTS[verdict] if verdict else Verdict.ALLOW,
    )


def own_of(session: str, acted: int) -> Action:
    """Return a session's own newest action on a key, with nothing but its id."""
    return Action(acted, "", session, "", 0, _DONE, acted)


def answered(action: Action, body: str | None) -> Action:
    """Return the action with the decision that was given."""
    return replace(action, answer=body.encode() if body else b"")


def entry_of(row: Sequence[Any]) -> Entry:
    """Return the journal entry in a row of ``entry``."""
    return Entry(
        event=Event(row[1]),
        session=row[3],
        namespace=row[2],
        seq=row[0],
        action=row[9] or 0,
        tool=row[5] or "",
        tier=row[6],
        verdict=_VERDICTS[row[7]] if row[7] else None,
        rule=row[8] or "",
        run=row[4] or "",
        keys=_keys_of(row[11]) if row[11] else (),
        outcome=Outcome(row[10]) if row[10] else None,
        body=msgspec.json.decode(row[12]) if row[12] else {},
    )


def mark_of(row: Sequence[Any]) -> Mark:
    """Return the mark in a row of ``mark``."""
    if row[4] is None:
        return Mark(row[1], row[2], row[3]) if row[1] or row[2] else NO_MARK
    return Mark(row[1], row[2], row[3], *astuple(_note_of(row[4])))


def note_of(mark: Mark) -> bytes | None:
    """Return the blob of a mark's notification, None if there was none."""
    if not mark.notified_at:
        return None
    return encode(astuple(mark)[3:])


def before_of(keys: str | None, name: str) -> int:
    """Return, from an action's keys, the previous action of its session on the key ``name``."""
    if not keys:
        return 0
    return next((item.before for item in stored_keys(keys) if item.name == name), 0)


# --- Used by views -------------------------------------------------------------------------------------


def wanted(rows: Sequence[Any], me: str, now: int, held_by: Callable[[list[str]], Sequence[Any]]) -> tuple[str, ...]:
    """Return the sessions that wait for something this session holds, directly or through other waiting sessions.

    ``rows`` are all waiters and what this session has open: key with its namespace, session, state, expiry. ``held_by``
    returns such rows of what others have open; it is only called if a cycle is possible.
    """
    held = [(key, session) for key, session, state, _ in rows if state == "open"]
    queued = [(key, session) for key, session, state, expires in rows if state == "queued" and now < expires]
    names = sorted({session for _, session in queued if session != me})
    if not (held and names):
        return ()
    if len(names) > 1:  # a session that waits for this one may be waited for itself
        held += [(key, session) for key, session, _, _ in held_by(names)]
    return waiting(held, queued, me)


Life = Callable[[int], "Sequence[Any] | None"]
"""Returns state, report and keys of the action that an entry opened, None if the entry has left."""


def standing_look(read: int, key: str, life: Life) -> int:
    """Return the time of a session's newest read of a key, at ``read`` or before, that did not fail.

    0 if there is none.
    """
    while read and (row := life(read)) is not None and row[0] in _TAKEN_BACK:
        read = before_of(row[2], key)
    return read


def standing(id: int, key: str, life: Life) -> tuple[int | None, int]:
    """Return a session's newest action on a key, ``id`` or before, that was not taken back, and its time."""
    while id and (row := life(id)) is not None:
        if row[0] not in _TAKEN_BACK:
            return id, int(row[1] or id)
        id = before_of(row[2], key)
    return None, 0
