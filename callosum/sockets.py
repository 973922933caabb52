"""Where the local gate of a state folder listens: one place that all of the user's programs know, and nobody else's.

Never in a folder that others can write, such as ``/tmp``: who makes a socket there first would be taken for the gate.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

SOCKET: Final = "gate.sock"
"""The socket's name in the state folder."""
LONGEST: Final = 100
"""Longest path of a Unix socket, in bytes, that every system takes."""


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
