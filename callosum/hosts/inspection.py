"""Inspect a host for ``doctor``: its switches, its transcripts and its own program.

Inspection reads files and runs the host's program. It changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from callosum.hosts.checkup.examine import Checkup
    from callosum.hosts.checkup.finding import Finding, Level
    from callosum.programs.program import Program

LONGEST: Final = 20_000_000
"""Number of bytes read from the end of a transcript."""


class UserContext(Struct, frozen=True, kw_only=True):
    """Identify the user whose host is inspected: home folder, environment and working folder."""

    home: Path
    environ: Mapping[str, str]
    folder: Path


class TranscriptCall(Struct, frozen=True, kw_only=True):
    """Describe a tool call in a host's own transcript.

    ``id`` is the host's call id, or "" if its hooks have none. ``at`` is in Unix seconds. ``ran`` is True if the call
    ran and None if the transcript does not say yet. Calls that the host refused or could not parse never ran and are
    left out.
    """

    session: str
    tool: str
    id: str
    at: float
    ran: bool | None


class TranscriptCalls(Struct, frozen=True):
    """Hold the calls found in transcripts, and one sentence for each thing that could not be read."""

    calls: Sequence[TranscriptCall]
    unread: Sequence[str] = ()


class ReviewState(NamedTuple):
    """Say how far the user has reviewed the entries, in the fields of ``Finding``."""

    level: Level
    says: str
    advice: str = ""


class HostInspection:
    """Inspect a host with hooks. A host that offers more to inspect has a subclass."""

    def __init__(self, host: Program) -> None:
        self.host = host

    def too_old(self, version: tuple[int, ...]) -> str:
        """Return why the entries have no effect in this version, or "" if they have."""
        oldest = self.host.oldest
        return "" if version >= oldest else f"before {'.'.join(map(str, oldest))} {self.host.older}"

    def switched_off(self, here: UserContext, settings: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - a host may look
        """Return one sentence for each setting that keeps the hooks from being called.

        ``settings`` are those that hold the gate's entries.
        """
        return []

    def reviewed(self, found: Path | None, here: UserContext, settings: Path) -> ReviewState | None:  # noqa: ARG002
        """Return how far the user has reviewed the entries in a file, or None if the host requires no review.

        ``found`` is the path of the host's program.
        """
        return None

    def transcripts(self, here: UserContext, since: float) -> TranscriptCalls:  # noqa: ARG002 - a host may have some
        """Return the calls in the host's transcripts since a time in Unix seconds."""
        return TranscriptCalls(())

    def look(self, checkup: Checkup) -> Iterator[Finding]:
        """Yield the findings about the host, or nothing if the host is not installed here."""
        return checkup.hooks(self)

    def standing(self, checkup: Checkup, path: Path) -> Iterable[Finding]:
        """Yield findings that say whether the entries in a file are still there. Read only the file."""
        return checkup.entries(self, path).findings


# --- reading transcripts --------------------------------------------------------------------------------


def newest(folder: Path, pattern: str, since: float, most: int = 200) -> list[Path]:
    """Return the files below a folder that were written since a time, at most the newest ``most``."""
    files = []
    for path in folder.glob(pattern):
        try:
            written = path.stat().st_mtime
        except OSError:
            continue
        if written >= since:
            files.append((written, path))
    return [path for _, path in sorted(files, reverse=True)[:most]]


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in the lines of a file. Of a long file, read only the end. Skip all other lines."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LONGEST))
            if size > LONGEST:
                file.readline()
            for line in file:
                try:
                    entry = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(entry, dict):
                    yield entry
    except OSError:
        return


def moment(text: object) -> float:
    """Return a transcript's timestamp (``2026-11-22T08:51:10.005Z``) in Unix seconds, or 0 if it is malformed."""
    if not isinstance(text, str):
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def read_all(paths: Sequence[Path], since: float, read: Callable[[Path], Iterator[TranscriptCall]]) -> TranscriptCalls:
    """Return the calls since a time in all these files, each call once."""
    calls = {(call.session, call.id): call for path in paths for call in read(path) if call.at >= since}
    return TranscriptCalls(tuple(calls.values()))


def settings_in(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a host, or {} if it cannot be read."""
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(LONGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
