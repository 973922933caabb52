"""The partitions of the PostgreSQL store's journal, and trees that are used for the first time."""

import threading
from functools import partial
from itertools import pairwise

from callosum.model import DAY, SECOND, Applied, Change, Entry, Event, Key, Opening, Scope, State, View
from callosum.stores.base import Request
from callosum.stores.postgres import PostgresStore
from callosum.stores.postgres.partitions import Partition, partitions_of
from callosum.stores.postgres.statements import PARTS
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript
from tests.support.threads import all_at_once


def _parts(store: PostgresStore) -> list[Partition]:
    return partitions_of(store.engine.connections.read(PARTS))


def _leave(store: PostgresStore, clock: ManualClock) -> list[Entry]:
    """Rotate everything that may leave."""
    until, horizon = clock.now, clock.now - DAY
    gone = store.take(until, horizon)
    store.take(until, horizon, delete=True, only=[entry.seq for entry in gone])
    return gone


def test_partition_is_created_ahead_and_dropped_when_empty(postgres_url: str) -> None:
    clock = ManualClock()
    store = PostgresStore(postgres_url, clock=clock)
    script = StoreScript(store)
    script.act("mira", "doc:1")
    store.maintain(clock.now - DAY)
    first, ahead = _parts(store)
    assert clock.now < first.high == ahead.low <= clock.now + 2 * DAY
    store.maintain(clock.now - DAY)
    assert _parts(store) == [first, ahead]

    days: list[int] = []
    for _ in range(12):
        clock.advance(DAY / SECOND)
        days.append(script.act("mira", f"doc:{len(days)}"))
        store.maintain(clock.now - DAY)
        assert _parts(store)[-1].low > clock.now, "there is room ahead"
    assert [entry.seq for entry in store.entries()][1:] == days
    assert 3 <= len(_parts(store)) <= 6, "the older the journal, the longer its parts"

    held = script.act("doug", "doc:9", tier=4, state=State.OPEN, lease=90 * DAY)
    clock.advance(40 * DAY / SECOND)
    store.maintain(clock.now - DAY)
    last = script.act("mira", "doc:10")
    before = _parts(store)
    _leave(store, clock)
    assert [entry.seq for entry in store.entries()] == [held, last]
    parts = _parts(store)
    assert len(parts) < len(before)
    assert any(part.low <= held < part.high for part in parts), "what cannot leave keeps its part"
    assert store.action("default", held) is not None
    script.end("doug", held)
    clock.advance(40 * DAY / SECOND)
    script.act("mira", "doc:11")
    for _ in range(3):  # a mark that upkeep meets before its session's action is forgotten the next time
        store.maintain(clock.now - DAY)
    _leave(store, clock)
    assert not any(part.low <= held < part.high for part in _parts(store))
    store.close()


def test_servers_that_create_partitions_at_once_create_each_once(postgres_url: str) -> None:
    """Calls made in the meantime meet no error."""
    clock = ManualClock()
    stores = [PostgresStore(postgres_url, clock=clock) for _ in range(4)]
    script = StoreScript(stores[0])
    script.act("mira", "doc:1")
    stop = threading.Event()
    faults: list[BaseException] = []
    done: list[int] = []

    def acts() -> None:
        try:
            while not stop.is_set():
                done.append(script.act("mira", "doc:1"))
        except BaseException as fault:  # noqa: BLE001
            faults.append(fault)

    actor = threading.Thread(target=acts)
    actor.start()
    for _ in range(3):
        clock.advance(DAY / SECOND)
        all_at_once([partial(store.maintain, clock.now - DAY) for store in stores])
        stores[0].maintain(clock.now - DAY)  # should all have met somebody else at it
    stop.set()
    actor.join()
    assert not faults
    parts = _parts(stores[0])
    assert 2 <= len(parts) <= 4
    assert all(one.high == other.low for one, other in pairwise(parts))
    assert [entry.seq for entry in stores[0].entries(limit=100_000)][1:] == done
    for store in stores:
        store.close()


TREE, BELOW = "file:/repo/", "file:/repo/a.py"


def take(session: str, key: str) -> Request:
    """Take the key unless it is taken; return whether it was taken."""

    def step(view: View) -> Change:
        if any(place.live for place in view.keys):
            return Change(answer=False)
        entry = Entry(Event.INTERCEPT, session, tier=4, keys=(Key(key),))
        return Change((entry,), Opening(State.OPEN, view.now + 60 * SECOND), answer=True)

    return Scope("default", session, (Key(key),), live=True), step


def taken(store: PostgresStore, *requests: Request) -> list[object]:
    """Return the answers of a batch."""
    return [answer.change.answer for answer in store.transact(requests) if isinstance(answer, Applied)]


def test_tree_first_used_in_a_batch_is_known_to_the_whole_batch(postgres_url: str) -> None:
    """A later request of the batch below the tree also sees it in the same transaction."""
    one, other = PostgresStore(postgres_url), PostgresStore(postgres_url)
    assert taken(one, take("mira", TREE), take("doug", BELOW)) == [True, False]
    assert taken(other, take("anna", BELOW)) == [False]
    one.close()
    other.close()
