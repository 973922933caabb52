"""The async client: it never blocks the loop, waits do not delay reports, and cancelling leaves no lease."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from callosum.client import AsyncCallosumClient, StreamEvent
from callosum.client import asynchronous as module
from callosum.errors import ConfigError, GateUnavailable
from callosum.model import Call
from tests.support.peer import DECISION, Peer, Request, Script, by_target, free_port, hang, replies, sends_bytes

MAIL = Call("mira", "mail")
REPORT = {"ok": True, "id": 7, "state": "done"}


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def peer(**more: Script) -> Peer:
    scripts: dict[str, Script] = {
        "intercept": replies(), "complete": replies(REPORT), "fallback": replies({"tools": {}}),
        "lock": lambda request: request.reply({"acquired": True} if request.method == "POST" else REPORT),
        "renew": replies(REPORT), "resolve": replies(REPORT), "approvals": lambda request: request.reply(
            REPORT if request.method == "POST" else {"approvals": []}
        ),
        "status": replies({"locks": [], "recentActions": []}), "journal": replies({"entries": [], "cursor": "c"}),
        "health": replies({"status": "ok"}), "events": replies({"accepted": 1}),
    }  # fmt: skip
    return Peer(by_target(**{**scripts, **more}))


async def test_every_method_of_the_client_has_a_coroutine() -> None:
    with peer() as gate:
        async with AsyncCallosumClient(gate.url, deadline=5) as client:
            assert (await client.intercept(MAIL)).proceed
            assert (await client.complete("mira", id=7)).ok
            assert (await client.lock("mira", "k")).acquired
            assert (await client.release("mira", "k")).ok
            assert (await client.renew("mira", 7)).ok
            assert (await client.resolve(7, happened=True)).ok
            assert (await client.approve(7)).ok
            assert (await client.deny(7)).ok
            assert (await client.status()).locks == ()
            assert await client.approvals() == ()
            assert (await client.journal("c", limit=5, wait=1)).cursor == "c"
            assert await client.emit({"type": "x"}) == 1
            assert (await client.health())["status"] == "ok"
            with pytest.raises(ConfigError):
                await client.complete("mira", id=0)
            assert gate.url in repr(client)


async def test_client_without_a_gate_decides_by_the_fallback() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with AsyncCallosumClient(url, deadline=0.02, fallback={"look": 0}) as client:
        look = Call("mira", "look")
        assert (await client.intercept(look)).fallback
        await client.remember_late(look, "failed")
        assert (await client.fallback(look, GateUnavailable("away"))).fallback
        with pytest.raises(GateUnavailable):
            await client.intercept(MAIL)


async def test_waiting_calls_do_not_delay_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report ends their wait; with one thread pool for all it would be queued behind them."""
    monkeypatch.setattr(module, "THREADS", 2)
    free = threading.Event()

    def wait(request: Request) -> None:
        free.wait(20)
        request.reply()

    def complete(request: Request) -> None:
        free.set()
        request.reply(REPORT)

    with peer(intercept=wait, complete=complete) as gate:
        async with AsyncCallosumClient(gate.url, deadline=5) as client:
            tasks = [asyncio.create_task(client.intercept(Call("mira", "mail", wait=30))) for _ in range(40)]
            await asyncio.to_thread(gate.wait, 40)
            assert (await client.complete("mira", id=7)).ok
            assert all(decision.proceed for decision in await asyncio.gather(*tasks))


@pytest.mark.parametrize("proceed", [True, False])
async def test_decision_for_a_cancelled_call_is_withdrawn(proceed: bool) -> None:
    free = threading.Event()
    done = threading.Event()
    answer = DECISION if proceed else {**DECISION, "proceed": False, "verdict": "block"}

    def slow(request: Request) -> None:
        free.wait(10)
        request.reply(answer)

    def complete(request: Request) -> None:
        request.reply(REPORT)
        done.set()

    with peer(intercept=slow, complete=complete) as gate:
        async with AsyncCallosumClient(gate.url, deadline=5) as client:
            call = Call("mira", "mail", session="s", namespace="n", wait=9)
            task = asyncio.create_task(client.intercept(call))
            await asyncio.to_thread(gate.wait, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            free.set()
            if proceed:
                assert await asyncio.to_thread(done.wait, 10)
            else:
                await client.status()
        reports = gate.bodies("/complete")
        assert reports == (
            [{"instance": "mira", "id": 7, "outcome": "cancelled", "session": "s", "namespace": "n"}] if proceed else []
        )


async def test_closing_ends_waiting_calls() -> None:
    with peer(intercept=hang) as gate:
        client = AsyncCallosumClient(gate.url, deadline=5)
        task = asyncio.create_task(client.intercept(Call("mira", "mail", wait=60)))
        await asyncio.to_thread(gate.wait, 1)
        await client.close()
        with pytest.raises(GateUnavailable, match="cannot be asked"):
            await task
        await client.close()


async def test_event_loop_keeps_running_during_a_request() -> None:
    free = threading.Event()

    def slow(request: Request) -> None:
        free.wait(10)
        request.reply()

    with peer(intercept=slow) as gate:
        async with AsyncCallosumClient(gate.url, deadline=5) as client:
            task = asyncio.create_task(client.intercept(MAIL))
            await asyncio.to_thread(gate.wait, 1)
            free.set()  # only a running loop gets here
            assert (await task).proceed


async def test_events_are_streamed() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    script = sends_bytes(head + b"id: 1\ndata: 1\n\nid: 2\ndata: 2\n\n", then=hang)
    with peer(events=script) as gate:
        async with AsyncCallosumClient(gate.url, deadline=5) as client:
            read = []
            async with aclosing(client.events("*", last_id="0")) as events:
                async for event in events:
                    read.append(event)
                    if len(read) == 2:
                        break
            assert read == [StreamEvent("1", "message", 1), StreamEvent("2", "message", 2)]

            async def follow() -> None:
                async with aclosing(client.events()) as events:
                    async for _ in events:
                        pass

            task = asyncio.create_task(follow())
            await asyncio.to_thread(gate.wait, 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_stream_opened_for_a_cancelled_reader_is_closed() -> None:
    free = threading.Event()
    left = threading.Event()

    def script(request: Request) -> None:
        free.wait(10)
        request.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        request.connection.recv(1)
        left.set()

    with peer(events=script) as gate:
        async with AsyncCallosumClient(gate.url, deadline=5) as client:
            events = client.events()
            task = asyncio.create_task(anext(events))
            await asyncio.to_thread(gate.wait, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not left.is_set()
            free.set()
            assert await asyncio.to_thread(left.wait, 10)
