"""Events as Prometheus's text, read back by Prometheus's own parser."""

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from callosum.corpus.bus import Corpus
from callosum.corpus.events import (
    HealthCritical,
    HealthOk,
    HealthWarning,
    LlmError,
    LlmResponse,
    SafetyAllowed,
    SafetyApproved,
    SafetyBlocked,
    SafetyDenied,
    ToolCalled,
    ToolCompleted,
    ToolFailed,
)
from callosum.server.metrics import Metrics
from callosum.telemetry.prometheus import SECONDS, Prometheus

Samples = dict[tuple[str, tuple[str, ...]], float]


class ExportedMetrics:
    def __init__(self) -> None:
        self.corpus = Corpus()
        self.registry = CollectorRegistry()
        self.prometheus = Prometheus(self.corpus, self.registry)

    def emit(self, *events: Any) -> None:
        for event in events:
            self.corpus.emit(event)

    def samples(self) -> Samples:
        """Return values by name and label values, in the order of the label names."""
        families = text_string_to_metric_families(generate_latest(self.registry).decode())
        return {
            (one.name, tuple(value for _, value in sorted(one.labels.items()))): one.value
            for family in families
            for one in family.samples
        }

    def of(self, name: str) -> dict[tuple[str, ...], float]:
        return {labels: value for (found, labels), value in self.samples().items() if found == name}


@pytest.fixture
def exported() -> Iterator[ExportedMetrics]:
    one = ExportedMetrics()
    yield one
    one.prometheus.close()
    one.corpus.close()


def test_calls_are_counted(exported: ExportedMetrics) -> None:
    exported.emit(
        ToolCalled("look", {}),
        SafetyAllowed("look", "safe"),
        ToolCompleted("look", duration=30.0),
        ToolCompleted("look", duration=1500.0),
        ToolCompleted("look"),
        ToolFailed("look", "TimeoutError: secret"),
        ToolFailed("save", "nobody knows how it ended"),
    )
    assert exported.of("callosum_events_total") == {
        ("tool.called",): 1, ("safety.allowed",): 1, ("tool.completed",): 3, ("tool.failed",): 2
    }  # fmt: skip
    assert exported.of("callosum_tool_seconds_count") == {("look",): 2}
    assert exported.of("callosum_tool_seconds_sum") == {("look",): 1.53}
    buckets = exported.of("callosum_tool_seconds_bucket")
    assert [float(bound) for bound, _ in buckets] == [*SECONDS, float("inf")]
    assert list(buckets.values()) == [0.0, 0.0] + [1.0] * 6 + [2.0] * 7
    assert exported.of("callosum_tool_failures_total") == {("TimeoutError", "look"): 1, ("unknown", "save"): 1}


def test_decisions_are_counted(exported: ExportedMetrics) -> None:
    exported.emit(
        SafetyAllowed("a", "critical"),
        SafetyAllowed("b", "critical"),
        SafetyBlocked("a", "why"),
        SafetyApproved("a", "cli"),
        SafetyDenied("a", "cli"),
    )
    assert exported.of("callosum_safety_total") == {
        ("allowed", "critical"): 2, ("blocked", ""): 1, ("approved", ""): 1, ("denied", ""): 1
    }  # fmt: skip


def test_model_events_are_counted(exported: ExportedMetrics) -> None:
    exported.emit(LlmResponse("anthropic", "sonnet", 300), LlmResponse("anthropic", "sonnet", 42))
    exported.emit(LlmError("openai", "overloaded", True), LlmError("openai", "overloaded", False))
    assert exported.of("callosum_llm_tokens_total") == {("sonnet", "anthropic"): 342}
    assert exported.of("callosum_llm_errors_total") == {("openai", "true"): 1, ("openai", "false"): 1}


def test_health_problems_and_values_are_exported(exported: ExportedMetrics) -> None:
    exported.emit(HealthWarning("disk", 91, 90), HealthWarning("disk", 95, 90), HealthCritical("disk", 99, 98))
    exported.emit(HealthOk({"disk_free_bytes": 10**12, "host": "fine"}), HealthOk({"disk_free_bytes": 5}))
    assert exported.of("callosum_health_problems_total") == {("warning", "disk"): 2, ("critical", "disk"): 1}
    assert exported.of("callosum_health_value") == {("disk_free_bytes",): 5}


def test_number_of_series_is_bounded_and_no_name_breaks_the_text(exported: ExportedMetrics) -> None:
    exported.emit(ToolCompleted('bad"} 1\nx\ud800\\', duration=1.0))
    for number in range(300):
        exported.emit(ToolCompleted(f"tool-{number}", duration=1.0))
        exported.emit(LlmResponse(f"provider-{number}", "m", 1))
    counts = exported.of("callosum_tool_seconds_count")
    assert len(counts) == 201
    assert counts[("other",)] == 101
    assert len(exported.of("callosum_llm_tokens_total")) == 51
    assert counts[("bad'} 1 x\\",)] == 1


def test_default_registry_is_used_without_one() -> None:
    from prometheus_client import REGISTRY  # noqa: PLC0415 - what is used when none is given

    corpus = Corpus()
    before = generate_latest(REGISTRY)
    prometheus = Prometheus(corpus)
    corpus.emit(ToolCompleted("look", duration=1.0))
    assert b'callosum_tool_seconds_count{tool="look"} 1.0' in generate_latest(REGISTRY)
    with pytest.raises(ValueError, match="callosum_events"):
        Prometheus(corpus)
    assert corpus.handlers(ToolCompleted) == 3 - 1, "the second one left nothing behind"
    prometheus.close()
    prometheus.close()
    after = generate_latest(REGISTRY)
    assert b"callosum_tool" not in after
    assert before.count(b"# TYPE") == after.count(b"# TYPE")
    Prometheus(corpus).close()
    corpus.close()


def test_registration_is_all_or_nothing() -> None:
    registry, corpus = CollectorRegistry(), Corpus()
    Counter("callosum_llm_errors", "Taken.", registry=registry)
    with pytest.raises(ValueError, match="callosum_llm_errors"):
        Prometheus(corpus, registry)
    assert b"callosum_events" not in generate_latest(registry)
    assert corpus.handlers(ToolCompleted) == 0


def test_after_close_nothing_is_counted(exported: ExportedMetrics) -> None:
    exported.prometheus.close()
    exported.emit(ToolCompleted("look", duration=1.0))
    assert exported.samples() == {}
    assert exported.corpus.handlers(ToolCompleted) == 0


def test_metrics_coexist_with_those_of_the_server() -> None:
    """Both use one registry, as ``GET /metrics`` shows them: no name is used twice."""
    metrics = Metrics(dict)
    corpus = Corpus()
    prometheus = Prometheus(corpus, metrics.registry)
    corpus.emit(SafetyAllowed("look", "safe"))
    names = [family.name for family in text_string_to_metric_families(metrics.text().decode())]
    assert {"callosum_decisions", "callosum_safety", "callosum_events"} <= set(names)
    assert len(names) == len(set(names))
    prometheus.close()
    corpus.close()
