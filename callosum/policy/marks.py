"""Read marks and notified marks: what a session has seen of a key, and what it has been notified of.

A session confirms a call by repeating it. Models reword their calls, so the gate recognises the repeat by session and
key, with the help of a mark, and not by a token.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from callosum.model import MINUTE, SECOND, Action, Change, KeyView, Kind, Mark, Mode, Tier, Verdict, View
from callosum.policy.call_facts import CallFacts
from callosum.policy.checkouts import REMOTE, only_does
from callosum.policy.evidence import Evidence, change_moment, may_be_running, shown_as_held
from callosum.policy.table import TABLE, cell, pause
from callosum.policy.unread import Prepared, is_unread_change, must_wait

ORDER: Final = SECOND
"""Microseconds between an answer and a call that counts as made after it, if nothing else tells their order."""
PAUSES: Final = 2
"""Number of mild pauses on one key after which tier 3 is only warned."""
PAUSE_SPAN: Final = 10 * MINUTE
"""Microseconds within which the mild pauses (``recent`` or ``held``) on one key are counted."""
MOST_CONFLICTS: Final = 10
"""Maximum number of conflicts in a decision."""
REPLACING: Final = 3
"""Pauses after which a call may replace a whole changed file without reading it, and one on a tree may run."""
PASSING: Final = (Kind.STALE, Kind.RECENT)
"""Kinds of conflicts that do not stop a call on a tree or a remote for ever."""
_KEEPS: Final = re.compile(r": (?:goes to another branch|edits a file in place|pushes)[^:]*\Z")
"""Matches why a call on a tree was judged as it was, if it takes no uncommitted work of others along."""

_APPENDS: Final = 1
_AGAINST_NO: Final = 128
"""Bits of ``Mark.covers`` besides one for each kind, ``1 << gravity``: actions that append, and those ``opposed`` to a
call with a ``-`` side.

The latter are a different conflict from those opposed to the other side, which the same session may take next.
"""
_COMMANDS: Final = 1 << 16
"""Number of commands on a tree that a pause tells apart, by the last digits of its moment."""

GRAVITY: Final[Callable[[Verdict], int]] = attrgetter("gravity")
_id: Final[Callable[[Action], int]] = attrgetter("id")
_WARN, _CONFIRM = Verdict.WARN, Verdict.CONFIRM  # an enum's attributes are slow


def newest_notified_id(facts: CallFacts, view: View, item: Evidence) -> int:
    """Return the id of the newest action that the session was notified of as this kind or a graver one; 0 for none.

    A session confirms a call by repeating it: conflicts it was notified of do not stop the repeat. Two cases never
    count as notified, because only time or a person may lift them: any conflict of a tier 4 call, and a tier 4 lease
    that another session holds. A commitment that is older than the rule's window is the exception: where no person can
    be asked, a repeat confirms it at any tier.

    A session that was notified of a ``held`` action is notified of its change too, once the change has happened, if the
    session had read the resource before.
    """
    if (facts.classification.tier >= Tier.CRITICAL and (not item.committed or facts.call.pause)) or not view.keys:
        return 0
    if item.kind is Kind.HELD and item.action.tier >= Tier.CRITICAL:
        return 0
    mark = view.keys[item.key_index].mark
    gravity = item.kind.gravity
    if item.kind is Kind.STALE and item.action.tier >= Tier.HIGH and shown_as_held(facts.classification, item.action):
        if item.unread:
            gravity = Kind.HELD.gravity
        elif item.action.ended > mark.notified_at:
            return 0  # it was notified of this action only while the action was running
    if _made_after_notification(facts, view, mark):
        newest, gravest, covers = mark.notified, mark.notified_kind, mark.covers
    else:
        newest, gravest, covers = mark.notified_before, mark.notified_before_kind, mark.covers_before
    if gravity > gravest:
        return 0
    # When it notified the session, the gate must have looked for this kind, or for the one with this gravity.
    looked_for = _bit(facts, item.kind) | (1 << gravity if gravity != item.kind.gravity else 0)
    if not covers & looked_for or (item.action.mode is Mode.APPEND and not covers & _APPENDS):
        return 0
    return newest


def _bit(facts: CallFacts, kind: Kind) -> int:
    """Return the bit of a conflict of this kind with this call."""
    if kind is Kind.OPPOSED and facts.classification.content.stance[:1] == "-":
        return _AGAINST_NO
    return 1 << kind.gravity


def _shown_bits(facts: CallFacts, mode: Mode, on_key: Iterable[Evidence]) -> int:
    """Return the bits of all conflicts that would be shown to this call.

    A graver call may be stopped by more. The bits always include the conflicts that were shown, so that a repeat of the
    call confirms.
    """
    classification = facts.classification
    bits = 0 if mode is Mode.APPEND else _APPENDS
    for kind in Kind if classification.cells else TABLE[classification.tier]:
        if cell(classification.tier, kind, 0, classification.cells) is not Verdict.ALLOW:
            bits |= _bit(facts, kind)
    if bits & 1 << Kind.OPPOSED.gravity and not classification.content.stance:
        bits |= _AGAINST_NO
    for kind, theirs in set(map(attrgetter("kind", "action.mode"), on_key)):
        bits |= _bit(facts, kind) | (_APPENDS if theirs is Mode.APPEND else 0)
    return bits


def replaces(facts: CallFacts, item: Evidence) -> bool:
    """Return True if the call would replace a whole file that another session has changed or is changing."""
    key, gone = facts.keys[item.key_index], facts.prepared.gone if facts.prepared is not None else ()
    whole = item.kind is Kind.STALE and bool(facts.classification.content.whole)
    return whole and key.mode is not Mode.READ and key.name.startswith("file:") and key.name not in gone


def pauses_that_showed(mark: Mark, item: Evidence) -> int:
    """Return how often a pause has shown this change to a session that would replace the file unread."""
    since = max(item.action.id, mark.read)
    return sum(1 for pause in mark.pauses if -pause > since)


def pauses_suffice(facts: CallFacts, view: View, item: Evidence) -> bool:
    """Return False if a pause must show the conflict again, although the session was notified of it."""
    if not view.keys or not replaces(facts, item):
        return True
    return pauses_that_showed(view.keys[item.key_index].mark, item) >= REPLACING


def replace_attempt(facts: CallFacts, view: View, items: Iterable[Evidence], moves: Mapping[str, Mark]) -> int:
    """Return the number of the paused call's attempt to replace a file unread, from 1; 0 if it replaces none."""
    replacing = [(view.keys[item.key_index], item) for item in items if replaces(facts, item)]
    return max([0, *[pauses_that_showed(moves.get(on.key.name, on.mark), item) for on, item in replacing]])


def keeps_work(facts: CallFacts) -> bool:
    """Return True if the call may run after enough pauses: it cannot take uncommitted work of other sessions along."""
    return facts.classification.tier < Tier.CRITICAL and only_does(facts.classification, _KEEPS)


def pauses_of_tree(facts: CallFacts, view: View) -> tuple[KeyView | None, int, int]:
    """Return the call's tree or remote, what its command is, and how often that was paused there in ten minutes.

    What the command is: a digest of its programs and first words, in the bits that a pause's moment can spare.
    """
    for key_view in view.keys:
        name, since = key_view.key.name, view.now - PAUSE_SPAN
        if key_view.key.mode is not Mode.READ and (REMOTE in name or (name[:5] == "file:" and name[-1] == "/")):
            words = [word for why in facts.classification.why for word in why.split()[:2]]
            command = int.from_bytes(blake2b(" ".join(words).encode(), digest_size=2).digest())
            pauses = [pause for pause in key_view.mark.pauses if -pause > since and -pause % _COMMANDS == command]
            return key_view, command, len(pauses)
    return None, 0, 0


def add_pause_of_tree(facts: CallFacts, view: View, items: Iterable[Evidence], moves: dict[str, Mark]) -> int:
    """Add this pause of a call on a tree or a remote to the moves, and return the number of such pauses."""
    key_view, command, number = pauses_of_tree(facts, view)
    passing = [item for item in items if item.kind in PASSING] if key_view is not None else ()
    if key_view is None or not passing or not _made_after_notification(facts, view, key_view.mark):
        return 0
    mark = moves.get(key_view.key.name, key_view.mark)
    pauses = _with_pause(mark.pauses, -(view.now // _COMMANDS * _COMMANDS + command))
    moves[key_view.key.name] = replace(mark, pauses=pauses)
    return number + 1


def _made_after_notification(facts: CallFacts, view: View, mark: Mark) -> bool:
    """Return True if this is another call than the notified one, made after the session got that answer.

    The host may tell the order, with ``after`` or another ``run``. If it does not, a call made a second later counts as
    made after the answer.
    """
    if facts.call_print and facts.call_print == mark.notified_call:
        return False
    if facts.call.after is not None:
        return facts.call.after >= mark.notified_at
    if facts.call.run and mark.notified_run and facts.call.run != mark.notified_run:
        return True
    return view.now - mark.notified_at >= ORDER


def until_repeat(facts: CallFacts, view: View, moves: Mapping[str, Mark]) -> int:
    """Return the number of microseconds that must pass before a repeat of the paused call confirms it.

    The number is 0 where the host says what the model had seen when it made the call. A repeat from another turn need
    not wait either. Any other repeat that follows at once may be a second call of the turn in which the first was made.
    """
    if facts.call.after is not None:
        return 0
    now_notified = max([0, *[mark.notified_at for mark in moves.values()]])
    return max(0, (now_notified or max([0, *[one.mark.notified_at for one in view.keys]])) + ORDER - view.now)


def confirms_rule(facts: CallFacts, view: View) -> bool:
    """Return True if this call repeats one that a rule's own ``confirm`` has paused."""
    told = [one.mark for one in view.keys if one.mark.notified_at and view.now - one.mark.notified_at < PAUSE_SPAN]
    return any(_made_after_notification(facts, view, mark) for mark in told)


def verdict_with_pause(facts: CallFacts, view: View, item: Evidence, verdict: Verdict) -> Verdict:
    """Return the verdict for a host that pauses. Tier 3 only gets a warning after two mild pauses in ten minutes."""
    result = pause(verdict, item.kind, item.age)
    if result is not Verdict.CONFIRM or facts.classification.tier != Tier.HIGH:
        return result
    pauses = [pause for pause in view.keys[item.key_index].mark.pauses if pause > 0] if view.keys else []
    if _is_mild(item) and len(pauses) >= PAUSES and view.now - pauses[-PAUSES] < PAUSE_SPAN:
        return verdict
    return result


def _is_mild(item: Evidence) -> bool:
    """Return True if the evidence is no reason to pause a session again and again."""
    return item.kind in (Kind.RECENT, Kind.HELD) and not item.changes


def to_show(
    facts: CallFacts, view: View, cells: list[tuple[Evidence, Verdict]], prepared: Prepared | None
) -> tuple[list[tuple[Evidence, Verdict]], int]:
    """Return the evidence to notify the session of, and how much more there is.

    Each evidence comes with the verdict that it would cause alone.
    """
    shown, more = [], 0
    enough = pauses_of_tree(facts, view)[2] >= REPLACING and keeps_work(facts)
    for item, verdict in cells:
        if not item.group and must_wait(facts, view, prepared, item):
            shown.append((item, max(verdict, Verdict.CONFIRM, key=GRAVITY)))
            continue
        if verdict is Verdict.ALLOW:
            continue
        answer = verdict_with_pause(facts, view, item, verdict) if facts.call.pause else verdict
        if item.group:
            unseen, others = _to_show_of_group(facts, view, item, pauses=answer is Verdict.CONFIRM)
            shown += [(one, answer) for one in unseen]
            more += others
            continue
        conflicting = prepared.changes if prepared is not None and prepared.conflicting else frozenset()
        if answer is Verdict.WARN and is_unread_change(facts, conflicting, item):
            answer = Verdict.CONFIRM  # the change cannot be merged, so a pause must show it
        if answer is Verdict.CONFIRM and item.kind in PASSING and enough:
            answer = Verdict.WARN
        told = item.action.id <= newest_notified_id(facts, view, item)
        if told and (answer is not Verdict.CONFIRM or pauses_suffice(facts, view, item)):
            continue
        shown.append((item, answer))
    return shown, more


def _to_show_of_group(facts: CallFacts, view: View, item: Evidence, *, pauses: bool) -> tuple[list[Evidence], int]:
    """Return the newest evidence of a group to notify the session of, and how much more there is.

    ``pauses`` says that the call is paused for it; a change that a replaced file would undo may then be shown again.
    """
    told = newest_notified_id(facts, view, item)
    first = bisect_right(item.group, told, key=_id)
    newest = max(first, len(item.group) - MOST_CONFLICTS)
    again = pauses and replaces(facts, item)
    some = item.group if again else item.group[newest:]
    now, item = view.now, replace(item, group=())
    found = [replace(item, action=one, age=now - change_moment(one, now)) for one in some]
    if again:
        return [one for one in found if one.action.id > told or not pauses_suffice(facts, view, one)], 0
    return found, newest - first


def marks_after(facts: CallFacts, view: View, verdict: Verdict, items: tuple[Evidence, ...]) -> dict[str, Mark]:
    """Return the marks to set after this answer: what the session was notified of, and what it read."""
    moves: dict[str, Mark] = {}
    for key_index, key_view in enumerate(view.keys):
        mark = key_view.mark
        if verdict is _WARN or verdict is _CONFIRM:
            on_key = [item for item in items if item.key_index == key_index]
            if on_key or (verdict is _CONFIRM and not items and key_index == 0):
                mark = _with_notification(facts, view, key_view, on_key, verdict)
        if verdict.proceed and key_view.key.mode is Mode.READ and _is_worth_marking(key_view, view):
            mark = replace(mark, read=view.now)
        if mark is not key_view.mark:
            moves[key_view.key.name] = mark
    return moves


def _with_notification(
    facts: CallFacts, view: View, key_view: KeyView, on_key: list[Evidence], verdict: Verdict
) -> Mark:
    mark = key_view.mark
    notified = max([mark.notified, *map(attrgetter("action.id"), on_key)])
    gravest = max([mark.notified_kind, *map(attrgetter("kind.gravity"), on_key)])
    covers = _shown_bits(facts, key_view.key.mode, on_key) if on_key else mark.covers
    if on_key and notified == mark.notified:  # this answer notifies of no newer action
        covers |= mark.covers
    made_after = _made_after_notification(facts, view, mark)
    same = (notified, gravest, covers) == (mark.notified, mark.notified_kind, mark.covers)
    if on_key and same and not (made_after and verdict is _CONFIRM):
        return mark  # a sibling of the notified call; the second of ``ORDER`` counts from the first notification
    pauses, paused = mark.pauses, on_key if verdict is _CONFIRM else ()
    if paused and all(map(_is_mild, paused)):
        if made_after or facts.call.after != 0:  # a program's retry has read nothing, so it softens nothing
            pauses = _with_pause(pauses, view.now)
    elif (made_after or notified > mark.notified) and any(replaces(facts, item) for item in paused):
        pauses = _with_pause(pauses, -view.now)
    before, its_kind, covered = mark.notified, mark.notified_kind, mark.covers
    if not made_after:
        before, its_kind, covered = mark.notified_before, mark.notified_before_kind, mark.covers_before
    run, now = facts.call.run or "", view.now
    return Mark(mark.read, notified, gravest, now, facts.call_print, run, before, its_kind, pauses, covers, covered)


def _with_pause(pauses: tuple[int, ...], pause: int) -> tuple[int, ...]:
    """Return the pauses with one more, without those no longer needed: replacing ones first, as negative numbers."""
    every = (*pauses, pause)
    return (*[one for one in every if one < 0][-REPLACING:], *[one for one in every if one > 0][-PAUSES:])


def _is_worth_marking(key_view: KeyView, view: View) -> bool:
    """Return True if this read shows more than the previous one did, because something changed in between."""
    if not key_view.mark.read or key_view.key.name[-1:] == "/":
        return True  # a read does not look up what changed in a tree
    if not (key_view.latest or key_view.live or key_view.groups):
        return False
    groups = [group.actions[-1] for group in key_view.groups]
    if any(may_be_running(one, view.now) for one in (*key_view.latest, *[one for one in groups if not one.lock])):
        return True
    newest = max((change_moment(one, view.now) for one in (*key_view.latest, *key_view.live)), default=0)
    return newest >= key_view.mark.read


def mark_as_read(moment: int, view: View) -> Change:
    """Mark the keys of a view as read by its session at ``moment``. A mark never moves back. A pure step."""
    later = [key_view for key_view in view.keys if key_view.mark.read < moment]
    return Change(moves={key_view.key.name: replace(key_view.mark, read=moment) for key_view in later})
