"""Test calls through the proxy: their order, keys that agents write, the pages of tools, outcomes in answers."""

import json
import queue
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callosum.client.client import CallosumClient
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.hosts.mcp.catalogue import MAX_SCHEMA, CatalogueTool, ToolCatalogue
from callosum.hosts.mcp.gate_client import GateAnswer, GateClient
from callosum.hosts.mcp.identity import CallerIdentity, NameSources, tool_name
from callosum.hosts.mcp.messages import Message
from callosum.hosts.mcp.outcome import MAX_RESULT, CallOutcome, read_outcome, read_status
from callosum.hosts.mcp.proxy import Proxy, ProxyConfig
from callosum.hosts.mcp.tool_handlers import ToolHandlers, canonical
from callosum.model import Call, Decision, Outcome, Verdict
from callosum.settings import Settings

FIRST, SECOND, THIRD = (tool_name("server", name) for name in ("first", "second", "third"))


class Delayed(GateClient):
    """Delay the decision of the first tool until the test releases it."""

    go: threading.Event

    def ask(self, call: Call, size: int) -> GateAnswer:
        if call.tool == FIRST:
            self.go.wait(10)
        return super().ask(call, size)


def line(name: str, id: int) -> bytes:
    params = {"name": name, "arguments": {}}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode() + b"\n"


def test_refused_call_lets_no_later_call_overtake_an_earlier_one(tmp_path: Path) -> None:
    table = {FIRST: 0, THIRD: 0}  # without a gate the second tool is unknown and therefore refused
    gate_client = Delayed(
        lambda: CallosumClient(f"unix:{tmp_path}/none.sock", state=tmp_path, fallback=table), lambda _: (3, "write")
    )
    gate_client.go = threading.Event()
    server: list[bytes] = []
    refused, sent_on = threading.Event(), threading.Event()
    told: list[bytes] = []

    def to_client(answer: bytes) -> None:
        told.append(answer)
        refused.set()

    def to_server(sent: bytes) -> None:
        server.append(sent)
        sent_on.set()

    wrapped = ProxyConfig(names=NameSources(given_instance="me", given_session="s"), started_by="s", server="server")
    proxy = Proxy(gate_client, wrapped, to_client=to_client, to_server=to_server)
    try:
        proxy.from_client(line("first", 1))
        proxy.from_client(line("second", 2))
        assert refused.wait(10)
        assert json.loads(told[0])["id"] == 2
        proxy.from_client(line("third", 3))
        assert not sent_on.wait(0.2), "the first is still being asked about"
        gate_client.go.set()
        proxy.finish()
        assert [json.loads(sent)["id"] for sent in server] == [1, 3]
    finally:
        gate_client.go.set()
        proxy.close()
        gate_client.close()


class Rewriting(GateClient):
    """Allow every call with another text."""

    def ask(self, call: Call, size: int) -> GateAnswer:
        params = {**call.params, "content": "merged\ntext"}
        return GateAnswer(True, "", Decision(True, 1, None, 1, Verdict.ALLOW, (), "", params=params))

    def report(self, *_: Any, **__: Any) -> None:
        pass


def test_rewritten_batch_stays_one_line(tmp_path: Path) -> None:
    gate_client = Rewriting(
        lambda: CallosumClient(f"unix:{tmp_path}/none.sock", state=tmp_path), lambda _: (1, "write")
    )
    sent: queue.Queue[bytes] = queue.Queue()
    wrapped = ProxyConfig(
        names=NameSources(given_instance="me", given_session="s"), started_by="s", server="server", cwd="/"
    )
    proxy = Proxy(gate_client, wrapped, to_client=lambda _: None, to_server=sent.put)
    proxy._listed = True
    params = {"name": "write_file", "arguments": {"path": "/a", "content": "mine"}}
    calls = [{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params} for id in (1, 2)]
    try:
        proxy.from_client(json.dumps(calls).encode() + b"\n")
        proxy.from_client(json.dumps(calls[0]).encode() + b"\n")
        proxy.finish()
        batch, single = sent.get(timeout=10), sent.get(timeout=10)
    finally:
        proxy.close()
        gate_client.close()
    assert (batch.count(b"\n"), single.count(b"\n"), single[-1:]) == (1, 1, b"\n")
    for call in (*json.loads(batch), json.loads(single)):
        assert call["params"]["arguments"] == {"path": "/a", "content": "merged\ntext"}


def test_ambiguous_message_reaches_no_server(tmp_path: Path) -> None:
    gate_client = Rewriting(
        lambda: CallosumClient(f"unix:{tmp_path}/none.sock", state=tmp_path), lambda _: (1, "write")
    )
    server: list[bytes] = []
    client: list[bytes] = []
    wrapped = ProxyConfig(names=NameSources(given_instance="me", given_session="s"), started_by="s", server="server")
    proxy = Proxy(gate_client, wrapped, to_client=client.append, to_server=server.append)
    try:
        proxy.from_client(b'{"method":"tools/call","method":"ping","id":1,"params":{"name":"rm"}}\n')
        proxy.finish()
    finally:
        proxy.close()
        gate_client.close()
    assert server == []
    assert "occurs more than once" in json.loads(client[0])["error"]["message"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("email:Alice@EXAMPLE.com", "email:alice@example.com"),
        (" Email:Alice <alice@example.com> ", "email:alice@example.com"),
        ("file:/w/../w/./a.py", "file:/w/a.py"),
        ("/w//a.py", "file:/w/a.py"),
        ("file:a.py", "file:/w/a.py"),
        ("file:/repo/", "file:/repo/"),
        ("file:/w/a.py|lines", "file:/w/a.py|lines"),
        ("thread:andy:msg-500", "thread:andy:msg-500"),
        ("file:\u202e", "file:/w/\u202e"),
    ],
)
def test_key_is_normalised_as_in_calls(written: str, meant: str) -> None:
    assert canonical(written, "/w") == meant


@pytest.mark.parametrize("written", ["nothing", "", "email:a@x.org, b@x.org"])
def test_anything_but_one_key_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        canonical(written)


def test_lease_on_a_written_key_meets_the_call(tmp_path: Path) -> None:
    mail = Call("bob", "send_email", {"to": "alice@example.com", "body": "Hello"})
    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        handlers = ToolHandlers(gate)  # type: ignore[arg-type] # it answers all that a handlers asks
        assert handlers.take(CallerIdentity("amy", "1"), "email:Alice@EXAMPLE.com", 60).startswith("You have the lease")
        assert gate.intercept(mail).verdict is Verdict.WARN
        assert handlers.release(CallerIdentity("amy", "1"), "email:alice@Example.com").startswith("Released")


def answered(**parts: Any) -> Message:
    return msgspec.json.decode(msgspec.json.encode({"id": 1, **parts}), type=Message)


def content(*texts: str) -> list[Any]:
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("parts", "ended"),
    [
        ({"result": {"content": content("a", "b")}}, CallOutcome({"text": "a\nb"}, Outcome.DONE)),
        ({"result": {"content": content("x"), "structuredContent": {"id": 7}}}, CallOutcome({"id": 7}, Outcome.DONE)),
        ({"result": {"content": [{"type": "image", "data": "x"}]}}, CallOutcome({"text": ""}, Outcome.DONE)),
        ({"result": {"content": "odd"}}, CallOutcome({"text": ""}, Outcome.DONE)),
        ({"result": {}}, CallOutcome(None, Outcome.DONE)),
        ({"result": {"content": content("x" * MAX_RESULT)}}, CallOutcome({"length": MAX_RESULT + 27}, Outcome.DONE)),
        ({"result": {"content": content("no"), "isError": True}}, CallOutcome({"error": "no"})),
        ({"result": {"isError": True}}, CallOutcome({"error": "the tool failed"})),
        ({"result": {"isError": "true", "content": []}}, CallOutcome({"text": ""}, Outcome.DONE)),
        ({"error": {"code": -32603, "message": "timed out"}}, CallOutcome({"error": "timed out"})),
        ({"error": "odd"}, CallOutcome({"error": "an error of the protocol"})),
        ({"result": {"resultType": "input_required", "inputRequests": {}}}, CallOutcome(input=b"")),
        ({"result": {"resultType": "input_required", "requestState": "s"}}, CallOutcome(input=b'"s"')),
        ({"result": {"resultType": "complete", "content": []}}, CallOutcome({"text": ""}, Outcome.DONE)),
        ({"result": {"task": {"taskId": "t1", "status": "working"}}}, CallOutcome(task="t1")),
        ({"result": {"resultType": "task", "taskId": "t2"}}, CallOutcome(task="t2")),
    ],
)
def test_call_outcome_is_read(parts: dict[str, Any], ended: CallOutcome) -> None:
    assert read_outcome(answered(**parts)) == ended


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ("completed", CallOutcome(None, Outcome.DONE)), ("failed", CallOutcome(None, Outcome.FAILED)),
        ("cancelled", CallOutcome(None, Outcome.UNKNOWN)), ("working", None), ("input_required", None), (5, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", [lambda task: task, lambda task: {"task": task}])
def test_task_outcome_is_read(form: Any, status: Any, ended: CallOutcome | None) -> None:
    told = msgspec.Raw(msgspec.json.encode(form({"taskId": "t", "status": status})))
    assert read_status(told) == ("t", ended)


def page(*tools: Any, cursor: str | None = None) -> bytes:
    return json.dumps({"tools": tools, **({"nextCursor": cursor} if cursor else {})}).encode()


def test_pages_are_collected_until_the_last() -> None:
    catalogue = ToolCatalogue()
    assert catalogue.learn(page({"name": "a", "annotations": {"readOnlyHint": True}}, cursor="2")) == "2"
    assert not catalogue.fresh
    assert catalogue.learn(page({"name": "b", "description": "B", "inputSchema": {"type": "object"}})) is None
    assert catalogue.fresh
    assert catalogue.find("a") == CatalogueTool("a", None, None, {"readOnlyHint": True})
    assert catalogue.find("b") == CatalogueTool("b", "B", {"type": "object"})
    assert catalogue.find("c") is None


def test_changed_list_is_kept_until_it_is_read_again() -> None:
    catalogue = ToolCatalogue()
    catalogue.learn(page({"name": "a", "description": "old"}))
    catalogue.changed()
    assert not catalogue.fresh
    assert catalogue.find("a") == CatalogueTool("a", "old")
    catalogue.learn(page({"name": "a", "description": "new"}))
    assert catalogue.find("a") == CatalogueTool("a", "new")


def test_malformed_tool_does_not_spoil_the_others() -> None:
    catalogue = ToolCatalogue()
    odd = [5, {}, {"name": 7}, {"name": "x", "annotations": "all"}, None]
    catalogue.learn(page(*odd, {"name": "a"}))
    catalogue.learn(b'{"tools":[{"name":"\xff"},{"name":"b","x":"\xff"}]}')
    assert catalogue.find("a") == CatalogueTool("a")
    assert catalogue.find("x") is None


def test_malformed_page_changes_nothing() -> None:
    catalogue = ToolCatalogue()
    for text in (
        b"",
        b"7",
        b'{"tools":5}',
        b'{"tools":' + b"[" * 50_000,
        b"\xff",
        b'{"\xff":1}',
        b'{"tools":[],"nextCursor":"\xff"}',
    ):
        assert catalogue.learn(text) is None
    assert not catalogue.fresh


def test_schema_too_long_for_every_call_is_left_out() -> None:
    catalogue = ToolCatalogue()
    catalogue.learn(page({"name": "a", "description": "A", "inputSchema": {"x": "y" * MAX_SCHEMA}}))
    assert catalogue.find("a") == CatalogueTool("a", "A")
