"""Read answers, errors and compactions from hosts' transcripts and emit them as events of the corpus.

No hook reports these. Each hook event of a session wakes a thread that reads the new part of the session's transcript::

    hook event ── look ──> sessions that are due ── thread ──> new lines ── the host's TranscriptReader ──> corpus

* A decision never waits for the transcript. In one pass the thread uses at most ``BUDGET`` of processor time, then it
rests. * A transcript is read only for a host process of this user on this machine, and only as a regular file of this
user below the host's own folder, with links resolved. Its text is untrusted: it is cut and redacted like a remote
host's. * Between two hook events an active session is polled every ``POLL`` seconds, because no hook reports errors. *
The state folder keeps the offset reached in each transcript, so that a new gate continues there.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from callosum.corpus.events import CorpusEvent, InputRouted, cleaned
from callosum.errors import CallosumError
from callosum.hosts import files
from callosum.hosts.adapters import code_of
from callosum.hosts.payload import name_if
from callosum.refusals import open_below

if TYPE_CHECKING:
    from callosum.hosts.events import HostIdentity, HostSession
    from callosum.hosts.hook_adapter import HookAdapter
    from callosum.model import Host
    from callosum.programs.program import Program

logger = logging.getLogger("callosum")

FILE: Final = "transcripts.json"
SOURCE: Final = "transcript"
BUDGET: Final = 0.001
"""Seconds of processor time that one pass may use."""
REST: Final = 0.1
"""Seconds from a hook event to the pass, and between two passes."""
POLL: Final = 2.0
"""Seconds between two polls of an active session's transcript while no hook event arrives."""
KEEP: Final = 10.0
"""Seconds between two times that the offsets are saved while sessions are active.

After a crash, the lines read since the last save are emitted again.
"""
_FORGET: Final = 3600.0
"""Seconds without an event after which a session is no longer active."""
_CHUNK: Final = 65_536
_LONGEST: Final = 262_144
"""Length in bytes above which a line is skipped; reading it would use half of the budget."""
_BACKLOG: Final = 16 * _LONGEST
"""Number of bytes read of a transcript that was already long when its first hook event arrived."""
_SLACK: Final = 10.0
"""Seconds before a session's first hook event from which on its transcript is reported."""
_MOST: Final = 1000
"""Number of transcripts whose offsets are kept."""

Offsets = OrderedDict[str, tuple[int, int]]


class TranscriptReader(Protocol):
    """Read the lines of one transcript, in order. ``CorpusEvent.at`` is the transcript's own time."""

    provider: str
    """Name of the model's provider, or "" while it is unknown."""

    def read(self, line: bytes) -> Iterable[CorpusEvent]:
        """Return the events of a line. Raises ``msgspec.DecodeError`` for a malformed line."""
        ...


class Transcripts:
    """Read the transcripts of sessions whose hook events arrive, and emit their events.

    ``look`` may be called from any thread and costs almost nothing. ``close`` reads what is due and ends the thread.
    """

    def __init__(
        self, emit: Callable[[CorpusEvent], object], state: Path, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._emit = emit
        self._notes = state / FILE
        self._clock = clock
        self._sessions: dict[tuple[str, str, str | None], _Session] = {}
        self._roots: OrderedDict[tuple[str, int, float], Path | None] = OrderedDict()
        self._places: Offsets | None = None
        self._changed = False
        self._kept = 0.0
        """Time at which the offsets were saved last."""
        self._bell = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def look(self, adapter: HookAdapter, payload: Mapping[str, Any], identity: HostIdentity, process: Host) -> None:
        """Schedule a read of the transcript that a hook event names. ``process`` is the host's process on this machine.

        The last event of a turn (``stop``, ``end``) ends the polling. If a prompt names its model, ``input.routed`` is
        emitted as soon as the transcript names the model's provider.
        """
        host = adapter.host
        path = adapter.transcript(payload)
        if not host.transcript or not host.transcripts or not path or not hasattr(os, "geteuid"):
            return
        actor = adapter.actor(payload, identity)
        on = host.events.get(str(payload.get("hook_event_name")))
        role = on.role if on is not None else "heard"
        model = name_if(payload, "model") if role == "prompt" else None
        with self._bell:
            if self._closed:
                return
            key = (actor.namespace, actor.name, path)
            session = self._sessions.get(key)
            if session is None:
                session = self._sessions[key] = _Session(host, actor, path, process, identity.home, self._clock())
                self._root(session)  # now, because a process that exits after its first turn cannot be inspected later
            session.due = True
            session.at_work = role not in ("stop", "child stop", "end")
            session.ended = role in ("child stop", "end")
            session.heard = time.monotonic()
            if model is not None:
                session.routed = InputRouted("", model, at=self._clock())
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="callosum-transcripts", daemon=True)
                self._thread.start()
            self._bell.notify_all()

    def flush(self) -> None:
        """Read everything that is due, however long it takes."""
        with self._bell:
            sessions = list(self._sessions.values())
        for session in sessions:
            self._read(session, budget=None)
        self._keep()

    def close(self) -> None:
        """Read the rest and stop. Idempotent."""
        with self._bell:
            if self._closed:
                return
            self._closed = True
            self._bell.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(5)
        self.flush()

    # --- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._bell:
                self._bell.wait_for(
                    lambda: self._closed or any(session.due for session in self._sessions.values()), POLL
                )
                self._bell.wait_for(lambda: self._closed, REST)  # let the hook's answer go out first
                if self._closed:
                    return
                now = time.monotonic()
                for key, session in list(self._sessions.items()):
                    if now - session.heard > _FORGET or (session.ended and not session.due):
                        del self._sessions[key]
                polled = (
                    session for session in self._sessions.values() if session.at_work and now - session.looked >= POLL
                )
                due = dict.fromkeys([*(session for session in self._sessions.values() if session.due), *polled])
            for session in due:
                try:
                    self._read(session, BUDGET)
                except Exception:
                    logger.exception("the transcript %s could not be read", session.path)
                    session.broken = True
            with self._bell:
                rests = not any(session.at_work for session in self._sessions.values())
                ends = not self._sessions
            if rests or now - self._kept >= KEEP:
                self._keep()
            with self._bell:
                if ends and not self._sessions:
                    self._thread = None
                    return

    def _read(self, session: _Session, budget: float | None) -> bool:
        """Read the new lines within a budget of processor time. Return whether there are more."""
        with session.lock:
            session.due, session.looked = False, time.monotonic()
            if session.broken:
                return False
            location = session.where = session.where or self._find(session)
            if location is None:
                session.broken = True
                return False
            try:
                descriptor = open_below(*location)
            except FileNotFoundError:
                return False  # a host creates the file with the first message of a session
            except OSError as error:
                logger.info("the transcript %s is not read: %s", session.path, error.strerror)
                session.broken = True
                return False
            try:
                more = self._read_on(session, descriptor, budget)
            finally:
                os.close(descriptor)
            if session.routed is not None and session.reader is not None and session.reader.provider:
                self._emit_for(session, replace(session.routed, provider=session.reader.provider))
                session.routed = None
        if more:
            session.due = True
        return more

    def _read_on(self, session: _Session, descriptor: int, budget: float | None) -> bool:
        status = os.fstat(descriptor)
        offsets, reader = self._begin(session, status, descriptor)
        ends = math.inf if budget is None else time.thread_time() + budget
        size, spent = _CHUNK, False
        while session.offset < status.st_size and not spent:
            chunk = os.pread(descriptor, size, session.offset)
            end = chunk.rfind(b"\n") + 1
            if not end:
                if len(chunk) < size:
                    break  # the line is being written
                if size < _LONGEST:
                    size *= 2
                    continue
                session.skips = True
                session.offset += len(chunk)
            else:
                for line in chunk[:end].splitlines(keepends=True):
                    session.offset += len(line)
                    if not session.skips:
                        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError, CallosumError):
                            for event in reader.read(line):
                                if event.at >= session.since:
                                    self._emit_for(session, replace(event, source=SOURCE))
                    session.skips = False
                    if spent := time.thread_time() >= ends:
                        break
                size = _CHUNK
        offset = (session.inode, session.offset)
        if offsets.get(session.path) != offset:
            self._changed = True
            offsets[session.path] = offset
            offsets.move_to_end(session.path)
        return spent and session.offset < status.st_size

    def _begin(self, session: _Session, status: os.stat_result, descriptor: int) -> tuple[Offsets, TranscriptReader]:
        """Set the offset to continue from: after the part read before, or at the start of a new file."""
        offsets = self._places = self._places if self._places is not None else _load(self._notes)
        reader = session.reader
        if reader is not None and session.inode == status.st_ino and session.offset <= status.st_size:
            return offsets, reader
        inode, offset = offsets.get(session.path, (0, 0))
        is_known = inode == status.st_ino and offset <= status.st_size
        reader = session.reader = code_of(session.host.transcript)()
        session.inode = status.st_ino
        session.offset = offset if is_known else max(0, status.st_size - _BACKLOG)
        session.skips = not is_known and session.offset > 0
        session.since = 0.0 if is_known else session.first - _SLACK
        if session.offset:  # the first line names the provider
            with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                for _ in reader.read(os.pread(descriptor, _LONGEST, 0).partition(b"\n")[0]):
                    pass
        return offsets, reader

    def _emit_for(self, session: _Session, event: CorpusEvent) -> None:
        now, actor = self._clock(), session.actor
        at = min(event.at, now) if event.at > 0 else now
        self._emit(replace(cleaned(event), at=at, instance=actor.name, namespace=actor.namespace))

    # --- Locations ---------------------------------------------------------------------------------------

    def _find(self, session: _Session) -> tuple[Path, str] | None:
        """Return the folder of the transcripts and the path below it, or None if the file may not be read."""
        root = self._root(session)
        path = Path(os.path.realpath(session.path))
        if root is None or not path.is_relative_to(root) or path == root:
            return None
        return root, path.relative_to(root).as_posix()

    def _root(self, session: _Session) -> Path | None:
        """Return the folder of the transcripts of a host's process, or None if it is not this user's process."""
        process = session.process
        process_key = (session.host.name, process.pid, process.started)
        if process_key not in self._roots:
            self._roots[process_key] = _root_of(session.host, process, session.home)
            while len(self._roots) > _MOST:
                self._roots.popitem(last=False)
        return self._roots[process_key]

    def _keep(self) -> None:
        """Save the offsets."""
        if not self._changed or self._places is None:
            return
        self._changed, self._kept = False, time.monotonic()
        merged = _load(self._notes)
        for path, (inode, offset) in self._places.items():
            previous = merged.pop(path, (0, 0))
            merged[path] = (inode, max(offset, previous[1]) if previous[0] == inode else offset)
        while len(merged) > _MOST:
            merged.popitem(last=False)
        with suppress(OSError):
            files.write(self._notes, json.dumps(merged).encode())


class _Session:
    """Hold a transcript and the offset reached in it."""

    def __init__(
        self, host: Program, actor: HostSession, path: str, process: Host, home: str | None, first: float
    ) -> None:
        self.host, self.actor, self.path, self.process, self.home, self.first = host, actor, path, process, home, first
        self.lock = threading.Lock()
        self.due = self.at_work = self.ended = self.broken = self.skips = False
        self.heard = self.looked = 0.0
        self.routed: InputRouted | None = None
        self.where: tuple[Path, str] | None = None
        self.reader: TranscriptReader | None = None
        self.inode = self.offset = 0
        self.since = 0.0


def _root_of(host: Program, process: Host, home: str | None) -> Path | None:
    import psutil  # noqa: PLC0415 - takes a server longer to load than most of its parts

    try:
        running = psutil.Process(process.pid)
        if running.uids().real != os.geteuid():
            return None
        environ = running.environ()
    except (psutil.Error, OSError):
        return None
    folder = host.settings_folder(Path(home or environ.get("HOME") or Path.home()), environ)
    return Path(os.path.realpath(folder / host.transcripts))


def _load(path: Path) -> Offsets:
    """Return the saved offsets, or none if the file cannot be read."""
    try:
        saved = json.loads(path.read_bytes())
        return OrderedDict((str(name), (int(inode), int(offset))) for name, (inode, offset) in saved.items())
    except (OSError, ValueError, TypeError, AttributeError):
        return OrderedDict()


def count(value: int | None) -> int:
    """Return a token count within the range that JSON can carry."""
    return min(max(value or 0, 0), 2**53)
