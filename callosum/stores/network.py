"""The store over a network: the kernel over an engine, its receipt, its notifications, and its threads' turns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from callosum.model import Applied
from callosum.person import ACCEPTING, require_person
from callosum.stores.base import Probe, Request, StoreCheck
from callosum.stores.cache import Turns
from callosum.stores.kernel import Kernel
from callosum.stores.receipt import WatchedStore, receipt_of, refusal


class NetworkStore(Kernel):
    """A store whose engine has a ``cache`` and a ``notifier``, and what ``WatchedStore`` asks for.

    ``state`` is the folder that keeps what was acknowledged; ``shown`` is the server's place for people. ``watched``:
    the store is compared with its receipt.
    """

    def __init__(self, engine: Any, probe: Probe, state: Path | None, shown: str, *, watched: bool = True) -> None:
        super().__init__(engine, probe=probe)
        self._turns, self._cache = Turns(), engine.cache
        self._is_watched = watched
        self._watched = WatchedStore(
            receipt_of(state, engine.place), shown, engine.held, engine.keep_fact, lambda: int(engine.epoch)
        )
        self.listen, self.is_connected = engine.notifier.listen, engine.notifier.is_connected
        self.pause, self.pool = engine.notifier.wait, engine.pool

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        return self._watched.transact(requests, self._in_turn) if self._is_watched else self._in_turn(requests)

    def _in_turn(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        return self._turns.run(self._cache.keys_of(requests), requests, self._run)

    def _run(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        return super().transact(requests)

    def _changed(self) -> str:
        return self._watched.check(again=True) if self._is_watched else ""

    def prove(self) -> None:
        if changed := self._changed():
            raise refusal(changed)
        super().prove()

    def accept(self, *, proven: bool = False) -> str:
        if not proven:
            require_person(self, ACCEPTING)
        return self._watched.accept(self.now())

    def check(self) -> StoreCheck:
        found, problems = super().check(), []
        if changed := self._changed():
            problems.append(str(refusal(changed)))
        if found.ahead > 1:
            problems.append(f"the store's time is {found.ahead:.0f} s ahead of the clock: leases end that much later")
        return replace(found, problems=(*problems, *found.problems))
