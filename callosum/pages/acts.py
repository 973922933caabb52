"""An act: a call of tier 2 or more, a lock, or a call that was held back, as a line of a page.

::

    09:15 `message` → `channel:#general` done
    09:16 `email.send` → `email:a@example.com` done after 4 min, warned: `doug` acted on it 40 s before
    09:20 `message` → `thread:andy:1` confirm: `doug` acted on it 40 s before
    09:30 `pay` → `account:12` **outcome unknown**: the lease ran out
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from callosum.characters import escaped
from callosum.journal import shown_keys
from callosum.model import DEFAULT_NAMESPACE, MINUTE, SECOND, Conflict, Entry, Event, Kind, Outcome, State, Verdict
from callosum.pages.calendar import clock, day_of
from callosum.pages.markdown import code
from callosum.policy.sentence import ago

_KEYS: Final = 3
"""How many keys of an act are named."""
_IN_THE_WAY: Final = {
    Kind.HELD: "{who} was at it",
    Kind.RECENT: "{who} acted on it {ago} before",
    Kind.DUPLICATE: "{who} had done the same {ago} before",
    Kind.STALE: "{who} had changed it {ago} before",
    Kind.OPPOSED: "{who} had committed to the contrary {ago} before",
    Kind.UNKNOWN: "{who} had begun {ago} before, with unknown outcome",
}
_RUNNING: Final = {
    Kind.RECENT: "{who} was acting on it",
    Kind.DUPLICATE: "{who} was doing the same",
    Kind.STALE: "{who} was changing it",
    Kind.OPPOSED: "{who} was committing to the contrary",
}


class Act(Struct, gc=False):
    """What is kept of an act. Moments in microseconds.

    ``told`` is the gravest conflict as the journal has it, ``others`` how many more there were. ``late``: only its
    end is on this page, or the gate was away when it began. ``answer`` is what a person said to it. ``what``
    stands in for the keys of a call that has none: the first text among its params.
    """

    at: int
    session: str
    namespace: str
    tool: str
    tier: int
    keys: tuple[str, ...]
    verdict: Verdict
    state: State
    rule: str = ""
    told: Any = None
    others: int = 0
    observed: str = ""
    ended: int = 0
    late: str = ""
    note: str = ""
    answer: str = ""
    lock: bool = False
    what: str = ""
    id: int = 0


# --- from the journal ---------------------------------------------------------------------------------------


def begun(entry: Entry) -> Act:
    """The act that an ``intercept``, a ``lock`` or a ``late`` entry tells of."""
    verdict = entry.verdict or Verdict.ALLOW
    tier = entry.tier or 0
    body = entry.body
    conflicts = body.get("conflicts") or ()
    leased = tier > 2 or entry.event is Event.LOCK
    act = Act(
        entry.seq,
        entry.session,
        entry.namespace,
        entry.tool,
        tier,
        shown_keys(entry),
        verdict,
        (State.OPEN if leased else State.DONE) if verdict.proceed else State.ASKED,
        entry.rule,
        conflicts[0] if conflicts else None,
        max(0, _number(body.get("count")) - 1),
        str(body.get("observed") or ""),
        lock=entry.event is Event.LOCK,
    )
    if not act.keys:
        act.what = _what(body.get("params"))
    if entry.event is Event.LATE:
        act.late = "ran while the gate was away"
        _settle(act, entry)
    return act


def ended(entry: Entry, *, late: str = "begun on an earlier day") -> Act:
    """The act of which a report tells, where its beginning is not kept."""
    act = Act(
        entry.seq,
        entry.session,
        entry.namespace,
        entry.tool,
        entry.tier or 0,
        shown_keys(entry),
        Verdict.ALLOW,
        State.OPEN,
        late=late,
        lock=bool(entry.body.get("lock")),
    )
    follow(act, entry)
    act.ended = 0  # how long it took is not known here
    return act


def follow(act: Act, entry: Entry) -> None:
    """Takes a later entry about the act into it."""
    event = entry.event
    if event in (Event.APPROVE, Event.DENY):
        word = "approved" if event is Event.APPROVE else "refused"
        act.answer = f"{word}{_by(entry)}"
    elif event is Event.RENEW:
        act.state = State.OPEN
    elif not act.verdict.proceed:
        if event is Event.LAPSE and not act.answer:
            act.answer = "nobody answered"
    elif event is Event.RESOLVE:
        act.state = State((entry.outcome or Outcome.DONE).value)
        act.note = _note(entry)
        act.answer = f"found so{_by(entry)}" if act.state is not State.CANCELLED else ""
    else:
        _settle(act, entry)


def _settle(act: Act, entry: Entry) -> None:
    act.state = State((entry.outcome or Outcome.DONE).value)
    act.ended = entry.seq
    act.note = _note(entry)


def _note(entry: Entry) -> str:
    """What a report says beside the outcome: the error of a failure, why nothing is known."""
    body = entry.body
    if entry.outcome is Outcome.FAILED:
        result = body.get("result")
        error = result.get("error") if isinstance(result, Mapping) else result
        if error:
            return (error if isinstance(error, str) else msgspec.json.encode(error).decode())[:1000]
    note = body.get("note")
    return note[:1000] if isinstance(note, str) else ""


def _what(params: Any) -> str:
    texts = params.values() if isinstance(params, Mapping) else ()
    return next((text for text in texts if isinstance(text, str) and text), "")


def _by(entry: Entry) -> str:
    by, channel = entry.body.get("by"), entry.body.get("channel")
    who = f" by {code(by)}" if isinstance(by, str) and by else ""
    return f"{who} through {code(channel)}" if isinstance(channel, str) and channel else who


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


# --- as text ------------------------------------------------------------------------------------------------


def line(act: Act, *, who: bool = False, day: bool = False) -> str:
    """The act as an item of a list; ``who`` with its session, ``day`` with its day."""
    parts = [f"- {day_of(act.at).isoformat()} {clock(act.at)}" if day else f"- {clock(act.at)}"]
    if who:
        parts.append(name(act.session, act.namespace))
    parts.append(code(act.tool))
    if act.keys:
        parts.append(f"→ {named(act.keys)}")
    elif act.what:
        parts.append(code(act.what))
    parts.append(_ending(act))
    return " ".join(parts)


def name(session: str, namespace: str) -> str:
    """A session, with its namespace unless that is the default one."""
    return code(session) if namespace == DEFAULT_NAMESPACE else f"{code(session)} in {code(namespace)}"


def named(keys: tuple[str, ...]) -> str:
    """The first keys, and how many there are besides."""
    keys = without_spellings(keys)
    more = f" and {len(keys) - _KEYS} more" if len(keys) > _KEYS else ""
    return ", ".join(code(escaped(key), 120) for key in keys[:_KEYS]) + more


def without_spellings(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys without those that only spell another of them less fully.

    A thread without its chat (``thread:|5`` beside ``thread:andy:5`` or ``email:thread:5``), and a channel's name
    without its ``#``, are there so that other spellings meet them; a person reads the thing once.
    """
    if len(keys) < 2:
        return keys
    threads = {key.rpartition(":")[2] for key in keys if key.startswith(("thread:", "email:thread:"))}
    channels = {key.removeprefix("channel:#") for key in keys if key.startswith("channel:#")}

    def is_spelled(key: str) -> bool:
        if key.startswith("thread:|"):
            return key.removeprefix("thread:|") in threads
        return key.startswith("channel:") and key.removeprefix("channel:") in channels

    return tuple(key for key in keys if not is_spelled(key))


def _ending(act: Act) -> str:
    if not act.verdict.proceed:
        answer = f" ({act.answer})" if act.answer else ""
        return f"{act.verdict}{answer}: {_reason(act)}"
    told = ""
    if act.observed:
        told = f", only observed ({code(act.observed)}): {_reason(act)}"
    elif act.told is not None:
        told = f", warned: {_reason(act)}"
    late = f", {act.late}" if act.late else ""
    return f"{_outcome(act)}{late}{told}"


def _outcome(act: Act) -> str:
    note = f": {code(act.note, 160)}" if act.note else ""
    answer = f" ({act.answer})" if act.answer else ""
    if act.state is State.DONE:
        took = act.ended - act.at
        return f"done{f' after {ago(took / SECOND)}' if act.ended and took >= MINUTE else ''}{answer}"
    if act.state is State.UNKNOWN:
        return f"**outcome unknown**{note}"
    if act.state is State.CANCELLED:
        return f"released{answer}" if act.lock else f"cancelled{answer}{note}"
    if act.state is State.FAILED:
        return f"failed{answer}{note}"
    return "still open"


def _reason(act: Act) -> str:
    """What was in the way, or which rule said so."""
    try:
        conflict = msgspec.convert(act.told, Conflict, strict=False) if act.told is not None else None
    except msgspec.ValidationError:
        conflict = None
    if conflict is None:
        return f"rule {code(act.rule)}" if act.rule else "as the policy has it"
    form = _IN_THE_WAY[conflict.kind]
    if conflict.running:
        form = _RUNNING.get(conflict.kind, form)
    elif conflict.kind is Kind.OPPOSED and conflict.decided:
        form = "{who} had already {decided} it {ago} before"
    who = "this session" if conflict.own else code(conflict.instance)
    others = f", and {act.others} more" if act.others else ""
    return form.format(who=who, ago=ago(conflict.age), decided=conflict.decided) + others
