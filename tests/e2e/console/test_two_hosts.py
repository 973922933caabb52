"""Claude Code and Codex act below one gate, a person answers in Chromium, and the model reads the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from callosum.sockets import socket_path
from tests.e2e.claude_code.conftest import ClaudeMachine, bash
from tests.e2e.codex.conftest import NATIVE, CodexHome
from tests.e2e.console.conftest import CHROMIUM, opened
from tests.e2e.hosts import installed, program_in
from tests.e2e.models import Model, ToolUse, Turn, model
from tests.support.serving import Server, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CHROMIUM is None, reason="the console is NOT looked at: Chromium is not installed"),
]
WORD = "the docs stay, ask Mira first"


def delete(repository: str) -> str:
    return f"gh repo delete acme/{repository} --yes"


class House(NamedTuple):
    """Both hosts, below one gate, in one project, and what was deleted."""

    claude: ClaudeMachine
    codex: CodexHome
    model: Model
    deleted: Path

    @property
    def server(self) -> Server:
        state = self.codex.state
        return Server(None, state, f"unix:{socket_path(state)}", state)  # type: ignore[arg-type]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    claude_program = str(program_in(installed("claude_code"), "@anthropic-ai/claude-code-*/claude"))
    codex_program = program_in(installed("codex"), NATIVE)
    with ExitStack() as stack:
        scripted = stack.enter_context(model())
        codex = CodexHome(tmp_path / "codex", codex_program, scripted, "scripted")
        stack.callback(codex.close)
        (tmp_path / "claude").mkdir()
        claude = ClaudeMachine(tmp_path / "claude", claude_program, scripted)
        claude.state, claude.project = codex.state, codex.project
        claude.callosum("install", "claude-code", "--yes")
        codex.gated()
        deleted = tmp_path / "deleted"
        codex.tools.mkdir(exist_ok=True)
        for folder in (claude.bin, codex.tools):
            program = folder / "gh"
            program.write_text(f"#!/bin/sh\necho $* >> {deleted}\n")
            program.chmod(0o755)
        (codex.home / ".profile").write_text(f'PATH="{codex.tools}:$PATH"\n')
        yield House(claude, codex, scripted, deleted)


def test_a_person_lets_one_hosts_call_pass_and_refuses_another_with_a_word(house: House, browser: Browser) -> None:
    approved, refused, over = threading.Event(), threading.Event(), threading.Event()
    first = house.model.script("first", [bash(delete("site"))], [bash(delete("docs"))], Turn([bash("ls")], after=over))
    claude = house.claude.start(first)
    house.model.wait("first", 2)
    assert house.deleted.read_text().splitlines() == [delete(name).removeprefix("gh ") for name in ("site", "docs")]
    site, docs = (ToolUse("exec_command", {"cmd": delete(name)}) for name in ("site", "docs"))
    second = house.model.script("second", [site], Turn([site], after=approved), [docs], Turn([docs], after=refused))
    codex = house.codex.begin(second)
    try:
        house.model.wait("second", 1)
        assert "Tier 4 action blocked" in house.model.heard("second")
        with opened(house.server, browser) as (page, visitor):
            card = page.locator(".card", has_text="acme/site")
            card.wait_for()
            assert "codex" in card.locator("h2").inner_text()
            assert "claude-code" in card.locator(".met").inner_text(), "the other host is named as in the way"
            card.get_by_role("button", name="Let it run once").click()
            code = until(lambda: next((line.split()[0] for line in visitor.lines if line[:6].isdecimal()), ""))
            page.get_by_label("Code that the terminal shows").fill(code)
            page.get_by_role("button", name="Let it run once: yes, do it").click()
            page.get_by_role("heading", name="Waiting", exact=True).wait_for()
            approved.set()
            house.model.wait("second", 3)
            assert len(house.deleted.read_text().splitlines()) == 3, "the call that was let through has run"

            card = page.locator(".card", has_text="acme/docs")
            card.wait_for()  # by the event stream: the page was not loaded again
            card.get_by_label("Note to the agent").fill(WORD)
            card.get_by_role("button", name="Refuse").click()
            page.get_by_role("heading", name="Waiting", exact=True).wait_for()
            assert page.locator(".card", has_text="acme/docs").count() == 0
            refused.set()
            codex.end()
            assert WORD in house.model.heard("second"), "the model reads the word"
            assert len(house.deleted.read_text().splitlines()) == 3

            page.get_by_role("link", name="Sessions").click()
            text = page.locator("#sessions").inner_text()
            assert "Sharing the worktree" in text
            assert {name for name in ("claude-code", "codex") if f"{name}/" in text} == {"claude-code", "codex"}
            page.get_by_role("link", name="Lanes").click()
            assert page.locator(".lanes .row").count() == 2
            assert page.locator(".lanes .tie").count() >= 1, "a line shows where the two met"
    finally:
        for event in (approved, refused, over):
            event.set()
    house.claude.finish(claude)
