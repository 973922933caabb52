"""The previous version and this one work on one store at the same time.

Each test runs twice for every engine, so that each version once writes what the other reads.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pytest

from callosum.model import Call
from callosum.rulebook import Rulebook
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Role, Tokens
from tests.support.fleet import Late
from tests.support.postgres import Server as PostgresServer
from tests.support.postgres import schema_of
from tests.support.previous import Previous
from tests.support.redis_server import RedisServer
from tests.support.serving import Server, serving, until
from tests.support.world import RULES

ROUNDS: Final = 12
"""Leases that each session of the race takes."""

_numbers = count(1)


class Pair(NamedTuple):
    """A server of each version on one store; ``one`` acts first."""

    one: Server
    other: Server
    key: str
    """A key that no other test uses, without its ``doc:``."""

    def call(self, server: Server, who: str, tool: str, **more: Any) -> Any:
        """Intercept one call on the key."""
        params = {"on": self.key, **more.pop("params", {})}
        body = {"instance": who, "tool": tool, "params": params, "callId": f"call-{next(_numbers)}", **more}
        return server.post("/intercept", body, timeout=70)

    def status(self, server: Server) -> Any:
        return server.get(f"/status?contextKey={quote(f'doc:{self.key}')}")


class Servers(NamedTuple):
    previous: Server
    current: Server
    store: tuple[str, ...]


@pytest.fixture(params=("sqlite", "postgres", "redis"), scope="module")
def servers(
    request: pytest.FixtureRequest, previous_store: Previous, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """A server of each version on one store; the previous version made the store."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "rules.json").write_text(RULES)
    environ = {"CALLOSUM_RULES": str(folder / "rules.json")}
    secret = os.urandom(32)
    states = (folder / "state", folder / ("state" if request.param == "sqlite" else "state-2"))
    for state in states:
        state.mkdir(mode=0o700, exist_ok=True)
        (state / "content.key").write_bytes(secret)
        (state / "content.key").chmod(0o600)
    with ExitStack() as stack:
        store: tuple[str, ...] = ()
        if request.param == "postgres":
            database: PostgresServer = request.getfixturevalue("postgres")
            url = database.url()
            stack.callback(database.drop, schema_of(url))
            store = ("--store", url)
        elif request.param == "redis":
            redis: RedisServer = request.getfixturevalue("redis_server")
            store = ("--store", redis.url())
        before = stack.enter_context(previous_store.serving(states[0], *store, environ=environ))
        now = stack.enter_context(serving(states[1], *store, environ=environ))
        yield Servers(before, now, store)


@pytest.fixture(params=("previous first", "current first"))
def pair(request: pytest.FixtureRequest, servers: Servers) -> Pair:
    order = (servers.previous, servers.current)
    one, other = order if request.param == "previous first" else order[::-1]
    return Pair(one, other, f"k{next(_numbers)}")


def approver(server: Server) -> str:
    """Return a token of a person at the server."""
    token = Tokens(server.state / TOKENS).add(f"anna-{next(_numbers)}", role=Role.APPROVER)
    until(lambda: server.ask("GET", "/health", token=token).status == 200)
    return token


def kinds(answer: Any) -> list[str]:
    return [conflict["kind"] for conflict in answer.get("conflicts", ())]


def test_lease_of_one_version_blocks_the_other_and_can_be_ended_by_it(pair: Pair) -> None:
    held = pair.call(pair.one, "mira", "act4", callId=pair.key)
    again = pair.call(pair.other, "mira", "act4", callId=pair.key)
    assert (again["id"], again["repeated"]) == (held["id"], True)
    refused = pair.call(pair.other, "doug", "act4")
    assert refused["verdict"] == "block"
    assert "held" in kinds(refused)
    renewed = pair.other.post("/renew", {"instance": "mira", "id": held["id"], "ttl": 900})
    assert renewed["lease"]["token"] == held["lease"]["token"]
    assert pair.status(pair.one)["locks"] == pair.status(pair.other)["locks"] != []
    assert pair.other.post("/complete", {"instance": "mira", "id": held["id"]})["ok"]
    assert pair.status(pair.one)["locks"] == pair.status(pair.other)["locks"] == []
    assert kinds(pair.call(pair.one, "doug", "act3")), "the finished action is evidence"


def test_lock_of_one_version_is_refused_and_released_by_the_other(pair: Pair) -> None:
    asked = {"contextKey": f"doc:{pair.key}", "tier": 4}
    taken = pair.one.post("/lock", {"instance": "mira", **asked})
    refused = pair.other.post("/lock", {"instance": "doug", **asked})
    assert (taken["acquired"], refused["acquired"], refused["conflict"]["instance"]) == (True, False, "mira")
    path = "/lock/" + quote(f"doc:{pair.key}", safe="")
    assert pair.other.ask("DELETE", path, {"instance": "mira"}).body["ok"]
    second = pair.one.post("/lock", {"instance": "doug", **asked})
    assert second["acquired"]
    assert second["lease"]["token"] > taken["lease"]["token"]


def test_waiter_of_one_version_is_let_in_when_the_other_ends_the_lease(pair: Pair) -> None:
    held = pair.call(pair.one, "mira", "now4", params={"on": f"/{pair.key}"})
    waiter = Late(partial(pair.call, pair.other, "doug", "now4", params={"on": f"/{pair.key}"}, wait=30))
    key = quote(f"file:/{pair.key}")
    until(lambda: [one["instance"] for one in pair.one.get(f"/status?contextKey={key}").get("waiting", ())] == ["doug"])
    overtaking = pair.call(pair.one, "carol", "now4", params={"on": f"/{pair.key}"})
    assert not overtaking["proceed"], "a waiter of the other version keeps its place"
    assert pair.one.post("/complete", {"instance": "mira", "id": held["id"]})["ok"]
    assert waiter.answer(20)["proceed"]


def test_marks_of_one_version_count_in_the_other(pair: Pair) -> None:
    """A read makes a later write stale, and a repeat confirms a pause, in either version."""
    pair.call(pair.one, "mira", "look")
    changed = pair.call(pair.other, "doug", "act2")
    assert pair.one.post("/complete", {"instance": "doug", "id": changed["id"]})["ok"]
    paused = pair.call(pair.other, "mira", "act2", pause=True)
    assert (paused["verdict"], kinds(paused)) == ("confirm", ["stale"])
    repeated = pair.call(pair.one, "mira", "act2", pause=True, after=paused["id"])
    assert repeated["verdict"] == "allow", repeated


def test_unknown_outcome_of_one_version_blocks_the_other_until_resolved(pair: Pair) -> None:
    """Both an outcome that was reported as unknown and a lease that ran out."""
    reported = pair.call(pair.one, "mira", "act4")
    assert pair.one.post("/complete", {"instance": "mira", "id": reported["id"], "outcome": "unknown"})["ok"]
    blocked = pair.call(pair.other, "doug", "act4")
    assert blocked["verdict"] == "block"
    assert "unknown" in kinds(blocked)
    token = approver(pair.other)
    assert pair.other.post("/resolve", {"id": reported["id"], "happened": False, "by": "anna"}, token=token)["ok"]
    lapsing = pair.call(pair.one, "doug", "act4")
    assert lapsing["proceed"], lapsing
    assert pair.other.post("/renew", {"instance": "doug", "id": lapsing["id"], "ttl": 1})["ok"]
    until(lambda: "unknown" in kinds(pair.call(pair.other, "mira", "act4")))
    late = pair.one.post("/complete", {"instance": "doug", "id": lapsing["id"]})
    assert (late["ok"], late["late"]) == (True, True)


def test_tree_of_one_version_covers_a_file_of_the_other(pair: Pair) -> None:
    held = pair.call(pair.one, "mira", "tree4", params={"on": f"/{pair.key}/"})
    inside = pair.call(pair.other, "doug", "tree4", params={"on": f"/{pair.key}/a.py"})
    assert inside["verdict"] == "block"
    assert "held" in kinds(inside)
    assert pair.other.post("/complete", {"instance": "mira", "id": held["id"]})["ok"]


def test_each_version_shows_the_same_journal(pair: Pair) -> None:
    for server, who in ((pair.one, "mira"), (pair.other, "doug")):
        made = pair.call(server, who, "act3")
        assert server.post("/complete", {"instance": who, "id": made["id"], "result": {"ok": True}})["ok"]
    path = f"/journal?contextKey={quote(f'doc:{pair.key}')}&limit=500"
    pages = [server.get(path)["entries"] for server in (pair.one, pair.other)]
    assert len(pages[0]) >= 2
    for first, second in zip(*pages, strict=True):
        both = first.keys() & second.keys()
        assert {name: first[name] for name in both} == {name: second[name] for name in both}


def race(servers: Servers, tool: str) -> int:
    """Have four sessions take one key through both versions; return how many held it at once at most."""
    key = f"race{next(_numbers)}"
    pairs = [Pair(servers.previous, servers.current, key), Pair(servers.current, servers.previous, key)]
    holding: list[int] = []
    together: list[int] = []

    def take(number: int) -> int:
        pair, admitted = pairs[number % 2], 0
        for _ in range(50 * ROUNDS):
            answer = pair.call(pair.one, f"session-{number}", tool, params={"on": f"/{key}"})
            if answer["proceed"]:
                holding.append(number)
                pair.status(pair.one)
                together.append(len(holding))
                holding.remove(number)
                assert pair.other.post("/complete", {"instance": f"session-{number}", "id": answer["id"]})["ok"]
                admitted += 1
                if admitted == ROUNDS:
                    break
        return admitted

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(take, range(4))) >= ROUNDS
    return max(together)


def test_key_requested_through_both_versions_at_once_is_never_held_twice(servers: Servers) -> None:
    assert race(servers, "now4") == 1


def test_both_versions_report_a_sound_store(servers: Servers, previous_store: Previous) -> None:
    """Runs last: whatever state the other tests left, neither version reports damage or a foreign version."""
    where = servers.store[1:] or (f"sqlite:///{servers.current.state / 'gate.db'}",)
    arguments = ["-m", "callosum.cli", "store", "check", *where, "--state", str(servers.previous.state)]
    assert "sound" in previous_store.run(*arguments).lower()
    for server in (servers.previous, servers.current):
        assert server.get("/health")["status"] == "ok"


def shell(command: str, cwd: str = "/w") -> dict[str, Any]:
    return {"tool": "Bash", "params": {"command": command}, "cwd": cwd}


CALLS: Final[list[dict[str, Any]]] = [
    {"tool": "message", "params": {"action": "send", "target": "#general", "message": "On it"}},
    {"tool": "message", "params": {"action": "send", "target": "andy", "replyTo": "msg-500", "message": "On it"}},
    {"tool": "send_email", "params": {"to": ["Alice@Example.com", "bob@example.com"], "subject": "x", "body": "y"}},
    {"tool": "read", "params": {"path": "notes.md"}, "cwd": "/w"},
    {"tool": "write", "params": {"path": "../w/notes.md", "content": "x"}, "cwd": "/w"},
    {"tool": "Edit", "params": {"file_path": "/w/a b.py", "old_string": "x", "new_string": "y"}},
    {"tool": "apply_patch", "params": {"input": "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"}, "cwd": "/w"},
    {"tool": "create_event", "params": {"calendar": "primary", "start": "2026-05-19T16:00", "end": "2026-05-19T17:00"}},
    {"tool": "update_issue", "params": {"owner": "acme", "repo": "site", "issue_number": 7, "state": "closed"}},
    {"tool": "mcp__github__create_pull_request", "params": {"owner": "acme", "repo": "site", "head": "topic"}},
    {"tool": "list_orders", "params": {"status": "open"}},
    {"tool": "delete_order", "params": {"order_id": "W1"}},
    {"tool": "pay", "params": {"recipient": "ACME", "amount": 12.5, "currency": "EUR"}},
    {"tool": "run_sql", "params": {"sql": "update orders set state = 'done' where id = 1"}},
    {"tool": "http_request", "params": {"method": "PUT", "url": "https://API.example.com/users/5", "body": "{}"}},
    {"tool": "slack_reply_to_thread", "params": {"channel_id": "C1", "thread_ts": "1.2", "text": "On it"}},
    {"tool": "get_thread", "params": {"thread_id": "t1"}},
    {"tool": "reply_to_message", "params": {"message_id": "m1", "text": "On it"}},
    {"tool": "put_object", "params": {"bucket": "logs", "key": "a.txt", "body": "x"}},
    {"tool": "update_row", "params": {"spreadsheet_id": "s1", "row": 5}},
    {"tool": "delete_base", "params": {"base_id": "app1"}},
    {"tool": "update_record", "params": {"base_id": "app1", "table_id": "tbl1", "record_id": "rec1"}},
    {"tool": "send_channel_message", "params": {"channel": "general", "text": "On it"}},
    {"tool": "frobnicate", "params": {"thing": "x", "id": 5}},
    {"tool": "set_reminder", "params": {"title": "Café", "date": "2026-05-19"}},
    shell("git push origin topic"),
    shell("git -C sub commit -am 'x'"),
    shell("rm -rf build && make test"),
    shell("sed -i s/a/b/ src/*.py; cat README.md > /tmp/copy"),
    shell("curl -X POST https://api.example.com/users -d name=x"),
    shell("gh pr merge 5 -R acme/site"),
    shell("docker rm -f db; docker volume rm data"),
    shell("kubectl -n prod delete pod web-1"),
    shell("psql -c 'drop table orders' app"),
    shell("npm install left-pad"),
    shell("ssh web1 systemctl restart nginx"),
    shell("terraform apply -auto-approve", "/repo"),
    shell("alembic upgrade head", "/repo"),
    shell("echo hello | mail -s subject alice@example.com"),
]  # fmt: skip
"""Everyday calls without secrets, of every family of keys."""


def test_keys_of_the_previous_version_are_still_written(previous: Previous) -> None:
    """A key whose spelling changes has both spellings for one release, so that both versions share it."""
    rules = Rulebook(None, secret=b"s" * 32).current()
    found = [rules.classify(Call("mira", **call)) for call in CALLS]
    for call, (keys, digest), classification in zip(CALLS, previous.classify(CALLS), found, strict=True):
        now = [key.name for key in classification.keys]
        assert set(keys) <= set(now), (call, keys, now)
        assert classification.content.digest.hex() == digest, call
