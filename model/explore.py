"""Visit every state that a world can reach, breadth first, and stop at the first broken promise."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Struct

from model.states import fingerprint
from model.world import Bounds, State, Taken, Transition, World

Promise = Callable[[Taken], str]
"""Return what is wrong with a transition, an empty text if nothing is."""


class Violation(Struct, frozen=True):
    """A broken promise: its name, what is wrong, and the shortest path to it."""

    promise: str
    wrong: str
    trace: tuple[Taken, ...]


class Explored(Struct, frozen=True):
    """The result of an exploration.

    ``depth`` is the number of transitions up to which every state was visited. ``exhausted`` says that no state lies
    beyond them. ``seconds`` are processor time. ``alike`` holds pairs of states that count as one, if they were
    requested.
    """

    states: int
    transitions: int
    depth: int
    exhausted: bool
    seconds: float
    violation: Violation | None = None
    alike: tuple[tuple[State, State], ...] = ()


def explore(bounds: Bounds, promises: Iterable[Promise], *, states: int | None = None, alike: int = 0) -> Explored:
    """Explore a world up to ``states`` states, None for the bound of the world itself.

    ``alike`` is the number of pairs of states that count as one to keep.
    """
    most = bounds.states if states is None else states
    began = time.process_time()
    world = World(bounds)
    checks = tuple(promises)
    start = world.start()
    parents: list[tuple[int, Transition | None]] = [(0, None)]
    known = {fingerprint(start, bounds): 0}
    kept: dict[int, State] = {0: start} if alike else {}
    pairs: list[tuple[State, State]] = []
    level = deque([(0, start)])
    depth = count = 0

    def done(*, exhausted: bool, violation: Violation | None = None) -> Explored:
        seconds = time.process_time() - began
        return Explored(len(parents), count, depth, exhausted, seconds, violation, tuple(pairs))

    while level:
        found: deque[tuple[int, State]] = deque()
        for number, state in level:
            for transition in world.transitions(state):
                taken = world.take(state, transition)
                count += 1
                for check in checks:
                    if wrong := check(taken):
                        trace = _trace(world, start, parents, number, transition)
                        return done(exhausted=False, violation=Violation(check.__name__, wrong, trace))
                form = fingerprint(taken.after, bounds)
                if form in known:
                    if len(pairs) < alike and known[form] != number:
                        pairs.append((kept[known[form]], taken.after))
                    continue
                if len(parents) >= most:
                    return done(exhausted=False)
                known[form] = len(parents)
                if alike:
                    kept[len(parents)] = taken.after
                found.append((len(parents), taken.after))
                parents.append((number, transition))
        if not found:
            return done(exhausted=True)
        level = found
        depth += 1
    return done(exhausted=True)


def _trace(
    world: World, start: State, parents: list[tuple[int, Transition | None]], number: int, last: Transition
) -> tuple[Taken, ...]:
    """Repeat the transitions that lead to a state, and the last one after them."""
    way = [last]
    while number:
        number, transition = parents[number]
        assert transition is not None
        way.append(transition)
    trace = []
    state = start
    for transition in reversed(way):
        trace.append(world.take(state, transition))
        state = trace[-1].after
    return tuple(trace)
