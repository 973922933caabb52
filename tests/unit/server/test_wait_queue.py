"""Queues of waiting calls: which call polls, in which order, and what it costs the store."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from callosum.gate import LocalGate
from callosum.model import Applied, Call, Key, Mode, Scope, State
from callosum.rulebook import Rulebook
from callosum.server.async_gate import ServedGate
from callosum.server.wait_queue import PLACES, Gone, Stopping, Waiter, WaitQueue, WaitQueues
from callosum.settings import Settings
from callosum.stores.base import Request
from callosum.stores.memory import MemoryStore
from callosum.wire import Complete
from tests.support.world import RULES

PATIENCE = 20.0


class Counting(MemoryStore):
    """Counts its requests to the store."""

    requests = 0

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        self.requests += len(requests)
        return super().transact(requests)


class ServedSessions:
    """A served gate, and short methods for the calls of sessions."""

    def __init__(self, folder: Path) -> None:
        (folder / "rules.json").write_text(RULES)
        self.store = Counting()
        settings = Settings(state=folder, rules=folder / "rules.json")
        self.gate = LocalGate(
            settings=settings, store=self.store, rules=Rulebook(folder / "rules.json", secret=b"s" * 32)
        )
        self.served = ServedGate(self.gate)
        self.left: dict[str, asyncio.Future[Any]] = {}

    async def ask(self, who: str, on: str = "/k", tool: str = "now4", wait: float = 30, **more: Any) -> Any:
        left = self.left[who] = asyncio.get_running_loop().create_future()
        call = Call(who, tool, {"on": on}, call_id=f"call of {who}", wait=wait, **more)
        if not wait:
            return await self.served.drive(self.served.operations.intercept(call))
        return await self.served.in_turn(call, 100, left, None, here=False)

    async def end(self, who: str, decision: Any) -> None:
        assert (await self.served.drive(self.served.operations.complete(Complete(instance=who, id=decision.id)))).ok

    def queued(self) -> list[str]:
        return [action.session for action in self.store.live("default", (State.QUEUED,))]


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[ServedSessions]:
    house = ServedSessions(folder)
    try:
        async with asyncio.timeout(PATIENCE):
            yield house
    finally:
        await house.served.close()


async def until(true: Callable[[], object]) -> None:
    while not true():  # noqa: ASYNC110  the store tells nobody
        await asyncio.sleep(0.001)


async def test_waiters_are_let_in_in_order_and_one_of_them_polls_for_all(tmp_path: Path) -> None:
    count = 3 * PLACES
    async with served(tmp_path) as house:
        held = await house.ask("doug", wait=0)
        order: list[str] = []

        async def come(who: str) -> None:
            decision = await house.ask(who)
            assert decision.proceed
            order.append(who)
            await house.end(who, decision)

        names = [f"s{number}" for number in range(count)]
        async with asyncio.TaskGroup() as tasks:
            for number, name in enumerate(names, 1):
                tasks.create_task(come(name))
                await until(lambda number=number: len(house.served.queues) == number)  # type: ignore[misc]
            await until(lambda: len(house.queued()) == PLACES)
            assert house.queued() == names[:PLACES], "the rest are known to this server alone"
            before = house.store.requests
            await house.end("doug", held)
        assert order == names
        # Each: its first place, if it had none before; the look that lets it in; its report. And a few of the first.
        assert house.store.requests - before < 4 * count
        assert not house.queued()
        assert len(house.served.queues) == 0


async def test_disconnected_and_redirected_waiters_leave_the_queue(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        await house.ask("doug", wait=0)
        waiting = [asyncio.ensure_future(house.ask(f"s{number}")) for number in range(PLACES + 2)]
        await until(lambda: len(house.queued()) == PLACES)
        house.left["s0"].set_result(None)
        house.left[f"s{PLACES}"].set_result(None)
        for number in (0, PLACES):
            with pytest.raises(Gone):
                await waiting[number]
        await until(lambda: "s0" not in house.queued())
        house.served.leave()
        for number in (1, PLACES + 1):
            with pytest.raises(Stopping):
                await waiting[number]
        assert "s1" in house.queued(), "its place stays, for whoever goes on elsewhere"
        with pytest.raises(Stopping):
            await house.ask("late")
        assert not (await house.ask("anna", wait=0)).proceed, "who does not wait is answered"
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_time_limit_applies_to_the_first_waiter_and_those_behind(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        await house.ask("doug", wait=0)
        waiting = [asyncio.ensure_future(house.ask(f"s{number}")) for number in range(PLACES)]
        await until(lambda: len(house.queued()) == PLACES)
        decision = await house.ask("late", wait=0.05)
        assert (decision.proceed, decision.conflict_count) == (False, PLACES + 1)
        assert "late" not in house.queued()
        house.served.leave()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_compatible_waiters_are_let_in_together(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        held = await house.ask("doug", tool="act4", wait=0)
        waiting = [asyncio.ensure_future(house.ask(f"s{number}", tool="add3")) for number in range(4)]
        await until(lambda: len(house.queued()) == 4)
        await house.end("doug", held)
        assert all(decision.proceed for decision in await asyncio.gather(*waiting))


@pytest.mark.parametrize(
    ("key", "ended", "rings"),
    [
        ("file:/repo/a.py", ("file:/repo/a.py",), True),
        ("file:/repo/a.py", ("file:/repo/b.py",), False),
        ("file:/repo/a.py", ("file:/other", "file:/repo/a.py"), True),
        ("file:/repo/", ("file:/repo/src/a.py",), True),
        ("file:/repo/", ("file:/repository",), False),
        ("file:/repo/src/a.py", ("file:/repo/",), True),
        ("doc:plan", ("doc:plan|title",), True),
        ("doc:plan|title", ("doc:plan",), True),
        ("doc:plan|title", ("doc:plan|body",), False),
        ("doc:plan", (), True),
    ],
)
async def test_notification_wakes_the_waiters_it_concerns(key: str, ended: tuple[str, ...], rings: bool) -> None:
    async def quiet(waiter: Waiter) -> None:
        waiter.follow()  # as after a poll
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.002):
                await waiter.turn(30)

    queues = WaitQueues(MemoryStore())
    waiter = Waiter(queues, 30, asyncio.get_running_loop().create_future())
    scope = Scope("work", "mira", (Key(key, Mode.WRITE),))
    queues.join(waiter, scope)
    await quiet(waiter)
    queues.heard("home", ended)
    await quiet(waiter)
    queues.heard("work", ended)
    if rings:
        await waiter.turn(30)
    else:
        await quiet(waiter)
    waiter.leave(None)
    assert len(queues) == 0
    assert not queues._named
    assert not queues._wide, "nothing is left of a namespace"


async def test_resumed_waiter_goes_to_the_front() -> None:
    queue = WaitQueue("default", ())
    queues = WaitQueues.__new__(WaitQueues)
    waiters = [Waiter(queues, 30, asyncio.get_running_loop().create_future()) for _ in range(4)]
    for waiter, queued_id in zip(waiters, (20, 30, 0, 10), strict=True):
        waiter.queued_id = queued_id
    queue.first.update(dict.fromkeys(waiters[:3]))
    queue.behind[waiters[3]] = None
    queue.put_in_order(waiters[3])
    assert [waiter.queued_id for waiter in queue.first] == [10, 20, 30, 0]
    assert not queue.behind
