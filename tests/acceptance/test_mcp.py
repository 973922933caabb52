"""Test ``callosum mcp -- COMMAND`` with an MCP client, a real gate and a server that records what it receives."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callosum.process import alive
from callosum.server.listeners import running
from tests.e2e.told import logged_events
from tests.support.mcpwrap import META, Start, Wrapped, text_of, wrapped
from tests.support.peer import Peer, Request, hang, lines_of, replies, sends_bytes
from tests.support.serving import Server, serving, until


@pytest.fixture
def start(server: Server, tmp_path: Path, wrap: Callable[..., Wrapped]) -> Start:
    """Start a wrap of the test server, as ``mira`` unless told otherwise, in the test's own namespace."""

    def begin(*options: str, session: str = "a", modern: bool = False, **more: str) -> Wrapped:
        environ = {"CALLOSUM_URL": server.address, "CALLOSUM_NAMESPACE": tmp_path.name, **more}
        names = ("--name", "shop", "--instance", "mira", "--session", session)
        return wrap(*names, *options, modern=modern, environ=environ)

    return begin


def journal(server: Server, tmp_path: Path) -> list[Any]:
    found = server.get(f"/journal?limit=1000&namespace={tmp_path.name}")
    return list(found["entries"])


def tasks(server: Server, tmp_path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the task events of the daily log in order."""
    found = [(name, payload) for name, payload in logged_events(server.state) if name.startswith("task.")]
    return [(name, payload) for name, payload in found if payload["namespace"] == tmp_path.name]


def outcomes(server: Server, tmp_path: Path) -> list[str]:
    return [entry["outcome"] for entry in journal(server, tmp_path) if entry["event"] == "complete"]


def opened(server: Server, tmp_path: Path) -> list[Any]:
    return [entry for entry in journal(server, tmp_path) if entry["event"] == "intercept"]


LINES = [
    b'{"jsonrpc":"2.0","id":1.50,"method":"ping"}\n',
    b'  { "id" : "\\u00e9\\ud83d\\ude00" , "method":"ping", "jsonrpc":"2.0" }  \r\n',
    b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1e3, "big": 123456789012345678901}}\n',
    b"\n",
    b"this is no JSON\n",
    b'{"method": "tools/call" this is none either\n',
    b"\xff\xfe broken UTF-8\n",
    b'{"jsonrpc":"2.0","id":9,"result":{"roots":[]}}\n',
    b'[{"jsonrpc":"2.0","id":"b1","method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"}]\n',
    b"[]\n",
    b'{"jsonrpc":"2.0","id":3,"method":"ping","params":' + b"[" * 2000 + b"]" * 2000 + b"}\n",
    b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":[1]}\n',
]


def test_other_messages_reach_the_server_unchanged(start: Start) -> None:
    client = start(modern=True)
    for line in LINES:
        client.write(line)
    client.ask("ping", id="last")
    assert client.log is not None
    assert client.log.read_bytes().startswith(b"".join(LINES))


def test_messages_of_the_server_reach_the_client_unchanged(start: Start) -> None:
    client = start(modern=True)
    call = client.send("tools/call", client.params("read_note", {"act": "wait", "as": "w"}))
    until(client.calls)
    for line in (*LINES, b'{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{}}\n', b"\0\1\xff\n"):
        client.notify("test/emit", hex=line.hex())
        assert client.line() == line
    odd = b'{ "result":{"content":[] , "x":1.0e0},"id":%d, "jsonrpc" :"2.0"}\r\n' % call
    client.notify("test/emit", hex=odd.hex())
    assert client.line() == odd


def test_allowed_call_and_its_answer_are_unchanged(start: Start) -> None:
    client = start(modern=True)
    line = (
        b'{ "method":"tools\\/call","params":{"arguments":{"path":"/\\u0061","n":1.0},"name":"read_note"}, "id":-7}\n'
    )
    client.write(line)
    assert (
        client.line()
        == b'{"jsonrpc": "2.0", "id": -7, "result": {"content": [{"type": "text", "text": "done read_note"}]}}\n'
    )
    assert client.log is not None
    assert line in client.log.read_bytes()


def test_standard_error_and_exit_code_are_the_servers(start: Start) -> None:
    client = start(TEST_EXIT="5")
    client.ask("test/tell")
    client.to.close()
    assert b"a word on standard error\n" in client.said.read()
    assert client.process.wait(30) == 5


def test_last_messages_before_the_end_are_answered(start: Start) -> None:
    client = start()
    client.write(
        b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"read_note"}}'
    )  # without a newline at its end
    client.to.close()
    assert text_of(client.answer(77)["result"]) == "done read_note"
    assert client.process.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_reaches_the_server_and_its_exit_is_passed_on(start: Start, number: int) -> None:
    client = start(modern=True)
    client.ask("ping")
    client.process.send_signal(number)
    assert client.process.wait(30) in (-number, 1 if number == signal.SIGINT else -number, 130)


def test_missing_command_is_reported(tmp_path: Path) -> None:
    with wrapped(tmp_path / "state", server=("--", str(tmp_path / "nothing")), modern=True) as client:
        assert b"nothing" in client.said.read()
        assert client.process.wait(30) == 1


def test_wrapped_server_gets_no_variable_of_callosum(start: Start) -> None:
    own = {"CALLOSUM_TOKEN": "not-a-secret", "CALLOSUM_STORE": "postgresql://me:not-a-secret@db/agents"}
    client = start(**own, CALLOSUM_MCP_HEADER_1_AUTHORIZATION="Bearer not-a-secret", SHOP_KEY="kept")
    variables = json.loads(text_of(client.call("read_note", {"act": "environment"})))
    assert [name for name in variables if name.startswith("CALLOSUM_")] == []
    assert "SHOP_KEY" in variables


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "2026"])
def test_conflicting_call_is_refused_and_the_other_is_done(
    start: Start, server: Server, tmp_path: Path, modern: bool
) -> None:
    one, other = start(session="a", modern=modern), start(session="b", modern=modern)
    running = one.send("tools/call", one.params("delete_database", {"name": "prod", "act": "wait", "as": "w"}))
    until(one.calls)
    refused = other.call("delete_database", {"name": "prod"})
    assert refused["isError"] is True
    assert text_of(refused).startswith("[Callosum] Conflict: mira/a has")
    assert "Tier 4 action blocked." in text_of(refused)
    assert refused["_meta"] == {"io.callosum/retryable": True, "io.callosum/retryAfter": 10.0}
    assert refused.get("resultType") == ("complete" if modern else None)
    assert other.calls() == []
    one.notify("test/release", **{"as": "w"})
    assert text_of(one.answer(running)["result"]) == "released"
    assert outcomes(server, tmp_path) == ["done"]
    (entry,) = [entry for entry in opened(server, tmp_path) if entry["verdict"] == "allow"]
    assert (entry["session"], entry["tool"], entry["tier"]) == ("mira/a", "mcp__shop__delete_database", 4)


@pytest.mark.parametrize("id", ["x", "", 0, -3, 2.5, "é\n", 2**60])
def test_refusal_has_the_id_of_its_call(start: Start, id: Any) -> None:
    one, other = start(session="a"), start(session="b")
    one.send("tools/call", one.params("delete_database", {"name": "prod", "act": "wait"}))
    until(one.calls)
    assert other.ask("tools/call", other.params("delete_database", {"name": "prod"}), id=id)["isError"] is True


def test_outcome_of_a_call_is_reported(start: Start, server: Server, tmp_path: Path) -> None:
    client = start()
    for act in ("", "fail", "error", "ask"):
        client.call("delete_database", {"name": act or "x", "act": act})
    assert outcomes(server, tmp_path) == ["done", "failed", "failed", "cancelled"]


def test_task_is_open_until_its_result(start: Start, server: Server, tmp_path: Path) -> None:
    client = start()
    client.call("delete_database", {"name": "x", "act": "task"})
    assert outcomes(server, tmp_path) == []
    client.ask("tasks/result", {"taskId": "t-1"})
    until(lambda: outcomes(server, tmp_path) == ["done"])
    (call,) = opened(server, tmp_path)
    until(lambda: tasks(server, tmp_path)[2:])
    assert [name for name, _ in tasks(server, tmp_path)] == ["task.created", "task.started", "task.completed"]
    for _, payload in tasks(server, tmp_path):
        assert (payload["taskId"], payload["instance"]) == (call["body"]["callId"], "mira/a"), "named as the call is"
    assert tasks(server, tmp_path)[0][1]["toolName"] == call["tool"]


def test_task_of_a_lost_server_is_stopped(start: Start, server: Server, tmp_path: Path) -> None:
    client = start()
    client.call("delete_database", {"name": "x", "act": "task"})
    client.send("tools/call", client.params("delete_database", {"name": "y", "act": "die"}))
    assert client.process.wait(30) == 7
    until(lambda: tasks(server, tmp_path)[2:])
    assert (tasks(server, tmp_path)[2][0], tasks(server, tmp_path)[2][1]["reason"]) == (
        "task.stopped",
        "its server is gone",
    )


@pytest.mark.parametrize(("act", "code"), [("die", 7), ("kill", -signal.SIGKILL)])
def test_call_of_a_server_that_dies_is_unknown(
    start: Start, server: Server, tmp_path: Path, act: str, code: int
) -> None:
    client = start()
    client.send("tools/call", client.params("delete_database", {"name": "x", "act": act}))
    assert client.process.wait(30) == code
    assert outcomes(server, tmp_path) == ["unknown"]


def test_several_calls_run_at_once(start: Start, server: Server, tmp_path: Path) -> None:
    client = start()
    ids = [client.send("tools/call", client.params("read_note", {"act": "wait", "as": str(n)})) for n in range(20)]
    until(lambda: len(client.calls()) == 20)
    assert [one["params"]["arguments"]["as"] for one in client.calls()] == [str(n) for n in range(20)]
    for number in reversed(range(20)):
        client.notify("test/release", **{"as": str(number)})
    for id in reversed(ids):
        assert text_of(client.answer(id)["result"]) == "released"
    assert client.end() == 0
    assert outcomes(server, tmp_path) == ["done"] * 20


def test_blocked_calls_of_a_batch_are_answered_and_the_rest_runs(start: Start) -> None:
    one, other = start(session="a"), start(session="b")
    one.send("tools/call", one.params("delete_database", {"name": "prod", "act": "wait"}))
    until(one.calls)

    def part(id: str, name: str) -> dict[str, Any]:
        params = {"name": "delete_database", "arguments": {"name": name}}
        return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}

    other.write(json.dumps([part("no", "prod"), part("yes", "test")]).encode() + b"\n")
    answers = {each["id"]: each["result"] for each in json.loads(other.line())}
    assert answers["yes"] == {"content": [{"type": "text", "text": "of a batch"}]}
    assert answers["no"]["isError"] is True
    assert [[each["id"] for each in found] for found in other.seen() if isinstance(found, list)] == [["yes"]]
    other.write(json.dumps([part("no", "prod")]).encode() + b"\n")
    assert [each["id"] for each in json.loads(other.line())] == ["no"]


def test_cancelled_call_is_unknown_until_it_is_answered(start: Start, server: Server, tmp_path: Path) -> None:
    client = start()
    call = client.send("tools/call", client.params("delete_database", {"name": "x", "act": "wait", "as": "w"}))
    until(client.calls)
    client.notify("notifications/cancelled", requestId=call)
    until(lambda: outcomes(server, tmp_path) == ["unknown"])
    until(lambda: any(one.get("method") == "notifications/cancelled" for one in client.seen()))
    client.notify("test/release", **{"as": "w"})
    assert text_of(client.answer(call)["result"]) == "released"
    assert outcomes(server, tmp_path) == ["unknown", "done"]


def test_equal_request_over_standard_input_is_a_new_call(start: Start, server: Server, tmp_path: Path) -> None:
    client = start(modern=True)
    note = {"act": "wait", "as": "w"}
    first = client.send("tools/call", client.params("read_note", note))
    until(client.calls)
    client.notify("notifications/cancelled", requestId=first)  # a client that gave up has lost no answer
    second = client.send("tools/call", client.params("read_note", note))
    until(lambda: len(client.calls()) == 2)
    client.notify("test/release", **{"as": "w"})
    assert text_of(client.answer(second)["result"]) == "released"
    assert text_of(client.call("read_note", {"path": "/a"})) == text_of(client.call("read_note", {"path": "/a"}))
    assert len(client.calls()) == len(opened(server, tmp_path)) == 4


def test_call_without_an_id_is_gated(start: Start, server: Server, tmp_path: Path) -> None:
    one, other = start(session="a"), start(session="b")
    one.notify("tools/call", name="delete_database", arguments={"name": "prod", "act": "wait"})
    until(lambda: outcomes(server, tmp_path) == ["unknown"])
    other.notify("tools/call", name="delete_database", arguments={"name": "prod"})
    other.ask("ping")
    assert other.calls() == []


def test_warning_of_a_running_call_follows_its_result(start: Start) -> None:
    one, other = start(session="a"), start(session="b")

    def mail(client: Wrapped, text: str) -> Any:
        return client.call("send_email", {"to": "alice@example.com", "subject": text.partition(" ")[0], "body": text})

    mail(one, "Could somebody mend the roof above the kitchen before it rains again")
    assert mail(other, "Invoice 2217 of the printer is due on Friday")["isError"] is True
    mail(one, "Lunch with the new colleagues moves to the garden")
    assert mail(other, "Please find attached what the lawyers said of clause nine")["isError"] is True
    mail(one, "Train tickets to Lyon are cheaper on Tuesdays")
    told = mail(other, "Our server room needs a second fan")
    assert not told.get("isError")
    assert told["content"][0]["text"] == "done send_email"
    assert told["content"][1]["text"].startswith("[Callosum] Conflict: mira/a")


def test_lease_is_renewed_while_the_tool_runs(tmp_path: Path) -> None:
    environ = {"CALLOSUM_LEASE_TTL": "1"}
    with (
        serving(tmp_path / "state", environ=environ) as gate,
        wrapped(tmp_path / "state", "--instance", "mira", environ={"CALLOSUM_URL": gate.address}) as client,
    ):
        call = client.send("tools/call", client.params("delete_database", {"name": "x", "act": "wait", "as": "w"}))
        until(lambda: [one["event"] for one in gate.get("/journal")["entries"]].count("renew") > 1)
        assert len(gate.get("/status")["locks"]) == 1
        client.notify("test/release", **{"as": "w"})
        client.answer(call)
        assert gate.get("/status")["locks"] == []


def test_lease_of_a_task_is_renewed_until_the_task_ends(tmp_path: Path) -> None:
    environ = {"CALLOSUM_LEASE_TTL": "1"}
    with (
        serving(tmp_path / "state", environ=environ) as gate,
        wrapped(tmp_path / "state", "--instance", "mira", environ={"CALLOSUM_URL": gate.address}) as client,
    ):
        client.call("delete_database", {"name": "x", "act": "task"})
        until(lambda: [one["event"] for one in gate.get("/journal")["entries"]].count("renew") > 4)
        assert len(gate.get("/status")["locks"]) == 1
        client.ask("tasks/result", {"taskId": "t-1"})
        until(lambda: gate.get("/status")["locks"] == [])
        assert [one["outcome"] for one in gate.get("/journal")["entries"] if one["event"] == "complete"] == ["done"]


def test_caller_is_named_by_argument_then_meta_then_environment(start: Start, server: Server, tmp_path: Path) -> None:
    meta = {"io.callosum/agent": "doug", "io.callosum/session": "s9", "io.callosum/run": "r1"}
    start(session="a").call("read_note", meta=meta)
    environ = {"CALLOSUM_URL": server.address, "CALLOSUM_NAMESPACE": tmp_path.name}
    named = {**environ, "CALLOSUM_INSTANCE": "eve", "CALLOSUM_SESSION": "s1"}
    for modern in (False, True):
        with wrapped(tmp_path / "state", modern=modern, environ=named) as client:
            client.call("read_note", meta=meta)
            client.call("read_note")
        with wrapped(tmp_path / "state", modern=modern, environ=environ) as client:
            client.call("read_note")
            client.call("read_note", meta={"io.callosum/agent": "a\nb"})
    actors = [entry["session"] for entry in opened(server, tmp_path)]
    assert actors[:3] == ["mira/a", "doug/s9", "eve/s1"]
    assert actors[3].startswith("test-client/")
    assert actors[4] == actors[3].replace("test-client", r"a\u000ab"), "a hidden character is shown escaped"
    assert actors[5:] == actors[1:5], "both ways of speaking, and both processes of one host, are one session"


def test_tool_name_contains_the_server_name(start: Start, server: Server, tmp_path: Path) -> None:
    environ = {"CALLOSUM_URL": server.address, "CALLOSUM_NAMESPACE": tmp_path.name}
    with wrapped(tmp_path / "state", "--name", "my shop", environ=environ) as client:
        client.call("read_note")
    with wrapped(tmp_path / "state", environ=environ) as client:  # the handshake names it
        client.call("read_note")
    with wrapped(tmp_path / "state", modern=True, environ=environ) as client:  # nothing names it
        client.call("read_note")
    tools = [entry["tool"] for entry in opened(server, tmp_path)]
    assert tools == ["mcp__my_shop__read_note", "mcp__shop__read_note", "mcp__mcpserver_py__read_note"]


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "2026"])
def test_tool_list_is_used_for_a_client_that_never_requests_it(
    start: Start, server: Server, tmp_path: Path, modern: bool
) -> None:
    client = start(modern=modern)
    client.call("frobnicate", {"repo": "acme/site"})
    (entry,) = opened(server, tmp_path)
    assert entry["tier"] == 4, "its description says that what is gone is gone"
    assert client.kept == []
    lists = [one for one in client.seen() if one.get("method") == "tools/list"]
    assert [one["params"].get("cursor") for one in lists] == [None, "1", "2", "3"]
    assert all((one["params"].get("_meta") == META) is modern for one in lists)


def test_changed_tool_list_is_requested_again(start: Start) -> None:
    client = start()
    cursor: dict[str, Any] = {}
    while cursor is not None:
        found = client.ask("tools/list", cursor)
        cursor = {"cursor": found["nextCursor"]} if "nextCursor" in found else None  # type: ignore[assignment]
    client.call("read_note")
    assert len([one for one in client.seen() if one.get("method") == "tools/list"]) == 4
    changed = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
    client.notify("test/emit", hex=changed.hex())
    assert client.line() == changed
    client.call("read_note")
    assert len([one for one in client.seen() if one.get("method") == "tools/list"]) == 8


@pytest.mark.parametrize(
    "arguments",
    [b"[" * 100_000 + b"]" * 100_000, b'{"n": NaN}'],
    ids=["deep", "nan"],
)
@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "2026"])
def test_unreadable_call_does_not_run(start: Start, arguments: bytes, modern: bool) -> None:
    client = start(modern=modern)
    meta = json.dumps(META).encode()
    more = b',"_meta":' + meta if modern else b""
    line = (
        b'{"jsonrpc":"2.0","id":"q","method":"tools\\u002fcall","params":{"name":"delete_database","arguments":%s%s}}\n'
    )
    client.write(line % (arguments, more))
    result = client.answer("q")["result"]
    assert result["isError"] is True
    assert "cannot be read, so it did not run" in text_of(result)
    assert result.get("resultType") == ("complete" if modern else None)
    client.ask("ping")
    assert client.log is not None
    assert b"delete_database" not in client.log.read_bytes()


def test_unpaired_surrogate_does_not_block_a_call(start: Start) -> None:
    client = start()
    line = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"read_note","arguments":{"path":"/a\\ud83d"}}}\n'
    client.write(line)
    assert text_of(client.answer(5)["result"]) == "done read_note"
    assert client.log is not None
    assert line in client.log.read_bytes()


def test_five_megabytes_pass_and_count_as_risky(start: Start, server: Server, tmp_path: Path) -> None:
    client = start()
    result = client.call("write_note", {"path": "/a.txt", "text": "x" * 5_000_000})
    assert text_of(result) == "done write_note"
    assert len(client.calls()[0]["params"]["arguments"]["text"]) == 5_000_000
    (entry,) = opened(server, tmp_path)
    assert entry["tier"] == 3, "what the gate does not see whole is tier 3 at least"
    assert outcomes(server, tmp_path) == ["done"]
    many = client.call("write_note", {"path": "/a.txt", "parts": [str(n) for n in range(700_000)]})
    assert many["isError"] is True
    assert "cannot be judged" in text_of(many)


def _asleep(request: Request) -> None:
    if request.target == "/health":
        request.reply({"status": "ok", "version": "1", "store": "ok"})
    else:
        hang(request)


@pytest.mark.parametrize(
    "script",
    [_asleep, replies({"error": "oops"}, 500), sends_bytes(b"garbage"), replies({"what": 1}), replies(b"<html>", 502)],
    ids=["hangs", "500", "garbage", "another shape", "a proxy's page"],
)
def test_gate_that_answers_nonsense_does_not_block_reads(tmp_path: Path, script: Any) -> None:
    with Peer(script) as peer, wrapped(tmp_path / "state", environ={"CALLOSUM_URL": peer.url}) as client:
        assert text_of(client.call("read_note", {"path": "/a"})) == "done read_note"
        refused = client.call("delete_database", {"name": "x"})
        assert refused["isError"] is True
        assert "is unreachable" in text_of(refused)
        assert [one["params"]["name"] for one in client.calls()] == ["read_note"]
        assert client.end() == 0
    assert [one["call"]["tool"][-9:] for one in lines_of(tmp_path / "state") if one["kind"] == "call"] == ["read_note"]


def test_hung_gate_delays_nothing_else(tmp_path: Path) -> None:
    """Of ten calls one waits for the gate: the rest are refused without a request to it."""
    with Peer(_asleep) as peer, wrapped(tmp_path / "state", environ={"CALLOSUM_URL": peer.url}) as client:
        assert client.call("delete_database", {"name": "first"})["isError"] is True
        ids = [client.send("tools/call", client.params("delete_database", {"name": str(n)})) for n in range(9)]
        client.ask("ping", id="p")
        assert all(client.answer(id)["result"]["isError"] is True for id in ids)
        assert len(peer.bodies("/intercept")) < 5, "each would have its deadline to wait"


def test_call_cancelled_at_the_gate_never_reaches_the_server(tmp_path: Path) -> None:
    with Peer(hang) as peer, wrapped(tmp_path / "state", environ={"CALLOSUM_URL": peer.url}) as client:
        call = client.send("tools/call", client.params("read_note", {"path": "/a"}))
        client.notify("notifications/cancelled", requestId=call)
        after = client.send("tools/call", client.params("read_note", {"path": "/b"}))
        client.answer(after)
        assert client.kept == []
        assert [one["id"] for one in client.calls()] == [after]
        assert not any(one.get("method") == "notifications/cancelled" for one in client.seen())


def test_gate_killed_while_a_tool_runs_is_handled(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "gate") as gate,
        wrapped(tmp_path / "state", environ={"CALLOSUM_URL": gate.address}) as client,
    ):
        call = client.send("tools/call", client.params("delete_database", {"name": "x", "act": "wait", "as": "w"}))
        until(client.calls)
        gate.kill()
        client.notify("test/release", **{"as": "w"})
        assert text_of(client.answer(call)["result"]) == "released"
        assert text_of(client.call("read_note")) == "done read_note"
        assert client.call("delete_database", {"name": "y"})["isError"] is True
        assert client.end() == 0


def test_wrong_token_counts_as_no_gate(tmp_path: Path, server: Server) -> None:
    with wrapped(tmp_path / "state", environ={"CALLOSUM_URL": server.address, "CALLOSUM_TOKEN": "wrong"}) as client:
        assert text_of(client.call("read_note")) == "done read_note"
        refused = client.call("delete_database", {"name": "x"})
        assert refused["isError"] is True
        assert "wrong" not in text_of(refused)
        assert client.end() == 0


def test_first_wrap_starts_the_local_gate(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with wrapped(state, "--session", "a", "--instance", "mira") as one:
        one.send("tools/call", one.params("delete_database", {"name": "prod", "act": "wait"}))
        until(one.calls)
        with wrapped(state, "--session", "b", "--instance", "mira") as other:
            assert other.call("delete_database", {"name": "prod"})["isError"] is True
    for each in running(state):
        os.kill(each.process.pid, signal.SIGTERM)
        until(lambda each=each: alive(each.process) is not True)


def test_command_line_errors_are_reported_before_anything_runs(tmp_path: Path) -> None:
    for options, word in (
        (("--gate", "nonsense", "--", "true"), "--gate"),
        (("--url", "ftp://x"), "--url"),
        (("--url", "http://u:p@x/"), "--header"),
        (("--url", "http://x", "--", "true"), "either"),
        (("--header", "A: b", "--", "true"), "--header"),
        (("--url", "http://x", "--header", "Authorization: ${NOT_SET}"), "NOT_SET"),
        (("--url", "http://x", "--transport", "ws"), "--transport"),
    ):
        with wrapped(tmp_path / "state", server=options, modern=True) as client:
            assert client.process.wait(30) == 2
            assert word in client.said.read().decode()
