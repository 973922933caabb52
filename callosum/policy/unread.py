"""Writes over changes that their session has not read: what is known of them, and what follows. Pure.

What a file holds is no concern of a step. So the step that meets such a write names the changes and decides nothing;
the gate compares and merges texts (``callosum.merging``) and asks again, with what it found. The step takes that only
if the changes are still the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import SECOND, Change, Kind, Lease, Mode, Move, State, Tier, View
from callosum.policy.evidence import Evidence, holds_file, last_read, may_be_running

if TYPE_CHECKING:
    from callosum.policy.call_facts import CallFacts

MERGE_LEASE: Final = 30 * SECOND
"""How long a merged write holds its file, unless it is reported before or renewed."""
_FILE: Final = "file:"
_OPEN, _STALE, _WRITE = State.OPEN, Kind.STALE, Mode.WRITE  # an enum's attributes are slow

Unread = tuple[str, int, int, str]
"""An unread change: the key of its file, its action's id, the moment of its report and its session."""


class Prepared(Struct, frozen=True, gc=False):
    """What the gate found out about a write over ``changes``.

    ``passes``: they are no obstacle, because the write lies apart from them, or because it runs with ``params`` into
    which they were merged (``whole`` is then the digest of the merged text). ``conflicting``: the write was compared
    with them and does not merge. ``note`` says so in a sentence, without a word of any file. Without any of the three
    there is no proven base. ``shown`` are lines of the file that the session is shown; they go into no journal.
    ``kept`` is the name under which the texts of a merge are kept until its id is known. ``changing``: the changes were
    others each time that they were compared, so nothing is known of them.
    """

    changes: frozenset[Unread] = frozenset()
    passes: bool = False
    conflicting: bool = False
    params: dict[str, Any] | None = None
    whole: bytes = b""
    note: str = ""
    shown: str = ""
    kept: str = ""
    changing: bool = False


def unread_changes(facts: CallFacts, view: View, evidence: Iterable[Evidence]) -> frozenset[Unread]:
    """Return the changes of files that the call would write over, if the gate can compare them with the call's.

    It cannot while one of them is still being made.
    """
    if not facts.here or facts.classification.tier >= Tier.HIGH or facts.observes or view.now < view.observe_until:
        return frozenset()
    changes = [item for item in evidence if _is_unread(facts, item)]
    if any(may_be_running(item.action, view.now) for item in changes):
        return frozenset()
    return frozenset([_change(facts, item) for item in changes])


def is_unread_change(facts: CallFacts, changes: frozenset[Unread], item: Evidence) -> bool:
    """Return True if the evidence is one of the changes."""
    return item.kind is _STALE and _change(facts, item) in changes


def does_not_merge(facts: CallFacts, prepared: Prepared | None, item: Evidence) -> bool:
    """Return True if a pause must show the change, where another session is only warned: it does not merge."""
    return prepared is not None and prepared.conflicting and is_unread_change(facts, prepared.changes, item)


def must_wait(facts: CallFacts, view: View, prepared: Prepared | None, item: Evidence) -> bool:
    """Return True if the call is paused however often that was said, because what it waits for ends soon.

    Another call's merged write holds the file; or the call could run merged, as soon as the change is made.
    """
    action = item.action
    if item.kind is Kind.HELD:
        return holds_file(action)
    if (
        not facts.here
        or not facts.call.rewrite
        or not facts.classification.content.whole
        or not _is_unread(facts, item)
    ):
        return False
    if prepared is not None and prepared.changing:
        return True
    soon = view.now - action.started < MERGE_LEASE
    return soon and facts.classification.tier < Tier.HIGH and may_be_running(action, view.now)


def _change(facts: CallFacts, item: Evidence) -> Unread:
    return facts.keys[item.key_index].name, item.action.id, item.action.ended, item.action.session


def _is_unread(facts: CallFacts, item: Evidence) -> bool:
    key = facts.keys[item.key_index]
    return item.kind is _STALE and key.mode is _WRITE and key.name.startswith(_FILE) and key.name[-1] != "/"


def open_over_changes(change: Change, prepared: Prepared, view: View, window: int) -> Change:
    """Return the change that opens a write, for one that goes over unread changes.

    The session's last look at the file stays what it was: it is put into the mark, because its own newer write hides
    it. A merged write holds its file until it is reported, or for a short time.
    """
    opening, decided, entry = change.open, change.answer, change.entries[-1]
    if opening is None:
        return change
    content = replace(opening.content, over=True, whole=prepared.whole or opening.content.whole)
    opening = replace(opening, content=content)
    moves = {move.key: move for move in change.moves}
    for key_view in view.keys:
        look = last_read(key_view, window) if key_view.key.mode is _WRITE else 0
        if look > key_view.mark.read:
            mark = moves[key_view.key.name].mark if key_view.key.name in moves else key_view.mark
            moves[key_view.key.name] = Move(key_view.key.name, replace(mark, read=look))
    decision = decided.decision
    if prepared.params is not None:
        expires = view.now + MERGE_LEASE
        opening = replace(opening, state=_OPEN, expires=expires, limit=0, host=None)
        entry = replace(entry, body={**entry.body, "merged": True})
        lease = Lease(decision.id, expires / SECOND, MERGE_LEASE / SECOND)
        decision = replace(decision, lease=lease, params=prepared.params, merged=True)
    return replace(
        change,
        entries=(*change.entries[:-1], entry),
        open=opening,
        moves=tuple(moves.values()),
        answer=replace(decided, decision=decision),
    )
