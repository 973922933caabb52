"""No pattern of the standard library's ``re`` takes long on what an agent can write.

``re`` backtracks: a pattern that is harmless on a line can take minutes on a long one. Every module-level pattern is tried
on hostile texts of the greatest length that it can meet.
"""

import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

import callosum
from callosum.hosts import hook_spool
from callosum.model import MAX_KEY
from callosum.rules.shell.parser import MAX_TEXT
from tests.support.hostile import TEXTS

PACKAGES: Final = (
    "callosum.budget", "callosum.rules", "callosum.redact", "callosum.policy", "callosum.gate", "callosum.hosts",
    "callosum.corpus", "callosum.regions", "callosum.pages", "callosum.wire", "callosum.server", "callosum.telemetry",
)  # fmt: skip
"""Where texts of agents, tools and hosts arrive."""
SHORT: Final[Mapping[str, int]] = {
    "callosum.hosts.hook_spool._SECRETIVE": hook_spool._LOOKED, "callosum.redact.digests._CUT": MAX_KEY,
    "callosum.rules.keys._ADDRESS": 4096, "callosum.rules.shell.parser._LIST_VALUE": 256,
    "callosum.rules.shell.table._HOLE": 4096,
}  # fmt: skip
"""Characters of the texts that a pattern meets at most, where these are fewer than ``MAX_TEXT``: see where it is used."""


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield every pattern that is a global of a module, or stands in a global tuple, list or mapping."""
    for found in pkgutil.walk_packages(callosum.__path__, "callosum."):
        if not found.name.startswith(PACKAGES) or found.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:  # of an extra that is not installed
            continue
        for name, value in vars(module).items():
            for number, one in enumerate(_within(value)):
                yield f"{found.name}.{name}" + (f"[{number}]" if number else ""), one


def _within(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | frozenset):
        for one in value:
            yield from _within(one)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _within(one)


PATTERNS: Final = dict(patterns())
PIECES: Final = (*TEXTS.values(), "\t", "0", "_", ".", "[", "<a", "`")


def _searches(name: str) -> bool:
    """Return True unless the source uses the pattern at the beginning of texts only."""
    module, _, variable = name.partition("[")[0].rpartition(".")
    source = inspect.getsource(importlib.import_module(module))
    used = set(re.findall(rf"\b{re.escape(variable)}\.(\w+)", source))
    return not used or not used <= {"match", "fullmatch", "pattern"}


def _seconds(pattern: re.Pattern[Any], text: str, *, searches: bool) -> float:
    subject: Any = text if isinstance(pattern.pattern, str) else text.encode()
    began = time.thread_time()
    (pattern.search if searches else pattern.match)(subject)  # a search begins with a match
    return time.thread_time() - began


def test_patterns_are_found() -> None:
    assert len(PATTERNS) > 100


def _text(piece: str, length: int) -> str:
    return (piece * (length // len(piece) + 1))[:length]


def _is_slow(pattern: re.Pattern[Any], piece: str, length: int, *, searches: bool) -> bool:
    """Return True if a pattern takes longer on a text than a linear one may.

    16 KB are enough where even quadratic growth would keep the limit. A busy machine slows all measurements alike, so a
    pattern that misses it is compared with itself on an eighth of the text: linear time grows eightfold, quadratic 64-fold.
    """
    part = min(16 * 1024, length)
    took = _seconds(pattern, _text(piece, 1024), searches=searches)
    if took <= MOST:  # in steps, so that a pattern that takes minutes fails early
        took = _seconds(pattern, _text(piece, part), searches=searches)
    if took > MOST or took * (length / part) ** 2 <= LIMIT:
        return took > MOST
    text, eighth = _text(piece, length), _text(piece, length // 8)
    short = long = float("inf")
    for _ in range(5):
        short = min(short, _seconds(pattern, eighth, searches=searches))
        long = min(long, _seconds(pattern, text, searches=searches))
        if long <= LIMIT:
            return False
        if long > MOST:  # what takes minutes is not measured five times
            return True
    return long > GROWTH * max(short, LIMIT / 64)


LIMIT: Final = 0.05
"""Seconds of processor time that a pattern may take on any text."""
MOST: Final = 1.0
"""Seconds that no pattern takes on any machine, however busy it is."""
GROWTH: Final = 24
"""How much longer a pattern that misses the limit may take on a text than on an eighth of it."""


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern_takes_bounded_time_on_hostile_text(name: str) -> None:
    pattern, searches = PATTERNS[name], _searches(name)
    for piece in PIECES:
        assert not _is_slow(pattern, piece, SHORT.get(name, MAX_TEXT), searches=searches), (name, piece)


def test_pattern_that_takes_quadratic_time_is_found() -> None:
    quadratic = re.compile(r"a*b")
    assert _is_slow(quadratic, "a", 16 * 1024, searches=True)
    assert not _is_slow(quadratic, "a", 16 * 1024, searches=False)
