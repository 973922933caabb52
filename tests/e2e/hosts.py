"""The real programs that the end-to-end tests drive: found beside the tests, or installed there once with npm."""

import fcntl
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
HOSTS = HERE / ".hosts"
SECONDS = 900.0
"""How long npm may take: the largest program has 400 MB."""


def installed(host: str) -> Path:
    """The folder in which the packages of ``tests/e2e/HOST/package.json`` are installed.

    Two test runs at once install them once. Without npm, or where npm fails, the tests fail with its words: a host
    that was not driven is not a host that is covered.
    """
    folder, wanted = HOSTS / host, (HERE / host / "package.json").read_text()
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / "package.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "node_modules").exists() and package.exists() and package.read_text() == wanted:
            return folder
        npm = shutil.which("npm")
        assert npm, f"{host} is not installed, and there is no npm to install it with"
        package.write_text(wanted)
        quiet = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(
            [npm, "install", *quiet], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if done.returncode:
            package.unlink()  # the next run tries again
            raise AssertionError(f"npm cannot install {host}: {done.stdout}{done.stderr}")
    return folder


def program_in(folder: Path, pattern: str) -> Path:
    """The one program of an installed host that fits, below ``node_modules``."""
    found = [path for path in (folder / "node_modules").glob(pattern) if path.is_file()]
    assert found, f"{folder.name} has no {pattern} in this version"
    return found[0]
