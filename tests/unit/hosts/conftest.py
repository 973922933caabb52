"""A gate that hooks of all hosts reach."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hooked import Hooked, hooked


@pytest.fixture
def hosts(state: Path) -> Iterator[Hooked]:
    """Yield one gate and one dispatcher for all hosts."""
    with hooked(state) as made:
        yield made
