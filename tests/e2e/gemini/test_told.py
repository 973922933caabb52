"""Test that a real Gemini CLI emits every corpus event that the docs name."""

import pytest

from tests.e2e.gemini.conftest import GeminiHome
from tests.e2e.models import Model, ToolUse
from tests.e2e.told import claimed, come, logged_events

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def shell(command: str, **more: object) -> ToolUse:
    return ToolUse("run_shell_command", {"command": command, "description": "work", **more})


def test_every_event_that_the_docs_name_comes_out_of_real_sessions(home: GeminiHome, scripted: Model) -> None:
    missing = ToolUse("read_file", {"file_path": "nowhere.txt"})
    listed = ToolUse("list_background_processes", {})
    scripted.sizes["calls"] = 950_000
    home.run(
        scripted.script(
            "calls", [shell("echo a"), missing], [shell("sleep 1", is_background=True)], [shell("sleep 3")], [listed]
        )
    )
    home.run(scripted.script("leaves", [shell("sleep 30", is_background=True)]))

    wanted = {name for name, cell in claimed("Gemini CLI").items() if cell.split()[0] in ("hook", "transcript")}
    come(home.state, wanted)
    for name, cell in claimed("Gemini CLI").items():
        if cell.startswith("no"):
            assert logged_events(home.state, name) == [], name
    low = logged_events(home.state, "resource.low.context")
    assert {"used": 950_000, "max": 1_048_576}.items() <= low[0][1].items()
