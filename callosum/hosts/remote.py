"""Hooks that ask a server of several machines: where it is, and what a hook process does for it beside asking.

::

    <state>/remote/HOST/remote.json      {"url": ..., "tokenFile": ..., "cacert": ...}
                        fallback.json    by which calls are judged while the server cannot be asked
                        late.jsonl       what went on meanwhile, to be journalled there

A host of its own has a folder of its own, so that what went on without one server is told to no other.
"""

from __future__ import annotations

import ipaddress
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from callosum.client import CallosumClient
from callosum.client.errors import TransportError
from callosum.client.fallback import FILE, read_table, write_table
from callosum.client.transport import Address, Transport
from callosum.errors import CallosumError, ConfigError, GateUnavailable
from callosum.hosts import files, native
from callosum.hosts.native import windows
from callosum.spool import Spool

if TYPE_CHECKING:
    from callosum.settings import Settings

SECONDS: Final = 3.0
"""How long a hook waits for the server: over a network, with a handshake each time."""
TELL_SECONDS: Final = 2.0
"""Seconds that a hook spends on telling the server what it does not know yet, before it asks."""
_PATIENCE: Final = 10.0
_NAME: Final = "remote.json"
_LONGEST: Final = 10_000


class RemoteServer(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A server, the file with the token for it, and the certificates to believe (None: those of the system).

    ``seconds``: how long a hook waits for its answer.
    """

    url: str
    token_file: str
    cacert: str | None = None
    seconds: float = SECONDS


def remote_of(url: str, token_file: Path | None, cacert: Path | None) -> RemoteServer:
    """Returns the server that is meant. Raises ``ConfigError`` with the place of what cannot be used."""
    server = server_at(url, "--url", "https://gate.example.com")
    if not server.tls and not is_loopback(server.host):
        raise ConfigError("over http everybody on the way could read the token: use https", at="--url")
    if token_file is None:
        raise ConfigError(
            "name the file with this machine's token (`callosum token add NAME` on the server)", at="--token-file"
        )
    for path, at in ((token_file, "--token-file"), (cacert, "--cacert")):
        if path is not None and not path.is_file():
            raise ConfigError(f"there is no file {path}", at=at)
    if cacert is not None and windows.is_here():
        raise ConfigError(
            "Windows has a store for certificates: put it there (certutil -addstore Root FILE)", at="--cacert"
        )
    token_in(token_file)
    return RemoteServer(
        url=url.rstrip("/"), token_file=str(token_file), cacert=str(cacert) if cacert is not None else None
    )


def server_at(url: str, at: str, example: str) -> Address:
    """Reads the address of a server (``http://...``, ``https://...``). Raises ``ConfigError`` at ``at``."""
    try:
        server = Address(url)
    except ValueError:
        server = None
    if server is None or server.path:  # a socket is no server's
        raise ConfigError(f"expected the address of a server, as in {example}, not {url!r:.200}", at=at)
    return server


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def token_in(path: Path) -> str:
    """Reads a token. Raises ``ConfigError`` for a file that others may read too, or that holds none."""
    try:
        if windows.is_here():
            _check_access_list(path)
        elif path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            raise ConfigError(f"others can read it: chmod 600 {path}", at="--token-file")
        with path.open(encoding="ascii") as file:
            token = file.read(_LONGEST).split("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or error}", at=str(path)) from None
    if not token or not token.isprintable() or " " in token:
        raise ConfigError("expected a token in its first line and nothing else", at=str(path))
    return token


def _check_access_list(path: Path) -> None:
    program = native.client_path()
    fault = windows.token_fault(program, path) if program is not None else "this installation has no hook client"
    if fault:
        raise ConfigError(fault, at=str(path))


def folder_of(state: Path, host: str) -> Path:
    """The folder of a host that asks a server."""
    return state / "remote" / host


def load(state: Path, host: str) -> RemoteServer | None:
    """The server that a host was set up to ask, None if it was not."""
    try:
        return msgspec.json.decode((folder_of(state, host) / _NAME).read_bytes(), type=RemoteServer)
    except (OSError, msgspec.MsgspecError):
        return None


def save(remote: RemoteServer, state: Path, host: str, tools: dict[str, int]) -> None:
    """Notes it, with the server's table of tiers. Raises ``ConfigError`` for what cannot be written."""
    folder = folder_of(state, host)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_tables(folder, tools)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", at=str(folder)) from None
    files.write(folder / _NAME, msgspec.json.encode(remote), 0o600)


def forget(state: Path, host: str) -> None:
    """Takes the note of it away; what waits to be journalled there stays."""
    with suppress(OSError):
        (folder_of(state, host) / _NAME).unlink()


def greet(remote: RemoteServer, settings: Settings, host: str) -> dict[str, int]:
    """Asks the server as the hooks will, and returns its table of tiers.

    Raises ``ConfigError`` with what is wrong: nobody answers, the certificate, the token, what the token may not do.
    """
    try:
        with _client(remote, folder_of(settings.state, host), remote.seconds) as client:
            client.brief(settings.instance or host, namespace=settings.namespace)
        return _table(remote)
    except GateUnavailable as error:
        why = str(error.__cause__ or error).removeprefix(f"no connection to {remote.url}: ")
        raise ConfigError(f"cannot be asked: {why}", at=remote.url) from None
    except ConfigError as error:
        raise ConfigError(f"does not take it: {error}", at=remote.url) from None
    except (TransportError, ValueError) as error:
        raise ConfigError(f"gave no table of tiers: {error}", at=remote.url) from None


def main() -> None:
    """Run ``tend`` with the arguments of the process, as the hook script does in the background."""
    tend(*sys.argv[1:3])


def tend(state: str, host: str) -> None:
    """Fetches the newest table and sends what went on without the server. What fails is tried with the next prompt."""
    folder = folder_of(Path(state), host)
    remote = load(Path(state), host)
    if remote is None:
        return
    with suppress(CallosumError, TransportError, ValueError, OSError):
        _write_tables(folder, _table(remote))
        if Spool(str(folder)).left():
            with _client(remote, folder, _PATIENCE) as client:
                client.flush()


def tell() -> None:
    """Send what the server does not know yet, as the hook script does before it asks. Arguments as for ``tend``."""
    state, host = sys.argv[1:3]
    remote = load(Path(state), host)
    if remote is None:
        return
    folder = folder_of(Path(state), host)
    with suppress(CallosumError, TransportError, ValueError, OSError):
        client = _client(remote, folder, TELL_SECONDS)
        client.flush()
        client.close()


def _write_tables(folder: Path, tools: dict[str, int]) -> None:
    write_table(folder / FILE, tools)
    if windows.is_here():
        files.write(folder / windows.TIERS, windows.tiers(tools), 0o600)


def _client(remote: RemoteServer, folder: Path, seconds: float) -> CallosumClient:
    token = token_in(Path(remote.token_file))
    return CallosumClient(remote.url, token=token, cafile=remote.cacert, deadline=seconds, state=folder)


def _table(remote: RemoteServer) -> dict[str, int]:
    transport = Transport(remote.url, token=token_in(Path(remote.token_file)), cafile=remote.cacert)
    try:
        answer = transport.request("GET", "/fallback", deadline=time.monotonic() + _PATIENCE)
        if answer.status != 200:
            raise ConfigError(f"it answers {answer.status}", at="GET /fallback")
        return read_table(msgspec.json.decode(answer.body))
    finally:
        transport.close()
