"""Test that calls reach the server in their order of arrival, even if calls in between are refused."""

import json
import queue
import threading
from pathlib import Path
from typing import Any

from callosum.client.client import CallosumClient
from callosum.hosts.mcp.gate_client import GateAnswer, GateClient
from callosum.hosts.mcp.identity import NameSources, tool_name
from callosum.hosts.mcp.proxy import Proxy, ProxyConfig
from callosum.model import Call, Decision, Verdict

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
