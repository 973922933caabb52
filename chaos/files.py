"""Faults of a SQLite store's files: they are replaced, removed or cut off under running gates, and later put back.

::

    all stopped ── files changed ── all continue ── no call may be answered ── all stopped ── files put back

No decision may be acknowledged into a wrong file, so afterwards the right file holds every acknowledged decision. A
gate that does not notice the change fails the rules "exclusion" and "nothing lost".
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Literal

import psutil

from callosum.stores.opening import DATABASE
from callosum.stores.receipt import ADVICE
from callosum.stores.sqlite import SqliteStore
from chaos.estate import Site
from chaos.scene import Fault, Scene

Change = Literal["removed", "replaced by an empty one", "replaced by an older one"]
Cut = Literal["truncated", "halved", "removed"]

_ENDS: Final = ("", "-wal", "-shm")
_LOG: Final = f"{DATABASE}-wal"
_CHANGED: Final = (0.1, 0.6)
"""Minimum and maximum seconds for which the files stay changed."""
_NOTICED: Final = 10.0
"""Seconds within which a server must refuse a durable call, or accept it because nothing was lost."""
_AGAIN: Final = 0.3
"""Seconds between two refusals that show that a server refuses permanently. It checks for an answer more often."""


def change_database(how: Change) -> Fault:
    """Return a fault: the database is moved away under all gates on it, and later moved back."""

    def fault(scene: Scene) -> None:
        aside = scene.folder / "aside"
        aside.mkdir(exist_ok=True)
        with stopped(scene):
            _move(scene.state, aside)
            _PUT[how](aside, scene.state)
        time.sleep(scene.random.uniform(*_CHANGED))
        with stopped(scene):
            for end in _ENDS:
                (scene.state / f"{DATABASE}{end}").unlink(missing_ok=True)
            _move(aside, scene.state)
        scene.hit(f"database {how}")

    fault.__name__ = how
    return fault


def cut_log(how: Cut) -> Fault:
    """Return a fault: the log of a running server is cut off or removed.

    A server that then refuses durable calls is killed, and gets the files back as they were. A server that continues
    has saved the log.
    """

    def fault(scene: Scene) -> None:
        site = scene.sites[0]
        scene.reports = False  # a report between the cut and the next durable call is lost with the log
        aside = scene.folder / "aside"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        with stopped(scene):
            for end in _ENDS[:2]:
                shutil.copy(scene.state / f"{DATABASE}{end}", aside)
            _CUT[how](scene.state / _LOG)
        if _refuses(scene, site):
            if scene.random.random() < 0.25:
                _look_at_health(scene, site)
            site.server.kill()
            for end in _ENDS:
                (scene.state / f"{DATABASE}{end}").unlink(missing_ok=True)
            _move(aside, scene.state)
            site.start()
        scene.hit(f"log {how}")

    fault.__name__ = f"log {how}"
    return fault


@contextmanager
def stopped(scene: Scene) -> Iterator[None]:
    """Stop every process that may have the store open, for the length of the block."""
    pids = [site.server.process.pid for site in scene.sites] or scene.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        for pid in pids:
            while psutil.Process(pid).status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                time.sleep(0.001)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _refuses(scene: Scene, site: Site) -> bool:
    """Return True if the server refuses tier 4 calls because its store was changed."""
    ends = time.monotonic() + _NOTICED
    refused, said = 0, ""
    while time.monotonic() < ends:
        who = f"mind-{scene.estate.name()}"
        answer = site.server.ask(
            "POST", "/intercept", {"instance": who, "tool": "hold", "params": {"a": f"/mind/{who}"}, "callId": who}
        )
        if answer.status == 200 and answer.body["proceed"]:
            return False
        refused += answer.status == 503 and ADVICE in answer.body["error"]
        if refused > 1:
            return True
        said = f"{answer.status}: {answer.text}"
        time.sleep(_AGAIN if refused else 0.02)
    scene.say("store changed", f"after {_NOTICED:.0f} s a tier-4 call is answered with {said}")
    return True


def _look_at_health(scene: Scene, site: Site) -> None:
    """Check that the server reports within a few seconds that it cannot decide, and names the remedy."""
    ends, said = time.monotonic() + _NOTICED, ""
    while time.monotonic() < ends:
        health = site.server.ask("GET", "/health")
        if health.status == 503 and ADVICE in health.text:
            return
        said = f"{health.status}: {health.text}"
        time.sleep(0.1)
    scene.say("store changed", f"durable calls are refused, and the health is {said}")


def _move(source: Path, target: Path) -> None:
    for end in _ENDS:
        file = source / f"{DATABASE}{end}"
        if file.exists():
            file.rename(target / file.name)


def _put_nothing(aside: Path, state: Path) -> None:
    """Leave the place empty: the next gate creates a new database there."""


def _put_empty(aside: Path, state: Path) -> None:
    SqliteStore(aside / "other.db").close()
    (aside / "other.db").rename(state / DATABASE)
    for end in (".receipt", ".turn", ".sync", "-wal", "-shm"):
        (aside / f"other.db{end}").unlink(missing_ok=True)


def _put_older(aside: Path, state: Path) -> None:
    """Put a copy in its place that has the right id but contains no action."""
    for end in _ENDS[:2]:
        shutil.copy(aside / f"{DATABASE}{end}", aside / f"copy{end}")
    with closing(sqlite3.connect(aside / "copy")) as copy:
        copy.execute("delete from journal")
        copy.execute("delete from record")
        copy.commit()
        copy.execute("pragma wal_checkpoint(truncate)").fetchall()
    (aside / "copy").rename(state / DATABASE)
    for end in _ENDS[1:]:
        (aside / f"copy{end}").unlink(missing_ok=True)


_PUT: Final[dict[Change, Callable[[Path, Path], None]]] = {
    "removed": _put_nothing,
    "replaced by an empty one": _put_empty,
    "replaced by an older one": _put_older,
}
_CUT: Final[dict[Cut, Callable[[Path], None]]] = {
    "truncated": lambda log: os.truncate(log, 0),
    "halved": lambda log: os.truncate(log, log.stat().st_size // 2),
    "removed": lambda log: log.unlink(),
}
