"""What all adapters share, driven as a framework of one function would."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from callosum import LocalGate
from callosum.adapters.core import Adapter, Attempt, FrameworkCall, Noted, Refused, turn_of
from callosum.model import Outcome
from callosum.process import own_session
from callosum.settings import Settings

MAIL = {"to": "alice@example.com", "subject": "Invoice", "body": "Dear Alice, the invoice is paid."}


class Mail(Attempt[str]):
    def __init__(self, thread: str, call_id: str, read: tuple[str, ...] = ()) -> None:
        self._seen = FrameworkCall(tool="send_email", params=MAIL, call_id=call_id, read=read, thread=thread)

    def seen(self) -> FrameworkCall:
        return self._seen

    def refused(self, no: Refused) -> str:
        return no.sentence

    def warned(self, result: str, sentence: str) -> str:
        return f"{result}\n\n{sentence}"


class Unspeakable(Mail):
    def said(self, _result: str) -> Any:
        raise ValueError("a ring")


def test_result_that_cannot_be_journalled_is_still_returned(gate: LocalGate) -> None:
    assert Adapter(gate).run(Unspeakable("chat", "c1"), lambda _params: "sent") == "sent"
    (ended,) = [entry for entry in gate.entries() if entry.outcome is not None]
    assert ended.outcome is Outcome.DONE


def test_a_refusal_says_when_time_alone_lifts_it(gate: LocalGate) -> None:
    gate.lock("doug", "email:alice@example.com", 4)
    held = Adapter(gate).begin(Mail("chat", "c1"))
    assert isinstance(held, Refused)
    assert (held.retry_after, held.asks) == (10.0, False)
    gate.release("doug", "email:alice@example.com")
    assert Adapter(gate).run(Mail("chat", "c2"), lambda _params: "sent") == "sent"
    other = Adapter(gate).begin(Mail("evening", "c3"))
    assert isinstance(other, Refused)
    assert other.retry_after is None, "somebody has to look"


def test_read_of_one_conversation_confirms_no_call_of_another(gate: LocalGate) -> None:
    """The ids of calls come again in every conversation: ``c2`` is refused in both."""
    adapter = Adapter(gate)
    assert adapter.run(Mail("chat", "c1"), lambda _params: "sent") == "sent"
    assert "already did the same" in adapter.run(Mail("evening", "c2"), lambda _params: "sent")
    assert "already did the same" in adapter.run(Mail("night", "c3", read=("c2",)), lambda _params: "sent")
    assert "already did the same" in adapter.run(Mail("night", "c4", read=("c2",)), lambda _params: "sent")
    assert adapter.run(Mail("evening", "c5", read=("c2",)), lambda _params: "sent").startswith("sent")


@pytest.mark.parametrize(
    ("tool", "once", "raised", "ran", "outcome"),
    [
        ("send_email", False, [None], 1, Outcome.DONE),
        ("send_email", False, [ValueError()], 1, Outcome.FAILED),
        ("send_email", False, [TimeoutError(), None], 1, Outcome.UNKNOWN),
        ("send_email", False, [ValueError(), None], 2, Outcome.DONE),
        ("send_email", False, [ValueError(), ConnectionResetError(), None], 2, Outcome.UNKNOWN),
        ("send_email", True, [ValueError(), None], 1, Outcome.FAILED),
        ("read", True, [TimeoutError(), None], 2, Outcome.DONE),
    ],
)
def test_tool_that_may_have_acted_is_not_run_again_within_a_call(
    gate: LocalGate, tool: str, once: bool, raised: list[Exception | None], ran: int, outcome: Outcome
) -> None:
    class Noting(Mail):
        def seen(self) -> FrameworkCall:
            return replace(super().seen(), tool=tool)

    def runs(_params: object) -> str:
        """Run as a framework does that tries again and turns errors into text."""
        for error in raised:
            with suppress(Exception), noted, noted:  # the inner one is the base class's ``run``
                started.append(error)
                if error is not None:
                    raise error
        return "text"

    started: list[Exception | None] = []
    attempt = Noting("chat", "c1")
    attempt.noted = noted = Noted(once=once)
    assert Adapter(gate).run(attempt, runs) == "text"
    assert len(started) == ran
    assert [entry.outcome for entry in gate.entries() if entry.outcome is not None] == [outcome]


async def test_a_persons_answer_in_an_async_run_is_entered_off_the_event_loop(tmp_path: Path) -> None:
    class Approved(Mail):
        def asked(self, _no: Refused) -> bool | None:
            return True

    class Watched(LocalGate):
        def approve(self, *args: Any, **options: Any) -> Any:
            entered_in.append(threading.current_thread())
            return super().approve(*args, **options)

    async def sent(_params: object) -> str:
        return "sent"

    entered_in: list[threading.Thread] = []
    (tmp_path / "tiers.json").write_text(
        '{"rules": [{"name": "mail", "tool": "send_email", "tier": 3, "verdict": "ask", "contextKey": "email:{params.to}"}]}'
    )
    with Watched(settings=Settings(state=tmp_path, host_approvals=True)) as gate:
        assert (await Adapter(gate).arun(Approved("chat", "c1"), sent)).startswith("sent")
        Adapter(gate).run(Approved("chat", "c2"), lambda _params: "sent")
    assert entered_in[0] is not threading.main_thread()
    assert entered_in[1] is threading.main_thread()


def test_the_turn_of_a_call_is_its_message_and_what_was_called_before_was_read() -> None:
    said = [("m1", ["a"]), ("user", []), ("m2", ["b", "c"]), ("m3", ["a", "d"])]
    assert turn_of(said, lambda message: message, "d") == ("m3", ("m2:b", "m2:c", "m1:a"))
    assert turn_of(said, lambda message: message, "a") == ("m3", ("m2:b", "m2:c", "m1:a"))
    assert turn_of(said[:3], lambda message: message, "a") == ("m1", ())
    assert turn_of(said, lambda message: message, "nowhere") == ("", None)


def test_the_session_is_the_option_then_the_conversation_then_that_of_the_call_around_then_the_process(
    gate: LocalGate,
) -> None:
    def session(thread: str | None = None, **options: Any) -> tuple[str | None, str | None]:
        call = Adapter(gate, instance="mira", **options).call_of(
            FrameworkCall(tool="t", params={}, thread=thread, run="r1")
        )
        return call.session, call.parent

    assert session("chat", session="mine") == ("mine", None)
    assert session("chat", session=lambda: "asked") == ("asked", None)
    assert session("chat", session=lambda: None) == ("chat", None)
    assert session("chat") == ("chat", None)
    assert session() == (own_session(), None)  # never the run

    def within(_params: object) -> str:
        assert session() == ("outer", None)
        assert session("inner") == ("inner", "mira/outer")
        return "done"

    assert Adapter(gate, instance="mira").run(Mail("outer", "c1"), within) == "done"
    assert session() == (own_session(), None)
