"""The store that a URL names, and the error for a URL that cannot be used."""

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from callosum.errors import ConfigError
from callosum.settings import Settings, load
from callosum.stores.memory import MemoryStore
from callosum.stores.opening import exists, file_of, open_store
from callosum.stores.postgres.connections import POOL, address_of
from callosum.stores.sqlite import SqliteStore


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
        (
            "postgresql://db/agents?pooler=transaction",
            "direct: pooler=transaction and direct=host:port belong together",
        ),
        ("postgresql://db/agents?direct=db:5432", "direct: pooler=transaction and direct=host:port belong together"),
        ("postgresql://db/agents?pooler=transaction&direct=db", "direct: expected host:port"),
    ],
)
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
