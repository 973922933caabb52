"""``guard()`` and ``gated()``: what runs, what is reported, and what happens if the store is unreachable."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import http.client
import inspect
import os
import socket
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Self

import pytest

from callosum import (
    AsyncGate,
    Blocked,
    Call,
    Decision,
    GateUnavailable,
    LocalGate,
    Outcome,
    State,
    StoreUnavailable,
    gated,
    guard,
)
from callosum.guards import outcome_of_error
from callosum.model import Event
from callosum.process import own_session
from callosum.settings import Settings

MAIL = {"to": "alice@example.com", "subject": "Friday", "body": "Friday works for me, see you at ten then."}


def send_email(to: str, subject: str, body: str) -> str:
    """Send an e-mail."""
    return f"sent {subject} to {to}: {body}"


def states(gate: LocalGate) -> list[State]:
    return [action.state for action in gate.status().recent_actions]


# --- what is reported -------------------------------------------------------------------------------------


class ReadTimeout(Exception):
    """An error of an HTTP library."""


class RequestException(OSError):
    """The base error of requests, which is no built-in connection error."""


RequestsConnectionError = type("ConnectionError", (RequestException,), {})
NewConnectionError = type("NewConnectionError", (Exception,), {})
RemoteProtocolError = type("RemoteProtocolError", (Exception,), {})


def raised(outer: Exception, *inner: Exception, explicit: bool = False) -> Exception:
    """``outer`` as it is raised while the next is handled, and so on; with ``explicit`` said to be from it."""
    if inner:
        behind = raised(*inner, explicit=explicit)
        outer.__context__ = behind
        outer.__cause__ = behind if explicit else None
    return outer


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("no such address"), Outcome.FAILED),
        (ConnectionRefusedError(), Outcome.FAILED),
        (TimeoutError(), Outcome.UNKNOWN),
        (ConnectionResetError(), Outcome.UNKNOWN),
        (BrokenPipeError(), Outcome.UNKNOWN),
        (ReadTimeout(), Outcome.UNKNOWN),
        (RequestsConnectionError("Connection aborted."), Outcome.UNKNOWN),
        (raised(RequestsConnectionError(), ConnectionResetError()), Outcome.UNKNOWN),
        (raised(RequestsConnectionError(), NewConnectionError(), ConnectionRefusedError()), Outcome.FAILED),
        (raised(RequestsConnectionError(), NewConnectionError(), socket.gaierror()), Outcome.FAILED),
        (raised(ReadTimeout(), ConnectionRefusedError()), Outcome.UNKNOWN),
        (RemoteProtocolError("Server disconnected"), Outcome.UNKNOWN),
        (http.client.IncompleteRead(b""), Outcome.UNKNOWN),
        (urllib.error.URLError(TimeoutError()), Outcome.UNKNOWN),
        (urllib.error.URLError(ConnectionRefusedError()), Outcome.FAILED),
        (raised(ValueError("not sent"), TimeoutError(), explicit=True), Outcome.UNKNOWN),
        (raised(ValueError("no such address"), TimeoutError()), Outcome.FAILED),
        (KeyboardInterrupt(), Outcome.UNKNOWN),
        (SystemExit(), Outcome.UNKNOWN),
        (asyncio.CancelledError(), Outcome.UNKNOWN),
    ],
)
def test_only_a_definite_refusal_is_failed(gate: LocalGate, error: BaseException, outcome: Outcome) -> None:
    assert outcome_of_error(error) is outcome
    with pytest.raises(type(error)), guard(gate, Call("mira", "send_email", MAIL)):
        raise error
    assert states(gate) == [State(outcome)]


def test_function_that_returns_is_done_and_its_result_is_journalled(gate: LocalGate) -> None:
    tool = gated(send_email, gate=gate, instance="mira")
    assert tool(**MAIL).startswith("sent Friday")
    assert states(gate) == [State.DONE]
    report = gate.entries()[-1]
    assert report.event is Event.COMPLETE
    assert report.body["result"].startswith("sent Friday")


def test_guarded_function_keeps_its_signature_and_stays_sync_or_async(gate: LocalGate) -> None:
    async def book(room: str) -> str:
        return room

    assert inspect.signature(gated(send_email, gate=gate, instance="mira")) == inspect.signature(send_email)
    assert gated(send_email, gate=gate, instance="mira").__doc__ == "Send an e-mail."
    assert inspect.iscoroutinefunction(gated(book, gate=gate, instance="mira"))


def test_refusal_is_raised_or_returned_to_the_model(gate: LocalGate) -> None:
    ran: list[str] = []

    def delete_account(account_id: str) -> str:
        ran.append(account_id)
        return "deleted"

    gated(delete_account, gate=gate, instance="mira", session="a")("acme")
    with pytest.raises(Blocked) as no:
        gated(delete_account, gate=gate, instance="mira", session="b")("acme")
    assert str(no.value) == no.value.decision.warning
    told = gated(delete_account, gate=gate, instance="mira", session="c", blocked=lambda d: d.warning)("acme")
    assert told.startswith("[Callosum] Conflict")
    assert ran == ["acme"]


def test_names_may_come_from_functions(gate: LocalGate) -> None:
    names = iter(["first", "second"])
    tool = gated(send_email, gate=gate, instance=lambda: "mira", session=lambda: next(names))
    tool(**MAIL)
    tool(**{**MAIL, "to": "bob@example.com"})
    assert [action.instance for action in gate.status().recent_actions] == ["mira/second", "mira/first"]


@pytest.mark.parametrize("arguments", [{}, {"call": Call("mira", "x"), "instance": "mira"}])
def test_a_guard_takes_a_call_or_an_instance(gate: LocalGate, arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="either a call"):
        guard(gate, **arguments)


# --- async ------------------------------------------------------------------------------------------------


async def test_a_cancelled_tool_is_unknown(gate: LocalGate) -> None:
    begun = asyncio.Event()

    async def never(to: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    tool = gated(never, gate=gate, instance="mira", name="send_email")
    task = asyncio.create_task(tool("alice@example.com"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert states(gate) == [State.UNKNOWN]


async def test_task_cancelled_during_the_request_holds_nothing(gate: LocalGate) -> None:
    """The decision still arrives: its lease is given back, and not renewed until the process ends."""
    asked, given_up = threading.Event(), threading.Event()
    real = gate.intercept

    def intercept(call: Call) -> Decision:
        asked.set()
        assert given_up.wait(10)
        return real(call)

    gate.intercept = intercept  # type: ignore[method-assign, assignment]

    async def block() -> None:
        async with guard(gate, Call("mira", "send_email", MAIL)):
            raise AssertionError("it was cancelled")

    task = asyncio.create_task(block())
    assert await asyncio.to_thread(asked.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    given_up.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert not gate.status().locks
    assert states(gate) == [State.CANCELLED]


async def test_task_cancelled_as_the_decision_arrives_holds_nothing(gate: LocalGate) -> None:
    """Between the answer and the block there is a turn of the event loop."""
    entered = threading.Event()

    class Entered(guard):
        def _enter(self) -> Self:
            super()._enter()
            entered.set()
            return self

    async def block() -> None:
        async with Entered(gate, Call("mira", "send_email", MAIL)):
            raise AssertionError("it was cancelled")

    task = asyncio.create_task(block())
    await asyncio.sleep(0)  # it begins
    assert entered.wait(10)  # and has its decision, which the loop has not read
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.get_running_loop().shutdown_default_executor()
    assert not gate.status().locks
    assert states(gate) == [State.CANCELLED]


async def test_async_gate_answers_like_the_gate(gate: LocalGate) -> None:
    face = AsyncGate(gate)
    decision = await face.intercept(Call("mira", "send_email", MAIL))
    assert decision.proceed
    assert (await face.complete("mira", id=decision.id)).ok
    assert (await face.lock("mira", "deploy:prod")).acquired
    assert (await face.release("mira", "deploy:prod")).ok
    assert not (await face.status()).locks


# --- leases -----------------------------------------------------------------------------------------------


def test_a_lease_is_renewed_while_the_tool_runs(tmp_path: Path) -> None:
    """A lease of 0.3 s outlives a tool that waits until it was renewed three times."""
    with LocalGate(settings=Settings(state=tmp_path, lease_ttl=0.3)) as gate:
        renewed = threading.Semaphore(0)
        real = gate.renew

        def renew(*args: Any, **named: Any) -> Any:
            report = real(*args, **named)
            renewed.release()
            return report

        gate.renew = renew  # type: ignore[method-assign]
        with guard(gate, Call("mira", "send_email", MAIL)):
            for _ in range(3):
                assert renewed.acquire(timeout=10)
            assert [lock.instance for lock in gate.status().locks] == [f"mira/{own_session()}"]
        assert not gate.status().locks
        assert states(gate) == [State.DONE]


def test_forked_child_renews_only_its_own_leases(tmp_path: Path) -> None:
    with LocalGate(settings=Settings(state=tmp_path, lease_ttl=0.3)) as gate:
        renewed: list[int] = []
        thrice = threading.Event()
        real = gate.renew

        def renew(instance: str, id: int, *args: Any, **named: Any) -> Any:
            renewed.append(id)
            if renewed.count(id) == 3:
                thrice.set()
            return real(instance, id, *args, **named)

        def in_the_child() -> bool:
            renewed.clear()
            thrice.clear()
            gate.renew = renew  # type: ignore[method-assign]
            with guard(gate, Call("doug", "send_email", {**MAIL, "to": "doug@example.com"})) as mine:
                return thrice.wait(10) and mine.decision is not None and set(renewed) == {mine.decision.id}

        with guard(gate, Call("mira", "send_email", MAIL)):
            child = os.fork()
            if not child:
                code = 2
                try:
                    code = 0 if in_the_child() else 1
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- the store is away ------------------------------------------------------------------------------------


class UnreachableStore:
    """A store that cannot be reached for a while."""

    def __init__(self, store: Any) -> None:
        self.store, self.gone = store, False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def method(*args: Any, **named: Any) -> Any:
            if self.gone:
                raise StoreUnavailable("the disk is full")
            return getattr(self.store, name)(*args, **named)

        return method


def test_without_the_store_low_tiers_run_and_are_journalled_late(gate: LocalGate) -> None:
    away = UnreachableStore(gate.store)
    gate.store = away
    away.gone = True

    def save(path: str, content: str) -> str:
        return f"{path}: {content}"

    tool = gated(save, gate=gate, instance="mira", name="write")
    assert tool("/a.md", "x") == "/a.md: x"
    away.gone = False
    gate.intercept(Call("mira", "read", {"path": "/a.md"}))
    late = [entry for entry in gate.entries() if entry.event is Event.LATE]
    assert [entry.tool for entry in late] == ["write"]
    ended = [entry for entry in gate.entries() if entry.event is Event.COMPLETE]
    assert [(entry.action, entry.outcome) for entry in ended] == [(late[0].seq, Outcome.DONE)]


def test_without_the_store_high_tiers_do_not_run(gate: LocalGate) -> None:
    away = UnreachableStore(gate.store)
    gate.store = away
    away.gone = True
    with pytest.raises(GateUnavailable, match="tier 3"):
        gated(send_email, gate=gate, instance="mira")(**MAIL)
    with pytest.raises(StoreUnavailable):  # the gate itself invents no decision
        gate.intercept(Call("mira", "read", {"path": "/a.md"}))
    away.gone = False


def test_failed_report_leaves_a_lease_that_expires(gate: LocalGate) -> None:
    away = UnreachableStore(gate.store)
    gate.store = away
    with guard(gate, Call("mira", "send_email", MAIL)):
        away.gone = True
    away.gone = False
    assert [lock.instance for lock in gate.status().locks] == [f"mira/{own_session()}"]


# --- warnings ---------------------------------------------------------------------------------------------

OTHER_MAIL = {**MAIL, "body": "Friday will not do, the whole team is away; please propose another day next week."}


@pytest.fixture
def told_no(gate: LocalGate) -> LocalGate:
    """A gate at which another session has just written to the same person."""
    with guard(gate, Call("doug", "send_email", MAIL, session="desk")):
        pass
    return gate


def test_a_warning_is_logged_and_the_call_runs(told_no: LocalGate, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "callosum"):
        tool = gated(send_email, gate=told_no, instance="mira", session="chat", pause=False)
        assert tool(**OTHER_MAIL).startswith("sent")
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("send_email of mira/chat runs with a warning: [Callosum] Conflict: doug/desk acted on")


def test_a_call_without_a_conflict_logs_nothing(gate: LocalGate, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "callosum"):
        gated(send_email, gate=gate, instance="mira")(**MAIL)
    assert not caplog.records


def test_a_warning_is_handed_to_the_callback_before_the_call_runs(
    told_no: LocalGate, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def tool(to: str, subject: str, body: str) -> None:
        seen.append("ran")

    with caplog.at_level("WARNING", "callosum"):
        shown = gated(
            tool,
            gate=told_no,
            instance="mira",
            name="send_email",
            pause=False,
            warned=lambda no: seen.append(no.verdict),
        )
        shown(**OTHER_MAIL)
    assert seen == ["warn", "ran"]
    assert not caplog.records


def test_a_guarded_block_has_the_warning_in_its_decision(told_no: LocalGate) -> None:
    with guard(told_no, Call("mira", "send_email", OTHER_MAIL), pause=False, warned=lambda _: None) as running:
        assert running.decision is not None
        assert running.decision.warning is not None


@pytest.mark.parametrize("is_async", [False, True])
def test_a_callback_that_raises_keeps_the_call_from_running(told_no: LocalGate, is_async: bool) -> None:
    def refuse(decision: Decision) -> None:
        raise PermissionError(decision.warning)

    async def wait_for_it() -> None:
        async with guard(told_no, Call("mira", "send_email", OTHER_MAIL), pause=False, warned=refuse):
            pytest.fail("it ran")

    def run() -> None:
        if is_async:
            asyncio.run(wait_for_it())
        gated(send_email, gate=told_no, instance="mira", pause=False, warned=refuse)(**OTHER_MAIL)

    with pytest.raises(PermissionError, match="doug/desk acted"):
        run()
    assert told_no.status().locks == ()
    assert State.CANCELLED in states(told_no)


# --- who acts ---------------------------------------------------------------------------------------------

_TWICE = """
import sys
from callosum import LocalGate, gated
def send_email(to, subject, body): pass
with LocalGate(sys.argv[1]) as gate:
    send = gated(send_email, gate=gate, instance={instance}, session={session}, pause=False)
    send("alice@example.com", "Friday", sys.argv[2])
    print(gate.entries(limit=1, newest=True)[-1].session)
"""


@pytest.mark.parametrize(("instance", "session"), [("'mira'", "None"), ("''", "''"), ("lambda: None", "lambda: None")])
def test_two_processes_of_one_program_are_two_actors(tmp_path: Path, instance: str, session: str) -> None:
    names = set()
    for text in ("The first of two mails, about the car.", "Quite another one: lunch is in the garden."):
        program = _TWICE.format(instance=instance, session=session)
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), text], capture_output=True, text=True, check=True
        )
        names.add(done.stdout.strip())
        if len(names) == 2:
            assert "runs with a warning: [Callosum] Conflict:" in done.stderr
    first, second = names
    assert first != second
    assert all("?" not in name and "/pid-" in name for name in names)


# --- params that JSON cannot hold -------------------------------------------------------------------------


@dataclasses.dataclass
class Node:
    """A context of a framework, which refers to itself."""

    name: str
    next: Any = None


def _odd() -> dict[str, Any]:
    node = Node("a")
    node.next = node
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    row: list[Any] = []
    row.append(row)
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(5000):
        inner["a"] = inner = {}
    return {
        "dataclass": Node("a"), "cycle of dataclasses": node, "cycle": cycle, "list in itself": row, "deep": deep,
        "moment": dt.datetime(2026, 5, 19, tzinfo=dt.UTC), "bytes": b"\xff\x00", "set": {1, 2},
        "object": object(), "function": _odd, "broken Unicode": "\ud800", "odd keys": {(1, 2): 3}, "not a number": float("nan"),
        "huge number": 10**40, "path": Path("/a"), "error": ValueError("x"), "generator": (n for n in range(3)),
        "nested": [{"a": [object(), cycle]}],
    }  # fmt: skip


ODD = _odd()


@pytest.mark.parametrize("name", ODD)
def test_params_that_json_cannot_represent_do_not_stop_the_call(gate: LocalGate, name: str) -> None:
    def send_email(to: str, body: Any) -> str:
        assert body is ODD[name] or name == "not a number", "the tool gets what it was given"
        return "sent"

    assert gated(send_email, gate=gate, instance="mira")(to="alice@example.com", body=ODD[name]) == "sent"
    entry = next(one for one in gate.entries(limit=5) if one.event is Event.INTERCEPT)
    assert entry.body["params"]["to"] == "alice@example.com"
    assert "body" in entry.body["params"]
    assert "email:alice@example.com" in [key.name for key in entry.keys]


@pytest.mark.parametrize("name", ["cycle", "cycle of dataclasses", "broken Unicode", "nested"])
def test_a_call_with_such_params_is_found_again_by_them(gate: LocalGate, name: str) -> None:
    call = Call("mira", "send_email", {"to": "alice@example.com", "body": ODD[name]})
    assert gate.intercept(call).proceed
    assert gate.complete("mira", tool=call.tool, params=call.params).ok


class RunContext:
    """The context of pydantic-ai."""


class InjectedState:
    """LangGraph's mark of an injected argument."""


@pytest.mark.parametrize("as_text", [False, True])
def test_arguments_that_a_framework_injects_are_no_params(gate: LocalGate, as_text: bool) -> None:
    def send_email(ctx: Any, state: Any, to: str, context: str) -> None:
        assert type(ctx) is RunContext
        assert state["messages"]

    said: dict[str, Any] = {
        "ctx": RunContext,
        "state": Annotated[dict[str, Any], InjectedState],
        "to": str,
        "context": str,
    }
    if as_text:
        said = {"ctx": "RunContext[Deps]", "state": "Annotated[dict, InjectedState]", "to": "str", "context": "str"}
    send_email.__annotations__ = said
    tool = gated(send_email, gate=gate, instance="mira")
    tool(RunContext(), {"messages": ["a prompt"]}, "alice@example.com", context="the word of the model")
    entry = next(one for one in gate.entries(limit=5) if one.event is Event.INTERCEPT)
    assert entry.body["params"] == {"to": "alice@example.com", "context": "the word of the model"}


class MailTool:
    """A framework's tool: an object with the function in it."""

    secret = "hunter2"


def test_a_tool_object_is_refused_with_what_to_wrap_instead(gate: LocalGate) -> None:
    for wrong, name in ((MailTool(), r"tests\.MailTool"), ("hunter2", "str")):
        with pytest.raises(TypeError, match=f"expected a function, got one of type {name}: .*tool of gated") as refused:
            gated(wrong, gate=gate, instance="mira")  # type: ignore[arg-type]
        assert "hunter2" not in str(refused.value)
