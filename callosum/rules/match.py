"""Finds the first rule that matches a call without looking at every rule.

For each tool's name the rules that can match it are put together once (a bounded memo: names come
from agents). Among those, rules with a ``commandPattern`` are found by one pass of an ``re2.Set``,
rules with ``params`` by a dictionary on their rarest value, rules with ``present`` by the params'
names, so that a thousand rules cost about as much as ten.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import re2

from callosum.rules import command
from callosum.rules.fields import compile_pattern, pattern_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callosum.rules.parse import Rule

NOTHING: Final = 1 << 60
"""The place of no rule."""
MAX_TOOLS: Final = 1024


def scalar(value: Any) -> Any:
    """Return what a scalar is looked up by (``True`` is not 1, ``1.0`` is 1); None for the rest."""
    kind = type(value)
    if kind is str or kind is int or kind is float:
        return value
    if kind is bool:
        return ("bool", value)
    return ("null",) if value is None else None


def given(params: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    """Return True if one of some params is there and neither empty, blank nor false."""
    for name in names:
        value = params.get(name)
        if value is None:
            continue
        if value.strip() if type(value) is str else value or (value == 0 and value is not False):
            return True
    return False


_Hold = Callable[[Mapping[str, Any]], bool]
_Entry = tuple[int, _Hold | None]
"""The place of a rule and what else it asks of the params."""


def _entry(place: int, rule: Rule, known: str | None = None) -> _Entry:
    """Prepare what a rule asks; ``known`` is a param that need not be looked at."""
    wanted = [(name, frozenset(map(scalar, values))) for name, values in rule.params if name != known]
    present = [tuple(names.split("|")) for names in rule.present]
    if not wanted and not present:
        return place, None

    def hold(params: Mapping[str, Any]) -> bool:
        for name, values in wanted:
            if name not in params or scalar(params[name]) not in values:
                return False
        return all(given(params, names) for names in present)

    return place, hold


class Candidates:
    """The rules that can match one tool's name, ready to be searched.

    ``none``: whatever the params hold, it is ``last`` that matches.
    """

    __slots__ = ("_by_name", "_by_value", "_patterned", "_set", "last", "none")

    def __init__(self, rules: Iterable[tuple[int, Rule, Any]]) -> None:
        self.last = NOTHING
        self._by_value: dict[str, dict[Any, list[_Entry]]] = {}
        self._by_name: dict[str, list[_Entry]] = {}
        self._patterned: list[tuple[_Entry, Any]] = []
        self._set = None
        patterns: list[str] = []
        plain: list[tuple[int, Rule]] = []
        for place, rule, pattern in rules:
            if rule.pattern is not None:
                self._patterned.append((_entry(place, rule), pattern.search))
                patterns.append(rule.pattern)
            elif rule.params or rule.present:
                plain.append((place, rule))
            else:
                self.last = place
                break  # nothing after it can ever match
        self.none = not patterns and not plain
        if len(patterns) > 1:
            self._set = re2.Set.SearchSet(pattern_options(256 << 20))
            # The empty pattern always matches. Where it is missing from an answer the set gave up
            # for want of memory, which would otherwise look like "no rule matches".
            for text in (*patterns, ""):
                self._set.Add(text)
            self._set.Compile()
        common = Counter((name, scalar(value)) for _, rule in plain for name, values in rule.params for value in values)
        for place, rule in plain:
            if rule.params:
                name, values = min(
                    rule.params, key=lambda pair: sum(common[pair[0], scalar(value)] for value in pair[1])
                )
                table = self._by_value.setdefault(name, {})
                for value in dict.fromkeys(map(scalar, values)):
                    table.setdefault(value, []).append(_entry(place, rule, name))
            else:
                for name in rule.present[0].split("|"):
                    self._by_name.setdefault(name, []).append(_entry(place, rule))

    def first(self, params: Mapping[str, Any]) -> int:
        """Return the place of the first rule that matches, ``NOTHING`` if none does."""
        best = self.last
        for name, table in self._by_value.items():
            value = params.get(name)
            if type(value) is not str:
                if value is None and name not in params:
                    continue
                value = scalar(value)
            entries = table.get(value)
            if entries is not None:
                best = _least(entries, best, params)
        if self._by_name:
            for name in params:
                entries = self._by_name.get(name)
                if entries is not None:
                    best = _least(entries, best, params)
        if self._patterned and (text := command.of(params)):
            best = _least(self._matching(_utf8(text)), best, params)
        return best

    def _matching(self, text: bytes) -> list[_Entry]:
        """Return the entries whose patterns occur in a text, in order."""
        if self._set is not None:
            found = self._set.Match(text) or ()
            if len(self._patterned) in found:
                return [self._patterned[number][0] for number in sorted(found) if number < len(self._patterned)]
        return [entry for entry, search in self._patterned if search(text) is not None]


def _least(entries: list[_Entry], best: int, params: Mapping[str, Any]) -> int:
    for place, hold in entries:
        if place >= best:
            break
        if hold is None or hold(params):
            return place
    return best


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


class Index:
    """All rules of a set, by tool."""

    __slots__ = ("_always", "_compiled", "_exact", "_globs", "_groups", "_memo", "_rules")

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self._compiled = [compile_pattern(rule.pattern) if rule.pattern is not None else None for rule in rules]
        self._exact: dict[str, set[int]] = {}
        self._always: set[int] = set()
        self._globs: list[tuple[int, Any]] = []
        self._memo: dict[str, Candidates] = {}
        self._groups: dict[frozenset[int], Candidates] = {}
        for place, rule in enumerate(rules):
            for tool in map(str.strip, rule.tools):
                if tool == "*":
                    self._always.add(place)
                elif "*" in tool or "?" in tool:
                    self._globs.append((place, compile_pattern(_glob(tool))))
                else:
                    self._exact.setdefault(tool, set()).add(place)

    def first(self, tool: str, params: Mapping[str, Any]) -> int:
        """Return the place of the first rule that matches a call, ``NOTHING`` if none does."""
        known = self._memo.get(tool)
        if known is None:
            known = self._find(tool)
        return known.last if known.none else known.first(params)

    def certain(self, tool: str) -> int:
        """Return the place of the rule that matches every call of a tool, ``NOTHING`` if it depends on the call."""
        known = self._memo.get(tool) or self._find(tool)
        return known.last if known.none else NOTHING

    @property
    def names(self) -> list[str]:
        """The tools that rules name in full."""
        return list(self._exact)

    def naming(self, tool: str) -> set[int]:
        """Return the places of the rules that name a tool, in full or by a pattern; not those for all tools."""
        named = set(self._exact.get(tool.strip(), ()))
        if self._globs:
            data = _utf8(tool.strip())
            named.update(place for place, pattern in self._globs if pattern.search(data) is not None)
        return named

    def _find(self, tool: str) -> Candidates:
        # Most names share a group, so that a flood of new names compiles nothing.
        group = frozenset(self.naming(tool))
        known = self._groups.get(group)
        if known is None:
            places = sorted(group | self._always)
            known = Candidates((place, self._rules[place], self._compiled[place]) for place in places)
            if len(self._groups) >= MAX_TOOLS:
                self._groups.clear()
            self._groups[group] = known
        if len(self._memo) >= MAX_TOOLS:
            self._memo.clear()
        if len(tool) <= 256:
            self._memo[tool] = known
        return known


def _glob(tool: str) -> str:
    wild = {"*": ".*", "?": "."}
    body = "".join(wild.get(char) or re.escape(char) for char in re.sub(r"\*+", "*", tool))
    return rf"(?s)\A{body}\z"
