"""A decision that could not be written to disk is no answer: it is taken back, or the error names it."""

import errno
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from redis import exceptions as faults

from callosum.bootclock import boot_id
from callosum.client import CallosumClient
from callosum.errors import GateUnavailable, StoreUnavailable, Unconfirmed
from callosum.gate import LocalGate
from callosum.guards import guard
from callosum.model import Call, Event, Kind, Outcome, State, Verdict
from callosum.rulebook import Rulebook
from callosum.settings import Settings
from callosum.stdio import briefs_of, serve
from callosum.stores.base import Store
from callosum.stores.postgres import PostgresStore
from callosum.stores.postgres import connections as postgres_connections
from callosum.stores.postgres.pipeline import Pipeline
from callosum.stores.redis import RedisStore
from callosum.stores.redis import connection as redis_connection
from callosum.stores.redis import deadline as redis_deadline
from callosum.stores.redis.transaction import RedisTransaction
from callosum.stores.sqlite import connection
from tests.support.redis_server import RedisServer, recent_binary
from tests.support.redis_server import serving as serving_redis
from tests.support.serving import hosted, until
from tests.support.threads import all_at_once

DELETE = {"repository": "acme/site"}
KEY = "repo:acme/site"
REPLY = {"action": "send", "target": "andy", "replyTo": "m-1", "message": "On it, I will look into it"}


class Disk:
    """A disk whose syncs fail while it is ``broken``, after the log was written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken = False
        self.failed = 0
        real = os.fdatasync

        def sync(descriptor: int) -> None:
            if self.broken:
                self.failed += 1
                raise OSError(errno.EIO, "Input/output error")
            real(descriptor)

        monkeypatch.setattr(connection, "_fdatasync", sync)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def gate(disk: Disk, tmp_path: Path) -> Iterator[LocalGate]:
    with LocalGate(tmp_path / "state") as made:
        yield made


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    yield from serving_redis()


def delete(who: str, **more: Any) -> Call:
    return Call(who, "delete_repository", DELETE, **more)


def assert_nothing_is_open(gate: LocalGate) -> None:
    status = gate.status()
    assert not status.locks
    assert not status.unknown
    assert not status.asked
    decision = gate.intercept(delete("doug"))
    assert decision.verdict is Verdict.ALLOW, decision
    assert gate.complete("doug", id=decision.id).ok


def test_call_whose_sync_fails_is_taken_back(gate: LocalGate, disk: Disk) -> None:
    disk.broken = True
    with pytest.raises(Unconfirmed, match="taken back") as caught:
        gate.intercept(delete("mira", call_id="c-1"))
    assert caught.value.id is None
    disk.broken = False
    opened, undone = gate.entries()
    assert (opened.event, undone.event, undone.outcome) == (Event.INTERCEPT, Event.COMPLETE, Outcome.CANCELLED)
    assert undone.action == opened.seq
    assert "taken back" in undone.body["note"]
    assert_nothing_is_open(gate)


def test_lock_whose_sync_fails_is_taken_back(gate: LocalGate, disk: Disk) -> None:
    disk.broken = True
    with pytest.raises(Unconfirmed, match="taken back"):
        gate.lock("mira", KEY, 4)
    disk.broken = False
    assert [(one.event, one.outcome) for one in gate.entries()] == [
        (Event.LOCK, None),
        (Event.RELEASE, Outcome.CANCELLED),
    ]
    assert_nothing_is_open(gate)


def test_call_whose_sync_fails_may_be_repeated_under_its_id(gate: LocalGate, disk: Disk) -> None:
    disk.broken = True
    with pytest.raises(Unconfirmed):
        gate.intercept(delete("mira", call_id="c-1"))
    disk.broken = False
    again = gate.intercept(delete("mira", call_id="c-1"))
    assert (again.verdict, again.repeated) == (Verdict.ALLOW, False)
    assert [lock.id for lock in gate.status().locks] == [again.id]


def test_session_is_notified_again_if_the_first_notification_was_lost(gate: LocalGate, disk: Disk) -> None:
    gate.intercept(Call("doug", "message", REPLY))
    asked = Call("mira", "message", REPLY, pause=True)
    disk.broken = True
    with pytest.raises(Unconfirmed, match="taken back"):
        gate.intercept(asked)
    disk.broken = False
    first = gate.intercept(asked)
    assert (first.verdict, first.conflicts[0].kind) == (Verdict.CONFIRM, Kind.DUPLICATE)


def test_notification_that_arrived_counts(gate: LocalGate) -> None:
    """The negative control: the repeat goes through."""
    gate.intercept(Call("doug", "message", REPLY))
    assert gate.intercept(Call("mira", "message", REPLY, pause=True, call_id="c-1")).verdict is Verdict.CONFIRM
    repeat = Call("mira", "message", REPLY, pause=True, call_id="c-2", run="next turn", after=2**62)
    assert gate.intercept(repeat).proceed


def test_error_names_the_decision_if_the_store_does_not_write_either(
    gate: LocalGate, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.broken = True
    real = gate.store.transact

    def transact(requests: Any) -> Any:
        if disk.failed:
            raise StoreUnavailable("no room left")
        return real(requests)

    monkeypatch.setattr(gate.store, "transact", transact)
    with pytest.raises(Unconfirmed, match="may be in force") as caught:
        gate.intercept(delete("mira"))
    monkeypatch.undo()
    disk.broken = False
    (opened,) = gate.entries()
    assert caught.value.id == opened.seq
    held = gate.intercept(delete("doug"))
    assert held.verdict is Verdict.BLOCK
    assert gate.complete("mira", id=opened.seq, outcome="cancelled").ok
    assert_nothing_is_open(gate)


def test_repeated_answer_that_cannot_be_confirmed_is_not_taken_back(gate: LocalGate, disk: Disk) -> None:
    first = gate.intercept(delete("mira", call_id="c-1"))
    gate.intercept(Call("anna", "message", {"action": "send", "target": "general", "message": "Hello"}))
    disk.broken = True
    with pytest.raises(Unconfirmed) as caught:
        gate.intercept(delete("mira", call_id="c-1"))
    assert caught.value.id == first.id
    disk.broken = False
    assert [lock.id for lock in gate.status().locks] == [first.id]


def test_renewal_that_cannot_be_confirmed_names_its_action(gate: LocalGate, disk: Disk) -> None:
    decision = gate.intercept(delete("mira"))
    disk.broken = True
    with pytest.raises(Unconfirmed) as caught:
        gate.renew("mira", decision.id)
    assert caught.value.id == decision.id


def test_guard_does_not_run_an_unconfirmed_call(gate: LocalGate, disk: Disk) -> None:
    disk.broken = True
    with pytest.raises(GateUnavailable), guard(gate, delete("mira")):
        pytest.fail("it ran")
    disk.broken = False
    assert_nothing_is_open(gate)


@pytest.mark.parametrize("crowd", [1, 8])
def test_server_takes_back_an_unconfirmed_decision(gate: LocalGate, disk: Disk, tmp_path: Path, crowd: int) -> None:
    faults: list[Exception] = []

    def ask(number: int) -> None:
        with CallosumClient(address, deadline=5.0) as client:
            try:
                client.intercept(Call(f"mira{number}", "delete_repository", {"repository": f"acme/site{number}"}))
            except (StoreUnavailable, GateUnavailable) as error:  # the latter on a machine that is slow
                faults.append(error)

    with hosted(gate, tmp_path / "state") as address:
        with CallosumClient(address, deadline=5.0) as client:
            assert client.intercept(delete("mira")).proceed
            assert client.complete("mira", context_key=KEY).ok
        disk.broken = True
        all_at_once([partial(ask, number) for number in range(crowd)])
        disk.broken = False
        assert len(faults) == crowd
        assert all("taken back" in str(fault) for fault in faults if isinstance(fault, StoreUnavailable)), faults
        until(lambda: not gate.status().locks)
        with CallosumClient(address, deadline=5.0) as client:
            for number in range(crowd):
                other = Call("doug", "delete_repository", {"repository": f"acme/site{number}"})
                assert client.intercept(other).verdict is Verdict.ALLOW


def test_server_names_a_decision_that_it_cannot_take_back(
    gate: LocalGate, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = gate.store.attempt  # type: ignore[attr-defined]

    def attempt(requests: Any) -> Any:
        if disk.failed:
            raise StoreUnavailable("no room left")
        return real(requests)

    with hosted(gate, tmp_path / "state") as address, CallosumClient(address, deadline=5.0) as client:
        assert client.health()["status"] == "ok"
        disk.broken = True
        with monkeypatch.context() as patched:
            patched.setattr(gate.store, "attempt", attempt)
            answer = client._transport.request(
                "POST", "/intercept", json.dumps({"instance": "mira", "tool": "delete_repository", "params": DELETE}).encode(),
                deadline=client._clock() + 20,
            )  # fmt: skip
        disk.broken = False
        fault = json.loads(answer.body)
        assert (answer.status, fault["at"]) == (503, "store")
        (opened,) = gate.store.live("default", (State.OPEN,))
        assert fault["id"] == opened.id
        assert client.complete("mira", id=fault["id"], outcome="cancelled").ok
    assert_nothing_is_open(gate)


class Pipe:
    """A channel of ``callosum stdio`` in memory."""

    def __init__(self, *lines: dict[str, Any]) -> None:
        self.left = [json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in lines]
        self.answers: list[dict[str, Any]] = []

    def read(self) -> bytes:
        return self.left.pop(0) if self.left else b""

    def write(self, data: bytes) -> None:
        self.answers += [json.loads(line) for line in data.splitlines()]

    def gone(self) -> bool:
        return False

    def stop(self) -> None:
        self.left.clear()


def test_child_on_pipes_takes_back_an_unconfirmed_decision(gate: LocalGate, disk: Disk) -> None:
    disk.broken = True
    asked = {"instance": "mira", "tool": "delete_repository", "params": DELETE}
    pipe = Pipe({"id": 1, "method": "intercept", "params": asked})
    assert serve(gate, briefs_of(gate), pipe)
    (answer,) = pipe.answers
    assert (answer["error"]["code"], answer["error"]["data"]) == (-32000, {"kind": "Unconfirmed"})
    assert "taken back" in answer["error"]["message"]
    disk.broken = False
    assert_nothing_is_open(gate)


def test_child_on_pipes_decides_nothing_that_has_expired(gate: LocalGate) -> None:
    late = {"instance": "mira", "timeoutMs": 60_000, "deadline": f"{boot_id()}:0.5"}
    pipe = Pipe(
        {"id": 1, "method": "intercept", "params": {**late, "tool": "delete_repository", "params": DELETE}},
        {"id": 2, "method": "lock", "params": {**late, "contextKey": KEY, "tier": 4}},
    )
    assert serve(gate, briefs_of(gate), pipe)
    assert [one["error"]["data"]["kind"] for one in pipe.answers] == ["Expired", "Expired"]
    assert [one.body["reason"] for one in gate.entries()] == ["expired", "expired"]
    assert_nothing_is_open(gate)


def gate_over(store: Store, folder: Path) -> LocalGate:
    settings = Settings(state=folder)
    return LocalGate(settings=settings, store=store, rules=Rulebook.of(settings, secret=b"s" * 32))


def test_redis_that_did_not_write_its_log_in_time_takes_the_decision_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = RedisServer(tmp_path, fsync="everysec", program=recent_binary())
    try:
        with gate_over(RedisStore(machine.url()), tmp_path) as gate:
            with machine.client() as client:
                client.config_set("appendfsync", "no")
            monkeypatch.setattr(redis_connection, "_SYNC", 200)
            with pytest.raises(Unconfirmed, match="taken back"):
                gate.intercept(delete("mira", call_id="c-1"))
            with pytest.raises(Unconfirmed, match="taken back"):
                gate.lock("mira", KEY, 4)
            with machine.client() as client:
                client.config_set("appendfsync", "everysec")
            monkeypatch.undo()
            assert_nothing_is_open(gate)
    finally:
        machine.stop()


def test_redis_that_is_lost_after_a_change_was_sent_may_have_made_it(
    own_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_deadline, "PATIENCE", 0.2)
    with gate_over(RedisStore(own_redis.url()), tmp_path) as gate:
        first = gate.intercept(Call("anna", "message", REPLY))
        sent = redis_connection._answer

        def loses(connection: Any) -> Any:
            sent(connection)
            raise faults.ConnectionError("the network is gone")

        apply = RedisTransaction._send

        def applies(self: RedisTransaction, *given: Any) -> Any:
            patched.setattr(redis_connection, "_answer", loses)
            return apply(self, *given)

        with monkeypatch.context() as patched:
            patched.setattr(RedisTransaction, "_send", applies)
            with pytest.raises(Unconfirmed, match="may be in force") as caught:
                gate.lock("mira", KEY, 4)
        (lock,) = [one for one in gate.status().locks if one.id != first.id]
        assert caught.value.id == lock.id


def test_unreachable_redis_has_made_no_change(own_redis: RedisServer, tmp_path: Path) -> None:
    """Negative control: nothing was sent, so nothing can be in force."""
    with gate_over(RedisStore(own_redis.url()), tmp_path) as gate:
        own_redis.stop()
        with pytest.raises(StoreUnavailable) as caught:
            gate.lock("mira", KEY, 4)
        assert not isinstance(caught.value, Unconfirmed)


@pytest.mark.parametrize("arrives", [True, False])
def test_postgres_that_is_lost_with_the_commit_may_have_made_it(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    send = Pipeline.send
    gone = False

    def loses(line: Pipeline, query: str, params: object = None) -> object:
        nonlocal gone
        if gone or query == "commit":
            if not gone and arrives:
                send(line, query)
                line.sync()
            gone = True
            line.close()
            raise psycopg.OperationalError("the network is gone")
        return send(line, query, params)  # type: ignore[arg-type]

    with gate_over(PostgresStore(postgres_url), tmp_path) as gate:
        assert gate.lock("anna", "doc:warm", 4).acquired
        with monkeypatch.context() as patched:
            patched.setattr(postgres_connections, "PATIENCE", 0.5)
            patched.setattr(Pipeline, "send", loses)
            with pytest.raises(Unconfirmed, match="may be in force") as caught:
                gate.lock("mira", "doc:warm2", 4)
        locks = [one.id for one in gate.status().locks if one.instance.startswith("mira/")]
        assert locks == ([caught.value.id] if arrives else [])
