"""A gate over each store: calls of different namespaces never see one another, whatever else they have in common."""

from __future__ import annotations

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


def test_one_call_in_two_namespaces_is_two(world: World) -> None:
    """Even of one session, under one id, with the same params."""
    first = world.ask("mira", "send4", ON, params=SAME, call_id="c")
    second = world.ask("mira", "send4", ON, params=SAME, call_id="c", namespace="elsewhere")
    assert (second.id != first.id, second.repeated, second.verdict) == (True, False, Verdict.ALLOW)
    again = world.ask("mira", "send4", ON, params=SAME, call_id="c", namespace="elsewhere")
    assert (again.id, again.repeated) == (second.id, True)


@pytest.mark.parametrize("tool", ["send4", "free4", "tree4"])
def test_nothing_of_another_namespace_is_in_the_way(world: World, tool: str) -> None:
    """Neither a lease nor the same content nor a tree nor a place in the line; a control in the same namespace meets it."""
    on = "/repo/" if tool == "tree4" else ON if tool == "send4" else None
    below = "/repo/a.py" if tool == "tree4" else on
    world.ask("doug", tool, on, params=SAME)
    assert world.ask("mira", tool, below, params=SAME, namespace="elsewhere", wait=5).verdict is Verdict.ALLOW
    assert kinds(world.ask("anna", tool, below, params=SAME))


def test_what_is_known_of_one_namespace_is_of_no_use_in_another(world: World) -> None:
    """Reports, renewals, releases, answers and what is shown."""
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
    shown = gate.status(namespace="elsewhere")
    assert shown.locks == shown.asked == shown.waiting == ()
    assert gate.entries(namespace="elsewhere") == []
    assert gate.resolve(opened.id, happened=False).ok, "the control: where it belongs it can be resolved"
