"""The machine's memory and disks, as Hypothalamus and ``callosum doctor`` measure them."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Final, NamedTuple

MOUNTS: Final = Path("/proc/self/mountinfo")
"""Linux's list of mounted file systems; other systems have none."""
_NETWORK: Final = frozenset(
    "9p afs beegfs ceph cifs coda fuse.ceph fuse.glusterfs fuse.juicefs fuse.rclone fuse.s3fs fuse.smbnetfs fuse.sshfs "
    "fuse.vmhgfs-fuse glusterfs gpfs lustre ncpfs nfs nfs4 orangefs smb3 smbfs".split()
)


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


def network_file_system(folder: Path) -> str:
    """Return the type of the network file system that a folder is on, or "" if there is none or nothing tells."""
    if not MOUNTS.exists():
        return ""
    device = folder.stat().st_dev
    mounts = (line.partition(" - ") for line in MOUNTS.read_text("utf-8", "replace").splitlines())
    here = f" {os.major(device)}:{os.minor(device)} "
    return next((kind for head, _, tail in mounts if here in head and (kind := tail.split(" ")[0]) in _NETWORK), "")


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
