"""What a gated call is made of: its parts, each alone, beside the whole call and beside its SQLite statements alone.

The parts call each other, so that they do not add up: ``judge`` is in ``prepare``, and ``decide`` in what the two
transactions take, which is the rest.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench import calls, floor
from bench.harness import Case, Operation, Report, side_by_side
from callosum import Call, LocalGate
from callosum.model import Change, View
from callosum.policy.admit import admit
from callosum.policy.call_facts import scope_of

KINDS: dict[str, calls.Make] = {"tier 0": calls.read, "tier 1": calls.write, "tier 2": calls.post}


def judge(gate: LocalGate, make: calls.Make) -> Operation:
    """Tier, keys and content of a new call."""
    rules = gate.rules.current()

    def operation(count: int) -> None:
        tool, params = make(count)
        rules.classify(Call(instance="mira", tool=tool, params=params))

    return operation


def prepare(gate: LocalGate, make: calls.Make) -> Operation:
    """Judging, and besides it checking, redacting and naming the call: all that comes before the transaction."""
    asked = gate.operations._facts_of

    def operation(count: int) -> None:
        tool, params = make(count)
        asked(Call(instance="mira", tool=tool, params=params, call_id=f"part-{count}"))

    return operation


def decide(gate: LocalGate, make: calls.Make) -> Operation:
    """From a view of the store to the decision and to what is to be written."""
    tool, params = make(0)
    facts, identity = gate.operations._facts_of(Call(instance="mira", tool=tool, params=params, call_id="decided"))
    seen: list[View] = []

    def look(view: View) -> Change:
        seen[:] = [view]
        return Change()

    gate.store.transact([(scope_of(facts, identity), look)])
    view = seen[0]

    def operation(_: int) -> None:
        admit(facts, view)

    return operation


def run(folder: Path, rounds: int) -> Report:
    """Each part and the whole of a call of each tier that is not durable."""
    report = Report("parts")
    with ExitStack() as stack:
        gate = stack.enter_context(LocalGate(settings=calls.settings(folder / "gate")))
        (folder / "floor").mkdir()
        cases = [Case("statements alone", stack.enter_context(floor.statements(folder / "floor")), 200)]
        for name, make in KINDS.items():
            cases += [
                Case(name, calls.gated(gate, make), 200),
                Case(f"{name}: judge", judge(gate, make), 500),
                Case(f"{name}: prepare", prepare(gate, make), 500),
                Case(f"{name}: decide", decide(gate, make), 500),
            ]
        found = side_by_side(cases, rounds)
    for name in KINDS:
        whole = found[name]
        report.add(f"{name}: the whole call, median", whole.median, "us")
        for part in ("judge", "prepare", "decide"):
            report.add(f"{name}: {part} / whole", found[f"{name}: {part}"].over(whole))
        report.add(f"{name}: statements of tier 1, alone / whole", found["statements alone"].over(whole))
    return report
