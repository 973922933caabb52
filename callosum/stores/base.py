"""The contract of a store.

The race in every home-made coordination file is check-then-act: read the locks, decide, then write.
So looking, deciding, journalling and opening are one indivisible step here: a store is handed a
``Scope`` (what to look at) and a pure function from ``View`` to ``Change``, and runs it inside one
transaction that is serialised with every other transaction on the same keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct

from callosum.errors import StoreUnavailable, Unconfirmed
from callosum.model import DAY, HOUR, Action, Applied, Entry, Host, Scope, State, Step

Request = tuple[Scope, Step]
Clock = Callable[[], int]
"""Now, in microseconds since 1970. The store makes it grow."""
Probe = Callable[[Host], "bool | None"]
"""Whether a host process lives; None where that cannot be told."""


def each_alone(
    run: Callable[[Sequence[Request]], list[Applied | Exception]], requests: Sequence[Request]
) -> list[Applied | Exception]:
    """Run each request of a batch in a transaction of its own: one of them cannot be stored, and is to fail alone.

    Its error stands in its place among the answers. Raises ``StoreUnavailable``, which concerns them all.
    """
    answers: list[Applied | Exception] = []
    for request in requests:
        try:
            answers += run([request])
        except Unconfirmed as error:
            answers.append(error)  # it concerns this request alone, and those before it are stored
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - it is handed to the one who asked
            answers.append(error)
    return answers


class StoreCheck(Struct, frozen=True):
    """What ``Store.check`` found.

    Sizes in bytes; ``ahead`` is by how many seconds the store's time is ahead of the clock (it never
    runs backwards); ``problems`` are sentences, empty if sound. ``content_keys`` is with how many different
    content keys gates worked on the store in the last day (``Store.register``): more than one is wrong.
    """

    engine: str
    place: str
    schema: int
    entries: int
    live: int
    size: int
    log_size: int
    ahead: float
    problems: tuple[str, ...] = ()
    content_keys: int = 0


REGISTERED: Final = HOUR
"""How long a registration stands before it is written anew."""
KEY_USED: Final = DAY
"""How long a content key counts as in use after a gate was registered with it."""
GATE: Final = "gate:"
"""What the name of a registration begins with, where it stands among other names."""


def different_keys(keys: int) -> str:
    """Says what is wrong where gates with several content keys work on one store."""
    return (
        f"gates with {keys} different content.key files worked on this store in the last day: a call that is asked "
        "again at the other gate is not known again there, nor are repeats"
    )


class Nearby(Struct, frozen=True, gc=False):
    """What another session does or did on a key, beside what the asking session knows of it.

    ``action.key`` is the key through which it was found. ``seen`` is the moment at which the asking session
    last looked at that key, or last acted on it; 0 if it never did.
    """

    action: Action
    seen: int = 0


class Kin(Struct, frozen=True, gc=False):
    """Where a session comes from: who started it, whom it continues; ``""`` where that was never said."""

    parent: str = ""
    continues: str = ""


NEARBY: Final = 4
"""How many other sessions' newest actions ``Store.nearby`` returns of one key."""
LOOK_BACK: Final = 5_000
"""How many journal entries of all sessions ``Store.touched`` looks back over."""
LATELY: Final = 500
"""How many journal entries of all sessions ``View.lately`` looks back over."""
CALLS_LATELY: Final = 12
"""Most calls that ``View.lately`` returns."""


class Pool(Struct, frozen=True):
    """The connections that this process has to its store now.

    ``limit`` at the most, of them ``open`` ones, of these ``idle``; ``waiting`` threads wait for one. Since it was
    opened: ``waits`` for a connection, of which ``timeouts`` got none, and ``lost`` connections.
    """

    limit: int
    open: int = 0
    idle: int = 0
    waiting: int = 0
    waits: int = 0
    timeouts: int = 0
    lost: int = 0


@runtime_checkable
class Pooled(Protocol):
    """What a store with connections over a network offers beside ``Store``.

    ``lanes``: number of batches that a server runs on it at once; most of one is waiting for the network.
    """

    lanes: int

    def pool(self) -> Pool:
        """Return the state of this process's connections, without asking the server."""
        ...


Heard = Callable[[str | None, tuple[str, ...]], object]
"""Is told where something ended: the namespace (None: perhaps any) and the keys (none: perhaps any of them)."""


@runtime_checkable
class Waking(Protocol):
    """What a store of several machines can offer to those who wait: word of what ended, whichever process ended it.

    What is meant is whatever others can wait for: a lease or a place in line that is free, a person's answer. Word
    can get lost with a connection, so who waits looks now and then all the same.
    """

    def listen(self, heard: Heard) -> Callable[[], None]:
        """Has ``heard`` called, from a thread of the store's; returns what ends that. A fork ends it too.

        It is called with None also when word begins to arrive (again): something may have ended before.
        """
        ...

    def hears(self) -> bool:
        """Whether word arrives just now. Cheap; asks nobody."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait until something ended, on whichever server, but no longer than ``seconds``."""
        ...


@runtime_checkable
class Fleeting(Protocol):
    """A store that leaves no trace on the disk: what is decided there gets no daily log either."""

    fleeting: bool


@runtime_checkable
class Prompt(Protocol):
    """What a store can offer to a caller that must not wait, such as an event loop."""

    def attempt(self, requests: Sequence[Request]) -> tuple[list[Applied | Exception], int] | None:
        """As ``Store.transact``, but at once and without waiting for the disk.

        Returns the answers, and up to which entry the caller must run ``to_sync`` before it gives
        them away where a scope was durable (0: nothing to sync). None: not now, somebody else is at it or a
        request cannot be stored; use ``transact``, elsewhere.
        """
        ...

    def to_sync(self, seq: int) -> Callable[[], None]:
        """Return what puts everything up to entry ``seq`` on disk: to be called once, from any thread.

        It is one wait for the disk with nothing around it. Raises ``StoreUnavailable``, as the call does:
        the caller then treats what it holds back as ``Unconfirmed``.
        """
        ...

    def tend(self) -> None:
        """Do in this thread what would otherwise make some ``attempt`` long. Call it every now and then."""
        ...


class Store(Protocol):
    """What every store does. Methods are safe to call from any thread; after ``fork`` too.

    Every method raises ``StoreUnavailable`` if the engine cannot be reached or written now, and
    ``StoreError`` if it holds something that is not ours to touch.
    """

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        """Run each step on its view and apply its change, all in one transaction.

        * Steps run in the order given; a later one sees what an earlier one changed.
        * All transactions with a key in common (trees and facets included) run one after another.
        * A step may be run more than once, so it must be pure; only the last run counts. The one thing
          it may ask is whether its client still waits.
        * A step that raises fails alone: its exception stands in its place in the answer.
        * A commit that fails fails all: it raises, and nothing of the batch is in the store.
        * If a scope is durable, the whole batch survives power loss once this returns. If the store
          cannot confirm that, it raises ``Unconfirmed`` with the answers, or puts one in the place of
          each answer that was to be durable.
        * An empty change writes nothing.
        * ``View.now`` grows from transaction to transaction, whatever the clock does; entries are
          numbered from it upwards.
        """
        ...

    def action(self, namespace: str, id: int) -> Action | None:
        """Return one action, or a call that was refused, by its id."""
        ...

    def live(self, namespace: str | None, states: Sequence[State], key: str | None = None) -> list[Action]:
        """Return the actions in one of ``states`` (of the live ones), oldest first.

        With ``key`` those on just this key; ``namespace`` None means all.
        """
        ...

    def recent(
        self,
        namespace: str,
        key: str | None = None,
        limit: int = 20,
        *,
        floor: int = 0,
        besides: Sequence[str] = (),
        within: int = 20_000,
    ) -> list[Action]:
        """Return the newest actions, newest first; with ``key`` those whose first key it is.

        Only those of tier ``floor`` or more, and of sessions other than ``besides``. Looks back over the
        newest ``within`` journal entries of all namespaces, no farther.
        """
        ...

    # What follows is for briefs: bounded looks that take no turn. The actions may come without ``content``.

    def touched(self, namespace: str, sessions: Sequence[str], limit: int = 32) -> list[Action]:
        """Return the newest calls of these sessions, newest first: reads too, and what failed or waits.

        Also calls that were refused: ``asked`` without an ``expires``. Looks back over the newest
        ``LOOK_BACK`` journal entries, no farther.
        """
        ...

    def nearby(self, namespace: str, sessions: Sequence[str], keys: Sequence[str]) -> list[Nearby]:
        """Return what sessions other than ``sessions`` do and did on these keys, the newest change first.

        Of each key, of the trees above it, of what lies below it and of its facets: the newest act of each
        of the ``NEARBY`` sessions that acted last, and the newest live actions. Failed and cancelled
        actions are left out, and so are reads that have ended. Each action comes once. All is a bounded
        look by key: of a tree with a great many keys below it, what the last entries of the journal show.
        """
        ...

    def underway(self, namespace: str, sessions: Sequence[str], floor: int, limit: int = 32) -> list[Action]:
        """Return live actions, newest first: all sorts of these sessions', others' that are open or queued.

        Others' of tier ``floor`` or more. Where very many are live at once, it looks at a part of them.
        """
        ...

    def commitments(self, namespace: str | None, keys: Sequence[str] | None = None) -> list[Action]:
        """Return the actions whose commitments still count, oldest first; with ``keys`` those found on one of them.

        ``namespace`` None means all, without ``keys``. Looks at all commitments there are, and at nothing else.
        """
        ...

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of the journal entries that opened these actions, as JSON.

        Left out are entries that are not there or have left, and bodies of more than ``MAX_KEPT`` characters.
        """
        ...

    def farewells(self, namespace: str, limit: int = 20) -> list[Entry]:
        """Return the newest entries with which a session ended and said what it had done, newest first.

        Looks back over the newest ``LOOK_BACK`` journal entries, no farther.
        """
        ...

    def kin(self, namespace: str, session: str) -> Kin:
        """Return where a session comes from, as far as its own calls said so."""
        ...

    def now(self) -> int:
        """Return the store's moment: the larger of its clock and the last entry."""
        ...

    def observing(self) -> int:
        """Until which moment the whole gate only observes; 0 if it does not."""
        ...

    def entries(
        self,
        *,
        after: int = 0,
        limit: int = 500,
        namespace: str | None = None,
        session: str | None = None,
        key: str | None = None,
        newest: bool = False,
    ) -> list[Entry]:
        """Return journal entries with ``seq`` greater than ``after``, oldest first.

        With ``newest`` the last ``limit`` of them instead of the first. ``key`` selects the entries
        whose first key it is. Every entry is seen by a reader that goes on from the last ``seq``.
        """
        ...

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        """Forgets what no rule can ask for any more; returns how many rows went.

        ``horizon`` is the moment before which nothing counts; at most ``budget`` rows of each sort
        go at a time. Journal entries stay (``take`` removes them), and so do live actions.
        """
        ...

    def take(
        self,
        until: int,
        horizon: int,
        limit: int = 5000,
        *,
        delete: bool = False,
        only: Collection[int] | None = None,
    ) -> list[Entry]:
        """Return or delete the oldest entries up to ``until`` that may leave the store.

        Entries of live actions, remembered calls and evidence since ``horizon`` stay. So does the newest change
        of a key by a session as long as another one goes on that looked at the key before it, and the finished
        write that was its look, where it was one: stale has no window. Who goes on called since the hour before
        ``horizon``.

        Once ``limit`` was reached, the next call may go on behind what had to stay before the first of them, until
        it comes to the end: what becomes free there meanwhile leaves a little later. With ``delete`` the entries
        that the same call without it would have returned are removed; with ``only`` just those of them
        whose ``seq`` is in it. Who deletes what was copied names it so: meanwhile other entries may
        have become free to leave.
        """
        ...

    def register(self, fingerprint: str) -> int:
        """Note that a gate works here whose content key has this fingerprint.

        Returns with how many different ones gates were registered within the last day. A call is known again by a
        hash under that key, so gates with different keys take it for another call. Writes once an hour at the most.
        """
        ...

    def prove(self) -> None:
        """Write something tiny, to prove that decisions can be stored.

        Raises ``StoreChanged`` while calls of tiers 3 and 4 are refused.
        """
        ...

    def accept(self, *, proven: bool = False) -> str:
        """Take a store that was replaced or lost entries as it is, for all gates that work on it.

        Returns what was wrong, ``""`` if nothing was. Only a person may ask for it: ``proven`` says that the caller
        has the proof, or has just filled the store with a copy. Raises ``NotAPerson`` without either.
        """
        ...

    def size(self) -> int:
        """Return how many bytes the live data take, without room that is free again. Cheap."""
        ...

    def check(self) -> StoreCheck:
        """Look the store over without changing it."""
        ...

    def close(self) -> None:
        """Close every connection of this process. Idempotent."""
        ...
