"""Find a host's program and its version."""

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
"""Number of parent folders of the program that are searched for its package description."""


def find(program: str, environ: Mapping[str, str]) -> Path | None:
    """Return the program's path in the search path, or None."""
    path = shutil.which(program, path=environ.get("PATH"))
    return Path(path) if path else None


def version_of(executable: Path, package: str, environ: Mapping[str, str]) -> str:
    """Return the version as the program writes it, or "" if it is unknown.

    It is read from the program's package if there is one, which costs nothing. Otherwise the program is run.
    """
    resolved = executable.resolve()
    for folder in list(resolved.parents)[:_ABOVE]:
        try:
            package_json = json.loads((folder / "package.json").read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(package_json, dict) and package_json.get("name") == package:
            match = _VERSION.match(str(package_json.get("version")))
            return match[1] if match else ""
    try:
        result = subprocess.run(  # noqa: S603 - the user's own program
            [str(executable.absolute()), "--version"],
            cwd="/",  # programs read settings, and some of them code, in the folder in which they start
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            env=dict(environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = _VERSION.search(result.stdout.decode("utf-8", "replace"))
    return match[1] if match else ""


def numbers(version: str) -> tuple[int, ...]:
    """Return ``"2.1.330"`` as ``(2, 1, 330)``, and an empty tuple for anything else."""
    match = _VERSION.match(version)
    return tuple(map(int, match[1].split("."))) if match else ()
