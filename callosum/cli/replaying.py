"""Replay recorded calls through the gate: one process per session, and the sum of their results."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from callosum.cli.recorded_calls import BrokenLine, RecordedCall, read
from callosum.errors import CallosumError, ConfigError, StoreError, StoreUnavailable
from callosum.model import Call, Classification, Observation, Outcome, Verdict

if TYPE_CHECKING:
    from callosum.settings import Settings

EXAMPLES: Final = 3
"""Number of examples that are kept for each tool with a gap."""
_PATIENCE: Final = 10.0
"""Seconds within which a session that has sent everything must end."""
_STEP: Final = 25
"""Number of calls after which a session reports its progress."""


class SessionShare(Struct):
    """Number of calls of one source, of those that got a key, and of each verdict.

    ``writes`` are those that do not only read.
    """

    calls: int = 0
    keyed: int = 0
    writes: int = 0
    keyed_writes: int = 0
    verdicts: Counter[str] = msgspec.field(default_factory=Counter)

    def note(self, *, keyed: bool, writes: bool, verdict: Verdict) -> None:
        """Count one call."""
        self.calls += 1
        self.keyed += keyed
        self.writes += writes
        self.keyed_writes += keyed and writes
        self.verdicts[verdict.value] += 1

    def add(self, other: SessionShare) -> None:
        """Add another share to this one."""
        self.calls += other.calls
        self.keyed += other.keyed
        self.writes += other.writes
        self.keyed_writes += other.keyed_writes
        self.verdicts.update(other.verdicts)


class ReplayTotals(Struct):
    """The results of one session, or of all. Durations in microseconds; ``sources`` by name, ``""`` for none."""

    calls: int = 0
    sources: dict[str, SessionShare] = msgspec.field(default_factory=dict)
    tiers: Counter[str] = msgspec.field(default_factory=Counter)
    verdicts: Counter[str] = msgspec.field(default_factory=Counter)
    conflicts: Counter[str] = msgspec.field(default_factory=Counter)
    rules: Counter[str] = msgspec.field(default_factory=Counter)
    gaps: Counter[str] = msgspec.field(default_factory=Counter)
    examples: dict[str, list[dict[str, Any]]] = msgspec.field(default_factory=dict)
    confirmed: int = 0
    refused: list[str] = msgspec.field(default_factory=list)
    took: list[int] = msgspec.field(default_factory=list)

    def add(self, other: ReplayTotals) -> None:
        """Add other results to these."""
        self.calls += other.calls
        self.confirmed += other.confirmed
        for name in ("tiers", "verdicts", "conflicts", "rules", "gaps"):
            getattr(self, name).update(getattr(other, name))
        for source, share in other.sources.items():
            self.sources.setdefault(source, SessionShare()).add(share)
        for tool, examples in other.examples.items():
            kept = self.examples.setdefault(tool, [])
            kept += examples[: EXAMPLES - len(kept)]
        self.refused += other.refused
        self.took += other.took


class ReplayPlan(Struct, frozen=True):
    """What all sessions of a replay have in common. ``mark`` distinguishes this replay from others."""

    files: tuple[Path, ...]
    sessions: int
    settings: Any
    mark: str
    pause: bool = False


def replay_all(plan: ReplayPlan, progress: Callable[[int], None]) -> tuple[ReplayTotals, float]:
    """Replay with all sessions at once. Return the sum and the duration in seconds.

    ``progress`` is called with the number of calls made since its last call. The time starts when every session is
    ready. Raises the error that stopped a session.
    """
    context = multiprocessing.get_context("spawn")
    lines: list[Connection] = []
    processes = []
    try:
        for number in range(plan.sessions):
            ours, theirs = context.Pipe()
            process = context.Process(target=session, args=(plan, number, theirs), daemon=True)
            process.start()
            theirs.close()
            lines.append(ours)
            processes.append(process)
        for line in lines:
            _receive(line)
        began = time.monotonic()
        for line in lines:
            line.send(None)
        total = _gather(lines, progress)
        took = time.monotonic() - began
        for process in processes:
            process.join(_PATIENCE)
        return total, took
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()
        for line in lines:
            line.close()


def _gather(lines: list[Connection], progress: Callable[[int], None]) -> ReplayTotals:
    total, open_ = ReplayTotals(), list(lines)
    while open_:
        for line in wait(open_):
            assert isinstance(line, Connection)  # noqa: S101  for the type checker: nothing else is waited for
            said = _receive(line)
            if isinstance(said, int):
                progress(said)
            else:
                total.add(said)
                open_.remove(line)
    return total


def _receive(line: Connection) -> int | ReplayTotals:
    try:
        said = line.recv()
    except EOFError:
        raise CallosumError("a session ended without a word; what it saw is lost") from None
    if isinstance(said, Exception):
        raise said
    answer: int | ReplayTotals = said
    return answer


# --- In the session's own process -----------------------------------------------------------------------


def session(plan: ReplayPlan, number: int, line: Connection) -> None:
    """Run one session: wait for the start, make its calls, and send the results."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the interrupted command ends this process
    try:
        total = _Session(plan, number, line).run()
    except (StoreError, ConfigError) as error:
        # only text is sent, because a driver's error may not be serialisable
        line.send(StoreUnavailable(str(error)) if isinstance(error, StoreError) else ConfigError(str(error)))
    except Exception as error:  # noqa: BLE001  the command reports it in one sentence
        line.send(CallosumError(f"session {number} failed: {type(error).__name__}: {error}"))
    else:
        line.send(total)


class _Session:
    def __init__(self, plan: ReplayPlan, number: int, line: Connection) -> None:
        from callosum.gate import LocalGate

        settings: Settings = plan.settings
        self._plan, self._number, self._line = plan, number, line
        self._sum = ReplayTotals()
        self._gate = LocalGate(settings=settings, observer=self._observe)
        self._seen: Classification | None = None

    def run(self) -> ReplayTotals:
        self._line.send(0)
        self._line.recv()
        with self._gate:
            for found in read(self._plan.files, self._plan.sessions):
                if isinstance(found, BrokenLine) or found[0] != self._number:
                    continue
                self._make(found[1])
                if self._sum.calls % _STEP == 0:
                    self._line.send(_STEP)
        self._line.send(self._sum.calls % _STEP)
        return self._sum

    def _make(self, recorded: RecordedCall) -> None:
        total = self._sum
        total.calls += 1
        task = recorded.belongs
        call = Call(
            "replay",
            recorded.tool,
            recorded.args,
            session=str(self._number + 1),
            namespace=self._plan.settings.namespace,
            call_id=f"{self._plan.mark}-{self._number}-{total.calls}",
            cwd=recorded.cwd,
            run=task[-200:] if task.isprintable() else None,
            pause=self._plan.pause,
        )
        self._seen = None
        try:
            began = time.perf_counter_ns()
            decision = self._gate.intercept(call)
            total.took.append((time.perf_counter_ns() - began) // 1000)
        except ConfigError as error:
            total.refused.append(f"{task}: {error}"[:300])
            return
        total.tiers[str(decision.tier)] += 1
        total.verdicts[decision.verdict.value] += 1
        total.conflicts.update({conflict.kind.value for conflict in decision.conflicts})
        total.rules[decision.rule or "(judged)"] += 1
        if (seen := self._seen) is not None:
            share = total.sources.setdefault(recorded.source, SessionShare())
            share.note(keyed=bool(seen.keys), writes=seen.effect != "read", verdict=decision.verdict)
            if seen.gap:
                self._note_gap(recorded)
        if decision.verdict is Verdict.CONFIRM:
            decision = self._gate.intercept(replace(call, call_id=f"{call.call_id}-again", after=decision.id))
            total.confirmed += decision.proceed
        if decision.proceed:
            outcome = Outcome.FAILED if recorded.error else Outcome.DONE
            self._gate.complete(
                "replay", id=decision.id, outcome=outcome, session=call.session, namespace=call.namespace
            )

    def _observe(self, seen: Observation) -> None:
        if seen.classification is not None:
            self._seen = seen.classification

    def _note_gap(self, recorded: RecordedCall) -> None:
        self._sum.gaps[recorded.tool] += 1
        examples = self._sum.examples.setdefault(recorded.tool, [])
        if len(examples) < EXAMPLES:
            examples.append(recorded.args)


def percentile(values: Sequence[int], part: float) -> float:
    """Return the value below which ``part`` (0 to 1) of the sorted values are; 0 if there are none."""
    return float(values[min(len(values) - 1, int(part * len(values)))]) if values else 0.0
