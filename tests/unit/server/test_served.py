"""The gate on an event loop: work that requests share, the clients' fallback table, strict queries."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from callosum.client.fallback import FILE, load_table
from callosum.gate import LocalGate
from callosum.server.jobs import FallbackFile, Job
from callosum.server.queries import read_query
from callosum.settings import Settings
from callosum.wire import BadRequest, BriefQuery


async def test_a_table_that_could_not_be_written_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / FILE
    place.mkdir()  # nothing can be put there
    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        keeping = asyncio.ensure_future(Job("writing the table", 0.01, FallbackFile(gate).keep).run())
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
    assert load_table(place)["Read"] == 0
    assert len(caplog.records) == 1, "the same failure is said once"


async def test_failed_job_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    async def work() -> None:
        done.append(len(done))
        if len(done) == 1:
            raise ZeroDivisionError

    running = asyncio.ensure_future(Job("dividing", 0.001, work).run())
    async with asyncio.timeout(10):
        while len(done) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    running.cancel()
    assert len(done) >= 3
    assert [record.message for record in caplog.records] == ["dividing: failed, and is tried again"]


@pytest.mark.parametrize("value", ["null", "NULL", "", "1.5", "many"])
def test_number_in_a_query_is_a_number(value: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_query(BriefQuery, f"instance=mira&budget={value}".encode())
    assert refused.value.at == "budget"


def test_text_in_a_query_may_be_the_word_null() -> None:
    assert read_query(BriefQuery, b"instance=null&budget=60").instance == "null"
