"""What is remembered of a call's content."""

from datetime import UTC, datetime
from typing import Any

import pytest

from callosum.model import Call
from callosum.rules import RuleSet, contrary, near

RULES = RuleSet.parse(secret=b"secret")


def content_of(text: str, tool: str = "message", **more: Any) -> Any:
    return RULES.classify(Call("a", tool, {"action": "send", "target": "x", "message": text, **more})).content


SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": " x "}, {"a": "x"}),
    ({"a": 1.0}, {"a": 1}),
    ({"a": 1, "b": None}, {"a": 1}),
    ({"a": {"c": [1.0, {"d": " e", "f": None}]}}, {"a": {"c": [1, {"d": "e"}]}}),
    ({"a": 1, "_meta": {"x": 1}, "_tier": 3}, {"a": 1}),
    ({"a": 1, "idempotencyKey": "k1"}, {"a": 1, "idempotencyKey": "k2"}),
    ({"command": "ls", "description": "look"}, {"command": "ls", "timeout": 5}),
    ({"a": "\ud800", "b": 1}, {"b": 1, "a": "\ud800 "}),
]
OTHER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"a": 1}, {"a": 2}), ({"a": 1}, {"a": "1"}), ({"a": True}, {"a": 1}), ({"a": [1, 2]}, {"a": [2, 1]}),
    ({"a": "x y"}, {"a": "xy"}), ({"description": "one"}, {"description": "two"}), ({"a": "X"}, {"a": "x"}),
    ({"a": "\ud800"}, {"a": "\ud801"}),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), SAME)
def test_equal_content_has_the_same_digest(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert RULES.digest("t", one) == RULES.digest("t", two)


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_different_content_has_another_digest(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert RULES.digest("t", one) != RULES.digest("t", two)


def test_digest_depends_on_tool_and_content_key() -> None:
    assert RULES.digest("t", {}) != RULES.digest("u", {})
    assert RULES.digest("t", {}) != RuleSet.parse(secret=b"other").digest("t", {})
    assert RuleSet.parse(secret=b"x" * 500).digest("t", {}) != RuleSet.parse(secret=b"x" * 501).digest("t", {})
    assert len(RULES.digest("t", {})) == 16


class Plain:
    pass


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_strange_values_have_stable_digests() -> None:
    for make in (
        Plain,
        Rude,
        lambda: {1, 2},
        lambda: b"x",
        lambda: datetime(2026, 1, 1, tzinfo=UTC),
        lambda: 10**400,
        lambda: float("nan"),
    ):
        assert RULES.digest("t", {"a": make()}) == RULES.digest("t", {"a": make()})
    assert RULES.digest("t", {1: 2}) == RULES.digest("t", {1: 2})  # type: ignore[dict-item]


def test_depth_never_escapes() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert len(RULES.classify(Call("a", "t", {"a": deep})).content.digest) == 16


@pytest.mark.parametrize("levels", [40, 45, 100, 200, 400, 900, 5000])
def test_a_digest_does_not_depend_on_who_calls(levels: int) -> None:
    deep: Any = {"a": 1}
    for level in range(levels):
        deep = {"p": deep} if level % 2 else [deep]

    def further(frames: int) -> bytes:
        return further(frames - 1) if frames else RULES.digest("t", {"a": deep})

    assert len({further(frames) for frames in (0, 50, 100, 200, 400, 600)}) == 1
    assert RULES.digest("t", {"a": deep}) != RULES.digest("t", {"a": [deep]})


def test_values_beyond_the_node_limit_are_not_normalised() -> None:
    rows = [[number, {"a": "x"}] for number in range(30_000)]
    changed = [*rows[:-1], [0, {"a": "y"}]]
    assert RULES.digest("t", {"rows": rows}) != RULES.digest("t", {"rows": changed})
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    assert len(RULES.digest("t", {"rows": [*rows, deep]})) == 16


NEAR = [
    ("The nightly build finished and the report is in the usual place", "Hi all, the nightly build finished and the report is in the usual place"),
    ("The report for the board is ready, please have a look before the meeting", "The report for the board is ready: please have a look before our meeting"),
]  # fmt: skip
FAR = [
    ("on it", "on it"),
    (
        "On it, I will have a look",
        "On it, I will have a look at the logs. The cause was a full disk on the second node; I cleaned it and restarted the service.",
    ),
    ("The nightly build 41 finished and the report is in place", "The nightly build 42 finished and the report is in place"),
    ("The deploy to the staging cluster passed without trouble", "The deploy to the staging cluster failed without trouble"),
    ("Let us meet about the budget plan on Monday at the office", "Let us meet about the budget plan on Tuesday at the office"),
    ("I can come to the review of the plan", "I can't come to the review of the plan"),
    ("Your parcel has been sent to the depot", "We have found no free table for the dinner"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), NEAR)
def test_nearly_equal_texts_count_as_the_same(one: str, two: str) -> None:
    assert near(content_of(one), content_of(two))
    assert near(content_of(two), content_of(one))


@pytest.mark.parametrize(("one", "two"), FAR)
def test_different_texts_do_not_count_as_the_same(one: str, two: str) -> None:
    assert not near(content_of(one), content_of(two))


def test_long_texts_are_compared_by_a_sample() -> None:
    words = [f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(400)]
    whole, changed, other = (
        " ".join(words),
        " ".join(words[3:]),
        " ".join(words[200:] + [one + "x" for one in words[:200]]),
    )
    assert len(content_of(whole).words) == 4 * 64
    assert near(content_of(whole), content_of(changed))
    assert not near(content_of(whole), content_of(other))


def test_scripts_without_spaces() -> None:
    assert near(
        content_of("明日の会議は午後三時から本社の会議室で行います"),
        content_of("明日の会議は午後三時から本社の会議室で行います。"),
    )
    assert not near(
        content_of("明日の会議は午後三時から本社の会議室で行います"),
        content_of("請求書を受け取りましたので確認をお願いします"),
    )


def test_another_amount_is_another_content() -> None:
    def pay(amount: float) -> Any:
        params = {"recipient": "x", "amount": amount, "note": "the rent for our flat in the old town"}
        return RULES.classify(Call("a", "send_payment", params)).content

    assert near(pay(5), pay(5.0))
    assert not near(pay(5), pay(6))


@pytest.mark.parametrize(
    ("text", "short"),
    [("ok", True), ("on it", True), ("👍", True), ("", False), ("I will have a look", False), ("x" * 50, False)],
)
def test_short_phrases_are_recognised(text: str, short: bool) -> None:
    assert content_of(text).brief is short


def test_phrase_with_a_picture_or_a_price_is_no_short_phrase() -> None:
    assert not content_of("look", media="cat.png").brief
    assert not RULES.classify(
        Call("a", "send_payment", {"recipient": "x", "amount": 5, "message": "rent"})
    ).content.brief
    assert not RULES.classify(Call("a", "create_issue", {"title": "Crash", "body": "it crashed"})).content.brief


def test_write_of_a_whole_file_is_recognised() -> None:
    def write(tool: str, **params: str) -> bytes:
        return RULES.classify(Call("a", tool, {"path": "/a", **params})).content.whole

    assert write("write", content="x") == write("Write", content="x") != write("write", content="x ")
    assert write("write", content="") != b""
    assert write("edit", old_string="a", new_string="b") == b""
    assert write("append_to_file", content="x") == b""
    assert write("create_file", content="x") == write("write", content="x")


def test_object_created_under_a_bare_name_is_not_the_same_object() -> None:
    def made(tool: str, **params: str) -> bytes:
        return RULES.classify(Call("a", tool, {"content": "x", **params})).content.whole

    assert made("create_file", filename="list.docx") == b""  # a drive has two of that name afterwards
    assert made("create_page", title="Plan") == b""
    assert made("create_file", filename="notes/list.md") != b""
    assert made("write_file", filename="list.docx") != b""


def test_origin_is_read_from_the_call() -> None:
    with_origin = RULES.classify(Call("a", "message", {"action": "send"}, origin="cron:1")).content
    assert len(with_origin.origin) == 16
    assert content_of("x").origin == b""


def test_contrary_stances_are_recognised() -> None:
    assert contrary("+attend") == "-attend"
    assert contrary("-attend") == "+attend"
    assert contrary("") == ""


IDEMPOTENT = {"idempotentHint": True}


@pytest.mark.parametrize(
    ("tool", "params", "annotations", "repeats"),
    [
        ("create_task", {"list_id": 4, "title": "x"}, None, True),
        ("create_task", {"list_id": 4, "title": "x"}, {"idempotentHint": False}, True),
        ("create_task", {"list_id": 4, "title": "x"}, IDEMPOTENT, False),  # nobody notices the second one
        ("set_title", {"task_id": 4, "title": "x"}, None, False),
        ("delete_task", {"task_id": 4}, None, False),
        ("send_email", {"to": "a@x.org", "body": "x"}, IDEMPOTENT, True),  # a person reads it twice
        ("post_comment", {"issue_id": 4, "body": "x"}, IDEMPOTENT, True),
        ("pay_invoice", {"invoice_id": 4, "amount": 3}, IDEMPOTENT, True),
    ],
)
def test_idempotent_hint_counts_only_if_nobody_notices_a_repeat(
    tool: str, params: dict[str, Any], annotations: dict[str, Any] | None, repeats: bool
) -> None:
    found = RuleSet.parse(secret=b"secret").classify(Call("a", tool, params, annotations=annotations))
    assert found.content.repeats is repeats
