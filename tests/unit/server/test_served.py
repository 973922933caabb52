"""The gate on an event loop: the work that simultaneous requests share."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from callosum.gate import LocalGate
from callosum.server.async_gate import ServedGate
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore


async def test_requests_read_together_share_one_check_of_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = LocalGate(settings=Settings(state=tmp_path), store=MemoryStore())
    taken: list[bytes] = []
    looks = 0
    waiting = gate.spool.waiting

    def look() -> bool:
        nonlocal looks
        looks += 1
        return waiting()

    def take(lines: Sequence[bytes]) -> None:
        taken.extend(lines)

    monkeypatch.setattr(gate.spool, "waiting", look)
    served = ServedGate(gate)
    monkeypatch.setattr(served, "_entered", take)
    await asyncio.gather(*[served.take_in() for _ in range(20)])
    assert looks == 1
    assert gate.spool.add(b'{"a": 1}')
    await asyncio.sleep(0)  # read by the loop in its next round
    await served.take_in()
    await served.close()
    assert taken == [b'{"a": 1}']
