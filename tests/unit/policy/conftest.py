import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.world import World, world_on

ENGINE = os.environ.get("CALLOSUM_TEST_STORE", "memory")
"""``sqlite`` runs the same tables over the embedded store."""


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """Yield a world over the store of ``ENGINE``, or over the one that a test names as its parameter."""
    with world_on(getattr(request, "param", ENGINE), tmp_path) as world:
        yield world
