"""Read recorded tool traffic: one call per line, in the order in which the calls were made.

A line is ``{"source", "suite", "task", "call_index", "tool", "args", "state_changed", "error"}``; only ``tool`` and
``args`` are required, and unknown members are ignored. Calls with the same source, suite and task belong together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from callosum.errors import ConfigError
from callosum.wire import MAX_BODY


class RecordedCall(Struct, frozen=True):
    """One recorded call. ``error`` is the tool's message if it failed."""

    tool: str
    args: dict[str, Any]
    source: str = ""
    suite: str = ""
    task: str = ""
    call_index: int = 0
    state_changed: bool | None = None
    error: str | None = None
    cwd: str | None = None

    @property
    def belongs(self) -> str:
        """Return the task that the call belongs to."""
        return "/".join(part for part in (self.source, self.suite, self.task) if part) or "-"


class BrokenLine(Struct, frozen=True):
    """A line without a valid call."""

    file: str
    line: int
    error: str


_decode: Final = msgspec.json.Decoder(RecordedCall).decode


def read(files: Sequence[Path], sessions: int) -> Iterator[tuple[int, RecordedCall] | BrokenLine]:
    """Yield the calls of files, each with the number of the session that makes it.

    Tasks go to sessions in turn, in order of appearance, so that every reader distributes them alike. Empty lines are
    skipped. Raises ``ConfigError`` for a file that cannot be read.
    """
    session_of: dict[str, int] = {}
    for path in files:
        try:
            with path.open("rb") as lines:
                number = 0
                while line := lines.readline(MAX_BODY + 1):
                    number += 1
                    if not line.strip():
                        continue
                    found = _call(line, str(path), number)
                    if isinstance(found, BrokenLine):
                        while not line.endswith(b"\n") and (line := lines.readline(MAX_BODY)):
                            pass
                        yield found
                    else:
                        yield session_of.setdefault(found.belongs, len(session_of) % sessions), found
        except OSError as fault:
            raise ConfigError(fault.strerror or "cannot be read", at=str(path)) from fault


def _call(line: bytes, file: str, number: int) -> RecordedCall | BrokenLine:
    if len(line) > MAX_BODY:
        return BrokenLine(file, number, f"longer than {MAX_BODY} bytes")
    try:
        found = _decode(line)
    except (msgspec.MsgspecError, UnicodeError) as fault:
        return BrokenLine(file, number, str(fault)[:200])
    except RecursionError:
        return BrokenLine(file, number, "nested too deeply")
    if not 0 < len(found.tool) <= 256 or not found.tool.isprintable():
        return BrokenLine(file, number, "the tool has no usable name")
    return found
