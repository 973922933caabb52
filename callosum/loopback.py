"""Identify the processes of this machine that connect over the loopback, and keep the machine's own token.

Every user of a machine can connect to a port on its loopback. Two things tell the gate's own user from the others: the
machine's own token, which only that user can read, and the process that owns the connection, as the kernel shows it.
Only Linux shows owners (``/proc``). A process counts as near if it belongs to this process's user, has the same root
folder and is in the same mount namespace: it then sees the same files under the same paths.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

TOKEN: Final = "machine.token"  # noqa: S105 - a file name
"""Name of the file in the state folder that holds the machine's own token. It is not copied to other machines."""
_LINUX: Final = sys.platform.startswith("linux")
_LISTENS: Final = "0A"
_LONGEST: Final = 200
"""Most characters of a token that are read."""


# --- The machine's own token --------------------------------------------------------------------------------


def read_token(state: str | os.PathLike[str]) -> str:
    """Return the machine's own token, or "" if there is none, if it cannot be read, or if others can read it."""
    try:
        descriptor = os.open(os.path.join(state, TOKEN), os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))  # noqa: PTH118
    except OSError:
        return ""
    with open(descriptor, encoding="ascii", errors="replace") as file:  # noqa: PTH123
        facts = os.fstat(descriptor)
        if hasattr(os, "geteuid") and (facts.st_mode & 0o077 or facts.st_uid != os.geteuid()):
            return ""
        token = file.readline(_LONGEST).rstrip("\n")
    return token if token.isascii() and token.isprintable() and " " not in token else ""


def make_token(state: str | os.PathLike[str]) -> str:
    """Return the machine's own token; make it if there is none. Raises ``OSError``, also if others can read it."""
    path = os.path.join(state, TOKEN)  # noqa: PTH118
    os.makedirs(state, 0o700, exist_ok=True)  # noqa: PTH103
    draft = f"{path}.{secrets.token_hex(4)}"
    if not os.path.lexists(path):
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, f"cal_machine_{secrets.token_urlsafe(32)}\n".encode())
            with suppress(FileExistsError):  # another process was first
                os.link(draft, path)
        finally:
            os.close(descriptor)
            os.unlink(draft)  # noqa: PTH108
    token = read_token(state)
    if not token:
        raise PermissionError(0, "only its owner may be able to read it, and it holds one token: remove it", path)
    return token


# --- The owners of connections ------------------------------------------------------------------------------


def is_near(pid: int) -> bool:
    """Return True if the process has this process's user, root folder and mount namespace, False if it cannot be seen.

    Systems other than Linux have no mount namespaces, and the caller has asked them for the user.
    """
    if not _LINUX:
        return pid > 0
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid() and all(  # noqa: PTH116
            os.path.samestat(os.stat(f"/proc/{pid}/{what}"), os.stat(f"/proc/self/{what}"))  # noqa: PTH116
            for what in ("ns/mnt", "root")
        )
    except OSError:
        return False


def is_from_near(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Return True if every process that holds the client's end of a loopback connection is near.

    Each address is IP and port. Return False if no process is found. This reads ``/proc`` of all processes of the
    user, so it may take some milliseconds.
    """
    wanted = (_spellings(*client), _spellings(*server))
    for local, remote, _, user, inode in _connections():
        if local in wanted[0] and remote in wanted[1]:
            holders = list(_holders(f"socket:[{inode}]")) if user == os.geteuid() and inode != "0" else []
            return bool(holders) and all(map(is_near, holders))
    return False


def is_own_listener(port: int) -> bool:
    """Return False if a process of another user listens at this port of the machine, or if nothing is seen to listen.

    Return True on systems that do not show it.
    """
    users = [
        user for local, _, state, user, _ in _connections() if state == _LISTENS and local.endswith(f":{port:04X}")
    ]
    return set(users) == {os.geteuid()} if _LINUX else True


def _connections() -> Iterator[tuple[str, str, str, int, str]]:
    """Yield the machine's TCP sockets: local and remote address in the kernel's spelling, state, user and inode."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/net/{table}", encoding="ascii") as file:  # noqa: PTH123
            next(file, None)
            for line in file:
                fields = line.split()
                yield fields[1], fields[2], fields[3], int(fields[7]), fields[9]


def _spellings(address: str, port: int) -> set[str]:
    """Return an address as the kernel's tables write it: as words in the machine's own byte order."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    mapped = bytes(10) + b"\xff\xff"
    forms = {packed, packed.removeprefix(mapped), mapped + packed if len(packed) == 4 else packed}
    return {
        "".join(f"{word:08X}" for word in struct.unpack(f"={len(form) // 4}I", form)) + f":{port:04X}" for form in forms
    }


def _holders(link: str) -> Iterator[int]:
    """Yield the processes of this user that have the socket open."""
    user = os.geteuid()
    for process in os.scandir("/proc"):
        with suppress(OSError):
            if process.name.isdecimal() and process.stat().st_uid == user:
                folder = f"/proc/{process.name}/fd"
                if any(_links_to(f"{folder}/{name}", link) for name in os.listdir(folder)):  # noqa: PTH208
                    yield int(process.name)


def _links_to(path: str, link: str) -> bool:
    try:
        return os.readlink(path) == link  # noqa: PTH115
    except OSError:
        return False
