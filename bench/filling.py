"""Fill a store with calls of long ago, in the form that the gate leaves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from callosum.model import DEFAULT_NAMESPACE, SECOND, Action, Entry, Event, Key, Outcome, State, Verdict
from callosum.stores import names
from callosum.stores.kernel import Kernel
from callosum.stores.port import Written
from callosum.stores.records import ActionRecord, KeyRecord, MarkRecord

_BATCH: Final = 2_000
_BODY: Final = b'{"params":{"message":"' + b"x" * 100 + b'"}}'


def fill(store: Kernel, rows: int, keys: int, start: int) -> None:
    """Write calls with their reports, two entries each, from the moment ``start`` on, on so many keys of 100 sessions.

    The moments are two milliseconds apart.
    """
    for first in range(0, rows // 2, _BATCH):
        changed: dict[bytes, Any] = {}
        entries: list[Written] = []
        for number in range(first, min(first + _BATCH, rows // 2)):
            entries += _call(number, keys, start + number * 2_000, changed)
        store.engine.begin((), ()).commit(changed, entries)


def _call(number: int, keys: int, at: int, changed: dict[bytes, Any]) -> Iterator[Written]:
    space, session, key = DEFAULT_NAMESPACE, f"s{number % 100}", Key(f"thread:andy:old-{number % keys}")
    action = Action(
        at, space, session, "message", 3, State.DONE, at, at + 1_000, at + 300 * SECOND, keys=(key,), key=key.name
    )
    changed[names.mark(space, session, key.name)] = MarkRecord(key.name, session, acts=((at, 3, False),), changed=at)
    changed[names.key(space, key.name)] = KeyRecord(key.name, sessions=(session,))
    opening = Entry(
        Event.INTERCEPT,
        session,
        space,
        tool="message",
        tier=3,
        verdict=Verdict.ALLOW,
        rule="message-reply",
        keys=(key,),
    )
    yield Written(at, opening, _BODY, None, opens=True, name=names.action(space, at), record=ActionRecord(action))
    report = Entry(Event.COMPLETE, session, space, action=at, outcome=Outcome.DONE)
    yield Written(at + 1_000, report, b"", action)
