"""Spans and metrics over OTLP/HTTP to real receivers: working, hung, refusing and unreachable ones."""

import gzip
import http.server
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from callosum.brain import Brain
from callosum.corpus.bus import Corpus
from callosum.corpus.events import SafetyAllowed, ToolCalled, ToolCompleted
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.model import Call
from callosum.regions.execution import Task
from callosum.settings import Settings
from callosum.telemetry import otlp
from callosum.telemetry.otlp import RateLimitedFilter, from_environment
from tests.support.cpu import HANG
from tests.support.mcpwrap import META, wrapped
from tests.support.peer import free_port
from tests.support.serving import serving, until

REPOSITORY = Path(__file__).parents[2]
SECONDS: Final = 30.0
"""How long something may take that must happen."""


class Receiver:
    """An OTLP receiver over HTTP on this machine. ``answer`` is the status; with ``hang`` it waits for ``let_go``."""

    def __init__(self, answer: int = 200, *, hang: bool = False) -> None:
        self.requests: list[tuple[str, bytes]] = []
        self.reached = threading.Event()
        self.let_go = threading.Event()
        if not hang:
            self.let_go.set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.requests.append((self.path, body))
                receiver.reached.set()
                receiver.let_go.wait(SECONDS)
                try:
                    self.send_response(answer)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except OSError:
                    self.close_connection = True  # the sender has disconnected

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def spans(self) -> list[tuple[Any, dict[str, Any], dict[str, Any]]]:
        """Return each span with its own attributes and those of its resource."""
        found = []
        for path, body in list(self.requests):
            if path == "/v1/traces":
                for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                    resource = _plain(group.resource.attributes)
                    found += [(s, _plain(s.attributes), resource) for scope in group.scope_spans for s in scope.spans]
        return found

    def metrics(self) -> dict[str, Any]:
        """Return the last sample of each metric by name."""
        found: dict[str, Any] = {}
        for path, body in list(self.requests):
            if path == "/v1/metrics":
                for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    found |= {m.name: m for scope in group.scope_metrics for m in scope.metrics}
        return found

    def close(self) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


Receive = Callable[..., Receiver]


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@pytest.fixture
def receive() -> Iterator[Receive]:
    made: list[Receiver] = []

    def one(*args: Any, **options: Any) -> Receiver:
        made.append(Receiver(*args, **options))
        return made[-1]

    yield one
    for receiver in made:
        receiver.close()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove variables from outside, and check afterwards that no thread of the SDK is left."""
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    yield
    for thread in threading.enumerate():
        if thread.name.startswith(("Otel", "callosum-telemetry")):
            thread.join(SECONDS)
            assert not thread.is_alive(), thread


def make_calls(corpus: Corpus, count: int = 1, first: int = 1) -> None:
    for id in range(first, first + count):
        facts: dict[str, Any] = {"instance": "mira/chat", "namespace": "work", "id": id, "call_id": f"c-{id}"}
        corpus.emit(ToolCalled("look", {"at": "alice@example.com"}, at=1000.0 + id, **facts))
        corpus.emit(SafetyAllowed("look", "safe", at=1000.0 + id, **facts))
        corpus.emit(ToolCompleted("look", "seen", 250.0, at=1000.25 + id, **facts))


def test_spans_and_metrics_are_sent_once(receive: Receive, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = receive()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    corpus = Corpus()
    telemetry = from_environment(corpus)
    make_calls(corpus, 1000)
    telemetry.close()
    telemetry.close()
    spans = receiver.spans()
    assert sorted(attributes["gen_ai.tool.call.id"] for _, attributes, _ in spans) == sorted(
        f"c-{id}" for id in range(1, 1001)
    )
    span, attributes, resource = spans[0]
    assert span.name == "execute_tool look"
    assert span.end_time_unix_nano - span.start_time_unix_nano == 250_000_000
    assert attributes["callosum.tier"] == 0
    assert resource["service.name"] == "callosum"
    assert not any(b"alice" in body for _, body in receiver.requests), "arguments are not sent unless asked for"
    metrics = receiver.metrics()
    (point,) = metrics["gen_ai.execute_tool.duration"].histogram.data_points
    assert (point.count, point.sum, len(point.explicit_bounds)) == (1000, 250.0, 14)
    assert metrics["callosum.events"].unit == "{event}"
    make_calls(corpus)
    assert len(receiver.spans()) == 1000
    corpus.close()


def test_what_a_gate_decides_is_sent_when_it_is_switched_on(
    receive: Receive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run with two attempts through a real gate, and a call that is refused."""
    receiver = receive()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)

    def work(task: Task) -> str:
        if task.attempt == 1:
            raise FileNotFoundError("no such file: plan.txt")
        return "done"

    with LocalGate(settings=Settings(state=tmp_path, telemetry_opentelemetry=True)) as gate, Brain(gate) as brain:
        assert brain.motor is not None
        call = Call("mira/chat", "delete_repository", {"repo": "plan"}, call_id="toolu_01")
        assert brain.motor.run(call, work, backoff=0.01) == "done"
        assert not gate.intercept(Call("doug", "delete_repository", {"repo": "plan"})).proceed
    by_name: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
    for span, attributes, _ in receiver.spans():
        by_name.setdefault(span.name, []).append((span, attributes))
    ((run, told),) = by_name["task delete_repository"]
    assert (told["callosum.task.attempts"], told["callosum.task.outcome"]) == (2, "done")
    first, second, refused = by_name["execute_tool delete_repository"]
    assert first[0].parent_span_id == second[0].parent_span_id == run.span_id
    assert [attributes.get("error.type") for _, attributes in (first, second)] == ["FileNotFoundError", None]
    assert (first[1]["gen_ai.tool.call.id"], first[1]["callosum.tier"]) == ("toolu_01", 4)
    assert (refused[1]["callosum.decision"], refused[1]["gen_ai.agent.name"]) == ("blocked", "doug")
    assert not refused[0].parent_span_id


def test_environment_variables_choose_the_exporter(receive: Receive, monkeypatch: pytest.MonkeyPatch) -> None:
    spans, metrics = receive(), receive()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", metrics.address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{spans.address}/v1/traces")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mira")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    corpus = Corpus()
    telemetry = from_environment(corpus, content=True)
    make_calls(corpus)
    telemetry.close()
    ((_, attributes, resource),) = spans.spans()
    assert json.loads(attributes["gen_ai.tool.call.arguments"]) == {"at": "alice@example.com"}
    assert json.loads(attributes["gen_ai.tool.call.result"]) == "seen"
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("mira", "test")
    assert not metrics.spans()
    assert "gen_ai.execute_tool.duration" in metrics.metrics()
    corpus.close()


@pytest.mark.parametrize(
    ("variables", "spans", "metrics"),
    [
        ({"OTEL_TRACES_EXPORTER": "none"}, False, True),
        ({"OTEL_METRICS_EXPORTER": "none"}, True, False),
        ({"OTEL_SDK_DISABLED": "true"}, False, False),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_TRACES_EXPORTER": "otlp"}, True, True),
    ],
)
def test_signals_that_are_switched_off_are_not_sent(
    receive: Receive, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], spans: bool, metrics: bool
) -> None:
    receiver = receive()
    for name, value in {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address, **variables}.items():
        monkeypatch.setenv(name, value)
    corpus = Corpus()
    telemetry = from_environment(corpus)
    make_calls(corpus)
    telemetry.close()
    assert (bool(receiver.spans()), bool(receiver.metrics())) == (spans, metrics)
    corpus.close()


@pytest.mark.parametrize(
    ("name", "value", "at", "says"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL", "expected http/protobuf, got 'grpc'"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "x", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "got 'x'"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "OTEL_TRACES_EXPORTER", "expected otlp or none, got 'zipkin'"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0", "telemetry.opentelemetry", "OTEL_"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "telemetry.opentelemetry", "OTEL_"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, at: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    corpus = Corpus()
    with pytest.raises(ConfigError, match=says) as caught:
        from_environment(corpus)
    assert caught.value.at == at
    assert corpus.handlers(ToolCalled) == 0
    corpus.close()


def test_hung_receiver_slows_no_call_and_close_has_a_time_limit(
    receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = receive(hang=True)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "250000")  # in milliseconds: what waits for it hangs
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1")
    monkeypatch.setattr(otlp, "CLOSING", 0.3)
    corpus = Corpus()
    telemetry = from_environment(corpus)
    try:
        make_calls(corpus)
        assert receiver.reached.wait(SECONDS), "it is in the middle of a request"
        slowest = 0.0
        for id in range(2, 5000):  # more than the batch processor keeps
            began = time.perf_counter()
            make_calls(corpus, first=id)
            slowest = max(slowest, time.perf_counter() - began)
        assert slowest < HANG, "a call waited for the receiver"
        began = time.monotonic()
        telemetry.close()
        assert 0.25 < time.monotonic() - began < HANG, "it waited for CLOSING, and not for the receiver"
    finally:
        receiver.let_go.set()
        telemetry.close()
        corpus.close()


@pytest.mark.parametrize("answer", [500, 503, None], ids=["refuses", "is busy", "is away"])
def test_failing_receiver_is_reported_once(
    receive: Receive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answer: int | None
) -> None:
    address = receive(answer).address if answer else f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    corpus = Corpus()
    telemetry = from_environment(corpus)
    try:
        make_calls(corpus, 100)
    finally:
        telemetry.close()
    lines = [(record.name, record.msg) for record in caplog.records if record.name.startswith("opentelemetry")]
    assert lines, "it is told of"
    assert len(lines) == len(set(lines))
    assert not [record for record in caplog.records if record.exc_info]
    corpus.close()


def test_each_log_line_of_an_exporter_is_repeated_once_a_minute_at_most(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    seldom = RateLimitedFilter(clock=lambda: now[0])
    exporter = logging.getLogger(RateLimitedFilter.LOGGERS[0])
    for now[0] in (100.0, 130.0, 159.9, 160.0, 161.0, 161.5):
        exporter.error("cannot send to %s", now[0])
        if now[0] == 161.0:
            exporter.error("another")
    seldom.close()
    exporter.error("cannot send to %s", "whom it may concern")
    assert caplog.messages == [
        "cannot send to 100.0",
        "cannot send to 160.0",
        "another",
        "cannot send to whom it may concern",
    ]


PROGRAM: Final = """
import sys
from callosum.corpus.bus import Corpus
from callosum.corpus.events import ToolCalled, ToolCompleted, TaskCreated
from callosum.telemetry.otlp import from_environment

corpus = Corpus()
telemetry = from_environment(corpus)
corpus.emit(TaskCreated("t", "look"))
for id in range(1, 301):
    corpus.emit(ToolCalled("look", {}, id=id))
    corpus.emit(ToolCompleted("look", id=id))
"""


def run(address: str, program: str = PROGRAM, **more: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run a program that emits and ends without closing anything."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, *(("-W", "error") if program == PROGRAM else ()), "-c", program],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**clean, "OTEL_EXPORTER_OTLP_ENDPOINT": address, "PYTHONPATH": str(REPOSITORY), **more},
    )
    return ran, time.monotonic() - began


def test_a_process_that_ends_has_sent_everything(receive: Receive) -> None:
    receiver = receive()
    ran, _ = run(receiver.address)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    names = [span.name for span, _, _ in receiver.spans()]
    assert names.count("execute_tool look") == 300
    assert names.count("task look") == 1, "a run under way ends with the process"
    (point,) = receiver.metrics()["gen_ai.execute_tool.duration"].histogram.data_points
    assert point.count == 300


FORKING: Final = (
    PROGRAM
    + """
import os
child = os.fork()
if not child:
    corpus.emit(ToolCompleted("look", id=1000))
    telemetry.close()
    os._exit(0)
os.waitpid(child, 0)
"""
)


def test_forked_child_sends_its_own_telemetry(receive: Receive) -> None:
    receiver = receive()
    ran, _ = run(receiver.address, FORKING)
    assert ran.returncode == 0, ran.stderr
    ids = [
        attributes["callosum.action.id"]
        for _, attributes, _ in receiver.spans()
        if attributes.get("callosum.action.id")
    ]
    assert sorted(ids) == [*range(1, 301), 1000]


def test_a_process_ends_though_its_receiver_hangs(receive: Receive) -> None:
    ran, took = run(receive(hang=True).address, OTEL_EXPORTER_OTLP_TIMEOUT="250000")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert took < HANG, "the exporters by themselves would wait for 250 s and more"


def test_process_with_an_unreachable_receiver_ends_with_a_few_lines() -> None:
    ran, took = run(
        f"http://127.0.0.1:{free_port()}",
        OTEL_BSP_SCHEDULE_DELAY="1",
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1",
        OTEL_EXPORTER_OTLP_TIMEOUT="250000",
    )
    assert (ran.returncode, ran.stdout) == (0, "")
    assert took < HANG
    lines = ran.stderr.splitlines()
    assert 0 < len(lines) <= 10, ran.stderr


def test_the_trace_of_an_mcp_call_reaches_the_journal_and_the_span_of_the_gates_server(
    receive: Receive, tmp_path: Path
) -> None:
    trace_id, span_id = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    named = {"traceparent": f"00-{trace_id}-{span_id}-01", "tracestate": "vendor=1"}
    wrong = {"traceparent": f"00-{'0' * 32}-{span_id}-01", "tracestate": "vendor=1"}
    receiver = receive()
    environ = {
        "CALLOSUM_TELEMETRY_OPENTELEMETRY": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    with (
        serving(tmp_path / "gate", environ=environ) as gate,
        wrapped(tmp_path / "state", "--name", "shop", modern=True, environ={"CALLOSUM_URL": gate.address}) as client,
    ):
        for meta in (named, wrong):
            client.call("read_note", {"path": "/a"}, {**META, **meta})
        entries = [one for one in gate.get("/journal")["entries"] if one["event"] == "intercept"]
        assert [one["body"].get("meta") for one in entries] == [named, None]
        until(lambda: len(receiver.spans()) > 1)
    first, second = (span for span, attributes, _ in receiver.spans() if "gen_ai.tool.name" in attributes)
    assert (first.trace_id.hex(), first.parent_span_id.hex(), first.trace_state) == (trace_id, span_id, "vendor=1")
    assert second.parent_span_id == b""
