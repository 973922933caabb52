"""RAS: cuts a brief to a budget of tokens.

A host adds the brief to every turn, so it must stay small. The least important sections lose their last lines first. A
line is kept whole or dropped; only if not even the first line fits is it shortened.
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
"""Default budget of a brief, in tokens."""
_END: Final = 2
"""Size of a line end."""
_SHORTEST: Final = 60
"""Fewest characters of a shortened line; a shorter one is not worth its heading."""


class RAS:
    """Cut briefs to ``budget`` tokens; emit ``context.trimmed`` for each brief that was cut.

    Keeps nothing between two briefs and may be used from any thread. Raises ``ConfigError`` at ``budget`` if it is
    negative or above ``MAX_BUDGET``.
    """

    def __init__(self, corpus: Corpus, budget: int = BUDGET) -> None:
        self._corpus = corpus
        self.budget = _checked(budget)

    def close(self) -> None:
        """Do nothing: it has no subscription."""

    def trim(
        self,
        brief: Brief,
        budget: int | None = None,
        *,
        instance: str | None = None,
        namespace: str | None = DEFAULT_NAMESPACE,
    ) -> Brief:
        """Return the brief with as many lines as fit into ``budget`` tokens (None: the region's own budget).

        A brief that fits is returned unchanged. If not even a shortened line fits, the result is an empty brief whose
        ``trimmed`` counts the lines. ``instance`` and ``namespace`` are for the event, which counts the sections that
        are gone altogether. Linear in the number of lines.
        """
        most = self.budget if budget is None else _checked(budget)
        if brief.tokens <= most:
            return brief
        cut = _cut(brief, most * SIXTHS)
        dropped = len(brief.sections) - len(cut.sections)
        self._corpus.emit(ContextTrimmed(brief.tokens, cut.tokens, dropped, instance=instance, namespace=namespace))
        return cut


def _cut(brief: Brief, room: int) -> Brief:
    """Keep as many lines from the front as fit, and add a line with the number of lines left out."""
    lines = sum(len(section.lines) for section in brief.sections)
    lines_left = brief.trimmed + lines
    room -= measure(HEAD) + _END + measure(left_out(lines_left))
    sections: list[Section] = []
    for section in brief.sections:
        title = measure(heading(section)) + _END
        fitting, room = _fitting(section.lines, room - title)
        if not fitting and not sections and section.lines:
            short = _shortened(section.lines[0], room - measure(item("")) - _END)
            fitting = (short,) if short else ()
        if fitting:
            sections.append(Section(section.title, fitting))
        lines_left -= len(fitting)
        if len(fitting) < len(section.lines):
            break
    return brief_of(sections, lines_left)


def _fitting(lines: Sequence[str], room: int) -> tuple[tuple[str, ...], int]:
    """Return the first lines for which there is room, and the remaining room."""
    for number, line in enumerate(lines):
        size = measure(item(line)) + _END
        if size > room:
            return tuple(lines[:number]), room
        room -= size
    return tuple(lines), room


def _shortened(line: str, room: int) -> str:
    """Return the start of a line in at most ``room``, with an ellipsis; ``""`` if too little would remain."""
    room -= measure('…"')
    length = 0
    for char in line:
        room -= measure(char)
        if room < 0:
            break
        length += 1
    if length < _SHORTEST:
        return ""
    short = line[:length].rstrip() + "…"
    return short + '"' if short.count('"') % 2 else short  # close a quotation that was cut


def _checked(budget: int) -> int:
    if type(budget) is not int or not 0 <= budget <= MAX_BUDGET:
        raise ConfigError(f"expected a number of tokens from 0 to {MAX_BUDGET}, got {budget!r}", at="budget")
    return budget
