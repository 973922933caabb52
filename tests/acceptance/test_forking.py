"""A program that is forked off cannot tell that it was not started."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import forking

ENVIRON = forking.shared_environ(os.environ)
LOOKS = """
import json, os, signal, sys, tempfile, threading, time
status = dict(line.split()[:2] for line in open("/proc/self/status") if line.startswith(("SigB", "SigI", "SigC", "Umask")))
opened = {}
for number in os.listdir("/proc/self/fd"):
    try:
        opened[number] = os.readlink("/proc/self/fd/" + number).split(":")[0]
    except FileNotFoundError:
        pass  # that of the listing itself
print(json.dumps({
    "words": sys.argv, "first": sys.path[0], "path": sys.path[1:], "main": __name__, "folder": os.getcwd(),
    "environ": dict(os.environ), "parent": os.getppid(), "session": os.getsid(0) == os.getpid(), "status": status,
    "threads": threading.active_count(), "temporary": tempfile.gettempdir(), "zone": time.tzname, "opened": opened,
    "interrupt": str(signal.getsignal(signal.SIGINT)),
    "streams": [
        (one.name, one.encoding, one.errors, one.line_buffering, one.write_through, one.fileno(), one.isatty())
        for one in (sys.stdin, sys.stdout, sys.stderr)
    ],
    "read": sys.stdin.read(),
}))
"""


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_forked_program_finds_the_same_environment_as_a_started_one(tmp_path: Path, session: bool, zone: str) -> None:
    more = tmp_path.joinpath("more").open("w")
    given: dict[str, Any] = {
        "env": ENVIRON | {"TZ": zone, "TMPDIR": str(tmp_path)},
        "cwd": tmp_path, "start_new_session": session, "pass_fds": (more.fileno(),), "input": "one\r\ntwo\n",
        "text": True, "capture_output": True, "check": True,
    }  # fmt: skip
    asked = [sys.executable, "-c", LOOKS, "a", "b c"]
    mask = os.umask(0o037)
    try:
        with more:
            forked, started = (json.loads(run(asked, **given).stdout) for run in (forking.run, subprocess.run))
    finally:
        os.umask(mask)
    assert forked == started
    assert forked["parent"] == os.getpid()


@pytest.mark.parametrize(
    "code",
    [
        "", "import sys; sys.exit(3)", "import sys; sys.exit(-1)", "import sys; sys.exit('what it says')",
        "import os; os._exit(9)", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "raise KeyboardInterrupt", "1 / 0", "this is no Python",
        "import atexit; atexit.register(print, 'at the end'); print('in between')",
        "import threading; threading.Timer(0.05, print, ['of a thread']).start()",
        "import sys; print('lost'); sys.stdout.buffer.raw.close()",
        "import sys, os; os.close(1); print('to nobody')",
    ],
)  # fmt: skip
def test_forked_program_ends_like_a_started_one(code: str) -> None:
    asked = [sys.executable, "-c", code]
    given: dict[str, Any] = {"text": True, "capture_output": True, "env": ENVIRON}
    forked, started = (run(asked, **given) for run in (forking.run, subprocess.run))
    assert (forked.returncode, forked.stdout) == (started.returncode, started.stdout)
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_forked_program_can_be_awaited_and_killed(tmp_path: Path) -> None:
    asked = [sys.executable, "-c", "print('there', flush=True); input()"]
    with forking.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRON) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait(20) == -signal.SIGKILL


def test_programs_that_cannot_be_forked_are_started(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; print('callosum' in sys.modules)")
    for asked, here in (
        ([sys.executable, "-c", program.read_text()], True),
        ([sys.executable, str(program)], False),
        ([sys.executable, "-I", "-c", program.read_text()], False),
        (["/usr/bin/env", sys.executable, "-c", program.read_text()], False),
    ):
        assert forking.run(asked, text=True, capture_output=True, env=ENVIRON).stdout == f"{here}\n", asked
