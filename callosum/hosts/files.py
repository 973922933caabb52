"""Read, compare, write and restore the settings files of hosts.

A file is written whole or not at all, and a file with unexpected content is never written. The state folder keeps a
record (``installed.json``) and the original files (under ``before/``). Uninstalling restores the very bytes of a file
that nobody has changed since.
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
"""Folder below the state folder that keeps the original files."""
_INDENT: Final = re.compile(r"\n([ \t]+)\S")
_LONGEST: Final = 10_000_000
_NAMED: Final = 4
"""Number of changed members that a summary names."""


class NotPlainJson(ConfigError):
    """Report that the file at ``path`` is not plain JSON, so no program may write it.

    ``entries`` is what the user has to add by hand.
    """

    def __init__(self, message: str, path: Path, entries: str = "") -> None:
        super().__init__(message, at=str(path))
        self.path = path
        self.entries = entries


class FileChange(Struct, frozen=True):
    """Describe a change to a file: ``before`` is None if it does not exist, ``after`` is None to delete it."""

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def changes(self) -> bool:
        """Return True if the content changes."""
        return self.before != self.after

    def summary(self) -> str:
        """Return one sentence with the members of the file that change and the number of lines, or ""."""
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
        """Return the change as a unified diff, or "" if there is none."""
        old, new = ((content or b"").decode("utf-8", "replace").splitlines(keepends=True) for content in self)
        name = str(self.path)
        lines = difflib.unified_diff(old, new, name if self.before is not None else os.devnull, name)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines)

    def __iter__(self) -> Any:
        return iter((self.before, self.after))


def changed(path: Path, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> FileChange:
    """Read a JSON file and return the change that ``change`` makes to the object in it.

    A missing or empty file counts as ``{}``. A file that becomes ``{}`` is kept. Indentation and the end of the file
    stay as they are.

    Raises: ``ConfigError`` with the file and the place, if the content is not a JSON object.
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
        content_object = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once)
    except ValueError as error:
        hint = "; comments are none of JSON, so the entries have to be put in by hand" if b"//" in content else ""
        raise NotPlainJson(f"cannot be read as JSON: {error}{hint}; the file is left as it is", path) from None
    except RecursionError:
        raise ConfigError("nested too deeply; the file is left as it is", at=str(path)) from None
    if not isinstance(content_object, dict):
        raise ConfigError(f"expected an object, got {type(content_object).__name__}; it is left as it is", at=str(path))
    return content_object


_LENIENT: Final = re.compile(
    r'("(?>[^"\\]|\\.)*+")|//[^\n]*|/\*(?>.*?(?:\*/|\Z))|,(?=(?>(?:\s|//[^\n]*|/\*(?>.*?(?:\*/|\Z)))*)[}\]])', re.DOTALL
)
"""Matches a string, which stays, or what only JSON with comments has: comments, and commas before a closing bracket."""


def _entries_by_hand(content: bytes, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> str:
    """Return, as JSON, the members that ``change`` adds to an object in JSON with comments, or "" if there are none."""
    try:
        current = json.loads(_LENIENT.sub(lambda match: match[1] or "", content.decode("utf-8-sig")))
        after = change(current)
    except (ValueError, RecursionError, ConfigError, AttributeError, TypeError):
        return ""
    missing: dict[str, Any] = {}
    for name, value in after.items():
        inner = current.get(name)
        if isinstance(value, Mapping) and isinstance(inner, Mapping | None):
            changed_members = {key: value for key, value in value.items() if inner is None or inner.get(key) != value}
            if changed_members:
                missing[name] = changed_members
        elif value != inner:
            missing[name] = value
    return json.dumps(missing, indent=2, ensure_ascii=False) if missing else ""


def _members_that_differ(old: Any, new: Any) -> list[str]:
    """Return the names of members that differ, two levels deep: ``hooks.PreToolUse``."""
    names = []
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        objects = [value if isinstance(value, dict) else {} for value in (before, after)]
        inner_names = [
            key for key in dict.fromkeys((*objects[0], *objects[1])) if objects[0].get(key) != objects[1].get(key)
        ]
        names += [f"{name}.{key}" for key in inner_names] or [name]
    return names


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises ``ValueError`` for a repeated name, because writing would lose one of its values."""
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {repeated!r} occurs twice in an object")
    return members


def _written(settings: Mapping[str, Any], before: bytes | None) -> bytes:
    text = (before or b"").decode("utf-8-sig", "replace")
    indentation = _INDENT.search(text)
    indent = indentation[1] if indentation else "  "
    encoded = json.dumps(settings, indent=indent, ensure_ascii=text.isascii() and "\\u" in text)
    end = "\n" if before is None or not before.strip() or text.endswith("\n") else ""
    return (encoded + end).encode()


# --- Writing -------------------------------------------------------------------------------------------


def install(changes: list[FileChange], state: Path, host: str) -> None:
    """Write the changes for one host and keep what is needed to undo them.

    Each file is replaced as a whole. Its mode and the symbolic links to it stay.

    Raises: ``ConfigError`` if a file cannot be written, or has changed since its change was computed.
    """
    with _Record(state) as record:
        for change in changes:
            entry = record.files.get(str(change.path))
            kept = entry.get("kept") if entry is not None else _keep(change, state)
            _replace(change)
            # Rounded down, so that everything that happens later has a later time.
            at = entry.get("at") if entry is not None and not change.changes else math.floor(time.time() * 10) / 10
            written = _digest(change.after)
            if entry is not None and entry.get("written") != _digest(change.before):
                written = ""  # Somebody else wrote to the file. The kept original lacks that edit and is not restored.
            record.files[str(change.path)] = {"host": host, "kept": kept, "written": written, "at": at}


def reverted(change: FileChange, state: Path) -> FileChange:
    """Return the change that undoes an installation.

    It restores the original bytes if nobody has changed the file since. Otherwise, or if the file is not on record, it
    is ``change``, which only takes our entries out.
    """
    with _Record(state, write=False) as record:
        entry = record.files.get(str(change.path))
    if entry is None or change.before is None or entry.get("written") != _digest(change.before):
        return change
    kept = entry.get("kept")
    if kept is None:
        return FileChange(change.path, change.before, None)
    content = _content(state / BEFORE / kept)
    return change if content is None else FileChange(change.path, change.before, content)


def uninstall(changes: list[FileChange], state: Path) -> None:
    """Write the changes and forget the originals. Raises ``ConfigError`` as ``install`` does."""
    with _Record(state) as record:
        for change in changes:
            _replace(change)
            entry = record.files.pop(str(change.path), None)
            if entry is not None and entry.get("kept"):
                (state / BEFORE / entry["kept"]).unlink(missing_ok=True)


def installed_files(state: Path, host: str) -> list[Path]:
    """Return the files that hold entries of this host."""
    with _Record(state, write=False) as record:
        return [Path(path) for path, entry in record.files.items() if entry.get("host") == host]


def installed_at(state: Path, path: Path) -> float | None:
    """Return the time since which a file has had its current entries, in Unix seconds, or None if unknown."""
    with _Record(state, write=False) as record:
        at = record.files.get(str(path), {}).get("at")
    return float(at) if isinstance(at, int | float) else None


class _Record:
    """Read and write ``installed.json``.

    The file holds ``{"files": {PATH: {"host", "kept", "written", "at"}}}``. ``at`` is in Unix seconds.
    """

    def __init__(self, state: Path, *, write: bool = True) -> None:
        self._path = state / INSTALLED
        self._writes = write
        self.files: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        files = _parsed(_content(self._path), self._path).get("files", {})
        self.files = {path: known for path, known in files.items() if isinstance(known, dict)}
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._writes:  # also after an error, because earlier changes were made
            write(self._path, json.dumps({"files": self.files}, indent=2).encode() + b"\n", 0o600)


def _keep(change: FileChange, state: Path) -> str | None:
    """Keep the original file. Return the name under which it is kept, or None if there was no file."""
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
    """Replace a file atomically. A new file is readable by its owner alone unless ``mode`` says otherwise."""
    path = path.resolve()  # replace the target of a symbolic link, not the link
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
