"""Events as spans and metrics, through the real SDK, in memory."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import callosum.telemetry.opentelemetry as module
from callosum.corpus.bus import Corpus
from callosum.corpus.entry_events import events_of
from callosum.corpus.events import (
    HealthCritical,
    HealthWarning,
    LlmError,
    LlmResponse,
    LlmToken,
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
from callosum.telemetry.opentelemetry import OpenTelemetry
from tests.support.threads import all_at_once
from tests.support.world import World, gate_time

AT = 1_778_922_906.25
ID = 1_778_922_906_250_000
FACTS: dict[str, Any] = {"instance": "mira/chat", "namespace": "work"}


class Telemetry:
    """A corpus with telemetry, and its spans and metrics."""

    def __init__(self, **options: Any) -> None:
        self.corpus = Corpus()
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.telemetry = OpenTelemetry(self.corpus, tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def emit(self, *events: Any) -> None:
        for event in events:
            self.corpus.emit(event)

    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def span(self) -> ReadableSpan:
        (span,) = self.spans()
        return span

    def metric(self, name: str) -> list[tuple[Any, dict[str, Any]]]:
        """Return the points of a metric: value (of a histogram the point itself) and attributes."""
        data = self.reader.get_metrics_data()
        found = []
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        points: Any = metric.data.data_points
                        found += [(getattr(point, "value", point), dict(point.attributes)) for point in points]
        return found

    def unit(self, name: str) -> str | None:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {m.name: m.unit for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}[name]

    def close(self) -> None:
        self.telemetry.close()
        self.corpus.close()
        self.tracers.shutdown()
        self.meters.shutdown()


@pytest.fixture
def make() -> Iterator[Callable[..., Telemetry]]:
    made: list[Telemetry] = []

    def one(**options: Any) -> Telemetry:
        made.append(Telemetry(**options))
        return made[-1]

    yield one
    for seen in made:
        seen.close()


@pytest.fixture
def recorded(make: Callable[..., Telemetry]) -> Telemetry:
    return make()


def call(id: int = ID, **more: Any) -> tuple[ToolCalled, SafetyAllowed]:
    facts = {**FACTS, "at": AT, "id": id, **more}
    task = facts.pop("task_id", None)
    return (
        ToolCalled("send_email", {"to": "alice@example.com"}, task, **facts),
        SafetyAllowed("send_email", "high", **facts),
    )


def completed_call(id: int = ID, after: float = 1.5, **more: Any) -> ToolCompleted:
    return ToolCompleted("send_email", {"ok": True}, after * 1000, at=AT + after, id=id, **{**FACTS, **more})


def test_a_call_that_was_done_is_a_span_by_the_conventions(recorded: Telemetry) -> None:
    recorded.emit(*call(call_id="toolu_01"), completed_call())
    span = recorded.span()
    assert (span.name, span.kind, span.status.status_code) == (
        "execute_tool send_email",
        SpanKind.INTERNAL,
        StatusCode.UNSET,
    )
    assert (span.start_time, span.end_time) == (ID * 1000, (ID + 1_500_000) * 1000)
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "send_email",
        "gen_ai.tool.call.id": "toolu_01",
        "gen_ai.agent.name": "mira",
        "gen_ai.conversation.id": "mira/chat",
        "callosum.action.id": ID,
        "callosum.decision": "allowed",
        "callosum.classification": "high",
        "callosum.tier": 3,
        "callosum.namespace": "work",
    }
    assert span.parent is None
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "callosum"


def test_a_session_without_a_name_of_its_own_is_no_conversation(recorded: Telemetry) -> None:
    recorded.emit(*call(instance="mira"), completed_call(instance="mira"))
    attributes = recorded.span().attributes or {}
    assert attributes["gen_ai.agent.name"] == "mira"
    assert "gen_ai.conversation.id" not in attributes


def test_the_durations_are_those_of_the_span(recorded: Telemetry) -> None:
    recorded.emit(*call(), completed_call())
    ((point, attributes),) = recorded.metric("gen_ai.execute_tool.duration")
    assert attributes == {"gen_ai.tool.name": "send_email", "gen_ai.agent.name": "mira"}
    assert (point.count, point.sum) == (1, 1.5)
    bounds = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
    assert tuple(point.explicit_bounds) == bounds
    ((operation, attributes),) = recorded.metric("gen_ai.client.operation.duration")
    assert attributes == {"gen_ai.operation.name": "execute_tool"}
    assert (operation.sum, tuple(operation.explicit_bounds)) == (1.5, bounds)
    assert recorded.unit("gen_ai.execute_tool.duration") == recorded.unit("gen_ai.client.operation.duration") == "s"


def test_a_call_that_failed_has_its_type_of_error(recorded: Telemetry) -> None:
    recorded.emit(*call(), ToolFailed("send_email", "TimeoutError: alice@example.com", at=AT + 2, id=ID, **FACTS))
    span = recorded.span()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert (span.attributes or {})["error.type"] == "TimeoutError"
    ((point, attributes),) = recorded.metric("gen_ai.execute_tool.duration")
    assert (point.sum, attributes["error.type"]) == (2.0, "TimeoutError")
    assert recorded.metric("gen_ai.client.operation.duration")[0][1]["error.type"] == "TimeoutError"


def test_refused_call_is_no_error_and_no_execution(recorded: Telemetry) -> None:
    called, _ = call()
    recorded.emit(called, SafetyBlocked("send_email", 'mira is at "alice"', at=AT, id=ID, **FACTS))
    span = recorded.span()
    assert span.start_time == span.end_time == ID * 1000
    assert span.status.status_code is StatusCode.UNSET
    attributes = span.attributes or {}
    assert attributes["callosum.decision"] == "blocked"
    assert not {"error.type", "callosum.reason", "callosum.tier"} & set(attributes)
    assert recorded.metric("gen_ai.execute_tool.duration") == []
    assert recorded.metric("callosum.decisions") == [(1, {"callosum.decision": "blocked"})]


def test_content_is_omitted_by_default(make: Callable[..., Telemetry]) -> None:
    plain, full = make(), make(content=True)
    for seen in (plain, full):
        secret = "ghp_" + "a1B2" * 9
        called = ToolCalled("send_email", {"to": "alice@example.com", "token": secret}, at=AT, id=ID, **FACTS)
        failed = ToolFailed("look", f"PermissionError: {secret} \ud800\n", at=AT, id=ID + 1, **FACTS)
        blocked = SafetyBlocked("look", 'bob is at "alice"', at=AT, id=ID + 2, **FACTS)
        output = {"said": "hello \ud800\u202e", "long": ["x" * 190] * 29}
        seen.emit(called, ToolCompleted("send_email", output, 1.0, at=AT + 1, id=ID, **FACTS), failed, blocked)
        for span in seen.spans():
            assert secret not in span.to_json()
    assert not any("alice" in span.to_json() or "hello" in span.to_json() for span in plain.spans())
    first, second, third = full.spans()
    attributes: Any = first.attributes
    assert json.loads(attributes["gen_ai.tool.call.arguments"])["to"] == "alice@example.com"
    assert attributes["gen_ai.tool.call.result"].startswith('{"said":"hello ')
    assert len(attributes["gen_ai.tool.call.result"]) == module.CONTENT
    attributes["gen_ai.tool.call.result"].encode()
    assert (second.status.description or "").startswith("PermissionError: ")
    assert (third.attributes or {})["callosum.reason"] == 'bob is at "alice"'


def test_later_resolution_makes_no_second_span(recorded: Telemetry) -> None:
    unknown = ToolFailed("send_email", "nobody knows how it ended", at=AT + 300, id=ID, **FACTS)
    recorded.emit(*call(), unknown, completed_call(after=900.0))
    assert (recorded.span().attributes or {})["error.type"] == "unknown"
    assert recorded.metric("gen_ai.execute_tool.duration")[0][0].count == 1


def test_a_call_that_is_delivered_twice_is_one_span(recorded: Telemetry) -> None:
    recorded.emit(*call(), *call(), completed_call(), *call(), completed_call())
    assert recorded.span().start_time == ID * 1000


def test_a_call_that_began_in_another_process_has_the_duration_of_its_report(recorded: Telemetry) -> None:
    recorded.emit(completed_call(after=1.5))
    assert (recorded.span().start_time, recorded.span().end_time) == (ID * 1000, (ID + 1_500_000) * 1000)
    assert recorded.metric("gen_ai.execute_tool.duration")[0][0].sum == 1.5


def test_report_without_a_beginning_has_no_duration(recorded: Telemetry) -> None:
    recorded.emit(ToolFailed("send_email", "failed", at=AT, id=ID, **FACTS))
    assert recorded.span().start_time == recorded.span().end_time == ID * 1000
    assert recorded.metric("gen_ai.execute_tool.duration") == []


def test_a_clock_that_was_put_back_gives_no_negative_duration(recorded: Telemetry) -> None:
    recorded.emit(*call(), completed_call(after=-5.0))
    assert recorded.span().start_time == recorded.span().end_time
    assert recorded.metric("gen_ai.execute_tool.duration")[0][0].sum == 0.0


def test_calls_without_the_gate_s_id_are_found_by_the_host_s(recorded: Telemetry) -> None:
    first = ToolCalled("look", {}, at=AT, call_id="a", **FACTS)
    other = ToolCalled("look", {}, at=AT + 1, call_id="a", instance="doug", namespace="work")
    recorded.emit(
        first,
        other,
        SafetyAllowed("look", "safe", at=AT, call_id="a", id=7, **FACTS),
        ToolCompleted("look", at=AT + 3, call_id="a", id=7, **FACTS),
        ToolCompleted("look", at=AT + 3, call_id="a", instance="doug", namespace="work"),
    )
    mira, doug = recorded.spans()
    assert (mira.attributes or {})["callosum.tier"] == 0
    times = [(span.end_time or 0) - (span.start_time or 0) for span in (mira, doug)]
    assert times == [3_000_000_000, 2_000_000_000]
    assert not recorded.telemetry._calls


def test_journal_entries_become_spans(recorded: Telemetry, tmp_path: Path) -> None:
    """Real decisions of a real gate, read from the journal: completed, blocked and failed."""
    world = World(tmp_path)
    with gate_time(world.clock):
        first = world.ask("mira/chat", "act4", "plan", call_id="toolu_01")
        refused = world.ask("doug", "act4", "plan")
        world.after(2)
        world.end("mira/chat", first)
        world.end("mira/chat", world.ask("mira/chat", "act4", "plan"), "failed", result={"error": "OSError: no"})
        late = world.store.entries()
        recorded.emit(*[event for entry in late for event in events_of(entry)])
    world.gate.close()
    spans = sorted(recorded.spans(), key=lambda span: span.start_time or 0)
    told = [
        (
            (span.attributes or {})["callosum.action.id"],
            (span.attributes or {})["callosum.decision"],
            span.status.status_code,
        )
        for span in spans
    ]
    assert told[:2] == [(first.id, "allowed", StatusCode.UNSET), (refused.id, "blocked", StatusCode.UNSET)]
    assert told[2][1:] == ("allowed", StatusCode.ERROR)
    assert (spans[0].end_time or 0) - (spans[0].start_time or 0) == pytest.approx(2e9, rel=1e-3)
    assert (spans[0].attributes or {})["gen_ai.tool.call.id"] == "toolu_01"
    assert not recorded.telemetry._calls


def test_call_that_ran_while_the_gate_was_unreachable_has_no_decision(recorded: Telemetry) -> None:
    called = ToolCalled("look", {}, at=AT, call_id="a", **FACTS)
    recorded.emit(called, ToolCompleted("look", at=AT, cause=f"{ID}.0", **FACTS))
    attributes = recorded.span().attributes or {}
    assert attributes["gen_ai.tool.call.id"] == "a"
    assert not {"callosum.decision", "callosum.action.id"} & set(attributes)
    assert not recorded.telemetry._calls


def test_a_call_belongs_to_the_span_around_it_and_not_to_the_one_around_its_report(recorded: Telemetry) -> None:
    tracer = recorded.tracers.get_tracer("host")
    with tracer.start_as_current_span("turn") as turn:
        recorded.emit(*call())
    with tracer.start_as_current_span("another"):
        recorded.emit(completed_call())
        recorded.emit(completed_call(id=ID + 1))
    by_name = {span.name: span for span in recorded.spans() if "execute_tool" not in span.name}
    first, second = (span for span in recorded.spans() if "execute_tool" in span.name)
    assert first.parent == turn.get_span_context()
    assert first.context.trace_id == by_name["turn"].context.trace_id
    assert second.parent is None


@pytest.mark.parametrize("parent", ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-nonsense", None])
def test_a_call_belongs_to_the_span_that_its_host_names(recorded: Telemetry, parent: str | None) -> None:
    with trace.use_span(recorded.tracers.get_tracer("test").start_span("around")) as around:
        recorded.corpus.emit(ToolCalled("t", {}, None, parent, "vendor=1", id=ID, at=AT, **FACTS))
    recorded.corpus.emit(ToolCompleted("t", id=ID, at=AT, **FACTS))
    (span,) = [one for one in recorded.spans() if one.name == "execute_tool t"]
    assert span.parent is not None
    if parent is not None and parent.endswith("01"):
        assert f"{span.context.trace_id:x}" == "4bf92f3577b34da6a3ce929d0e0e4736"
        assert (f"{span.parent.span_id:016x}", span.parent.is_remote) == ("00f067aa0ba902b7", True)
        assert span.context.trace_state.get("vendor") == "1"
    else:
        assert span.parent == around.get_span_context()


def test_a_run_is_the_parent_of_its_attempts(recorded: Telemetry) -> None:
    def attempt(number: int) -> list[Any]:
        id = ID + number
        started = TaskStarted("t-1", number, at=AT + number, **FACTS)
        calls = call(id, at=AT + number, task_id="t-1")
        end: Any = completed_call(id, number + 0.5)
        if number == 1:
            end = ToolFailed("send_email", "OSError: x", at=AT + number + 0.5, id=id, **FACTS)
        return [started, *calls, end]

    recorded.emit(
        TaskCreated("t-1", "send_email", at=AT, **FACTS),
        *attempt(1),
        *attempt(2),
        TaskCompleted("t-1", True, 2500.0, at=AT + 2.5, **FACTS),
    )
    first, second, run = recorded.spans()
    assert run.name == "task send_email"
    assert first.parent == second.parent == run.context
    assert [(span.attributes or {})["callosum.task.id"] for span in (first, second, run)] == ["t-1"] * 3
    assert (run.start_time, run.end_time) == (ID * 1000, (ID + 2_500_000) * 1000)
    attributes = run.attributes or {}
    assert (attributes["callosum.task.attempts"], attributes["callosum.task.outcome"]) == (2, "done")
    assert run.status.status_code is StatusCode.UNSET


def test_last_attempt_belongs_to_its_run_even_if_reported_after_it(recorded: Telemetry) -> None:
    recorded.emit(
        TaskCreated("t-1", "send_email", at=AT, **FACTS),
        TaskStarted("t-1", 1, at=AT, **FACTS),
        TaskCompleted("t-1", True, 9.0, at=AT + 2, **FACTS),
        TaskStarted("t-1", 2, at=AT, **FACTS),
        *call(task_id="t-1"),
        completed_call(),
    )
    run, attempt = recorded.spans()
    assert attempt.parent == run.context
    assert (run.attributes or {})["callosum.task.attempts"] == 1


def test_the_same_run_again_is_another_span(recorded: Telemetry) -> None:
    created = TaskCreated("t", "look", at=AT, **FACTS)
    recorded.emit(created, TaskCompleted("t", True, 9.0, at=AT, **FACTS), created, created)
    recorded.telemetry.close()
    outcomes = [(span.attributes or {})["callosum.task.outcome"] for span in recorded.spans()]
    assert outcomes == ["done", "unfinished", "unfinished"]
    assert recorded.telemetry.evicted == 1


@pytest.mark.parametrize(
    ("end", "outcome", "status", "error"),
    [
        (TaskFailed("t", "OSError: x", 3, at=AT, **FACTS), "failed", StatusCode.ERROR, "OSError"),
        (TaskCompleted("t", False, 1.0, at=AT, **FACTS), "failed", StatusCode.ERROR, "failed"),
        (TaskStopped("t", "blocked", at=AT - 9, **FACTS), "stopped", StatusCode.UNSET, None),
        (None, "unfinished", StatusCode.UNSET, None),
    ],
)
def test_run_span_has_the_outcome_of_the_run(
    recorded: Telemetry, end: Any, outcome: str, status: StatusCode, error: str | None
) -> None:
    recorded.emit(TaskCreated("t", "look", at=AT, **FACTS))
    assert recorded.spans() == []
    if end is None:
        recorded.telemetry.close()
    else:
        recorded.emit(end, end)
    span = recorded.span()
    attributes = span.attributes or {}
    assert (attributes["callosum.task.outcome"], span.status.status_code) == (outcome, status)
    assert attributes.get("error.type") == error
    assert (span.end_time or 0) >= (span.start_time or 0)


def test_tokens_and_errors_of_models_are_measured(recorded: Telemetry) -> None:
    recorded.emit(
        LlmResponse("anthropic", "claude-sonnet-4", 342),
        LlmResponse("Bedrock", "claude-sonnet-4", 8),
        LlmError("openai", "overloaded: sk-secret", True),
        LlmToken("he"),
        LlmResponse("ollama", "qwen", 0),
    )
    points = recorded.metric("gen_ai.client.token.usage")
    assert [(point.sum, attributes) for point, attributes in points] == [
        (tokens, {"gen_ai.operation.name": "chat", "gen_ai.provider.name": provider,
                  "gen_ai.response.model": "claude-sonnet-4", "gen_ai.token.type": "total"})
        for tokens, provider in ((342, "anthropic"), (8, "aws.bedrock"))
    ]  # fmt: skip
    assert tuple(points[0][0].explicit_bounds) == tuple(4**power for power in range(14))
    assert points[0][0].explicit_bounds[-1] == 67_108_864
    assert recorded.unit("gen_ai.client.token.usage") == "{token}"
    assert recorded.metric("callosum.llm.errors") == [
        (1, {"gen_ai.provider.name": "openai", "callosum.will_retry": True})
    ]


def test_all_events_are_counted(recorded: Telemetry) -> None:
    recorded.emit(
        HealthWarning("disk", 95, 90), HealthWarning("disk", 96, 90), HealthCritical("store", "locked", "free")
    )
    assert recorded.metric("callosum.events") == [
        (2, {"callosum.event": "health.warning"}),
        (1, {"callosum.event": "health.critical"}),
    ]
    assert recorded.metric("callosum.health.problems") == [
        (2, {"callosum.resource": "disk", "callosum.level": "warning"}),
        (1, {"callosum.resource": "store", "callosum.level": "critical"}),
    ]


def test_the_oldest_of_too_many_open_calls_and_runs_are_forgotten(
    make: Callable[..., Telemetry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OPEN", 10)
    seen = make()
    for number in range(25):
        seen.emit(*call(ID + number), TaskCreated(f"t-{number}", "look", at=AT, **FACTS))
        seen.emit(ToolCalled("late", {}, at=AT + number, call_id=f"c-{number}", **FACTS))
    assert len(seen.telemetry._calls) <= 10
    assert len(seen.telemetry._tasks) == 10
    assert seen.telemetry.evicted == seen.metric("callosum.telemetry.evicted")[0][0] > 30
    runs = [span for span in seen.spans() if span.name == "task look"]
    assert [(span.attributes or {})["callosum.task.outcome"] for span in runs] == ["unfinished"] * 15
    seen.emit(completed_call(ID))
    last = seen.spans()[-1]
    assert (last.end_time or 0) - (last.start_time or 0) == 1_500_000_000, "the report knows how long it took"
    assert "callosum.tier" not in (last.attributes or {})
    for number in range(100):
        seen.emit(completed_call(ID + 1000 + number))
    assert len(seen.telemetry._ended) == 10


def test_a_metric_has_few_series_whatever_sessions_invent(recorded: Telemetry) -> None:
    for number in range(300):
        tool = f"tool-{number}"
        recorded.emit(ToolCompleted(tool, None, 1.0, at=AT, id=number + 1, instance=f"agent-{number}"))
    assert len(recorded.metric("gen_ai.execute_tool.duration")) == 201
    assert recorded.spans()[-1].name == "execute_tool tool-299", "a span has the name all the same"


def test_names_that_cannot_be_encoded_are_harmless(recorded: Telemetry) -> None:
    bad = "x\ud800\n\x1b[2J"
    facts: dict[str, Any] = {"at": AT, "instance": bad, "namespace": bad, "call_id": bad, "id": 1}
    recorded.emit(
        ToolCalled(bad, {bad: bad}, bad, **facts),
        SafetyAllowed(bad, bad, **facts),
        ToolFailed(bad, bad, **{**facts, "call_id": None}),
        TaskCreated(bad, bad, at=AT, instance=bad),
        TaskFailed(bad, bad, 1, at=AT, instance=bad),
        LlmResponse(bad, bad, 1),
    )
    assert len(recorded.spans()) == 2
    for span in recorded.spans():
        for value in (span.name, *(value for value in (span.attributes or {}).values() if isinstance(value, str))):
            assert value.isprintable()
            value.encode()
    for _, attributes in recorded.metric("gen_ai.client.token.usage"):
        assert all(value.isprintable() for value in attributes.values())


def test_calls_of_several_threads_stay_separate(recorded: Telemetry) -> None:

    def work(first: int) -> None:
        for id in range(first, first + 100):
            recorded.emit(*call(id, call_id=f"c-{id}"), completed_call(id))

    all_at_once([partial(work, first) for first in (1000, 2000, 3000, 4000)])
    assert len(recorded.spans()) == 400
    for span in recorded.spans():
        attributes: Any = span.attributes
        assert attributes["gen_ai.tool.call.id"] == f"c-{attributes['callosum.action.id']}"
    assert recorded.metric("gen_ai.execute_tool.duration")[0][0].count == 400


def test_after_close_no_span_is_made_and_the_providers_continue(recorded: Telemetry) -> None:
    recorded.emit(*call())
    recorded.telemetry.close()
    recorded.telemetry.close()
    recorded.emit(completed_call())
    assert recorded.spans() == []
    assert recorded.corpus.handlers(ToolCompleted) == 0
    recorded.tracers.get_tracer("host").start_span("still").end()
    assert [span.name for span in recorded.spans()] == ["still"]


def test_without_providers_it_uses_those_of_the_process() -> None:
    """It runs in a separate process, because a process's providers can be set only once."""
    code = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from callosum.corpus.bus import Corpus
from callosum.corpus.events import ToolCompleted
from callosum.telemetry.opentelemetry import OpenTelemetry

exporter = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
corpus = Corpus()
OpenTelemetry(corpus)
corpus.emit(ToolCompleted("look", None, 1.0, id=1))
print([span.name for span in exporter.get_finished_spans()])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("['execute_tool look']\n", "")


def test_without_any_provider_nothing_happens() -> None:
    corpus = Corpus()
    telemetry = OpenTelemetry(corpus)
    for event in (*call(), completed_call(), TaskCreated("t", "look")):
        corpus.emit(event)
    assert not trace.get_current_span().get_span_context().is_valid
    telemetry.close()
    corpus.close()


@pytest.mark.parametrize(
    ("name", "missing", "extra", "at"),
    [
        ("opentelemetry", "opentelemetry", "opentelemetry", "telemetry.opentelemetry"),
        ("otlp", "opentelemetry.sdk.trace", "opentelemetry", "telemetry.opentelemetry"),
        ("otlp", "opentelemetry.exporter", "opentelemetry", "telemetry.opentelemetry"),
        ("prometheus", "prometheus_client", "prometheus", "telemetry.prometheus"),
    ],
)
def test_an_extra_that_is_not_installed_is_named(name: str, missing: str, extra: str, at: str) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
from callosum.errors import ConfigError
try:
    import callosum.telemetry.{name}
except ConfigError as error:
    print(error.at, '|', error.message)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    place, _, message = ran.stdout.strip().partition(" | ")
    assert place == at
    assert message.endswith(f" is not installed: pip install 'callosum-protocol[{extra}]'")
