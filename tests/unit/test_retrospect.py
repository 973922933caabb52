"""Gaps and trials over hand-made entries: sampling, replay and bounds."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callosum.model import SECOND, Call, Entry, Event, Key, Mode, Outcome, Verdict
from callosum.retrospect import Trial, find_gaps, gaps, try_rules
from callosum.rules import RuleSet

START = 1_800_000_000 * SECOND


def call(at: float, who: str, tool: str, params: dict[str, Any], *keys: str, tier: int = 1, **more: Any) -> Entry:
    seq = START + round(at * SECOND)
    verdict = more.pop("verdict", Verdict.ALLOW)
    rule = more.pop("rule", "")
    mode = more.pop("mode", Mode.WRITE)
    return Entry(
        Event.INTERCEPT,
        who,
        seq=seq,
        action=seq if verdict.proceed else 0,
        tool=tool,
        tier=tier,
        verdict=verdict,
        rule=rule,
        keys=tuple(Key(key, mode) for key in keys),
        body={"params": params, **more},
    )


def after(entry: Entry, seconds: float, event: Event = Event.COMPLETE, outcome: Outcome | None = Outcome.DONE) -> Entry:
    return Entry(
        event,
        entry.session,
        seq=entry.seq + round(seconds * SECOND),
        action=entry.action,
        tool=entry.tool,
        keys=entry.keys,
        outcome=outcome,
    )


def test_no_entries_no_gaps() -> None:
    found = find_gaps([])
    assert found.nothing
    assert (found.calls, found.first, found.last) == (0, None, None)


def test_reads_without_a_key_and_outcomes_are_no_gaps() -> None:
    search = call(0, "a", "web_search", {"q": "x"}, tier=0, rule="look")
    assert find_gaps([search, after(search, 1)]).nothing


def test_one_shared_key_is_enough() -> None:
    def entries(shared: bool) -> Iterator[Entry]:
        for number in range(50):
            yield call(number, f"s{number % 2}", "t", {}, f"report:{number}", rule="r")
        if shared:
            yield call(60, "s0", "t", {}, "report:1|part", rule="r")  # a facet of the other's key

    assert [one.family for one in find_gaps(entries(shared=False)).unshared] == ["report:*"]
    assert find_gaps(entries(shared=True)).unshared == ()


@pytest.mark.parametrize(
    ("sessions", "keys", "mode"), [(1, 50, Mode.WRITE), (2, gaps.ENOUGH_KEYS - 1, Mode.WRITE), (2, 50, Mode.READ)]
)
def test_small_families_are_not_reported(sessions: int, keys: int, mode: Mode) -> None:
    entries = [call(n, f"s{n % sessions}", "t", {}, f"report:{n}", rule="r", mode=mode) for n in range(keys)]
    assert find_gaps(entries).unshared == ()


def test_very_many_keys_are_sampled_and_a_shared_one_in_ten_is_found() -> None:
    def entries(shared: bool) -> Iterator[Entry]:
        for number in range(20 * gaps.SAMPLE):
            yield call(number, f"s{number % 2}", "t", {}, f"report:{number}", rule="r")
            if shared and number % 10 == 0:
                yield call(number + 0.5, "s2", "t", {}, f"report:{number}", rule="r")

    (family,) = find_gaps(entries(shared=False)).unshared
    assert (family.keys, family.sampled, family.calls) == (gaps.SAMPLE, True, 20 * gaps.SAMPLE)
    assert find_gaps(entries(shared=True)).unshared == ()


def test_number_of_groups_is_bounded() -> None:
    count = gaps.MOST_TOOLS + 7
    found = find_gaps(call(number, "a", f"tool_{number}", {}) for number in range(count))
    assert (len(found.keyless), len(found.judged), found.left_out) == (gaps.MOST_TOOLS, gaps.MOST_TOOLS, 14)


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ({"campaign_id": "c1", "text": "some words"}, "campaign:{params.campaign_id}"),
        ({"text": "some words", "siteRef": "x"}, "site:{params.siteRef}"),
        ({"colour": "red"}, "colour:{params.colour}"),
        ({"text": "some words", "on": True}, None),
        ({"a b": "x", "_tier": "3"}, None),
        ({}, None),
    ],
)
def test_suggested_rule_is_a_starting_point(params: dict[str, Any], key: str | None) -> None:
    (tool,) = find_gaps([call(0, "a", "publish", params, tier=2)]).keyless
    assert tool.rule.get("contextKey") == key
    RuleSet.parse(json.dumps({"rules": [tool.rule]}))


NOTE = {"name": "note", "tier": 3, "tool": "jot", "contextKey": "note:{params.note}"}
OLD = RuleSet.parse(secret=b"s")


def rules(*found: dict[str, Any]) -> RuleSet:
    return RuleSet.parse(json.dumps({"rules": found}), secret=b"s")


def tried(entries: list[Entry], *found: dict[str, Any], **more: Any) -> Trial:
    before = more.pop("before", OLD)
    return try_rules(lambda: entries, before, rules(*found), **more)


def jot(at: float, who: str, note: str = "1", **more: Any) -> Entry:
    return call(at, who, "jot", {"note": note, "text": f"by {who}"}, pause=True, **more)


def paused(trial: Trial) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.what, one.after, one.kinds) for one in trial.differences]


def test_outcome_decides_the_difference() -> None:
    first = jot(0, "mira")
    assert paused(tried([first, after(first, 1, outcome=Outcome.FAILED), jot(5, "doug")], NOTE)) == []
    assert paused(tried([first, after(first, 1), jot(5, "doug")], NOTE)) == [("paused", "confirm", ("stale",))]
    assert "held" in str(paused(tried([first, jot(5, "doug")], NOTE)))
    lost = after(first, 2, Event.LAPSE, Outcome.UNKNOWN)
    assert "unknown" in str(paused(tried([first, lost, jot(5, "doug")], NOTE)))
    gone = after(first, 3, Event.RESOLVE, Outcome.FAILED)
    assert paused(tried([first, lost, gone, jot(5, "doug")], NOTE)) == []


def test_lock_that_was_taken_is_taken_in_the_replay() -> None:
    lock = Entry(
        Event.LOCK, "doug", seq=START, action=START, tool="lock", tier=4, keys=(Key("note:1"),), outcome=None, body={}
    )
    assert "block" in str(paused(tried([lock, jot(5, "mira")], NOTE)))
    assert paused(tried([lock, after(lock, 1, Event.RELEASE), jot(4000, "mira")], NOTE)) == []


def test_call_that_ran_also_runs_in_the_replay() -> None:
    """A call that would have been blocked really ran: the next one conflicts with it."""
    delete = {"name": "d", "tier": 4, "tool": "jot", "contextKey": "note:{params.note}"}
    first, second, third = jot(0, "mira"), jot(5, "doug"), jot(10, "ines")
    entries = [first, after(first, 1), second, after(second, 1), third, after(third, 1)]
    trial = tried(entries, delete)
    assert (trial.paused, trial.played) == (2, 3)
    assert {one.after for one in trial.differences} == {"block"}


def test_stopped_call_and_its_repeat_are_one_action() -> None:
    before = rules(NOTE)
    first = jot(0, "mira", verdict=Verdict.ALLOW)
    stopped = jot(5, "doug", verdict=Verdict.CONFIRM)
    repeat = jot(20, "doug")
    entries = [first, after(first, 1), stopped, repeat, after(repeat, 1), jot(60, "ines", verdict=Verdict.CONFIRM)]
    mild = {**NOTE, "cells": {"recent": "allow", "stale": "allow"}}
    trial = tried(entries, mild, before=before)
    assert (trial.allowed, trial.paused, trial.as_recorded) == (2, 0, 1.0)


def test_only_calls_since_the_moment_are_counted() -> None:
    first, second = jot(0, "mira"), jot(5, "doug")
    entries = [first, after(first, 1), second, after(second, 1)]
    trial = tried(entries, NOTE, since=second.seq)
    assert (trial.calls, trial.shifted, trial.played, trial.paused) == (1, 1, 1, 1)
    assert tried(entries, NOTE, since=second.seq + 1).nothing


def test_calls_through_a_tree_or_a_facet_are_replayed() -> None:
    wipe = {"name": "w", "tier": 4, "tool": "wipe", "contextKey": "file:/repo/"}
    entries = [
        call(0, "a", "wipe", {}, "x:1"),
        call(1, "b", "Write", {"file_path": "/repo/a.py", "content": "x"}, "file:/repo/a.py"),
        call(2, "b", "Write", {"file_path": "/other/a.py", "content": "x"}, "file:/other/a.py"),
    ]
    assert tried(entries, wipe).played == 2
    entries = [
        call(0, "a", "jot", {"note": "1"}, "x:1"),
        call(1, "b", "add_note_line", {"note_id": "1"}, "note:1|line", mode=Mode.APPEND),
    ]
    assert tried(entries, NOTE).played == 2


@pytest.mark.parametrize("body", [{"params": "x"}, {"params": None}, {}])
def test_calls_without_params_are_counted(body: dict[str, Any]) -> None:
    entry = Entry(
        Event.INTERCEPT, "a", seq=START, tool="jot", tier=1, verdict=Verdict.ALLOW, keys=(Key("a:1"),), body=body
    )
    trial = tried([entry], NOTE)
    assert (trial.calls, trial.unreadable, trial.shifted) == (1, 1, 0)


@pytest.mark.parametrize(
    ("params", "cut"),
    [
        ({"a": "x"}, 0), ({"a": "x" * 10 + "… (500 characters)"}, 1), ({"a": "[redacted]"}, 1),
        ({"a": {"b": ["x", "… (7 more)"]}}, 1), ({"a": {"…": "(7 more)"}}, 1),
    ],
)  # fmt: skip
def test_calls_with_truncated_params_are_counted(params: dict[str, Any], cut: int) -> None:
    assert tried([call(0, "a", "t", params)], NOTE).cut == cut


def test_entries_that_a_gate_refuses_are_skipped() -> None:
    entries = [jot(0, "mira"), jot(5, "\x1b"), jot(10, "doug")]
    trial = tried(entries, NOTE)
    assert (trial.calls, trial.played) == (3, 2)


def test_rules_with_equal_decisions_classify_alike() -> None:
    """This saves the trial a second classification."""
    sets: list[Callable[[], RuleSet]] = [
        lambda: OLD,
        lambda: rules(NOTE),
        lambda: rules(NOTE, {"tier": 4, "tool": "send_email"}),
        lambda: rules({"tier": 2, "tool": "*"}),
        lambda: rules({"name": "x", "tier": 1, "tool": "Bash", "commandPattern": "make"}, {"tier": 2, "tool": "*"}),
    ]
    calls = [
        Call("a", "jot", {"note": "1"}),
        Call("a", "send_email", {"to": "a@x.org"}),
        Call("a", "frobnicate", {"x": 1}),
        Call("a", "delete_account", {"account_id": 1}),
        *(Call("a", "Bash", {"command": text}, cwd="/w") for text in ("make", "git push", "rm -rf x && make", "ls")),
        Call("a", "message", {"action": "send", "target": "x", "message": "hello"}),
    ]
    pairs = differs = 0
    for one in [make() for make in sets]:
        for other in [make() for make in sets]:
            for made in calls:
                if one.deciding(made) == other.deciding(made):
                    pairs += 1
                    assert one.classify(made) == other.classify(made)
                else:
                    differs += one.classify(made) != other.classify(made)
    assert pairs > 80
    assert differs > 10
