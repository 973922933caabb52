"""The demo: it must be able to fail, and it must leave nothing behind."""

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

pytest.importorskip("aiosmtpd", reason="the demo's mail server is the extra `demo`")

from callosum.cli.demo_run.runner import DemoResult, perform
from tests.acceptance.command import STARTED, at_terminal, run
from tests.support.serving import until


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], Path]:
    folder = tmp_path_factory.mktemp("demo")
    made = folder / "tmp"
    made.mkdir()
    shown = run(folder / "state", "demo", "--json", env={"TMPDIR": str(made)}, program=STARTED)
    assert shown.returncode == 0, shown
    return json.loads(shown.stdout), made


def test_demo_without_the_gate_goes_wrong(played: tuple[dict[str, dict[str, object]], Path]) -> None:
    without = played[0]["without"]
    assert (without["threadMails"], without["invoiceMails"], without["notesLost"]) == (2, 2, 1)
    assert without["meetingAnswers"] == ["accepted", "declined"]
    assert without["told"] == []


def test_demo_with_the_gate_ends_well(played: tuple[dict[str, dict[str, object]], Path]) -> None:
    report = played[0]
    gated = report["with"]
    assert report["right"]
    assert (gated["threadMails"], gated["invoiceMails"], gated["notesLost"]) == (1, 1, 0)
    assert gated["meetingAnswers"] == ["accepted"]
    told = gated["told"]
    assert isinstance(told, list)
    kinds = {one["scene"]: one["kinds"] for one in told}
    assert "recent" in kinds["thread"]
    assert "opposed" in kinds["meeting"]
    assert "stale" in kinds["file"]
    assert "unknown" in kinds["crash"]
    assert all(one["text"].startswith("[Callosum] Conflict: ") for one in told)


def test_demo_leaves_nothing_behind(played: tuple[dict[str, object], Path]) -> None:
    assert list(played[1].iterdir()) == []
    assert [path.name for path in played[1].parent.iterdir()] == ["tmp"]


def test_demo_with_the_console_leaves_nothing_behind_whichever_signals_end_it(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    with ThreadPoolExecutor() as pool:
        env = {"BROWSER": "true", "TMPDIR": str(made)}
        playing = pool.submit(at_terminal, tmp_path / "state", "demo", "--console", env=env, program=STARTED)
        until(lambda: playing.done() or list(made.glob("*/state/console/open-*.html")), 60)
        (demo,) = [one for one in _processes(made) if one.info["cmdline"][-1] == "--console"]
        for number in (signal.SIGTERM, signal.SIGINT):
            demo.send_signal(number)
        shown = playing.result()
    assert not list(made.iterdir()), shown
    assert not _processes(made)


def _processes(folder: Path) -> list[psutil.Process]:
    """Return the processes that have this folder for temporary files."""
    found = psutil.process_iter(["cmdline", "environ"])
    return [one for one in found if (one.info["environ"] or {}).get("TMPDIR") == str(folder)]


def test_check_fails_for_a_half_without_a_gate(tmp_path: Path) -> None:
    """Negative control: the demo's exit code 0 is not guaranteed."""
    half = perform(tmp_path / "world", None)
    assert isinstance(half, DemoResult)
    assert not half.right


def test_terminal_shows_both_halves_side_by_side(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    command = ("demo", "--state", str(kept), "--console")
    with ThreadPoolExecutor() as pool:
        playing = pool.submit(at_terminal, tmp_path / "state", *command, env={"BROWSER": "true"})
        until(lambda: playing.done() or list((kept / "console").glob("open-*.html")), 60)
        run(kept, "stop")
        shown = playing.result()
    assert shown.code == 0, shown
    assert "The console is open in your browser." in shown.text
    for words in (
        "without the gate",
        "with the gate",
        "Alice got 2 mails",
        "Alice got 1 mail",
        "1 of 2 edits lost",
        "came out right",
    ):
        assert words in shown.text
    assert run(tmp_path / "kept", "journal", "--verdict", "confirm").returncode == 0
    again = run(tmp_path / "state", "demo", "--state", str(tmp_path / "kept"))
    assert (again.returncode, "new or empty" in again.stderr) == (2, True)
