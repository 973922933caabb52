"""The contract that every store fulfils.

Every home-made coordination file has the same race, check then act: read the locks, decide, write. A store has no such
gap. It gets a ``Scope`` (what to read) and a pure function from ``View`` to ``Change``, and runs reading, deciding,
journalling and opening the lease in one transaction. Transactions that have a key in common run one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct

from callosum.errors import StoreUnavailable, Unconfirmed
from callosum.model import DAY, HOUR, Action, Applied, Entry, Host, Scope, State, Step

Request = tuple[Scope, Step]
Clock = Callable[[], int]
"""Returns the time in microseconds since 1970. The store turns it into time that always grows."""
Probe = Callable[[Host], "bool | None"]
"""Returns whether a host process is alive, None if that cannot be determined."""


def run_separately(
    run: Callable[[Sequence[Request]], list[Applied | Exception]], requests: Sequence[Request]
) -> list[Applied | Exception]:
    """Run each request of a batch in its own transaction, so that one that cannot be stored fails alone.

    The error of a failed request takes the place of its answer. Raises ``StoreUnavailable``, which affects the whole
    batch.
    """
    answers: list[Applied | Exception] = []
    for request in requests:
        try:
            answers += run([request])
        except Unconfirmed as error:
            answers.append(error)  # concerns this request alone; the requests before it are stored
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - the caller gets it as the request's answer
            answers.append(error)
    return answers


class StoreCheck(Struct, frozen=True):
    """The result of ``Store.check``.

    ``size`` and ``log_size`` are in bytes. ``ahead`` is the number of seconds by which the store's time is ahead of the
    clock (store time never runs backwards). ``problems`` holds sentences and is empty if the store is sound.
    ``content_keys`` counts the content keys with which gates registered in the last day (``Store.register``); more than
    one is a problem.
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


REGISTRATION_INTERVAL: Final = HOUR
"""Microseconds after which a gate renews its registration."""
KEY_IN_USE: Final = DAY
"""Microseconds for which a content key counts as in use after a gate registered with it."""
GATE_PREFIX: Final = "gate:"
"""Prefix of a registration's name among other names of the store."""


def different_keys(keys: int) -> str:
    """Return the problem that gates with several content keys share one store."""
    return (
        f"gates with {keys} different content.key files worked on this store in the last day: a call that is asked "
        "again at the other gate is not known again there, nor are repeats"
    )


class NearbyAction(Struct, frozen=True, gc=False):
    """What another session is doing or did on a key, and when the asking session last saw that key.

    ``action.key`` is the key through which the action was found. ``seen`` is the time of the asking session's last read
    of that key or last action on it, 0 if there is none.
    """

    action: Action
    seen: int = 0


class Ancestry(Struct, frozen=True, gc=False):
    """Where a session comes from: the session that started it and the session it continues, ``""`` if unknown."""

    parent: str = ""
    continues: str = ""


MAX_NEARBY_SESSIONS: Final = 4
"""Number of other sessions whose newest actions ``Store.nearby`` returns for one key."""
SEARCHED_ENTRIES: Final = 5_000
"""Number of newest journal entries, of all sessions, that ``Store.touched`` searches."""
LATELY_SEARCHED: Final = 500
"""Number of newest journal entries, of all sessions, that ``View.lately`` searches."""
MAX_LATELY: Final = 12
"""Number of calls that ``View.lately`` returns at most, unless it is asked for more."""


class Pool(Struct, frozen=True):
    """The connections of this process to its store.

    At most ``limit`` connections exist; ``open`` of them do now, ``idle`` of those are free, and ``waiting`` threads
    wait for one. Since the pool was opened, ``waits`` threads had to wait for a connection, ``timeouts`` of them got
    none, and ``lost`` connections broke.
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
    """What a store with network connections offers in addition to ``Store``.

    ``lanes`` is the number of batches that a server runs on it at once; each spends most of its time waiting for the
    network.
    """

    lanes: int

    def pool(self) -> Pool:
        """Return the state of this process's connections, without asking the server."""


OnEnded = Callable[[str | None, tuple[str, ...]], object]
"""Called with the place where something ended: the namespace (None: it may be any) and the keys (empty: they may be
any).
"""


@runtime_checkable
class Notifying(Protocol):
    """What a store shared by several machines can offer to waiters: notifications that something ended, in any process.

    "Something" is whatever a waiter can wait for: a lease or a turn in the queue that became free, or a person's
    answer. A notification can be lost together with a connection, so waiters still poll at long intervals.
    """

    def listen(self, on_ended: OnEnded) -> Callable[[], None]:
        """Call ``on_ended`` for each notification, from a thread of the store. Return a function that ends this.

        ``on_ended`` also gets None whenever notifications begin to arrive (again), because something may have ended
        before. A fork ends the listening in the child.
        """

    def is_connected(self) -> bool:
        """Return True if notifications are arriving now. Cheap: no server is asked."""

    def pause(self, seconds: float) -> None:
        """Wait until something ended on any server, but at most ``seconds``."""


@runtime_checkable
class Transient(Protocol):
    """A store that writes nothing to disk. Its decisions get no daily log either."""

    transient: bool


@runtime_checkable
class NonBlocking(Protocol):
    """What a store can offer to a caller that must not block, such as an event loop."""

    def attempt(self, requests: Sequence[Request]) -> tuple[list[Applied | Exception], int] | None:
        """Run the requests as ``Store.transact`` does, but at once and without waiting for the disk.

        Returns the answers and the ``seq`` up to which the caller must run ``to_sync`` before it hands out the answers
        of durable scopes (0: nothing to sync). Returns None if this cannot be done now, because the store is busy or a
        request cannot be stored; call ``transact`` in another thread instead.
        """

    def to_sync(self, seq: int) -> Callable[[], None]:
        """Return a function that puts everything up to entry ``seq`` on disk. It is called once, from any thread.

        The function only waits for the disk. It and this method raise ``StoreUnavailable``; the answers that the caller
        holds back then count as ``Unconfirmed``.
        """

    def tend(self) -> None:
        """Do maintenance in this thread that would otherwise make some ``attempt`` slow. Call it every now and then."""


class Store(Protocol):
    """The methods of every store. They may be called from any thread, and in the child after a fork.

    Every method raises ``StoreUnavailable`` if the engine cannot be reached or written to now, and ``StoreError`` if
    the store holds something that is not Callosum's.
    """

    def transact(self, requests: Sequence[Request]) -> list[Applied | Exception]:
        """Run each step on its view and apply its change, all in one transaction.

        * Steps run in the given order; a later step sees what an earlier one changed.
        * Transactions that have a key in common (also through trees and facets) run one after another.
        * A step may run more than once, so it must be pure; only its last run counts. The one thing it may ask
          is whether its client still waits.
        * A step that raises fails alone: its exception takes the place of its answer.
        * A commit that fails raises, and nothing of the batch is stored.
        * If a scope is durable, the whole batch survives a power failure once this method returns. If the store
          cannot confirm that, it raises ``Unconfirmed`` with the answers, or returns an ``Unconfirmed`` in place
          of each answer that was to be durable.
        * An empty change writes nothing.
        * ``View.now`` grows from transaction to transaction, whatever the clock does; entries are numbered from
          it upwards.
        """

    def action(self, namespace: str, id: int) -> Action | None:
        """Return the action with this id, or the call that was refused under it."""

    def live(self, namespace: str | None, states: Sequence[State], key: str | None = None) -> list[Action]:
        """Return the live actions in one of ``states``, oldest first.

        ``key`` selects the actions on exactly that key. ``namespace`` None means all namespaces.
        """

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
        """Return the newest actions, newest first; ``key`` selects those whose first key it is.

        Only actions of tier ``floor`` or more are returned, and none of the sessions ``besides``. Searches the newest
        ``within`` journal entries of all namespaces.
        """

    # Briefs use the following methods. They are bounded and take no lock. The actions may come without ``content``.

    def touched(self, namespace: str, sessions: Sequence[str], limit: int = 32) -> list[Action]:
        """Return the newest calls of these sessions, newest first, including reads and calls that failed or wait.

        Refused calls are included: they are ``asked`` and have no ``expires``. Searches the newest ``SEARCHED_ENTRIES``
        journal entries.
        """

    def nearby(self, namespace: str, sessions: Sequence[str], keys: Sequence[str]) -> list[NearbyAction]:
        """Return what sessions other than ``sessions`` are doing and did on these keys, newest change first.

        Each key stands for itself, the trees above it, the keys below it and its facets. For each of these the result
        has the newest action of each of the ``MAX_NEARBY_SESSIONS`` sessions that acted last, and the newest live
        actions. Failed and cancelled actions are left out, and so are reads that have ended. Each action is returned
        once. The lookup is bounded: of a tree with very many keys below it, only the newest journal entries are
        searched.
        """

    def underway(self, namespace: str, sessions: Sequence[str], floor: int, limit: int = 32) -> list[Action]:
        """Return live actions, newest first: all those of ``sessions``, and the open and queued ones of others.

        Actions of others are returned from tier ``floor`` up. If very many actions are live, only a part of them is
        examined.
        """

    def commitments(self, namespace: str | None, keys: Sequence[str] | None = None) -> list[Action]:
        """Return the actions whose commitments still count, oldest first.

        ``keys`` selects the actions found on one of these keys. ``namespace`` None means all namespaces and is only
        valid without ``keys``. Reads all commitments and nothing else.
        """

    def bodies(self, namespace: str, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the bodies of the journal entries that opened these actions, as JSON.

        Entries that do not exist or were rotated away are left out, and so are bodies of more than ``MAX_KEPT``
        characters.
        """

    def farewells(self, namespace: str, limit: int = 20) -> list[Entry]:
        """Return the newest entries with which a session ended and said what it had done, newest first."""

    def kin(self, namespace: str, session: str) -> Ancestry:
        """Return where a session comes from, as far as its own calls have said so."""

    def now(self) -> int:
        """Return the store's time: the later of its clock and its last entry."""

    def observing(self) -> int:
        """Return the time until which the whole gate only observes, 0 if it enforces."""

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
        """Return journal entries with a ``seq`` greater than ``after``, oldest first.

        With ``newest`` the last ``limit`` entries are returned instead of the first. ``key`` selects the entries whose
        first key it is. A reader that continues from the last ``seq`` it got sees every entry.
        """

    def maintain(self, horizon: int, budget: int = 2000) -> int:
        """Delete what no rule can ask for any more. Return the number of deleted records.

        Nothing before the time ``horizon`` counts. At most ``budget`` records are deleted per call; the calls of all
        processes together go through all records. Live actions stay, and so do journal entries (``take`` removes them).
        """

    def take(
        self, until: int, horizon: int, limit: int = 5000, *, delete: bool = False, only: Collection[int] | None = None
    ) -> list[Entry]:
        """Return or delete the oldest entries up to ``until`` that may leave the store.

        These entries stay: those of live actions and remembered calls, and evidence since ``horizon``. A session's
        newest change of a key stays as long as another session that read the key before that change is active, because
        ``stale`` has no time window; so does a finished write that counted as that read. A session is active if it made
        a call since the hour before ``horizon``.

        If ``limit`` was reached, the next call may continue behind the first entries that had to stay, until it reaches
        the end; entries there that may leave meanwhile leave a little later. With ``delete`` the method deletes the
        entries that the same call without it would have returned; ``only`` restricts that to entries with these
        ``seq``. A caller that deletes what it has copied passes ``only``, because other entries may have become free to
        leave meanwhile.
        """

    def register(self, fingerprint: str) -> int:
        """Note that a gate works here whose content key has this fingerprint.

        Returns the number of different content keys with which gates registered in the last day. A repeated call is
        recognised by a hash under that key, so gates with different keys do not recognise each other's calls. Writes at
        most once an hour.
        """

    def prove(self) -> None:
        """Write something tiny, to prove that decisions can be stored.

        Raises ``StoreChanged`` while calls of tiers 3 and 4 are refused.
        """

    def accept(self, *, proven: bool = False) -> str:
        """Accept a store that was replaced or that lost entries, for all gates that work on it.

        Returns what was wrong, ``""`` if nothing was. Only a person may ask for this: ``proven`` says that the caller
        has the proof, or has just filled the store with a copy. Raises ``NotAPerson`` otherwise.
        """

    def size(self) -> int:
        """Return the number of bytes that live data takes, without free space. Cheap."""

    def check(self) -> StoreCheck:
        """Examine the store without changing it."""

    def close(self) -> None:
        """Close all connections of this process. Idempotent."""
