"""Test ``callosum mcp --url`` with an MCP client, a real server of the SDK and one that misbehaves."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cpu import HANG
from tests.support.mcpwrap import ROOT, Start, Wrapped, text_of
from tests.support.peer import Close, Hang, Peer, Request
from tests.support.serving import Server, until


@contextmanager
def shop() -> Iterator[str]:
    program = [sys.executable, str(ROOT / "tests" / "support" / "mcphttp.py")]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with shop() as place:
        yield f"{place}/mcp"


@pytest.fixture
def start(server: Server, tmp_path: Path, wrap: Callable[..., Wrapped]) -> Start:
    def begin(url: str, *options: str, session: str = "a", modern: bool = False, **environ: str) -> Wrapped:
        named = {"CALLOSUM_URL": server.address, "CALLOSUM_NAMESPACE": tmp_path.name, **environ}
        words = ("--name", "shop", "--instance", "mira", "--session", session, "--url", url, *options)
        return wrap(server=words, modern=modern, environ=named)

    return begin


both = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "2026"])


@both
def test_tools_and_answers_are_the_servers(start: Start, url: str, modern: bool) -> None:
    client = start(url, modern=modern)
    tools = client.ask("tools/list")["tools"]
    assert {tool["name"] for tool in tools} == {"read_note", "delete_database", "release", "what_ran", "lookup"}
    assert text_of(client.call("read_note", {"path": "/ä"})) == "note /ä"
    missing = client.call("no_such_tool")
    assert missing.get("isError") or missing["error"]
    assert text_of(client.call("lookup", {"region": "Zürich"})) == "in Zürich", "repeated in a header, in base64"
    assert client.end() == 0


@both
def test_conflicting_call_is_refused_and_the_other_is_done(
    start: Start, url: str, server: Server, tmp_path: Path, modern: bool
) -> None:
    one, other = start(url, session="a", modern=modern), start(url, session="b", modern=modern)
    name = f"prod-{modern}"
    meta = {"progressToken": "p"}
    running = one.send("tools/call", one.params("delete_database", {"name": name, "wait": True}, meta))
    until(lambda: name in json.loads(_joined(other.call("what_ran"))))
    refused = other.call("delete_database", {"name": name})
    assert refused["isError"] is True
    assert "Tier 4 action blocked." in text_of(refused)
    assert refused.get("resultType") == ("complete" if modern else None)
    other.call("release")
    assert text_of(one.answer(running)["result"]) == f"deleted {name}"
    assert any(found.get("method") == "notifications/progress" for found in one.kept)
    entries = server.get(f"/journal?limit=1000&namespace={tmp_path.name}")["entries"]
    actions = {each["seq"] for each in entries if each["tool"] == "mcp__shop__delete_database"}
    assert [each["outcome"] for each in entries if each["event"] == "complete" and each["action"] in actions] == [
        "done"
    ]
    assert json.loads(_joined(other.call("what_ran"))).count(name) == 1


def _joined(result: Any) -> str:
    if "structuredContent" in result:
        return json.dumps(result["structuredContent"]["result"])
    return json.dumps([block["text"] for block in result["content"]])


def test_many_calls_run_at_once(start: Start, url: str) -> None:
    client = start(url, modern=True)
    ids = [client.send("tools/call", client.params("read_note", {"path": str(n)})) for n in range(40)]
    assert [text_of(client.answer(id)["result"]) for id in ids] == [f"note {n}" for n in range(40)]


def rpc(request: Request) -> Any:
    return request.json


def answer(request: Request, result: Any, **headers: Any) -> None:
    request.reply({"jsonrpc": "2.0", "id": rpc(request)["id"], "result": result}, **headers)


def greet(request: Request, **headers: Any) -> None:
    info = {"name": "peer", "version": "1"}
    answer(request, {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}, **headers)


def peer_of(act: Callable[[Request], None], **headers: str) -> Peer:
    """Serve a handshake, accept notifications, reject the GET stream, and do ``act`` for everything else."""

    def script(request: Request) -> None:
        if request.method == "POST" and rpc(request).get("method") == "initialize":
            greet(request, **headers)
        elif request.method == "POST" and "id" not in rpc(request):
            request.raw(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        elif request.method != "POST":
            request.reply(b"", 405)
        else:
            act(request)

    return Peer(script)


def stream(request: Request, *events: bytes, id: str = "") -> None:
    request.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    for event in events:
        request.raw((f"id: {id}\n".encode() if id else b"") + b"data: " + event + b"\n\n")


def test_session_and_version_accompany_every_request_and_end_with_the_client(start: Start) -> None:
    with peer_of(lambda request: answer(request, {"tools": []}), Mcp_Session_Id="s-1") as peer:
        client = start(
            f"{peer.url}/mcp",
            "--header",
            "X-Team: ${TEAM} x",
            "--header-env",
            "Authorization=KEY",
            TEAM="red",
            KEY="Bearer k-1",
        )
        client.ask("tools/list")
        assert client.end() == 0
        first, *later = peer.seen
        assert "mcp-session-id" not in first.headers
        assert {each.headers["mcp-session-id"] for each in later} == {"s-1"}
        assert {each.headers["mcp-protocol-version"] for each in later} == {"2025-11-25"}
        assert {(each.headers["x-team"], each.headers["authorization"]) for each in peer.seen} == {
            ("red x", "Bearer k-1")
        }
        assert sorted({each.method for each in later}) == ["DELETE", "GET", "POST"]
        assert b"k-1" not in client.said.read()


def test_each_request_of_the_newer_protocol_names_its_version(start: Start) -> None:
    with peer_of(lambda request: answer(request, {"tools": [], "content": []})) as peer:
        client = start(peer.url, modern=True)
        client.call("read_näte")
        client.ask("resources/read", {"uri": "file:///a b"})
        client.ask("tasks/get", {"taskId": "t-1"})
        named = [(each.headers.get("mcp-method"), each.headers.get("mcp-name")) for each in peer.seen]
        assert ("tools/call", "=?base64?cmVhZF9uw6R0ZQ==?=") in named
        assert ("resources/read", "file:///a b") in named
        assert ("tasks/get", "t-1") in named
        assert {each.headers["mcp-protocol-version"] for each in peer.seen} == {"2026-07-28"}


def test_answer_over_many_lines_becomes_one_line(start: Start) -> None:
    def act(request: Request) -> None:
        text = json.dumps({"jsonrpc": "2.0", "id": rpc(request)["id"], "result": {"content": []}}, indent=2)
        stream(request, text.replace("\n", "\ndata: ").encode())

    with peer_of(act) as peer:
        assert start(peer.url).call("read_note") == {"content": []}


@pytest.mark.parametrize(
    ("status", "word"),
    [(401, "credentials"), (404, "path"), (405, "no POST"), (500, "500"), (302, "elsewhere"), (202, "202")],
)
def test_response_without_an_answer_becomes_an_error(start: Start, status: int, word: str) -> None:
    with peer_of(lambda request: request.reply(b"<html>", status)) as peer:
        error = start(peer.url).call("read_note")["error"]
        assert word in error["message"]


def test_servers_own_error_is_forwarded_under_the_requests_id(start: Start) -> None:
    fault = {"code": -32020, "message": "headers", "data": {"x": 1}}
    with peer_of(lambda request: request.reply({"jsonrpc": "2.0", "id": None, "error": fault}, 400)) as peer:
        assert start(peer.url, modern=True).call("read_note")["error"] == fault


def test_redirect_is_followed_within_the_server_only(start: Start) -> None:
    def act(request: Request) -> None:
        if request.target == "/mcp/":
            answer(request, {"content": []})
        else:
            request.reply(b"", 307, Location="/mcp/")

    with peer_of(act) as peer, peer_of(lambda request: request.reply(b"", 307, Location=f"{peer.url}/mcp/")) as other:
        assert start(f"{peer.url}/mcp", modern=True).call("read_note") == {"content": []}
        count = len(peer.seen)
        assert "elsewhere" in start(f"{other.url}/mcp", modern=True).call("read_note")["error"]["message"]
        assert len(peer.seen) == count


def test_broken_stream_is_resumed(start: Start) -> None:
    asked: list[Any] = []

    def act(request: Request) -> None:
        if request.method == "GET" and "last-event-id" in request.headers:
            last = {"jsonrpc": "2.0", "id": asked[-1], "result": {"content": []}}
            stream(request, json.dumps(last).encode(), id="e2")
            raise Close
        if request.method == "GET":
            request.reply(b"", 405)
        elif "id" not in rpc(request):
            request.raw(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        elif rpc(request)["method"] == "initialize":
            greet(request, Mcp_Session_Id="s")
        else:
            asked.append(rpc(request)["id"])
            note = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'
            request.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nretry: 10\n")
            request.raw(b"id: e1\ndata: " + note + b"\n\n")
            raise Close

    with Peer(act) as peer:
        client = start(peer.url)
        assert client.ask("prompts/list") == {"content": []}
        assert [found["method"] for found in client.kept] == ["notifications/progress"]


def test_call_with_a_lost_connection_is_unknown(start: Start, server: Server, tmp_path: Path) -> None:
    def act(request: Request) -> None:
        if rpc(request)["method"] == "tools/list":
            answer(request, {"tools": []})
            return
        stream(request)
        raise Close

    with peer_of(act) as peer:
        client = start(peer.url)
        assert "connection lost" in client.call("delete_database", {"name": "x"})["error"]["message"]
    entries = server.get(f"/journal?namespace={tmp_path.name}")["entries"]
    assert [each["outcome"] for each in entries if each["event"] == "complete"] == ["unknown"]


def test_unreachable_server_is_reported(start: Start, server: Server, tmp_path: Path) -> None:
    with peer_of(lambda request: None) as peer:
        url = peer.url
    client = start(url, modern=True)
    assert "cannot be reached" in client.call("delete_database", {"name": "x"})["error"]["message"]
    entries = server.get(f"/journal?namespace={tmp_path.name}")["entries"]
    assert [each["outcome"] for each in entries if each["event"] == "complete"] == ["failed"]


@pytest.mark.parametrize("begun", [True, False], ids=["a stream", "no answer yet"])
def test_cancelled_request_closes_its_stream(start: Start, *, begun: bool) -> None:
    closed: list[float] = []
    cancelled = threading.Event()

    def act(request: Request) -> None:
        if rpc(request)["method"] != "tools/call":
            answer(request, {"tools": []})
            return
        assert begun or cancelled.wait(HANG)
        stream(request)
        assert request.connection.recv(1) == b""
        closed.append(time.monotonic())
        raise Close

    with peer_of(act) as peer:
        client = start(peer.url, modern=True)
        call = client.send("tools/call", client.params("read_note"))
        until(lambda: any(each.headers.get("mcp-method") == "tools/call" for each in peer.seen))
        client.notify("notifications/cancelled", requestId=call)
        client.ask("tools/list")  # its answer shows that the line before it was read
        cancelled.set()
        until(lambda: closed)
        assert all(each.json.get("method") != "notifications/cancelled" for each in peer.seen)
        assert client.kept == []


def test_pending_calls_are_unknown_after_a_stop_signal(start: Start, server: Server, tmp_path: Path) -> None:
    def act(request: Request) -> None:
        if rpc(request)["method"] != "tools/call":
            answer(request, {"tools": []})
            return
        raise Hang

    with peer_of(act) as peer:
        client = start(peer.url, modern=True)
        client.send("tools/call", client.params("delete_database", {"name": "x"}))
        until(lambda: any(each.headers.get("mcp-method") == "tools/call" for each in peer.seen))
        client.process.terminate()
        assert client.process.wait(30) == 143
    entries = server.get(f"/journal?namespace={tmp_path.name}")["entries"]
    assert [each["outcome"] for each in entries if each["event"] == "complete"] == ["unknown"]


def test_server_that_takes_no_post_is_asked_for_no_stream(start: Start) -> None:
    with Peer(lambda request: request.reply(b"", 405)) as peer:
        client = start(f"{peer.url}/sse", modern=True)
        assert "takes no POST" in client.answer(client.send("initialize"))["error"]["message"]
        assert {each.method for each in peer.seen} == {"POST"}
