"""The library as a program uses it: retries, confirmations, sessions, values (PROTOCOL 11.1, 11.2, 11.3, 11.18)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import subprocess
import sys
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict

import pydantic
import pytest
import tenacity
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

from callosum import Blocked, Call, LocalGate, Repeated, State, Verdict, confirming, gated, guard
from callosum.adapters.core import Adapter, FrameworkCall
from callosum.process import own_session
from callosum.settings import Settings

MAIL = {"to": "alice@example.com", "subject": "Friday", "body": "Friday works for me, see you at ten then."}
OTHER = {"to": "alice@example.com", "subject": "Invoice 42", "body": "We have paid it, as agreed in March."}


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[LocalGate]:
    with LocalGate(settings=Settings(state=tmp_path / "state")) as gate:
        yield gate


class Mailer:
    """Counts what really goes out."""

    def __init__(self, gate: LocalGate, session: str | None = None, *, error: Exception | None = None) -> None:
        self.sent = 0
        self.error = error

        @guard(gate, instance="mira", session=session)
        def send_email(to: str, subject: str, body: str) -> str:
            self.sent += 1
            if self.error is not None:
                raise self.error
            return "sent"

        self.send = send_email


def in_graph(send: Any) -> None:
    """Call the function in a node of LangGraph with its default retry policy."""

    class Text(TypedDict):
        text: str

    def node(state: Text) -> Text:
        send(**MAIL)
        return state

    graph = StateGraph(Text)
    policy = RetryPolicy(initial_interval=0.01, max_interval=1.2, max_attempts=4)
    graph.add_node("mail", node, retry_policy=policy)
    graph.add_edge(START, "mail")
    graph.add_edge("mail", END)
    graph.compile().invoke({"text": ""})


def with_tenacity(send: Any) -> None:
    waits = tenacity.wait_chain(*[tenacity.wait_fixed(seconds) for seconds in (0, 1.1, 0)])
    for attempt in tenacity.Retrying(stop=tenacity.stop_after_attempt(4), wait=waits, reraise=True):
        with attempt:
            send(**MAIL)


# --- 11.2: a retry is no informed repeat -------------------------------------------------------------------


@pytest.mark.parametrize("retry", [in_graph, with_tenacity])
def test_a_retry_never_sends_the_mail_that_another_session_has_sent(gate: LocalGate, retry: Any) -> None:
    first, second = Mailer(gate, "one"), Mailer(gate, "two")
    first.send(**MAIL)
    with pytest.raises(Blocked, match="already did the same") as no:
        retry(second.send)
    assert (first.sent, second.sent) == (1, 0)
    assert no.value.decision.verdict is Verdict.CONFIRM
    assert isinstance(no.value, RuntimeError)


@pytest.mark.parametrize("retry", [in_graph, with_tenacity])
@pytest.mark.parametrize("error", [TimeoutError("no answer"), ConnectionResetError("gone")])
def test_a_retry_never_sends_a_mail_again_that_may_have_gone_out(gate: LocalGate, retry: Any, error: Exception) -> None:
    mailer = Mailer(gate, error=error)
    with pytest.raises((Blocked, type(error))):
        retry(mailer.send)
    assert mailer.sent == 1


@pytest.mark.parametrize("pauses", [2, 5])
def test_retries_do_not_soften_a_pause(gate: LocalGate, pauses: int) -> None:
    """Two pauses in ten minutes soften a third for a model; a program that calls again has read none of them."""
    Mailer(gate, "one").send(**MAIL)
    other = Mailer(gate, "two")
    for _ in range(pauses):
        with pytest.raises(Blocked):
            other.send(**OTHER)
    assert other.sent == 0


def test_a_definite_refusal_is_retried(gate: LocalGate) -> None:
    """A 429, an expired token: the tool said that it did nothing."""
    mailer = Mailer(gate, error=ValueError("429 too many requests"))
    with pytest.raises(ValueError, match="429"):
        with_tenacity(mailer.send)
    assert mailer.sent == 4
    call = Call("mira", "send_email", MAIL, call_id="c")
    with pytest.raises(ValueError, match="429"), guard(gate, call):
        raise ValueError("429 too many requests")
    with guard(gate, call) as running:
        running.result = "sent"
    assert running.decision is not None
    assert (running.decision.proceed, running.decision.repeated) == (True, False)


def test_confirming_lets_a_paused_function_run_and_covers_nothing_newer(gate: LocalGate) -> None:
    Mailer(gate, "one").send(**MAIL)
    other = Mailer(gate, "two")
    with pytest.raises(Blocked) as no:
        other.send(**MAIL)
    assert f"callosum.confirming({no.value.decision.id})" in str(no.value)
    with confirming(no.value.decision.id - 1), pytest.raises(Blocked):
        other.send(**MAIL)
    assert other.sent == 0
    with confirming(no.value.decision.id):
        other.send(**MAIL)
    assert other.sent == 1


def test_a_block_confirms_by_its_option(gate: LocalGate) -> None:
    Mailer(gate, "one").send(**MAIL)
    call = Call("mira", "send_email", MAIL, session="two")
    with pytest.raises(Blocked) as no, guard(gate, call):
        pytest.fail("it ran")
    with guard(gate, call, confirm=no.value.decision.id) as running:
        running.result = "sent"


def test_a_model_confirms_a_gated_tool_by_a_later_turn(gate: LocalGate) -> None:
    sent: list[str] = []

    def send_email(to: str, subject: str, body: str) -> str:
        sent.append(to)
        return "sent"

    turn, said = ["1"], lambda no: no.warning
    gated(send_email, gate=gate, instance="mira", session="one")(**MAIL)
    tool = gated(send_email, gate=gate, instance="mira", session="two", run=lambda: turn[-1], blocked=said)
    answer = tool(**MAIL)
    assert "repeat the call" in answer
    assert "confirming" not in answer
    assert len(sent) == 1
    turn.append("2")
    assert tool(**MAIL) == "sent"


# --- 11.1: what is over does not run again ---------------------------------------------------------------------


def test_the_loop_of_the_readme_runs_a_call_once_that_is_delivered_twice(gate: LocalGate) -> None:
    states = []
    for _ in range(2):
        decision = gate.intercept(Call("mira", "send_email", MAIL, session="chat", call_id="c"))
        states.append((decision.proceed, decision.state))
        if decision.proceed:
            gate.complete("mira", id=decision.id, session="chat")
    assert states == [(True, None), (False, State.DONE)]


def test_an_id_that_counts_anew_in_each_turn_stops_nothing(gate: LocalGate) -> None:
    sent = []
    for name in ("alice", "bob", "carol"):
        with guard(gate, Call("mira", "send_email", {**MAIL, "to": f"{name}@example.com"}, call_id="call_0")):
            sent.append(name)
    assert len(sent) == 3


def test_a_call_that_runs_does_not_start_twice_and_can_be_asked_for_again(gate: LocalGate) -> None:
    call = Call("mira", "send_email", MAIL, call_id="c")
    with guard(gate, call):
        with pytest.raises(Blocked, match="does not start twice") as no, guard(gate, call):
            pytest.fail("it ran twice")
        assert not isinstance(no.value, Repeated)
        assert no.value.retryable
        assert no.value.retry_after
    with pytest.raises(Repeated, match="already done at") as over, guard(gate, call):
        pytest.fail("it ran twice")
    assert not over.value.retryable


# --- 11.3: sessions ----------------------------------------------------------------------------------------------

_CALLS = """
import sys
from callosum import Call, LocalGate
with LocalGate(sys.argv[1]) as gate:
    decision = gate.intercept(Call("mira", "send_email", {"to": "a@example.com", "body": sys.argv[2]}, pause=True))
    print(decision.verdict, decision.id)
    if len(sys.argv) > 3:
        print(gate.renew("mira", int(sys.argv[3])).ok, gate.complete("mira", id=int(sys.argv[3])).ok)
        print(gate.complete("mira", context_key="email:a@example.com").ok)
"""


def run(*arguments: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", _CALLS, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_process_is_one_session_in_every_method(gate: LocalGate) -> None:
    decision = gate.intercept(Call("mira", "send_email", MAIL))
    (lock,) = gate.status().locks
    assert lock.instance == f"mira/{own_session()}"
    assert gate.renew("mira", decision.id).ok
    assert gate.complete("mira", context_key="email:alice@example.com").id == decision.id
    assert gate.lock("mira", "doc:plan").acquired
    assert gate.release("mira", "doc:plan").ok


def test_a_report_by_id_needs_no_session_but_its_own_instance(gate: LocalGate) -> None:
    decision = gate.intercept(Call("mira", "send_email", MAIL, session="chat"))
    assert not gate.complete("doug", id=decision.id).ok
    assert not gate.complete("mir", id=decision.id).ok
    assert not gate.renew("mira", decision.id, session="desk").ok
    assert gate.renew("mira", decision.id).ok
    assert gate.complete("mira", id=decision.id).ok
    assert gate.entries(limit=1, newest=True)[-1].session == "mira/chat"


# --- 11.18: keys of values ----------------------------------------------------------------------------------------


@dataclasses.dataclass
class Place:
    path: Path


class Model(pydantic.BaseModel):
    path: Path


NAME = "/srv/notes/plan.md"
COLOUR = enum.Enum("COLOUR", {"RED": "red.md"})
ID = uuid.UUID(int=7)
PLAIN: list[tuple[Any, Any]] = [
    (Path(NAME), NAME), (PurePosixPath(NAME), NAME), (COLOUR["RED"], "red.md"), (ID, str(ID)),
    (dt.date(2026, 11, 28), "2026-11-28"), (Decimal("12.50"), "12.50"),
]  # fmt: skip
NESTED = [(place, {"path": NAME}) for place in (Place(Path(NAME)), Model(path=Path(NAME)))]


@pytest.mark.parametrize(("value", "plain"), PLAIN + NESTED)
def test_a_value_gives_the_keys_of_its_plain_form(gate: LocalGate, value: Any, plain: Any) -> None:
    tool, name = ("update_order", "order") if isinstance(plain, dict) else ("write_file", "path")
    keys = tuple(key.name for key in gate.explain(Call("mira", tool, {name: plain, "content": "x"}))[0].keys)
    with guard(gate, Call("mira", tool, {name: value, "content": "x"})) as running:
        assert running.decision is not None
        assert running.decision.context_keys == keys
    assert keys or tool == "update_order"
    call = Adapter(gate).call_of(FrameworkCall(tool=tool, params={name: value}))
    assert call.params == {name: plain}


def test_a_function_gets_its_own_values(gate: LocalGate) -> None:
    @guard(gate, instance="mira")
    def write_file(path: Path, content: str) -> Path:
        return path

    assert write_file(Path(NAME), "x") == Path(NAME)


def test_arguments_of_a_partial_are_seen(gate: LocalGate) -> None:
    def write_file(path: str, content: str) -> str:
        return f"{path}: {content}"

    tool = guard(gate, instance="mira")(functools.partial(write_file, NAME, content="x"))
    assert tool() == f"{NAME}: x"
    assert gate.entries(limit=2)[0].keys[0].name == f"file:{NAME}"


def test_what_time_alone_lifts_is_retryable(gate: LocalGate) -> None:
    gate.lock("doug", "email:alice@example.com", 4)
    with pytest.raises(Blocked) as no:
        Mailer(gate).send(**MAIL)
    assert no.value.retryable
    assert 0 < (no.value.retry_after or 0) <= 10
    assert gate.release("doug", "email:alice@example.com").ok
    mailer = Mailer(gate)
    mailer.send(**MAIL)
    assert mailer.sent == 1
