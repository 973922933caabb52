"""FastMCP servers with the gate around their tools: in memory, and over HTTP with connections that are cut."""

# no `from __future__ import annotations`: FastMCP reads the annotations of tools

import asyncio
import itertools
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastmcp")

import uvicorn
from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.server import create_proxy
from mcp_types import ElicitRequest, ElicitRequestFormParams, Implementation, InputRequiredResult

import callosum.adapters.fastmcp as fastmcp_adapter
from callosum import CallosumClient, LocalGate
from callosum.adapters.fastmcp import CONFLICTS, CallosumMiddleware
from callosum.adapters.lost import Lost
from callosum.model import Entry, Event, Outcome
from callosum.settings import Settings
from tests.support.mcpwrap import META
from tests.support.serving import until

RULES = """{"rules": [
  {"name": "deploy", "tool": "mcp__*__deploy", "tier": 3, "verdict": "ask", "contextKey": "host:{params.host}"},
  {"name": "slow", "tool": "mcp__*__slow", "tier": 3, "contextKey": "thing:{params.name}", "repeats": false}]}"""
ALICE = "a@example.com"
LIMIT = 30.0


class GatedServer:
    """A server of mail and other things behind a gate."""

    def __init__(self, folder: Path) -> None:
        (folder / "tiers.json").write_text(RULES)
        self.folder = folder
        self.gate = LocalGate(settings=Settings(state=folder, host_approvals=True))
        self.did: list[str] = []
        self.injected: list[Any] = []
        self.go = threading.Event()

    def server(self, name: str = "desk", **options: Any) -> FastMCP:
        gate = options.pop("gate", self.gate)
        server = FastMCP(name, middleware=[CallosumMiddleware(gate, **options)])
        did = self.did

        @server.tool
        async def send_email(to: str, body: str, ctx: Context) -> str:
            """Send an e-mail."""
            self.injected.append(ctx)
            did.append(body)
            return f"sent {body}"

        @server.tool
        def deploy(host: str) -> str:
            """Deploy to a host."""
            did.append(host)
            return f"deployed {host}"

        @server.tool
        def fail(how: str) -> str:
            """Change the calendar."""
            raise TimeoutError("no answer") if how == "late" else ValueError("no such event")

        @server.tool
        async def slow(name: str, size: int = 0) -> str:
            """Change something, which takes its time."""
            did.append(f"{name} began")
            await asyncio.to_thread(self.go.wait, LIMIT)
            did.append(f"{name} ended")
            return f"changed {name}" + "x" * size

        @server.tool
        def read_file(path: str) -> str:
            """Read a file."""
            did.append(path)
            return f"content of {path}"

        @server.tool
        def wipe_disk(host: str) -> str:
            """Delete all data of a host, for good."""
            did.append(host)
            return "gone"

        return server

    def entries(self, event: Event = Event.INTERCEPT) -> list[Entry]:
        return [entry for entry in self.gate.entries() if entry.event is event]

    def outcomes(self) -> list[Outcome | None]:
        return [entry.outcome for entry in self.entries(Event.COMPLETE)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[GatedServer]:
    made = GatedServer(tmp_path)
    with made.gate:
        yield made
        made.go.set()


def use(server: FastMCP, calls: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
    async def whole() -> Any:
        async with Client(server, **options) as client:
            return await calls(client)

    return asyncio.run(whole())


def as_session(session: str, **more: str) -> dict[str, Any]:
    return {"meta": {"io.callosum/session": session, **more}, "raise_on_error": False}


def mail(body: str) -> dict[str, str]:
    return {"to": ALICE, "body": body}


def test_a_refusal_is_the_sentence_with_the_conflicts_beside_it(desk: GatedServer) -> None:
    async def calls(client: Any) -> tuple[Any, Any]:
        first = await client.call_tool("send_email", mail("Friday works"), **as_session("chat"))
        return first, await client.call_tool("send_email", mail("Friday does not"), **as_session("heartbeat"))

    sent, refused = use(desk.server(), calls)
    assert sent.content[0].text == "sent Friday works"
    assert refused.is_error
    newest = desk.entries()[-1]
    assert [block.text for block in refused.content] == [newest.body["warning"] + newest.body.get("details", "")]
    assert refused.meta[CONFLICTS][0]["instance"].endswith("/chat")
    assert desk.did == ["Friday works"]
    assert newest.tool == "mcp__desk__send_email"
    assert newest.body["params"] == mail("Friday does not"), "what the framework injects is not in it"
    assert len(desk.injected) == 1
    assert desk.outcomes() == [Outcome.DONE]


def test_session_comes_from_the_option_then_meta_then_the_client(desk: GatedServer) -> None:
    named = as_session("s9", **{"io.callosum/agent": "doug", "traceparent": f"00-{'4' * 32}-{'5' * 16}-01"})

    async def calls(client: Any) -> None:
        await client.call_tool("send_email", mail("one"), **named)
        await client.call_tool("read_file", {"path": "/a"})

    use(desk.server(), calls)
    use(desk.server(name="my desk", instance="mira", session="chat"), calls)
    actors = [entry.session for entry in desk.entries()]
    assert actors[0] == "doug/s9"
    assert actors[1].startswith(("mcp/", "fastmcp/"))  # by FastMCP's version
    assert actors[2:] == ["mira/chat", "mira/chat"]
    assert desk.entries()[0].body["meta"] == {"traceparent": f"00-{'4' * 32}-{'5' * 16}-01"}
    assert desk.entries()[-1].tool == "mcp__my_desk__read_file"


def test_tool_error_is_failed_and_a_timeout_is_unknown(desk: GatedServer) -> None:
    async def calls(client: Any) -> list[bool]:
        return [
            (await client.call_tool("fail", {"how": how}, **as_session(how))).is_error for how in ("at once", "late")
        ]

    assert use(desk.server(), calls) == [True, True]
    assert desk.outcomes() == [Outcome.FAILED, Outcome.UNKNOWN]


def test_a_proxys_error_is_a_failure(desk: GatedServer) -> None:
    behind = FastMCP("behind")

    @behind.tool
    def book(seat: int) -> str:
        """Book a seat."""
        raise ValueError("taken")

    proxy = create_proxy(behind, name="front")
    proxy.add_middleware(CallosumMiddleware(desk.gate))
    result = use(proxy, lambda client: client.call_tool("book", {"seat": 7}, **as_session("chat")))
    assert result.is_error
    assert desk.outcomes() == [Outcome.FAILED]
    assert desk.entries()[0].tool == "mcp__front__book"


@pytest.mark.parametrize(("action", "runs"), [("yes", True), ("no", False), ("decline", False), ("cancel", False)])
def test_question_is_a_form_if_the_gate_accepts_host_approvals(desk: GatedServer, action: str, runs: bool) -> None:
    shown: list[str] = []

    async def answer(message: str, *_: Any) -> Any:
        shown.append(message)
        if action in ("yes", "no"):
            return ElicitResult(action="accept", content={"approve": action == "yes"})
        return ElicitResult(action=action)

    server = desk.server(host_approvals=True)
    call = {"host": "prod"}
    result = use(
        server, lambda client: client.call_tool("deploy", call, **as_session("chat")), elicitation_handler=answer
    )
    assert result.is_error is not runs
    assert desk.did == ["prod"] * runs
    (message,) = shown
    assert message.startswith('mcp__desk__deploy {"host":"prod"}\n\n[Callosum] ')
    event = {"yes": Event.APPROVE, "no": Event.DENY, "decline": Event.DENY}.get(action)
    answers = desk.entries(Event.APPROVE) + desk.entries(Event.DENY)
    assert [entry.event for entry in answers] == ([event] if event else [])
    assert all(entry.body["by"] == "host" for entry in answers)
    calls = {str(entry.body["callId"]).removesuffix(":answered") for entry in desk.entries()}
    assert len(calls) == 1, "both rounds are one call"


@pytest.mark.parametrize("told", [True, False])
def test_question_is_a_sentence_without_forms_or_host_approvals(desk: GatedServer, told: bool) -> None:
    async def never(*_: Any) -> Any:
        raise AssertionError

    options = {} if told else {"elicitation_handler": never}
    server = desk.server(host_approvals=told)
    result = use(server, lambda client: client.call_tool("deploy", {"host": "a"}, **as_session("c")), **options)
    assert result.is_error
    assert "a person must decide" in result.content[0].text


@pytest.mark.parametrize("comes_back", [True, False])
def test_tool_that_requests_input_is_one_call_until_it_gets_it(
    desk: GatedServer, comes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastmcp_adapter, "INPUT_SECONDS", 60.0 if comes_back else 0.0)
    server = desk.server()
    asked = ElicitRequest(
        params=ElicitRequestFormParams(message="Which seat?", requested_schema={"type": "object", "properties": {}})
    )

    @server.tool
    def reserve(show: str, ctx: Context) -> str | InputRequiredResult:
        """Reserve a seat."""
        if not ctx.input_responses:
            return InputRequiredResult(input_requests={"seat": asked}, request_state="round 1")
        desk.did.append(show)
        return f"reserved {show}"

    async def answer(*_: Any) -> Any:
        if comes_back:
            assert desk.outcomes() == []
        else:
            await asyncio.to_thread(until, desk.outcomes)
        return ElicitResult(action="accept", content={})

    result = use(
        server,
        lambda client: client.call_tool("reserve", {"show": "Carmen"}, **as_session("chat")),
        elicitation_handler=answer,
    )
    assert result.content[0].text == "reserved Carmen"
    assert desk.outcomes() == ([Outcome.DONE] if comes_back else [Outcome.CANCELLED, Outcome.DONE])
    assert len(desk.entries()) == (1 if comes_back else 2)


def test_clients_of_one_address_do_not_continue_open_calls_of_each_other(desk: GatedServer) -> None:
    server = desk.server()
    asked = ElicitRequest(
        params=ElicitRequestFormParams(message="Which part?", requested_schema={"type": "object", "properties": {}})
    )

    @server.tool
    def read_part(path: str, ctx: Context) -> str | InputRequiredResult:
        """Read a part of a file."""
        if not ctx.input_responses:
            return InputRequiredResult(input_requests={"part": asked}, request_state="round 1")
        return f"part of {path}"

    async def read(client: Any) -> Any:
        return await client.call_tool("read_part", {"path": "/a"}, **as_session("shared"))

    async def answer(*_: Any) -> Any:
        return ElicitResult(action="accept", content={})

    async def other_reads_too(*_: Any) -> Any:
        async with Client(
            server, client_info=Implementation(name="b", version="1"), elicitation_handler=answer
        ) as other:
            await read(other)
        return await answer()

    mine = Implementation(name="a", version="1")
    assert not use(server, read, client_info=mine, elicitation_handler=other_reads_too).is_error
    assert [entry.session for entry in desk.entries()] == ["a/shared", "b/shared"]


def test_without_the_gate_reads_continue_and_risky_calls_do_not(desk: GatedServer) -> None:
    async def calls(client: Any) -> list[Any]:
        return [
            await client.call_tool("read_file", {"path": "/a"}, **as_session("chat")),
            await client.call_tool("wipe_disk", {"host": "prod"}, **as_session("chat")),
        ]

    table = {"mcp__desk__read_file": 0}
    with CallosumClient("http://127.0.0.1:9", state=desk.folder / "client", deadline=0.2, fallback=table) as gate:
        read, refused = use(desk.server(gate=gate), calls)
    assert read.content[0].text == "content of /a"
    assert refused.is_error
    assert "[Callosum]" in refused.content[0].text
    assert desk.did == ["/a"]


@contextmanager
def listening(server: FastMCP) -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = uvicorn.Server(uvicorn.Config(server.http_app(), log_level="critical", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=lambda: running.run(sockets=[listener]))
        thread.start()
        try:
            until(lambda: running.started)
            yield listener.getsockname()
        finally:
            running.should_exit = True
            thread.join(LIMIT)


class ToolRequest:
    """One request to a tool over a connection of its own."""

    count = 0

    def __init__(self, place: tuple[str, int], tool: str, arguments: dict[str, Any], session: str | None) -> None:
        ToolRequest.count += 1
        meta = {**META, **({} if session is None else {"io.callosum/session": session})}
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        request = {"jsonrpc": "2.0", "id": ToolRequest.count, "method": "tools/call", "params": params}
        body = json.dumps(request).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {place[0]}:{place[1]}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
            f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.socket = socket.create_connection(place, LIMIT)
        self.socket.sendall(head.encode() + body)

    def cut(self) -> None:
        self.socket.close()

    def result(self) -> Any:
        found = b""
        while more := self.socket.recv(1 << 20):
            found += more
        self.socket.close()
        head, _, body = found.partition(b"\r\n\r\n")
        assert b" 200 " in head.splitlines()[0], found
        start = body.index(b'{"jsonrpc')
        return json.JSONDecoder().raw_decode(body[start:].decode())[0]["result"]


def slow(place: tuple[str, int], name: str = "a", session: str | None = "chat", **more: Any) -> ToolRequest:
    return ToolRequest(place, "slow", {"name": name, **more}, session)


def text(result: Any) -> str:
    return str(result["content"][0]["text"])


def broken(desk: GatedServer, server: FastMCP, asked: ToolRequest) -> None:
    """Interrupt a call while its tool runs, and wait until the server has noticed."""
    until(lambda: "a began" in desk.did)
    asked.cut()
    (middleware,) = [one for one in server.middleware if isinstance(one, CallosumMiddleware)]
    until(lambda: len(middleware._lost._lost) == 1)


def test_a_request_that_comes_again_while_its_tool_runs_waits_for_the_result(desk: GatedServer) -> None:
    server = desk.server()
    with listening(server) as place:
        broken(desk, server, slow(place))
        again = slow(place)
        until(lambda: not next(one for one in server.middleware if isinstance(one, CallosumMiddleware))._lost._lost)
        desk.go.set()
        assert text(again.result()) == "changed a"
    assert desk.did == ["a began", "a ended"]
    assert len(desk.entries()) == 1
    assert desk.outcomes() == [Outcome.DONE]


def test_a_request_that_comes_again_after_its_tool_ended_gets_the_kept_result_once(desk: GatedServer) -> None:
    server = desk.server()
    with listening(server) as place:
        broken(desk, server, slow(place))
        desk.go.set()
        until(lambda: desk.outcomes() == [Outcome.DONE])
        assert text(slow(place).result()) == "changed a"
        assert desk.did == ["a began", "a ended"]
        slow(place).result()  # the answer was delivered: this is another wish
    assert len(desk.entries()) == 2


@pytest.mark.parametrize(
    ("session", "arguments"),
    [("heartbeat", {"name": "a"}), (None, {"name": "a"}), ("chat", {"name": "b"}), ("chat", {"name": "a", "size": 1})],
    ids=["another client", "a client without a name", "other arguments", "one more argument"],
)
def test_request_that_differs_is_a_new_call(desk: GatedServer, session: str | None, arguments: dict[str, Any]) -> None:
    server = desk.server()
    with listening(server) as place:
        broken(desk, server, slow(place))
        desk.go.set()
        until(lambda: desk.outcomes() == [Outcome.DONE])
        ToolRequest(place, "slow", arguments, session).result()
    assert len(desk.entries()) == 2


def test_an_equal_call_whose_first_answer_was_delivered_is_a_new_call(desk: GatedServer) -> None:
    desk.go.set()
    with listening(desk.server()) as place:
        assert text(slow(place).result()) == "changed a"
        slow(place).result()
    assert len(desk.entries()) == 2


def test_two_equal_calls_at_once_are_two_calls(desk: GatedServer) -> None:
    with listening(desk.server()) as place:
        one = slow(place)
        until(lambda: desk.did == ["a began"])
        other = slow(place)
        until(lambda: len(desk.entries()) == 2)
        desk.go.set()
        one.result()
        other.result()


def test_a_result_of_more_than_a_megabyte_is_not_kept(desk: GatedServer) -> None:
    server = desk.server()
    with listening(server) as place:
        broken(desk, server, slow(place, size=1_000_000))
        desk.go.set()
        until(lambda: desk.outcomes() == [Outcome.DONE])
        slow(place, size=1_000_000).result()
    assert len(desk.entries()) == 2


async def _yes() -> bool:
    return True


async def _no() -> bool:
    return False


async def interrupted(lost: Lost[str], cut: Any, *, begins: bool = True) -> asyncio.Event:
    """Interrupt a call whose tool never returns; return the event that its tool sets when it is cancelled."""
    started, over = asyncio.Event(), asyncio.Event()

    async def tool(began: Callable[[], None]) -> str:
        if begins:
            began()
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            over.set()
        return ""

    running = asyncio.create_task(lost.run("same", tool, cut))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return over


async def test_abandoned_call_is_cancelled_eventually() -> None:
    over = await interrupted(Lost(len, seconds=0.05), _yes)
    assert not over.is_set()
    await asyncio.wait_for(over.wait(), LIMIT)


async def test_two_equal_interrupted_calls_are_both_kept_and_resumed_once_each() -> None:
    lost: Lost[str] = Lost(len)
    began: asyncio.Queue[int] = asyncio.Queue()
    go = asyncio.Event()
    numbers = itertools.count(1)

    async def tool(begin: Callable[[], None]) -> str:
        begin()
        number = next(numbers)
        began.put_nowait(number)
        await go.wait()
        return f"result {number}"

    running = [asyncio.create_task(lost.run("same", tool, _yes)) for _ in range(2)]
    assert [await began.get() for _ in running] == [1, 2]
    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    again = [asyncio.create_task(lost.run("same", tool, _no)) for _ in range(2)]
    go.set()
    assert await asyncio.wait_for(asyncio.gather(*again), LIMIT) == ["result 1", "result 2"]


@pytest.mark.parametrize(("begins", "cut"), [(True, _no), (False, _yes)], ids=["a client that cancels", "undecided"])
async def test_cancelled_or_undecided_call_ends_at_once(begins: bool, cut: Any) -> None:
    lost: Lost[str] = Lost(len)
    over = await interrupted(lost, cut, begins=begins)
    await asyncio.wait_for(over.wait(), LIMIT)
    assert not lost._lost
