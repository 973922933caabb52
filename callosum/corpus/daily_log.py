"""The daily log: every event of the bus as one line of a file, one file a day, for people to read.

::

    with Corpus() as corpus, DailyLog(corpus, state / FOLDER):
        corpus.emit(ToolCompleted("github_prs", output="3 open", duration=1204.0, instance="mira"))

    ## 2026-05-16

    09:15:06 | tool.completed | {"name":"github_prs","output":"3 open","duration":1204.0,"instance":"mira"}

What the emitter does is to encode the event and to put the line into a queue. A thread redacts and writes::

    emit ──> lines of the day ──32 KB, or flush──> Batch ──every 2 s, or at 1 MB──> redacted ──> DayFiles

* Whoever emits never fails because of the log, takes no lock and never waits for the disk. What cannot be written
  is kept, up to ``limit`` bytes; of more the oldest lines go, ``safety.*`` last. It is tried again every ``every``
  seconds.
* A file that reaches its size takes no more lines, ``safety.*`` last; the log itself says how many were dropped.
* Whoever emits faster than one thread can redact helps: once in some hundred events he redacts a batch himself.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from itertools import repeat, starmap
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from callosum.corpus.bus import Corpus
from callosum.corpus.day_files import PATIENCE, DayFiles, is_reserved
from callosum.corpus.events import MAX_PAYLOAD, CorpusEvent, HealthWarning, LlmError, LlmResponse, LlmToken, encode
from callosum.corpus.log_lines import AT, finished, without_moment
from callosum.errors import ConfigError

logger = logging.getLogger("callosum")

FOLDER: Final = Path("brain", "corpus")
"""Where the files are, below the state folder."""
KEEP: Final = 7
EVERY: Final = 2.0
LIMIT: Final = 32 * 1024 * 1024
SIZE: Final = 100_000_000
"""Most bytes of one day's file, unless the settings say otherwise."""

_BATCH: Final = 32 * 1024
_EARLY: Final = 1024 * 1024
"""So much is written at once, without waiting for the two seconds to end."""
_BEHIND: Final = 4 * 1024 * 1024
"""When so much waits, emitters help; and so much is written at a time, at most."""
_OVERHEAD: Final = 500
"""What a batch takes, besides its lines."""
_MAX_JOINED: Final = 10_000
"""Characters of a streamed answer in one line; they stay below ``MAX_PAYLOAD`` however they are escaped."""
_MAX_ANSWERS: Final = 1000
_MORE: Final = 10
"""The log says again how many lines a full file lost once they are this many times as many."""

_plain: Final = msgspec.json.Encoder().encode


class LineBatch:
    """Lines of one day that wait to be written.

    ``size`` is in bytes. ``lean``: there are only lines in it that are dropped last.
    """

    __slots__ = ("_finished", "day", "lean", "lines", "lock", "size")

    def __init__(self, day: str) -> None:
        self.day = day
        self.lines: list[bytes] = []
        self.size = 0
        self.lean = False
        self.lock = threading.RLock()
        self._finished = False

    def take(self, lines: deque[bytes]) -> None:
        """Takes lines out of a queue, all in one go: a signal comes before that or after it, and none is lost."""
        with suppress(IndexError):
            self.lines.extend(starmap(lines.popleft, repeat((), len(lines))))
        self.size = sum(map(len, self.lines)) + _OVERHEAD

    def finish(self) -> None:
        """Redacts the lines, once; whoever comes second waits for the first."""
        with self.lock:
            if self._finished:
                return
            try:
                self.lines = finished(self.lines)
            except Exception:  # what cannot be redacted is not written
                logger.exception("daily log: %d lines could not be redacted, and are left out", len(self.lines))
                self.lines = []
            self._finished = True


_Stamp = tuple[float, float, dict[type[CorpusEvent], bytes], Callable[[bytes], None]]
"""One second: from when until when, how its lines begin for each sort of event, and what takes them."""
_NEVER: Final[_Stamp] = (math.inf, -math.inf, {}, deque[bytes]().append)


class DailyLog:
    """Writes every event of a bus into ``folder``, one file a day (``2026-05-16.log.md``).

    A line has the local time of the event (``at``), its dotted name and its payload in camelCase on one line: the
    event's own fields first, then ``instance``, ``namespace``, ``callId``, ``id`` and ``cause`` as far as they are
    known. It stands in the file of the event's own local date. An event that claims to be of a day that is no
    longer kept, or of later than tomorrow, stands where it came in, with its ``at``.

    ``keep``: a file is removed when its day is more than so many days before today; so today's and those of the
    ``keep`` days before it are there. That is looked at with the first batch and when the date changes.
    ``every``: the longest an event waits to be written, in seconds; so much may be lost with ``kill -9``, and
    nothing when the process ends by itself. ``limit``: how much text may wait, in bytes, while nothing can be written.
    ``size``: most bytes of one file. ``now`` gives Unix seconds, for tests.

    Pieces of a streamed answer (``llm.token``) are joined: one line for an answer and batch. An event of more than
    64 KB, or one that JSON cannot hold, is summarised. Secrets are redacted.

    Several processes and several ``DailyLog`` may write to one folder. A child after ``fork`` begins with nothing to
    write. When the file cannot be written, ``health.warning`` for ``log`` is emitted and logged, once until it can
    be again; when lines had to be dropped, another one for ``log.dropped`` tells how many. When a file is full,
    ``health.warning`` for ``log.full`` tells how many lines this process dropped: with the first, whenever they
    are ten times as many, and when the day or the process ends.

    Raises ``ConfigError`` at ``keep``, ``every``, ``limit`` or ``size``. Nothing is read or written
    before the first event.
    """

    def __init__(
        self,
        corpus: Corpus,
        folder: Path,
        *,
        keep: int = KEEP,
        every: float = EVERY,
        limit: int = LIMIT,
        size: int = SIZE,
        now: Callable[[], float] = time.time,
    ) -> None:
        _check(keep >= 0, "keep", f"expected 0 days or more, got {keep}")
        _check(0 < every <= 3600, "every", f"expected more than 0 and at most 3600 seconds, got {every}")
        _check(limit >= _EARLY, "limit", f"expected at least {_EARLY} bytes, got {limit}")
        self._corpus = corpus
        _check(size >= _EARLY, "size", f"expected at least {_EARLY} bytes, got {size}")
        self._files = DayFiles(folder, keep, size)
        self._size = size
        self._kept = timedelta(days=keep)
        self._every = every
        self._limit = limit
        self._now = now
        self._cleaned: date | None = None
        self._exiting = False
        self._closed = False
        self.begin_anew()
        _open_logs.add(self)
        self._off = corpus.on(CorpusEvent, self.take, inline=True, ahead=True)

    def begin_anew(self) -> None:
        """Forgets what waits, the thread and who holds the locks: all that is the parent's, in a child after fork."""
        self._lock = threading.RLock()  # a signal's handler may emit while this thread is in here
        self._changed = threading.Condition(self._lock)
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._idle = True
        """Whether the thread (or that there is none) must be told when something comes."""
        self._urgent = False
        self._days: dict[str, deque[bytes]] = {}
        """The lines that are in no batch yet. Anybody may append at any time; to take out one holds the lock."""
        self._stamp = _NEVER
        self._room = _BATCH
        """How many bytes until they are made a batch. Threads may miscount by a little."""
        self._batches: deque[LineBatch] = deque()
        self._waiting = 0
        """The size of the batches, in bytes."""
        self._answers: dict[tuple[str | None, str | None], _Answer] = {}
        self._dropped = 0
        self._overflow: dict[str, _Overflow] = {}
        """For each day whose file is full, what this process dropped."""
        self._trouble: str | None = None
        self._files.after_fork()

    # --- writing -------------------------------------------------------------------------------------

    def flush(self) -> bool:
        """Writes what was emitted before; False if it cannot be written now, and is kept."""
        if not self._writing.acquire(timeout=2 * PATIENCE):
            return False
        fault: BaseException | None = None
        try:
            with self._lock:
                self._end_answers()
                self._seal()
                left = len(self._batches)
            while left > 0 and (batches := self._next()):
                left -= len(batches)
                fault = self._write(batches)
                if fault is not None:
                    break
        finally:
            self._writing.release()
        self._tell(fault)
        self._tell_overflow()
        return fault is None

    def close(self) -> None:
        """Writes what is left and ends. Idempotent."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self._corpus.flush(PATIENCE)
        self.flush()  # what it has to tell about itself comes in while it still listens
        self._tell_overflow(ended=True)
        self._off()
        self.finish()
        _open_logs.discard(self)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(2 * PATIENCE)

    def finish(self) -> None:
        """Writes what is left and, from here on, each event at once: the process is ending, its threads may be gone."""
        self._exiting = self._idle = True
        if not self.flush():
            with self._lock:
                lost = sum(len(batch.lines) for batch in self._batches)
            logger.warning("daily log: %d lines were lost at the end of the process: %s", lost, self._trouble)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside: events become lines -----------------------------------------------------------------

    def take(self, event: CorpusEvent) -> None:
        """Have an event written, as when the bus tells of it.

        The way that most events go is all here, because it is the emitter's time.
        """
        try:
            payload = _plain(event)
            if len(payload) > MAX_PAYLOAD:
                payload = _carefully(event)
        except Exception:  # noqa: BLE001 - whatever an object of the caller's own does
            payload = _carefully(event)
        own, found, rest = payload.rpartition(AT)
        if found:  # as without_moment() does it
            comma = rest.find(b",")
            rest = own + (b"}\n" if comma < 0 else rest[comma:] + b"\n")
        else:
            rest = without_moment(payload)
        start, end, beginnings, append = self._stamp
        beginning = beginnings.get(event.__class__)
        try:
            if beginning is None or not start <= event.at < end:
                beginning = None
        except TypeError:  # a moment that is none
            beginning = None
        if beginning is None:
            with self._lock:
                self._take_slowly(event, rest)
        else:
            line = beginning + rest
            append(line)
            self._room -= len(line)
        if self._idle or self._room <= 0:
            self._attend()

    def _attend(self) -> None:
        """Wakes the thread; makes a batch of what is enough for one."""
        batch = None
        with self._lock:
            if self._idle and not self._exiting:
                self._wake()
            if self._room <= 0:
                batch = self._full()
        if self._exiting:
            self.flush()
        elif batch is not None:
            batch.finish()

    def _take_slowly(self, event: CorpusEvent, rest: bytes) -> None:
        """What is not so with most events: another second, the first of its sort in it, a piece of an answer."""
        if isinstance(event, LlmToken) and isinstance(event.delta, str):
            self._join(event)
            return
        if isinstance(event, LlmResponse | LlmError):
            self._end_answer((event.namespace, event.instance))
        self._add(event, rest)

    def _add(self, event: CorpusEvent, rest: bytes) -> None:
        """Puts a line where the event's own moment belongs."""
        kind = event.__class__
        local = self._local(event.at)
        if local is None:
            local, rest = time.localtime(self._now()), _carefully(event) + b"\n"
            beginning = _beginning(local, kind)
            lines = self._lines_of(local)
        else:
            beginning = _beginning(local, kind)
            lines = self._lines_of(local)
            start, end, beginnings, _ = self._stamp
            if not start <= event.at < end:
                second, beginnings = int(event.at), {}
                self._stamp = (second, second + 1, beginnings, lines.append)
            if not issubclass(kind, LlmToken | LlmResponse | LlmError):
                beginnings[kind] = beginning
        lines.append(beginning + rest)
        self._room -= len(beginning) + len(rest)

    def _local(self, at: float) -> time.struct_time | None:
        """An event's moment in local time; None if it is too far from today, or no moment at all."""
        try:
            local = time.localtime(at)
            today = self._today()
            if at >= 0 and today - self._kept <= _date(local) <= today + timedelta(days=1):
                return local
        except (TypeError, ValueError, OverflowError, OSError):
            pass
        return None

    def _today(self) -> date:
        return _date(time.localtime(self._now()))

    def _lines_of(self, local: time.struct_time) -> deque[bytes]:
        """Where lines of this day go."""
        day = time.strftime("%Y-%m-%d", local)
        lines = self._days.get(day)
        if lines is None:
            lines = self._days[day] = deque()
        return lines

    def _seal(self) -> LineBatch | None:
        """Makes batches of all lines; returns the last."""
        batch = None
        self._room = _BATCH
        for day, lines in tuple(self._days.items()):
            if lines:
                batch = LineBatch(day)
                self._batches.append(batch)
                batch.take(lines)
                self._waiting += batch.size
        self._bound()
        return batch

    def _full(self) -> LineBatch | None:
        """Makes a batch; returns it if the emitter should redact it himself."""
        batch = self._seal()
        if self._waiting >= _EARLY and not self._urgent:
            self._urgent = True
            self._changed.notify_all()
        return batch if self._waiting > _BEHIND and self._trouble is None else None

    def _bound(self) -> None:
        """Drops the oldest lines if too much waits; those of ``safety.*`` only if there are no others left."""
        if self._waiting <= self._limit:
            return
        enough = self._limit * 9 // 10
        for batch in tuple(self._batches):
            if self._waiting <= enough:
                break
            if batch.lean or not batch.lock.acquire(blocking=False):
                continue
            try:
                kept = list(filter(is_reserved, batch.lines))
                self._dropped += len(batch.lines) - len(kept)
                self._waiting -= batch.size
                batch.lines, batch.lean = kept, True
                batch.size = sum(map(len, kept)) + _OVERHEAD if kept else 0
                self._waiting += batch.size
            finally:
                batch.lock.release()
        self._batches = deque(batch for batch in self._batches if batch.lines)
        while self._waiting > self._limit and self._batches:
            batch = self._batches.popleft()
            self._waiting -= batch.size
            self._dropped += len(batch.lines)

    # --- inside: streamed answers --------------------------------------------------------------------

    def _join(self, event: LlmToken) -> None:
        """Keeps a piece until its answer is complete, or long, or the batch is written."""
        whose = (event.namespace, event.instance)
        if len(event.delta) > _MAX_JOINED:
            self._end_answer(whose)
            self._add(event, without_moment(_carefully(event)))
            return
        answer = self._answers.get(whose)
        if answer is not None and answer.length + len(event.delta) > _MAX_JOINED:
            self._end_answer(whose)
            answer = None
        if answer is None:
            if len(self._answers) >= _MAX_ANSWERS:
                self._end_answers()
            answer = self._answers[whose] = _Answer(event)
        answer.pieces.append(event.delta)
        answer.length += len(event.delta)
        if self._exiting:
            self._end_answers()

    def _end_answer(self, whose: tuple[str | None, str | None]) -> None:
        """Makes a line of the pieces that came so far."""
        answer = self._answers.pop(whose, None)
        if answer is not None:
            joined = msgspec.structs.replace(answer.first, delta="".join(answer.pieces))
            self._add(joined, without_moment(_carefully(joined)))

    def _end_answers(self) -> None:
        for whose in tuple(self._answers):
            self._end_answer(whose)

    # --- inside: lines reach the disk ----------------------------------------------------------------

    def _wake(self) -> None:
        """There is something to write: the time begins to run."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            self._changed.notify_all()
        elif not self._closed:
            _end_with_multiprocessing()
            self._thread = threading.Thread(target=self._run, name="daily log", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads: the next event tries again, and the end of the process writes
                self._thread = None
                return
        self._idle = False

    def _run(self) -> None:
        """The thread: writes a while after the first event came, or at once when there is much."""
        while True:
            with self._changed:
                self._idle = True  # who appends after this sees it; what was appended before is seen here
                self._changed.wait_for(
                    lambda: self._batches or self._answers or any(self._days.values()) or self._closed
                )
                self._idle = self._exiting
                self._changed.wait_for(lambda: self._closed or (self._urgent and not self._trouble), self._every)
                if self._closed:
                    return
                self._urgent = False
            try:
                self.flush()
            except Exception:  # pragma: no cover - not known to happen
                logger.exception("daily log")

    def _next(self) -> list[LineBatch]:
        """Takes the oldest complete batches of one day, up to a few megabytes."""
        found: list[LineBatch] = []
        size = 0
        with self._lock:
            while self._batches:
                batch = self._batches[0]
                if found and (batch.day != found[0].day or size + batch.size > _BEHIND):
                    break
                found.append(self._batches.popleft())
                size += batch.size
            self._waiting -= size
        return found

    def _write(self, batches: list[LineBatch]) -> BaseException | None:
        """Writes batches of one day; if that fails they are put back, and the reason is returned."""
        done = False
        try:
            today = self._today()
            if today != self._cleaned:
                self._new_day(today)
            for batch in batches:
                batch.finish()
            dropped = self._files.append(batches[0].day, [line for batch in batches for line in batch.lines])
            done = True
            if dropped:
                self._overflow.setdefault(batches[0].day, _Overflow()).lines += dropped
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is told, and tried again
            return fault
        finally:
            if not done:
                with self._lock:
                    self._batches.extendleft(reversed(batches))
                    self._waiting += sum(batch.size for batch in batches)
                    self._bound()
        return None

    def _new_day(self, today: date) -> None:
        """Removes old files, and the empty queues of days that are past."""
        with self._lock:
            past = str(today - self._kept)
            self._days = {day: lines for day, lines in self._days.items() if lines or day >= past}
            self._stamp = _NEVER
        self._files.clean(today)
        self._cleaned = today
        for day, overflow in self._overflow.items():
            overflow.ended = day < str(today)

    def _tell(self, fault: BaseException | None) -> None:
        """Makes known that the log cannot be written, or that it can be again and what was lost meanwhile."""
        with self._lock:
            before, dropped = self._trouble, 0
            self._trouble = None if fault is None else before or _reason(fault)
            if fault is None:
                dropped, self._dropped = self._dropped, 0
        if fault is not None and before is None:
            logger.warning("daily log: cannot be written, and is kept for now: %s", fault)
            self._corpus.emit(HealthWarning("log", _reason(fault), "writable"))
        if fault is None and before is not None:
            logger.warning("daily log: can be written again")
        if dropped:
            logger.warning("daily log: %d lines were dropped, more than %d bytes waited", dropped, self._limit)
            self._corpus.emit(HealthWarning("log.dropped", dropped, 0))

    def _tell_overflow(self, *, ended: bool = False) -> None:
        """Say in the log how many lines of a full file this process dropped; ``ended``: the process closes it."""
        for day, overflow in tuple(self._overflow.items()):
            if overflow.lines > overflow.told and (ended or overflow.ended or overflow.lines >= _MORE * overflow.told):
                overflow.told = overflow.lines
                logger.warning("daily log: %s is full, %d lines were dropped", self._files.path(day), overflow.lines)
                said = f"{overflow.lines} lines of {day} were dropped"
                self._corpus.emit(HealthWarning("log.full", said, f"{self._size} bytes"))
            if overflow.ended:
                self._overflow.pop(day, None)


class _Overflow:
    """Number of lines that were dropped from one day's full file, and the number that the log last told."""

    __slots__ = ("ended", "lines", "told")

    def __init__(self) -> None:
        self.lines = self.told = 0
        self.ended = False


class _Answer:
    """A model's answer while it comes: its first piece, all texts, and how many characters they have."""

    __slots__ = ("first", "length", "pieces")

    def __init__(self, first: LlmToken) -> None:
        self.first = first
        self.pieces: list[str] = []
        self.length = 0


def _carefully(event: CorpusEvent) -> bytes:
    """The payload, summarised where it must be."""
    try:
        return encode(event)
    except Exception as fault:  # noqa: BLE001
        return b'{"unreadable":"%s"}' % type(fault).__name__.encode()


def _date(local: time.struct_time) -> date:
    return date(*local[:3])


def _beginning(local: time.struct_time, kind: type[CorpusEvent]) -> bytes:
    return f"{local.tm_hour:02}:{local.tm_min:02}:{local.tm_sec:02} | {kind.dotted} | ".encode()


def _reason(fault: BaseException) -> str:
    """The fault in words, without paths."""
    return (isinstance(fault, OSError) and fault.strerror) or type(fault).__name__


def _check(fits: bool, at: str, message: str) -> None:
    if not fits:
        raise ConfigError(message, at=at)


# --- the end of the process, and children ---------------------------------------------------------------

_open_logs: Final[weakref.WeakSet[DailyLog]] = weakref.WeakSet()


def _finish_all() -> None:
    for log in tuple(_open_logs):
        log.finish()


def _begin_all_anew() -> None:
    for log in tuple(_open_logs):
        log.begin_anew()


def _end_with_multiprocessing() -> None:
    """Children of ``multiprocessing`` end without ``atexit``, but with finalizers of their own."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _finish_all, exitpriority=-100)


atexit.register(_finish_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all_anew)
