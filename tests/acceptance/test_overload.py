"""An overloaded server: requests that come too late are refused at once, and nothing is lost."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pytest

from callosum import Call
from callosum.client import CallosumClient
from callosum.client.client import BUSY_PAUSE
from callosum.errors import GateUnavailable
from callosum.server.writer import BATCH
from callosum.wire import OVERLOADED
from tests.support.peer import Peer, Request
from tests.support.serving import Server, until

CROWD = BATCH + 16


@contextmanager
def file_held(server: Server) -> Iterator[None]:
    """Hold the file in another process, so that the server cannot write."""
    with closing(sqlite3.connect(server.state / "gate.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        try:
            yield
        finally:
            other.execute("rollback")


def intercept(server: Server, number: int) -> Any:
    body = {"instance": f"s{number}", "tool": "message", "params": {"text": str(number)}, "callId": f"c{number}"}
    return server.ask("POST", "/intercept", body)


def test_requests_that_would_wait_too_long_are_refused_and_the_others_are_answered(server: Server) -> None:
    mine = server.post("/intercept", {"instance": "mira", "tool": "message", "params": {"text": "before"}})
    with ThreadPoolExecutor(2 * CROWD) as threads:
        with file_held(server):
            crowd = [threads.submit(intercept, server, number) for number in range(CROWD)]
            late: list[Future[Any]] = []

            def refused() -> list[Any]:
                late.append(threads.submit(intercept, server, CROWD + len(late)))
                return [one.result() for one in late if one.done() and one.result().status == 503]

            (answer, *_) = until(refused)
            report = threads.submit(server.ask, "POST", "/complete", {"instance": "mira", "id": mine["id"]})
            locked = until(lambda: server.ask("POST", "/lock", {"instance": "mira", "contextKey": "doc:x"}))
            assert locked.status == 503
            assert all(one.result().status == 503 for one in crowd if one.done()), "nobody is decided yet"
        assert answer.body == {
            "error": "the server is overloaded; nothing was done: try again in a moment",
            "at": "load",
        }
        assert answer.headers["Retry-After"] == "1"
        assert report.result().body["ok"] is True, "what frees others is always taken"
        statuses = [one.result().status for one in (*crowd, *late)]
    assert statuses.count(200) > BATCH, "a batch and more is always taken"
    away = [number for number, status in enumerate(statuses) if status == 503]
    assert len(away) == len(statuses) - statuses.count(200)
    assert intercept(server, len(statuses)).status == 200, "it goes on as soon as it can"
    entries = server.get("/journal?limit=500")["entries"]
    asked = {entry["session"] for entry in entries if entry["event"] == "intercept"}
    assert asked.isdisjoint({f"s{number}" for number in away}), "nothing was done of what was refused"
    text = server.ask("GET", "/metrics").text
    assert f"callosum_turned_away {len(away) + 1}" in text


def test_client_retries_once_the_overload_may_have_passed() -> None:
    """The client does not retry at once, as it does for an unreachable server: that would add to the load."""
    busy = partial(Request.reply, value={"error": "too much", "at": OVERLOADED}, status=503)
    refused = pytest.raises(GateUnavailable, match="too much")
    with Peer(busy) as peer, CallosumClient(peer.url, deadline=1.5) as client, refused:
        client.intercept(Call("mira", "pay", {}, call_id="c"))
    assert 2 <= len(peer.seen) <= 1 + 1.5 / (BUSY_PAUSE / 2)
