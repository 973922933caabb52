"""The events that the corpus emits for a host, compared with the table of hosts in the docs."""

import json
import re
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from callosum import Call, LocalGate
from callosum.brain import Brain
from callosum.model import Verdict
from callosum.settings import load

LINE = re.compile(r"\d\d:\d\d:\d\d \| ([\w.]+) \| (\{.*\})")
TABLE = Path(__file__).parents[2] / "docs" / "corpus.md"
HEALTHY = '[health]\nmemory = 1\ndisk = 1\nfree = "0B"\n'
ILL = '[health]\nmemory = 0\ndisk = 0\nfree = "100000000GB"\n'
"""Limits that this machine is beyond."""

Event = tuple[str, dict[str, Any]]


def logged_events(state: Path, *kinds: str) -> list[Event]:
    """Return the events of the daily log, or those of some kinds."""
    lines = [line for path in sorted(state.glob("brain/corpus/*.log.md")) for line in path.read_text().splitlines()]
    found = [(match[1], json.loads(match[2])) for line in lines if (match := LINE.fullmatch(line))]
    return [(name, payload) for name, payload in found if not kinds or name in kinds]


def come(state: Path, wanted: set[str], seconds: float = 60.0) -> None:
    """Wait until each of these events is in the daily log, which is written at intervals."""
    ends = time.monotonic() + seconds
    while missing := wanted - {name for name, _ in logged_events(state)}:
        assert time.monotonic() < ends, f"nobody told of {sorted(missing)}"
        select.select([], [], [], 0.1)


def claimed(column: str) -> dict[str, str]:
    """Return the table's row of a host: for each event its source, or why the host has none."""
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in TABLE.read_text().partition("## What each host reports")[2].partition("\n## ")[0].splitlines()
        if line.startswith("|")
    ]
    place = rows[0].index(column)
    return {row[0].strip("`"): row[place] for row in rows[2:]}


@contextmanager
def beside(state: Path, config: str) -> Iterator[tuple[LocalGate, Brain]]:
    """Another program of this user on the same state folder, with settings of its own."""
    path = state.parent / "beside.toml"
    path.write_text(config)
    with LocalGate(settings=load({"state": state, "config": path})) as gate, Brain(gate) as brain:
        yield gate, brain


def keep_house(state: Path) -> None:
    """Run the daily and weekly jobs, with a healthy machine and with one that lacks everything."""
    with beside(state, HEALTHY) as (gate, brain):
        gate.lock("person", "file:notes", ttl=1)
        expired: list[object] = []
        brain.corpus.on("lease.expired", expired.append)
        while not expired:
            gate.sweep()
            brain.flush()
        assert brain.brainstem is not None
        for job in ("health", "sweep", "episodes", "index", "digest", "topics"):
            assert brain.brainstem.run_job(job)
        brain.flush()
    with beside(state, ILL) as (_, brain):
        assert brain.brainstem is not None
        assert brain.brainstem.run_job("health")
        brain.flush()


def answer(state: Path, *, agrees: bool) -> None:
    """A person answers the newest question."""
    with LocalGate(state) as gate:
        question = next(entry for entry in gate.entries(newest=True)[::-1] if entry.verdict is Verdict.ASK)
        reply = gate.approve if agrees else gate.deny
        assert reply(question.action, by="anna", channel="cli").ok


def brief_cut(state: Path) -> None:
    """Request a brief with hardly any room for it."""
    with beside(state, HEALTHY) as (gate, brain):
        for number in range(9):
            gate.intercept(Call("doug", "message", {"action": "send", "target": f"#room-{number}", "message": "News"}))
        brain.brief("zoe", keys=[f"channel:#room-{number}" for number in range(9)], budget=60)
        brain.flush()
