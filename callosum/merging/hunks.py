"""Which lines differ between two texts, and how far an edit lies from them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final, NamedTuple

from callosum.characters import SIXTHS, escaped, measure
from callosum.merging.proposed_writes import TextEdit

APART: Final = 3
"""Unchanged lines that must lie between an edit and every unread change."""
_MOST_WORK: Final = 1_000_000
"""Product of the numbers of lines up to which the middle of two texts is compared line by line."""
_SHOWN_LINES: Final = 20
_SHOWN_WIDTH: Final = 160
_SHOWN: Final = 400
"""Most lines, characters of a line and tokens in all that a session is shown of a file."""


class Hunk(NamedTuple):
    """Lines ``start`` to ``end`` of the old text became ``new_start`` to ``new_end`` of the new one."""

    start: int
    end: int
    new_start: int
    new_end: int


def split(text: str) -> list[str]:
    r"""Return the lines of a text with their ends. Only ``\n`` ends a line, as for git."""
    lines = text.split("\n")
    return [*[f"{line}\n" for line in lines[:-1]], *lines[-1:]] if lines[-1] else [f"{line}\n" for line in lines[:-1]]


def hunks(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """Return where two lists of lines differ. Of very long texts all between the first and the last difference."""
    head = 0
    shortest = min(len(old), len(new))
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    ends = len(old) - tail, len(new) - tail
    if head == ends[0] == ends[1]:
        return []
    if (ends[0] - head) * (ends[1] - head) > _MOST_WORK:
        return [Hunk(head, ends[0], head, ends[1])]
    matcher = SequenceMatcher(None, old[head : ends[0]], new[head : ends[1]], autojunk=False)
    return [
        Hunk(head + a, head + b, head + c, head + d) for what, a, b, c, d in matcher.get_opcodes() if what != "equal"
    ]


def are_apart(edits: Sequence[TextEdit], base: str, disk: str) -> bool:
    """Return True if each edit's old text occurs once on the disk, ``APART`` lines from all that changed since."""
    changed = hunks(split(base), split(disk))
    for edit in edits:
        if not edit.old or disk.count(edit.old) != 1:
            return False
        at = disk.index(edit.old)
        first = disk.count("\n", 0, at)
        last = first + edit.old.removesuffix("\n").count("\n")
        for one in changed:
            if not (one.new_end + APART <= first or last + 1 + APART <= one.new_start):
                return False
    return all(not a.old.count(b.old) and not b.old.count(a.old) for a, b in pairwise(edits))


def shown(old: str, new: str) -> str:
    """Return what was changed from one text to another, as data for an agent: few lines, cut and escaped."""
    before, after = split(old), split(new)
    out: list[str] = []
    for one in hunks(before, after):
        out.append(f"@@ line {one.new_start + 1} @@")
        out += [f"-{line}" for line in before[one.start : one.end]]
        out += [f"+{line}" for line in after[one.new_start : one.new_end]]
    cut: list[str] = []
    left = _SHOWN * SIXTHS
    for line in out if len(out) <= _SHOWN_LINES else out[: _SHOWN_LINES - 1]:
        cut.append(escaped(line.rstrip("\n"))[:_SHOWN_WIDTH])
        left -= measure(f"| {cut[-1]}\n")
        if left < 0:
            cut.pop()
            break
    if len(out) > len(cut):
        cut.append(f"... and {len(out) - len(cut)} lines more")
    return "\n".join(f"| {line}" for line in cut)
