"""``callosum rules suggest`` as a person runs it, on a journal written by a real gate."""

import json
from pathlib import Path

import pytest

from callosum.gate import LocalGate
from callosum.journal import Journal, Rotation
from callosum.model import Call, Decision
from tests.acceptance.command import at_terminal, run

WORDS = (
    "the invoice for march was paid yesterday evening", "please bring two extra chairs into the small room",
    "our flight leaves at noon from the northern terminal", "nobody has seen the blue folder since last autumn",
    "soup and bread are served on the terrace tonight", "his violin needs new strings before the concert",
)  # fmt: skip


def reply(gate: LocalGate, who: str, target: str, number: int, text: str, after: int | None = None) -> Decision:
    params = {"action": "send", "target": target, "replyTo": f"m{number}", "message": text}
    return gate.intercept(Call(who, "message", params, session="chat", pause=True, after=after))


def make_conflicts(state: Path, prefix: str = "", target: str = "andy", count: int = 6) -> list[str]:
    """Make two sessions conflict in ``count`` threads, one confirming each time; return its first decision."""
    told = []
    with LocalGate(state) as gate:
        for number in range(count):
            first = reply(gate, f"{prefix}doug", target, number, WORDS[number])
            gate.complete(f"{prefix}doug", id=first.id, session="chat")
            mine = reply(gate, f"{prefix}mira", target, number, WORDS[number - 3])
            told.append(mine.verdict.value)
            if not mine.proceed:
                mine = reply(gate, f"{prefix}mira", target, number, WORDS[number - 3], after=mine.id)
            assert mine.proceed
            gate.complete(f"{prefix}mira", id=mine.id, session="chat")
    return told


def files(state: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in state.iterdir() if path.name.endswith(".json")}


def test_proposed_rule_stops_the_pauses_once_it_is_in_the_rules_file(state: Path, tmp_path: Path) -> None:
    assert make_conflicts(state) == ["confirm"] * 6
    before = files(state)
    shown = run(state, "rules", "suggest")
    assert shown.returncode == 0, shown
    assert '1. recent on "thread:*" by message (rule thread-reply)' in shown.stdout
    assert "All 6 pauses of message for recent" in shown.stdout
    assert "Nothing was changed." in shown.stdout
    assert str(state / "tiers.json") in shown.stdout
    assert files(state) == before

    found = json.loads(run(state, "rules", "suggest", "--json").stdout)
    assert found["changed"] is False
    (rule,) = found["rules"]
    assert rule["cells"] == {"recent": "allow"}
    text = json.dumps(rule, indent=2)
    assert all(line.strip() in shown.stdout for line in text.splitlines())  # the output is the text to paste
    assert found["suggestions"][0]["evidence"]["confirmed"] == 6

    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    (other / "tiers.json").write_text(json.dumps({"rules": found["rules"]}))
    assert run(other, "rules", "check").returncode == 0
    assert make_conflicts(other) == ["allow"] * 6
    assert make_conflicts(tmp_path / "without") == ["confirm"] * 6  # as it is without the proposal

    # and where it was pasted into the very folder, it is not proposed once more
    (state / "tiers.json").write_text(json.dumps({"rules": found["rules"]}))
    again = run(state, "rules", "suggest")
    assert (again.returncode, again.stdout) == (1, "Nothing to propose.\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--min", "7"], 1), (["--min", "6"], 0), (["--since", "0s"], 1), (["--since", "1h"], 0),
        (["--namespace", "elsewhere"], 1), (["--namespace", "default"], 0), (["--since", "soon"], 2),
        (["--min", "1"], 2),
    ],
)  # fmt: skip
def test_options_change_the_proposals(state: Path, words: list[str], code: int) -> None:
    make_conflicts(state)
    shown = run(state, "rules", "suggest", *words)
    assert shown.returncode == code, shown
    as_json = run(state, "rules", "suggest", "--json", *words)
    assert as_json.returncode == code
    if code < 2:
        assert bool(json.loads(as_json.stdout)["suggestions"]) is not bool(code)


def test_suggest_without_a_store_creates_nothing(state: Path) -> None:
    shown = run(state, "rules", "suggest")
    assert (shown.returncode, shown.stdout) == (1, "Nothing to propose.\n")
    assert json.loads(run(state, "rules", "suggest", "--json").stdout)["suggestions"] == []
    assert not state.exists()


def test_text_from_sessions_is_harmless_at_a_terminal(state: Path) -> None:
    hostile = 'andy [bold red]x[/] \x1b[2J\x07\u202e\u009b31m "], "tier": 0'
    make_conflicts(state, target=hostile)
    shown = at_terminal(state, "rules", "suggest")
    assert shown.code == 0
    assert "All 6 pauses" in shown.text
    assert not {"\x07", "\u202e", "\u009b", "\x1b[2J"} & {
        shown.text[at : at + n] for at in range(len(shown.text)) for n in (1, 4)
    }
    (rule,) = json.loads(run(state, "rules", "suggest", "--json").stdout)["rules"]
    assert rule["tier"] == 3
    assert "target" not in rule["params"]  # what cannot be seen is not named in a rule


def test_rotated_entries_count_too(state: Path) -> None:
    make_conflicts(state)
    assert len(run(state, "rules", "suggest").stdout) > 0
    with LocalGate(state) as gate:
        ahead = gate.store.now() + 40 * 86_400_000_000
        Rotation(gate.store, state, age=1, size=10**12, now=lambda: ahead, batch=5).run(ahead, rounds=100)
        assert Journal(gate.store, state).segments()
        assert len(gate.entries()) < 20
    assert run(state, "rules", "suggest").returncode == 0
