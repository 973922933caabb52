"""Test OpenClaw's gateway with the plugin: its sessions' calls, its models' input, and the journal."""

import json
import os
import signal
from functools import partial
from typing import Any

import pytest

from tests.e2e.home import until
from tests.e2e.openclaw.house import INSTANCE, TOKEN, Fake, Gateway, OpenClawHome, call, gateway_of, hidden, play

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

ANNA = "anna@example.com"


def mail(to: str, text: str) -> str:
    """A command that the gate recognises as a mail. It fails, because nothing listens there."""
    return f"echo {text} | curl -sS --max-time 2 smtp://127.0.0.1:9 --mail-from me@example.com --mail-rcpt {to} -T -"


def newest_result(model: Fake, marker: str) -> str:
    """Return the newest tool result that the model read in the turn of the message with ``marker``."""
    for request in reversed(model.seen()):
        if marker in request["text"] and request["results"]:
            return str(request["results"][-1]).replace("\\", "")
    return ""


def entries(house: OpenClawHome, session: str, tool: str) -> list[dict[str, Any]]:
    return [entry for entry in house.journal(session) if entry["tool"] == tool]


def outcomes(house: OpenClawHome, session: str, tool: str) -> list[str]:
    return [str(entry.get("outcome") or entry.get("verdict")) for entry in entries(house, session, tool)]


def test_one_of_two_simultaneous_sessions_is_refused_and_reads_why(
    house: OpenClawHome, gateway: Gateway, model: Fake
) -> None:
    """Both post to a channel on which one holds a lease. The other's call is blocked and its model reads why."""
    lock = {"instance": INSTANCE, "session": "agent:main:alpha", "contextKey": "channel:board", "tier": 4, "ttl": 3600}
    assert gateway.http("POST", "/callosum/lock", lock)[1]["acquired"]
    alpha = house.turn("alpha", play([call("write", path="alpha.txt", content="alpha was here")], say="alpha-turn"))
    beta = house.turn(
        "beta",
        play(
            [hidden("message", action="send", channel="telegram", target="board", message="hello board")],
            say="beta-turn",
        ),
    )
    for running in (alpha, beta):
        out, _ = running.communicate(timeout=300)
        assert running.returncode == 0, out[-2000:]
    assert (house.workspace / "alpha.txt").read_text() == "alpha was here"
    assert until(lambda: outcomes(house, "alpha", "write")[1:], "alpha's outcome") == ["done"]
    assert outcomes(house, "beta", "message") == ["block"]
    sentence = newest_result(model, "beta-turn")
    assert f'[Callosum] Conflict: {INSTANCE}/agent:main:alpha has an active action on "channel:board"' in sentence
    assert "was here" not in sentence


def test_background_command_stays_open_until_it_ends(house: OpenClawHome, gateway: Gateway) -> None:
    flag = house.folder / "go-on"
    wait = f"while [ ! -e {flag} ]; do sleep 0.2; done; {mail(ANNA, 'late')}; true"
    house.turn("gamma", play([call("exec", command=wait, background=True)], say="gamma-turn")).communicate(timeout=300)
    assert outcomes(house, "gamma", "exec") == ["allow"]
    assert [lock["contextKey"] for lock in house.gate("status")["locks"] if ANNA in lock["contextKey"]]
    flag.touch()

    def asked() -> list[str]:
        house.turn("gamma", play([call("process", action="list")], say="gamma-list")).communicate(timeout=300)
        return [
            outcome for outcome in outcomes(house, "gamma", "exec")[1:] if outcome != "None"
        ]  # a lease may be renewed

    assert until(asked, "the command's outcome") == ["done"]


def test_message_reply_and_own_message_are_one_action_each(
    house: OpenClawHome, gateway: Gateway, telegram: Fake
) -> None:
    until(lambda: any(one["method"] == "setMyCommands" for one in telegram.seen()), "the channel is ready")
    own = hidden("message", action="send", target="42", message="This is sent by the tool itself.")
    telegram.push(play([own], say="This is the reply to Ann."))
    sent = until(
        lambda: [
            one["params"]["text"] for one in telegram.seen() if one["method"] == "sendMessage" and "This is" in str(one)
        ][1:],
        "the reply",
    )
    assert sent == ["This is the reply to Ann."]
    until(lambda: len(entries(house, "main", "message")) >= 4, "both are reported")
    said = entries(house, "main", "message")
    assert [(one["event"], one.get("outcome")) for one in said if one["event"] == "complete"] == [
        ("complete", "done")
    ] * 2
    asked = [one for one in said if one["event"] == "intercept"]
    assert [one["body"]["params"]["message"] for one in asked] == [
        "This is sent by the tool itself.",
        "This is the reply to Ann.",
    ]
    assert {one["keys"][0][0] for one in asked} == {"channel:42"}
    assert all(one["body"]["origin"] for one in asked), "the message that caused it"
    assert [event for event in house.logged("input.received") if "sent by the tool" in event["content"]]


def test_delivery_made_by_another_session_is_not_repeated(
    house: OpenClawHome, gateway: Gateway, telegram: Fake
) -> None:
    text = "The meeting with the plumber is moved to Thursday at nine o'clock."
    params = {"action": "send", "channel": "telegram", "target": "42", "message": text}
    decision = {"instance": "doug", "tool": "message", "params": params, "callId": "doug-1"}
    status, answer = gateway.http("POST", "/callosum/intercept", decision)
    assert (status, answer["proceed"]) == (200, True)
    gateway.http("POST", "/callosum/complete", {"instance": "doug", "id": answer["id"], "result": {}})
    telegram.push(f"When is the plumber here? SAY:{text}")
    refused = until(
        lambda: [one for one in entries(house, "main", "message") if one.get("verdict") == "confirm"], "it is refused"
    )
    assert refused[0]["body"]["params"]["message"] == text
    assert not [one for one in telegram.seen() if one["method"] == "sendMessage" and text in str(one)]


def test_call_through_the_gateways_http_is_gated_without_an_outcome(house: OpenClawHome, gateway: Gateway) -> None:
    body = {"tool": "message", "args": {"action": "send", "channel": "telegram", "target": "board", "message": "x y z"}}
    status, answer = gateway.http("POST", "/tools/invoke", body | {"sessionKey": "agent:main:http"})
    assert status != 200, answer
    assert "[Callosum] Conflict" in str(answer)
    assert outcomes(house, "http", "message") == ["block"]


def test_gateway_serves_the_gate_to_authenticated_clients(house: OpenClawHome, gateway: Gateway) -> None:
    status, answer = gateway.http("GET", "/callosum/status?contextKey=channel:board")
    assert (status, len(answer["locks"])) == (200, 1)
    assert gateway.http("GET", "/callosum/status", token=None)[0] == 401
    assert gateway.http("POST", "/callosum/approvals/1", {"approve": True})[0] == 404
    for method, params in (("callosum.status", {}), ("callosum.journal", {"limit": 3})):
        done = house.run("gateway", "call", method, "--token", TOKEN, "--json", "--params", json.dumps(params))
        found = json.loads(done.stdout)
        assert found.keys() & {"locks", "entries"}, done.stdout[-500:]


def test_turn_starts_with_a_brief(house: OpenClawHome, gateway: Gateway, model: Fake) -> None:
    house.turn("delta", play(say="delta-turn")).communicate(timeout=300)
    request = next(one for one in model.seen() if "delta-turn" in one["text"])
    assert "[Callosum] What other sessions are doing" in request["text"] + request["system"]
    assert f'{INSTANCE}/agent:main:alpha holds a lock on "channel:board"' in request["text"] + request["system"]


def test_corpus_gets_events_about_models_and_calls(house: OpenClawHome, gateway: Gateway) -> None:
    for kind in ("input.received", "input.routed", "llm.response", "tool.parsed", "tool.called", "context.built"):
        assert until(partial(house.logged, kind), kind)


def test_killed_gate_is_restarted_and_the_turn_continues(house: OpenClawHome, gateway: Gateway) -> None:
    (before,) = house.gates()
    os.kill(before, signal.SIGKILL)
    house.turn("epsilon", play([call("write", path="e.txt", content="e")], say="epsilon-turn")).communicate(timeout=300)
    assert (house.workspace / "e.txt").read_text() == "e"
    assert until(lambda: [pid for pid in house.gates() if pid != before], "another gate")


def test_two_gateways_share_one_gate(house: OpenClawHome, gateway: Gateway, make_house: Any, model: Fake) -> None:
    other = make_house("other").gated(state=str(house.state))
    with gateway_of(other):
        names = until(
            lambda: {
                event["instance"] for event in house.logged("health.ok") if "/openclaw:" in event.get("instance", "")
            },
            "a sign of life",
        )
        until(
            lambda: (
                len(
                    {
                        event["instance"]
                        for event in house.logged("health.ok")
                        if "/openclaw:" in event.get("instance", "")
                    }
                )
                > 1
            ),
            f"a second gateway beside {names}",
        )
        assert len(house.gates()) == 1
