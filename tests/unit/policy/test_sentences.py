"""Every sentence that the gate can say about a call, as a list that a person can read: ``sentences.txt``.

``python -m tests.unit.policy.test_sentences`` writes the list anew. Read the difference before you commit it.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum.characters import tokens
from callosum.model import Conflict, Kind, State, Verdict
from callosum.policy.sentence import PARAGRAPH, WORDS, details_of, sentence, words

LISTED = Path(__file__).with_name("sentences.txt")
KEYS = {
    Kind.HELD: ("message", "email:alice@example.com"), Kind.RECENT: ("message", "thread:andy:msg-500"),
    Kind.DUPLICATE: ("send_email", "email:alice@example.com"), Kind.STALE: ("edit", "file:/repo/README.md"),
    Kind.OPPOSED: ("calendar_respond", "event:review-7"), Kind.UNKNOWN: ("pay_invoice", "payment:inv-7"),
}  # fmt: skip
"""A tool and a key for each kind of conflict."""
VERDICTS = (Verdict.WARN, Verdict.CONFIRM, Verdict.ASK, Verdict.BLOCK)
TIERS = {Verdict.WARN: 3, Verdict.CONFIRM: 3, Verdict.ASK: 4, Verdict.BLOCK: 4}
LONGEST = 'say "now", '


def conflict(kind: Kind, **facts: object) -> Conflict:
    """Return a conflict with another session's action, 40 s old unless ``facts`` say otherwise."""
    tool, key = KEYS[kind]
    usual = {"instance": "mira/chat", "tool": tool, "tier": 3, "key": key, "id": 42, "age": 40.0, "state": State.DONE}
    return Conflict(kind=kind, **{**usual, **facts})  # type: ignore[arg-type]


def states_of(kind: Kind) -> Iterator[tuple[str, Conflict]]:
    """Yield each state in which an action can be a conflict of this kind, with a name for it."""
    if kind is Kind.HELD:
        yield "running", conflict(kind, state=State.OPEN, running=True)
        yield "waiting in the queue", conflict(kind, state=State.QUEUED)
        return
    if kind is Kind.UNKNOWN:
        yield "another session's", conflict(kind, state=State.UNKNOWN)
        yield "its own", conflict(kind, state=State.UNKNOWN, own=True)
        return
    yield "done", conflict(kind)
    yield "running", conflict(kind, state=State.OPEN, running=True)
    if kind is Kind.DUPLICATE:
        yield "its own", conflict(kind, own=True)
        yield "perhaps", conflict(kind, state=State.UNKNOWN)
        yield "without a key", conflict(kind, key="")
    if kind is Kind.OPPOSED:
        yield "accepted", conflict(kind, decided="accepted", decides="declines")
        yield "accepting", conflict(kind, state=State.OPEN, running=True, decided="accepts", decides="declines")
        yield "perhaps accepted", conflict(kind, state=State.UNKNOWN, decided="accepted", decides="declines")
        yield "slot booked", conflict(kind, key="slot:room-2:9", decided="booked", decides="books", what="review")


def all_sentences() -> Iterator[tuple[str, str]]:
    """Yield every sentence with its subject."""
    for kind in Kind:
        for state, met in states_of(kind):
            for verdict in VERDICTS:
                said = sentence(verdict, TIERS[verdict], (met,), 1)
                assert said is not None
                yield f"{kind}, {state}: {verdict}", said + details_of((met,))
    for name, facts in {
        "a second must pass": {"wait": 0.8},
        "a changed file is replaced unread, first attempt": {"attempt": 1},
        "the same, third attempt, a second must pass": {"attempt": 3, "wait": 1.0},
    }.items():
        said = sentence(Verdict.CONFIRM, 2, (conflict(Kind.STALE),), 1, **facts)  # type: ignore[arg-type]
        assert said is not None
        yield f"{name}: confirm", said
    said = sentence(Verdict.CONFIRM, 3, (), 0, "Rule 'mine' requires this.")
    assert said is not None
    yield "a rule of the user's: confirm", said
    for first, second in itertools.permutations(Kind, 2):
        if first.gravity < second.gravity:
            continue
        pair = (conflict(first), conflict(second, instance="doug", id=43))
        said = sentence(Verdict.CONFIRM, 3, pair, 5)
        assert said is not None
        yield f"{first} and {second}, and 3 more: confirm", said


def listed() -> str:
    """Return the list as it is stored."""
    return "".join(f"{about}\n    {said}\n" for about, said in all_sentences())


def test_list_contains_every_sentence() -> None:
    assert LISTED.read_text("utf-8") == listed(), f"python -m {__name__} writes it anew"


ALL = tuple(all_sentences())


@pytest.mark.parametrize(("about", "said"), ALL, ids=[about for about, _ in ALL])
def test_sentence_is_short_and_names_session_action_time_and_next_step(about: str, said: str) -> None:
    assert words(said) <= WORDS
    assert said.startswith("[Callosum] ")
    if "a rule of the user's" in about:
        return
    assert "mira/chat" in said or "this session" in said
    assert "40 s ago" in said or "queue" in about
    assert said.endswith((".", ")"))


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("kind", tuple(Kind))
def test_a_sentence_stays_short_whatever_other_sessions_are_called(kind: Kind, verdict: Verdict) -> None:
    hostile = {"instance": LONGEST * 20, "tool": LONGEST * 20, "key": "file:/" + LONGEST * 100, "what": LONGEST * 50}
    pair = (conflict(kind, **hostile), conflict(Kind.RECENT, **{**hostile, "id": 43}))
    said = sentence(verdict, 4, pair, 12)
    assert said is not None
    assert words(said) <= WORDS
    assert tokens(said) <= PARAGRAPH


if __name__ == "__main__":
    LISTED.write_text(listed(), "utf-8")
