"""The stores of the simulation: what is exclusive in each, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import simpy

from bench.scale.stations import Disk, Locks, Machine, Process, Steps

if TYPE_CHECKING:
    from bench.scale.model import Gate, Request, Simulation

TURN_AFTER: Final = 3
"""How often a batch may be overtaken before it takes a ticket, as in ``callosum/stores/redis``."""


class Store(Protocol):
    def transact(self, gate: Gate, batch: Sequence[Request]) -> Steps:
        """Takes a batch through, and answers each request of it."""
        ...

    def used(self) -> float:
        """Seconds of work of its busiest part, per processor."""
        ...


class Sqlite:
    """One file, written by the gate's own process."""

    def __init__(self, sim: Simulation) -> None:
        self._disk = Disk(sim.env, sim.sync)
        self._env = sim.env

    def transact(self, gate: Gate, batch: Sequence[Request]) -> Steps:
        yield from gate.inside(batch)
        synced: simpy.Event | None = None
        for request in batch:
            if not request.durable:
                request.answer()
                continue
            if synced is None:
                synced = self._disk.sync()
            synced.callbacks.append(request.answer)

    def used(self) -> float:
        return 0.0


class Postgres:
    """Row locks from the look to the commit; backends on the store's processors; one log on one disk."""

    def __init__(self, sim: Simulation, machine: Machine) -> None:
        self._env, self._sim, self._machine = sim.env, sim, machine
        self._locks = Locks(sim.env)
        self._disk = Disk(sim.env, sim.sync)

    def transact(self, gate: Gate, batch: Sequence[Request]) -> Steps:
        costs, half = self._sim.costs, self._sim.layout.store_rtt / 2
        env, machine = self._env, self._machine
        names = sorted({(request.space, key) for request in batch for key in request.keys})
        work = self._sim.vary(costs.store_batch + costs.store_request * len(batch) + costs.store_key * further(batch))
        looks = costs.report_trips > 1 or any(request.decision for request in batch)
        yield env.timeout(half)
        yield from self._locks.take(names)
        if looks:
            yield machine.work(work * costs.look_share)
            waves = _most(key for request in batch for key in {(request.space, key) for key in request.keys})
            yield env.timeout(half + 2 * half * (waves - 1))
            yield from gate.inside(batch)
            yield env.timeout(half)
        else:
            yield from gate.inside(batch)
        yield machine.work(work * (1 - costs.look_share if looks else 1))
        if any(request.durable for request in batch):
            yield self._disk.sync()
        self._locks.give(names)
        yield env.timeout(half)
        for request in batch:
            request.answer()

    def used(self) -> float:
        return self._machine.busy / self._machine.cores


def further(batch: Iterable[Request]) -> int:
    """How many keys there are beside the first of each request."""
    return sum(max(0, len(request.keys) - 1) for request in batch)


def _most(names: Iterable[Any]) -> int:
    counts: dict[Any, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return max(counts.values(), default=1)


@dataclass
class _Command:
    done: simpy.Event
    seconds: float
    run: Callable[[], object] | None


class _Shard:
    """One Redis process: a thread that takes what has come, syncs its log once, and answers."""

    def __init__(self, sim: Simulation, machine: Machine) -> None:
        self._env, self._sim = sim.env, sim
        self._process = Process(sim.env, machine)
        self._inbox: list[_Command] = []
        self._at_it = False
        self.blocked = 0.0

    def call(self, seconds: float, run: Callable[[], object] | None = None) -> simpy.Event:
        """An event for the answer; ``run`` is what it changes, done when its turn comes."""
        command = _Command(self._env.event(), seconds, run)
        self._inbox.append(command)
        if not self._at_it:
            self._at_it = True
            self._env.process(self._loop())
        return command.done

    def _loop(self) -> Steps:
        while self._inbox:
            taken, self._inbox = self._inbox, []
            answers: list[tuple[simpy.Event, object]] = []
            for command in taken:
                yield from self._process.use(self._sim.vary(command.seconds))
                answers.append((command.done, command.run() if command.run else None))
            if any(command.run for command in taken):
                seconds = self._sim.sync()
                self.blocked += seconds
                yield self._env.timeout(seconds)
            for event, answer in answers:
                event.succeed(answer)
        self._at_it = False

    @property
    def busy(self) -> float:
        return self._process.busy + self.blocked


class Redis:
    """Looked at, then applied if nothing changed in between; each namespace on one shard."""

    def __init__(self, sim: Simulation, machines: Sequence[Machine]) -> None:
        self._env, self._sim = sim.env, sim
        self._shards = [_Shard(sim, machine) for machine in machines]
        self._versions: dict[tuple[int, int], int] = {}
        self._tickets: dict[int, frozenset[tuple[int, int]]] = {}
        self._tickets_given = 0
        share = sim.costs.look_share
        decision = 2 * sim.costs.store_request / (2 - share)
        self._look, self._apply = decision * share, decision * (1 - share)
        self.retries = 0

    def transact(self, gate: Gate, batch: Sequence[Request]) -> Steps:
        rest = list(batch)
        while rest:
            group, rest = _independent(rest)
            yield from self._round(gate, group)
            for request in group:
                request.answer()

    def _round(self, gate: Gate, group: Sequence[Request]) -> Steps:
        env, half, costs = self._env, self._sim.layout.store_rtt / 2, self._sim.costs
        names = frozenset((request.space, key) for request in group for key in request.keys)
        shard = self._shards[group[0].space % len(self._shards)]
        strange = sum(request.decision for request in group)  # of what it opened itself a gate knows enough
        keys = costs.store_key * further(group)
        tried, ticket = 0, 0
        locked = False
        while True:
            yield env.timeout(half)
            if strange:
                yield shard.call(costs.store_batch / 2 + self._look * strange + keys * costs.look_share)
                yield env.timeout(2 * half)
            seen = {name: self._versions.get(name, 0) for name in names}
            yield from gate.inside(group)

            def apply(seen: Mapping[tuple[int, int], int] = seen, ticket: int = ticket) -> bool:
                return self._applied(seen, names, ticket)

            seconds = costs.store_batch / 2 + self._apply * len(group) + keys * (1 - costs.look_share)
            applied = yield shard.call(seconds, apply)
            yield env.timeout(half)
            if applied:
                break
            tried += 1
            strange = len(group)
            self.retries += 1
            if not locked:  # of one process one at a time tries again
                yield from gate.again.take(["again"])
                locked = True
            if tried >= TURN_AFTER and not ticket:
                self._tickets_given += 1
                ticket = self._tickets_given
                self._tickets[ticket] = names
                yield env.timeout(2 * half)
            else:
                yield env.timeout(self._sim.chance.uniform(0, min(0.0005 * 2**tried, 0.01)))
        if locked:
            gate.again.give(["again"])

    def _applied(self, seen: Mapping[tuple[int, int], int], names: frozenset[tuple[int, int]], ticket: int) -> bool:
        """Return whether nothing changed since it was ``seen`` and no older ticket wants these names."""
        if any(self._versions.get(name, 0) != version for name, version in seen.items()):
            return False
        if any(
            (not ticket or other < ticket) and not wants.isdisjoint(names) for other, wants in self._tickets.items()
        ):
            return False
        for name in names:
            self._versions[name] = self._versions.get(name, 0) + 1
        self._tickets.pop(ticket, None)
        return True

    def used(self) -> float:
        return max(shard.busy for shard in self._shards)


def _independent(requests: Sequence[Request]) -> tuple[list[Request], list[Request]]:
    """The first of them that share a namespace and no key; the rest."""
    space, seen = requests[0].space, set[int]()
    group: list[Request] = []
    rest: list[Request] = []
    stopped = False
    for request in requests:
        if request.space != space or stopped:
            rest.append(request)
        elif seen.isdisjoint(request.keys):
            group.append(request)
            seen.update(request.keys)
        else:
            stopped = True
            rest.append(request)
    return group, rest
