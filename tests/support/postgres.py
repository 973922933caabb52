"""A private PostgreSQL server for the tests: on a Unix socket in a temporary folder, stopped by its pid."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/pgsql/bin")
ABSENT = "no PostgreSQL binaries here (initdb, postgres): install postgresql, or set CALLOSUM_POSTGRES_BIN"
_schemas = count(1)


def binaries() -> Path | None:
    """Return the folder with ``initdb`` and ``postgres``; the newest if there are several."""
    named = os.environ.get("CALLOSUM_POSTGRES_BIN")
    if named:
        return Path(named)
    found = [path for place in PLACES for path in Path("/").glob(place[1:])]
    on_path = shutil.which("initdb")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    fit = [path for path in found if (path / "initdb").exists() and (path / "postgres").exists()]
    return max(
        fit, key=lambda path: [int(part) for part in path.parent.name.split(".") if part.isdigit()], default=None
    )


def _as_nobody() -> Sequence[str]:
    """Return the arguments that run PostgreSQL as a user without rights: it refuses to run as root."""
    if os.geteuid() != 0:
        return ()
    return ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


class Server:
    """One server. ``url`` names a fresh schema at each call. With a ``port`` it listens on loopback too."""

    def __init__(self, folder: Path, options: Sequence[str] = (), port: int = 0) -> None:
        bin_ = binaries()
        if bin_ is None:
            raise RuntimeError(ABSENT)
        self._bin = bin_
        self.folder = folder
        self.data = folder / "data"
        self.port = port
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
        subprocess.run(
            [*_as_nobody(), str(bin_ / "initdb"), "-D", str(self.data), "-U", "callosum", "-A", "trust",
             "-E", "UTF8", "--locale=C", "--no-sync"],
            check=True, capture_output=True, cwd=folder,
        )  # fmt: skip

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1" if self.port else "",
            "port": str(self.port or 5432),
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
            "shared_buffers": "64MB",
            "logging_collector": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_as_nobody(), str(self._bin / "postgres"), "-D", str(self.data), *options, *self._options],
                stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip
        until = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.conninfo, connect_timeout=2).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((self.folder / "log").read_text()[-2000:]) from None
                time.sleep(0.02)
            else:
                return

    @property
    def conninfo(self) -> str:
        return f"host={self.folder} port={self.port or 5432} user=callosum dbname=postgres"

    def url(self, schema: str | None = None, **more: str) -> str:
        schema = schema or f"t{os.getpid()}_{next(_schemas)}"
        extra = "".join(f"&{name}={value}" for name, value in more.items())
        return f"postgresql://callosum@/postgres?host={quote(str(self.folder), safe='')}&schema={schema}{extra}"

    def contents(self, url: str) -> object:
        """Return the contents of all tables of a schema."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            connection.execute(f"set search_path to {schema_of(url)}")
            tables = ("journal", "record", "meta")
            return [connection.execute(f"select * from {table} t order by t").fetchall() for table in tables]  # noqa: S608

    def drop(self, schema: str) -> None:
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            connection.execute(f'drop schema if exists "{schema}" cascade')

    @property
    def pid(self) -> int:
        """Return the pid of the running server. Raises ``RuntimeError`` if it is not running."""
        if self._process is None:
            raise RuntimeError("PostgreSQL is not running")
        return self._process.pid

    def stop(self, *, hard: bool = False) -> None:
        """Stop the server. ``hard``: at once, without writing pending data (``immediate``), as a crash does."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGQUIT if hard else signal.SIGINT)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def schema_of(url: str) -> str:
    """Return the schema that a URL names."""
    return url.partition("schema=")[2].partition("&")[0]


@contextmanager
def server(*options: str, on_disk: bool = False, port: int = 0) -> Iterator[Server]:
    """Run a server in a folder that is deleted with it.

    If durability is not the subject, the folder is in memory where possible.
    """
    memory = Path("/dev/shm")
    in_memory = not on_disk and memory.is_dir() and shutil.disk_usage(memory).free > 500_000_000
    # The path of a socket may have at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="callosum-pg-", dir=memory if in_memory else "/tmp"))
    folder.chmod(0o755)
    try:
        own = Server(folder, options, port)
        own.start()
        try:
            yield own
        finally:
            own.stop()
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)


def need_binaries() -> None:
    """Skip the test with a reason if the binaries are missing; fail if they are required."""
    if binaries() is None:
        if os.environ.get("CALLOSUM_SERVERS") == "required":
            pytest.fail(ABSENT)
        pytest.skip(ABSENT)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Return the server of this test session."""
    need_binaries()
    with server() as own:
        yield own


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    """Return the URL of a schema that only this test uses."""
    url = postgres.url()
    yield url
    postgres.drop(schema_of(url))
