"""The settings for command lines and addresses apply wherever a call is classified."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum.gate import LocalGate
from callosum.model import Call
from callosum.rulebook import Rulebook
from callosum.settings import Settings, load
from tests.acceptance.command import run
from tests.support.serving import serving

SET = """
[shell]
inside = 3
push_protected = 4
protected = ["blessed"]
[keys]
fold_plus_tags = true
"""
REMOVES: dict[str, Any] = {"command": "rm -rf build"}
PUSHES: dict[str, Any] = {"command": "git push origin blessed"}
MAIL: dict[str, Any] = {"to": "Alice+news@Example.com", "subject": "Hi", "body": "The report of this week is ready."}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "callosum.toml").write_text(SET)
    return tmp_path / "callosum.toml"


@pytest.fixture
def gate(config: Path, tmp_path: Path) -> Iterator[LocalGate]:
    with LocalGate(settings=load({"config": config, "state": tmp_path / "state"}, {})) as gate:
        yield gate


def classifications(gate: LocalGate) -> list[Any]:
    found = [gate.explain(Call("mira", "Bash", params, cwd="/w"))[0].tier for params in (REMOVES, PUSHES)]
    return [*found, gate.explain(Call("mira", "send_email", MAIL))[0].keys[0].name]


EXPECTED = [3, 4, "email:alice@example.com"]


def test_embedded_gate_uses_the_settings(gate: LocalGate, tmp_path: Path) -> None:
    assert classifications(gate) == EXPECTED
    with LocalGate(settings=Settings(state=tmp_path / "other")) as plain:
        assert classifications(plain) == [1, 2, "email:alice+news@example.com"]


def test_two_spellings_of_one_mailbox_are_one_key(gate: LocalGate) -> None:
    first = gate.intercept(Call("mira", "send_email", MAIL))
    assert gate.complete("mira", id=first.id).ok
    other = gate.intercept(Call("doug", "send_email", {**MAIL, "to": "alice@example.com"}, pause=True))
    assert not other.proceed


def test_settings_stay_when_the_rules_file_is_read_again(gate: LocalGate) -> None:
    rules = gate.rules
    assert rules.path is not None
    rules.path.write_text(json.dumps({"rules": [{"tier": 1, "tool": "nothing_else"}]}))
    assert rules.reload()
    assert len(rules.current().rules) > 1
    assert classifications(gate) == EXPECTED
    rules.path.write_text("{")
    assert not rules.reload()
    assert classifications(gate) == EXPECTED


def test_server_uses_the_settings(config: Path, tmp_path: Path) -> None:
    environ = {"CALLOSUM_CONFIG": str(config)}
    with serving(tmp_path / "served", environ=environ) as server:
        for params, tier in ((REMOVES, 3), (PUSHES, 4)):
            call = {"instance": "mira", "tool": "Bash", "params": params, "cwd": "/w"}
            assert server.ask("POST", "/intercept", call).body["tier"] == tier
        mailed = server.ask("POST", "/intercept", {"instance": "mira", "tool": "send_email", "params": MAIL}).body
        assert mailed["contextKey"] == "email:alice@example.com"


def test_commands_use_the_settings(config: Path, tmp_path: Path) -> None:
    state = tmp_path / "told"
    asked = ("explain", "Bash", json.dumps(REMOVES), "--cwd", "/w", "--json", "--config", str(config))
    shown = run(state, *asked)
    assert json.loads(shown.stdout)["tier"] == 3, shown
    shown = run(state, "explain", "send_email", json.dumps(MAIL), "--json", "--config", str(config))
    assert json.loads(shown.stdout)["keys"][0]["key"] == "email:alice@example.com", shown


def test_guard_protects_the_configured_port() -> None:
    asks = {"command": "curl -X POST localhost:8123/approvals/1"}
    usual = {"command": "curl -X POST localhost:7700/approvals/1"}

    def rules(said: tuple[str, ...], port: int) -> list[str]:
        book = Rulebook.of(Settings(state=Path("/nowhere"), server_port=port))
        return [book.current().classify(Call("a", "Bash", {"command": one})).rule for one in said]

    both = (asks["command"], usual["command"])
    assert [one == "self-guard" for one in rules(both, 8123)] == [True, False]
    assert [one == "self-guard" for one in rules(both, 0)] == [False, True]
