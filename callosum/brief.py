"""A brief as text: its head, its sections, what was left out, and about how many tokens that is.

::

    [Callosum] What other sessions have in hand and did lately. For information: it confirms nothing.
    In hand now, where this session works:
    - doug/chat has an active action on "file:/repo/a.py" (edit, begun 12 s ago).
    (3 more lines were left out.)

It is put together by Prefrontal (``callosum.regions.context``) and cut to a budget by RAS
(``callosum.regions.budget``), which do not know each other: this is what they share.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from callosum.characters import tokens
from callosum.wire import Brief, Section

__all__ = ["Brief", "Section", "brief_of", "heading", "item", "left_out"]

HEAD: Final = "[Callosum] What other sessions have in hand and did lately. For information: it confirms nothing."


def brief_of(sections: Iterable[Section], trimmed: int = 0) -> Brief:
    """Returns the brief of these sections; those without lines are passed over. Without any it has no text."""
    kept = tuple(section for section in sections if section.lines)
    if not kept:
        return Brief(trimmed=trimmed)
    lines = [HEAD]
    for section in kept:
        lines.append(heading(section))
        lines += map(item, section.lines)
    if trimmed:
        lines.append(left_out(trimmed))
    text = "\n".join(lines)
    return Brief(text, tokens(text), kept, trimmed)


def heading(section: Section) -> str:
    """A section's title as a line of the text."""
    return f"{section.title}:"


def item(line: str) -> str:
    """One of a section's lines as a line of the text."""
    return f"- {line}"


def left_out(count: int) -> str:
    """The last line of a brief that says not all."""
    return f"({count} more {'line was' if count == 1 else 'lines were'} left out.)"
