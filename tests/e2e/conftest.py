"""The model that all hosts talk to."""

from collections.abc import Iterator

import pytest

from tests.e2e.models import Model, model


@pytest.fixture
def scripted() -> Iterator[Model]:
    """Yield a model scripted by the test."""
    with model() as running:
        yield running
