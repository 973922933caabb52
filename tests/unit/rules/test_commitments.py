"""Which calls make a commitment, when it ends, and what the result adds."""

from typing import Any

import pytest

from callosum.model import SECOND, Call, Commits, Key, Mode
from callosum.policy.call_facts import CallFacts, keys_of, prints_of, scope_of
from callosum.policy.commitments import COMMITTED
from callosum.rules import RuleSet
from callosum.rules.commitments import contradicts, side_of, thing_of, told

RULES = RuleSet.parse(None, secret=b"s" * 32)
NEW_YEAR = 1_798_761_600  # 2027-01-01T00:00:00Z
HALF_A_DAY = 43_200


def made(tool: str, commits: Commits | None = None, **params: Any) -> Any:
    return RULES.classify(Call("mira", tool, params, commits=commits)).content.commitment


@pytest.mark.parametrize(
    ("tool", "params", "side"),
    [
        ("accept_invitation", {"event_id": "e"}, "+attend"),
        ("rsvp", {"event_id": "e", "status": "no"}, "-attend"),
        ("cancel_booking", {"booking_id": "b"}, "-book"),
        ("book_reservation", {"reservation_id": "r"}, "+book"),
        ("place_order", {"order_id": "o"}, "+book"),
        ("claim_slot", {"slot_id": "s"}, "+claim"),
        ("book_appointment", {"slot_id": "s"}, "+book"),
        ("update_event", {"event_id": "e", "start": "2027-01-01T10:00:00Z"}, "+book"),
    ],
)
def test_stance_on_an_event_is_a_commitment(tool: str, params: dict[str, Any], side: str) -> None:
    assert made(tool, **params).side == side


@pytest.mark.parametrize(
    ("tool", "params"),
    [
        ("get_event", {"event_id": "e"}),
        ("list_events", {"start": "2027-01-01T10:00:00Z"}),
        ("update_event", {"event_id": "e", "notes": "cake"}),
        ("add_comment", {"event_id": "e", "comment": "I decline"}),
        ("enable_feature", {"feature_id": "f"}),
        ("close_issue", {"issue_number": 1, "owner": "o", "repo": "r"}),
        ("merge_pull_request", {"owner": "o", "repo": "r", "pull_number": 1}),
        ("pay_order", {"order_id": "o"}),
        ("send_email", {"to": "a@example.com", "body": "I accept the invitation e"}),
        ("exec", {"command": "echo accept"}),
    ],
)
def test_stance_that_anybody_may_change_is_no_commitment(tool: str, params: dict[str, Any]) -> None:
    assert made(tool, **params) is None


def test_call_without_a_commitment_needs_no_further_lookup() -> None:
    for tool, params in (("send_email", {"to": "a@example.com", "body": "x"}), ("enable_feature", {"feature_id": "f"})):
        found = RULES.classify(Call("mira", tool, params))
        ask = CallFacts(Call("mira", tool, params), "mira", found, keys_of(found, tool), b"", None, SECOND)
        assert COMMITTED not in scope_of(ask, None).prints
        assert COMMITTED not in prints_of(found.content)


@pytest.mark.parametrize(
    ("said", "ends"),
    [
        ({"end": "2027-01-01T00:00:00Z"}, NEW_YEAR),
        ({"start": {"dateTime": "2026-12-31T23:00:00Z"}, "end": {"dateTime": "2027-01-01T00:00:00Z"}}, NEW_YEAR),
        ({"start_time": "2026-12-31T23:00:00+00:00", "duration": 60}, NEW_YEAR),
        ({"start": "2026-12-31T23:30:00Z"}, NEW_YEAR),
        ({"event": {"start": "2027-01-01T01:00:00+01:00", "end": "2027-01-01T01:00:00+01:00"}}, NEW_YEAR),
        ({"check_in": "2026-12-20", "check_out": "2026-12-31"}, NEW_YEAR - 1 + HALF_A_DAY),
        ({"end": "2027-01-01T00:00:00"}, NEW_YEAR + HALF_A_DAY),
        ('{"event": {"id": 1, "end": "2027-01-01T00:00:00Z"}}', NEW_YEAR),
        ({"content": [{"type": "text", "text": '{"end": "2027-01-01T00:00:00Z"}'}]}, NEW_YEAR),
        ({"id": "e", "created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z"}, 0),
        ({"end": "soon", "start": 5, "date": None}, 0),
        ({"end": "9999-12-31T23:59:59Z"}, 253_402_300_799),
        ("{" * 10_000, 0),
        ([[[[[[[[{"end": "2027-01-01T00:00:00Z"}]]]]]]]], 0),
        (None, 0),
    ],
)
def test_outermost_date_ends_the_commitment(said: Any, ends: int) -> None:
    assert told(said) == ends * SECOND


def test_key_of_a_calendar_slot_ends_the_commitment() -> None:
    found = made("create_event", title="x", start="2026-12-31T23:00:00", end="2027-01-01T00:00:00")
    assert found.until == (NEW_YEAR + HALF_A_DAY) * SECOND
    assert made("accept_invitation", event_id="e").until == 0


@pytest.mark.parametrize(
    ("keys", "result", "thing"),
    [
        (["slot:primary/2027-01-01/10:00"], {"id": "n1"}, "event:n1"),
        (["slot:primary/2027-01-01/10:00"], {"event": {"id": "n1", "status": "ok"}}, "event:n1"),
        (["slot:primary/2027-01-01/10:00"], '{"eventId": "n1"}', "event:n1"),
        (["slot:room-r7/2027-01-01/10:00", "room:r7|booking"], {"booking_id": "b1"}, "booking:b1"),
        (["flight:UA12|booking"], {"reservation_id": "R1"}, "booking:R1"),
        (["order:/|new"], {"order_id": "o1"}, "order:o1"),
        (["event:e1"], {"id": "e1"}, ""),
        (["slot:primary/2027-01-01/10:00"], {"ok": True}, ""),
        (["slot:primary/2027-01-01/10:00"], None, ""),
    ],
)
def test_result_names_the_object_that_was_created(keys: list[str], result: Any, thing: str) -> None:
    modes = [Mode.APPEND if "|" in key else Mode.WRITE for key in keys]
    assert thing_of(tuple(map(Key, keys, modes)), result) == thing


@pytest.mark.parametrize(
    ("said", "key", "side"),
    [
        ("accept", "event:e", "+attend"), ("Declined", "event:e", "-attend"), ("no", "event:e", "-attend"),
        ("cancel", "order:o", "-book"), ("approve", "doc:d", "+approve"), ("reject", "doc:d", "-approve"),
        ("for", "doc:d", "+commit"), ("against", "doc:d", "-commit"), ("+launch", "doc:d", "+launch"),
        ("maybe", "doc:d", ""), ("", "doc:d", ""), ("+", "doc:d", ""), ("x" * 5_000, "doc:d", ""),
    ],
)  # fmt: skip
def test_declared_stance_is_a_verb_or_a_word_after_a_sign(said: str, key: str, side: str) -> None:
    assert side_of(said, (Key(key),)) == side


def test_param_declares_a_commitment_and_changes_nothing_else() -> None:
    plain = RULES.classify(Call("mira", "update_document", {"document_id": "d"}))
    for said in ("accept", {"side": "accept", "what": "it", "until": "2027-01-01T00:00:00Z"}):
        found = RULES.classify(Call("mira", "update_document", {"document_id": "d", "_commitment": said}))
        assert (found.keys, found.content.digest) == (plain.keys, plain.content.digest)
        assert found.content.commitment is not None
        assert found.content.commitment.side == "+approve"
    unread: tuple[Any, ...] = (True, 5, [], {}, {"side": 3}, "perhaps", {"side": "accept", "until": []})
    for one in unread:
        assert made("update_document", document_id="d", _commitment=one) is None


def test_declared_commitment_shows_no_secret() -> None:
    found = made("update_document", Commits("accept", what="use password=hunter2hunter2"), document_id="d")
    assert "hunter2" not in found.what


def test_attending_and_booking_are_one_question() -> None:
    assert contradicts("+book", "-attend")
    assert contradicts("-exist", "+attend")
    assert not contradicts("+book", "+attend")
    assert not contradicts("+approve", "-attend")
    assert not contradicts("", "-attend")


def test_call_within_a_call_makes_the_commitment_of_the_inner_call() -> None:
    found = made("call_tool", name="accept_invitation", arguments={"event_id": "e"})
    assert found is not None
    assert found.side == "+attend"
