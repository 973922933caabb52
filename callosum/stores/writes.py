"""What a step's change means for the stored records, for every engine."""

from __future__ import annotations

from msgspec.structs import replace

from callosum.model import (
    HOUR,
    Action,
    Change,
    Content,
    Entry,
    Event,
    Mode,
    Opening,
    Revision,
    Scope,
    Settle,
    State,
    Verdict,
)
from callosum.stores.records import TAKEN_BACK, Record


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


def kept(id: int, change: Change, scope: Scope) -> Record | None:
    """Return the record of the change's last entry: an action, or a refused call that may still be approved.

    Return None if the entry opens nothing.
    """
    entry, opening = change.entries[-1], change.open
    if opening is None:
        if entry.event is not Event.INTERCEPT:
            return None
        refused = Opening(State.ASKED, 0, content=change.content or Content())
        return Record(opened(id, entry, refused), opened=False)
    acts = opening.state in (State.OPEN, State.DONE)
    return Record(
        opened(id, entry, opening),
        call=(scope.call or b"") if acts else b"",
        prints=tuple([print_ for print_ in opening.prints if print_]) if acts else (),
        params=opening.params or b"",
    )


def settled(record: Record, settle: Settle) -> Record:
    """Return the record after an action's state changed. A refused call becomes an action by it."""
    before = record.action
    after = replace(
        before,
        state=settle.state,
        ended=settle.ended,
        expires=before.expires if settle.expires is None else settle.expires,
        approved=before.approved if settle.approved is None else settle.approved,
    )
    params = record.params if settle.state is State.ASKED else b""
    return replace(record, action=after, opened=True, params=params)


def revised(record: Record, revision: Revision) -> Record:
    """Return the record after a revision of the action's remembered content."""
    return replace(record, action=replace(record.action, content=revision.content), raw=b"")


def takes_back(record: Record, settle: Settle) -> bool:
    """Return True if what the action did is undone: it is no session's newest action, and its read does not count."""
    return settle.state in TAKEN_BACK and record.action.state is not State.QUEUED


def is_late(settle: Settle) -> bool:
    """Return True if the action ended so long after it began that upkeep may have deleted the rows that find it."""
    return settle.state is State.DONE and settle.ended - settle.action.id > HOUR


def about(entry: Entry, record: Record | None) -> Entry:
    """Return an entry with tool, tier and keys of the action that it is about."""
    if record is None:
        return entry
    action = record.action
    return replace(entry, tool=action.tool, tier=action.tier, keys=action.keys, run=entry.run or action.run)
