"""Build everything that is published: one wheel per platform with its hook client, the pure wheel, and the sdist.

::

    python -m release.wheels [--into dist]

The same sources produce the same bytes: files in archives have the time ``SOURCE_DATE_EPOCH``, by default the time of
the last commit. ``SHA256SUMS`` beside the archives lists their hashes in the format of ``sha256sum --check``.
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
    """Build everything into the folder, together with the hashes. Return the sorted paths."""
    into.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "SOURCE_DATE_EPOCH": _epoch()}
    with tempfile.TemporaryDirectory(prefix="callosum-wheels-") as temporary:
        folder = Path(temporary)
        clients, built = folder / "clients", folder / "dist"
        build_archive("sdist", built, environ)
        build_archive("wheel", built, {**environ, "CALLOSUM_WHEEL": "pure"})
        for name, platform in PLATFORMS.items():
            build(name, clients)
            variables = {
                "CALLOSUM_WHEEL": name,
                "CALLOSUM_WHEEL_TAG": platform.tag,
                "CALLOSUM_WHEEL_CLIENTS": str(clients),
            }
            build_archive("wheel", built, {**environ, **variables})
        paths = [Path(shutil.copy(path, into / path.name)) for path in sorted(built.iterdir()) if path.is_file()]
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths)
    (into / SUMS).write_text(sums)
    return paths


def build_archive(target: str, into: Path, environ: Mapping[str, str]) -> None:
    """Build a wheel or an sdist of the repository. ``release.hatch_build`` lists its variables."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    subprocess.run(words, cwd=ROOT, env=dict(environ), check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def _epoch() -> str:
    """Return the time of the files in archives, in Unix seconds."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    process = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False  # noqa: S607
    )  # fmt: skip
    return process.stdout.strip() or "1767225600"


def main() -> None:
    """Build as the command line asks."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--into", type=Path, default=ROOT / "dist")
    into = options.parse_args().into
    make(into)
    print((into / SUMS).read_text(), end="")  # noqa: T201


if __name__ == "__main__":
    main()
