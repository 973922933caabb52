"""Entries as rows of a table of the journal: the columns of both SQL engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from callosum.model import Entry, Event, Key, Outcome, Verdict
from callosum.stores.port import Written, encode

_as_json: Final = msgspec.json.Encoder().encode
keys_of: Final = msgspec.json.Decoder(tuple[Key, ...]).decode
# an enum's call is slow
_VERDICTS: Final = {verdict.value: verdict for verdict in Verdict}
_EVENTS: Final = {event.value: event for event in Event}
_OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}


def entry_of(row: Sequence[Any]) -> Entry:
    """Return the entry in thirteen columns. One about an action has its tool, tier and keys from the opening."""
    seq, event, namespace, session, action, run, tool, tier, verdict, rule, outcome, keys, body = row[:13]
    return Entry(
        event=_EVENTS[event],
        session=session,
        namespace=namespace,
        seq=seq,
        action=action or 0,
        tool=tool or "",
        tier=tier,
        verdict=_VERDICTS[verdict] if verdict else None,
        rule=rule or "",
        run=run or "",
        keys=keys_of(keys) if keys else (),
        outcome=_OUTCOMES[outcome] if outcome else None,
        body=msgspec.json.decode(body) if body else {},
    )


def columns_of(one: Written) -> tuple[Any, ...]:
    """Return the columns of an entry. One about an action leaves out what the entry that opened the action has."""
    entry = one.entry
    alone = one.about is None or one.record is not None
    keys = entry.keys if alone else ()
    return (
        one.seq,
        entry.event._value_,
        entry.namespace,
        entry.session,
        (one.seq if one.opens else entry.action) or None,
        entry.run or None,
        (entry.tool or None) if alone else None,
        entry.tier if alone else None,
        entry.verdict and entry.verdict._value_,
        entry.rule or None,
        entry.outcome and entry.outcome._value_,
        keys[0].name if keys else None,
        _as_json(keys).decode() if keys else None,
        one.body.decode() if one.body else None,
        encode(one.record) if one.record is not None else None,
    )
