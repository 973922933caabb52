"""Break a promise on purpose and see whether its tests notice: ``make mutants``.

Copies the repository to a temporary folder, runs the tests of the chosen promises there once without a change, which
must pass, and then once for each mutant of ``mutants.toml``. A mutant is killed if a test of its promise fails. A test
that cannot be collected, or whose fixture raises, does not count as a failure, nor does an import that fails.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree as ET

from tests.mutants.table import ROOT, Mutant, mutants, mutated
from tests.unit.test_promises_pinned import Row, rows

SECONDS: Final = 300
"""Seconds that the tests of one mutant may take."""
CONTROL_SECONDS: Final = 1800
"""Seconds that all tests may take on the unchanged copy."""
SECONDS_A_TEST: Final = 120
"""Seconds after which a single test that hangs fails."""
NO_KILL: Final = ("ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "NameError")
"""Errors that show a mutant that does not run, not a promise that is broken."""
UNTRACKED: Final = "callosum/hosts/native/*/callosum-hook*"
"""The native hook client, which `make native` builds: the copy has it if this tree has it."""


class Result(NamedTuple):
    """What one run of pytest reported: its exit code, the names of the tests that passed or failed, and its output.

    Tests with an error or a skip are in neither list.
    """

    code: int
    passed: tuple[str, ...]
    failed: tuple[str, ...]
    output: str


class Copy:
    """A copy of the repository with a virtual environment of its own, whose package every child process imports."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "callosum"
        self.python = self.root / ".venv" / "bin" / "python"
        self._written = time.time()
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout
        names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
        for name in (*names, *(str(path.relative_to(ROOT)) for path in ROOT.glob(UNTRACKED))):
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)
        self._make_environment()
        self._prove_import()

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        path = f"{self.python.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
        return kept | {"PYTHONPATH": str(self.root), "VIRTUAL_ENV": str(self.root / ".venv"), "PATH": path}

    def _make_environment(self) -> None:
        """Make a virtual environment that imports the package of the copy and, after it, what is installed here."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.root / ".venv"], check=True)
        (packages,) = (self.root / ".venv").glob("lib/python*/site-packages")
        installed = [path for path in sys.path if path.endswith("-packages")]
        (packages / "copy.pth").write_text("\n".join((str(self.root), *installed, "")), "utf-8")
        for program in Path(sys.executable).parent.iterdir():
            made = self.python.with_name(program.name)
            if made.exists() or program.is_symlink() or not program.is_file():
                continue
            head, _, rest = program.read_bytes().partition(b"\n")
            if head.startswith(b"#!") and b"python" in head:
                made.write_bytes(b"#!" + os.fsencode(self.python) + b"\n" + rest)
                made.chmod(0o755)

    def _prove_import(self) -> None:
        """Check that the package of the copy is imported, with ``PYTHONPATH`` and in a process that ignores it.

        Raises ``RuntimeError`` if another package is imported.
        """
        for isolated in ((), ("-I",)):
            command = [str(self.python), *isolated, "-c", "import callosum; print(callosum.__file__)"]
            done = subprocess.run(command, cwd="/", env=self.environ, capture_output=True, text=True, check=True)
            if done.stdout.strip() != str(self.root / "callosum" / "__init__.py"):
                raise RuntimeError(f"the copy in {self.root} is not what is imported, but {done.stdout.strip()}")

    def write(self, file: str, text: str) -> None:
        """Write a file of the copy, later than any compiled form of it."""
        path = self.root / file
        path.write_text(text, "utf-8")
        self._written += 2  # a compiled file is valid for a second of its source
        os.utime(path, (self._written, self._written))

    def run(self, tests: Iterable[str], seconds: float, *options: str) -> Result:
        report = self.root.with_name("report.xml")
        report.unlink(missing_ok=True)
        command: list[str | Path] = [
            *(self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line"),
            *("-o", f"timeout={SECONDS_A_TEST}", f"--junitxml={report}", *options, *tests),
        ]
        with subprocess.Popen(
            command, cwd=self.root, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output = process.communicate()[0] + f"\nended after {seconds:.0f} seconds"
        passed, failed = outcomes(report.read_text("utf-8")) if report.exists() else ((), ())
        return Result(process.returncode, passed, failed, output)


def outcomes(report: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the tests that passed and of those that failed, from pytest's report in JUnit's format.

    Errors and skips are neither, and a failure that an import or a name of the mutant caused counts as an error.
    """
    passed, failed = [], []
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - pytest has just written it
        name, failure = case.get("name", ""), case.find("failure")
        if failure is not None and not failure.get("message", "").startswith(NO_KILL):
            failed.append(name)
        elif not any(case.find(tag) is not None for tag in ("failure", "error", "skipped")):
            passed.append(name)
    return tuple(passed), tuple(failed)


def chosen(ids: Sequence[str]) -> list[Mutant]:
    """Return the mutants of the promises with these ids, or all. Raises ``SystemExit`` for an id without a mutant."""
    table = mutants()
    if unknown := sorted(set(ids) - {mutant.promise for mutant in table}):
        raise SystemExit(f"mutants: no mutant for {', '.join(unknown)}; {len(table)} are in tests/mutants/mutants.toml")
    return [mutant for mutant in table if not ids or mutant.promise in ids]


def tests_of(selection: Iterable[Mutant], promises: dict[str, Row]) -> list[str]:
    return list(dict.fromkeys(test for mutant in selection for test in promises[mutant.promise].tests))


def control(copy: Copy, tests: Sequence[str]) -> bool:
    """Run all tests on the unchanged copy: the negative control. Return True if they pass."""
    began = time.monotonic()
    result = copy.run(tests, CONTROL_SECONDS, "-n", "2", "--dist", "worksteal")
    functions = {name.partition("[")[0] for name in result.passed}
    missing = [test for test in tests if test.rpartition("::")[2] not in functions]
    if result.code or missing:
        print(f"the tests do not pass on the unchanged copy; missing or skipped: {missing}\n{result.output}")
        return False
    print(f"unchanged: {len(result.passed)} tests pass, {time.monotonic() - began:.0f} s", flush=True)
    return True


def killer_in(result: Result) -> str:
    """Return the test that killed a mutant, or "" if none did. Other exit codes than 1 are errors of the run."""
    return result.failed[0] if result.code == 1 and result.failed else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("promises", nargs="*", help="ids of promises, such as p-turns; all by default")
    parser.add_argument("--no-control", action="store_true", help="skip the run on the unchanged copy")
    given = parser.parse_args()
    selection, promises = chosen(given.promises), rows()
    try:
        for mutant in selection:
            mutated(mutant, ROOT)
    except ValueError as error:
        raise SystemExit(f"mutants: {error}") from error
    survivors = []
    with tempfile.TemporaryDirectory(prefix="callosum-mutants-") as folder:
        copy = Copy(Path(folder).resolve())
        if not given.no_control and not control(copy, tests_of(selection, promises)):
            return 1
        print("\n| promise | mutant | killed by | seconds |\n|---|---|---|--:|", flush=True)
        for mutant in selection:
            began = time.monotonic()
            original = (copy.root / mutant.file).read_text("utf-8")
            copy.write(mutant.file, mutated(mutant, copy.root))
            try:
                result = copy.run(promises[mutant.promise].tests, SECONDS, "-n", "0", "-x")
            finally:
                copy.write(mutant.file, original)
            killer = killer_in(result)
            took = f"{time.monotonic() - began:.0f}"
            print(f"| {mutant.promise} | {mutant.breaks} | {killer or '**nothing**'} | {took} |", flush=True)
            if not killer:
                survivors.append((mutant, result))
    for mutant, result in survivors:
        print(f"\n{mutant.name} survived (exit code {result.code}):\n{result.output[-3000:]}")
    print(f"\n{len(selection) - len(survivors)} of {len(selection)} mutants were killed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
