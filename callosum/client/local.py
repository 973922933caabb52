"""The local gate: a server on a socket of this user's own, started by whoever first needs it.

It ends by itself when nobody has asked for a while and no lease, waiter or approval is open. Of two that are
started at once one serves; the other sees the first one's lock and ends.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from callosum.errors import ConfigError
from callosum.launch import NEUTRAL, environment, serve_command
from callosum.sockets import socket_path

if TYPE_CHECKING:
    from callosum.client.client import CallosumClient

IDLE: Final = 600
"""After how many seconds without need the local gate ends."""
START_SECONDS: Final = 10.0
"""How long the first call may take, in which the gate is started."""
_POLL: Final = 0.01
_NOT_FIRST: Final = 1
_NEEDED: Final = ("uvicorn", "httptools", "apscheduler", "prometheus_client")
"""Packages of the extra ``server``, without which no local gate starts."""


def listens(path: str) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        tried.settimeout(1.0)
        try:
            tried.connect(path)
        except OSError:
            return False
        return True


class _Detached(subprocess.Popen[bytes]):
    """A child that is meant to outlive this process."""

    def __del__(self, _maxsize: int = sys.maxsize) -> None:
        """Says nothing of a child that still runs."""


_children: list[_Detached] = []


def start(state: str | os.PathLike[str], seconds: float = START_SECONDS, *, idle: float = IDLE) -> bool:
    """Start the local gate of a state folder unless it runs; return whether it listens within ``seconds``.

    It runs from this installation, in a neutral folder and with none of this process's variables that change which
    code runs (``callosum.launch``); those of Callosum's settings it gets with absolute paths. What it has to say goes
    to ``server.log`` in the state folder.

    Raises ``ConfigError`` if none runs and a package of the extra ``server`` is missing.
    """
    path = socket_path(state)
    if listens(path):
        return True
    from importlib.util import find_spec  # noqa: PLC0415 - where nothing is started it is not needed

    if missing := next((name for name in _NEEDED if find_spec(name) is None), ""):
        raise ConfigError(
            f"the local gate cannot start, because {missing} is not installed: pip install 'callosum-protocol[server]'",
            at="state",
        )
    _children[:] = [child for child in _children if child.poll() is None]
    ends = time.monotonic() + seconds
    folder = os.path.abspath(os.path.expanduser(state))  # noqa: PTH100, PTH111
    os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103
    from callosum.settings import handed_on  # noqa: PLC0415 - where nothing is started it is not needed

    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    log = os.open(os.path.join(folder, "server.log"), writing, 0o600)  # noqa: PTH118
    try:
        child = _Detached(
            serve_command(folder, path, idle),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=NEUTRAL,
            env=environment(os.environ, handed_on(os.environ)),
        )
    finally:
        os.close(log)
    _children.append(child)
    while not listens(path):
        # One that ends with "no" was not the first: then who was first is about to listen.
        if time.monotonic() > ends or child.poll() not in (None, _NOT_FIRST):
            return False
        time.sleep(_POLL)
    return True


def local_client(state: str | os.PathLike[str], *, idle: float = IDLE, **options: Any) -> CallosumClient:
    """Returns a client of the state folder's local gate, which is started with the first call that finds none.

    ``options`` are those of ``CallosumClient``. That first call may take ``START_SECONDS`` longer. A process of another
    user that listens there is not asked. Where no gate can be started, because a package of the extra ``server`` is
    missing, the log says which, and so does the error of a call that does not run without a gate.
    """
    from callosum.client.client import CallosumClient  # noqa: PLC0415 - `start` alone must stay light

    def bring_up(_seconds: float) -> None:
        start(state, START_SECONDS, idle=idle)

    client = CallosumClient(f"unix:{socket_path(state)}", state=state, start=bring_up, **options)
    client._transport.owner = os.geteuid()  # noqa: SLF001 - other clients may ask a gate of another user
    return client
