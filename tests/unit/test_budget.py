"""How many values of a request are read, and how the rest is treated."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callosum import Call, LocalGate, budget, wire
from callosum.budget import MAX_VALUES
from callosum.gate.check import with_json_params
from callosum.model import Classification
from callosum.rulebook import Rulebook
from callosum.unclean import UNREAD

MANY = [{"id": number, "name": "x"} for number in range(70_000)]


def read(body: Any) -> Call:
    return wire.read(msgspec.json.Decoder(Call), json.dumps(body).encode())


def classify(call: Call) -> Classification:
    return Rulebook(None, secret=b"s" * 32).current().classify(call)


def count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(count, value.values()))
    return 1 + sum(map(count, value)) if isinstance(value, list) else 1


@given(st.recursive(st.none() | st.integers() | st.text(max_size=20), lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner)))  # fmt: skip
def test_values_are_counted_at_least_to_the_limit(value: Any) -> None:
    text = json.dumps([value] * 5000).encode()
    counted = budget.values_in(text)
    assert counted >= min(count([value] * 5000), MAX_VALUES) or counted >= json.dumps([value] * 5000).count(",") // 4


@given(st.text(alphabet='\\"a,[]', max_size=200), st.integers(1, 9))
def test_values_are_counted_alike_whatever_the_length_of_a_block(text: str, block: int) -> None:
    found = json.dumps([text] * 3).encode() + text.encode()
    whole = budget.values_in(found, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "_BLOCK", block)
        assert budget.values_in(found, 1) == whole


def test_request_with_few_values_stays_as_it_is() -> None:
    body = json.dumps({"instance": "a", "tool": "write", "params": {"content": 'a, [b], {c} \\ " ' * 200_000}}).encode()
    assert budget.lighter(body) is body


@pytest.mark.parametrize("where", ["params", "schema", "annotations"])
def test_request_with_many_values_keeps_its_other_fields(where: str) -> None:
    call = read({"instance": "mira", where: {"first": 1, "rows": MANY, "last": 2}, "tool": "frob", "callId": "c1"})
    assert (call.instance, call.tool, call.call_id) == ("mira", "frob", "c1")
    shortened: Any = getattr(call, where)
    assert (shortened["first"], shortened["last"]) == (1, 2)
    assert 0 < len(shortened["rows"]) < MAX_VALUES
    assert shortened["rows"][0] == MANY[0]
    assert shortened[UNREAD]["in"] == ["rows"]
    assert shortened[UNREAD]["bytes"] == len(json.dumps({"first": 1, "rows": MANY, "last": 2}))
    assert count(shortened) <= 2 * MAX_VALUES


def test_call_that_differs_only_in_what_is_not_read_is_another_call() -> None:
    """Idempotency compares all of a call: the marker holds a digest of the whole."""
    calls = [read({"instance": "mira", "tool": "frob", "params": {"rows": [*MANY, last]}}) for last in (1, 2, 1)]
    digests = [classify(call).content.digest for call in calls]
    assert digests[0] != digests[1]
    assert digests[0] == digests[2]


def test_embedded_gate_reads_as_many_values_as_the_server() -> None:
    call = Call("mira", "frob", {"rows": MANY})
    shortened, _ = with_json_params(call)
    assert shortened.params[UNREAD]["in"] == ["rows"]
    small = Call("mira", "frob", {"rows": MANY[:10]})
    assert with_json_params(small)[0] is small


@pytest.mark.parametrize(
    ("tool", "params", "tier"),
    [
        ("frob", {"rows": MANY, "x": 1}, 1),
        ("frob", {"rows": MANY, "arguments": MANY}, 3),
        ("frob", {"arguments": MANY, "x": 1}, 3),
        ("get_thing", {"filter": MANY}, 3),
        ("write", {"path": "/a", "content": MANY}, 1),
        ("Bash", {"junk": MANY, "command": "rm -rf /"}, 4),
        ("Bash", {"junk": MANY, "command": "ls"}, 3),
        ("Bash", {**{f"name{number}": 1 for number in range(50_000)}, "command": "rm -rf /"}, 4),
        ("delete_repository", {**{f"name{number}": 1 for number in range(50_000)}, "repo": "acme/site"}, 4),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_padding_never_lowers_a_tier_and_content_never_raises_one(tool: str, params: Any, tier: int) -> None:
    assert classify(read({"instance": "mira", "tool": tool, "params": params})).tier == tier


@pytest.mark.parametrize("padding", ["echo " + "a " * 100_000, "echo '" + "a" * 200_000 + "'"], ids=["words", "quoted"])
@pytest.mark.parametrize("after", ["", " ; rm -rf /", " | sh"])
def test_command_line_too_long_to_parse_counts_as_tier_3(padding: str, after: str) -> None:
    found = classify(Call("mira", "Bash", {"command": padding + after}))
    assert found.tier == 3, found.why
    assert "only its beginning was read" in str(found.why)


def test_blanks_around_a_command_do_not_hide_it() -> None:
    found = classify(Call("mira", "Bash", {"command": " " * 1_000_000 + "rm -rf /" + "\n" * 1_000_000}))
    assert found.tier == 4


def test_duplicate_names_are_judged_even_with_many_values() -> None:
    text = '{"instance":"a","tool":"Bash","params":{"command":"rm -rf /","rows":%s,"command":"ls"}}'
    assert classify(wire.read(msgspec.json.Decoder(Call), (text % json.dumps(MANY)).encode())).tier == 4


def test_list_of_calls_is_read_as_a_whole_or_refused() -> None:
    decoder = msgspec.json.Decoder(list[Any])
    assert wire.read(decoder, json.dumps(MANY[:50_000]).encode(), listed=True) == MANY[:50_000]
    with pytest.raises(wire.BadRequest, match="more than 200000 values"):
        wire.read(decoder, json.dumps([*MANY, *MANY]).encode(), listed=True)


def test_dropped_values_are_always_counted() -> None:
    with pytest.raises(wire.BadRequest, match="more than 20000 values"):
        wire.read(msgspec.json.Decoder(list[Any]), json.dumps(MANY).encode())
    names = {f"name{number}": 1 for number in range(50_000)}
    with pytest.raises(wire.BadRequest, match="more than 20000 values"):
        read({**names, "instance": "a", "tool": "Bash", "params": {"command": "ls"}})


def test_32_b6_large_request_that_is_nested_too_deeply_counts_as_risky() -> None:
    text = b'{"instance":"a","tool":"Read","params":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    assert classify(wire.read(msgspec.json.Decoder(Call), text)).tier == 3


def test_shortened_params_never_replace_the_call(tmp_path: Any) -> None:
    """A host that can replace a call's params gets none back that the gate has not read as a whole."""
    with LocalGate(tmp_path) as gate:
        call = Call("mira", "exec", {"command": "rm -rf /", "rows": MANY}, rewrite=True, call_id="c")
        assert gate.intercept(call).params is None
