"""What the names of params say is worked out once for each set of them, and what is kept is bounded."""

from typing import Any

import pytest

from callosum.model import Call
from callosum.rules import RuleSet, shape


def test_equal_names_share_a_shape_whatever_they_hold() -> None:
    assert shape.of({"order_id": 1, "note": "x"}) is shape.of({"order_id": None, "note": []})
    assert shape.of({"order_id": 1}) is not shape.of({"orderId": 1})


def test_a_flood_of_names_is_not_kept() -> None:
    for number in range(shape.MOST + 50):
        shape.of({f"param{number}": 1})
    assert len(shape._KNOWN) <= shape.MOST
    for params in ({"x" * 2000: 1}, {f"p{number}": 1 for number in range(100)}, {5: 1}):
        assert shape.of(params) is not shape.of(params)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [5, None, 2.5, b"path", ("a",)])
def test_a_name_that_is_no_text_says_nothing(name: Any) -> None:
    found = shape.of({name: "/etc/x"})
    assert (found.roles, found.guarded) == ((), ())
    assert RuleSet.parse().classify(Call("a", "get_thing", {name: "x"})).effect == "read"


def test_a_shape_is_that_of_the_params_that_a_wrapper_holds() -> None:
    rules = RuleSet.parse(secret=b"secret")
    plain = rules.classify(Call("a", "update_order", {"order_id": "W1"}))
    held = rules.classify(Call("a", "update_order", {"params": {"order_id": "W1"}}))
    assert held.keys == plain.keys
    assert rules.classify(Call("a", "run_tool", {"params": {"sql": "drop table users"}})).tier == 4
