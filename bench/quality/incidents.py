"""The labelled scenarios, played on a real gate with a host that pauses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.quality import baselines
from bench.quality.data import TEST
from bench.quality.figures import Mistake, Part, Row, Share, Table
from bench.quality.judges import Scene, told
from bench.quality.promises import CONTRADICTED, ENDS, KEPT
from bench.quality.scenarios import ALL, Scenario

Same = Callable[[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]], bool]
TITLES: Final = {
    "6A": "6A, the same effect twice: caught",
    "6B": "6B, work lost: caught",
    "6D": "6D, must pass: passing",
    "opposites": "opposites: told apart",
    "promises": "commitments that another session contradicts: caught",
    "kept": "commitments that nothing contradicts: passing",
}
_TARGETS: Final = {"6A": 1.0, "6B": 1.0, "6D": 1.0, "promises": 0.98, "kept": 0.995}
PLAYED: Final = (*ALL, *CONTRADICTED, *KEPT)


def play(scenario: Scenario) -> str:
    """Plays a scenario; returns ``""`` if each call got what it must get, else what went otherwise."""
    scene = Scene()
    for number, step in enumerate(scenario.steps, 1):
        scene.after(step.after)
        instance, _, session = step.who.partition("/")
        more = {"pause": True, **step.more}
        if session:
            more["session"] = session
        if step.tool == ENDS:
            scene.end_session(instance, session)
            continue
        decision = scene.ask(instance, step.tool, step.params, **more)
        here = f"call {number} of {step.who} ({step.tool})"
        kinds = ", ".join(sorted(told(decision))) or "nothing"
        if step.expect == "told":
            if decision.proceed or not decision.conflicts:
                keys = ", ".join(decision.context_keys) or "none"
                return f"{here} was not told: tier {decision.tier}, {decision.verdict.value}, keys {keys}"
            continue
        if step.expect == "repeated":  # a call says `proceed` once: its repeat is told the first answer
            if not decision.repeated or decision.conflicts:
                return f"{here} did not get its earlier answer"
            continue
        if not decision.proceed:
            return f"{here} was stopped: {decision.verdict.value}, {kinds}"
        if step.outcome and not decision.repeated:
            failed = step.outcome.startswith("error:")
            result = {"error": step.outcome[6:]} if failed else step.result
            outcome = None if failed else step.outcome
            scene.gate.complete(instance, id=decision.id, session=session or None, result=result, outcome=outcome)
    return ""


def by(same: Same, scenario: Scenario) -> bool:
    """Whether a judge that knows nothing but two calls gets a scenario right, over all earlier calls that ran."""
    ran: list[tuple[str, dict[str, Any]]] = []
    for step in scenario.steps:
        if step.tool == ENDS:
            continue
        call = (step.tool, step.params)
        alarm = any(same(one, call) for one in ran)
        if alarm != (step.expect == "told"):
            return False
        if not alarm:
            ran.append(call)
    return True


def run(folder: Path) -> Part:
    part = Part("incidents", "Incidents: what went wrong elsewhere, and what must pass")
    rows = []
    for section, title in TITLES.items():
        played = [one for one in PLAYED if one.section == section and not one.unseen]
        wrong = {one.name: problem for one in played if (problem := play(one))}
        target = _TARGETS.get(section)
        part.rows.append(_row(title, "Callosum", len(played) - len(wrong), len(played), target))
        for who, same in (("any equal argument", baselines.any_equal), ("same id", baselines.same_key)):
            part.rows.append(_row(title, who, sum(by(same, one) for one in played), len(played), None))
        part.mistakes += [Mistake(f"incidents.{section}", name, problem) for name, problem in wrong.items()]
        rows += [
            (
                one.name,
                one.story,
                f"not seen: {one.unseen}" if one.unseen else "MISS" if one.name in wrong else "as it must",
            )
            for one in PLAYED
            if one.section == section and (one.section not in ("promises", "kept") or one.name in wrong)
        ]
    part.tables.append(Table("Incidents", ("report", "what happened", "with Callosum"), rows, split=False))
    part.notes.append(
        "Scenarios are not split. One counts only if every call got what it must get, those that set the scene too."
    )
    return part


def _row(title: str, who: str, hits: int, total: int, target: float | None) -> Row:
    return Row(title, who, {TEST: Share(hits, total)}, target)
