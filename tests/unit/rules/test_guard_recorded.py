"""The guard on recorded traffic: it blocks only what could change Callosum's files."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum.model import Call
from callosum.rules import RuleSet

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
RULES = RuleSet.parse(protected={"/home/u/.local/state/callosum": "Callosum's state folder"})
COULD = re.compile(
    r"\b(?:rm|chmod|chown)\b(?=[^|;&]* (?:-\w*[rR]|--recursive))[^|;&]* (?:/|/home|~|~/|\$HOME|\.\.)(?![\w./-])"
    r"|\bfind\s+(?:/|/home)\s+-delete|\bfind / -name '\*\.db' -exec shred"
)
"""Removes, or changes the rights of, the root, every home or this one: the state folder lies in all of them."""


def recorded() -> Iterator[tuple[str, Call]]:
    for name in ("shell", "shell-everyday", "shell-hard"):
        for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            command = json.loads(line)["command"]
            yield command, Call("a", "Bash", {"command": command}, cwd="/home/u/project")
    for line in (DATA / "traces.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield str(row["args"]), Call("a", row["tool"], row["args"], cwd="/home/u/project")


@pytest.mark.skipif(not DATA.is_dir(), reason=f"NOT MEASURED: the recorded traffic is not at {DATA}")
def test_guard_blocks_no_recorded_call_that_could_not_change_its_files() -> None:
    blocked = [text for text, call in recorded() if RULES.classify(call).rule == "self-guard"]
    assert [one for one in blocked if not COULD.search(one)] == []
    assert len(blocked) > 50  # the recorded lines that remove everything are among them
