"""Merges in numbers, and proof that a clean merge holds every change of both sides once.

    python -m bench.merging time                  # medians of a merge and of a snapshotted read, up to 64 kB
    python -m bench.merging generated [COUNT]     # generated texts and chains: merge, write, merge again
    python -m bench.merging real REPOSITORY [COUNT]   # three versions of files out of a repository's commits

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
from itertools import count
from pathlib import Path
from random import Random
from statistics import median
from typing import Final, NamedTuple

from callosum.merging.merge import merge
from callosum.merging.snapshots import Snapshots

SIZES: Final = (1_000, 16_000, 64_000)


class Triple(NamedTuple):
    """What two sides made of a base."""

    base: list[str]
    mine: list[str]
    theirs: list[str]


class Fault(AssertionError):
    """A clean merge that lost, doubled or moved a change."""


def check(triple: Triple, merged: list[str]) -> None:
    """Raise ``Fault`` unless the merge holds each change of either side once, and nothing else."""
    base, mine, theirs, found = (Counter(one) for one in (*triple, merged))
    for line in {*base, *mine, *theirs, *found}:
        by_me, by_them, by_both = (one[line] - base[line] for one in (mine, theirs, found))
        if by_me * by_them > 0:  # both may have made the same change, or each one of its own
            ends = sorted((max(by_me, by_them, key=abs), by_me + by_them))
            right = ends[0] <= by_both <= ends[1]
        else:
            right = by_both == by_me + by_them
        if not right:
            raise Fault(f"{line!r}: {by_me:+} by one side, {by_them:+} by the other, {by_both:+} in the merge")
    for side, other in ((triple.mine, triple.theirs), (triple.theirs, triple.mine)):
        moved = _moved(triple.base, other)
        both = {line for line, number in Counter(side).items() if number == found[line] == 1} - moved
        if [line for line in side if line in both] != [line for line in merged if line in both]:
            raise Fault("the merge has lines in another order than a side")


def _moved(base: list[str], side: list[str]) -> set[str]:
    """Return the lines that a side has in another order than the base: those that were moved, and what they passed."""
    first, then = Counter(base), Counter(side)
    places = {line: at for at, line in enumerate(base) if first[line] == then[line] == 1}
    order = [line for line in side if line in places]
    found = set()
    highest, lowest = -1, len(base)
    for line in order:
        if places[line] < highest:
            found.add(line)
        highest = max(highest, places[line])
    for line in reversed(order):
        if places[line] > lowest:
            found.add(line)
        lowest = min(lowest, places[line])
    return found


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
    """Yield the steps of a chain, each as a function of the last merge (None: it did not come off).

    A session writes again from its own last text, which never held the other's; the other writes from the merge.
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
    """Merge and check a triple; None if it does not merge cleanly."""
    texts = ["".join(f"{line}\n" for line in lines) for lines in triple]
    found = merge(texts[1], texts[0], texts[2], scratch=scratch)
    if found is None:
        raise Fault("git could not merge")
    if found.conflicts:
        return None
    merged = found.text.split("\n")[:-1]
    check(triple, merged)
    return merged


def run_generated(number: int, scratch: Path, seed: int = 0) -> tuple[int, int]:
    """Run at least so many generated merges; return how many were made, and how many of them were clean."""
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
    """Yield three versions of a file that follow one another: the middle one is the base.

    So one side takes back what people changed at one time, and the other does what they changed later.
    """

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(repository), *words], capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    found = 0
    touched = Counter(git("log", "--name-only", "--format=", "-n", "2000").split("\n"))
    for path, _ in touched.most_common():
        if not path.endswith((".py", ".md", ".toml", ".js", ".json")):
            continue
        commits = git("log", "--format=%H", "-n", "30", "--", path).split()
        versions = [git("show", f"{commit}:{path}") for commit in reversed(commits)]
        texts = [text for text in versions if text.endswith("\n") and len(text) < 256_000]
        for mine, base, theirs in zip(texts, texts[1:], texts[2:], strict=False):
            yield Triple(*[one.split("\n")[:-1] for one in (base, mine, theirs)])
            found += 1
            if found >= number:
                return


def run_real(repository: Path, number: int, scratch: Path) -> tuple[int, int]:
    """Run real triples; return how many there were, and how many merged cleanly."""
    results = [run(triple, scratch) for triple in real(repository, number)]
    return len(results), sum(one is not None for one in results)


def times(scratch: Path) -> None:
    """Print the medians of a merge without parsing, and of what a snapshot adds to a read."""
    for size in SIZES:
        text = "".join(f"line {number} of a file\n" for number in range(size // 20))[:size]
        half = len(text) // 2
        mine, theirs = f"mine\n{text}", f"{text[:half]}\ntheirs\n{text[half:]}"
        merging = _median(lambda m=mine, b=text, t=theirs: merge(m, b, t, scratch=scratch))  # type: ignore[misc]
        file = scratch / "file.txt"
        file.write_text(text)
        numbered = "".join(f"{number:6}→{line}\n" for number, line in enumerate(text.split("\n"), 1))
        raw, listed = (_median(_read(scratch, file, result)) for result in (text, numbered))
        print(f"{size:6} bytes: merge {merging:5.2f} ms, read +{raw:4.2f} ms, with numbered lines +{listed:4.2f} ms")


def _read(scratch: Path, file: Path, result: str) -> Callable[[], None]:
    """Return what a gate does beside a read, whose result is this; each time the file has been touched."""
    snapshots, numbers = Snapshots(scratch / "copies"), count(1)

    def read() -> None:
        number = next(numbers)
        os.utime(file, ns=(number, number))
        snapshots.look("default", "mira", str(file))
        snapshots.looked("default", "mira", str(file), number, result)

    return read


def _median(job: Callable[[], object]) -> float:
    found = []
    for _ in range(41):
        began = time.perf_counter()
        job()
        found.append((time.perf_counter() - began) * 1000)
    return median(found)


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
            case _:
                sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
