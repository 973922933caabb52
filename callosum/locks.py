"""Lock a file in a folder so that only one process or thread at a time does something there, and replace files.

The kernel frees such a lock when its last descriptor is closed. A child that is forked meanwhile has a copy of the
descriptor and would keep the lock after its holder continued. The lock is therefore released explicitly, which applies
to all copies.
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
"""True if this system has file locks. Without them every caller gets every lock."""


@contextmanager
def locked(path: Path, *, wait: float = 0.0) -> Iterator[bool]:
    """Hold the lock file during the block. Yield False if another holder keeps it for more than ``wait`` seconds.

    The file is created if it is missing and is kept; its folder must exist. Do not nest locks on one path, because the
    thread would wait for itself. Raises ``OSError`` if the file cannot be opened.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    acquired = False
    try:
        acquired = _take(handle, time.monotonic() + wait)
        yield acquired
    finally:
        if acquired and fcntl is not None:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def put(path: Path, data: bytes) -> None:
    """Replace a file with a new private one, synced so that it survives power loss.

    Readers see the old file or the new one. Call it under a lock. Raises ``OSError``.
    """
    draft = path.with_suffix(".part")
    draft.unlink(missing_ok=True)  # left by a process that died
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
