"""Test that a settings file without the gate's entries is refused before it takes effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from callosum.hosts import install as hosts
from callosum.hosts.adapters import ADAPTERS
from callosum.hosts.settings_guard import fault_of
from callosum.hosts.setup import InstallTarget
from callosum.settings import Settings

claude_code = ADAPTERS["claude-code"]


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """Return the user's settings file with the gate's entries."""
    home = tmp_path / "home"
    home.mkdir()
    known = Settings(state=tmp_path / "state")
    hosts.install(hosts.plan_install("claude-code", known, InstallTarget(home=home, environ={})), known)
    return home / ".claude" / "settings.json"


def test_installed_entries_may_take_effect(settings: Path, tmp_path: Path) -> None:
    assert fault_of(tmp_path / "state", claude_code, str(settings)) == ""


@pytest.mark.parametrize(
    "written",
    [
        "{}",
        "",
        None,
        json.dumps({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "echo callosum"}]}]}}),
        json.dumps({"disableAllHooks": True, "filling": "x" * 5_000_000}),
    ],
    ids=["nothing in it", "empty", "gone", "another hook", "long"],
)
def test_settings_without_them_are_refused(settings: Path, tmp_path: Path, written: str | None) -> None:
    if written is None:
        settings.unlink()
    else:
        settings.write_text(written)
    assert "[Callosum]" in fault_of(tmp_path / "state", claude_code, str(settings))


def test_file_is_recognised_by_another_name(settings: Path, tmp_path: Path) -> None:
    settings.write_text("{}")
    other = tmp_path / "link"
    other.symlink_to(settings.parents[1])
    assert "[Callosum]" in fault_of(tmp_path / "state", claude_code, str(other / ".claude" / "settings.json"))


def test_file_without_our_installation_needs_no_entries(settings: Path, tmp_path: Path) -> None:
    other = settings.with_name("settings.local.json")
    assert fault_of(tmp_path / "state", claude_code, str(other)) == "", "it is not there"
    other.write_text("{}")
    assert fault_of(tmp_path / "state", claude_code, str(other)) == ""
