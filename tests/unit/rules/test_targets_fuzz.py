"""Descriptions and results of tools never raise an exception, and their keys stay within bounds."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from callosum.model import MAX_KEY, Call, overlap
from callosum.rules import RuleSet, keys
from callosum.rules.harvest import harvest

RULES = RuleSet.parse(secret=b"secret")
TEXT = st.text(st.characters(), max_size=30)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
SAID = st.sampled_from(
    ["2026-05-19", "2026-05-19T10:00+02:00", "a@x.org", "https://X.org/a", "acme/site", "mutation { deleteX }", '{"id": 5}',
     "unknown", "../..", "draft", "9999-12-31T23:59"]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS | SAID, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=8
)
NAMES = TEXT | st.sampled_from(
    "start end date day calendar_id duration id order_id repo owner url params arguments tool_name query database port "
    "limit name username to attendees thread_id path amount iban outputDir cwd".split()
)
TOOLS = TEXT | st.sampled_from(
    "list_events create_event reserve_room search_orders list_issues execute_tool graphql run_migrations start_server "
    "get_unread_emails add_user_to_channel update_profile schedule_payment verify_domain list_files".split()
)
SCHEMAS = st.none() | st.dictionaries(TEXT | st.just("properties"), VALUES | st.dictionaries(NAMES, VALUES), max_size=3)


@settings(max_examples=400, deadline=None)
@given(TOOLS, st.dictionaries(NAMES, VALUES, max_size=6), st.none() | TEXT, SCHEMAS, SCHEMAS)
def test_classify_never_raises(
    tool: str, params: dict[str, Any], description: str | None, schema: Any, annotations: Any
) -> None:
    seen = RULES.classify(
        Call("a", tool, params, cwd="/w", description=description, schema=schema, annotations=annotations)
    )
    assert 0 <= seen.tier <= 4
    assert (seen.effect == "read") == (seen.tier == 0)
    assert len(seen.keys) <= keys.MAX_KEYS + 1
    assert all(0 < len(key.name) <= MAX_KEY and key.name.isprintable() and key.name != "unknown" for key in seen.keys)
    assert all(seen.why)
    assert keys.untagged(seen.keys) == keys.untagged(keys.untagged(seen.keys))


@settings(max_examples=200, deadline=None)
@given(TOOLS, st.dictionaries(NAMES, VALUES, max_size=3), VALUES)
def test_harvest_never_raises(tool: str, params: dict[str, Any], result: Any) -> None:
    found = harvest(tool, RULES.classify(Call("a", tool, params)).keys, result)
    assert len(found) <= keys.MAX_KEYS
    assert all(0 < len(key.name) <= MAX_KEY and key.name.isprintable() and not key.name.endswith("/") for key in found)


@settings(max_examples=300, deadline=None)
@given(TEXT | SAID, TEXT | SAID)
def test_conflict_between_keys_is_symmetric(one: str, other: str) -> None:
    names = [f"order:{one}", f"order:{other}", "order:/", f"order:{one}/", f"file:/{other}/"]
    for first in names:
        for second in names:
            assert overlap(first, second) == overlap(second, first)


@settings(max_examples=300, deadline=None)
@given(TEXT | st.from_regex(r"[a-zA-Z]{1,5}://[^\n]{0,30}", fullmatch=True))
def test_urls_have_one_spelling(value: str) -> None:
    spelled = keys.url(keys.clean(value))
    assert keys.url(spelled) == spelled
    assert not spelled.endswith("/")
