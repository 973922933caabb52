"""The versions of files that sessions read, and the writes they proposed: the bases of merges.

``PAIR`` stands for a digest of namespace, session and path::

    PAIR.ID.seen        the file as a read saw it, if its result showed all of it and it did not change meanwhile
    PAIR.DIGEST.write   the write of a call with this content

As a read begins, only the file's stamp is noted, in memory: the process that decided the call also gets its report. The
copy is made at the report. If the stamp is still the same, nobody wrote to the file in between, so the copy is what the
session's tool saw. A thread compares it with the result, searches it for secrets and stores it (``background``).

A base is the last version that is proven: a read's copy with the session's own later writes applied. The store knows
which of these writes were done.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec

from callosum.characters import escaped
from callosum.merging.background import BackgroundQueue
from callosum.merging.private_files import MAX_FILE, PrivateFiles
from callosum.merging.proposed_writes import ProposedWrite
from callosum.merging.secret_check import looks_secret

_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0)
_DEEP: Final = 8
_REMEMBERED: Final = 4096
_MOST_BEGUN: Final = 4096
"""Most reads without a result that are remembered."""
_RACY: Final = 3_000_000_000
"""Nanoseconds for which a file counts as just changed: file systems round times, the coarsest to two seconds."""
_written: Final = msgspec.msgpack.Decoder(ProposedWrite).decode


class FileStamp(NamedTuple):
    """What the disk says of a file. A change of the file changes its stamp, unless another came just before it."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Return the stamp in what ``os.stat`` says of the file."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class FileCopy(NamedTuple):
    """A text file as it was on disk."""

    text: str
    stamp: FileStamp


def copy_of(path: str) -> FileCopy | None:
    """Return a copy of a regular text file; None for a symbolic link, anything else, or a larger file.

    Its stamp is taken after the text was read.
    """
    try:
        handle = os.open(path, _OPEN)
    except (OSError, ValueError):
        return None
    try:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode) or before.st_size > MAX_FILE:
            return None
        data = os.read(handle, MAX_FILE + 1)
        after = FileStamp.of(os.fstat(handle))
        if len(data) != after.size or b"\0" in data:
            return None
        return FileCopy(data.decode(), after)
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(handle)


def _digest(copy: FileCopy) -> bytes:
    return blake2b(copy.text.encode(), digest_size=16).digest()


_Read = tuple[str, str, str]
"""Namespace, session and path."""


class Snapshots:
    """The copies in one folder. Nothing here raises: a file that cannot be copied has no base."""

    def __init__(self, path: Path, clock: Callable[[], int] = time.time_ns) -> None:
        self.folder = PrivateFiles(path)
        self.later = BackgroundQueue()
        self._clock = clock
        self.begun: dict[_Read, tuple[FileStamp, bytes]] = {}
        """Reads without a result: the file's stamp as they began, and a digest if the stamp alone proves nothing."""
        self._plain: dict[str, FileStamp] = {}
        """Files in which no secret was found, with values that show whether they have changed since."""

    def begin(self, namespace: str, session: str, path: str) -> None:
        """Note what the disk says of a file that the session is about to read.

        The file is read only if it was just changed: then the next change may leave the stamp as it is.
        """
        read, settled = (namespace, session, path), self._clock() - _RACY  # before the stamp: a thread may stop here
        try:
            status = os.lstat(path)
        except (OSError, ValueError):
            status = None
        begun: tuple[FileStamp, bytes] | None = None
        if status is not None and stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE:
            begun = FileStamp.of(status), b""
            if max(begun[0].modified, begun[0].changed) > settled:
                copy = copy_of(path)
                begun = (copy.stamp, _digest(copy)) if copy is not None else None
        if begun is not None:
            if len(self.begun) >= _MOST_BEGUN:
                self.begun.clear()
            self.begun[read] = begun
        elif self.begun:
            self.begun.pop(read, None)

    def end(self, namespace: str, session: str, path: str, id: int, result: Any) -> None:
        """Copy a file whose read has ended, if the result can show all of it and the file has the stamp it began with.

        Then nothing wrote to the file in between, and its text is the one that the session's tool saw.
        """
        stamp, digest = self.begun.pop((namespace, session, path), (None, b""))
        texts = tuple(_texts(result, _DEEP))
        if stamp is None or (stamp.size and not texts):
            return
        copy = copy_of(path)
        if copy is None or copy.stamp != stamp or (digest and _digest(copy) != digest):
            return
        pair = _pair(namespace, session, path)
        self.later.do(partial(self._saw, pair, path, id, copy, texts), len(copy.text) + sum(map(len, texts)))

    def _saw(self, pair: str, path: str, id: int, copy: FileCopy, texts: tuple[str, ...]) -> None:
        if not shows(texts, copy.text) or not self._is_plain(path, copy):
            return
        older = [name for name in self.folder.names(pair) if name.endswith(".seen")]
        if self.folder.write(f"{pair}.{id:020d}.seen", copy.text.encode()):
            for name in older:
                self.folder.remove(name)

    def _is_plain(self, path: str, copy: FileCopy) -> bool:
        if self._plain.get(path) == copy.stamp:
            return True
        if looks_secret(path, copy.text):
            return False
        if len(self._plain) >= _REMEMBERED:
            self._plain.clear()
        self._plain[path] = copy.stamp
        return True

    def proposed(self, namespace: str, session: str, path: str, digest: bytes, write: ProposedWrite) -> None:
        """Keep the write that a call proposes; a background thread stores it."""
        texts = [edit.new for edit in write.edits] if write.whole is None else [write.whole]
        size = sum(map(len, texts))
        if size <= MAX_FILE:
            self.later.do(partial(self._keep, namespace, session, path, digest, write, texts), size)

    def _keep(
        self, namespace: str, session: str, path: str, digest: bytes, write: ProposedWrite, texts: list[str]
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
