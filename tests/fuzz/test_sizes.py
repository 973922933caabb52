"""Requests made to cost much are inputs of the fuzzed decoder and gate too, at the sizes judged on the event loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fuzz.attempt import attempt
from fuzz.targets import TARGETS
from tests.support.hostile import INLINE, TEXTS, short_requests

WIRE = next(target for target in TARGETS if target.name == "wire")
HEADS = (b"POST /intercept", b"POST /complete")
PLACES = ("short command", "short result")
"""Where texts stand that are tried; values are tried everywhere."""


def small() -> Iterator[tuple[str, bytes]]:
    """Yield names and bodies of the requests that the wire target reads."""
    for name, head, body in short_requests():
        told = name.partition(" of ")
        if head in HEADS and (told[2] not in TEXTS or told[0] in PLACES):
            assert len(body) <= INLINE, name  # it is judged on the event loop
            yield name, body


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in small()])
def test_request_made_to_cost_much_shows_no_fault(body: bytes) -> None:
    fault = attempt(WIRE, b"\0" + body)
    assert fault is None, fault.told
