"""Compare this tree with an earlier version of the package, both in the same rounds: ``python -m bench.versions REV``.

Each version runs in processes of its own, from a folder that holds nothing but its package; the benchmark's own code
is this tree's for both. In every round each case runs one block with either version, in random order. A figure is the
median over the rounds of this tree's time divided by the earlier version's, with its 95 % interval (order statistics,
so no distribution is assumed). A case fails if its whole interval lies above the limit. The group ``classify`` measures
processor time, the others the time that passes.
"""

from __future__ import annotations

import argparse
import io
import itertools
import math
import os
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from bench import calls
from bench.load import Load, Plan, What
from bench.serving import callosum

ROOT: Final = Path(__file__).parent.parent
SECONDS: Final = 0.5
"""Seconds that a block of load takes."""
CONNECTIONS: Final = 64
KINDS: Final[Mapping[str, tuple[calls.Make, int]]] = {
    "tier 0": (calls.read, 200),
    "tier 1": (calls.write, 200),
    "tier 1, deep": (calls.write_deep, 200),
    "tier 2": (calls.post, 200),
    "tier 3": (calls.reply, 60),
}
"""The calls of each case, and how many of them make a block."""
FRESH: Final = "fresh shell lines"
"""The block that classifies every line of ``calls.LINES`` four times, each time as a new line, and summarises it."""
Block = Callable[[], float]
"""Runs a block and returns its figure: less is better."""


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median. Below six values it is their whole range."""
    ordered = sorted(values)
    count = len(ordered)
    rank, tail = 0, 0.5**count
    while tail + math.comb(count, rank + 1) * 0.5**count <= 0.025:
        rank += 1
        tail += math.comb(count, rank) * 0.5**count
    return ordered[rank], ordered[count - 1 - rank]


class Blocks:
    """A process of one version that runs blocks of calls on request, over a gate or a client of its own."""

    def __init__(self, tree: Path, target: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.versions", "--serve-blocks", target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(tree),
            cwd=tree,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._process:  # closes its standard input, which ends it
            pass

    def run(self, kind: str) -> float:
        """Return the median time of the block's calls, in microseconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{kind}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process for blocks of {kind} ended with {self._process.wait()}")
        return float(answer)


def serve_blocks(target: str) -> None:
    """Run the blocks that standard input names: on a client if the target is a socket, else on a gate there."""
    from callosum import Call, CallosumClient, LocalGate  # noqa: PLC0415 - the version that this process measures

    gate = CallosumClient(target) if target.startswith("unix:") else LocalGate(settings=calls.settings(Path(target)))
    ids = itertools.count()
    for line in sys.stdin:
        make, times = KINDS[line.strip()]
        taken = []
        for _ in range(times):
            number = next(ids)
            tool, params = make(number)
            call = Call(instance="mira", tool=tool, params=params, call_id=f"{tool}-{number}")
            began = time.perf_counter_ns()
            decision = gate.intercept(call)
            gate.complete("mira", id=decision.id, result={"ok": True})
            taken.append(time.perf_counter_ns() - began)
            if not decision.proceed:
                raise RuntimeError(f"{tool} was stopped: {decision.warning}")
        print(statistics.median(taken) / 1000, flush=True)


def serve_lines() -> None:
    """Run a block of fresh shell lines for each line of standard input."""
    from callosum import Call  # noqa: PLC0415 - the version that this process measures
    from callosum.redact import summarise  # noqa: PLC0415
    from callosum.rules import RuleSet  # noqa: PLC0415

    rules = RuleSet.parse(secret=b"secret", protected=("/home/mira/.local/state/callosum",))
    chance = random.Random(1)
    first = 0
    for _ in sys.stdin:
        taken = []
        for number in chance.sample(range(first, first + 4 * len(calls.LINES)), 4 * len(calls.LINES)):
            tool, params = calls.shell(number)
            call = Call(instance="mira", tool=tool, params=params, cwd="/home/mira/site")
            began = time.thread_time_ns()
            rules.classify(call)
            summarise(params)
            taken.append(time.thread_time_ns() - began)
        first += len(taken)
        print(statistics.median(taken) / 1000, flush=True)


def classified(stack: ExitStack, trees: Sequence[Path], _: Path) -> dict[str, tuple[Block, Block]]:
    """Return the case of fresh shell lines: what the rules and the redaction of params cost, the median line."""
    before, after = (stack.enter_context(Blocks(tree, FRESH)) for tree in trees)
    return {FRESH: (_block(before, FRESH), _block(after, FRESH))}


def embedded(stack: ExitStack, trees: Sequence[Path], folder: Path) -> dict[str, tuple[Block, Block]]:
    """Return the cases of an embedded gate: one intercept and one complete."""
    before, after = (
        stack.enter_context(Blocks(tree, str(folder / f"gate-{number}"))) for number, tree in enumerate(trees)
    )
    return {f"gate, {kind}": (_block(before, kind), _block(after, kind)) for kind in KINDS}


def served(stack: ExitStack, trees: Sequence[Path], folder: Path) -> dict[str, tuple[Block, Block]]:
    """Return the cases of a server: one client that asks one thing at a time, and 64 connections."""
    clients, loads = [], []
    load = stack.enter_context(Load())
    for number, tree in enumerate(trees):
        environ = _environment(tree)
        socket = folder / f"one-{number}.sock"
        stack.enter_context(
            callosum(folder / f"one-{number}", "--socket", str(socket), environ=environ, working_folder=tree)
        )
        clients.append(stack.enter_context(Blocks(tree, f"unix:{socket}")))
        many = stack.enter_context(callosum(folder / f"many-{number}", environ=environ, working_folder=tree))
        load.connect(str(number), many.address, CONNECTIONS)
        loads.append(str(number))
    cases = {
        f"server, one client, {kind}": (_block(clients[0], kind), _block(clients[1], kind))
        for kind in ("tier 0", "tier 3")
    }
    kinds: tuple[tuple[What, str], ...] = (("decide", "tier 3 decisions"), ("mixed", "mixed tiers"))
    for what, name in kinds:
        cases[f"server, 64 connections, {name}"] = (_load(load, loads[0], what), _load(load, loads[1], what))
    return cases


GROUPS: Final = {"pair": embedded, "server": served, "classify": classified}


def compare(cases: Mapping[str, tuple[Block, Block]], rounds: int, *, seed: int = 1) -> dict[str, list[float]]:
    """Return each case's ratios, this tree over the earlier version, one a round. A first round only warms up."""
    chance = random.Random(seed)
    ratios: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name in chance.sample(list(cases), len(cases)):
            figures = [0.0, 0.0]
            for version in chance.sample((0, 1), 2):
                figures[version] = cases[name][version]()
            if number:
                ratios[name].append(figures[1] / figures[0])
    return ratios


def main(argv: Sequence[str] | None = None) -> int:
    """Print the ratios; return 1 if the whole interval of one lies above the limit, 2 if the version is not known."""
    parser = argparse.ArgumentParser(prog="python -m bench.versions", description=__doc__)
    parser.add_argument("revision", help="the earlier version: a commit or tag of this repository")
    parser.add_argument("--only", action="append", choices=GROUPS, help="run this group (may be repeated)")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of each case (default 25)")
    parser.add_argument("--limit", type=float, default=1.03, help="largest ratio that passes (default 1.03)")
    chosen = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="callosum-versions-") as name:
        folder = Path(name)
        try:
            trees = [_earlier(folder, chosen.revision), _this(folder)]
        except subprocess.CalledProcessError as fault:
            print(f"{chosen.revision}: not a version of this repository: {fault.stderr.decode().strip()}")
            return 2
        failed = 0
        for group in chosen.only or GROUPS:
            place = folder / group
            place.mkdir()
            with ExitStack() as running:
                for case, ratios in compare(GROUPS[group](running, trees, place), chosen.rounds).items():
                    low, high = interval(ratios)
                    above = low > chosen.limit
                    failed += above
                    verdict = f"above {chosen.limit:g}" if above else ""
                    print(f"{case:42} {statistics.median(ratios):6.3f}  [{low:.3f}, {high:.3f}]  {verdict}", flush=True)
    return 1 if failed else 0


def _block(blocks: Blocks, kind: str) -> Block:
    return lambda: blocks.run(kind)


def _load(load: Load, name: str, what: What) -> Block:
    def block() -> float:
        found = load.run(name, Plan(what, seconds=SECONDS))
        if what == "decide":
            load.run(name, Plan("complete"))  # nothing stays open
        return 1 / found.rate

    return block


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree)}


def _this(folder: Path) -> Path:
    tree = folder / "after"
    tree.mkdir()
    (tree / "callosum").symlink_to(ROOT / "callosum")
    (tree / "bench").symlink_to(ROOT / "bench")
    return tree


def _earlier(folder: Path, revision: str) -> Path:
    """Unpack the package of an earlier version. Raises ``CalledProcessError`` if git does not know it."""
    tree = folder / "before"
    tree.mkdir()
    packed = subprocess.run(["git", "archive", revision, "callosum"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tree, filter="data")
    (tree / "bench").symlink_to(ROOT / "bench")
    return tree


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve-blocks"]:
        serve_lines() if sys.argv[2] == FRESH else serve_blocks(sys.argv[2])
        sys.exit(0)
    sys.exit(main())
