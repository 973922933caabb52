"""The simulation compared with closed forms, and its inputs and outputs. Nothing is measured here."""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
import simpy

from bench.load import Found
from bench.scale import measured, traffic
from bench.scale.blocks import Block
from bench.scale.curves import Axis, Curve, layouts
from bench.scale.layout import Costs, Layout, Outcome
from bench.scale.loaded import fitted
from bench.scale.measured import Run
from bench.scale.model import Simulation
from bench.scale.page import BEGIN, END, Unmarked, put, section
from bench.scale.picture import draw
from bench.scale.plan import Units, plan
from bench.scale.run import verdict
from bench.scale.stations import Disk, Machine, Steps
from bench.scale.traffic import Traffic, Zipf, exponent_of
from bench.scale.validate import Beside

SYNC = 0.002
EVEN = Traffic("even", 1, 1, 1, [0, 0, 1, 0, 0], [0, 1], 0.0, 1)
DURABLE = Traffic("durable", 1, 1, 1, [0, 0, 0, 1, 0], [0, 1], 0.0, 1)


def costs(engine: str = "postgres", **more: object) -> Costs:
    """Round service times: judging takes 1 ms, the rest is small, a sync takes 2 ms."""
    plain = Costs(engine, 0.001, [0.001] * 5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 2, 0.0001, [SYNC, SYNC])
    return replace(plain, **more)  # type: ignore[arg-type]


def queued(rate: float, service: float, *, fixed: bool, calls: int = 12_000) -> tuple[float, float, float]:
    """The mean time in one queue, the mean number in it, and the arrivals a second."""
    env, chance = simpy.Environment(), random.Random(1)
    machine = Machine(env, 1)
    taken: list[float] = []

    def one() -> Steps:
        began = env.now
        yield machine.work(service if fixed else chance.expovariate(1 / service))
        taken.append(env.now - began)

    def arrive() -> Steps:
        for _ in range(calls):
            yield env.timeout(chance.expovariate(rate))
            env.process(one())

    env.process(arrive())
    env.run()
    return sum(taken) / len(taken), sum(taken) / env.now, len(taken) / env.now


@pytest.mark.parametrize("load", [0.3, 0.7])
@pytest.mark.parametrize("fixed", [False, True])
def test_single_queue_matches_queueing_theory(load: float, fixed: bool) -> None:
    """M/M/1 and M/D/1: the mean time in the system, after Pollaczek and Khinchine."""
    service = 0.001
    mean, _, _ = queued(load / service, service, fixed=fixed)
    wait = service * load / (1 - load) * (0.5 if fixed else 1.0)
    assert mean == pytest.approx(service + wait, rel=0.08)


def test_littles_law_holds_for_a_whole_layout() -> None:
    """Calls inside are calls a second times how long each takes."""
    layout = Layout("postgres", 40, think=0.02, servers=2, keys=50, hot=0.3, store_rtt=0.001)
    simulation = Simulation(costs(request=[0.0015] * 5, store_request=0.0005), DURABLE, layout)
    found = simulation.run(warm=0.3, seconds=3)
    mean = sum(simulation._tally.taken) / len(simulation._tally.taken)
    assert found.waiting == pytest.approx(found.calls * mean, rel=0.02)
    assert found.late == 0


@pytest.mark.parametrize(("processors", "expected"), [(1, 1000), (2, 2000), (4, 4000)])
def test_throughput_grows_with_processors(processors: int, expected: int) -> None:
    env = simpy.Environment()
    machine = Machine(env, processors)
    done = []
    for _ in range(4000):
        machine.work(0.001).callbacks.append(lambda _: done.append(env.now))
    env.run(until=1.0001)
    assert len(done) == pytest.approx(expected, abs=processors)


def test_sync_serves_all_earlier_requests() -> None:
    env = simpy.Environment()
    disk = Disk(env, lambda: 1.0)
    done: list[float] = []

    def ask(at: float) -> Steps:
        yield env.timeout(at)
        yield disk.sync()
        done.append(env.now)

    for at in (0.0, 0.1, 0.9, 1.1):
        env.process(ask(at))
    env.run()
    assert done == [1.0, 2.0, 2.0, 3.0]


def hot(engine: str, **more: object) -> Outcome:
    """Many gates, each with processors to spare, that all go for one key."""
    layout = Layout(engine, 64, servers=64, lanes=1, batch=1, keys=1, stick="session")
    layout = replace(layout, **more)  # type: ignore[arg-type]
    simulation = Simulation(costs(engine, front=0.0001, request=[0.0003] * 5), DURABLE, layout)
    return simulation.run(warm=0.3, seconds=1.5, most=600)


def test_hot_key_serves_one_call_for_each_lease() -> None:
    """Held for a decision and for its report: two half trips, the step, the sync."""
    held = 0.001 + 0.0002 + SYNC
    assert hot("postgres", store_rtt=0.001).calls == pytest.approx(1 / (2 * held), rel=0.08)
    spread = hot("postgres", store_rtt=0.001, keys=100_000)
    assert spread.calls > 10 / (2 * held)  # the control: without a common key no call waits for another


def test_hot_redis_key_costs_retries_and_the_oldest_call_succeeds() -> None:
    busy, calm = hot("redis", servers=8, sessions=8), hot("redis", servers=8, sessions=8, keys=100_000)
    assert busy.retries > 0.5
    assert calm.retries < 0.01
    assert 0 < busy.calls < calm.calls
    assert busy.p99 < 1


def test_a_batch_shares_a_sync() -> None:
    """Sixty-four at once on SQLite are not sixty-four syncs one after another."""
    layout = Layout("sqlite", 64, keys=100_000)
    found = Simulation(costs("sqlite", front=0.0001, request=[0.0001] * 5), DURABLE, layout).run(warm=0.1, seconds=0.5)
    assert found.calls > 4 / SYNC
    assert found.depth > 8
    lone = Simulation(costs("sqlite", front=0.0001, request=[0.0001] * 5), DURABLE, replace(layout, sessions=1))
    assert lone.run(warm=0.1, seconds=1).calls == pytest.approx(1 / (2 * SYNC + 0.0002), rel=0.1)


def test_overloaded_server_meets_deadlines_only_if_it_refuses_some_calls() -> None:
    layout = Layout("sqlite", 100, rate=1000, deadline=0.2, patience=math.inf)
    cheap = costs("sqlite", sync=[0.0, 0.0])
    all_taken = Simulation(cheap, EVEN, layout).run(warm=1.5, seconds=1)
    some_sent_away = Simulation(cheap, EVEN, replace(layout, patience=0.05)).run(warm=1.5, seconds=1)
    calm = Simulation(cheap, EVEN, replace(layout, rate=300)).run(warm=1.5, seconds=1)
    assert all_taken.late > 0.9
    assert some_sent_away.calls > 350
    assert calm.late == 0


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "redis"])
def test_the_same_seed_gives_the_same_outcome(engine: str) -> None:
    layout = Layout(engine, 30, think=0.01, servers=3, keys=20, hot=0.2, namespaces=3, shards=2)
    runs = [Simulation(costs(engine), DURABLE, layout, seed).run(warm=0.1, seconds=0.5) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_zipfs_exponent_is_found_again() -> None:
    chance, zipf = random.Random(1), Zipf(50, 0.8)
    counts = [0] * 50
    for _ in range(20_000):
        counts[zipf.pick(chance)] += 1
    assert exponent_of([counts]) == pytest.approx(0.8, abs=0.03)
    assert exponent_of([[100] * 50]) == pytest.approx(0.0, abs=0.03)
    assert sum(map(zipf.share, range(50))) == pytest.approx(1)


def test_committed_layouts_can_be_simulated() -> None:
    found, asked = measured.load(), traffic.load()
    assert sum(asked.tiers) == pytest.approx(1, abs=0.01)
    assert sum(asked.keys) == pytest.approx(1, abs=0.01)
    for layout in layouts().values():
        outcome = Simulation(Costs.of(found, layout.engine), asked, replace(layout, sessions=20, think=0.05)).run(
            warm=0.1, seconds=0.3
        )
        assert outcome.calls > 0


def test_costs_of_a_request_and_of_a_batch_are_separated() -> None:
    def block(requests: int, batches: int) -> Block:
        found = Found(requests, 1.0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, {})
        return Block(found, server=0.002 * requests + 0.005 * batches, store=0.0, others=0.0, batches=batches)

    blocks = [block(100, 100), block(800, 200), block(3000, 90)]
    assert fitted(blocks, lambda one: one.server) == pytest.approx((0.002, 0.005))
    assert fitted(blocks, lambda one: one.store) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("ratios", "others", "within", "judged"),
    [
        ((1.0, 1.0, 1.0), 0.0, True, True), ((1.39, 0.72, 2.4), 0.0, True, True), ((1.6, 1.0, 1.0), 0.0, False, True),
        ((1.0, 0.5, 1.0), 0.0, False, True), ((1.0, 1.0, 3.0), 0.0, False, True), ((1.0, 1.0, 3.0), 1.2, False, False),
    ],
)  # fmt: skip
def test_wrong_simulation_is_noticed(ratios: Sequence[float], others: float, within: bool, judged: bool) -> None:
    run = Run("x", "sqlite", "server", 1, None, 1, others=others, calls=100, p50=0.01, p99=0.02)
    rate, half, tail = ratios
    found = Outcome(100 * rate, 0.01 * half, 0.02 * tail, 0, 0, 0, 0, 0, 0)
    one = Beside(run, found)
    assert (one.within, one.judged) == (within, judged)
    assert verdict([one]) == (3 if not judged else 0 if within else 1)


def test_page_keeps_the_text_around_the_tables() -> None:
    page = f"# Title\n\n{BEGIN}\nold\n{END}\n\nafter\n"
    assert put(page, "new") == f"# Title\n\n{BEGIN}\n\nnew\n{END}\n\nafter\n"
    assert put(put(page, "new"), "new") == put(page, "new")
    with pytest.raises(Unmarked):
        put("# Title\n", "new")


def test_every_table_can_be_written() -> None:
    found, asked = measured.load(), traffic.load()
    outcome = Outcome(1000.0, 0.001, 0.01, 0.2, 0.9, 0.1, 1, 0, 0)
    carried = Units(dict.fromkeys(("PostgreSQL", "server on PostgreSQL", "Redis", "server on Redis"), outcome))
    axis = Axis("sessions", "Calls", "sessions", "calls", lambda one: one.calls, (Curve("one", ((10.0, outcome),)),))
    told = section(found, asked, [Beside(run, outcome) for run in found.runs], [axis], carried)
    tables = [list(rows) for table, rows in itertools.groupby(told.splitlines(), lambda line: line[:1] == "|") if table]
    assert len(tables) == 6
    assert all(len({row.count("|") for row in rows}) == 1 for rows in tables)
    assert plan(found, carried, "postgres", 10.0).servers == 167  # 100,000 calls a second at 600 each
    assert "1,000 (1, 10 ms, 20% late)" in told


def test_the_picture_is_well_formed_and_shows_every_point() -> None:
    points = tuple((float(x), Outcome(10.0 * x, 0.001, 0.01, 0, 0, 0, 1, 0, 0)) for x in (1, 10, 1000))
    axis = Axis("sessions", "a < b", "x & y", "up", lambda outcome: outcome.calls, (Curve("one", points),), log_x=True)
    root = ET.fromstring(draw([axis, axis], "t"))  # noqa: S314  our own text
    assert len(root.findall(".//{http://www.w3.org/2000/svg}circle")) == 6
    assert "a < b" in "".join(root.itertext())
