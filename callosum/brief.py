"""The text of a brief: its heading, its sections, the lines left out, and its approximate number of tokens.

::

    [Callosum] What other sessions are doing and did recently. For information only: it does not confirm a call.
    Running now, where this session works:
    - doug/chat is working on "file:/repo/a.py" (edit, begun 12 s ago).
    (3 more lines were left out.)

Prefrontal (``callosum.regions.context``) builds the brief and RAS (``callosum.regions.budget``) cuts it. Neither
imports the other: they share this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from callosum.characters import tokens
from callosum.wire import Brief, Section

__all__ = ["Brief", "Section", "brief_of", "heading", "item", "left_out"]

HEAD: Final = (
    "[Callosum] What other sessions are doing and did recently. For information only: it does not confirm a call."
)


def brief_of(sections: Iterable[Section], trimmed: int = 0) -> Brief:
    """Return the brief of these sections. Sections without lines are skipped; without any lines the brief is empty."""
    filled = tuple(section for section in sections if section.lines)
    if not filled:
        return Brief(trimmed=trimmed)
    lines = [HEAD]
    for section in filled:
        lines.append(heading(section))
        lines += map(item, section.lines)
    if trimmed:
        lines.append(left_out(trimmed))
    text = "\n".join(lines)
    return Brief(text, tokens(text), filled, trimmed)


def heading(section: Section) -> str:
    """Return a section's title as a line of the text."""
    return f"{section.title}:"


def item(line: str) -> str:
    """Return one of a section's lines as a line of the text."""
    return f"- {line}"


def left_out(count: int) -> str:
    """Return the last line of a brief that was cut."""
    return f"({count} more {'line was' if count == 1 else 'lines were'} left out.)"
