"""What must hold of every transition, each beside the sentence of the protocol that it tests.

The promises are computed from the answers that sessions got, not from what the policy concluded: a promise reads the
store only for the state of an action whose outcome it already knows. Each returns what is wrong, an empty text if
nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from callosum.model import HOUR, MINUTE, SECOND, Kind
from callosum.model import State as Stage
from model.world import TTL, WINDOW, Acted, Choice, State, Taken, Waiting, overlap

LOST: Final = 3 * SECOND
"""Microseconds without a poll after which a waiter has certainly lost its place."""
SAFE: Final = 3 * SECOND // 2
"""Microseconds since its last poll within which a waiter certainly keeps its place."""


# --- Conflicts, from the answers alone -----------------------------------------------------


def meet(one: Choice, other: Choice) -> bool:
    """Return True if two calls can conflict: they share a key, and do not both only append or read."""
    modes = {one.mode, other.mode}
    return "read" not in modes and modes != {"append"} and overlap(one.keys, other.keys)


def held(one: Acted, now: int) -> bool:
    """Return True while the action holds its lease."""
    return not one.outcome and now < one.until


def unknown(one: Acted, now: int) -> bool:
    """Return True if the action needed an outcome and none was reported in time."""
    return one.outcome == "unknown" or (not one.outcome and 0 < one.until <= now)


def recent(one: Acted, now: int) -> bool:
    """Return True if the action ended, or counts as ended, within the rules' window."""
    if one.outcome == "done":
        return now - one.ended < WINDOW
    return not one.outcome and not one.until and now - min(now, one.id + TTL) < WINDOW


def in_the_way(taken: Taken) -> Iterator[tuple[Acted, str]]:
    """Yield the actions that must conflict with a call of tier 3 or 4, each with its kind of conflict."""
    choice, who, now = taken.choice, taken.transition.who, taken.now
    if choice is None or choice.tier < 3 or choice.mode == "read":
        return
    floor = 1 if choice.tier == 4 else 2
    for one in taken.before.acted:
        if one.choice.tier < floor or not meet(choice, one.choice):
            continue
        if unknown(one, now):
            yield one, "unknown"
        elif one.session != who and held(one, now):
            yield one, "held"
        elif one.session != who and recent(one, now) and one is _newest(taken.before, one):
            yield one, "recent"


def _newest(state: State, one: Acted) -> Acted:
    """Return the newest action of the same session on the same keys, which represents the earlier ones."""
    return max((two for two in state.acted if _speaks(two, one)), key=lambda two: two.id)


def _speaks(two: Acted, one: Acted) -> bool:
    return (
        two.session == one.session and two.choice.mode != "read" and not {*two.choice.keys}.isdisjoint(one.choice.keys)
    )


def _let_through(taken: Taken) -> Acted | None:
    """Return the action that the transition opened, None if it opened none."""
    if taken.decision is None or not taken.decision.proceed:
        return None
    return next(one for one in taken.after.acted if one.id == taken.decision.id)


def _shown_before(taken: Taken, id: int, kind: str = "") -> bool:
    """Return True if the session was shown the action at least a second ago, in the answer to another call."""
    session = taken.before.sessions[taken.transition.who]
    return any(one.id == id and kind in ("", one.kind) and taken.now - one.at >= SECOND for one in session.shown)


def _shown_now(taken: Taken, id: int, kind: str = "") -> bool:
    """Return True if this answer shows the action."""
    return taken.decision is not None and any(
        one.id == id and kind in ("", one.kind) for one in taken.decision.conflicts
    )


def _shown_grave(taken: Taken, one: Acted) -> bool:
    """Return True if the session was shown any conflict as grave as `unknown` on the keys of an action."""
    session = taken.before.sessions[taken.transition.who]
    grave = {shown.id for shown in session.shown if Kind(shown.kind).gravity >= Kind.UNKNOWN.gravity}
    return any(two.id in grave and overlap(two.choice.keys, one.choice.keys) for two in taken.before.acted)


# --- The promises -------------------------------------------------------------------------------------


def leases_exclude(taken: Taken) -> str:
    """Check that two live tier 4 leases never overlap, unless a person let the later one in.

    PROTOCOL 6: "Leases exclude one another only at tier 4 and through `/lock`."
    """
    hard = [one for one in taken.after.acted if one.choice.tier == 4 and held(one, taken.now)]
    for number, one in enumerate(hard):
        for other in hard[number + 1 :]:
            if one.session != other.session and meet(one.choice, other.choice) and not other.question:
                return f"{one.session} and {other.session} both hold a tier 4 lease on {_shared(one, other)}"
    return ""


def _shared(one: Acted, other: Acted) -> str:
    return " and ".join(sorted({*one.choice.keys, *other.choice.keys}))


def tokens_grow(taken: Taken) -> str:
    """Check that a lease that is granted or revived has a greater token than all others had on its keys.

    PROTOCOL 2: "the lease's fencing token: greater for every later lease on the key". PROTOCOL 6: "A late renewal is
    accepted while nobody else has opened on the key." An action that opened and then failed or was cancelled does not
    count: PROTOCOL 4, "a failed or cancelled action is no evidence".
    """
    renewed = taken.transition.what == "renew" and taken.report is not None and taken.report.ok
    if renewed and taken.report is not None and taken.report.late:
        id = taken.transition.id
        one = next(one for one in taken.before.acted if one.id == id)
    else:
        opened = _let_through(taken)
        if opened is None or not opened.until:
            return ""
        one = opened
    for key, (token, who) in taken.before.tokens.items():
        act = taken.before.held.acts.get(token)
        void = act is not None and act.action.state in (Stage.FAILED, Stage.CANCELLED)
        if renewed and (void or who == one.session):
            continue
        if overlap((key,), one.choice.keys) and token >= one.id:
            return f"token {one.id} of {one.session} comes after token {token} of {who} on {key}"
    return ""


def unknown_stays(taken: Taken) -> str:
    """Check that an action without an outcome becomes `unknown`, stays so until resolved, and never just disappears.

    PROTOCOL 6: "`unknown` does not age out silently. It ends by a late report, by `resolve`, or by a confirmed repeat
    that is done. Below tier 4 it is raised to each session once. Who first sees the lease run out journals it, in the
    same transaction". PROTOCOL 5: "not raised again below tier 4, unless as a graver kind" than the gravest on the key.
    """
    for one in taken.after.acted:
        if not one.until or one.outcome not in ("", "unknown"):
            continue
        act = taken.after.held.acts.get(one.id)
        state = act.action.state if act is not None else None
        if state not in (Stage.OPEN, Stage.UNKNOWN):
            return f"{one.session}'s {one.choice} has no outcome, and is {state or 'gone'}"
    if taken.choice is None or taken.choice.tier < 2 or taken.decision is None or taken.choice.mode == "read":
        return ""
    for one in taken.before.acted:
        if unknown(one, taken.now) and overlap(one.choice.keys, taken.choice.keys):
            act = taken.after.held.acts.get(one.id)
            if act is not None and act.action.state is Stage.OPEN:
                return f"{one.session}'s {one.choice} has run out, and the call that met it did not say so"
    opened = _let_through(taken)
    for one, kind in in_the_way(taken) if opened is not None and not opened.question else ():
        seen = _shown_now(taken, one.id, kind) or (_shown_before(taken, one.id) and _shown_grave(taken, one))
        if kind == "unknown" and (taken.choice.tier == 4 or not seen):
            return f"nobody knows whether {one.session}'s {one.choice} happened, and the call passed as if it had not"
    return ""


def blocked_opens_nothing(taken: Taken) -> str:
    """Check that a call that was paused, asked or blocked opens no action and marks nothing as read.

    PROTOCOL 6: "A paused, asked or blocked call opens nothing."
    """
    if taken.decision is None or taken.decision.proceed:
        return ""
    acts = taken.before.held.acts
    for id, act in taken.after.held.acts.items():
        if id not in acts and act.opened and act.action.state is not Stage.ASKED:
            return f"the call was answered {taken.decision.verdict}, and opened an action that is {act.action.state}"
    who = taken.transition.who
    marks = taken.before.held.marks()
    for (session, key), after in taken.after.held.marks().items():
        before = marks.get((session, key))
        if session == who and after.mark.read > (before.mark.read if before is not None else 0):
            return f"the call was answered {taken.decision.verdict}, and counts as a look at {key}"
    return ""


def confirmed_what_was_shown(taken: Taken) -> str:
    """Check that every conflict of a call that runs was shown to its session, or that a person agreed after it.

    PROTOCOL 5: "its next attempt goes through as long as nothing newer has happened". "It must be another call id, made
    after the answer was given". "After two pauses for `recent` or `held` on one key within ten minutes a tier-3 call
    gets `warn`." "Tier 4 ignores `told`". "Approvals hold for the content shown, once, for an hour, while nothing newer
    is in the way".
    """
    opened = _let_through(taken)
    if opened is None or taken.choice is None:
        return ""
    if opened.question:
        return _not_agreed(taken, opened)
    if taken.choice.tool.startswith("ask"):
        return "the rule asks for a person, and nobody was asked"
    session = taken.before.sessions[taken.transition.who]
    pauses = [moment for moment in session.pauses if taken.now - moment < 10 * MINUTE]
    for one, kind in in_the_way(taken):
        what = f"{one.session}'s {one.choice} ({kind})"
        if taken.choice.tier == 4:
            return f"{what} is in the way, and the tier 4 call passed without a person"
        if _shown_before(taken, one.id):
            continue
        if not _shown_now(taken, one.id):
            return f"{what} is in the way and was never shown to {taken.transition.who}"
        mild = kind != "unknown" and len(pauses) >= 2
        if taken.choice.pause and not mild:
            return f"{what} is in the way, and the call passed before {taken.transition.who} could read of it"
    return ""


def _not_agreed(taken: Taken, opened: Acted) -> str:
    question = taken.before.sessions[taken.transition.who].question
    if question is None or question.id != opened.question or question.answered <= 0:
        return "the call ran on an approval that nobody gave, or that was used already"
    if question.choice.tool != opened.choice.tool or question.choice.keys != opened.choice.keys:
        return f"a person agreed to {question.choice}, and {opened.choice} ran"
    if taken.now - question.answered >= HOUR:
        return "the call ran on an approval of more than an hour ago"
    for one, kind in in_the_way(taken):
        if one.id > question.id:
            return f"{one.session}'s {one.choice} ({kind}) is newer than what the person was asked about"
    return ""


_CONTRARY: Final = {"accept": "decline", "decline": "accept"}


def opposed_are_seen(taken: Taken) -> str:
    """Check that of two sessions that take contrary sides, the later is shown the earlier as `opposed`.

    PROTOCOL 4: "another session committed to the contrary (accept / decline, create / delete, book / cancel)". PROTOCOL
    10.3: "It counts for `opposed` until the thing is over".
    """
    opened = _let_through(taken)
    if opened is None or opened.question or opened.choice.tier < 3:
        return ""
    side = opened.choice.tool[:-1]
    for one in taken.before.acted:
        if one.session == opened.session or one.choice.tool[:-1] != _CONTRARY.get(side):
            continue
        if one.outcome in ("failed", "cancelled") or any(_took_back(one, two) for two in taken.before.acted):
            continue
        counts = held(one, taken.now) or unknown(one, taken.now) or recent(one, taken.now)
        counts = counts or bool(one.choice.side and opened.choice.side)
        seen = _shown_now(taken, one.id, "opposed") or _shown_before(taken, one.id, "opposed")
        if counts and meet(one.choice, opened.choice) and not seen:
            return f"{one.session}'s {one.choice} took the contrary side, and {opened.session} was never shown it"
    return ""


def _took_back(one: Acted, two: Acted) -> bool:
    """Return True if a later action ended what the first committed to: "until a contrary action that went through"."""
    contrary = two.choice.tool[:-1] == _CONTRARY.get(one.choice.tool[:-1])
    return contrary and two.id > one.id and two.outcome == "done" and meet(one.choice, two.choice)


def _waiters(state: State) -> Iterator[tuple[str, Waiting]]:
    for name, session in state.sessions.items():
        if session.waiting is not None:
            yield name, session.waiting


def waiters_keep_order(taken: Taken) -> str:
    """Check that no call overtakes a live waiter, and that one that stopped polling rejoins at the end of the queue.

    PROTOCOL 6: "A waiter is an action in state `queued` on all its keys, kept alive by its polling; a dead one is
    passed over in seconds. It counts as `held` for others, so nobody overtakes a live waiter." "`wait` outlasts `held`
    only".
    """
    if taken.transition.what not in ("intercept", "poll") or taken.choice is None:
        return ""
    who, choice, now = taken.transition.who, taken.choice, taken.now
    before, after = taken.before.sessions[who].waiting, taken.after.sessions[who].waiting
    others = [(name, one) for name, one in _waiters(taken.before) if name != who and meet(one.choice, choice)]
    if after is not None:
        kept = before is not None and after.place == before.place
        if before is not None and kept and now - before.polled >= LOST:
            return f"{who} stopped polling for {(now - before.polled) / SECOND:.1f} s, and kept its place"
        if before is not None and not kept and now - before.polled < SAFE:
            return f"{who} polled {(now - before.polled) / SECOND:.1f} s ago, and lost its place"
        ahead = [name for name, one in others if not kept and one.place > after.place]
        if ahead:
            return f"{who} joined the queue before {ahead[0]}"
        return "" if _must_wait(taken, after) else f"{who} waits, and nothing is in the way but the past"
    opened = _let_through(taken)
    if opened is None or opened.question:
        return ""
    waits = before is not None and now < before.ends and now - before.polled < SAFE
    for name, one in others:
        earlier = before is None or now - before.polled >= LOST or one.place < before.place
        held_off = choice.tier == 4 or (one.choice.tier == 4 and choice.tier >= 2) or (waits and choice.tier == 3)
        if earlier and held_off and now - one.polled < SAFE:
            return f"{who} overtook {name}, who waits in the queue and polled {(now - one.polled) / SECOND:.1f} s ago"
    return ""


def _must_wait(taken: Taken, waiting: Waiting) -> bool:
    """Return True if a lease or an earlier waiter is ahead of a queued call."""
    who, now = taken.transition.who, taken.now
    if any(one.session != who and held(one, now) and meet(one.choice, waiting.choice) for one in taken.before.acted):
        return True
    return any(
        act.action.state is Stage.QUEUED
        and act.action.session != who
        and id < waiting.place
        and now < act.action.expires
        and overlap(tuple(key.name for key in act.action.keys), waiting.choice.keys)
        for id, act in taken.before.held.acts.items()
    )


def no_deadlock(taken: Taken) -> str:
    """Check that no waiters wait for each other.

    PROTOCOL 6: "Who holds a lease that the holder or an earlier waiter wants is refused at once instead of
    deadlocking."
    """
    if taken.after.sessions == taken.before.sessions:
        return ""
    waiting = dict(_waiters(taken.after))
    waits_for: dict[str, set[str]] = {}
    for name, one in waiting.items():
        behind = {other for other, two in waiting.items() if two.place < one.place and meet(one.choice, two.choice)}
        blocked = {
            acted.session
            for acted in taken.after.acted
            if acted.alive and held(acted, taken.now) and meet(acted.choice, one.choice)
        }
        waits_for[name] = (behind | blocked) & waiting.keys() - {name}
    for name in waits_for:
        if name in _reached(waits_for, name):
            return f"{', '.join(sorted(_reached(waits_for, name)))} wait for each other"
    return ""


def _reached(edges: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = list(edges[start])
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += edges[name]
    return found


PROMISES: Final = (
    leases_exclude,
    tokens_grow,
    unknown_stays,
    blocked_opens_nothing,
    confirmed_what_was_shown,
    opposed_are_seen,
    waiters_keep_order,
    no_deadlock,
)
