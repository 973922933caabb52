"""Standing approvals: what a person approves beforehand, for calls that are alike, until a date.

A standing approval is laid over what the rules say of a call. It lifts the question that a rule asks, or lets
``recent`` or ``held`` pass. It changes nothing else: never the tier, the keys or another kind of conflict. It holds
while the rule is as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from callosum.model import MAX_NAME, Classification, Kind, Tier, Verdict
from callosum.rules import shape as shapes
from callosum.rules.match import scalar

LIFTED: Final = frozenset({Kind.RECENT, Kind.HELD})
"""The kinds of conflict that a standing approval may let pass: another session is near, and nothing says more."""

Scalar = str | int | float | bool


class StandingApproval(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One standing approval. ``id`` is the call it was given for; ``at`` and ``until`` are Unix seconds.

    It holds for calls of this ``tool`` with these ``params``, of any session, that the rule of this name classifies
    with this tier; ``under`` is the digest of that rule. ``cwd`` is the working directory of a call that runs a
    command, ``""`` for any. ``asks``: a question of the rule is lifted. ``kinds`` are the conflicts that pass.
    ``open`` names the params that the person left open. Another param that may hold a command or name a target was not
    there when the person looked: a call with one is not approved.
    """

    id: int
    tool: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
    tier: Annotated[int, Meta(ge=0, lt=int(Tier.CRITICAL))]
    rule: str
    under: str
    params: dict[str, Scalar]
    asks: bool
    kinds: tuple[Kind, ...]
    by: str
    at: float
    until: float
    cwd: str = ""
    open: tuple[str, ...] = ()

    @property
    def is_allowed(self) -> bool:
        """Whether it lifts something, and nothing that nobody may lift."""
        return (self.asks or bool(self.kinds)) and LIFTED.issuperset(self.kinds)

    def fits(self, params: Mapping[str, Any], cwd: str | None) -> bool:
        """Return True if a call with these params, made there, has the values that were approved."""
        if self.cwd not in ("", cwd) or not shapes.of(params).aims <= {*self.params, *self.open}:
            return False
        return all(name in params and scalar(params[name]) == scalar(value) for name, value in self.params.items())

    def lift(self, found: Classification) -> Classification:
        """Return the classification of a call that fits, with what is approved lifted."""
        if (found.rule, found.tier) != (self.rule, self.tier):
            return found
        cells = found.cells or {}
        passing = dict.fromkeys((kind for kind in self.kinds if cells.get(kind) is not Verdict.BLOCK), Verdict.ALLOW)
        lifts = self.asks and found.verdict is Verdict.ASK
        if not lifts and not passing:
            return found
        return replace(
            found,
            verdict=None if lifts else found.verdict,
            cells={**cells, **passing} if passing else found.cells,
            why=(*found.why, f"standing approval {self.id}"),
        )
