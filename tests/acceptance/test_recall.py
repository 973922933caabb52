"""The cache of a process saves a round trip and never hides an action of another process."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from callosum.gate import LocalGate
from callosum.model import HOUR, MINUTE, SECOND, Change, Key, Mode, Opening, State, View
from callosum.settings import Settings
from callosum.stores.postgres import PostgresStore
from callosum.stores.postgres.engine import PostgresEngine
from callosum.stores.redis import RedisStore
from callosum.stores.redis.transaction import RedisTransaction
from callosum.testing.script import LEASE, StoreScript, ids
from tests.support.redis_server import RedisServer, two_stores
from tests.support.threads import all_at_once
from tests.support.world import RULES, Call

KEY = "file:/r/a"
TREE = "file:/r/"
FACET = "file:/r/a|x"


@pytest.fixture
def two(redis_server: RedisServer) -> Iterator[tuple[RedisStore, RedisStore]]:
    yield from two_stores(redis_server)


@pytest.fixture(params=["redis", "postgres"])
def three(request: pytest.FixtureRequest) -> Iterator[tuple[StoreScript, ...]]:
    """Yield the stores of three processes."""
    if request.param == "redis":
        url = request.getfixturevalue("redis_server").url()
        stores: list[Any] = [RedisStore(url) for _ in range(3)]
    else:
        url = request.getfixturevalue("postgres_url")
        stores = [PostgresStore(url) for _ in range(3)]
    yield tuple(map(StoreScript, stores))
    for store in stores:
        store.close()


def evalshas(server: RedisServer) -> int:
    with server.client() as client:
        return int(client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])


def test_call_on_a_cached_key_takes_two_round_trips(redis_server: RedisServer, tmp_path: Path) -> None:
    """One to open and one to report, as for a bare lock; a key that is not cached takes one more."""
    (tmp_path / "rules.json").write_text(RULES)
    store = RedisStore(redis_server.url())
    numbers = itertools.count()
    with LocalGate(settings=Settings(state=tmp_path, rules=tmp_path / "rules.json"), store=store) as gate:

        def calls(*keys: str) -> int:
            before = evalshas(redis_server)
            for key in keys:
                decision = gate.intercept(Call("mira", "act3", {"on": key}, call_id=f"call-{next(numbers)}"))
                assert decision.proceed
                assert gate.complete("mira", id=decision.id).ok
            return evalshas(redis_server) - before

        def fewest(*keys: str) -> int:
            """Return the fewest round trips on cached keys; a slow response ages the cache and costs a view."""
            return min(calls(*keys) for _ in range(5))

        calls("warm")
        assert min(calls(*(f"{name}{count}" for name in "abc")) for count in range(5)) == 9
        assert fewest("a0", "b0", "c0") == 6
        assert fewest("a0", "a0", "a0") == 6


CHANGES: dict[str, Callable[[StoreScript, int], Any]] = {
    "acts on it": lambda other, _: other.act("doug", KEY),
    "holds it": lambda other, _: other.act("doug", KEY, state=State.OPEN, tier=4),
    "acts on the tree": lambda other, _: other.act("doug", TREE),
    "acts on a facet": lambda other, _: other.act("doug", FACET),
    "ends what was held": lambda other, id: other.end("doug", id),
    "takes it back": lambda other, id: other.end("doug", id, State.FAILED),
    "looks, as oneself": lambda other, _: other.act("mira", Key(KEY, Mode.READ)),
    "looks at the tree, as oneself": lambda other, _: other.act("mira", Key(TREE, Mode.READ)),
    "asks, as oneself": lambda other, _: other.act("mira", KEY, state=State.ASKED),
    "does the same": lambda other, _: other.act("doug", KEY, prints=(b"print",)),
    "makes the same call elsewhere": lambda other, _: other.act("mira", "doc:other", call=b"call"),
    "makes the same call": lambda other, _: other.act("mira", KEY, call=b"call"),
    "says whose child one is": lambda other, _: other.act("mira", "doc:other", parent="doug"),
}


def noted(script: StoreScript, **more: Any) -> tuple[View, int]:
    """Return the view of a step of mira's that writes a journal entry, and how often the step ran."""
    views: list[View] = []
    entry = script.entry("mira", [KEY])

    def step(view: View) -> Change:
        views.append(view)
        return Change((entry,))

    script.run(script.scope("mira", [KEY], **more), step)
    return views[-1], len(views)


def without_now(view: View) -> Any:
    return [getattr(view, name) for name in View.__struct_fields__ if name not in ("now", "bodies", "lately")]


@pytest.mark.parametrize(
    ("what", "blind"),
    [*((what, False) for what in CHANGES), *((what, True) for what in ("holds it", "looks at the tree, as oneself"))],
)
def test_actions_of_another_process_are_seen(
    three: tuple[StoreScript, ...], monkeypatch: pytest.MonkeyPatch, what: str, *, blind: bool
) -> None:
    """This process had cached the key a moment before; in the control nothing is checked."""
    mine, other, fresh = three
    held = other.act("doug", KEY, state=State.OPEN, tier=3, prints=(b"other",))
    noted(mine)
    if blind:
        send, compare = RedisTransaction._send, PostgresEngine.compare
        monkeypatch.setattr(
            RedisTransaction, "_send", lambda self, tag, token, _, *more: send(self, tag, token, [], *more)
        )
        monkeypatch.setattr(
            PostgresEngine, "compare", lambda self, line, _, at, strict: compare(self, line, {}, at, strict=strict)
        )
    CHANGES[what](other, held)
    this = {"call": b"call", "prints": (b"print",)}
    expected = fresh.view("mira", KEY, **this)
    view, times = noted(mine, **this)
    assert (without_now(view) == without_now(expected)) is not blind
    assert times == (1 if blind else 2), "it was not recalled in the first place"


def test_crowd_of_three_processes_loses_no_change_and_a_reader_that_follows_no_entry(
    three: tuple[StoreScript, ...],
) -> None:
    """Twelve sessions change one key, and each change sees the one before; four have keys and namespaces of their own."""
    store = three[0].store
    seen: list[int] = []
    done: list[int] = []

    def counts(view: View, place: int) -> Change:
        actions = view.keys[0].latest + ((view.keys[0].own,) if view.keys[0].own else ())
        count = max((int(action.rule or 0) for action in actions), default=0)
        return Change((three[0].entry(f"s{place}", [KEY], rule=str(count + 1)),), Opening(State.DONE, view.now + 1))

    def worker(place: int) -> None:
        script = three[place % 3]
        while place == 16:
            finished = len(done) == 16
            page = store.entries(after=seen[-1] if seen else 0, limit=50)
            seen.extend(entry.seq for entry in page)
            if finished and not page:
                return
        for _ in range(20):
            if place % 4:
                script.run(script.scope(f"s{place}", [KEY]), partial(counts, place=place))
            else:
                StoreScript(script.store, f"space-{place}").act(f"s{place}", f"doc:{place}")
        done.append(place)

    all_at_once([partial(worker, place) for place in range(17)])
    entries = store.entries(limit=1000)
    assert [int(entry.rule) for entry in entries if entry.keys[0].name == KEY] == [*range(1, 241)]
    assert seen == [entry.seq for entry in entries]
    assert len(seen) == 320


def test_range_that_shows_what_a_cached_record_denies_is_read_again(two: tuple[RedisStore, RedisStore]) -> None:
    """The cache says that the tree is free. Another holds it when the range is read, and a file in it at the commit.

    Then the range has as many names as before, and the tree is free again.
    """
    mine, other = map(StoreScript, two)
    assert mine.key_view("mira", TREE).live == (), "now the cache knows that nobody holds it"
    held = other.act("doug", TREE, lock=True, state=State.OPEN)
    seen: list[list[str]] = []

    def step(view: View) -> Change:
        seen.append([action.key for action in view.keys[0].live])
        if len(seen) == 1:
            other.settle(held, State.CANCELLED)
            other.act("doug", KEY, lock=True, state=State.OPEN)
        return Change((mine.entry("mira", (TREE,)),))

    mine.run(mine.scope("mira", (TREE,)), step)
    assert seen[-1] == [KEY]


def test_decision_stands_behind_a_lease_that_came_and_went_before_its_commit(three: tuple[StoreScript, ...]) -> None:
    """Nothing that the step knew has changed in the end; the journal must not tell that both held the key at once."""
    mine, other, _ = three
    noted(mine)
    seen: list[View] = []

    def step(view: View) -> Change:
        seen.append(view)
        if len(seen) == 1:
            other.settle(other.act("doug", KEY, lock=True, state=State.OPEN), State.CANCELLED)
        return Change((mine.entry("mira", [KEY], tier=4),), Opening(State.OPEN, view.now + LEASE))

    (id,) = mine.run(mine.scope("mira", [KEY]), step).ids
    assert (mine.store.entries()[-1].seq, len(seen)) == (id, 2)


def test_decision_stands_behind_a_release_that_it_has_seen(
    two: tuple[RedisStore, RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = map(StoreScript, two)
    mine.act("mira", "doc:warm")
    held = other.act("doug", KEY, lock=True, state=State.OPEN)
    scan, ended = RedisTransaction.scan, list[int]()

    def late(self: RedisTransaction, *words: Any, **more: Any) -> Any:
        if self.engine is two[0].engine and not ended:
            ended.append(held)
            other.settle(held, State.CANCELLED)
        return scan(self, *words, **more)

    monkeypatch.setattr(RedisTransaction, "scan", late)
    id = mine.act("mira", TREE, state=State.OPEN)
    assert ended
    assert [entry.seq for entry in two[0].entries()][-1] == id


def test_data_lost_between_view_and_change_causes_a_new_view(two: tuple[RedisStore, RedisStore]) -> None:
    """As after a fail-over to a replica that had received nothing; the connection stays usable."""
    script = StoreScript(two[0])
    held = script.act("doug", KEY, state=State.OPEN, tier=4)
    seen: list[list[int]] = []

    def step(view: View) -> Change:
        seen.append(ids(view.keys[0].live))
        if len(seen) == 1:
            client = two[1].link.client
            client.delete(*client.scan_iter(f"{two[1].link.prefix}:*"))
        return Change((script.entry("mira", [KEY], tier=4),), Opening(State.OPEN, view.now + LEASE))

    (id,) = script.run(script.scope("mira", [KEY]), step).ids
    assert seen == [[held], []]
    assert ids(script.key_view("anna", KEY).live) == [id]
    assert [entry.seq for entry in script.store.entries(namespace="default")] == [id]


@pytest.mark.parametrize("off", [10 * MINUTE, HOUR, -10 * MINUTE])
def test_process_with_a_wrong_clock_does_not_shift_the_server_time(
    two: tuple[RedisStore, RedisStore], off: int
) -> None:
    script = StoreScript(two[0])
    script.act("mira", KEY)
    time = two[0].engine.server_time
    assert time._offset is not None
    time._offset += off
    id = script.act("mira", KEY)
    seconds, _ = two[1].link.client.time()
    assert abs(id - seconds * SECOND) < MINUTE
