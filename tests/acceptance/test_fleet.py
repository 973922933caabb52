"""Two servers on one store behind a plain balancer: whichever of them answers, nothing is lost and nobody overtaken.

Beside the race stands its negative control: the same race through servers over a store that looks in one transaction
and writes in another. It must be caught.
"""

import queue
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from callosum.client import CallosumClient
from callosum.corpus.entry_events import OpeningCalls
from callosum.gate import LocalGate
from callosum.model import Call
from callosum.server.replay_buffer import id_of, items_of
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Role, Tokens
from callosum.settings import Settings
from callosum.stores.base import Notifying, Request, Store
from callosum.stores.sqlite import SqliteStore
from tests.support.crowd import crowd
from tests.support.fleet import Balancer, Fleet, Late, fleet
from tests.support.postgres import Server as PostgresServer
from tests.support.postgres import schema_of
from tests.support.racing import Counts, Seen, Torn, caught, check, hold, in_processes, tries
from tests.support.redis_server import RedisServer
from tests.support.serving import Server, hosted, until
from tests.support.world import RULES

SESSIONS = 10
NewStore = Callable[[], str]


@pytest.fixture(params=("file", "postgres", "redis"), scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[NewStore]:
    """Makes new stores of one engine; "" stands for a file that servers of one machine share."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        urls: list[str] = []

        def make() -> str:
            urls.append(server.url())
            return urls[-1]

        yield make
        for url in urls:
            server.drop(schema_of(url))
    elif request.param == "redis":
        redis: RedisServer = request.getfixturevalue("redis_server")
        yield redis.url
    else:
        yield str


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, engine: NewStore) -> Iterator[Fleet]:
    """Two servers, for the tests that stop none; each test has keys of its own."""
    with fleet(tmp_path_factory.mktemp("fleet"), engine()) as found:
        yield found


def complete(server: Server, who: str, id: int) -> None:
    assert server.post("/complete", {"instance": who, "id": id})["ok"]


def test_call_allowed_by_one_server_is_known_to_every_server(two: Fleet) -> None:
    """Lease, call id, renewal, question, answer and report: each through the other server."""
    one, other = two.servers
    held = two.ask(one, "mira", "act4", "plan", "call-1", dispatch="d")
    assert held["proceed"]
    again = two.ask(other, "mira", "act4", "plan", "call-1", dispatch="d")
    assert (again["id"], again["repeated"], again["lease"]["token"]) == (held["id"], True, held["lease"]["token"])
    assert two.ask(other, "doug", "act4", "plan", "call-2")["verdict"] == "block"
    renewed = other.post("/renew", {"instance": "mira", "id": held["id"], "ttl": 900})
    assert renewed["lease"]["token"] == held["lease"]["token"]
    assert one.get("/status?contextKey=doc:plan")["locks"][0]["expires"] == renewed["lease"]["expires"]
    complete(other, "mira", held["id"])
    assert one.get("/status?contextKey=doc:plan")["locks"] == []
    asked = two.ask(one, "mira", "asked", "else", "call-3")
    assert asked["verdict"] == "ask"
    secret = Tokens(other.state / TOKENS).add("anna", role=Role.APPROVER)
    until(lambda: other.ask("GET", "/health", token=secret).status == 200)
    assert other.post(f"/approvals/{asked['id']}", {"approve": True}, token=secret)["ok"]
    assert two.ask(one, "mira", "asked", "else", "call-4")["proceed"]


def test_a_wait_at_one_server_ends_when_the_other_ends_the_lease(two: Fleet) -> None:
    """To and fro. Found by looking now and then, it would take very many looks, or many seconds."""
    who, at = ["mira", "doug"], list(two.servers)
    held = two.ask(at[0], who[0], "now4", "/turns", "first")
    before = sum(two.looks(server) for server in two.servers)
    for number in range(20):
        waiter = Late(partial(two.ask, at[1], who[1], "now4", "/turns", f"turn-{number}", wait=30))
        two.waiting(1, "file:/turns")
        complete(at[0], who[0], held["id"])
        held = waiter.answer(5)
        assert held["proceed"]
        who.reverse()
        at.reverse()
    asked = sum(two.looks(server) for server in two.servers) - before
    assert asked <= 20 * 10, "to take a place, to end, to be let in, and the few looks of who is not told"


def test_store_shared_by_several_machines_sends_notifications(engine: NewStore, tmp_path: Path) -> None:
    """Of what ended, through whichever process, and to the keys on which it did. A prolonged place is no news."""
    url = engine()
    if not url:
        assert not hasattr(SqliteStore, "listen"), "a file tells nobody: its servers look four times a second"
        return
    (tmp_path / "rules.json").write_text(RULES)
    words: queue.Queue[tuple[str | None, tuple[str, ...]]] = queue.Queue()
    settings = Settings(state=tmp_path, store=url, rules=tmp_path / "rules.json")
    with LocalGate(settings=settings) as mine, LocalGate(settings=settings) as other:
        waking = cast("Notifying", mine.store)
        end = waking.listen(lambda namespace, keys: words.put((namespace, keys)))
        assert words.get(timeout=10) == (None, ()), "from here on word arrives"
        assert waking.is_connected()
        assert other.lock("mira", "file:/k", ttl=60, namespace="work").acquired
        waiter = Late(lambda: other.intercept(waits("doug", "/k", namespace="work")))
        (place,) = until(lambda: mine.status("file:/k", namespace="work").waiting)
        until(lambda: mine.status("file:/k", namespace="work").waiting[0].expires > place.expires)
        assert words.empty()
        assert other.release("mira", "file:/k", namespace="work").ok
        assert words.get(timeout=10) == ("work", ("file:/k",))
        decision = waiter.answer()
        end()
        assert other.complete("doug", id=decision.id, namespace="work").ok


def waits(who: str, on: str, **more: Any) -> Call:
    return Call(who, "now4", {"on": on}, wait=30, **more)


def test_queue_keeps_one_order_over_all_servers(two: Fleet) -> None:
    held = two.ask(two.servers[0], "mira", "now4", "/line", "line")
    order: list[int] = []
    waiters = []

    def wait(number: int) -> None:
        server, another = two.servers[number % 2], two.servers[(number + 1) % 2]
        decision = two.ask(server, f"s{number}", "now4", "/line", f"line-{number}", wait=30)
        assert decision["proceed"], decision
        order.append(number)
        complete(another, f"s{number}", decision["id"])

    for number in range(8):
        waiters.append(Late(partial(wait, number)))
        two.waiting(number + 1, "file:/line")
    complete(two.servers[1], "mira", held["id"])
    for waiter in waiters:
        waiter.answer()
    assert order == list(range(8))


def test_waiter_that_disconnects_delays_no_other_waiter(two: Fleet) -> None:
    """The place of a waiter whose client is gone ends with its connection, not when it runs out seconds later."""
    one, other = two.servers
    held = two.ask(one, "mira", "now4", "/hang", "hang")
    gone = socket.create_connection(one.host_and_port)
    body = b'{"instance":"gone","tool":"now4","params":{"on":"/hang"},"callId":"gone","wait":60}'
    gone.sendall(b"POST /intercept HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    two.waiting(1, "file:/hang")
    after = Late(partial(two.ask, other, "anna", "now4", "/hang", "after", wait=30))
    two.waiting(2, "file:/hang")
    gone.close()
    two.waiting(1, "file:/hang")
    complete(other, "mira", held["id"])
    assert after.answer()["proceed"]
    entries = other.get("/journal?limit=500&session=gone")["entries"]
    assert [entry["event"] for entry in entries] in (["queue", "lapse"], ["queue", "refuse"]), (
        entries
    )  # who looks first
    assert entries[1]["seq"] - entries[0]["seq"] < 3_000_000, "it ran out by itself"


def test_stream_of_one_server_shows_decisions_of_all_servers(two: Fleet) -> None:
    one, other = two.servers
    with CallosumClient(one.address) as client, client.events("safety.*") as stream:
        wanted = {other.post("/intercept", call("mira", "act3", f"read-{number}"))["id"] for number in range(5)}
        wanted |= {one.post("/intercept", call("mira", "act3", f"other-{number}"))["id"] for number in range(5)}

        def read() -> None:
            while wanted:
                wanted.discard(int(next(stream).id.partition(".")[0]))

        Late(read).answer(20)


def call(who: str, tool: str, on: str, **more: Any) -> dict[str, Any]:
    return {"instance": who, "tool": tool, "params": {"on": on}, "callId": f"{who} {tool} {on}", **more}


def test_stopping_server_sends_waiters_and_readers_to_another_server(tmp_path: Path, engine: NewStore) -> None:
    """At the other server each waiter has the place it had, and the reader misses nothing and sees nothing twice."""
    with fleet(tmp_path, engine()) as two, CallosumClient(two.url) as client:
        before = list(two.balancer.taken)
        admitted: list[str] = []
        seen: list[str] = []

        def wait(who: str) -> None:
            with CallosumClient(two.url) as own:
                decision = own.intercept(Call(who, "now4", {"on": "/k"}, wait=30))
                assert decision.proceed, decision
                admitted.append(who)
                assert own.complete(who, id=decision.id).ok

        with client.events("safety.*") as stream:
            at = next(number for number, count in enumerate(two.balancer.taken) if count > before[number])
            ends, stays = two.servers[at], two.servers[1 - at]

            def read() -> None:
                while (wanted := journalled(stays)) != seen:
                    assert len(seen) < len(wanted), (seen, wanted)
                    seen.append(next(stream).id)

            held = two.ask(ends, "mira", "now4", "/k", "held")
            Late(read).answer(20)
            waiters = []
            for number in range(6):
                waiters.append(Late(partial(wait, f"s{number}")))
                two.waiting(number + 1, "file:/k")
            line = queued_calls(stays)
            assert ends.stop() == 0
            later = line[-1]["at"] + 4  # a place that nobody keeps has run out by then
            until(lambda: min(place["expires"] for place in queued_calls(stays)) > later)
            assert [place["id"] for place in queued_calls(stays)] == [place["id"] for place in line]
            assert not admitted
            assert stays.get("/status?contextKey=file:/k")["locks"][0]["instance"] == "mira"
            complete(stays, "mira", held["id"])
            for waiter in waiters:
                waiter.answer()
            assert admitted == [f"s{number}" for number in range(6)]
            Late(read).answer(20)
        assert stays.get("/status?contextKey=file:/k")["locks"] == []


def queued_calls(server: Server) -> list[dict[str, Any]]:
    """Who waits for the key, as they stand in line."""
    found: list[dict[str, Any]] = server.get("/status?contextKey=file:/k")["waiting"]
    return found


def journalled(server: Server) -> list[str]:
    """The ids of the safety events of the whole journal."""
    with CallosumClient(server.address) as client:
        entries = client.journal(limit=500).entries
    calls = OpeningCalls()
    return [id_of(item.position) for entry in entries for item in items_of(entry, calls) if item.safe]


def test_stopping_server_announces_it_before_it_ends(tmp_path: Path) -> None:
    """While it drains, its health is red and calls are answered; who would wait is sent on. A second signal ends it."""
    with fleet(tmp_path, "", "--drain", "60", count=1) as one:
        (server,) = one.servers
        held = one.ask(server, "mira", "now4", "/k", "first")
        waiter = Late(partial(server.ask, "POST", "/intercept", call("doug", "now4", "/k", wait=30)))
        one.waiting(1, "file:/k")
        server.process.terminate()
        sent_on = waiter.answer(10)
        assert (sent_on.status, sent_on.headers["Retry-After"]) == (503, "1")
        health = server.ask("GET", "/health")
        assert (health.status, health.body["status"]) == (503, "stopping")
        assert server.ask("POST", "/intercept", call("doug", "now4", "/k", wait=30)).status == 503
        answer = server.ask("POST", "/complete", {"instance": "mira", "id": held["id"]})
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
        server.process.terminate()
        assert server.process.wait(10) == 0


class TornFile(Torn, SqliteStore):
    """Over a file."""

    def attempt(self, requests: Sequence[Request]) -> None:
        """What the server's writer would try, past the tear: never."""


def racer(url: str, me: str, folder: str, attempts: int, results: Any, start: Any) -> None:
    """One process, which asks the balancer. Tells what it saw."""
    counts = Counts()
    with CallosumClient(url, deadline=20) as client:
        start.wait()
        try:
            for number in tries(attempts, counts):
                decision = client.intercept(Call(me, "now4", {"on": "/race"}, call_id=f"{me}-{number}"))
                if decision.proceed:
                    hold(Path(folder) / "held", counts, client)
                    check(client.complete(me, id=decision.id), client, me, "/race", counts)
        finally:
            results.put(counts.seen())


def race(folder: Path, url: str, attempts: int) -> list[Seen]:
    return in_processes(6, racer, lambda number: (url, f"s{number}", str(folder), attempts))


def test_one_holder_at_a_time_through_two_servers(tmp_path: Path, two: Fleet) -> None:
    seen = race(tmp_path, two.url, 25)
    assert sum(one.together + one.lost for one in seen) == 0
    assert min(one.admitted for one in seen) > 0, "somebody never had a turn"
    assert min(two.balancer.taken) > 0, "one server had nothing to do"
    assert two.servers[0].get("/status?contextKey=file:/race")["locks"] == []


def test_servers_over_a_store_without_transactions_are_detected(tmp_path: Path, engine: NewStore) -> None:
    """The negative control."""
    (tmp_path / "rules.json").write_text(RULES)

    def through_two(folder: Path) -> list[Seen]:
        make = torn(engine(), folder)
        with ExitStack() as stack:
            places = []
            for name in ("one", "other"):
                (folder / name).mkdir()
                settings = Settings(state=folder / name, rules=tmp_path / "rules.json")
                gate = stack.enter_context(LocalGate(settings=settings, store=make()))
                host, _, port = stack.enter_context(hosted(gate, folder / name)).partition("://")[2].partition(":")
                places.append((host, int(port)))
            return race(folder, stack.enter_context(Balancer(places)).url, 10)

    assert caught(tmp_path, through_two)


def torn(store: str, folder: Path) -> Callable[[], Store]:
    if store.startswith("postgresql"):
        from callosum.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra

        return lambda: type("TornPostgres", (Torn, PostgresStore), {})(store)
    if store:
        from callosum.stores.redis import RedisStore  # noqa: PLC0415 - an extra

        return lambda: type("TornRedis", (Torn, RedisStore), {})(store)
    return lambda: TornFile(folder / "torn.db")


REPORT = "The nightly report is ready: twelve jobs ran, none of them failed, the longest took an hour."
PULL = {"owner": "o", "repo": "r", "title": "Add the missing retry to the uploader", "head": "x", "base": "main"}
ONCE: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "one heartbeat in every session (openclaw#56643)": (
        "message", {"action": "send", "target": "#ops", "message": REPORT}, {},
    ),
    "one cron run in several texts (openclaw#40178)": (
        "message", {"action": "send", "target": "#cron", "message": "Run {n} says: {text}"}, {"origin": "cron-run-5"},
    ),
    "the same pull request by each agent (hive#5111)": ("mcp__github__create_pull_request", PULL, {}),
    "the same merge by each agent (commonly#889)": (
        "mcp__github__merge_pull_request", {"owner": "o", "repo": "r", "pull_number": 5}, {},
    ),
    "one migration by all worktrees (agentglass#118)": (
        "Bash", {"command": "alembic upgrade head"}, {"cwd": "/repo/.worktrees/{n}"},
    ),
}  # fmt: skip
"""What must happen once, whoever does it: the tool, its params, and the rest of the call."""


def session(url: str, number: int, folder: str, results: Any, start: Any) -> None:
    """One agent session. Puts what the gate acknowledged: ids of decisions and of reports, and what it did."""
    me, world = f"agent-{number}", Path(folder)
    decided, reported, did = [], [], []
    with CallosumClient(url, deadline=20) as client:
        for name, (tool, params, more) in ONCE.items():
            start.wait()
            said = {
                key: value.format(n=number, text=REPORT[number:]) if isinstance(value, str) else value
                for key, value in params.items()
            }
            rest = {key: value.format(n=number) for key, value in more.items()}
            decision = client.intercept(Call(me, tool, said, call_id=f"{me} {name}", pause=True, **rest))
            decided.append(decision.id)
            if decision.proceed:
                did.append(name)
                assert client.complete(me, id=decision.id).ok
                reported.append(decision.id)
        start.wait()  # one tracking file for all subagents (claude-code#47905): each in its turn
        while not (lock := client.lock(me, "file:/repo/progress.md", ttl=60)).acquired:
            threading.Event().wait(0.01)
        decided.append(lock.id or 0)
        file = world / "progress.md"
        before = file.read_text()
        file.write_text(f"{before}{me} done\n")
        assert client.release(me, "file:/repo/progress.md").ok
    results.put((decided, reported, did))


def test_ten_sessions_replay_the_incidents(tmp_path: Path, engine: NewStore) -> None:
    """One of the servers is stopped while they do. The rules are the ones that ship."""
    (tmp_path / "progress.md").write_text("")
    with fleet(tmp_path, engine(), "--drain", "1", rules=None) as two:
        ends, stays = two.servers
        stopped = Late(lambda: (until(lambda: two.looks(stays) > 30), ends.stop())[1])
        seen = in_processes(SESSIONS, session, lambda number: (two.url, number, str(tmp_path)))
        assert stopped.answer() == 0
        entries = everything(stays)
        live = stays.get("/status")
    assert {name: sum(name in did for _, _, did in seen) for name in ONCE} == dict.fromkeys(ONCE, 1)
    known = {entry["seq"] for entry in entries}
    ended = {entry["action"] for entry in entries if entry["event"] == "complete"}
    assert not {id for decided, _, _ in seen for id in decided} - known, "what was acknowledged is in the journal"
    assert not {id for _, reported, _ in seen for id in reported} - ended
    lines = (tmp_path / "progress.md").read_text().splitlines()
    assert sorted(lines) == sorted(f"agent-{number} done" for number in range(SESSIONS)), "nobody's line was lost"
    assert live["locks"] == []


def everything(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    while page := server.get(f"/journal?limit=500&cursor={cursor}"):
        found += page["entries"]
        cursor = page["cursor"]
        if not page["entries"]:
            return found
    raise AssertionError("no page")


def test_crowd_waiting_for_one_key_is_let_in_in_order_of_arrival(tmp_path: Path) -> None:
    """``python -m tests.support.crowd 10000`` has ten thousand wait."""
    seen = crowd(tmp_path, 300)
    assert seen.order == list(range(300)), seen.others
    assert seen.looks <= 300 * 5, "a place in the crowd costs the store no more than a place behind one"
