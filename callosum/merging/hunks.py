"""The lines that differ between two texts, and their distance from an edit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final, NamedTuple

from callosum.characters import SIXTHS, escaped, measure
from callosum.merging.proposed_writes import TextEdit

APART: Final = 3
"""Fewest unchanged lines between an edit and every unread change."""
_MOST_WORK: Final = 1_000_000
"""Largest product of line counts for which the middle of two texts is compared line by line."""
_SHOWN_LINES: Final = 20
_SHOWN_WIDTH: Final = 160
_SHOWN: Final = 400
"""Most lines, characters of a line and tokens in total that a session is shown of a file."""


class Hunk(NamedTuple):
    """Lines ``start`` to ``end`` of the old text became ``new_start`` to ``new_end`` of the new one."""

    start: int
    end: int
    new_start: int
    new_end: int


def split(text: str) -> list[str]:
    r"""Return the lines of a text with their line ends. Only ``\n`` ends a line, as in git."""
    lines = text.split("\n")
    return [*[f"{line}\n" for line in lines[:-1]], *lines[-1:]] if lines[-1] else [f"{line}\n" for line in lines[:-1]]


def hunks(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """Return where two lists of lines differ.

    For very long texts this is one hunk, from the first to the last difference.
    """
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
    return [Hunk(head + a, head + b, head + c, head + d) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def are_apart(edits: Sequence[TextEdit], base: str, disk: str) -> bool:
    """Return True if each edit's old text occurs once on disk, ``APART`` lines from every change since the base."""
    changed = hunks(split(base), split(disk))
    for edit in edits:
        if not edit.old or disk.count(edit.old) != 1:
            return False
        at = disk.index(edit.old)
        first = disk.count("\n", 0, at)
        last = first + edit.old.removesuffix("\n").count("\n")
        for hunk in changed:
            if not (hunk.new_end + APART <= first or last + 1 + APART <= hunk.new_start):
                return False
    return all(not a.old.count(b.old) and not b.old.count(a.old) for a, b in pairwise(edits))


def shown(old: str, new: str) -> str:
    """Return the change from one text to another as data for an agent: few lines, cut and escaped."""
    before, after = split(old), split(new)
    diff: list[str] = []
    for hunk in hunks(before, after):
        diff.append(f"@@ line {hunk.new_start + 1} @@")
        diff += [f"-{line}" for line in before[hunk.start : hunk.end]]
        diff += [f"+{line}" for line in after[hunk.new_start : hunk.new_end]]
    cut: list[str] = []
    room = _SHOWN * SIXTHS
    for line in diff if len(diff) <= _SHOWN_LINES else diff[: _SHOWN_LINES - 1]:
        cut.append(escaped(line.rstrip("\n"))[:_SHOWN_WIDTH])
        room -= measure(f"| {cut[-1]}\n")
        if room < 0:
            cut.pop()
            break
    if len(diff) > len(cut):
        cut.append(f"... and {len(diff) - len(cut)} lines more")
    return "\n".join(f"| {line}" for line in cut)
