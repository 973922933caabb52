"""Test that a task of a server keeps its call open until its outcome is known, for any requester."""

import json
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callosum.client.client import CallosumClient
from callosum.hosts.mcp.gate_client import GateAnswer, GateClient
from callosum.hosts.mcp.identity import NameSources
from callosum.hosts.mcp.outcome import CallOutcome, read_status
from callosum.hosts.mcp.proxy import Proxy, ProxyConfig
from callosum.model import Call, Decision, Outcome, Verdict
from tests.support.mcpwrap import META

TASK = {"taskId": "t-1", "status": "working", "createdAt": "2026-11-24T00:00:00Z", "ttlMs": None}
LIMIT = 10.0


class Reporting(GateClient):
    """Allows every call and records reports in ``told``."""

    told: queue.Queue[Any]

    def ask(self, call: Call, size: int) -> GateAnswer:
        return GateAnswer(True, "", Decision(True, 3, None, 1, Verdict.ALLOW, (), ""))

    def report(self, call: Call, decision: Decision, result: Any = None, outcome: Any = None, **_: Any) -> None:
        self.told.put((outcome, result))

    def tell(self, event: Any) -> None:
        pass


class ProxyEnds:
    """A proxy whose two ends belong to the test."""

    def __init__(self, folder: Path, seconds: float) -> None:
        gate_client = Reporting(
            lambda: CallosumClient(f"unix:{folder}/none.sock", state=folder), lambda _: (3, "write")
        )
        self.told: queue.Queue[Any] = queue.Queue()
        gate_client.told = self.told
        self.server: queue.Queue[Any] = queue.Queue()
        self.client: queue.Queue[Any] = queue.Queue()
        wrapped = ProxyConfig(
            names=NameSources(given_instance="me", given_session="s"), started_by="s", server="server"
        )
        self.proxy = Proxy(
            gate_client,
            wrapped,
            to_client=lambda line: self.client.put(json.loads(line)),
            to_server=lambda line: self.server.put(json.loads(line)),
            task_seconds=seconds,
        )
        self.proxy._listed = True

    def begin(self) -> None:
        """Make a call that is answered with the name of a task."""
        self.ask("tools/call", {"name": "index", "arguments": {}})
        self.answer({"resultType": "task", **TASK})
        assert self.client.get(timeout=LIMIT)["result"]["taskId"] == "t-1"

    def ask(self, method: str, params: dict[str, Any]) -> None:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        self.proxy.from_client(json.dumps(request).encode() + b"\n")

    def answer(self, result: Any = None, *, error: Any = None) -> Any:
        """Answer the next request that reaches the server, and return the request."""
        asked = self.server.get(timeout=LIMIT)
        said = {"error": error} if error is not None else {"result": result}
        self.proxy.from_server(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}).encode() + b"\n")
        return asked


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[Callable[..., ProxyEnds]]:
    made: list[ProxyEnds] = []

    def make(seconds: float = 3600.0) -> ProxyEnds:
        made.append(ProxyEnds(tmp_path, seconds))
        return made[-1]

    yield make
    for one in made:
        one.proxy.close()


DONE = {"status": "completed", "result": {"content": [{"type": "text", "text": "indexed"}]}}
WRONG = {"status": "completed", "result": {"content": [{"type": "text", "text": "no such index"}], "isError": True}}
FAILED = {"status": "failed", "error": {"code": -32603, "message": "the disk is full"}}


@pytest.mark.parametrize(
    ("over", "ended"),
    [
        (DONE, CallOutcome({"text": "indexed"}, Outcome.DONE)),
        (WRONG, CallOutcome({"error": "no such index"})),
        (FAILED, CallOutcome({"error": "the disk is full"})),
        ({"status": "cancelled"}, CallOutcome(None, Outcome.UNKNOWN)),
        ({"status": "input_required", "inputRequests": {}}, None),
    ],
)
def test_status_from_2026_on_has_the_outcome(over: dict[str, Any], ended: CallOutcome | None) -> None:
    assert read_status(msgspec.Raw(msgspec.json.encode({**TASK, **over}))) == ("t-1", ended)


@pytest.mark.parametrize("told", ["notifications/tasks", "notifications/tasks/status", "tasks/get"])
def test_end_is_read_from_notifications_and_from_the_clients_requests(
    desks: Callable[..., ProxyEnds], told: str
) -> None:
    handlers = desks()
    handlers.begin()
    assert handlers.told.empty()
    if told == "tasks/get":
        handlers.ask("tasks/get", {"taskId": "t-1"})
        handlers.answer({"resultType": "complete", **TASK, **DONE})
    else:
        note = {"jsonrpc": "2.0", "method": told, "params": {**TASK, **DONE}}
        handlers.proxy.from_server(json.dumps(note).encode() + b"\n")
    assert handlers.told.get(timeout=LIMIT) == (Outcome.DONE, {"text": "indexed"})


def test_proxy_asks_about_a_task_that_its_client_abandoned(desks: Callable[..., ProxyEnds]) -> None:
    handlers = desks(0.05)
    handlers.begin()
    asked = handlers.answer({"resultType": "complete", **TASK})
    assert (asked["method"], asked["params"]) == ("tasks/get", {"taskId": "t-1", "_meta": META})
    handlers.answer({"resultType": "complete", **TASK, **FAILED})
    assert handlers.told.get(timeout=LIMIT) == (None, {"error": "the disk is full"})
    assert handlers.client.empty(), "what the wrap asked is not the client's"


def test_proxy_keeps_only_its_last_status_request_and_asks_again_after_an_error(
    desks: Callable[..., ProxyEnds], monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = desks(0.05)
    write, faults = handlers.proxy._to_server, iter([BrokenPipeError()])

    def to_server(line: bytes) -> None:
        if b"tasks/get" in line and (fault := next(faults, None)) is not None:
            raise fault
        write(line)

    monkeypatch.setattr(handlers.proxy, "_to_server", to_server)
    handlers.begin()
    for _ in range(4):
        assert handlers.server.get(timeout=LIMIT)["method"] == "tasks/get"
    assert len(handlers.proxy._own) <= 1
    while handlers.proxy._tasks:  # a late answer to a repeated status request counts for nothing
        handlers.answer({"resultType": "complete", **TASK, **DONE})
    assert handlers.told.get(timeout=LIMIT) == (Outcome.DONE, {"text": "indexed"})
    assert handlers.client.empty()


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result"])
def test_forgotten_task_is_unknown(desks: Callable[..., ProxyEnds], method: str) -> None:
    handlers = desks()
    handlers.begin()
    handlers.ask("tasks/cancel", {"taskId": "t-1"})
    handlers.answer(error={"code": -32602, "message": "it cannot be cancelled"})
    handlers.ask(method, {"taskId": "t-1"})
    handlers.answer(error={"code": -32602, "message": "no such task"})
    assert handlers.told.get(timeout=LIMIT) == (Outcome.UNKNOWN, None)


def test_connection_error_ends_no_task(desks: Callable[..., ProxyEnds]) -> None:
    handlers = desks()
    handlers.begin()
    handlers.ask("tasks/get", {"taskId": "t-1"})
    handlers.answer(error={"code": -32000, "message": "try again"})
    handlers.ask("tasks/get", {"taskId": "t-1"})
    handlers.answer({"resultType": "complete", **TASK, **DONE})
    assert handlers.told.get(timeout=LIMIT) == (Outcome.DONE, {"text": "indexed"})
    assert handlers.told.empty()


def test_task_that_has_already_ended_is_no_task(desks: Callable[..., ProxyEnds]) -> None:
    handlers = desks()
    handlers.ask("tools/call", {"name": "index", "arguments": {}})
    handlers.answer({"resultType": "task", **TASK, **DONE})
    assert handlers.told.get(timeout=LIMIT) == (Outcome.DONE, {"text": "indexed"})


def test_task_of_a_lost_server_is_unknown(desks: Callable[..., ProxyEnds]) -> None:
    handlers = desks()
    handlers.begin()
    handlers.proxy.lost()
    assert handlers.told.get(timeout=LIMIT) == (Outcome.UNKNOWN, None)
