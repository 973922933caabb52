"""Which recorded calls other rules judge otherwise, and which keys that touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from callosum.model import SECOND, Classification, Entry, Mode
from callosum.policy.ask import keys_of
from callosum.retrospect.recorded_calls import CallGroups, call_of, example, is_cut
from callosum.rules import RuleSet

MOST_KEYS: Final = 200_000
"""Of more keys that the change touches, all calls are taken to be touched."""
MOST_GROUPS: Final = 1_000
EXAMPLES: Final = 3


class ClassificationChange(Struct, frozen=True, rename="camel"):
    """Calls of one tool that get another tier or other keys. ``before`` and ``after`` are of the first of them.

    ``what`` is ``tier``, ``keys``, or ``treatment``: another window, verdict, cell, side, or whether it repeats.
    """

    what: str
    tool: str
    before: str
    after: str
    calls: int
    examples: tuple[Any, ...]


class _Group(Struct):
    before: str = ""
    after: str = ""
    calls: int = 0
    examples: list[Any] = msgspec.field(default_factory=list)


class ClassificationChanges:
    """Classifies every call under both rules, and knows which keys the change touches.

    ``calls`` were looked at, ``shifted`` of them are judged otherwise; of ``unreadable`` ones the journal has no
    params, of those that are ``cut`` not all. ``first`` and ``last`` are moments, 0 without calls.
    """

    def __init__(self, before: RuleSet, after: RuleSet, since: int) -> None:
        self._before, self._after, self._since = before, after, since
        self.calls = self.shifted = self.unreadable = self.cut = self.first = self.last = 0
        self._groups: CallGroups[tuple[str, ...], _Group] = CallGroups(_Group, MOST_GROUPS)
        self._names: set[str] = set()
        self._trees: set[str] = set()
        self._all = False
        self._odd: set[int] | None = set()
        """The calls that are judged otherwise, or not as the journal has it; None where they are too many."""

    @property
    def touched_by_change(self) -> bool:
        """Whether any call is judged otherwise."""
        return bool(self._names)

    def add(self, entry: Entry) -> None:
        counts = entry.seq >= self._since
        call = call_of(entry)
        if counts:
            self.calls += 1
            self.first = self.first or entry.seq
            self.last = entry.seq
            self.unreadable += call is None
            self.cut += call is not None and is_cut(call.params)
        if call is None:
            return
        one = self._before.classify(call)
        alike = self._before.deciding(call) == self._after.deciding(call)
        other = one if alike else self._after.classify(call)
        found = [] if alike else _shifts(one, other)
        if self._odd is not None and (found or keys_of(one, call.tool) != entry.keys):
            self._odd.add(entry.seq)
            if len(self._odd) > MOST_KEYS:
                self._odd = None
        if not found:
            return
        self.shifted += counts
        self._touch(one, call.tool)
        self._touch(other, call.tool)
        for what, was, becomes in found if counts else ():
            place = (what, entry.tool, was, becomes) if what == "tier" else (what, entry.tool)
            group = self._groups.of(place)
            if group is None:
                continue
            if not group.calls:
                group.before, group.after = was, becomes
            group.calls += 1
            if len(group.examples) < EXAMPLES:
                group.examples.append(
                    {**example(entry), "before": was, "after": becomes, "rules": (one.rule, other.rule)}
                )

    def touches(self, entry: Entry) -> bool:
        """Whether a call can be decided otherwise: it has a key that the change touches, under either rules."""
        if self._odd is not None and entry.seq not in self._odd:
            return self.meets([key.name for key in entry.keys])
        call = call_of(entry)
        if call is None or self._all:
            return call is not None
        return any(
            self.meets([key.name for key in keys_of(rules.classify(call), call.tool)])
            for rules in (self._before, self._after)
        )

    def meets(self, names: Sequence[str]) -> bool:
        """Whether one of these keys is one that the change touches, or overlaps with one."""
        if self._all:
            return bool(names)
        for name in names:
            if name in self._names or name.partition("|")[0] in self._names:
                return True
            if name.endswith("/") or (self._trees and not self._trees.isdisjoint(_above(name))):
                return True  # a tree may cover any of the keys: rare enough to be played in any case
        return False

    def _touch(self, found: Classification, tool: str) -> None:
        if self._all:
            return
        for key in keys_of(found, tool):
            self._names.update((key.name, key.name.partition("|")[0]))
            if key.name.endswith("/"):
                self._trees.add(key.name)
        if len(self._names) > MOST_KEYS:
            self._all = True

    def shifts(self) -> tuple[ClassificationChange, ...]:
        """What is judged otherwise, most calls first."""
        return tuple(
            ClassificationChange(place[0], place[1], group.before, group.after, group.calls, tuple(group.examples))
            for place, group in sorted(self._groups.items(), key=lambda pair: (-pair[1].calls, pair[0]))
        )


def _above(name: str) -> set[str]:
    """The trees that could cover a key."""
    return {name[: place + 1] for place, char in enumerate(name) if char == "/"}


def _shifts(one: Classification, other: Classification) -> list[tuple[str, str, str]]:
    """How two classifications of a call differ, in words."""
    found = []
    if one.tier != other.tier:
        found.append(("tier", str(one.tier), str(other.tier)))
    if one.keys != other.keys:
        found.append(("keys", _keys(one), _keys(other)))
    mine, theirs = _treatment(one), _treatment(other)
    names = [name for name in mine if mine[name] != theirs[name]]
    if names:
        was, becomes = (", ".join(f"{name} {side[name]}" for name in names) for side in (mine, theirs))
        found.append(("treatment", was, becomes))
    return found


def _treatment(found: Classification) -> dict[str, str]:
    cells = found.cells or {}
    return {
        "window": f"{found.window // SECOND} s",
        "verdict": found.verdict.value if found.verdict else "none",
        "cells": " ".join(f"{kind.value}={verdict.value}" for kind, verdict in sorted(cells.items())) or "none",
        "repeats": "yes" if found.content.repeats else "no",
        "side": found.content.stance or "none",
        "effect": found.effect,
    }


def _keys(found: Classification) -> str:
    return (
        "  ".join(key.name if key.mode is Mode.WRITE else f"{key.name} ({key.mode.value})" for key in found.keys)
        or "none"
    )
