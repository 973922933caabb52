"""Test that the plugin's entry is added to OpenClaw's settings and removed again."""

from pathlib import Path
from typing import Any

import pytest

from callosum.errors import ConfigError
from callosum.hosts.openclaw import FOLDER
from callosum.hosts.openclaw.install import OpenClawOptions, faults, installed, removed, settings_path

LOCAL = OpenClawOptions(instance="mira", state=Path("/srv/callosum"), command=("callosum",))
REMOTE = OpenClawOptions(instance="mira", url="https://gate:7700", token="secret")

SETTINGS: list[dict[str, Any]] = [
    {},
    {"gateway": {"port": 1}},
    {"plugins": {"load": {"paths": ["/mine"]}, "entries": {"telegram": {"enabled": True}}}},
    {"plugins": {"enabled": True, "load": {"watch": True}, "deny": ["other"]}},
    {"plugins": {"allow": ["telegram"], "entries": {"telegram": {"enabled": False}}}, "agents": {"defaults": {}}},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("options", [LOCAL, REMOTE])
def test_installed_plugin_is_valid_and_removed_again(settings: dict[str, Any], options: OpenClawOptions) -> None:
    before = repr(settings)
    made = installed(settings, options)
    assert faults(made) == []
    assert faults(settings)
    assert installed(made, options) == made
    assert removed(made) == settings
    assert repr(settings) == before, "pure"


@pytest.mark.parametrize("settings", SETTINGS)
def test_removing_changes_nothing_without_the_plugin(settings: dict[str, Any]) -> None:
    assert removed(settings) == settings


def test_local_and_remote_modes_replace_each_other() -> None:
    config = installed({}, LOCAL)["plugins"]["entries"]["callosum"]["config"]
    assert config == {"instanceId": "mira", "mode": "local", "state": "/srv/callosum", "command": ["callosum"]}
    moved = installed(installed({}, LOCAL), REMOTE)["plugins"]["entries"]["callosum"]["config"]
    assert moved == {"instanceId": "mira", "mode": "remote", "url": "https://gate:7700", "token": "secret"}
    back = installed(installed({}, REMOTE), LOCAL)["plugins"]["entries"]["callosum"]["config"]
    assert back == config


def test_users_settings_stay() -> None:
    mine = {"config": {"failMode": "closed", "deadlineMs": 500}, "hooks": {"timeouts": {"before_tool_call": 30_000}}}
    made = installed({"plugins": {"entries": {"callosum": mine}}}, LOCAL)["plugins"]["entries"]["callosum"]
    assert (made["config"]["failMode"], made["config"]["deadlineMs"]) == ("closed", 500)
    assert made["hooks"]["timeouts"] == {"before_tool_call": 30_000}
    assert made["hooks"]["allowPromptInjection"] is True


def test_outdated_entry_is_updated() -> None:
    old = {"enabled": True, "source": "/path/to/callosum/plugin", "config": {"instanceId": "mira", "mode": "local"}}
    made = installed({"plugins": {"entries": {"callosum": old}}}, OpenClawOptions())
    entry = made["plugins"]["entries"]["callosum"]
    assert "source" not in entry
    assert entry["config"] == {"instanceId": "mira", "mode": "local"}
    assert made["plugins"]["load"]["paths"] == [str(FOLDER)]


def test_folder_of_another_installation_is_replaced() -> None:
    paths = ["/old/site-packages/callosum/hosts/openclaw/", "/mine"]
    made = installed({"plugins": {"load": {"paths": paths}}}, LOCAL)
    assert made["plugins"]["load"]["paths"] == ["/mine", str(FOLDER)]


@pytest.mark.parametrize(
    ("settings", "at"),
    [
        ({"plugins": []}, "plugins"),
        ({"plugins": {"load": 7}}, "plugins.load"),
        ({"plugins": {"load": {"paths": "x"}}}, "plugins.load.paths"),
        ({"plugins": {"entries": {"callosum": True}}}, "plugins.entries.callosum"),
        ({"plugins": {"enabled": False}}, "plugins.enabled"),
        ({"plugins": {"deny": ["callosum"]}}, "plugins.deny"),
        ({"plugins": {"allow": "callosum"}}, "plugins.allow"),
    ],
)
def test_settings_of_another_shape_are_refused_with_the_place(settings: dict[str, Any], at: str) -> None:
    with pytest.raises(ConfigError) as refused:
        installed(settings, LOCAL)
    assert refused.value.at == at
    assert faults(settings) == [str(refused.value)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda plugins: plugins["entries"].clear(), "is not there"),
        (lambda plugins: plugins["entries"]["callosum"].pop("enabled"), "enabled is not true"),
        (lambda plugins: plugins["entries"]["callosum"].update(source="/x"), "source is not known"),
        (lambda plugins: plugins["load"]["paths"].clear(), "does not name"),
        (lambda plugins: plugins["entries"]["callosum"]["hooks"].pop("allowConversationAccess"), "allowConversationAccess"),
        (lambda plugins: plugins.update(allow=["telegram"]), "plugins.allow does not name callosum"),
    ],
)  # fmt: skip
def test_faults_are_listed(change: Any, says: str) -> None:
    made = installed({}, LOCAL)
    change(made["plugins"])
    assert any(says in fault for fault in faults(made)), faults(made)


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({}, "/home/ann/.openclaw/openclaw.json"),
        ({"OPENCLAW_STATE_DIR": "/srv/oc"}, "/srv/oc/openclaw.json"),
        ({"OPENCLAW_STATE_DIR": "/srv/oc", "OPENCLAW_CONFIG_PATH": "/etc/oc.json"}, "/etc/oc.json"),
    ],
)
def test_settings_path_follows_the_environment(environ: dict[str, str], path: str) -> None:
    assert settings_path(Path("/home/ann"), environ) == Path(path)
