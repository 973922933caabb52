"""The programs of command lines and the options that matter: the rows of ``programs.toml``, compiled at import.

``programs.VIEWERS`` holds the programs of all rows with the trait ``viewers``; ``HANDLERS`` says which function judges
a program, as ``module.function`` of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from callosum.rules.lexicon import compiled, read

_TABLES: Final = compiled(read(__package__, "programs.toml"))
lists: Final = _TABLES.lists
maps: Final = _TABLES.maps
tiers: Final = _TABLES.tiers
groups: Final = _TABLES.groups
HANDLERS: Final = _TABLES.judges
globals().update(_TABLES.sets)

if TYPE_CHECKING:

    def __getattr__(name: str) -> frozenset[str]: ...
