"""A process whose clock jumps, and a machine whose clock is set: leases keep their duration."""

import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from callosum.gate import LocalGate
from callosum.model import SECOND
from callosum.settings import Settings
from callosum.stores.sqlite import SqliteStore, clock, connection
from tests.acceptance.command import environment

HOUR = 3600
TTL = 9.0
OTHER = """
import json, sys, time
real, real_ns = time.time, time.time_ns
off = float(sys.argv[2])
time.time, time.time_ns = lambda: real() + off, lambda: real_ns() + int(off * 1e9)
from callosum import LocalGate
with LocalGate(sys.argv[1]) as gate:
    told = [gate.lock("doug", key, 4, 9.0).acquired for key in ("doc:plan", "doc:other")]
    gate.release("doug", "doc:other")
print(json.dumps(told))
"""


def leases_elsewhere(state: Path, off: float) -> list[bool]:
    """Ask another process, whose clock is off, for a lease that is held here and for another one."""
    done = subprocess.run(
        [sys.executable, "-c", OTHER, str(state), str(off)],
        env=environment(state), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return list(json.loads(done.stdout))


def lasts(gate: LocalGate, key: str) -> float:
    """Return the seconds by this machine's clock that a new lease lasts."""
    lease = gate.lock("mira", key, 4, TTL).lease
    assert lease is not None
    return lease.expires - time.time()


@pytest.mark.parametrize("off", [HOUR, -HOUR])
@pytest.mark.parametrize("leased", [True, False])
def test_process_whose_clock_jumped_moves_no_other_leases(tmp_path: Path, off: float, *, leased: bool) -> None:
    with LocalGate(settings=Settings(state=tmp_path / "state")) as gate:
        if leased:
            assert gate.lock("mira", "doc:plan", 4, 60.0).acquired
        assert leases_elsewhere(tmp_path / "state", off) == [not leased, True]
        assert 0 < lasts(gate, "doc:third") <= TTL + 1
        if leased:
            assert not gate.lock("doug", "doc:plan", 4, TTL).acquired


def test_process_with_a_wrong_clock_may_be_the_first(tmp_path: Path) -> None:
    assert leases_elsewhere(tmp_path / "state", HOUR) == [True, True]
    with LocalGate(settings=Settings(state=tmp_path / "state")) as gate:
        assert 0 < lasts(gate, "doc:third") <= TTL + 1


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Shift the machine's clock by ``seconds`` for every process and for files."""
    monkeypatch.setattr(connection, "LOOK_EVERY", 0.0)
    off, real = [0.0], time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + int(off[0] * 1e9))
    monkeypatch.setattr(clock.AgreedClock, "_machine", lambda _self, mine: mine)
    return off


def test_machine_whose_clock_is_set_keeps_the_stores_until_no_lease_is_open(
    tmp_path: Path, machine: list[float]
) -> None:
    with LocalGate(settings=Settings(state=tmp_path / "state")) as gate:
        assert gate.lock("mira", "doc:plan", 4, 60.0).acquired
        before = gate.store.now()
        machine[0] = HOUR
        assert not gate.lock("doug", "doc:plan", 4, TTL).acquired, "the lease has not run out"
        assert gate.store.now() - before < 60 * SECOND
        assert any("the clock differs from the store's by +3600 s" in one for one in gate.store.check().problems)
        gate.release("mira", "doc:plan")
        assert gate.store.now() - before > HOUR * SECOND
        assert gate.store.check().problems == ()


def test_clock_set_back_does_not_make_leases_longer(tmp_path: Path, machine: list[float]) -> None:
    """The newest entry is then ahead of the clock: the store's clock continues until the machine's has caught up."""
    with (
        closing(SqliteStore(tmp_path / "state" / "gate.db")) as store,
        LocalGate(settings=Settings(state=tmp_path / "state"), store=store) as gate,
    ):
        gate.lock("mira", "doc:plan", 4, TTL)
        gate.release("mira", "doc:plan")
        machine[0] = -HOUR
        now = store.now()
        lease = gate.lock("mira", "doc:other", 4, TTL).lease
        assert lease is not None
        assert 0 < lease.expires * SECOND - now <= (TTL + 1) * SECOND
        assert now > time.time_ns() // 1000 + 0.9 * HOUR * SECOND
