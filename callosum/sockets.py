"""Locate the socket of a state folder's local gate, and check that the process on it is this user's gate.

The socket is never in a folder that others can write, such as ``/tmp``, where anybody could create a socket first and
pose as the gate.

A gate writes a file beside its socket before it listens: its pid, the folder of its interpreter and the folder of its
package, one per line. **A hook asks a gate only if all of this holds**, whatever the gate's version is:

1. The process that listens belongs to the user of the hook, according to the kernel.
2. That process wrote the file beside the socket.
3. The file names the two folders of the installation that wrote the hook.
4. The process runs the recorded interpreter (``/proc/PID/exe``, where that exists).

``stranger`` checks this in Python, and ``hosts/native/hook.c`` in the native hook client. The hook script may start no
process, so it checks what a shell has built in: owners, the order in which socket and file were created, the lines, the
program. If one of them is in doubt, the script leaves the question to ``stranger``.
"""

from __future__ import annotations

import os
import sys

from callosum.launch import root

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Final

SOCKET: Final = "gate.sock"
"""Name of the socket in the state folder."""
LONGEST: Final = 100
"""Maximum length in bytes of a Unix socket path on every system."""
HUNG_SECONDS: Final = 5
"""Seconds for which hooks do not ask a gate that did not answer in time."""
HUNG_STATUS: Final = 1028
"""Status that a hook reports, instead of curl's exit code, when it does not ask a hung gate."""
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_LOCAL_PEERPID: Final = 2
"""macOS constants that Python has no names for."""


def socket_path(state: str | os.PathLike[str]) -> str:
    """Return the path of the socket on which the local gate of a state folder listens.

    It is in the state folder. If that path is too long for a socket, it is in the user's folder for sockets
    (``XDG_RUNTIME_DIR``, otherwise ``~/.callosum``). If that is too long as well, the server reports an error.
    """
    folder = os.path.abspath(os.path.expanduser(state))  # noqa: PTH100, PTH111 - a hook process imports no pathlib
    path = os.path.join(folder, SOCKET)  # noqa: PTH118
    if len(os.fsencode(path)) <= LONGEST:
        return path
    from hashlib import blake2b  # noqa: PLC0415 - rarely needed

    base = os.environ.get("XDG_RUNTIME_DIR") or os.path.expanduser("~/.callosum")  # noqa: PTH111
    return f"{base}/{blake2b(os.fsencode(folder), digest_size=6).hexdigest()}.sock"


# --- Check of the listening process ---------------------------------------------------------------------


def origin_path(path: str) -> str:
    """Return the path of the file in which the gate on a socket names its installation."""
    return f"{path}.origin"


def hung_path(path: str) -> str:
    """Return the path of the file that says until when hooks do not ask the gate on a socket."""
    return f"{path}.hung"


def origin() -> tuple[str, str]:
    """Return the installation of this process: the folders of its interpreter and its package.

    ``sys.prefix`` does not serve, because a hook process runs without ``site``, which detects virtual environments.
    """
    return os.path.realpath(os.path.dirname(sys.executable)), root()  # noqa: PTH120


def leave_origin(path: str) -> None:
    """Write the file beside a socket on which this process listens. Raises ``OSError``."""
    new_path = f"{origin_path(path)}.new"
    content = "\n".join((str(os.getpid()), *origin(), ""))
    descriptor = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, os.fsencode(content))
    finally:
        os.close(descriptor)
    os.replace(new_path, origin_path(path))  # noqa: PTH105


def remove_origin(path: str) -> None:
    """Remove the files beside a socket on which nothing listens any more."""
    for leftover in (origin_path(path), hung_path(path)):
        try:
            os.unlink(leftover)  # noqa: PTH108
        except FileNotFoundError:
            continue


def peer(channel: socket.socket) -> tuple[int, int] | None:
    """Return the pid and user of the process at the other end, or None if the system does not provide them."""
    import struct  # noqa: PLC0415 - needed only if Python asks the gate

    try:
        if sys.platform == "darwin":  # pragma: no cover
            pid = struct.unpack("i", channel.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))[0]
            return pid, struct.unpack("II", channel.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 8))[1]
        import socket  # noqa: PLC0415

        pid, user, _ = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    except (OSError, AttributeError, struct.error):
        return None
    return pid, user


def stranger(channel: socket.socket, path: str) -> str:
    """Return why the process that listens at ``path`` must not be asked, or "" if it may be.

    ``channel`` is connected to it. The docstring of this module states the rule.
    """
    peer_process = peer(channel)
    if peer_process is None:
        return "the system does not identify the process that listens there"
    pid, user = peer_process
    if user != os.geteuid():
        return f"process {pid}, which listens there, belongs to another user ({user})"
    try:
        with open(origin_path(path), encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            lines = file.read(20_000).split("\n")
    except OSError:
        lines = []
    if lines[:1] != [str(pid)]:
        return f"process {pid}, which listens there, does not name its installation"
    if tuple(lines[1:3]) != origin():
        theirs, ours = " of ".join(lines[2:0:-1]), " of ".join(reversed(origin()))
        return f"process {pid}, which listens there, runs from another installation ({theirs}, not {ours})"
    program = f"/proc/{pid}/exe"
    try:
        if not os.path.samefile(program, sys.executable):  # noqa: PTH121
            # the program was replaced while it runs, as an upgrade does
            running = os.readlink(program)  # noqa: PTH115
            if running != f"{os.path.realpath(sys.executable)} (deleted)":
                return f"process {pid}, which listens there, runs {running}, not {sys.executable}"
    except OSError as error:
        if os.path.isdir("/proc/self"):  # noqa: PTH112
            return f"process {pid}, which listens there, does not show its program: {error.strerror}"
    return ""


def stranger_at(path: str) -> tuple[int, str] | None:
    """Return the pid of the process at ``path`` and why hooks do not ask it, or None if there is no such process.

    The pid is 0 if the process belongs to another user, or if the system does not identify it.
    """
    import socket  # noqa: PLC0415 - needed only by some commands

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(1.0)
        try:
            channel.connect(path)
        except OSError:
            return None
        why = stranger(channel, path)
        pid, user = peer(channel) or (0, -1)
    return (pid if user == os.geteuid() else 0, why) if why else None


# --- Hung gates ------------------------------------------------------------------------------------------


def note_hung(path: str) -> None:
    """Note that the gate at ``path`` did not answer in time, so that hooks do not ask it for ``HUNG_SECONDS``.

    The file holds the second of the machine's uptime (or of Unix time, if there is no uptime) at which the gate is
    asked again; a shell can read and compare both. A failure to write is ignored.
    """
    try:
        opened = os.open(hung_path(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(opened, b"%d\n" % (_second() + HUNG_SECONDS))
        finally:
            os.close(opened)
    except OSError:
        return


def note_answered(path: str) -> None:
    """Note that the gate at ``path`` answers, so that it is asked again at once."""
    try:
        os.unlink(hung_path(path))  # noqa: PTH108
    except OSError:
        return


def _second() -> int:
    try:
        with open("/proc/uptime", "rb") as file:  # noqa: PTH123
            return int(file.read(64).split(b".", 1)[0])
    except (OSError, ValueError):
        from time import time  # noqa: PLC0415 - not needed on Linux

        return int(time())
