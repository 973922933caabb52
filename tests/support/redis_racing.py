"""What racing processes run over one Redis, and the torn store that the race must catch."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from callosum.gate import LocalGate
from callosum.model import Applied, Change, View
from callosum.settings import Settings
from callosum.stores.base import Request
from callosum.stores.redis import RedisStore
from tests.support.racing import RACES, Counts
from tests.support.world import RULES


def _same(change: Change, _: View) -> Change:
    return change


class TornRedisStore(RedisStore):
    """The mistake that a store must not make: it looks in one transaction and writes in another."""

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        answers: list[Applied | Exception] = []
        for scope, step in requests:
            seen: list[View] = []

            def look(view: View, seen: list[View] = seen) -> Change:
                seen.append(view)
                return Change()

            super().transact([(scope, look)])
            os.sched_yield()
            try:
                change = step(seen[-1])
            except Exception as error:  # noqa: BLE001
                answers.append(error)
                continue
            answers += super().transact([(scope, partial(_same, change))])
        return answers


def run(place: tuple[str, str], race: str, me: str, on: str, attempts: int, torn: bool, talk: tuple[Any, Any]) -> None:
    folder, url = place
    results, start = talk
    state = Path(folder)
    store = (TornRedisStore if torn else RedisStore)(url)
    counts = Counts()
    with LocalGate(settings=Settings(state=state, rules=state / "rules.json"), store=store) as gate:
        start.wait()
        try:
            RACES[race](gate, me, on, state / "held", attempts, counts)
        finally:
            results.put((me, counts.admitted, counts.together))


def contend(
    folder: Path, url: str, race: str, keys: Sequence[str], attempts: int, *, torn: bool = False
) -> dict[str, tuple[int, int]]:
    """Runs one process a key, all on one namespace; returns what each saw."""
    (folder / "rules.json").write_text(RULES)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    results, start = context.Queue(), context.Barrier(len(keys))
    processes = [
        context.Process(target=run, args=((str(folder), url), race, f"s{number}", on, attempts, torn, (results, start)))
        for number, on in enumerate(keys)
    ]
    for process in processes:
        process.start()
    try:
        seen = [results.get(timeout=120) for _ in processes]
        for process in processes:
            process.join(timeout=30)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
    assert [process.exitcode for process in processes] == [0] * len(keys)
    return {me: (admitted, together) for me, admitted, together in seen}
