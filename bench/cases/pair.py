"""One gated call (intercept and complete) beside bare locks, a bare sync and two ledgers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from bench import calls, floor, peers
from bench.harness import Case, Operation, Report, side_by_side
from callosum import LocalGate

GATE = {
    "tier 0": calls.read,
    "tier 1": calls.write,
    "tier 1, deep": calls.write_deep,
    "tier 2": calls.post,
    "tier 3": calls.reply,
}
PEERS: dict[str, tuple[Callable[[Path], AbstractContextManager[Operation]], int]] = {
    "filelock": (peers.file_lock, 200),
    "statements alone": (floor.statements, 200),
    "redis Lock": (peers.redis_lock, 100),
    "fdatasync": (peers.fdatasync, 100),
    "ctrlrun": (peers.ctrlrun, 30),
    "ctrlrun, SQLite alone": (partial(peers.ctrlrun, evidence=False), 30),
    "effect-ledger": (peers.effect_ledger, 30),
}
VERSIONS = ("filelock", "redis", "ctrlrun", "effect-ledger")


def run(folder: Path, rounds: int) -> Report:
    """Measure everything in the same rounds."""
    report = Report("pair")
    with ExitStack() as stack:
        gate = stack.enter_context(LocalGate(settings=calls.settings(folder / "gate")))
        cases = [Case(name, calls.gated(gate, make), 60 if name == "tier 3" else 200) for name, make in GATE.items()]
        for place, (name, (peer, block)) in enumerate(PEERS.items()):
            own = folder / f"peer-{place}"
            own.mkdir()
            try:
                cases.append(Case(name, stack.enter_context(peer(own)), block))
            except peers.Missing as fault:
                report.missing.append(str(fault))
        found = side_by_side(cases, rounds)
    for name, measured in found.items():
        report.add(f"{name}, median", measured.median, "us")

    def ratio(
        name: str, mine: str, theirs: str, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        if mine in found and theirs in found:
            report.add(name, found[mine].over(found[theirs]), at_most=at_most, at_least=at_least)

    ratio("tier 0 / filelock", "tier 0", "filelock", at_most=0.7)
    ratio("tier 1 / filelock", "tier 1", "filelock", at_most=1.25)
    ratio("tier 2 / filelock", "tier 2", "filelock", at_most=1.25)
    ratio("tier 1, eight folders deep / filelock", "tier 1, deep", "filelock", at_most=1.5)
    ratio("the same statements without the gate / filelock", "statements alone", "filelock")
    ratio("the same statements without the gate / redis Lock", "statements alone", "redis Lock")
    ratio("tier 1 / redis Lock", "tier 1", "redis Lock", at_most=0.35)
    ratio("tier 2 / redis Lock", "tier 2", "redis Lock", at_most=0.35)
    ratio("ctrlrun / tier 2", "ctrlrun", "tier 2", at_least=10)
    ratio("ctrlrun, SQLite alone / tier 2", "ctrlrun, SQLite alone", "tier 2")
    ratio("effect-ledger / tier 2", "effect-ledger", "tier 2", at_least=10)
    ratio("effect-ledger / tier 3 (both durable)", "effect-ledger", "tier 3")
    if "fdatasync" in found:
        over = found["tier 3"].above(found["fdatasync"])
        report.add("tier 3 above one fdatasync", over, "us", at_most=150)
    return report
