"""Homes, repositories below a folder and remotes: is the second session told, and only where the two collide?

The cases are played on a real gate with a host that pauses, in folders on the disk. A case that collides counts as
found if its last call is stopped and told of the other session, in both orders where the order does not matter; any
other counts as a false alarm if it is not simply allowed.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.quality.collisions import Tally
from bench.quality.figures import Part
from bench.quality.judges import Scene
from bench.quality.placed import ALL, FOLDERS, ONE, TWO, Ask, Case, build, filled

APART: Final = 20.0
"""Seconds between two calls."""


def told(steps: tuple[Ask, ...], folder: Path) -> str:
    """Return the warning that the last step gets, ``""`` if there is none. The steps before it run."""
    scene = Scene()
    home = str(folder / FOLDERS["home"])
    for number, step in enumerate(steps, 1):
        scene.after(APART)
        params = filled(step.params, folder)
        decision = scene.ask(step.who, step.tool, params, cwd=str(folder / FOLDERS[step.cwd]), home=home, pause=True)
        if number == len(steps):
            told = ", ".join(f"{one.kind.value} {one.key}" for one in decision.conflicts if not one.own)
            return told if told and not decision.proceed else ""
        if decision.proceed:
            result = {"error": "no connection to the host"} if step.fails else None
            scene.gate.complete(step.who, id=decision.id, result=result)
    return ""


def wrong(case: Case, folder: Path) -> str:
    """Return why a case had the wrong result, ``""`` if it had the right one."""
    said = [told(case.steps, folder)]
    if case.swapped:
        other = {ONE: TWO, TWO: ONE}
        said.append(told(tuple(replace(one, who=other[one.who]) for one in reversed(case.steps)), folder))
    if all(said) if case.collide else not any(said):
        return ""
    return f"told {said}"


def run(_folder: Path) -> Part:
    tally = Tally(Part("folders", "Folders: homes, repositories below a folder, remotes"), "folders")
    with tempfile.TemporaryDirectory(prefix="folders-") as made:
        folder = Path(made)
        build(folder)
        for case in ALL:
            problem = wrong(case, folder).replace(made, "")
            tally.add(case.kind, case.identity, problem, collide=case.collide)
    return tally.finish("Folders by kind")
