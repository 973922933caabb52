"""A connection does not read again what it knows, and forgets it once it may have changed."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from callosum import Call, LocalGate
from callosum.errors import StoreError
from callosum.model import Change, Entry, Event, Key, Opening, Scope, State, Verdict, View
from callosum.settings import Settings
from callosum.stores.sqlite import SqliteStore, connection, engine
from callosum.stores.sqlite.connection import _CALM as CALM
from callosum.stores.sqlite.connection import SqliteConnection, SqliteConnections
from callosum.stores.sqlite.engine import SqliteEngine
from callosum.testing.script import StoreScript

Seen = list[str]


def gate_of(folder: Path) -> LocalGate:
    return LocalGate(settings=Settings(state=folder))


def engine_of(gate: LocalGate) -> SqliteEngine:
    assert isinstance(gate.store, SqliteStore)
    assert isinstance(gate.store.engine, SqliteEngine)
    return gate.store.engine


def looks(gate: LocalGate, seen: Seen) -> None:
    """Collect this thread's statements that read records."""

    def note(sql: str) -> None:
        if sql.startswith("select (select value from record") or "select record from journal" in sql:
            seen.append(sql)

    engine_of(gate).connections.get().set_trace_callback(note)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[LocalGate, LocalGate]]:
    with gate_of(tmp_path) as one, gate_of(tmp_path) as other:
        yield one, other


def write(gate: LocalGate, instance: str, text: str, path: str = "/notes.md") -> int:
    decision = gate.intercept(Call(instance, "write", {"path": path, "content": text}, call_id=f"{instance}-{text}"))
    assert decision.proceed, decision.warning
    return decision.id


def test_only_writer_does_not_read_back_what_it_wrote(pair: tuple[LocalGate, LocalGate]) -> None:
    gate, _ = pair
    gate.complete("mira", id=write(gate, "mira", "one"))
    seen: Seen = []
    looks(gate, seen)
    for text in ("two", "three"):
        assert gate.complete("mira", id=write(gate, "mira", text)).ok
    assert len(seen) == 2, "each call id, which nobody has used before"
    assert all(sql.count("from record") == 1 for sql in seen)


def test_commit_of_another_connection_is_read(pair: tuple[LocalGate, LocalGate]) -> None:
    gate, other = pair
    gate.complete("mira", id=write(gate, "mira", "one"))
    seen: Seen = []
    looks(gate, seen)
    write(other, "mira", "elsewhere", "/other.md")
    gate.complete("mira", id=write(gate, "mira", "two"))
    assert sum(sql.count("from record") for sql in seen) > 8, "all that the call is about"
    assert len(seen) == 2, "eight records a statement; this connection opened the action since"


def test_change_by_another_process_is_stale_for_the_former_only_writer(pair: tuple[LocalGate, LocalGate]) -> None:
    gate, other = pair
    gate.complete("mira", id=write(gate, "mira", "one"))
    other.complete("doug", id=write(other, "doug", "two"))
    decision = gate.intercept(Call("mira", "write", {"path": "/notes.md", "content": "three"}, call_id="again"))
    assert [conflict.kind for conflict in decision.conflicts] == ["stale"]


def undisturbed(gate: LocalGate) -> None:
    """Make enough calls for the connection to know that it works alone."""
    for number in range(CALM + 1):
        write(gate, "mira", str(number), f"/{number}.md")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_tree_that_comes_into_use_is_found_from_keys_inside_it(
    pair: tuple[LocalGate, LocalGate], *, elsewhere: bool
) -> None:
    gate, other = pair
    undisturbed(gate)
    assert (other if elsewhere else gate).lock("doug", "file:/srv/").acquired
    found = gate.lock("mira", "file:/srv/agents/a.md")
    assert not found.acquired
    assert found.conflict is not None
    assert found.conflict.key == "file:/srv/"
    assert gate.lock("mira", "file:/var/a.md").acquired


def test_first_report_by_another_process_is_kept(pair: tuple[LocalGate, LocalGate]) -> None:
    gate, other = pair
    id = write(gate, "mira", "one")
    assert other.complete("mira", id=id, outcome="failed").ok
    report = gate.complete("mira", id=id)
    assert not report.ok
    assert report.state is State.FAILED


def test_action_that_was_taken_back_is_not_the_newest(pair: tuple[LocalGate, LocalGate]) -> None:
    gate, other = pair
    gate.complete("mira", id=write(gate, "mira", "one"))
    gate.complete("mira", id=write(gate, "mira", "two"), outcome="failed")
    (entry,) = gate.entries(newest=True, limit=1)
    assert entry.outcome == "failed"
    gate.complete("mira", id=write(gate, "mira", "three"), outcome="failed")
    found = other.store.nearby("default", ["doug"], ["file:/notes.md"])
    texts = [other.store.entries(after=near.action.id - 1, limit=1)[0].body["params"]["content"] for near in found]
    assert texts == ["one"], "both that failed were taken back, one after the other"


def test_commit_of_another_thread_is_read(pair: tuple[LocalGate, LocalGate]) -> None:
    gate, _ = pair
    gate.complete("mira", id=write(gate, "mira", "one"))
    thread = threading.Thread(target=lambda: gate.complete("doug", id=write(gate, "doug", "two")))
    thread.start()
    thread.join()
    decision = gate.intercept(Call("mira", "write", {"path": "/notes.md", "content": "three"}, call_id="again"))
    assert [conflict.kind for conflict in decision.conflicts] == ["stale"]


KEY = Key("file:/notes.md")
SCOPE = Scope("default", "mira", (KEY,))


def opens(view: View) -> Change:
    entry = Entry(Event.INTERCEPT, "mira", tool="write", tier=1, verdict=Verdict.ALLOW, keys=SCOPE.keys)
    return Change((entry,), Opening(State.DONE, view.now + 1000))


def test_cache_forgets_what_was_rolled_back(tmp_path: Path) -> None:
    """A batch that cannot be stored leaves nothing behind, not even in the connection's cache."""
    store = SqliteStore(tmp_path / "gate.db")
    shown: list[View] = []

    def fails(_: View) -> Change:
        broken = Entry(Event.HOST, "mira", body={"what": object()})  # cannot be encoded as JSON
        return Change((broken,))

    def look(view: View) -> Change:
        shown.append(view)
        return Change()

    first, second = store.transact([(SCOPE, opens), (SCOPE, fails)])
    assert not isinstance(first, Exception), "each alone, after the batch was undone"
    assert isinstance(second, TypeError | StoreError)
    other = SqliteStore(tmp_path / "gate.db")
    for each in (store, other):
        each.transact([(SCOPE, look)])
        own = shown[-1].keys[0].own
        assert own is not None, "its mark is there"
        assert own.id == first.ids[0]
    assert len(store.entries()) == 1
    store.close()
    other.close()


def test_what_a_connection_knows_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_MOST", 20)
    with gate_of(tmp_path) as gate:
        for number in range(100):
            gate.complete("mira", id=write(gate, "mira", "one", f"/{number}.md"))
            transaction = engine_of(gate).connections.here.link.transaction
            assert transaction is not None
            assert len(transaction.known) <= 20 + 64 * 5, "it is counted every 64 transactions"


def test_sync_takes_turns_only_while_another_connection_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    together = SqliteConnections._sync_together

    def counted(self: SqliteConnections, link: SqliteConnection, seq: int) -> None:
        turns.append(seq)
        together(self, link, seq)

    monkeypatch.setattr(SqliteConnections, "_sync_together", counted)
    synced: list[int] = []
    monkeypatch.setattr(connection, "_fdatasync", synced.append)
    with closing(SqliteStore(tmp_path / "gate.db")) as one, closing(SqliteStore(tmp_path / "gate.db")) as other:
        for number in range(CALM + 1):
            StoreScript(one).act("mira", f"doc:{number}", durable=True)
        turns.clear()
        synced.clear()
        StoreScript(one).act("mira", "doc:alone", durable=True)
        assert synced
        assert not turns
        StoreScript(other).act("doug", "doc:other", durable=True)
        turns.clear()
        StoreScript(one).act("mira", "doc:shared", durable=True)
        assert turns


FACET, WHOLE, OTHER = "doc:plan|review", "doc:plan", "doc:draft"


def at_rest(gate: LocalGate) -> StoreScript:
    """Return a script whose session mira has acted on a facet often enough for the cache to hold it."""
    script = StoreScript(gate.store)
    for _ in range(CALM + 2):
        script.end("mira", script.act("mira", OTHER, FACET, state=State.OPEN))
    return script


def test_only_writer_on_a_facet_does_not_read_back_what_it_wrote(pair: tuple[LocalGate, LocalGate]) -> None:
    script = at_rest(pair[0])
    seen: Seen = []
    looks(pair[0], seen)
    script.end("mira", script.act("mira", OTHER, FACET, state=State.OPEN))
    assert seen == [], "without a call id nothing is asked"


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("lock", [False, True])
def test_action_on_the_whole_is_found_by_the_former_only_writer_on_a_facet(
    pair: tuple[LocalGate, LocalGate], *, lock: bool, elsewhere: bool
) -> None:
    script = at_rest(pair[0])
    other = StoreScript(pair[1].store) if elsewhere else script
    state = State.OPEN if lock else State.DONE
    made = other.act("doug", WHOLE, lock=lock, state=state)
    place = script.key_view("mira", FACET)
    assert [action.id for action in (*place.live, *place.latest)] == [made]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_change_ends_behind_one_that_began_after_it_on_any_key(
    pair: tuple[LocalGate, LocalGate], *, elsewhere: bool
) -> None:
    script = at_rest(pair[0])
    other = StoreScript(pair[1].store) if elsewhere else script
    first = script.act("mira", OTHER, FACET, state=State.OPEN)
    second = other.act("doug", FACET)
    script.end("mira", first)
    assert [action.id for action in script.key_view("andy", FACET).latest] == [first, second]
