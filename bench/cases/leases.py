"""What a call costs on a key with none, one, fifteen and a thousand open actions of others, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import calls, peers
from bench.cases.growth import reply_to
from bench.cases.redis_store import server as redis_server
from bench.harness import Case, Operation, Report, side_by_side
from bench.serving import callosum
from callosum import Call, LocalGate
from callosum.client import CallosumClient
from callosum.stores.base import Store
from callosum.stores.memory import MemoryStore
from callosum.stores.postgres import PostgresStore
from callosum.stores.redis import RedisStore
from tests.support.postgres import ABSENT, binaries
from tests.support.postgres import server as postgres_server

OPEN = 1_000
COUNTS = (0, 1, 15, OPEN)
AT_MOST = 5
"""How many times as much a call may cost among a thousand open actions as next to one."""
MEETING = 1.5
"""How many times as much a call may cost among fifteen open actions as where there is none."""


def filled(gate: LocalGate, on_the_key: int) -> None:
    """Open an action by each of a thousand sessions: so many on one key, and the others on keys of their own."""
    for count in range(OPEN):
        tool, params = reply_to("open" if count < on_the_key else f"own-{count}")(count)
        gate.intercept(Call(instance=f"open-{count}", tool=tool, params=params, call_id=f"{count}"))


def asking(client: CallosumClient) -> Operation:
    """A decision and its report by a client of a server."""

    def operation(count: int) -> None:
        tool, params = reply_to("open")(count)
        decision = client.intercept(Call(instance="mira", tool=tool, params=params, call_id=f"{tool}-{count}"))
        client.complete("mira", id=decision.id, result={"ok": True})

    return operation


def embedded(folder: Path, stack: ExitStack, store: Store | None, on_the_key: int) -> Operation:
    """A gate in this process over a store, filled."""
    gate = stack.enter_context(LocalGate(settings=calls.settings(folder, rotate=False), store=store))
    filled(gate, on_the_key)
    return calls.gated(gate, reply_to("open"))


def served(folder: Path, stack: ExitStack, on_the_key: int) -> Operation:
    """A server over a filled file, asked over its socket."""
    with LocalGate(settings=calls.settings(folder, rotate=False)) as gate:
        filled(gate, on_the_key)
    place = folder.with_suffix(".sock")
    stack.enter_context(callosum(folder, "--socket", str(place)))
    return asking(stack.enter_context(CallosumClient(f"unix:{place}")))


@contextmanager
def on(store: str, folder: Path) -> Iterator[list[Operation]]:
    """The calls on the key, by how many open actions are on it."""
    folder.mkdir()
    with ExitStack() as stack:
        folders = [folder / f"open-{count}" for count in COUNTS]
        if store == "server":
            yield [served(own, stack, count) for own, count in zip(folders, COUNTS, strict=True)]
            return
        stores: list[Store | None] = [None for _ in COUNTS]
        if store == "memory":
            stores = [MemoryStore() for _ in COUNTS]
        elif store == "redis":
            port = stack.enter_context(redis_server(folder, durable=True))
            stores = [RedisStore(f"redis://127.0.0.1:{port}/{number}") for number in range(len(COUNTS))]
        elif store == "postgres":
            if binaries() is None:
                raise peers.Missing(ABSENT)
            own = stack.enter_context(postgres_server(on_disk=True))
            stores = [PostgresStore(own.url(f"open_{count}")) for count in COUNTS]
        yield [embedded(*each) for each in zip(folders, [stack] * len(COUNTS), stores, COUNTS, strict=True)]


def run(folder: Path, rounds: int) -> Report:
    """Measure each store by itself, all calls in the same rounds."""
    report = Report("leases")
    for store in ("sqlite", "server", "postgres", "redis", "memory"):
        try:
            with on(store, folder / store) as operations:
                cases = [Case(f"{count:,}", one, 20) for count, one in zip(COUNTS, operations, strict=True)]
                found = side_by_side(cases, rounds)
        except peers.Missing as fault:
            report.missing.append(str(fault))
            continue
        for name, measured in found.items():
            report.add(f"{store}: {name} open, median", measured.median, "us")
        report.add(f"{store}: 15 open / none", found["15"].over(found["0"]), at_most=MEETING)
        report.add(f"{store}: 1,000 open / one", found["1,000"].over(found["1"]), at_most=AT_MOST)
    return report
