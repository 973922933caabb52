"""What the racing processes run. ``hold`` proves that a holder is alone: it makes a file that must not exist."""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from callosum.gate import Gate, LocalGate
from callosum.model import Applied, Call, Change, Report, View
from callosum.settings import Settings
from callosum.stores.base import Request, Store
from callosum.stores.sqlite import SqliteStore
from callosum.stores.sqlite.connection import Execute, SqliteConnection, SqliteConnections
from tests.support.world import RULES

PATIENCE = 20
"""How many times its attempts a process makes at most, if it has not been let in before."""


def _same(change: Change, _: View) -> Change:
    return change


class Torn:
    """The mistake that a store must not make: it looks in one transaction and writes in another.

    To be put before a real store: ``class TornStore(Torn, SqliteStore)``.
    """

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        transact: Callable[[Sequence[Request]], list[Applied | Exception]] = super().transact  # type: ignore[misc]
        answers: list[Applied | Exception] = []
        for scope, step in requests:
            seen: list[View] = []

            def look(view: View, seen: list[View] = seen) -> Change:
                seen.append(view)
                return Change()

            transact([(scope, look)])
            os.sched_yield()
            try:
                change = step(replace(seen[-1], bodies=None, lately=None))  # nothing can be fetched any more
            except Exception as error:  # noqa: BLE001
                answers.append(error)
                continue
            answers += transact([(scope, partial(_same, change))])
        return answers


class TornStore(Torn, SqliteStore):
    """Over a file."""


class _Unwatched(SqliteConnections):
    """The mistake that a store's connections must not make: they go over to whatever file is there, and ask nothing."""

    def check_files(self, link: SqliteConnection) -> None:
        """Acknowledge, wherever it went."""

    def may_acknowledge(self, execute: Execute) -> bool:
        return True


class UnwatchedStore(SqliteStore):
    """Over a file, and over any other that takes its place."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._connections.close()
        self._connections = _Unwatched(path)


class Seen(NamedTuple):
    """What one process saw: how often it was let in, how often it was not alone then, and how often it could not end
    its own lease, which somebody had taken from under it.
    """

    admitted: int
    together: int
    lost: int


class Counts:
    """What one process sees, as in ``Seen``."""

    def __init__(self) -> None:
        self.admitted = self.together = self.lost = 0

    def seen(self) -> Seen:
        return Seen(self.admitted, self.together, self.lost)


def hold(flag: Path, counts: Counts, gate: Gate) -> None:
    """Stays where one alone may be for as long as it takes to ask the gate something."""
    counts.admitted += 1
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        counts.together += 1
        return
    gate.status()
    flag.unlink()


def check(ended: Report, gate: Gate, me: str, on: str, counts: Counts) -> None:
    """Counts a lease that could not be ended, and frees whatever the session holds: the race goes on."""
    if not ended.ok:
        counts.lost += 1
        gate.release(me, f"file:{on}")


def tries(attempts: int, counts: Counts) -> Iterator[int]:
    """The numbers of a process's attempts: more than it should make only until it has been let in once.

    On a busy machine the others may have used up all of theirs before the scheduler lets this one in.
    """
    for number in range(attempts * PATIENCE):
        if number >= attempts and counts.admitted:
            return
        yield number


def race_for_locks(gate: LocalGate, me: str, on: str, flag: Path, attempts: int, counts: Counts) -> None:
    for _ in tries(attempts, counts):
        if gate.lock(me, f"file:{on}", ttl=60).acquired:
            hold(flag, counts, gate)
            check(gate.release(me, f"file:{on}"), gate, me, on, counts)
        else:
            os.sched_yield()


def race_for_calls(gate: LocalGate, me: str, on: str, flag: Path, attempts: int, counts: Counts) -> None:
    for number in tries(attempts, counts):
        decision = gate.intercept(Call(me, "now4", {"on": on}, call_id=f"{me}-{number}"))
        if decision.proceed:
            hold(flag, counts, gate)
            check(gate.complete(me, id=decision.id), gate, me, on, counts)
        else:
            os.sched_yield()


RACES: dict[str, Callable[..., None]] = {"lock": race_for_locks, "call": race_for_calls}


def run(
    folder: str, race: str, me: str, on: str, attempts: int, make: Callable[[], Store], results: Any, start: Any
) -> None:
    """One process. Tells what it saw."""
    state = Path(folder)
    store = make()
    counts = Counts()
    with LocalGate(settings=Settings(state=state, rules=state / "rules.json"), store=store) as gate:
        start.wait()
        try:
            RACES[race](gate, me, on, state / "held", attempts, counts)
        finally:
            results.put((me, counts.seen()))


def contend(
    folder: Path,
    race: str,
    keys: Sequence[str],
    attempts: int,
    *,
    torn: bool = False,
    make: Callable[[], Store] | None = None,
) -> dict[str, Seen]:
    """Runs one process a key, all on one store (by default a file); returns what each saw."""
    (folder / "rules.json").write_text(RULES)
    make = make or partial(TornStore if torn else SqliteStore, folder / "gate.db")
    make().close()
    seen = in_processes(len(keys), run, lambda n: (str(folder), race, f"s{n}", keys[n], attempts, make))
    return dict(seen)


def caught(folder: Path, race: Callable[[Path], Iterable[Seen]]) -> bool:
    """Whether a race over a torn store, begun anew ten times at the most, was seen to have two holders."""
    for number in range(10):
        place = folder / str(number)
        place.mkdir()
        if any(one.together for one in race(place)):
            return True
    return False


def in_processes(count: int, run: Callable[..., None], args: Callable[[int], tuple[Any, ...]]) -> list[Any]:
    """Runs processes that begin at once, and returns what each of them put.

    ``run`` is called with ``args`` of the process's number, a queue to put one answer into, and a barrier to wait at.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    results, start = context.Queue(), context.Barrier(count)
    processes = [context.Process(target=run, args=(*args(number), results, start)) for number in range(count)]
    for process in processes:
        process.start()
    seen: list[Any] = []
    ends = time.monotonic() + 120
    try:
        while len(seen) < count and not any(process.exitcode for process in processes):  # it left the others waiting
            with suppress(queue.Empty):
                seen.append(results.get(timeout=0.5))
            assert time.monotonic() < ends, f"{count - len(seen)} have not ended"
        for process in processes:
            process.join(timeout=30)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
    assert [process.exitcode for process in processes] == [0] * count
    return seen
