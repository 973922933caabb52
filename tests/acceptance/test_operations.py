"""The commands of ``docs/operations.md`` save and restore each store, and migrate a PostgreSQL one."""

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from callosum.cli import main
from callosum.errors import StoreError
from callosum.gate import LocalGate
from callosum.model import Call
from callosum.process import own_session
from callosum.settings import Settings
from callosum.stores.opening import open_store
from callosum.stores.postgres import PostgresStore
from callosum.stores.postgres.schema import SCHEMA
from callosum.stores.versions import version_of
from callosum.testing.script import StoreScript
from tests.acceptance.command import CALLOSUM, at_terminal, environment, run
from tests.support import forking
from tests.support.postgres import Server, binaries, schema_of
from tests.support.redis_server import RedisServer
from tests.support.redis_server import serving as serving_redis
from tests.support.serving import Server as Serving
from tests.support.serving import serving as serving_server
from tests.support.serving import until

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")


def commands_of(name: str) -> str:
    """Return the commands of the document under this name."""
    (found,) = re.findall(rf"<!-- test: {name} -->\n```sh\n(.*?)```", DOCUMENT, re.DOTALL)
    return str(found)


class Installation:
    """A store and the ``variables`` of the document's commands, stopped and started as an operator does."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        self.state, self.backup, programs = folder / "state", folder / "backup", folder / "bin"
        for made in (self.state, self.backup, programs):
            made.mkdir()
        (programs / "callosum").write_text(f'#!/bin/sh\nexec {" ".join(CALLOSUM)} "$@"\n')
        (programs / "callosum").chmod(0o755)
        paths = [str(programs), *([str(binaries())] if binaries() else []), os.environ["PATH"]]
        self.variables: dict[str, str] = {
            "STATE": str(self.state), "BACKUP": str(self.backup), "PATH": os.pathsep.join(paths),
        }  # fmt: skip
        self.url = ""

    @property
    def settings(self) -> Settings:
        return Settings(state=self.state, store=self.url)

    def does(self, what: str, **more: str) -> None:
        env = environment(self.state, **{**self.variables, **more, "CALLOSUM_STORE": self.url})
        if not self.url:
            del env["CALLOSUM_STORE"]
        bash = shutil.which("bash")
        assert bash is not None
        commands = f"cd {shlex.quote(str(self.state))}; " + commands_of(f"{self.kind} {what}")
        done = at_terminal(self.state, "-euc", commands, env=env, program=(bash,))
        assert done.code == 0, done.text

    def start(self) -> None:
        """Start the store after a restore."""


class OnRedis(Installation):
    def __init__(self, folder: Path, server: RedisServer) -> None:
        super().__init__(folder, "redis")
        self.server = server
        self.url = server.address
        self.variables |= {
            "REDIS_SERVER": server.address, "REDIS_PORT": str(server.port), "REDIS_DIR": str(server.folder),
        }  # fmt: skip

    def start(self) -> None:
        assert self.server.process is not None
        self.server.process.wait(10)
        self.server.start()
        done = at_terminal(self.state, "store", "accept", env={"CALLOSUM_STORE": self.url})
        assert done.code == 0, done.text


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    if request.param == "sqlite":
        yield Installation(tmp_path, "sqlite")
    elif request.param == "redis":
        for server in serving_redis():
            yield OnRedis(tmp_path, server)
    else:
        database: Server = request.getfixturevalue("postgres")
        place = Installation(tmp_path, "postgresql")
        place.url = database.url("callosum")
        place.variables |= {"PGHOST": str(database.folder), "PGUSER": "callosum", "PGDATABASE": "postgres"}
        yield place
        database.drop("callosum")


@contextmanager
def working(gate: LocalGate) -> Iterator[None]:
    """Keep calling the gate while the block runs, at least once in it."""
    ends, began = threading.Event(), threading.Event()

    def work() -> None:
        number = 0
        while not ends.is_set():
            number += 1
            gate.intercept(Call("busy", "Bash", {"command": f"touch /r/{number}"}, cwd="/r"))
            began.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert began.wait(10)
        yield
    finally:
        ends.set()
        thread.join(10)


def test_a_backup_under_load_is_restored(installation: Installation) -> None:
    """The restored store has all entries up to the backup and none after it, and no fencing token is used twice."""
    with LocalGate(settings=installation.settings) as gate:
        kept = gate.lock("mira", "doc:kept", 4)
        with working(gate):
            installation.does("backup")
        lost = gate.lock("doug", "doc:lost", 4)
        assert kept.lease is not None
        assert lost.lease is not None
    installation.does("restore")
    installation.start()
    with LocalGate(settings=installation.settings) as gate:
        assert [(held.instance, held.token) for held in gate.status().locks if held.lock] == [
            (f"mira/{own_session()}", kept.lease.token)
        ]
        assert not gate.lock("doug", "doc:kept", 4).acquired
        assert not gate.renew("doug", lost.lease.token).ok
        again = gate.lock("nora", "doc:lost", 4)
        assert again.lease is not None
        assert again.lease.token > lost.lease.token
        assert not [problem for problem in gate.store.check().problems if "ahead" not in problem]


def test_copying_only_the_database_file_loses_what_is_in_the_log(tmp_path: Path) -> None:
    """Negative control: the reason why the document says never to use ``cp``."""
    place = Installation(tmp_path, "sqlite")
    with closing(open_store(place.settings)) as store:
        StoreScript(store).act("mira", "doc:1")
        shutil.copy(place.state / "gate.db", tmp_path / "copied.db")
        place.does("backup")
    counts = []
    for path in (tmp_path / "copied.db", place.backup / "gate.db"):
        with closing(sqlite3.connect(path)) as copied:
            try:
                counts.append(copied.execute("select count(*) from journal").fetchone()[0])
            except sqlite3.OperationalError:
                counts.append(None)
    assert counts == [None, 1]


def test_store_is_migrated_once_by_many_processes(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Processes that migrate one schema at the same moment all succeed; a dry run and a check change nothing."""
    url, state = postgres.url(), tmp_path / "state"

    def said(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["callosum", "store", *words, "--state", str(state)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), "".join(capfd.readouterr())

    try:
        assert said("check", url)[0] == 1
        code, text = said("migrate", url, "--dry-run")
        assert (code, "Would be brought" in text) == (0, True)
        assert said("check", url)[0] == 1
        words = [*CALLOSUM, "store", "migrate", url, "--json"]
        env = environment(state)
        many = [forking.Popen(words, env=env, stdout=subprocess.PIPE) for _ in range(3)]
        answers = [json.loads(one.communicate(timeout=60)[0]) for one in many]
        assert [one.returncode for one in many] == [0, 0, 0]
        assert any(answer["changed"] and answer["found"] is None for answer in answers)
        assert {answer["known"] for answer in answers} == {SCHEMA}
        code, text = said("migrate", url)
        assert (code, "Nothing to do" in text) == (0, True)
        assert said("check", url)[0] == 0
    finally:
        postgres.drop(schema_of(url))


def test_store_of_an_older_version_is_refused_and_unchanged(tmp_path: Path, postgres: Server) -> None:
    """The error names the command that sets it aside."""
    url = postgres.url()
    settings = Settings(state=tmp_path, store=url)
    schema = schema_of(url)
    try:
        with psycopg.connect(postgres.conninfo, autocommit=True) as old:
            old.execute(f"create schema {schema}")
            old.execute(f"set search_path to {schema}")
            old.execute("create table schema_version(one int primary key, version int not null, oldest int not null)")
            old.execute("insert into schema_version values(1, 2, 1)")
            old.execute("create table journal(seq bigint)")
            with pytest.raises(StoreError, match=r"version 2.* set it aside") as refused:
                PostgresStore(url)
            with pytest.raises(StoreError, match=r"version 2.* set it aside"):
                version_of(settings)
            (command,) = re.findall("`(.*?)`", str(refused.value))
            old.execute(command)
        PostgresStore(url).close()
    finally:
        postgres.drop(schema)
        postgres.drop(f"{schema}_2")


def test_a_server_needs_no_right_to_create(postgres: Server) -> None:
    """With the grants of the document a role works on a migrated schema; without a migration it cannot start."""
    (grants,) = re.findall(r"```sql\n(.*?)```", DOCUMENT, re.DOTALL)
    owner = postgres.url()
    schema = schema_of(owner)
    servers = owner.replace("callosum@", "gate@", 1)
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute("create role gate login")
        try:
            with pytest.raises(StoreError):
                PostgresStore(servers)
            PostgresStore(owner).close()
            connection.execute(re.sub(r"schema callosum\b", f"schema {schema}", grants))
            with closing(PostgresStore(servers)) as store:
                script = StoreScript(store)
                script.end("mira", script.act("mira", "doc:1"))
                store.maintain(store.now())
                assert len(store.entries()) == 2
                assert store.check().entries == 2
        finally:
            postgres.drop(schema)
            connection.execute("drop owned by gate")
            connection.execute("drop role gate")


def samples(server: Serving) -> dict[str, float]:
    """Return the metrics of the connections with their labels."""
    families = text_string_to_metric_families(server.ask("GET", "/metrics").text)
    return {
        "/".join((sample.name.removeprefix("callosum_store_"), *sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("callosum_store_") and not sample.name.endswith("_created")
    }


def found_by_doctor(state: Path) -> dict[str, str]:
    return {one["check"]: one["level"] for one in json.loads(run(state, "doctor", "--json").stdout)["findings"]}


def test_connections_are_watched(tmp_path: Path, postgres: Server) -> None:
    """``/metrics``, ``/health`` and ``doctor`` show the pool, and report it while it is exhausted."""
    url = postgres.url(pool="1")
    call = {"instance": "mira", "tool": "Bash", "params": {"command": "git push --force"}, "cwd": "/r"}
    try:
        with serving_server(tmp_path / "state", "--store", url) as server:
            server.post("/intercept", call)
            assert server.get("/health")["pool"]["limit"] == 1
            calm = samples(server)
            assert calm["connections_limit"] == 1
            assert calm["connections/idle"] + calm["connections/busy"] == 1
            assert calm["waiting"] == calm["timeouts_total"] == 0
            assert found_by_doctor(tmp_path / "state")["connections"] == "ok"
            with psycopg.connect(postgres.conninfo) as other, ThreadPoolExecutor(2) as threads:
                other.execute(f"lock table {schema_of(url)}.record in access exclusive mode")
                held = threads.submit(server.post, "/intercept", call)
                until(lambda: samples(server)["connections/busy"] == 1)
                waits = threads.submit(server.get, "/status")
                until(lambda: samples(server)["waiting"] >= 1)
                assert found_by_doctor(tmp_path / "state")["server"] == "wrong"
                other.rollback()
                assert held.result(20)["proceed"] is not None
                assert waits.result(20)["locks"] is not None
            until(lambda: samples(server)["waiting"] == 0)
            assert samples(server)["waits_total"] >= 1
    finally:
        postgres.drop(schema_of(url))


def test_store_without_connections_reports_none(tmp_path: Path) -> None:
    """The embedded store has no pool."""
    with serving_server(tmp_path / "state") as server:
        assert samples(server) == {}
        assert "pool" not in server.get("/health")
