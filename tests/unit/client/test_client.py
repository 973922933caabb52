"""``CallosumClient``: the requests it sends, how it reads responses, and what it does without one."""

import inspect
import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from callosum import wire
from callosum.bootclock import boot_id
from callosum.client import AsyncCallosumClient, CallosumClient, StreamEvent
from callosum.client.asynchronous import ClientOptions
from callosum.client.client import CHORES_EVERY, URL
from callosum.errors import ConfigError, GateUnavailable, StoreUnavailable
from callosum.gate import Gate
from callosum.model import Call, Host, Outcome, State, Verdict
from callosum.process import own_session
from tests.support.clocks import Clock
from tests.support.cpu import HANG
from tests.support.peer import (
    DECISION,
    Peer,
    Request,
    Script,
    by_target,
    close,
    free_port,
    hang,
    lines_of,
    replies,
    sends_bytes,
)
from tests.support.threads import all_at_once

Clients = Callable[..., CallosumClient]

LEASE = {"token": 7, "expires": 1.5, "ttl": 300.0}
REPORT = {"ok": True, "id": 7, "state": "done"}
FAULT = {"error": "too long", "at": "tool"}
STORE = {"error": "the disk is full", "at": "store"}
MAIL = Call("mira", "mail", {"to": "alice@example.com"}, call_id="c-1")
LOOK = Call("mira", "look", {"on": "plan"})


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "TOKEN", "STATE"):
        monkeypatch.delenv(f"CALLOSUM_{name}", raising=False)


@pytest.fixture
def clients() -> Iterator[Clients]:
    made: list[CallosumClient] = []

    def make(url: str | None = None, **more: Any) -> CallosumClient:
        more.setdefault("deadline", 5.0)
        made.append(CallosumClient(url, **more))
        return made[-1]

    yield make
    for client in made:
        client.close()


def quick(client: CallosumClient) -> CallosumClient:
    """Return a client without its periodic background requests."""
    client._chores_at = float("inf")
    return client


def test_client_has_the_methods_of_the_gate() -> None:
    for name, method in inspect.getmembers(Gate, inspect.isfunction):
        if not name.startswith("_"):
            own = inspect.signature(getattr(CallosumClient, name))
            assert str(own) == str(inspect.signature(method)), name


def test_async_client_takes_the_same_arguments() -> None:
    taken = set(inspect.signature(CallosumClient).parameters) - {"url"}
    assert set(ClientOptions.__annotations__) == taken
    public = {name for name, _ in inspect.getmembers(CallosumClient, inspect.isfunction) if not name.startswith("_")}
    client = AsyncCallosumClient()
    assert {name for name in public if not hasattr(client, name)} == set()
    client._close()


@pytest.mark.parametrize(
    "bad", [{"url": "ftp://x"}, {"deadline": 0}, {"deadline": float("nan")}, {"token": "a b"}, {"fallback": {"x": 9}}]
)
def test_invalid_arguments_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        CallosumClient(**bad)
    assert caught.value.at == next(iter(bad))


def test_environment_names_the_gate_and_the_session(
    clients: Clients, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert clients().url == URL == "http://127.0.0.1:7700"
    with Peer(replies({"locks": [], "recentActions": []})) as peer:
        monkeypatch.setenv("CALLOSUM_URL", peer.url)
        monkeypatch.setenv("CALLOSUM_TOKEN", "fr0m-outside")
        clients().status()
        clients(token="given").status()
        assert [request.headers["authorization"] for request in peer.seen] == ["Bearer fr0m-outside", "Bearer given"]


def test_intercept_sends_the_call_and_returns_the_decision(clients: Clients) -> None:
    with Peer(replies({**DECISION, "contextKeys": ["doc:plan"], "rule": "r", "lease": LEASE})) as peer:
        client = quick(clients(peer.url))
        call = Call("mira", "mail", MappingProxyType({"to": "a", "odd": object()}), session="s", host=Host(1, 2.5, "m"))
        decision = client.intercept(call)
        assert (decision.proceed, decision.tier, decision.verdict, decision.id) == (True, 3, Verdict.ALLOW, 7)
        assert decision.lease is not None
        assert (decision.lease.token, decision.context_keys) == (7, ("doc:plan",))
        sent = peer.seen[0].json
        assert (peer.seen[0].method, peer.seen[0].target) == ("POST", "/intercept")
        assert len(sent.pop("callId")) == len(sent.pop("dispatch")) == 32
        assert 4000 < sent.pop("timeoutMs") <= 5000
        assert sent.pop("deadline").startswith(f"{boot_id()}:")
        assert sent == {
            "instance": "mira", "tool": "mail", "params": {"to": "a", "odd": "<object>"}, "session": "s",
            "host": [1, 2.5, "m"],
        }  # fmt: skip
        client.intercept(call)
        client.intercept(MAIL)
        ids = [request.json["callId"] for request in peer.seen]
        assert ids[0] != ids[1]
        assert ids[2] == "c-1"


def test_refused_call_is_returned_and_not_raised(clients: Clients) -> None:
    held = {"kind": "held", "instance": "doug", "tool": "x", "tier": 4, "key": "k", "id": 3, "state": "open", "age": 1}
    no = DECISION | {"proceed": False, "verdict": "block", "conflicts": [held], "conflictCount": 1, "warning": "x"}
    with Peer(replies(no)) as peer:
        decision = clients(peer.url).intercept(MAIL)
        assert (decision.proceed, decision.verdict, decision.conflicts[0].instance) == (False, Verdict.BLOCK, "doug")


ACTS: dict[str, tuple[Callable[[CallosumClient], Any], str, str, Any]] = {
    "complete": (
        lambda c: c.complete("mira", id=7, result={"sent": 1}, outcome="done", session="s", namespace="n"),
        "POST", "/complete",
        {"instance": "mira", "id": 7, "result": {"sent": 1}, "outcome": "done", "session": "s", "namespace": "n"},
    ),
    "complete by key": (lambda c: c.complete("mira", context_key="k"), "POST", "/complete", {"instance": "mira", "contextKey": "k", "session": own_session()}),
    "complete by id alone": (lambda c: c.complete("mira", id=7), "POST", "/complete", {"instance": "mira", "id": 7}),
    "complete by tool": (
        lambda c: c.complete("mira", tool="post", params=MappingProxyType({"a": 1}), action="send"),
        "POST", "/complete",
        {"instance": "mira", "tool": "post", "params": {"a": 1}, "action": "send", "session": own_session()},
    ),
    "release": (
        lambda c: c.release("mira", "thread:andy/#5?a=b&c d\N{SNOWMAN}%2F"),
        "DELETE", f"/lock/thread%3Aandy%2F%235%3Fa%3Db%26c%20d%E2%98%83%252F?instance=mira&session={own_session()}", None,
    ),
    "release by force": (
        lambda c: c.release("", "k", by="kim & co", force=True, namespace="n"),
        "DELETE", "/lock/k?namespace=n&by=kim%20%26%20co&force=true", None,
    ),
    "renew": (lambda c: c.renew("mira", 7, 20.5, session="s"), "POST", "/renew", {"instance": "mira", "id": 7, "ttl": 20.5, "session": "s"}),
    "resolve": (
        lambda c: c.resolve(7, happened=False, by="kim", note="looked"),
        "POST", "/resolve", {"id": 7, "happened": False, "by": "kim", "note": "looked"},
    ),
    "approve": (lambda c: c.approve(7, by="kim", channel="chat"), "POST", "/approvals/7", {"approve": True, "by": "kim", "channel": "chat"}),
    "deny": (lambda c: c.deny(7, namespace="n"), "POST", "/approvals/7", {"approve": False, "namespace": "n"}),
}  # fmt: skip


@pytest.mark.parametrize(("act", "method", "target", "body"), ACTS.values(), ids=ACTS)
def test_operations_that_return_a_report(
    clients: Clients, act: Callable[[CallosumClient], Any], method: str, target: str, body: Any
) -> None:
    with Peer(replies({**REPORT, "lease": LEASE, "note": "late"})) as peer:
        report = act(clients(peer.url))
        assert (report.ok, report.id, report.state, report.lease.token, report.note) == (True, 7, State.DONE, 7, "late")
        (request,) = peer.seen
        assert (request.method, request.target) == (method, target)
        assert (request.json if body is not None else None) == body
        assert body is not None or request.body == b""


def test_lock_is_taken_and_released(clients: Clients) -> None:
    with Peer(replies({"acquired": True, "lease": LEASE, "id": 7})) as peer:
        result = clients(peer.url).lock("mira", "k:1", 4, 20, namespace="n")
        assert result.acquired
        assert result.lease is not None
        sent = peer.seen[0].json
        assert 4000 < sent.pop("timeoutMs") <= 5000
        assert sent.pop("deadline").startswith(f"{boot_id()}:")
        assert sent.pop("session") == own_session()
        assert sent == {"instance": "mira", "contextKey": "k:1", "tier": 4, "ttl": 20, "namespace": "n"}


def test_read_operations(clients: Clients) -> None:
    entry = {"event": "intercept", "session": "mira", "seq": 5, "keys": [["doc:plan", "read"]], "outcome": "done"}
    approval = {"id": 7, "instance": "mira", "tool": "wipe", "tier": 4, "contextKey": None, "at": 1.5, "expires": 2.5}
    script = by_target(
        status=replies({"locks": [], "recentActions": [], "observingUntil": 5.5}),
        journal=replies({"entries": [entry], "cursor": "c2"}),
        approvals=replies({"approvals": [approval]}),
        health=replies({"status": "ok", "version": "1", "store": "ok"}),
        events=replies({"accepted": 2}),
    )
    with Peer(script) as peer:
        client = quick(clients(peer.url))
        assert client.status("doc:a b").observing_until == 5.5
        client.status()
        client.status("", namespace="n")
        page = client.journal("c1", limit=5, session="mira", context_key="k", newest=True, wait=1.5, namespace="n")
        assert (page.cursor, page.entries[0].keys[0].name, page.entries[0].outcome) == ("c2", "doc:plan", Outcome.DONE)
        client.journal()
        client.journal(namespace="default")
        assert client.approvals()[0].tool == "wipe"
        client.approvals(session="mira/desk")
        assert client.health()["status"] == "ok"
        assert client.emit({"type": "input.received", "at": 1}, {"type": "x"}) == 2
        assert [f"{request.method} {request.target}" for request in peer.seen] == [
            "GET /status?contextKey=doc%3Aa%20b", "GET /status", "GET /status?namespace=n",
            "GET /journal?cursor=c1&limit=5&namespace=n&session=mira&contextKey=k&newest=true&wait=1.5",
            "GET /journal", "GET /journal?namespace=default", "GET /approvals", "GET /approvals?session=mira%2Fdesk", "GET /health", "POST /events",
        ]  # fmt: skip
        assert peer.seen[-1].json == [{"type": "input.received", "at": 1}, {"type": "x"}]


def test_a_request_of_json_rpc_means_the_same_over_http(clients: Clients) -> None:
    script = by_target(journal=replies({"entries": [], "cursor": "c2"}), brief=replies({"text": ""}))
    with Peer(script) as peer:
        client = quick(clients(peer.url))
        client.handle(wire.ReadJournal(limit=5))
        client.handle(wire.ReadJournal(namespace=None))
        client.handle(wire.ReadBrief(instance="mira", keys=("doc:a", "doc:b")))
        with pytest.raises(ConfigError, match="GET /brief does not take it") as caught:
            client.handle(wire.ReadBrief(instance="mira", prompt="mend it"))
        assert caught.value.at == "prompt"
        assert [request.target for request in peer.seen] == [
            "/journal?limit=5&namespace=default", "/journal", "/brief?instance=mira&key=doc%3Aa&key=doc%3Ab",
        ]  # fmt: skip


def test_health_of_a_failing_gate_is_returned(clients: Clients) -> None:
    with Peer(replies({"status": "unavailable", "version": "1", "store": "no disk"}, 503)) as peer:
        assert clients(peer.url).health()["store"] == "no disk"


def test_many_events_are_sent_in_pages(clients: Clients) -> None:
    with Peer(lambda request: request.reply({"accepted": len(request.json)})) as peer:
        assert quick(clients(peer.url)).emit(*({"type": "x"} for _ in range(2500))) == 2500
        assert [len(request.json) for request in peer.seen] == [1000, 1000, 500]


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ("lone \udc80 surrogate", "lone \ufffd surrogate"),
        ({"text": "\udc80", "error": "no \udc80"}, {"text": "\ufffd", "error": "no ?"}),
        (b"\xff", "/w=="),
        (object(), "<object>"),
        ({(1, 2): object()}, {"<tuple>": "<object>"}),
        (None, ...),
    ],
)
def test_any_result_is_reported(clients: Clients, result: Any, kept: Any) -> None:
    with Peer(replies(REPORT)) as peer:
        assert clients(peer.url).complete("mira", id=7, result=result).ok
        assert peer.seen[0].json.get("result", ...) == kept


def test_a_result_that_is_too_long_is_cut_and_its_error_kept(clients: Clients) -> None:
    with Peer(replies(REPORT)) as peer:
        client = clients(peer.url)
        client.complete("mira", id=7, result={"text": "x" * 6_000_000, "error": "e" * 600})
        client.complete("mira", id=7, result=_looped())
        sent = [request.json["result"] for request in peer.seen if request.target == "/complete"]
        assert len(sent[0]["text"]) < 300
        assert sent[0]["error"] == "e" * 600
        assert sent[1] == {"again": "<cycle>"}


BAD: dict[str, tuple[Callable[[CallosumClient], Any], str]] = {
    "huge params": (lambda c: c.intercept(Call("mira", "post", {"text": "x" * 4_000_001})), "params"),
    "huge besides": (lambda c: c.intercept(Call("mira", "post", schema={"text": "x" * 5_000_001})), "body"),
    "instance": (lambda c: c.intercept(Call("a\udc80", "post")), "instance"),
    "description": (lambda c: c.intercept(Call("mira", "post", description="\udc80")), "description"),
    "call id": (lambda c: c.intercept(Call("mira", "post", call_id="\udc80")), "callId"),
    "wait": (lambda c: c.intercept(Call("mira", "post", wait=float("nan"))), "wait"),
    "wait as text": (lambda c: c.intercept(Call("mira", "post", wait="5")), "wait"),  # type: ignore[arg-type]
    "no wait": (lambda c: c.intercept(Call("mira", "post", wait=None)), "wait"),  # type: ignore[arg-type]
    "timeout": (lambda c: c.intercept(Call("mira", "post", timeout=float("inf"))), "timeout"),
    "id": (lambda c: c.complete("mira", id=2**200), "id"),
    "id as text": (lambda c: c.renew("mira", "7"), "id"),  # type: ignore[arg-type]
    "id 0": (lambda c: c.approve(0), "id"),
    "id True": (lambda c: c.resolve(True, happened=True), "id"),
    "reporter": (lambda c: c.complete("a\udc80", id=7), "instance"),
    "key": (lambda c: c.lock("mira", "\udc80"), "contextKey"),
    "owner": (lambda c: c.lock("\udc80", "k"), "instance"),
    "ttl": (lambda c: c.lock("mira", "k", ttl=float("nan")), "ttl"),
    "endless ttl": (lambda c: c.renew("mira", 7, float("inf")), "ttl"),
    "no key": (lambda c: c.release("mira", ""), "contextKey"),
    "long key": (lambda c: c.release("mira", "x" * 1025), "contextKey"),
    "key of a status": (lambda c: c.status("a" * 2000), "contextKey"),
    "releaser": (lambda c: c.release("\udc80", "k"), "instance"),
    "tail": (lambda c: c.journal(wait=61), "wait"),
    "event": (lambda c: c.emit({"type": "x"}, {"type": "\udc80"}), "[1]"),
    "last id": (lambda c: c.events(last_id="5\r\nX: y"), "last_id"),
    "outcome": (lambda c: c.remember_late(MAIL, "maybe"), "outcome"),
}


def _looped() -> dict[str, Any]:
    looped: dict[str, Any] = {}
    looped["again"] = looped
    return looped


@pytest.mark.parametrize("odd", [_looped(), "\udc80"], ids=["loop", "broken Unicode"])
def test_params_that_json_cannot_hold_are_summarised(clients: Clients, odd: Any) -> None:
    params = {"to": "alice@example.com", "odd": odd}
    with Peer(by_target(complete=replies(REPORT), other=replies(DECISION))) as peer:
        gate = clients(peer.url)
        gate.intercept(Call("mira", "post", params))
        gate.complete("mira", tool="post", params=params)
        sent = [request.json["params"] for request in peer.seen if request.target in ("/intercept", "/complete")]
    assert sent[0] == sent[1]
    assert sent[0]["to"] == "alice@example.com"


@pytest.mark.parametrize(("act", "at"), BAD.values(), ids=BAD)
def test_unsendable_value_is_refused_with_its_field(
    clients: Clients, act: Callable[[CallosumClient], Any], at: str
) -> None:
    with Peer() as peer:
        with pytest.raises(ConfigError) as caught:
            act(clients(peer.url))
        assert caught.value.at == at
        assert not peer.seen


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 421, 422])
def test_refusal_of_the_gate_names_the_field(clients: Clients, status: int) -> None:
    with Peer(replies(FAULT, status)) as peer:
        client = clients(peer.url, fallback={"mail": 1})
        for act in (lambda: client.intercept(MAIL), client.status, lambda: client.release("mira", "k")):
            with pytest.raises(ConfigError) as caught:
                act()
            assert (caught.value.at, caught.value.message) == ("tool", "too long")
        assert len(peer.seen) == 3


def test_a_call_is_tried_again_under_its_call_id(clients: Clients) -> None:
    scripts: list[Script] = [
        close, sends_bytes(b"what?"), replies({"error": "stopping"}, 503), replies(b"<html>", 502), replies(b"", 504),
        replies(b"{", 200), replies(STORE, 503), replies({"error": "internal"}, 500), replies({"error": "slow down"}, 429),
        replies({**DECISION, "tier": 2}),
    ]  # fmt: skip
    passing = Clock(100.0)
    with Peer(*scripts) as peer:
        client = quick(clients(peer.url, sleep=passing.sleep))
        assert client.intercept(Call("mira", "mail")).tier == 2
        assert len(peer.seen) == len(scripts)
        tries = [request.json for request in peer.seen]
        left = [one.pop("timeoutMs") for one in tries]
        assert left == sorted(left, reverse=True)  # each attempt sends the rest of the deadline
        assert len({one.pop("deadline").partition(":")[0] for one in tries}) == 1
        assert tries == tries[:1] * len(tries)
    assert len(passing.slept) == len(scripts) - 1
    assert all(0.005 <= pause <= 0.2 for pause in passing.slept)
    assert passing.slept[0] <= 0.01
    assert passing.slept[-1] >= 0.1


@pytest.mark.parametrize(
    ("act", "count"),
    [
        (lambda c: c.intercept(MAIL), 2), (lambda c: c.lock("mira", "k"), 2), (lambda c: c.renew("mira", 7), 2),
        (lambda c: c.complete("mira", id=7), 2), (lambda c: c.status(), 2),
        (lambda c: c.complete("mira", context_key="k"), 1), (lambda c: c.handle(wire.Complete(instance="mira")), 1),
        (lambda c: c.complete("mira", tool="post", params={}), 1), (lambda c: c.release("mira", "k"), 1),
        (lambda c: c.resolve(7, happened=True), 1), (lambda c: c.approve(7), 1), (lambda c: c.deny(7), 1),
        (lambda c: c.emit({"type": "x"}), 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kept", [False, True])
def test_only_repeatable_requests_are_sent_again(
    clients: Clients, act: Callable[[CallosumClient], Any], count: int, kept: bool
) -> None:
    """The gate got the request and said nothing; then over a connection that was used before, too."""
    answers = by_target(
        intercept=replies(), lock=replies({"acquired": True}), status=replies({"locks": [], "recentActions": []}),
        events=replies({"accepted": 1}), health=replies({"status": "ok"}), other=replies(REPORT),
    )  # fmt: skip

    def script(request: Request) -> None:
        if request.target != "/health" and not lost:
            lost.append(request)
            close(request)
        answers(request)

    lost: list[Request] = []
    with Peer(script) as peer:
        client = quick(clients(peer.url))
        if kept:
            client.health()
        if count == 1:
            with pytest.raises(GateUnavailable):
                act(client)
        else:
            act(client)
        assert len(peer.seen) == count + kept


@pytest.mark.parametrize("away", [replies({"error": "stopping"}, 503), replies({"error": "wait"}, 429)])
def test_request_that_the_gate_did_not_process_is_sent_again(clients: Clients, away: Script) -> None:
    with Peer(away, replies(REPORT)) as peer:
        assert clients(peer.url).release("mira", "k").ok
        assert len(peer.seen) == 2


def test_gate_that_returns_before_the_deadline_decides(clients: Clients) -> None:
    """A request of any kind that never reached the gate is sent again."""
    port = free_port()
    late: list[Peer] = []

    def sleep(seconds: float) -> None:
        if not late:
            late.append(Peer(replies(REPORT), port=port))

    assert clients(f"http://127.0.0.1:{port}", sleep=sleep).release("mira", "k").ok
    with late[0] as peer:
        assert len(peer.seen) == 1


@pytest.mark.parametrize("then", [replies(STORE, 503), replies({**STORE, "at": wire.OVERLOADED}, 503), close, None])
@pytest.mark.parametrize("id", [None, 7])
@pytest.mark.parametrize(
    "act", [lambda c: c.intercept(LOOK), lambda c: c.lock("mira", "k"), lambda c: c.complete("mira", id=7)]
)
def test_what_the_gate_said_of_its_store_outlives_later_tries(
    clients: Clients, act: Callable[[CallosumClient], Any], id: int | None, then: Script | None
) -> None:
    """A clear error, no decision invented. ``then`` None: the machine is busy, and the pause ends after the deadline."""
    passing = Clock(100.0)
    with Peer(replies({**STORE, "error": "not on disk", "id": id} if id else STORE, 503), then or hang) as peer:
        client = clients(peer.url, sleep=lambda seconds: passing.sleep(seconds if then else 10), clock=passing)
        with pytest.raises(StoreUnavailable, match="not on disk" if id else "the disk is full") as caught:
            act(client)
        assert getattr(caught.value, "id", None) == id
        assert (sum(request.target != "/late" for request in peer.seen) > 1) is (then is not None)


@pytest.mark.parametrize("id", [None, 7])
def test_call_whose_decision_may_be_in_force_is_given_up(clients: Clients, id: int | None) -> None:
    passing = Clock(100.0)
    with Peer(replies({**STORE, "id": id} if id else STORE, 503)) as peer:
        client = clients(peer.url, sleep=lambda _: passing.sleep(10), clock=passing)
        with pytest.raises(StoreUnavailable):
            client.intercept(LOOK)
        assert client._spool.waiting() is (id is not None)


def test_a_call_may_wait_longer_than_the_deadline(clients: Clients) -> None:
    passing = Clock(100.0)

    def slow(request: Request) -> None:
        passing.now += 8
        request.reply()

    with Peer(slow) as peer:
        assert clients(peer.url, clock=passing).intercept(Call("mira", "mail", wait=5)).proceed


def test_absent_gate_is_not_awaited(clients: Clients) -> None:
    passing = Clock(100.0)
    client = clients(f"http://127.0.0.1:{free_port()}", deadline=1.0, sleep=passing.sleep, clock=passing)
    with pytest.raises(GateUnavailable):
        client.intercept(Call("mira", "mail", wait=60))
    assert passing.now <= 101


def test_interrupted_wait_continues_with_its_remaining_time(clients: Clients) -> None:
    passing = Clock(100.0)

    def cut(request: Request) -> None:
        passing.now += 20
        close(request)

    with Peer(cut, close, Request.reply) as peer:
        client = clients(peer.url, deadline=1.0, sleep=passing.sleep, clock=passing)
        assert client.intercept(Call("mira", "mail", call_id="c", wait=30)).proceed
        first, second, third = (request.json for request in peer.seen)
        assert first["wait"] == 30
        assert 9 < third["wait"] < second["wait"] < 10
        assert {request.json["callId"] for request in peer.seen} == {"c"}


@pytest.fixture
def dead() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.parametrize(
    ("table", "tool", "highest", "tier", "runs"),
    [
        ({"look": 0}, "look", 2, 0, True), ({"look": 2}, "look", 2, 2, True), ({"look": 3}, "look", 2, 3, False),
        ({"look": 4}, "look", 2, 4, False), ({"look": 0}, "unknown", 2, 3, False), ({"bash": 0}, "bash", 2, 3, False),
        ({"look": 1}, "look", 0, 1, False), ({"look": 3}, "look", 3, 3, True), (None, "look", 2, 3, False),
    ],
)  # fmt: skip
def test_fallback_table_decides_without_a_gate(
    clients: Clients, dead: str, table: Any, tool: str, highest: int, tier: int, runs: bool
) -> None:
    client = clients(dead, deadline=0.02, fallback=table, highest=highest)
    if runs:
        decision = client.intercept(Call("mira", tool))
        assert (decision.proceed, decision.verdict, decision.tier) == (True, Verdict.ALLOW, tier)
        assert (decision.fallback, decision.id, decision.lease, decision.context_key) == (True, 0, None, None)
    else:
        with pytest.raises(GateUnavailable, match=f"tier {tier}") as caught:
            client.intercept(Call("mira", tool))
        assert caught.value.__cause__ is not None


def test_other_operations_have_no_fallback(clients: Clients, dead: str) -> None:
    client = clients(dead, deadline=0.02, fallback={"look": 0})
    for act in (client.status, lambda: client.complete("mira", id=7), lambda: client.lock("mira", "k"), client.health):
        with pytest.raises(GateUnavailable, match="cannot be asked"):
            act()
    with pytest.raises(GateUnavailable):
        client.events()


def test_closed_client_allows_nothing(clients: Clients) -> None:
    with Peer() as peer:
        client = clients(peer.url, fallback={"look": 0})
        client.intercept(LOOK)
        client.close()
        with pytest.raises(GateUnavailable, match="closed"):
            client.intercept(LOOK)
        client.close()


def serve(port: int = 0, late: Script | None = None, table: Any = None) -> Peer:
    return Peer(
        by_target(
            intercept=replies(),
            late=late or replies({"accepted": 1}),
            fallback=replies({"tools": table or {"look": 0}}),
            complete=replies(REPORT),
        ),
        port=port,
    )


def test_fallback_table_is_fetched_with_the_second_response(clients: Clients) -> None:
    passing = Clock(100.0)
    with serve() as peer:
        client = clients(peer.url, clock=passing, sleep=passing.sleep)
        client.intercept(MAIL)
        assert [request.target for request in peer.seen] == ["/intercept"]
        client.intercept(MAIL)
        client.intercept(MAIL)
        assert [request.target for request in peer.seen] == ["/intercept", "/intercept", "/fallback", "/intercept"]
        passing.now += 1000
        client.intercept(MAIL)
        assert peer.seen[-1].target == "/fallback"
    client.deadline = 0.02
    assert client.intercept(LOOK).fallback


@pytest.mark.parametrize("answer", [replies({"tools": {"look": 9}}), replies([]), replies(b"<html>", 404), close])
def test_malformed_fallback_table_is_ignored(clients: Clients, answer: Script) -> None:
    with Peer(by_target(intercept=replies(), fallback=answer)) as peer:
        client = clients(peer.url)
        for _ in range(3):
            client.intercept(MAIL)
    client.deadline = 0.02
    with pytest.raises(GateUnavailable):
        client.intercept(LOOK)


@pytest.mark.parametrize("where", ["memory", "file"])
def test_calls_made_without_the_gate_are_journalled_late(clients: Clients, tmp_path: Path, where: str) -> None:
    port = free_port()
    state = tmp_path / "state" if where == "file" else None
    client = clients(f"http://127.0.0.1:{port}", deadline=0.02, fallback={"look": 0, "note": 2}, state=state)
    client.intercept(LOOK)
    note = Call("mira", "note", {"password": "hunter2hunter2"}, call_id="c-2", session="s")
    client.intercept(note)
    client.remember_late(note, Outcome.FAILED)
    client.remember_late(LOOK, "done")
    if state is not None:
        assert len(lines_of(state)) == 4
        assert "hunter2" not in (state / "late.jsonl").read_text()
    client.deadline = 5
    with serve(port) as peer:
        client.intercept(MAIL)
        client.intercept(MAIL)
        (sent,) = peer.bodies("/late")
        assert {one["call"]["tool"]: one["outcome"] for one in sent["calls"]} == {"look": "done", "note": "failed"}
        assert sent["calls"][1]["call"]["callId"] == "c-2"
        if state is not None:
            assert "hunter2" not in json.dumps(sent)
    assert state is None or lines_of(state) == []


def test_short_lived_process_leaves_its_late_calls_to_the_next_one(clients: Clients, dead: str, tmp_path: Path) -> None:
    with CallosumClient(dead, deadline=0.02, fallback={"look": 0}, state=tmp_path) as client:
        client.intercept(LOOK)
    with serve() as peer, CallosumClient(peer.url, state=tmp_path) as client:
        client.intercept(MAIL)
        assert [request.target for request in peer.seen] == ["/late", "/intercept"], "told before it decides"


@pytest.mark.parametrize(
    "answer",
    [close, replies(b"<html>", 502), replies(STORE, 503), replies({"error": "no", "at": "Authorization"}, 401)],
)
def test_late_calls_are_kept_if_the_gate_does_not_accept_them(
    clients: Clients, dead: str, tmp_path: Path, answer: Script
) -> None:
    with CallosumClient(dead, deadline=0.02, fallback={"look": 0}, state=tmp_path) as client:
        client.intercept(LOOK)
    passing = Clock(100.0)
    with serve(late=answer) as peer:
        client = clients(peer.url, state=tmp_path, clock=passing, sleep=passing.sleep)
        for _ in range(5):
            client.intercept(MAIL)
        assert len(peer.bodies("/late")) == 1  # not at every call
        peer.scripts[:] = [
            by_target(intercept=replies(), late=replies({"accepted": 1}), fallback=replies({"tools": {}}))
        ]
        passing.now += CHORES_EVERY
        client.intercept(MAIL)
        assert len(peer.bodies("/late")) == 2
    assert lines_of(tmp_path) == []


def test_a_late_call_that_the_gate_refuses_is_given_up(clients: Clients, dead: str, tmp_path: Path) -> None:
    def late(request: Request) -> None:
        for place, one in enumerate(request.json["calls"]):
            if one["call"]["params"]["on"] == 2:
                request.reply({"error": "no", "at": f"calls[{place}].call.tool"}, 400)
                return
        request.reply({"accepted": len(request.json["calls"])})

    with CallosumClient(dead, deadline=0.02, fallback={"look": 0}, state=tmp_path) as client:
        for number in range(4):
            client.intercept(Call("mira", "look", {"on": number}))
    with serve(late=late) as peer:
        clients(peer.url, state=tmp_path).intercept(MAIL)
        pages = [[one["call"]["params"]["on"] for one in body["calls"]] for body in peer.bodies("/late")]
        assert pages == [[0, 1, 2, 3], [0, 1, 3]]
    assert lines_of(tmp_path) == []


def test_late_calls_of_other_instances_are_left_to_them(clients: Clients, dead: str, tmp_path: Path) -> None:
    with CallosumClient(dead, deadline=0.02, fallback={"look": 0}, state=tmp_path) as client:
        for name in ("mira", "doug"):
            client.intercept(Call(name, "look"))

    def late(request: Request) -> None:
        for place, one in enumerate(request.json["calls"]):
            if one["call"]["instance"] != "mira":
                request.reply({"error": "not yours", "at": f"calls[{place}].call.instance"}, 403)
                return
        request.reply({"accepted": 1})

    with serve(late=late) as peer:
        clients(peer.url, state=tmp_path).intercept(MAIL)
    assert [one["call"]["instance"] for one in lines_of(tmp_path)] == ["doug"]


def test_late_calls_held_only_in_memory_are_sent_when_the_client_is_closed() -> None:
    with serve() as peer:
        client = quick(CallosumClient(peer.url, fallback={"look": 0}))
        client._met = True
        client.fallback(LOOK, GateUnavailable("away"))
        client.close()
        assert len(peer.bodies("/late")) == 1


def test_a_slow_intake_of_late_calls_costs_no_more_than_the_deadline(dead: str, tmp_path: Path) -> None:
    with CallosumClient(dead, deadline=0.02, fallback={"look": 0}, state=tmp_path) as client:
        client.intercept(LOOK)
    with serve(late=hang) as peer, CallosumClient(peer.url, deadline=1, state=tmp_path) as client:
        began = time.monotonic()
        assert not client.intercept(MAIL).fallback
        assert time.monotonic() - began < HANG
    assert len(lines_of(tmp_path)) == 1


def test_gate_is_started_if_none_listens(clients: Clients, tmp_path: Path) -> None:
    path = tmp_path / "gate.sock"
    started: list[Peer] = []

    def start(seconds: float) -> None:
        assert 0 < seconds <= 5
        started.append(Peer(path=path))

    client = clients(f"unix:{path}", start=start)
    assert client.intercept(MAIL).proceed
    with started[0] as peer:
        assert len(peer.seen) == 1
        client.intercept(MAIL)
    assert len(started) == 1


def test_a_start_that_fails_is_tried_once(clients: Clients, dead: str) -> None:
    tried: list[float] = []

    def start(seconds: float) -> None:
        tried.append(seconds)
        raise OSError("no such program")

    client = clients(dead, deadline=0.05, start=start, fallback={"look": 0})
    assert client.intercept(LOOK).fallback
    assert len(tried) == 1


def test_a_gate_that_hangs_is_not_started_again(clients: Clients) -> None:
    with Peer(hang) as peer:
        client = clients(peer.url, deadline=0.1, start=pytest.fail, fallback={"look": 0})
        assert client.intercept(LOOK).fallback


OPEN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n"


def stream(*events: str, then: Script = close) -> Script:
    return sends_bytes(OPEN + "".join(f"{event}\n\n" for event in events).encode(), then=then)


def test_events_continue_after_a_lost_connection(clients: Clients) -> None:
    first = stream('id: 1\nevent: safety.blocked\ndata: {"toolName": "wipe"}', "retry: 1")
    second = stream("id: 2\nevent: odd\ndata: no JSON", then=hang)
    with Peer(first, replies(b"", 502), close, second) as peer:
        with clients(peer.url).events("safety.*,tool.called", last_id="0", namespace="n") as events:
            assert next(events) == StreamEvent("1", "safety.blocked", {"toolName": "wipe"})
            assert next(events) == StreamEvent("2", "odd", "no JSON")
        assert peer.seen[0].target == "/events?types=safety.%2A%2Ctool.called&namespace=n"
        assert [request.headers.get("last-event-id") for request in peer.seen] == ["0", "1", "1", "1"]
        assert peer.seen[0].headers["accept"] == "text/event-stream"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (replies(FAULT, 400), ConfigError),
        (replies(FAULT, 403), ConfigError),
        (replies({"error": "x"}, 503), GateUnavailable),
        (replies(STORE, 503), GateUnavailable),
        (replies({}), GateUnavailable),
        (close, GateUnavailable),
        (sends_bytes(b"what"), GateUnavailable),
        (sends_bytes(b"HTTP/1.1 500 X\r\nContent-Length: 5\r\n\r\n"), GateUnavailable),
    ],
)
def test_stream_that_cannot_be_opened_is_an_error(clients: Clients, answer: Script, error: type[Exception]) -> None:
    with Peer(answer) as peer:
        client = clients(peer.url)
        with pytest.raises(error):
            client.events()
        assert not client._transport._busy
        assert not client._streams


@pytest.mark.parametrize("ends", ["stream", "client"])
def test_stream_can_be_ended_by_another_thread(clients: Clients, ends: str) -> None:
    with Peer(stream("data: 1", then=hang)) as peer:
        client = clients(peer.url)
        events = client.events()
        read: list[StreamEvent] = []
        first = threading.Event()

        def work() -> None:
            for event in events:
                read.append(event)
                first.set()

        thread = threading.Thread(target=work)
        thread.start()
        first.wait(10)
        (events if ends == "stream" else client).close()
        thread.join(10)
        assert not thread.is_alive()
        assert read == [StreamEvent("", "message", 1)]
        assert list(events) == []
        events.close()


def test_stream_that_waits_to_reconnect_can_be_ended(clients: Clients) -> None:
    with Peer(stream("retry: 9000", then=close)) as peer:
        events = clients(peer.url).events()
        waits = threading.Event()
        real = events._wait

        def wait(seconds: float) -> bool:
            waits.set()
            return real(seconds)

        events._events._wait = wait
        thread = threading.Thread(target=list, args=(events,))
        thread.start()
        waits.wait(10)
        events.close()
        thread.join(10)
        assert not thread.is_alive()


def test_token_is_never_shown(dead: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = "s3cret-t0ken"
    said: list[str] = []
    with CallosumClient(dead, token=token, deadline=0.02, fallback={"look": 0}) as client:
        client.intercept(LOOK)
        said += [repr(client), str(client), repr(client._transport), repr(client._transport._idle)]
        for act in (client.status, lambda: client.intercept(MAIL)):
            with pytest.raises(GateUnavailable) as caught:
                act()
            error: BaseException | None = caught.value
            while error is not None:
                said += [str(error), repr(error)]
                error = error.__cause__ or error.__context__
    assert token not in "".join(said) + caplog.text


def test_eight_threads_share_one_client(clients: Clients) -> None:
    def echo(request: Request) -> None:
        if request.target == "/intercept":
            if random.random() < 0.1:
                close(request)
            request.reply({**DECISION, "id": request.json["params"]["n"]})
        else:
            by_target(fallback=replies({"tools": {}}))(request)

    with Peer(echo) as peer:
        client = clients(peer.url)
        wrong: list[tuple[int, int]] = []

        def work(first: int) -> None:
            for number in range(first, first + 20):
                found = client.intercept(Call("mira", "post", {"n": number})).id
                if found != number:
                    wrong.append((number, found))

        all_at_once([partial(work, 1 + 100 * place) for place in range(8)])
        assert wrong == []
        assert len(client._transport._idle) <= 9
