"""Build everything that is published: a wheel for each platform with its hook client, the pure wheel, the sdist.

::

    python -m release.wheels [--into dist]

The same sources make the same bytes: times in archives are ``SOURCE_DATE_EPOCH``, by default that of the last commit.
``SHA256SUMS`` beside them records the hashes, in the form that ``sha256sum --check`` reads.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from release.client import PLATFORMS, build

ROOT: Final = Path(__file__).parent.parent
SUMS: Final = "SHA256SUMS"


def make(into: Path) -> list[Path]:
    """Build all into the folder, beside their hashes; return the paths, sorted."""
    into.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "SOURCE_DATE_EPOCH": _epoch()}
    with tempfile.TemporaryDirectory(prefix="callosum-wheels-") as made:
        folder = Path(made)
        clients, fresh = folder / "clients", folder / "dist"
        _built("sdist", fresh, environ)
        _built("wheel", fresh, environ)
        for name, platform in PLATFORMS.items():
            build(name, clients)
            chosen = {
                "CALLOSUM_WHEEL": name,
                "CALLOSUM_WHEEL_TAG": platform.tag,
                "CALLOSUM_WHEEL_CLIENTS": str(clients),
            }
            _built("wheel", fresh, {**environ, **chosen})
        paths = [Path(shutil.copy(path, into / path.name)) for path in sorted(fresh.iterdir()) if path.is_file()]
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths)
    (into / SUMS).write_text(sums)
    return paths


def _built(target: str, into: Path, environ: Mapping[str, str]) -> None:
    words = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    subprocess.run(words, cwd=ROOT, env=dict(environ), check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def _epoch() -> str:
    """Return the time that archives give to their files, in Unix seconds."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    asked = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False  # noqa: S607
    )  # fmt: skip
    return asked.stdout.strip() or "1767225600"


def main() -> None:
    """Build what the command line asks for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--into", type=Path, default=ROOT / "dist")
    into = options.parse_args().into
    make(into)
    print((into / SUMS).read_text(), end="")  # noqa: T201


if __name__ == "__main__":
    main()
