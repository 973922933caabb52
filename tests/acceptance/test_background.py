"""The tests themselves hold wherever they are started: in a script's background and under nohup."""

import sys
from pathlib import Path

from tests.support import forking

ENDED_BY_SIGNALS = (
    "test_events_cli.py::test_decisions_are_shown_as_they_come",
    "test_server_limits.py::test_hangup_signal_drains_the_server",
)
IGNORING = """
import signal, sys
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_tests_pass_where_interrupt_quit_and_hangup_are_ignored(tmp_path: Path) -> None:
    loaded_before = "-Wignore::pytest.PytestAssertRewriteWarning"  # the fork server has imported some of it
    options = ["-q", loaded_before, "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}"]
    tests = [f"tests/acceptance/{name}" for name in ENDED_BY_SIGNALS]
    python = [sys.executable, "-c", IGNORING, *options, *tests]
    done = forking.run(python, cwd=forking.ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
