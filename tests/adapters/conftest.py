"""Fixtures for the tests of one framework; failed assertions of the behaviours show their values."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.adapters.behaviours")

# imported after the rewriting is registered
from tests.adapters.behaviours import Bench  # noqa: E402
from tests.adapters.harness import Framework  # noqa: E402


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """Yield a gate and tools for the module's ``FRAMEWORK``, in its first mode."""
    framework: Framework = request.module.FRAMEWORK
    made = Bench(framework, framework.modes[0], tmp_path)
    with made.gate:
        yield made


@pytest.fixture
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Yield the module's ``GatedTool``, with its gate open."""
    made = request.module.GatedTool(tmp_path)
    with made.gate:
        yield made
