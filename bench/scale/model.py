"""The simulation: sessions, gates and a store as queues, with service times that were measured.

    session ── think ── call ──> gate (one processor, judges) ──> batch ──> store ──> answer ── tool ── report

A **machine** has processors, and work waits for one in the order of arrival. A **gate** is a process with one
interpreter lock: a server, or a program with the gate inside. It takes what waits into a batch as soon as a lane to the
store is free, as ``callosum/server/writer.py`` does. The **stores** differ in what is exclusive, and for how long:

* SQLite: the batch is processor time of the gate itself; answers of tiers 3 and 4 wait for a sync beside it.
* PostgreSQL: rows of the batch's keys, from the look to the end of the commit; a sync serves all who wait for one.
* Redis: one thread for everybody; a batch is run again if a key of it was changed between look and apply.

All times are seconds.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import simpy

from bench.harness import percentile
from bench.scale.layout import Costs, Layout, Outcome
from bench.scale.stations import Locks, Machine, Process, Steps
from bench.scale.stores import Postgres, Redis, Sqlite, Store, further
from bench.scale.traffic import Traffic, Zipf
from callosum.client.client import BUSY_PAUSE, BUSY_ROOM

VARIES: Final = 0.3
"""The share of a service time that varies exponentially; the rest is fixed."""


class Request:
    """A decision or a report on its way. ``done`` is set with whether it was answered in time."""

    __slots__ = ("came", "decision", "done", "given_up", "keys", "space", "tier", "turned_away")

    def __init__(self, env: simpy.Environment, space: int, tier: int, keys: Sequence[int], *, decision: bool) -> None:
        self.space, self.tier, self.keys, self.decision = space, tier, keys, decision
        self.done = env.event()
        self.given_up = self.turned_away = False
        self.came = 0.0

    @property
    def durable(self) -> bool:
        return self.tier >= 3

    def answer(self, _: object = None) -> None:
        if not self.given_up:
            self.done.succeed(True)

    def give_up(self, _: object = None) -> None:
        if not self.done.triggered:
            self.given_up = True
            self.done.succeed(False)


class Gate:
    """A process with a gate in it."""

    def __init__(self, sim: Simulation, machine: Machine, store: Store) -> None:
        self._sim, self._env, self._store = sim, sim.env, store
        self.cpu = Process(sim.env, machine)
        self.again = Locks(sim.env)
        self._waiting: deque[Request] = deque()
        self._starting = self._under_way = 0
        self.batches = self.requests = 0

    def ask(self, request: Request) -> None:
        self._env.process(self._turn_away(request) if request.decision and self._behind() else self._judge(request))

    def _behind(self) -> bool:
        layout, waiting = self._sim.layout, self._waiting
        return len(waiting) > layout.batch and self._env.now - waiting[0].came > layout.patience

    def inside(self, batch: Sequence[Request]) -> Steps:
        """The processor time of a batch's own steps and what the store's driver does for it."""
        costs = self._sim.costs
        own = sum(costs.request[request.tier] - costs.front for request in batch)
        yield from self.cpu.use(self._sim.vary(own + costs.key * further(batch)))

    def _turn_away(self, request: Request) -> Steps:
        yield from self.cpu.use(self._sim.costs.refused)
        request.turned_away = True
        request.give_up()

    def _judge(self, request: Request) -> Steps:
        yield from self.cpu.use(self._sim.vary(self._sim.costs.front))
        request.came = self._env.now
        self._waiting.append(request)
        self._start()

    def _start(self) -> None:
        size = self._sim.layout.batch
        while self._under_way < self._sim.layout.lanes and len(self._waiting) > self._starting * size:
            self._under_way += 1
            self._starting += 1
            self._env.process(self._lane())

    def _lane(self) -> Steps:
        # What arrives until the process comes to it is in the batch.
        yield from self.cpu.use(self._sim.vary(self._sim.costs.batch))
        self._starting -= 1
        batch = [self._waiting.popleft() for _ in range(min(self._sim.layout.batch, len(self._waiting)))]
        self.batches += 1
        self.requests += len(batch)
        if batch:
            yield from self._store.transact(self, batch)
        self._under_way -= 1
        self._start()


@dataclass
class Tally:
    """What sessions saw since ``since``."""

    since: float = 0.0
    taken: list[float] = field(default_factory=list)
    ended: int = 0
    late: int = 0
    inside: float = 0.0


class Simulation:
    """One run of a layout. The same seed gives the same outcome."""

    def __init__(self, costs: Costs, traffic: Traffic, layout: Layout, seed: int = 1) -> None:
        self.env = simpy.Environment()
        self.chance = random.Random(seed)
        self.costs, self.layout = costs, layout
        self._tiers = list(range(5)), list(traffic.tiers)
        self._counts = list(range(len(traffic.keys))), list(traffic.keys)
        self._zipf = Zipf(layout.keys, traffic.zipf if layout.zipf is None else layout.zipf)
        self._tally = Tally()
        self._last = 0
        shared = Machine(self.env, layout.shared, layout.others) if layout.shared else None
        self._shared = shared
        store: Store
        if costs.engine == "sqlite":
            store = Sqlite(self)
        elif costs.engine == "postgres":
            store = Postgres(self, shared or Machine(self.env, layout.cores))
        else:
            store = Redis(self, [shared or Machine(self.env, 1) for _ in range(layout.shards)])
        self.store = store
        self.gates = [Gate(self, shared or Machine(self.env, 1), store) for _ in range(layout.servers)]
        if layout.rate:
            self.env.process(self._arrivals())
        else:
            for number in range(layout.sessions):
                self.env.process(self._session(number))

    def vary(self, seconds: float) -> float:
        """A service time whose mean is this."""
        return seconds * (1 - VARIES + VARIES * self.chance.expovariate(1.0))

    def sync(self) -> float:
        """How long one sync takes."""
        values = self.costs.sync
        at = self.chance.random() * (len(values) - 1)
        low = int(at)
        return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])

    def run(self, *, warm: float, seconds: float, most: int = 1 << 60) -> Outcome:
        """The outcome of ``seconds`` after the first ``warm``, or until ``most`` calls were decided in them."""
        self.env.run(until=warm)
        self._tally.since = self.env.now
        self._tally.taken.clear()
        self._tally.ended = self._tally.late = 0
        before = [gate.cpu.busy for gate in self.gates], self.store.used(), self._depth(), self._retries()
        self._tally.inside = 0.0
        while self.env.now < warm + seconds and self._tally.ended < most:
            self.env.run(until=min(warm + seconds, self.env.now + seconds / 20))
        took = self.env.now - warm
        tally = self._tally
        batches, requests = (b - a for a, b in zip(before[2], self._depth(), strict=True))
        taken = tally.taken or [0.0]
        return Outcome(
            calls=len(tally.taken) / took,
            p50=percentile(taken, 0.5),
            p99=percentile(taken, 0.99),
            late=tally.late / max(1, tally.ended),
            server=max((gate.cpu.busy - was) / took for gate, was in zip(self.gates, before[0], strict=True)),
            store=(self.store.used() - before[1]) / took,
            depth=requests / max(1, batches),
            retries=(self._retries() - before[3]) / max(1, tally.ended),
            waiting=tally.inside / took,
        )

    def _depth(self) -> tuple[int, int]:
        return sum(gate.batches for gate in self.gates), sum(gate.requests for gate in self.gates)

    def _retries(self) -> int:
        return self.store.retries if isinstance(self.store, Redis) else 0

    def _arrivals(self) -> Steps:
        number = 0
        while True:
            yield self.env.timeout(self.chance.expovariate(self.layout.rate))
            number += 1
            self.env.process(self._call(number % max(1, self.layout.sessions)))

    def _session(self, number: int) -> Steps:
        think = self.layout.think
        if not think:  # they do not all begin at once
            yield self.env.timeout(self.chance.random() * 0.01)
        while True:
            if think:
                yield self.env.timeout(self.chance.expovariate(1 / think))
            yield from self._call(number)

    def _call(self, number: int) -> Steps:
        layout, chance = self.layout, self.chance
        space = number % layout.namespaces
        tier = layout.tier if layout.tier is not None else chance.choices(*self._tiers)[0]
        keys = self._keys(number)
        place = {"namespace": space, "session": number}.get(layout.stick)
        gate = self.gates[chance.randrange(layout.servers) if place is None else place % layout.servers]
        began = self.env.now
        ends = began + (layout.deadline or math.inf)
        while True:
            asked = Request(self.env, space, tier, keys, decision=True)
            answered = yield from self._ask(gate, asked, ends)
            pause = BUSY_PAUSE * (0.5 + chance.random() / 2)
            if not asked.turned_away or self.env.now + pause + BUSY_ROOM >= ends:
                break
            yield self.env.timeout(pause)
        if self.env.now >= self._tally.since:
            self._tally.ended += 1
            if answered:
                self._tally.taken.append(self.env.now - began)
            else:
                self._tally.late += 1
            self._tally.inside += self.env.now - max(began, self._tally.since)
        if answered:
            ends = self.env.now + (layout.deadline or math.inf)
            yield from self._ask(gate, Request(self.env, space, tier, keys, decision=False), ends)

    def _ask(self, gate: Gate, request: Request, ends: float) -> Steps:
        layout = self.layout
        if self._shared is not None and layout.loader:
            yield self._shared.work(layout.loader)
        yield self.env.timeout(layout.rtt / 2)
        gate.ask(request)
        if layout.deadline:
            self.env.timeout(max(0.0, ends - self.env.now)).callbacks.append(request.give_up)
        answered = yield request.done
        yield self.env.timeout(layout.rtt / 2)
        return answered

    def _keys(self, number: int) -> list[int]:
        layout, chance = self.layout, self.chance
        if layout.own:
            return [number]
        count = layout.keys_per_call
        if count is None:
            count = chance.choices(*self._counts)[0]
        keys = {self._zipf.pick(chance) for _ in range(count)}
        if keys and layout.hot and chance.random() < layout.hot:
            keys = {0, *list(keys)[1:]}
        elif keys and layout.again and chance.randrange(layout.again) == 0:
            keys = {self._last}
        self._last = next(iter(keys), self._last)
        return sorted(keys)
