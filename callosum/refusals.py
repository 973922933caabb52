"""Find out from a host's own transcript whether a call was refused in the host's permission dialog.

No hook reports a person's "no" until the next prompt, if at all; until then the refused call holds its lease. But the
host writes the refusal into its transcript at once. So the gate reads it there when another call conflicts with the
action.

Only what the host itself writes about this very tool-use id counts (``refused`` in ``callosum.programs``), never
what a tool printed: a tool's text is one JSON string in a result, and cannot become a field beside it.

A transcript is read only if it is a regular file of this user, below the host's own folder, reached without symbolic
links, on the machine of the action; at most ``MAX_BYTES`` from its end, and once a second per action unless it has
grown: at a prompt or a report the line may not be there yet. Anyone who can write such a file could change the gate's
store as well.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from callosum.model import SECOND, Action
from callosum.policy.admit import HOST_SESSION
from callosum.process import this_process
from callosum.programs import HOSTS

MAX_BYTES: Final = 8_000_000
"""Number of bytes that are read of a transcript, from its end."""
_MAX_LINE: Final = 100_000
"""Length in bytes above which a line is passed over; a refusal takes about two thousand."""
_MAX_LINES: Final = 40
"""Maximum number of lines naming the call that are checked, newest first."""
_MAX_FOLDERS: Final = 2000
"""Number of folders that are searched for a session's transcript."""
_INTERVAL: Final = 1.0
"""Seconds between two checks of the same action in transcripts that have not grown."""
_REMEMBERED: Final = 1000
"""Number of actions whose last check is remembered."""
_SLACK: Final = 5 * SECOND
"""How far the host's clock may be behind the store's, in microseconds."""

_CALL_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_OPEN: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)

Line = Mapping[str, Any]


class Refusals:
    """Finds out from a host's transcript whether a call was refused before it ran.

    ``ticks`` returns seconds that never run backwards.
    """

    def __init__(
        self,
        home: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home, self._environ, self._ticks = home, environ, ticks
        self._looked: OrderedDict[int, tuple[float, int]] = OrderedDict()
        """When the transcripts of an action were read, and how long they were."""
        self._lock = threading.Lock()

    def __call__(self, action: Action, call_id: str) -> bool:
        """Return True if the transcript of the action's session says that this call was refused.

        Return False also if that cannot be checked: no such transcript, another machine, or nothing new in a second.
        """
        session = HOST_SESSION.fullmatch(action.session.rpartition("/")[2])
        if session is None or not _CALL_ID.fullmatch(call_id) or not hasattr(os, "geteuid"):
            return False
        if action.host is not None and action.host.machine != this_process().machine:
            return False
        since = (action.started - _SLACK) / SECOND
        home = self._home if self._home is not None else Path.home()
        found = [
            (host, root, path)
            for host in HOSTS
            if host.tells_refusals
            for root in (Path(os.path.realpath(host.settings_folder(home, self._environ) / host.transcripts)),)
            for path in _matching(root, host.transcript_of(session[1], session[2]))
        ]
        return self._is_due(action.id, sum(_size(root / path) for _, root, path in found)) and any(
            host.refused(_lines_naming(_tail(root, path), call_id), session[1], call_id, since)
            for host, root, path in found
        )

    def _is_due(self, action: int, size: int) -> bool:
        now = self._ticks()
        with self._lock:
            last = self._looked.get(action)
            if last is not None and now - last[0] < _INTERVAL and last[1] == size:
                return False
            self._looked[action] = now, size
            self._looked.move_to_end(action)
            while len(self._looked) > _REMEMBERED:
                self._looked.popitem(last=False)
        return True


# --- reading ---


def _matching(root: Path, pattern: str) -> Iterator[str]:
    """Yield the files below ``root`` that match, in descending order of their names.

    ``*`` matches any folder, or the rest of a file's name.
    """
    *folders, name = pattern.split("/")
    level = [""]
    for folder in folders:
        below = (
            f"{above}{entry}/" for above in level for entry in (_folders(root / above) if folder == "*" else [folder])
        )
        level = list(islice(below, _MAX_FOLDERS))
    for folder in level:
        if name[0] == "*":
            yield from (f"{folder}{entry}" for entry in _names(root / folder) if entry.endswith(name[1:]))
        elif os.path.lexists(root / folder / name):
            yield folder + name


def _names(folder: Path) -> list[str]:
    """Return the names in a folder in descending order, because folders are named by dates."""
    try:
        return sorted(os.listdir(folder), reverse=True)  # noqa: PTH208 - names are enough
    except OSError:
        return []


def _folders(folder: Path) -> list[str]:
    return _names(folder)[:_MAX_FOLDERS]


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def open_below(root: Path, path: str) -> int:
    """Return a descriptor of a regular file of this user below ``root``.

    Each step of the path is opened without following a symbolic link. Raises ``OSError`` for anything else.
    """
    *folders, name = path.split("/")
    opened: list[int] = []
    try:
        opened.append(os.open(root, _OPEN | os.O_DIRECTORY))
        for folder in folders:
            opened.append(os.open(folder, _OPEN | os.O_DIRECTORY, dir_fd=opened[-1]))
        opened.append(os.open(name, _OPEN, dir_fd=opened[-1]))
        status = os.fstat(opened[-1])
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "not a regular file of this user", path)
        return opened.pop()
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _tail(root: Path, path: str) -> bytes:
    """Return the end of a transcript below ``root``, or nothing if it may not be read."""
    try:
        descriptor = open_below(root, path)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, MAX_BYTES, max(0, os.fstat(descriptor).st_size - MAX_BYTES))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _lines_naming(text: bytes, call_id: str) -> Iterator[tuple[float, Line]]:
    """Yield the JSON objects on lines that name the call, newest first, each with its moment.

    A line without its end is passed over.
    """
    needle = f'"{call_id}"'.encode()
    end = text.rfind(b"\n") + 1
    for _ in range(_MAX_LINES):
        at = text.rfind(needle, 0, end)
        if at < 0:
            return
        begin = text.rfind(b"\n", 0, at) + 1
        stop = text.find(b"\n", at)
        end = begin
        if stop - begin <= _MAX_LINE:
            with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                line = msgspec.json.decode(text[begin:stop])
                if isinstance(line, dict):
                    yield _moment(line), line


def _moment(line: Line) -> float:
    """Return the Unix seconds of a line's ``timestamp``, or 0 if it has none."""
    try:
        return datetime.fromisoformat(str(line.get("timestamp"))).timestamp()
    except (ValueError, OverflowError):
        return 0.0
