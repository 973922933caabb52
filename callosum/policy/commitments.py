"""Commitments of other sessions: which ones still count, which a call contradicts, and which it ends.

A commitment is stored with the content of its action. One digest finds it on each key that the action wrote, and only
calls that make a commitment themselves look it up. It counts until the moment that its content names. That moment moves
to an earlier one when a contrary action went through, or when what was booked was moved elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from msgspec.structs import replace

from callosum.model import DAY, Action, Change, Classification, Content, Key, Mode, Revision, State, View
from callosum.rules.commitments import contradicts, is_slot, takes, thing_of
from callosum.rules.commitments import told as told_until

LASTS: Final = 30 * DAY
"""Microseconds for which a commitment counts whose end is not known."""
MOST_AHEAD: Final = 400 * DAY
"""Microseconds for which a commitment counts at most."""
COMMITTED: Final = blake2b(b"commitment", digest_size=8, person=b"stance").digest()
"""The digest that finds every commitment on its keys."""

_MADE: Final = frozenset({State.OPEN, State.DONE, State.UNKNOWN})


def with_end_date(content: Content, now: int) -> Content:
    """Return the content of an action that opens ``now``, with the end of its commitment."""
    made = content.commitment
    if made is None:
        return content
    until = min(made.until, now + MOST_AHEAD) if made.until else now + LASTS
    return replace(content, commitment=replace(made, until=until))


def is_in_force(action: Action, now: int) -> bool:
    """Return True if the action made a commitment that still counts."""
    made = action.content.commitment
    return made is not None and now < made.until and action.state in _MADE and not action.lock


def contradicted_by_call(
    classification: Classification, actor: str, instance: str, view: View
) -> Iterator[tuple[Action, int]]:
    """Yield other sessions' commitments that a call contradicts, each with the number of the call's key there."""
    for action in view.twins:
        made = action.content.commitment
        left = made is not None and made.left and action.session.partition("/")[0] == instance.partition("/")[0]
        if not is_in_force(action, view.now) or action.session == actor or left or is_ended(action, view):
            continue
        number = _contradicted(classification, action)
        if number is not None:
            yield action, number


def lookup_keys(action: Action) -> tuple[Key, ...]:
    """Return the keys on which an action is found by its digests: its own, and that of the thing it created."""
    made = action.content.commitment
    return (*action.keys, Key(made.thing)) if made is not None and made.thing else action.keys


def is_ended(action: Action, view: View) -> bool:
    """Return True if a later action that went through contradicts the commitment."""
    made = action.content.commitment
    return made is not None and any(
        later.id > action.id
        and later.state is State.DONE
        and later.content.commitment is not None
        and contradicts(made.side, later.content.commitment.side)
        and not _names(action).isdisjoint(_names(later))
        for later in view.twins
    )


def ended_by_call(classification: Classification, view: View) -> tuple[int, ...]:
    """Return the ids of commitments, of any session, that end once the call is done: it contradicts or moves them."""
    keys, stance = classification.keys, classification.content.stance
    made = [action for action in view.twins if is_in_force(action, view.now)]
    moved = {one.id for one in made if not stance and _same_thing(keys, one) and any(map(takes, one.keys))}
    return tuple([one.id for one in made if one.id in moved or _on(keys, one, stance) is not None])


def revisions_of(action: Action, told: object, view: View) -> tuple[Revision, ...]:
    """Return the revisions that follow from an action that is done and made a commitment.

    They end the commitments that it has contradicted, and store what the result says about its own: when it ends, and
    the id of what was created.
    """
    made, now = action.content.commitment, view.now
    ended = tuple(
        Revision(other, replace(other.content, commitment=replace(theirs, until=now)))
        for other in view.superseded
        if (theirs := other.content.commitment) is not None and is_in_force(other, now)
    )
    if made is None or not told:
        return ended
    until, thing = told_until(told), thing_of(action.keys, told)
    after = replace(made, until=min(until, now + MOST_AHEAD) if until else made.until, thing=thing or made.thing)
    return ended if after == made else (*ended, Revision(action, replace(action.content, commitment=after), thing))


def hand_on(view: View) -> Change:
    """Hand the commitment of the action that was found to the other sessions of its instance. Pure."""
    made = view.found.content.commitment if view.found is not None else None
    if view.found is None or made is None or made.left:
        return Change()
    return Change(revisions=(Revision(view.found, replace(view.found.content, commitment=replace(made, left=True))),))


def _contradicted(classification: Classification, action: Action) -> int | None:
    number = _on(classification.keys, action, classification.content.stance)
    if number is not None or classification.content.stance[:1] == "-" or _same_thing(classification.keys, action):
        return number
    made = action.content.commitment
    if made is None or made.side[:1] == "-":
        return None
    for key_index, key in enumerate(classification.keys):
        if takes(key) and is_slot(key.name) and any(key.name == other.name and takes(other) for other in action.keys):
            return key_index
    return None


def _on(keys: tuple[Key, ...], action: Action, side: str) -> int | None:
    """Return the number of the key on which an action took the contrary of a side, None if there is none."""
    made = action.content.commitment
    if made is None or not contradicts(made.side, side):
        return None
    names = _names(action)
    return next((n for n, key in enumerate(keys) if key.mode is not Mode.READ and key.name in names), None)


def _same_thing(keys: tuple[Key, ...], action: Action) -> bool:
    """Return True if a call names the very thing that an action booked."""
    names = _names(action)
    return any(key.mode is Mode.WRITE and not is_slot(key.name) and key.name in names for key in keys)


def _names(action: Action) -> set[str]:
    return {key.name for key in lookup_keys(action) if key.mode is not Mode.READ}
