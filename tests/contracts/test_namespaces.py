"""Calls of different namespaces never meet, whatever else they have in common."""

from pathlib import Path

import pytest

from callosum.model import Verdict
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript
from tests.support.world import World, kinds

ON = "plan"
SAME = {"text": "the quarterly numbers are attached, have a look before noon"}


@pytest.fixture
def world(script: StoreScript, clock: ManualClock, tmp_path: Path) -> World:
    (tmp_path / "gate").mkdir()
    return World(tmp_path / "gate", lambda *_: script.store, clock=clock)


def test_one_call_in_two_namespaces_is_two_calls(world: World) -> None:
    """That holds even for one session, one call id and the same params."""
    first = world.ask("mira", "send4", ON, params=SAME, call_id="c")
    second = world.ask("mira", "send4", ON, params=SAME, call_id="c", namespace="elsewhere")
    assert (second.id != first.id, second.repeated, second.verdict) == (True, False, Verdict.ALLOW)
    again = world.ask("mira", "send4", ON, params=SAME, call_id="c", namespace="elsewhere")
    assert (again.id, again.repeated) == (second.id, True)


@pytest.mark.parametrize("tool", ["send4", "free4", "tree4"])
def test_nothing_in_another_namespace_is_a_conflict(world: World, tool: str) -> None:
    """No lease, equal content, tree or waiter conflicts; as a control, it does in the same namespace."""
    target = "/repo/" if tool == "tree4" else ON if tool == "send4" else None
    below = "/repo/a.py" if tool == "tree4" else target
    world.ask("doug", tool, target, params=SAME)
    assert world.ask("mira", tool, below, params=SAME, namespace="elsewhere", wait=5).verdict is Verdict.ALLOW
    assert kinds(world.ask("anna", tool, below, params=SAME))


def test_operations_in_another_namespace_have_no_effect(world: World) -> None:
    """That holds for reports, renewals, releases, approvals, resolutions, status and journal."""
    opened = world.ask("doug", "act4", ON)
    asked = world.ask("doug", "asked", "other")
    gate = world.gate
    assert not gate.complete("doug", id=opened.id, namespace="elsewhere").ok
    assert not gate.complete("doug", context_key=f"doc:{ON}", namespace="elsewhere").ok
    assert not gate.renew("doug", opened.id, namespace="elsewhere").ok
    assert not gate.release("doug", f"doc:{ON}", namespace="elsewhere").ok
    assert not gate.release("", f"doc:{ON}", by="kim", force=True, namespace="elsewhere").ok
    assert not gate.approve(asked.id, namespace="elsewhere").ok
    world.after(400)
    assert not gate.resolve(opened.id, happened=False, namespace="elsewhere").ok
    status = gate.status(namespace="elsewhere")
    assert status.locks == status.asked == status.waiting == ()
    assert gate.entries(namespace="elsewhere") == []
    assert gate.resolve(opened.id, happened=False).ok, "the control: it can be resolved in its own namespace"
