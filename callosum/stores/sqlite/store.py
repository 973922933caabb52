"""The store in one SQLite file, with what an event loop needs beside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from callosum.errors import StoreUnavailable
from callosum.model import Applied
from callosum.process import alive
from callosum.stores.base import Clock, Probe, Request
from callosum.stores.kernel import Kernel
from callosum.stores.sqlite.engine import SqliteEngine


class SqliteStore(Kernel):
    """A store in one SQLite file. ``clock`` and ``probe`` are for tests."""

    def __init__(self, path: str | Path, *, clock: Clock | None = None, probe: Probe = alive) -> None:
        self.path = Path(path)
        self._engine: SqliteEngine
        super().__init__(SqliteEngine(self.path, clock), probe=probe)

    def attempt(self, requests: Sequence[Request]) -> tuple[list[Applied | Exception], int] | None:
        """Run the requests at once, as ``NonBlocking.attempt`` says."""
        self._engine.connections.written += len(requests)
        try:
            return self._committed(requests, wait=False, tries=0)
        except StoreUnavailable:
            raise
        except Exception:
            if len(requests) == 1:
                raise
        return None

    def to_sync(self, seq: int) -> Callable[[], None]:
        """Return a function that puts everything up to entry ``seq`` on disk, as ``NonBlocking.to_sync`` says."""
        return self._engine.to_sync(seq)

    def tend(self) -> None:
        """Do maintenance in this thread, as ``NonBlocking.tend`` says."""
        self._engine.tend()
