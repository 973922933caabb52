"""What a decision is based on: the facts of a call, and how the evidence was weighed."""

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
    Host,
    Key,
    Mode,
    Scope,
    Tier,
    Verdict,
)
from callosum.policy.checkouts import HEAD, REMOTE, remote_of
from callosum.policy.commitments import COMMITTED
from callosum.policy.evidence import Evidence
from callosum.policy.unread import Prepared, Unread
from callosum.rules.content import contrary
from callosum.rules.keys import merge

_APPEND: Final = Mode.APPEND  # an enum's attributes are slow
_NEEDS_A_PERSON: Final = frozenset({Verdict.ASK, Verdict.BLOCK})
_FLOORS: Final = (0, 0, 0, 2, 1)
"""By the call's tier: the lowest tier of an action that can be ``recent``. Below tier 3 nothing is ``recent``."""


class CallFacts(Struct, frozen=True, gc=False):
    """All that a decision needs besides the view.

    ``call_print`` is the call id as bytes, empty if there is none. ``summary`` is what the journal shows of the params.
    ``params`` (JSON) are set if an approval must be able to run them. ``ttl`` is the length of a lease in microseconds.
    ``waits`` says that the caller would still wait, and ``waiter`` is the id of the call's waiter in the queue.
    ``full`` says that the journal keeps all that is known of the call. ``shares`` says that purposes are shown to
    sessions of other instances too. ``here`` says that the call's files are on this machine, ``prepared`` holds what
    the gate found out about a write over unread changes, and ``hunk`` holds the lines of a file that the call changes,
    if the journal keeps them. ``keys`` are those of the store: besides the call's own, such as are only looked at.
    ``distinct`` says that the gate has checked that the session used the call id for nothing
    else.
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
    distinct: bool = False


class Assessment(Struct, frozen=True, gc=False):
    """How a call was weighed: the verdict, the conflicts shown for it, all evidence, and a note of the gate.

    ``items`` is the evidence that the session is notified of, gravest first, and ``conflicts`` its first ten. ``more``
    counts milder or older evidence besides ``items``: actions that the view holds only in groups. ``wait`` is the
    number of microseconds that must pass before a repeat confirms the call. ``attempt`` counts the pauses of a call
    that would replace a changed file unread, from 1; it is 0 for other calls. ``details`` follows the sentence and says
    what others did. ``passed`` is set if the call runs over unread changes.
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
    """The answer of a step: a decision without the store's ids, or the ``waiter_id`` of the call in the queue.

    If ``undecided`` is True, nothing was decided and the gate has to find something out first, for one of five
    reasons. ``recurring`` asks whether the session has used the call id for another call too, and so for no identity.
    ``doubtful`` lists ids of conflicting actions that a person may have refused in the host's dialog.
    ``unread`` holds changes that the call would overwrite and that the gate must compare with it; ``own`` holds the ids
    of the session's newest actions on the changed files, ``unseen`` the files that it never read, and ``running`` those
    that may still be changing. ``marks`` holds keys whose marks the step must see. Or the answer repeats a merge.

    ``expired`` says that the client no longer waits for the decision, so nothing was opened. ``host`` is the process
    that must live for an action that the decision calls open; where nobody can tell, it is open ``until`` that moment.
    """

    decision: Decision
    waiter_id: int = 0
    doubtful: tuple[int, ...] = ()
    expired: bool = False
    undecided: bool = False
    unread: frozenset[Unread] = frozenset()
    own: Mapping[str, int] = {}
    recurring: bool = False
    host: Host | None = None
    until: int = 0
    unseen: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    marks: tuple[Key, ...] = ()

    @property
    def queued(self) -> bool:
        """Return True if the call waits in the queue."""
        return self.waiter_id > 0


def scope_of(facts: CallFacts, identity: bytes | None) -> Scope:
    """Return the scope that ``admit`` needs for this call."""
    classification, content, call = facts.classification, facts.classification.content, facts.call
    tier = classification.tier
    floor = _FLOORS[tier] or (2 if classification.cells else 0)
    if not floor and tier:
        for key in facts.keys:  # a commit is told of a switch even if that session has committed since
            if key.mode is _APPEND and key.name[-5:] == HEAD:
                floor = 1
    space, actor, parent, continues = call.namespace, facts.actor, call.parent or "", call.continues or ""
    prints = prints_of(content, looks=True) if tier >= 2 or content.commitment is not None else ()
    live = tier >= 2 or classification.cells is not None or classification.verdict in _NEEDS_A_PERSON
    keys, waits, durable, asks = facts.keys, facts.waits, tier >= 3, Asks(content, call.run or "", call.host)
    return Scope(space, actor, keys, identity, prints, floor, live, waits, None, parent, continues, durable, asks)


def keys_of(classification: Classification, tool: str) -> tuple[Key, ...]:
    """Return the keys that the store works with: the call's own, or the hidden key of its content.

    A push also gets the key on which reads of the whole remote are marked (``callosum.policy.evidence``). Below tier 2
    a call without keys conflicts with nothing and gets none, unless the gate must recognise its repeat. At tiers 3 and
    4 such a call gets a second hidden key, that of its tool, which is marked as read once the session was notified that
    the tool's calls have no key.
    """
    if classification.keys:
        for key in classification.keys if classification.tier >= 2 else ():
            if REMOTE in key.name:
                wholes = [remote_of(one.name) for one in classification.keys if one.mode is not Mode.READ]
                return merge([*classification.keys, *[Key(name, Mode.APPEND) for name in wholes if name]])[0]
        return classification.keys
    verdict, cells = classification.verdict, classification.cells
    # The rule itself can have the call approved, at any tier: its questions must be found again.
    asks = verdict in _NEEDS_A_PERSON if verdict or not cells else not _NEEDS_A_PERSON.isdisjoint(cells.values())
    if classification.tier < 2 and verdict is not Verdict.CONFIRM and not asks:
        return ()
    hidden = Key(NO_KEY + classification.content.digest.hex(), Mode.WRITE)
    if classification.gap and classification.tier >= Tier.HIGH:
        return (hidden, Key(NO_KEY + blake2b(tool.encode("utf-8", "replace"), digest_size=16).hexdigest(), Mode.READ))
    return (hidden,)


def prints_of(content: Content, *, looks: bool = False) -> tuple[bytes, ...]:
    """Return the digests by which later calls can find this action, or by which it ``looks`` for earlier ones."""
    prints: tuple[bytes, ...] = ()
    if content.repeats:
        prints = (content.digest, content.origin) if content.origin else (content.digest,)
    if content.stance:
        stance = contrary(content.stance) if looks else content.stance
        prints += (blake2b(stance.encode(), digest_size=8, person=b"stance").digest(),) if stance else ()
    return prints if content.commitment is None else (*prints, COMMITTED)
