"""Test how long params are cut for the gate, and how often a hung gate is asked."""

from typing import Any

import pytest

from callosum.errors import GateUnavailable
from callosum.hosts.mcp.gate_client import LONG_TEXT, GateClient, shortened
from callosum.model import Call, Decision, Verdict
from callosum.sockets import HUNG_SECONDS


def test_long_texts_are_cut_at_any_depth_and_stay_distinct() -> None:
    long, other = "x" * (LONG_TEXT + 1), "x" * LONG_TEXT + "y"
    one = shortened({"path": "/a", "text": long, "parts": [{"t": long}, 7]})
    two = shortened({"path": "/a", "text": other, "parts": [{"t": other}, 7]})
    assert one["path"] == "/a"
    assert one["parts"][1] == 7
    assert one["text"] == one["parts"][0]["t"]
    assert one["text"] != two["text"]
    assert len(one["text"]) < LONG_TEXT + 100


@pytest.mark.parametrize(("said", "tier"), [(None, 3), (0, 3), (4, 4), ("4", 3), (9, 3)])
def test_cut_call_counts_as_risky(said: Any, tier: int) -> None:
    assert shortened({"_tier": said, "text": ""})["_tier"] == tier


class HungClient:
    """Return a client whose gate takes ``seconds`` to answer, and which gives up after its deadline."""

    deadline = 1.0

    def __init__(self, clock: list[float]) -> None:
        self.clock, self.seconds, self.asked = clock, 0.0, 0

    def intercept(self, call: Call) -> Decision:
        self.asked += 1
        self.clock[0] += min(self.seconds, self.deadline)
        return self.fallback(call, None) if self.seconds > self.deadline else self.decided(fallback=False)

    def fallback(self, call: Call, error: object, *, tier: int | None = None) -> Decision:
        if call.tool != "read":
            raise GateUnavailable(str(error))
        return self.decided(fallback=True)

    def decided(self, *, fallback: bool) -> Decision:
        return Decision(
            proceed=True,
            tier=0,
            context_key=None,
            id=1,
            verdict=Verdict.ALLOW,
            context_keys=(),
            rule="",
            fallback=fallback,
        )


@pytest.mark.parametrize("tool", ["read", "delete"])
def test_hung_gate_is_asked_once_in_five_seconds(tool: str) -> None:
    clock = [100.0]
    client: Any = HungClient(clock)
    gate_client = GateClient(lambda: client, lambda _: (4, "write"), lambda: clock[0])
    client.seconds = 60.0
    gate_answers = [gate_client.ask(Call("mira", tool, {}), 10) for _ in range(5)]
    assert [gate_answer.proceed for gate_answer in gate_answers] == [tool == "read"] * 5
    assert client.asked == 1
    clock[0] += HUNG_SECONDS
    client.seconds = 0.0
    assert gate_client.ask(Call("mira", tool, {}), 10).proceed
    assert client.asked == 2
    assert gate_client.ask(Call("mira", tool, {}), 10).proceed
    assert client.asked == 3, "one that answers is used again"
