"""End, renew and resolve actions. Every function is a pure step: a view in, a change out.

The life of a lease::

    intercept (tier 3, 4) or lock     open, expires = now + ttl
    renew                             expires moves on; also late, if no other session has opened since
    complete / release                the outcome is stored, the lease is free
    nothing by then                   the first step that sees it turns it to unknown and journals that
    a late report, resolve, or        the unknown ends; the journal says how
    a repeat that is done

A lease belongs to one action: the report of another action does not free it, and ending an older action of a session
does not free a newer one.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from msgspec import Struct

from callosum.model import (
    LAPSED,
    SECOND,
    Action,
    Change,
    Conflict,
    Entry,
    Event,
    Host,
    Key,
    Kind,
    Lease,
    LockResult,
    Mark,
    Mode,
    Opening,
    Outcome,
    Report,
    Settle,
    State,
    Tier,
    Verdict,
    View,
)
from callosum.policy.commitments import revisions_of
from callosum.policy.evidence import has_lapsed, has_unknown_outcome, holds_lease, modes_conflict
from callosum.policy.sentence import ask_to_resolve

_DONE, _OPEN, _UNKNOWN, _FAILED = State.DONE, State.OPEN, State.UNKNOWN, State.FAILED  # an enum's attributes are slow
_QUEUED, _ASKED, _CANCELLED = State.QUEUED, State.ASKED, State.CANCELLED
_COMPLETE: Final = Event.COMPLETE
_STATE_OF: Final = {outcome: State(outcome.value) for outcome in Outcome}

HOST: Final = "host"
"""Channel of an answer that came through a framework's own dialog: the host gives it, not a person."""


class Requester(Struct, frozen=True, gc=False):
    """The session or person that makes a request.

    ``session`` is the actor. ``by`` names a person, and ``force`` lets that person act for others. ``channel`` is the
    channel of the person's answer, and ``ancestry`` lists the parent processes of the person's program. ``instance`` is
    the only instance whose questions may be answered, "" for any. If the request names an action's id and no session,
    ``session`` is an instance that speaks for its sessions, and ``prefix`` is the length of its name and a slash.
    """

    session: str
    namespace: str
    by: str = ""
    force: bool = False
    channel: str = ""
    ancestry: tuple[str, ...] = ()
    instance: str = ""
    prefix: int = 0


def lapses(view: View) -> tuple[list[Settle], list[Entry]]:
    """Return what ends live actions whose time has run out: the settles, and a journal entry for each.

    The first step that sees such an action does this in its own transaction, so that a crashed session leaves no pile
    of open actions behind. A lease becomes ``unknown``; a waiter or a question becomes ``cancelled``. On one key only
    the newest ``LAPSED`` are settled at a time, so that no single call pays for a long backlog; the others already
    count as ended.
    """
    settles: list[Settle] = []
    entries: list[Entry] = []
    seen: set[int] = set()
    for key_view in view.keys:
        late = [a for a in key_view.live if a.state is not _UNKNOWN and has_lapsed(a, view.now)]
        for action in late[-LAPSED:]:
            if action.id in seen:
                continue
            seen.add(action.id)
            if action.state is _OPEN:
                note = "the host process ended" if action.alive is False else "the lease ran out"
                settles.append(Settle(action, State.UNKNOWN, expires=min(action.expires, view.now)))
            else:
                note = "nobody answered" if action.state is _ASKED else "the waiter is gone"
                settles.append(Settle(action, _CANCELLED, ended=view.now))
            entries.append(_entry(action, Event.LAPSE, Outcome(settles[-1].state.value), note))
    return settles, entries


def _entry(
    action: Action,
    event: Event,
    outcome: Outcome | None = None,
    note: str = "",
    who: Requester | None = None,
    result: Any = None,
) -> Entry:
    body: dict[str, Any] = {"note": note} if note else {}
    if who is not None and (who.by or who.channel or who.ancestry):
        said = {"by": who.by, "channel": who.channel, "ancestry": list(who.ancestry)}
        body |= {name: value for name, value in said.items() if value}
    if action.lock:
        body["lock"] = True
    if result is not None:
        body["result"] = result
    session = (who and who.session) or action.session
    space, id, tool, tier, run = action.namespace, action.id, action.tool, action.tier, action.run
    return Entry(event, session, space, 0, id, tool, tier, None, "", run, action.keys, outcome, body)


def _refused(note: str, id: int | None = None, state: State | None = None, *, ok: bool = False) -> Change:
    """Return the answer to a request that changes nothing."""
    return Change(answer=Report(ok=ok, id=id, state=state, note=note))


# --- Complete ------------------------------------------------------------------------------------

NOTHING_OPEN: Final = "nothing of this session is open there"


def finish(
    who: Requester, outcome: Outcome, result: Any, view: View, *, ended: int = 0, note: str = "", told: Any = None
) -> Change:
    """Record how an action ended and free its lease. The change's answer is a ``Report``.

    The first report counts; a second one gets a note that says so. A report by another session is refused. A late
    report counts and is noted as late. Any later definite report ends an ``unknown``, also one that was itself
    reported.

    ``ended`` is the moment at which the tool ended according to a spooled report (0: now), and ``note`` says in the
    journal why the report is late. ``told`` is the result exactly as the tool returned it: what it says about a
    commitment is stored.
    """
    action = view.found
    if action is None:
        return _refused(NOTHING_OPEN)
    if action.session != who.session and not who.force:
        if action.session[: who.prefix] != f"{who.session}/":
            return _refused("this action belongs to another session", action.id)
        who = Requester(action.session, who.namespace)
    was = action.state
    if action.lock:
        return _refused("a lock is released, not completed", action.id)
    if was is _QUEUED or was is _ASKED:
        return _refused("this call was not let through", action.id, was)
    if action.ended and (was is not _UNKNOWN or outcome is Outcome.UNKNOWN):
        same = was.value == outcome.value
        return _refused(f"already reported as {was}; the first report stands", action.id, was, ok=same)
    if was is _FAILED or was is _CANCELLED:
        return _refused(f"already settled as {was}", action.id, was)
    late = has_lapsed(action, view.now) if was is _OPEN else was is _UNKNOWN
    state = _STATE_OF[outcome]
    fails_in_tree = (
        state is _FAILED
        and action.tier < Tier.HIGH
        and any(key.name[:5] == "file:" and key.name[-1] == "/" and key.mode is not Mode.READ for key in action.keys)
    )
    over = action.content.over
    # What a failed action did before stands. Its report counts as late: the session has not seen the current content.
    expires = min(action.expires, action.started) if over or fails_in_tree else None
    settle = Settle(action, _DONE if fails_in_tree else state, ended if 0 < ended < view.now else view.now, expires)
    if late:
        why = "it was reported as unknown" if action.ended else "the lease had run out"
        note = f"late: {why}; {note}" if note else f"late: {why}"
    settles, entries = [settle], [_entry(action, _COMPLETE, outcome, note, who, result)]
    for other in view.superseded if state is _DONE else ():
        own = action.session == other.session and action.tool == other.tool  # a contrary action does not repeat it
        if has_unknown_outcome(other, view.now) and (own or action.content.digest == other.content.digest):
            settles.append(Settle(other, _CANCELLED, ended=view.now))
            entries.append(_entry(other, Event.RESOLVE, Outcome.CANCELLED, f"repeated by {action.id}", who))
    answer = Report(ok=True, id=action.id, state=state, late=late, note=note or None)
    commits = state is _DONE and action.content.commitment is not None
    revisions = revisions_of(action, told, view) if commits else ()
    merged = over and was is not _DONE
    return Change(tuple(entries), None, tuple(settles), answer=answer, revisions=revisions, merged=merged)


REFUSED_IN_DIALOG: Final = "refused in the host's permission dialog, says its transcript"


def refuse(view: View) -> Change:
    """End an action as ``cancelled`` because its call was refused before it ran. A definite report stays."""
    action = view.found
    if action is None or action.state not in (_OPEN, _DONE, _UNKNOWN) or (action.ended and action.state is _DONE):
        return Change(answer=Report(ok=False))
    entry = _entry(action, _COMPLETE, Outcome.CANCELLED, REFUSED_IN_DIALOG)
    report = Report(ok=True, id=action.id, state=_CANCELLED, note=REFUSED_IN_DIALOG)
    return Change((entry,), settles=(Settle(action, _CANCELLED, view.now),), answer=report)


# --- Requests without an answer ---------------------------------------------------------------

EXPIRED: Final = "expired"
"""``reason`` in the journal's entry for a request that no client waited for any more."""


def expire_lock(who: Requester, key: Key, tier: int, _view: View) -> Change:
    """Journal a request for a lock that no client waits for any more. It opens nothing; the change's answer is None."""
    body = {"reason": EXPIRED, "lock": True}
    entry = Entry(Event.REFUSE, who.session, who.namespace, tool="lock", tier=tier, keys=(key,), body=body)
    return Change((entry,))


def undo_decision(opened: bool, moment: int, note: str, view: View) -> Change:
    """Undo the decision made at ``moment``, because its session never received it.

    The step ends the action or question that the decision ``opened``, and withdraws the session's notifications, so
    that its next attempt is notified of the same again. The change's answer is None.
    """
    moves: dict[str, Mark] = {}
    for name, mark in [(key_view.key.name, key_view.mark) for key_view in view.keys]:
        if mark.notified_at == moment:  # as if the session had not been notified
            pauses = tuple([pause for pause in mark.pauses if abs(pause) != moment])
            newest, gravest, covers = mark.notified_before, mark.notified_before_kind, mark.covers_before
            moves[name] = Mark(mark.read, newest, gravest, 0, b"", "", newest, gravest, pauses, covers, covers)
    action = view.found
    if action is None:
        return Change(moves=moves)
    if not opened or action.ended or action.state in (_FAILED, _CANCELLED):
        return Change((_entry(action, Event.REFUSE, None, note),), moves=moves)
    waited = action.state is _ASKED or action.state is _QUEUED
    event = Event.RELEASE if action.lock else Event.LAPSE if waited else _COMPLETE
    entry = _entry(action, event, Outcome.CANCELLED, note)
    return Change((entry,), settles=(Settle(action, _CANCELLED, ended=view.now),), moves=moves)


# --- Lock, release, renew ------------------------------------------------------------------------


def lock(who: Requester, key: Key, tier: int, ttl: int, host: Host | None, view: View) -> Change:
    """Open a lease on a key without a tool call. The change's answer is a ``LockResult``.

    A lock is refused while another session holds or waits for the key, or for anything the key covers. If the session
    has already locked the key, the same lease is prolonged; at a higher tier a new lease replaces it. The view's other
    keys are alternative spellings of ``key`` and are locked with it.
    """
    tier = max(tier, Tier.HIGH)
    settles, entries = lapses(view)
    mine = holder = None
    for key_view in view.keys:
        for action in sorted((*key_view.live, *[group.actions[0] for group in key_view.groups]), key=attrgetter("id")):
            if not holds_lease(action, view.now) or not modes_conflict(key.mode, action.mode):
                continue
            if action.session == who.session:
                mine = action if action.lock and action.key == key.name else mine
            elif action.session not in view.ancestors and (holder is None or action.tier > holder.tier):
                holder = action
    opening, token = None, mine.id if mine is not None and mine.tier >= tier else 0
    answer = LockResult(True, None, Lease(token, (view.now + ttl) / SECOND, ttl / SECOND), token or None)
    if holder is not None:
        tool, state, running = holder.tool, holder.state, holder.state is _OPEN
        age = round((view.now - holder.started) / SECOND, 3)
        left = round((max(holder.expires, holder.limit) - view.now) / SECOND, 3)
        held = Conflict(
            Kind.HELD, holder.session, tool, holder.tier, holder.key, holder.id, state, age, left, running=running
        )
        answer = LockResult(acquired=False, conflict=held)
    elif mine is not None and token:
        settles.append(Settle(mine, _OPEN, expires=view.now + ttl))
        entries.append(_entry(mine, Event.RENEW))
    else:
        if mine is not None:
            settles.append(Settle(mine, _CANCELLED, ended=view.now))
            entries.append(_entry(mine, Event.RELEASE, Outcome.CANCELLED, f"raised to tier {tier}"))
        keys = (key, *[key_view.key for key_view in view.keys if key_view.key.name != key.name])
        space, allow = who.namespace, Verdict.ALLOW
        entries.append(Entry(Event.LOCK, who.session, space, tool="lock", tier=tier, verdict=allow, keys=keys))
        opening = Opening(_OPEN, view.now + ttl, host=host, lock=True)
    return Change(tuple(entries), opening, tuple(settles), answer=answer)


def release(who: Requester, key: str, id: int | None, view: View) -> Change:
    """Free this session's leases on exactly this key, or only the lease with this id. Answer with a ``Report``.

    Leases that ``lock`` opened end. An intercepted call loses its lease and counts as done, because evidence is never
    erased. With ``who.force`` (a person), the leases of all sessions are freed.
    """
    settles, entries = lapses(view)
    mine = [
        action
        for key_view in view.keys
        for action in key_view.live
        if action.state is _OPEN
        and not has_lapsed(action, view.now)
        and action.key == key
        and id in (None, action.id)
        and (who.force or action.session == who.session)
    ]
    chosen = mine if who.force else [action for action in mine if action.lock] or mine
    held = not chosen and any(a.key == key and holds_lease(a, view.now) for one in view.keys for a in one.live)
    answer = Report(ok=False, note="the key is held by another session" if held else "nothing is held there")
    for action in chosen:
        settles.append(Settle(action, _CANCELLED if action.lock else _DONE, ended=view.now))
        entries.append(_entry(action, Event.RELEASE, Outcome(settles[-1].state.value), who=who))
        answer = Report(ok=True, id=action.id, state=settles[-1].state)
    return Change(tuple(entries), settles=tuple(settles), answer=answer)


def renew(who: Requester, ttl: int, view: View) -> Change:
    """Move the end of a lease to now + ``ttl``. The change's answer is a ``Report`` with the lease.

    A late renewal is accepted if no other session has opened an action on any of its keys since; the action is then
    open again.
    """
    action = view.found
    if action is None or action.session != who.session:
        return _refused("no such lease of this session")
    late = action.state is _UNKNOWN or has_lapsed(action, view.now)
    merged = action.state is _OPEN and not late
    if (action.tier < Tier.HIGH and not merged) or action.state not in (_OPEN, _UNKNOWN) or action.ended:
        return _refused("this action holds no lease", action.id, action.state)
    if late and any(
        other.id > action.id and other.session != who.session and other.tier >= Tier.MEDIUM
        for key_view in view.keys
        for other in (*key_view.live, *key_view.latest, *[group.actions[-1] for group in key_view.groups])
        if other.state not in (_ASKED, _CANCELLED)
    ):
        note = "too late: another session has opened on the key since"
        return Change(answer=Report(ok=False, id=action.id, state=action.state, late=True, note=note))
    until = view.now + ttl
    entry = _entry(action, Event.RENEW, note="late" if late else "")
    answer = Report(ok=True, id=action.id, state=_OPEN, late=late, lease=Lease(action.id, until / SECOND, ttl / SECOND))
    return Change((entry,), settles=(Settle(action, _OPEN, expires=until),), answer=answer)


# --- Resolve and answer ---------------------------------------------------------------------------


def resolve(who: Requester, happened: bool, note: str, view: View) -> Change:
    """End an ``unknown``: it happened (``done``) or it did not (``failed``). The change's answer is a ``Report``.

    A person (``who.force``) may end any. A session (``who.session``) that has checked may end one of its own instance,
    below tier 4.
    """
    action = view.found
    if action is None:
        return _refused("no such action")
    own = action.session.partition("/")[0] == who.session.partition("/")[0]
    if not who.force and (not own or action.tier >= Tier.CRITICAL):
        reason = "is of tier 4" if own else "belongs to another instance"
        return _refused(f"this action {reason}: {ask_to_resolve(action.id)}", action.id, action.state)
    if not has_unknown_outcome(action, view.now):
        return _refused(f"it is not unknown but {action.state}", action.id, action.state)
    outcome = Outcome.DONE if happened else Outcome.FAILED
    entry = _entry(action, Event.RESOLVE, outcome, note, who)
    settle = Settle(action, State(outcome.value), ended=action.ended or view.now)
    return Change((entry,), settles=(settle,), answer=Report(ok=True, id=action.id, state=settle.state))


def answer(who: Requester, agrees: bool, ttl: int, note: str, view: View) -> Change:
    """Record a person's yes or no to a question, or to overriding a block. The change's answer is a ``Report``.

    A yes holds once, for ``ttl`` microseconds, for the content that was shown. ``note`` is journalled, and the agent
    reads it with a no.
    """
    action = view.found
    if action is None or action.verdict.proceed:
        return _refused("no call waits for an answer under this id")
    if who.instance and not f"{action.session}/".startswith(f"{who.instance}/"):
        return _refused("another instance's question", action.id)
    if who.channel == HOST and action.verdict is not Verdict.ASK:
        return _refused("the host's word answers a question; it lifts no block", action.id)
    if action.state is not _ASKED:
        return _refused("this was answered or given up already", action.id, action.state)
    if action.approved:
        return _refused(f"a person has {'approved' if action.approved > 0 else 'refused'} this already", action.id)
    if action.expires and view.now >= action.expires:
        return _refused("nobody answered in time; the call must be made again", action.id)
    entry = _entry(action, Event.APPROVE if agrees else Event.DENY, note=note, who=who)
    moment = view.now if agrees else -view.now
    settle = Settle(action, _ASKED, expires=view.now + ttl, approved=moment)
    return Change((entry,), settles=(settle,), answer=Report(ok=True, id=action.id, state=_ASKED))
