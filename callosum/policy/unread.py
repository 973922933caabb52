"""Writes over changes that their session has not read: what is known of them, and what follows. Pure.

A step does not see the content of files. So the step that meets such a write names the changes and decides nothing. The
gate compares and merges the texts (``callosum.merging``) and runs the step again with the result. The step accepts the
result only if the changes are still the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from callosum.model import SECOND, Change, Key, Kind, Lease, Mode, State, Tier, View
from callosum.policy.checkouts import CHANGES, through_tree
from callosum.policy.evidence import Evidence, holds_file, last_read, may_be_running

if TYPE_CHECKING:
    from callosum.policy.call_facts import CallFacts

MERGE_LEASE: Final = 30 * SECOND
"""Microseconds for which a merged write holds its file, unless it is reported earlier or renewed."""
_FILE: Final = "file:"
_OPEN, _STALE, _WRITE = State.OPEN, Kind.STALE, Mode.WRITE  # an enum's attributes are slow

Unread = tuple[str, int, int, str]
"""An unread change: the key of its file, its action's id, the moment of its report and its session."""


class Prepared(Struct, frozen=True, gc=False):
    """What the gate found out about a write over ``changes``.

    ``passes`` says that the changes are no obstacle, because the write does not touch the same lines, or because it
    runs with ``params`` into which they were merged (``whole`` is then the digest of the merged text). ``conflicting``
    says that the write was compared with the changes and cannot be merged. ``note`` explains the result in a sentence
    without any text of the files. If none of these is set, no base for a merge could be proven.

    ``shown`` holds lines of the file for the session; they never go into the journal. ``kept`` is the name under which
    the texts of a merge are kept until its id is known. ``changing`` says that the changes were different ones at every
    comparison, so nothing is known of them. ``absent`` holds the keys of files that do not exist and that the session
    never read: nothing in them can be overwritten. ``gone`` holds those that the session had read.
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
    absent: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


def unread_changes(facts: CallFacts, view: View, evidence: Iterable[Evidence]) -> frozenset[Unread]:
    """Return the changes to files that the call would overwrite, if the gate can compare them with the call's.

    It cannot do so while one of the changes is still being made, unless that is a pull, which may leave the file as it
    is, or a change of a whole tree in which the session does not know the file.
    """
    if not facts.here or facts.classification.tier >= Tier.HIGH or facts.observes or view.now < view.observe_until:
        return frozenset()
    changes = [item for item in evidence if _is_unread(facts, item)]
    if any(
        not (item.action.key[-1:] == "/" and (item.unread or item.action.mode is Mode.APPEND))
        and may_be_running(item.action, view.now)
        for item in changes
    ):
        return frozenset()
    return frozenset([_change(facts, item) for item in changes])


def is_unread_change(facts: CallFacts, changes: frozenset[Unread], item: Evidence) -> bool:
    """Return True if the evidence is one of the changes."""
    return item.kind is _STALE and _change(facts, item) in changes


def must_wait(facts: CallFacts, view: View, prepared: Prepared | None, item: Evidence) -> bool:
    """Return True if the call is paused however often it is repeated, because the obstacle soon ends.

    The obstacle is another call's merged write that holds the file, or a running change into which the call could be
    merged once it is made.
    """
    action = item.action
    if item.kind is Kind.HELD:
        return holds_file(action)
    if not (facts.here and facts.call.rewrite and facts.classification.content.whole and _is_unread(facts, item)):
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


def through_trees(facts: CallFacts, evidence: list[Evidence]) -> tuple[list[Evidence], tuple[Key, ...]]:
    """Move what a change of a tree did to files that the session has not read to one key of that tree.

    Return the evidence, and the keys that the facts lack for it.
    """
    at = {key.name: index for index, key in enumerate(facts.keys)}
    moved, missing = list(evidence), set()
    for number, item in enumerate(evidence):
        if item.unread and item.kind is Kind.STALE and through_tree(facts.keys[item.key_index].name, item.action):
            name = item.action.key + CHANGES
            missing.update({name} - at.keys())
            moved[number] = replace(item, key_index=at.get(name, 0))
    return moved, tuple([Key(name, Mode.READ) for name in sorted(missing)]) if missing else ()


def open_over_changes(change: Change, prepared: Prepared, view: View, window: int) -> Change:
    """Return the change that opens a write, adapted for a write over unread changes.

    The session's last read of the file stays what it was: it is stored in the mark, because the session's own newer
    write would hide it. A merged write holds its file until it is reported, or for ``MERGE_LEASE``.
    """
    opening, decided, entry = change.open, change.answer, change.entries[-1]
    if opening is None:
        return change
    whole = prepared.whole or opening.content.whole
    opening = replace(opening, content=replace(opening.content, over=True, whole=whole))
    moves = dict(change.moves)
    for key_view in view.keys:
        look = last_read(key_view, window) if key_view.key.mode is _WRITE else 0
        if look > key_view.mark.read:
            mark = moves.get(key_view.key.name, key_view.mark)
            moves[key_view.key.name] = replace(mark, read=look)
    decision = decided.decision
    if prepared.params is not None:
        expires = view.now + MERGE_LEASE
        opening = replace(opening, state=_OPEN, expires=expires, limit=0, host=None)
        entry = replace(entry, body={**entry.body, "merged": True})
        lease = Lease(decision.id, expires / SECOND, MERGE_LEASE / SECOND)
        decision = replace(decision, lease=lease, params=prepared.params, merged=True)
    entries, answer = (*change.entries[:-1], entry), replace(decided, decision=decision)
    return replace(change, entries=entries, open=opening, moves=moves, answer=answer)
