"""The direction of imports, by import-linter's contracts in pyproject.toml."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip


def test_imports_follow_the_contracts() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


def test_import_of_a_clock_in_the_policy_is_found(tmp_path: Path) -> None:
    """The negative control."""
    shutil.copytree(ROOT / "callosum", tmp_path / "callosum", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    table = tmp_path / "callosum" / "policy" / "table.py"
    table.write_text(table.read_text("utf-8") + "\nimport time\n", "utf-8")
    done = lint(tmp_path)
    assert done.returncode != 0
    assert "callosum.policy is not allowed to import time" in done.stdout
