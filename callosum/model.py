"""Data types that every part of Callosum shares: calls, actions, conflicts, decisions. They hold data and no behaviour.

Units
    A *moment* is an integer: microseconds since 1970 by the store's clock. Within a namespace moments only grow, so no
    two journal entries share one. Durations inside the gate are in microseconds too (``SECOND``). Everything that a
    person or a client passes in or reads is in seconds.

How a call becomes a decision::

    Call ── rules ──> Classification ── gate ──> Scope ── store ──> View
                                                                     │ a pure step
    Decision <── gate ── Applied <── store ── Change <───────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

R = TypeVar("R")

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

NO_KEY: Final = "="
"""Prefix of the hidden key of a call without keys: ``=`` and the digest of the call's content."""
DEFAULT_NAMESPACE: Final = "default"
MAX_NAME: Final = 256
"""Maximum length of the name of a session, tool, namespace or run, and of a call id, in characters."""
MAX_KEY: Final = 1024
"""Maximum length of a context key, in characters. The rules shorten longer keys with a digest; others are refused."""

TRACE: Final = ("traceparent", "tracestate")
"""Names in a call's ``meta`` that identify the trace it belongs to (W3C Trace Context)."""
MAX_SUMMARY: Final = 160
"""Maximum length of an action's summary, in characters."""
MAX_PURPOSE: Final = 120
"""Maximum length of an action's purpose, in characters."""


class Tier(IntEnum):
    """Risk of a call: how much harm it can do."""

    NONE = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4


class Mode(StrEnum):
    """How a call affects a key. Two reads never conflict, and neither do two appends."""

    READ = "read"
    WRITE = "write"
    APPEND = "append"


class Kind(StrEnum):
    """Kind of a conflict, from mildest to gravest.

    Stores keep the gravity of the gravest kind that a session was notified of, so the gravity of a kind never changes.
    """

    gravity: int
    """1 for ``recent`` to 6 for ``duplicate``."""

    def __new__(cls, value: str, gravity: int = 0) -> Self:
        """Create a kind with its gravity."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.gravity = gravity
        return member

    RECENT = "recent", 1
    HELD = "held", 2
    STALE = "stale", 3
    UNKNOWN = "unknown", 4
    OPPOSED = "opposed", 5
    DUPLICATE = "duplicate", 6


class Verdict(StrEnum):
    """The gate's verdict on a call, from mildest to strictest."""

    gravity: int
    """0 for ``allow`` to 4 for ``block``."""
    proceed: bool
    """True if the call may run."""

    def __new__(cls, value: str, gravity: int = 0) -> Self:
        """Create a verdict with its gravity. ``allow`` and ``warn`` let the call run."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.gravity = gravity
        member.proceed = gravity < 2
        return member

    ALLOW = "allow", 0
    WARN = "warn", 1
    CONFIRM = "confirm", 2
    ASK = "ask", 3
    BLOCK = "block", 4


class State(StrEnum):
    """Current state of an action."""

    QUEUED = "queued"
    ASKED = "asked"
    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """Outcome of a call, as its session reports it."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Event(StrEnum):
    """Kind of a journal entry."""

    INTERCEPT = "intercept"
    COMPLETE = "complete"
    LOCK = "lock"
    RELEASE = "release"
    RENEW = "renew"
    LAPSE = "lapse"
    RESOLVE = "resolve"
    APPROVE = "approve"
    DENY = "deny"
    QUEUE = "queue"
    OBSERVE = "observe"
    LATE = "late"
    REFUSE = "refuse"
    HOST = "host"


class Key(Struct, frozen=True, gc=False, array_like=True):
    """A context key, and how the call affects it.

    ``name`` is canonical: a resource has one spelling. A name that ends in ``/`` is a tree and covers every key that
    starts with it; ``order:/`` covers every ``order:`` key. The part after ``|`` is a facet of the key before it.
    """

    name: str
    mode: Mode = Mode.WRITE


def reach(name: str) -> str:
    """Return the prefix of all keys that a tree covers, or ``""`` if the key is not a tree.

    ``order:/``, the tree of a whole entity, covers every key of that entity: ``order:W1``. So does ``file:/``:
    ``file:README.md``.
    """
    if name[-1:] != "/":
        return ""
    return name[:-1] if name.find(":") == len(name) - 2 else name


def overlap(one: str, other: str) -> bool:
    """Return True if two keys overlap: they are equal, one is a tree over the other, or one is a facet of the other."""
    if one == other:
        return True
    above, below = reach(one), reach(other)
    if (above and other.startswith(above)) or (below and one.startswith(below)):
        return True
    return one.startswith(f"{other}|") or other.startswith(f"{one}|")


def sees(tree: str, name: str) -> bool:
    """Return True if reading a tree shows a key in it: the things it lists, but not what belongs to one of them.

    A list of issues (``issue:/``) shows ``issue:7`` and a new issue (``issue:/|new``), but not ``issue:7|comment``.
    """
    below = reach(tree)
    if not below or tree == name or not name.startswith(below):
        return False
    bar = name.find("|")
    return bar < 0 or name[:bar] == tree


class Host(Struct, frozen=True, gc=False, array_like=True):
    """The process that stays alive while a tool runs: its pid, start time and machine id.

    ``started`` is in seconds: on Linux since the machine booted, so setting the clock changes nothing; elsewhere since
    1970. ``machine`` identifies the machine, its current boot and the container.
    """

    pid: int
    started: float
    machine: str


class Worktree(Struct, frozen=True, gc=False, rename="camel"):
    """The working tree of a version control system that contains a folder. Both fields are absolute paths.

    ``root`` is the top folder of the working tree. ``repository`` names what all worktrees of the repository share
    (refs, stash, remotes) and is the same text in each of them.
    """

    root: str
    repository: str


class Commits(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A commitment that a call declares for the keys it writes.

    ``side`` is a verb (``accept``, ``cancel``) or a word after ``+`` or ``-``. ``what`` is the thing promised and
    ``to`` the person it is promised to; both are only shown. ``until`` is in Unix seconds; a date more than 400 days
    ahead counts as 400 days.
    """

    side: str
    what: str = ""
    to: str = ""
    until: float | None = None


class GateRequest(Generic[R]):
    """A request to the gate. ``R`` is the type of its reply; ``operation`` names the operation."""

    __slots__ = ()
    operation: ClassVar[str]


class Call(Struct, GateRequest["Decision"], frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One tool call that a session wants to make, as its host describes it.

    Session
        ``instance`` names the actor; with the optional ``session`` the actor is ``instance/session``. ``host`` is set
        where no process of Callosum runs between the two reports of a call. ``task_id`` names the guarded run that the
        call belongs to, and ``attempt`` counts its tries from 1. ``after`` is the newest decision id whose answer the
        model had seen when it made the call, if the host knows it; 0 says that the call confirms nothing. ``dispatch``
        names the run that a caller is about to make of the call: only the dispatch that asked gets the same answer
        again while the action is open (at most 256 characters).

    Time
        ``wait`` is in seconds, at most 60. ``timeout`` is the tool's own limit in seconds, if it has one. ``deadline``
        and ``timeout_ms`` say how long the client waits for the decision (``callosum.deadline``).

    Folders
        ``worktree`` is the working tree that contains ``cwd``, supplied by a process that reads that disk; without it
        ``cwd`` itself counts as the repository. ``worktrees`` holds the same for the other folders in which the call
        runs git; None means that a folder is outside any working tree. ``home`` is the caller's home folder, an
        absolute path, and ``homes`` holds those of other users that the call names (``~user``).

    What is shown or changed
        ``rewrite`` says that the host can replace the call's params. ``commits`` declares a commitment. ``meta``
        belongs to the caller: the gate decides nothing by it, and the journal keeps a summary; ``traceparent`` and
        ``tracestate`` in it identify the caller's span. ``summary`` says in one line what the call does, where the
        caller knows better than its params show. ``purpose`` is the prompt, typed by a person, that the call serves.
        Other sessions are shown both as data.
    """

    operation: ClassVar[str] = "intercept"
    instance: str
    tool: str
    params: Mapping[str, Any] = field(default_factory=dict)
    action: str | None = None
    session: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    call_id: str | None = None
    cwd: str | None = None
    pause: bool = False
    wait: float = 0
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] | None = None
    origin: str | None = None
    parent: str | None = None
    run: str | None = None
    continues: str | None = None
    timeout: float | None = None
    host: Host | None = None
    rewrite: bool = False
    after: int | None = None
    task_id: str | None = None
    attempt: int = 1
    worktree: Worktree | None = None
    deadline: str | None = None
    timeout_ms: int | None = None
    commits: Commits | None = None
    meta: Mapping[str, Any] | None = None
    home: str | None = None
    homes: Mapping[str, str] | None = None
    worktrees: Mapping[str, Worktree | None] | None = None
    summary: str | None = None
    purpose: str | None = None
    dispatch: str | None = None

    @property
    def actor(self) -> str:
        """Return the actor: ``instance`` or ``instance/session``."""
        return f"{self.instance}/{self.session}" if self.session else self.instance


class Commitment(Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """A side taken, or a promise made, that counts for longer than the rule's window.

    ``until`` is the moment at which it stops counting; in a classification, 0 means that no date is known. ``what`` and
    ``to`` are shown as declared. ``thing`` is the key of what the call created, once its result has revealed the id.
    ``left`` is True when the session that made the commitment has ended; any session of its instance is then the owner.
    """

    until: int = 0
    side: str = ""
    what: str = ""
    to: str = ""
    thing: str = ""
    left: bool = False


class Content(Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """What is stored about a call's content instead of the content itself.

    ``digest`` covers the tool and the normalised params. ``whole`` is the digest of the bytes that a resource will hold
    afterwards, where the call supplies them all. ``words`` holds keyed hashes of the words in the text (4 bytes each,
    sorted), and ``numbers`` those of its numbers. ``origin`` is a digest of what caused the call.

    ``brief`` is True for a text so short that repeating it means nothing. ``repeats`` is True if repeating the call has
    its effect again, as with a mail, and False if a repetition is harmless, as with a set. ``stance`` is a side taken
    (``+attend``); a call of another session with the contrary side (``-attend``) is ``opposed``. ``commitment`` is set
    if the side counts for longer than the rule's window. ``over`` is True for a write over changes that its session had
    not read, so that the end of the write does not count as reading the file.
    """

    digest: bytes = b""
    whole: bytes = b""
    words: bytes = b""
    numbers: bytes = b""
    repeats: bool = False
    stance: str = ""
    origin: bytes = b""
    brief: bool = False
    commitment: Commitment | None = None
    over: bool = False


class Classification(Struct, frozen=True, gc=False):
    """Tier, keys, effect and content fingerprint of a call, as the rules derive them.

    ``rule`` names the rule that matched, or is ``""`` if none did and the call was judged by its name and params.
    ``why`` explains the result in words. ``window`` is how far back other sessions' actions count, in microseconds.
    ``cells`` overrides single cells of the policy table. ``verdict`` is the minimum verdict; conflicts can only make it
    stricter. ``gap`` is True for a call that writes and has no key that could be derived.
    """

    tier: int
    keys: tuple[Key, ...] = ()
    rule: str = ""
    effect: str = "write"
    content: Content = Content()
    window: int = HOUR
    cells: Mapping[Kind, Verdict] | None = None
    verdict: Verdict | None = None
    gap: bool = False
    why: tuple[str, ...] = ()


class Mark(Struct, frozen=True, gc=False, array_like=True):
    """What one session has seen of one key, and what it has been notified of there.

    ``read`` is the moment at which the session last read the resource, 0 if it never did.

    The notified mark covers the actions of other sessions up to the id ``notified``, and conflicts up to the gravity
    ``notified_kind`` (0 to 6). ``notified_at``, ``notified_call`` and ``notified_run`` say when the session was
    notified, for which call and in which turn. ``notified_before`` and ``notified_before_kind`` hold the mark as it was
    until then: that one still applies to the notified call and to its siblings of the same turn.

    ``covers`` says which sorts of conflicts the notification covers (``callosum.policy.marks``), and ``covers_before``
    which the one before it did.

    ``pauses`` holds two sorts of moments: the negated ones of the last pauses of calls that would have replaced a whole
    file which another session had changed; and those of the last pauses for ``recent`` or ``held``, oldest first.
    """

    read: int = 0
    notified: int = 0
    notified_kind: int = 0
    notified_at: int = 0
    notified_call: bytes = b""
    notified_run: str = ""
    notified_before: int = 0
    notified_before_kind: int = 0
    pauses: tuple[int, ...] = ()
    covers: int = 0xFF
    covers_before: int = 0xFF


NO_MARK: Final = Mark()


class Action(Struct, frozen=True, gc=False, array_like=True):
    """A call that was let through, or that waits (``queued``, ``asked``), as the store holds it.

    ``id`` is also the fencing token. ``key`` and ``mode`` name the key through which a view found the action.

    Times are moments. ``ended`` is when the outcome was reported, 0 if it was not. ``expires`` is when the lease runs
    out; for tiers 0 to 2 it is the moment until which an unreported action counts as still running. ``limit`` is the
    moment up to which a living host process keeps the lease. ``approved`` is when a person approved the call; it is
    negative if the person refused. ``alive`` says whether the host process lives, None if no host is known.

    ``answer`` holds the decision as it was returned, for repeats of the call. In ``KeyView.live`` it holds the params
    (JSON) with which the session's own approved question may run, if they were kept.
    """

    id: int
    namespace: str
    session: str
    tool: str
    tier: int
    state: State
    started: int
    ended: int = 0
    expires: int = 0
    limit: int = 0
    run: str = ""
    rule: str = ""
    lock: bool = False
    host: Host | None = None
    alive: bool | None = None
    content: Content = Content()
    keys: tuple[Key, ...] = ()
    key: str = ""
    mode: Mode = Mode.WRITE
    supersedes: tuple[int, ...] = ()
    approved: int = 0
    verdict: Verdict = Verdict.ALLOW
    answer: bytes = b""


class Find(Struct, frozen=True, gc=False):
    """How a report finds its action: by ``id``, otherwise by ``key``, otherwise by ``digest``.

    ``key`` names a key, and ``""`` means "without a key": it finds the session's newest open action there. Locks are
    never found, and an ``unknown`` action only if nothing else is open. ``digest`` finds the oldest unreported action
    with that digest.
    """

    id: int | None = None
    key: str | None = None
    digest: bytes | None = None


class Asks(Struct, frozen=True, gc=False):
    """The properties of a call that decide which open actions conflict with it in the same way."""

    content: Content = Content()
    run: str = ""
    host: Host | None = None


class Scope(Struct, frozen=True, gc=False):
    """What a step needs to see. The store serialises all steps whose keys overlap.

    ``call`` is the identity of the call; None means that it is not idempotent. ``prints`` are digests to look up on the
    keys: they find actions of the same content or origin, or with the contrary side. ``floor`` is the lowest tier that
    counts in ``KeyView.latest``; 0 means only the newest action. ``live`` asks for open, queued and unknown actions,
    and ``waits`` for ``View.wanted``. ``durable`` means that the change must survive a power loss before ``transact``
    returns. If ``asks`` is set, ``KeyView.groups`` holds open actions in groups.
    """

    namespace: str
    session: str
    keys: tuple[Key, ...] = ()
    call: bytes | None = None
    prints: tuple[bytes, ...] = ()
    floor: int = 1
    live: bool = False
    waits: bool = False
    find: Find | None = None
    parent: str = ""
    continues: str = ""
    durable: bool = False
    asks: Asks | None = None


class ActionGroup(Struct, frozen=True, gc=False):
    """A group of open actions, oldest first, that all conflict with the call in the same way.

    ``ids`` are those of ``actions``. ``related`` is True if their content is related to the call's.
    """

    ids: tuple[int, ...]
    actions: tuple[Action, ...]
    related: bool = False


class KeyView(Struct, frozen=True, gc=False):
    """One key of the scope, with all actions on keys that cover it or that it covers.

    ``mark`` is this session's mark. ``live`` holds the queued, asked and open actions of every session except those in
    ``groups``, and at least the newest ``LATEST`` unknown ones, oldest first. ``groups`` holds open actions in groups,
    which appear in neither ``live`` nor ``latest``.

    ``latest`` holds, for each other session, its newest action that neither failed nor was cancelled. If that one does
    not count, the newest that does follows it: one of tier ``floor`` or more with a mode that conflicts with this
    key's. The newest change comes first, and the list is cut at ``LATEST``.

    ``own`` is this session's newest action; if no other session has acted here, only its id need be filled in.
    ``stale`` holds the newest change by others to something inside a tree that this session had read before. ``above``
    is True if the session has neither read the key itself nor acted on it; ``mark.read`` is then its last read of a
    tree that ``sees`` it.
    """

    key: Key
    mark: Mark = NO_MARK
    live: tuple[Action, ...] = ()
    latest: tuple[Action, ...] = ()
    own: Action | None = None
    stale: tuple[Action, ...] = ()
    above: bool = False
    groups: tuple[ActionGroup, ...] = ()


LATEST: Final = 12
"""Number of other sessions whose newest actions a view holds for one key."""
LAPSED: Final = 64
"""Minimum number of lapsed actions on one key that a view shows, newest first. One decision settles no more."""


Bodies = Callable[[Sequence[int]], Mapping[int, bytes]]
"""Return the bodies of the journal entries that opened these actions, as ``Store.bodies`` does."""
Lately = Callable[..., Sequence["Action"]]
"""Return the newest calls of a session (at most the second argument), newest first and without content."""
MAX_KEPT: Final = 65_536
"""Maximum length of a journal entry's body that is read for a summary, in characters."""


class View(Struct, frozen=True, gc=False):
    """What a step is shown: one consistent snapshot of the store, taken inside the step's transaction.

    ``now`` is the moment of the step. ``earlier`` is the action that this call's identity opened. ``found`` is the
    result of ``Scope.find``, and ``superseded`` holds the actions that ``found`` repeats. ``twins`` holds actions with
    one of the scope's prints on a shared key, or by digest alone for calls without keys, newest first. ``ancestors``
    are the sessions from which this one descends. ``wanted`` are the sessions that wait for something that this session
    holds, or for something that one of those sessions holds, and so on.

    ``observe_until`` is the moment until which the whole gate only observes, 0 if it does not. ``bodies`` returns what
    the journal keeps of the view's actions: JSON by action id, without those that are missing; a body never changes.
    ``lately`` returns the newest actions of a session on any key.
    """

    now: int
    keys: tuple[KeyView, ...] = ()
    earlier: Action | None = None
    found: Action | None = None
    twins: tuple[Action, ...] = ()
    ancestors: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    superseded: tuple[Action, ...] = ()
    observe_until: int = 0
    bodies: Bodies | None = None
    lately: Lately | None = None


class Conflict(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Evidence that another session, or this session's own past, is in the way.

    ``age`` is in seconds since the other session acted, or since it started if the action is still ``running``: its
    outcome is not known and its time is not up. ``expires_in`` is in seconds until the lease of a ``held`` conflict
    runs out.

    An ``opposed`` conflict says what the other session ``decided`` ("accepted", or "accepts" while it is running) and
    what this call ``decides`` ("declines"). ``until``, in Unix seconds, is when a commitment stops counting, and
    ``what`` is the other session's description of it.

    ``summary`` says in one line what the action did, with every piece of it in quotes. ``purpose`` is what a person
    asked the other session to do, in that person's words.
    """

    kind: Kind
    instance: str
    tool: str
    tier: int
    key: str
    id: int
    state: State
    age: float
    expires_in: float | None = None
    own: bool = False
    running: bool = False
    decided: str = ""
    decides: str = ""
    until: float | None = None
    what: str = ""
    summary: str = ""
    purpose: str = ""


class Lease(Struct, frozen=True, gc=False, rename="camel"):
    """The lease of an open action of tier 3 or 4. ``expires`` is in Unix seconds; ``token`` is the fencing token.

    ``ttl`` is the length of the lease in seconds, not counting that a living host process may keep it for longer. The
    session should renew the lease well before ``ttl`` is over.
    """

    token: int
    expires: float
    ttl: float


class Decision(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The gate's answer to one call.

    ``id`` is the action's id if the call may run, otherwise the id of the journal entry, which a person approves.
    ``conflicts`` holds at most ten, gravest first; ``conflict_count`` counts them all. ``warning`` is the paragraph for
    the agent. ``observed`` is the verdict before observe mode let the call run.

    ``params`` are set if the call must run with other params: those that a person approved, or those of a write into
    which another session's changes were ``merged``. ``state`` is set if the call id was answered before: it is the
    current state of that action, ``open`` while no outcome was reported. An action that is over does not run again.

    ``retryable`` says that time alone may let the same call through; ``retry_after`` is then the number of seconds
    after which asking again makes sense.
    """

    proceed: bool
    tier: int
    context_key: str | None
    id: int
    verdict: Verdict
    context_keys: tuple[str, ...]
    rule: str
    conflicts: tuple[Conflict, ...] = ()
    conflict_count: int = 0
    warning: str | None = None
    lease: Lease | None = None
    observed: Verdict | None = None
    repeated: bool = False
    state: State | None = None
    params: Mapping[str, Any] | None = None
    fallback: bool = False
    merged: bool = False
    retryable: bool = False
    retry_after: float | None = None


class LockResult(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The answer to ``lock``: whether the key was acquired, and if not, the session that holds it."""

    acquired: bool
    conflict: Conflict | None = None
    lease: Lease | None = None
    id: int | None = None


class Report(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The answer to ``complete``, ``release``, ``renew``, ``resolve``, ``approve`` and ``deny``.

    ``ok`` says whether the request took effect. ``note`` explains anything unusual, such as a late or second report.
    ``warning`` is a paragraph for the agent: what its merged write has overwritten.
    """

    ok: bool
    id: int | None = None
    state: State | None = None
    late: bool = False
    note: str | None = None
    lease: Lease | None = None
    warning: str | None = None


class Entry(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One entry of the journal. ``seq`` is its position and its moment, 0 until the store sets it.

    ``action`` is the id of the action that the entry is about, or the entry's own ``seq`` if it opened one. ``body``
    holds details of the request and its answer, if they apply: ``params`` (summarised and redacted), ``conflicts``,
    ``warning``, ``result``, ``note`` and others.
    """

    event: Event
    session: str
    namespace: str = DEFAULT_NAMESPACE
    seq: int = 0
    action: int = 0
    tool: str = ""
    tier: int | None = None
    verdict: Verdict | None = None
    rule: str = ""
    run: str = ""
    keys: tuple[Key, ...] = ()
    outcome: Outcome | None = None
    body: Mapping[str, Any] = field(default_factory=dict)


class Opening(Struct, frozen=True, gc=False):
    """Turns the change's last entry into an action. Moments are as in ``Action``.

    ``prints`` are the digests by which later calls find the action. ``params`` (JSON) are kept only while an approval
    is pending.
    """

    state: State
    expires: int
    limit: int = 0
    host: Host | None = None
    lock: bool = False
    content: Content = Content()
    prints: tuple[bytes, ...] = ()
    supersedes: tuple[int, ...] = ()
    params: bytes | None = None


class Settle(Struct, frozen=True, gc=False):
    """Moves an existing action to ``state``. ``ended`` 0 leaves it without a report.

    ``expires`` and ``approved`` stay as they are if they are None. The store undoes the traces of an action that failed
    or was cancelled: it no longer counts as a session's latest, and a read mark that it set returns to its previous
    value. If ``action`` comes from an entry that opened nothing (a blocked call), the store makes it an action.
    """

    action: Action
    state: State
    ended: int = 0
    expires: int | None = None
    approved: int | None = None


class Revision(Struct, frozen=True, gc=False):
    """Replaces what is stored about an action's content; its state stays.

    ``also`` is one more key by which its commitment is found, ``""`` for none.
    """

    action: Action
    content: Content
    also: str = ""


class Change(Struct, frozen=True, gc=False):
    """What a step wants written: all of it or nothing. An empty change writes nothing.

    The last entry is that of the decision itself; with ``open`` it becomes an action. ``content`` is kept with the last
    entry if it opens nothing, so that a person can still approve the call. ``moves`` sets this session's marks on keys,
    and ``answer`` is returned untouched. ``merged``
    is True if a merged write has ended.
    """

    entries: tuple[Entry, ...] = ()
    open: Opening | None = None
    settles: tuple[Settle, ...] = ()
    moves: Mapping[str, Mark] = {}
    observe_until: int | None = None
    content: Content = Content()
    answer: Any = None
    revisions: tuple[Revision, ...] = ()
    merged: bool = False


class Applied(Struct, frozen=True, gc=False):
    """A change that the store has written. ``ids`` are the positions of its entries, in order."""

    change: Change
    ids: tuple[int, ...]
    now: int

    def entries(self) -> list[Entry]:
        """Return the entries with their positions, as the journal holds them."""
        change = self.change
        last = len(change.entries) - 1 if change.open is not None else -1
        return [
            replace(entry, seq=id, action=id if number == last else entry.action)
            for number, (entry, id) in enumerate(zip(change.entries, self.ids, strict=True))
        ]


Step = Callable[[View], Change]
"""A pure function. The store may run it more than once, so it must have no side effects."""


class Observation(Struct, frozen=True, gc=False):
    """What an observer receives after the store has written it: the operation, with the journal entries it made.

    ``took`` is the time that the gate needed, in seconds. ``entries`` may be empty (a repeated answer) or hold several
    (a lease was found to have run out). The other fields belong to a decision (``call``, ``classification``,
    ``decision``) or to a report.
    """

    event: Event
    session: str
    namespace: str
    took: float
    entries: tuple[Entry, ...] = ()
    call: Call | None = None
    classification: Classification | None = None
    decision: Decision | None = None
    report: Report | None = None
    outcome: Outcome | None = None
    result: Any = None


class Holding(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A live lease, waiter, question or unknown action, as ``status`` shows it.

    ``at`` and ``expires`` are in Unix seconds; ``token`` is the fencing token. ``summary`` says what the action does;
    only the newest ones have it.
    """

    context_key: str | None
    instance: str
    tool: str
    tier: int
    state: State
    id: int
    token: int
    at: float
    expires: float
    lock: bool = False
    approved: bool = False
    summary: str = ""


class StandingCommitment(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A commitment that still counts. ``id`` is its action's id; ``at`` and ``until`` are in Unix seconds.

    ``decided`` says in one word what the session did. ``owner`` is the instance once the session has ended.
    """

    id: int
    instance: str
    context_keys: tuple[str, ...]
    side: str
    decided: str
    tool: str
    at: float
    until: float
    owner: str
    what: str = ""
    to: str = ""


class RecentAction(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An action as ``status`` shows it. ``at`` is in Unix seconds; ``summary`` says what the action did."""

    context_key: str | None
    instance: str
    tool: str
    tier: int
    state: State
    id: int
    at: float
    reported: bool = True
    summary: str = ""


class Farewell(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A session that ended, with its last answer as a ``summary`` of what it did. ``at`` is in Unix seconds."""

    instance: str
    at: float
    summary: str


class Status(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The answer to ``status``: live leases and recent actions, newest first.

    ``unknown``, ``waiting`` and ``asked`` hold the other live actions. ``observing_until`` is in Unix seconds, and set
    if the gate only observes for a while. ``farewells`` lists the sessions that ended last.
    """

    locks: tuple[Holding, ...]
    recent_actions: tuple[RecentAction, ...]
    unknown: tuple[Holding, ...] = ()
    waiting: tuple[Holding, ...] = ()
    asked: tuple[Holding, ...] = ()
    observing_until: float | None = None
    farewells: tuple[Farewell, ...] = ()
