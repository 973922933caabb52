"""The server as its clients see it: real processes and plain HTTP."""

import http.client
import json
import multiprocessing
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from prometheus_client.parser import text_string_to_metric_families

from callosum import __version__
from callosum.cli import serve
from callosum.gate import LocalGate
from callosum.model import Call
from callosum.server.tokens import Role, Tokens
from callosum.settings import Settings
from tests.acceptance.command import run
from tests.support.cpu import HANG
from tests.support.loading import LOST, Connection, Load, Record, assert_all_there, journal
from tests.support.serving import Server, serving, until
from tests.support.threads import all_at_once
from tests.support.world import rules_in


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def approver(folder: Path) -> str:
    return Tokens(folder / "state" / "tokens.json").add("anna", role=Role.APPROVER)


@pytest.fixture(scope="module")
def seeds_server(folder: Path) -> Iterator[Server]:
    """Run a server with the shipped rules."""
    with serving(folder / "seeds") as running:
        yield running


@pytest.fixture(scope="module")
def shared(folder: Path, approver: str) -> Iterator[Server]:
    """Run a server with the tests' rules, shared by all tests that do not stop it; each has its own namespace."""
    with serving(folder / "state", environ=rules_in(folder)) as running:
        yield running


@pytest.fixture
def server(shared: Server, request: pytest.FixtureRequest) -> "Namespace":
    return Namespace(shared, request.node.name)


class Namespace:
    """A server, and short methods for the requests of sessions in one namespace."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self._number = 0

    def post(self, path: str, **fields: Any) -> Any:
        return self.server.post(path, {"namespace": self.name, **fields})

    def get(self, path: str, **query: Any) -> Any:
        said = "".join(f"&{name}={quote(str(value), safe='')}" for name, value in query.items())
        return self.server.get(f"{path}?namespace={quote(self.name)}{said}")

    def ask(self, who: str, tool: str, on: str, **more: Any) -> Any:
        """Send an intercept, with a new call id unless one is given."""
        self._number += 1
        params = {"on": on, **more.pop("params", {})}
        return self.post(
            "/intercept", **{"instance": who, "tool": tool, "params": params, "callId": f"c{self._number}", **more}
        )

    def release(self, who: str, key: str, path: str = "") -> Any:
        path = path or f"/lock/{quote(key, safe='')}"
        answer = self.server.ask("DELETE", path, {"instance": who, "namespace": self.name})
        assert answer.status == 200, answer.text
        return answer.body


def test_a_client_of_the_original_program_is_served_unchanged(tmp_path: Path) -> None:
    """The original's requests, field by field: its demonstration, its ``execute`` and its ``release``."""
    thread = "thread:andy:msg-500"
    with serving(tmp_path / "original") as server:

        def intercept(who: str, tool: str, action: str, **params: Any) -> Any:
            return server.post("/intercept", {"instance": who, "tool": tool, "action": action, "params": params})

        def complete(who: str, asked: Any, result: Any) -> Any:
            body = {"instance": who, "contextKey": asked["contextKey"], "id": asked["id"], "result": result}
            return server.post("/complete", body)

        assert intercept("doug", "web_search", "search", query="weather")["tier"] == 0
        for who, channel in (("doug", "bot-log"), ("mira", "general")):
            sent = intercept(who, "message", "send", target=channel, message="hello")
            assert (sent["proceed"], complete(who, sent, "sent")["ok"]) == (True, True)
        first = intercept("doug", "message", "send", target="andy", replyTo="msg-500", message="I do it")
        assert (first["tier"], complete("doug", first, "replied")["ok"]) == (3, True)
        assert not {"conflicts", "warning"} & set(first)
        second = intercept("mira", "message", "send", target="andy", replyTo="msg-500", message="I do it")
        assert (second["proceed"], second["conflicts"][0]["instance"]) == (True, "doug")
        assert second["warning"].startswith(f'[Callosum] Conflict: doug acted on "{thread}"')
        third = intercept("mira", "message", "delete", _contextKey=thread, messageId="msg-500")
        assert (third["proceed"], third["tier"]) == (False, 4)
        assert server.get(f"/status?contextKey={quote(thread)}")["recentActions"]
        promised = intercept("doug", "message", "send", target="email", replyTo="t-99", _commitment=True, message="yes")
        assert (promised["proceed"], promised["tier"]) == (True, 3)
        assert complete("doug", promised, {"error": "refused"})["state"] == "failed"
        final = intercept("doug", "note", "write", note="x", _irreversible=True)
        assert (final["proceed"], final["tier"]) == (True, 4)

        assert server.post("/lock", {"instance": "doug", "contextKey": "k", "tier": 3})["acquired"]
        assert not server.post("/lock", {"instance": "mira", "contextKey": "k", "tier": 3})["acquired"]
        assert server.post("/release", {"instance": "mira", "contextKey": "k"})["ok"] is False
        assert server.post("/release", {"instance": "doug", "contextKey": "k"})["ok"] is True
        assert server.post("/lock", {"instance": "mira", "contextKey": "k", "tier": 3})["acquired"]


def test_locks_of_the_first_api_work(seeds_server: Server) -> None:
    key = "email:thread:abc123"
    held = seeds_server.post("/lock", {"instance": "mira", "contextKey": key, "tier": 4})
    assert held["acquired"] is True
    assert "conflict" not in held
    refused = seeds_server.post("/lock", {"instance": "doug", "contextKey": key, "tier": 3})
    assert refused["acquired"] is False
    assert (refused["conflict"]["instance"], refused["conflict"]["key"]) == ("mira", key)
    (lock,) = seeds_server.get(f"/status?contextKey={key}")["locks"]
    assert (lock["instance"], lock["tier"], lock["lock"]) == ("mira", 4, True)
    assert seeds_server.ask("DELETE", f"/lock/{key}", {"instance": "doug"}).body["ok"] is False
    assert seeds_server.ask("DELETE", f"/%6Cock/{key}", {"instance": "mira"}).body["ok"] is True, "the same path"
    assert seeds_server.post("/lock", {"instance": "doug", "contextKey": key, "tier": 3})["acquired"] is True
    assert seeds_server.ask("DELETE", f"/lock/{key}?instance=doug").body["ok"] is True


KEYS = [
    "thread:andy:msg-500",
    "file:/abs/README.md",
    "channel:#general",
    "doc:a b",
    "doc:a+b",
    "doc:100%",
    "doc:a%2Fb",
    "doc:a/b",
    "doc:?query=1&more",
    "doc:straße 東京 🧠",
    "doc:;,@$!'()*[]",
    'doc:"\\',
    "/",
    "tree:/repo/",
]


@pytest.mark.parametrize("key", KEYS)
def test_every_key_can_be_freed(shared: Server, key: str) -> None:
    space = Namespace(shared, "keys")
    assert space.post("/lock", instance="mira", contextKey=key)["acquired"]
    (lock,) = space.get("/status", contextKey=key)["locks"]
    assert (lock["contextKey"], lock["instance"]) == (key, "mira")
    assert space.release("mira", key)["id"] == lock["id"]
    assert space.get("/status", contextKey=key)["locks"] == []


def test_a_key_is_freed_under_any_of_its_spellings(shared: Server) -> None:
    """The key is shown in the spelling that calls have."""
    space = Namespace(shared, "spelled")
    assert space.post("/lock", instance="mira", contextKey="file:/a//b/../c")["acquired"]
    (lock,) = space.get("/status", contextKey="file:/a/./c")["locks"]
    assert lock["contextKey"] == "file:/a/c"
    assert space.release("mira", "file:/a/d/../c")["id"] == lock["id"]
    assert space.get("/status")["locks"] == []


def test_a_percent_in_a_key_is_not_decoded_twice(server: Namespace) -> None:
    for key in ("doc:a/b", "doc:a%2Fb", "doc:a%252Fb"):
        assert server.post("/lock", instance="mira", contextKey=key)["acquired"]
    assert server.release("mira", "", "/lock/doc:a%252Fb")["ok"]
    left = {lock["contextKey"] for lock in server.get("/status")["locks"]}
    assert left == {"doc:a/b", "doc:a%252Fb"}
    assert server.release("mira", "", "/lock/doc:a/b")["ok"]  # what a path may hold need not be encoded


def test_expired_lease_leaves_an_unknown_outcome_until_it_is_resolved(server: Namespace, approver: str) -> None:
    held = server.ask("mira", "act4", "plan")
    assert server.post("/renew", instance="mira", id=held["id"], ttl=0.05)["ok"]
    until(lambda: server.get("/status").get("unknown"))
    blocked = server.ask("doug", "act4", "plan")
    assert (blocked["proceed"], blocked["conflicts"][0]["kind"]) == (False, "unknown")
    assert f"ask the person to run `callosum resolve {held['id']} --happened`" in blocked["warning"]
    looked = {"id": held["id"], "happened": False, "note": "the page is empty", "namespace": server.name}
    resolved = server.server.post("/resolve", {**looked, "by": "anna"}, token=approver)
    assert (resolved["ok"], resolved["state"]) == (True, "failed")
    assert server.server.post("/resolve", looked, token=approver)["ok"] is False
    assert server.ask("doug", "act4", "plan")["proceed"] is True
    events = [entry["event"] for entry in server.get("/journal")["entries"]]
    assert events == ["intercept", "renew", "lapse", "intercept", "resolve", "intercept"]


class Waiter:
    """A call that waits, on a connection and in a thread of its own."""

    def __init__(self, server: Namespace, who: str, seconds: float = 30) -> None:
        self.who = who
        self.answer: Any = None
        self.status = 0
        body = {"instance": who, "tool": "now4", "params": {"on": "plan"}, "wait": seconds, "namespace": server.name}
        self.connection = http.client.HTTPConnection(*server.server.host_and_port, timeout=40)
        self.connection.request("POST", "/intercept", json.dumps(body))
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        try:
            answer = self.connection.getresponse()
            self.answer, self.status = json.loads(answer.read()), answer.status
        except LOST:
            return
        finally:
            self.connection.close()

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> Any:
        self._thread.join(20)
        assert not self.waits, f"{self.who} still waits"
        return self.answer

    def leave(self) -> None:
        """Close the connection as a killed client does."""
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.join()


def waiters(server: Namespace, *names: str) -> list[Waiter]:
    """Make the waiters queue one after the other."""
    found: list[Waiter] = []
    for name in names:
        found.append(Waiter(server, name))
        until(lambda: len(server.get("/status").get("waiting", ())) == len(found))
    return found


def test_waiters_are_let_in_in_the_order_of_their_arrival(server: Namespace) -> None:
    held = server.ask("mira", "now4", "plan")
    line = waiters(server, "doug", "anna", "zoe")
    waiting = sorted(server.get("/status")["waiting"], key=lambda one: one["at"])
    assert [one["instance"] for one in waiting] == ["doug", "anna", "zoe"]
    overtaker = server.ask("paul", "now4", "plan")
    assert overtaker["proceed"] is False
    for number, waiter in enumerate(line):
        assert all(other.waits for other in line[number:])
        assert server.post("/complete", instance="mira" if number == 0 else line[number - 1].who, id=held["id"])["ok"]
        held = waiter.join()
        assert (held["proceed"], held["tier"]) == (True, 4)
    assert server.get("/status").get("waiting", []) == []


def test_waiter_whose_client_disconnected_leaves_the_queue(server: Namespace) -> None:
    held = server.ask("mira", "now4", "plan")
    gone, next_one = waiters(server, "doug", "anna")
    gone.leave()
    assert server.post("/complete", instance="mira", id=held["id"])["ok"]
    began = time.monotonic()
    assert next_one.join()["proceed"] is True
    assert time.monotonic() - began < HANG
    assert "doug" not in {lock["instance"] for lock in server.get("/status")["locks"]}


def test_call_runs_after_a_person_approves(server: Namespace, approver: str, folder: Path) -> None:
    asked = server.ask("mira", "asked", "plan", params={"text": "The whole text"})
    assert (asked["proceed"], asked["verdict"]) == (False, "ask")
    (waiting,) = server.get("/approvals")["approvals"]
    assert server.get("/approvals", session="mira")["approvals"] == [waiting]
    assert server.get("/approvals", session="doug")["approvals"] == []
    expected = {"id": asked["id"], "instance": "mira", "tool": "asked", "tier": 3, "contextKey": "doc:plan"}
    assert {name: waiting[name] for name in expected} == expected
    assert waiting["params"] == {"on": "plan", "text": "The whole text"}
    assert waiting["warning"] == asked["warning"]

    path = f"/approvals/{asked['id']}"
    said = {"approve": True, "by": "Anna K.", "channel": "console", "namespace": server.name}
    actor = Tokens(folder / "state" / "tokens.json").add("mira-desk", instance="mira")
    until(lambda: server.server.ask("GET", "/health", token=actor).status == 200)
    assert server.server.ask("POST", path, said).status == 401
    refused = server.server.ask("POST", path, said, token=actor)
    assert (refused.status, refused.body["at"]) == (403, "Authorization")
    Tokens(folder / "state" / "tokens.json").remove("mira-desk")  # while it exists, acting over TCP needs one
    until(lambda: server.server.ask("GET", "/health", token=actor).status == 401)
    assert server.get("/approvals")["approvals"], "nobody has decided yet"

    assert server.server.post(path, said, token=approver)["ok"] is True
    assert server.get("/approvals")["approvals"] == []
    assert server.ask("mira", "asked", "plan", params={"text": "Another text"})["verdict"] == "ask"
    assert server.ask("mira", "asked", "plan", params={"text": "The whole text"})["proceed"] is True
    assert server.ask("mira", "asked", "plan", params={"text": "The whole text"})["proceed"] is False, "once"
    (entry,) = [entry for entry in server.get("/journal")["entries"] if entry["event"] == "approve"]
    assert (entry["body"]["by"], entry["body"]["channel"]) == ("Anna K. (token anna)", "console")
    assert entry["action"] == asked["id"]


def test_person_frees_the_lease_of_another_session(server: Namespace, approver: str) -> None:
    server.ask("mira", "act4", "plan")
    path, said = "/lock/doc%3Aplan", {"instance": "doug", "namespace": server.name, "force": True, "by": "Anna"}
    assert server.server.ask("DELETE", path, said).status == 401
    assert server.get("/status")["locks"]
    freed = server.server.ask("DELETE", path, said, token=approver)
    assert (freed.status, freed.body["ok"]) == (200, True)
    assert server.get("/status")["locks"] == []


@pytest.mark.parametrize(
    ("tool", "by", "ends"),
    [("act3", "mira/s2", True), ("act3", "doug", False), ("act4", "mira", False)],
    ids=["own instance", "another instance", "tier 4"],
)
def test_session_without_an_approver_resolves_only_its_own_instance_below_tier_4(
    server: Namespace, approver: str, tool: str, by: str, ends: bool
) -> None:
    lost = server.ask("mira", tool, "plan")
    assert server.post("/complete", instance="mira", id=lost["id"], outcome="unknown")["ok"]
    said = {"id": lost["id"], "happened": False, "namespace": server.name}
    assert server.server.ask("POST", "/resolve", said).status == 401, "whoever speaks for nobody is no person"
    resolved = server.server.post("/resolve", {**said, "by": by})
    assert resolved["ok"] is ends
    if not ends:
        assert f"ask the person to run `callosum resolve {lost['id']}" in resolved["note"]
        assert server.server.post("/resolve", {**said, "by": "anna"}, token=approver)["ok"] is True


def test_the_journal_comes_in_pages(server: Namespace) -> None:
    ids = [server.ask("mira" if n % 2 else "doug", "send2", f"d{n % 3}", params={"n": n})["id"] for n in range(7)]
    pages, cursor = [], ""
    while True:
        page = server.get("/journal", limit=3, cursor=cursor)
        cursor = page["cursor"]
        if not page["entries"]:
            break
        pages.append([entry["seq"] for entry in page["entries"]])
    assert pages == [ids[:3], ids[3:6], ids[6:]]
    assert server.get("/journal", cursor=cursor) == {"entries": [], "cursor": cursor}
    assert [e["seq"] for e in server.get("/journal", newest="true", limit=2)["entries"]] == ids[5:]
    assert [e["seq"] for e in server.get("/journal", session="mira")["entries"]] == ids[1::2]
    assert [e["seq"] for e in server.get("/journal", contextKey="doc:d1")["entries"]] == ids[1::3]
    everywhere, _ = journal(server.server)
    assert {entry["namespace"] for entry in everywhere} > {server.name}
    assert [entry["seq"] for entry in everywhere if entry["namespace"] == server.name] == ids


def test_follow_of_the_journal_waits_for_the_next_entry(server: Namespace) -> None:
    cursor = server.get("/journal")["cursor"]
    assert server.get("/journal", cursor=cursor, wait=0.05)["entries"] == []
    tail: list[Any] = []
    began = threading.Event()

    def listen() -> None:
        began.set()
        tail.append(server.get("/journal", cursor=cursor, wait=60))

    def act() -> None:
        began.wait()
        tail.append(server.ask("mira", "act3", "plan"))

    start = time.monotonic()
    all_at_once([listen, act])
    assert time.monotonic() - start < HANG / 2
    decision, page = sorted(tail, key=lambda one: "entries" in one)
    assert [entry["seq"] for entry in page["entries"]] == [decision["id"]]


def test_calls_made_without_the_gate_are_journalled_late(server: Namespace) -> None:
    calls = [
        {"call": {"instance": "mira", "tool": "send2", "params": {"on": "a"}, "namespace": server.name}},
        {"call": {"instance": "doug", "tool": "look", "namespace": server.name}, "outcome": "failed"},
    ]
    assert server.server.post("/late", {"calls": calls}) == {"accepted": 2}
    entries = server.get("/journal")["entries"]
    assert {(entry["session"], entry["event"], entry.get("outcome")) for entry in entries} == {
        ("mira", "late", None),
        ("mira", "complete", "done"),
        ("doug", "late", None),
        ("doug", "complete", "failed"),
    }


def test_fallback_table_has_the_highest_tier_of_each_tool(shared: Server) -> None:
    tools = shared.get("/fallback")["tools"]
    assert {name: tools[name] for name in ("look", "save", "send2", "act4")} == {
        "look": 0,
        "save": 1,
        "send2": 2,
        "act4": 4,
    }


def test_health_reports_store_and_version(shared: Server) -> None:
    before = shared.get("/health")
    assert (before["status"], before["version"], before["store"]) == ("ok", __version__, "ok")
    Namespace(shared, "health").ask("mira", "look", "plan")
    after = shared.get("/health")
    assert after["decisions"] == before["decisions"] + 1
    assert after["uptime"] > before["uptime"]


def test_metrics_count_calls_and_decisions(shared: Server) -> None:
    def samples() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        answer = shared.ask("GET", "/metrics")
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = list(text_string_to_metric_families(answer.text))
        assert all(family.documentation for family in families)
        return {(one.name, tuple(sorted(one.labels.items()))): one.value for f in families for one in f.samples}

    before = samples()
    space = Namespace(shared, "metrics")
    held = space.ask("mira", "act4", "plan")
    space.ask("doug", "act4", "plan")
    space.post("/complete", instance="mira", id=held["id"])
    shared.ask("POST", "/approvals/5", {"approve": True})
    after = samples()

    def more(name: str, **labels: str) -> float:
        place = name, tuple(sorted(labels.items()))
        return after[place] - before.get(place, 0)

    assert more("callosum_decisions_total", tier="4", verdict="allow") == 1
    assert more("callosum_decisions_total", tier="4", verdict="block") == 1
    assert more("callosum_conflicts_total", kind="held") == 1
    assert more("callosum_outcomes_total", outcome="done") == 1
    assert more("callosum_refused_total", reason="missing") == 1
    assert more("callosum_decision_seconds_count") == 2
    assert more("callosum_decision_seconds_bucket", le="+Inf") == 2
    assert after["callosum_pid", ()] == shared.process.pid


ROUNDS = 60


def embedded(folder: str, kind: str, barrier: Any, results: Any) -> None:
    """Run another process with a gate of its own on the server's file, which competes with the server's clients."""
    state = Path(folder)
    with LocalGate(settings=Settings(state=state / "state", rules=state / "rules.json")) as gate:
        for number in range(ROUNDS):
            barrier.wait(30)
            for _ in range(number % 6):  # calls through HTTP take longer, so it would win nearly every time
                gate.status()
            if kind == "lock":
                results.put((number, gate.lock("embedded", f"file:{number}").acquired))
            else:
                results.put((number, gate.intercept(Call("embedded", "now4", {"on": str(number)})).proceed))


def race(folder: Path, server: Server, kind: str, want: Callable[[Connection, str, int], bool]) -> list[int]:
    """Run three rounds of clients and an embedded gate; return how many calls were allowed in each round."""
    context = multiprocessing.get_context("forkserver")
    barrier, results = context.Barrier(3), context.Queue()
    process = context.Process(target=embedded, args=(str(folder), kind, barrier, results))
    process.start()
    admitted = [0] * ROUNDS
    guard = threading.Lock()

    def client(name: str) -> None:
        with Connection(lambda: server.host_and_port) as connection:
            for number in range(ROUNDS):
                barrier.wait(30)
                let_in = want(connection, name, number)
                with guard:
                    admitted[number] += let_in

    try:
        all_at_once([lambda: client("mira"), lambda: client("doug")])
        for _ in range(ROUNDS):
            number, let_in = results.get(timeout=30)
            admitted[number] += let_in
        process.join(30)
        assert process.exitcode == 0
    finally:
        if process.is_alive():
            process.kill()
    return admitted


def take_lock(connection: Connection, who: str, number: int) -> bool:
    return bool(connection.ask("POST", "/lock", {"instance": who, "contextKey": f"file:{number}"}).body["acquired"])


def take_call(connection: Connection, who: str, number: int) -> bool:
    call = {"instance": who, "tool": "now4", "params": {"on": str(number)}}
    return bool(connection.ask("POST", "/intercept", call).body["proceed"])


@pytest.mark.parametrize(("kind", "want"), [("lock", take_lock), ("call", take_call)])
def test_exactly_one_of_a_server_and_an_embedded_gate_allows_the_call(
    tmp_path: Path, kind: str, want: Callable[[Connection, str, int], bool]
) -> None:
    with serving(tmp_path / "state", environ=rules_in(tmp_path)) as server:
        assert race(tmp_path, server, kind, want) == [1] * ROUNDS
        entries, _ = journal(server)
        winners = {entry["session"].partition("/")[0] for entry in entries if entry.get("verdict") == "allow"}
        assert "embedded" in winners
        assert winners & {"mira", "doug"}


def test_status_check_before_an_unchecked_call_does_not_exclude_others(tmp_path: Path) -> None:
    """Negative control: the status says that the key is free, and the call that follows is not checked."""

    def look_then_act(connection: Connection, who: str, number: int) -> bool:
        if connection.ask("GET", f"/status?contextKey=file:{number}").body["locks"]:
            return False
        call = {"instance": who, "tool": "save", "params": {"on": str(number)}}
        return bool(connection.ask("POST", "/intercept", call).body["proceed"])

    with serving(tmp_path / "state", environ=rules_in(tmp_path)) as server:
        assert max(race(tmp_path, server, "call", look_then_act)) > 1


def test_server_stopped_under_load_answers_accepted_requests(tmp_path: Path) -> None:
    environ = rules_in(tmp_path)
    load, record = Load(8), Record()
    with serving(tmp_path / "state", environ=environ) as server:
        load.start(server)
        load.after(200)
        assert server.stop() == 0
        load.join()
    said = load.answers()
    taken = [(request, reply) for request, reply in said if reply.status == 200]
    for _, reply in said:
        if reply.status != 200:
            assert (reply.status, reply.body["error"], reply.retry_after) == (503, "the server is stopping", "1")
    with serving(tmp_path / "state", environ=environ) as server:
        record.read(server)
        assert_all_there(taken, record)
        done = {(entry["event"], entry["body"].get("params", {}).get("n")) for entry in record.entries.values()}
        untold = [request for request, reply in said if reply.status != 200]
        untold += [session.pending for session in load.sessions if session.pending]
        for request in untold:
            if request.path == "/intercept":
                assert ("intercept", request.body["params"]["n"]) not in done
            else:
                assert request.body["id"] not in record.ended
        load.start(server)  # and they go on
        load.after(8)
        load.finish()
    assert not load.together


def test_stop_ends_all_waits(tmp_path: Path) -> None:
    with serving(tmp_path / "state", environ=rules_in(tmp_path)) as server:
        space = Namespace(server, "default")
        space.ask("mira", "now4", "plan")
        line = waiters(space, "doug", "anna")
        tail = http.client.HTTPConnection(*server.host_and_port, timeout=30)
        cursor = space.get("/journal")["cursor"]
        tail.request("GET", f"/journal?wait=60&cursor={cursor}")
        stream = socket.create_connection(server.host_and_port)
        stream.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert stream.recv(100).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < HANG / 2
        for waiter in line:
            waiter.join()
            assert (waiter.status, waiter.answer["error"]) == (503, "the server is stopping")
        answer = tail.getresponse()
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        tail.close()
        while stream.recv(4096):
            pass
        stream.close()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(server.host_and_port)
    assert list((tmp_path / "state" / "servers").iterdir()) == []


def test_the_stop_command(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state, "--socket", str(tmp_path / "gate.sock")) as one, serving(state) as other:
        held = one.post("/lock", {"instance": "mira", "contextKey": "doc:plan"})
        assert other.post("/lock", {"instance": "doug", "contextKey": "doc:plan"})["conflict"]["id"] == held["id"]
        done = run(state, "stop", "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)["servers"]
        assert {(found["address"], found["pid"], found["stopped"]) for found in told} == {
            (server.address, server.process.pid, True) for server in (one, other)
        }
        assert [one.process.wait(10), other.process.wait(10)] == [0, 0]
    assert not (tmp_path / "gate.sock").exists()
    again = run(state, "stop")
    assert (again.returncode, again.stdout.strip()) == (1, "no server runs over this state folder")


def test_stop_command_waits_for_a_server_that_still_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "STOP_SECONDS", 0)
    state = tmp_path / "state"
    with serving(state, "--drain", "600") as server, ThreadPoolExecutor(1) as beside:
        stopped = beside.submit(serve.stop, Settings(state=state), json=True)
        until(lambda: server.ask("GET", "/health").status == 503)
        assert not stopped.done()
        server.process.send_signal(signal.SIGTERM)  # a second one ends the drain
        stopped.result(30)
        assert server.process.wait(10) == 0
    assert [found["stopped"] for found in json.loads(capsys.readouterr().out)["servers"]] == [True]


def test_a_server_in_the_background(tmp_path: Path) -> None:
    state = tmp_path / "state"
    started = run(state, "serve", "--background", "--port", "0")
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        (found,) = (state / "servers").iterdir()
        told = json.loads(found.read_bytes())
        assert told["address"] in started.stdout
        host, _, port = told["address"].removeprefix("http://").partition(":")
        with Connection(lambda: (host, int(port))) as connection:
            assert connection.ask("GET", "/health").body["status"] == "ok"
    finally:
        stopped = run(state, "stop")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "has stopped" in stopped.stdout
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(port)))
    assert list((state / "servers").iterdir()) == []
