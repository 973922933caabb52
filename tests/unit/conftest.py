"""A corpus, and a world over each store that a process can have for itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum.corpus.bus import Corpus
from tests.support.world import World, world_on


@pytest.fixture
def corpus() -> Iterator[Corpus]:
    with Corpus() as corpus:
        yield corpus


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with world_on(request.param, tmp_path) as world:
        yield world
