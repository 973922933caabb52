"""Calls that ran while no gate could be asked, kept until one can.

::

    let through ──> late.jsonl ──renamed──> late-<unique>.jsonl ──pages──> POST /late ──> deleted
        └─ no folder, or no room: memory

One line a call, in the words of the wire: ``{"call": {...}, "outcome": "done"}``, params summarised and redacted.
A later line with the same call id corrects the outcome of the earlier one. The file is shared by all processes of
a state folder: each appends whole lines under a shared lock, and who sends a file renames it first and holds it
under an exclusive lock until it is deleted, so that no line is lost and no file sent by two. After each page its
sender notes in the file how far it came; if it dies before that, the next one sends that page again, and no more.

No lock is ever waited for: what cannot be had now is had the next time.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections import deque
from contextlib import suppress
from time import time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Final, Self

    Post = Callable[[bytes, int], object]

FILE: Final = "late.jsonl"
"""The name of the file in the state folder."""
MAX_FILE: Final = 4_000_000
"""Longest file, in bytes; what comes then is kept in memory."""
MAX_KEPT: Final = 1000
"""Most calls that are kept in memory; the oldest give way."""
MAX_PAGE: Final = 1000
"""Most calls of one page."""
_PAGE_BYTES: Final = 1_000_000
_MAX_LINE: Final = 200_000
_FIELDS: Final = ("instance", "tool", "action", "session", "namespace", "callId", "cwd", "run", "parent", "continues")


def _warn(message: str, *values: object) -> None:
    import logging  # noqa: PLC0415 - takes a hook process as long as all else here

    logging.getLogger("callosum").warning(message, *values)


class Refused(Exception):
    """The gate does not take a page. ``at`` is the place of the call at fault, None where it is not said.

    ``theirs``: the call is not at fault, but its instance's to send: this client's token does not speak for it.
    """

    def __init__(self, message: str, at: int | None = None, *, theirs: bool = False) -> None:
        super().__init__(message)
        self.at = at
        self.theirs = theirs


class Late:
    """The calls to be told of. ``folder`` is the state folder, None to keep them in memory alone.

    Usable from any thread. A forked child starts with an empty memory: what its parent kept, its parent sends.
    """

    def __init__(self, folder: str | None) -> None:
        self._spool = Spool(folder) if folder is not None else None
        self._clear()

    def _clear(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._kept: deque[bytes] = deque(maxlen=MAX_KEPT)
        self._open: dict[str, deque[str]] = {}
        self._full = False

    def let_through(self, call: Mapping[str, Any]) -> None:
        """Notes a call that runs without the gate, as done until ``report`` says something else.

        ``call`` is in the words of the wire: ``callId``, not ``call_id``.
        """
        fields = _fields(call)
        identity = _identity(fields)
        with self._mine():
            said = self._open.setdefault(identity, deque(maxlen=MAX_KEPT))
            said.append(fields["callId"])
            while len(self._open) > MAX_KEPT:
                del self._open[next(iter(self._open))]
        self._note(fields, "done")

    def report(self, call: Mapping[str, Any], outcome: str) -> None:
        """Says how such a call ended: the oldest unreported one with this call id, or with these params."""
        fields = _fields(call)
        identity = _identity(fields)
        with self._mine():
            ids = self._open.get(identity)
            known = ids.popleft() if ids else None
            if not ids:
                self._open.pop(identity, None)
        if known is not None and outcome == "done":
            return
        self._note({**fields, "callId": known or fields["callId"]}, outcome)

    def waiting(self) -> bool:
        """Whether there is something to send, as far as can be seen in a moment."""
        with self._mine():
            return bool(self._kept) or (self._spool is not None and self._spool.waiting())

    def flush(self, post: Post) -> int:
        """Sends what waits, in pages, and returns how many calls were taken.

        ``post(body, count)`` sends the body of one ``POST /late``. It raises ``Refused`` where the gate will not
        take something in it, which is then given up (in a shared file: left to those whose it is); anything else
        that it raises ends the flush, and what was not sent stays. One flush runs at a time; a second one does
        nothing.
        """
        with self._mine():
            flushing = self._flushing
        if not flushing.acquire(blocking=False):
            return 0
        try:
            return self._flush(post)
        finally:
            flushing.release()

    def _flush(self, post: Post) -> int:
        taken = 0
        spool = self._spool
        if spool is not None:
            for file in spool.take():
                with file:
                    for page in file.pages():
                        taken += _send(page, post, spool.add)
                        file.sent(len(page))
                    file.delete()
        while True:
            with self._lock:
                page = next(_pages(_merged(self._kept)), [])
                size = len(self._kept)
            if not page:
                return taken
            taken += _send(page, post, None)
            self._forget(page, size)

    def _forget(self, page: Sequence[_Line], size: int) -> None:
        """Takes from the memory what was sent; what came meanwhile stays, corrections too."""
        sent = {line.identity for line in page}
        with self._lock:
            old = [self._kept.popleft() for _ in range(min(size, len(self._kept)))]
            left = [line for line in old if _Line.of(line).identity not in sent]
            self._kept.extendleft(reversed(left))

    def _note(self, fields: dict[str, Any], outcome: str) -> None:
        line = _written(fields, outcome)
        if self._spool is not None and self._spool.add(line):
            return
        with self._mine():
            if len(self._kept) == MAX_KEPT and not self._full:
                self._full = True
                _warn("more than %d calls ran without the gate: the oldest are forgotten", MAX_KEPT)
            self._kept.append(line)

    def _mine(self) -> threading.Lock:
        if self._pid != os.getpid():
            self._clear()
        return self._lock


class Spool:
    """The file that outlives its processes. ``folder`` is made if it is not there."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.path = os.path.join(folder, FILE)  # noqa: PTH118 - pathlib costs 5 ms of a hook's start
        self._warned = False

    def waiting(self) -> bool:
        """Whether a file is there to be sent."""
        return any(True for _ in self._names())

    def add(self, line: bytes) -> bool:
        """Appends a line; False where that cannot be, or where the file is full."""
        try:
            for _ in range(8):
                added = self._append(line)
                if added is not None:
                    return added
        except OSError as error:
            if not self._warned:
                self._warned = True
                _warn("%s cannot be written: %s", self.path, error)
        return False

    def _append(self, line: bytes) -> bool | None:
        """None: the file was taken away meanwhile, and there may be another by now."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(self.folder, 0o700, exist_ok=True)  # noqa: PTH103
            descriptor = os.open(self.path, flags, 0o600)
        try:
            if not _locked(descriptor, fcntl.LOCK_SH) or not _same(descriptor, self.path):
                return None
            if os.fstat(descriptor).st_size + len(line) > MAX_FILE:
                return False
            # It starts with a line end too: what a process left unfinished spoils no other's line.
            data = b"\n" + line + b"\n"
            return os.write(descriptor, data) == len(data)
        finally:
            os.close(descriptor)

    def take(self) -> Iterator[Taken]:
        """Yields the files to be sent, each held under its lock: those left behind first."""
        for name in sorted(self._names(), key=lambda name: (name == FILE, name)):
            path = os.path.join(self.folder, name)  # noqa: PTH118
            with suppress(OSError):
                if name == FILE:
                    renamed = os.path.join(self.folder, f"late-{time_ns()}-{os.urandom(4).hex()}.jsonl")  # noqa: PTH118
                    os.rename(path, renamed)  # noqa: PTH104
                    path = renamed
                taken = Taken.open(path)
                if taken is not None:
                    yield taken

    def _names(self) -> Iterator[str]:
        try:
            names = os.listdir(self.folder)  # noqa: PTH208
        except OSError:
            return
        yield from (name for name in names if name == FILE or (name.startswith("late-") and name.endswith(".jsonl")))


class Taken:
    """A file that is this process's to send, until it is closed."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._sent = 0

    @classmethod
    def open(cls, path: str) -> Taken | None:
        """Opens and locks the file; None where another process sends it, or has sent it meanwhile."""
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if _locked(descriptor, fcntl.LOCK_EX) and _same(descriptor, path):
                taken = cls(path, descriptor)
                descriptor = -1
                return taken
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._descriptor)

    def pages(self) -> Iterator[list[_Line]]:
        """Yields what was not sent yet."""
        written = b""
        while len(written) < 2 * MAX_FILE and (piece := os.read(self._descriptor, 1 << 20)):
            written += piece
        lines = []
        for line in written.split(b"\n"):
            if line.startswith(b'{"sent":'):
                with suppress(ValueError, KeyError, TypeError):
                    self._sent = int(json.loads(line)["sent"])
            elif line:
                lines.append(line)
        yield from _pages(_merged(lines)[self._sent :])

    def sent(self, count: int) -> None:
        """Notes that ``count`` more were sent."""
        self._sent += count
        os.write(self._descriptor, b'\n{"sent":%d}\n' % self._sent)

    def delete(self) -> None:
        """Removes the file: all of it was sent."""
        os.unlink(self.path)  # noqa: PTH108


# --- lines ---------------------------------------------------------------------------------------------


class _Line:
    """One call as it is sent, with what tells it from others."""

    __slots__ = ("identity", "written")

    def __init__(self, identity: tuple[str, ...], written: bytes) -> None:
        self.identity = identity
        self.written = written

    @classmethod
    def of(cls, written: bytes) -> _Line:
        """Raises ``ValueError`` for a line that is none, as a process that was killed may leave one."""
        read = json.loads(written)
        call = read.get("call") if isinstance(read, dict) else None
        if not isinstance(call, dict):
            raise ValueError("no call")  # noqa: TRY004 - a fault of the file
        return cls(tuple(str(call.get(name)) for name in ("namespace", "instance", "session", "callId")), written)

    def same(self, other: _Line, *, who: bool) -> bool:
        """Whether it is the same call, or with ``who`` one of the same instance."""
        return self.identity[:2] == other.identity[:2] if who else self is other


def _merged(lines: Sequence[bytes] | deque[bytes]) -> list[_Line]:
    """The calls in order, each with the newest outcome."""
    found: dict[tuple[str, ...], _Line] = {}
    for written in lines:
        try:
            line = _Line.of(written)
        except (ValueError, RecursionError):
            continue
        found[line.identity] = line
    return list(found.values())


def _pages(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    page: list[_Line] = []
    size = 0
    for line in lines:
        if page and (len(page) == MAX_PAGE or size + len(line.written) > _PAGE_BYTES):
            yield page
            page, size = [], 0
        page.append(line)
        size += len(line.written) + 1
    if page:
        yield page


def _send(page: Sequence[_Line], post: Post, put_back: Callable[[bytes], bool] | None) -> int:
    """Sends a page without the calls that the gate refuses; returns how many it took.

    ``put_back`` keeps a line for the client of another instance, which may share the file.
    """
    lines = list(page)
    while lines:
        try:
            post(b'{"calls":[%s]}' % b",".join(line.written for line in lines), len(lines))
        except Refused as error:
            bad = lines
            if error.at is not None and error.at < len(lines):
                bad = [line for line in lines if line.same(lines[error.at], who=error.theirs)]
            elif len(lines) > 1:
                half = len(lines) // 2
                return _send(lines[:half], post, put_back) + _send(lines[half:], post, put_back)
            lines = [line for line in lines if line not in bad]
            if error.theirs and put_back is not None:
                bad = [line for line in bad if not put_back(line.written)]
            if bad:
                _warn("%d calls that ran without the gate are not journalled: %s", len(bad), error)
        else:
            break
    return len(lines)


def _fields(call: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a call: who, what, and a summary of its params."""
    from callosum.redact import summarise  # noqa: PLC0415 - needed when a gate is away, not at each start

    fields = {name: call[name] for name in _FIELDS if call.get(name) is not None}
    params = call.get("params")
    if params:
        fields["params"] = summarise(params)
    return fields


def _identity(fields: dict[str, Any]) -> str:
    """What a later report knows the call by; gives it a call id of its own if it has none."""
    if "callId" in fields:
        parts = [fields.get(name) for name in ("namespace", "instance", "session", "callId")]
        return json.dumps(parts, default=str)
    identity = json.dumps(fields, default=str, sort_keys=True)
    fields["callId"] = os.urandom(16).hex()
    return identity


def _written(fields: dict[str, Any], outcome: str) -> bytes:
    line = json.dumps({"call": fields, "outcome": outcome}, default=str, separators=(",", ":")).encode()
    if len(line) > _MAX_LINE:
        short = {name: str(value)[:256] for name, value in fields.items() if name != "params"}
        return _written({**short, "params": {"…": f"({len(line)} bytes)"}}, outcome)
    return line


# --- files ---------------------------------------------------------------------------------------------


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _same(descriptor: int, path: str) -> bool:
    """Whether the open file still is the one with this name."""
    try:
        named = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except OSError:
        return False
    opened = os.fstat(descriptor)
    return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
