"""Faults planted in the native hook client: the target finds them, and finds none without them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.check import Broken
from fuzz.source import Source
from fuzz.targets import hook, offline

INPUTS = 150
PLANTS = {
    "an answer that is no JSON": ("return is_object(*answer, there) && is_utf8(*answer, there) ?", "return there ?"),
    "an answer of another length": ("return ended ? PARTIAL : -1;\n\tif (head.length < 0", "there = (size_t)head.length;\n\tif (head.length < 0"),
    "an error taken for an answer": ("if (head.status >= 400) return REFUSED;\n\tif (head.status != 200) return NO_GATE;", ""),
}  # fmt: skip
OFFLINE_INPUTS = 8000
OFFLINE_PLANTS = {
    "an unknown tool that may run": ("return tier < 0 ? UNKNOWN_TIER : tier;", "return tier < 0 ? 0 : tier;"),
    "an input that raises nothing": ("if (raised > call->raised) call->raised = raised;", ""),
    "words that keep their case": ("call->words.data[at] += 'a' - 'A';", "(void)0;"),
    "an escape that is read as it stands": ("if (into && !append_code(into, code)) return 0;", ""),
    "a read beyond the end": ("while (reader->at < reader->end && *reader->at && strchr", "while (strchr"),
    "a half that counts as less": ("(value > (int)value)", "0"),
}


@pytest.fixture
def fresh() -> Iterator[None]:
    """Let the target compile its client again, before and after."""
    hook._client.cache_clear()
    yield
    client = hook._client()
    hook._client.cache_clear()
    if client is not None:
        client.listening.close()
        shutil.rmtree(client.program.parent)


def attempts() -> None:
    chance = random.Random(1)
    for _ in range(INPUTS):
        hook.run(Source(chance.randbytes(200)))


def planted(old: str, new: str, folder: Path) -> Path:
    """Return a copy of the client's sources with a fault in one of them."""
    found = 0
    for path in (*hook.SOURCES.glob("*.c"), *hook.SOURCES.glob("*.h")):
        text = path.read_text()
        found += old in text
        (folder / path.name).write_text(text.replace(old, new))
    assert found == 1
    return folder


@pytest.mark.skipif(shutil.which("cc") is None, reason="the sanitized hook client is NOT tested: there is no cc")
@pytest.mark.parametrize("plant", [None, *PLANTS])
def test_target_finds_the_planted_fault(
    plant: str | None, fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if plant is None:
        attempts()
        return
    monkeypatch.setattr(hook, "SOURCES", planted(*PLANTS[plant], tmp_path))
    with pytest.raises(Broken):
        attempts()


@pytest.fixture
def fresh_judge() -> Iterator[None]:
    offline.judge.cache_clear()
    yield
    process = offline.judge()
    offline.judge.cache_clear()
    if process is not None:
        process.kill()
        process.communicate()


@pytest.mark.skipif(shutil.which("cc") is None, reason="the sanitized hook client is NOT tested: there is no cc")
@pytest.mark.parametrize("plant", [None, *OFFLINE_PLANTS])
def test_offline_target_finds_the_planted_fault(
    plant: str | None, fresh_judge: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempts() -> None:
        chance = random.Random(1)
        for _ in range(OFFLINE_INPUTS):
            offline.run(Source(chance.randbytes(300)))

    if plant is None:
        attempts()
        return
    monkeypatch.setattr(offline, "SOURCES", planted(*OFFLINE_PLANTS[plant], tmp_path))
    with pytest.raises(Broken):
        attempts()
