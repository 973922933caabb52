"""The PostgreSQL store over TLS, with a password from a file: the options of the URL take effect."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from callosum.errors import StoreUnavailable
from callosum.model import State
from callosum.stores.postgres import PostgresStore
from callosum.testing.script import StoreScript
from tests.support.certificates import certificate_in
from tests.support.peer import free_port
from tests.support.postgres import Server, need_binaries, server

PASSWORD = "a:word\\of 'its own"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """Return a server that accepts network connections only over TLS with a password, and its certificate."""
    need_binaries()
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("certificate")
    certificate, key = certificate_in(folder)
    with server(port=free_port()) as own:
        owner = own.data.stat()
        for source, name in ((certificate, "server.crt"), (key, "server.key")):
            goal = own.data / name
            shutil.copy(source, goal)
            goal.chmod(0o600)
            os.chown(goal, owner.st_uid, owner.st_gid)
        (own.data / "pg_hba.conf").write_text(
            "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\nhost all all 0.0.0.0/0 reject\n"
        )
        with psycopg.connect(own.conninfo, autocommit=True) as connection:
            connection.execute("set password_encryption = 'scram-sha-256'")
            connection.execute(psycopg.sql.SQL("create role gate login password {}").format(PASSWORD))
            connection.execute("grant create on database postgres to gate")
            connection.execute("alter system set ssl = on")
            connection.execute("select pg_reload_conf()")
        yield own, certificate


@pytest.fixture
def passfile(guarded: tuple[Server, Path], tmp_path: Path) -> Path:
    path = tmp_path / "pass"
    escaped = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    path.write_text(f"*:{guarded[0].port}:postgres:gate:{escaped}\n")
    path.chmod(0o600)
    return path


def _url(own: Server, **given: object) -> str:
    given = {"hostaddr": "127.0.0.1", "sslmode": "verify-full", **given}
    query = "&".join(f"{name}={value}" for name, value in given.items())
    return f"postgresql://gate@localhost:{own.port}/postgres?{query}"


def test_a_store_over_tls_with_a_password_file(guarded: tuple[Server, Path], passfile: Path) -> None:
    own, certificate = guarded
    store = PostgresStore(_url(own, passfile=passfile, sslrootcert=certificate, schema="over_tls"))
    script = StoreScript(store)
    script.end("mira", script.act("mira", "doc:1", tier=3, state=State.OPEN))
    store.pause(0)
    assert store.engine.notifier.wait_until_connected(20)
    assert PASSWORD not in store.check().place
    with psycopg.connect(own.conninfo) as connection:
        seen = connection.execute(
            "select s.ssl, count(*) from pg_stat_ssl s join pg_stat_activity a using(pid) "
            "where a.application_name = 'callosum' group by 1"
        ).fetchall()
    assert [ssl for ssl, _ in seen] == [True]
    assert seen[0][1] >= 2, "the one that listens too"
    store.close()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param({}, "root certificate", id="nobody-vouches-for-it"),
        pytest.param({"sslrootcert": "another"}, "certificate verify failed", id="another-vouches"),
        pytest.param({"sslrootcert": "its", "host": "db.example"}, "does not match host name", id="another-name"),
        pytest.param({"sslrootcert": "its", "passfile": "/nowhere"}, "no password supplied", id="no-password"),
        pytest.param({"sslrootcert": "its", "passfile": "wrong"}, "password authentication failed", id="wrong-password"),
        pytest.param({"sslmode": "disable"}, "no encryption", id="without-tls"),
    ],
)  # fmt: skip
def test_untrusted_server_is_refused_with_the_reason(
    guarded: tuple[Server, Path],
    passfile: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, str],
    said: str,
) -> None:
    own, certificate = guarded
    monkeypatch.setenv("HOME", str(tmp_path))  # where libpq searches for options that the URL does not name
    wrong = tmp_path / "wrong"
    wrong.write_text("*:*:*:*:another\n")
    wrong.chmod(0o600)
    places = {"its": certificate, "another": certificate_in(tmp_path / "other")[0], "wrong": wrong}
    given = {"passfile": passfile, **{name: places.get(value, value) for name, value in more.items()}}
    with pytest.raises(StoreUnavailable, match=said) as refused:
        PostgresStore(_url(own, **given))
    assert PASSWORD not in str(refused.value)
