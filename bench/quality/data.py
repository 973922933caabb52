"""Reads the recorded traffic and splits it by hash into a half to tune on and a half to judge by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
DEFAULT: Final = ROOT.parent / "shared" / "data"
TUNING: Final = "tuning"
TEST: Final = "test"


class Missing(Exception):
    """A file of the data is not there; says which and what to do."""


def half(identity: str) -> str:
    """Which half a row belongs to: ``tuning`` where the first byte of its identity's hash is even, else ``test``."""
    return TEST if blake2b(identity.encode("utf-8", "surrogatepass")).digest()[0] % 2 else TUNING


def half_of_line(number: int) -> str:
    """Which half the line ``number`` (from 0) of a newer file belongs to: every other one, as they were tuned on."""
    return TEST if number % 2 else TUNING


def aside(catalogue: str) -> str:
    """Which half a catalogue belongs to, or a kind of rows: a third of them is ``test``, by the hash of its name."""
    return TUNING if blake2b(catalogue.encode()).digest()[1] % 3 else TEST


def rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    path = folder / name
    if not path.is_file():
        raise Missing(f"{path} is not there: name the folder of the recorded traffic with --data DIR")
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


@dataclass(frozen=True)
class Tool:
    """A tool of a catalogue with what is known of it. ``tiers``: what a careful reader would defend, may be none."""

    source: str
    suite: str
    name: str
    description: str | None
    schema: dict[str, Any] | None
    annotations: dict[str, Any] | None
    effect: str | None
    basis: str
    tiers: tuple[int, ...]

    @property
    def half(self) -> str:
        return half(f"{self.source}/{self.suite}/{self.name}")


def tools(folder: Path, name: str = "tools.jsonl") -> list[Tool]:
    """The tools of a file: ``tools.jsonl``, or ``tools-more.jsonl`` with fourteen more catalogues."""
    return [
        Tool(
            row["source"],
            row["suite"],
            row["tool"],
            row["description"] or None,
            row["params_schema"] or None,
            row["annotations"] or None,
            row["effect"],
            row["effect_basis"] or "",
            tuple(row["tiers_accepted"] or ()),
        )
        for row in rows(folder, name)
    ]


@dataclass(frozen=True)
class Recorded:
    """One recorded call.

    ``changed``: whether its environment was another afterwards, None where nobody looked. ``result``: what it
    brought back, None where that was not recorded.
    """

    source: str
    suite: str
    task: str
    tool: str
    args: dict[str, Any]
    changed: bool | None = None
    error: str | None = None
    result: Any = None

    def __str__(self) -> str:
        return f"{self.tool} {json.dumps(self.args, ensure_ascii=False)}"


def traces(folder: Path) -> list[list[Recorded]]:
    """All tasks with their calls in order."""
    found: dict[tuple[str, str, str], list[tuple[int, Recorded]]] = {}
    for row in rows(folder, "traces.jsonl"):
        call = Recorded(
            row["source"], row["suite"], row["task"], row["tool"], row["args"], row["state_changed"], row["error"]
        )
        found.setdefault((call.source, call.suite, call.task), []).append((row["call_index"], call))
    return [[call for _, call in sorted(calls, key=lambda one: one[0])] for calls in found.values()]


def half_of_task(calls: list[Recorded]) -> str:
    return half(f"{calls[0].source}/{calls[0].suite}/{calls[0].task}")


@dataclass(frozen=True)
class Pair:
    """Two calls of two tasks, and what came out when both orders were run from one state."""

    source: str
    suite: str
    sample: str
    label: str
    a: Recorded
    b: Recorded
    identity: str

    @property
    def half(self) -> str:
        return half(self.identity)


def pairs(folder: Path) -> list[Pair]:
    found = []
    for row in rows(folder, "conflicts.jsonl"):
        a, b = (
            Recorded(row["source"], row["suite"], one["task"], one["tool"], one["args"], result=one.get("result"))
            for one in (row["a"], row["b"])
        )
        places = "/".join(f"{one['task']}#{one['i']}" for one in (row["a"], row["b"]))
        identity = f"{row['source']}/{row['suite']}/{places}"
        found.append(Pair(row["source"], row["suite"], row["sample"], row["label"], a, b, identity))
    return found


@dataclass(frozen=True)
class Line:
    """One shell command; ``safe`` means that no rule for danger fires, not that it only reads."""

    command: str
    dangerous: bool
    source: str

    @property
    def half(self) -> str:
        return half(self.command)


def shell(folder: Path) -> list[Line]:
    return [Line(row["command"], row["label"] == "dangerous", row["source"]) for row in rows(folder, "shell.jsonl")]


@dataclass(frozen=True)
class Script:
    """A command line with the tiers that a careful reader would accept, and what kind of line it is."""

    command: str
    tiers: tuple[int, ...]
    kind: str
    half: str

    @property
    def harmful(self) -> bool:
        """Whether nothing but tier 4 is accepted."""
        return self.tiers == (4,)


def hard(folder: Path) -> list[Script]:
    """Lines whose harm hides, and harmless lines that look harmful."""
    return [
        Script(row["command"], (4,) if row["label"] == "harmful" else (0, 1, 2), row["kind"], half_of_line(number))
        for number, row in enumerate(rows(folder, "shell-hard.jsonl"))
    ]
