"""Open a server's sockets, guard them, and announce the server to clients.

A running server keeps ``servers/<pid>.json`` in its state folder. A file lock beside a Unix socket is held as
long as the server lives, so that only one of two servers that start at once serves.
"""

from __future__ import annotations

import ipaddress
import os
import select
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from callosum.errors import CallosumError, ConfigError
from callosum.model import Host
from callosum.process import alive, this_process
from callosum.sockets import LONGEST, leave_origin, remove_origin

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no Unix sockets to guard
    fcntl = None  # type: ignore[assignment]

_FOLDER: Final = "servers"
BACKLOG: Final = 2048


class AlreadyServed(CallosumError):
    """Another server listens at that address; ``address`` names it."""

    def __init__(self, address: str) -> None:
        super().__init__(f"a server is already listening on {address}")
        self.address = address


class RunningServer(Struct, frozen=True, rename="camel"):
    """A running server: its process, and its address for clients.

    ``drain`` is the number of seconds for which it keeps answering after a request to stop.
    """

    process: Host
    address: str
    version: str
    drain: float = 0.0


def is_loopback(host: str) -> bool:
    """Return True if only processes of this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Open a TCP socket. Port 0 takes a free port. Raises ``ConfigError`` naming the address that is not available."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ConfigError(f"{host!r} is not an address of this machine: {error.strerror}", at="--host") from None
    opened = socket.socket(family, kind, proto)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}", at="--port") from None
    opened.set_inheritable(False)
    return opened


def address_of(opened: socket.socket, *, tls: bool) -> str:
    """Return the address for clients of a TCP socket."""
    host, port = opened.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{shown}:{port}"


@contextmanager
def listen_local(path: Path) -> Iterator[socket.socket]:
    """Open a Unix socket that only this user can reach, and remove it at the end.

    Raises ``AlreadyServed`` if a server uses it, ``ConfigError`` if no socket can be made there.
    """
    if len(os.fsencode(path)) > LONGEST:
        hint = "name a shorter one with --socket, or set XDG_RUNTIME_DIR to a short folder of your own"
        raise ConfigError(f"longer than a socket's path may be ({LONGEST} bytes): {hint}", at=str(path))
    _private(path.parent)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyServed(f"unix:{path}") from None
        _remove(path)
        remove_origin(str(path))
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            before = os.umask(0o177)  # private from the first moment
            try:
                opened.bind(str(path))
            except OSError as error:
                raise ConfigError(f"cannot be made: {error.strerror}", at=str(path)) from None
            finally:
                os.umask(before)
            try:
                leave_origin(str(path))  # before any client can connect, so that every client finds it
            except OSError as error:
                raise ConfigError(f"cannot be made: {error.strerror}", at=f"{path}.origin") from None
            opened.listen(BACKLOG)
            try:
                yield opened
            finally:
                _remove(path)
                remove_origin(str(path))
        finally:
            opened.close()
    finally:
        os.close(lock)


def _private(folder: Path) -> None:
    """Create the socket's folder if necessary. Refuse a folder in which another user could put a socket."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.stat()
    except OSError as error:
        raise ConfigError(f"cannot be made: {error.strerror}", at=str(folder)) from None
    if found.st_uid not in (os.getuid(), 0) or (found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX):
        raise ConfigError("other users can write here, so no socket is made in it", at=str(folder))


def _remove(path: Path) -> None:
    """Remove a socket without a listener; leave any other file alone."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError("exists and is not a socket; remove it, or name another path", at=str(path))
        path.unlink()
    except FileNotFoundError:
        return


# --- Running servers ------------------------------------------------------------------------------------


@contextmanager
def announced(state: Path, address: str, version: str, drain: float) -> Iterator[None]:
    """Announce in the state folder that this process serves it."""
    folder = state / _FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{os.getpid()}.json"
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(RunningServer(this_process(), address, version, drain)))
    fresh.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running(state: Path) -> list[RunningServer]:
    """Return the live servers of a state folder, oldest first. Remove the files of dead ones."""
    found: list[tuple[float, RunningServer]] = []
    for path in (state / _FOLDER).glob("*.json"):
        try:
            one = msgspec.json.decode(path.read_bytes(), type=RunningServer)
            written = path.stat().st_mtime
        except (OSError, msgspec.MsgspecError):
            continue
        if alive(one.process) is False:
            with suppress(OSError):
                path.unlink()
        else:
            found.append((written, one))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def heard(read: int, seconds: float) -> str:
    """Return the address that a starting server writes into a pipe; "" if it writes none within ``seconds``.

    ``read`` is the reading end of the pipe; it is closed.
    """
    ends = time.monotonic() + seconds
    said = b""
    with os.fdopen(read, "rb", buffering=0) as pipe:
        while not said.endswith(b"\n"):
            if not select.select([pipe], [], [], max(0.0, ends - time.monotonic()))[0]:
                break
            more = pipe.read(4096)
            if not more:
                break
            said += more
    return said.decode().strip()
