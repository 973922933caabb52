"""No request keeps the server's event loop for more than 50 ms of processor time.

Every request of ``requests()`` that is made of values is sent, and one in 18 of those made of texts, but all commands.
"""

from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest

from tests.support.hostile import requests
from tests.support.pulse import Pulse, pulsing

MOST: Final = 0.05
"""Seconds of processor time between two turns of the loop."""
_EVERYWHERE: Final = ("command of", "short command of", "short hook of")


@pytest.fixture(scope="module")
def pulse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pulse]:
    with pulsing(tmp_path_factory.mktemp("pulse") / "state") as found:
        yield found


def test_no_request_keeps_the_loop_for_longer_than_50_ms(pulse: Pulse) -> None:
    slow, others = {}, count(1)
    for name, head, body in requests(lambda name: name.startswith(_EVERYWHERE) or next(others) % 18 == 0):
        took, answer = pulse.longest_of(head, body)
        assert answer[9:10] in (b"2", b"4"), (name, answer[:300])
        if took > MOST:
            slow[name] = round(took, 3)
    assert not slow


def test_turn_that_keeps_the_interpreter_is_noticed(pulse: Pulse) -> None:
    """Negative control: a sort in C keeps every other thread waiting."""
    numbers = list(range(1_000_000, 0, -1)) + list(range(1_000_000))
    pulse.reset()
    for _ in range(3):
        sorted(numbers, key=str)
    pulse.ask(b"GET /health", b"")
    assert pulse.longest > MOST
