"""What there is to find out of a host where it is looked over: its switches, its transcripts, what it says itself.

All of it reads files and asks the host's own program; it changes nothing.
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
"""So many bytes of a transcript are read, from its end."""


class UserContext(Struct, frozen=True, kw_only=True):
    """Whose host is meant: the user's home, the environment, and the folder in which the user works."""

    home: Path
    environ: Mapping[str, str]
    folder: Path


class TranscriptCall(Struct, frozen=True, kw_only=True):
    """A tool call in a host's own transcript.

    ``id`` is the host's, "" where its hooks have none; ``at`` Unix seconds. ``ran``: True if it did, None if nothing
    says so yet. Calls that the host refused or could not read never ran and are none of these.
    """

    session: str
    tool: str
    id: str
    at: float
    ran: bool | None


class TranscriptCalls(Struct, frozen=True):
    """The calls in the transcripts, and what kept some of them from being read, one sentence each."""

    calls: Sequence[TranscriptCall]
    unread: Sequence[str] = ()


class ReviewState(NamedTuple):
    """How far the user has reviewed the entries, as in ``Finding``."""

    level: Level
    says: str
    advice: str = ""


class HostInspection:
    """What a host is asked. A host of which more is known has a class of its own."""

    def __init__(self, host: Program) -> None:
        self.host = host

    def too_old(self, version: tuple[int, ...]) -> str:
        """Return why the entries do not hold in this version, "" if they do."""
        oldest = self.host.oldest
        return "" if version >= oldest else f"before {'.'.join(map(str, oldest))} {self.host.older}"

    def switched_off(self, here: UserContext, settings: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - a host may look
        """Return what keeps its hooks from being called, one sentence each. ``settings``: those with the entries."""
        return []

    def reviewed(self, found: Path | None, here: UserContext, settings: Path) -> ReviewState | None:  # noqa: ARG002
        """Return whether the user has reviewed the entries in a file, None where the host asks for no review.

        ``found``: the program.
        """
        return None

    def transcripts(self, here: UserContext, since: float) -> TranscriptCalls:  # noqa: ARG002 - a host may have some
        """Return the calls since a moment (Unix seconds)."""
        return TranscriptCalls(())

    def look(self, checkup: Checkup) -> Iterator[Finding]:
        """Yield what is found of the host; nothing if it is not here."""
        return checkup.hooks(self)

    def standing(self, checkup: Checkup, path: Path) -> Iterable[Finding]:
        """Yield whether the entries in a file that took them are there still, as the file says it."""
        return checkup.entries(self, path).findings


# --- reading transcripts --------------------------------------------------------------------------------


def newest(folder: Path, pattern: str, since: float, most: int = 200) -> list[Path]:
    """The files below a folder that were written since a moment, the newest ``most`` of them."""
    found = []
    for path in folder.glob(pattern):
        try:
            written = path.stat().st_mtime
        except OSError:
            continue
        if written >= since:
            found.append((written, path))
    return [path for _, path in sorted(found, reverse=True)[:most]]


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects in the lines of a file, of a long one those near its end. What is none is passed over."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LONGEST))
            if size > LONGEST:
                file.readline()
            for line in file:
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(found, dict):
                    yield found
    except OSError:
        return


def moment(text: object) -> float:
    """Unix seconds of a moment as transcripts write it (``2026-11-22T08:51:10.005Z``), 0 if it is none."""
    if not isinstance(text, str):
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def read_all(paths: Sequence[Path], since: float, read: Callable[[Path], Iterator[TranscriptCall]]) -> TranscriptCalls:
    """The calls since a moment in all these files, none twice."""
    calls = {(made.session, made.id): made for path in paths for made in read(path) if made.at >= since}
    return TranscriptCalls(tuple(calls.values()))


def settings_in(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a host, {} if there is none to be read."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(LONGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
