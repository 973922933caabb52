"""Where the local gate of a state folder listens, and how its clients know it for the gate of this user.

Never in a folder that others can write, such as ``/tmp``: who makes a socket there first would be taken for the gate.

A gate on such a socket leaves a file beside it, before it listens: its pid, the folder of its interpreter and the
folder of its package, one a line. **A hook asks a gate only if all of this holds**, whatever version the gate has:

1. The process that listens belongs to the user of the hook (the kernel says so).
2. That process wrote the file beside the socket.
3. The file names the two folders of the installation that wrote the hook.
4. The program that the process runs is the recorded interpreter (``/proc/PID/exe``, where there is one).

``stranger`` checks this for what runs Python, and ``hosts/native/hook.c`` for the native hook client. The hook script,
which must start no process, checks as much with what a shell has built in: owners, the order in which socket and file
were made, the lines, the program. Where one of them is in doubt it leaves the question to ``stranger``.
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
"""The socket's name in the state folder."""
LONGEST: Final = 100
"""Longest path of a Unix socket, in bytes, that every system takes."""
HUNG_SECONDS: Final = 5
"""How long hooks leave a gate alone that did not answer in time, in seconds."""
HUNG_STATUS: Final = 1028
"""What a hook reports, in place of what curl ended with, when it leaves a gate alone."""
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_LOCAL_PEERPID: Final = 2
"""macOS has no names for these in Python."""


def socket_path(state: str | os.PathLike[str]) -> str:
    """Where the local gate of a state folder listens.

    In the folder; where that path would be too long for a socket, in the user's folder for such things
    (``XDG_RUNTIME_DIR``, else ``~/.callosum``). What is too long there as well is no place for a socket: the server
    says so.
    """
    folder = os.path.abspath(os.path.expanduser(state))  # noqa: PTH100, PTH111 - a hook process imports no pathlib
    path = os.path.join(folder, SOCKET)  # noqa: PTH118
    if len(os.fsencode(path)) <= LONGEST:
        return path
    from hashlib import blake2b  # noqa: PLC0415 - hardly ever needed

    base = os.environ.get("XDG_RUNTIME_DIR") or os.path.expanduser("~/.callosum")  # noqa: PTH111
    return f"{base}/{blake2b(os.fsencode(folder), digest_size=6).hexdigest()}.sock"


# --- who listens ----------------------------------------------------------------------------------------


def origin_path(path: str) -> str:
    """Return the path of the file in which the gate on a socket says from where it runs."""
    return f"{path}.origin"


def hung_path(path: str) -> str:
    """Return the path of the file that says until when hooks leave the gate on a socket alone."""
    return f"{path}.hung"


def origin() -> tuple[str, str]:
    """Return from where this process runs: the folder of its interpreter and that of its package.

    Not ``sys.prefix``: a hook process does without ``site``, which alone knows of virtual environments.
    """
    return os.path.realpath(os.path.dirname(sys.executable)), root()  # noqa: PTH120


def leave_origin(path: str) -> None:
    """Write the file beside a socket on which this process listens. Raises ``OSError``."""
    fresh = f"{origin_path(path)}.new"
    content = "\n".join((str(os.getpid()), *origin(), ""))
    opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(opened, os.fsencode(content))
    finally:
        os.close(opened)
    os.replace(fresh, origin_path(path))  # noqa: PTH105


def remove_origin(path: str) -> None:
    """Remove what lies beside a socket on which nobody listens any more."""
    for left in (origin_path(path), hung_path(path)):
        try:
            os.unlink(left)  # noqa: PTH108
        except FileNotFoundError:
            continue


def peer(channel: socket.socket) -> tuple[int, int] | None:
    """Return the pid and the user of the process that listens at the other end, None where the system does not say."""
    import struct  # noqa: PLC0415 - where a gate is asked by Python

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
    """Return why the process that listens on the socket at ``path`` is not to be asked, "" if it is.

    ``channel`` is connected to it. The rule stands at the top of this module.
    """
    found = peer(channel)
    if found is None:
        return "the system does not say who listens there"
    pid, user = found
    if user != os.geteuid():
        return f"process {pid}, which listens there, belongs to another user ({user})"
    try:
        with open(origin_path(path), encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            said = file.read(20_000).split("\n")
    except OSError:
        said = []
    if said[:1] != [str(pid)]:
        return f"process {pid}, which listens there, does not say from where it runs"
    if tuple(said[1:3]) != origin():
        theirs, ours = " of ".join(said[2:0:-1]), " of ".join(reversed(origin()))
        return f"process {pid}, which listens there, runs from another installation ({theirs}, not {ours})"
    program = f"/proc/{pid}/exe"
    try:
        if not os.path.samefile(program, sys.executable):  # noqa: PTH121
            # a program that was replaced while it runs, as an upgrade does
            runs = os.readlink(program)  # noqa: PTH115
            if runs != f"{os.path.realpath(sys.executable)} (deleted)":
                return f"process {pid}, which listens there, runs {runs}, not {sys.executable}"
    except OSError as error:
        if os.path.isdir("/proc/self"):  # noqa: PTH112
            return f"process {pid}, which listens there, does not show its program: {error.strerror}"
    return ""


def stranger_at(path: str) -> tuple[int, str] | None:
    """Return the pid of the process that listens at ``path`` and why hooks do not ask it, None if they do or none does.

    The pid is 0 where the process is another user's, or where the system does not say which it is.
    """
    import socket  # noqa: PLC0415 - for commands that look

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(1.0)
        try:
            channel.connect(path)
        except OSError:
            return None
        why = stranger(channel, path)
        pid, user = peer(channel) or (0, -1)
    return (pid if user == os.geteuid() else 0, why) if why else None


# --- a gate that hangs ----------------------------------------------------------------------------------


def note_hung(path: str) -> None:
    """Note that the gate at ``path`` did not answer in time, so that hooks leave it alone for ``HUNG_SECONDS``.

    The file holds the second of the machine's uptime (where there is none, of Unix time) at which it is asked again:
    a shell can read and compare both. That nothing can be written stops nothing.
    """
    try:
        opened = os.open(hung_path(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(opened, b"%d\n" % (_second() + HUNG_SECONDS))
        finally:
            os.close(opened)
    except OSError:
        return


def is_hung(path: str) -> bool:
    """Return whether the gate at ``path`` did not answer in time less than ``HUNG_SECONDS`` ago."""
    try:
        with open(hung_path(path), "rb") as file:  # noqa: PTH123
            until = int(file.read(32) or b"0")
    except (OSError, ValueError):
        return False
    return 0 < until - _second() <= HUNG_SECONDS


def note_answered(path: str) -> None:
    """Note that the gate at ``path`` answers: it is asked again at once."""
    try:
        os.unlink(hung_path(path))  # noqa: PTH108
    except OSError:
        return


def _second() -> int:
    try:
        with open("/proc/uptime", "rb") as file:  # noqa: PTH123
            return int(file.read(64).split(b".", 1)[0])
    except (OSError, ValueError):
        from time import time  # noqa: PLC0415 - elsewhere than on Linux

        return int(time())
