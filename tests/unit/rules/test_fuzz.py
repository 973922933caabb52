"""Whatever an agent sends: never an exception, twice the same answer, keys within bounds."""

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from callosum.errors import ConfigError
from callosum.model import MAX_KEY, Call
from callosum.rules import RuleSet, near
from callosum.rules.keys import MAX_KEYS

RULES = RuleSet.parse(secret=b"secret", protected=("/state",))
TEXT = st.text(st.characters(), max_size=40)  # lone surrogates too
WORDS = st.sampled_from(
    [
        "/a/../b/", "a@x.org", "callosum off", "rm -rf *", "unknown", "To: a@b.c", "*** Update File: x\n",
        "select 1", "{params.x}", "\x00\n|", "~", "C:\\x", "7",
    ]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | WORDS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=8
)
NAMES = TEXT | st.sampled_from(
    "action path file_path command target replyTo message content to cc id order_id owner repo url sql query start end _tier _contextKey input files status amount".split()
)
TOOLS = TEXT | st.sampled_from(
    "message exec Bash write read apply_patch cron gateway send_email delete_order create_event run_sql pay move_file mcp__a__get_x sessions_send".split()
)


@settings(max_examples=200, deadline=None)
@given(TOOLS, st.dictionaries(NAMES, VALUES, max_size=6), st.none() | TEXT, st.none() | WORDS | TEXT, st.none() | TEXT)
def test_classify_never_raises(
    tool: str, params: dict[str, Any], action: str | None, cwd: str | None, description: str | None
) -> None:
    call = Call("a", tool, params, action=action, cwd=cwd, description=description)
    seen = RULES.classify(call)
    assert seen == RULES.classify(call)
    assert 0 <= seen.tier <= 4
    assert seen.why
    assert len(seen.keys) <= MAX_KEYS
    assert len({key.name for key in seen.keys}) == len(seen.keys)
    for key in seen.keys:
        assert 0 < len(key.name) <= MAX_KEY
        assert key.name.isprintable()
        assert not key.name.endswith(":unknown")
    assert len(seen.content.digest) == 16
    assert len(seen.content.words) <= 256
    assert not near(seen.content, seen.content) or seen.content.words


@settings(max_examples=150, deadline=None)
@given(TOOLS, st.dictionaries(NAMES.filter(lambda name: name != "action"), VALUES, max_size=5), st.integers(0, 4))
def test_nothing_in_a_call_lowers_its_tier(tool: str, params: dict[str, Any], said: int) -> None:
    plain = {name: value for name, value in params.items() if name not in ("_tier", "_contextKey")}
    before = RULES.classify(Call("a", tool, plain)).tier
    assert RULES.classify(Call("a", tool, {**plain, "_tier": said, "_contextKey": "x:y"})).tier == max(before, said)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200))
def test_a_rules_file_is_read_or_refused(data: bytes | str) -> None:
    with contextlib.suppress(ConfigError):
        RuleSet.parse(data)
