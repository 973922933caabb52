"""Try one target in its own process: ``python -m fuzz.one NAME --seed 1 --runs 1000 --seconds 60 ...``.

With atheris the coverage of the gate's own code guides the inputs. Without it they are made at random from the seeds,
and the same seed makes the same inputs on every machine. Each new fault is written to the folder for crashes and
printed as one line of JSON on standard output. libFuzzer's own lines on standard error say how much was tried; the
random mode writes the same lines.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fuzz.target import Target

MOST: Final = 4096
"""Maximum length of an input, in bytes."""
_KEPT: Final = 20
"""Number of different faults of one target that are kept. Further ones are only counted."""


def main() -> None:
    """Try inputs until the time or the number of runs is over."""
    asked = _parser().parse_args()
    if asked.plain:
        target = _target(asked.name, asked.more)
        _by_chance(_Looking(target, asked.crashes), target.words, asked)
        return
    import atheris  # noqa: PLC0415 - it is not everywhere

    with atheris.instrument_imports(include=["callosum"]):
        target = _target(asked.name, asked.more)
    looking = _Looking(target, asked.crashes)
    with tempfile.NamedTemporaryFile("w", suffix=".dict", delete=False) as words:
        words.writelines(_entries(target.words))
    options = [
        *(f"-seed={asked.seed}", f"-runs={asked.runs}", f"-max_total_time={asked.seconds}", f"-max_len={MOST}"),
        *(
            f"-timeout={asked.timeout}",
            "-rss_limit_mb=3000",
            "-print_final_stats=1",
            "-verbosity=1",
            "-close_fd_mask=0",
        ),
        *(f"-artifact_prefix={asked.work}/died-", "-len_control=0", *([f"-dict={words.name}"] if target.words else [])),
    ]
    atheris.Setup([sys.argv[0], *options, str(asked.work / "corpus"), *_seeds(asked)], looking)
    atheris.Fuzz()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz.one")
    parser.add_argument("name")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=-1)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--timeout", type=int, default=60)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--crashes", type=Path, required=True)
    parser.add_argument("--more", default="")
    parser.add_argument("--plain", action="store_true")
    return parser


def _target(name: str, more: str) -> Target:
    """Return the target with this name. The gate's code is loaded only if the targets of ``more`` do not include it."""
    for module in filter(None, (more, "fuzz.targets")):  # inside the instrumentation, see main
        targets: tuple[Target, ...] = importlib.import_module(module).TARGETS
        for target in targets:
            if target.name == name:
                return target
    raise LookupError(f"there is no target {name!r}")


def _seeds(asked: argparse.Namespace) -> list[str]:
    from fuzz.attempt import CORPUS  # noqa: PLC0415 - as above

    folders = (CORPUS / asked.name, asked.crashes / asked.name)
    return [str(one) for one in folders if one.is_dir()]


def _entries(words: tuple[str, ...]) -> Iterator[str]:
    """Return the lines of a dictionary in the format of libFuzzer."""
    for word in words:
        data = word.encode("utf-8", "surrogatepass")
        if data:
            yield '"' + "".join(f"\\x{one:02x}" for one in data) + '"\n'


class _Looking:
    """Called with every input. A fault does not end the campaign: it is kept, reported and skipped."""

    def __init__(self, target: Target, crashes: Path) -> None:
        self._target, self._crashes = target, crashes
        self._seen: Counter[str] = Counter()

    def __call__(self, data: bytes) -> None:
        from fuzz.attempt import attempt, keep  # noqa: PLC0415 - as above

        fault = attempt(self._target, data)
        if fault is None:
            return
        self._seen[fault.sign] += 1
        if self._seen[fault.sign] > 1 or len(self._seen) > _KEPT:
            return
        path = keep(self._target, data, fault, self._crashes)
        print(json.dumps({"sign": fault.sign, "file": str(path), "told": fault.told[-3000:]}), flush=True)


def _by_chance(look: Callable[[bytes], None], said: tuple[str, ...], asked: argparse.Namespace) -> None:
    """Try random inputs, and seeds with random changes."""
    chance = random.Random(asked.seed)
    seeds = [path.read_bytes() for folder in _seeds(asked) for path in sorted(Path(folder).iterdir())]
    words = [one.encode("utf-8", "surrogatepass") for one in said]
    ends = time.monotonic() + asked.seconds
    runs = 0
    for data in seeds:
        look(data)
        runs += 1
    while (asked.runs < 0 or runs < asked.runs) and time.monotonic() < ends:
        look(_changed(chance, seeds, words) if seeds and chance.random() < 0.8 else _random(chance))
        runs += 1
    print(f"stat::number_of_executed_units: {runs}", file=sys.stderr)


def _random(chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice((4, 16, 64, 256, 1024)))


def _changed(chance: random.Random, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """Return a seed with some places replaced by other bytes, a word of the target, or a piece of another seed."""
    made = bytearray(chance.choice(seeds)[:MOST])
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(made) + 1)
        kind = chance.randrange(3)
        if kind == 0 and words:
            new = chance.choice(words)
        elif kind == 1:
            other = chance.choice(seeds)
            begin = chance.randrange(len(other) + 1)
            new = other[begin : begin + chance.randint(1, 32)]
        else:
            new = chance.randbytes(chance.randint(0, 4))
        made[at : at + chance.choice((0, 0, len(new), chance.randint(0, 16)))] = new
    return bytes(made[:MOST])


if __name__ == "__main__":
    main()
