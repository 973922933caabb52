"""What there is to know of a host so that it can be looked over: its program, its switches, its transcripts.

A host's module ``facts`` offers the names of ``Facts``. It reads files and asks the host's own program; it changes
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

LONGEST: Final = 20_000_000
"""So many bytes of a transcript are read, from its end."""


Known = Literal["id", "session and id", "session and tool"]
"""By what a call in a transcript is found in the journal: its id alone where that is unique, that with its session, or
where hooks have no ids by how many of a tool its session made."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """Whose host is meant: the user's home, the environment, and the folder in which the user works."""

    home: Path
    environ: Mapping[str, str]
    folder: Path


class Made(Struct, frozen=True, kw_only=True):
    """A tool call in a host's own transcript.

    ``id`` is the host's, "" where its hooks have none; ``at`` Unix seconds. ``ran``: True if it did, None if nothing
    says so yet. Calls that the host refused or could not read never ran and are none of these.
    """

    session: str
    tool: str
    id: str
    at: float
    ran: bool | None


class Found(Struct, frozen=True):
    """The calls in the transcripts, and what kept some of them from being read, one sentence each."""

    calls: Sequence[Made]
    unread: Sequence[str] = ()


class Facts(Protocol):
    """A host's module."""

    name: str
    """As in ``callosum install NAME``."""
    title: str
    """As people call it."""
    program: str
    """What starts it."""
    package: str
    """Its name in the registry from which it is installed."""
    known: Known

    def too_old(self, version: tuple[int, ...]) -> str:
        """Why the entries do not hold in this version, "" if they do."""
        ...

    def switched_off(self, here: Surroundings, settings: Mapping[str, Any]) -> list[str]:
        """What keeps its hooks from being called, one sentence each. ``settings``: those with the entries."""
        ...

    def transcripts(self, here: Surroundings, since: float) -> Found:
        """The calls since a moment (Unix seconds)."""
        ...


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


def read_all(paths: Sequence[Path], since: float, read: Callable[[Path], Iterator[Made]]) -> Found:
    """The calls since a moment in all these files, none twice."""
    calls = {(made.session, made.id): made for path in paths for made in read(path) if made.at >= since}
    return Found(tuple(calls.values()))


def settings_in(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a host, {} if there is none to be read."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(LONGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
