"""Hypothalamus: notices what goes wrong, from the events alone and by measuring now and then.

From events, at once:

* more than five ``llm.error`` of one session in a row, no ``llm.response`` between: ``health.warning`` for ``llm``;
* ``context.built`` of more than 180,000 tokens: ``resource.low.context``, of 200,000; likewise a session's newest
  ``llm.response`` with as large a share of its model's window, when that begins and every ``REMIND`` seconds;
* ``tool.failed`` at the third attempt or later: ``health.warning`` for ``tool``.

By ``check``, which the schedule's job ``health`` asks for: memory, the disk of the state folder, how long the store
takes, and hosts that went silent. What is wrong is told when it begins and every ``REMIND`` seconds while it lasts; if
nothing is, ``health.ok`` has what was measured.

A host is silent if its model's tool calls (``tool.parsed``) do not reach the gate (``tool.called``, or the journal,
where another process decided), or if it used to send ``health.ok`` itself and stopped while its process lives: then its
calls run without being decided. All of that rests on what the host says of itself.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import psutil
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
from callosum.stores.base import Store

JOB: Final = "health"
REMIND: Final = 600.0
"""What is wrong and stays so is told again after so many seconds."""
_HOSTS: Final = 1000
_PENDING: Final = 1000
_LATE_BEATS: Final = 3
_SHORTEST: Final = 10.0
"""No host is expected to tell more often, in seconds."""
_FORGET: Final = 20
"""Calls that did not reach the gate are forgotten after so many times the patience."""
_LOOK_BACK: Final = 500
"""So many of the newest entries are looked at before a host is said to be silent."""

Number = float | int | str
T = TypeVar("T")


class HealthLimits(Struct, frozen=True, kw_only=True):
    """From where on something is wrong.

    ``errors``: model errors in a row. ``tokens`` of ``context`` tokens, or that share of a known window.
    ``attempts`` of a tool. ``memory`` and ``disk``: the used part (0 to 1). ``free``: bytes that must be free on the
    disk for the gate to go on writing. ``latency``: seconds for a look at the store. ``unreached``: so many parsed
    calls of a host in a row, each older than ``patience`` seconds, have not reached the gate.
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


class DiskSpace(NamedTuple):
    """How much of something is used, in bytes."""

    used: int
    total: int


class _Beat(NamedTuple):
    """The last sign of life of a host: when, how long after the one before (or as it says), of which process."""

    at: float
    every: float | None
    host: Host | None


class _Parsed(NamedTuple):
    """A call that a host's model made and that the gate has not seen."""

    call_id: str | None
    name: str
    at: float


_Who = tuple[str | None, str]
"""A namespace and a session's or a host's name in it."""


def memory_now() -> DiskSpace:
    """The machine's memory."""
    found = psutil.virtual_memory()
    return DiskSpace(found.total - found.available, found.total)


def is_read_only(folder: Path) -> bool:
    """Return whether the file system of a folder is mounted read-only. Raises ``OSError``."""
    return hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def disk_now(folder: Path) -> DiskSpace:
    """The disk of a folder, or of the nearest one above it that exists. Raises ``OSError``, also if it is read-only."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if is_read_only(folder):  # its room says nothing: many such file systems have none that is free
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))
    found = shutil.disk_usage(folder)
    return DiskSpace(found.total - found.free, found.total)


class Hypothalamus:
    """Watches the corpus, the store and the machine.

    ``state`` is the folder whose disk counts, ``store`` the one that is asked; without them they are left out.
    ``now`` gives Unix seconds, ``memory`` and ``disk`` what they measure: for tests.
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
        self._guard = threading.RLock()  # an event may come from a signal handler in the midst of another
        self._errors: OrderedDict[_Who, int] = OrderedDict()
        self._full: OrderedDict[_Who, float] = OrderedDict()
        """When it was last told that a session's context is nearly full; those that are not are absent."""
        self._told: dict[str, float] = {}
        self._beats: OrderedDict[_Who, _Beat] = OrderedDict()
        self._parsed: OrderedDict[_Who, list[_Parsed]] = OrderedDict()
        self._scope = corpus.scope()
        self._scope.on(LlmError, self._model_failed)
        self._scope.on(LlmResponse, self._model_answered)
        self._scope.on(ContextTrimmed, self._context_trimmed)
        self._scope.on(ContextBuilt, self._context_built)
        self._scope.on(ToolFailed, self._tool_failed)
        self._scope.on(ToolParsed, self._tools_parsed)
        self._scope.on(ToolCalled, self._tool_called)
        self._scope.on(HealthOk, self._host_lives)
        self._scope.on(SchedulerTick, self._tick, deferred=True)

    def close(self) -> None:
        """Ends it. Idempotent."""
        self._scope.close()

    # --- from events ---------------------------------------------------------------------------------

    def _model_failed(self, event: LlmError) -> None:
        with self._guard:
            count = self._errors.get(_who(event), 0) + 1
            _keep(self._errors, _who(event), count)
        if count > self._limits.errors:
            self._corpus.emit(_about(event, HealthWarning("llm", count, self._limits.errors)))

    def _model_answered(self, event: LlmResponse) -> None:
        who, limits, now = _who(event), self._limits, self._now()
        window = event.window or limits.context
        low = event.context is not None and event.context * limits.context > limits.tokens * window
        with self._guard:
            self._errors.pop(who, None)
            due = low and now - self._full.get(who, -REMIND) >= REMIND
            if due:
                _keep(self._full, who, now)
            elif not low and event.context is not None:
                self._full.pop(who, None)
        if due and event.context is not None:
            self._corpus.emit(_about(event, ResourceLowContext(event.context, window)))

    def _context_trimmed(self, event: ContextTrimmed) -> None:
        with self._guard:
            self._full.pop(_who(event), None)

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
            waiting = self._parsed.get(_who(event), [])
            waiting += [_Parsed(call.call_id, call.name, now) for call in event.calls]
            _keep(self._parsed, _who(event), waiting[-_PENDING:])

    def _tool_called(self, event: ToolCalled) -> None:
        """A call that reaches the gate shows that the host's hooks work: what came before it was let be."""
        session = event.instance or ""
        with self._guard:
            for host in dict.fromkeys((session, session.partition("/")[0])):
                waiting = self._parsed.get((event.namespace, host), [])
                for place, parsed in enumerate(waiting):
                    known = parsed.call_id is not None and event.call_id is not None
                    if parsed.call_id == event.call_id if known else parsed.name == event.name:
                        del waiting[: place + 1]
                        break

    def _host_lives(self, event: HealthOk) -> None:
        """A host's own ``health.ok``.

        Among its metrics may be ``everySeconds``, and ``pid`` with ``hostname``: of a process of this machine it can
        be seen whether it lives.
        """
        if event.instance is None:
            return
        every, pid = event.metrics.get("everySeconds"), event.metrics.get("pid")
        here = event.metrics.get("hostname") == socket.gethostname()
        now, who = self._now(), _who(event)
        with self._guard:
            before = self._beats.get(who)
            if not isinstance(every, int | float) or every <= 0:
                every = now - before.at if before is not None else None
            host = before.host if before is not None else None
            if here and isinstance(pid, int) and (host is None or host.pid != pid):
                host = _process(pid)
            _keep(self._beats, who, _Beat(now, max(every, _SHORTEST) if every is not None else None, host))

    # --- by measuring --------------------------------------------------------------------------------

    def _tick(self, event: SchedulerTick) -> None:
        if event.job_name == JOB:
            self.check()

    def check(self) -> Mapping[str, Number]:
        """Measures everything, tells what is wrong, or ``health.ok``; returns what was measured."""
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
        for who, beat in beats.items():
            if beat.every is None or now - beat.at <= _LATE_BEATS * beat.every:
                continue
            lives = alive(beat.host) if beat.host is not None else None
            if not lives:
                with self._guard:
                    self._beats.pop(who, None)  # it has ended; or nobody can know, and then it is told once
            if lives is False:
                continue
            silence, expected = f"silent for {now - beat.at:.0f} s", f"a sign of life every {beat.every:.0f} s"
            kind = HealthCritical if lives else HealthWarning
            yield f"beat {who}", _of(who, kind(f"host:{who[1]}", silence, expected))

    def _check_parsed(self) -> Iterator[tuple[str, CorpusEvent]]:
        """Hosts whose calls did not reach the gate. What is told and long past is forgotten."""
        limits, now = self._limits, self._now()
        with self._guard:
            for who, waiting in list(self._parsed.items()):
                left = [parsed for parsed in waiting if now - parsed.at <= _FORGET * limits.patience]
                if left:
                    self._parsed[who] = left
                else:
                    del self._parsed[who]
            late = {
                who: [parsed for parsed in waiting if now - parsed.at > limits.patience]
                for who, waiting in self._parsed.items()
            }
        for who, missed in late.items():
            if len(missed) >= limits.unreached and not self._journalled(who, missed[0].at):
                told = f"{len(missed)} calls of its model did not reach the gate"
                yield f"hooks {who}", _of(who, HealthCritical(f"host:{who[1]}", told, limits.unreached))

    def _journalled(self, who: _Who, since: float) -> bool:
        """Whether the journal has a call of this host since then: another process may have decided it."""
        if self._store is None:
            return False
        try:
            entries = self._store.entries(limit=_LOOK_BACK, namespace=who[0], newest=True)
        except StoreError:
            return True  # it is not the host that is to blame
        return any(
            entry.seq / SECOND >= since and (entry.session == who[1] or entry.session.startswith(f"{who[1]}/"))
            for entry in entries
        )


def _who(event: CorpusEvent) -> _Who:
    return event.namespace, event.instance or ""


def _of(who: _Who, event: CorpusEvent) -> CorpusEvent:
    return replace(event, namespace=who[0], instance=who[1])


def _keep(kept: OrderedDict[_Who, T], who: _Who, value: T) -> None:
    """Remembers something of somebody; of too many the one who was heard of longest ago is forgotten."""
    kept[who] = value
    kept.move_to_end(who)
    while len(kept) > _HOSTS:
        kept.popitem(last=False)


def _about(cause: CorpusEvent, event: CorpusEvent) -> CorpusEvent:
    """The event with whom it concerns, as its cause says."""
    return replace(event, instance=cause.instance, namespace=cause.namespace, call_id=cause.call_id, id=cause.id)


def _process(pid: int) -> Host | None:
    try:
        return host_of(pid)
    except (ProcessLookupError, PermissionError, OverflowError, ValueError):
        return None
