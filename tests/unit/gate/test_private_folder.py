"""The state folder is accessible only to its user."""

import os
import stat
from pathlib import Path

import pytest

from callosum import Call, LocalGate


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_state_folder_is_the_users_own(tmp_path: Path) -> None:
    before = os.umask(0)  # a folder made without a mode would be open to all
    try:
        open_to_all = tmp_path / "control"
        open_to_all.mkdir()
        with LocalGate(tmp_path / "state") as gate:
            gate.intercept(Call("mira", "read", {"path": "/a"}, session="chat"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(open_to_all.stat().st_mode) == 0o777
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
