"""Load ``shapes.toml``, the table of what is a secret, and check its form.

The table is read once, when this module is imported. A fault in it raises ``ValueError`` that names the place.
"""

from __future__ import annotations

import re
import tomllib
from pkgutil import get_data
from typing import Any, Final

import msgspec
import re2

Pattern = str | list[str]
"""A pattern, or its parts."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the table that has no other fields."""


class ShapeRow(_Strict, frozen=True, kw_only=True):
    """One shape of a secret; the head of ``shapes.toml`` describes the fields."""

    id: str = ""
    pattern: Pattern
    programs: Pattern = ""
    clue: str = ""
    sign: str = ""
    when: tuple[str, ...] = ()
    shortest: int = 0
    each: str = ""
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()


class _Kind(_Strict, frozen=True):
    """What the rows of a kind have in common: a frame around their patterns, and defaults."""

    frame: str = "<PATTERN>"
    clue: str = ""
    when: tuple[str, ...] = ()
    shortest: int = 0


class _Table(_Strict, frozen=True):
    """The table as the file has it."""

    fragments: dict[str, Pattern]
    clues: dict[str, Pattern]
    conditions: dict[str, Pattern]
    each: dict[str, ShapeRow]
    names: dict[str, str]
    kinds: dict[str, _Kind]
    rows: dict[str, tuple[ShapeRow, ...]]


def _load(text: str) -> _Table:
    """Return the table in ``text``. Raises ``ValueError`` for a fault, with its place."""
    try:
        table = msgspec.convert(tomllib.loads(text), _Table)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ValueError(f"shapes.toml: {error}") from error
    if unknown := sorted(table.rows.keys() - table.kinds):
        raise ValueError(f"shapes.toml: rows.{unknown[0]}: expected one of the kinds, {', '.join(table.kinds)}")
    ids = [row.id for rows in table.rows.values() for row in rows]
    if twice := sorted({one for one in ids if not one or ids.count(one) > 1}):
        raise ValueError(f"shapes.toml: rows: expected an id of its own for each row, got {twice[0]!r} again or none")
    return table


TABLE: Final = _load((get_data(__package__, "shapes.toml") or b"").decode())


def words(name: str) -> frozenset[str]:
    """Return the words under ``name`` in ``[names]``."""
    return frozenset(TABLE.names[name].split())


_FRAGMENT: Final = re.compile(r"<([A-Z]+)>")
_ANY_OF: Final = {part: "|".join(sorted(words(part.lower()))) for part in ("KEYS", "CODES", "RANDOM")}
"""Fragments that match any of the words of a name."""


def expand(pattern: Pattern, **parts: Pattern) -> str:
    """Return a pattern with each fragment in place of its name. ``parts`` are further fragments."""
    fragments = {**TABLE.fragments, **_ANY_OF, **parts}
    joined = pattern if isinstance(pattern, str) else "".join(pattern)
    return _FRAGMENT.sub(lambda named: expand(fragments[named[1]], **parts), joined)


def compile_linear(pattern: str, *, capture: bool = True) -> Any:
    """Return a pattern of bytes that RE2 matches in linear time."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # search the bytes directly: nothing is decoded
    options.log_errors = False
    options.max_mem = 64 << 20  # with too little memory for its automaton RE2 becomes slow
    options.never_capture = not capture
    return re2.compile(pattern.encode(), options=options)


def rows() -> list[ShapeRow]:
    """Return the rows of all kinds in the order in which they are searched, each complete and in its frame."""
    return [
        msgspec.structs.replace(
            row,
            pattern=kind.frame.replace("<PATTERN>", "".join(row.pattern)).replace("<PROGRAMS>", "".join(row.programs)),
            clue=row.clue or kind.clue.replace("<PROGRAMS>", "".join(row.programs)),
            when=row.when or kind.when,
            shortest=row.shortest or kind.shortest,
        )
        for name, kind in TABLE.kinds.items()
        if name != "public"
        for row in TABLE.rows.get(name, ())
    ]
