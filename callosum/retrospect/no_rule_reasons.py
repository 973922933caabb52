"""Why confirmed stops support no rule: counted by reason, tool and rule, and explained in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from callosum.policy.sentence import name as shown
from callosum.regions.learning.counts import MILD, EndingCount, joined
from callosum.regions.learning.endings import Ending
from callosum.retrospect.recorded_calls import CallGroups

MOST_TOLD: Final = 5
_MOST: Final = 1000
"""Most groups that are counted separately."""


class NoRuleReason(Enum):
    """A reason, as a sentence. If several apply, the first counts."""

    NAMELESS = (
        "No rule names {tool}: {good} of its {all} pauses {were} confirmed. Name it in a rule of its own; "
        "then its pauses can lead to a proposal."
    )
    GRAVE = (
        "{good} of {all} pauses of {tool} (rule {rule}) {were} confirmed, at tier 4 or for {kinds}: "
        "no rule may lift these."
    )
    CHANGED = (
        "{good} of {all} pauses of {tool} (rule {rule}) {were} confirmed, but the current rules decide these calls "
        "differently. They may already include the proposal."
    )
    AGAINST = (
        "{good} of {all} pauses of {tool} (rule {rule}) {were} confirmed; the others were justified, or a confirmed "
        "call went wrong."
    )
    FEW = "{good} of {all} pauses of {tool} (rule {rule}) {were} confirmed; a proposal needs {least}."
    DIFFERENT = (
        "A person approved {tool} (rule {rule}) {good} of {all} times, but fewer than {least} times for the same call."
    )
    UNWRITTEN = (
        "{good} of {all} pauses of {tool} (rule {rule}) {were} confirmed, but no rule can be written that lets only "
        "these pass."
    )


class NoRuleReasons:
    """Count the endings that cannot become a proposal. Memory is bounded."""

    def __init__(self) -> None:
        self._missed: CallGroups[tuple[NoRuleReason, str, str], tuple[EndingCount, set[str]]] = CallGroups(
            lambda: (EndingCount(), set()), _MOST
        )

    def add(self, why: NoRuleReason, ending: Ending) -> None:
        """Count an ending that cannot become a proposal."""
        case = ending.case
        if (group := self._missed.of((why, case.tool, case.rule))) is not None:
            group[0].add(ending)
            group[1].update(case.kinds - MILD)

    def left(
        self, tool: str, rule: str, pauses: Iterable[EndingCount], questions: Sequence[EndingCount], least: int
    ) -> None:
        """Take over the counts of a candidate that led to no proposal."""
        for counts, questioned in ((list(pauses), False), (list(questions), True)):
            total = joined(counts)
            if not _good(total):
                continue
            enough = any(_good(count) >= least for count in counts)
            few = NoRuleReason.DIFFERENT if questioned else NoRuleReason.FEW
            against = total.against or (questioned and total.unanswered)
            why = NoRuleReason.AGAINST if against else NoRuleReason.UNWRITTEN if enough else few
            if (group := self._missed.of((why, tool, rule))) is not None and not _good(group[0]):
                group[0].join(total)

    def sentences(self, least: int, *, paused: bool) -> list[str]:
        """Return the reasons, those with most confirmations first; never nothing.

        ``paused``: there was a stop at all.
        """
        ranked = sorted(
            (-_good(count), group[0].name, *group[1:], group[0], count, kinds)
            for group, (count, kinds) in self._missed.items()
            if _good(count)
        )
        sentences = [
            why.value.format(
                tool=shown(tool),
                rule=shown(rule),
                good=_good(count),
                all=_all(count),
                were="was" if good == -1 else "were",
                kinds=" or ".join(sorted(kinds)) or "actions that cannot be undone",
                least=least,
            )
            for good, _, tool, rule, why, count, kinds in ranked[:MOST_TOLD]
        ]
        if len(ranked) > MOST_TOLD:
            sentences.append(f"The same applies to {len(ranked) - MOST_TOLD} more.")
        if sentences:
            return sentences
        if paused:
            return ["Calls were paused or put to a person, and none was confirmed or approved."]
        return ["No call was paused or put to a person in that time."]


def _good(count: EndingCount) -> int:
    return count.confirmed + count.approved


def _all(count: EndingCount) -> int:
    return _good(count) + count.heeded + count.waited + count.denied + count.unanswered
