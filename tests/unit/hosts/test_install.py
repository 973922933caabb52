"""What is planned before anything is written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from callosum.errors import ConfigError
from callosum.hosts.install import Where, plan_install
from callosum.settings import Settings


def test_without_the_server_a_host_would_be_held_for_ever_so_it_is_not_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, settings = Where(home=tmp_path, environ={}), Settings(state=tmp_path / "state")
    assert plan_install("claude-code", settings, where).changes_something
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ConfigError, match=r"pip install 'callosum-protocol\[server\]'"):
        plan_install("claude-code", settings, where)
