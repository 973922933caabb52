"""Events of the corpus as OpenTelemetry spans and metrics, following the conventions for generative AI.

``callosum.telemetry.otlp`` sets up providers from the standard ``OTEL_...`` variables.

A tool call is a span ``execute_tool <tool>``, made when the call ends, with the times of its events. Its parent is the
run of which it is an attempt (a span ``task <tool>``), else the span that its host names (``traceparent``), else the
span that was current when the call reached the gate. A call that is not let through is a span of zero length without an
error: the gate did its job. Arguments and results are sensitive and left out, unless ``content`` is set.

``docs/telemetry.md`` lists all attributes and metrics.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from callosum import __version__
from callosum.corpus.bus import Corpus
from callosum.corpus.events import (
    CorpusEvent,
    HealthCritical,
    HealthWarning,
    LlmError,
    LlmResponse,
    SafetyAllowed,
    SafetyBlocked,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskStarted,
    TaskStopped,
    ToolCalled,
    ToolCompleted,
    ToolFailed,
)
from callosum.errors import ConfigError
from callosum.redact import summarise
from callosum.telemetry.labels import error_type, line
from callosum.telemetry.metrics import EventMetrics

MISSING: Final = "opentelemetry is not installed: pip install 'callosum-protocol[opentelemetry]'"
AT: Final = "telemetry.opentelemetry"

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ConfigError(MISSING, at=AT) from error

OPEN: Final = 10_000
"""Most calls, and most runs, that are open at once. Beyond it the oldest are forgotten and counted."""
CONTENT: Final = 4096
"""Longest argument or result on a span, in characters of JSON; a longer one is cut, with an ellipsis."""

_W3C: Final = TraceContextTextMapPropagator()
_TIERS: Final = {"safe": 0, "low": 1, "medium": 2, "high": 3, "critical": 4}

_Key = int | tuple[str | None, str | None, str]
"""How a call is found again: the gate's id, else namespace, session and the host's id of the call."""


@dataclass(slots=True)
class _Call:
    """A call that reached the gate and has not ended; ``start`` in nanoseconds since 1970."""

    keys: tuple[_Key, ...]
    start: int
    args: str | None
    call_id: str | None
    task_id: str | None
    parent: SpanContext | None
    gravity: str | None = None


@dataclass(slots=True)
class _Task:
    """A run. After its end it is kept for its last attempt, which another thread reports."""

    span: Span
    start: int
    over: bool = False

    def end(self, at: int, outcome: str) -> None:
        if not self.over:
            self.over = True
            self.span.set_attribute("callosum.task.outcome", outcome)
            self.span.end(max(self.start, at))


class OpenTelemetry:
    """Turn events into spans and metrics, with the given providers (default: those of the process).

    ``content``: spans also have arguments, results and reasons, shortened and redacted. ``evicted`` counts calls and
    runs that were forgotten because more than ``OPEN`` were open; their spans may be missing or incomplete.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        content: bool = False,
    ) -> None:
        self.evicted = 0
        self._tracer = trace.get_tracer("callosum", __version__, tracer_provider)
        self._measures = EventMetrics(metrics.get_meter("callosum", __version__, meter_provider))
        self._content = content
        self._guard = threading.RLock()
        self._calls: OrderedDict[_Key, _Call] = OrderedDict()
        self._ended: OrderedDict[int, None] = OrderedDict()
        """Actions that have a span already: an outcome that somebody finds later is not a second execution."""
        self._tasks: OrderedDict[tuple[str | None, str], _Task] = OrderedDict()
        self._offs = (
            corpus.on(CorpusEvent, self._measures.count),
            corpus.on(LlmResponse, self._measures.answered),
            corpus.on(LlmError, self._measures.erred),
            corpus.on(HealthWarning, lambda event: self._measures.problem(event, "warning")),
            corpus.on(HealthCritical, lambda event: self._measures.problem(event, "critical")),
            corpus.on(ToolCalled, self._called),
            corpus.on(SafetyAllowed, self._allowed),
            corpus.on(SafetyBlocked, self._blocked),
            corpus.on(ToolCompleted, lambda event: self._over_call(event, event.duration, None)),
            corpus.on(ToolFailed, lambda event: self._over_call(event, None, event.error)),
            corpus.on(TaskCreated, self._planned),
            corpus.on(TaskStarted, self._attempted),
            corpus.on(TaskCompleted, lambda event: self._over(event, "done" if event.success else "failed")),
            corpus.on(TaskFailed, lambda event: self._over(event, "failed", event.error)),
            corpus.on(TaskStopped, lambda event: self._over(event, "stopped")),
        )

    def close(self) -> None:
        """End the subscription and the spans of unfinished runs. Idempotent. The providers are left as they are."""
        for off in self._offs:
            off()
        with self._guard:
            tasks, self._tasks = self._tasks, OrderedDict()
            self._calls.clear()
        for task in tasks.values():
            task.end(time.time_ns(), "unfinished")

    # --- calls ---------------------------------------------------------------------------------------

    def _called(self, event: ToolCalled) -> None:
        around = _named(event) or trace.get_current_span().get_span_context()
        call = _Call(
            _places(event),
            _nanoseconds(event.at),
            _written(event.args) if self._content else None,
            event.call_id,
            event.task_id,
            around if around.is_valid else None,
        )
        forgotten = 0
        with self._guard:
            if event.id in self._ended or call.keys[0] in self._calls:
                return  # it was delivered twice
            self._calls.update(dict.fromkeys(call.keys, call))
            while len(self._calls) > OPEN:
                self._forget(next(iter(self._calls.values())))
                forgotten += 1
            self.evicted += forgotten
        if forgotten:
            self._measures.evicted(forgotten)

    def _allowed(self, event: SafetyAllowed) -> None:
        with self._guard:
            for key in _keys(event):
                call = self._calls.get(key)
                if call is not None:
                    call.gravity = event.classification
                    break
        self._measures.decided("allowed", event.classification)

    def _blocked(self, event: SafetyBlocked) -> None:
        self._measures.decided("blocked", None)
        call, again = self._take(event)
        if again:
            return
        end = _nanoseconds(event.at)
        attributes = self._attributes(event, event.tool_name, call, "blocked")
        if self._content:
            attributes["callosum.reason"] = _short(event.reason)
        self._span(event, event.tool_name, call, end, end, attributes)

    def _over_call(self, event: ToolCompleted | ToolFailed, duration: float | None, error: str | None) -> None:
        """End the call, now or (in another process) some milliseconds after it began."""
        call, again = self._take(event)
        if again:
            return
        end = _nanoseconds(event.at)
        start = end
        if call is not None:
            start = min(call.start, end)
        elif duration is not None:
            start = max(0, end - round(duration * 1_000_000))
        kind = None if error is None else error_type(error)
        attributes = self._attributes(event, event.name, call, "allowed")
        if kind is not None:
            attributes["error.type"] = kind
        if self._content and isinstance(event, ToolCompleted) and event.output is not None:
            attributes["gen_ai.tool.call.result"] = _written(event.output)
        self._span(event, event.name, call, start, end, attributes, error)
        if call is not None or duration is not None:
            self._measures.took((end - start) / 1e9, event, kind)

    def _take(self, event: CorpusEvent) -> tuple[_Call | None, bool]:
        """Return the open call that the event ends, if it is known here, and whether it already has a span."""
        with self._guard:
            if event.id is not None:
                if event.id in self._ended:
                    return None, True
                self._ended[event.id] = None
                if len(self._ended) > OPEN:
                    self._ended.popitem(last=False)
            for key in _keys(event):
                call = self._calls.get(key)
                if call is not None:
                    self._forget(call)
                    return call, False
        return None, False

    def _forget(self, call: _Call) -> None:
        for key in call.keys:
            self._calls.pop(key, None)

    def _attributes(self, event: CorpusEvent, tool: str, call: _Call | None, decision: str) -> dict[str, Any]:
        """Return a span's attributes of its call, as far as they are known."""
        attributes: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": line(tool)}
        if event.id is not None:  # otherwise the gate was unreachable and decided nothing
            attributes["callosum.action.id"] = event.id
            attributes["callosum.decision"] = decision
        call_id = event.call_id or (call.call_id if call is not None else None)
        if call_id:
            attributes["gen_ai.tool.call.id"] = line(call_id)
        if event.instance:
            _name_session(attributes, event.instance)
        if event.namespace:
            attributes["callosum.namespace"] = line(event.namespace)
        task_id = call.task_id if call is not None else getattr(event, "task_id", None)
        if task_id:
            attributes["callosum.task.id"] = line(task_id)
        if call is not None:
            if call.gravity is not None:
                attributes["callosum.classification"] = line(call.gravity)
                if call.gravity in _TIERS:
                    attributes["callosum.tier"] = _TIERS[call.gravity]
            if call.args is not None:
                attributes["gen_ai.tool.call.arguments"] = call.args
        return attributes

    def _span(
        self,
        event: CorpusEvent,
        tool: str,
        call: _Call | None,
        start: int,
        end: int,
        attributes: dict[str, Any],
        error: str | None = None,
    ) -> None:
        """Make a finished span below its run or the context of the call, never below the current context."""
        around = Context()
        task_id = call.task_id if call is not None else getattr(event, "task_id", None)
        task = self._tasks.get((event.namespace, task_id)) if task_id else None
        if task is not None:
            around = trace.set_span_in_context(task.span, around)
        elif call is not None and call.parent is not None:
            around = trace.set_span_in_context(NonRecordingSpan(call.parent), around)
        name = f"execute_tool {line(tool)}"
        span = self._tracer.start_span(name, around, SpanKind.INTERNAL, attributes, start_time=start)
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, _short(error) if self._content else None))
        span.end(end)

    # --- runs ----------------------------------------------------------------------------------------

    def _planned(self, event: TaskCreated) -> None:
        attributes: dict[str, Any] = {
            "gen_ai.tool.name": line(event.tool_name),
            "callosum.task.id": line(event.task_id),
        }
        if event.instance:
            _name_session(attributes, event.instance)
        if event.namespace:
            attributes["callosum.namespace"] = line(event.namespace)
        start = _nanoseconds(event.at)
        name = f"task {line(event.tool_name)}"
        span = self._tracer.start_span(name, kind=SpanKind.INTERNAL, attributes=attributes, start_time=start)
        key = event.namespace, event.task_id
        leaving = []
        with self._guard:
            if key in self._tasks:
                leaving.append(self._tasks.pop(key))
            self._tasks[key] = _Task(span, start)
            if len(self._tasks) > OPEN:
                leaving.append(self._tasks.popitem(last=False)[1])
            forgotten = [task for task in leaving if not task.over]
            self.evicted += len(forgotten)
        for task in forgotten:
            task.end(time.time_ns(), "unfinished")
        if forgotten:
            self._measures.evicted(len(forgotten))

    def _attempted(self, event: TaskStarted) -> None:
        task = self._tasks.get((event.namespace, event.task_id))
        if task is not None and not task.over:
            task.span.set_attribute("callosum.task.attempts", event.attempt)

    def _over(self, event: TaskCompleted | TaskFailed | TaskStopped, outcome: str, error: str | None = None) -> None:
        task = self._tasks.get((event.namespace, event.task_id))
        if task is None or task.over:
            return
        if outcome == "failed":
            task.span.set_attribute("error.type", error_type(error) if error is not None else "failed")
            said = _short(error) if error is not None and self._content else None
            task.span.set_status(Status(StatusCode.ERROR, said))
        task.end(_nanoseconds(event.at), outcome)


# --- inside: values -------------------------------------------------------------------------------------


def _named(event: ToolCalled) -> SpanContext | None:
    """Return the span that the host named as the caller's; None if it named none, or an invalid one."""
    if event.traceparent is None:
        return None
    value = {"traceparent": event.traceparent, "tracestate": event.tracestate or ""}
    context = trace.get_current_span(_W3C.extract(value, Context())).get_span_context()
    return context if context.is_valid else None


def _places(event: ToolCalled) -> tuple[_Key, ...]:
    """Return the keys under which a call is kept.

    They are the gate's id, or without one the host's id, and the call's own id in the stream. The id in the stream
    contains the moment, so the end of a call that the gate did not decide can name it as its cause.
    """
    if event.id is not None:
        return (event.id,)
    moment = event.namespace, event.instance, f"{round(event.at * 1_000_000)}.0"
    return (moment,) if event.call_id is None else (moment, (event.namespace, event.instance, event.call_id))


def _keys(event: CorpusEvent) -> Iterator[_Key]:
    """Return the keys under which the event's call may be kept."""
    if event.id is not None:
        yield event.id
    if event.call_id is not None:
        yield event.namespace, event.instance, event.call_id
    if event.cause is not None:
        yield event.namespace, event.instance, event.cause


def _name_session(attributes: dict[str, Any], instance: str) -> None:
    """Set the attributes of a session: ``mira/chat`` is the agent mira in the conversation ``mira/chat``."""
    agent, _, session = instance.partition("/")
    attributes["gen_ai.agent.name"] = line(agent)
    if session:
        attributes["gen_ai.conversation.id"] = line(instance)


def _nanoseconds(at: float) -> int:
    """Return the moment in nanoseconds; a float is exact to the microsecond."""
    return round(at * 1_000_000) * 1000


def _written(value: Any) -> str:
    """Return the value as JSON, summarised and redacted."""
    text = msgspec.json.encode(summarise({"value": value})["value"]).decode()
    return text if len(text) <= CONTENT else text[: CONTENT - 1] + "…"


def _short(text: str) -> str:
    found = summarise({"text": text})["text"]
    return line(found if isinstance(found, str) else "")
