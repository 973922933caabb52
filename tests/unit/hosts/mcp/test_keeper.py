"""What the gate is shown of params that are too long for it."""

from __future__ import annotations

from typing import Any

import pytest

from callosum.hosts.mcp.keeper import LONG_TEXT, shortened


def test_long_texts_are_cut_wherever_they_stand_and_told_apart() -> None:
    long, other = "x" * (LONG_TEXT + 1), "x" * LONG_TEXT + "y"
    one = shortened({"path": "/a", "text": long, "parts": [{"t": long}, 7]})
    two = shortened({"path": "/a", "text": other, "parts": [{"t": other}, 7]})
    assert one["path"] == "/a"
    assert one["parts"][1] == 7
    assert one["text"] == one["parts"][0]["t"]
    assert one["text"] != two["text"]
    assert len(one["text"]) < LONG_TEXT + 100


@pytest.mark.parametrize(("said", "tier"), [(None, 3), (0, 3), (4, 4), ("4", 3), (9, 3)])
def test_what_is_not_seen_whole_is_grave(said: Any, tier: int) -> None:
    assert shortened({"_tier": said, "text": ""})["_tier"] == tier
