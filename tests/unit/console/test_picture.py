"""What the console remembers is bounded, whatever the sessions do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum.console import picture as pictures
from callosum.console.picture import Picture
from callosum.gate import LocalGate
from callosum.journal import Journal
from callosum.model import Call, Verdict
from callosum.settings import Settings

RULES = """{"rules": [
    {"name": "refund", "tool": "refund", "tier": 3, "verdict": "ask", "contextKey": "account:{params.to}"},
    {"name": "deploy", "tool": "deploy", "tier": 3, "verdict": "block", "contextKey": "env:{params.env}"}
]}"""


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[LocalGate]:
    (tmp_path / "tiers.json").write_text(RULES)
    with LocalGate(settings=Settings(state=tmp_path)) as made:
        yield made


def test_blocked_calls_without_end_push_out_no_question(gate: LocalGate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_HELD", 10)
    picture = Picture(Journal(gate.store, gate.settings.state), "default")
    asked = gate.intercept(Call("mira", "refund", {"to": "Bob"}, session="chat"))
    for number in range(30):
        gate.intercept(Call("mira", "deploy", {"env": f"e{number}"}, session="flood"))
    picture.update()
    assert len(picture.held) == 10
    assert picture.held[asked.id].verdict is Verdict.ASK
    assert sum(entry.verdict is Verdict.BLOCK for entry in picture.held.values()) == 9, "the newest of the others"


def test_texts_of_forgotten_actions_are_dropped(gate: LocalGate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST", 5)
    monkeypatch.setattr(pictures, "_NAMES", 20)
    picture = Picture(Journal(gate.store, gate.settings.state), "default")
    for number in range(100):
        gate.intercept(Call("mira", "read_file", {"path": f"/tmp/{number}"}, session="chat"))
        picture.update()
    assert len(picture.bars) == 5
    assert len(picture._names) <= 4 * 5 + 20 + 3
