"""Entries as rows of a table of the journal: the columns of both SQL engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from callosum.model import Entry, Event, Key, Outcome, Verdict

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
