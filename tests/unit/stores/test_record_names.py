"""Records' names keep the order of the keys, and a tree is one range of them, whatever the text."""

from hypothesis import assume, example, given
from hypothesis import strategies as st

from callosum.model import overlap, reach
from callosum.stores import names
from callosum.stores.keys import above, covering

LETTERS = st.sampled_from(["a", "b", "/", "|", ":", "\x00", "\x01", "\xff", "\ud800", "\udfff", "\U0001f600", "0", "{"])
ANY = st.one_of(st.text(LETTERS, max_size=6), st.text(st.characters(), max_size=6))
"""Short texts, also ones that no encoding has: with NUL and lone surrogates."""
LONG = st.builds(
    lambda unit, count, end: unit * count + end, st.text(LETTERS, min_size=1, max_size=3), st.integers(100, 1300), ANY
)
TEXT = st.one_of(ANY, ANY, LONG)
KEY = st.builds(
    lambda kind, parts, facet: f"{kind}:{'/'.join(parts)}{facet}",
    st.sampled_from(["file", "doc", "order"]),
    st.lists(st.sampled_from(["", "a", "b", "a\x00", "\ud800", "é", "x" * 700]), max_size=4),
    st.sampled_from(["", "", "|f", "|a/", "|a/b", "/"]),
).filter(lambda key: key[key.index(":") + 1 :][:1] not in ("", "|"))
"""Keys that have a name behind their kind."""
PREFIX = names.named(b"k", "default")


def size(text: str) -> int:
    return len(names.text(text)) - 2


@given(TEXT, TEXT)
@example("a", "a\x00")
@example("a\x00", "a\x01")
@example("\ud800", "\U0001f600")
@example("x" * 1200, "x" * 1201)
@example("x" * 1101 + "a", "x" * 1101 + "b")
@example("\x00" * 601, "\x00" * 602)
def test_names_are_as_different_as_their_texts_and_in_their_order(one: str, other: str) -> None:
    assert (names.text(one) == names.text(other)) == (one == other)
    start = max(len(one.encode("utf-8", "surrogatepass")), len(other.encode("utf-8", "surrogatepass"))) * 2
    if start <= 1200:
        assert (names.text(one) < names.text(other)) == (one < other)
    assert len(names.text(one)) <= 1202


@given(TEXT, TEXT, st.booleans())
@example("file:/r", "file:/r/a", True)
@example("order:", "order:W1", True)
@example("a\x00", "a\x00\x00/", True)
@example("x" * 1150, "x" * 1150 + "/y", True)
def test_range_below_a_tree_holds_the_keys_that_it_covers(tree: str, key: str, inside: bool) -> None:
    tree += "/"
    key = reach(tree) + key if inside else key
    start, end = names.below(PREFIX, tree)
    covered = key.startswith(reach(tree))
    held = start <= PREFIX + names.text(key) < end
    assert held or not covered
    if len(reach(tree).encode("utf-8", "surrogatepass").replace(b"\x00", b"\x00\xff")) <= 1100:
        assert held == covered


@given(TEXT, TEXT)
@example("a\x00", "x")
@example("x" * 1100, "x")
@example("x" * 1099, "x")
@example("x" * 1199, "x")
@example("x" * 1300, "x")
def test_range_below_a_key_holds_its_facets(key: str, facet: str) -> None:
    assume(not key.endswith("/"))
    start, end = names.below(PREFIX, key)
    name = PREFIX + names.text(f"{key}|{facet}")
    assert start <= name < end
    assert name.startswith(PREFIX + names.facets(names.text(key)))
    if len(start) < len(PREFIX) + 1100:
        assert not start <= PREFIX + names.text(key) < end
        assert not start <= PREFIX + names.text(key + "}" + facet) < end


@given(KEY, KEY)
def test_keys_that_overlap_are_among_those_around_or_in_the_range_below(one: str, other: str) -> None:
    def finds(key: str, name: str) -> bool:
        start, end = names.below(PREFIX, key)
        return name in covering(key) or start <= PREFIX + names.text(name) < end

    if overlap(one, other):
        assert finds(one, other)
        assert finds(other, one)
    elif size(one) < 1100 and size(other) < 1100:
        assert not finds(one, other)


@given(KEY)
def test_a_key_lies_in_the_range_of_every_tree_above_it(key: str) -> None:
    for tree in above(key):
        if tree.endswith("/"):
            start, end = names.below(PREFIX, tree)
            assert start <= PREFIX + names.text(key) < end


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_ids_are_in_their_order(one: int, other: int) -> None:
    assert (names.number(one) < names.number(other)) == (one < other)
    assert names.id_in(names.action("default", one)) == one
