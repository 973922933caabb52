"""The connection to a Redis, a Valkey or a Redis Cluster: its URL, its scripts, what it promises, its errors."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import redis
from redis import exceptions as faults

from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.stores.redis.names import PREFIX

SCHEMA: Final = 1
TIMEOUT: Final = 5.0
"""Seconds that one answer of the server may take."""
_SYNC: Final = 5_000
"""Milliseconds that the server may take to put a batch on disk."""
_SCHEMES: Final = {"valkey": "redis", "valkeys": "rediss", "redis": "redis", "rediss": "rediss", "unix": "unix"}
_OWN: Final = ("prefix", "durability", "replicas", "cluster")
_SINCE: Final = (7, 2)
"""The version from which a client can wait until its writes are on disk."""
_AWAY: Final = (
    faults.ConnectionError,
    faults.TimeoutError,
    faults.ReadOnlyError,
    faults.OutOfMemoryError,
    faults.ClusterDownError,
    faults.ClusterError,
    faults.TryAgainError,
    faults.MaxConnectionsError,
)
_BUSY: Final = ("OOM", "MISCONF", "LOADING", "BUSY", "MASTERDOWN", "NOREPLICAS", "READONLY", "CLUSTERDOWN", "TRYAGAIN")
_logger: Final = logging.getLogger(__name__)


class Script:
    """One of the scripts beside this module. The server keeps it; when it has lost it, it is sent again."""

    def __init__(self, name: str) -> None:
        self.text = (Path(__file__).parent / f"{name}.lua").read_text(encoding="utf-8")
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


class Link:
    """A pool of connections. Safe for threads, and after a fork.

    ``url``: ``redis://``, ``rediss://``, ``unix://`` (or ``valkey://``, ``valkeys://``) as redis-py reads it, with
    these beside:

    * ``prefix``: what all keys begin with (``callosum``);
    * ``durability``: ``full`` refuses a server that cannot keep what a durable scope promises, ``server`` takes
      whatever the server's own settings give;
    * ``replicas``: how many replicas must have a durable batch too (0);
    * ``cluster``: ``true`` for a Redis Cluster; a server says by itself that it is part of one.
    """

    def __init__(self, url: str) -> None:
        self.url, own = _parted(url)
        self.place = _shown(url)
        self.prefix = own.get("prefix", PREFIX)
        self.replicas = int(own.get("replicas", "0"))
        self.durability = own.get("durability", "full")
        if self.durability not in ("full", "server"):
            raise ConfigError("durability is full or server", "store")
        self.cluster = own.get("cluster", "") == "true"
        self.warnings: list[str] = []
        self.engine = ""
        self._syncs = False
        with self.explained():
            self.client: Any = self._connect()
            self._greet()

    def _connect(self) -> Any:
        timeouts = {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT / 2}
        if self.cluster:
            return redis.RedisCluster.from_url(self.url, **timeouts)
        client = redis.Redis.from_url(self.url, **timeouts)
        if client.info("cluster").get("cluster_enabled"):
            client.close()
            self.cluster = True
            return redis.RedisCluster.from_url(self.url, **timeouts)
        return client

    # --- what the server promises ---

    def _servers(self) -> list[Any]:
        if not self.cluster:
            return [self.client]
        return [self.client.get_redis_connection(node) for node in self.client.get_primaries()]

    def _greet(self) -> None:
        """Looks at the server's settings, and at whose keys these are."""
        for server in self._servers():
            self._weigh(server)
        name = f"{self.prefix}:schema"
        self.client.set(name, SCHEMA, nx=True)
        found = self.client.get(name)
        if found != str(SCHEMA).encode():
            raise StoreError(f"{self.place} holds schema {found!r} under {name}; this version reads {SCHEMA}")

    def _weigh(self, server: Any) -> None:
        info = server.info()
        version = str(info.get("valkey_version") or info.get("redis_version", "0"))
        self.engine = f"{'Valkey' if 'valkey_version' in info else 'Redis'} {version}"
        if info.get("role") == "slave":
            raise StoreUnavailable(f"{self.place} is a replica: name the primary")
        config = _config(server)
        policy = config.get("maxmemory-policy", "noeviction")
        if info.get("maxmemory", 0) and policy.startswith("allkeys"):
            raise ConfigError(
                f"the server may evict leases (maxmemory-policy {policy}); set maxmemory-policy noeviction", "store"
            )
        logs = config.get("appendonly", "yes" if info.get("aof_enabled") else "no") == "yes"
        how = config.get("appendfsync", "unknown")
        can_wait = tuple(int(part) for part in version.split(".")[:2]) >= _SINCE
        if logs and how == "always":
            return
        lost = (
            f"appendfsync {how}: a power cut takes the last second or more"
            if logs
            else "appendonly no: a stop takes all"
        )
        if self.durability == "server":
            self.warnings.append(f"what was allowed at tiers 3 and 4 may be forgotten ({lost})")
            _logger.warning("%s: %s", self.place, self.warnings[-1])
        elif logs and can_wait and not self.cluster:
            self._syncs = True
        else:
            raise ConfigError(
                f"the server cannot keep what tiers 3 and 4 need ({lost}). Set appendonly yes and appendfsync always"
                f"{'' if self.cluster else ', or appendonly yes on a server from version 7.2 on'}; or accept the loss "
                "with ?durability=server",
                "store",
            )

    # --- scripts ---

    def run(self, script: Script, clock: str, *args: bytes | str | int) -> Any:
        """Runs a script; ``clock`` is its key, by which a cluster finds the server."""
        try:
            return self.client.evalsha(script.sha, 1, clock, *args)
        except faults.NoScriptError:
            return self.client.eval(script.text, 1, clock, *args)

    def run_durable(self, script: Script, clock: str, *args: bytes | str | int) -> Any:
        """As ``run``; returns once what it wrote survives power loss, as far as the server can promise that."""
        if not (self._syncs or self.replicas) or self.cluster:
            return self.run(script, clock, *args)
        with self.client.pipeline(transaction=False) as pipe:
            pipe.evalsha(script.sha, 1, clock, *args)
            if self._syncs:
                pipe.execute_command("WAITAOF", 1, self.replicas, _SYNC)
            else:
                pipe.execute_command("WAIT", self.replicas, _SYNC)
            answer, waited = pipe.execute(raise_on_error=False)
        if isinstance(answer, faults.NoScriptError):
            self.client.script_load(script.text)
            return self.run_durable(script, clock, *args)
        for part in (answer, waited):
            if isinstance(part, Exception):
                raise part
        local, others = waited if self._syncs else (1, waited)
        if int(local) < 1 or int(others) < self.replicas:
            raise StoreUnavailable(f"{self.place} did not put the batch on disk within {_SYNC / 1000:.0f} s")
        return answer

    # --- errors ---

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns the driver's errors into the store's."""
        try:
            yield
        except _AWAY as error:
            raise StoreUnavailable(f"{self.place} cannot be used now: {error}") from error
        except faults.ResponseError as error:
            if isinstance(error, faults.BusyLoadingError) or any(word in str(error) for word in _BUSY):
                raise StoreUnavailable(f"{self.place} cannot be used now: {error}") from error
            raise StoreError(f"{self.place} refuses: {error}") from error
        except faults.RedisError as error:
            raise StoreUnavailable(f"{self.place} cannot be used now: {error}") from error

    def close(self) -> None:
        """Closes all connections of this process; a later use opens new ones."""
        self.client.close()


def _config(server: Any) -> dict[str, str]:
    """The settings that matter; none where the server does not tell them (a managed one)."""
    try:
        found = server.config_get("append*", "maxmemory-policy")
    except faults.ResponseError:
        return {}
    return {_text(name): _text(value) for name, value in found.items()}


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _parted(url: str) -> tuple[str, dict[str, str]]:
    """The URL as redis-py takes it, and our own parts of its query."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise ConfigError(f"{parts.scheme}:// is no Redis", "store")
    query = parse_qsl(parts.query)
    rest = urlencode([pair for pair in query if pair[0] not in _OWN])
    own = {name: value for name, value in query if name in _OWN}
    return urlunsplit(parts._replace(scheme=_SCHEMES[parts.scheme], query=rest)), own


def _shown(url: str) -> str:
    """The URL without its password and its query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def pairs(flat: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """A flat answer of names and values, in pairs."""
    return list(zip(flat[::2], flat[1::2], strict=True))
