"""Let hooks ask a server that several machines share: its address, its tier table and the spool.

::

    <state>/remote/HOST/remote.json      {"url": ..., "tokenFile": ..., "cacert": ...}
                        fallback.json    the tier table for deciding while the server is unreachable
                        late.jsonl       the spool: calls made meanwhile, to be journalled by the server

Each host has its own folder, so that the calls spooled for one server are never sent to another.
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
from callosum.client.transport import GateAddress, Transport
from callosum.errors import CallosumError, ConfigError, GateUnavailable
from callosum.hosts import files, native
from callosum.hosts.native import windows
from callosum.spool import Spool

if TYPE_CHECKING:
    from callosum.settings import Settings

SECONDS: Final = 3.0
"""Seconds that a hook waits for the server, over a network and with a handshake each time."""
TELL_SECONDS: Final = 2.0
"""Seconds that a hook spends on sending the spool to the server before it asks."""
_PATIENCE: Final = 10.0
_NAME: Final = "remote.json"
_LONGEST: Final = 10_000


class RemoteServer(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Name a server, the file with the token for it, and the certificates to trust (None: those of the system).

    ``seconds`` is how long a hook waits for the server's answer.
    """

    url: str
    token_file: str
    cacert: str | None = None
    seconds: float = SECONDS


def remote_of(url: str, token_file: Path | None, cacert: Path | None) -> RemoteServer:
    """Return the server that the options describe. Raises ``ConfigError`` that names the faulty option."""
    server = server_at(url, "--url", "https://gate.example.com")
    if not server.tls and not is_loopback(server.host):
        raise ConfigError("anyone on the network could read the token over http: use https", at="--url")
    if token_file is None:
        raise ConfigError(
            "name the file with this machine's token (`callosum token add NAME` on the server)", at="--token-file"
        )
    for path, at in ((token_file, "--token-file"), (cacert, "--cacert")):
        if path is not None and not path.is_file():
            raise ConfigError(f"file not found: {path}", at=at)
    if cacert is not None and windows.is_here():
        raise ConfigError(
            "Windows has a store for certificates: put it there (certutil -addstore Root FILE)", at="--cacert"
        )
    token_in(token_file)
    return RemoteServer(
        url=url.rstrip("/"), token_file=str(token_file), cacert=str(cacert) if cacert is not None else None
    )


def server_at(url: str, at: str, example: str) -> GateAddress:
    """Parse the address of a server (``http://...``, ``https://...``). Raises ``ConfigError`` at ``at``."""
    try:
        server = GateAddress(url)
    except ValueError:
        server = None
    if server is None or server.path:  # a path would be that of a socket
        raise ConfigError(f"expected the address of a server, as in {example}, not {url!r:.200}", at=at)
    return server


def is_loopback(host: str) -> bool:
    """Return True if a name or an address is this machine's own."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def token_in(path: Path) -> str:
    """Read a token. Raises ``ConfigError`` if others may read the file too, or if it holds no token."""
    try:
        if windows.is_here():
            client = native.client_path()
            if fault := windows.token_fault(client, path) if client else "this installation has no hook client":
                raise ConfigError(fault, at=str(path))
        elif path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            raise ConfigError(f"others can read it: chmod 600 {path}", at="--token-file")
        with path.open(encoding="ascii") as file:
            token = file.read(_LONGEST).split("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or error}", at=str(path)) from None
    if not token or not token.isprintable() or " " in token:
        raise ConfigError("expected a token in its first line and nothing else", at=str(path))
    return token


def folder_of(state: Path, host: str) -> Path:
    """Return the folder of a host that asks a server."""
    return state / "remote" / host


def load(state: Path, host: str) -> RemoteServer | None:
    """Return the server that a host was set up to ask, or None."""
    try:
        return msgspec.json.decode((folder_of(state, host) / _NAME).read_bytes(), type=RemoteServer)
    except (OSError, msgspec.MsgspecError):
        return None


def save(remote: RemoteServer, state: Path, host: str, tools: dict[str, int]) -> None:
    """Save the server and its tier table. Raises ``ConfigError`` if they cannot be written."""
    folder = folder_of(state, host)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_tables(folder, tools)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", at=str(folder)) from None
    files.write(folder / _NAME, msgspec.json.encode(remote), 0o600)


def forget(state: Path, host: str) -> None:
    """Remove the record of the server. The spool stays."""
    with suppress(OSError):
        (folder_of(state, host) / _NAME).unlink()


def greet(remote: RemoteServer, settings: Settings, host: str) -> dict[str, int]:
    """Ask the server as the hooks will, and return its tier table.

    Raises: ``ConfigError`` that says what is wrong: no answer, the certificate, the token, or a missing permission.
    """
    try:
        with _client(remote, folder_of(settings.state, host), remote.seconds) as client:
            client.brief(settings.instance or host, namespace=settings.namespace)
        return _table(remote)
    except GateUnavailable as error:
        why = str(error.__cause__ or error).removeprefix(f"no connection to {remote.url}: ")
        raise ConfigError(f"is unreachable: {why}", at=remote.url) from None
    except ConfigError as error:
        raise ConfigError(f"rejects the hooks: {error}", at=remote.url) from None
    except (TransportError, ValueError) as error:
        raise ConfigError(f"returned no tier table: {error}", at=remote.url) from None


def main() -> None:
    """Run ``tend`` with the arguments of the process, as the hook script does in the background."""
    tend(*sys.argv[1:3])


def tend(state: str, host: str) -> None:
    """Fetch the newest tier table and send the spool. Whatever fails is tried again with the next prompt."""
    folder = folder_of(Path(state), host)
    remote = load(Path(state), host)
    if remote is None:
        return
    with suppress(CallosumError, TransportError, ValueError, OSError):
        _write_tables(folder, _table(remote))
        if Spool(str(folder)).waiting():
            with _client(remote, folder, _PATIENCE) as client:
                client.flush()


def tell() -> None:
    """Send the spool to the server, as the hook script does before it asks. The arguments are those of ``tend``."""
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
