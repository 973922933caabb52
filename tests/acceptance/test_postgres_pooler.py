"""The PostgreSQL store behind a pooler (PgBouncer) that shares its connections between transactions."""

import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from callosum.errors import ConfigError
from callosum.model import State
from callosum.stores.postgres import PostgresStore
from callosum.testing.script import StoreScript
from tests.support.postgres import Server, _as_nobody, schema_of
from tests.support.threads import all_at_once

PORT = 6432
PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")


@pytest.fixture(params=["transaction", "session"])
def pooler(request: pytest.FixtureRequest, postgres: Server) -> Iterator[tuple[str, Path]]:
    """Return the pooling mode and the folder of the socket."""
    if PGBOUNCER is None:
        pytest.skip("no pgbouncer here: install it to run what concerns poolers")
    folder = Path(tempfile.mkdtemp(dir=postgres.folder))
    folder.chmod(0o777)
    (folder / "users").write_text('"callosum" ""\n')
    (folder / "ini").write_text(
        f"[databases]\npostgres = host={postgres.folder} port=5432\n"
        f"[pgbouncer]\nlisten_addr =\nlisten_port = {PORT}\nunix_socket_dir = {folder}\n"
        f"auth_type = trust\nauth_file = {folder}/users\npool_mode = {request.param}\ndefault_pool_size = 3\n"
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*_as_nobody(), PGBOUNCER, "-q", str(folder / "ini")], stderr=log)
    until = time.monotonic() + 20
    with closing(socket.socket(socket.AF_UNIX)) as probe:
        while probe.connect_ex(str(folder / f".s.PGSQL.{PORT}")):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until
    yield request.param, folder
    process.terminate()
    process.wait(20)


def _url(folder: Path, url: str, more: str = "") -> str:
    return (
        f"postgresql://callosum@/postgres?host={quote(str(folder), safe='')}&port={PORT}&schema={schema_of(url)}{more}"
    )


def test_only_a_transaction_pooler_must_be_declared(pooler: tuple[str, Path], postgres_url: str) -> None:
    mode, folder = pooler
    url = _url(folder, postgres_url, "&pool=2")
    if mode == "transaction":
        with pytest.raises(ConfigError, match=r"\?pooler=transaction"):
            PostgresStore(url)
        return
    store = PostgresStore(url)
    script = StoreScript(store)
    script.end("mira", script.act("mira", "doc:1", tier=3, state=State.OPEN))
    assert store.live(None, list(State)) == []
    store.close()


@pytest.mark.parametrize("pooler", ["transaction"], indirect=True)
def test_transaction_pooler_serves_more_connections_than_it_has(
    pooler: tuple[str, Path], postgres: Server, postgres_url: str
) -> None:
    _, folder = pooler
    direct = f"&pooler=transaction&direct={quote(f'{postgres.folder}:5432', safe='')}"
    stores = [PostgresStore(_url(folder, postgres_url, direct + "&pool=4")) for _ in range(2)]
    done: list[int] = []

    def acts(number: int) -> None:
        script = StoreScript(stores[number % 2])
        for _ in range(10):
            id = script.act(f"s{number}", "doc:1", f"doc:{number}", tier=3, state=State.OPEN)
            done.extend((id, script.end(f"s{number}", id)))

    all_at_once([partial(acts, number) for number in range(8)])
    here, there = stores
    assert [entry.seq for entry in here.entries(limit=1000)] == sorted(done)
    assert here.live(None, list(State)) == []
    here.maintain(0)

    held = StoreScript(there).act("doug", "doc:1", tier=4, state=State.OPEN)
    StoreScript(there).act("mira", "doc:1", tier=4, state=State.QUEUED)
    here.pause(0)
    assert here.engine.notifier.wait_until_connected(20)
    before = here.engine.notifier._count
    waiter = threading.Thread(target=here.pause, args=(60,))
    waiter.start()
    StoreScript(there).end("doug", held)
    waiter.join(30)
    assert here.engine.notifier._count > before, "notices come on the direct connection"

    # Other users of the pooler find no state of this store in its connections.
    with psycopg.connect(f"host={folder} port={PORT} user=callosum dbname=postgres", prepare_threshold=None) as other:
        for setting, default in (("search_path", '"$user", public'), ("enable_seqscan", "on")):
            assert other.execute("select current_setting(%s)", (setting,)).fetchone() == (default,)
    for store in stores:
        store.close()
