"""Test our entries in a host's settings: planned, added once, removed completely, with everything else unchanged."""

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from callosum.errors import ConfigError
from callosum.hosts import files, hook_entries
from callosum.hosts.install import plan_install
from callosum.hosts.script import hook_of, names_of
from callosum.hosts.setup import InstallTarget, entries_of, wanted_in
from callosum.programs import NAMED, WITH_HOOKS
from callosum.settings import Settings

SCRIPT = "/home/anna/.local/state/callosum/callosum-hook"
WANTED = {
    **{name: entries_of(host, SCRIPT) for name, host in WITH_HOOKS.items()},
    "claude-code over HTTP": entries_of(NAMED["claude-code"], SCRIPT, "http://127.0.0.1:7700"),
}
FOREIGN: list[dict[str, Any]] = [
    {},
    {"model": "opus", "permissions": {"allow": ["Bash(ls)"]}},
    {"hooks": {}},
    {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "/usr/bin/lint"}]}]}},
    {"hooks": {"enabled": True, "BeforeTool": [], "Stop": [{"hooks": []}]}, "ünïcode": ["x"]},
]


@pytest.fixture(params=WANTED, ids=str)
def wanted(request: pytest.FixtureRequest) -> dict[str, hook_entries.Group]:
    return WANTED[request.param]


@pytest.mark.parametrize("settings", FOREIGN, ids=range(len(FOREIGN)))
def test_removing_restores_the_original_settings(
    settings: dict[str, Any], wanted: dict[str, hook_entries.Group]
) -> None:
    before = copy.deepcopy(settings)
    added = hook_entries.installed(settings, wanted)
    assert settings == before, "the settings that were handed in are left alone"
    assert not hook_entries.missing(added, wanted)
    taken = hook_entries.removed(added)
    if before.get("hooks") == {}:
        before.pop("hooks")  # an empty table may be removed with the entries
        taken.pop("hooks", None)
    for event, groups in before.get("hooks", {}).items():
        if groups == [] and event in wanted:
            taken.setdefault("hooks", {}).setdefault(event, [])
    assert taken == before


def test_installing_twice_equals_installing_once(wanted: dict[str, hook_entries.Group]) -> None:
    once = hook_entries.installed(FOREIGN[3], wanted)
    assert hook_entries.installed(once, wanted) == once


def test_older_entry_of_ours_is_replaced() -> None:
    old = {"type": "command", "command": "/old/place/callosum-hook", "args": ["claude-code"]}
    other = {"type": "command", "command": "/usr/bin/lint"}
    settings = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [old, other]}]}}
    made = hook_entries.installed(settings, WANTED["claude-code"])
    assert made["hooks"]["PreToolUse"][0] == {"matcher": "*", "hooks": [other]}
    assert "/old/place" not in str(made)


def test_changed_entry_is_missing() -> None:
    made = copy.deepcopy(hook_entries.installed({}, WANTED["claude-code"]))
    made["hooks"]["PreToolUse"][0]["hooks"][0].pop("onFailure")
    assert hook_entries.missing(made, WANTED["claude-code"]) == ["PreToolUse"]


@pytest.mark.parametrize("hooks", [[], "all", 7])
def test_hooks_of_another_shape_are_refused_with_their_place(hooks: object) -> None:
    with pytest.raises(ConfigError) as refused:
        hook_entries.installed({"hooks": hooks}, WANTED["codex"])
    assert refused.value.at == "hooks"


def test_asking_entries_fail_closed_in_every_host() -> None:
    before = WANTED["claude-code"]["PreToolUse"]["hooks"][0]
    assert before["onFailure"] == "block"
    for host, event in (("codex", "PreToolUse"), ("gemini", "BeforeTool")):
        assert WANTED[host][event]["hooks"][0]["command"].rstrip(" }").endswith("exit 2;")
    for wanted in WANTED.values():
        for event, group in wanted.items():
            if event not in ("PreToolUse", "BeforeTool", "ConfigChange"):
                assert "exit 2" not in str(group), "what only reports stops nothing"
                assert "onFailure" not in str(group)


def test_host_is_not_set_up_without_the_server_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, settings = InstallTarget(home=tmp_path, environ={}), Settings(state=tmp_path / "state")
    assert plan_install("claude-code", settings, where).changes_something
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ConfigError, match=r"pip install 'callosum-protocol\[server\]'"):
        plan_install("claude-code", settings, where)


def test_http_hooks_send_the_names_of_the_settings_like_the_script(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path / "state", namespace="work & play", instance="mira")
    where = InstallTarget(home=tmp_path, environ={}, url="http://127.0.0.1:7700/")
    (change,) = plan_install("claude-code", settings, where).changes
    assert change.after is not None
    (group,) = json.loads(change.after)["hooks"]["PreToolUse"]
    (hook,) = group["hooks"]
    assert hook["url"] == (
        "http://127.0.0.1:7700/hooks/claude-code?via=callosum-hook&namespace=work+%26+play&instance=mira"
    )
    change.path.parent.mkdir()
    change.path.write_bytes(change.after)
    assert not files.changed(
        change.path,
        lambda found: hook_entries.installed(
            found, wanted_in(found, NAMED["claude-code"], str(hook_of(settings).path), names_of(settings))
        ),
    ).changes, "doctor finds them as they should be"
