"""The meaning of param names is computed once for each set of them, and the cache is bounded."""

from typing import Any

import pytest

from callosum.model import Call
from callosum.rules import RuleSet, shape


def test_calls_with_equal_names_share_a_shape_for_all_values() -> None:
    assert shape.of({"order_id": 1, "note": "x"}) is shape.of({"order_id": None, "note": []})
    assert shape.of({"order_id": 1}) is not shape.of({"orderId": 1})


def test_number_of_cached_shapes_is_bounded() -> None:
    for number in range(shape.MOST + 50):
        shape.of({f"param{number}": 1})
    assert len(shape._KNOWN) <= shape.MOST
    for params in ({"x" * 2000: 1}, {f"p{number}": 1 for number in range(100)}, {5: 1}):
        assert shape.of(params) is not shape.of(params)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [5, None, 2.5, b"path", ("a",)])
def test_name_that_is_no_text_is_ignored(name: Any) -> None:
    found = shape.of({name: "/etc/x"})
    assert (found.roles, found.guarded) == ((), ())
    assert RuleSet.parse().classify(Call("a", "get_thing", {name: "x"})).effect == "read"


def test_shape_is_that_of_the_wrapped_params() -> None:
    rules = RuleSet.parse(secret=b"secret")
    plain = rules.classify(Call("a", "update_order", {"order_id": "W1"}))
    held = rules.classify(Call("a", "update_order", {"params": {"order_id": "W1"}}))
    assert held.keys == plain.keys
    assert rules.classify(Call("a", "run_tool", {"params": {"sql": "drop table users"}})).tier == 4
