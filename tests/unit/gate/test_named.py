"""Two sessions that name the same thing in a few words, on a real gate: only then is the second notified."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum.gate import LocalGate
from callosum.model import Call, Decision, Verdict
from callosum.settings import Settings
from callosum.stores.sqlite import SqliteStore
from callosum.testing import ManualClock

YES = "Yes, we take the offer of last week and send the signed contract by Friday at noon."
NO = "Sorry, the price is too high for us. We have decided for another supplier this year."


class Sessions:
    """Two sessions of one agent on one gate. Their host pauses."""

    def __init__(self, gate: LocalGate, clock: ManualClock) -> None:
        self.gate, self.clock = gate, clock

    def ask(self, who: str, tool: str, params: dict[str, Any]) -> Decision:
        self.clock.advance(20)
        return self.gate.intercept(Call("mira", tool, params, session=who, pause=True))

    def do(self, who: str, tool: str, params: dict[str, Any]) -> Decision:
        decision = self.ask(who, tool, params)
        if decision.proceed:
            self.gate.complete("mira", id=decision.id, session=who)
        return decision


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    clock = ManualClock()
    store = SqliteStore(tmp_path / "gate.db", clock=clock)
    with LocalGate(settings=Settings(state=tmp_path), store=store, sleep=clock.sleep) as gate:
        yield Sessions(gate, clock)


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        # a reply that names only its thread
        *(((tool, {thread: "t1", text: YES}), (tool, {thread: "t1", text: NO}), Verdict.CONFIRM)
          for tool, thread, text in (("reply_to_mail", "thread_id", "body"), ("gmail_reply", "threadId", "body"),
                                     ("email_reply", "thread_id", "body"), ("reply_to_thread", "thread_id", "body"),
                                     ("send_reply", "thread_id", "body"))),
        (("message", {"action": "send", "target": "andy", "replyTo": "m1", "message": YES}),
         ("reply_to_thread", {"thread_id": "m1", "message": NO}), Verdict.CONFIRM),
        (("reply_to_thread", {"thread_id": "m1", "message": NO}),
         ("message", {"action": "send", "target": "andy", "replyTo": "m1", "message": YES}), Verdict.CONFIRM),
        # a channel and a person by name
        *(((tool, {"channel": "general", text: YES}), (tool, {"channel": "general", text: YES}), Verdict.CONFIRM)
          for tool, text in (("slack_send_message", "text"), ("send_message", "text"), ("send_discord_message", "content"))),
        (("send_message", {"user": "bob", "text": YES}), ("send_message", {"to": "bob", "text": YES}), Verdict.CONFIRM),
        # payments, of which tier 4 is blocked
        *((("create_refund", {named: "x_1", "amount": 5}), ("create_refund", {named: "x_1", "amount": 9}), Verdict.BLOCK)
          for named in ("charge", "payment_intent")),
        # ids by shape
        (("start_vm", {"vmid": 100}), ("delete_vm", {"vmid": 100}), Verdict.BLOCK),
        (("update_user", {"uid": "u1", "role": "a"}), ("delete_user", {"userId": "u1"}), Verdict.BLOCK),
        (("update_post", {"slug": "a", "body": YES}), ("delete_post", {"slug": "a"}), Verdict.BLOCK),
        # a container and its members
        (("update_record", {"base_id": "b", "record_id": "r", "fields": {"a": 1}}), ("delete_base", {"base_id": "b"}), Verdict.BLOCK),
        (("create_record", {"base_id": "b", "table_id": "t", "fields": {"a": 1}}), ("delete_base", {"base_id": "b"}), Verdict.BLOCK),
    ],
)  # fmt: skip
def test_second_session_is_notified(sessions: Sessions, one: Any, other: Any, verdict: Verdict) -> None:
    assert sessions.do("a", *one).verdict is Verdict.ALLOW
    decision = sessions.ask("b", *other)
    assert (decision.verdict, decision.proceed) == (verdict, False)
    assert decision.conflicts[0].instance == "mira/a"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("reply_to_mail", {"thread_id": "t1", "body": YES}), ("reply_to_mail", {"thread_id": "t2", "body": YES})),
        (("message", {"action": "send", "target": "andy", "replyTo": "5", "message": YES}),
         ("message", {"action": "send", "target": "bert", "replyTo": "5", "message": YES})),
        (("send_email", {"to": "a@x.org", "replyTo": "desk@x.org", "body": YES}), ("send_email", {"to": "b@x.org", "replyTo": "desk@x.org", "body": YES})),
        (("send_message", {"channel": "general", "text": YES}), ("send_message", {"channel": "general", "text": NO})),
        (("send_message", {"channel": "general", "text": YES}), ("send_message", {"channel": "random", "text": YES})),
        (("create_refund", {"charge": "ch_1", "amount": 5}), ("create_refund", {"charge": "ch_2", "amount": 5})),
        (("start_vm", {"vmid": 100}), ("delete_vm", {"vmid": 101})),
        (("set_version", {"app_id": "a", "version": 16}), ("set_version", {"app_id": "b", "version": 16})),
        (("update_range", {"spreadsheet_id": "a", "range": "A1"}), ("update_range", {"spreadsheet_id": "b", "range": "A1"})),
        (("update_user", {"uid": "a", "password": "hunter22"}), ("update_user", {"uid": "b", "password": "hunter22"})),
        (("put_item", {"item_id": "a", "sort_key": "s"}), ("put_item", {"item_id": "b", "sort_key": "s"})),
        (("update_record", {"base_id": "b", "record_id": "r"}), ("update_record", {"base_id": "b", "record_id": "s"})),
        (("update_record", {"base_id": "b", "record_id": "r"}), ("delete_base", {"base_id": "c"})),
        (("put_object", {"bucket": "a", "key": "k"}), ("put_object", {"bucket": "b", "key": "k"})),
    ],
)  # fmt: skip
def test_sessions_on_different_keys_are_not_notified(sessions: Sessions, one: Any, other: Any) -> None:
    sessions.do("a", *one)
    decision = sessions.ask("b", *other)
    assert (decision.verdict, decision.conflicts) == (Verdict.ALLOW, ())


def test_tier_4_call_without_a_key_is_noted_once_for_each_tool_and_session(sessions: Sessions) -> None:
    first = sessions.do("a", "wipe_everything", {"really": True})
    assert (first.tier, first.verdict, first.proceed) == (4, Verdict.ALLOW, True)
    assert first.warning is not None
    assert "wipe_everything" in first.warning
    assert "callosum rules gaps" in first.warning
    assert sessions.do("a", "wipe_everything", {"really": True, "again": "yes, and with other params"}).warning is None
    assert sessions.do("b", "wipe_everything", {"really": False}).warning is not None  # another session
    assert sessions.do("a", "purge_everything", {"really": True}).warning is not None  # another tool


def test_keyless_notification_is_known_to_the_next_process(tmp_path: Path) -> None:
    warnings = []
    for number in range(2):
        with LocalGate(settings=Settings(state=tmp_path)) as gate:
            decision = gate.intercept(Call("mira", "wipe_everything", {"why": f"for the {number}. time"}, session="a"))
            gate.complete("mira", id=decision.id, session="a")
            warnings.append(decision.warning)
    assert warnings[0] is not None
    assert warnings[1] is None


def test_call_with_a_key_or_of_a_lower_tier_gets_no_note_about_keys(sessions: Sessions) -> None:
    assert sessions.do("a", "delete_base", {"base_id": "b"}).warning is None
    assert sessions.do("a", "send_message", {"text": YES}).warning is None


def test_different_keyless_calls_of_one_tool_do_not_conflict(sessions: Sessions) -> None:
    sessions.ask("a", "wipe_everything", {"which": "the first of the two"})  # still running
    assert sessions.ask("b", "wipe_everything", {"which": "another one"}).conflicts == ()
    assert sessions.ask("b", "wipe_everything", {"which": "the first of the two"}).verdict is Verdict.BLOCK
