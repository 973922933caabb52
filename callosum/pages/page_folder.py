"""The folder of the pages: who may write just now, and how a page comes into being.

A page is written beside its place and then put there, so a reader sees the old one or the new one and a crash
leaves one of the two. Writers of one sort of page meet at a lock file, which the kernel frees when a process dies;
where a system has none the last writer wins, with the same page.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from callosum.errors import StoreError
from callosum.locks import locked

BRAIN: Final = "brain"
"""The folder below the state folder."""
_LARGEST: Final = 16_000_000
"""No page comes near this, in bytes. A larger file in its place is not read."""


class PageFolder:
    """The pages below a state folder, which need not exist. Paths are relative: ``episodes/2026-05-16.md``."""

    def __init__(self, state: Path) -> None:
        self.root = state / BRAIN

    @contextmanager
    def alone(self, what: str) -> Iterator[bool]:
        """Holds the lock for one sort of page, without waiting; False if another process or thread has it.

        Raises ``StoreError`` if the folder cannot be made.
        """
        with ExitStack() as stack:
            try:
                self._make(self.root)
                alone = stack.enter_context(locked(self.root / f".{what}.lock"))
            except OSError as fault:
                raise StoreError(f"{self.root} cannot be used: {fault}") from fault
            yield alone

    def read(self, path: str) -> str | None:
        """Returns a page, None if there is none that can be read."""
        try:
            with (self.root / path).open("rb") as page:
                return page.read(_LARGEST).decode("utf-8", "replace")
        except OSError:
            return None

    def head(self, path: str, lines: int) -> list[str]:
        """Returns the first lines of a page, none if there is no page."""
        try:
            with (self.root / path).open("rb") as page:
                return page.read(4096).decode("utf-8", "replace").split("\n")[:lines]
        except OSError:
            return []

    def has(self, path: str) -> bool:
        """Whether there is a page, and something in it."""
        try:
            return (self.root / path).stat().st_size > 0
        except OSError:
            return False

    def write(self, path: str, text: str) -> bool:
        """Puts a page in its place; returns whether that changed anything. Hold the lock.

        Raises ``StoreError`` if it cannot be written; the page that was there stays.
        """
        if self.read(path) == text:
            return False
        place = self.root / path
        part = place.with_name(f".{place.name}.part")
        try:
            self._make(place.parent)
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as out:
                out.write(text.encode("utf-8", "replace"))
                out.flush()
                os.fsync(out.fileno())
            part.replace(place)
        except OSError as fault:
            raise StoreError(f"{place} cannot be written: {fault}") from fault
        return True

    def _make(self, folder: Path) -> None:
        """Makes the folder, and each of ours above it, for its owner alone."""
        if folder.is_dir():
            return
        if folder == self.root:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        else:
            self._make(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)
