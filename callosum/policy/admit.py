"""Decide a call: one view in, one change out. The heart of the gate.

The timeline of a call that conflicts with another session::

    mira intercepts   evidence: doug wrote to the key 40 s ago, and mira was never notified
                      table: recent at tier 3 warns; mira's host pauses and doug's action is fresh: confirm
                      change: a journal entry; mira's mark on the key now covers doug's action
    mira repeats      (another call id, made after the answer) her mark covers the evidence, which is
                      no graver: allow; the action opens with a lease and a token
    mira completes    see ``lifecycle``

A mark, not a token, confirms the call: models reword their calls, so the repeat is recognised by session and key.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from callosum.model import (
    DAY,
    HOUR,
    NO_KEY,
    SECOND,
    Action,
    Change,
    Classification,
    Conflict,
    Entry,
    Event,
    Kind,
    Lease,
    Mode,
    Opening,
    Settle,
    State,
    Tier,
    Verdict,
    View,
)
from callosum.policy.answer import answer_before, body_of, conflicts_and_details, draft, entry_of
from callosum.policy.call_facts import Assessment, CallFacts, Decided, prints_of
from callosum.policy.commitments import ended_by_call, with_end_date
from callosum.policy.evidence import Evidence, gather_evidence, may_be_running
from callosum.policy.lifecycle import lapses
from callosum.policy.marks import (
    GRAVITY,
    MOST_CONFLICTS,
    REPLACING,
    add_pause_of_tree,
    confirms_rule,
    keeps_work,
    marks_after,
    replace_attempt,
    to_show,
    until_repeat,
)
from callosum.policy.sentence import name, no_key
from callosum.policy.summary import NOTHING_JOURNALLED, JournalledCall, journalled_call
from callosum.policy.table import cell, committed, observe
from callosum.policy.unread import Prepared, is_unread_change, open_over_changes, through_trees, unread_changes
from callosum.policy.waiting import left_behind, queue, waiter_of, waiter_print
from callosum.redact import quote
from callosum.rules.protected import GUARDS

APPROVAL_TTL: Final = HOUR
"""Microseconds for which a question waits for a person, and for which the person's answer holds."""
HOST_LIMIT: Final = HOUR
"""Microseconds for which a living host process keeps a lease, if the tool has no limit of its own."""
MAX_WORD: Final = 300
"""Maximum length of a person's note that is shown to the agent, in characters."""
HOST_SESSION: Final = re.compile(r"(?a)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:~[\da-f-]+)?(?::([\w-]{1,64}))?")
"""Matches a session's name without its instance: the host's own id, a second process, and the id of a sub-agent."""
_ALLOW: Final = Verdict.ALLOW  # an enum's attributes are slow
_OPENED, _DONE, _CANCELLED, _FAILED = State.OPEN, State.DONE, State.CANCELLED, State.FAILED
_INTERCEPT = Event.INTERCEPT
_CLEAR: Final = Assessment(_ALLOW)
_NEXT_RUNS: Final = "This was the third pause in ten minutes; the next attempt runs."
_TAKES_WORK: Final = "It ends once {} has committed, or name files of your own."


def admit(facts: CallFacts, view: View) -> Change:
    """Decide the call. The change's answer is a ``Decided``. Pure."""
    earlier = view.earlier
    if earlier is not None and view.now - earlier.started < DAY and earlier.state not in (_CANCELLED, _FAILED):
        change = _answer_before(facts, view, earlier)
        if change is not None:
            return change
    if facts.classification.verdict is None and not facts.waiter and not view.twins:
        for key_view in view.keys:
            if key_view.live or key_view.latest or key_view.stale or key_view.groups:
                break
        else:  # nothing can conflict with the call
            return _open(facts, view, _CLEAR)
    return _weigh(facts, view)


def _answer_before(facts: CallFacts, view: View, earlier: Action) -> Change | None:
    """Answer a call whose id was answered before; None if it is decided afresh.

    What is harmless to repeat is decided afresh, except for the dispatch that already has an answer. An id that the
    session has used for another call too identifies nothing, which the gate must look up before anything is refused.
    """
    classification = facts.classification
    decision, host = answer_before(earlier, facts.call.dispatch, view.now)
    if decision.proceed or (decision.state is _OPENED and not decision.retryable):
        return Change(answer=Decided(decision, undecided=decision.merged))
    if classification.tier < Tier.MEDIUM and not (classification.tier and classification.content.repeats):
        return None
    if not facts.distinct:
        return Change(answer=Decided(decision, undecided=True, recurring=True))
    if facts.observes or view.now < view.observe_until:
        return _open(facts, view, Assessment(_ALLOW), observed=Verdict.BLOCK)
    settles, entries = lapses(view)
    return Change(tuple(entries), settles=tuple(settles), answer=Decided(decision, host=host, until=earlier.expires))


def admit_or_doubt(facts: CallFacts, looked: AbstractSet[int], view: View) -> Change:
    """Decide the call as ``admit`` does, unless a person may have refused one of the conflicting actions.

    In that case nothing is written and the ``Decided`` names these actions, except those in ``looked``: the gate reads
    the host's transcript and decides again. Pure.
    """
    change = admit(facts, view)
    decided: Decided = change.answer
    decision = decided.decision
    is_quiet = decision.proceed if decision.repeated else not decision.conflicts
    if decided.undecided or (is_quiet and not decided.waiter_id):
        return change
    doubtful = _unreported(decided, view) - looked
    if not doubtful:
        return change
    newest = tuple(sorted(doubtful, reverse=True)[:MOST_CONFLICTS])
    return Change(answer=Decided(decided.decision, doubtful=newest, undecided=True))


def _unreported(decided: Decided, view: View) -> set[int]:
    """Return the ids of conflicting actions of host sessions that have no definite report."""
    shown = {conflict.id for conflict in decided.decision.conflicts}
    if decided.decision.repeated:
        shown.add(decided.decision.id)
    actions = [*view.twins, view.earlier]
    for key_view in view.keys:
        actions += (*key_view.live, *key_view.latest, *key_view.stale, key_view.own)
        for group in key_view.groups:
            met = shown.intersection(group.ids)
            actions += group.actions if decided.queued else [group.actions[bisect_left(group.ids, id)] for id in met]
    return {
        action.id
        for action in actions
        if action is not None
        and (action.id in shown or decided.queued)
        and (not action.ended or action.state is State.UNKNOWN)
        and action.state in (State.OPEN, State.DONE, State.UNKNOWN)
        and not action.lock
        and HOST_SESSION.fullmatch(action.session.rpartition("/")[2])
    }


def _weigh(facts: CallFacts, view: View) -> Change:
    """Decide a call that may have conflicts: gather evidence, then queue the call or assess it."""
    call, classification = facts.call, facts.classification
    if facts.call_print and not facts.distinct:
        for key_view in view.keys:
            if key_view.mark.notified_call == facts.call_print:
                return _undecided(facts, recurring=True)
    if facts.waiter and waiter_of(facts, view) is None:
        facts = replace(facts, waiter=0)  # its waiter was given up, so later waiters now come first
    left = None
    if facts.waits and not facts.waiter and (left := waiter_of(facts, view, waiter_print(facts))) is not None:
        facts = replace(facts, waiter=left.id)
    evidence = gather_evidence(facts, view)
    grouped = [item for item in evidence if item.group]
    evidence = [item for item in evidence if not item.group] if grouped else evidence
    prepared = None
    if facts.here and classification.tier < Tier.HIGH and (unread := unread_changes(facts, view, evidence)):
        prepared = facts.prepared
        if prepared is None or (prepared.changes != unread and not prepared.changing):
            own = {key_view.key.name: key_view.own.id for key_view in view.keys if key_view.own is not None}
            named = [(facts.keys[item.key_index].name, item) for item in evidence if item.kind is Kind.STALE]
            unseen = frozenset([name for name, item in named if item.unread])
            running = frozenset([name for name, item in named if may_be_running(item.action, view.now)])
            return _undecided(facts, unread=unread, own=own, unseen=unseen, running=running)
        harmless = [change for change in unread if prepared.passes or change[0] in prepared.absent]
        evidence = [item for item in evidence if not is_unread_change(facts, frozenset(harmless), item)]
    evidence, missing = through_trees(facts, evidence)
    if missing:
        return _undecided(facts, marks=missing)
    cells = [
        (
            item,
            committed(classification.tier, asks=call.pause, overlay=classification.cells)
            if item.committed
            else cell(classification.tier, item.kind, item.action.tier, classification.cells),
        )
        for item in (*evidence, *grouped)
    ]
    held = [item for item, verdict in cells if item.kind is Kind.HELD and verdict is not Verdict.ALLOW]
    note = ""
    if held and facts.waits:
        if not _deadlocks(held, view):
            return queue(facts, view, takes_up=left is not None)
        note = "Waiting was refused: the other session waits for something that this session holds. Finish that first."
    shown, more = to_show(facts, view, cells, prepared)
    return _assess(facts, view, shown, more, evidence, prepared, note)


def _undecided(facts: CallFacts, **reason: Any) -> Change:
    """Return the answer by which the gate finds something out before it asks again."""
    return Change(answer=Decided(draft(facts, Assessment(Verdict.BLOCK), 0), undecided=True, **reason))


def _assess(
    facts: CallFacts,
    view: View,
    shown: list[tuple[Evidence, Verdict]],
    more: int,
    evidence: list[Evidence],
    prepared: Prepared | None,
    note: str,
) -> Change:
    """Decide by the evidence that the session is notified of; ``more`` counts evidence beyond it."""
    classification = facts.classification
    verdict: Verdict = max(map(itemgetter(1), shown), key=GRAVITY, default=_ALLOW)
    floor = classification.verdict
    confirmed = floor is Verdict.CONFIRM and confirms_rule(facts, view)
    if floor is not None and floor.gravity > verdict.gravity and not confirmed:
        verdict = floor
        note = note or _required(classification, floor)
    items: tuple[Evidence, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    details = ""
    if shown:
        items = tuple(sorted([one for one, _ in shown], key=lambda e: (-e.kind.gravity, -e.action.id, e.key_index)))
        compared = prepared.shown if prepared is not None else ""  # the journal has fewer lines
        conflicts, details = conflicts_and_details(view, items[:MOST_CONFLICTS], facts, compared)
    passed = None
    if prepared is not None:
        note = " ".join(filter(None, (note, prepared.note)))
        if prepared.passes:
            passed = prepared
            verdict = Verdict.WARN if note and verdict is Verdict.ALLOW else verdict
    assessment = Assessment(verdict, items, conflicts, tuple(evidence), note, more, details=details, passed=passed)
    return (_needs_a_person if verdict.gravity >= Verdict.ASK.gravity else _conclude)(facts, view, assessment)


def _required(classification: Classification, verdict: Verdict) -> str:
    """Return the note about a verdict that a rule requires. The note of a guard's rule says what the guard protects."""
    why = classification.why[0] if classification.why else ""
    if why.startswith(GUARDS):
        why = why.removeprefix(GUARDS)
        return f"Rule {classification.rule!r} protects Callosum itself: {why}. Only a person may do this."
    instead = " Do something else, or ask a person." if verdict is Verdict.BLOCK else ""
    return f"Rule {classification.rule!r} requires this.{instead}"


# --- How a decision ends ----------------------------------------------------------------------


def _deadlocks(held: list[Evidence], view: View) -> bool:
    """Return True if a holder waits for something that this session holds."""
    return any(item.action.session in view.wanted for item in held)


def _needs_a_person(facts: CallFacts, view: View, assessment: Assessment) -> Change:
    """Decide a call with the verdict ``ask`` or ``block``: let it run if a person approved exactly this, or ask."""
    question = _answered_question(facts, view)
    if question is None:
        return _conclude(facts, view, assessment)
    graver = assessment.verdict is Verdict.BLOCK and _journalled(view, question.id).asks  # it overrode no block
    if question.approved > 0 and (graver or question.rule != facts.classification.rule):
        return _conclude(facts, view, assessment)  # it was given under other rules, so it is asked anew
    if question.approved > 0 and view.now - question.approved < APPROVAL_TTL:
        if not any(item.action.id > question.id for item in assessment.items):
            verdict = Verdict.WARN if assessment.items else Verdict.ALLOW
            agreed = replace(assessment, verdict=verdict, note=f"A person approved this call ({question.id}).")
            return _open(facts, view, agreed, used=question)
    elif question.approved < 0 and view.now + question.approved < APPROVAL_TTL:
        note = f"A person refused this call ({question.id}). Do not repeat it; do something else."
        moment = -question.approved  # the entry of the refusal holds what the person said
        said = _journalled(view, moment).note
        note += f" They say: {quote(said, MAX_WORD)}." if said else ""
        return _conclude(facts, view, replace(assessment, verdict=Verdict.BLOCK, note=note))
    elif assessment.verdict is Verdict.ASK and not question.approved:
        asked = replace(assessment, note=f"Nobody has answered the question yet ({question.id}).")
        decision = draft(facts, asked, question.id)
        settles, entries = left_behind(facts, view)
        entries.append(entry_of(facts, _INTERCEPT, Verdict.ASK, body_of(facts, decision, assessment.details)))
        return Change(tuple(entries), settles=tuple(settles), answer=Decided(decision))
    return _conclude(facts, view, assessment)


def _journalled(view: View, id: int) -> JournalledCall:
    body = view.bodies((id,)).get(id) if view.bodies is not None else None
    return journalled_call(body) if body is not None else NOTHING_JOURNALLED


def _answered_question(facts: CallFacts, view: View) -> Action | None:
    """Return the session's newest question about exactly this call, otherwise about one that this call rewords.

    Expired questions are ignored.
    """
    questions: dict[tuple[bool, int], Action] = {}
    for key_view in view.keys:
        for action in key_view.live:
            if action.state is not State.ASKED or action.session != facts.actor or view.now >= action.expires:
                continue
            same = action.content.digest == facts.classification.content.digest
            # It may run in place of the one that a person was asked about, with its params, if the host replaces those.
            reworded = facts.call.rewrite and action.tool == facts.call.tool and (action.approved <= 0 or action.answer)
            if same or (reworded and [key.name for key in action.keys] == [key.name for key in facts.keys]):
                questions[same, action.id] = action
    return questions[max(questions)] if questions else None


def _conclude(facts: CallFacts, view: View, assessment: Assessment) -> Change:
    """Apply the verdict: let the call run, or refuse it and open nothing."""
    verdict = assessment.verdict
    if verdict.proceed:
        change, passed = _open(facts, view, assessment), assessment.passed
        return change if passed is None else open_over_changes(change, passed, view, facts.classification.window)
    if facts.observes or view.now < view.observe_until:
        return _open(facts, view, replace(assessment, verdict=observe(verdict)), observed=verdict)
    settles, entries = left_behind(facts, view)
    moves = marks_after(facts, view, verdict, assessment.items)
    if verdict is Verdict.CONFIRM:
        number, note = add_pause_of_tree(facts, view, assessment.items, moves), assessment.note
        if number >= REPLACING and not note:
            note = _NEXT_RUNS if keeps_work(facts) else _TAKES_WORK.format(name(assessment.items[0].action.session))
        attempt = replace_attempt(facts, view, assessment.items, moves)
        assessment = replace(assessment, note=note, wait=until_repeat(facts, view, moves), attempt=attempt)
    decision = draft(facts, assessment, view.now + len(entries))  # its entry follows those of the lapsed actions
    content, opening = facts.classification.content, None
    if verdict is Verdict.ASK:
        opening = Opening(State.ASKED, view.now + APPROVAL_TTL, content=content, params=facts.params)
    entries.append(entry_of(facts, Event.INTERCEPT, verdict, body_of(facts, decision, assessment.details)))
    return Change(tuple(entries), opening, tuple(settles), moves, content=content, answer=Decided(decision))


def _open(
    facts: CallFacts, view: View, assessment: Assessment, *, used: Action | None = None, observed: Verdict | None = None
) -> Change:
    """Let the call run: open an action with a lease at tiers 3 and 4, and a done action below.

    ``used`` is the approval that lets the call run; ``observed`` is the verdict that observe mode overrides.
    """
    classification, call, now = facts.classification, facts.call, view.now
    settles: list[Settle] = []
    entries: list[Entry] = []
    id = now
    if assessment is not _CLEAR:
        settles, entries = left_behind(facts, view)
        id += len(entries)
    if used is not None:
        settles.append(Settle(used, State.CANCELLED, ended=now))
    # ``keys_of`` asks for the mark that says whether the session was notified that the tool's calls have no key.
    if classification.gap and any(
        one.key.mode is Mode.READ and one.key.name.startswith(NO_KEY) and not one.mark.read for one in view.keys[-1:]
    ):
        assessment = replace(assessment, note=f"{assessment.note} {no_key(classification.tier, call.tool)}".lstrip())
    leases = classification.tier >= 3
    expires, limit = now + facts.ttl, 0
    if call.host is not None:
        limit = now + (int(call.timeout * SECOND) if call.timeout else HOST_LIMIT)
    content, params = classification.content, None
    if used is not None and call.rewrite and used.answer and used.content.digest != content.digest:
        content, params = used.content, msgspec.json.decode(used.answer)  # others must see what runs
    supersedes: tuple[int, ...] = ()
    if assessment.evidence:  # the unknown actions that this call repeats are settled once it is done
        same = classification.content.digest
        lost = [(one.action, one.own) for one in assessment.evidence if one.kind is Kind.UNKNOWN]
        alike = [at for at, own in lost if at.content.digest == same or (own and at.tool == call.tool)]
        supersedes = tuple({action.id for action in alike})
    if content.commitment is not None:
        content = with_end_date(content, now)
        supersedes += ended_by_call(classification, view)
    state, host = (_OPENED, call.host) if leases else (_DONE, None)
    prints = prints_of(content) if classification.tier >= 2 or content.commitment is not None else ()
    opening = Opening(state, expires, limit, host, False, content, prints, supersedes)
    lease = Lease(id, max(expires, limit) / SECOND, (expires - id) / SECOND) if leases else None
    decision = draft(facts, assessment, id, observed, lease)
    if params is not None:
        decision = replace(decision, params=params)
    entry = entry_of(facts, _INTERCEPT, assessment.verdict, body_of(facts, decision, assessment.details))
    moves = marks_after(facts, view, _ALLOW if observed is not None else assessment.verdict, assessment.items)
    return Change((*entries, entry), opening, tuple(settles), moves, answer=Decided(decision))
