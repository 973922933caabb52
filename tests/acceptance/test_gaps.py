"""``callosum rules gaps`` and ``callosum rules try`` as a person runs them: on journals that a real gate has written."""

import json
from pathlib import Path
from typing import Any

import pytest

from callosum.gate import LocalGate
from callosum.journal import Journal, Rotation
from callosum.model import Call, Decision
from callosum.settings import Settings
from tests.acceptance.command import at_terminal, run
from tests.support.world import InstanceGate

MAIL = "the offer for the new roof is in the annex, please have a look at it"


def opened(state: Path, **settings: Any) -> LocalGate:
    return InstanceGate(settings=Settings(state=state, **settings))


def do(gate: LocalGate, who: str, tool: str, params: dict[str, Any], **more: Any) -> Decision:
    decision = gate.intercept(Call(who, tool, params, **more))
    if decision.proceed:
        gate.complete(who, id=decision.id)
    return decision


def make_calls(state: Path) -> None:
    """Sessions with a tool without a key, one that no rule names, keys with a date in them, and shared files."""
    state.mkdir(mode=0o700)
    rules(state / "tiers.json", {"name": "publish", "tier": 2, "tool": "publish_everything"})
    with opened(state) as gate:
        for number in range(12):
            who = f"s{number % 3}"
            do(
                gate,
                who,
                "publish_everything",
                {"campaign": f"c{number % 2}", "note": MAIL, "token": "ghp_" + "a" * 36},
            )
            do(gate, who, "update_ticket", {"ticket_id": number % 2, "status": "x"})
            do(gate, who, "generate_report", {"report_id": f"2026-05-{number + 1:02}"})
            do(gate, who, "read", {"path": f"/repo/{number % 2}.py"})
            do(gate, who, "web_search", {"query": "roofs"})


def test_gaps_are_counted_with_examples_and_advice(state: Path) -> None:
    make_calls(state)
    found = json.loads(run(state, "rules", "gaps", "--json").stdout)
    assert found["calls"] == 60
    (keyless,) = found["keyless"]
    assert (keyless["tool"], keyless["calls"], keyless["sessions"]) == ("publish_everything", 12, 3)
    assert keyless["tiers"] == {"2": 12}
    assert "ghp_" not in json.dumps(found)
    assert found["keylessCalls"] == 12
    assert {one["tool"]: one["calls"] for one in found["judged"]} == {"update_ticket": 12, "generate_report": 12}
    (family,) = found["unshared"]
    assert (family["family"], family["keys"], family["sessions"]) == ("report:*", 12, 3)

    shown = run(state, "rules", "gaps")
    assert shown.returncode == 0
    for words in ("publish_everything", "contextKey", "report:*", "leave it out of the contextKey"):
        assert words in shown.stdout


def test_suggested_rule_closes_the_gap(state: Path, tmp_path: Path) -> None:
    make_calls(state)
    (keyless,) = json.loads(run(state, "rules", "gaps", "--json").stdout)["keyless"]
    assert keyless["rule"]["contextKey"] == "campaign:{params.campaign}"
    (state / "tiers.json").write_text(json.dumps({"rules": [keyless["rule"]]}))
    assert run(state, "rules", "check").returncode == 0
    with opened(state) as gate:
        assert do(gate, "s1", "publish_everything", {"campaign": "c1"}).context_key == "campaign:c1"


def test_no_gap_and_no_journal_are_reported(state: Path) -> None:
    shown = run(state, "rules", "gaps")
    assert (shown.returncode, "No calls are recorded" in shown.stdout) == (1, True)
    assert not state.exists()
    with opened(state) as gate:
        do(gate, "mira", "read", {"path": "/a"})
    shown = run(state, "rules", "gaps")
    assert (shown.returncode, "No gaps" in shown.stdout) == (1, True)
    assert run(state, "rules", "gaps", "--since", "soon").returncode == 2


def test_text_from_sessions_is_harmless_at_a_terminal(state: Path) -> None:
    hostile = "x \x1b[2J\x07\u202e[bold]"
    with opened(state) as gate:
        do(gate, "mira", "publish_everything", {"note": hostile, "what_ever": "a\x1b"})
    shown = at_terminal(state, "rules", "gaps")
    assert shown.code == 0
    assert "publish_everything" in shown.text
    assert not {"\x07", "\u202e"} & set(shown.text)
    assert "\x1b[2J" not in shown.text


def rules(path: Path, *found: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"rules": found}))
    return path


NOTE: dict[str, Any] = {"name": "note", "tier": 3, "tool": "add_note_line", "contextKey": "note:{params.note_id}"}


def notes(state: Path, **settings: Any) -> None:
    """Two sessions add a line to each of four notes."""
    with opened(state, **settings) as gate:
        for number in range(4):
            for who in ("mira", "doug"):
                decision = do(
                    gate, who, "add_note_line", {"note_id": str(number), "text": f"{who} {MAIL} {number}"}, pause=True
                )
                assert decision.proceed == (who == "mira" or not (state / "tiers.json").exists())


@pytest.mark.parametrize("params", ["summary", "full"])
def test_a_stricter_file_pauses_calls_that_ran(state: Path, tmp_path: Path, params: str) -> None:
    notes(state, journal_params=params)
    file = rules(tmp_path / "new.json", NOTE)
    found = json.loads(run(state, "rules", "try", str(file), "--json").stdout)
    assert (found["calls"], found["shifted"], found["touched"], found["played"]) == (8, 8, 8, 8)
    assert (found["paused"], found["allowed"], found["asRecorded"]) == (4, 0, 1.0)
    (difference,) = found["differences"]
    assert (difference["what"], difference["tool"], difference["before"], difference["after"]) == (
        "paused",
        "add_note_line",
        "allow",
        "confirm",
    )
    assert difference["rules"] == ["", "note"]
    assert difference["calls"] == 4
    assert len(difference["examples"]) == 3
    assert difference["examples"][0]["session"] == "doug"
    assert {(one["what"], one["before"], one["after"]) for one in found["shifts"] if one["what"] == "tier"} == {
        ("tier", "1", "3")
    }

    shown = run(state, "rules", "try", str(file))
    assert shown.returncode == 0
    assert "What would be paused, asked for or blocked" in shown.stdout
    assert "allow -> confirm" in shown.stdout

    # and so it is, with the file in force
    (tmp_path / "then").mkdir(mode=0o700)
    rules(tmp_path / "then" / "tiers.json", NOTE)
    notes(tmp_path / "then")


def test_milder_file_passes_calls_that_were_stopped(state: Path, tmp_path: Path) -> None:
    state.mkdir(mode=0o700)
    rules(state / "tiers.json", NOTE)
    with opened(state) as gate:
        for number in range(3):
            params = {"note_id": str(number), "text": MAIL}
            assert do(gate, "mira", "add_note_line", params, pause=True).proceed
            first = do(gate, "doug", "add_note_line", {**params, "text": "nothing like it"}, pause=True)
            assert not first.proceed
            if number:  # the first pause is heeded
                assert do(gate, "doug", "add_note_line", {**params, "text": "else"}, pause=True, after=first.id).proceed
    mild = {**NOTE, "cells": {"recent": "allow", "stale": "allow"}}
    found = json.loads(run(state, "rules", "try", str(rules(tmp_path / "mild.json", mild)), "--json").stdout)
    assert (found["played"], found["paused"], found["allowed"], found["asRecorded"]) == (8, 0, 3, 1.0)
    assert {one["what"] for one in found["differences"]} == {"allowed"}
    assert {one["what"] for one in found["shifts"]} == {"treatment"}
    assert "recent=allow" in found["shifts"][0]["after"]


def test_only_calls_that_share_a_key_are_replayed(state: Path, tmp_path: Path) -> None:
    notes(state)
    with opened(state) as gate:
        for number in range(20):
            do(gate, "mira", "send_email", {"to": f"{number}@example.com", "body": MAIL})
        do(gate, "doug", "archive_note", {"note_id": "2"})
    found = json.loads(run(state, "rules", "try", str(rules(tmp_path / "new.json", NOTE)), "--json").stdout)
    assert (found["calls"], found["played"]) == (29, 9)
    assert (
        json.loads(run(state, "rules", "try", str(tmp_path / "new.json"), "--json", "--most", "3").stdout)["played"]
        == 3
    )


def test_same_rules_decide_the_same(state: Path, tmp_path: Path) -> None:
    notes(state)
    shown = run(state, "rules", "try", str(rules(tmp_path / "same.json")))
    assert (shown.returncode, "None of 8 recorded calls" in shown.stdout) == (1, True)
    assert run(state, "rules", "try", str(tmp_path / "same.json"), "--since", "0s").returncode == 1


def test_unusable_rules_files_are_refused(state: Path, tmp_path: Path) -> None:
    notes(state)
    broken = rules(tmp_path / "broken.json", {"tier": 7, "tool": "x"})
    shown = run(state, "rules", "try", str(broken))
    assert (shown.returncode, "broken.json" in shown.stderr, "rules[0].tier" in shown.stderr) == (2, True, True)
    shown = run(state, "rules", "try", str(tmp_path / "absent.json"))
    assert (shown.returncode, "absent.json" in shown.stderr) == (2, True)


def test_journal_without_params_is_reported(state: Path, tmp_path: Path) -> None:
    notes(state, journal_params="none")
    found = json.loads(run(state, "rules", "try", str(rules(tmp_path / "new.json", NOTE)), "--json").stdout)
    assert (found["calls"], found["unreadable"], found["played"]) == (8, 8, 0)


def test_relative_paths_and_rotated_entries_are_replayed_too(state: Path, tmp_path: Path) -> None:
    with opened(state) as gate:
        for who in ("mira", "doug"):
            do(gate, who, "Write", {"file_path": "notes.md", "content": who}, cwd="/repo", pause=True)
        ahead = gate.store.now() + 40 * 86_400_000_000
        Rotation(gate.store, state, age=1, size=10**12, now=lambda: ahead, batch=2).run(ahead, rounds=10)
        assert Journal(gate.store, state).segments()
    strict = {"name": "w", "tier": 3, "tool": "Write", "contextKey": "file:{params.file_path}", "verdict": "ask"}
    found = json.loads(run(state, "rules", "try", str(rules(tmp_path / "new.json", strict)), "--json").stdout)
    (difference,) = [one for one in found["differences"] if one["what"] == "paused"]
    assert difference["after"] == "ask"
    assert difference["examples"][0]["keys"]["after"] == ["file:/repo/notes.md"]
