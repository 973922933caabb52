"""Hypothalamus: detects what goes wrong, from events and from regular measurements.

From events, at once:

* more than five ``llm.error`` of one session in a row, with no ``llm.response`` between: ``health.warning`` for ``llm``
* ``context.built`` of more than 180,000 of 200,000 tokens: ``resource.low.context``. The same when a session's newest
  ``llm.response`` fills as large a share of its model's window; this is repeated every ``REMIND`` seconds
* ``tool.failed`` at the third attempt or later: ``health.warning`` for ``tool``

``check`` runs on the schedule's job ``health`` and measures memory, the disk of the state folder and the store's
latency, and looks for silent hosts. A problem is reported when it begins and every ``REMIND`` seconds while it lasts.
If there is none, ``health.ok`` carries the measurements.

A host is silent if its model's tool calls (``tool.parsed``) do not reach the gate (``tool.called``, or the journal if
another process decided), or if it used to send ``health.ok`` and stopped while its process lives. Its calls then run
without a decision. All of this relies on what the host says about itself.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from callosum.corpus.bus import Corpus
from callosum.corpus.events import (
    ContextBuilt,
    ContextTrimmed,
    CorpusEvent,
    HealthCritical,
    HealthOk,
    HealthWarning,
    LlmError,
    LlmResponse,
    ResourceLowContext,
    ResourceLowDisk,
    ResourceLowMemory,
    SchedulerTick,
    ToolCalled,
    ToolFailed,
    ToolParsed,
)
from callosum.errors import StoreError
from callosum.model import SECOND, Host
from callosum.process import alive, host_of
from callosum.regions.machine import DiskSpace, disk_now, memory_now
from callosum.stores.base import Store

JOB: Final = "health"
REMIND: Final = 600.0
"""Seconds after which a lasting problem is reported again."""
_HOSTS: Final = 1000
_PENDING: Final = 1000
_LATE_BEATS: Final = 3
_SHORTEST: Final = 10.0
"""Shortest interval in seconds at which a host is expected to report."""
_FORGET: Final = 20
"""Factor of ``patience`` after which calls that did not reach the gate are forgotten."""
_LOOK_BACK: Final = 500
"""Newest journal entries that are searched before a host counts as silent."""

Number = float | int | str
T = TypeVar("T")


class HealthLimits(Struct, frozen=True, kw_only=True):
    """The limits beyond which something is wrong.

    ``errors``: model errors in a row. ``tokens`` of ``context`` tokens, or that share of a known window. ``attempts``
    of a tool. ``memory`` and ``disk``: the used part (0 to 1). ``free``: bytes that must be free on the disk so that
    the gate can keep writing. ``latency``: seconds that the store may take to answer. ``unreached``: number of a host's
    parsed calls in a row, each older than ``patience`` seconds, that did not reach the gate.
    """

    errors: int = 5
    tokens: int = 180_000
    context: int = 200_000
    attempts: int = 3
    memory: float = 0.9
    disk: float = 0.95
    free: int = 64_000_000
    latency: float = 0.25
    unreached: int = 3
    patience: float = 60.0


class _Beat(NamedTuple):
    """The last sign of life of a host: its moment, the expected interval, and the process."""

    at: float
    every: float | None
    host: Host | None


class _Parsed(NamedTuple):
    """A call that a host's model made and that has not reached the gate."""

    call_id: str | None
    name: str
    at: float


_Actor = tuple[str | None, str]
"""A namespace, and the name of a session or host in it."""


class Hypothalamus:
    """Watch the corpus, the store and the machine.

    ``state`` is the folder whose disk is measured, ``store`` the store that is timed; without them these checks are
    left out. ``now`` returns Unix seconds. Tests replace ``now``, ``memory`` and ``disk``.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        store: Store | None = None,
        state: Path | None = None,
        limits: HealthLimits | None = None,
        now: Callable[[], float] = time.time,
        memory: Callable[[], DiskSpace] = memory_now,
        disk: Callable[[Path], DiskSpace] = disk_now,
    ) -> None:
        self._corpus = corpus
        self._store = store
        self._state = state
        self._limits = limits or HealthLimits()
        self._now = now
        self._memory = memory
        self._disk = disk
        self._guard = threading.RLock()  # reentrant: a signal handler may emit while an event is being handled
        self._errors: OrderedDict[_Actor, int] = OrderedDict()
        self._full: OrderedDict[_Actor, float] = OrderedDict()
        """When a nearly full context was last reported, by session; other sessions are absent."""
        self._told: dict[str, float] = {}
        self._beats: OrderedDict[_Actor, _Beat] = OrderedDict()
        self._parsed: OrderedDict[_Actor, list[_Parsed]] = OrderedDict()
        self._offs = (
            corpus.on(LlmError, self._model_failed),
            corpus.on(LlmResponse, self._model_answered),
            corpus.on(ContextTrimmed, self._context_trimmed),
            corpus.on(ContextBuilt, self._context_built),
            corpus.on(ToolFailed, self._tool_failed),
            corpus.on(ToolParsed, self._tools_parsed),
            corpus.on(ToolCalled, self._tool_called),
            corpus.on(HealthOk, self._host_lives),
            corpus.on(SchedulerTick, self._tick),
        )

    def close(self) -> None:
        """End the subscriptions. Idempotent."""
        for off in self._offs:
            off()

    # --- from events ---------------------------------------------------------------------------------

    def _model_failed(self, event: LlmError) -> None:
        with self._guard:
            count = self._errors.get(_actor_of(event), 0) + 1
            _keep(self._errors, _actor_of(event), count)
        if count > self._limits.errors:
            self._corpus.emit(_about(event, HealthWarning("llm", count, self._limits.errors)))

    def _model_answered(self, event: LlmResponse) -> None:
        actor, limits, now = _actor_of(event), self._limits, self._now()
        window = event.window or limits.context
        low = event.context is not None and event.context * limits.context > limits.tokens * window
        with self._guard:
            self._errors.pop(actor, None)
            due = low and now - self._full.get(actor, -REMIND) >= REMIND
            if due:
                _keep(self._full, actor, now)
            elif not low and event.context is not None:
                self._full.pop(actor, None)
        if due and event.context is not None:
            self._corpus.emit(_about(event, ResourceLowContext(event.context, window)))

    def _context_trimmed(self, event: ContextTrimmed) -> None:
        with self._guard:
            self._full.pop(_actor_of(event), None)

    def _context_built(self, event: ContextBuilt) -> None:
        if event.tokens > self._limits.tokens:
            self._corpus.emit(_about(event, ResourceLowContext(event.tokens, self._limits.context)))

    def _tool_failed(self, event: ToolFailed) -> None:
        if event.attempt >= self._limits.attempts:
            self._corpus.emit(_about(event, HealthWarning("tool", event.name, "max retries exceeded")))

    def _tools_parsed(self, event: ToolParsed) -> None:
        if event.instance is None:
            return
        now = self._now()
        with self._guard:
            waiting = self._parsed.get(_actor_of(event), [])
            waiting += [_Parsed(call.call_id, call.name, now) for call in event.calls]
            _keep(self._parsed, _actor_of(event), waiting[-_PENDING:])

    def _tool_called(self, event: ToolCalled) -> None:
        """Remove the call from the parsed ones, and all before it.

        A call that reaches the gate shows that the host's hooks work, so the earlier calls were never made.
        """
        session = event.instance or ""
        with self._guard:
            for host in dict.fromkeys((session, session.partition("/")[0])):
                waiting = self._parsed.get((event.namespace, host), [])
                for index, parsed in enumerate(waiting):
                    has_ids = parsed.call_id is not None and event.call_id is not None
                    if parsed.call_id == event.call_id if has_ids else parsed.name == event.name:
                        del waiting[: index + 1]
                        break

    def _host_lives(self, event: HealthOk) -> None:
        """Record a host's own ``health.ok``.

        Its metrics may include ``everySeconds``, and ``pid`` with ``hostname``: for a process of this machine, whether
        it lives can be checked.
        """
        if event.instance is None:
            return
        every, pid = event.metrics.get("everySeconds"), event.metrics.get("pid")
        is_local = event.metrics.get("hostname") == socket.gethostname()
        now, actor = self._now(), _actor_of(event)
        with self._guard:
            before = self._beats.get(actor)
            if not isinstance(every, int | float) or every <= 0:
                every = now - before.at if before is not None else None
            host = before.host if before is not None else None
            if is_local and isinstance(pid, int) and (host is None or host.pid != pid):
                host = _process(pid)
            _keep(self._beats, actor, _Beat(now, max(every, _SHORTEST) if every is not None else None, host))

    # --- by measuring --------------------------------------------------------------------------------

    def _tick(self, event: SchedulerTick) -> None:
        if event.job_name == JOB:
            self.check()

    def check(self) -> Mapping[str, Number]:
        """Measure everything; emit the problems, or ``health.ok`` if there are none; return the measurements."""
        metrics: dict[str, Number] = {}
        wrong = dict(self._faults(metrics))
        now = self._now()
        with self._guard:
            metrics["modelErrorsInARow"] = max(self._errors.values(), default=0)
            due = [name for name in wrong if name not in self._told or now - self._told[name] >= REMIND]
            self._told = {name: now if name in due else self._told[name] for name in wrong}
        for name in due:
            self._corpus.emit(wrong[name])
        if not wrong:
            self._corpus.emit(HealthOk(metrics))
        return metrics

    def _faults(self, metrics: dict[str, Number]) -> Iterator[tuple[str, CorpusEvent]]:
        yield from self._check_memory(metrics)
        yield from self._check_disk(metrics)
        yield from self._check_store(metrics)
        yield from self._check_beats(metrics)
        yield from self._check_parsed()

    def _check_memory(self, metrics: dict[str, Number]) -> Iterator[tuple[str, CorpusEvent]]:
        used, total = self._memory()
        metrics["memoryUsedBytes"] = used
        if total and used / total >= self._limits.memory:
            yield "memory", ResourceLowMemory(used, total)

    def _check_disk(self, metrics: dict[str, Number]) -> Iterator[tuple[str, CorpusEvent]]:
        if self._state is None:
            return
        try:
            used, total = self._disk(self._state)
        except OSError as error:
            why = error.strerror or str(error)
            if error.errno == errno.EROFS:
                yield "disk read-only", HealthCritical("disk", why, "writable")
            else:
                yield "disk", HealthWarning("disk", why, "readable")
            return
        free = metrics["diskFreeBytes"] = total - used
        if free < self._limits.free:
            yield "disk full", HealthCritical("disk", free, self._limits.free)
        if total and used / total >= self._limits.disk:
            yield "disk", ResourceLowDisk(used, total)

    def _check_store(self, metrics: dict[str, Number]) -> Iterator[tuple[str, CorpusEvent]]:
        if self._store is None:
            return
        began = time.perf_counter()
        try:
            self._store.now()
        except StoreError as error:
            yield "store", HealthCritical("store", str(error)[:200], "reachable")
            return
        took = time.perf_counter() - began
        metrics["storeMilliseconds"] = round(took * 1000, 3)
        if took > self._limits.latency:
            yield "store", HealthWarning("store", f"{took * 1000:.0f} ms", f"{self._limits.latency * 1000:.0f} ms")

    def _check_beats(self, metrics: dict[str, Number]) -> Iterator[tuple[str, CorpusEvent]]:
        now = self._now()
        with self._guard:
            beats = dict(self._beats)
        metrics["hosts"] = len(beats)
        for actor, beat in beats.items():
            if beat.every is None or now - beat.at <= _LATE_BEATS * beat.every:
                continue
            lives = alive(beat.host) if beat.host is not None else None
            if not lives:
                with self._guard:
                    self._beats.pop(actor, None)  # the process has ended; or nobody can know, and it is reported once
            if lives is False:
                continue
            silence, expected = f"silent for {now - beat.at:.0f} s", f"a sign of life every {beat.every:.0f} s"
            kind = HealthCritical if lives else HealthWarning
            yield f"beat {actor}", _event_for(actor, kind(f"host:{actor[1]}", silence, expected))

    def _check_parsed(self) -> Iterator[tuple[str, CorpusEvent]]:
        """Yield the hosts whose calls did not reach the gate. Calls long past are forgotten."""
        limits, now = self._limits, self._now()
        with self._guard:
            for actor, waiting in list(self._parsed.items()):
                recent = [parsed for parsed in waiting if now - parsed.at <= _FORGET * limits.patience]
                if recent:
                    self._parsed[actor] = recent
                else:
                    del self._parsed[actor]
            late = {
                actor: [parsed for parsed in waiting if now - parsed.at > limits.patience]
                for actor, waiting in self._parsed.items()
            }
        for actor, missed in late.items():
            if len(missed) >= limits.unreached and not self._journalled(actor, missed[0].at):
                finding = f"{len(missed)} calls of its model did not reach the gate"
                yield f"hooks {actor}", _event_for(actor, HealthCritical(f"host:{actor[1]}", finding, limits.unreached))

    def _journalled(self, actor: _Actor, since: float) -> bool:
        """Return True if the journal has a call of this host since then: another process may have decided it."""
        if self._store is None:
            return False
        try:
            entries = self._store.entries(limit=_LOOK_BACK, namespace=actor[0], newest=True)
        except StoreError:
            return True  # the host is not to blame
        return any(
            entry.seq / SECOND >= since and (entry.session == actor[1] or entry.session.startswith(f"{actor[1]}/"))
            for entry in entries
        )


def _actor_of(event: CorpusEvent) -> _Actor:
    return event.namespace, event.instance or ""


def _event_for(actor: _Actor, event: CorpusEvent) -> CorpusEvent:
    return replace(event, namespace=actor[0], instance=actor[1])


def _keep(values: OrderedDict[_Actor, T], actor: _Actor, value: T) -> None:
    """Remember a value for a session or host; beyond ``_HOSTS`` forget the one heard from longest ago."""
    values[actor] = value
    values.move_to_end(actor)
    while len(values) > _HOSTS:
        values.popitem(last=False)


def _about(cause: CorpusEvent, event: CorpusEvent) -> CorpusEvent:
    """Return the event with the session, call and action of its cause."""
    return replace(event, instance=cause.instance, namespace=cause.namespace, call_id=cause.call_id, id=cause.id)


def _process(pid: int) -> Host | None:
    try:
        return host_of(pid)
    except (ProcessLookupError, PermissionError, OverflowError, ValueError):
        return None
