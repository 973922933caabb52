"""The campaign as a command: it finds planted faults, keeps them, and reports them with its exit code."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.campaign import ROOT
from fuzz.targets import TARGETS

MORE = ("--more", "tests.fuzz.planted")
needs_atheris = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris is not installed: it has no wheel for this machine"
)
WAYS = ["--plain", pytest.param("--jobs=1", marks=needs_atheris, id="atheris")]


def campaign(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fuzz", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=280
    )


def row(done: subprocess.CompletedProcess[str], name: str) -> list[str]:
    [found] = [line.split() for line in done.stdout.splitlines() if line.startswith(f"{name} ")]
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_planted_fault_is_found_kept_and_found_again(tmp_path: Path, way: str) -> None:
    done = campaign(
        way, *MORE, "--only", "planted-raises", "--runs", "5000", "--seconds", "60", "--crashes", str(tmp_path)
    )
    assert done.returncode == 1, done
    assert row(done, "planted-raises")[-1] == "1"
    assert "KeyError: 'planted'" in done.stdout
    [kept] = (tmp_path / "planted-raises").iterdir()
    assert kept.read_bytes() == b"B"  # only what is needed to show it
    again = campaign(*MORE, "--input", str(kept))
    assert (again.returncode, "KeyError: 'planted'" in again.stdout) == (1, True)


def test_short_campaign_finds_a_fault_planted_in_the_gate(tmp_path: Path) -> None:
    done = campaign("--minute", "--more", "tests.fuzz.broken", "--only", "broken-shell", "--crashes", str(tmp_path))
    assert done.returncode == 1, done
    assert int(row(done, "broken-shell")[-1]) >= 1
    assert "a dangerous command counts wherever it stands" in done.stdout


def test_short_campaign_tries_the_same_inputs_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = tmp_path / "planted-tells"
    seeds.mkdir()
    for number in range(20):
        (seeds / str(number)).write_bytes(bytes(range(number, 40)))
    told: list[list[str]] = []
    for words in (["--minute"], ["--minute", "--jobs=1"], ["--plain", "--runs=800", "--seed=2"]):
        path = tmp_path / f"told-{len(told)}"
        monkeypatch.setenv("TOLD", str(path))
        done = campaign(*words, *MORE, "--only", "planted-tells", "--crashes", str(tmp_path))
        assert done.returncode == 0, done
        told.append(path.read_text().splitlines())
    assert told[0] == told[1] != told[2]
    assert len(told[0]) == 800
    assert len(set(told[0])) > 700


def test_campaign_without_faults_succeeds(tmp_path: Path) -> None:
    done = campaign(
        "--plain", *MORE, "--only", "planted-holds", "--runs", "500", "--seconds", "60", "--crashes", str(tmp_path)
    )
    assert done.returncode == 0, done
    assert int(row(done, "planted-holds")[1].replace(",", "")) >= 500
    assert list(tmp_path.iterdir()) == []


@needs_atheris
def test_coverage_guided_campaign_succeeds(tmp_path: Path) -> None:
    done = campaign(
        "--jobs=1", *MORE, "--only", "sketch", "--runs", "500", "--seconds", "60", "--crashes", str(tmp_path)
    )
    assert done.returncode == 0, done
    executions, coverage = (int(column.replace(",", "")) for column in row(done, "sketch")[1:3])
    assert executions >= 500
    assert coverage > 0  # places of the gate's code that the seeds did not reach
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_process_that_dies_is_a_crash(tmp_path: Path, way: str) -> None:
    done = campaign(
        way, *MORE, "--only", "planted-dies", "--runs", "500", "--seconds", "60", "--crashes", str(tmp_path)
    )
    assert done.returncode == 1, done
    assert row(done, "planted-dies")[-1] == "1"
    assert "the process ended with" in done.stdout


@needs_atheris
def test_endless_input_is_a_crash_and_is_kept(tmp_path: Path) -> None:
    done = campaign(
        *MORE,
        "--only",
        "planted-hangs",
        "--runs",
        "500",
        "--seconds",
        "60",
        "--timeout",
        "2",
        "--crashes",
        str(tmp_path),
    )
    assert done.returncode == 1, done
    [kept] = (tmp_path / "planted-hangs").iterdir()
    assert kept.read_bytes()[0] % 4 == 3


def test_unknown_target_is_named() -> None:
    done = campaign("--only", "nothing")
    assert (done.returncode, "no such target: nothing" in done.stdout) == (2, True)


def test_short_campaign_is_part_of_make_test() -> None:
    done = subprocess.run(["make", "--dry-run", "test"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "python -m fuzz --minute" in done.stdout
    assert all(one.minute > 0 for one in TARGETS)


def test_campaign_without_atheris_reports_it_and_continues(tmp_path: Path) -> None:
    words = ["--only", "sketch", "--runs", "20", "--seconds", "30", "--crashes", str(tmp_path)]
    hidden = f"import sys; sys.modules['atheris'] = None; from fuzz.campaign import main; sys.exit(main({words!r}))"
    done = subprocess.run([sys.executable, "-c", hidden], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert "atheris is not installed here" in done.stdout
    assert int(row(done, "sketch")[1]) >= 20


def test_campaign_reports_what_it_does_without_coverage(tmp_path: Path) -> None:
    done = campaign("--plain", "--only", "sketch", "--runs", "50", "--seconds", "30", "--crashes", str(tmp_path))
    assert done.returncode == 0, done
    assert "led by no coverage" in done.stdout
    assert row(done, "sketch")[2] == "-"
