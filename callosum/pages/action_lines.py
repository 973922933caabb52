"""An action as a line of a page: a call of tier 2 or more, a lock, or a call that was held back.

::

    09:10 was asked: `answer Alice about the invoice`
    09:15 `message` `Standup at ten` → `channel:#general` done
    09:16 `email.send` `'Invoice': 'Paid'` → `email:a@x.org` done after 4 min, warned: `doug` acted on it 40 s before
    09:20 `message` `On it` → `thread:andy:1` held back (confirm): `doug` acted on it 40 s before; let through at 09:21
    09:25 to 09:29 `bash` `make test` 4 times: 3 done, 1 failed: `exit code 2`
    09:31 to 09:40 read 2 times, changed or ran `file:/r/a.py` 3 times, `make`; 1 failed: `make`: `exit code 2`
    09:30 `pay` `'12 EUR' to 'acme'` → `account:acme` **outcome unknown**: `the lease ran out`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from callosum.characters import escaped
from callosum.journal import shown_keys
from callosum.model import DEFAULT_NAMESPACE, MINUTE, SECOND, Conflict, Entry, Event, Kind, Outcome, State, Verdict
from callosum.pages.dates import clock, day_of
from callosum.pages.markdown import code, times
from callosum.policy.sentence import ago
from callosum.policy.summary import JournalledCall, summary_of

_KEYS: Final = 3
"""Most keys of an action that are named."""
_DID: Final = 12
"""Most items of one routine that are named."""
_IN_THE_WAY: Final = {
    Kind.HELD: "{who} held it",
    Kind.RECENT: "{who} acted on it {ago} before",
    Kind.DUPLICATE: "{who} had done the same {ago} before",
    Kind.STALE: "{who} had changed it {ago} before",
    Kind.OPPOSED: "{who} had already committed to the opposite {ago} before",
    Kind.UNKNOWN: "{who} had begun {ago} before, with unknown outcome",
}
_RUNNING: Final = {
    Kind.RECENT: "{who} was acting on it",
    Kind.DUPLICATE: "{who} was doing the same",
    Kind.STALE: "{who} was changing it",
    Kind.OPPOSED: "{who} was committing to the opposite",
}
_WORDS: Final = {State.DONE: "done", State.FAILED: "failed", State.UNKNOWN: "**outcome unknown**"}


class Routine(Struct):
    """Reads and calls of tier 1 that a session made in a row for one purpose.

    ``did`` counts them by what they changed or ran. ``note`` is the last one that failed, and its error.
    """

    reads: int = 0
    did: dict[str, int] = field(default_factory=dict)
    more: int = 0
    failed: int = 0
    note: tuple[str, str] = ("", "")
    last: int = 0

    def add(self, act: ActionLine) -> str:
        """Count one more call; return what it changed or ran."""
        self.last = act.at
        target = ""
        if not act.tier:
            self.reads += 1
        else:
            files = [key for key in act.keys if key.startswith("file:")]
            target = escaped(files[0]) if files else act.what or escaped(next(iter(act.keys), "")) or act.tool
            if target in self.did or len(self.did) < _DID:
                self.did[target] = self.did.get(target, 0) + 1
            else:
                self.more += 1
        return target

    def line(self) -> str:
        """Return the line about these calls, without their time."""
        parts = [f"read {times(self.reads)}"] if self.reads else []
        did = [f"{code(target, 120)}{f' {times(count)}' if count > 1 else ''}" for target, count in self.did.items()]
        if self.more:
            did.append(f"{self.more:,} more")
        if did:
            parts.append(f"changed or ran {', '.join(did)}")
        target, error = self.note
        failed = f"; {self.failed:,} failed" if self.failed else ""
        if failed and target:
            failed += f": {code(target, 120)}{f': {code(error, 160)}' if error else ''}"
        return ", ".join(parts) + failed


class ActionLine(Struct, gc=False):
    """The facts kept about an action. Moments are in microseconds.

    ``told`` is the gravest conflict that the session was notified of, as the journal has it; ``others`` counts the
    further ones. ``late``: only its end is on this page, or the gate was unreachable when it began. ``answer`` is a
    person's answer to it. ``what`` is its summary, ``purpose`` the prompt that it serves. ``again``: when a call that
    was held back was let through. ``routine``: the line stands for all of these calls.
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
    purpose: str = ""
    id: int = 0
    again: int = 0
    routine: Routine | None = None


# --- from the journal ---------------------------------------------------------------------------------------


def begun(entry: Entry) -> ActionLine:
    """Return the action that an ``intercept``, ``lock`` or ``late`` entry records."""
    verdict = entry.verdict or Verdict.ALLOW
    tier = entry.tier or 0
    body = entry.body
    noteworthy = not verdict.proceed or body.get("warning") or body.get("observed")
    conflicts = (body.get("conflicts") if noteworthy else None) or ()
    keys, purpose = shown_keys(entry), _text(body, "purpose")
    leased = tier > 2 or entry.event is Event.LOCK
    act = ActionLine(
        entry.seq,
        entry.session,
        entry.namespace,
        entry.tool,
        tier,
        keys,
        verdict,
        (State.OPEN if leased else State.DONE) if verdict.proceed else State.ASKED,
        entry.rule,
        conflicts[0] if conflicts else None,
        max(0, _number(body.get("count")) - 1),
        str(body.get("observed") or ""),
        lock=entry.event is Event.LOCK,
        what=_bare(summary_of(JournalledCall(body.get("params"), _text(body, "summary")), next(iter(keys), ""))),
        purpose=purpose,
    )
    if entry.event is Event.LATE:
        act.late = "ran while the gate was away"
        _settle(act, entry)
    return act


def ended(entry: Entry, *, late: str = "begun on an earlier day") -> ActionLine:
    """Return the action of a report whose beginning is not kept."""
    act = ActionLine(
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
    act.ended = 0  # its duration is not known here
    return act


def follow(act: ActionLine, entry: Entry) -> None:
    """Update the action with a later entry about it."""
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
        act.note = error_of(entry)
        act.answer = f"resolved{_by(entry)}" if act.state is not State.CANCELLED else ""
    else:
        _settle(act, entry)


def _settle(act: ActionLine, entry: Entry) -> None:
    act.state = State((entry.outcome or Outcome.DONE).value)
    act.ended = entry.seq
    act.note = error_of(entry)


def error_of(entry: Entry) -> str:
    """Return a report's explanation: the error of a failure, or why the outcome is unknown."""
    body = entry.body
    if entry.outcome is Outcome.FAILED:
        result = body.get("result")
        error = result.get("error") if isinstance(result, Mapping) else result
        if isinstance(error, Mapping) and isinstance(error.get("message"), str):
            error = error["message"]
        if error:
            return (error if isinstance(error, str) else msgspec.json.encode(error).decode())[:1000]
    note = body.get("note")
    return note[:1000] if isinstance(note, str) else ""


def farewell(entry: Entry) -> str:
    """Return the last answer of a session whose host reports its end, else ``""``."""
    return _text(entry.body, "summary") if entry.event is Event.HOST else ""


def _bare(summary: str) -> str:
    """Return a summary that is one quoted text without its quotes, because a page shows it in a code span."""
    return summary[1:-1] if summary[:1] == summary[-1:] == '"' and summary.count('"') == 2 else summary


def _text(body: Mapping[str, Any], name: str) -> str:
    text = body.get(name)
    return text if isinstance(text, str) else ""


def _by(entry: Entry) -> str:
    by, channel = entry.body.get("by"), entry.body.get("channel")
    person = f" by {code(by)}" if isinstance(by, str) and by else ""
    return f"{person} through {code(channel)}" if isinstance(channel, str) and channel else person


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


# --- as text ------------------------------------------------------------------------------------------------


def line(act: ActionLine, *, who: bool = False, day: bool = False) -> str:
    """Return the action as a list item with its purpose; ``who`` adds its session, ``day`` its day."""
    asked = f" (asked: {code(act.purpose, 120)})" if act.purpose else ""
    return f"{_beginning([act], who=who, day=day)} {_ending(act)}{asked}"


def lines(acts: Sequence[ActionLine]) -> list[str]:
    """Return one session's actions as list items, in order.

    A run of equal actions is one item. A prompt is shown before the actions that serve it, and a call that was held
    back says when the same call was let through.
    """
    items: list[str] = []
    purpose = ""
    runs = [list(group) for _, group in groupby(acts, _same)]
    for run, following in zip_longest(runs, runs[1:]):
        act = run[0]
        if act.purpose and act.purpose != purpose:
            purpose = act.purpose
            items.append(f"- {clock(act.at)} was asked: {code(purpose, 120)}")
        if act.routine is not None:
            if act.routine.did or not following or following[0].purpose != act.purpose:
                items.append(f"- {_span(act.at, act.routine.last)} {act.routine.line()}")
            continue
        ending = _endings(run) if len(run) > 1 else _ending(act)
        later = f"; let through at {clock(act.again)}" if act.again else ""
        items.append(f"{_beginning(run)} {ending}{later}")
    return items


def _same(act: ActionLine) -> tuple[object, ...]:
    """Return what makes an action equal to the one before it; a moment if the action needs its own line."""
    if act.routine is not None:
        return (act.at,)
    alone = not act.verdict.proceed or act.told or act.late or act.answer or act.state is State.UNKNOWN
    return (act.tool, act.keys, act.what, act.purpose, act.lock, act.at if alone else 0)


def _beginning(run: Sequence[ActionLine], *, who: bool = False, day: bool = False) -> str:
    act = run[0]
    parts = ["-", *([day_of(act.at).isoformat()] if day else []), _span(act.at, run[-1].at)]
    if who:
        parts.append(name(act.session, act.namespace))
    parts.append(code(act.tool))
    if act.what:
        parts.append(code(act.what, 160))
    if act.keys:
        parts.append(f"→ {named(act.keys)}")
    return " ".join(parts)


def _span(first: int, last: int) -> str:
    begin, end = clock(first), clock(last)
    return begin if begin == end else f"{begin} to {end}"


def _endings(run: Sequence[ActionLine]) -> str:
    """Return how several actions ended, with the error of the last that failed."""
    counts = Counter(map(_word, run))
    note = next((act.note for act in reversed(run) if act.state is State.FAILED), "")
    many = f"{times(len(run))}:"
    if len(counts) == 1 and not note:
        return f"{many} {next(iter(counts))}"
    outcomes = ", ".join(f"{count} {how}" for how, count in counts.most_common())
    return f"{many} {outcomes}{f': {code(note, 160)}' if note else ''}"


def name(session: str, namespace: str) -> str:
    """Return a session's name, with its namespace unless that is the default one."""
    return code(session) if namespace == DEFAULT_NAMESPACE else f"{code(session)} in {code(namespace)}"


def named(keys: tuple[str, ...]) -> str:
    """Return the first keys, and the number of the others."""
    keys = without_spellings(keys)
    more = f" and {len(keys) - _KEYS} more" if len(keys) > _KEYS else ""
    return ", ".join(code(escaped(key), 120) for key in keys[:_KEYS]) + more


def without_spellings(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys without those that are only a shorter spelling of another one.

    A thread without its chat (``thread:|5`` beside ``thread:andy:5`` or ``email:thread:5``), and a channel's name
    without its ``#``, exist so that other spellings match them; a person reads the key once.
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


def _ending(act: ActionLine) -> str:
    if not act.verdict.proceed:
        answer = f"; {act.answer}" if act.answer else ""
        return f"held back ({act.verdict}{answer}): {_reason(act)}"
    notice = ""
    if act.observed:
        notice = f", only observed ({code(act.observed)}): {_reason(act)}"
    elif act.told is not None:
        notice = f", warned: {_reason(act)}"
    late = f", {act.late}" if act.late else ""
    return f"{_outcome(act)}{late}{notice}"


def _outcome(act: ActionLine) -> str:
    answer = f" ({act.answer})" if act.answer else ""
    note = f": {code(act.note, 160)}" if act.note and act.state is not State.DONE else ""
    took = act.ended - act.at if act.ended and act.state is State.DONE else 0
    after = f" after {ago(took / SECOND)}" if took >= MINUTE else ""
    return f"{_word(act)}{after}{answer}{note}"


def _word(act: ActionLine) -> str:
    if act.state is State.CANCELLED:
        return "released" if act.lock else "cancelled"
    return _WORDS.get(act.state, "still open")


def _reason(act: ActionLine) -> str:
    """Return the conflict, or the rule that stopped the call."""
    others = f", and {act.others} more" if act.others else ""
    if conflict := in_the_way(act.told, code):
        return conflict + others
    return f"rule {code(act.rule)}" if act.rule else "by the policy"


def in_the_way(told: Any, name: Callable[[str], str] = str) -> str:
    """Return what was in a call's way, in the words of its sentence; "" if the journal has it malformed or not at all.

    ``told`` is a conflict as the journal has it. ``name`` marks up the other session's name.
    """
    try:
        conflict = msgspec.convert(told, Conflict, strict=False)
    except msgspec.ValidationError:
        return ""
    form = _IN_THE_WAY[conflict.kind]
    if conflict.running:
        form = _RUNNING.get(conflict.kind, form)
    elif conflict.kind is Kind.OPPOSED and conflict.decided:
        form = "{who} had already {decided} it {ago} before"
    who = "this session" if conflict.own else name(conflict.instance)
    return form.format(who=who, ago=ago(conflict.age), decided=conflict.decided)
