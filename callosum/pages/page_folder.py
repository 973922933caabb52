"""The folder of the pages: who may write, and how a page is written.

A page is written to a temporary file and then moved into place, so a reader sees the old page or the new one, and a
crash leaves one of the two. Writers of one kind of page use a lock file, which the kernel releases when a process dies.
On systems without such locks the last writer wins, with the same page.
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
"""Bytes beyond which a file is not read; no page comes near this size."""


class PageFolder:
    """The pages below a state folder, which need not exist. Paths are relative: ``episodes/2026-05-16.md``."""

    def __init__(self, state: Path) -> None:
        self.root = state / BRAIN

    @contextmanager
    def alone(self, kind: str) -> Iterator[bool]:
        """Hold the lock for one kind of page, without waiting; yield False if another process or thread has it.

        Raises ``StoreError`` if the folder cannot be created.
        """
        with ExitStack() as stack:
            try:
                self._make(self.root)
                alone = stack.enter_context(locked(self.root / f".{kind}.lock"))
            except OSError as fault:
                raise StoreError(f"{self.root} cannot be used: {fault}") from fault
            yield alone

    def read(self, path: str) -> str | None:
        """Return a page, None if there is none that can be read."""
        try:
            with (self.root / path).open("rb") as page:
                return page.read(_LARGEST).decode("utf-8", "replace")
        except OSError:
            return None

    def head(self, path: str, lines: int) -> list[str]:
        """Return the first lines of a page, none if there is no page."""
        try:
            with (self.root / path).open("rb") as page:
                return page.read(4096).decode("utf-8", "replace").split("\n")[:lines]
        except OSError:
            return []

    def has(self, path: str) -> bool:
        """Return True if the page exists and is not empty."""
        try:
            return (self.root / path).stat().st_size > 0
        except OSError:
            return False

    def write(self, path: str, text: str) -> bool:
        """Write a page; return True if that changed it. Hold the lock.

        Raises ``StoreError`` if it cannot be written; the old page then stays.
        """
        if self.read(path) == text:
            return False
        target = self.root / path
        part = target.with_name(f".{target.name}.part")
        try:
            self._make(target.parent)
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8", "replace"))
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        except OSError as fault:
            raise StoreError(f"{target} cannot be written: {fault}") from fault
        return True

    def _make(self, folder: Path) -> None:
        """Create the folder, and each of Callosum's folders above it, for its owner alone."""
        if folder.is_dir():
            return
        if folder == self.root:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        else:
            self._make(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)
