"""Where the gate sees little: calls without keys, tools judged by their looks alone, keys that are never shared.

The journal is read once. Memory does not grow with it: tools and families of keys are told apart up to a number, and
of each family's keys a sample is followed, those with the smallest hashes, so that a key in the sample is seen each
time it comes.
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
"""So many keys of a family are followed."""
EXAMPLES: Final = 3
ENOUGH_KEYS: Final = 10
"""A family with fewer keys says nothing by sharing none."""
_MOST_NAMES: Final = 32
_MOST_SESSIONS: Final = 64
_LONGEST: Final = 80
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ID_END: Final = re.compile(r"[_-]?(id|ids|key|ref|number|name|uuid|slug)$|(?<=[a-z])(Id|Key|Ref|Number|Name)$")


class BlindTool(Struct, frozen=True, rename="camel"):
    """A tool whose calls have no key, or that no rule names.

    ``tiers`` is how many calls got which tier. ``examples`` are params as the journal has them, cut and redacted.
    ``rule`` is where a rule of one's own could begin: a person must fill in what the gate cannot know.
    """

    tool: str
    calls: int
    sessions: int
    tiers: Mapping[str, int]
    examples: tuple[Any, ...]
    rule: Mapping[str, Any]


class UnsharedFamily(Struct, frozen=True, rename="camel"):
    """Keys of one sort, of which no two sessions ever touched the same.

    ``keys`` is how many were followed; ``sampled`` tells that there are more. ``sessions`` stops at 64.
    """

    family: str
    calls: int
    keys: int
    sampled: bool
    sessions: int
    examples: tuple[str, ...]


class Gaps(Struct, frozen=True, rename="camel"):
    """What was found. ``calls`` were looked at, from ``first`` to ``last`` (Unix seconds, None without calls).

    ``keyless``: tools with calls that write and have no key, gravest first. ``judged``: tools that no rule names.
    ``unshared``: families of keys that are never shared. ``left_out``: calls of tools, and keys of families, that were
    too many to be told apart.
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
        """Whether there is no gap."""
        return not (self.keyless or self.judged or self.unshared)


def find_gaps(entries: Iterable[Entry]) -> Gaps:
    """Returns the gaps of the entries, which come in the journal's order and are read once. Pure."""
    tally = _Tally()
    for entry in entries:
        if is_call(entry):
            tally.add(entry)
    return tally.gaps()


class _Seen(Struct, gc=False):
    """One tool's calls as they are counted."""

    calls: int = 0
    tiers: dict[int, int] = msgspec.field(default_factory=dict)
    sessions: set[str] = msgspec.field(default_factory=set)
    shapes: set[tuple[str, ...]] = msgspec.field(default_factory=set)
    examples: list[Any] = msgspec.field(default_factory=list)
    names: dict[str, int] = msgspec.field(default_factory=dict)
    """How often a param held what could be a part of a key."""

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
        """A rule to begin with: the gravest tier that was given, and the params that most calls have as a key."""
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
    """Whether a param's name can stand in a template, and its value be a part of a key: short, and no text."""
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
    """Of each followed key, by its hash, the session."""
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
        place = int.from_bytes(blake2b(base.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        owner = self.whose.get(place)
        if owner is None:
            self._follow(place, session, base)
        elif owner != session:
            self.shared = True
            self.whose.clear()
            self.largest.clear()

    def _follow(self, place: int, session: str, base: str) -> None:
        if len(self.whose) >= SAMPLE:
            self.sampled = True
            if place > -self.largest[0]:
                return
            del self.whose[-heapq.heapreplace(self.largest, -place)]
        else:
            heapq.heappush(self.largest, -place)
        self.whose[place] = session
        if len(self.examples) < EXAMPLES:
            self.examples.append(base)

    @property
    def never_shared(self) -> bool:
        return self.written and not self.shared and len(self.whose) >= ENOUGH_KEYS and len(self.sessions) > 1


class _Tally:
    def __init__(self) -> None:
        self._calls = self._first = self._last = 0
        self._keyless: CallGroups[str, _Seen] = CallGroups(_Seen, MOST_TOOLS)
        self._judged: CallGroups[str, _Seen] = CallGroups(_Seen, MOST_TOOLS)
        self._families: CallGroups[tuple[str, str], _Keys] = CallGroups(_Keys, MOST_FAMILIES)

    def add(self, entry: Entry) -> None:
        self._calls += 1
        self._first = self._first or entry.seq
        self._last = entry.seq
        keys = shown_keys(entry)
        keyless, judged = not keys and (entry.tier or 0) >= Tier.LOW, not entry.rule
        for tools in (self._keyless,) * keyless + (self._judged,) * judged:
            if (seen := tools.of(entry.tool)) is not None:
                seen.add(entry)
        bases: dict[str, Mode] = {}
        for key in entry.keys:
            if not key.name.startswith(NO_KEY):
                base = key.name.partition("|")[0]
                bases[base] = key.mode if bases.get(base, Mode.READ) is Mode.READ else bases[base]
        for base, mode in bases.items():
            if (found := self._families.of((entry.namespace, family(base)))) is not None:
                found.add(base, entry.session, mode)

    def gaps(self) -> Gaps:
        keyless = sorted(self._keyless.items(), key=lambda pair: (-max(pair[1].tiers), -pair[1].calls, pair[0]))
        judged = sorted(self._judged.items(), key=lambda pair: (-pair[1].calls, pair[0]))
        unshared = [
            UnsharedFamily(name, one.calls, len(one.whose), one.sampled, len(one.sessions), tuple(one.examples))
            for (_, name), one in sorted(self._families.items(), key=lambda pair: (-pair[1].calls, pair[0]))
            if one.never_shared
        ]
        return Gaps(
            self._calls,
            self._first / SECOND if self._calls else None,
            self._last / SECOND if self._calls else None,
            sum(one.calls for one in self._keyless.values()),
            sum(one.calls for one in self._judged.values()),
            tuple(seen.tool(name) for name, seen in keyless),
            tuple(seen.tool(name) for name, seen in judged),
            tuple(unshared),
            self._keyless.left_out + self._judged.left_out + self._families.left_out,
        )
