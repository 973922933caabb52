"""No request keeps the server's event loop for more than 50 ms of processor time.

Every request of ``requests()`` that is made of values is sent, and each text at some positions.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.hostile import TEXTS, requests
from tests.support.pulse import Pulse, pulsing

MOST: Final = 0.05
"""Seconds of processor time between two turns of the loop."""
_EVERYWHERE: Final = ("command of", "short command of", "middle line of", "line of", "short hook of")


def chosen() -> Iterator[tuple[str, bytes, bytes]]:
    """Yield every request whose cost is in its values, and one in 18 of those made of text, except commands."""
    number = 0
    for name, head, body in requests():
        if name.partition(" of ")[2] in TEXTS and not name.startswith(_EVERYWHERE):
            number += 1
            if number % 18:
                continue
        yield name, head, body


@pytest.fixture(scope="module")
def pulse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pulse]:
    with pulsing(tmp_path_factory.mktemp("pulse") / "state") as found:
        yield found


def test_no_request_keeps_the_loop_for_longer_than_50_ms(pulse: Pulse) -> None:
    slow = {}
    for name, head, body in chosen():
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
