"""Recorded traffic through the gate, by several session processes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from callosum import Call, LocalGate
from tests.acceptance.command import ROOT, run

TRACES = ROOT.parent / "shared" / "data" / "traces.jsonl"


def recorded(tool: str, task: str, error: str | None = None, source: str | None = "s", **args: object) -> str:
    return json.dumps(
        {
            **({} if source is None else {"source": source}),
            "suite": "u",
            "task": task,
            "call_index": 0,
            "tool": tool,
            "args": args,
            "state_changed": None,
            "error": error,
        }
    )


@pytest.fixture
def traffic(tmp_path: Path) -> Path:
    path = tmp_path / "calls.jsonl"
    path.write_text(
        "\n".join(
            [
                recorded("write", "one", path="/a", content="1"),
                "{broken",
                recorded("write", "two", path="/a", content="2"),
                recorded("message", "one", action="send", target="andy", replyTo="1", message="hello"),
                '{"tool": "x"}',
                "",
                recorded("message", "two", action="send", target="andy", replyTo="1", message="other words"),
                recorded(
                    "message", "three", "Error: refused", action="send", target="zoe", replyTo="1", message="hello"
                ),
                '{"tool": "a\\u0007b", "args": {}}',
            ]
        )
    )
    return path


def test_a_replay_reports_what_the_gate_said(tmp_path: Path, traffic: Path) -> None:
    shown = run(tmp_path / "state", "replay", str(traffic), "--sessions", "2", "--json", "-")
    assert shown.returncode == 0, shown
    report = json.loads(shown.stdout)
    assert (report["calls"], report["tasks"], report["sessions"]) == (5, 3, 2)
    assert report["tiers"] == {"1": 2, "3": 3}
    assert sum(report["verdicts"].values()) == 5
    assert [(one["line"], one["file"]) for one in report["brokenLines"]] == [
        (2, str(traffic)),
        (5, str(traffic)),
        (9, str(traffic)),
    ]
    assert report["callsPerSecond"] > 0
    assert report["decisionMs"]["p99"] >= report["decisionMs"]["p50"] > 0
    assert not (tmp_path / "state").exists()


def keys_of(report: dict[str, Any], source: str) -> tuple[int, int, int, int]:
    [one] = [one for one in report["sources"] if one["source"] == source]
    return one["calls"], one["keyed"], one["writes"], one["keyedWrites"]


def test_replay_reports_for_each_source_how_many_calls_got_a_key(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(
        "\n".join(
            [
                recorded("write", "one", source="files", path="/a", content="1"),
                recorded("read", "two", source="files", path="/a"),
                recorded("Bash", "three", source="shell", command="rm -rf /srv/x"),
                recorded("Bash", "three", source="shell", command="uptime"),
                recorded("zorble", "four", source="odd"),
            ]
        )
    )
    report = json.loads(run(tmp_path / "state", "replay", str(path), "-s", "1", "--json", "-").stdout)
    assert keys_of(report, "files") == (2, 2, 1, 1)
    assert keys_of(report, "shell") == (2, 1, 1, 1)
    assert keys_of(report, "odd") == (1, 0, 1, 0)
    assert report["keys"] == {
        "calls": 5, "keyed": 3, "share": 0.6, "writes": 3, "keyedWrites": 2, "writesShare": 0.6667,
    }  # fmt: skip
    for one in report["sources"]:
        assert sum(one["verdicts"].values()) == one["calls"]
    shown = run(tmp_path / "state", "replay", str(path), "-s", "1").stdout
    assert "3 of 5 calls got a key (60.0 %), 2 of the 3 that write (66.7 %)" in " ".join(shown.split())
    [row] = [line.split() for line in shown.splitlines() if line.strip().startswith("files")]
    assert row[:7] == ["files", "2", "100.0", "%", "1", "100.0", "%"]


def test_traffic_without_sources_is_counted_as_one(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(recorded("read", "one", source=None, path="/a") + "\n" + recorded("zorble", "one", source=None))
    shown = run(tmp_path / "state", "replay", str(path), "-s", "1").stdout
    assert "1 of 2 calls got a key (50.0 %), 0 of the 1 that write (0.0 %)." in shown
    assert "with a key" not in shown


def test_replay_uses_the_given_state_folder_and_reports_the_recorded_outcome(tmp_path: Path, traffic: Path) -> None:
    kept = tmp_path / "kept"
    shown = run(
        tmp_path / "state",
        "replay",
        str(traffic),
        "-s",
        "1",
        "--state",
        str(kept),
        "--json",
        str(tmp_path / "report.json"),
    )
    assert shown.returncode == 0, shown
    assert "5 calls of 3 tasks" in shown.stdout
    assert f"{traffic}:2: " in shown.stdout
    assert json.loads((tmp_path / "report.json").read_text())["calls"] == 5
    lines = [json.loads(line) for line in run(kept, "journal", "--json", "-n", "0").stdout.splitlines()]
    assert [line["outcome"] for line in lines if line["event"] == "complete" and line["tier"] == 3] == [
        "done",
        "done",
        "failed",
    ]


def test_with_pause_each_session_repeats_once(tmp_path: Path) -> None:
    """One session, and a change that was there before it: the pause and its repeat do not depend on timing."""
    kept = tmp_path / "kept"
    with LocalGate(kept) as gate:
        before = gate.intercept(Call("doug", "write", {"path": "/a", "content": "doug's"}))
        gate.complete("doug", id=before.id)
    path = tmp_path / "calls.jsonl"
    path.write_text(recorded("edit", "task", path="/a", old_string="doug's", new_string="another's"))
    asked = ("replay", str(path), "-s", "1", "--pause", "--state", str(kept), "--json", "-")
    report = json.loads(run(tmp_path / "state", *asked).stdout)
    assert report["conflicts"]["stale"] == report["verdicts"]["confirm"] == report["confirmed"] == 1


def test_a_file_without_any_call_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text("nothing\nof use\n")
    assert run(tmp_path / "state", "replay", str(path)).returncode == 2


def test_unreachable_store_ends_the_replay(tmp_path: Path, traffic: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "gate.db").write_text("not a database")
    shown = run(tmp_path / "state", "replay", str(traffic), "--state", str(tmp_path / "kept"), "--json", "-")
    assert (shown.returncode, "Traceback" in shown.stderr) == (3, False), shown


@pytest.mark.skipif(not TRACES.exists(), reason=f"the recorded traffic is not there: {TRACES}")
def test_real_traffic_runs_through_without_an_error(tmp_path: Path) -> None:
    count = len(TRACES.read_text().splitlines())
    report = json.loads(run(tmp_path / "state", "replay", str(TRACES), "--sessions", "8", "--json", "-").stdout)
    assert (report["calls"], report["brokenLines"], report["refused"]) == (count, [], [])
    assert sum(report["tiers"].values()) == sum(report["verdicts"].values()) == count
    by_source = Counter(json.loads(line)["source"] for line in TRACES.read_text().splitlines())
    assert {one["source"]: one["calls"] for one in report["sources"]} == by_source
    assert sum(one["keyed"] for one in report["sources"]) == report["keys"]["keyed"]
    assert all(0 < one["keyed"] <= one["calls"] for one in report["sources"])
