"""``python -m bench.replay``: recorded traffic through the gate, by several session processes."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from callosum import Call, LocalGate
from tests.acceptance.command import ROOT, run

TRACES = ROOT.parent / "shared" / "data" / "traces.jsonl"


def recorded(tool: str, task: str, error: str | None = None, source: str = "s", **args: object) -> str:
    return json.dumps({"source": source, "suite": "u", "task": task, "tool": tool, "args": args, "error": error})


def replayed(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.replay", *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=240)


def report_of(tmp_path: Path, *words: object) -> dict[str, Any]:
    shown = replayed(*words, "--json", tmp_path / "report.json")
    assert shown.returncode == 0, shown
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    return report


def file_of(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "calls.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_replay_reports_what_the_gate_said_and_passes_on_what_was_recorded(tmp_path: Path) -> None:
    send = {"action": "send", "target": "andy", "replyTo": "1"}
    path = file_of(
        tmp_path,
        recorded("write", "one", path="/a", content="1"),
        "{broken",
        recorded("write", "two", path="/a", content="2"),
        recorded("message", "one", **send, message="hello"),
        '{"tool": "x"}',
        "",
        recorded("message", "two", **send, message="other words"),
        recorded("message", "three", "Error: refused", **{**send, "target": "zoe"}, message="hello"),
        '{"tool": "a\\u0007b", "args": {}}',
    )
    report = report_of(tmp_path, path, "--sessions", "2", "--state", tmp_path / "kept")
    assert (report["calls"], report["tiers"], sum(report["verdicts"].values())) == (5, {"1": 2, "3": 3}, 5)
    assert [(one["line"], one["file"]) for one in report["brokenLines"]] == [(line, str(path)) for line in (2, 5, 9)]
    assert report["callsPerSecond"] > 0
    assert report["decisionMs"]["p99"] >= report["decisionMs"]["p50"] > 0
    lines = [json.loads(line) for line in run(tmp_path / "kept", "journal", "--json", "-n", "0").stdout.splitlines()]
    ended = Counter(line["outcome"] for line in lines if line["event"] == "complete" and line["tier"] == 3)
    assert ended == {"done": 2, "failed": 1}


def test_replay_reports_for_each_source_how_many_calls_got_a_key(tmp_path: Path) -> None:
    path = file_of(
        tmp_path,
        recorded("write", "one", source="files", path="/a", content="1"),
        recorded("read", "two", source="files", path="/a"),
        recorded("Bash", "three", source="shell", command="rm -rf /srv/x"),
        recorded("Bash", "three", source="shell", command="uptime"),
        recorded("zorble", "four", source="odd"),
    )
    report = report_of(tmp_path, path, "--sessions", "1")
    counts = {name: tuple(one[each] for each in report["keys"]) for name, one in report["sources"].items()}
    assert counts == {"files": (2, 2, 1, 1), "shell": (2, 1, 1, 1), "odd": (1, 0, 1, 0)}
    assert report["keys"] == {"calls": 5, "keyed": 3, "writes": 3, "keyedWrites": 2}
    shown = replayed(path, "--sessions", "1").stdout
    assert "all: 3 of 5 calls got a key, 2 of the 3 that write" in shown
    assert "files: 2 of 2 calls got a key, 1 of the 1 that write" in shown


def test_with_pause_each_session_repeats_once(tmp_path: Path) -> None:
    """One session, and a change that was there before it: the pause and its repeat do not depend on timing."""
    with LocalGate(tmp_path / "kept") as gate:
        before = gate.intercept(Call("doug", "write", {"path": __file__, "content": "doug's"}))
        gate.complete("doug", id=before.id)
    path = file_of(tmp_path, recorded("edit", "task", path=__file__, old_string="doug's", new_string="another's"))
    report = report_of(tmp_path, path, "--sessions", "1", "--pause", "--state", tmp_path / "kept")
    assert report["conflicts"]["stale"] == report["verdicts"]["confirm"] == report["confirmed"] == 1


def test_file_without_any_call_and_store_that_is_none_end_the_replay(tmp_path: Path) -> None:
    nothing = replayed(file_of(tmp_path, "nothing", "of use"))
    assert (nothing.returncode, nothing.stderr) == (2, "there is no call in these files\n")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "gate.db").write_text("not a database")
    shown = replayed(file_of(tmp_path, recorded("write", "one", path="/a")), "--state", tmp_path / "kept")
    assert (shown.returncode, "Traceback" in shown.stderr) == (2, False), shown


@pytest.mark.skipif(not TRACES.exists(), reason=f"the recorded traffic is not there: {TRACES}")
def test_real_traffic_runs_through_without_an_error(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in TRACES.read_text().splitlines()]
    report = report_of(tmp_path, TRACES, "--sessions", "8")
    assert (report["calls"], report["brokenLines"], report["refused"]) == (len(rows), [], [])
    assert sum(report["tiers"].values()) == sum(report["verdicts"].values()) == len(rows)
    assert {name: one["calls"] for name, one in report["sources"].items()} == Counter(row["source"] for row in rows)
    assert all(0 < one["keyed"] <= one["calls"] for one in report["sources"].values())
