"""Lock files: one process, or one thread, at a time does a thing in a folder; and how it replaces a file there.

The kernel frees such a lock when its last descriptor is closed. A child that was forked meanwhile has one too, and
would keep the lock after its holder went on. So it is unlocked first, which counts for all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without file locks
    fcntl = None  # type: ignore[assignment]

WORKS: Final = fcntl is not None
"""Whether this system has file locks. Without them everybody gets every lock."""


@contextmanager
def locked(path: Path, *, wait: float = 0.0) -> Iterator[bool]:
    """Holds the lock file while the block runs; yields False if another has it for longer than ``wait`` seconds.

    The file is made if it is missing, and stays; its folder must be there. Not to be nested on one path: a thread
    waits for itself. Raises ``OSError`` if the file cannot be opened.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    got = False
    try:
        got = _take(handle, time.monotonic() + wait)
        yield got
    finally:
        if got and fcntl is not None:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def put(path: Path, data: bytes) -> None:
    """Put a private file in the place of the old one, synced so that it survives power loss.

    Whoever reads sees the old file or the new one. To be called under a lock. Raises ``OSError``.
    """
    draft = path.with_suffix(".part")
    draft.unlink(missing_ok=True)  # of a process that died
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _take(handle: int, ends: float) -> bool:
    if fcntl is None:  # pragma: no cover - see above
        return True
    pause = 0.001
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            left = ends - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, 0.05)
        else:
            return True
