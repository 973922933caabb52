"""Test that settings files are written whole or not at all, and restored."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from callosum.errors import ConfigError
from callosum.hosts import files
from callosum.hosts.files import FileChange, changed


def added(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**settings, "gate": True}


def removed(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "gate"}


@pytest.mark.parametrize(
    "before",
    [
        b'{\n    "a": 1,\n    "b": [1, 2]\n}\n', b'{\n\t"a": "\xc3\xa4"\n}', b'{"a":1}', b'\xef\xbb\xbf{"a": 1}\n',
        b'{\n  "a": "\\u00e4"\n}\n',
    ],
    ids=["four spaces", "tab, no end", "one line", "byte order mark", "escaped"],
)  # fmt: skip
def test_reverting_restores_the_very_bytes(tmp_path: Path, before: bytes) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    path.write_bytes(before)
    path.chmod(0o640)
    files.install([changed(path, added)], state, "host")
    assert json.loads(path.read_text("utf-8-sig"))["gate"] is True
    assert path.stat().st_mode & 0o777 == 0o640
    files.uninstall([files.reverted(changed(path, removed), state)], state)
    assert path.read_bytes() == before
    assert files.installed_files(state, "host") == []
    assert not list((state / files.BEFORE).iterdir()), "what was kept is not needed any more"


def test_created_file_is_deleted_again(tmp_path: Path) -> None:
    path, state = tmp_path / "deep" / "settings.json", tmp_path / "state"
    files.install([changed(path, added)], state, "host")
    assert path.stat().st_mode & 0o777 == 0o600
    files.uninstall([files.reverted(changed(path, removed), state)], state)
    assert not path.exists()


def test_later_changes_by_others_stay(tmp_path: Path) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    path.write_text('{"a": 1}\n')
    files.install([changed(path, added)], state, "host")
    path.write_text('{"a": 2, "gate": true, "mine": 3}\n')
    files.uninstall([files.reverted(changed(path, removed), state)], state)
    assert json.loads(path.read_text()) == {"a": 2, "mine": 3}


def test_second_installation_still_restores_the_original(tmp_path: Path) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    path.write_text('{ "a":1 }')
    files.install([changed(path, added)], state, "host")
    files.install([changed(path, lambda settings: {**settings, "more": 1})], state, "host")
    files.uninstall([files.reverted(changed(path, removed), state)], state)
    assert path.read_text() == '{ "a":1 }'


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "cannot be read as JSON"), (b'{"a": 1} // mine\n', "by hand"), (b"[1]", "expected an object, got list"),
        (b'{"a": 1, "a": 2}', "'a' occurs twice"), (b"\xff\xfe{}", "cannot be read as JSON"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_invalid_settings_file_is_refused_and_left_untouched(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=says) as refused:
        changed(path, added)
    assert str(path) in refused.value.at
    assert path.read_bytes() == content


def test_file_that_changed_since_the_diff_is_not_written(tmp_path: Path) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    path.write_text("{}")
    change = changed(path, added)
    path.write_text('{"new": 1}')
    with pytest.raises(ConfigError, match="meanwhile"):
        files.install([change], state, "host")
    assert path.read_text() == '{"new": 1}'


def test_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    real, path = tmp_path / "dotfiles.json", tmp_path / "settings.json"
    real.write_text("{}")
    path.symlink_to(real)
    files.install([changed(path, added)], tmp_path / "state", "host")
    assert path.is_symlink()
    assert json.loads(real.read_text()) == {"gate": True}


def test_unwritable_home_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written") as refused:  # not even root writes there
        files.install([changed(Path("/proc/home/settings.json"), added)], tmp_path / "state", "host")
    assert refused.value.at == "/proc/home/settings.json"


def test_path_of_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "settings.json").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        changed(tmp_path / "settings.json", added)


def test_diff_shows_the_change() -> None:
    change = FileChange(Path("/x/settings.json"), b'{\n  "a": 1\n}\n', b'{\n  "a": 1,\n  "b": 2\n}\n')
    assert change.difference().splitlines()[-3:] == ['+  "a": 1,', '+  "b": 2', " }"]
    assert not FileChange(Path("/x"), b"{}", b"{}").difference()


@pytest.mark.parametrize("before", [b'{"a": 1}', None], ids=["a file", "no file"])
def test_changes_between_two_installations_stay(tmp_path: Path, before: bytes | None) -> None:
    path, state = tmp_path / "settings.json", tmp_path / "state"
    if before is not None:
        path.write_bytes(before)
    files.install([changed(path, added)], state, "host")
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": "large"}))
    for _ in range(2):  # a new version of the gate changes only the script
        files.install([changed(path, added)], state, "host")
    files.uninstall([files.reverted(changed(path, removed), state)], state)
    assert json.loads(path.read_text()) == {**json.loads(before or b"{}"), "model": "large"}


def test_later_events_have_a_later_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise ``callosum doctor`` would skip the first calls."""
    path, state = tmp_path / "settings.json", tmp_path / "state"
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.96)
    files.install([changed(path, added)], state, "host")
    at = files.installed_at(state, path)
    assert at is not None
    assert 1_700_000_000.5 < at <= 1_700_000_000.96
