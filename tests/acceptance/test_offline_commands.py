"""Test shell commands while no gate answers: the hook classifies the line, so that a shell-only host can read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from callosum.hosts.offline import main; sys.exit(main(sys.argv[1:]))"
ROOT = str(Path(__file__).parents[2])
HUNG = "28"
"""Exit code of curl if the listening process does not answer."""


def hook_output(state: Path, host: str, command: object, tool: str = "Bash") -> str:
    """Return the hook's output for a command, started as the script starts it."""
    before = "BeforeTool" if host == "gemini" else "PreToolUse"
    payload = {
        "hook_event_name": before, "session_id": "A", "cwd": "/srv/shop", "tool_name": tool, "tool_use_id": "a1",
        "tool_input": {"command": command},
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", CODE, ROOT, host, str(state), "", f"/hooks/{host}?pid=1", HUNG],
        input=json.dumps(payload), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a state folder as a gate leaves it. By the table, a shell can do anything."""
    (tmp_path / "fallback.json").write_text('{"tools": {"Bash": 4, "run_shell_command": 4, "Read": 0}}')
    return tmp_path


@pytest.mark.parametrize(
    ("host", "tool"), [("codex", "Bash"), ("claude-code", "Bash"), ("gemini", "run_shell_command")]
)
def test_reads_continue_and_a_mail_is_blocked(state: Path, host: str, tool: str) -> None:
    for command in ("cat notes.txt", "git status && ls -la", "grep -rn TODO src"):
        assert hook_output(state, host, command, tool) == ""
    for command in (
        "himalaya message send 'To: bob@example.com'", "git push --force", "cat notes.txt; sudo reboot",
        "echo x > notes.txt",
    ):  # fmt: skip
        assert "The gate is unreachable" in hook_output(state, host, command, tool)
    spooled = [json.loads(line) for line in (state / "late.jsonl").read_text().splitlines() if line]
    noted = [one for one in spooled if one["kind"] == "call"]
    assert {one["kind"] for one in spooled} == {"call", "cancel"}, "what was refused was given up"
    assert [one["call"]["params"]["command"] for one in noted][::2] == ["cat notes.txt", "grep -rn TODO src"]


def test_unclassifiable_command_does_not_run(state: Path) -> None:
    for command in ("bash", "python", "cat | sh", ["ls"], None):
        assert "The gate is unreachable" in hook_output(state, "codex", command), "nobody sees what is typed later"
    assert hook_output(state, "codex", "ls") == ""
    (state / "tiers.json").write_text("{")
    assert "The gate is unreachable" in hook_output(state, "codex", "ls"), "the user's own rules cannot be read"


def test_users_rules_apply(state: Path) -> None:
    (state / "tiers.json").write_text(json.dumps({"rules": [{"tool": "Bash", "tier": 3}]}))
    assert "The gate is unreachable" in hook_output(state, "codex", "ls")


def test_calls_decided_by_the_table_load_little(state: Path) -> None:
    payload = {
        "hook_event_name": "PreToolUse", "session_id": "A", "cwd": "/srv/shop", "tool_name": "Read",
        "tool_use_id": "a1", "tool_input": {"file_path": "/srv/shop/notes.txt"},
    }  # fmt: skip
    told = CODE.replace("sys.exit(main(sys.argv[1:]))", "main(sys.argv[1:]); print(*sys.modules)")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", told, ROOT, "codex", str(state), "", "/hooks/codex?pid=1", HUNG],
        input=json.dumps(payload), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert "callosum.spool" in loaded, "it was noted"
    assert not loaded & {"logging", "typing", "subprocess", "msgspec", "pathlib", "asyncio", "callosum.model"}
