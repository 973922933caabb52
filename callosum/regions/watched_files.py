"""Named files, watched for changes: what Brainstem looks at when a rules file or a configuration changes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from watchfiles import Change, watch

logger = logging.getLogger("callosum")

LOOK_EVERY: Final = 1000
"""Milliseconds between checks of watched files when no change is reported."""
_STEP: Final = 50
_DEBOUNCE: Final = 250
"""Most milliseconds for which changes within ``_STEP`` milliseconds of each other count as one."""


class WatchedFiles:
    """Named files, and how they changed since the last check. They and their folders need not exist.

    Changes are found by comparing, not from the system's reports: a file counts as changed however an editor replaced
    it, and a file behind a link is seen too. The reports only say when to check.

    Files in the folder ``busy`` are only checked every second: the gate writes there several times for each decision,
    and each write would be a report.
    """

    def __init__(self, paths: Iterable[Path], *, busy: Path | None = None) -> None:
        self._paths = tuple(dict.fromkeys(path.absolute() for path in paths))
        still = busy.absolute() if busy is not None else None
        self._folders = tuple(dict.fromkeys(path.parent for path in self._paths if path.parent != still))
        self._names = frozenset(path.name for path in self._paths)
        self._looked = 0.0
        self._known = {path: _stamp(path) for path in self._paths}

    def changes(self) -> list[tuple[Path, str]]:
        """Return the files that were created, changed or deleted since the last call."""
        changes = []
        for path in self._paths:
            old, new = self._known[path], _stamp(path)
            if new != old:
                self._known[path] = new
                changes.append((path, "created" if old is None else "deleted" if new is None else "changed"))
        return changes

    def wakes(self, closed: threading.Event) -> Iterator[None]:
        """Yield when it is time to check: soon after a report from a folder, and every second.

        Ends when ``closed`` is set, and when folders were created or removed: then watch again.
        """
        yield
        there = self._there()
        if not there:
            while not closed.wait(LOOK_EVERY / 1000) and not self._there():
                yield
            return
        try:
            reports = watch(
                *there,
                watch_filter=self._wakes,
                debounce=_DEBOUNCE,
                step=_STEP,
                stop_event=closed,
                rust_timeout=LOOK_EVERY,
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=False,
            )
            for _ in reports:
                self._looked = time.monotonic()
                yield
                if self._there() != there:
                    return
        except OSError as fault:
            logger.warning("files are only checked every second, because the system cannot watch them: %s", fault)
            while not closed.wait(LOOK_EVERY / 1000):
                yield

    def _wakes(self, _: Change, path: str) -> bool:
        """Return True if a report is a reason to check.

        Most reports are about other files and only trigger one check a second.
        """
        return Path(path).name in self._names or time.monotonic() - self._looked > LOOK_EVERY / 1000

    def _there(self) -> dict[str, tuple[int, int]]:
        """Return the existing folders, each with its identity on disk."""
        folders = {}
        for folder in self._folders:
            try:
                stat = folder.stat()
            except OSError:
                continue
            folders[str(folder)] = stat.st_dev, stat.st_ino
        return folders


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return values that identify one state of a file; None if it cannot be seen."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
