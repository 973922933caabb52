"""Settings files of hosts: read, shown as a difference, written whole or not at all, put back.

A file that cannot be read as what it should be is never written. What was done is kept in the state folder
(``installed.json``, and the file as it was before, under ``before/``), so that taking the gate out again gives back
the very bytes where nobody has changed the file since.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

from msgspec import Struct

from callosum.errors import ConfigError
from callosum.hosts.settings_guard import INSTALLED

BEFORE: Final = "before"
"""The folder, in the state folder, of the files as they were."""
_INDENT: Final = re.compile(r"\n([ \t]+)\S")
_LONGEST: Final = 10_000_000
_NAMED: Final = 4
"""Number of members that a summary names."""


class NotPlainJson(ConfigError):
    """The file at ``path`` is not plain JSON, so no program may write it. ``entries``: what is to be put in by hand."""

    def __init__(self, message: str, path: Path, entries: str = "") -> None:
        super().__init__(message, at=str(path))
        self.path = path
        self.entries = entries


class FileChange(Struct, frozen=True):
    """What is to become of a file: ``before`` None if it is not there, ``after`` None if it is to go."""

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def changes(self) -> bool:
        """Whether anything does."""
        return self.before != self.after

    def summary(self) -> str:
        """Say in one sentence which members of the file change and by how many lines, "" if none does."""
        if not self.changes:
            return ""
        if self.after is None:
            return f"{self.path}: goes, as it was not there before"
        lines = self.difference().splitlines()[2:]
        added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        old, new = (json.loads(content or b"{}") for content in self)
        members = _members_that_differ(old, new)
        names = ", ".join(members[:_NAMED]) + (f" and {len(members) - _NAMED} more" if len(members) > _NAMED else "")
        kind = "changes" if self.before is not None else "is created"
        return f"{self.path}: {kind}, {added} lines in, {removed} out" + (f" ({names})" if names else "")

    def difference(self) -> str:
        """The change as a unified difference, "" if there is none."""
        old, new = ((content or b"").decode("utf-8", "replace").splitlines(keepends=True) for content in self)
        name = str(self.path)
        lines = difflib.unified_diff(old, new, name if self.before is not None else os.devnull, name)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines)

    def __iter__(self) -> Any:
        return iter((self.before, self.after))


def changed(path: Path, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> FileChange:
    """Reads a JSON file and says what ``change`` makes of the object in it.

    An absent or empty file counts as ``{}``; one that comes to ``{}`` stays. Indentation and the end of the file are
    kept as they are. Raises ``ConfigError`` with the file and the place for what is no JSON object.
    """
    before = _content(path)
    try:
        settings = _parsed(before, path)
    except NotPlainJson as refusal:
        raise NotPlainJson(refusal.message, path, _entries_by_hand(before or b"", change)) from None
    try:
        after = change(settings)
    except ConfigError as error:
        raise ConfigError(f"{error.message}; the file is left as it is", at=f"{path}: {error.at}") from None
    if after == settings:
        return FileChange(path, before, before)
    return FileChange(path, before, _written(after, before))


def _content(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", at=str(path)) from None
    if len(content) > _LONGEST:
        raise ConfigError(f"longer than {_LONGEST} bytes: that is no settings file", at=str(path))
    return content


def _parsed(content: bytes | None, path: Path) -> dict[str, Any]:
    if content is None or not content.strip():
        return {}
    try:
        found = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once)
    except ValueError as error:
        hint = "; comments are none of JSON, so the entries have to be put in by hand" if b"//" in content else ""
        raise NotPlainJson(f"cannot be read as JSON: {error}{hint}; the file is left as it is", path) from None
    except RecursionError:
        raise ConfigError("nested too deeply; the file is left as it is", at=str(path)) from None
    if not isinstance(found, dict):
        raise ConfigError(f"expected an object, got {type(found).__name__}; it is left as it is", at=str(path))
    return found


_LENIENT: Final = re.compile(
    r'("(?>[^"\\]|\\.)*+")|//[^\n]*|/\*(?>.*?(?:\*/|\Z))|,(?=(?>(?:\s|//[^\n]*|/\*(?>.*?(?:\*/|\Z)))*)[}\]])', re.DOTALL
)
"""A string, which stays, or what JSON with comments has beside JSON: comments, and a comma before a closing bracket."""


def _entries_by_hand(content: bytes, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> str:
    """Return, as JSON, the members that ``change`` gives to an object in JSON with comments; "" if there are none."""
    try:
        found = json.loads(_LENIENT.sub(lambda match: match[1] or "", content.decode("utf-8-sig")))
        after = change(found)
    except (ValueError, RecursionError, ConfigError, AttributeError, TypeError):
        return ""
    wanted: dict[str, Any] = {}
    for name, value in after.items():
        inner = found.get(name)
        if isinstance(value, Mapping) and isinstance(inner, Mapping | None):
            differs = {key: one for key, one in value.items() if inner is None or inner.get(key) != one}
            if differs:
                wanted[name] = differs
        elif value != inner:
            wanted[name] = value
    return json.dumps(wanted, indent=2, ensure_ascii=False) if wanted else ""


def _members_that_differ(old: Any, new: Any) -> list[str]:
    """Return the names of members that differ, two levels deep: ``hooks.PreToolUse``."""
    found = []
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        inner = [one if isinstance(one, dict) else {} for one in (before, after)]
        below = [key for key in dict.fromkeys((*inner[0], *inner[1])) if inner[0].get(key) != inner[1].get(key)]
        found += [f"{name}.{key}" for key in below] or [name]
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Of a name that stands twice one would be lost in writing."""
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} stands twice in an object")
    return made


def _written(settings: Mapping[str, Any], before: bytes | None) -> bytes:
    text = (before or b"").decode("utf-8-sig", "replace")
    found = _INDENT.search(text)
    indent = found[1] if found else "  "
    made = json.dumps(settings, indent=indent, ensure_ascii=text.isascii() and "\\u" in text)
    end = "\n" if before is None or not before.strip() or text.endswith("\n") else ""
    return (made + end).encode()


# --- doing it -------------------------------------------------------------------------------------------


def install(changes: list[FileChange], state: Path, host: str) -> None:
    """Writes the changes of one host, and keeps what is needed to take them back.

    Each file is replaced as a whole, in its mode and behind its symbolic links. Raises ``ConfigError`` for what
    cannot be written, also if a file is not any more as it was when its change was made.
    """
    with _Record(state) as record:
        for change in changes:
            known = record.files.get(str(change.path))
            kept = known.get("kept") if known is not None else _keep(change, state)
            _replace(change)
            # Rounded down: what happens after this is after it.
            at = known.get("at") if known is not None and not change.changes else math.floor(time.time() * 10) / 10
            written = _digest(change.after)
            if known is not None and known.get("written") != _digest(change.before):
                written = ""  # somebody else wrote in it since: what is kept lacks that, and is not put back any more
            record.files[str(change.path)] = {"host": host, "kept": kept, "written": written, "at": at}


def reverted(change: FileChange, state: Path) -> FileChange:
    """The change that takes an installation back: to the very bytes before, where nothing else happened since.

    ``change`` takes just our entries out; it is what is done where the file was changed since, or is not known.
    """
    with _Record(state, write=False) as record:
        known = record.files.get(str(change.path))
    if known is None or change.before is None or known.get("written") != _digest(change.before):
        return change
    kept = known.get("kept")
    if kept is None:
        return FileChange(change.path, change.before, None)
    content = _content(state / BEFORE / kept)
    return change if content is None else FileChange(change.path, change.before, content)


def uninstall(changes: list[FileChange], state: Path) -> None:
    """Writes the changes and forgets what was kept. Raises ``ConfigError`` as ``install`` does."""
    with _Record(state) as record:
        for change in changes:
            _replace(change)
            known = record.files.pop(str(change.path), None)
            if known is not None and known.get("kept"):
                (state / BEFORE / known["kept"]).unlink(missing_ok=True)


def installed_files(state: Path, host: str) -> list[Path]:
    """The files into which entries of this host were put."""
    with _Record(state, write=False) as record:
        return [Path(path) for path, known in record.files.items() if known.get("host") == host]


def installed_at(state: Path, path: Path) -> float | None:
    """Since when a file has its entries as they stand, in Unix seconds; None if that is not known."""
    with _Record(state, write=False) as record:
        at = record.files.get(str(path), {}).get("at")
    return float(at) if isinstance(at, int | float) else None


class _Record:
    """``installed.json``: ``{"files": {PATH: {"host", "kept", "written", "at"}}}``, ``at`` in Unix seconds."""

    def __init__(self, state: Path, *, write: bool = True) -> None:
        self._path = state / INSTALLED
        self._writes = write
        self.files: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        files = _parsed(_content(self._path), self._path).get("files", {})
        self.files = {path: known for path, known in files.items() if isinstance(known, dict)}
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._writes:  # also after a fault: what was done until then was done
            write(self._path, json.dumps({"files": self.files}, indent=2).encode() + b"\n", 0o600)


def _keep(change: FileChange, state: Path) -> str | None:
    """Keeps the file as it was, and returns under which name; None if there was none."""
    if change.before is None:
        return None
    name = f"{blake2b(str(change.path).encode(), digest_size=8).hexdigest()}-{change.path.name}"
    write(state / BEFORE / name, change.before, 0o600)
    return name


def _replace(change: FileChange) -> None:
    if not change.changes:
        return
    if _content(change.path) != change.before:
        raise ConfigError("somebody changed it meanwhile; nothing was written, try again", at=str(change.path))
    if change.after is None:
        change.path.unlink()
    else:
        write(change.path, change.after)


def write(path: Path, content: bytes, mode: int | None = None) -> None:
    """Replaces a file at once; a new one can be read by its owner alone where ``mode`` says nothing else."""
    path = path.resolve()  # behind a symbolic link, which is to stay one
    name = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if mode is None:
            mode = path.stat().st_mode & 0o7777 if path.exists() else 0o600
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except OSError as error:
        if name is not None:
            with suppress(OSError):
                Path(name).unlink(missing_ok=True)
        raise ConfigError(f"cannot be written: {error.strerror}", at=str(path)) from None


def _digest(content: bytes | None) -> str:
    return blake2b(content or b"", digest_size=16).hexdigest()
