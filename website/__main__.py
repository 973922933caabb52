"""Build the site into ``build/site``: ``python -m website``. Any warning fails the build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from website.reference import write_reference
from website.staging import stage

ROOT: Final = Path(__file__).parents[1]
STAGED: Final = "build/pages"  # as mkdocs.yml has it


def build(root: Path, target: Path) -> int:
    """Stage the pages of ``root``, generate the reference and render both; return the exit code of MkDocs."""
    stage(root, root / STAGED)
    write_reference(root / STAGED / "reference")
    return render(root, target)


def render(root: Path, target: Path) -> int:
    """Render the staged pages by ``mkdocs.yml`` of ``root``; return the exit code of MkDocs, not 0 after a warning."""
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(root / "mkdocs.yml"))
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run((*command, "--site-dir", str(target)), check=False, cwd=root, env=environment)  # noqa: S603
    return done.returncode


if __name__ == "__main__":
    code = build(ROOT, ROOT / "build" / "site")
    if code == 0:
        print("The site is in build/site: open build/site/index.html.")  # noqa: T201
    sys.exit(code)
