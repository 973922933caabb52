"""Whether a call costs the same over a long journal, many keys, a hot key and a heap of crashed calls."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from bench import calls
from bench.harness import Case, Operation, Report, side_by_side
from bench.texts import message
from callosum import Call, LocalGate
from callosum.gate import DATABASE
from callosum.rulebook import Rulebook, content_secret
from callosum.stores.sqlite import SqliteStore

SMALL_ROWS, LARGE_ROWS, LARGE_KEYS = 1_000, 1_000_000, 100_000
HOT, CRASHED = 100_000, 2_000
ME = "mira"
OTHERS = ("doug", "iris", "otto", "vera")
"""The same five sessions have acted on every key, so that only the length of the past differs."""
HOUR = 3600 * 1_000_000

Clock = Callable[[], int]


def gate_at(folder: Path, clock: Clock) -> LocalGate:
    """A gate whose past can be made: its clock is set by hand."""
    settings = calls.settings(folder, rotate=False)
    rules = Rulebook(None, secret=content_secret(folder), protected=(str(folder),))
    return LocalGate(settings=settings, store=SqliteStore(folder / DATABASE, clock=clock), rules=rules)


def post_to(channel: str) -> calls.Make:
    """Tier 2: posts to one channel."""
    return lambda count: ("message", {"action": "send", "target": channel, "message": message(count)})


def post_over(keys: int) -> calls.Make:
    """Tier 2: posts to so many channels, in an order that no cache foresees."""
    return lambda count: post_to(f"team-{count * 7919 % keys}")(count)


def reply_to(thread: str) -> calls.Make:
    """Tier 3: replies in one thread."""

    def make(count: int) -> tuple[str, dict[str, object]]:
        return "message", {"action": "send", "target": "andy", "replyTo": thread, "message": message(count)}

    return make


def past(gate: LocalGate, keys: int) -> Operation:
    """Fills a journal: posts over so many channels, one session after the other going round them."""
    operations = [calls.gated(gate, post_over(keys), instance=session) for session in (ME, *OTHERS)]
    return lambda count: operations[count // keys % len(operations)](count)


def build(folder: Path, rows: int, keys: int) -> None:
    """A journal of so many rows over so many keys, through the gate."""
    with LocalGate(settings=calls.settings(folder, rotate=False)) as gate:
        operation = past(gate, keys)
        for count in range(rows // 2):
            operation(count)
        for session in OTHERS:
            calls.gated(gate, reply_to("busy"), instance=session)(rows)


def build_hot(folder: Path) -> None:
    """One key with many past acts: half of them by others, half of them within the hour."""
    began = time.time_ns() // 1000 - 2 * HOUR
    done = 0

    def clock() -> int:
        return began + int(done / HOT * 1.95 * HOUR)

    with gate_at(folder, clock) as gate:
        mine = calls.gated(gate, post_to("hot"), instance=ME)
        theirs = [calls.gated(gate, post_to("hot"), instance=session) for session in OTHERS]
        for done in range(HOT):  # the clock reads it
            (theirs[done // 2 % len(theirs)] if done % 2 else mine)(done)


def build_crashed(folder: Path) -> None:
    """Calls of an hour ago whose sessions died before they reported, on two keys."""
    ago = time.time_ns() // 1000 - HOUR
    with gate_at(folder, lambda: ago) as gate:
        for count in range(CRASHED):
            for tool, params in (post_to("crashed")(count), reply_to("crashed")(count)):
                raised = {**params, "_tier": 3}
                gate.intercept(Call(instance=f"gone-{count % 50}", tool=tool, params=raised, call_id=f"{count}"))


def rows_of(folder: Path) -> tuple[int, int]:
    """The rows of the journal, and the size of the file in megabytes."""
    file = folder / DATABASE
    with closing(sqlite3.connect(file)) as connection:
        (rows,) = connection.execute("select count(*) from journal").fetchone()
    return rows, file.stat().st_size // 1_000_000


def run(folder: Path, rounds: int) -> Report:
    """Build the pasts, then measure calls over them in the same rounds."""
    report = Report("growth")
    small, large, hot, crashed = (folder / name for name in ("small", "large", "hot", "crashed"))
    build(small, SMALL_ROWS, 100)
    if (folder.parent / "memory" / "large").exists():  # that group made the same
        (folder.parent / "memory" / "large").rename(large)
    else:
        build(large, LARGE_ROWS, LARGE_KEYS)
    build_hot(hot)
    build_crashed(crashed)
    for name, place in (("small", small), ("large", large), ("hot", hot), ("crashed", crashed)):
        rows, size = rows_of(place)
        report.add(f"{name}: rows in the journal", rows, "rows", note=f"file of {size} MB")

    with ExitStack() as stack:
        gates = {
            place: stack.enter_context(LocalGate(settings=calls.settings(place, rotate=False)))
            for place in (small, large, hot, crashed)
        }
        # few calls a block: the small journal must stay small
        found = side_by_side(
            [
                Case("small", calls.gated(gates[small], post_over(100)), 40),
                Case("large", calls.gated(gates[large], post_over(LARGE_KEYS)), 40),
                Case("large, 100 keys", calls.gated(gates[large], post_over(100)), 40),
                Case("hot", calls.gated(gates[hot], post_to("hot")), 40),
                Case("crashed", calls.gated(gates[crashed], post_to("crashed")), 40),
                Case("small, tier 3", calls.gated(gates[small], reply_to("busy")), 20),
                Case("crashed, tier 3", calls.gated(gates[crashed], reply_to("crashed")), 20),
            ],
            rounds,
        )
    for name, measured in found.items():
        report.add(f"{name}, median", measured.median, "us")
    base = found["small"]
    report.add("1,000,000 rows, going round 100,000 keys / 1,000 rows", found["large"].over(base), at_most=1.10)
    few = found["large, 100 keys"].over(base)
    report.add("the same, going round 100 of its keys / 1,000 rows", few, at_most=1.10)
    report.add("key with 100,000 past acts / key with few", found["hot"].over(base), at_most=1.15)
    report.add("2,000 crashed calls on the key / none, tier 2", found["crashed"].over(base), at_most=1.15)
    ratio = found["crashed, tier 3"].over(found["small, tier 3"])
    report.add("2,000 crashed calls on the key / none, tier 3", ratio, at_most=1.15)
    return report
