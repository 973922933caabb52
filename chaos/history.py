"""What each worker saw, recorded as it happens: a file per process, a line per event.

One system call writes a line before a request is sent and after its answer arrives, so a process that is killed loses
nothing of what it knew. Times are ``CLOCK_MONOTONIC`` in nanoseconds, which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Self

import msgspec

What = Literal["invoke", "answer", "unknown", "note"]
Verb = Literal[
    "intercept", "lock", "renew", "complete", "release",  # requests to the gate
    "begin", "write",  # uses of the guarded resource
    "queued", "late", "killed", "fault", "healed", "crash",  # notes
]  # fmt: skip


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One event.

    ``who`` is the session (in a note about a process, the process's name). ``op`` identifies one lease: a call's id, or
    a name given to a lock. ``unknown`` says that no answer arrived: the request may or may not have been carried out.

    A request has ``keys``, ``tier``, ``ttl`` in seconds, ``outcome``, ``host`` (the lease ends with the process) and
    ``wait``. An answer has ``ok`` (let through, acquired, took effect, written), ``id``, ``repeated``, ``state``,
    ``holder`` (the action that it names as a conflict) and ``late``. ``text`` is for people.
    """

    at: int
    who: str
    what: What
    verb: Verb
    op: str = ""
    keys: tuple[str, ...] = ()
    tier: int = 0
    ttl: float = 0.0
    outcome: str = ""
    host: bool = False
    wait: float = 0.0
    ok: bool = False
    id: int = 0
    repeated: bool = False
    state: str = ""
    holder: int = 0
    late: bool = False
    text: str = ""


_decoder = msgspec.json.Decoder(Event)


class Recorder:
    """Writes events to one file. It may be used from any thread of one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._file)

    def tell(self, who: str, what: What, verb: Verb, op: str = "", **facts: object) -> Event:
        """Record that something happens now."""
        event = Event(time.monotonic_ns(), who, what, verb, op, **facts)  # type: ignore[arg-type]
        os.write(self._file, msgspec.json.encode(event) + b"\n")
        return event


def read(paths: Iterable[Path]) -> list[Event]:
    """Return all events of these files, in the order of time.

    If a process was killed while it wrote its last line, that line is left out: no other process knew of it.
    """
    events: list[Event] = []
    for path in paths:
        *lines, _cut = path.read_bytes().split(b"\n")
        events += [_decoder.decode(line) for line in lines]
    return sorted(events, key=lambda event: event.at)
