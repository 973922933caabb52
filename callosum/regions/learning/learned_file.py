"""The counts that outlive the process: a file in the state folder, to which each process adds its own."""

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
"""Most pairs of rule and tool that are counted. Beyond it those without news for longest are forgotten."""
_WAIT: Final = 2.0
"""Seconds to wait for another process that writes."""

Group = tuple[str, str, int]
"""Rule, tool and tier."""
Sort = tuple[Group, frozenset[Kind]]
"""A group, and the conflicts for which its calls were stopped."""


class LearnedRecord(Struct, omit_defaults=True):
    """Counts for one group and set of conflicts. ``told``: ``preference.learned`` was emitted for it."""

    rule: str
    tool: str
    tier: int
    kinds: frozenset[Kind]
    count: EndingCount = msgspec.field(default_factory=EndingCount)
    told: bool = False

    @property
    def sort(self) -> Sort:
        """The group and conflicts that it counts."""
        return (self.rule, self.tool, self.tier), self.kinds


_decode: Final = msgspec.json.Decoder(list[LearnedRecord]).decode
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def load(path: Path) -> dict[Sort, LearnedRecord]:
    """Return the records in the file, oldest news first; none if it is missing or damaged."""
    try:
        return {record.sort: record for record in _decode(path.read_bytes())}
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        logger.warning("%s cannot be read, so counting starts again: %s", path, error)
        return {}


def add(path: Path, fresh: dict[Sort, LearnedRecord]) -> dict[Sort, LearnedRecord] | None:
    """Add this process's counts to the file; return its new content, or None if it cannot be written now."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(path.with_name(f".{path.name}.lock"), wait=_WAIT) as alone:
            if not alone:
                return None
            records = load(path)
            for sort, record in fresh.items():
                before = records.pop(sort, None) or LearnedRecord(record.rule, record.tool, record.tier, record.kinds)
                before.count.join(record.count)
                records[sort] = msgspec.structs.replace(before, told=before.told or record.told)
            records = dict(_newest(records))
            part = path.with_name(f".{path.name}.part")
            part.write_bytes(_encode(list(records.values())) + b"\n")
            part.chmod(0o600)
            os.replace(part, path)  # noqa: PTH105 - used the same way everywhere
            return records
    except OSError as error:
        logger.warning("%s cannot be written: %s", path, error)
        return None


def _newest(records: dict[Sort, LearnedRecord]) -> Iterator[tuple[Sort, LearnedRecord]]:
    """Yield the records of the groups with the newest news."""
    groups = dict.fromkeys(group for group, _ in reversed(records))
    newest = set(list(groups)[:MOST_PATTERNS])
    return ((sort, record) for sort, record in records.items() if sort[0] in newest)
