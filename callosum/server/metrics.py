"""Metrics for ``GET /metrics`` in Prometheus's text format. Counting costs one dictionary increment per call."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from callosum.model import Decision, Event, Verdict
from callosum.stores.base import Pool

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    from callosum.corpus.follower import Batch

_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)

Gauges = Callable[[], "dict[str, tuple[str, float]]"]
"""Returns current values: description and value by name."""


class DecisionTimes(NamedTuple):
    """Number of decisions, their mean seconds, and the seconds below which nearly all were made (inf: unknown)."""

    decisions: int
    mean: float
    most: float


class Metrics:
    """Counts decisions, outcomes and refusals.

    ``pool`` returns the figures of the store's connections, if it has any. Other metrics in ``registry`` are shown too.
    """

    def __init__(self, gauges: Gauges, pool: Callable[[], Pool] | None = None) -> None:
        self._gauges = gauges
        self._pool = pool
        self._decisions: Counter[tuple[int, Verdict]] = Counter()
        self._conflicts: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._buckets = [0] * (len(_BOUNDS) + 1)
        self._seconds = 0.0

    @cached_property
    def registry(self) -> CollectorRegistry:
        """The registry of ``GET /metrics``, which few servers are asked for."""
        from prometheus_client import CollectorRegistry  # noqa: PLC0415

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)  # it collects, and needs nothing else of a collector
        return registry

    def decided(self, decision: Decision, took: float) -> None:
        """Count a decision that took so many seconds."""
        self._decisions[decision.tier, decision.verdict] += 1
        for conflict in decision.conflicts:
            self._conflicts[conflict.kind.value] += 1
        self._buckets[bisect_left(_BOUNDS, took)] += 1
        self._seconds += took

    def take(self, batch: Batch) -> None:
        """Count the outcomes among journal entries."""
        for entry, _ in batch:
            if entry.event is Event.COMPLETE and entry.outcome is not None:
                self._outcomes[entry.outcome.value] += 1

    def refused(self, reason: str) -> None:
        """Count a request that was refused because of its sender."""
        self._refused[reason] += 1

    def took(self) -> DecisionTimes:
        """Return how long decisions took since the server started; 99 of 100 took less than ``most``."""
        buckets = list(self._buckets)
        count, below = sum(buckets), 0
        for bound, number in zip((*_BOUNDS, inf), buckets, strict=True):
            below += number
            if below >= 0.99 * count:
                return DecisionTimes(count, self._seconds / count if count else 0.0, bound)
        return DecisionTimes(count, 0.0, inf)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        from prometheus_client import generate_latest  # noqa: PLC0415

        return generate_latest(self.registry)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        """Yield the metrics; the registry calls this."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily  # noqa: PLC0415

        decisions = CounterMetricFamily("callosum_decisions", "Decisions.", labels=("tier", "verdict"))
        for (tier, verdict), count in sorted(self._decisions.items()):
            decisions.add_metric((str(tier), verdict.value), count)
        yield decisions
        for name, what, label, counts in (
            ("callosum_conflicts", "Conflicts told of.", "kind", self._conflicts),
            ("callosum_outcomes", "Reported outcomes.", "outcome", self._outcomes),
            ("callosum_refused", "Requests refused for who sent them.", "reason", self._refused),
        ):
            family = CounterMetricFamily(name, what, labels=(label,))
            for value, count in sorted(counts.items()):
                family.add_metric((value,), count)
            yield family
        below, buckets = 0, []
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self._buckets, strict=True):
            below += count
            buckets.append((bound, float(below)))
        histogram = HistogramMetricFamily("callosum_decision_seconds", "From the call to its decision, in seconds.")
        histogram.add_metric((), buckets, self._seconds)
        yield histogram
        for name, (meaning, now) in self._gauges().items():
            yield GaugeMetricFamily(name, meaning, value=now)
        if self._pool is not None:
            yield from _connections(self._pool())


def _connections(pool: Pool) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    """Yield the metrics of the connections to the store."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

    now = GaugeMetricFamily("callosum_store_connections", "Connections to the store.", labels=("state",))
    now.add_metric(("idle",), pool.idle)
    now.add_metric(("busy",), pool.open - pool.idle)
    yield now
    yield GaugeMetricFamily("callosum_store_connections_limit", "The most connections to the store.", value=pool.limit)
    yield GaugeMetricFamily("callosum_store_waiting", "Threads that wait for a connection.", value=pool.waiting)
    for name, meaning, count in (
        ("callosum_store_waits", "How often a connection had to be waited for.", pool.waits),
        ("callosum_store_timeouts", "How often no connection came free in time.", pool.timeouts),
        ("callosum_store_lost", "Connections to the store that were lost.", pool.lost),
    ):
        yield CounterMetricFamily(name, meaning, value=count)
