"""What each unit can carry, and a million sessions laid out on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from bench.scale.curves import FLEET, Job, full, layouts, simulate
from bench.scale.layout import Layout, Outcome
from bench.scale.measured import Measured
from bench.scale.traffic import Traffic
from callosum.server.limits import Limits

SESSIONS: Final = 1_000_000
HEADROOM: Final = 0.6
"""A unit is planned to carry this part of what it can do at most."""
PAUSES: Final = (10.0, 30.0, 60.0)
"""Seconds between two calls of a session."""
DAY: Final = 86_400
CONNECTIONS: Final = Limits().connections
"""Most connections of one server."""


@dataclass(frozen=True)
class Units:
    """Calls a second (decision and report) that each can do at most, by simulation."""

    found: Mapping[str, Outcome]

    def most(self, name: str) -> float:
        return self.found[name].calls


def units(found: Measured, traffic: Traffic) -> Units:
    """Simulates each unit with so much work that it is what limits."""
    known = layouts()
    postgres, redis = known["1 server, PostgreSQL"], replace(known["8 servers, Redis"], servers=1)
    wanted = {
        "server on SQLite": full(known["one machine, SQLite"]),
        "server on PostgreSQL": full(postgres),
        "server on Redis": full(redis),
        "PostgreSQL": full(replace(postgres, servers=32, stick="namespace"), 128),
        "Redis": full(replace(redis, servers=32, stick="namespace"), 128),
        "namespace on PostgreSQL, any server": full(replace(postgres, servers=4), 1),
        "namespace on PostgreSQL, one server": full(replace(postgres, servers=4, stick="namespace"), 1),
        "namespace on Redis, any server": full(replace(redis, servers=4, stick=""), 1),
        "namespace on Redis, one server": full(replace(redis, servers=4), 1),
        "key on SQLite": _one_key(full(known["one machine, SQLite"])),
        "key on PostgreSQL": _one_key(full(replace(postgres, servers=4))),
        "key on Redis": _one_key(full(replace(redis, servers=4, stick=""))),
    }
    jobs: list[Job] = [(layout, 1.0, 5.0) for layout in wanted.values()]
    return Units(dict(zip(wanted, simulate(found, traffic, jobs), strict=True)))


def _one_key(layout: Layout) -> Layout:
    return replace(layout, keys=1, keys_per_call=1)


@dataclass(frozen=True)
class Plan:
    """A million sessions with so long a pause: how much of everything. Bytes and calls a second."""

    pause: float
    rate: float
    namespaces: int
    servers: int
    servers_for_connections: int
    stores: int
    per_store: int
    store_day: float
    segment_day: float
    busiest: float


def plan(found: Measured, carried: Units, engine: str, pause: float) -> Plan:
    """For stores of one engine, ``postgres`` or ``redis``."""
    name = {"postgres": "PostgreSQL", "redis": "Redis"}[engine]
    rate = SESSIONS / pause
    namespaces = SESSIONS // FLEET
    stores = ceil(rate / (HEADROOM * carried.most(name)))
    return Plan(
        pause,
        rate,
        namespaces,
        ceil(rate / (HEADROOM * carried.most(f"server on {name}"))),
        ceil(SESSIONS / CONNECTIONS),
        stores,
        ceil(namespaces / stores),
        rate * DAY * found.bytes[f"{engine}: store, a call"].median,
        rate * DAY * found.bytes["segment, a call"].median,
        FLEET / pause,
    )
