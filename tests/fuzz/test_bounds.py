"""Bounds on what an agent can send: a megabyte of anything, ten megabytes, a hundred thousand recipients.

Times are in rounds of a fixed piece of work that is timed just before, both in CPU time of this process, and
the best of a few tries counts: a slow or busy machine is slow at both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from bench.quality.speed import huge
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.model import Call, Tier
from callosum.rulebook import Rulebook
from callosum.rules import RuleSet
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock
from fuzz.attempt import _round

RULES: Final = RuleSet.parse(secret=b"secret", protected=("/home/u/.state",))
MEGABYTE: Final = 70
"""Rounds for a megabyte: a round is some 3 ms, so this is twice the 100 ms that the benchmark holds on a quiet core."""
TEN: Final = 200
"""Rounds for ten megabytes by an embedding host, which no limit of the wire protects."""
M: Final = 10_000_000


@cache
def _large() -> dict[str, Call]:
    ring: dict[str, Any] = {"id": 1}
    ring["params"] = ring["data"] = ring["input"] = ring
    loop: list[Any] = ["a@x.org"]
    loop.append(loop)
    recipients = [f"a{at}@example.com" for at in range(100_000)]

    def bash(command: str) -> Call:
        return Call("a", "Bash", {"command": command}, cwd="/w")

    return {
        "content": Call("a", "write", {"path": "/a", "content": "x" * M}),
        "message": Call("a", "send_email", {"to": "a@x.org", "body": "word " * (M // 5)}),
        "broken Unicode": Call("a", "send_email", {"to": "a@x.org", "body": "\ud800" * M}),
        "path": Call("a", "write_file", {"path": "/../a" * (M // 5)}),
        "SQL": Call("a", "run_sql", {"sql": "select 'x' /* " * (M // 14)}),
        "patch": Call("a", "apply_patch", {"input": "*** Update File: a\n" * (M // 19)}),
        "commands": bash("rm a && " * (M // 8)),
        "junk": bash("".join(map(chr, range(1000))) * (M // 1000)),
        "recipients": Call("a", "send_email", {"to": recipients, "body": "x"}),
        "recipients in a text": Call("a", "send_email", {"to": ", ".join(recipients), "body": "x"}),
        "nested substitutions": bash("$(" * 10_000 + "rm -rf /" + ")" * 10_000),
        "nested subshells": bash("( " * 10_000 + "rm -rf /" + " )" * 10_000),
        "nested shells": bash("sh -c '" * 10_000 + "rm -rf /"),
        "nested documents": bash("cat <<A $(\n" * 10_000),
        "nested quotes": bash("`\"'" * 10_000),
        "an object in itself": Call("a", "send_email", {"to": ring, "body": ring}),
        "a list in itself": Call("a", "send_email", {"to": loop, "cc": loop}),
    }


def rounds(work: Callable[[], object], most: float) -> float:
    """How long some work takes, in rounds; tried again while it is more than ``most``."""
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
    RULES.classify(Call("a", "Bash", {"command": "ls | wc -l"}))  # loads what judges commands
    assert rounds(lambda: RULES.classify(call), MEGABYTE) <= MEGABYTE


@pytest.mark.parametrize("kind", _large())
def test_ten_megabytes_take_bounded_time(kind: str) -> None:
    call = _large()[kind]
    RULES.classify(Call("a", "Bash", {"command": "ls | wc -l"}))
    assert rounds(lambda: RULES.classify(call), TEN) <= TEN


@pytest.mark.parametrize("kind", [name for name in _large() if name.startswith(("nested", "junk", "commands"))])
def test_what_is_not_read_to_its_end_is_no_look(kind: str) -> None:
    seen = RULES.classify(_large()[kind])
    assert (seen.effect, seen.tier >= Tier.HIGH) == ("write", True), seen


@pytest.fixture
def gate(tmp_path: Path) -> LocalGate:
    clock = ManualClock()
    return LocalGate(
        settings=Settings(state=tmp_path),
        store=MemoryStore(clock=clock, probe=lambda _: None),
        rules=Rulebook(None, secret=b"s" * 32),
        sleep=clock.sleep,
    )


@pytest.mark.parametrize("kind", ["content", "message", "commands", "an object in itself", "a list in itself"])
def test_the_gate_refuses_what_is_too_long_or_without_end(gate: LocalGate, kind: str) -> None:
    with pytest.raises(ConfigError, match="params"):
        gate.intercept(_large()[kind])


def test_many_recipients_are_taken(gate: LocalGate) -> None:
    decision = gate.intercept(_large()["recipients"])
    assert decision.proceed
    assert decision.tier == Tier.HIGH
    assert gate.complete("a", id=decision.id).ok
