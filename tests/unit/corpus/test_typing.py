"""A type checker rejects wrong use of the bus, a gate and the adapters: mypy itself says so, line by line.

The snippets are in ``tests/typing``. ``# E:`` is the error that mypy must report for a line, ``# N:`` the type it must
find there. It must report nothing for any other line.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import mypy.api
import pytest

ROOT = Path(__file__).resolve().parents[3]
SNIPPETS = sorted(ROOT.glob("tests/typing/*.txt"))
MARK = re.compile(r"# ([EN]): (.+)$")
SAID = re.compile(r"(.+?):(\d+): (error|note): (.+)")

Said = Mapping[int, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """Return mypy's reports for all snippets, by name: errors (E) and notes (N) for each line."""
    folder = tmp_path_factory.mktemp("typing")
    for snippet in SNIPPETS:
        (folder / f"{snippet.stem}.py").write_text(snippet.read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        out, err, _ = mypy.api.run(
            [
                *("--strict", "--no-pretty", "--no-color-output", "--hide-error-context"),
                *("--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(folder / "cache")),
                *(str(folder / f"{snippet.stem}.py") for snippet in SNIPPETS),
            ]
        )
    assert not err
    found: dict[str, dict[int, list[tuple[str, str]]]] = {snippet.stem: {} for snippet in SNIPPETS}
    for line in out.splitlines():
        said = SAID.fullmatch(line)
        if said is None:
            assert line.startswith("Found "), line
            continue
        assert Path(said[1]).parent == folder, f"mypy complains of the package itself: {line}"
        found[Path(said[1]).stem].setdefault(int(said[2]), []).append((said[3][0].upper(), said[4]))
    return dict(found)


def wrong(text: str, said: Said) -> list[str]:
    """Return the lines for which mypy reports something other than the marks."""
    marks = {number: mark.groups() for number, line in enumerate(text.splitlines(), 1) if (mark := MARK.search(line))}
    found = [
        f"line {number}: expected {expected!r}, mypy says {said.get(number)}"
        for number, (sort, expected) in marks.items()
        if not any(kind == sort and expected in told for kind, told in said.get(number, ()))
    ]
    for number, told in said.items():
        errors = [one for kind, one in told if kind == "E"]
        if errors and marks.get(number, ("",))[0] != "E":
            found.append(f"line {number}: expected nothing, mypy says {errors}")
    return found


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.stem)
def test_mypy_reports_the_errors_marked_in_the_snippet(reports: Mapping[str, Said], snippet: Path) -> None:
    assert wrong(snippet.read_text(), reports[snippet.stem]) == []


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.stem)
def test_missing_mypy_error_is_noticed(snippet: Path) -> None:
    assert len(wrong(snippet.read_text(), {})) > 0


def test_unmarked_mypy_error_is_noticed() -> None:
    text = "good()\nbad()  # E: no such\n"
    assert wrong(text, {2: [("E", "no such thing")]}) == []
    assert wrong(text, {2: [("E", "another")]}) != []
    assert wrong(text, {2: [("N", "no such thing")]}) != []
    assert wrong(text, {1: [("E", "no such thing")], 2: [("E", "no such thing")]}) != []


def test_snippets_exist() -> None:
    names = {"accepted", "adapters", "emitting", "operating", "payloads", "subscribing"}
    assert {snippet.stem for snippet in SNIPPETS} == names
