"""A host's program: where it is, and which version."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_VERSION: Final = re.compile(r"\b(\d{1,9}(?:\.\d{1,9}){1,3})\b")
_SECONDS: Final = 20.0
_ABOVE: Final = 4
"""So many folders above the program its package may describe itself."""


def find(program: str, environ: Mapping[str, str]) -> Path | None:
    """Where the program is in the search path, None if it is not."""
    found = shutil.which(program, path=environ.get("PATH"))
    return Path(found) if found else None


def version_of(found: Path, package: str, environ: Mapping[str, str]) -> str:
    """Its version as it writes it, "" if it cannot be found out.

    Read from its package where it came in one, which costs nothing; else it is asked.
    """
    real = found.resolve()
    for folder in list(real.parents)[:_ABOVE]:
        try:
            described = json.loads((folder / "package.json").read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(described, dict) and described.get("name") == package:
            said = _VERSION.match(str(described.get("version")))
            return said[1] if said else ""
    try:
        asked = subprocess.run(  # noqa: S603 - the program that the user has
            [str(found.absolute()), "--version"],
            cwd="/",  # programs read settings, and some of them code, in the folder in which they start
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            env=dict(environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    told = _VERSION.search(asked.stdout.decode("utf-8", "replace"))
    return told[1] if told else ""


def numbers(version: str) -> tuple[int, ...]:
    """``"2.1.330"`` as ``(2, 1, 330)``; what is no version is empty."""
    found = _VERSION.match(version)
    return tuple(map(int, found[1].split("."))) if found else ()
