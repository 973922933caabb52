"""What a decision is made of: the call with all that is known of it, and how its case was weighed."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from msgspec import Struct

from callosum.model import (
    NO_KEY,
    Asks,
    Call,
    Classification,
    Conflict,
    Content,
    Decision,
    Key,
    Mode,
    Scope,
    Tier,
    Verdict,
)
from callosum.policy.commitments import COMMITTED
from callosum.policy.evidence import REMOTE, Evidence, remote_of
from callosum.policy.unread import Prepared, Unread
from callosum.rules.content import contrary
from callosum.rules.keys import merge

_FLOORS: Final = (0, 0, 0, 2, 1)
"""By tier: the lowest tier of an act that can be ``recent`` to it; none below tier 3 is told of any."""


class CallFacts(Struct, frozen=True, gc=False):
    """All that a decision needs beside the view.

    ``call_print`` is the call id as bytes (empty without one). ``summary`` is what the journal
    shows of the params. ``params`` (JSON) are set where an approval must be able to run them.
    ``ttl`` is the lease's length in microseconds. ``waits``: the caller would still wait;
    ``waiter`` is its place in the queue. ``full``: the journal keeps all that is known of the call.
    ``shares``: purposes are shown to sessions of other instances too. ``here``: its files are this machine's, and
    ``prepared`` is what was found out about its write over unread changes. ``hunk``: the lines of a file that it
    changes, where the journal keeps them.
    """

    call: Call
    actor: str
    classification: Classification
    keys: tuple[Key, ...]
    call_print: bytes
    summary: Any
    ttl: int
    params: bytes | None = None
    waits: bool = False
    waiter: int = 0
    observes: bool = False
    full: bool = False
    shares: bool = False
    here: bool = False
    prepared: Prepared | None = None
    hunk: str = ""


class Assessment(Struct, frozen=True, gc=False):
    """What was weighed: the verdict, what is shown for it, all evidence, and a sentence of the gate's own.

    ``items`` is the evidence the session is told of, gravest first; ``conflicts`` its first ten. ``more`` is how much
    milder or older evidence there is beside ``items``, of actions that the view holds as numbers. ``wait`` is how many
    microseconds must pass before a repeat confirms. ``attempt`` counts the pauses of a call that would replace a
    changed file unread, from 1; 0 for other calls. ``details`` is what follows the sentence: what others did.
    ``passed`` is set where the call runs over unread changes.
    """

    verdict: Verdict
    items: tuple[Evidence, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    note: str = ""
    more: int = 0
    wait: int = 0
    attempt: int = 0
    details: str = ""
    passed: Prepared | None = None


class Decided(Struct, frozen=True, gc=False):
    """A step's answer: the decision without the store's ids, or the ``place`` in the queue at which the call waits.

    ``doubtful`` are the ids of actions that are in the way, and that a person may have refused in the host's dialog.
    While there are any, nothing was decided, nor while there are changes ``unread``, over which the call would write
    and which the gate is to compare with it; ``own`` are the ids of the session's newest acts on the changed files. In
    both cases, and for a repeated merge, the ruling is ``undecided``: the gate finds something out first.
    ``expired``: nobody waits for the decision any more, and nothing was
    opened.
    """

    decision: Decision
    waiter_id: int = 0
    doubtful: tuple[int, ...] = ()
    expired: bool = False
    undecided: bool = False
    unread: frozenset[Unread] = frozenset()
    own: Mapping[str, int] = {}

    @property
    def queued(self) -> bool:
        """Whether the call waits."""
        return self.waiter_id > 0


def scope_of(facts: CallFacts, identity: bytes | None) -> Scope:
    """What ``admit`` needs to see for this call."""
    classification, call = facts.classification, facts.call
    tier = classification.tier
    return Scope(
        call.namespace,
        facts.actor,
        facts.keys,
        identity,
        _lookups(classification.content) if tier >= 2 or classification.content.commitment is not None else (),
        _FLOORS[tier] or (2 if classification.cells else 0),
        tier >= 2 or classification.cells is not None or _may_need_a_person(classification),
        facts.waits,
        None,
        call.parent or "",
        call.continues or "",
        tier >= 3,
        Asks(classification.content, call.run or "", call.host),
    )


def keys_of(classification: Classification, tool: str) -> tuple[Key, ...]:
    """The keys the store works with: the call's own, or the hidden one of its content.

    With a push comes the key on which looks at the whole remote are marked: ``callosum.policy.evidence``. Below tier 2
    a call without keys is nobody's concern, unless what it was told must be found when it is repeated.
    At tiers 3 and 4 a second hidden key, of the tool, is marked as read once the session was told that it has none.
    """
    if classification.tier >= 2 and classification.keys:
        for key in classification.keys:
            if REMOTE in key.name:
                wholes = [remote_of(one.name) for one in classification.keys if one.mode is not Mode.READ]
                return merge([*classification.keys, *[Key(name, Mode.APPEND) for name in wholes if name]])[0]
        return classification.keys
    if classification.keys or (
        classification.tier < 2
        and classification.verdict is not Verdict.CONFIRM
        and not _may_need_a_person(classification)
    ):
        return classification.keys
    hidden = Key(NO_KEY + classification.content.digest.hex(), Mode.WRITE)
    if classification.gap and classification.tier >= Tier.HIGH:
        return (hidden, Key(NO_KEY + blake2b(tool.encode("utf-8", "replace"), digest_size=16).hexdigest(), Mode.READ))
    return (hidden,)


def _may_need_a_person(classification: Classification) -> bool:
    """Whether the rule itself may have a call of any tier approved: its questions must be found again."""
    if classification.verdict is not None:
        return classification.verdict in (Verdict.ASK, Verdict.BLOCK)
    return classification.cells is not None and not {Verdict.ASK, Verdict.BLOCK}.isdisjoint(
        classification.cells.values()
    )


def prints_of(content: Content) -> tuple[bytes, ...]:
    """The digests under which later calls can find this act."""
    prints = (*_repeatable(content), _stance_print(content.stance)) if content.stance else _repeatable(content)
    return prints if content.commitment is None else (*prints, COMMITTED)


def _lookups(content: Content) -> tuple[bytes, ...]:
    """The digests under which this call looks for earlier acts."""
    prints = _repeatable(content)
    if content.stance:
        prints = (*prints, _stance_print(contrary(content.stance)))
    return prints if content.commitment is None else (*prints, COMMITTED)


def _repeatable(content: Content) -> tuple[bytes, ...]:
    if not content.repeats:
        return ()
    return (content.digest, content.origin) if content.origin else (content.digest,)


def _stance_print(stance: str) -> bytes:
    return blake2b(stance.encode(), digest_size=8, person=b"stance").digest()
