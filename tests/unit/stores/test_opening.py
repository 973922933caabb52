"""The store that a URL names, a file that is removed while in use, and the upkeep of one that others write to."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from callosum.errors import ConfigError, StoreUnavailable
from callosum.gate import LocalGate
from callosum.model import DAY, Call
from callosum.settings import Settings, load
from callosum.stores.memory import MemoryStore
from callosum.stores.opening import exists, file_of, open_store
from callosum.stores.postgres.connections import POOL, address_of
from callosum.stores.sqlite import SqliteStore, connection


def test_store_without_a_url_is_the_file_in_the_state_folder(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path)
    assert not exists(settings)
    store = open_store(settings)
    assert isinstance(store, SqliteStore)
    assert store.path == tmp_path / "gate.db"
    store.close()
    assert exists(settings)


@pytest.mark.parametrize(
    ("url", "path"),
    [("sqlite:///other.db", "/state/other.db"), ("sqlite:////var/a%20b.db", "/var/a b.db"), ("", "/state/gate.db")],
)
def test_sqlite_url_names_a_file(url: str, path: str) -> None:
    assert file_of(Settings(state=Path("/state"), store=url)) == Path(path)


def test_memory_url_opens_a_store_in_memory(tmp_path: Path) -> None:
    assert isinstance(open_store(Settings(state=tmp_path, store="memory:")), MemoryStore)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://db/agents", "no store for mysql: URLs"),
        ("sqlite://host/file", "expected sqlite:///"),
        ("postgresql://db/agents?pool=none", "pool: expected a number"),
        ("postgresql://db/agents?schema=Bad-Name", "schema: expected lower-case"),
        ("postgresql://db/agents?nonsense=1", "nonsense"),
        ("postgresql://db/agents?pooler=statement", "pooler: expected session or transaction"),
        ("postgresql://db/agents?pooler=transaction", "direct: pooler=transaction and direct=host:port belong together"),
        ("postgresql://db/agents?direct=db:5432", "direct: pooler=transaction and direct=host:port belong together"),
        ("postgresql://db/agents?pooler=transaction&direct=db", "direct: expected host:port"),
    ],
)  # fmt: skip
def test_unusable_url_raises_an_error_that_says_why(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_store(Settings(state=tmp_path, store=url))


def test_store_setting_is_a_url(tmp_path: Path) -> None:
    found = load({"state": tmp_path}, {"CALLOSUM_STORE": "postgresql://db/agents"}, tmp_path)
    assert found.store == "postgresql://db/agents"
    with pytest.raises(ConfigError, match="--store: expected a URL"):
        load({"state": tmp_path, "store": "agents"}, {}, tmp_path)


def test_url_options_are_split_between_libpq_and_callosum() -> None:
    """The password never appears in the store's name for messages."""
    address = address_of("postgresql://gate:secret@db:5433/agents?schema=own&sslmode=require&host=/run/x")
    assert (address.schema, address.pool) == ("own", POOL)
    assert "sslmode=require" in address.conninfo
    assert "schema" not in address.conninfo
    assert "secret" not in address.place
    assert "port=5433 dbname=agents user=gate" in address.place


@pytest.mark.parametrize(
    ("direct", "host"), [("db.internal:5433", "db.internal"), ("[::1]:5433", "::1"), ("/run/pg:5433", "/run/pg")]
)
def test_direct_url_differs_from_the_pooler_only_in_host_and_port(direct: str, host: str) -> None:
    found = address_of(f"postgresql://gate@pooler:6432/agents?sslmode=require&pooler=transaction&direct={direct}")
    assert conninfo_to_dict(found.conninfo)["host"] == "pooler"
    direct_parts = conninfo_to_dict(found.direct)
    assert direct_parts == {"user": "gate", "dbname": "agents", "sslmode": "require", "host": host, "port": "5433"}


NOW, NEVER = 0.0, 1e9
"""Seconds between a thread's own checks that the file is still there."""


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    """Yield a second thread, always the same one."""
    with ThreadPoolExecutor(1) as threads:
        yield threads


def wrote(gate: LocalGate, path: str) -> int:
    return gate.intercept(Call("mira", "write_file", {"path": path})).id


def remove(state: Path) -> None:
    for file in state.glob("gate.db*"):
        file.unlink()


def test_no_thread_writes_after_another_noticed_the_replaced_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: ThreadPoolExecutor
) -> None:
    monkeypatch.setattr(connection, "LOOK_EVERY", NEVER)
    with LocalGate(tmp_path) as gate:
        wrote(gate, "/a")
        other.submit(wrote, gate, "/b").result()
        remove(tmp_path)
        monkeypatch.setattr(connection, "LOOK_EVERY", NOW)
        noticed = wrote(gate, "/c")
        monkeypatch.setattr(connection, "LOOK_EVERY", NEVER)
        after = other.submit(wrote, gate, "/d").result()
        assert [entry.seq for entry in gate.entries()] == [noticed, after]


def test_reader_notices_the_replaced_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: ThreadPoolExecutor
) -> None:
    monkeypatch.setattr(connection, "LOOK_EVERY", NOW)
    with LocalGate(tmp_path) as gate, LocalGate(tmp_path) as reader:
        wrote(gate, "/a")
        assert len(other.submit(reader.entries).result()) == 1
        remove(tmp_path)
        noticed = wrote(gate, "/b")
        assert [entry.seq for entry in other.submit(reader.entries).result()] == [noticed]


def test_connections_to_the_replaced_file_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LOOK_EVERY", NOW)

    def held() -> int:
        return sum("gate.db" in str(link.resolve()) for link in Path("/proc/self/fd").iterdir())

    with LocalGate(tmp_path) as gate:
        wrote(gate, "/a")
        before = held()
        for number in range(5):
            remove(tmp_path)
            wrote(gate, f"/{number}")
        assert held() == before > 0


def test_upkeep_with_nothing_to_delete_does_not_lock_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)
    with LocalGate(tmp_path) as gate:
        for number in range(20):
            id = gate.intercept(Call("mira", "write_file", {"path": f"/{number}", "content": "x"})).id
            gate.complete("mira", id=id)
    store = SqliteStore(tmp_path / "gate.db")
    other = sqlite3.connect(tmp_path / "gate.db", isolation_level=None)
    other.execute("begin immediate")
    assert store.maintain(store.now() - DAY) == 0
    with pytest.raises(StoreUnavailable):  # the control: deleting old data does need the lock
        store.maintain(store.now() + DAY)
    other.execute("rollback")
    assert store.maintain(store.now() + DAY) > 0
    other.close()
    store.close()
