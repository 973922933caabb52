from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.world import World, gate_time


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    with gate_time(world.clock):
        yield world
