"""What the gate ensures independently of the policy: what is synced, what is kept, which operations only read."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from callosum import wire
from callosum.gate.operations import Read
from callosum.model import Scope
from callosum.wire import LateCall
from tests.support.world import World

ON = "plan"
SECRETS = {"password": "hunter2", "text": "the token is ghp_0123456789abcdefghij0123456789abcdef"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def asked_of_the_store(effects: Generator[Any, Any, Any]) -> Scope:
    """Return the scope of the first transaction that a method of the gate requests."""
    need = effects.send(None)
    while isinstance(need, Read):
        need = effects.send(need.read())
    effects.close()
    scope, _ = need
    assert isinstance(scope, Scope)
    return scope


@pytest.mark.parametrize(("tier", "durable"), [(0, False), (1, False), (2, False), (3, True), (4, True)])
def test_decisions_of_high_tiers_are_to_be_synced(world: World, tier: int, durable: bool) -> None:
    assert asked_of_the_store(world.gate.operations.intercept(world.call("mira", f"act{tier}", ON))).durable is durable


def test_locks_and_renewals_are_to_be_synced_and_reports_are_not(world: World) -> None:
    """A power cut may lose a report. The lease then runs out, and its call is unknown."""
    opened = world.ask("mira", "act3", ON)
    operations = world.gate.operations
    assert asked_of_the_store(operations.lock(wire.Lock(instance="mira", context_key="k:1"))).durable
    assert asked_of_the_store(operations.renew(wire.Renew(instance="mira", id=opened.id))).durable
    assert not asked_of_the_store(operations.complete(wire.Complete(instance="mira", id=opened.id))).durable


def test_no_secret_of_a_result_or_of_a_late_call_is_journalled(world: World) -> None:
    opened = world.ask("mira", "act3", ON)
    assert world.gate.complete("mira", id=opened.id, result=SECRETS).ok
    call = world.call("mira", "act2", ON, params=SECRETS)
    world.gate._drive(world.gate.operations.take_in(LateCall(call=call, v=2)))
    world.gate._drive(world.gate.operations.heard("mira", "SessionStart", SECRETS))
    _, report, late, _, heard = world.gate.entries()
    assert report.body["result"]["password"] == late.body["params"]["password"] == "[redacted]"
    for entry in (report, late, heard):
        written = str(entry.body)
        assert "the token is" in written
        assert "hunter2" not in written
        assert "ghp_" not in written


@pytest.mark.parametrize("tool", ["act0", "act2", "act4", "asked"])
def test_explain_records_nothing(world: World, tool: str) -> None:
    """It leaves no action, mark or journal entry: the call is then decided as if ``explain`` had not been called."""
    world.do("doug", "send2", ON)
    world.after(5)
    before = world.gate.entries()
    _, shown = world.gate.explain(world.call("mira", tool, ON, call_id="c", wait=5))
    assert (shown.id, shown.lease) == (0, None)
    assert world.gate.entries() == before
    assert world.gate.status().locks == world.gate.status().asked == ()
    decision = world.ask("mira", tool, ON, call_id="c")
    assert (decision.verdict, decision.conflicts, decision.repeated) == (shown.verdict, shown.conflicts, False)
