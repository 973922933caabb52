"""Test the plan of an installation before anything is written."""

import json
import sys
from pathlib import Path

import pytest

from callosum.errors import ConfigError
from callosum.hosts import files, hook_entries
from callosum.hosts.install import plan_install
from callosum.hosts.script import hook_of, names_of
from callosum.hosts.setup import InstallTarget, wanted_in
from callosum.programs import NAMED
from callosum.settings import Settings


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
