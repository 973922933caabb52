"""Test calls of several rounds through the wrap: the gate's questions as forms and a server's own, with the SDK."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitResult

from callosum.server.tokens import Tokens
from tests.support import forking
from tests.support.mcpwrap import CALLOSUM, META, Start, Wrapped, text_of
from tests.support.serving import Server, serving, until

SERVER = (sys.executable, str(Path(__file__).parents[1] / "support" / "mcprounds.py"))
FORMS = {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
RULES = {
    "rules": [
        {"name": "ask", "tool": "mcp__*__deploy", "tier": 3, "verdict": "ask", "contextKey": "host:{params.host}"},
        {"name": "both", "tool": "mcp__*__reserve", "tier": 3, "verdict": "ask", "contextKey": "show:{params.show}"},
        {"name": "wipe", "tool": "mcp__*__wipe", "tier": 4, "contextKey": "host:{params.host}"},
        {"name": "own", "tool": "mcp__*__book", "tier": 3, "contextKey": "show:{params.show}", "repeats": False},
    ]
}


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Server]]:
    """Two gates, by whether they accept host approvals."""
    folder = tmp_path_factory.mktemp("gates")
    (folder / "rules.json").write_text(json.dumps(RULES))
    environ = {"CALLOSUM_RULES": str(folder / "rules.json")}
    told = {**environ, "CALLOSUM_HOST_APPROVALS": "true"}
    with serving(folder / "told", environ=told) as one, serving(folder / "not", environ=environ) as other:
        yield {True: one, False: other}


def outcomes(gate: Server, space: str) -> list[tuple[str, str | None]]:
    entries = gate.get(f"/journal?limit=1000&namespace={space}")["entries"]
    return [(one["event"], one.get("verdict") or one.get("outcome")) for one in entries]


Answered = Callable[[str], dict[str, Any]]


def through_the_sdk(
    gate: Server, tmp_path: Path, answer: Answered | None, use: Callable[[Client], Awaitable[None]], mode: str = "auto"
) -> None:
    """Use the official client. ``answer`` returns the person's answer to a form's message."""

    async def elicit(_: Any, params: Any) -> ElicitResult:
        assert answer is not None
        return ElicitResult(**answer(params.message))

    async def run() -> None:
        command = [*CALLOSUM, "mcp", "--instance", "mira", "--session", "a", "--", *SERVER]
        environ = forking.shared_environ({}) | {
            "CALLOSUM_STATE": str(tmp_path / "state"),
            "CALLOSUM_URL": gate.address,
            "CALLOSUM_NAMESPACE": tmp_path.name,
        }
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=environ)
        callback: Any = {"elicitation_callback": elicit} if answer is not None else {}
        async with Client(stdio_client(parameters), mode=mode, **callback) as client:
            await use(client)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "runs", "then"),
    [
        ({"action": "accept", "content": {"approve": True}}, True, [("approve", None), ("intercept", "allow")]),
        ({"action": "accept", "content": {"approve": False}}, False, [("deny", None), ("intercept", "block")]),
        ({"action": "decline"}, False, [("deny", None), ("intercept", "block")]),
        ({"action": "cancel"}, False, []),
    ],
    ids=["yes", "no", "declines", "dismisses"],
)
def test_question_of_the_gate_is_a_form_and_the_answered_call_is_the_same_call(
    gates: dict[bool, Server], tmp_path: Path, answer: dict[str, Any], runs: bool, then: list[tuple[str, Any]]
) -> None:
    shown: list[str] = []

    def answered(message: str) -> dict[str, Any]:
        shown.append(message)
        return answer

    async def use(client: Client) -> None:
        result = await client.call_tool("deploy", {"host": "prod"})
        assert bool(result.is_error) is not runs
        assert (await client.call_tool("what_ran", {})).structured_content == {"result": ["deploy prod"] * runs}

    through_the_sdk(gates[True], tmp_path, answered, use)
    (message,) = shown
    assert message.startswith('mcp__rounds__deploy {"host":"prod"}\n\n[Callosum] ')
    told = outcomes(gates[True], tmp_path.name)
    wanted = [("intercept", "ask"), *then, *([("complete", "done")] if runs else [])]
    assert told[: len(wanted)] == wanted
    entries = gates[True].get(f"/journal?limit=1000&namespace={tmp_path.name}")["entries"]
    calls = [one["body"]["callId"] for one in entries if one["event"] == "intercept"][: 2 if then else 1]
    assert calls == [calls[0], f"{calls[0]}:answered"][: len(calls)]
    assert all(one["body"]["by"] == "host" for one in entries if one["event"] in ("approve", "deny"))


def test_questions_of_gate_and_server_follow_each_other_in_one_call(gates: dict[bool, Server], tmp_path: Path) -> None:
    shown: list[str] = []

    def answered(message: str) -> dict[str, Any]:
        shown.append(message.partition(" ")[0])
        asked = message.startswith("Which seat")
        return {"action": "accept", "content": {"number": 7} if asked else {"approve": True}}

    async def use(client: Client) -> None:
        result = await client.call_tool("reserve", {"show": "Carmen"})
        assert not result.is_error, result

    through_the_sdk(gates[True], tmp_path, answered, use)
    assert shown == ["mcp__rounds__reserve", "Which"]
    assert outcomes(gates[True], tmp_path.name) == [
        ("intercept", "ask"),
        ("approve", None),
        ("intercept", "allow"),
        ("complete", "done"),
    ]


@pytest.mark.parametrize(
    ("told", "mode", "forms"),
    [(False, "auto", True), (True, "legacy", True), (True, "auto", False)],
    ids=["a gate that was not told", "a client with a handshake", "a client without forms"],
)
def test_question_stays_a_sentence_without_forms(
    gates: dict[bool, Server], tmp_path: Path, told: bool, mode: str, forms: bool
) -> None:
    def never(_: str) -> dict[str, Any]:
        raise AssertionError

    async def use(client: Client) -> None:
        result: Any = await client.call_tool("deploy", {"host": "prod"})
        assert result.is_error
        assert "[Callosum]" in result.content[0].text
        assert "a person must decide" in result.content[0].text

    through_the_sdk(gates[told], tmp_path, never if forms else None, use, mode)
    assert outcomes(gates[told], tmp_path.name) == [("intercept", "ask")]


@pytest.fixture
def start(gates: dict[bool, Server], tmp_path: Path, wrap: Callable[..., Wrapped]) -> Start:
    def begin(session: str = "a", **more: str) -> Wrapped:
        environ = {"CALLOSUM_URL": gates[True].address, "CALLOSUM_NAMESPACE": tmp_path.name, **more}
        names = ("--name", "shop", "--instance", "mira", "--session", session)
        return wrap(*names, modern=True, environ=environ)

    return begin


def again(client: Wrapped, asked: Any, tool: str, arguments: dict[str, Any], answer: Any = None) -> Any:
    """Return the call again with an answer (or a yes) to its question."""
    (name,) = asked.get("inputRequests") or {"callosum": None}
    yes = {"action": "accept", "content": {"approve": True}}
    more = {"requestState": asked["requestState"], "inputResponses": {name: answer or yes}}
    return client.ask("tools/call", {**client.params(tool, arguments, FORMS), **more})


def test_server_sees_an_approved_call_as_first_made(start: Start) -> None:
    client = start()
    asked = client.call("deploy", {"host": "prod"}, FORMS)
    assert asked["resultType"] == "input_required"
    assert client.calls() == []
    assert text_of(again(client, asked, "deploy", {"host": "prod"})) == "done deploy"
    (call,) = client.calls()
    assert call["params"] == client.params("deploy", {"host": "prod"}, FORMS)


@pytest.mark.parametrize("other", ["arguments", "state", "used"])
def test_approval_counts_once_for_its_question(start: Start, other: str) -> None:
    client = start()
    asked = client.call("deploy", {"host": "prod"}, FORMS)
    host = "test" if other == "arguments" else "prod"
    if other == "state":
        asked["requestState"] = "callosum-000000000000000000000000"
    if other == "used":
        assert text_of(again(client, asked, "deploy", {"host": host})) == "done deploy"
    seen = len(client.calls())
    assert again(client, asked, "deploy", {"host": host})["resultType"] == "input_required", "it is asked about anew"
    assert len(client.calls()) == seen


def test_block_is_no_question(start: Start) -> None:
    one, other = start(session="a"), start(session="b")
    one.send("tools/call", one.params("wipe", {"host": "prod", "act": "wait"}, FORMS))
    until(one.calls)
    refused = other.call("wipe", {"host": "prod"}, FORMS)
    assert (refused["isError"], refused["resultType"]) == (True, "complete")


def test_servers_question_leaves_its_call_open_until_the_answering_round(
    start: Start, gates: dict[bool, Server], tmp_path: Path
) -> None:
    client, other = start(), start(session="b")
    arguments = {"show": "Carmen", "act": "ask"}
    asked = client.call("book", arguments, FORMS)
    assert asked["requestState"] == "s"
    assert outcomes(gates[True], tmp_path.name) == [("intercept", "allow")]
    (lease,) = gates[True].get(f"/status?namespace={tmp_path.name}")["locks"]
    assert lease["instance"] == "mira/a"
    assert text_of(other.call("book", arguments, FORMS)).startswith("[Callosum] Conflict: mira/a")
    assert other.calls() == []
    answer = {"action": "accept", "content": {"seat": 7}}
    assert text_of(again(client, asked, "book", arguments, answer)) == "done book"
    sent = client.calls()[1]["params"]
    assert (sent["requestState"], sent["inputResponses"]) == ("s", {"callosum": answer}), "the server's own are its own"
    told = [one for one in outcomes(gates[True], tmp_path.name) if one[0] == "complete"]
    assert told == [("complete", "done")]


def test_servers_question_without_an_answer_is_cancelled(
    start: Start, gates: dict[bool, Server], tmp_path: Path
) -> None:
    client = start()
    client.call("book", {"show": "Carmen", "act": "ask"}, FORMS)
    assert client.end() == 0
    assert outcomes(gates[True], tmp_path.name) == [("intercept", "allow"), ("complete", "cancelled")]


def test_token_of_an_instance_allows_host_approvals_for_that_instance_only(
    gates: dict[bool, Server], tmp_path: Path
) -> None:
    gate = gates[True]
    tokens = Tokens(gate.state / "tokens.json")
    own, others = tokens.add("mira-desk", instance="mira"), tokens.add("doug-desk", instance="doug")
    until(lambda: gate.ask("GET", "/health", token=others).status == 200)
    call = {"instance": "mira", "session": "a", "tool": "mcp__shop__deploy", "params": {"host": tmp_path.name}}
    asked = gate.post("/intercept", call, token=own)
    path, word = f"/approvals/{asked['id']}", {"approve": True, "by": "host", "channel": "host"}
    assert gate.post(path, word, token=others)["ok"] is False
    assert gate.ask("POST", path, {**word, "channel": "console"}, token=own).status == 403
    assert gate.post(path, word, token=own)["ok"] is True
    assert gate.post("/intercept", call, token=own)["proceed"] is True
    tokens.remove("mira-desk")  # as long as there is one, acting over TCP needs one
    tokens.remove("doug-desk")
    until(
        lambda: gate.ask("GET", "/health", token=own).status == gate.ask("GET", "/health", token=others).status == 401
    )


def test_gate_says_whether_it_accepts_host_approvals(gates: dict[bool, Server]) -> None:
    assert gates[True].get("/health")["hostApprovals"] is True
    assert "hostApprovals" not in gates[False].get("/health")
    refused = gates[False].ask("POST", "/approvals/5", {"approve": True, "by": "host", "channel": "host"})
    assert (refused.status, refused.body["at"]) == (400, "channel")
