"""Unknown fields of a request are refused by name, and different versions of client and server work together."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from callosum.client import CallosumClient
from callosum.errors import ConfigError
from callosum.model import Call
from callosum.wire import FIELDS, OPTIONAL
from tests.support.peer import DECISION, Peer, Request, by_target, replies
from tests.support.previous import Previous
from tests.support.serving import Server

CALL: Final = {"instance": "mira", "tool": "look", "params": {"on": "plan"}}
REFUSED: Final[list[tuple[str, str, dict[str, Any], str, str]]] = [
    ("POST", "/intercept", {**CALL, "parms": {}}, "parms", "params"),
    ("POST", "/intercept", {**CALL, "call_id": "c"}, "call_id", "callId"),
    ("POST", "/intercept", {**CALL, "Session": "c"}, "Session", "session"),
    ("POST", "/intercept", {**CALL, "zzzzzz": 1}, "zzzzzz", ""),
    ("POST", "/complete", {"instance": "mira", "contextKey": "a:b", "outcom": "failed"}, "outcom", "outcome"),
    ("POST", "/lock", {"instance": "mira", "contextKey": "a:b", "ttll": 5}, "ttll", "ttl"),
    ("DELETE", "/lock/a%3Ab", {"instance": "mira", "forced": True}, "forced", "force"),
    ("DELETE", "/lock/a%3Ab?instance=mira&sesion=x", {}, "sesion", "session"),
    ("POST", "/renew", {"instance": "mira", "id": 5, "sesion": "x"}, "sesion", "session"),
    ("POST", "/resolve", {"id": 5, "happend": True, "happened": True}, "happend", "happened"),
    ("POST", "/approvals/5", {"approve": True, "buy": "anna"}, "buy", "by"),
    ("GET", "/status?contextkey=a%3Ab", {}, "contextkey", "contextKey"),
    ("GET", "/journal?limits=5", {}, "limits", "limit"),
    ("GET", "/brief?instance=mira&budge=5", {}, "budge", "budget"),
]


@pytest.mark.parametrize(("method", "path", "body", "at", "near"), REFUSED)
def test_an_unknown_field_is_refused_with_its_name_and_the_nearest_known_one(
    server: Server, method: str, path: str, body: dict[str, Any], at: str, near: str
) -> None:
    answer = server.ask(method, path, body or None)
    hint = f'; the nearest known one is "{near}"' if near else ""
    assert (answer.status, answer.body) == (400, {"error": f'unknown field "{at}"{hint}', "at": at})


def test_an_unknown_field_opens_nothing(server: Server) -> None:
    assert server.ask("POST", "/intercept", {"instance": "mira", "tool": "pay", "parms": {"to": "x"}}).status == 400
    assert server.get("/status")["locks"] == []


def test_hostile_field_name_is_shown_escaped(server: Server) -> None:
    answer = server.ask("POST", "/intercept", {**CALL, "\u202e`\x1b[2J" + "x" * 5000: 1})
    assert answer.status == 400
    assert answer.body["error"].isprintable()
    assert len(answer.body["error"]) < 300


def test_meta_is_free_and_journalled_as_a_summary(server: Server) -> None:
    meta = {"ticket": {"number": 7}, "password": "hunter2hunter2", "parms": [1]}
    server.post("/intercept", {**CALL, "instance": "meta", "callId": "meta-1", "meta": meta})
    (entry,) = server.get("/journal?session=meta")["entries"]
    assert entry["body"]["meta"]["ticket"] == {"number": 7}
    assert "hunter2" not in json.dumps(entry)
    answer = server.ask("POST", "/intercept", {**CALL, "meta": 7})
    assert (answer.status, answer.body["at"]) == (400, "meta")


def test_health_lists_the_fields(server: Server) -> None:
    assert server.get("/health")["fields"] == list(FIELDS)
    assert {"instance", "tool", "params", "contextKey", "result", "deadline", "timeoutMs", "meta"} <= set(FIELDS)


@pytest.mark.parametrize("name", ["instance", "session", "namespace", "run", "parent", "continues", "callId", "tool"])
def test_an_empty_name_is_refused_and_never_shared(server: Server, name: str) -> None:
    answer = server.ask("POST", "/intercept", {**CALL, name: ""})
    assert (answer.status, answer.body["at"]) == (400, name)


@pytest.mark.parametrize("name", ["instance", "session", "namespace"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/complete", {"instance": "mira", "contextKey": "a:b"}),
        ("POST", "/lock", {"instance": "mira", "contextKey": "a:b"}),
        ("DELETE", "/lock/a%3Ab", {"instance": "mira"}),
        ("POST", "/renew", {"instance": "mira", "id": 5}),
    ],
)
def test_empty_instance_or_session_is_refused_everywhere(
    server: Server, method: str, path: str, body: dict[str, Any], name: str
) -> None:
    answer = server.ask(method, path, {**body, name: ""})
    assert (answer.status, answer.body["at"]) == (400, name)


def _refusing(*fields: str, seen: list[dict[str, Any]]) -> Any:
    """A gate that knows none of the fields."""

    def answer(request: Request) -> None:
        seen.append(request.json)
        unknown = next((name for name in fields if name in request.json), None)
        if unknown is None:
            request.reply(DECISION)
        else:
            request.reply({"error": f'unknown field "{unknown}"', "at": unknown}, 400)

    return answer


def test_a_client_drops_an_optional_field_once_and_does_not_send_it_again() -> None:
    seen: list[dict[str, Any]] = []
    script = by_target(intercept=_refusing("deadline", seen=seen), other=replies({"tools": {}}))
    with Peer(script) as peer, CallosumClient(peer.url) as client:
        assert client.intercept(Call("mira", "look")).id == 7
        assert client.intercept(Call("mira", "look")).id == 7
    assert ["deadline" in body for body in seen] == [True, False, False]
    assert all("timeoutMs" in body for body in seen)


def test_client_drops_only_one_field_of_a_request() -> None:
    seen: list[dict[str, Any]] = []
    script = by_target(intercept=_refusing("deadline", "timeoutMs", seen=seen), other=replies({"tools": {}}))
    with Peer(script) as peer, CallosumClient(peer.url) as client:
        with pytest.raises(ConfigError, match="timeoutMs"):
            client.intercept(Call("mira", "look"))
        assert client.intercept(Call("mira", "look")).id == 7
    assert len(seen) == 4


def test_client_never_drops_a_field_that_identifies_the_call() -> None:
    seen: list[dict[str, Any]] = []
    with Peer(_refusing("params", seen=seen)) as peer, CallosumClient(peer.url) as client:
        with pytest.raises(ConfigError, match="params"):
            client.intercept(Call("mira", "look", {"on": "plan"}))
        assert len(seen) == 1


@pytest.mark.parametrize(("health", "sent"), [({"fields": ["meta"]}, True), ({"fields": ["tool"]}, False), ({}, False)])
def test_a_client_sends_a_newer_field_only_to_a_gate_that_lists_it(health: dict[str, Any], sent: bool) -> None:
    script = by_target(health=replies({"status": "ok", **health}), other=replies(DECISION))
    with Peer(script) as peer, CallosumClient(peer.url) as client:
        for _ in range(2):
            client.intercept(Call("mira", "look", meta={"ticket": 7}))
        asked = [request for request in peer.seen if request.target == "/intercept"]
        assert [("meta" in request.json) for request in asked] == [sent, sent]
        assert len([request for request in peer.seen if request.target == "/health"]) == 1


def test_every_field_that_is_optional_is_one_of_a_call_or_a_lock() -> None:
    known = dict(zip(Call.__struct_encode_fields__, Call.__struct_fields__, strict=True))
    defaults = Call("mira", "look")
    for name, (attribute, default) in OPTIONAL.items():
        assert known[name] == attribute
        assert getattr(defaults, attribute) == default


_OLD_CLIENT: Final = """
import sys
from callosum import Call
from callosum.client import CallosumClient
with CallosumClient(sys.argv[1], state=sys.argv[2], deadline=30) as gate:
    call = Call("old", "act", {"on": "plan"}, session="s", cwd="/", pause=True, timeout=5, rewrite=True, after=1,
                task_id="t", attempt=2, run="r", wait=0.1)
    decision = gate.intercept(call)
    assert decision.proceed, decision
    assert gate.complete("old", id=decision.id, session="s").ok
    lock = gate.lock("old", "a:b", ttl=5)
    assert lock.acquired and gate.renew("old", lock.lease.token).ok and gate.release("old", "a:b").ok
    gate.status("a:b"); gate.journal(limit=5, newest=True); gate.brief("old", "s"); gate.approvals()
    print("well")
"""


def test_a_client_of_the_previous_version_works_with_this_server(
    server: Server, previous: Previous, tmp_path: Path
) -> None:
    assert previous.run("-c", _OLD_CLIENT, server.address, str(tmp_path)).strip() == "well"


def test_this_client_works_with_a_server_of_the_previous_version(previous: Previous, tmp_path: Path) -> None:
    with previous.serving(tmp_path / "state", environ={}) as old, CallosumClient(old.address, deadline=30) as gate:
        call = Call("new", "act", {"on": "plan"}, session="s", meta={"ticket": 7}, task_id="t", attempt=2)
        decision = gate.intercept(call)
        assert decision.proceed
        assert gate.complete("new", id=decision.id, session="s").ok
        lock = gate.lock("new", "a:b", ttl=5)
        assert lock.acquired
        assert gate.release("new", "a:b").ok
