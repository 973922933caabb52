"""The OpenTelemetry metrics: their names, units and labels.

Metrics that begin with ``gen_ai.`` have names and bounds from the conventions for generative AI; the others are
Callosum's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from callosum.corpus.events import (
    CorpusEvent,
    HealthCritical,
    HealthWarning,
    LlmError,
    LlmResponse,
    ToolCompleted,
    ToolFailed,
)
from callosum.telemetry.labels import FEWER, LabelLimit

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS: Final = tuple(4**power for power in range(14))
"""The histogram bounds that the conventions recommend."""

_PROVIDERS: Final = {
    "aws": "aws.bedrock",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gen_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""Hosts' names of providers, and the conventions' names where they differ."""


class EventMetrics:
    """The metrics. Names that become labels are limited in number."""

    def __init__(self, meter: Meter) -> None:
        self._events = meter.create_counter("callosum.events", "{event}", "Events of the corpus.")
        self._decisions = meter.create_counter("callosum.decisions", "{call}", "Decisions of the gate.")
        self._errors = meter.create_counter("callosum.llm.errors", "{error}", "Failures of models.")
        self._problems = meter.create_counter("callosum.health.problems", "{problem}", "What was beyond its threshold.")
        self._evicted = meter.create_counter(
            "callosum.telemetry.evicted", "{call}", "Calls and runs that were forgotten while they were open."
        )
        self._tool_seconds = meter.create_histogram(
            "gen_ai.execute_tool.duration",
            "s",
            "The duration of a single tool execution.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._operation_seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._tool, self._model, self._resource = LabelLimit(), LabelLimit(), LabelLimit()
        self._agent, self._error, self._provider = LabelLimit(FEWER), LabelLimit(FEWER), LabelLimit(FEWER)

    def count(self, event: CorpusEvent) -> None:
        self._events.add(1, {"callosum.event": event.dotted})

    def decided(self, decision: str, gravity: str | None) -> None:
        attributes = {"callosum.decision": decision}
        if gravity is not None:
            attributes["callosum.classification"] = gravity
        self._decisions.add(1, attributes)

    def took(self, seconds: float, event: ToolCompleted | ToolFailed, kind: str | None) -> None:
        attributes = {"gen_ai.tool.name": self._tool(event.name)}
        operation = {"gen_ai.operation.name": "execute_tool"}
        if event.instance:
            attributes["gen_ai.agent.name"] = self._agent(event.instance.partition("/")[0])
        if kind is not None:
            attributes["error.type"] = operation["error.type"] = self._error(kind)
        self._tool_seconds.record(seconds, attributes)
        self._operation_seconds.record(seconds, operation)

    def answered(self, event: LlmResponse) -> None:
        if not event.tokens:  # the host does not know
            return
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._provider_name(event.provider),
            "gen_ai.token.type": "total",  # the event has the sum of input and output
        }
        if event.model:
            attributes["gen_ai.response.model"] = self._model(event.model)
        self._tokens.record(event.tokens, attributes)

    def erred(self, event: LlmError) -> None:
        """Count an error of a model's provider."""
        provider = self._provider_name(event.provider)
        self._errors.add(1, {"gen_ai.provider.name": provider, "callosum.will_retry": event.will_retry})

    def problem(self, event: HealthWarning | HealthCritical, level: str) -> None:
        """Count a shortage of a resource. ``level`` is ``warning`` or ``critical``."""
        self._problems.add(1, {"callosum.resource": self._resource(event.resource), "callosum.level": level})

    def evicted(self, count: int) -> None:
        """Count calls and runs that were forgotten while they were open."""
        self._evicted.add(count)

    def _provider_name(self, provider: str) -> str:
        return self._provider(_PROVIDERS.get(provider.lower(), provider))
