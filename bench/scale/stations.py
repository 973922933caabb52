"""What work waits for: processors, a process's turn, a disk, a lock."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable
from math import ceil
from typing import Any, Final

import simpy

Steps = Generator[simpy.Event, Any, Any]
LEAST: Final = 0.1
"""What others leave of all processors at the least."""


class Machine:
    """Processors, first come first served. ``busy``: seconds of work that were taken on.

    Of ``cores`` somebody else has ``others``: there are as many as what is left rounded up, each that much slower.
    """

    def __init__(self, env: simpy.Environment, cores: int, others: float = 0.0) -> None:
        self._env = env
        left = max(LEAST, cores - others)
        self.cores = ceil(left)
        self._slower = self.cores / left
        self._free = [0.0] * self.cores
        self.busy = 0.0

    def work(self, seconds: float) -> simpy.Event:
        """An event for when this much work is done."""
        now = self._env.now
        ends = max(now, self._free[0]) + seconds * self._slower
        heapq.heapreplace(self._free, ends)
        self.busy += seconds
        return self._env.timeout(ends - now)


class Process:
    """One process that does one thing at a time, on a machine that may be busy with others."""

    def __init__(self, env: simpy.Environment, machine: Machine) -> None:
        self._env, self._machine = env, machine
        self._held = False
        self._line: deque[simpy.Event] = deque()
        self.busy = 0.0

    def use(self, seconds: float) -> Steps:
        if self._held:
            turn = self._env.event()
            self._line.append(turn)
            yield turn
        self._held = True
        self.busy += seconds
        yield self._machine.work(seconds)
        if self._line:
            self._line.popleft().succeed()
        else:
            self._held = False


class Disk:
    """One sync at a time; it serves every request made before it began."""

    def __init__(self, env: simpy.Environment, sample: Callable[[], float]) -> None:
        self._env, self._sample = env, sample
        self._next: simpy.Event | None = None
        self._at_it = False

    def sync(self) -> simpy.Event:
        """An event for when what was written before is on disk."""
        if self._next is None:
            self._next = self._env.event()
            if not self._at_it:
                self._env.process(self._run())
        return self._next

    def _run(self) -> Steps:
        self._at_it = True
        while self._next is not None:
            served, self._next = self._next, None
            yield self._env.timeout(self._sample())
            served.succeed()
        self._at_it = False


class Locks:
    """Names that one holds at a time, the others in line."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._lines: dict[Any, deque[simpy.Event]] = {}

    def take(self, names: Iterable[Any]) -> Steps:
        for name in names:
            line = self._lines.get(name)
            if line is None:
                self._lines[name] = deque()
            else:
                turn = self._env.event()
                line.append(turn)
                yield turn

    def give(self, names: Iterable[Any]) -> None:
        for name in names:
            line = self._lines[name]
            if line:
                line.popleft().succeed()
            else:
                del self._lines[name]
