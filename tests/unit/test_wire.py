"""Reading the body of a request."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callosum import wire

ANYTHING = msgspec.json.Decoder(Any)
NAMES = st.text(st.sampled_from('ab:x"\\\n ,{é'), max_size=3) | st.sampled_from(['":', '\\"', ":x"])


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> str:
    """Return JSON whose names are hard to find without parsing it, and may occur twice."""
    kind = draw(st.sampled_from(["text", "number", "list", "object"][: 4 if depth else 2]))
    if kind == "number":
        return draw(st.sampled_from(["1", "null", "-2.5e3"]))
    if kind == "text":
        return json.dumps(draw(NAMES), ensure_ascii=draw(st.booleans()))
    inner = draw(st.lists(values(depth - 1), max_size=3))
    if kind == "list":
        return f"[{','.join(inner)}]"
    colon = draw(st.sampled_from([":", ": ", " :"]))
    members = [f"{json.dumps(draw(NAMES), ensure_ascii=draw(st.booleans()))}{colon}{value}" for value in inner]
    return f"{{{','.join(members)}}}"


def has_a_name_twice(body: str) -> bool:
    twice: list[bool] = []

    def look(members: list[tuple[str, Any]]) -> None:
        twice.append(len(dict(members)) != len(members))

    json.loads(body, object_pairs_hook=look)
    return any(twice)


@given(values())
def test_body_is_refused_if_and_only_if_an_object_has_a_name_twice(body: str) -> None:
    if has_a_name_twice(body):
        with pytest.raises(wire.BadRequest, match="occurs twice in one object"):
            wire.read(ANYTHING, body.encode())
    else:
        assert wire.read(ANYTHING, body.encode()) == json.loads(body)
