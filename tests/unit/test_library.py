"""The library as a program uses it: retries, confirmations, sessions, values, errors (PROTOCOL 11.1, 11.2, 11.3, 11.18)."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime as dt
import enum
import functools
import pickle
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict

import pydantic
import pytest
import tenacity
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

import callosum
from callosum import (
    AsyncCallosumClient,
    AsyncGate,
    Blocked,
    Call,
    CallosumClient,
    ConfigError,
    Decision,
    Expired,
    GateUnavailable,
    LocalGate,
    NotAPerson,
    Repeated,
    State,
    StoreError,
    StoreUnavailable,
    Unconfirmed,
    Verdict,
    confirming,
    gated,
    guard,
)
from callosum.adapters.core import Adapter, FrameworkCall
from callosum.errors import CallosumError, StoreChanged
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


def test_confirming_lets_a_paused_function_run(gate: LocalGate) -> None:
    Mailer(gate, "one").send(**MAIL)
    other = Mailer(gate, "two")
    with pytest.raises(Blocked) as no:
        other.send(**MAIL)
    assert f"callosum.confirming({no.value.decision.id})" in str(no.value)
    with confirming(no.value.decision.id):
        other.send(**MAIL)
    assert other.sent == 1


def test_confirming_covers_nothing_newer(gate: LocalGate) -> None:
    Mailer(gate, "one").send(**MAIL)
    other = Mailer(gate, "two")
    with pytest.raises(Blocked) as no:
        other.send(**MAIL)
    with confirming(no.value.decision.id - 1), pytest.raises(Blocked):
        other.send(**MAIL)
    assert other.sent == 0


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


def test_two_processes_without_a_session_are_two_actors(tmp_path: Path) -> None:
    verdict, id = run(str(tmp_path), "The numbers of March are attached, as you asked on Monday.")
    assert verdict == "allow"
    again, _, renewed, reported, by_key = run(str(tmp_path), "The numbers of March are attached, as you asked.", id)
    assert again == "confirm"
    assert (renewed, reported) == ("True", "True"), "any process of the instance may speak for it"
    assert by_key == "False", "another process's action is not found by key"


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


class Colour(enum.Enum):
    RED = "red.md"


@dataclasses.dataclass
class Place:
    path: Path


class Model(pydantic.BaseModel):
    path: Path


NAME = "/srv/notes/plan.md"
ID = uuid.UUID(int=7)


def key_of(gate: LocalGate, params: dict[str, Any], tool: str = "write_file") -> str | None:
    with guard(gate, Call("mira", tool, params), pause=False) as running:
        assert running.decision is not None
        return running.decision.context_key


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Path(NAME), NAME),
        (PurePosixPath(NAME), NAME),
        (Colour.RED, "red.md"),
        (ID, str(ID)),
        (dt.date(2026, 11, 28), "2026-11-28"),
        (Decimal("12.50"), "12.50"),
    ],
)
def test_a_value_gives_the_key_of_its_plain_form(gate: LocalGate, value: Any, plain: str) -> None:
    found = key_of(gate, {"path": value, "content": "x"})
    assert found is not None
    assert found == key_of(gate, {"path": plain, "content": "x"})


@pytest.mark.parametrize("value", [Place(Path(NAME)), Model(path=Path(NAME))])
def test_a_model_gives_the_keys_of_its_fields(gate: LocalGate, value: Any) -> None:
    plain = gate.explain(Call("mira", "update_order", {"order": {"path": NAME}}))[0]
    with guard(gate, Call("mira", "update_order", {"order": value})) as running:
        assert running.decision is not None
        assert running.decision.context_keys == tuple(key.name for key in plain.keys)


def test_a_value_gives_the_same_key_in_an_adapter(gate: LocalGate) -> None:
    call = Adapter(gate).call_of(FrameworkCall(tool="write_file", params={"path": Path(NAME)}))
    assert call.params == {"path": NAME}


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


# --- C.2: errors ------------------------------------------------------------------------------------------------------

DECISION = Decision(
    False, 3, "k", 7, Verdict.BLOCK, ("k",), "", warning="[Callosum] no", retryable=True, retry_after=2.0
)
ERRORS = [
    CallosumError("a"),
    ConfigError("expected text", at="tool"),
    StoreError("b"),
    StoreUnavailable("c"),
    Unconfirmed("d", (ValueError("x"),), id=5, reachable=False),
    StoreChanged("e"),
    Expired("f"),
    GateUnavailable("g"),
    NotAPerson("h"),
    Blocked(DECISION),
    Repeated(DECISION),
]


def test_every_public_error_is_tried() -> None:
    public = {getattr(callosum, name) for name in callosum.__all__}
    named = {kind for kind in public if isinstance(kind, type) and issubclass(kind, Exception)}
    assert named <= {type(error) for error in ERRORS}


def unpickled(error: CallosumError) -> Any:
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - its own


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("again", [unpickled, copy.copy, copy.deepcopy])
def test_an_error_can_be_pickled_and_copied(error: CallosumError, again: Any) -> None:
    other = again(error)
    assert (type(other), str(other), other.args[:1]) == (type(error), str(error), error.args[:1])
    assert repr(vars(other)) == repr(vars(error))
    assert (other.retryable, other.retry_after) == (error.retryable, error.retry_after)


def refuse() -> None:
    raise Blocked(DECISION)


def test_a_refusal_in_a_worker_process_does_not_end_the_pool() -> None:
    with ProcessPoolExecutor(1) as pool:
        for _ in range(2):
            with pytest.raises(Blocked, match="no") as no:
                pool.submit(refuse).result()
            assert no.value.decision == DECISION


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda gate: "nope", "expected a gate, such as LocalGate.. or CallosumClient.., got a str"),
        (lambda gate: LocalGate, "got the class LocalGate"),
        (AsyncGate, "expected a blocking gate, got an AsyncGate: pass its .gate"),
        (lambda gate: AsyncCallosumClient("unix:/tmp/none"), "got an AsyncCallosumClient: pass its .client"),
    ],
)
def test_what_is_no_gate_is_refused(gate: LocalGate, make: Any, text: str) -> None:
    for use in (lambda wrong: guard(wrong, instance="mira"), lambda wrong: guard(wrong, Call("mira", "x")), Adapter):
        with pytest.raises(TypeError, match=text):
            use(make(gate))


def test_what_is_no_call_is_refused(gate: LocalGate) -> None:
    for wrong in ({"tool": "x"}, "x"):
        with pytest.raises(TypeError, match="expected a Call, got"):
            gate.intercept(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected a Call, got a"):
            guard(gate, wrong)  # type: ignore[arg-type]
    with CallosumClient("unix:/tmp/none") as client, pytest.raises(TypeError, match="expected a Call, got dict"):
        client.intercept({})  # type: ignore[arg-type]


def test_a_class_and_a_generator_are_refused(gate: LocalGate) -> None:
    class Tool:
        def __init__(self, to: str) -> None: ...

    def lines(path: str) -> Iterator[str]:
        yield path

    async def awaited(path: str) -> AsyncIterator[str]:
        yield path

    for wrong, text in ((Tool, "the class Tool"), (lines, "the generator lines"), (awaited, "the generator awaited")):
        with pytest.raises(TypeError, match=text):
            guard(gate, instance="mira")(wrong)
        with pytest.raises(TypeError, match=text):
            gated(wrong, gate=gate, instance="mira")


def test_a_report_without_an_id_asks_for_one_if_several_actions_are_open(gate: LocalGate) -> None:
    one = gate.intercept(Call("mira", "send_email", MAIL))
    assert gate.complete("mira", context_key="email:alice@example.com").id == one.id
    ids = [gate.intercept(Call("mira", "save_note", {"text": text})).id for text in ("a", "b")]
    with pytest.raises(ConfigError, match=f"id: 2 actions of mira/pid-.* are open .*{ids[0]}, {ids[1]}"):
        gate.complete("mira")
    gate.complete("mira", id=ids[0])
    assert gate.complete("mira").id == ids[1]


def test_the_tools_own_limit_is_named_for_what_it_is(gate: LocalGate) -> None:
    def tool() -> None: ...

    with pytest.raises(TypeError, match="timeout"):
        guard(gate, instance="mira", timeout=1)  # type: ignore[call-arg]
    gated(tool, gate=gate, instance="mira", tool_timeout=1)()


def test_a_closed_gate_says_so(tmp_path: Path) -> None:
    gate = LocalGate(tmp_path)
    gate.close()
    gate.close()
    for use in (
        lambda: gate.intercept(Call("mira", "read_file", {"path": "/a"})),
        lambda: gate.complete("mira", id=1),
        gate.status,
        lambda: gate.lock("mira", "doc:plan"),
    ):
        with pytest.raises(CallosumError, match="this gate is closed"):
            use()

    @guard(gate, instance="mira")
    def read_file(path: str) -> str:
        pytest.fail("it ran")

    with pytest.raises(CallosumError, match="this gate is closed"):
        read_file("/a")
    client = CallosumClient("unix:/tmp/none")
    client.close()
    with pytest.raises(GateUnavailable, match="closed"):
        client.status()


@pytest.mark.parametrize("make", [LocalGate, lambda file: CallosumClient("unix:/tmp/none", state=file)])
def test_a_file_is_no_state_folder(tmp_path: Path, make: Any) -> None:
    file = tmp_path / "gate.db"
    file.write_text("")
    with pytest.raises(ConfigError, match=r"state: .*gate.db is a file; expected"):
        make(file)


def test_a_gate_cannot_be_pickled(gate: LocalGate) -> None:
    with CallosumClient("unix:/tmp/none") as client:
        for one in (gate, client):
            for use in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=f"a {type(one).__name__} belongs to its process"):
                    use(one)
    with pytest.raises(TypeError, match="belongs to its process"):
        pickle.dumps(AsyncGate(gate))


def test_an_async_guard_raises_the_same(gate: LocalGate) -> None:
    Mailer(gate, "one").send(**MAIL)

    async def wait_for_it() -> None:
        async with guard(gate, Call("mira", "send_email", MAIL, session="two")):
            pytest.fail("it ran")

    with pytest.raises(Blocked, match="already did the same"):
        asyncio.run(wait_for_it())


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
