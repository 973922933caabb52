"""Check a merge without asking the program that made it: count its lines, and compare their order. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from callosum.merging.hunks import hunks

Lines = Sequence[str]


def fault_of(base: Lines, mine: Lines, theirs: Lines, merged: Lines) -> str:
    """Return why a merge without conflicts does not hold each side's change once and nothing else, "" if it does."""
    of_base, of_mine, of_theirs, found = map(Counter, (base, mine, theirs, merged))
    sides = [_changed(base, side) for side in (mine, theirs)]
    for line in {*of_base, *of_mine, *of_theirs, *found}:
        added, removed = ([side[number][line] for side in sides] for number in (0, 1))
        # Where both sides did the same to a line, they may have made one change, or each one of its own.
        least, most = max(added) - sum(removed), sum(added) - max(removed)
        if not least <= found[line] - of_base[line] <= most:
            change = found[line] - of_base[line]
            return f"{line!r}: {added} times added, {removed} times removed, {change:+} merged"
    for side, other, counted in ((mine, theirs, of_theirs), (theirs, mine, of_mine)):
        moved = _moved(base, other)
        alone = {line for line in side if of_base[line] <= 1 and of_base[line] == counted[line]}  # left by the other
        both = {line for line, number in Counter(side).items() if number == found[line] == 1} & alone - moved
        if [line for line in side if line in both] != [line for line in merged if line in both]:
            return "the merge has lines in another order than a side"
    return ""


def _changed(base: Lines, side: Lines) -> tuple[Counter[str], Counter[str]]:
    """Return which lines a side added, and which it removed."""
    changes = hunks(base, side)
    added = Counter(line for hunk in changes for line in side[hunk.new_start : hunk.new_end])
    removed = Counter(line for hunk in changes for line in base[hunk.start : hunk.end])
    if len(changes) == 1:  # of very long texts it holds what did not change too
        added, removed = added - removed, removed - added
    return added, removed


def _moved(base: Lines, side: Lines) -> set[str]:
    """Return the lines that a side has in another order than the base: those that were moved, and what they passed."""
    first, then = Counter(base), Counter(side)
    places = {line: at for at, line in enumerate(base) if first[line] == then[line] == 1}
    order = [line for line in side if line in places]
    found = set()
    highest, lowest = -1, len(base)
    for line in order:
        if places[line] < highest:
            found.add(line)
        highest = max(highest, places[line])
    for line in reversed(order):
        if places[line] > lowest:
            found.add(line)
        lowest = min(lowest, places[line])
    return found
