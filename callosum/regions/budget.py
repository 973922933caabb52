"""RAS: cuts a brief to a budget of tokens.

What a host injects is read with every turn, so it must stay small. The least important sections lose their last
lines first. A line stays whole or goes; only where not even the first one fits is it shortened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from callosum.brief import HEAD, Brief, Section, brief_of, heading, item, left_out
from callosum.characters import SIXTHS, measure
from callosum.corpus.bus import Corpus
from callosum.corpus.events import ContextTrimmed
from callosum.errors import ConfigError
from callosum.model import DEFAULT_NAMESPACE
from callosum.wire import MAX_BUDGET

BUDGET: Final = 600
"""How long a brief may be where nothing is said, in tokens."""
_END: Final = 2
"""What the end of a line measures."""
_SHORTEST: Final = 60
"""A shortened line has at least so many characters, or it is not worth its heading."""


class RAS:
    """Cuts briefs to ``budget`` tokens; emits ``context.trimmed`` for each that was cut.

    Holds nothing between two briefs and may be used from any thread. Raises ``ConfigError`` at ``budget`` for
    one that is negative, or above ``MAX_BUDGET``.
    """

    def __init__(self, corpus: Corpus, budget: int = BUDGET) -> None:
        self._corpus = corpus
        self.budget = _checked(budget)

    def close(self) -> None:
        """Has nothing to end: it listens to nothing."""

    def trim(
        self,
        brief: Brief,
        budget: int | None = None,
        *,
        instance: str | None = None,
        namespace: str | None = DEFAULT_NAMESPACE,
    ) -> Brief:
        """Returns the brief with so many lines that it takes at most ``budget`` tokens (None: the region's own).

        One that fits is returned as it is. Where not even a shortened line fits, nothing is left: an empty
        brief, whose ``trimmed`` counts the lines. ``instance`` and ``namespace`` are for the event, which
        counts the sections that are gone altogether. Linear in the number of lines.
        """
        most = self.budget if budget is None else _checked(budget)
        if brief.tokens <= most:
            return brief
        cut = _cut(brief, most * SIXTHS)
        dropped = len(brief.sections) - len(cut.sections)
        self._corpus.emit(ContextTrimmed(brief.tokens, cut.tokens, dropped, instance=instance, namespace=namespace))
        return cut


def _cut(brief: Brief, room: int) -> Brief:
    """As many lines from the front as fit, with a last one that says how many were left out."""
    lines = sum(len(section.lines) for section in brief.sections)
    left = brief.trimmed + lines
    room -= measure(HEAD) + _END + measure(left_out(left))
    kept: list[Section] = []
    for section in brief.sections:
        title = measure(heading(section)) + _END
        own, room = _fitting(section.lines, room - title)
        if not own and not kept and section.lines:
            short = _shortened(section.lines[0], room - measure(item("")) - _END)
            own = (short,) if short else ()
        if own:
            kept.append(Section(section.title, own))
        left -= len(own)
        if len(own) < len(section.lines):
            break
    return brief_of(kept, left)


def _fitting(lines: Sequence[str], room: int) -> tuple[tuple[str, ...], int]:
    """The first lines for which there is room, and the room that is left."""
    for number, line in enumerate(lines):
        size = measure(item(line)) + _END
        if size > room:
            return tuple(lines[:number]), room
        room -= size
    return tuple(lines), room


def _shortened(line: str, room: int) -> str:
    """The start of a line, of no more than this measure, with an ellipsis; ``""`` if hardly any would be left."""
    room -= measure('…"')
    kept = 0
    for char in line:
        room -= measure(char)
        if room < 0:
            break
        kept += 1
    if kept < _SHORTEST:
        return ""
    short = line[:kept].rstrip() + "…"
    return short + '"' if short.count('"') % 2 else short  # nothing is left open that was quoted


def _checked(budget: int) -> int:
    if type(budget) is not int or not 0 <= budget <= MAX_BUDGET:
        raise ConfigError(f"expected a number of tokens from 0 to {MAX_BUDGET}, got {budget!r}", at="budget")
    return budget
