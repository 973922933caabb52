"""Connect to a Redis, a Valkey or a Redis Cluster: URL, scripts, durability, errors."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any, Final

import redis
from redis import exceptions as faults

from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.stores.base import Pool
from callosum.stores.receipt import IDENTITY, new_identity
from callosum.stores.redis.deadline import CONNECT, LEAST, TIMEOUT, BoundedRetry, ClusterClient, bounded
from callosum.stores.redis.pool import CONNECTIONS, LimitedPool, PoolExhausted
from callosum.stores.redis.url import number_in, password_in, split_url, without_secrets

SCHEMA: Final = 2
PREFIX: Final = "callosum"
"""Beginning of every key of a store, unless the URL sets another ``prefix``."""
_ASIDE: Final = (
    "for _, k in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do "
    "redis.call('RENAME', k, 'format-' .. ARGV[2] .. ':' .. k) end"
)
"""Renames all keys of a prefix."""
_SYNC: Final = 5_000
"""Milliseconds that the server may take to write a batch to disk."""
_WAITAOF_SINCE: Final = (7, 2)
"""First server version with WAITAOF, by which a client waits until its writes are on disk."""
_UNAVAILABLE: Final = (
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
    """A Lua script beside this module. The server caches it; if the server has lost it, it is sent again."""

    def __init__(self, name: str) -> None:
        self.text = (Path(__file__).parent / f"{name}.lua").read_text(encoding="utf-8")
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


class NotDurable(StoreUnavailable):
    """A script ran, but the server did not confirm that its writes survive. ``answer``: the script's answer."""

    def __init__(self, message: str, answer: Any) -> None:
        super().__init__(message)
        self.answer = answer


class InDoubt(faults.ConnectionError):  # type: ignore[misc]
    """The connection was lost after a script was sent, and no server could say whether it ran."""


class RedisConnection:
    """A pool of connections to the server. Safe for threads, and after a fork.

    ``url``: ``redis://``, ``rediss://``, ``unix://`` (or ``valkey://``, ``valkeys://``) as redis-py reads it, with
    these further parameters:

    * ``prefix``: the beginning of every key (``callosum``);
    * ``durability``: ``full`` refuses a server whose settings do not make durable batches survive power loss,
      ``server`` accepts whatever the server's settings give;
    * ``replicas``: number of replicas that must have received a durable batch (0);
    * ``cluster``: ``true`` for a Redis Cluster; a server that belongs to one is also recognised without it;
    * ``pool``: maximum number of connections of this process; in a cluster, to each server (16, at least 2);
    * ``password_file``: a file with the password, so that no URL contains it.

    Raises ``ConfigError`` for a URL or a server that cannot be used, ``StoreUnavailable`` for one that is unreachable.
    """

    def __init__(self, url: str, *, creates: bool = True) -> None:
        self.url, own = split_url(url)
        self.place = without_secrets(url)
        self.prefix = own.get("prefix", PREFIX)
        self.replicas = number_in(own, "replicas", 0, least=0)
        self.limit = number_in(own, "pool", CONNECTIONS, least=2)
        self.durability = own.get("durability", "full")
        if self.durability not in ("full", "server"):
            raise ConfigError(f"durability: expected full or server, got {self.durability!r}", "store")
        self.cluster = own.get("cluster", "") == "true"
        self.channel = f"{self.prefix}:{{}}:wake"  # a cluster carries its messages to all servers
        self.warnings: list[str] = []
        self.engine = ""
        self.syncs = False
        """True if a durable batch waits for the server's disk after it was written."""
        self._identity = f"{self.prefix}:{IDENTITY}"
        self._identified: bytes | None = None
        self.replacements = 0
        """Number of times that the store was found to be another one."""
        self._secret = password_in(own["password_file"]) if "password_file" in own else None
        with self.explained():
            try:
                self.client: Any = self._connect()
            except (TypeError, ValueError) as error:  # the driver's way to refuse a parameter
                raise ConfigError(f"the URL of the store has an invalid parameter: {error}", "store") from error
            for server in self._servers():
                self._check_server(server)
            if creates:
                self.client.set(f"{self.prefix}:schema", SCHEMA, nx=True)
            self.found = self._format()

    def _connect(self) -> Any:
        # RESP 2 can express every answer of the scripts, and redis-py parses it in fewer steps.
        more: dict[str, Any] = {"socket_timeout": TIMEOUT, "socket_connect_timeout": CONNECT, "protocol": 2}
        if self._secret is not None:
            more["password"] = self._secret
        if self.cluster:
            return ClusterClient(url=self.url, max_connections=self.limit, **more)
        more["retry"] = BoundedRetry()
        client = redis.Redis.from_pool(LimitedPool.from_url(self.url, limit=self.limit, wait=TIMEOUT, **more))
        if client.info("cluster").get("cluster_enabled"):
            client.close()
            self.cluster = True
            return self._connect()
        return client

    def identify(self) -> str:
        """Return the id of the store. Create it if there is none."""
        identity = self.client.get(self._identity)
        if identity is None:
            self.client.set(self._identity, new_identity(), nx=True)
            identity = self.client.get(self._identity)
        self._identified = identity
        return str(identity.decode())

    def pool(self) -> Pool:
        """Return figures on this process's connections; for a cluster, on those to all its servers together."""
        if not self.cluster:
            pool: LimitedPool = self.client.connection_pool
            return pool.state()
        nodes = [node.redis_connection for node in self.client.get_nodes() if node.redis_connection is not None]
        pools = [node.connection_pool for node in nodes]
        idle = sum(len(pool._available_connections) for pool in pools)  # noqa: SLF001 - there is no public attribute
        used = sum(len(pool._in_use_connections) for pool in pools)  # noqa: SLF001
        return Pool(self.limit * max(len(nodes), 1), idle + used, idle)

    # --- What the server guarantees ---

    def _servers(self) -> list[Any]:
        if not self.cluster:
            return [self.client]
        return [self.client.get_redis_connection(node) for node in self.client.get_primaries()]

    def _format(self) -> int | None:
        """Return the format of the keys, None if there are none. Raise ``StoreError`` for another format."""
        name = f"{self.prefix}:schema"
        found = self.client.get(name)
        if found is None or int(found) == SCHEMA:
            return int(found) if found is not None else None
        raise StoreError(f"{self.place} has format {_text(found)} under {name}, {self._advice(int(found))}")

    def _advice(self, found: int) -> str:
        """Return what to do about another format, with the command that sets it aside."""
        if found > SCHEMA:
            return f"this version reads {SCHEMA}: install a newer callosum-protocol"
        earlier = "of an earlier Callosum, which this version does not read:"
        if self.cluster:
            return f"{earlier} begin anew beside it, with another ?prefix= in the URL of the store"
        return f"{earlier} set it aside with `redis-cli -u {self.place} eval {quote(_ASIDE)} 0 {self.prefix} {found}`"

    def _check_server(self, server: Any) -> None:
        info = server.info()
        version = str(info.get("valkey_version") or info.get("redis_version", "0"))
        self.engine = f"{'Valkey' if 'valkey_version' in info else 'Redis'} {version}"
        if info.get("role") == "slave":
            raise StoreUnavailable(f"{self.place} is a replica: put the address of its primary in the URL of the store")
        config = _config(server)
        policy = config.get("maxmemory-policy", "noeviction")
        if info.get("maxmemory", 0) and policy.startswith("allkeys"):
            raise ConfigError(
                f"the server may evict leases (maxmemory-policy {policy}); set maxmemory-policy noeviction", "store"
            )
        logs = config.get("appendonly", "yes" if info.get("aof_enabled") else "no") == "yes"
        fsync = config.get("appendfsync", "unknown")
        can_wait = tuple(int(part) for part in version.split(".")[:2]) >= _WAITAOF_SINCE
        if logs and fsync == "always":
            return
        loss = (
            f"appendfsync {fsync}: a power failure loses the last second or more"
            if logs
            else "appendonly no: a stop loses everything"
        )
        if self.durability == "server":
            self.warnings.append(f"decisions of tiers 3 and 4 may be lost ({loss})")
            _logger.warning("%s: %s", self.place, self.warnings[-1])
        elif logs and fsync == "everysec" and can_wait and not self.cluster:
            self.syncs = True  # with any other appendfsync WAITAOF waits for a sync that never happens
        else:
            raise ConfigError(
                f"the server may lose decisions of tiers 3 and 4 ({loss}). Set appendonly yes and appendfsync always"
                f"{'' if self.cluster else ' (everysec is enough from version 7.2 on)'}; or accept the loss "
                "with ?durability=server",
                "store",
            )

    # --- Scripts ---

    def run(self, script: Script, clock: str, *args: bytes | str | int) -> Any:
        """Run a script. ``clock`` is its Redis key, by which a cluster finds the server.

        The script is sent again if the connection is lost before the answer arrives.
        """
        if self.cluster:
            try:  # the driver sends it again by itself
                return self.client.evalsha(script.sha, 1, clock, *args, 1)
            except faults.NoScriptError:
                return self.client.eval(script.text, 1, clock, *args, 1)
        (answer,) = self._exchange(script, clock, args)
        return answer

    def run_durable(self, script: Script, clock: str, *args: bytes | str | int) -> Any:
        """Run a script like ``run``; return once its writes survive power loss, as far as the server guarantees it."""
        if self.cluster:
            return self.run(script, clock, *args)
        wait: list[tuple[str | int, ...]] = []
        if self.syncs:
            wait = [("WAITAOF", 1, self.replicas, _SYNC)]
        elif self.replicas:
            wait = [("WAIT", self.replicas, _SYNC)]
        answer, identity, *waited = self._exchange(script, clock, args, ("GET", self._identity), *wait)
        if self._identified is not None and identity != self._identified:
            self.replacements += 1  # all data may be lost although no connection was
        local, others = waited[0] if self.syncs else (1, *(waited or [0]))
        if int(local) < 1 or int(others) < self.replicas:
            raise NotDurable(f"{self.place} did not put the batch on disk within {_SYNC / 1000:.0f} s", answer)
        return answer

    def _exchange(
        self, script: Script, clock: str, args: tuple[bytes | str | int, ...], *more: tuple[str | int, ...]
    ) -> list[Any]:
        """Run a script, then the commands ``more`` on the same connection, in one round trip. Return the answers.

        The last argument is 1 if the script may have run before, else 0. The driver's ``execute_command`` is avoided:
        it takes several times as long as the server needs for a script.
        """
        pool: LimitedPool = self.client.connection_pool
        with bounded() as until:
            connection = pool.get_connection()
            try:
                answers = self._send(connection, until, script, clock, args, more)
                if isinstance(answers[0], faults.NoScriptError):
                    # The script may have run before the server lost it.
                    answers = self._send(connection, until, script, clock, args, more, again=1)
            finally:
                pool.release(connection)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _send(
        self,
        connection: Any,
        until: float,
        script: Script,
        clock: str,
        args: tuple[bytes | str | int, ...],
        more: tuple[tuple[str | int, ...], ...],
        again: int = 0,
    ) -> list[Any]:
        """Send the commands and read the answers; repeat if the connection is lost or the server is still loading.

        A script that is sent again is sent as a whole: a server that was started anew knows none.
        """
        pause = 0.0
        while True:
            if connection._sock is None:  # noqa: SLF001 - the driver's own check costs several times as much
                try:
                    connection.connect()
                except (faults.ConnectionError, faults.TimeoutError) as error:
                    if again:
                        raise InDoubt(str(error)) from error
                    raise
            if again:
                connection._sock.settimeout(max(LEAST, min(TIMEOUT, until - time.monotonic())))  # noqa: SLF001
            try:
                named = ("EVAL", script.text) if again else ("EVALSHA", script.sha)
                data = _packed((*named, 1, clock, *args, again))
                connection.send_packed_command((data + b"".join(map(_packed, more)) if more else data,))
                answers = [_answer(connection), *[_answer(connection) for _ in more]]
            except (faults.ConnectionError, faults.TimeoutError) as error:
                connection.disconnect()
                self.client.connection_pool.lost += 1
                if time.monotonic() + pause > until:
                    raise InDoubt(str(error)) from error
            else:
                if again:
                    connection._sock.settimeout(TIMEOUT)  # noqa: SLF001
                return answers
            time.sleep(pause)
            pause, again = max(0.05, pause * 2), 1

    # --- Errors ---

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise the driver's errors as errors of the store."""
        try:
            yield
        except (faults.RedisError, faults.RedisClusterException) as error:
            raise self.error_of(error) from error

    def error_of(self, error: Exception) -> StoreError | StoreUnavailable:
        """Return the store's error for an error of the driver."""
        if isinstance(error, PoolExhausted):
            return StoreUnavailable(f"{self.place}: {error}")
        if isinstance(error, faults.MaxConnectionsError):
            reason = f"all {self.limit} connections to a server of the cluster are in use"
            return StoreUnavailable(f"{self.place}: {reason}; allow more with pool=N in the store's URL")
        refused = isinstance(error, faults.ResponseError) and not isinstance(error, _UNAVAILABLE)
        if refused and not any(word in str(error) for word in _BUSY):
            return StoreError(f"{self.place} refuses: {error}")
        return StoreUnavailable(f"{self.place} cannot be used now: {error}")

    def close(self) -> None:
        """Close all connections of this process; the next use opens new ones."""
        self.client.close()


def _config(server: Any) -> dict[str, str]:
    """Return the settings that matter; empty if the server hides them, as managed servers do."""
    try:
        settings = server.config_get("append*", "maxmemory-policy")
    except faults.ResponseError:
        return {}
    return {_text(name): _text(value) for name, value in settings.items()}


def _packed(words: tuple[bytes | str | int, ...]) -> bytes:
    """Return a command in the wire format."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        raw = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"".join(parts)


def _answer(connection: Any) -> Any:
    """Return the next answer on a connection. An error answer is returned, not raised: more answers may follow it."""
    try:
        return connection.read_response()
    except faults.ConnectionError:
        raise
    except faults.ResponseError as error:
        return error


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def version_of(url: str) -> int | None:
    """Return the stored schema version, None if nothing is stored. Raises the errors that opening the store raises."""
    link = RedisConnection(url, creates=False)
    link.close()
    return link.found
