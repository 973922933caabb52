"""Calls that name what they act on in few words: is the second session told, and only where the two collide?

Both orders are played on a real gate with a host that pauses. A pair that collides counts as found if the second
session is told in both orders (in one, where the first call ends what the other only adds to), one that does not as a
false alarm if it is told in either.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.quality.collisions import Tally
from bench.quality.figures import Part
from bench.quality.judges import Scene, judge
from bench.quality.named import ALL, Asked, Named

APART: Final = 30.0
"""Seconds between the two calls."""


def told(first: Asked, second: Asked) -> str:
    """Return the second session's warning after the first one's call is done, ``""`` for none."""
    scene = Scene()
    scene.do("one", *first, pause=True)
    scene.after(APART)
    decision = scene.ask("two", *second, pause=True)
    return ", ".join(f"{one.kind.value} {one.key}" for one in decision.conflicts)


def wrong(pair: Named) -> str:
    """Return why a pair had the wrong result, ``""`` if it had the right one."""
    said = [told(pair.other, pair.one)]
    if not pair.ends:
        said.append(told(pair.one, pair.other))
    if all(said) if pair.collide else not any(said):
        return ""
    found = (f"{tool} tier {seen.tier} {[key.name for key in seen.keys]}"
             for tool, params in (pair.one, pair.other) for seen in (judge(tool, params),))  # fmt: skip
    return f"told {said}: {'; '.join(found)}"


def run(_folder: Path) -> Part:
    tally = Tally(Part("keys", "Keys: threads alone, names, payments, ids, containers"), "keys")
    for pair in ALL:
        tally.add(pair.kind, f"{pair.kind}: {pair.one} {pair.other}", wrong(pair), collide=pair.collide)
    return tally.finish("Keys by kind")
