"""Start and use the local gate: a server on this user's own socket, started by the first process that needs it.

It ends by itself once no request has come for a while and no lease, waiter or approval is open. If two start at once,
one serves; the other sees the first one's lock and ends.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from callosum.errors import ConfigError
from callosum.launch import NEUTRAL, environment, serve_command
from callosum.sockets import socket_path

if TYPE_CHECKING:
    from callosum.client.client import CallosumClient

IDLE: Final = 600
"""Seconds without requests after which the local gate ends."""
START_SECONDS: Final = 10.0
"""Seconds that the first call, which starts the gate, may take."""
_POLL: Final = 0.01
_NOT_FIRST: Final = 1
_NEEDED: Final = ("uvicorn", "httptools", "apscheduler", "prometheus_client")
"""Packages of the extra ``server``, which the local gate needs."""


def listens(path: str) -> bool:
    """Return whether something accepts connections at the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        tried.settimeout(1.0)
        try:
            tried.connect(path)
        except OSError:
            return False
        return True


class _Detached(subprocess.Popen[bytes]):
    """A child process that may outlive this process."""

    def __del__(self, _maxsize: int = sys.maxsize) -> None:
        """Suppress the warning about a child that is still running."""


_children: list[_Detached] = []


def start(state: str | os.PathLike[str], seconds: float = START_SECONDS, *, idle: float = IDLE) -> bool:
    """Start the local gate of a state folder unless it runs; return whether it answers within ``seconds``.

    It runs from this installation, in a neutral folder and without those variables of this process that change which
    code runs (``callosum.launch``). It gets Callosum's settings with absolute paths. Its output goes to ``server.log``
    in the state folder.

    Raises ``ConfigError`` if none runs and a package of the extra ``server`` is missing.
    """
    path = socket_path(state)
    if listens(path):
        return True
    from importlib.util import find_spec  # noqa: PLC0415 - needed only to start a gate

    if missing := next((name for name in _NEEDED if find_spec(name) is None), ""):
        raise ConfigError(
            f"the local gate cannot start, because {missing} is not installed: pip install 'callosum-protocol[server]'",
            at="state",
        )
    _children[:] = [child for child in _children if child.poll() is None]
    ends = time.monotonic() + seconds
    folder = os.path.abspath(os.path.expanduser(state))  # noqa: PTH100, PTH111
    os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103
    from callosum.settings import handed_on  # noqa: PLC0415 - needed only to start a gate

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
        # A child that ends with this exit code lost the race: the winner is about to listen.
        if time.monotonic() > ends or child.poll() not in (None, _NOT_FIRST):
            return False
        time.sleep(_POLL)
    return _answers(path, ends)


def _answers(path: str, ends: float) -> bool:
    """Return whether the gate at the socket answers in time. It listens before it has opened its store."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(max(1.0, ends - time.monotonic()))
        asked.connect(path)
        asked.sendall(b"GET /health HTTP/1.1\r\nHost: gate\r\n\r\n")
        return bool(asked.recv(1))
    return False


def kill_started() -> None:
    """Kill the gates that this process started and that still run, and wait for their end."""
    for child in _children:
        child.kill()
        child.wait()


def local_client(state: str | os.PathLike[str], *, idle: float = IDLE, **options: Any) -> CallosumClient:
    """Return a client of the state folder's local gate; the first call that finds no gate starts it.

    ``options`` are those of ``CallosumClient``. That first call may take ``START_SECONDS`` longer. A process of another
    user that listens there is never asked. If no gate can be started because a package of the extra ``server`` is
    missing, the log names the package, and so does the error of a call that cannot run without a gate.
    """
    from callosum.client.client import CallosumClient  # noqa: PLC0415 - importing `start` alone must stay light

    def bring_up(_seconds: float) -> None:
        start(state, START_SECONDS, idle=idle)

    client = CallosumClient(f"unix:{socket_path(state)}", state=state, start=bring_up, **options)
    client._transport.owner = os.geteuid()  # noqa: SLF001 - other clients may ask a gate of another user
    return client
