"""Test that a wrapped server's calls are classified without a gate by the same settings as its gate would use."""

from pathlib import Path

import pytest

from callosum.hosts.mcp.identity import NameSources
from callosum.hosts.mcp.wrap import Wrap, judge_of
from callosum.model import Call
from callosum.settings import Settings


@pytest.mark.parametrize("over", [2, 4])
def test_rules_without_a_gate_follow_all_settings(tmp_path: Path, over: int) -> None:
    lines = {"force_push": over, "force_push_protected": over}
    settings = Settings(state=tmp_path / "state", shell=lines)
    wrap = Wrap(settings=settings, names=NameSources())
    call = Call("mira", "bash", {"command": "git push --force origin feature"})
    assert judge_of(wrap, call)[0] == over
