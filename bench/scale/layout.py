"""The input and output of the simulation: service times, machines, connections and results. Times are in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from bench.scale.measured import Engine, Measured
from callosum.server.writer import LATE

LOOPBACK: Final = 0.00003
"""A round trip on one machine, beside the processor time it takes, which is counted with the rest."""


@dataclass(frozen=True)
class Costs:
    """One engine's service times; as ``Engine`` in ``measured.py``, its medians.

    ``key`` and ``store_key``: what a gate's process and its store take more for each further key of a request.
    """

    engine: str
    front: float
    request: Sequence[float]
    batch: float
    store_request: float
    store_batch: float
    key: float
    store_key: float
    look_share: float
    report_trips: int
    refused: float
    sync: Sequence[float]

    @classmethod
    def of(cls, found: Measured, engine: str) -> Costs:
        """Of a server over a store of this engine."""
        one = found.engines[engine]
        front = found.refused.median + one.front.median
        return cls(
            engine=engine,
            front=min([front, *(figure.median for figure in one.request)]),
            request=[figure.median for figure in one.request],
            batch=one.batch.median,
            store_request=one.store_request.median,
            store_batch=one.store_batch.median,
            key=one.key.median,
            store_key=one.store_key.median,
            look_share=_look_share(found, engine),
            report_trips=round(one.trips[1]),
            refused=found.refused.median,
            sync=found.sync,
        )

    @classmethod
    def local(cls, found: Measured, engine: str) -> Costs:
        """Of a gate without a server, whose batches are of one request."""
        one = found.engines[engine]
        return replace(
            cls.of(found, engine),
            front=min(one.front.median, one.local_request.median),
            request=[one.local_request.median] * 5,
            batch=0.0,
            store_request=one.local_backend.median,
            store_batch=0.0,
        )


def _look_share(found: Measured, engine: str) -> float:
    """Which part of the store's work for a decision comes before its step runs."""
    if engine == "redis":  # a report is applied without a look
        report, decision = (found.scripts[f"redis: scripts of a {what}"].median for what in ("report", "decision"))
        return max(0.0, 1 - report / decision)
    one: Engine = found.engines[engine]
    return min(0.9, one.looked[2].median / one.held[2].median)


@dataclass(frozen=True)
class Layout:
    """Who asks whom. ``sessions`` think ``think`` seconds before each call, on average; with ``rate`` they do not
    decide when: calls come at so many a second.

    ``servers`` gates with ``lanes`` batches of up to ``batch`` at once; ``cores`` of PostgreSQL's machine, ``shards``
    of a Redis Cluster. With ``shared`` there is one machine with so many processors for all, of which ``others`` have
    some, and ``loader`` is what making the load takes for each request. ``rtt`` is from session to server,
    ``store_rtt`` from server to store. ``tier`` and ``keys_per_call``: in place of the traffic's. Keys are chosen by
    Zipf's law among ``keys`` of the session's namespace (``zipf``: in place of the traffic's exponent); a ``hot`` share
    of the calls goes to the first of them; one call in ``again`` goes for the key that was taken last. ``own``: each
    session stays on a key of its own.
    A session gives up after ``deadline``; a gate turns decisions away while more than a batch waits, and the first of
    them for ``patience`` seconds; a session comes back if it has the time.
    ``stick``: all calls of a namespace, or of a session, go to the same gate; else to any.
    """

    engine: str
    sessions: int
    think: float = 0.0
    rate: float = 0.0
    servers: int = 1
    lanes: int = 1
    batch: int = 64
    cores: int = 8
    shards: int = 1
    shared: int = 0
    others: float = 0.0
    loader: float = 0.0
    rtt: float = LOOPBACK
    store_rtt: float = LOOPBACK
    tier: int | None = None
    keys_per_call: int | None = None
    namespaces: int = 1
    keys: int = 10_000
    zipf: float | None = None
    hot: float = 0.0
    again: int = 0
    own: bool = False
    deadline: float = 0.0
    patience: float = LATE
    stick: Literal["", "namespace", "session"] = ""


@dataclass
class Outcome:
    """What one run came to. ``late``: the share of calls whose session gave up or was refused; ``server`` and
    ``store``: how busy the busiest processor-bound part was, 1 being always. ``depth``: requests of a batch."""

    calls: float
    p50: float
    p99: float
    late: float
    server: float
    store: float
    depth: float
    retries: float
    waiting: float
