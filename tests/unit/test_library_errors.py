"""What a program reads if it uses the library wrongly: errors that say so and that can be pickled and copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import callosum
from callosum import AsyncGate, Blocked, Call, CallosumClient, ConfigError, Decision, LocalGate, Verdict, gated, guard
from callosum.adapters.core import Adapter
from callosum.errors import CallosumError, StoreChanged
from callosum.settings import Settings


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[LocalGate]:
    with LocalGate(settings=Settings(state=tmp_path / "state")) as gate:
        yield gate


MAIL = {"to": "alice@example.com", "subject": "Friday", "body": "Friday works for me, see you at ten then."}
DECISION = Decision(False, 3, "k", 7, Verdict.BLOCK, ("k",), "", warning="no", retryable=True, retry_after=2.0)
ODD = {
    ConfigError: ConfigError("expected text", at="tool"),
    callosum.Unconfirmed: callosum.Unconfirmed("d", (ValueError("x"),), id=5, reachable=False),
    Blocked: Blocked(DECISION),
    callosum.Repeated: callosum.Repeated(DECISION),
}
PUBLIC = [kind for name in callosum.__all__ if issubclass(type(kind := getattr(callosum, name)), type)]
ERRORS = [ODD.get(kind) or kind("a") for kind in [*PUBLIC, CallosumError, StoreChanged] if issubclass(kind, Exception)]


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
        (lambda gate: "nope", "expected a gate, such as LocalGate.. or CallosumClient.., got one of type str"),
        (lambda gate: LocalGate, "got the class callosum.LocalGate"),
        (AsyncGate, "expected a blocking gate, got an AsyncGate: pass its .gate"),
        (lambda gate: callosum.AsyncCallosumClient("unix:/tmp/none"), "got an AsyncCallosumClient: pass its .client"),
    ],
)
def test_what_is_no_gate_is_refused(gate: LocalGate, make: Any, text: str) -> None:
    for use in (lambda wrong: guard(wrong, instance="mira"), lambda wrong: guard(wrong, Call("mira", "x")), Adapter):
        with pytest.raises(TypeError, match=text):
            use(make(gate))


def test_what_is_no_call_is_refused(gate: Any) -> None:
    for wrong in ({"tool": "x"}, "x"):
        for use in (gate.intercept, lambda wrong: guard(gate, wrong)):
            with pytest.raises(TypeError, match="expected a Call, got"):
                use(wrong)
    with CallosumClient("unix:/tmp/none") as client, pytest.raises(TypeError, match="expected a Call, got dict"):
        client.intercept({})  # type: ignore[arg-type]


def test_a_class_and_a_generator_are_refused(gate: LocalGate) -> None:
    class Tool:
        def __init__(self, to: str) -> None: ...

    def lines(path: str) -> Iterator[str]:
        yield path

    async def awaited(path: str) -> AsyncIterator[str]:
        yield path

    for wrong, text in ((Tool, "class tests.Tool"), (lines, "generator lines"), (awaited, "generator awaited")):
        for use in (guard(gate, instance="mira"), lambda wrong: gated(wrong, gate=gate, instance="mira")):
            with pytest.raises(TypeError, match=f"the {text}"):
                use(wrong)


def test_a_report_without_an_id_asks_for_one_if_several_actions_are_open(gate: LocalGate) -> None:
    one = gate.intercept(Call("mira", "send_email", MAIL))
    assert gate.complete("mira", context_key="email:alice@example.com").id == one.id
    ids = [gate.intercept(Call("mira", "save_note", {"text": text})).id for text in ("a", "b")]
    with pytest.raises(ConfigError, match=f"id: 2 actions of mira/pid-.* are open .*{ids[0]}, {ids[1]}"):
        gate.complete("mira")
    gate.complete("mira", id=ids[0])
    assert gate.complete("mira").id == ids[1]


def test_the_tools_own_limit_is_named_for_what_it_is(gate: LocalGate) -> None:
    with pytest.raises(TypeError, match="timeout"):
        guard(gate, instance="mira", timeout=1)  # type: ignore[call-arg]
    gated(lambda: None, gate=gate, instance="mira", tool_timeout=1, name="tool")()


def test_a_closed_gate_says_so(tmp_path: Path) -> None:
    gate = LocalGate(tmp_path)
    gate.close()
    gate.close()
    guarded = guard(gate, instance="mira")(lambda: pytest.fail("it ran"))
    asked = lambda: gate.intercept(Call("mira", "read_file", {"path": "/a"}))  # noqa: E731
    for use in (asked, lambda: gate.complete("mira", id=1), gate.status, lambda: gate.lock("mira", "k"), guarded):
        with pytest.raises(CallosumError, match="this gate is closed"):
            use()
    client = CallosumClient("unix:/tmp/none")
    client.close()
    with pytest.raises(callosum.GateUnavailable, match="closed"):
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
