"""The machine's memory and disks, as Hypothalamus and ``callosum doctor`` measure them."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import NamedTuple


class DiskSpace(NamedTuple):
    """Used and total size of memory or a disk, in bytes."""

    used: int
    total: int


def memory_now() -> DiskSpace:
    """Return the use of the machine's memory."""
    import psutil  # noqa: PLC0415 - takes longer to load than a start may wait for

    memory = psutil.virtual_memory()
    return DiskSpace(memory.total - memory.available, memory.total)


def is_read_only(folder: Path) -> bool:
    """Return True if the file system of a folder is mounted read-only. Raises ``OSError``."""
    return hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def disk_now(folder: Path) -> DiskSpace:
    """Return the use of the disk of a folder, or of its nearest existing parent.

    Raises ``OSError``, also if the disk is read-only.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if is_read_only(folder):  # its free space means nothing: many such file systems have none
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))
    usage = shutil.disk_usage(folder)
    return DiskSpace(usage.total - usage.free, usage.total)
