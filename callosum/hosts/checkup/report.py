"""Pass problems that ``doctor`` found to the corpus of a running server.

The file is in the state folder, which belongs to the user alone and which the gate guards, so no host can forge it. The
process that takes the file emits the events: the server, whose listeners then receive them, or ``doctor`` if no server
does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from callosum.corpus.events import HealthCritical
from callosum.hosts import files
from callosum.hosts.checkup.finding import Finding

FILE: Final = "checkup.json"
WANTED: Final = "every call asks the gate"
_LONGEST: Final = 1_000_000


def leave(state: Path, wrong: Sequence[Finding], namespace: str) -> None:
    """Write the problems of hosts to the file. Raises ``ConfigError`` if it cannot be written."""
    problems = [{"host": finding.host, "says": f"{finding.check}: {finding.says}"} for finding in wrong]
    content = json.dumps({"namespace": namespace, "wrong": problems}).encode() + b"\n"
    files.write(state / FILE, content, 0o600)


def take(state: Path) -> list[HealthCritical]:
    """Remove the file and return its events, or none if there is no file."""
    own_path = state / f"{FILE}.{os.getpid()}"
    try:
        (state / FILE).rename(own_path)
    except OSError:
        return []
    try:
        with own_path.open("rb") as file:
            report = json.loads(file.read(_LONGEST))
        return [
            HealthCritical(
                f"host:{problem['host']}", str(problem["says"])[:500], WANTED, namespace=str(report["namespace"])
            )
            for problem in report["wrong"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    finally:
        with suppress(OSError):
            own_path.unlink()


def waits(state: Path) -> bool:
    """Return True if nobody has taken the file yet."""
    return (state / FILE).exists()
