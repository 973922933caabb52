"""Whether a call costs the same on a key with a thousand open actions as on one with one, on every store."""

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
AT_MOST = 5
"""How many times as much a call may cost among a thousand open actions."""


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
def on(store: str, folder: Path) -> Iterator[tuple[Operation, Operation]]:
    """The calls on the key with one open action, and on the one with a thousand."""
    folder.mkdir()
    with ExitStack() as stack:
        one, many = folder / "one", folder / "many"
        if store == "server":
            yield served(one, stack, 1), served(many, stack, OPEN)
            return
        stores: list[Store | None] = [None, None]
        if store == "memory":
            stores = [MemoryStore(), MemoryStore()]
        elif store == "redis":
            port = stack.enter_context(redis_server(folder, durable=True))
            stores = [RedisStore(f"redis://127.0.0.1:{port}/{number}") for number in range(2)]
        elif store == "postgres":
            if binaries() is None:
                raise peers.Missing(ABSENT)
            own = stack.enter_context(postgres_server(on_disk=True))
            stores = [PostgresStore(own.url(name)) for name in ("one", "many")]
        yield embedded(one, stack, stores[0], 1), embedded(many, stack, stores[1], OPEN)


def run(folder: Path, rounds: int) -> Report:
    """Measure each store by itself, both calls in the same rounds."""
    report = Report("leases")
    for store in ("sqlite", "server", "postgres", "redis", "memory"):
        try:
            with on(store, folder / store) as (one, many):
                found = side_by_side([Case("one", one, 20), Case("1,000", many, 20)], rounds)
        except peers.Missing as fault:
            report.missing.append(str(fault))
            continue
        for name, measured in found.items():
            report.add(f"{store}: {name} open, median", measured.median, "us")
        report.add(f"{store}: 1,000 open / one", found["1,000"].over(found["one"]), at_most=AT_MOST)
    return report
