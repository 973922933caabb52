"""JSON-RPC 2.0 by the line: which requests are answered, and which wait for others. Over streams and pipes."""

import io
import json
import os
import select
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callosum import __version__, stdio, wire
from callosum.errors import ConfigError, StoreUnavailable
from callosum.gate import LocalGate
from callosum.model import Applied
from callosum.stdio import LineSplitter, Pipes, Workers, briefs_of, serve
from callosum.stores.base import Request
from callosum.stores.memory import MemoryStore
from tests.support.world import World

LIMIT = 30.0
"""Seconds after which a test that waits for something fails."""


class Streams:
    """A channel over two byte streams."""

    def __init__(self, text: bytes, piece: int = 1 << 16) -> None:
        self.source = io.BytesIO(text)
        self.sink = io.BytesIO()
        self._piece = piece

    def read(self) -> bytes | None:
        return self.source.read1(self._piece)

    def write(self, data: bytes) -> None:
        self.sink.write(data)

    def stop(self) -> None:
        raise AssertionError("nothing went wrong")

    def gone(self) -> bool:
        return False


def responses_to(gate: LocalGate, *lines: bytes | str, piece: int = 1 << 16, **options: Any) -> list[Any]:
    """Return the responses to these lines, in the order of their ids if they have some."""
    text = b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines)
    channel = Streams(text, piece)
    assert serve(gate, briefs_of(gate), channel, **options)
    written = channel.sink.getvalue()
    assert not written or written.endswith(b"\n")
    return [json.loads(line) for line in written.splitlines()]


def request(method: str, params: Any = None, id: Any = 1) -> str:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return json.dumps(message if params is None else {**message, "params": params})


def ask(gate: LocalGate, method: str, params: Any = None, **options: Any) -> Any:
    """The result of one request, or its error."""
    (answer,) = responses_to(gate, request(method, params), **options)
    assert answer["jsonrpc"] == "2.0"
    assert answer["id"] == 1
    assert len(answer) == 3
    return answer["result"] if "result" in answer else answer["error"]


def call_request(who: str, tool: str, on: str, **more: Any) -> dict[str, Any]:
    return {"instance": who, "tool": tool, "params": {"on": on}, **more}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def gate(world: World) -> LocalGate:
    return world.gate


@pytest.mark.parametrize(
    "id", ["1", "0", "-7", "1.0", "1e3", "1.50", "123456789012345678901234567890", '"a"', '""', '"é\\u00e9\\n"', "null"]
)
def test_id_is_returned_unchanged(gate: LocalGate, id: str) -> None:
    channel = Streams(f'{{"jsonrpc":"2.0","id":{id},"method":"health"}}\n'.encode())
    serve(gate, briefs_of(gate), channel)
    assert f'"id":{id},"result"'.encode() in channel.sink.getvalue()


BROKEN = [
    # a line, the id of the response, the code, the field
    ("x", None, -32700, "message"),
    ('{"jsonrpc":"2.0","id":1,"method":"health"', None, -32700, "message"),
    ('{"jsonrpc":"2.0","id":1,"method":"health"}}', None, -32700, "message"),
    ("[1,", None, -32700, "message"),
    (b'{"jsonrpc":"2.0","id":1,"method":"health","params":{"a":"\xff"}}', None, -32700, "message"),
    ('{"jsonrpc":"2.0","id":1,"method":"health","params":{"a":' + "[" * 100_000, None, -32700, "message"),
    ('{"jsonrpc":"2.0","id":1,"x":' + "[" * 100_000 + "]" * 100_000 + ',"method":"health"}', None, -32700, "message"),
    ("[" * 100_000, None, -32700, "message"),
    ('{"jsonrpc":"1.0","id":1,"method":"health"', None, -32700, "message"),
    ("1", None, -32600, "message"),
    ("null", None, -32600, "message"),
    ('"health"', None, -32600, "message"),
    ("[]", None, -32600, "message"),
    ("{}", None, -32600, "jsonrpc"),
    ('{"id":1,"method":"health"}', 1, -32600, "jsonrpc"),
    ('{"jsonrpc":"1.0","id":1,"method":"health"}', 1, -32600, "jsonrpc"),
    ('{"jsonrpc":2.0,"id":1,"method":"health"}', 1, -32600, "jsonrpc"),
    ('{"jsonrpc":"2.0","id":"a"}', "a", -32600, "method"),
    ('{"jsonrpc":"2.0","id":"a","method":7}', "a", -32600, "method"),
    ('{"jsonrpc":"2.0","id":"a","result":{}}', "a", -32600, "method"),
    ('{"jsonrpc":"2.0","method":7}', None, -32600, "method"),
    ('{"jsonrpc":"2.0","id":true,"method":"health"}', None, -32600, "id"),
    ('{"jsonrpc":"2.0","id":[1],"method":"health"}', None, -32600, "id"),
    ('{"jsonrpc":"2.0","id":{},"method":7}', None, -32600, "method"),
    ('{"jsonrpc":"2.0","id":1e999,"method":"health"}', None, -32600, "id"),
    ('{"jsonrpc":"2.0","id":' + "9" * 5000 + ',"method":"health"}', None, -32600, "id"),
    ('{"jsonrpc":"2.0","id":1,"id":2,"method":"health"}', None, -32600, "id"),
    ('{"jsonrpc":"2.0","id":1,"method":"health","\\u006dethod":"deny"}', 1, -32600, "method"),
    ('{"jsonrpc":"2.0","id":1,"method":"health","params":{},"params":{}}', 1, -32600, "params"),
    ('{"jsonrpc":"2.0","id":1,"method":"health","x":{"a":1,"a":1}}', 1, -32600, "a"),
    ('{"jsonrpc":"2.0","id":1,"method":"health","params":null}', 1, -32600, "params"),
    ('{"jsonrpc":"2.0","id":1,"method":"health","params":"a"}', 1, -32600, "params"),
    (request("rpc.discover"), 1, -32601, "method"),
    (request("x" * 1_000_000), 1, -32601, "method"),
    (request("health", [1]), 1, -32602, "params"),
    (request("intercept"), 1, -32602, "instance"),
    (request("intercept", {"instance": "mira"}), 1, -32602, "tool"),
    (request("intercept", {"instance": 5, "tool": "look"}), 1, -32602, "instance"),
    (request("intercept", {"instance": "", "tool": "look"}), 1, -32602, "instance"),
    (request("intercept", {"instance": "mira", "tool": "look", "params": []}), 1, -32602, "params"),
    (request("intercept", {"instance": "mira", "tool": "look", "wait": 61}), 1, -32602, "wait"),
    (request("intercept", {"instance": "mira", "tool": "look", "wait": -1}), 1, -32602, "wait"),
    (request("intercept", {"instance": "mira", "tool": "look", "host": [1]}), 1, -32602, "host"),
    (request("intercept", {"instance": "mira", "tool": "look"}).replace('"look"', '"\\ud800"'), None, -32700, "message"),
    (request("intercept", {"a": 1, "b": {"c": 1}}).replace('"b"', '"a"'), 1, -32602, "a"),
    (request("intercept", {**call_request("a", "b", "c"), "d": {}}).replace('"d"', '"tool"'), 1, -32602, "tool"),
    (request("complete", {"instance": "mira", "id": 0}), 1, -32602, "id"),
    (request("complete", {"instance": "mira", "id": 1, "outcome": "maybe"}), 1, -32602, "outcome"),
    (request("lock", {"instance": "mira", "contextKey": "a", "tier": 5}), 1, -32602, "tier"),
    (request("lock", {"instance": "mira", "contextKey": "a", "ttl": 0}), 1, -32602, "ttl"),
    (request("release", {"instance": "mira"}), 1, -32602, "contextKey"),
    (request("release", {"contextKey": "a"}), 1, -32602, "instance"),
    (request("renew", {"instance": "mira", "id": "1"}), 1, -32602, "id"),
    (request("resolve", {"id": 1}), 1, -32602, "happened"),
    (request("status", {"contextKey": "\n"}), 1, -32602, "contextKey"),
    (request("status", {"namespace": ""}), 1, -32602, "namespace"),
    (request("approvals", {"namespace": 7}), 1, -32602, "namespace"),
    (request("journal", {"limit": 0}), 1, -32602, "limit"),
    (request("journal", {"limit": 1001}), 1, -32602, "limit"),
    (request("journal", {"wait": 61}), 1, -32602, "wait"),
    (request("journal", {"session": ""}), 1, -32602, "session"),
    (request("journal", {"contextKey": ""}), 1, -32602, "contextKey"),
    (request("journal", {"cursor": "7"}), 1, -32602, "cursor"),
    (request("journal", {"cursor": "j9999999999999999999"}), 1, -32602, "cursor"),
    (request("journal", {"cursor": "j٣"}), 1, -32602, "cursor"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "id", "code", "at"), BROKEN)
def test_error_names_its_field_and_the_next_request_is_answered(
    gate: LocalGate, line: bytes | str, id: Any, code: int, at: str
) -> None:
    answers = responses_to(gate, line, request("health", id=99))
    wrong, right = sorted(answers, key=lambda answer: answer["id"] == 99)
    assert right["result"]["name"] == "callosum"
    assert wrong["jsonrpc"] == "2.0"
    assert set(wrong) == {"jsonrpc", "id", "error"}
    assert (wrong["id"], wrong["error"]["code"]) == (id, code)
    assert wrong["error"]["data"]["at"] == at
    assert 0 < len(wrong["error"]["message"]) < 300
    assert not gate.entries()


@pytest.mark.parametrize(("name", "near"), [("intercpt", "intercept"), ("aprove", "approve"), ("zzz", None)])
def test_unknown_method_error_names_similar_methods(gate: LocalGate, name: str, near: str | None) -> None:
    assert ask(gate, name)["data"].get("near") == near


def test_blank_lines_and_carriage_returns_are_ignored(gate: LocalGate) -> None:
    assert responses_to(gate, "", " \t", "\r", request("health") + "\r", "") == responses_to(gate, request("health"))


def test_last_line_needs_no_line_break(gate: LocalGate) -> None:
    for text in (request("health"), "\n" + request("health")):
        channel = Streams(text.encode())
        serve(gate, briefs_of(gate), channel)
        assert channel.sink.getvalue().count(b'"result"') == 1
    channel = Streams(request("intercept", call_request("mira", "act3", "a")).encode()[:-1])
    serve(gate, briefs_of(gate), channel)
    assert b"-32700" in channel.sink.getvalue()
    assert not gate.entries()


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","method":"health"}',
        '{"jsonrpc":"2.0","method":"no such"}',
        '{"jsonrpc":"2.0","method":"approve","params":{"id":1}}',
        '{"jsonrpc":"2.0","method":"intercept","params":{}}',
        '{"jsonrpc":"2.0","method":"intercept","params":{"instance":"","tool":""}}',
        '[{"jsonrpc":"2.0","method":"health"},{"jsonrpc":"2.0","method":"no such"}]',
    ],
)
def test_a_notification_is_not_answered(gate: LocalGate, line: str) -> None:
    assert responses_to(gate, line) == []


def test_notification_is_executed(world: World) -> None:
    decision = world.ask("mira", "act3", "a")
    assert (
        responses_to(
            world.gate,
            json.dumps({"jsonrpc": "2.0", "method": "complete", "params": {"instance": "mira", "id": decision.id}}),
        )
        == []
    )
    assert world.gate.status().locks == ()


def test_batch_gets_one_response(gate: LocalGate) -> None:
    calls = [request("health", id="a"), '{"jsonrpc":"2.0","method":"health"}', "1", request("no such", id="b")]
    (answers,) = responses_to(gate, f"[{','.join(calls)}]")
    found = {answer["id"]: answer.get("error", {}).get("code") for answer in answers}
    assert found == {"a": None, None: -32600, "b": -32601}
    assert len(answers) == 3
    (one,) = responses_to(gate, f" [{request('health')}]")
    assert [answer["id"] for answer in one] == [1]


def test_a_batch_has_a_limit(gate: LocalGate) -> None:
    (answers,) = responses_to(gate, "[" + ",".join(["1"] * stdio.MAX_BATCH) + "]")
    assert len(answers) == stdio.MAX_BATCH
    (answer,) = responses_to(gate, "[" + ",".join(["1"] * (stdio.MAX_BATCH + 1)) + "]")
    assert answer["error"]["code"] == -32600


def test_one_bad_request_of_a_batch_harms_no_other(gate: LocalGate) -> None:
    good = request("intercept", call_request("mira", "act3", "a"), id=1)
    twice = '{"jsonrpc":"2.0","id":2,"method":"health","method":"health"}'
    (answers,) = responses_to(gate, f"[{twice},{good}]")
    assert {answer["id"]: "result" in answer for answer in answers} == {1: True, 2: False}


@pytest.mark.parametrize("piece", [1, 7, 64, 1 << 16])
def test_input_may_arrive_in_any_pieces(gate: LocalGate, piece: int) -> None:
    lines = [request("health", id=number) for number in range(5)]
    assert sorted(answer["id"] for answer in responses_to(gate, *lines, piece=piece)) == [0, 1, 2, 3, 4]


NAMES = st.sampled_from(
    [
        "jsonrpc", "id", "method", "params", "instance", "tool", "contextKey", "session", "namespace", "result",
        "ttl", "x",
    ]
)  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from([*stdio.METHODS, "2.0"])
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=12
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "id": st.integers(), "method": st.sampled_from(sorted(stdio.METHODS))},
    optional={"params": st.dictionaries(NAMES, VALUES, max_size=6) | VALUES},
)


@given(st.lists(MESSAGES | VALUES | st.lists(MESSAGES, max_size=3), max_size=4), st.randoms(use_true_random=False))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_input_causes_an_internal_error(gate: LocalGate, messages: list[Any], chance: Random) -> None:
    lines = [json.dumps(message) for message in messages]
    if lines and chance.random() < 0.3:
        place = chance.randrange(len(lines))
        lines[place] = lines[place][: chance.randrange(len(lines[place]) + 1)]
    for answer in responses_to(gate, *lines, request("health", id="end")):
        for one in answer if isinstance(answer, list) else [answer]:
            assert ("result" in one) != ("error" in one)
            assert one.get("error", {}).get("code") != -32603


@given(
    st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=8),
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
)
def test_lines_are_split_alike_for_any_pieces(wanted: list[bytes], sizes: list[int]) -> None:
    text = b"\n".join(wanted)
    lines = LineSplitter(8)
    found: list[bytes | None] = []
    place = number = 0
    while place < len(text):
        size = sizes[number % len(sizes)]
        found += lines.feed(text[place : place + size])
        place, number = place + size, number + 1
    found.append(lines.rest())
    assert found == [line if len(line) <= 8 else None for line in wanted or [b""]]


def test_a_line_that_is_too_long_is_not_kept(gate: LocalGate) -> None:
    lines = LineSplitter(1000)
    for _ in range(1000):
        assert lines.feed(b"x" * 500) == []
        assert len(lines._part) <= 1000
    assert lines.feed(b"\n{}\n") == [None, b"{}"]


def test_a_line_that_is_too_long_is_answered_once(gate: LocalGate) -> None:
    whole = request("intercept", call_request("mira", "look", "x" * wire.MAX_BODY))
    wrong, right = responses_to(gate, whole, request("health"))
    assert (wrong["id"], wrong["error"]["code"]) == (None, -32600)
    assert "longer than" in wrong["error"]["message"]
    assert right["result"]["version"] == __version__


def test_each_method_returns_the_answer_of_the_gate(world: World) -> None:
    gate = world.gate
    first = ask(gate, "intercept", call_request("mira", "act3", "a", callId="1", session="chat"))
    assert first["proceed"] is True
    assert first["contextKey"] == "doc:a"
    assert first["lease"]["token"] == first["id"]
    renewed = ask(gate, "renew", {"instance": "mira", "session": "chat", "id": first["id"], "ttl": 900})
    assert renewed["lease"]["expires"] > first["lease"]["expires"]
    second = ask(gate, "intercept", call_request("doug", "act3", "a", callId="2"))
    assert (second["verdict"], second["conflicts"][0]["instance"]) == ("warn", "mira/chat")
    status = ask(gate, "status", {"contextKey": "doc:a"})
    assert [lock["instance"] for lock in status["locks"]] == ["mira/chat", "doug"]
    assert ask(gate, "complete", {"instance": "mira", "session": "chat", "id": first["id"]})["state"] == "done"
    assert (
        ask(
            gate,
            "complete",
            {"instance": "doug", "tool": "act3", "params": {"on": "a"}, "result": {"error": "refused"}},
        )["state"]
        == "failed"
    )
    locked = ask(gate, "lock", {"instance": "mira", "contextKey": "doc:b", "ttl": 5})
    assert locked["acquired"] is True
    assert ask(gate, "lock", {"instance": "doug", "contextKey": "doc:b"})["acquired"] is False
    assert ask(gate, "release", {"instance": "mira", "contextKey": "doc:b"})["ok"] is True
    lost = ask(gate, "intercept", call_request("mira", "act3", "c"))
    world.after(1000)
    assert ask(gate, "resolve", {"id": lost["id"], "happened": False, "by": "mira"})["state"] == "failed"
    assert ask(gate, "complete", {"instance": "mira", "contextKey": "doc:none"})["ok"] is False
    assert ask(gate, "health")["methods"] == [name for name in stdio.METHODS if name not in ("approve", "deny")]


def test_pending_questions_are_listed_with_their_params(world: World) -> None:
    world.do("doug", "act3", "a")
    world.after(5)
    asked = world.ask("mira", "asked", "a")
    found = ask(world.gate, "approvals")["approvals"]
    assert [one["id"] for one in found] == [asked.id]
    (one,) = found
    assert (one["instance"], one["tool"], one["tier"], one["contextKey"]) == ("mira", "asked", 3, "doc:a")
    assert one["params"] == {"on": "a"}
    assert one["conflicts"][0]["instance"] == "doug"
    assert one["warning"] == asked.warning
    assert one["expires"] > one["at"]
    assert ask(world.gate, "approvals", {"namespace": "other"}) == {"approvals": []}
    assert ask(world.gate, "approvals", {"session": "mira"}) == {"approvals": found}
    assert ask(world.gate, "approvals", {"session": "doug"}) == {"approvals": []}


def test_the_journal_comes_in_pages(world: World) -> None:
    for name in "abc":
        world.do("mira", "act3", name)
    first = ask(world.gate, "journal", {"limit": 4})
    rest = ask(world.gate, "journal", {"limit": 4, "cursor": first["cursor"]})
    end = ask(world.gate, "journal", {"cursor": rest["cursor"]})
    assert [entry["event"] for entry in first["entries"] + rest["entries"]] == ["intercept", "complete"] * 3
    assert end == {"entries": [], "cursor": rest["cursor"]}
    newest = ask(world.gate, "journal", {"limit": 1, "newest": True})
    assert newest["entries"] == rest["entries"][-1:]
    assert newest["cursor"] == rest["cursor"]
    assert len(ask(world.gate, "journal", {"contextKey": "doc:b"})["entries"]) == 2
    assert ask(world.gate, "journal", {"session": "doug"})["entries"] == []


def test_child_of_an_agent_cannot_answer_for_a_person(world: World) -> None:
    asked = world.ask("mira", "asked", "a")
    held = world.ask("doug", "act3", "b")
    for method, params in (
        ("approve", {"id": asked.id, "by": "anna"}),
        ("deny", {"id": asked.id}),
        ("approve", {}),
        ("release", {"contextKey": "doc:b", "force": True, "by": "anna"}),
    ):
        error = ask(world.gate, method, params)
        assert error["code"] == -32001
        assert error["data"] == {"at": "force" if method == "release" else method}
        assert "--approver" in error["message"]
    status = world.gate.status()
    assert [one.id for one in status.asked] == [asked.id]
    assert [one.id for one in status.locks] == [held.id]


def test_child_of_an_approver_can_answer_for_a_person(world: World) -> None:
    first, second = world.ask("mira", "asked", "a"), world.ask("mira", "asked", "b")
    world.ask("doug", "act3", "c")
    assert ask(world.gate, "approve", {"id": first.id, "by": "anna"}, approver=True)["ok"] is True
    assert ask(world.gate, "deny", {"id": second.id}, approver=True)["ok"] is True
    assert ask(world.gate, "release", {"contextKey": "doc:c", "force": True, "by": "anna"}, approver=True)["ok"] is True
    assert world.ask("mira", "asked", "a").proceed
    status = world.gate.status()
    assert [one.id for one in (*status.asked, *status.locks)][1:] == []
    assert "approve" in ask(world.gate, "health", approver=True)["methods"]
    answers = [entry.body for entry in world.gate.entries() if entry.event in ("approve", "deny")]
    assert [(said.get("by"), said["channel"]) for said in answers] == [("anna", "stdio"), (None, "stdio")]


def test_request_without_a_namespace_uses_that_of_the_child(world: World) -> None:
    gate = world.gate
    params = call_request("mira", "act3", "a")
    ask(gate, "intercept", params, namespace="work")
    ask(gate, "intercept", {**params, "namespace": "default"}, namespace="work")
    ask(gate, "intercept", {**params, "namespace": "home"}, namespace="work")
    for name in ("work", "default", "home"):
        assert len(gate.status(namespace=name).locks) == 1
    assert len(ask(gate, "status", namespace="work")["locks"]) == 1
    assert len(ask(gate, "journal", namespace="work")["entries"]) == 1
    assert len(ask(gate, "journal", {"namespace": None}, namespace="work")["entries"]) == 3
    assert ask(gate, "health", namespace="work")["name"] == "callosum"


class AwayStore(MemoryStore):
    """Can be reached for looking only."""

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        raise StoreUnavailable("the disk is full")


def test_unreachable_store_has_its_own_error(tmp_path: Path) -> None:
    world = World(tmp_path, lambda clock, probe: AwayStore(clock=clock, probe=probe))
    error = ask(world.gate, "intercept", call_request("mira", "look", "a"))
    assert error == {"code": -32000, "message": "the disk is full", "data": {"kind": "StoreUnavailable"}}


class FaultyGate(LocalGate):
    """Fails in unexpected ways."""

    def handle(self, request: Any, caller: Any = None) -> Any:
        if request.tool == "odd":
            return {1j}  # what cannot be written
        raise RuntimeError(request.tool)


def test_internal_error_does_not_end_the_child(world: World, caplog: pytest.LogCaptureFixture) -> None:
    gate = FaultyGate(settings=world.gate.settings, store=world.store, rules=world.gate.rules)
    lines = [request("intercept", call_request("mira", tool, "a"), id=tool) for tool in ("secret", "odd")]
    answers = responses_to(gate, *lines, request("health", id="z"))
    found = {answer["id"]: answer.get("error") for answer in answers}
    assert found["secret"] == {"code": -32603, "message": "internal error", "data": {"kind": "RuntimeError"}}
    assert found["odd"]["code"] == -32603
    assert found["z"] is None
    assert len(caplog.records) == 2


def test_error_in_the_reader_does_not_end_the_child(
    gate: LocalGate, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("never thought of")

    monkeypatch.setattr(stdio, "_read_params", fail)
    (answer,) = responses_to(gate, request("health"))
    assert answer["error"]["code"] == -32603
    assert len(caplog.records) == 1


def test_journal_refuses_a_malformed_cursor(gate: LocalGate) -> None:
    with pytest.raises(ConfigError, match="cursor"):
        gate.handle(wire.ReadJournal(cursor="j"))


class Talk:
    """A served gate in a thread, and the host's ends of the two pipes."""

    def __init__(self, gate: LocalGate, **options: Any) -> None:
        theirs, self._to = os.pipe()
        back, ours = os.pipe()
        self.channel = Pipes(theirs, ours)
        self.back = os.fdopen(back, "rb")
        self.done: bool | Exception | None = None

        def work() -> None:
            try:
                self.done = serve(gate, briefs_of(gate), self.channel, **options)
            except OSError as error:
                self.done = error
            self.channel.close()
            os.close(theirs)
            os.close(ours)

        self.thread = threading.Thread(target=work)
        self.thread.start()

    def send(self, *lines: str) -> None:
        os.write(self._to, b"".join(line.encode() + b"\n" for line in lines))

    def answer(self) -> Any:
        return json.loads(self.back.readline())

    def hang_up(self) -> None:
        if self._to >= 0:
            os.close(self._to)
            self._to = -1

    def end(self) -> None:
        self.hang_up()
        self.thread.join(LIMIT)
        assert not self.thread.is_alive()
        self.back.close()


@contextmanager
def talking(gate: LocalGate, **options: Any) -> Iterator[Talk]:
    talk = Talk(gate, **options)
    try:
        yield talk
    finally:
        talk.end()


class HeldLease:
    """A tier 4 lease of doug's; waiting calls sleep until it is freed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sleeping = threading.Semaphore(0)
        self._freed = threading.Event()
        self.lease = world.ask("doug", "act4", "a")
        world.each_sleep = self._sleep

    def _sleep(self) -> None:
        if not self._freed.is_set():
            self.sleeping.release()
            assert self._freed.wait(LIMIT)

    def wait_for_sleepers(self, count: int) -> None:
        for _ in range(count):
            assert self.sleeping.acquire(timeout=LIMIT)

    def free(self) -> None:
        assert self.world.end("doug", self.lease).ok
        self.world.each_sleep = lambda: None
        self._freed.set()


def waiting(who: str, id: Any, on: str = "a") -> str:
    return request("intercept", call_request(who, "act4", on, wait=60, callId=str(id)), id=id)


def test_waiting_call_delays_no_other_request(world: World) -> None:
    held = HeldLease(world)
    with talking(world.gate) as talk:
        talk.send(waiting("mira", 1))
        held.wait_for_sleepers(1)
        for id in range(2, 40):
            talk.send(request("intercept", call_request("anna", "act3", f"b{id}"), id=id))
            assert talk.answer()["id"] == id
        held.free()
        answer = talk.answer()
        assert answer["id"] == 1
        assert answer["result"]["proceed"] is False  # doug has only just done it: tier 4 is not let through
        assert {one["instance"] for one in answer["result"]["conflicts"]} == {"doug"}


def test_without_a_worker_a_waiting_call_delays_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control."""
    monkeypatch.setattr(stdio.RpcRequest, "slow", False)
    held = HeldLease(world)
    with talking(world.gate) as talk:
        talk.send(waiting("mira", 1))
        held.wait_for_sleepers(1)
        talk.send(request("health", id=2))
        assert select.select([talk.back], [], [], 0.2)[0] == []
        held.free()
        assert [talk.answer()["id"] for _ in range(2)] == [1, 2]


def test_request_that_frees_a_lease_passes_the_calls_that_wait_for_it(world: World) -> None:
    """All workers wait for doug; his report still comes through, although no worker is free."""
    held = HeldLease(world)
    with talking(world.gate, workers=2) as talk:
        talk.send(waiting("mira", 1), waiting("anna", 2))
        held.wait_for_sleepers(2)
        talk.send(request("status", id=3), request("complete", {"instance": "doug", "id": held.lease.id}, id=4))
        assert {talk.answer()["id"] for _ in range(2)} == {3, 4}
        held._freed.set()
        world.each_sleep = lambda: None
        assert {talk.answer()["id"] for _ in range(2)} == {1, 2}


def test_call_that_finds_all_workers_waiting_stops_the_reader(world: World) -> None:
    held = HeldLease(world)
    with talking(world.gate, workers=2) as talk:
        talk.send(waiting("mira", 1), waiting("anna", 2))
        held.wait_for_sleepers(2)
        talk.send(waiting("bob", 3))
        talk.send(request("health", id=4))
        assert not held.sleeping.acquire(timeout=0.2)  # bob's call is not even asked
        held.free()
        assert {talk.answer()["id"] for _ in range(4)} == {1, 2, 3, 4}


def test_batch_may_contain_a_waiting_call_and_the_request_that_ends_its_wait(world: World) -> None:
    held = HeldLease(world)
    held._freed.set()  # sleeping takes no time here
    with talking(world.gate) as talk:
        free = request("complete", {"instance": "doug", "id": held.lease.id}, id=2)
        talk.send(f"[{waiting('mira', 1)},{free}]")
        assert {answer["id"] for answer in talk.answer()} == {1, 2}


def test_many_simultaneous_responses_are_each_written_whole(tmp_path: Path) -> None:
    """Ten sessions, each with a call and, once it is answered, its report: every report finds its call."""
    gate = LocalGate(tmp_path)
    calls = 20
    with talking(gate) as talk:
        for who in range(10):
            talk.send(request("lock", {"instance": f"s{who}", "contextKey": f"k{who}:0"}, id=f"{who}:0"))
        left = 10 * calls
        while left:
            answer = talk.answer()
            who, step = map(int, answer["id"].split(":"))
            if "acquired" in answer["result"]:
                assert answer["result"]["acquired"]
                talk.send(request("release", {"instance": f"s{who}", "contextKey": f"k{who}:{step}"}, id=answer["id"]))
            else:
                assert answer["result"]["ok"], answer
                left -= 1
                if step + 1 < calls:
                    key = f"k{who}:{step + 1}"
                    talk.send(request("lock", {"instance": f"s{who}", "contextKey": key}, id=f"{who}:{step + 1}"))
        assert gate.status().locks == ()
    gate.close()


def test_incomplete_line_at_a_stop_is_ignored(gate: LocalGate) -> None:
    with talking(gate) as talk:
        talk.send(request("health"))
        os.write(talk._to, request("health").encode())
        talk.answer()
        talk.channel.stop()
        assert talk.back.readline() == b""


def test_request_that_waits_for_the_journal_gets_the_next_entries(world: World) -> None:
    with talking(world.gate) as talk:
        talk.send(request("journal", {"wait": 60}))
        world.do("mira", "act3", "a")
        assert talk.answer()["result"]["entries"][0]["tool"] == "act3"
        talk.send(request("journal", {"wait": 60, "session": "nobody"}))
        talk.hang_up()
        assert talk.answer()["result"]["entries"] == []


def test_child_ends_quietly_when_a_response_cannot_be_written(gate: LocalGate) -> None:
    with talking(gate) as talk:
        talk.back.close()
        talk.thread.join(LIMIT)
    assert talk.done is True


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_is_no_quiet_end(gate: LocalGate) -> None:
    theirs, to = os.pipe()
    full = os.open("/dev/full", os.O_WRONLY)
    channel = Pipes(theirs, full)
    os.write(to, request("health").encode() + b"\n" + request("health").encode() + b"\n")
    with pytest.raises(OSError, match="space"):
        serve(gate, briefs_of(gate), channel)
    channel.close()
    for handle in (theirs, to, full):
        os.close(handle)


def test_a_long_answer_gets_through_a_pipe_that_does_not_block(world: World) -> None:
    for number in range(200):
        world.do("mira", "act3", "k" * 900 + str(number))
    theirs, to = os.pipe()
    back, ours = os.pipe()
    os.set_blocking(ours, False)
    os.set_blocking(theirs, False)
    channel = Pipes(theirs, ours)
    os.write(to, request("journal", {"limit": 1000}).encode() + b"\n")
    os.close(to)
    worker = threading.Thread(target=serve, args=(world.gate, briefs_of(world.gate), channel))
    worker.start()
    with os.fdopen(back, "rb") as answers:
        assert len(json.loads(answers.readline())["result"]["entries"]) == 400
    worker.join(LIMIT)
    channel.close()
    os.close(theirs)
    os.close(ours)


def test_a_worker_is_started_only_when_none_is_free() -> None:
    workers = Workers(3)
    gates = [threading.Event() for _ in range(3)]
    for number, gate in enumerate(gates):
        assert workers.start(lambda gate=gate: assert_set(gate), wait=False)  # type: ignore[misc]
        assert len(workers._threads) == number + 1
    assert not workers.start(lambda: None, wait=False)
    for gate in gates:
        gate.set()
    for _ in range(20):
        done = threading.Event()
        assert workers.start(done.set, wait=True)
        assert done.wait(LIMIT)
    assert len(workers._threads) == 3
    assert workers.finish(lambda: False)
    assert not any(thread.is_alive() for thread in workers._threads)


def assert_set(event: threading.Event) -> None:
    assert event.wait(LIMIT)


def test_reader_serves_requests_if_no_thread_can_be_started(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    lines = [request("intercept", call_request("mira", "act3", f"a{id}", wait=1), id=id) for id in range(3)]
    assert sorted(answer["id"] for answer in responses_to(world.gate, *lines)) == [0, 1, 2]
