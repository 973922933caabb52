"""Test that a real Codex CLI emits every corpus event that the docs name."""

from collections.abc import Callable

import pytest

from tests.e2e.codex.conftest import CodexHome
from tests.e2e.home import until
from tests.e2e.models import Model, ToolUse
from tests.e2e.told import claimed, come, logged_events

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def run(command: str, **more: object) -> ToolUse:
    return ToolUse("exec_command", {"cmd": command, **more})


PATCH = "*** Begin Patch\n*** Update File: nowhere.txt\n@@\n-one\n+two\n*** End Patch\n"


def test_every_event_that_the_docs_name_comes_out_of_real_sessions(
    make_home: Callable[..., CodexHome], scripted: Model
) -> None:
    home = make_home("gpt-5.5")
    home.gated()
    scripted.script("kid", [run("echo inner")])
    spawn = ToolUse("multi_agent_v1.spawn_agent", {"message": "Do [[kid]]."})
    home.run(scripted.script("calls", [run("echo a")], [ToolUse("apply_patch", {}, PATCH)], [spawn], [run("sleep 2")]))
    scripted.script("late", [run("sleep 60", yield_time_ms=60_000)])
    home.run(scripted.script("leaves", [ToolUse("multi_agent_v1.spawn_agent", {"message": "Do [[late]]."})]))
    scripted.failing = 9
    failed = home.begin(scripted.script("fails", [run("echo a")]))
    failed.process.communicate()
    scripted.failing = 0
    settings = home.config.read_text()
    home.config.write_text(f"model_auto_compact_token_limit = 100000\n{settings}")
    scripted.sizes["full"] = 240_000
    full = home.begin(scripted.script("full", [run("echo a")]))
    until(lambda: logged_events(home.state, "context.trimmed"), "a compaction is told")
    full.process.kill()
    full.process.communicate()

    wanted = {name for name, cell in claimed("Codex CLI").items() if cell.split()[0] in ("hook", "transcript")}
    come(home.state, wanted)
    for name, cell in claimed("Codex CLI").items():
        if cell.startswith("no"):
            assert logged_events(home.state, name) == [], name
    low = logged_events(home.state, "resource.low.context")
    assert {"used": 240_000, "max": 258_400}.items() <= low[0][1].items(), "the window is the one that Codex names"
