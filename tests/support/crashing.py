"""A session's process that kills itself at a chosen statement of its work with the store.

The end of every statement that SQLite runs is a point; so are the instructions inside a statement. The
process sends each answer it gets through a pipe, so that the acknowledged decisions are known after its death.
"""

import multiprocessing
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any, Literal, Self

from callosum.gate import LocalGate
from callosum.model import Call
from callosum.process import this_process
from callosum.settings import Settings
from callosum.stores.sqlite import connection

When = Literal["after", "inside"]
Phase = Literal["create", "intercept", "tool", "complete", "nothing"]
STEP = 10
"""Instructions of SQLite's machine between two points inside a statement."""


class Fuse:
    """Counts points while it is active and kills this process at one of them."""

    def __init__(self, when: When, at: int) -> None:
        self.when = when
        self.at = at
        self.count = 0
        self.lit = False

    def burn(self, when: When) -> None:
        if self.lit and when == self.when:
            self.count += 1
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


class FusedCursor(sqlite3.Cursor):
    def execute(self, *args: Any) -> Self:
        super().execute(*args)
        self.connection.fuse.burn("after")  # type: ignore[attr-defined]
        return self


class FusedConnection(sqlite3.Connection):
    fuse: Fuse

    def execute(self, *args: Any) -> sqlite3.Cursor:
        return self.cursor().execute(*args)

    def cursor(self, *args: Any, **more: Any) -> sqlite3.Cursor:  # type: ignore[override]
        return super().cursor(FusedCursor)


def run_session(folder: str, phase: Phase, when: When, at: int, told: Any) -> None:
    """Run a session: one call first, then one that is intercepted, run and reported."""
    fuse = Fuse(when, at)
    connection.LOOK_EVERY = float("inf")  # a slow machine must not look at the files more often
    connect = sqlite3.connect

    def opened(*args: Any, **more: Any) -> sqlite3.Connection:
        fused: sqlite3.Connection = connect(*args, **{**more, "factory": FusedConnection})
        fused.fuse = fuse  # type: ignore[attr-defined]
        fused.set_progress_handler(lambda: fuse.burn("inside"), STEP)
        return fused

    sqlite3.connect = opened  # type: ignore[assignment]
    state = Path(folder)
    fuse.lit = phase == "create"
    gate = LocalGate(settings=Settings(state=state, rules=state / "rules.json"))
    fuse.lit = False
    told.send(("warm", gate.intercept(Call("doug", "act2", {"on": "warm"}, call_id="warm")).id))
    fuse.lit = phase == "intercept"
    host = this_process() if phase == "tool" else None
    decision = gate.intercept(Call("doug", "act4", {"on": "plan", "also": "second"}, call_id="c", host=host))
    fuse.lit = False
    told.send(("intercept", decision.id))
    if phase == "tool":
        os.kill(os.getpid(), signal.SIGKILL)
    fuse.lit = phase == "complete"
    report = gate.complete("doug", id=decision.id)
    fuse.lit = False
    told.send(("complete", report.ok))
    told.send(("end", fuse.count))


def crash(folder: Path, phase: Phase, when: When = "after", at: int = 0) -> tuple[dict[str, int], int]:
    """Run the session until its point; return the answers it got and how it ended."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.racing", __name__])
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=run_session, args=(str(folder), phase, when, at, theirs))
    process.start()
    theirs.close()
    told: dict[str, int] = {}
    while True:
        try:
            name, value = mine.recv()
        except EOFError:
            break
        told[name] = value
    process.join(timeout=30)
    mine.close()
    return told, process.exitcode or 0
