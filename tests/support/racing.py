"""The code of racing processes. ``hold`` proves exclusion: it creates a file that must not exist yet."""

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
from callosum.model import Applied, Call, Change, Report, State, View
from callosum.settings import Settings
from callosum.stores.base import Request, Store
from callosum.stores.sqlite import SqliteStore
from callosum.stores.sqlite.connection import Execute, SqliteConnection, SqliteConnections
from callosum.stores.sqlite.engine import SqliteEngine
from tests.support.world import RULES

PATIENCE = 20
"""How many times its attempts a process makes at most, if it has not been let in before."""


def _same(change: Change, _: View) -> Change:
    return change


class Torn:
    """A store with a planted mistake: it reads in one transaction and writes in another.

    Mix it into a real store: ``class TornStore(Torn, SqliteStore)``.
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
                change = step(replace(seen[-1], bodies=None, lately=None))  # the view can no longer be read again
            except Exception as error:  # noqa: BLE001
                answers.append(error)
                continue
            answers += transact([(scope, partial(_same, change))])
        return answers


class TornStore(Torn, SqliteStore):
    """The planted mistake over a file."""


class _Unwatched(SqliteConnections):
    """Connections with a planted mistake: they use whatever file is at the path and check nothing."""

    def check_files(self, link: SqliteConnection) -> None:
        """Acknowledge without checking which file was written."""

    def may_acknowledge(self, execute: Execute) -> bool:
        return True


class UnwatchedStore(SqliteStore):
    """A store over a file, and over any file that replaces it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        assert isinstance(self.engine, SqliteEngine)
        self.engine.close()
        self.engine.connections = _Unwatched(path)
        self.engine.clock = self.engine.connections.clock


class Seen(NamedTuple):
    """The counts of one process: how often it was let in, was not alone, and could not end its own lease.

    A lease cannot be ended if another process has taken it over.
    """

    admitted: int
    together: int
    lost: int


class Counts:
    """Counts of one process, as in ``Seen``."""

    def __init__(self) -> None:
        self.admitted = self.together = self.lost = 0

    def seen(self) -> Seen:
        return Seen(self.admitted, self.together, self.lost)


def hold(flag: Path, counts: Counts, gate: Gate) -> None:
    """Stay in the exclusive section for as long as one request to the gate takes."""
    counts.admitted += 1
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        counts.together += 1
        return
    gate.status()
    flag.unlink()


def check(ended: Report, gate: Gate, me: str, on: str, counts: Counts) -> None:
    """Count a lease that could not be ended, and free the leases of the session so that the race continues."""
    if not ended.ok:
        counts.lost += 1
        gate.release(me, f"file:{on}")


def tries(attempts: int, counts: Counts) -> Iterator[int]:
    """Yield the numbers of a process's attempts; it makes extra attempts only until it was let in once.

    On a busy machine the others may have used up all of their attempts before the scheduler runs this process.
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
    """Run one process and report its counts."""
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
    """Run one process for each key, all on one store (by default a file); return the counts of each."""
    (folder / "rules.json").write_text(RULES)
    make = make or partial(TornStore if torn else SqliteStore, folder / "gate.db")
    make().close()
    seen = in_processes(len(keys), run, lambda n: (str(folder), race, f"s{n}", keys[n], attempts, make))
    return dict(seen)


def assert_one_holder(folder: Path, race: str, keys: Sequence[str], attempts: int, make: Callable[[], Store]) -> None:
    """Run ``contend``: never two holders at a time, everybody has a turn, and the store is sound and empty after it."""
    seen = contend(folder, race, keys, attempts, make=make)
    assert not any(one.together or one.lost for one in seen.values()), seen
    admitted = [one.admitted for one in seen.values()]
    assert sum(admitted) >= attempts / 10, "hardly anybody was let in"
    assert min(admitted) > 0, "somebody never had a turn"
    store = make()
    assert not store.check().problems
    assert store.live(None, list(State)) == []
    store.close()


def caught(folder: Path, race: Callable[[Path], Iterable[Seen]]) -> bool:
    """Return whether a race over a torn store shows two holders, in at most ten attempts."""
    for number in range(10):
        place = folder / str(number)
        place.mkdir()
        if any(one.together for one in race(place)):
            return True
    return False


def in_processes(count: int, run: Callable[..., None], args: Callable[[int], tuple[Any, ...]]) -> list[Any]:
    """Run processes that start at once, and return the answer of each.

    ``run`` is called with ``args``, the number of the process, a queue for one answer and a barrier to wait at.
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
        while len(seen) < count and not any(
            process.exitcode for process in processes
        ):  # the process ended before the barrier and the others wait
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
