"""Bounds on what an agent can send: a megabyte of anything, ten megabytes, a hundred thousand recipients.

Times are counted in rounds of a fixed piece of work that is timed just before, both in CPU time of this process. The
best of a few tries counts, and a slow or busy machine is slow at both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from bench.quality.speed import huge
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.model import Call, Classification, Tier
from callosum.rulebook import Rulebook
from callosum.rules import RuleSet
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock
from fuzz.attempt import _round

RULES: Final = RuleSet.parse(secret=b"secret", protected=("/home/u/.state",))
MEGABYTE: Final = 140
"""Rounds for a megabyte: a round is some 3 ms, so this is four times the 100 ms that the benchmark holds on a quiet core."""
TEN: Final = 400
"""Rounds for ten megabytes by an embedding host, which no limit of the wire protects."""
M: Final = 10_000_000


def _recipients() -> list[str]:
    return [f"a{at}@example.com" for at in range(100_000)]


def _ring() -> dict[str, Any]:
    ring: dict[str, Any] = {"id": 1}
    ring["params"] = ring["data"] = ring["input"] = ring
    return ring


def _loop() -> list[Any]:
    loop: list[Any] = ["a@x.org"]
    loop.append(loop)
    return loop


def _bash(command: str) -> Call:
    return Call("a", "Bash", {"command": command}, cwd="/w")


LARGE: Final[dict[str, Callable[[], Call]]] = {
    "content": lambda: Call("a", "write", {"path": "/a", "content": "x" * M}),
    "message": lambda: Call("a", "send_email", {"to": "a@x.org", "body": "word " * (M // 5)}),
    "broken Unicode": lambda: Call("a", "send_email", {"to": "a@x.org", "body": "\ud800" * M}),
    "path": lambda: Call("a", "write_file", {"path": "/../a" * (M // 5)}),
    "SQL": lambda: Call("a", "run_sql", {"sql": "select 'x' /* " * (M // 14)}),
    "patch": lambda: Call("a", "apply_patch", {"input": "*** Update File: a\n" * (M // 19)}),
    "commands": lambda: _bash("rm a && " * (M // 8)),
    "junk": lambda: _bash("".join(map(chr, range(1000))) * (M // 1000)),
    "recipients": lambda: Call("a", "send_email", {"to": _recipients(), "body": "x"}),
    "recipients in a text": lambda: Call("a", "send_email", {"to": ", ".join(_recipients()), "body": "x"}),
    "nested substitutions": lambda: _bash("$(" * 10_000 + "rm -rf /" + ")" * 10_000),
    "nested subshells": lambda: _bash("( " * 10_000 + "rm -rf /" + " )" * 10_000),
    "nested shells": lambda: _bash("sh -c '" * 10_000 + "rm -rf /"),
    "nested documents": lambda: _bash("cat <<A $(\n" * 10_000),
    "nested quotes": lambda: _bash("`\"'" * 10_000),
    "an object in itself": lambda: Call("a", "send_email", {"to": _ring(), "body": _ring()}),
    "a list in itself": lambda: Call("a", "send_email", {"to": _loop(), "cc": _loop()}),
}
"""Calls of ten megabytes, made where they are tried: every worker that collects the tests would keep them all."""


def rounds(work: Callable[[], object], most: float) -> float:
    """Return the time of some work in rounds. It is repeated while it is more than ``most``."""
    best = float("inf")
    for _ in range(5):
        one = min(_round() for _ in range(3))
        began = time.process_time()
        work()
        best = min(best, (time.process_time() - began) / one)
        if best <= most:
            break
    return best


@pytest.mark.parametrize("kind", huge())
def test_a_megabyte_takes_bounded_time(kind: str) -> None:
    call = huge()[kind]
    RULES.classify(Call("a", "Bash", {"command": "ls | wc -l"}))  # imports the command classifier
    assert rounds(lambda: RULES.classify(call), MEGABYTE) <= MEGABYTE


@pytest.mark.parametrize("kind", LARGE)
def test_ten_megabytes_take_bounded_time(kind: str) -> None:
    """A value that is not read to its end is no read."""
    call, seen = LARGE[kind](), list[Classification]()
    RULES.classify(Call("a", "Bash", {"command": "ls | wc -l"}))
    assert rounds(lambda: seen.append(RULES.classify(call)), TEN) <= TEN
    if kind.startswith(("nested", "junk", "commands")):
        assert (seen[0].effect, seen[0].tier >= Tier.HIGH) == ("write", True), seen[0]


@pytest.fixture
def gate(tmp_path: Path) -> LocalGate:
    clock = ManualClock()
    return LocalGate(
        settings=Settings(state=tmp_path),
        store=MemoryStore(clock=clock, probe=lambda _: None),
        rules=Rulebook(None, secret=b"s" * 32),
        sleep=clock.sleep,
    )


@pytest.mark.parametrize("kind", ["an object in itself", "a list in itself"])
def test_gate_summarises_endless_params(gate: LocalGate, kind: str) -> None:
    assert gate.intercept(LARGE[kind]()).tier == Tier.HIGH


@pytest.mark.parametrize("kind", ["content", "message", "commands"])
def test_gate_refuses_too_long_values(gate: LocalGate, kind: str) -> None:
    with pytest.raises(ConfigError, match="params"):
        gate.intercept(LARGE[kind]())


def test_many_recipients_are_accepted(gate: LocalGate) -> None:
    decision = gate.intercept(LARGE["recipients"]())
    assert decision.proceed
    assert decision.tier == Tier.HIGH
    assert gate.complete("a", id=decision.id).ok
