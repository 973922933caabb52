"""The standing approval that a person could give for calls like a recorded one, and what it leaves open."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from callosum.characters import is_shown
from callosum.model import Call, Entry, Kind, Tier, Verdict
from callosum.retrospect.recorded_calls import call_of
from callosum.retrospect.suggestions import can_be_named, value_of
from callosum.rules import RuleSet, StandingApproval, shell
from callosum.rules.lexicon import lists
from callosum.rules.standing import LIFTED, Scalar

_CHOICES: Final = 10
"""Most params that a person may leave open; further ones must be equal."""
_KINDS: Final = {kind.value: kind for kind in Kind}


class Like(Struct, frozen=True, kw_only=True):
    """What a standing approval for a recorded call can say.

    ``asks``: it lifts the question of the rule; otherwise it lets ``kinds`` pass. A call must have the values of
    ``fixed``, and those of ``choices`` that the person keeps. The params ``open`` may have any value, because a rule
    cannot name them.
    """

    call: Entry
    under: str
    asks: bool
    kinds: tuple[Kind, ...]
    fixed: dict[str, Scalar]
    choices: dict[str, Scalar]
    open: tuple[str, ...]
    cwd: str = ""

    def approval(self, kept: frozenset[str], by: str, at: float, lasts: float) -> StandingApproval:
        """Return the approval in which the choices ``kept`` must be equal."""
        chosen = {name: value for name, value in self.choices.items() if name in kept}
        return StandingApproval(
            id=self.call.seq,
            tool=self.call.tool,
            tier=self.call.tier or 0,
            rule=self.call.rule,
            under=self.under,
            params={**self.fixed, **chosen},
            asks=self.asks,
            kinds=self.kinds,
            by=by,
            at=at,
            until=at + lasts,
            cwd=self.cwd,
            open=tuple(sorted({*self.choices, *self.open} - kept)),
        )


def like(entry: Entry, rules: RuleSet) -> Like | None:
    """Return what could be approved for calls like a recorded one; None if nothing can.

    Only the question of a rule can be approved, or a stop or question for ``recent`` or ``held`` alone, below tier 4.
    The current rules must still treat the call the same way, and its params must be known. A command line must always
    be equal.
    """
    call = call_of(entry)
    if call is None or entry.verdict not in (Verdict.ASK, Verdict.CONFIRM) or not can_be_named(entry.tool):
        return None
    found = rules.classify(call)
    if (found.tier, found.rule) != (entry.tier, entry.rule) or found.tier >= Tier.CRITICAL:
        return None
    asks = entry.verdict is Verdict.ASK and found.verdict is Verdict.ASK and bool(found.rule)
    kinds = () if asks else _kinds(entry)
    if not asks and (not kinds or found.verdict in (Verdict.ASK, Verdict.CONFIRM)):
        return None
    fixed: dict[str, Scalar] = {}
    choices: dict[str, Scalar] = {}
    left = []
    commands = _commands(call)
    for name, said in call.params.items():
        if name.startswith("_"):
            continue  # an agent's note to the gate can only raise the tier
        value = value_of(said) if is_shown(name) else b""
        if not value:
            if name in commands:
                return None
            left.append(name)
        elif name in commands or len(choices) >= _CHOICES:
            fixed[name] = msgspec.json.decode(value)
        else:
            choices[name] = msgspec.json.decode(value)
    return Like(
        call=entry,
        under=rules.digest_of(entry.rule),
        asks=asks,
        kinds=kinds,
        fixed=fixed,
        choices=choices,
        open=tuple(left),
        cwd=call.cwd or "" if shell.runs_commands(call.tool) else "",
    )


def _kinds(entry: Entry) -> tuple[Kind, ...]:
    """Return the conflicts, if all of them may be let pass."""
    told = entry.body.get("conflicts") or ()
    found: set[Any] = {_KINDS.get(str(one.get("kind"))) if isinstance(one, dict) else None for one in told}
    return tuple(sorted(found)) if found and found <= LIFTED else ()


def _commands(call: Call) -> frozenset[str]:
    """Return the params that hold a command to run."""
    if not shell.runs_commands(call.tool):
        return frozenset(lists.COMMAND_PARAMS)
    return frozenset(call.params) - {"description"}
