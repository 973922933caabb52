"""Remember what calls that only read were classified as: sessions read the same files again and again."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from callosum.model import Call, Classification
    from callosum.rules import RuleSet

_MOST: Final = 1024
"""Most calls that are remembered, and most tools."""
_SHORT: Final = 1024
"""Longest params of a call that is remembered, in bytes as JSON."""
_SAME_AS_JSON: Final = frozenset((str, int, bool, type(None)))
"""Types whose values are equal if their JSON is equal."""
_NAMES: Final = frozenset((str,))
_judged_by_more: Final = attrgetter(
    "action", "description", "schema", "annotations", "origin", "commits", "home", "homes", "worktrees"
)
"""What a call is classified by, besides its tool, params, folder and worktree."""
_NOTHING: Final = (None,) * 9


class RepeatedReads:
    """Classify calls by the rules that are passed in. May be used from any thread."""

    def __init__(self) -> None:
        self._kept: tuple[RuleSet | None, set[str], dict[tuple[Any, ...], Classification]] = None, set(), {}
        """Rules, the tools that read under them, and what they made of calls that only read."""

    def classify(self, rules: RuleSet, call: Call, params: bytes) -> Classification:
        """Return what ``rules`` make of a call; ``params`` are its params as JSON."""
        by, tools, kept = self._kept
        if by is not rules:
            tools, kept = set(), {}
            self._kept = rules, tools, kept
        asked = None
        if (
            call.tool in tools  # a tool that only writes costs nothing more
            and not params[_SHORT:]
            and _judged_by_more(call) == _NOTHING
            and _SAME_AS_JSON.issuperset(map(type, call.params.values()))
            and _NAMES.issuperset(map(type, call.params))
        ):
            asked = call.tool, params, call.cwd, call.worktree
            if (known := kept.get(asked)) is not None:
                return known
        found = rules.classify(call)
        if found.effect == "read":
            if len(tools) + len(kept) >= _MOST:
                tools.clear()
                kept.clear()
            tools.add(call.tool)
            if asked is not None:
                kept[asked] = found
        return found
