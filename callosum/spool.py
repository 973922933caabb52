"""The spool: a file of the state folder with records that no gate could receive when they happened.

::

    hook, client, guard ── add ──> late.jsonl ── take ──> a gate, which journals it before its next decision
                                       └─ each writes whole lines under a shared lock

One record a line, in the wire format (``wire.LateCall``): a call that ran, a report, a cancellation. It holds
keys, digests and a redacted summary, never raw params.

All processes of a state folder share the file. It exists while records are pending, also while a process reads it:
if a gate finds no file, everything written before has been journalled. One process reads at a time, and the
others wait for it. It removes the file when it has accepted the last line; if it dies before that, the next process
reads the last page again, which changes nothing.

This module imports little, and only from the standard library: a hook process starts with it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress
from time import monotonic, sleep

try:
    import fcntl
except ImportError:  # Windows, which has no spool: records are kept in memory or dropped
    fcntl = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Final

    Accept = Callable[[Sequence[bytes]], Sequence[bytes] | None]
    """Accepts a page of lines and returns those that must stay in the file for another client."""

FILE: Final = "late.jsonl"
"""File name of the spool in the state folder."""
MAX_FILE: Final = 4_000_000
"""Maximum size of the file, in bytes. Beyond it, writers keep records in memory or drop them, and log it."""
MAX_LINE: Final = 200_000
"""Maximum size of a record, in bytes."""
MAX_PAGE: Final = 100
"""Maximum number of records in a page."""
PAGE_BYTES: Final = 1_000_000
WAIT: Final = 2.0
"""Seconds that a gate waits while another process reads the spool."""
_LOCK: Final = "late.lock"
_POLL: Final = 0.001
_OF_THE_MOMENT: Final = frozenset((errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EROFS))
"""Errors that may be gone by the next decision although the file looks the same."""
_CHASE: Final = 0.5
"""Seconds after which reading ends with the records seen so far, even if more were added meanwhile."""
MARK: Final = b'{"taken":'
_TRIES: Final = 500
_SHORT: Final = ("instance", "tool", "session", "namespace", "callId", "cwd", "run", "parent", "continues")
"""Fields kept of a call whose record is too long."""
_IDENTITY: Final = ("namespace", "instance", "session", "callId")


def _warn(message: str, *values: object) -> None:
    import logging  # noqa: PLC0415 - takes a hook process as long as everything else here

    logging.getLogger("callosum").warning(message, *values)


class Unusable(OSError):
    """A file at the spool's path that must not be read: a link, a device, or another user's file."""


class Spool:
    """The spool of a state folder, created on first use. Usable from any thread and process."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.path = os.path.join(folder, FILE)  # noqa: PTH118 - pathlib costs 5 ms of a hook's start
        self._said = ""
        self._passed: tuple[int, ...] = ()
        """Attributes of a file that could not be read; it is not tried again until it changes."""

    def waiting(self) -> bool:
        """Return True if the file exists, which means that records are pending. The content is not checked."""
        return os.access(self.path, os.F_OK)

    # --- Writing ---

    def add(self, line: bytes) -> bool:
        """Append a record. Return False if that fails or the file is full; the reason is logged once."""
        if fcntl is None:
            self._say(f"{self.path} cannot be kept: this system has no file locks")
            return False
        try:
            for _ in range(_TRIES):
                added = self._append(line)
                if added is not None:
                    if not added:
                        self._say(f"{self.path} is full")
                    return added
                sleep(_POLL)
            self._say(f"{self.path} is kept locked by another process")
        except OSError as error:
            self._say(f"{self.path} cannot be written: {error.strerror or error}")
        return False

    def _append(self, line: bytes) -> bool | None:
        """Append a record. Return None if the file is being removed; a new one may exist by now."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(self.folder, 0o700, exist_ok=True)  # noqa: PTH103
            descriptor = os.open(self.path, flags, 0o600)
        try:
            _check(descriptor)
            if not _locked(descriptor, fcntl.LOCK_SH) or not _same(descriptor, self.path):
                return None
            # The record also starts with a line end, so that a half-written line of a killed process does not spoil it.
            data = b"\n" + line + b"\n"
            if os.fstat(descriptor).st_size + len(data) > MAX_FILE:
                return False
            return os.write(descriptor, data) == len(data)
        finally:
            os.close(descriptor)

    # --- Reading ---

    def pending(self) -> tuple[bytes, int]:
        """Return the whole lines of the file, and up to which offset processes have taken them; none if unreadable."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return b"", 0
        try:
            _check(descriptor)
            data = _read(descriptor)
        except OSError:
            return b"", 0
        finally:
            os.close(descriptor)
        return data[: data.rfind(b"\n") + 1], _taken(data)

    def take(self, accept: Accept, wait: float = WAIT, most: int = MAX_FILE) -> int:
        """Pass all pending records to ``accept`` in pages and remove them from the file. Return the number of records.

        When it returns, all records added before the call have been read, by this process or another, unless another
        process reads for longer than ``wait`` seconds, or ``most`` of them were read. Exceptions of ``accept`` are
        raised, and records that it did not accept stay.
        """
        if fcntl is None:
            return 0
        try:
            if self._passed and self._passed == self._look():
                return 0
            from pathlib import Path  # noqa: PLC0415 - a gate has it loaded, a hook that only adds does not need it

            from callosum.locks import locked  # noqa: PLC0415

            count = 0
            kept: list[bytes] = []
            with locked(Path(self.folder, _LOCK), wait=wait) as mine:
                if mine:
                    count = self._empty(self.path, accept, kept, most)
            for line in kept:
                self.add(line)
        except FileNotFoundError:
            return 0  # the folder does not exist
        except OSError as error:
            if not isinstance(error, Unusable) and not str(error.filename or "").startswith(self.folder):
                raise  # raised by ``accept``, not by the spool's file
            if error.errno not in _OF_THE_MOMENT:
                self._passed = self._look()
            self._say(f"{self.path} cannot be taken in: {error.strerror or error}")
            return 0
        return count

    def _look(self) -> tuple[int, ...]:
        try:
            found = os.lstat(self.path)
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode, found.st_uid

    def _empty(self, path: str, accept: Accept, kept: list[bytes], most: int) -> int:
        """Read one file and remove it; records that must stay for another client are added to ``kept``."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return 0
        try:
            _check(descriptor)
            data = _read(descriptor)
            at, count = _taken(data), 0
            end = data.rfind(b"\n") + 1
            ends = monotonic() + _CHASE
            while True:
                for page, until in _pages(data, at, end):
                    if count >= most:
                        return count
                    kept += accept(merged(page)) or ()
                    count += len(page)
                    with suppress(OSError):  # disk full: if this process dies now, the page is entered again
                        os.write(descriptor, b"\n%s%d}\n" % (MARK, until))
                at = max(at, end)
                if monotonic() > ends or not _lock_soon(descriptor):
                    return count  # records keep being added: the next decision continues here
                data = _read(descriptor)
                end = len(data)
                if not any(True for _ in _pages(data, at, end)):
                    break
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.unlink(path)  # noqa: PTH108
            # A writer without the lock (in a language that has none) checks afterwards whether the file still exists.
            data = _read(descriptor)
            for page, _ in _pages(data, end, len(data)):
                kept += accept(page) or ()
                count += len(page)
        finally:
            os.close(descriptor)
        return count

    def _say(self, message: str) -> None:
        if message != self._said:
            self._said = message
            _warn("%s: what runs without the gate is lost or waits; `callosum doctor` says more", message)


# --- Records ---


def merged(lines: Sequence[bytes]) -> list[bytes]:
    """Return the records with each running call and its report as one, at the position of the call."""
    found: list[bytes] = []
    running: dict[tuple[str, ...], int] = {}
    for line in lines:
        try:
            record = json.loads(line)
            call = record["call"]
            identity = tuple(str(call.get(name)) for name in _IDENTITY)
            if record.get("running") and call.get("callId"):
                running[identity] = len(found)
            elif record.get("kind") == "report" and record.get("id") is None and identity in running:
                at = running.pop(identity)
                whole = {**json.loads(found[at]), "outcome": record["outcome"], "ended": record.get("ended")}
                del whole["running"]
                found[at] = json.dumps(whole, separators=(",", ":")).encode()
                continue
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass  # left as it is: its reader reports what is wrong with it
        found.append(line)
    return found


def written(record: Mapping[str, Any]) -> bytes:
    """Return the record as a line. One that is too long loses its summary."""
    line = json.dumps(record, default=_plainly, separators=(",", ":")).encode()
    if len(line) <= MAX_LINE:
        return line
    call = record["call"]
    short = {name: str(call[name])[:256] for name in _SHORT if call.get(name) is not None}
    note = {"…": f"({len(line)} bytes)"}
    cut = {**record, "v": 1, "call": {**short, "params": note}}
    if len(json.dumps(record.get("found"), default=_plainly)) > MAX_LINE // 2:
        cut.pop("found", None)
    return json.dumps(cut, default=_plainly, separators=(",", ":")).encode()


def _plainly(value: object) -> object:
    return dict(value) if hasattr(value, "keys") else f"<{type(value).__name__}>"  # type: ignore[call-overload]


# --- Files ---


def _check(descriptor: int) -> None:
    """Raise ``Unusable`` unless the file is a regular file of this user."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Unusable("it is not a regular file")
    if found.st_uid != os.geteuid():
        raise Unusable(f"it belongs to another user ({found.st_uid})")


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_soon(descriptor: int) -> bool:
    """Lock the file against writers, each of which holds it for a moment."""
    ends = monotonic() + WAIT
    while not _locked(descriptor, fcntl.LOCK_EX):
        if monotonic() > ends:
            return False
        sleep(_POLL)
    return True


def _same(descriptor: int, path: str) -> bool:
    """Return True if the open file still has this name."""
    try:
        named = os.lstat(path)
    except OSError:
        return False
    opened = os.fstat(descriptor)
    return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)


def _read(descriptor: int) -> bytes:
    """Read the file from its start, up to the maximum size that a writer leaves there."""
    pieces = []
    at = 0
    while at < 2 * MAX_FILE and (piece := os.pread(descriptor, 1 << 20, at)):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _taken(data: bytes) -> int:
    """Return the number of bytes that a process had read when it died."""
    at = data.rfind(b"\n" + MARK)
    if at < 0:
        return 0
    try:
        found = json.loads(data[at + 1 : data.index(b"\n", at + 1)])["taken"]
    except (ValueError, KeyError, TypeError):
        return 0
    return found if isinstance(found, int) and 0 <= found <= at else 0


def _pages(data: bytes, start: int, end: int) -> Iterator[tuple[list[bytes], int]]:
    """Yield the records between two offsets in pages, each with the offset after it."""
    page: list[bytes] = []
    size = 0
    at = start
    while at < end:
        stop = data.find(b"\n", at, end)
        stop = end if stop < 0 else stop
        line = data[at:stop]
        at = stop + 1
        if not line or line.startswith(MARK):
            continue
        if page and (len(page) == MAX_PAGE or size + len(line) > PAGE_BYTES):
            yield page, at - len(line) - 1
            page, size = [], 0
        page.append(line)
        size += len(line) + 1
    if page:
        yield page, min(at, end)
