"""What Hypothesis drew can be drawn again from bytes, and exhausted bytes yield the plainest choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import make
from fuzz.attempt import shrink
from fuzz.source import Bytes, Drawn, Source


def parts(value: Any) -> Iterator[Any]:
    """Yield all parts of a value in order.

    It may be nested deeper than ``repr`` and ``==`` can follow, or contain itself.
    """
    seen: set[int] = set()
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict | list | tuple):
            yield type(one), len(one)
            if id(one) not in seen:
                seen.add(id(one))
                left += [item for pair in one.items() for item in pair] if isinstance(one, dict) else one
        else:
            yield repr(one) if isinstance(one, float) else one  # no number equals one that is none


def drawn(source: Source) -> list[Any]:
    return [
        source.number(0),
        source.number(1),
        source.number(255),
        source.number(256),
        source.number(10**9),
        source.data(5),
        source.text(300),
        source.pick("abc"),
        source.maybe(3),
        len(source.times(4)),
        *parts(make.params(source)),
        source.rest(),
    ]


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_drawn_values_are_repeatable(data: st.DataObject) -> None:
    source = Drawn(data)
    first = drawn(source)
    assert drawn(Bytes(source.written)) == first


def test_empty_source_draws_zeros() -> None:
    source = Bytes(b"")
    assert [source.number(9), source.data(9), source.text(), source.maybe(), source.rest()] == [0, b"", "", False, b""]


def test_input_is_shrunk_while_it_shows_the_fault() -> None:
    assert shrink(b"xxxxAxxxxxxBxxx", lambda one: b"A" in one and b"B" in one) == b"AB"
    assert shrink(b"A", lambda one: b"A" in one) == b"A"
