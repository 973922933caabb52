"""The benchmark's own arithmetic, and that its cases still fit the gate. Nothing is measured here."""

import itertools
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench import run, versions
from bench.harness import Case, Line, Measured, percentile, side_by_side

README = Path(run.__file__).parent / "README.md"


def test_a_ratio_is_taken_within_each_round() -> None:
    """The machine was twice as slow in the second round: the ratio does not notice."""
    mine, theirs = Measured((10, 40, 30)), Measured((20, 80, 30))
    assert mine.over(theirs) == 0.5
    assert mine.above(theirs) == -10
    assert mine.median == 30


def test_every_case_runs_in_every_round_and_counts_on() -> None:
    seen: dict[str, list[int]] = {"a": [], "b": []}
    cases = [Case("a", seen["a"].append, 4), Case("b", seen["b"].append, 1)]
    found = side_by_side(cases, 3)
    assert seen == {"a": list(range(2 + 3 * 4)), "b": list(range(1 + 3))}
    assert Counter(map(len, (found["a"].rounds, found["b"].rounds))) == {3: 2}


@pytest.mark.parametrize(
    ("line", "met"),
    [
        (Line("x", 1.0, "x"), None), (Line("x", 1.0, "x", 1.0), True), (Line("x", 1.1, "x", 1.0), False),
        (Line("x", 10, "x", 10, "at least"), True), (Line("x", 9, "x", 10, "at least"), False),
    ],
)  # fmt: skip
def test_a_target_is_met_or_missed(line: Line, met: bool | None) -> None:
    assert line.met is met


def test_percentile_is_computed() -> None:
    assert percentile([3, 1, 2, 4], 0.5) == 3
    assert percentile(range(100), 0.99) == 99
    assert percentile([7], 0.999) == 7


def test_command_of_the_bench_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run.main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert all(name in told for name in run.CASES)


FIGURES = re.compile(
    r"^\|(?P<name>[^|]+)\|(?:[^|]+\|)?\s*(?P<figure>-?[\d,.]+) (?P<unit>[^|]*)\|\s*(?P<sense>at most|at least) (?P<target>[\d.]+)\s*"
    r"\|(?P<verdict>[^|]*)\|$",
    re.MULTILINE,
)


def test_the_page_says_miss_where_a_target_is_missed() -> None:
    """The text in the README beside each target follows from the figure."""
    page = README.read_text()
    rows = [row.groupdict() for row in FIGURES.finditer(page)]
    targets = [line for line in page.splitlines() if line.startswith("|") and re.search(r"\| at (most|least) ", line)]
    assert len(rows) == len(targets) > 50
    wrong = []
    for row in rows:
        figure, target = float(row["figure"].replace(",", "")), float(row["target"])
        line = Line(row["name"], figure, row["unit"], target, "at least" if row["sense"] == "at least" else "at most")
        if ("**miss**" in row["verdict"]) is line.met or ("pass" in row["verdict"]) is not line.met:
            wrong.append(row)
    assert wrong == []


def test_every_group_has_its_table_and_its_command() -> None:
    page = README.read_text()
    for name in run.CASES:
        assert f"\n| {name} | figure | target | |\n" in page, f"{name} has no figures"
        assert f"\n| `{name}` | " in page, f"{name} is not in the list of groups"


def test_interval_covers_the_median_in_95_of_100_samples() -> None:
    chance = random.Random(1)
    samples = [[chance.random() for _ in range(25)] for _ in range(2000)]
    covered = sum(low <= 0.5 <= high for low, high in map(versions.interval, samples))
    assert 0.94 <= covered / len(samples) <= 0.98
    assert versions.interval([3.0, 1.0, 2.0]) == (1.0, 3.0)


def test_versions_are_compared_within_each_round() -> None:
    """Both versions become slower from round to round; this tree takes twice as long throughout."""
    before, after = itertools.count(1), itertools.count(1)
    cases = {"case": (lambda: float(next(before)), lambda: 2.0 * next(after))}
    assert versions.compare(cases, 5) == {"case": [2.0] * 5}


def test_calls_of_this_tree_run_in_a_process_of_their_own(tmp_path: Path) -> None:
    with versions.Blocks(versions._this(tmp_path), str(tmp_path / "gate")) as blocks:
        assert all(blocks.run(kind) > 0 for kind in versions.KINDS)


def test_fresh_shell_lines_of_this_tree_are_classified_in_a_process_of_their_own(tmp_path: Path) -> None:
    with versions.Blocks(versions._this(tmp_path), versions.FRESH) as blocks:
        assert all(blocks.run(versions.FRESH) > 0 for _ in range(2))


def test_blocks_need_of_an_earlier_version_only_what_every_version_has(tmp_path: Path) -> None:
    (tmp_path / "callosum").mkdir()
    (tmp_path / "callosum" / "__init__.py").write_text("Call = LocalGate = CallosumClient = dict")
    (tmp_path / "callosum" / "settings.py").write_text("Settings = dict")
    (tmp_path / "bench").symlink_to(README.parent)
    done = subprocess.run(
        [sys.executable, "-m", "bench.versions", "--serve-blocks", "gate"],
        cwd=tmp_path,
        env=versions._environment(tmp_path),
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_peer_with_a_transaction_for_each_request_syncs_in_its_commits(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, bench.one_by_one as peer", "from callosum.stores.sqlite import SqliteStore",
        "peer.change()", "store = SqliteStore(pathlib.Path(sys.argv[1]))",
        "print(*store.engine.connections.get().execute('pragma synchronous').fetchone())", "store.close()",
    )  # fmt: skip
    command = [sys.executable, "-c", "\n".join(code), str(tmp_path / "gate.db")]
    done = subprocess.run(command, cwd=README.parent.parent, capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"
