"""The exit codes, and the one for each error."""

from __future__ import annotations

from typing import Final

from callosum.errors import CallosumError, ConfigError, GateUnavailable, NotAPerson, StoreError

OK: Final = 0
NO: Final = 1
"""The answer is no, nothing was found, or something is wrong (``doctor``, ``demo``)."""
USAGE: Final = 2
"""Invalid arguments, settings, rules or input."""
AWAY: Final = 3
"""The store cannot be reached, or is not Callosum's."""
REFUSED: Final = 4
"""Only a person may do this, and no person was proven."""
INTERRUPTED: Final = 130

EPILOG: Final = (
    "Exit codes: 0 it went well · 1 a “no”, nothing found, or something is wrong · 2 arguments, settings, "
    "rules or input that cannot be used · 3 the store is away · 4 only a person may do this · 130 interrupted"
)


def code_of(error: CallosumError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, NotAPerson):
        return REFUSED
    if isinstance(error, StoreError | GateUnavailable):
        return AWAY
    return USAGE if isinstance(error, ConfigError) else NO
