"""Recorded calls that other rules classify differently, and the keys that this affects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from callosum.model import SECOND, Classification, Entry, Mode
from callosum.policy.call_facts import keys_of
from callosum.retrospect.recorded_calls import CallGroups, call_of, example, is_cut
from callosum.rules import RuleSet

MOST_KEYS: Final = 200_000
"""Most affected keys that are remembered; beyond it every call counts as affected."""
MOST_GROUPS: Final = 1_000
EXAMPLES: Final = 3


class ClassificationChange(Struct, frozen=True, rename="camel"):
    """Calls of one tool that get another tier or other keys. ``before`` and ``after`` belong to the first of them.

    ``what`` is ``tier``, ``keys``, or ``treatment``: another window, verdict, cell or side, or whether it repeats.
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
    """Classify every call under both rules, and remember the keys that the change affects.

    ``calls`` is the number of calls, ``shifted`` of which are classified differently. ``unreadable`` calls have no
    params in the journal, ``cut`` calls incomplete ones. ``first`` and ``last`` are moments, 0 without calls.
    """

    def __init__(self, before: RuleSet, after: RuleSet, since: int) -> None:
        self._before, self._after, self._since = before, after, since
        self.calls = self.shifted = self.unreadable = self.cut = self.first = self.last = 0
        self._groups: CallGroups[tuple[str, ...], _Group] = CallGroups(_Group, MOST_GROUPS)
        self._names: set[str] = set()
        self._trees: set[str] = set()
        self._all = False
        self._odd: set[int] | None = set()
        """Calls that are classified differently, or not as the journal has it; None if there are too many."""

    @property
    def touched_by_change(self) -> bool:
        """True if any call is classified differently."""
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
        before = self._before.classify(call)
        alike = self._before.deciding(call) == self._after.deciding(call)
        other = before if alike else self._after.classify(call)
        differences = [] if alike else _shifts(before, other)
        if self._odd is not None and (differences or keys_of(before, call.tool) != entry.keys):
            self._odd.add(entry.seq)
            if len(self._odd) > MOST_KEYS:
                self._odd = None
        if not differences:
            return
        self.shifted += counts
        self._touch(before, call.tool)
        self._touch(other, call.tool)
        for aspect, was, becomes in differences if counts else ():
            group_key = (aspect, entry.tool, was, becomes) if aspect == "tier" else (aspect, entry.tool)
            group = self._groups.of(group_key)
            if group is None:
                continue
            if not group.calls:
                group.before, group.after = was, becomes
            group.calls += 1
            if len(group.examples) < EXAMPLES:
                group.examples.append(
                    {**example(entry), "before": was, "after": becomes, "rules": (before.rule, other.rule)}
                )

    def touches(self, entry: Entry) -> bool:
        """Return True if a call may be decided differently: under either rules it has a key that the change affects."""
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
        """Return True if the change affects one of these keys, or a key that overlaps with one."""
        if self._all:
            return bool(names)
        for name in names:
            if name in self._names or name.partition("|")[0] in self._names:
                return True
            if name.endswith("/") or (self._trees and not self._trees.isdisjoint(_above(name))):
                return True  # a tree may cover any of the keys; this is rare enough to replay in any case
        return False

    def _touch(self, classification: Classification, tool: str) -> None:
        if self._all:
            return
        for key in keys_of(classification, tool):
            self._names.update((key.name, key.name.partition("|")[0]))
            if key.name.endswith("/"):
                self._trees.add(key.name)
        if len(self._names) > MOST_KEYS:
            self._all = True

    def shifts(self) -> tuple[ClassificationChange, ...]:
        """Return the changes, those with most calls first."""
        return tuple(
            ClassificationChange(
                group_key[0], group_key[1], group.before, group.after, group.calls, tuple(group.examples)
            )
            for group_key, group in sorted(self._groups.items(), key=lambda pair: (-pair[1].calls, pair[0]))
        )


def _above(name: str) -> set[str]:
    """Return the trees that could cover a key."""
    return {name[: index + 1] for index, char in enumerate(name) if char == "/"}


def _shifts(before: Classification, after: Classification) -> list[tuple[str, str, str]]:
    """Return the differences of two classifications of a call, in words."""
    differences = []
    if before.tier != after.tier:
        differences.append(("tier", str(before.tier), str(after.tier)))
    if before.keys != after.keys:
        differences.append(("keys", _keys(before), _keys(after)))
    old, new = _treatment(before), _treatment(after)
    names = [name for name in old if old[name] != new[name]]
    if names:
        was, becomes = (", ".join(f"{name} {side[name]}" for name in names) for side in (old, new))
        differences.append(("treatment", was, becomes))
    return differences


def _treatment(classification: Classification) -> dict[str, str]:
    cells = classification.cells or {}
    return {
        "window": f"{classification.window // SECOND} s",
        "verdict": classification.verdict.value if classification.verdict else "none",
        "cells": " ".join(f"{kind.value}={verdict.value}" for kind, verdict in sorted(cells.items())) or "none",
        "repeats": "yes" if classification.content.repeats else "no",
        "side": classification.content.stance or "none",
        "effect": classification.effect,
    }


def _keys(classification: Classification) -> str:
    return (
        "  ".join(
            key.name if key.mode is Mode.WRITE else f"{key.name} ({key.mode.value})" for key in classification.keys
        )
        or "none"
    )
