"""The versions of files that sessions read, and the writes they proposed: the bases of merges.

``PAIR`` stands for a digest of namespace, session and path::

    PAIR.ID.seen        the file as a read began, if its result showed all of it and it did not change meanwhile
    PAIR.DIGEST.write   the write of a call with this content

Until a read has a result, its copy stays in memory: the process that decided the call also gets its report. A thread
compares the copy with the result, searches it for secrets and stores it (``background``), so that no call waits.

A base is the last version that is proven: a read's copy with the session's own later writes applied. The store knows
which of these writes were done.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec

from callosum.characters import escaped
from callosum.merging.background import BackgroundQueue
from callosum.merging.private_files import MAX_FILE, PrivateFiles
from callosum.merging.proposed_writes import ProposedWrite
from callosum.merging.secret_check import looks_secret

_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0)
_DEEP: Final = 8
_REMEMBERED: Final = 4096
_MOST_BEGUN: Final = 8_000_000
"""Most characters of copies whose reads have no result yet; beyond it the oldest are dropped."""
_written: Final = msgspec.msgpack.Decoder(ProposedWrite).decode


class FileCopy(msgspec.Struct, frozen=True):
    """A text file as it was on disk, with values that show whether it has changed since."""

    text: str
    facts: bytes


def copy_of(path: str) -> FileCopy | None:
    """Return a copy of a regular text file; None for a symbolic link, anything else, or a larger file."""
    try:
        handle = os.open(path, _OPEN)
    except (OSError, ValueError):
        return None
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_FILE:
            return None
        data = os.read(handle, MAX_FILE + 1)
        if len(data) != facts.st_size or b"\0" in data:
            return None
        return FileCopy(data.decode(), _facts(facts))
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(handle)


def _facts(status: os.stat_result) -> bytes:
    numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return b"".join((number % 2**64).to_bytes(8) for number in numbers)


_Read = tuple[str, str, str]
"""Namespace, session and path."""


class _Looking:
    """The copies of reads that have begun."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._copies: OrderedDict[_Read, FileCopy] = OrderedDict()
        self._size = 0

    def __contains__(self, read: _Read) -> bool:
        return read in self._copies

    def put(self, read: _Read, copy: FileCopy | None) -> None:
        """Keep the newest copy of a file that a session reads; None removes it."""
        if copy is None and read not in self._copies:
            return
        with self._guard:
            self._forget(read)
            if copy is not None:
                self._copies[read] = copy
                self._size += len(copy.text)
            while self._size > _MOST_BEGUN:
                self._forget(next(iter(self._copies)))

    def take(self, read: _Read) -> FileCopy | None:
        """Return and remove a copy."""
        with self._guard:
            return self._forget(read)

    def _forget(self, read: _Read) -> FileCopy | None:
        copy = self._copies.pop(read, None)
        self._size -= len(copy.text) if copy is not None else 0
        return copy


class Snapshots:
    """The copies in one folder. Nothing here raises: a file that cannot be copied has no base."""

    def __init__(self, path: Path) -> None:
        self.folder = PrivateFiles(path)
        self.later = BackgroundQueue()
        self._looking = _Looking()
        self._plain: dict[str, bytes] = {}
        """Files in which no secret was found, with values that show whether they have changed since."""

    def look(self, namespace: str, session: str, path: str) -> None:
        """Copy a file that the session is about to read."""
        self._looking.put((namespace, session, path), copy_of(path))

    def is_looking(self, namespace: str, session: str, path: str) -> bool:
        """Return True if there is a copy of a file whose read has no result yet."""
        return (namespace, session, path) in self._looking

    def looked(self, namespace: str, session: str, path: str, id: int, result: Any) -> None:
        """Keep the copy of a finished read if its result shows the whole file and the file has not changed."""
        begun = self._looking.take((namespace, session, path))
        if begun is None:
            return
        try:
            if _facts(os.lstat(path)) != begun.facts:
                return
        except OSError:
            return
        texts = tuple(_texts(result, _DEEP))
        pair = _pair(namespace, session, path)
        self.later.do(partial(self._saw, pair, path, id, begun, texts), len(begun.text) + sum(map(len, texts)))

    def _saw(self, pair: str, path: str, id: int, copy: FileCopy, texts: tuple[str, ...]) -> None:
        if not shows(texts, copy.text) or not self._is_plain(path, copy):
            return
        older = [name for name in self.folder.names(pair) if name.endswith(".seen")]
        if self.folder.write(f"{pair}.{id:020d}.seen", copy.text.encode()):
            for name in older:
                self.folder.remove(name)

    def _is_plain(self, path: str, copy: FileCopy) -> bool:
        if self._plain.get(path) == copy.facts:
            return True
        if looks_secret(path, copy.text):
            return False
        if len(self._plain) >= _REMEMBERED:
            self._plain.clear()
        self._plain[path] = copy.facts
        return True

    def proposed(self, namespace: str, session: str, path: str, digest: bytes, write: ProposedWrite) -> None:
        """Keep the write that a call proposes; a background thread stores it."""
        texts = (write.whole or "", *[edit.new for edit in write.edits])
        size = sum(map(len, texts))
        if size <= MAX_FILE:
            self.later.do(partial(self._keep, namespace, session, path, digest, write, texts), size)

    def _keep(
        self, namespace: str, session: str, path: str, digest: bytes, write: ProposedWrite, texts: tuple[str, ...]
    ) -> None:
        if any(looks_secret(path, text) for text in texts):
            return
        with suppress(UnicodeEncodeError):  # a lone surrogate: no file can hold it
            name = f"{_pair(namespace, session, path)}.{digest.hex()}.write"
            self.folder.write(name, msgspec.msgpack.encode(write))

    def seen(self, namespace: str, session: str, path: str) -> tuple[int, str] | None:
        """Return the session's newest proven read of the file: its id and the file's text."""
        self.later.finish()
        pair = _pair(namespace, session, path)
        for name in reversed(self.folder.names(pair)):
            if name.endswith(".seen") and (data := self.folder.read(name)) is not None:
                return int(name.split(".")[1]), data.decode()
        return None

    def write_of(self, namespace: str, session: str, path: str, digest: bytes) -> ProposedWrite | None:
        """Return the write of the session's call with this content, None if it was not kept."""
        self.later.finish()
        data = self.folder.read(f"{_pair(namespace, session, path)}.{digest.hex()}.write")
        try:
            return _written(data) if data is not None else None
        except msgspec.DecodeError:
            return None


def base_of(read: str | None, done: Iterable[ProposedWrite | None]) -> str | None:
    """Return the file as a session knows it: its read with its own later writes applied in order; None if unproven.

    After an unknown write (None) nothing is proven, until the next write that replaces the whole file.
    """
    text = read
    for write in done:
        if write is None:
            text = None
        elif write.whole is not None:
            text = write.whole
        elif text is not None:
            text = write.applied(text)
    return text


def shows(result: Any, text: str) -> bool:
    """Return True if a tool's result contains every line of the text, in order.

    Hosts add line numbers and words around the lines. If the result shows only a part of the file, lines are missing.
    """
    output = "\n".join(_texts(result, _DEEP))
    if text in output:
        return True
    at = 0
    for line in text.split("\n"):
        if line:
            at = output.find(line, at)
            if at < 0:
                return False
            at += len(line)
    return True


def _texts(value: Any, deep: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif deep and isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item, deep - 1)
    elif deep and isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, deep - 1)


def _pair(namespace: str, session: str, path: str) -> str:
    return blake2b(f"{namespace}\0{session}\0{escaped(path)}".encode("utf-8", "replace"), digest_size=16).hexdigest()
