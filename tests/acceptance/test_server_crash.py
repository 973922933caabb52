"""``kill -9`` of a server under load, again and again: no acknowledged decision is lost or made twice."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from callosum.stores.sqlite import SqliteStore
from tests.support.loading import Load, Record, Reply, Request, assert_all_there
from tests.support.serving import Server, launch
from tests.support.world import RULES

KILLS = 20
SESSIONS = 6
ANSWERS = (20, 120)
"""How many answers a server gives before it is killed: at least and at most."""


def test_kill_under_load_loses_no_acknowledged_decision(tmp_path: Path) -> None:
    load, record = Load(SESSIONS), Record()
    chance = random.Random(20)
    checked = 0
    for _ in range(KILLS):
        with launched(tmp_path) as server:
            record.read(server)
            answers = load.answers()
            assert_all_there(answers[checked:], record)
            asked_again(server, answers[checked:], record)
            checked = len(answers)
            load.start(server)
            load.after(chance.randint(*ANSWERS))
        load.join()
    with launched(tmp_path) as server:
        load.start(server)  # pending requests are sent again and the sessions continue
        load.after(SESSIONS * 5)
        load.finish()
        record.read(server)
        assert_all_there(load.answers(), record)
        assert server.stop() == 0
    assert not load.together
    assert not [reply for _, reply in load.answers() if reply.status != 200]
    assert record.let_in_twice() == []
    assert record.held_twice() == []
    asked = Counter(request.body["tool"] for request, _ in load.answers() if request.path == "/intercept")
    assert min(asked[tool] for tool in ("now4", "act3", "send2", "look")) > KILLS
    store = SqliteStore(tmp_path / "state" / "gate.db")
    assert store.check().problems == ()
    store.close()


def test_without_call_ids_a_repeated_call_is_allowed_twice(tmp_path: Path) -> None:
    """Negative control: a client that repeats a call after a crash cannot say that it is the same call."""
    load, record = Load(SESSIONS, call_ids=False), Record()
    for _ in range(5 * KILLS):  # until one falls between a decision and its answer
        with launched(tmp_path) as server:
            load.start(server)
            load.after(ANSWERS[0])
        load.join()
        with launched(tmp_path) as server:
            load.start(server)
            load.after(SESSIONS)
            load.finish()
            record.read(server)
        if record.let_in_twice():
            return
    raise AssertionError("a crash between decision and answer was never seen")


@contextmanager
def launched(folder: Path) -> Iterator[Server]:
    """A server on the folder's state, which is killed at the end of the block unless it has ended."""
    (folder / "rules.json").write_text(RULES)
    server = launch(folder / "state", environ={"CALLOSUM_RULES": str(folder / "rules.json")})
    try:
        yield server
    finally:
        server.kill()
    assert "Traceback" not in server.log.read_text()


def asked_again(server: Server, answers: Sequence[tuple[Request, Reply]], record: Record) -> None:
    """Check that a call that was allowed before the crash gets the same decision after it, and runs once.

    A read is decided afresh once it is over.
    """
    asked = [(r, reply) for r, reply in answers if r.path == "/intercept" and reply.body["proceed"]]
    let_in = [(r, reply) for r, reply in asked if reply.body["tier"] or reply.body["id"] not in record.ended]
    for request, reply in let_in[-5:]:
        again = server.post("/intercept", request.body)
        assert (again["id"], again["repeated"]) == (reply.body["id"], True)
        assert again["proceed"] is (again["id"] not in record.ended)
        if again["tier"] >= 3 and again["id"] not in record.ended:
            assert again["lease"]["token"] == reply.body["lease"]["token"]
