"""Events of the corpus as metrics for Prometheus.

docs/telemetry.md lists the metrics and shows how to serve them. The first 200 tools, models, resources and names, and
the first 50 errors and providers, get a series each; the rest share ``other``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from callosum.corpus.bus import Corpus
from callosum.corpus.events import (
    CorpusEvent,
    HealthCritical,
    HealthOk,
    HealthWarning,
    LlmError,
    LlmResponse,
    SafetyAllowed,
    SafetyApproved,
    SafetyBlocked,
    SafetyDenied,
    ToolCompleted,
    ToolFailed,
)
from callosum.errors import ConfigError
from callosum.telemetry.labels import FEWER, LabelLimit, error_type

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
except ImportError as error:
    raise ConfigError(
        "prometheus-client is not installed: pip install 'callosum-protocol[prometheus]'", at="telemetry.prometheus"
    ) from error

SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Bounds of the histogram, in seconds: those that OpenTelemetry recommends for tools."""


class _Metrics(CollectorRegistry):
    """Metrics that a registry takes all together or not at all."""

    describe = CollectorRegistry.collect


class Prometheus:
    """Count events into ``registry`` (default: the registry of the process).

    A registry has one: a second one raises ``ValueError``, as all collectors do.
    """

    def __init__(self, corpus: Corpus, registry: CollectorRegistry | None = None) -> None:
        self._registry = REGISTRY if registry is None else registry
        self._metrics = own = _Metrics()
        self._events = Counter("callosum_events", "Events of the corpus.", ("type",), registry=own)
        self._seconds = Histogram(
            "callosum_tool_seconds", "From decision to report, of calls done.", ("tool",), registry=own, buckets=SECONDS
        )
        self._failures = Counter(
            "callosum_tool_failures", "Calls that were not done, or nobody knows.", ("tool", "error"), registry=own
        )
        self._safety = Counter("callosum_safety", "What was decided of calls.", ("decision", "gravity"), registry=own)
        self._tokens = Counter("callosum_llm_tokens", "Tokens of models' answers.", ("provider", "model"), registry=own)
        self._errors = Counter("callosum_llm_errors", "Failures of models.", ("provider", "retry"), registry=own)
        self._problems = Counter(
            "callosum_health_problems", "What was beyond its threshold.", ("resource", "level"), registry=own
        )
        self._health = Gauge("callosum_health_value", "What the last check measured.", ("name",), registry=own)
        self._registry.register(own)
        self._tool, self._model, self._resource, self._name = LabelLimit(), LabelLimit(), LabelLimit(), LabelLimit()
        self._error, self._provider = LabelLimit(FEWER), LabelLimit(FEWER)
        self._offs = (
            corpus.on(CorpusEvent, lambda event: self._events.labels(event.dotted).inc()),
            corpus.on(ToolCompleted, self._completed),
            corpus.on(ToolFailed, self._failed),
            corpus.on(SafetyAllowed, lambda event: self._safety.labels("allowed", event.classification).inc()),
            corpus.on(SafetyBlocked, lambda event: self._safety.labels("blocked", "").inc()),
            corpus.on(SafetyApproved, lambda event: self._safety.labels("approved", "").inc()),
            corpus.on(SafetyDenied, lambda event: self._safety.labels("denied", "").inc()),
            corpus.on(LlmResponse, self._answered),
            corpus.on(LlmError, self._erred),
            corpus.on(HealthOk, self._measured),
            corpus.on(HealthWarning, lambda event: self._problem(event, "warning")),
            corpus.on(HealthCritical, lambda event: self._problem(event, "critical")),
        )

    def close(self) -> None:
        """End the subscription and remove the metrics from the registry. Idempotent."""
        for off in self._offs:
            off()
        with suppress(KeyError):  # it is closed already
            self._registry.unregister(self._metrics)

    # --- inside --------------------------------------------------------------------------------------

    def _completed(self, event: ToolCompleted) -> None:
        if event.duration is not None:
            self._seconds.labels(self._tool(event.name)).observe(event.duration / 1000)

    def _failed(self, event: ToolFailed) -> None:
        self._failures.labels(self._tool(event.name), self._error(error_type(event.error))).inc()

    def _answered(self, event: LlmResponse) -> None:
        self._tokens.labels(self._provider(event.provider), self._model(event.model)).inc(event.tokens)

    def _erred(self, event: LlmError) -> None:
        self._errors.labels(self._provider(event.provider), str(event.will_retry).lower()).inc()

    def _measured(self, event: HealthOk) -> None:
        for name, value in event.metrics.items():
            if isinstance(value, int | float):
                self._health.labels(self._name(name)).set(value)

    def _problem(self, event: HealthWarning | HealthCritical, level: str) -> None:
        self._problems.labels(self._resource(event.resource), level).inc()
