"""What the plugin adds to a tool call of OpenClaw's: the real host with and without it, beside one another.

::

    python -m bench.hosts.openclaw [--rounds 4] [--calls 60]

A turn makes so many reads, one after another. What counts is the time between the model's answer with a call and the
host's next request to the model: all that the host does for one call. Rounds are shuffled, both gateways run all the
time, and the medians are of all calls of one kind. OpenClaw is installed as the end-to-end tests install it.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.e2e.home import until
from tests.e2e.openclaw.conftest import installed
from tests.e2e.openclaw.house import Fake, OpenClawHome, call, fake, gateway_of, play


def gaps(model: Fake, marker: str) -> list[float]:
    """The host's time for each call of a turn, in milliseconds."""
    requests = [one for one in model.seen() if marker in one["text"]]
    return [later["at"] - earlier["answered"] for earlier, later in pairwise(requests)]


def turns_of(calls: int) -> list[list[dict[str, Any]]]:
    """One read a turn of the model."""
    return [[call("read", path=f"{number}.txt")] for number in range(calls)]


def measure(rounds: int, calls: int) -> dict[str, list[float]]:
    """The times of all calls, ``bare`` and ``gated``."""
    programs = installed()
    found: dict[str, list[float]] = {"bare": [], "gated": []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="callosum-bench-")))
        model = stack.enter_context(fake(programs.node, "model.mjs"))
        houses = {kind: OpenClawHome(folder / kind, programs, model) for kind in found}
        houses["gated"].gated()
        stack.callback(houses["gated"].stop_gate)
        for house in houses.values():
            for number in range(calls):  # the host stops a model that reads the same again and again
                (house.workspace / f"{number}.txt").write_text("a note")
            stack.enter_context(gateway_of(house))
        until(lambda: houses["gated"].logged("health.ok"), "the gateway's first sign of life")
        turns = [(number, kind) for number in range(rounds + 1) for kind in found]
        warm, rest = turns[:2], turns[2:]
        random.shuffle(rest)
        for number, kind in warm + rest:
            marker = f"{kind}-{number}"
            houses[kind].turn(marker, play(*turns_of(calls), say=marker)).communicate(timeout=600)
            if number:
                found[kind] += gaps(model, f"SAY:{marker}")
                print(f"{marker}: {statistics.median(gaps(model, f'SAY:{marker}')):.1f} ms", file=sys.stderr)
        asked = [entry for entry in houses["gated"].journal() if entry["event"] == "intercept"]
        assert len(asked) == (rounds + 1) * calls, "every call of the one was gated"
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--calls", type=int, default=60)
    chosen = options.parse_args()
    found = measure(chosen.rounds, chosen.calls)
    bare, gated = statistics.median(found["bare"]), statistics.median(found["gated"])
    print(f"a tool call of OpenClaw's: {bare:.1f} ms bare, {gated:.1f} ms gated: {gated - bare:+.1f} ms (medians)")
    low, high = (sorted(found[kind])[len(found[kind]) // 10] for kind in ("bare", "gated"))
    print(f"the tenth that other work disturbed least: {low:.1f} and {high:.1f} ms: {high - low:+.1f} ms")


if __name__ == "__main__":
    main()
