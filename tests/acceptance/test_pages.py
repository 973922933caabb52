"""The pages of the site say what the program does: stories, quickstarts, the verdict table, the glossary, the upgrade table."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from callosum.model import Kind
from callosum.policy.table import TABLE, cell
from tests.acceptance.command import run
from website.__main__ import ROOT
from website.stories import PAGE, STORIES, blocks, filled

DOCS = ROOT / "docs"
SCREEN = 45
HOSTS = {
    "claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json",
    "openclaw": ".openclaw/openclaw.json", "mcp": ".cursor/mcp.json",
}  # fmt: skip
WORDS = (
    "session call classification tier key mode tree facet view step change action state lease token conflict kind "
    "verdict decision outcome journal entry fingerprint queue waiter approval fallback spool brief commitment summary "
    "purpose"
).split()


def test_stories_show_the_sentences_that_the_gate_says() -> None:
    page = PAGE.read_text("utf-8")
    assert page.count("<!-- story: ") == len(STORIES) == 3
    assert filled(page) == page, "run `python -m website.stories`"


@pytest.mark.parametrize("name", STORIES)
def test_last_call_of_a_story_is_stopped_and_the_calls_before_it_run(name: str) -> None:
    *earlier, last = blocks(name)
    assert all("The call runs." in block for block in earlier)
    assert "The call does not run." in last
    assert "[Callosum]" in last


@pytest.mark.parametrize("host", HOSTS)
def test_quickstart_of_a_host_is_a_screen_and_its_commands_work(host: str, tmp_path: Path) -> None:
    page = (DOCS / "start" / f"{host}.md").read_text("utf-8")
    assert len(page.splitlines()) <= SCREEN
    settings = tmp_path / HOSTS[host]
    if host == "mcp":
        settings.parent.mkdir()
        settings.write_text('{"mcpServers": {"files": {"command": "cat", "args": ["-"]}}}')
    before = settings.read_bytes() if settings.exists() else None
    script = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    lines = [line.split("#")[0].split() for line in script.splitlines()]
    commands = [[word.replace("~", str(tmp_path)) for word in line[1:]] for line in lines if line[0] == "callosum"]
    changes = [words for words in commands if words[0] in {"install", "uninstall"}]
    assert [words[0] for words in changes] == ["install", "uninstall"]
    for words in changes:
        done = run(tmp_path / "state", *words, "--yes", env={"HOME": str(tmp_path)})
        assert done.returncode == 0, done.stderr
        if words[0] == "install":
            assert "callosum" in settings.read_text("utf-8")
            status = run(tmp_path / "state", "status", env={"HOME": str(tmp_path)})
            assert status.returncode == 0, status.stderr
    assert (settings.read_bytes() if settings.exists() else None) == before


def test_first_gate_runs_as_the_page_says(tmp_path: Path) -> None:
    page = (DOCS / "first-gate.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)

    def ran(text: str) -> str:
        (tmp_path / "mail.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "mail.py"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        return done.stdout + done.stderr

    said = ran(program)
    assert said.count("sent to alice@example.com") == 1
    assert "The call was not run." in said
    journal = run(tmp_path / "state", "journal")
    assert "mira/heartbeat" in journal.stdout
    assert "confirm" in journal.stdout


def test_table_of_verdicts_is_that_of_the_policy() -> None:
    page = (DOCS / "concepts.md").read_text("utf-8")
    kinds = ("held", "recent", "duplicate", "stale", "opposed", "unknown")
    assert f"| | {' | '.join(kinds)} |" in page
    for tier in range(len(TABLE)):
        assert f"| tier {tier} | {' | '.join(cell(tier, Kind(kind)).value for kind in kinds)} |" in page


def test_every_glossary_word_is_defined() -> None:
    rows = [line.split("|")[1] for line in (DOCS / "glossary.md").read_text("utf-8").splitlines() if line[:4] == "| **"]
    defined = {word for row in rows for word in re.findall(r"\*\*([^*]+)\*\*", row)}
    assert set(WORDS) | {"read mark", "notified mark"} <= defined
    assert len(rows) == len(set(rows)), "a word is defined once"


def test_upgrade_policy_names_tests_that_exist() -> None:
    page = (DOCS / "howto" / "upgrade.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith(("| a ", "| two "))]
    assert len(rows) == 5
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row)
        assert named, row
        for test in named:
            assert (ROOT / test).exists(), test


def test_commands_of_the_guides_exist() -> None:
    pages = [*DOCS.glob("howto/*.md"), *DOCS.glob("start/*.md"), DOCS / "troubleshooting.md", DOCS / "first-gate.md"]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    used = set(re.findall(r"(?:^|`)\s*callosum ((?:rules |store |token )?[a-z]+)\b", text, re.MULTILINE))
    from website.reference import command_page  # noqa: PLC0415 - slow, and for this test alone

    known = command_page()
    assert len(used) > 15
    for command in used:
        assert f"`callosum {command}`" in known, command
