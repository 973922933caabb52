"""Named SQL statements in files that can be read and tried without Python.

A file is a list of statements, each below a line ``-- name: ...``; other lines that begin with ``--`` are comments.
``{part}`` in a statement stands for the text of an earlier statement, in this file or one read before, or for a number
from Python. ``{{part}}`` is left for the caller: a number of placeholders, which SQL cannot express otherwise. The text
is put together once, when the module that uses it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

SHARED: Final = "callosum.stores"
"""The package with what the SQL stores have in common."""


def load(package: str, file: str, known: Mapping[str, object]) -> dict[str, str]:
    """Return the statements of a package's file by name; ``known`` are the parts that they may use.

    Raises ``KeyError`` for an unknown part.
    """
    parts: dict[str, object] = dict(known)
    found: dict[str, str] = {}
    for block in files(package).joinpath(file).read_text("utf-8").split("\n-- name: ")[1:]:
        name, *lines = block.split("\n")
        text = " ".join([line.strip() for line in lines if line and not line.startswith("--")])
        parts[name] = found[name] = text.format_map(parts)
    return found
