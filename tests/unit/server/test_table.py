"""The clients' fallback table is kept beside the state, also where it could not be written at first."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from callosum.client.fallback import FILE, load_table
from callosum.gate import LocalGate
from callosum.server import run
from callosum.settings import Settings


def test_a_table_that_could_not_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run, "_LOOK_AT_RULES", 0.01)
    place = tmp_path / FILE
    place.mkdir()  # nothing can be put there

    async def play(gate: LocalGate) -> None:
        keeping = asyncio.ensure_future(run._keep_table(gate))
        async with asyncio.timeout(10):
            while not caplog.records:  # noqa: ASYNC110  the log rings no bell
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            place.rmdir()
            while not place.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping

    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        asyncio.run(play(gate))
    assert load_table(place)["Read"] == 0
    assert len(caplog.records) == 1, "the same failure is said once"
