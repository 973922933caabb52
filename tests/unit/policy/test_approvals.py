"""Approvals: they hold for the content that was shown, once, for an hour, until a newer conflict (PROTOCOL 5)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callosum.model import Event, Verdict
from tests.support.world import World

ALLOW, WARN, CONFIRM, ASK, BLOCK = Verdict
ON = "plan"
ONE = {"text": "the quarterly numbers are attached, have a look before noon"}
TWO = {"text": "lunch has moved to the garden because the kitchen is being painted"}


def test_asking_twice_is_one_question(world: World) -> None:
    first = world.ask("mira", "asked", ON, params=ONE)
    world.after(5)
    second = world.ask("mira", "asked", ON, params=ONE)
    assert (second.verdict, second.id) == (ASK, first.id)
    assert len(world.gate.status().asked) == 1


@pytest.mark.parametrize(("again", "runs_with"), [(TWO, ({"on": ON, **ONE},)), (ONE, (None, {"on": ON, **ONE}))])
def test_a_repeat_runs_with_the_approved_params(
    world: World, again: dict[str, str], runs_with: tuple[Any, ...]
) -> None:
    asked = world.ask("mira", "asked", ON, params=ONE, rewrite=True)
    world.gate.approve(asked.id)
    world.after(5)
    runs = world.ask("mira", "asked", ON, params=again, rewrite=True)
    assert runs.proceed
    assert runs.params in runs_with
    question, act = (world.store.action("default", id) for id in (asked.id, runs.id))
    assert question is not None
    assert act is not None
    assert act.content == question.content  # others are notified of the params that ran
    world.after(5)
    assert world.ask("mira", "asked", ON, params=again, rewrite=True).verdict is ASK  # once


def test_a_repeat_of_a_reworded_call_does_not_run_with_its_own_params(world: World) -> None:
    asked = world.ask("mira", "asked", ON, params=ONE, rewrite=True)
    world.gate.approve(asked.id)
    world.after(5)
    runs = world.ask("mira", "asked", ON, params=TWO, rewrite=True, call_id="lost", dispatch="d")
    assert runs.params == {"on": ON, **ONE}
    again = world.ask("mira", "asked", ON, params=TWO, rewrite=True, call_id="lost", dispatch="d")
    assert (again.id, again.repeated, again.proceed, again.lease) == (runs.id, True, False, None)
    assert "no longer known" in (again.warning or "")
    assert world.end("mira", runs).ok


def test_params_that_were_not_kept_are_not_reworded(world: World) -> None:
    asked = world.ask("mira", "asked", ON, params=ONE)
    world.gate.approve(asked.id)
    world.after(5)
    assert world.ask("mira", "asked", ON, params=TWO, rewrite=True).verdict is ASK
    assert world.ask("mira", "asked", ON, params=ONE, rewrite=True).proceed


def test_overridden_block_counts_only_for_the_content_that_was_shown(world: World) -> None:
    world.do("doug", "send2", ON)
    world.after(5)
    blocked = world.ask("mira", "send4", ON, params=ONE, rewrite=True)
    assert world.gate.approve(blocked.id).ok
    world.after(5)
    assert world.ask("mira", "send4", ON, params=TWO, rewrite=True).verdict is BLOCK
    runs = world.ask("mira", "send4", ON, params=ONE, rewrite=True)
    assert (runs.proceed, runs.params) == (True, None)


def test_unanswered_question_expires(world: World) -> None:
    asked = world.ask("mira", "asked", ON, params=ONE)
    world.after(3700)
    report = world.gate.approve(asked.id)
    assert not report.ok
    assert "nobody answered" in (report.note or "")
    again = world.ask("mira", "asked", ON, params=ONE)
    assert (again.verdict, again.id != asked.id) == (ASK, True)
    notes = [str(entry.body.get("note", "")) for entry in world.gate.entries() if entry.event is Event.LAPSE]
    assert notes == ["nobody answered"]
    assert "denied" not in (again.warning or "") + "".join(notes)


def test_calls_that_cannot_be_approved(world: World) -> None:
    ran = world.do("mira", "send2", ON)
    assert not world.gate.approve(ran.id).ok
    assert not world.gate.deny(ran.id).ok
    assert not world.gate.approve(4711).ok
    asked = world.ask("mira", "asked", "other")
    assert world.gate.approve(asked.id).ok
    assert not world.gate.approve(asked.id).ok
    assert not world.gate.approve(asked.id, namespace="elsewhere").ok


def test_journal_names_who_answered(world: World) -> None:
    asked = world.ask("mira", "asked", ON)
    world.gate.approve(asked.id, by="kim", channel="terminal")
    entry = world.gate.entries()[-1]
    assert (entry.event, entry.action) == (Event.APPROVE, asked.id)
    assert (entry.body["by"], entry.body["channel"]) == ("kim", "terminal")


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda rules: rules, ALLOW),
        (lambda rules: [{**rule, "verdict": "block"} if rule["tool"] == "asked" else rule for rule in rules], BLOCK),
        (lambda rules: [{"name": "newer", **next(rule for rule in rules if rule["tool"] == "asked")}, *rules], ASK),
    ],
    ids=["the same rules", "a graver verdict", "another rule"],
)
@pytest.mark.parametrize("world", ["memory", "sqlite"], indirect=True)
def test_an_approval_holds_for_the_rules_it_was_given_under(
    world: World, tmp_path: Path, change: Callable[[Any], Any], verdict: Verdict
) -> None:
    """PROTOCOL 11.11: under other rules the call is asked anew."""
    asked = world.ask("mira", "asked", ON, params=ONE)
    assert world.gate.approve(asked.id).ok
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"rules": change(json.loads(file.read_text())["rules"])}))
    world.gate.rules.reload()
    again = world.ask("mira", "asked", ON, params=ONE)
    assert again.verdict is verdict
    if not again.proceed:
        assert again.id != asked.id
        assert world.gate.approve(again.id).ok
        assert world.ask("mira", "asked", ON, params=ONE).proceed
