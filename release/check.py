"""Check what would be published: ``python -m release.check [--into dist] [-- PYTEST ARGUMENTS]``.

It builds the wheels and the source distribution, compares the version in every place that names it, has twine check
metadata and rendered description, and runs tests against the wheel in an environment of its own. It publishes nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Final

from release.wheels import ROOT, make

TESTS: Final = (
    "tests/acceptance/test_cli.py",
    "tests/acceptance/test_install.py",
    "tests/acceptance/test_local.py",
    "tests/acceptance/test_readme.py",
    "tests/unit/test_guards.py",
)
"""What runs against the wheel unless the command line names tests."""
_BESIDE: Final = ("tests", "docs", "examples", "README.md", "Makefile", "pyproject.toml")


def versions(root: Path) -> dict[str, str]:
    """Return the version that each file of the repository names."""
    module = (root / "callosum/__init__.py").read_text("utf-8")
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    released = re.search(r"^## \[(\d[^\]]*)\] - \d{4}-\d{2}-\d{2}$", changelog, re.MULTILINE)
    named = re.search(r'^__version__ = "([^"]+)"', module, re.MULTILINE)
    return {
        "pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"],
        "callosum/__init__.py": named[1] if named else "none",
        "clients/javascript/package.json": json.loads((root / "clients/javascript/package.json").read_text())[
            "version"
        ],
        "CHANGELOG.md": released[1] if released else "none",
    }


def faults(root: Path) -> list[str]:
    """Return what keeps the repository from being released, as sentences."""
    named = versions(root)
    found = []
    if len(set(named.values())) > 1:
        found.append("the versions differ: " + ", ".join(f"{path}: {version}" for path, version in named.items()))
    notes = root / "docs" / "releases" / f"{named['pyproject.toml']}.md"
    if not notes.exists():
        found.append(f"{notes.relative_to(root)}: there are no release notes")
    return found


def try_wheel(wheel: Path, tests: list[str]) -> int:
    """Run tests against the installed wheel, where the sources are not; return the exit code of pytest."""
    with tempfile.TemporaryDirectory(prefix="callosum-release-") as temporary:
        folder = Path(temporary)
        venv.create(folder / "venv", with_pip=True)
        python = str(folder / "venv" / "bin" / "python")
        extras = f"{wheel}[demo,dev,examples,fastmcp,mcp,opentelemetry,server]"
        subprocess.run([python, "-m", "pip", "install", "--quiet", extras], check=True)  # noqa: S603
        work = folder / "work"
        work.mkdir()
        for name in _BESIDE:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, work / name)
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(tests or TESTS)]
        return subprocess.run(command, cwd=work, check=False).returncode  # noqa: S603


def main() -> int:
    """Check everything; return 0 if it can be released."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--into", type=Path, default=ROOT / "dist")
    options.add_argument("tests", nargs="*")
    given = options.parse_args()
    if found := faults(ROOT):
        print("\n".join(found), file=sys.stderr)  # noqa: T201
        return 1
    shutil.rmtree(given.into, ignore_errors=True)
    archives = [str(path) for path in make(given.into)]
    checked = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *archives], check=False)  # noqa: S603
    if checked.returncode:
        return checked.returncode
    (wheel,) = given.into.glob("*-py3-none-any.whl")
    return try_wheel(wheel, given.tests)


if __name__ == "__main__":
    sys.exit(main())
