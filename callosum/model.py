"""The data that all parts share: calls, actions, evidence, decisions. No behaviour beyond spelling.

Units
    A *moment* is a whole number of microseconds since 1970 by the store's clock. Within a namespace
    moments only grow: no two journal entries share one. Durations inside the gate are microseconds
    too (``SECOND``); everything a person or a client gives or reads is in seconds.

The life of a call, in the words used here::

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
"""Start of the hidden key of a call without keys: ``=`` and the digest of its content."""
DEFAULT_NAMESPACE: Final = "default"
MAX_NAME: Final = 256
"""Longest name of a session, a tool, a namespace, a run or a call id, in characters."""
MAX_KEY: Final = 1024
"""Longest context key, in characters. The rules shorten longer ones with a digest; others refuse."""

TRACE: Final = ("traceparent", "tracestate")
"""The names in a call's ``meta`` that say in which trace it was made (W3C Trace Context)."""
MAX_SUMMARY: Final = 160
"""Longest summary of an action, in characters."""
MAX_PURPOSE: Final = 120
"""Longest purpose of an action, in characters."""


class Tier(IntEnum):
    """How much harm a call can do."""

    NONE = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4


class Mode(StrEnum):
    """What a call does to a key. Two reads never conflict, nor do two appends."""

    READ = "read"
    WRITE = "write"
    APPEND = "append"


class Kind(StrEnum):
    """What stands in the way, in rising gravity (the order in which a mark can be raised).

    Stores keep the number of the gravest kind that a session was told of, so a kind keeps its gravity.
    """

    gravity: int
    """1 for ``recent`` to 6 for ``duplicate``."""

    def __new__(cls, value: str, gravity: int = 0) -> Self:
        """A text with its gravity."""
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
    """The gate's answer, from mildest to gravest."""

    gravity: int
    """0 for ``allow`` to 4 for ``block``."""
    proceed: bool
    """Whether the call may run."""

    def __new__(cls, value: str, gravity: int = 0) -> Self:
        """A text with its gravity; ``allow`` and ``warn`` proceed."""
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
    """Where an action stands in its life."""

    QUEUED = "queued"
    ASKED = "asked"
    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """How a call ended, as its session reports it."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Event(StrEnum):
    """What a journal entry records."""

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
    """A context key with what the call does to it.

    ``name`` is canonical (one resource, one spelling). A name that ends in ``/`` is a tree and
    covers every key it prefixes, and ``order:/`` every ``order:`` key; a part after ``|`` is a
    facet of the key before it.
    """

    name: str
    mode: Mode = Mode.WRITE


def reach(name: str) -> str:
    """Returns what all keys that a tree covers begin with, ``""`` for a key that is no tree.

    The tree of a whole entity, ``order:/``, covers every key of it: ``order:W1``, ``file:README.md``.
    """
    if name[-1:] != "/":
        return ""
    return name[:-1] if name.find(":") == len(name) - 2 else name


def overlap(one: str, other: str) -> bool:
    """Whether two keys meet: the same, a tree over the other, or a facet and the key before its bar."""
    if one == other:
        return True
    above, below = reach(one), reach(other)
    if (above and other.startswith(above)) or (below and one.startswith(below)):
        return True
    return one.startswith(f"{other}|") or other.startswith(f"{one}|")


def sees(tree: str, name: str) -> bool:
    """Whether a look at a tree is one at a key in it: at the things and their number, not at what hangs on one of them.

    A list of issues (``issue:/``) shows ``issue:7`` and a new one (``issue:/|new``), but no ``issue:7|comment``.
    """
    below = reach(tree)
    if not below or tree == name or not name.startswith(below):
        return False
    bar = name.find("|")
    return bar < 0 or name[:bar] == tree


class Host(Struct, frozen=True, gc=False, array_like=True):
    """The process that lives while a tool runs: pid, start time, machine id.

    ``started`` is in seconds, on Linux since the machine's start (a clock that is set changes nothing),
    elsewhere since 1970. ``machine`` tells machines, their starts and their containers apart.
    """

    pid: int
    started: float
    machine: str


class Worktree(Struct, frozen=True, gc=False, rename="camel"):
    """The working tree of a version control system that a folder lies in.

    ``root`` is its uppermost folder. ``repository`` names what it shares with all other worktrees of the
    repository (refs, stash, remotes): the same text from each of them. Both are absolute paths.
    """

    root: str
    repository: str


class Commits(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A commitment that a call declares for the keys that it writes.

    ``side`` is a verb (``accept``, ``cancel``) or a word after ``+`` or ``-``. ``what`` is promised and ``to`` whom it
    is promised are only shown. ``until`` is in Unix seconds; more than 400 days ahead counts as 400 days.
    """

    side: str
    what: str = ""
    to: str = ""
    until: float | None = None


class GateRequest(Generic[R]):
    """A request to the gate. ``R`` is the type of its reply, ``operation`` names what it asks for."""

    __slots__ = ()
    operation: ClassVar[str]


class Call(Struct, GateRequest["Decision"], frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One tool call that a session is about to make, as the host knows it.

    ``instance`` names the actor, with the optional ``session`` it is ``instance/session``. ``wait``
    is in seconds (at most 60). ``timeout`` is the tool's own limit in seconds, if it has one.
    ``host`` is set where no process of Callosum lives between the two reports. ``rewrite`` says
    that the host can replace the params of the call. ``after`` is the newest decision id whose
    answer the model had seen when it made the call, where the host can tell. ``task_id`` names the
    guarded run that the call belongs to, ``attempt`` counts its tries from 1. ``worktree`` is what ``cwd``
    lies in, from whoever can see that disk; without it ``cwd`` itself counts as the repository. ``worktrees`` says the
    same of the other folders in which the call runs git, None for a folder outside of any. ``home`` is the caller's
    home, an absolute path, and ``homes`` those of other users whom the call names (``~user``).
    ``deadline`` and ``timeout_ms`` say how long the client waits for the decision (``callosum.deadline``).
    ``commits`` declares a commitment.
    ``meta`` is the caller's own: the gate decides nothing by it, and the journal keeps a summary; ``traceparent`` and
    ``tracestate`` in it name the caller's span. ``summary`` says in
    one line what the call does, where the caller knows better than its params show; ``purpose`` is the prompt, typed by
    a person, that it serves. Both are shown to other sessions as data.
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

    @property
    def actor(self) -> str:
        """Who acts: ``instance`` or ``instance/session``."""
        return f"{self.instance}/{self.session}" if self.session else self.instance


class Commitment(Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """A side that counts beyond the window of rules.

    ``until`` is the moment at which it stops counting; in a classification 0 where no date is known. ``what`` and
    ``to`` are shown as they were declared. ``thing`` is the key of what the call has made, once its result told the
    id. ``left``: the session that took the side has ended, so any session of its instance is the owner.
    """

    until: int = 0
    side: str = ""
    what: str = ""
    to: str = ""
    thing: str = ""
    left: bool = False


class Content(Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """What is remembered of a call's content instead of the content.

    ``digest`` covers tool and normalised params; ``whole`` is the digest of the bytes a resource
    will hold afterwards, where the call says them all; ``words`` are keyed hashes of the text's
    words (4 bytes each, sorted), ``numbers`` of its numbers. ``brief``: there
    is a text and it is a short phrase, whose repetition means nothing. ``repeats``: the act happens again when
    it is repeated (a mail), unlike a harmless repetition (a set). ``stance`` is a side taken
    (``+attend``), whose contrary (``-attend``) by another session is ``opposed``. ``origin`` is a
    digest of what caused the call. ``commitment`` is set where the side outlives the window of rules. ``over``: the
    write went over changes that its session had not read, so its end is no look at the file.
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
    """What the rules make of a call.

    ``rule`` names the rule that matched, ``""`` where the call was judged by what it shows. ``why``
    tells in words how the answer came about. ``window`` is how far back other sessions' acts count,
    in microseconds. ``cells`` overlays single cells of the policy table; ``verdict`` is the mildest
    answer the call can get, whatever is in the way. ``gap``: a call that writes, from which no key
    could be derived.
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


class Mark(Struct, frozen=True, gc=False):
    """What one session has seen of one key, and what it has been notified of there.

    ``read`` is the moment at which the session last read the resource, 0 if it never did.

    The notified mark covers the actions of other sessions up to the id ``notified``, and conflicts up to the gravity
    ``notified_kind`` (0 to 6). ``notified_at``, ``notified_call`` and ``notified_run`` say when the session was
    notified, for which call and in which turn. ``notified_before`` and ``notified_before_kind`` hold the mark as it was
    until then: that one still applies to the notified call and to its siblings of the same turn.

    ``pauses`` holds up to three sorts of numbers, in this order: one small negative number that says what the
    notifications cover, if that is not every kind (``callosum.policy.marks``); the negated moments of the last pauses
    of calls that would have replaced a whole file which another session had changed; and the moments of the last
    pauses for ``recent`` or ``held``, oldest first.
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


NO_MARK: Final = Mark()


class Action(Struct, frozen=True, gc=False):
    """A call that was let through, or waits to be (``queued``, ``asked``), as the store holds it.

    ``id`` is also its fencing token. ``key`` and ``mode`` say through which key it was found.
    ``ended`` is the moment of its report, 0 while there is none. ``expires`` is the moment at which
    its lease runs out (for tiers 0 to 2: until when a missing report means "still running"),
    ``limit`` the one up to which a living host process keeps it. ``approved`` is the moment at which
    a person agreed (negative: refused). ``alive`` is whether its host process lives, None where no
    host is known. ``answer`` holds the decision as it was given, for repeats; in ``KeyView.live`` the
    params (JSON) with which the session's own approved question may run, as far as they were kept.
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
    """How a report finds its action: by ``id``, else by ``key``, else by ``digest``.

    With ``id`` None: ``key`` names a key, ``""`` stands for "without a key"; the newest open action
    of the session is meant, never a lock, an ``unknown`` one only if nothing else is open. With
    ``digest`` the oldest unreported one with that digest is meant.
    """

    id: int | None = None
    key: str | None = None
    digest: bytes | None = None


class Asks(Struct, frozen=True, gc=False):
    """What of a call decides which open actions are in its way in just the same manner."""

    content: Content = Content()
    run: str = ""
    host: Host | None = None


class Scope(Struct, frozen=True, gc=False):
    """What a step needs to see; the store serialises all steps whose keys overlap.

    ``call`` is the identity of the call (None: not idempotent). ``prints`` are the digests to look
    up on the keys, for sessions' acts of the same content, origin or contrary stance. ``floor`` is
    the lowest tier that counts in ``KeyView.latest`` (0: just the newest). ``live``: whether open, queued and unknown
    actions are needed. ``waits``: whether ``View.wanted`` is needed. ``durable``: the change must
    survive power loss before ``transact`` returns. ``asks``: where it is given, ``KeyView.more`` holds open
    actions by sort.
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


class More(Struct, frozen=True, gc=False):
    """Open actions that a view holds by sort: all are in the call's way as ``action`` is, which stands for them.

    ``ids`` and ``actions`` are theirs, oldest first. ``related``: their content has to do with the call's.
    """

    action: Action
    ids: tuple[int, ...]
    actions: tuple[Action, ...]
    related: bool = False


class KeyView(Struct, frozen=True, gc=False):
    """One key of the scope, with every key that covers it or is covered by it.

    ``mark`` is this session's. ``live``: all queued, asked and open actions of anybody but those in ``more``, and of
    the unknown ones at least the newest ``LATEST``; oldest first. ``more``: open actions by sort, which neither
    ``live`` nor ``latest`` shows.
    ``latest``: the newest action of each other session that was neither failed nor cancelled, and
    behind it the newest that counts (tier ``floor`` or more, a mode that the key's meets) if that is
    another; newest change first, cut at ``LATEST``. ``own``: this session's newest; where nobody
    else is about, no more of it than its id need be filled in. ``stale``: the others' newest change of
    something below a tree that this session has read before it. ``above``: the session never looked at the
    key itself, nor acted on it; ``mark.read`` is its last look at a tree that ``sees`` it.
    """

    key: Key
    mark: Mark = NO_MARK
    live: tuple[Action, ...] = ()
    latest: tuple[Action, ...] = ()
    own: Action | None = None
    stale: tuple[Action, ...] = ()
    above: bool = False
    more: tuple[More, ...] = ()


LATEST: Final = 12
"""How many other sessions' newest actions a view holds for one key."""
LAPSED: Final = 64
"""How many actions on one key whose time ran out a view shows at least, the newest; a decision settles no more."""


Bodies = Callable[[Sequence[int]], Mapping[int, bytes]]
"""Returns the bodies of the journal entries that opened these actions, as ``Store.bodies`` does."""
Lately = Callable[[str], Sequence["Action"]]
"""Returns the newest calls of a session, newest first and without content, as far as the journal's last entries go."""
MAX_KEPT: Final = 65_536
"""Longest body of a journal entry that is read for a summary, in characters."""


class View(Struct, frozen=True, gc=False):
    """What a step is shown: one consistent look at the store, inside its transaction.

    ``now`` is the moment of the step. ``earlier``: the action that this call's identity opened.
    ``found``: what ``Scope.find`` asked for. ``twins``: actions with one of the scope's prints on a
    shared key (without keys: by digest alone), newest first. ``ancestors``: the sessions from which
    this one descends. ``superseded``: the actions that ``found`` repeats. ``wanted``: sessions that
    wait for something this session holds, or for something that one of those sessions holds, and so on.
    ``observe_until``: until when the whole gate only observes, 0 if it does not. ``bodies`` returns what the journal
    keeps of the view's actions, by id as JSON, which never changes; those that are not there are left out. ``lately``
    returns what a session did last, on whichever keys.
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
    """Evidence that another session (or this one's own past) is in the way.

    ``age`` is in seconds since the other acted, or since it began where it is ``running`` still: no outcome is known
    yet, and its time is not up. ``expires_in`` is in seconds until the lease of a ``held`` runs out.
    An ``opposed`` names what was ``decided`` ("accepted", "accepts" while it is running) and what this call ``decides``
    ("declines"); ``until``, in Unix seconds, is when a commitment stops counting, and ``what`` is how the other session
    described it. ``summary`` says in one line what the action did, every piece of it in quotes; ``purpose`` is what the
    other session was asked to do, in the words of its person.
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
    """An open action of tier 3 or 4. ``expires`` is in Unix seconds; ``token`` is the fencing token.

    ``ttl``: for how many seconds it was given without regard to its host's process, which may keep it for
    longer; it is to be renewed well within that.
    """

    token: int
    expires: float
    ttl: float


class Decision(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The answer to one call.

    ``id`` is the action's where it may run, else the journal entry's (what a person approves).
    ``conflicts`` holds at most ten, gravest first; ``conflict_count`` counts them all. ``warning`` is
    the paragraph for the agent. ``observed`` is the verdict that stood before ``observe`` let it
    pass. ``params`` are set where an approved call is to run with the params that were shown, or a write with those
    into which another session's changes were ``merged``. ``state`` is set where the call id was answered before: what
    has become of that action, ``open`` while nobody has reported its end.
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


class LockResult(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The answer to ``lock``: whether it was acquired, and by whom it is held if it was not."""

    acquired: bool
    conflict: Conflict | None = None
    lease: Lease | None = None
    id: int | None = None


class Report(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The answer to ``complete``, ``release``, ``renew``, ``resolve``, ``approve``, ``deny``.

    ``ok`` is whether it took effect; ``note`` says in words what was odd (late, second report, ...). ``warning`` is a
    paragraph for the agent: what its merged write has overwritten.
    """

    ok: bool
    id: int | None = None
    state: State | None = None
    late: bool = False
    note: str | None = None
    lease: Lease | None = None
    warning: str | None = None


class Entry(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One line of the journal. ``seq`` is its place and its moment (0 until the store has filled it).

    ``action`` is the action it speaks of (the entry's own ``seq`` where it opened one). ``body``
    holds what was asked and answered: ``params`` (summarised, redacted), ``conflicts``, ``warning``,
    ``result``, ``note``, ... as far as they apply.
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
    """Makes the change's last entry an action. Moments as in ``Action``.

    ``prints`` are the digests under which later calls find it. ``params`` (JSON) are kept only while
    an approval is pending.
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

    ``expires`` and ``approved`` are kept where they are None. The store takes back what a failed or
    cancelled action left: it is nobody's latest any more, and a read mark that it set returns to
    what it was. Of an entry that opened nothing (a blocked call) it makes an action.
    """

    action: Action
    state: State
    ended: int = 0
    expires: int | None = None
    approved: int | None = None


class Revision(Struct, frozen=True, gc=False):
    """Replaces what is remembered of an action's content; its state stays.

    ``also`` is one more key on which its commitment is found, ``""`` for none.
    """

    action: Action
    content: Content
    also: str = ""


class Move(Struct, frozen=True, gc=False):
    """Sets this session's mark on a key."""

    key: str
    mark: Mark


class Change(Struct, frozen=True, gc=False):
    """What a step wants done, all of it or nothing. An empty change writes nothing.

    The last entry is the decision's own; with ``open`` it becomes an action.
    ``content`` is kept with the last entry where it opens nothing, so that a person can still
    approve it. ``answer`` is handed back untouched. ``merged``: a merged write has ended.
    """

    entries: tuple[Entry, ...] = ()
    open: Opening | None = None
    settles: tuple[Settle, ...] = ()
    moves: tuple[Move, ...] = ()
    observe_until: int | None = None
    content: Content | None = None
    answer: Any = None
    revisions: tuple[Revision, ...] = ()
    merged: bool = False


class Applied(Struct, frozen=True, gc=False):
    """A change that is in the store. ``ids`` are the entries' places, in order."""

    change: Change
    ids: tuple[int, ...]
    now: int

    def entries(self) -> list[Entry]:
        """Return the entries as they stand in the journal, with their places."""
        change = self.change
        last = len(change.entries) - 1 if change.open is not None else -1
        return [
            replace(entry, seq=id, action=id if number == last else entry.action)
            for number, (entry, id) in enumerate(zip(change.entries, self.ids, strict=True))
        ]


Step = Callable[[View], Change]
"""A pure function. It may be run more than once, so it must not have effects of its own."""


class Observation(Struct, frozen=True, gc=False):
    """What an observer is handed, after it is in the store: what was done, with the entries that the journal got.

    ``took`` is how long the gate needed, in seconds. ``entries`` may be none (a repeated answer) or several (a lease
    that was found to have run out). The other facts are those of a decision (``call``, ``classification``,
    ``decision``) or a report.
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
    """A live lease, waiter, question or unknown as ``status`` shows it.

    ``at`` and ``expires`` are Unix seconds; ``token`` is the fencing token. ``summary`` says what it does, where it is
    among the newest.
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
    """A commitment that counts. ``id`` is its action's; ``at`` and ``until`` are in Unix seconds.

    ``decided`` says in a word what the session did. ``owner`` is the instance once the session has ended.
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
    """An action as ``status`` shows it. ``at`` is in Unix seconds; ``summary`` says what it did."""

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
    """The answer to ``status``: live leases, and what was done lately, newest first.

    ``unknown``, ``waiting`` and ``asked`` are the other live actions. ``observing_until`` is in Unix
    seconds, where the gate only observes for a while. ``farewells`` are of the sessions that ended last.
    """

    locks: tuple[Holding, ...]
    recent_actions: tuple[RecentAction, ...]
    unknown: tuple[Holding, ...] = ()
    waiting: tuple[Holding, ...] = ()
    asked: tuple[Holding, ...] = ()
    observing_until: float | None = None
    farewells: tuple[Farewell, ...] = ()
