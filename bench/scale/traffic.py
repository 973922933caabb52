"""What sessions ask for, as a distribution taken from recorded traffic: tiers, keys of a call, how popular keys are.

The recorded calls are not part of the repository; what is taken from them is ``traffic.json``, so that the simulation
runs without them: ``python -m bench.scale.traffic FILE.jsonl`` writes it anew.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from bench.recorded import RecordedCall, read
from callosum import Call
from callosum.rules import RuleSet

FILE: Final = Path(__file__).with_name("traffic.json")
MOST_KEYS: Final = 8
"""Calls with more keys count as if they had so many."""
CWD: Final = "/work"


class Traffic(Struct, frozen=True):
    """Shares of calls. ``tiers``: by tier, 0 to 4. ``keys``: by number of keys, 0 to ``MOST_KEYS``.

    ``zipf``: the exponent with which the popularity of a key falls with its rank, within a suite of tasks. ``calls``
    and ``tasks``: how many were counted; ``per_task``: the median calls of one task.
    """

    source: str
    calls: int
    tasks: int
    per_task: float
    tiers: Sequence[float]
    keys: Sequence[float]
    zipf: float
    distinct: int

    @property
    def durable(self) -> float:
        """The share of calls whose answer waits for the disk."""
        return sum(self.tiers[3:])


def load(path: Path = FILE) -> Traffic:
    return msgspec.json.decode(path.read_bytes(), type=Traffic)


class Zipf:
    """Ranks from 0 whose popularity falls as ``1 / (rank + 1) ** exponent``."""

    def __init__(self, size: int, exponent: float) -> None:
        self._sums = list(itertools.accumulate(math.exp(-exponent * math.log(rank + 1)) for rank in range(size)))

    def pick(self, chance: random.Random) -> int:
        return bisect.bisect_left(self._sums, chance.random() * self._sums[-1])

    def share(self, rank: int) -> float:
        """How much of all goes to this rank."""
        share: float = (self._sums[rank] - (self._sums[rank - 1] if rank else 0.0)) / self._sums[-1]
        return share


def exponent_of(counts: Iterable[Sequence[int]]) -> float:
    """The exponent under which these counts are likeliest; each sequence has ranks of its own."""
    groups = [sorted(group, reverse=True) for group in counts]

    def unlikely(exponent: float) -> float:
        total = 0.0
        for group in groups:
            norm = math.log(sum((rank + 1) ** -exponent for rank in range(len(group))))
            total += sum(count * (exponent * math.log(rank + 1) + norm) for rank, count in enumerate(group))
        return total

    low, high = 0.0, 3.0
    while high - low > 0.005:
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if unlikely(left) < unlikely(right) else (left, high)
    return round((low + high) / 2, 2)


def taken(recorded: Iterable[RecordedCall], source: str) -> Traffic:
    """What the rules that ship make of these calls."""
    rules = RuleSet.parse()
    tiers: Counter[int] = Counter()
    keys: Counter[int] = Counter()
    tasks: Counter[str] = Counter()
    used: Mapping[str, Counter[str]] = defaultdict(Counter)
    for one in recorded:
        found = rules.classify(Call("s", one.tool, one.args, cwd=one.cwd or CWD))
        tiers[found.tier] += 1
        keys[min(MOST_KEYS, len(found.keys))] += 1
        tasks[one.belongs] += 1
        used[f"{one.source}/{one.suite}"].update(key.name for key in found.keys)
    total = tiers.total()
    lengths = sorted(tasks.values())
    return Traffic(
        source=source,
        calls=total,
        tasks=len(tasks),
        per_task=lengths[len(lengths) // 2],
        tiers=[round(tiers[tier] / total, 4) for tier in range(5)],
        keys=[round(keys[count] / total, 4) for count in range(MOST_KEYS + 1)],
        zipf=exponent_of([list(counter.values()) for counter in used.values() if len(counter) > 1]),
        distinct=sum(map(len, used.values())),
    )


def main(argv: Sequence[str]) -> int:
    (file,) = argv
    calls = [found[1] for found in read([Path(file)], 1) if isinstance(found, tuple)]
    found = taken(calls, "recorded calls of AgentDojo, tau-bench, BFCL, InterCode and SWE-agent")
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    print(FILE.read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
