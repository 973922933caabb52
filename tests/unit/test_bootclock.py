import subprocess
import sys
import time
from pathlib import Path

import pytest

from callosum.bootclock import boot_id, boot_now, boot_now_ns, wall_offset


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells its boot id in /proc")
def test_boot_clock_and_id_are_the_same_in_another_process() -> None:
    before = boot_now()
    other = subprocess.run(
        [sys.executable, "-c", "from callosum.bootclock import *; print(boot_id(), boot_now())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert other[0] == boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert before < float(other[1]) < boot_now()


def test_process_that_is_paused_between_two_readings_of_the_clocks_knows_their_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, pauses = time.time_ns, iter([0.05, 0.05, 0.05])

    def paused() -> int:
        now, until = read(), boot_now() + next(pauses, 0)
        while boot_now() < until:
            pass
        return now

    before, wall, after = boot_now_ns(), read(), boot_now_ns()
    monkeypatch.setattr(time, "time_ns", paused)
    offset = wall_offset() * 1000
    assert wall - after - 5e6 < offset < wall - before + 5e6
