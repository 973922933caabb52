"""The gate's files: the guard recognises them behind symbolic links, and their folder is its user's own."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from callosum.gate.local import LocalGate
from callosum.model import Call, Verdict


def call(tool: str, **params: Any) -> Call:
    return Call("mira", tool, params)


def test_file_of_the_state_folder_is_protected_through_a_link_to_the_folder(gate: LocalGate, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(tmp_path / "state")
    for one in (
        call("Write", file_path=f"{tmp_path}/other/tiers.json", content="{}"),
        call("Edit", file_path=f"{tmp_path}/other/tiers.json", old_string="a", new_string="b"),
        call("Bash", command=f"echo x > {tmp_path}/other/gate.db"),
        call("Bash", command=f"cd {tmp_path} && rm -f other/gate.db"),
        call("Bash", command=f"rm -rf {tmp_path}/other/*"),
    ):
        decision = gate.intercept(one)
        assert decision.verdict is Verdict.BLOCK, one
        assert "Callosum's state folder" in (decision.warning or "")
        assert gate.explain(one)[0].why[0].startswith("the gate guards itself: through a link, ")


def test_file_is_protected_through_a_link_to_the_file(gate: LocalGate, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").symlink_to(tmp_path / "state" / "gate.db")
    assert gate.intercept(call("Write", file_path=f"{tmp_path}/notes.txt", content="")).verdict is Verdict.BLOCK


def test_other_links_reads_and_files_that_do_not_exist_pass(gate: LocalGate, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "work")
    (tmp_path / "other").symlink_to(tmp_path / "state")
    for one in (
        call("Write", file_path=f"{tmp_path}/linked/a.txt", content=""),
        call("Write", file_path=f"{tmp_path}/none/a.txt", content=""),
        call("Read", file_path=f"{tmp_path}/other/tiers.json"),
        call("Bash", command=f"cat {tmp_path}/other/tiers.json"),
    ):
        assert gate.intercept(one).verdict is not Verdict.BLOCK, one


def test_no_link_is_followed_for_calls_of_other_machines(tmp_path: Path) -> None:
    class Elsewhere(LocalGate):
        here = False

    (tmp_path / "other").symlink_to(tmp_path / "state")
    with Elsewhere(tmp_path / "state") as gate:
        written = gate.intercept(call("Write", file_path=f"{tmp_path}/other/tiers.json", content=""))
    assert written.verdict is not Verdict.BLOCK


@pytest.mark.parametrize("path", ["a/b", "/", "/x\\0", "./x", "~", "~nobody-at-all/x", "/dev/null"])
def test_unreadable_paths_are_judged_by_their_spelling(gate: LocalGate, path: str) -> None:
    assert gate.intercept(call("Write", file_path=path, content="")).rule != "self-guard"


@pytest.mark.parametrize("level", ["file", "folder", "above"])
def test_link_that_takes_the_place_of_a_file_or_folder_counts_at_once(
    gate: LocalGate, tmp_path: Path, level: str
) -> None:
    inside = tmp_path / "state" / "inside"
    inside.mkdir()
    (inside / "tiers.json").touch()
    folder = tmp_path / "work" / "inside"
    folder.mkdir(parents=True)
    write = call("Write", file_path=f"{folder}/tiers.json", content="{}")
    assert gate.intercept(write).verdict is not Verdict.BLOCK  # the folder's path without links is kept from now on
    if level == "file":
        (folder / "tiers.json").symlink_to(inside / "tiers.json")
    else:
        place = folder if level == "folder" else folder.parent
        place.rename(tmp_path / "moved")
        place.symlink_to(tmp_path / "state" / place.name if level == "folder" else tmp_path / "state")
    assert gate.intercept(write).verdict is Verdict.BLOCK


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
