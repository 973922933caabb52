"""The others: locks and ledgers that people use for the same purpose, each in its own standard form.

Each is a context manager that hands out an operation. What cannot run here raises ``Missing``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.harness import Operation
from bench.texts import message

RECORD = os.urandom(4096)


class Missing(Exception):
    """A peer that is not installed here."""


def version_of(distribution: str) -> str:
    """The name with the installed version."""
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return f"{distribution} (not installed)"


def installed(module: str) -> Any:
    """The module of a peer. Raises ``Missing``."""
    try:
        return __import__(module)
    except ImportError as fault:
        raise Missing(f"{module} is not installed (make bench installs it)") from fault


@contextlib.contextmanager
def file_lock(folder: Path) -> Iterator[Operation]:
    """``filelock``: acquire and release an uncontended lock."""
    lock = installed("filelock").FileLock(folder / "peer.lock")

    def operation(_: int) -> None:
        lock.acquire()
        lock.release()

    yield operation


@contextlib.contextmanager
def redis_lock(folder: Path) -> Iterator[Operation]:
    """``redis-py``'s ``Lock``: acquire and release, on a server of its own that keeps nothing."""
    redis = installed("redis")
    with redis_server(folder) as port, redis.Redis(port=port) as client:
        lock = client.lock("peer", timeout=300)

        def operation(_: int) -> None:
            lock.acquire()
            lock.release()

        yield operation


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    """A Redis server on a free port of the loopback, without persistence; stopped in the end."""
    binary = shutil.which("redis-server")
    if binary is None:
        raise Missing("redis-server is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [binary, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    with (
        (folder / "redis.log").open("wb") as log,
        subprocess.Popen([*command, "--dir", str(folder)], stdout=log, stderr=log) as server,
    ):
        try:
            _wait_for(port, server)
            yield port
        finally:
            server.terminate()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
    raise Missing(f"redis-server ended with {server.returncode}")


@contextlib.contextmanager
def fdatasync(folder: Path) -> Iterator[Operation]:
    """The disk itself: append 4 KiB to a growing file and make it durable."""
    file = os.open(folder / "grows", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def operation(_: int) -> None:
        os.write(file, RECORD)
        os.fdatasync(file)

    try:
        yield operation
    finally:
        os.close(file)


_POLICY = """
schema: ctrlrun.policy/v2

actions:
  message.send:
    effect: "message:{target}:{number}"
    rules:
      - when: { number_gte: 0 }
        decision: allow
"""


@contextlib.contextmanager
def ctrlrun(folder: Path, *, evidence: bool = True) -> Iterator[Operation]:
    """``ctrlrun``: a protected function that the policy allows, every effect a new one.

    Set up as its quick start does (SQLite beside the policy file, evidence also in JSONL files);
    ``evidence=False`` leaves the JSONL files out.
    """
    library = installed("ctrlrun")
    policy = folder / "ctrlrun.yaml"
    policy.write_text(_POLICY)
    if evidence:
        control = library.Control.from_file(policy)
    else:
        control = library.Control(library.Policy.from_file(policy), library.SQLiteStateStore(folder / "ctrlrun.db"))

    @library.protect("message.send", control=control)
    def send(target: str, number: int, message: str) -> dict[str, bool]:
        return {"ok": True}

    def operation(count: int) -> None:
        send(target=f"team-{count % 100}", number=count, message=message(count))

    with library.context(agent="mira"):
        yield operation
    control.store.close()


@contextlib.contextmanager
def effect_ledger(folder: Path) -> Iterator[Operation]:
    """``effect-ledger``: one operation executed through its SQLite store, every operation a new one."""
    executor = installed("effect_ledger").EffectExecutor(folder / "effects.sqlite", scope="mira")

    def send(operation: Any) -> dict[str, bool]:
        return {"ok": True}

    def operation(count: int) -> None:
        request = {"target": f"team-{count % 100}", "message": message(count)}
        executor.execute(f"message-{count}", "message.send:v1", request, send)

    yield operation
