"""``guard()`` and ``gated()``: what runs, what is reported, and what happens when the store is away."""

from __future__ import annotations

import asyncio
import http.client
import inspect
import os
import socket
import threading
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

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
from callosum.settings import Settings

MAIL = {"to": "alice@example.com", "subject": "Friday", "body": "Friday works for me, see you at ten then."}


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[LocalGate]:
    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        yield gate


def send_email(to: str, subject: str, body: str) -> str:
    """Send an e-mail."""
    return f"sent {subject} to {to}: {body}"


def states(gate: LocalGate) -> list[State]:
    return [action.state for action in gate.status().recent_actions]


# --- what is reported -------------------------------------------------------------------------------------


class ReadTimeout(Exception):
    """As an HTTP library of one's choice names it."""


class RequestException(OSError):
    """As requests names them: no built-in error of a connection."""


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


def test_what_runs_to_its_end_is_done_and_its_result_is_journalled(gate: LocalGate) -> None:
    tool = gated(send_email, gate=gate, instance="mira")
    assert tool(**MAIL).startswith("sent Friday")
    assert states(gate) == [State.DONE]
    report = gate.entries()[-1]
    assert report.event is Event.COMPLETE
    assert report.body["result"].startswith("sent Friday")


def test_a_function_keeps_its_signature_and_its_colour(gate: LocalGate) -> None:
    async def book(room: str) -> str:
        return room

    assert inspect.signature(gated(send_email, gate=gate, instance="mira")) == inspect.signature(send_email)
    assert gated(send_email, gate=gate, instance="mira").__doc__ == "Send an e-mail."
    assert inspect.iscoroutinefunction(gated(book, gate=gate, instance="mira"))


def test_a_no_is_raised_or_handed_to_the_model(gate: LocalGate) -> None:
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


def test_a_cancelled_tool_is_unknown(gate: LocalGate) -> None:
    async def run() -> None:
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

    asyncio.run(run())
    assert states(gate) == [State.UNKNOWN]


def test_who_is_cancelled_while_the_gate_is_asked_holds_nothing(gate: LocalGate) -> None:
    """The answer comes all the same: what it opened is given back, and not renewed for as long as the process lives."""
    asked, given_up = threading.Event(), threading.Event()
    real = gate.intercept

    def intercept(call: Call) -> Decision:
        asked.set()
        assert given_up.wait(10)
        return real(call)

    gate.intercept = intercept  # type: ignore[method-assign]

    async def run() -> None:
        async def block() -> None:
            async with guard(gate, Call("mira", "send_email", MAIL)):
                raise AssertionError("it was cancelled")

        task = asyncio.create_task(block())
        assert await asyncio.to_thread(asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        given_up.set()

    asyncio.run(run())  # which waits for its threads
    assert not gate.status().locks
    assert states(gate) == [State.CANCELLED]


def test_who_is_cancelled_as_the_answer_comes_holds_nothing(gate: LocalGate) -> None:
    """Between the answer and the block there is a turn of the event loop."""
    entered = threading.Event()

    class Entered(guard):
        def _enter(self) -> Self:
            super()._enter()
            entered.set()
            return self

    async def run() -> None:
        async def block() -> None:
            async with Entered(gate, Call("mira", "send_email", MAIL)):
                raise AssertionError("it was cancelled")

        task = asyncio.create_task(block())
        await asyncio.sleep(0)  # it begins
        assert entered.wait(10)  # and has its answer, which the loop has not seen
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert not gate.status().locks
    assert states(gate) == [State.CANCELLED]


def test_the_async_face_answers_like_the_gate(gate: LocalGate) -> None:
    async def run() -> Decision:
        face = AsyncGate(gate)
        decision = await face.intercept(Call("mira", "send_email", MAIL))
        assert (await face.complete("mira", id=decision.id)).ok
        assert (await face.lock("mira", "deploy:prod")).acquired
        assert (await face.release("mira", "deploy:prod")).ok
        assert not (await face.status()).locks
        return decision

    assert asyncio.run(run()).proceed


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
            assert [lock.instance for lock in gate.status().locks] == ["mira"]
        assert not gate.status().locks
        assert states(gate) == [State.DONE]


def test_a_forked_child_renews_its_own_leases_alone(tmp_path: Path) -> None:
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


class Away:
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
    away = Away(gate.store)
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
    away = Away(gate.store)
    gate.store = away
    away.gone = True
    with pytest.raises(GateUnavailable, match="tier 3"):
        gated(send_email, gate=gate, instance="mira")(**MAIL)
    with pytest.raises(StoreUnavailable):  # the gate itself invents no decision
        gate.intercept(Call("mira", "read", {"path": "/a.md"}))
    away.gone = False


def test_a_report_that_cannot_be_made_leaves_a_lease_that_runs_out(gate: LocalGate) -> None:
    away = Away(gate.store)
    gate.store = away
    with guard(gate, Call("mira", "send_email", MAIL)):
        away.gone = True
    away.gone = False
    assert [lock.instance for lock in gate.status().locks] == ["mira"]
