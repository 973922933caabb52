"""Merges in numbers, and proof that a clean merge holds every change of both sides once.

    python -m bench.merging time                        # medians of a merge and of a snapshotted read, up to 64 kB
    python -m bench.merging generated [COUNT]           # generated texts and chains: merge, write, merge again
    python -m bench.merging real REPOSITORY [COUNT]     # halves of the changes of commits, and merge commits
    python -m bench.merging replay REPOSITORY [COUNT]   # the same by two sessions of a gate

The checker knows nothing of the way in which git merges: it counts lines and compares their order.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from itertools import count
from pathlib import Path
from random import Random
from statistics import median
from typing import Final, NamedTuple

from callosum import Call, LocalGate, Verdict
from callosum.merging.merge_check import fault_of
from callosum.merging.snapshots import Snapshots
from callosum.merging.three_way import merge
from callosum.settings import Settings

SIZES: Final = (1_000, 16_000, 64_000)


class Triple(NamedTuple):
    """What two sides made of a base. ``both`` is the text with the changes of both, where that is known."""

    base: list[str]
    mine: list[str]
    theirs: list[str]
    both: list[str] | None = None


class Fault(AssertionError):
    """A clean merge that lost, doubled or moved a change."""


def check(triple: Triple, merged: list[str]) -> None:
    """Raise ``Fault`` unless the merge holds each change of either side once, and nothing else."""
    if triple.both is not None and merged != triple.both:
        raise Fault("the merge of two halves is not the whole")
    if fault := fault_of(*triple[:3], merged):
        raise Fault(fault)


def edited(text: list[str], random: Random, names: Iterator[int], changes: int) -> list[str]:
    """Return a text with some lines removed, replaced or added, each new line with a name of its own."""
    out = list(text)
    for _ in range(changes):
        at = random.randrange(len(out) + 1)
        gone = random.choice((0, 0, 1, 1, 2, 5))
        new = [f"line {next(names)}" for _ in range(random.choice((0, 1, 1, 2, 4)))]
        out[at : at + gone] = new
    return out


def generated(seed: int, steps: int = 4) -> Iterator[Callable[[list[str] | None], Triple]]:
    """Yield the steps of a chain. Each step takes the merge of the step before, None if that had conflicts.

    One session writes again from its own last text, which never held the other's; the other writes from the merge.
    """
    random = Random(seed)
    names = count()
    length = random.choice((0, 1, 3, 10, 30, 100))
    repeated = random.random() < 0.3  # some texts have lines that occur often, as source has
    base = [("" if repeated and number % 3 else f"line {next(names)}") for number in range(length)]
    mine, theirs = base, base

    def step(merged: list[str] | None) -> Triple:
        nonlocal base, mine, theirs
        if merged is not None:
            base, theirs = mine, merged
        mine = edited(mine, random, names, random.randrange(1, 4))
        theirs = edited(theirs, random, names, random.randrange(1, 4))
        if random.random() < 0.1 and base:  # both make the same change
            at = random.randrange(len(base))
            if base[at] in mine and base[at] in theirs:
                same = f"line {next(names)}"
                mine = [same if line == base[at] else line for line in mine]
                theirs = [same if line == base[at] else line for line in theirs]
        return Triple(base, mine, theirs)

    for _ in range(steps):
        yield step


def run(triple: Triple, scratch: Path) -> list[str] | None:
    """Merge a triple and check the merge; return None if it has conflicts."""
    texts = ["".join(f"{line}\n" for line in lines) for lines in triple[:3]]
    found = merge(texts[1], texts[0], texts[2], scratch=scratch)
    if found is None:
        raise Fault("git could not merge")
    if found.conflicts:
        return None
    merged = found.text.split("\n")[:-1]
    check(triple, merged)
    return merged


def run_generated(number: int, scratch: Path, seed: int = 0) -> tuple[int, int]:
    """Merge at least ``number`` generated triples; return the number of merges, and of those without conflicts."""
    made = clean = 0
    while made < number:
        merged = None
        for step in generated(seed):
            merged = run(step(merged), scratch)
            made += 1
            clean += merged is not None
            if merged is None:
                break
        seed += 1
    return made, clean


def real(repository: Path, number: int) -> Iterator[Triple]:
    """Yield up to ``number`` triples from a repository's history, newest first.

    Of a merge commit, the base is the merge base and the sides are the parents. Of any other commit, the base is the
    parent and the sides are two halves of the commit's changes to a file, in turn disjoint or with one change in both.
    """
    found = 0
    for commit, *parents in [
        line.split() for line in _git(repository, "log", "--format=%H %P", "-n", "4000").split("\n")
    ]:
        base = parents[0] if len(parents) == 1 else _git(repository, "merge-base", *parents).strip() if parents else ""
        for path in _git(repository, "diff", "--name-only", base, commit).split("\n") if base else ():
            if not path.endswith((".py", ".md", ".toml", ".js", ".json", ".c", ".txt")):
                continue
            before, after = (_lines(repository, one, path) for one in (base, commit))
            if len(parents) == 2:
                sides = [_lines(repository, parent, path) for parent in parents]
            else:
                sides = halves(before, after, shared=found % 2)
            if before in sides or sides[0] == sides[1]:
                continue
            yield Triple(before, sides[0], sides[1], after if len(parents) == 1 else None)
            found += 1
            if found == number:
                return


def halves(before: list[str], after: list[str], shared: int) -> list[list[str]]:
    """Return the texts with every other change between two versions, and with the others; ``shared`` are in both."""
    opcodes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    changes = [one for one in opcodes if one[0] != "equal"]
    sides = []
    for side in (0, 1):
        mine = {number for number in range(len(changes)) if number % 2 == side or number < shared}
        out: list[str] = []
        for one in opcodes:
            is_mine = one[0] != "equal" and changes.index(one) in mine
            out += after[one[3] : one[4]] if is_mine else before[one[1] : one[2]]
        sides.append(out)
    return sides


def _git(repository: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(repository), *words], capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _lines(repository: Path, commit: str, path: str) -> list[str]:
    """Return the lines of a file of a commit, none for one that is missing, long or does not end with a line's end."""
    text = _git(repository, "show", f"{commit}:{path}")
    return text.split("\n")[:-1] if text.endswith("\n") and len(text) < 256_000 and "\r" not in text else []


def run_real(repository: Path, number: int, scratch: Path) -> tuple[int, int]:
    """Merge and check triples from a repository; return their number, and that of the merges without conflicts."""
    results = [run(triple, scratch) for triple in real(repository, number)]
    return len(results), sum(one is not None for one in results)


def replay(repository: Path, number: int, scratch: Path) -> Counter[str]:
    """Let two sessions of a gate make the sides of real triples; count what becomes of the second side's call.

    Both read the base. The one writes its side; the other writes its side as a whole, or in turn makes its first change
    as an edit. Without merging each of these calls is stale.
    """
    found: Counter[str] = Counter()
    with LocalGate(settings=Settings(state=scratch / "state")) as gate:
        for turn, triple in enumerate(real(repository, number)):
            file = scratch / f"file-{turn}.txt"
            base, mine, theirs = ("".join(f"{line}\n" for line in lines) for lines in triple[:3])
            file.write_text(base)
            for session in ("mira", "doug"):
                look = gate.intercept(Call(session, "read_file", {"path": str(file)}, session=session))
                gate.complete(session, id=look.id, session=session, result=base)
            call = Call("doug", "write_file", {"path": str(file), "content": theirs}, session="doug")
            written = gate.intercept(call)
            file.write_text(theirs)
            gate.complete("doug", id=written.id, session="doug", result="ok")
            params = {"path": str(file), "content": mine}
            tool = "write_file"
            if turn // 2 % 2 and (edit := _edit(triple.base, triple.mine)) is not None:
                tool, params = "edit_file", {"path": str(file), "old_string": edit[0], "new_string": edit[1]}
            answer = gate.intercept(Call("mira", tool, params, session="mira", rewrite=True, pause=True))
            how = "merged" if answer.merged else "passed" if answer.verdict is Verdict.ALLOW else "paused"
            found[f"{tool} {how}"] += 1
            gate.complete("mira", id=answer.id, session="mira", outcome="failed")
    return found


def _edit(before: list[str], after: list[str]) -> tuple[str, str] | None:
    """Return the first change between two versions as an edit whose old text occurs once, None if there is none."""
    whole = "".join(f"{line}\n" for line in before)
    for what, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        first = max(0, a - 1)
        old = "".join(f"{line}\n" for line in before[first:b])
        if what != "equal" and old and whole.count(old) == 1:
            return old, "".join(f"{line}\n" for line in (*before[first:a], *after[c:d]))
    return None


def times(scratch: Path) -> None:
    """Print the medians of a merge without parsing, and of what a snapshot adds to a read."""
    for size in SIZES:
        text = "".join(f"line {number} of a file\n" for number in range(size // 20))[:size]
        half = len(text) // 2
        mine, theirs = f"mine\n{text}", f"{text[:half]}\ntheirs\n{text[half:]}"
        (merging,) = _median(lambda m=mine, b=text, t=theirs: merge(m, b, t, scratch=scratch))  # type: ignore[misc]
        file = scratch / "file.txt"
        file.write_text(text)
        numbered = "".join(f"{number:6}→{line}\n" for number, line in enumerate(text.split("\n"), 1))
        (raw, first), (listed, second) = (_median(*_read(scratch, file, result)) for result in (text, numbered))
        print(f"{size:6} bytes: merge {merging:5.2f} ms, read +{raw:4.2f} ms, with numbered lines +{listed:4.2f} ms;")
        print(f"{'':14}behind a read's answer {first:4.2f} ms, with numbered lines {second:4.2f} ms")


def _read(scratch: Path, file: Path, result: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what a read waits for beside its tool, whose result is this, and what is done behind its answer.

    Each time the file has been touched.
    """
    snapshots, numbers = Snapshots(scratch / "copies"), count(1)

    def read() -> None:
        number = next(numbers)
        os.utime(file, ns=(number, number))
        snapshots.begin("default", "mira", str(file))
        snapshots.end("default", "mira", str(file), number, result)

    def behind() -> None:
        snapshots.later.finish()

    return read, behind


def _median(*jobs: Callable[[], object]) -> list[float]:
    """Return the median of each job in milliseconds; they are done in turn."""
    found: list[list[float]] = [[] for _ in jobs]
    for _ in range(41):
        for job, times in zip(jobs, found, strict=True):
            began = time.perf_counter()
            job()
            times.append((time.perf_counter() - began) * 1000)
    return [median(times) for times in found]


def main(words: list[str]) -> None:
    """Run what the words name."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        match words:
            case ["time"]:
                times(scratch)
            case ["generated", *rest]:
                made, clean = run_generated(int(rest[0]) if rest else 100_000, scratch)
                print(f"{made} generated merges, {clean} of them clean, each change in them once")
            case ["real", repository, *rest]:
                made, clean = run_real(Path(repository), int(rest[0]) if rest else 200, scratch)
                print(f"{made} real merges, {clean} of them clean, each change in them once")
            case ["replay", repository, *rest]:
                found = replay(Path(repository), int(rest[0]) if rest else 200, scratch)
                print(", ".join(f"{how}: {times}" for how, times in sorted(found.items())))
            case _:
                sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
