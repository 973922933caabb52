"""Exhausted bytes yield the plainest choice, and an input is made as small as it can be."""

from fuzz.attempt import shrink
from fuzz.source import Source


def test_empty_source_draws_zeros() -> None:
    source = Source(b"")
    assert [source.number(9), source.data(9), source.text(), source.maybe(), source.rest()] == [0, b"", "", False, b""]


def test_input_is_shrunk_while_it_shows_the_fault() -> None:
    assert shrink(b"xxxxAxxxxxxBxxx", lambda one: b"A" in one and b"B" in one) == b"AB"
    assert shrink(b"A", lambda one: b"A" in one) == b"A"
