"""What is counted of pauses outlives the process: a file in the state folder, to which each process adds its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from callosum.locks import locked
from callosum.model import Kind
from callosum.regions.learning.counts import EndingCount

logger = logging.getLogger("callosum")

FILE: Final = "learned.json"
MOST_PATTERNS: Final = 1000
"""Most rules and tools that are counted at once; of more those that were longest without news are forgotten."""
_WAIT: Final = 2.0
"""Seconds to wait for another process that writes."""

Group = tuple[str, str, int]
"""Rule, tool and tier."""
Sort = tuple[Group, frozenset[Kind]]
"""Pauses of one group for the same reasons."""


class LearnedRecord(Struct, omit_defaults=True):
    """Counts of one sort of pause. ``told``: ``preference.learned`` was emitted for it."""

    rule: str
    tool: str
    tier: int
    kinds: frozenset[Kind]
    count: EndingCount = msgspec.field(default_factory=EndingCount)
    told: bool = False

    @property
    def sort(self) -> Sort:
        """The sort of pause that it counts."""
        return (self.rule, self.tool, self.tier), self.kinds


_decode: Final = msgspec.json.Decoder(list[LearnedRecord]).decode
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def load(path: Path) -> dict[Sort, LearnedRecord]:
    """Return what the file says, oldest news first; nothing if it is missing or damaged."""
    try:
        return {record.sort: record for record in _decode(path.read_bytes())}
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        logger.warning("%s cannot be read, and what was counted begins anew: %s", path, error)
        return {}


def add(path: Path, fresh: dict[Sort, LearnedRecord]) -> dict[Sort, LearnedRecord] | None:
    """Add what this process counted to the file; return all that it says then, or None if it cannot be written now."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(path.with_name(f".{path.name}.lock"), wait=_WAIT) as alone:
            if not alone:
                return None
            known = load(path)
            for sort, record in fresh.items():
                before = known.pop(sort, None) or LearnedRecord(record.rule, record.tool, record.tier, record.kinds)
                before.count.join(record.count)
                known[sort] = msgspec.structs.replace(before, told=before.told or record.told)
            known = dict(_newest(known))
            part = path.with_name(f".{path.name}.part")
            part.write_bytes(_encode(list(known.values())) + b"\n")
            part.chmod(0o600)
            os.replace(part, path)  # noqa: PTH105 - the same as elsewhere
            return known
    except OSError as error:
        logger.warning("%s cannot be written: %s", path, error)
        return None


def _newest(known: dict[Sort, LearnedRecord]) -> Iterator[tuple[Sort, LearnedRecord]]:
    """The records of the groups that had news last."""
    groups = dict.fromkeys(group for group, _ in reversed(known))
    kept = set(list(groups)[:MOST_PATTERNS])
    return ((sort, record) for sort, record in known.items() if sort[0] in kept)
