"""Redis behind TLS, passwords and access lists: the options of the URL, and refusals."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.model import State
from callosum.stores.redis import RedisStore
from callosum.testing.script import StoreScript
from tests.support.certificates import certificate_in
from tests.support.redis_server import RedisServer, free_port, serving

RIGHTS = "+@read +@write +@scripting +@pubsub +@connection +info +config|get +time +memory|usage"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RedisServer, int, Path]]:
    """Run a server with a user of minimal rights; also behind TLS, with a self-signed certificate."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = certificate_in(folder)
    port = free_port()
    tls = [
        "--tls-port", str(port), "--tls-cert-file", str(cert), "--tls-key-file", str(key), "--tls-auth-clients",
        "no",
    ]  # fmt: skip
    for server in serving(*tls):
        with server.client() as client:
            rights = f"on >not-a-real-one resetkeys ~callosum:* resetchannels &callosum:{{*}}:wake {RIGHTS}"
            client.execute_command("ACL", "SETUSER", "gate", *rights.split())
        yield server, port, cert


def check_gate(store: RedisStore) -> None:
    """Check everything that a gate does: calls, reports, reads, upkeep and waits."""
    script = StoreScript(store)
    id = script.act("mira", "doc:plan", "file:/r/", state=State.OPEN, tier=4, durable=True, prints=(b"one",), call=b"c")
    ender = threading.Timer(0.2, lambda: script.end("mira", id))
    store.pause(0)
    assert store.engine.notifier.wait_until_connected(10)
    ender.start()
    while store.live("default", [State.OPEN]):
        store.pause(20)
    ender.join()
    assert [entry.action for entry in store.entries()] == [id, id]
    store.maintain(store.now())
    store.take(store.now(), store.now(), delete=True)
    assert store.check().problems == ()
    assert store.size() > 0
    store.close()


def test_user_with_minimal_rights_works_over_tls(guarded: tuple[RedisServer, int, Path], tmp_path: Path) -> None:
    _, port, cert = guarded
    secret = tmp_path / "password"
    secret.write_text("not-a-real-one\n")
    check_gate(RedisStore(f"rediss://gate@127.0.0.1:{port}/0?ssl_ca_certs={cert}&password_file={secret}"))


def test_untrusted_certificate_is_refused(guarded: tuple[RedisServer, int, Path]) -> None:
    """A certificate for another host name is refused too."""
    _, port, cert = guarded
    with pytest.raises(StoreUnavailable, match="certificate"):
        RedisStore(f"rediss://gate:not-a-real-one@127.0.0.1:{port}/0")
    with pytest.raises(StoreUnavailable, match=r"certificate|[Hh]ostname"):
        RedisStore(f"rediss://gate:not-a-real-one@[::ffff:127.0.0.1]:{port}/0?ssl_ca_certs={cert}")


def test_missing_rights_and_wrong_passwords_are_reported(
    guarded: tuple[RedisServer, int, Path], tmp_path: Path
) -> None:
    server, _, _ = guarded
    place = f"127.0.0.1:{server.port}/0"
    with pytest.raises(StoreUnavailable, match="password") as told:
        RedisStore(f"redis://gate:wrong-one@{place}")
    assert "wrong-one" not in str(told.value)
    with pytest.raises(StoreError, match="permission"):
        RedisStore(f"redis://gate:not-a-real-one@{place}?prefix=others")
    with pytest.raises(ConfigError, match="password file"):
        RedisStore(f"redis://gate@{place}?password_file={tmp_path / 'none'}")


@pytest.mark.parametrize("query", ["pool=1", "pool=many", "replicas=-1", "no_such_parameter=1", "socket_timeout=soon"])
def test_a_parameter_that_cannot_be_used_is_named(redis_server: RedisServer, query: str) -> None:
    with pytest.raises(ConfigError, match=query.partition("=")[0]):
        RedisStore(f"{redis_server.url()}&{query}")
