"""The decision as the caller gets it, and the entry that the journal keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter, itemgetter
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.characters import measure
from callosum.model import (
    MINUTE,
    NO_KEY,
    SECOND,
    Action,
    Call,
    Conflict,
    Decision,
    Entry,
    Event,
    Host,
    Key,
    Kind,
    Lease,
    Mode,
    State,
    Tier,
    Verdict,
    View,
    Worktree,
    overlap,
)
from callosum.policy.call_facts import Assessment, CallFacts
from callosum.policy.evidence import Evidence, change_moment, has_unknown_outcome, may_be_running
from callosum.policy.sentence import RELATED, Beside, decided_by, decides_by, details_of, sentence
from callosum.policy.summary import hunk_of, journalled_call, summary_and_purpose
from callosum.redact import summarise

_ALLOW: Final = Verdict.ALLOW
_NAME: Final[Callable[[Key], str]] = attrgetter("name")
_HAPPENED: Final = (State.OPEN, State.DONE, State.UNKNOWN)
_KNOWN: Final = ("description", "schema", "annotations")
NEAR_IN_TIME: Final = 10 * MINUTE
"""Microseconds between two actions of one session that are still shown together."""
MAX_CWD: Final = 1024
"""Maximum length of a working directory that is journalled, in characters."""
MAX_RETRY_AFTER: Final = 10.0
"""Longest time in seconds after which a caller is told to ask again: what it waits for may end at any moment."""


def answer_before(earlier: Action, dispatch: str | None, now: int) -> tuple[Decision, Host | None]:
    """Return the answer to a call whose id was answered before, and the process that says whether its action runs.

    While the action is open, its own ``dispatch`` gets the same decision again, and any other is told to ask later. An
    action that is done or unknown is over, and its call does not run again. An action of tier 0 to 2 holds no lease: it
    is open while the returned process lives, or until it ``expires`` if there is none.
    """
    kept = msgspec.json.decode(earlier.answer, type=_StoredDecision) if earlier.answer else _StoredDecision()
    state = earlier.state
    if state is State.DONE and not earlier.ended:
        state = State.OPEN if kept.host is not None or now < earlier.expires else State.UNKNOWN
    elif has_unknown_outcome(earlier, now):
        state = State.UNKNOWN
    host = kept.host if state is State.OPEN and earlier.state is State.DONE else None
    if state is State.OPEN and dispatch and dispatch in (kept.dispatch, (kept.dispatch or "").partition("@")[0]):
        if not kept.reworded:
            return _from(earlier, earlier.verdict, kept), host
        # Those params are no longer kept, and the call's own, which nobody approved, must not run in their place.
        note = f"A person approved other params for this call ({earlier.id}), and they are no longer known. "
        note += "Make the call again under a new call id."
        warning = sentence(Verdict.BLOCK, earlier.tier, (), 0, note)
        return _from(earlier, Verdict.BLOCK, _StoredDecision(warning=warning)), host
    return over(_from(earlier, Verdict.BLOCK, kept), state, (max(earlier.expires, now) - now) / SECOND), host


def over(decision: Decision, state: State, left: float = 0) -> Decision:
    """Refuse a call whose id was answered before; no approval lifts that. It may still run for ``left`` seconds."""
    seconds = decision.id // SECOND % 86_400
    when = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC ({decision.id})"
    retry_after = round(min(max(left, 1), MAX_RETRY_AFTER), 3) if state is State.OPEN else None
    said = f"was already done at {when}. It does not run again; make a new call if it must happen once more."
    if state is State.OPEN:
        said = f"has been running since {when}, and it does not start twice. Ask again in {retry_after:.0f} s."
    elif state is State.UNKNOWN:
        said = f"began at {when}, and nobody knows how it ended. It does not run again: find out whether it happened, "
        said += "and make a new call if it did not."
    changed = _REFUSED | {"state": state, "warning": f"[Callosum] This very call {said}"}
    return replace(decision, **changed, retryable=retry_after is not None, retry_after=retry_after)


_REFUSED: Final = {"proceed": False, "verdict": Verdict.BLOCK, "conflicts": (), "conflict_count": 0, "lease": None}


class _StoredDecision(Struct):
    conflicts: tuple[Conflict, ...] = ()
    count: int = 0
    warning: str | None = None
    details: str = ""
    observed: Verdict | None = None
    reworded: bool = False
    merged: bool = False
    dispatch: str | None = None
    host: Host | None = None


def _from(earlier: Action, verdict: Verdict, kept: _StoredDecision) -> Decision:
    names = tuple(key.name for key in earlier.keys if not key.name.startswith(NO_KEY))
    id, tier, proceed, first, rule = (
        earlier.id,
        earlier.tier,
        verdict.proceed,
        names[0] if names else None,
        earlier.rule,
    )
    lease, warning, count = None, kept.warning and kept.warning + kept.details, kept.count
    if proceed and earlier.state is State.OPEN:
        last, ttl = max(earlier.expires, earlier.limit) / SECOND, (earlier.expires - earlier.started) / SECOND
        lease = Lease(id, last, ttl)
    met, observed = kept.conflicts, kept.observed
    decision = Decision(proceed, tier, first, id, verdict, names, rule, met, count, warning, lease, observed)
    return replace(decision, repeated=True, state=State.OPEN, merged=kept.merged)


def draft(
    facts: CallFacts, assessment: Assessment, id: int, observed: Verdict | None = None, lease: Lease | None = None
) -> Decision:
    """Return the decision. ``id`` is the position of its journal entry."""
    verdict, conflicts, count = assessment.verdict, assessment.conflicts, assessment.more
    found, note, warning = facts.classification, assessment.note, None
    if assessment.items:
        count += len(assessment.items)
    if observed is None and (verdict is not _ALLOW or note):
        gone = facts.prepared is not None and bool(facts.prepared.gone)
        wait, attempt = assessment.wait / SECOND, assessment.attempt
        told = sentence(verdict, found.tier, conflicts, count, note, wait, attempt, facts.actor, gone=gone)
        warning = told and told + assessment.details
    names: tuple[str, ...] = tuple(map(_NAME, found.keys))
    proceed, tier, first, rule = verdict.proceed, found.tier, names[0] if names else None, found.rule
    decision = Decision(proceed, tier, first, id, verdict, names, rule, conflicts, count, warning, lease, observed)
    if decision.proceed or not count or any(one.kind is not Kind.HELD for one in assessment.conflicts):
        return decision
    left = min([one.expires_in or 0 for one in assessment.conflicts])
    return replace(decision, retryable=True, retry_after=round(min(max(left, 1), MAX_RETRY_AFTER), 3))


def conflicts_and_details(
    view: View, items: tuple[Evidence, ...], facts: CallFacts, compared: str = ""
) -> tuple[tuple[Conflict, ...], str]:
    """Return the conflicts that the evidence shows, in the same order, and the text that follows the sentence.

    ``compared`` holds lines of a change that are shown last; if it is empty, the lines that the journal keeps are
    shown.
    """
    if not items:
        return (), ""
    ids = {item.action.id for item in items if not item.action.lock}
    bodies = view.bodies(sorted(ids)) if ids and view.bodies is not None else {}
    conflicts = tuple([_conflict(item, view.now, facts, bodies.get(item.action.id, b"")) for item in items])
    purpose = journalled_call(bodies.get(items[0].action.id, b"{}")).purpose
    beside = _beside(view, items, facts, purpose)
    changed = [item.action for item in items if not compared and item.kind is Kind.STALE and item.action.id in bodies]
    hunks = ((action.session, hunk_of(journalled_call(bodies[action.id]))) for action in changed)
    return conflicts, details_of(conflicts, next((hunk for hunk in hunks if hunk[1]), None), beside, measure(compared))


def _beside(view: View, items: tuple[Evidence, ...], facts: CallFacts, purpose: str) -> list[Beside]:
    """Return what else the session of the gravest conflict did, where that helps to judge the call.

    An action helps if it happened within ``NEAR_IN_TIME`` of the conflicting one and is about the same thing. Actions
    on one of the call's keys come first, then those next to one (a file of the same folder), then those with the same
    ``purpose``. At most ``RELATED`` are returned.
    """
    gravest, now = items[0].action, view.now
    if view.lately is None or view.bodies is None or items[0].own or now - change_moment(gravest, now) > NEAR_IN_TIME:
        return []
    shown_ids = {item.action.id for item in items}
    call_keys = _changed_by(facts)
    containers = {container for key in call_keys if (container := _container(key))}
    ranked = [
        (rank, -action.id, action, keys)
        for action in view.lately(gravest.session)
        if action.id not in shown_ids
        and action.state in _HAPPENED
        and not action.lock
        and abs(action.started - gravest.started) <= NEAR_IN_TIME
        and (keys := _changed_by(action))
        and ((rank := _nearness(call_keys, containers, keys)) < _ELSEWHERE or purpose)
    ]
    if not ranked:
        return []
    bodies = view.bodies(sorted(action.id for _, _, action, _ in ranked))
    related: list[Beside] = []
    for rank, _, action, (key, *_) in sorted(ranked, key=itemgetter(0, 1)):
        summary, asked = summary_and_purpose(bodies.get(action.id, b""), key)
        if summary and (rank < _ELSEWHERE or asked == purpose):
            age = (now - action.started) / SECOND
            related.append(Beside(action.tool, "" if key in call_keys else key, age, summary))
            if len(related) == RELATED:
                break
    return related


_ELSEWHERE: Final = 2


def _nearness(keys: Sequence[str], containers: AbstractSet[str], others: Sequence[str]) -> int:
    """Return 0 if any keys overlap, 1 if any are in the ``containers`` of ``keys``, otherwise ``_ELSEWHERE``."""
    if any(overlap(one, other) for one in keys for other in others):
        return 0
    return 1 if any(_container(other) in containers for other in others) else _ELSEWHERE


def _changed_by(of: CallFacts | Action) -> list[str]:
    return [key.name for key in of.keys if key.mode is not Mode.READ and not key.name.startswith(NO_KEY)]


def _container(key: str) -> str:
    """Return what contains a key: the folder of a file, the chat of a thread; ``""`` if its name does not say."""
    name = key.partition("|")[0]
    if name.startswith("file:"):
        folder = name.rstrip("/").rpartition("/")[0]
        return folder if folder != "file:" else ""
    return name.rpartition(":")[0] if name.count(":") > 1 else ""


def _conflict(item: Evidence, now: int, facts: CallFacts, body: bytes) -> Conflict:
    """Return evidence as a conflict, with ages and remaining times in seconds."""
    action, kind, own = item.action, item.kind, item.own
    held, running, key = kind is Kind.HELD, may_be_running(action, now), action.key
    decided = decides = what = ""
    until = None
    if kind is Kind.OPPOSED:
        theirs = action.content.commitment
        key = facts.keys[item.key_index].name
        side = action.content.stance or (theirs.side if theirs is not None else "")
        decided = (decides_by if running else decided_by)(action.tool, side, key)
        decides = decides_by(facts.call.tool, facts.classification.content.stance or "+book", key)
        if theirs is not None:
            what, until = theirs.what, theirs.until / SECOND
    summary, purpose = summary_and_purpose(body, key) if body else ("", "")
    if purpose and not facts.shares and action.session.partition("/")[0] != facts.actor.partition("/")[0]:
        purpose = ""
    state = State.UNKNOWN if not running and has_unknown_outcome(action, now) else action.state
    age = round((now - action.started if held or running else item.age) / SECOND, 3)
    left = round((max(action.expires, action.limit) - now) / SECOND, 3) if held else None
    key, id, tier, tool, who = "" if key[:1] == NO_KEY else key, action.id, action.tier, action.tool, action.session
    told = decided, decides, until, what, summary, purpose
    return Conflict(kind, who, tool, tier, key, id, state, age, left, own, running, *told)


def body_of(facts: CallFacts, decision: Decision, details: str = "") -> dict[str, Any]:
    """Return the body of the journal entry. ``details`` is the end of the decision's warning, stored separately."""
    body: dict[str, Any] = origin_of(facts.call)
    if facts.summary is not None:
        body["params"] = facts.summary
    if decision.conflicts:
        body["conflicts"] = decision.conflicts
        body["count"] = decision.conflict_count
    if decision.warning:
        body["warning"] = decision.warning.removesuffix(details)
        if details:
            body["details"] = details
    if decision.observed is not None:
        body["observed"] = decision.observed
    if decision.params is not None:
        body["reworded"] = True
    if facts.classification.gap:
        body["gap"] = True
    if facts.classification.content.origin:
        body["origin"] = facts.classification.content.origin.hex()
    if facts.call.pause:
        body["pause"] = True
    if decision.verdict is Verdict.ASK:
        body["asks"] = True
    if facts.hunk:
        body["hunk"] = facts.hunk
    if facts.call.host is not None and facts.call_print and facts.classification.tier < Tier.HIGH:
        body["host"] = facts.call.host
    if facts.full:
        known = {name: said for name in _KNOWN if (said := getattr(facts.call, name)) is not None}
        if known:
            body["known"] = summarise(known, mode="full")
    return body


def origin_of(call: Call) -> dict[str, Any]:
    """Return the host's names for the call and its task, as far as the host has any, and the folder it was made in."""
    body: dict[str, Any] = {}
    if call.call_id is not None:
        body["callId"] = call.call_id
        if call.dispatch is not None:
            body["dispatch"] = call.dispatch
    if call.task_id is not None:
        body["taskId"] = call.task_id
    if call.attempt != 1:
        body["attempt"] = call.attempt
    if call.cwd is not None and len(call.cwd) <= MAX_CWD and call.cwd.isprintable():
        body["cwd"] = call.cwd
        if call.worktree is not None and max(len(call.worktree.root), len(call.worktree.repository)) <= MAX_CWD:
            body["worktree"] = _worktree(call.worktree)
    if call.home is not None and len(call.home) <= MAX_CWD:
        body["home"] = call.home
    if call.homes:
        body["homes"] = {user: home for user, home in call.homes.items() if len(home) <= MAX_CWD}
    if call.worktrees:
        body["worktrees"] = {
            folder: one and _worktree(one) for folder, one in call.worktrees.items() if len(folder) <= MAX_CWD
        }
    if call.meta is not None:
        body["meta"] = summarise(call.meta)
    if call.summary:
        body["summary"] = call.summary
    if call.purpose:
        body["purpose"] = call.purpose
    return body


def _worktree(worktree: Worktree) -> dict[str, str]:
    return {"root": worktree.root, "repository": worktree.repository}


def entry_of(facts: CallFacts, event: Event, verdict: Verdict | None, body: dict[str, Any]) -> Entry:
    """Return the journal entry of a decision; the store sets its position."""
    call, found, keys, run = facts.call, facts.classification, facts.keys, facts.call.run or ""
    space, tool = call.namespace, call.tool
    return Entry(event, facts.actor, space, 0, 0, tool, found.tier, verdict, found.rule, run, keys, None, body)
