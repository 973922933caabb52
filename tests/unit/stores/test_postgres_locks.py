"""The locks of the PostgreSQL engine: calls whose keys overlap exclude each other, others do not wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callosum.model import Key, Scope, overlap
from callosum.stores import names
from callosum.stores.postgres.locks import EVERY, Locks, in_order, lock_of, locks_of

part = st.sampled_from(["a", "b", "ab", "a.py"])
place = st.lists(part, min_size=1, max_size=3).map("/".join)
key = st.builds(
    lambda kind, path, end: f"{kind}:{path}{end}",
    st.sampled_from(["file", "doc"]),
    place,
    st.sampled_from(["", "/", "|a", "|b"]),
)


def _of(*keys: str) -> Locks:
    return locks_of([Scope("default", "mira", (Key(key),)) for key in keys])


def _exclude(one: Locks, other: Locks) -> bool:
    return any(name in other and (alone or other[name]) for name, alone in one.items())


@given(key, key)
def test_overlapping_keys_exclude_each_other(one: str, other: str) -> None:
    assert _exclude(_of(one), _of(other)) == overlap(one, other)


@given(st.lists(key, min_size=1, max_size=4))
def test_locks_of_a_batch_are_those_of_its_calls_in_one_order(keys: list[str]) -> None:
    locks = _of(*keys)
    ordered = in_order("callosum", locks)
    assert [at for at, _ in ordered] == sorted({at for at, _ in ordered})
    assert len(ordered) == len(locks)
    assert dict(ordered) == dict(in_order("callosum", dict(reversed([*locks.items()]))))
    assert all(locks[names.key("default", key)] for key in keys)
    assert not locks[EVERY]


@pytest.mark.parametrize("key", ["doc:1", "file:/a/b/", "doc:1|note", "odd:\x00\x01|\x00", "long:" + "x\x00" * 1000])
def test_record_about_a_key_is_written_under_the_lock_of_the_key(key: str) -> None:
    lock = names.key("work", key)
    for name in (lock, names.mark("work", "mira", key), names.print_of("work", key, b"\x00\x01digest")):
        assert lock_of(name) == lock
    action = names.action("work", 7)
    assert lock_of(action) == action
    assert lock_of(names.session("work", "mira")) is None
