"""The daily log: one line for each event of the bus, one file a day, for people to read.

::

    with Corpus() as corpus, DailyLog(corpus, state / FOLDER):
        corpus.emit(ToolCompleted("github_prs", output="3 open", duration=1204.0, instance="mira"))

    ## 2026-05-16

    09:15:06 | tool.completed | {"name":"github_prs","output":"3 open","duration":1204.0,"instance":"mira"}

The emitting thread encodes the event and puts its line into a queue. A background thread redacts and writes::

    emit ──> lines of the day ──32 KB, or flush──> LineBatch ──every 2 s, or at 1 MB──> redacted ──> DayFiles

* Emitting never fails because of the log, takes no lock and never waits for the disk. Lines that cannot be written are
  kept, up to ``limit`` bytes, and tried again every ``every`` seconds. Beyond the limit the oldest lines are dropped,
  ``safety.*`` last.
* A file that reaches its size limit takes no more lines; ``safety.*`` is refused last. The log states how many lines
  were dropped.
* When events come faster than one thread can redact, emitting threads help: about once in a hundred events the emitter
  redacts a batch itself.
"""

from __future__ import annotations

import logging
import math
import threading
import time
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
from callosum.corpus.log_lines import AT, JournalledLine, finished, without_moment
from callosum.corpus.worker import Worker, WorkerJob
from callosum.errors import ConfigError

logger = logging.getLogger("callosum")

FOLDER: Final = Path("brain", "corpus")
"""Folder of the files, below the state folder."""
KEEP: Final = 7
EVERY: Final = 2.0
LIMIT: Final = 32 * 1024 * 1024
SIZE: Final = 100_000_000
"""Most bytes of one day's file, unless the settings say otherwise."""

_BATCH: Final = 32 * 1024
_EARLY: Final = 1024 * 1024
"""Bytes that are written at once, before the two seconds are over."""
_BEHIND: Final = 4 * 1024 * 1024
"""Waiting bytes from which emitters help to redact; also the most bytes of one write."""
_OVERHEAD: Final = 500
"""Bytes that a batch takes in memory besides its lines."""
_MAX_JOINED: Final = 10_000
"""Most characters of a streamed answer in one line. However they are escaped, they stay below ``MAX_PAYLOAD``."""
_MAX_ANSWERS: Final = 1000
_MORE: Final = 10
"""Factor by which the number of lines lost to a full file must grow before the log states it again."""

_plain: Final = msgspec.json.Encoder().encode


class LineBatch:
    """Lines of one day that wait to be written.

    ``size`` is in bytes. ``lean`` is True if the batch holds only lines that are dropped last.
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
        """Move all lines out of a queue into this batch.

        It happens in one step, so a signal handler runs before or after it and no line is lost.
        """
        with suppress(IndexError):
            self.lines.extend(starmap(lines.popleft, repeat((), len(lines))))
        self.size = sum(map(len, self.lines)) + _OVERHEAD

    def finish(self) -> None:
        """Redact the lines, once. A second caller waits for the first."""
        with self.lock:
            if self._finished:
                return
            try:
                self.lines = finished(self.lines)
            except Exception:  # lines that cannot be redacted are not written
                logger.exception("daily log: %d lines could not be redacted, and are left out", len(self.lines))
                self.lines = []
            self._finished = True


_Stamp = tuple[float, float, dict[type[CorpusEvent], bytes], Callable[[bytes], None]]
"""One second of the log: start, end, the beginning of a line for each event class, and the function that takes a line.
"""
_NEVER: Final[_Stamp] = (math.inf, -math.inf, {}, deque[bytes]().append)


class DailyLog:
    """Write every event of a bus into ``folder``, one file a day (``2026-05-16.log.md``).

    A line has the local time of the event (``at``), its dotted name and its payload in camelCase: first the event's own
    fields, then ``instance``, ``namespace``, ``callId``, ``id`` and ``cause`` where they are known. It is written to
    the file of the event's own local date. If that day is no longer kept, or is later than tomorrow, the line goes to
    the current file and carries its ``at``.

    ``keep``: number of days before today whose files are kept. Older files are removed with the first batch and when
    the date changes. ``every``: most seconds that an event waits to be written. ``kill -9`` loses at most these
    seconds; a normal exit loses nothing. ``limit``: most bytes that wait while the file cannot be written. ``size``:
    most bytes of one file. ``now`` returns Unix seconds; tests replace it. ``worker`` is the thread that writes
    (default: one of its own).

    Pieces of a streamed answer (``llm.token``) are joined into one line per answer and batch. An event of more than 64
    KB, or one that JSON cannot represent, is summarised. Secrets are redacted.

    Several processes and several ``DailyLog`` may write to one folder. After ``fork`` the child starts with nothing to
    write. When the file cannot be written, ``health.warning`` for ``log`` is emitted and logged, once until writing
    works again; if lines were dropped, a ``health.warning`` for ``log.dropped`` has their number. When a file is full,
    ``health.warning`` for ``log.full`` has the number of lines that this process dropped: at the first drop, each time
    the number is ten times as high, and when the day or the process ends.

    Raises ``ConfigError`` at ``keep``, ``every``, ``limit`` or ``size``. Nothing is read or written before the first
    event.
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
        worker: Worker | None = None,
    ) -> None:
        _check(keep >= 0, "keep", f"expected 0 days or more, got {keep}")
        _check(0 < every <= 3600, "every", f"expected more than 0 and at most 3600 seconds, got {every}")
        _check(limit >= _EARLY, "limit", f"expected at least {_EARLY} bytes, got {limit}")
        self._corpus = corpus
        _check(size >= _EARLY, "size", f"expected at least {_EARLY} bytes, got {size}")
        self._files = DayFiles(folder, keep, size)
        self._size = size
        self._kept = timedelta(days=keep)
        self._limit = limit
        self._now = now
        self._cleaned: date | None = None
        self._exiting = False
        self._closed = False
        self.begin_anew()
        self._job = WorkerJob(worker or Worker(), self._write_due, every, renew=self.begin_anew, finish=self.finish)
        """``idle`` if the thread must be asked when a line arrives."""
        self._off = corpus.on(CorpusEvent, self.take, ahead=True)

    def begin_anew(self) -> None:
        """Reset in a forked child: waiting lines and the locks belong to the parent."""
        self._lock = threading.RLock()  # reentrant: a signal handler may emit while this thread holds it
        self._writing = threading.Lock()
        self._urgent = False
        self._days: dict[str, deque[bytes]] = {}
        """Lines that are in no batch yet, by day. Any thread may append; taking lines out needs the lock."""
        self._stamp = _NEVER
        self._room = _BATCH
        """Bytes left until the lines become a batch. Threads may miscount slightly."""
        self._batches: deque[LineBatch] = deque()
        self._waiting = 0
        """Bytes of all waiting batches."""
        self._answers: dict[tuple[str | None, str | None], _Answer] = {}
        self._dropped = 0
        self._overflow: dict[str, _Overflow] = {}
        """For each day whose file is full, the lines that this process dropped."""
        self._trouble: str | None = None
        self._files.after_fork()

    # --- writing -------------------------------------------------------------------------------------

    def flush(self) -> bool:
        """Write everything that was emitted before this call. Return False if it cannot be written now; it is kept."""
        if not self._writing.acquire(timeout=2 * PATIENCE):
            return False
        fault: BaseException | None = None
        try:
            with self._lock:
                self._end_answers()
                self._seal()
                unwritten = len(self._batches)
            while unwritten > 0 and (batches := self._next()):
                unwritten -= len(batches)
                fault = self._write(batches)
                if fault is not None:
                    break
        finally:
            self._writing.release()
        self._tell(fault)
        self._tell_overflow()
        return fault is None

    def close(self) -> None:
        """Write the remaining lines and stop. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._corpus.flush(PATIENCE)
        self.flush()  # warnings about the log itself are emitted here, while it still listens
        self._tell_overflow(ended=True)
        self._off()
        self.finish()
        self._job.end()

    def finish(self) -> None:
        """Write the remaining lines, and from now on each event at once.

        The process is ending, and its threads may be gone already.
        """
        self._exiting = self._job.idle = True
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

    def take(self, event: CorpusEvent, *, journalled: bool = False) -> None:
        """Queue an event to be written; the bus calls this for every event.

        ``journalled``: it was made from a journal entry, so it holds no secret. The common path is written out here in
        full, because it runs in the emitter's thread.
        """
        try:
            payload = _plain(event)
            if len(payload) > MAX_PAYLOAD:
                payload = _carefully(event)
        except Exception:  # noqa: BLE001 - objects in a payload may raise anything when they are encoded
            payload = _carefully(event)
        own_fields, has_moment, rest = payload.rpartition(AT)
        if has_moment:  # the same as without_moment(), inlined
            comma = rest.find(b",")
            rest = own_fields + (b"}\n" if comma < 0 else rest[comma:] + b"\n")
        else:
            rest = without_moment(payload)
        start, end, beginnings, append = self._stamp
        beginning = beginnings.get(event.__class__)
        try:
            if beginning is None or not start <= event.at < end:
                beginning = None
        except TypeError:  # ``at`` is not a number
            beginning = None
        if beginning is None:
            with self._lock:
                self._take_slowly(event, rest)
        else:
            line = beginning + rest
            append(JournalledLine(line) if journalled or event is self._corpus.journalled else line)
            self._room -= len(line)
        if self._job.idle or self._room <= 0:
            self._attend()

    def _attend(self) -> None:
        """Ask for the thread, and make a batch if there are enough lines."""
        batch = None
        with self._lock:
            if self._job.idle and not self._exiting and not self._closed:
                self._job.soon()
            if self._room <= 0:
                batch = self._full()
        if self._exiting:
            self.flush()
        elif batch is not None:
            batch.finish()

    def _take_slowly(self, event: CorpusEvent, rest: bytes) -> None:
        """Handle the rare cases: a new second, the first event of its class in it, a piece of a streamed answer."""
        if isinstance(event, LlmToken) and isinstance(event.delta, str):
            self._join(event)
            return
        if isinstance(event, LlmResponse | LlmError):
            self._end_answer((event.namespace, event.instance))
        self._add(event, rest)

    def _add(self, event: CorpusEvent, rest: bytes) -> None:
        """Queue a line for the day of the event's own moment."""
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
        """Return an event's moment in local time; None if it is not a moment, or its day has no file."""
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
        """Return the queue for lines of this day."""
        day = time.strftime("%Y-%m-%d", local)
        lines = self._days.get(day)
        if lines is None:
            lines = self._days[day] = deque()
        return lines

    def _seal(self) -> LineBatch | None:
        """Move all lines into batches; return the last batch."""
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
        """Make a batch; return it if the emitter should redact it itself."""
        batch = self._seal()
        if self._waiting >= _EARLY and not self._urgent:
            self._urgent = True
            if self._trouble is None:
                self._job.soon(0)
        return batch if self._waiting > _BEHIND and self._trouble is None else None

    def _bound(self) -> None:
        """Drop the oldest lines if too many bytes wait; ``safety.*`` only when nothing else is left."""
        if self._waiting <= self._limit:
            return
        enough = self._limit * 9 // 10
        for batch in tuple(self._batches):
            if self._waiting <= enough:
                break
            if batch.lean or not batch.lock.acquire(blocking=False):
                continue
            try:
                reserved = list(filter(is_reserved, batch.lines))
                self._dropped += len(batch.lines) - len(reserved)
                self._waiting -= batch.size
                batch.lines, batch.lean = reserved, True
                batch.size = sum(map(len, reserved)) + _OVERHEAD if reserved else 0
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
        """Keep a piece of a streamed answer until the answer ends, grows long, or the batch is written."""
        session = (event.namespace, event.instance)
        if len(event.delta) > _MAX_JOINED:
            self._end_answer(session)
            self._add(event, without_moment(_carefully(event)))
            return
        answer = self._answers.get(session)
        if answer is not None and answer.length + len(event.delta) > _MAX_JOINED:
            self._end_answer(session)
            answer = None
        if answer is None:
            if len(self._answers) >= _MAX_ANSWERS:
                self._end_answers()
            answer = self._answers[session] = _Answer(event)
        answer.pieces.append(event.delta)
        answer.length += len(event.delta)
        if self._exiting:
            self._end_answers()

    def _end_answer(self, session: tuple[str | None, str | None]) -> None:
        """Write the pieces that arrived so far as one line."""
        answer = self._answers.pop(session, None)
        if answer is not None:
            joined = msgspec.structs.replace(answer.first, delta="".join(answer.pieces))
            self._add(joined, without_moment(_carefully(joined)))

    def _end_answers(self) -> None:
        for session in tuple(self._answers):
            self._end_answer(session)

    # --- inside: lines reach the disk ----------------------------------------------------------------

    def _write_due(self) -> None:
        """Write what waits, some seconds after the first event, or at once when many bytes wait; the job's work."""
        self._urgent = False
        if not self.flush() and not self._exiting:
            self._job.soon()

    def _next(self) -> list[LineBatch]:
        """Take the oldest batches of one day, up to a few megabytes."""
        batches: list[LineBatch] = []
        size = 0
        with self._lock:
            while self._batches:
                batch = self._batches[0]
                if batches and (batch.day != batches[0].day or size + batch.size > _BEHIND):
                    break
                batches.append(self._batches.popleft())
                size += batch.size
            self._waiting -= size
        return batches

    def _write(self, batches: list[LineBatch]) -> BaseException | None:
        """Write batches of one day. If that fails, put them back and return the error."""
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
        except Exception as fault:  # noqa: BLE001 - every error is reported, and the write is tried again
            return fault
        finally:
            if not done:
                with self._lock:
                    self._batches.extendleft(reversed(batches))
                    self._waiting += sum(batch.size for batch in batches)
                    self._bound()
        return None

    def _new_day(self, today: date) -> None:
        """Remove old files and the empty queues of past days."""
        with self._lock:
            past = str(today - self._kept)
            self._days = {day: lines for day, lines in self._days.items() if lines or day >= past}
            self._stamp = _NEVER
        self._files.clean(today)
        self._cleaned = today
        for day, overflow in self._overflow.items():
            overflow.ended = day < str(today)

    def _tell(self, fault: BaseException | None) -> None:
        """Report that the log cannot be written; or that it can be again, and how many lines were lost."""
        with self._lock:
            before, dropped = self._trouble, 0
            self._trouble = None if fault is None else before or _reason(fault)
            if fault is None:
                dropped, self._dropped = self._dropped, 0
        if fault is not None and before is None:
            logger.warning("daily log: cannot be written, so its lines are kept for now: %s", fault)
            self._corpus.emit(HealthWarning("log", _reason(fault), "writable"))
        if fault is None and before is not None:
            logger.warning("daily log: can be written again")
        if dropped:
            logger.warning("daily log: %d lines were dropped, because more than %d bytes waited", dropped, self._limit)
            self._corpus.emit(HealthWarning("log.dropped", dropped, 0))

    def _tell_overflow(self, *, ended: bool = False) -> None:
        """Report how many lines of a full file this process dropped. ``ended``: the process is closing the log."""
        for day, overflow in tuple(self._overflow.items()):
            if overflow.lines > overflow.told and (ended or overflow.ended or overflow.lines >= _MORE * overflow.told):
                overflow.told = overflow.lines
                logger.warning("daily log: %s is full, %d lines were dropped", self._files.path(day), overflow.lines)
                loss = f"{overflow.lines} lines of {day} were dropped"
                self._corpus.emit(HealthWarning("log.full", loss, f"{self._size} bytes"))
            if overflow.ended:
                self._overflow.pop(day, None)


class _Overflow:
    """Number of lines dropped from one day's full file, and the number reported last."""

    __slots__ = ("ended", "lines", "told")

    def __init__(self) -> None:
        self.lines = self.told = 0
        self.ended = False


class _Answer:
    """A streamed answer in progress: its first event, the texts of all pieces, and their length in characters."""

    __slots__ = ("first", "length", "pieces")

    def __init__(self, first: LlmToken) -> None:
        self.first = first
        self.pieces: list[str] = []
        self.length = 0


def _carefully(event: CorpusEvent) -> bytes:
    """Return the payload, summarised where it is too large or cannot be encoded."""
    try:
        return encode(event)
    except Exception as fault:  # noqa: BLE001
        return b'{"unreadable":"%s"}' % type(fault).__name__.encode()


def _date(local: time.struct_time) -> date:
    return date(*local[:3])


def _beginning(local: time.struct_time, kind: type[CorpusEvent]) -> bytes:
    return f"{local.tm_hour:02}:{local.tm_min:02}:{local.tm_sec:02} | {kind.dotted} | ".encode()


def _reason(fault: BaseException) -> str:
    """Return the error in words, without paths."""
    return (isinstance(fault, OSError) and fault.strerror) or type(fault).__name__


def _check(fits: bool, at: str, message: str) -> None:
    if not fits:
        raise ConfigError(message, at=at)
