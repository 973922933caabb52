"""What other rules would have decided: the recorded calls, replayed under both sets of rules.

Method
    The journal is read up to three times. First every call is classified under both sets of rules: calls with another
    tier, other keys or another treatment are counted, and their keys are remembered. Then the calls that share one of
    these keys are found; no other call can be decided differently. These are replayed in order, at most the ``most``
    newest, through two separate gates, each with a store in a temporary folder and a clock that shows the recorded
    time.
History
    A call that really ran also runs in both gates: if a gate stops it, it is confirmed, and if a gate asks or blocks,
    approved. A call that was really stopped and would have been let through counts as run; the repeat that followed
    within ten minutes is then the same action and is not replayed.
Limits
    Params are as the journal has them. With ``journal.params = "full"`` they are complete except for secrets, and the
    description, schema and annotations of the tool are included. In a summary long texts are cut: equal texts stay
    equal, but texts that differ only after the cut look equal, nearly equal texts are compared by their beginnings, and
    a pattern sees only the beginning of a long command. The process that a lease depended on is not known; lost leases
    are taken from the journal instead.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from callosum.journal import shown_keys
from callosum.model import DAY, SECOND, Decision, Entry, Event, Verdict
from callosum.retrospect.classification_changes import (
    EXAMPLES,
    MOST_GROUPS,
    ClassificationChange,
    ClassificationChanges,
)
from callosum.retrospect.recorded_calls import CallGroups, call_of, example, is_call
from callosum.retrospect.replay_gate import SPARED, ReplayGate
from callosum.rules import RuleSet

MOST: Final = 20_000
"""Most calls that are replayed."""

Read = Callable[[], Iterable[Entry]]
"""Return an iterator over the journal from its beginning."""


class Difference(Struct, frozen=True, rename="camel"):
    """Calls of one tool that would have been decided differently.

    ``what`` is ``paused`` (they ran, and would have been confirmed, asked about or blocked), ``allowed`` (the reverse),
    ``warned`` or ``quiet`` (with a warning, or without). ``before`` and ``after`` are the verdicts, ``rules`` the names
    of the rules, ``kinds`` the conflicts on the stricter side.
    """

    what: str
    tool: str
    before: str
    after: str
    rules: tuple[str, str]
    kinds: tuple[str, ...]
    calls: int
    examples: tuple[Any, ...]


class Trial(Struct, frozen=True, rename="camel"):
    """The result. Of ``calls`` recorded ones, ``shifted`` are classified differently and ``played`` were replayed.

    ``touched`` is the number of calls that share a key with those; if it is larger than ``played``, only the newest
    were replayed. ``unreadable``: calls without params in the journal. ``cut``: calls with incomplete params.
    ``as_recorded`` is the share of replayed calls that the current rules decide as the journal has it (None: none was
    replayed). The rest was decided under other rules, or by facts that the journal does not keep.
    """

    calls: int
    shifted: int
    touched: int
    played: int
    paused: int
    allowed: int
    unreadable: int
    cut: int
    as_recorded: float | None
    first: float | None
    last: float | None
    differences: tuple[Difference, ...]
    shifts: tuple[ClassificationChange, ...]

    @property
    def nothing(self) -> bool:
        """True if no call would have been classified differently."""
        return not self.shifts


def try_rules(
    read: Read,
    before: RuleSet,
    after: RuleSet,
    *,
    since: int = 0,
    most: int = MOST,
    examples: int = EXAMPLES,
    progress: Callable[[int], None] = lambda _: None,
) -> Trial:
    """Return what ``after`` would have decided differently than ``before`` on the entries that ``read`` yields.

    Entries before the moment ``since`` are replayed but not counted, because later calls were compared with them.
    ``progress`` is called with the number of calls replayed. Raises ``StoreError`` if the temporary folder cannot be
    used.
    """
    survey = ClassificationChanges(before, after, since)
    for entry in read():
        if is_call(entry):
            survey.add(entry)
    if not survey.touched_by_change:
        return _trial(survey, 0, _Played(since, examples))
    chosen: deque[int] = deque(maxlen=most)
    touched = 0
    for entry in read():
        if is_call(entry) and survey.touches(entry):
            chosen.append(entry.seq)
            touched += entry.seq >= since
    played = _Played(since, examples)
    with tempfile.TemporaryDirectory(prefix="callosum-try-") as folder:
        old, new = ReplayGate(Path(folder) / "before", before), ReplayGate(Path(folder) / "after", after)
        try:
            _play(read, set(chosen), old, new, played, survey, progress)
        finally:
            old.close()
            new.close()
    return _trial(survey, touched, played)


def _trial(survey: ClassificationChanges, touched: int, played: _Played) -> Trial:
    differences = played.differences()
    return Trial(
        survey.calls,
        survey.shifted,
        touched,
        played.calls,
        sum(one.calls for one in differences if one.what == "paused"),
        sum(one.calls for one in differences if one.what == "allowed"),
        survey.unreadable,
        survey.cut,
        played.as_recorded,
        survey.first / SECOND if survey.first else None,
        survey.last / SECOND if survey.last else None,
        differences,
        survey.shifts(),
    )


def _play(
    read: Read,
    chosen: set[int],
    old: ReplayGate,
    new: ReplayGate,
    played: _Played,
    survey: ClassificationChanges,
    progress: Callable[[int], None],
) -> None:
    first = min(chosen, default=0) - DAY  # no older lease is still held
    count = 0
    for entry in read():
        if entry.seq < first:
            continue
        if entry.seq in chosen:
            call = call_of(entry)
            if call is None:
                continue
            one, other = old.ask(call, entry), new.ask(call, entry)
            if one is not None and other is not None:
                played.add(entry, one, other)
            count += 1
            if count % 100 == 0:
                progress(count)
        elif entry.event is Event.LOCK:
            if survey.meets(shown_keys(entry)):
                old.lock(entry)
                new.lock(entry)
        elif entry.event is not Event.INTERCEPT:
            old.go_on(entry)
            new.go_on(entry)
    progress(count)


class _Place(NamedTuple):
    """The group of a difference."""

    what: str
    tool: str
    before: str
    after: str
    rules: tuple[str, str]
    kinds: tuple[str, ...]


class _Parted(Struct):
    calls: int = 0
    examples: list[Any] = field(default_factory=list)


class _Played:
    """Count the differences between two gates."""

    def __init__(self, since: int, examples: int) -> None:
        self._since, self._examples = since, examples
        self.calls = 0
        self._same = 0
        self._parted: CallGroups[_Place, _Parted] = CallGroups(_Parted, MOST_GROUPS)

    def add(self, entry: Entry, one: Decision, other: Decision) -> None:
        if entry.seq < self._since:
            return
        self.calls += 1
        self._same += one is SPARED or one.verdict is entry.verdict
        what = _parting(one.verdict, other.verdict)
        if not what or one is SPARED or other is SPARED:
            return
        graver = one if one.verdict.gravity > other.verdict.gravity else other
        kinds = tuple(dict.fromkeys(conflict.kind.value for conflict in graver.conflicts))
        place = _Place(what, entry.tool, one.verdict.value, other.verdict.value, (one.rule, other.rule), kinds)
        parted = self._parted.of(place)
        if parted is None:
            return
        parted.calls += 1
        if len(parted.examples) < self._examples:
            keys = {"before": one.context_keys[:8], "after": other.context_keys[:8]}
            parted.examples.append({**example(entry), "keys": keys, "warning": graver.warning})

    @property
    def as_recorded(self) -> float | None:
        return round(self._same / self.calls, 4) if self.calls else None

    def differences(self) -> tuple[Difference, ...]:
        order = ("paused", "allowed", "warned", "quiet")
        return tuple(
            Difference(*place, parted.calls, tuple(parted.examples))
            for place, parted in sorted(
                self._parted.items(), key=lambda pair: (order.index(pair[0].what), -pair[1].calls, pair[0])
            )
        )


def _parting(one: Verdict, other: Verdict) -> str:
    if one.proceed is not other.proceed:
        return "allowed" if other.proceed else "paused"
    if one.proceed and one is not other:
        return "warned" if other is Verdict.WARN else "quiet"
    return ""
