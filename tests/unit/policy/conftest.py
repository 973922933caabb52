from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum.stores.sqlite import SqliteStore
from tests.support.world import World, gate_time

ENGINE = os.environ.get("CALLOSUM_TEST_STORE", "memory")
"""``sqlite`` runs the same tables over the embedded store."""


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """Yield a world over the store of ``ENGINE``, or over the one that a test names as its parameter."""
    engine = getattr(request, "param", ENGINE)
    make = (
        None if engine == "memory" else lambda clock, probe: SqliteStore(tmp_path / "gate.db", clock=clock, probe=probe)
    )
    world = World(tmp_path, make)
    with gate_time(world.clock):
        yield world
    world.gate.close()
