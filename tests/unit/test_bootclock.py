import subprocess
import sys
from pathlib import Path

import pytest

from callosum.bootclock import boot_id, boot_now


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
