"""The gate's blind spots: calls without keys, tools judged by name and params alone, keys that are never shared.

The journal is read once, and memory does not grow with it. Tools and families of keys are counted separately up to a
limit. Of each family's keys a sample is followed, those with the smallest hashes, so that a key in the sample is seen
every time it occurs.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Struct

from callosum.characters import is_shown
from callosum.journal import shown_keys
from callosum.model import NO_KEY, SECOND, Entry, Mode, Tier
from callosum.redact import summarise
from callosum.regions.learning.counts import family
from callosum.retrospect.recorded_calls import CallGroups, is_call

MOST_TOOLS: Final = 2_000
MOST_FAMILIES: Final = 500
SAMPLE: Final = 1_000
"""Keys of a family that are followed."""
EXAMPLES: Final = 3
ENOUGH_KEYS: Final = 10
"""Fewest keys of a family for its lack of sharing to mean something."""
_MOST_NAMES: Final = 32
_MOST_SESSIONS: Final = 64
_LONGEST: Final = 80
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ID_END: Final = re.compile(r"[_-]?(id|ids|key|ref|number|name|uuid|slug)$|(?<=[a-z])(Id|Key|Ref|Number|Name)$")


class BlindTool(Struct, frozen=True, rename="camel"):
    """A tool whose calls have no key, or that no rule names.

    ``tiers`` counts the calls by tier. ``examples`` are params as the journal has them, cut and redacted. ``rule`` is a
    starting point for a rule of your own: a person must fill in what the gate cannot know.
    """

    tool: str
    calls: int
    sessions: int
    tiers: Mapping[str, int]
    examples: tuple[Any, ...]
    rule: Mapping[str, Any]


class UnsharedFamily(Struct, frozen=True, rename="camel"):
    """Keys of one family, none of which two sessions ever used.

    ``keys`` is the number of keys followed; ``sampled`` means that there are more. ``sessions`` stops at 64.
    """

    family: str
    calls: int
    keys: int
    sampled: bool
    sessions: int
    examples: tuple[str, ...]


class Gaps(Struct, frozen=True, rename="camel"):
    """The blind spots in ``calls`` calls, from ``first`` to ``last`` (Unix seconds, None without calls).

    ``keyless``: tools with calls that write and have no key, highest tier first. ``judged``: tools that no rule names.
    ``unshared``: families of keys that are never shared. ``left_out``: calls of tools, and keys of families, beyond the
    number that is counted separately.
    """

    calls: int
    first: float | None
    last: float | None
    keyless_calls: int
    judged_calls: int
    keyless: tuple[BlindTool, ...]
    judged: tuple[BlindTool, ...]
    unshared: tuple[UnsharedFamily, ...]
    left_out: int

    @property
    def nothing(self) -> bool:
        """True if there are no gaps."""
        return not (self.keyless or self.judged or self.unshared)


def find_gaps(entries: Iterable[Entry]) -> Gaps:
    """Return the gaps in the entries, which come in the journal's order and are read once. Pure."""
    tally = _Tally()
    for entry in entries:
        if is_call(entry):
            tally.add(entry)
    return tally.gaps()


class _ToolCalls(Struct, gc=False):
    """The counts of one tool's calls."""

    calls: int = 0
    tiers: dict[int, int] = msgspec.field(default_factory=dict)
    sessions: set[str] = msgspec.field(default_factory=set)
    shapes: set[tuple[str, ...]] = msgspec.field(default_factory=set)
    examples: list[Any] = msgspec.field(default_factory=list)
    names: dict[str, int] = msgspec.field(default_factory=dict)
    """How often a param held a value that could be part of a key."""

    def add(self, entry: Entry) -> None:
        self.calls += 1
        tier = entry.tier or 0
        self.tiers[tier] = self.tiers.get(tier, 0) + 1
        if len(self.sessions) < _MOST_SESSIONS:
            self.sessions.add(entry.session)
        params = entry.body.get("params")
        if not isinstance(params, Mapping):
            return
        for name, value in params.items():
            if _could_be_key(name, value) and (name in self.names or len(self.names) < _MOST_NAMES):
                self.names[name] = self.names.get(name, 0) + 1
        shape = tuple(sorted(params))[:_MOST_NAMES]
        if len(self.examples) < EXAMPLES and shape not in self.shapes:
            self.shapes.add(shape)
            self.examples.append(summarise(params))

    def tool(self, name: str) -> BlindTool:
        tiers = {str(tier): count for tier, count in sorted(self.tiers.items())}
        return BlindTool(name, self.calls, len(self.sessions), tiers, tuple(self.examples), self._rule(name))

    def _rule(self, tool: str) -> dict[str, Any]:
        """Return a rule to start from: the highest tier given, and a key from the params that most calls have."""
        likely = sorted(
            (name for name, count in self.names.items() if 2 * count >= self.calls),
            key=lambda name: (not _ID_END.search(name), -self.names[name], name),
        )
        rule: dict[str, Any] = {"name": tool, "tier": max(self.tiers), "tool": tool}
        if likely:
            thing = _ID_END.sub("", likely[0]).lower() or likely[0].lower()
            rule["contextKey"] = f"{thing}:{{params.{likely[0]}}}"
        return rule


def _could_be_key(name: Any, value: Any) -> bool:
    """Return True if a param can be used in a key template: it has a plain name and a short value without spaces."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("_"):
        return False
    if isinstance(value, str):
        return 0 < len(value) <= _LONGEST and not any(map(str.isspace, value)) and is_shown(value)
    return type(value) is int


class _Keys(Struct, gc=False):
    """The keys of one family as they are followed."""

    calls: int = 0
    written: bool = False
    shared: bool = False
    sampled: bool = False
    sessions: set[str] = msgspec.field(default_factory=set)
    whose: dict[int, str] = msgspec.field(default_factory=dict)
    """The session of each followed key, by hash."""
    largest: list[int] = msgspec.field(default_factory=list)
    """The hashes negated, as a heap."""
    examples: list[str] = msgspec.field(default_factory=list)

    def add(self, base: str, session: str, mode: Mode) -> None:
        self.calls += 1
        self.written = self.written or mode is not Mode.READ
        if self.shared:
            return
        if len(self.sessions) < _MOST_SESSIONS:
            self.sessions.add(session)
        digest = int.from_bytes(blake2b(base.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        owner = self.whose.get(digest)
        if owner is None:
            self._follow(digest, session, base)
        elif owner != session:
            self.shared = True
            self.whose.clear()
            self.largest.clear()

    def _follow(self, digest: int, session: str, base: str) -> None:
        if len(self.whose) >= SAMPLE:
            self.sampled = True
            if digest > -self.largest[0]:
                return
            del self.whose[-heapq.heapreplace(self.largest, -digest)]
        else:
            heapq.heappush(self.largest, -digest)
        self.whose[digest] = session
        if len(self.examples) < EXAMPLES:
            self.examples.append(base)

    @property
    def never_shared(self) -> bool:
        return self.written and not self.shared and len(self.whose) >= ENOUGH_KEYS and len(self.sessions) > 1


class _Tally:
    def __init__(self) -> None:
        self._calls = self._first = self._last = 0
        self._keyless: CallGroups[str, _ToolCalls] = CallGroups(_ToolCalls, MOST_TOOLS)
        self._judged: CallGroups[str, _ToolCalls] = CallGroups(_ToolCalls, MOST_TOOLS)
        self._families: CallGroups[tuple[str, str], _Keys] = CallGroups(_Keys, MOST_FAMILIES)

    def add(self, entry: Entry) -> None:
        self._calls += 1
        self._first = self._first or entry.seq
        self._last = entry.seq
        keys = shown_keys(entry)
        keyless, judged = not keys and (entry.tier or 0) >= Tier.LOW, not entry.rule
        for tools in (self._keyless,) * keyless + (self._judged,) * judged:
            if (tool_calls := tools.of(entry.tool)) is not None:
                tool_calls.add(entry)
        bases: dict[str, Mode] = {}
        for key in entry.keys:
            if not key.name.startswith(NO_KEY):
                base = key.name.partition("|")[0]
                bases[base] = key.mode if bases.get(base, Mode.READ) is Mode.READ else bases[base]
        for base, mode in bases.items():
            if (keys_of_family := self._families.of((entry.namespace, family(base)))) is not None:
                keys_of_family.add(base, entry.session, mode)

    def gaps(self) -> Gaps:
        keyless = sorted(self._keyless.items(), key=lambda pair: (-max(pair[1].tiers), -pair[1].calls, pair[0]))
        judged = sorted(self._judged.items(), key=lambda pair: (-pair[1].calls, pair[0]))
        unshared = [
            UnsharedFamily(name, keys.calls, len(keys.whose), keys.sampled, len(keys.sessions), tuple(keys.examples))
            for (_, name), keys in sorted(self._families.items(), key=lambda pair: (-pair[1].calls, pair[0]))
            if keys.never_shared
        ]
        return Gaps(
            self._calls,
            self._first / SECOND if self._calls else None,
            self._last / SECOND if self._calls else None,
            sum(keys.calls for keys in self._keyless.values()),
            sum(keys.calls for keys in self._judged.values()),
            tuple(tool_calls.tool(name) for name, tool_calls in keyless),
            tuple(tool_calls.tool(name) for name, tool_calls in judged),
            tuple(unshared),
            self._keyless.left_out + self._judged.left_out + self._families.left_out,
        )
