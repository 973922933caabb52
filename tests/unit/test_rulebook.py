"""The rules file is read again when it changes; a bad one leaves the last good rules in force."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from callosum import Call, ConfigError
from callosum.rulebook import Rulebook, content_secret

GRAVE = '{"rules": [{"name": "grave", "tier": 4, "tool": "paint"}]}'
MILD = '{"rules": [{"name": "mild", "tier": 2, "tool": "paint"}]}'
CALL = Call("mira", "paint", {"colour": "blue"})


def write(path: Path, text: str, moment: int) -> None:
    path.write_text(text)
    os.utime(path, ns=(moment, moment))


def tier(book: Rulebook) -> int:
    return book.current().classify(CALL).tier


def test_changed_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tiers.json"
    write(path, GRAVE, 1)
    book = Rulebook(path)
    assert tier(book) == 4
    write(path, MILD, 2)
    assert book.reload()
    assert tier(book) == 2
    assert not book.reload()


def test_invalid_change_keeps_the_last_valid_rules(tmp_path: Path) -> None:
    path = tmp_path / "tiers.json"
    write(path, GRAVE, 1)
    book = Rulebook(path)
    write(path, '{"rules": [{"name": "x", "tier": 9, "tool": "paint"}]}', 2)
    assert not book.reload()
    assert tier(book) == 4
    assert book.error is not None
    assert "rules[0].tier" in str(book.error)
    write(path, MILD, 3)
    assert book.reload()
    assert book.error is None


def test_created_or_deleted_file_is_a_change(tmp_path: Path) -> None:
    path = tmp_path / "tiers.json"
    book = Rulebook(path)
    without = tier(book)
    write(path, GRAVE, 1)
    assert book.reload()
    assert tier(book) == 4
    path.unlink()
    assert book.reload()
    assert tier(book) == without


def test_invalid_file_at_the_start_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "tiers.json"
    path.write_text('{"rules": [{"name": "x", "tier": 9, "tool": "paint"}]}')
    with pytest.raises(ConfigError, match=r"rules\[0\]\.tier"):
        Rulebook(path)


def test_content_key_is_created_once_and_private(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: content_secret(tmp_path / "state"), range(32)))
    assert len(found) == 1
    assert (tmp_path / "state" / "content.key").stat().st_mode & 0o077 == 0
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["content.key"]


def test_damaged_content_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "content.key").write_bytes(b"short")
    with pytest.raises(ConfigError, match="32 bytes"):
        content_secret(tmp_path)
