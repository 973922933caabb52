"""What is wrong, on its way from a ``doctor`` to the corpus of a server that runs.

It lies in the state folder, which is the user's alone and which the gate guards: a host cannot report this by itself.
Who takes the file away tells it: the server, so that its listeners hear of it too, or ``doctor`` where none does.
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
    """Leaves what is wrong with hosts. Raises ``ConfigError`` if it cannot be written."""
    told = [{"host": finding.host, "says": f"{finding.check}: {finding.says}"} for finding in wrong]
    content = json.dumps({"namespace": namespace, "wrong": told}).encode() + b"\n"
    files.write(state / FILE, content, 0o600)


def take(state: Path) -> list[HealthCritical]:
    """Takes it away, and returns the events that tell it; none where nothing lies there."""
    mine = state / f"{FILE}.{os.getpid()}"
    try:
        (state / FILE).rename(mine)
    except OSError:
        return []
    try:
        with mine.open("rb") as file:
            found = json.loads(file.read(_LONGEST))
        return [
            HealthCritical(f"host:{one['host']}", str(one["says"])[:500], WANTED, namespace=str(found["namespace"]))
            for one in found["wrong"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    finally:
        with suppress(OSError):
            mine.unlink()


def waits(state: Path) -> bool:
    """Whether nobody has taken it yet."""
    return (state / FILE).exists()
