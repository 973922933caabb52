"""Whatever happens to the gate, a client decides in its own time: reading goes on, grave calls do not run.

Each fault is a real peer on a real socket; the last tests are a real server that is killed.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from callosum import Call, GateUnavailable, guard
from callosum.client import CallosumClient
from callosum.model import Event, Verdict
from callosum.process import own_session
from tests.support.clocks import Clock
from tests.support.cpu import HANG
from tests.support.peer import (
    DECISION,
    Hang,
    Peer,
    Request,
    Script,
    by_target,
    close,
    free_port,
    full_backlog,
    hang,
    lines_of,
    replies,
    sends_bytes,
)
from tests.support.serving import launch, serving

DEADLINE = 0.1
"""A busy machine may take this much longer, in seconds."""
TABLE = {"look": 0, "note": 1, "say": 2, "mail": 3, "wipe": 4}


def endless(piece: bytes) -> Script:
    def script(request: Request) -> None:
        request.raw(b"HTTP/1.1 200 OK\r\n")
        while True:
            request.raw(piece)

    return script


def answers_late(request: Request) -> None:
    """After the client has given up, which shows in its closing."""
    request.connection.recv(1)
    request.reply()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
FAULTS: dict[str, Script] = {
    "hangs": hang,
    "closes": close,
    "half a head": sends_bytes(b"HTTP/1.1 200 OK\r\nConte"),
    "half an answer": sends_bytes(HEAD + b'Content-Length: 400\r\n\r\n{"proceed": tr'),
    "half an answer, then hangs": sends_bytes(HEAD + b'Content-Length: 400\r\n\r\n{"proceed": tr', then=hang),
    "half a chunk": sends_bytes(HEAD + b'Transfer-Encoding: chunked\r\n\r\nff\r\n{"proceed"'),
    "garbage": sends_bytes(os.urandom(2000)),
    "another protocol": sends_bytes(b"220 mail.example.com ESMTP\r\n", then=hang),
    "no JSON": replies(b"proceed: yes"),
    "half of JSON": replies(b'{"proceed": true, "tier": 3'),
    "JSON of another shape": replies([1, 2, 3]),
    "a wrong type": replies({**DECISION, "proceed": "yes"}),
    "a missing field": replies({"proceed": True, "tier": 1}),
    "a verdict that nobody knows": replies({**DECISION, "verdict": "maybe"}),
    "a tier that nobody knows": replies({**DECISION, "tier": 9}),
    "a contradiction": replies({**DECISION, "proceed": True, "verdict": "block"}),
    "deep nesting": replies(b"[" * 200_000),
    "500 with HTML": replies(b"<html><h1>Internal Server Error</h1></html>", 500),
    "404 with HTML": replies(b"<html>nginx</html>", 404),
    "404 of another program": replies({"detail": "Not Found"}, 404),
    "502": replies(b"Bad Gateway", 502),
    "503": replies(b"", 503),
    "redirects": sends_bytes(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", then=hang),
    "200 with HTML": replies(b"<html>captive portal</html>"),
    "204": sends_bytes(b"HTTP/1.1 204 No Content\r\n\r\n", then=hang),
    "endless headers": endless(b"X-More: and more\r\n"),
    "endless header": endless(b"x" * 1000),
    "endless hints": sends_bytes(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000, then=hang),
    "endless body": sends_bytes(b"HTTP/1.1 200 OK\r\n", then=endless(b"\r\n" + b" " * 65536)),
    "endless chunks": sends_bytes(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", then=endless(b"1\r\n \r\n")),
    "a length beyond all bounds": sends_bytes(HEAD + b"Content-Length: 99999999999\r\n\r\n{}", then=hang),
    "answers too late": answers_late,
}  # fmt: skip


@contextmanager
def timed() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < HANG


def decides_alone(url: str) -> None:
    """The low call runs and the grave ones do not, each in time."""
    with CallosumClient(url, deadline=DEADLINE, fallback=TABLE) as client:
        with timed():
            decision = client.intercept(Call("mira", "look", {"on": "plan"}))
        assert (decision.proceed, decision.fallback, decision.verdict, decision.tier) == (True, True, Verdict.ALLOW, 0)
        ran = []
        with timed(), guard(client, Call("mira", "say")):
            ran.append("say")
        for tool in ("mail", "nobody knows this"):
            with timed(), pytest.raises(GateUnavailable), guard(client, Call("mira", tool)):
                ran.append(tool)
        assert ran == ["say"]


@pytest.mark.parametrize(
    ("fault", "over"),
    [*((name, "tcp") for name in FAULTS), *((name, "unix") for name in ("hangs", "closes", "garbage", "endless body"))],
)
def test_a_gate_that_misbehaves(fault: str, over: str, tmp_path: Path) -> None:
    with Peer(FAULTS[fault], path=tmp_path / "gate.sock" if over == "unix" else None) as peer:
        decides_alone(peer.url)


def test_address_at_which_nobody_answers(tmp_path: Path) -> None:
    decides_alone(f"http://127.0.0.1:{free_port()}")
    decides_alone(f"unix:{tmp_path}/gate.sock")
    with full_backlog() as url:
        decides_alone(url)


def test_a_gate_that_answers_is_not_second_guessed() -> None:
    """The control: the same calls, and a gate that says no to the low one and yes to the grave one."""

    def script(request: Request) -> None:
        no = {**DECISION, "proceed": False, "verdict": "block", "tier": 0}
        request.reply(no if request.json["tool"] == "look" else {**DECISION, "tier": 4})

    with (
        Peer(by_target(intercept=script, fallback=replies({"tools": TABLE}))) as peer,
        CallosumClient(peer.url, deadline=5, fallback=TABLE) as client,
    ):
        assert not client.intercept(Call("mira", "look")).proceed
        assert client.intercept(Call("mira", "wipe")).proceed


def test_an_answer_that_comes_too_late_is_nobodys() -> None:
    """It must not be taken for the answer to the next call."""
    with (
        Peer(answers_late, replies({**DECISION, "id": 8, "tier": 0})) as peer,
        CallosumClient(peer.url, deadline=DEADLINE, fallback=TABLE) as client,
    ):
        assert client.intercept(Call("mira", "look", {"n": 1})).fallback
        client.deadline = 5
        assert client.intercept(Call("mira", "look", {"n": 2})).id == 8


def test_a_tool_that_ran_meanwhile_is_journalled_with_its_outcome() -> None:
    """Also where the gate is there and its store is not."""
    away, passing = replies({"error": "the disk is full", "at": "store"}, 503), Clock()
    with (
        Peer(away) as peer,
        CallosumClient(peer.url, deadline=5, fallback=TABLE, clock=passing, sleep=passing.sleep) as client,
    ):
        with guard(client, Call("mira", "look")):
            pass
        with pytest.raises(ZeroDivisionError), guard(client, Call("mira", "say")):
            raise ZeroDivisionError
        with pytest.raises(GateUnavailable, match="the disk is full"), guard(client, Call("mira", "mail")):
            pytest.fail("it ran")
        peer.scripts[:] = [
            by_target(intercept=replies(), late=replies({"accepted": 2}), fallback=replies({"tools": {}}))
        ]
        client.intercept(Call("mira", "mail"))
        late = peer.bodies("/late")[-1]  # the last of several tries
        assert [(one["call"]["tool"], one["outcome"]) for one in late["calls"]] == [("look", "done"), ("say", "failed")]


@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
def test_call_that_a_dying_gate_received_is_given_up_though_the_last_try_met_nobody(kept: bool) -> None:
    """The gate may have opened a lease before it died; that nobody listens afterwards says nothing of that."""
    port = free_port()
    stopping: list[threading.Thread] = []

    def die(request: Request) -> None:
        stopping.append(threading.Thread(target=peer.stop))
        stopping[0].start()
        raise Hang

    peer = Peer(*([replies({**DECISION, "tier": 0})] if kept else []), die, port=port)
    with CallosumClient(peer.url, deadline=2, fallback=TABLE) as client:
        if kept:
            client.intercept(Call("mira", "look"))
        with pytest.raises(GateUnavailable, match="no connection"):
            client.intercept(Call("mira", "wipe", call_id="c1"))
        stopping[0].join()
        with Peer(by_target(late=replies({"accepted": 1})), port=port) as back:
            client.deadline = 10
            assert client.flush()
            ((given_up,),) = (sent["calls"] for sent in back.bodies("/late"))
            assert (given_up["kind"], given_up["call"]["callId"]) == ("cancel", "c1")


def test_call_that_no_gate_received_is_not_given_up() -> None:
    """The control."""
    passing, url = Clock(), f"http://127.0.0.1:{free_port()}"
    with CallosumClient(url, deadline=5, fallback=TABLE, clock=passing, sleep=passing.sleep) as client:
        with pytest.raises(GateUnavailable, match="refused"):
            client.intercept(Call("mira", "wipe"))
        assert not client._spool.waiting()


def test_a_server_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    """Between two calls: the client goes on, the same call is the same decision, late calls are journalled."""
    path = tmp_path / "gate.sock"
    state, own = tmp_path / "state", tmp_path / "client"
    server = launch(state, "--socket", str(path))
    mail = Call(
        "mira", "send_email", {"to": "alice@example.com", "body": "Friday works for me."}, call_id="c-1", dispatch="d"
    )
    with CallosumClient(f"unix:{path}", deadline=20.0, state=own) as client:
        try:
            first = client.intercept(mail)
            client.status()  # from now on it knows the tiers
            assert first.lease is not None
        finally:
            server.kill()
        client.deadline = DEADLINE
        with timed():
            assert client.intercept(Call("mira", "Read", {"file_path": "/plan"})).fallback
        with timed(), pytest.raises(GateUnavailable):
            client.intercept(mail)
        assert len(lines_of(own)) == 1
        client.deadline = 20.0
        with serving(state, "--socket", str(path)):
            again = client.intercept(mail)
            assert (again.id, again.repeated, again.lease) == (first.id, True, first.lease)
            assert client.complete("mira", id=first.id).ok
            late = [entry for entry in client.journal(newest=True, limit=10).entries if entry.event is Event.LATE]
            assert [(entry.session, entry.tool) for entry in late] == [(f"mira/{own_session()}", "Read")]
            assert not lines_of(own)
