"""Three simulated days of two hosts: the answers in the pages compared with those in the journal.

Each question is answered twice: from the text of the pages alone, and from the journal's entries without the code that
makes pages. An answer is right if both are the same.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from callosum.model import Entry, Event, Outcome, Verdict
from callosum.pages.dates import clock, day_of
from tests.support.days import SHOP, Lived, held_back, live

SEEDS = (1, 2, 3)
Answers = Callable[[Lived], Any]


@cache
def lived(seed: int) -> Lived:
    with TemporaryDirectory() as folder:
        return live(Path(folder), seed)


def days(found: Lived) -> Iterator[tuple[str, str]]:
    """Yield the pages of days, with their dates."""
    yield from ((name, text) for name, text in found.pages.items() if re.fullmatch(r"[\d-]+", name))


def sessions(found: Lived) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each session's part of a day's page: day, session, and its lines."""
    for day, text in days(found):
        for part in text.split("\n## ")[1:]:
            if part.startswith("`"):
                head, *lines = part.splitlines()
                yield day, head.strip("`"), lines


def line_of(found: Lived, wanted: str) -> Iterator[tuple[str, str, re.Match[str]]]:
    for day, session, lines in sessions(found):
        for line in lines:
            if (match := re.search(wanted, line)) is not None:
                yield day, session, match


def calls(found: Lived) -> Iterator[Entry]:
    yield from (entry for entry in found.entries if entry.event is Event.INTERCEPT)


def let_through(found: Lived) -> Iterator[Entry]:
    yield from (entry for entry in calls(found) if (entry.verdict or Verdict.ALLOW).proceed)


def on(entry: Entry) -> str:
    return day_of(entry.seq).isoformat()


def conflict_of(entry: Entry) -> str:
    conflicts = entry.body.get("conflicts")
    return ("this session" if conflicts[0].get("own") else conflicts[0]["instance"]) if conflicts else ""


def who_worked_when(found: Lived) -> Any:
    return {(day, session) for day, session, _ in sessions(found)}


def who_worked_when_really(found: Lived) -> Any:
    return {(on(entry), entry.session) for entry in calls(found)}


def what_each_was_asked(found: Lived) -> Any:
    return {(session, match[1]) for _, session, match in line_of(found, r"was asked: `(.*)`$")}


def what_each_was_asked_really(found: Lived) -> Any:
    return {(entry.session, entry.body["purpose"]) for entry in calls(found)}


def who_changed_the_checkout(found: Lived) -> Any:
    changed = rf"(?:changed or ran|, ).*`file:{SHOP}/checkout\.py`|→ `file:{SHOP}/checkout\.py` done"
    return {session for _, session, _ in line_of(found, changed)}


def who_changed_the_checkout_really(found: Lived) -> Any:
    return {
        entry.session
        for entry in let_through(found)
        if entry.tier and any(key.name == f"file:{SHOP}/checkout.py" for key in entry.keys)
    }


def why_the_checkout_was_changed(found: Lived) -> Any:
    """Read the answer in the topic's page."""
    (topic,) = (text for name, text in found.pages.items() if "checkout-py" in name)
    return Counter(re.findall(r"`(?:Edit|replace)`.* done \(asked: `(.*)`\)$", topic, re.MULTILINE))


def why_the_checkout_was_changed_really(found: Lived) -> Any:
    return Counter(
        entry.body["purpose"]
        for entry in let_through(found)
        if entry.tier and any(key.name == f"file:{SHOP}/checkout.py" for key in entry.keys)
    )


def what_was_held_back_and_how(found: Lived) -> Any:
    held = r"^- [\d:]+ `(\w+)` .*held back \((\w+)"
    return Counter((day, session, match[1], match[2]) for day, session, match in line_of(found, held))


def what_was_held_back_and_how_really(found: Lived) -> Any:
    return Counter((on(entry), entry.session, entry.tool, str(entry.verdict)) for entry in held_back(found.entries))


def who_was_in_the_way(found: Lived) -> Any:
    held = r"^- ([\d:]+) .*held back \([^)]*\): (this session|`[\w/-]+`) (?:was|had)"
    return Counter((day, session, match[1], match[2].strip("`")) for day, session, match in line_of(found, held))


def who_was_in_the_way_really(found: Lived) -> Any:
    return Counter(
        (on(entry), entry.session, clock(entry.seq), conflict_of(entry))
        for entry in held_back(found.entries)
        if conflict_of(entry)
    )


def what_ran_after_all(found: Lived) -> Any:
    held = r"held back .*; let through at ([\d:]+)$"
    return Counter((day, session, match[1]) for day, session, match in line_of(found, held))


def what_ran_after_all_really(found: Lived) -> Any:
    return Counter(
        (on(held), held.session, clock(after[0].seq))
        for held in held_back(found.entries)
        if (
            after := [
                entry
                for entry in let_through(found)
                if entry.seq > held.seq
                and on(entry) == on(held)
                and (entry.session, entry.tool, entry.keys) == (held.session, held.tool, held.keys)
            ]
        )
    )


def what_failed_and_how(found: Lived) -> Any:
    return Counter((session, match[1]) for _, session, match in line_of(found, r"failed: `(?:[^`]*)`: `(.*)`$"))


def what_failed_and_how_really(found: Lived) -> Any:
    failed = (entry for entry in found.entries if entry.outcome is Outcome.FAILED)
    errors = ((entry.session, entry.body["result"]["error"]) for entry in failed)
    return Counter((session, error if isinstance(error, str) else error["message"]) for session, error in errors)


def what_is_unknown(found: Lived) -> Any:
    """Read the answer in the week's page, which knows outcomes that were resolved on a later day."""
    (week,) = (text for name, text in found.pages.items() if "-W" in name)
    return set(re.findall(r"\*\*outcome unknown\*\*.*\(id `(\d+)`\)", week))


def what_is_unknown_really(found: Lived) -> Any:
    ended = {entry.action: entry.outcome for entry in found.entries if entry.outcome is not None}
    return {str(id) for id, outcome in ended.items() if outcome is Outcome.UNKNOWN}


def how_each_ended(found: Lived) -> Any:
    return {(session, match[1]) for _, session, match in line_of(found, r"ended, and said: `(.*)`$")}


def how_each_ended_really(found: Lived) -> Any:
    return {
        (entry.session, entry.body["summary"])
        for entry in found.entries
        if entry.event is Event.HOST and entry.body.get("what") == "SessionEnd"
    }


QUESTIONS: dict[Answers, Answers] = {
    who_worked_when: who_worked_when_really, what_each_was_asked: what_each_was_asked_really,
    who_changed_the_checkout: who_changed_the_checkout_really,
    why_the_checkout_was_changed: why_the_checkout_was_changed_really,
    what_was_held_back_and_how: what_was_held_back_and_how_really, who_was_in_the_way: who_was_in_the_way_really,
    what_ran_after_all: what_ran_after_all_really, what_failed_and_how: what_failed_and_how_really,
    what_is_unknown: what_is_unknown_really, how_each_ended: how_each_ended_really,
}  # fmt: skip


def right(found: Lived) -> list[str]:
    """Return the questions that the pages answer as the journal does."""
    return [read.__name__ for read, really in QUESTIONS.items() if read(found) == really(found)]


@pytest.mark.parametrize("seed", SEEDS)
def test_pages_of_three_days_answer_what_people_ask(seed: int) -> None:
    found = lived(seed)
    assert len(QUESTIONS) == 10
    assert all(really(found) for really in QUESTIONS.values()), "each question has something to be found"
    wrong = {
        read.__name__: (read(found), really(found))
        for read, really in QUESTIONS.items()
        if read(found) != really(found)
    }
    assert len(wrong) <= 1, wrong


@pytest.mark.parametrize(
    ("cut", "question"),
    [
        (r"^## `.*$", "who_worked_when"),
        (r"^.*was asked: .*$", "what_each_was_asked"),
        (r"^.*changed or ran.*$", "who_changed_the_checkout"),
        (r" \(asked: .*\)$", "why_the_checkout_was_changed"),
        (r" held back \(", "what_was_held_back_and_how"),
        (r"had done the same", "who_was_in_the_way"),
        (r"; let through at .*$", "what_ran_after_all"),
        (r"; \d+ failed: .*$", "what_failed_and_how"),
        (r"\(id `.*`\)$", "what_is_unknown"),
        (r"ended, and said: .*$", "how_each_ended"),
    ],
)
def test_pages_that_lack_something_do_not_answer(cut: str, question: str) -> None:
    found = lived(SEEDS[0])
    assert question in right(found)
    without = {name: re.sub(cut, "", text, flags=re.MULTILINE) for name, text in found.pages.items()}
    assert question not in right(found._replace(pages=without))
