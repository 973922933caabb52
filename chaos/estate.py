"""The servers that the campaigns use: private ones on the loopback, started when a campaign first needs them.

One PostgreSQL and one Redis serve all campaigns of a run, each in its own schema or under its own prefix. Both also
speak TLS, with a certificate that is made for the run.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final, Literal, Self
from urllib.parse import quote

from tests.support import postgres
from tests.support.certificates import certificate_in
from tests.support.faultydisk import FaultyDisk
from tests.support.redis_server import RedisServer, free_port
from tests.support.serving import Server, launch

Engine = Literal["sqlite", "postgres", "redis"]
_NOBODY: Final = 65_534

_KEYS: Final = [{"key": f"file:{{params.{name}}}", "mode": "write"} for name in "abc"]
_CELLS: Final = {"recent": "allow", "stale": "allow", "unknown": "allow"}
RULES: Final = json.dumps(
    {
        "rules": [
            # Only the lease holds others off, so a session that died does not end the campaign.
            {"tool": "hold", "tier": 4, "effect": "write", "contextKey": _KEYS, "cells": _CELLS, "repeats": False},
            {"tool": "advise", "tier": 3, "effect": "write", "contextKey": _KEYS, "repeats": False},
            {"tool": "note", "tier": 1, "effect": "write", "contextKey": _KEYS, "repeats": False},
        ]
    }
)


class Absent(Exception):
    """A server that is not installed here."""


class Database(postgres.Server):
    """A PostgreSQL that also listens on the loopback, with TLS."""

    def __init__(self, folder: Path, port: int, certificate: tuple[Path, Path]) -> None:
        here = [folder / path.name for path in certificate]
        for path, copy in zip(certificate, here, strict=True):
            shutil.copy(path, copy)
            copy.chmod(0o600)
            if postgres._as_nobody():
                shutil.chown(copy, _NOBODY, _NOBODY)
        settings = {"ssl": "on", "ssl_cert_file": str(here[0]), "ssl_key_file": str(here[1])}
        super().__init__(folder, [word for name, value in settings.items() for word in ("-c", f"{name}={value}")], port)

    def address(self, schema: str, port: int = 0, **more: str) -> str:
        """Return a store's URL over TCP: direct, or through a proxy's port."""
        extra = "".join(f"&{name}={quote(value, safe='')}" for name, value in more.items())
        return f"postgresql://callosum@127.0.0.1:{port or self.port}/postgres?schema={schema}{extra}"


class Cache(RedisServer):
    """A Redis that writes everything to its log before it answers, with a second port for TLS."""

    def __init__(self, folder: Path, certificate: tuple[Path, Path]) -> None:
        self.tls = free_port()
        self.cafile = certificate[0]
        options = {
            "--tls-port": str(self.tls), "--tls-cert-file": str(certificate[0]), "--tls-key-file": str(certificate[1]),
            "--tls-ca-cert-file": str(certificate[0]), "--tls-auth-clients": "no",
        }  # fmt: skip
        super().__init__(folder, *(word for pair in options.items() for word in pair))

    def store(self, prefix: str, port: int = 0, *, tls: bool = False) -> str:
        """Return a store's URL: direct, or through a proxy's port."""
        if tls:
            trust = quote(str(self.cafile), safe="")
            return f"rediss://127.0.0.1:{port or self.tls}/0?prefix={prefix}&ssl_ca_certs={trust}"
        return f"redis://127.0.0.1:{port or self.port}/0?prefix={prefix}"


class Estate:
    """The servers of one run. ``folder`` is in memory if there is room."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        memory = Path("/dev/shm")
        roomy = memory.is_dir() and shutil.disk_usage(memory).free > 500_000_000
        made = tempfile.TemporaryDirectory(
            prefix="callosum-chaos-", dir=memory if roomy else None, ignore_cleanup_errors=True
        )
        self.folder = Path(self._stack.enter_context(made))
        self.folder.chmod(0o755)
        self._numbers = count(1)
        self._certificate: tuple[Path, Path] | None = None
        self._database: Database | None = None
        self._cache: Cache | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def name(self) -> str:
        """Return a name that no other campaign of the run has."""
        return f"chaos{next(self._numbers)}"

    @property
    def certificate(self) -> tuple[Path, Path]:
        """Return a self-signed certificate for the loopback, and its key."""
        if self._certificate is None:
            self._certificate = certificate_in(self.folder / "tls")
        return self._certificate

    @property
    def database(self) -> Database:
        """Return the running PostgreSQL.

        Raises:
            Absent: PostgreSQL is not installed.
        """
        if self._database is None:
            if postgres.binaries() is None:
                raise Absent(postgres.ABSENT)
            # A socket's path may have at most 107 characters.
            folder = Path(tempfile.mkdtemp(prefix="callosum-pg-", dir=self.folder.parent))
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            folder.chmod(0o755)
            self._database = Database(folder, free_port(), self.certificate)
            self._stack.callback(self._database.stop)
            self._database.start()
        return self._database

    @property
    def cache(self) -> Cache:
        """Return the running Redis.

        Raises:
            Absent: Redis is not installed.
        """
        if self._cache is None:
            if shutil.which("redis-server") is None and shutil.which("valkey-server") is None:
                raise Absent("there is no redis-server and no valkey-server here: install redis-server")
            folder = self.folder / "redis"
            folder.mkdir()
            self._cache = Cache(folder, self.certificate)
            self._stack.callback(self._cache.stop)
        return self._cache


class Site:
    """One ``callosum serve`` that can be killed and restarts at the same address."""

    def __init__(
        self,
        state: Path,
        rules: Path,
        ttl: float,
        *,
        store: str = "",
        certificate: tuple[Path, Path] | None = None,
        disk: FaultyDisk | None = None,
    ) -> None:
        self.state = state
        self.port = free_port()
        self.disk = disk
        self._tls = certificate
        self._environ = {"CALLOSUM_LEASE_TTL": str(ttl), "CALLOSUM_RULES": str(rules)}
        if disk is not None:
            self._environ |= disk.environ
        self._options = ["--port", str(self.port)]
        if store:
            self._options += ["--store", store]
        if certificate:
            self._options += ["--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1])]
        self.server: Server = self.start()

    def start(self) -> Server:
        """Start the server, and wait until it listens."""
        self.server = launch(self.state, *self._options, environ=self._environ)
        return self.server

    def url(self, port: int = 0) -> str:
        """Return the server's address: direct, or through a proxy's port."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{port or self.port}"

    def close(self) -> str:
        """Stop the server as a service manager would. Return what went wrong, if anything."""
        if self.server.process.poll() is not None:
            return f"the server had ended with {self.server.process.returncode}: {self.server.log.read_text()[-2000:]}"
        try:
            code = self.server.stop()
        except subprocess.TimeoutExpired:
            self.server.kill()
            return "the server did not stop in time"
        log = self.server.log.read_text()
        if code or "Traceback" in log:
            return f"the server ended with {code}: {log[log.find('Traceback') :][:2000]}"
        return ""
