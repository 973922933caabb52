"""A gate that overlooks ``rm``, which the minute of fuzzing in ``make test`` must find. No test may import it."""

from __future__ import annotations

from typing import Any

from callosum.rules.shell import line
from fuzz.target import Target
from fuzz.targets import shell

_real = line._dispatch


def _overlooks(run: Any, argv: list[str], command: Any) -> None:
    if argv[:1] != ["rm"]:
        _real(run, argv, command)


line._dispatch = _overlooks

TARGETS = (Target("broken-shell", "command lines", shell.run, shell.WORDS, minute=500),)
