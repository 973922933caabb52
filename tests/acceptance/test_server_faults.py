"""Invalid requests, failing disks and missing tokens: a clear error and no partial change."""

import gzip
import http.client
import json
import re
import resource
import select
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from callosum.gate import LocalGate
from callosum.model import Call
from callosum.server.openapi import document
from callosum.server.tokens import Role, Tokens
from callosum.settings import Settings
from callosum.stores.sqlite import SqliteStore
from tests.acceptance.command import environment
from tests.support.faultydisk import FaultyDisk
from tests.support.loading import Connection, journal
from tests.support.serving import Server, serving, until
from tests.support.threads import all_at_once
from tests.support.world import rules_in

DOCUMENT: dict[str, Any] = json.loads(json.dumps(document()))


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults") / "state"


@pytest.fixture(scope="module")
def approver(state: Path) -> str:
    return Tokens(state / "tokens.json").add("anna", role=Role.APPROVER)


@pytest.fixture(scope="module")
def running(state: Path, approver: str) -> Iterator[Server]:
    with serving(state) as server:
        yield server
        assert journal(server) == ([], "j0")
        assert server.get("/status") == {"locks": [], "recentActions": []}
        assert server.get("/health")["status"] == "ok"


@pytest.fixture(scope="module")
def watcher(running: Server) -> Iterator[Connection]:
    with Connection(lambda: running.host_and_port) as connection:
        yield connection


@pytest.fixture
def server(running: Server, watcher: Connection) -> Iterator[Server]:
    """Run a server; a test must leave no entries in it."""
    newest = "/journal?newest=true&limit=1"
    before = watcher.ask("GET", newest)
    yield running
    assert watcher.ask("GET", newest) == before


def refused(answer: Any, at: str | None = None, status: int = 400) -> None:
    assert answer.status == status, (answer.status, answer.body)
    assert set(answer.body) == {"error", "at"}, answer.body
    assert answer.body["error"]
    if at is not None:
        assert answer.body["at"] == at, answer.body


BODIES: dict[str, dict[str, Any]] = {
    "/intercept": {"instance": "mira", "tool": "message", "params": {"action": "send", "target": "x"}},
    "/complete": {"instance": "mira", "contextKey": "doc:plan", "result": {"ok": True}},
    "/lock": {"instance": "mira", "contextKey": "doc:plan", "tier": 3},
    "/lock/doc%3Aplan": {"instance": "mira"},
    "/release": {"instance": "mira", "contextKey": "doc:plan"},
    "/renew": {"instance": "mira", "id": 5},
    "/resolve": {"id": 5, "happened": True},
    "/approvals/5": {"approve": True},
    "/late": {"calls": [{"call": {"instance": "mira", "tool": "read"}, "outcome": "done"}]},
    "/events": {"type": "llm.token", "delta": "a", "instance": "mira"},
}
DEEP = 100_000


def beside(more: bytes) -> Callable[[bytes], bytes]:
    """Return the body with a value in a field that is not read."""
    return lambda body: body[:-1] + b', "meta": ' + more + b"}"


NO_JSON: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda body: body[: len(body) // 2],
    "truncated before its end": lambda body: body[:-1],
    "two values": lambda body: body + b" {}",
    "a comma too many": lambda body: body[:-1] + b",}",
    "single quotes": lambda body: body.replace(b'"', b"'"),
    "no quotes": lambda body: body.replace(b'"', b""),
    "a comment": lambda body: body[:-1] + b" /* me */}",
    "a byte order mark": lambda body: b"\xef\xbb\xbf" + body,
    "utf-16": lambda body: body.decode().encode("utf-16"),
    "a nul": beside(b'"a\0b"'),
    "nan": beside(b"NaN"),
    "infinity": beside(b"[-Infinity]"),
    "a bad escape": beside(b'"\\x41"'),
    "half a surrogate": beside(b'"\\ud800"'),
    "invalid utf-8": beside(b'"a\xffb"'),
    "an overlong letter": beside(b'"\xc1\xa1"'),
    "a surrogate in utf-8": beside(b'"\xed\xa0\x80"'),
    "a form": lambda _: b"instance=mira&tool=read",
    "xml": lambda _: b"<call><instance>mira</instance></call>",
    "packed": gzip.compress,
    "deep lists": lambda _: b"[" * DEEP + b"]" * DEEP,
    "deep and not closed": lambda _: b'{"meta":' + b"[" * DEEP,
    "deep beside": beside(b"[" * DEEP + b"]" * DEEP),
}


def method_of(path: str) -> str:
    return "DELETE" if path.startswith("/lock/") else "POST"


def token_for(path: str, approver: str) -> str | None:
    return approver if path.startswith("/approvals/") else None


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("name", NO_JSON)
def test_malformed_json_is_refused(server: Server, approver: str, path: str, name: str) -> None:
    body = NO_JSON[name](json.dumps(BODIES[path]).encode())
    answer = server.ask(method_of(path), path, raw=body, token=token_for(path, approver))
    refused(answer)
    assert answer.body["at"] in {"body", "meta"}, "the field beside is not known to every request, or is no object"


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("body", [b"null", b"5", b'"x"', b"[]", b"true", b""])
def test_a_body_that_is_no_object_is_refused(server: Server, approver: str, path: str, body: bytes) -> None:
    answer = server.ask(method_of(path), path, raw=body, token=token_for(path, approver))
    if (path, body) == ("/events", b"[]"):
        assert answer.body == {"accepted": 0}
    elif (path, body) == ("/lock/doc%3Aplan", b""):
        refused(answer, "instance")  # without a body the query could have said it
    else:
        refused(answer, "body")


TWICE = {
    b'{"instance": "mira", "instance": "doug", "tool": "read"}': "instance",
    b'{"instance": "mira", "tool": "read", "inst\\u0061nce": "doug"}': "instance",
}


@pytest.mark.parametrize("body", TWICE)
def test_duplicate_name_is_refused(server: Server, body: bytes) -> None:
    answer = server.ask("POST", "/intercept", raw=body)
    refused(answer, TWICE[body])
    assert "twice" in answer.body["error"]


@pytest.mark.parametrize("path", ["/complete", "/lock", "/late", "/events", "/resolve"])
def test_duplicate_name_is_refused_at_every_endpoint(server: Server, path: str) -> None:
    whole = json.dumps(BODIES[path])
    for body in (whole[:-1] + ', "x": 1, "x": 2}', whole[:-1] + ', "x": {"y": {}, "y": {}}}'):
        refused(server.ask("POST", path, raw=body.encode()))


WRONG: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 5, 6, 61, 86_401, 2**63, 2**64, 10**300, -(2**63), 0.5, -0.5, 1e300),
    *("", "x", "mira", "5", "a\0b", "a\nb", "a\u200bb", "a\u202eb", "x" * 257, "x" * 1025, "x" * 4097),
    *([], ["x"], {}, {"x": 1}, [{}], [[]]),
)


def fields() -> list[tuple[str, str]]:
    """Yield every field of every body in the document."""
    found = []
    for path in BODIES:
        found += [(path, name) for name in schema_of(path)["properties"]]
    return found


def schema_of(path: str) -> dict[str, Any]:
    template = re.sub(r"^/lock/.*", "/lock/{key}", re.sub(r"/5$", "/{id}", path))
    schema = DOCUMENT["paths"][template][method_of(path).lower()]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    name = "LlmToken" if path == "/events" else schema["$ref"].rpartition("/")[2]
    found: dict[str, Any] = DOCUMENT["components"]["schemas"][name]
    return found


@pytest.mark.parametrize(("path", "name"), fields())
def test_a_wrong_value_is_refused_with_its_field(server: Server, approver: str, path: str, name: str) -> None:
    """Every value that the document forbids for a field must be refused at this field."""
    rule = jsonschema.Draft202012Validator(
        {**schema_of(path)["properties"][name], "components": DOCUMENT["components"]}
    )
    wrong = [value for value in WRONG if not rule.is_valid(value)]
    assert wrong or name == "result", "anything goes?"
    with Connection(lambda: server.host_and_port) as connection:
        for value in wrong:
            answer = connection.ask(
                method_of(path), path, {**BODIES[path], name: value}, token=token_for(path, approver)
            )
            refused(answer)
            assert re.match(rf"{name}(\b|$)", answer.body["at"]), (value, answer.body)


@pytest.mark.parametrize("path", BODIES)
def test_a_missing_field_is_named(server: Server, approver: str, path: str) -> None:
    required = schema_of(path)["required"] or ["instance"]
    for name in required:
        body = {key: value for key, value in BODIES[path].items() if key != name}
        refused(server.ask(method_of(path), path, body, token=token_for(path, approver)), name)


INSIDE = [
    ("/late", {"calls": [{"call": {"instance": "mira"}}]}, "calls[0].call.tool"),
    ("/late", {"calls": [{"call": {"instance": "mira", "tool": "x"}}, {"call": 5}]}, "calls[1].call"),
    ("/late", {"calls": [{"call": {"instance": "mira", "tool": "x"}, "outcome": "fine"}]}, "calls[0].outcome"),
    ("/late", {"calls": [{"call": {"instance": "mira", "tool": "x\n"}}]}, "calls[0].call.tool"),
    ("/late", {"calls": [{"call": {"instance": "mira", "tool": "x"}}] * 1001}, "calls"),
    ("/events", [{"type": "llm.token", "delta": "a"}, {"type": "llm.token"}], "[1].delta"),
    ("/events", [{"type": "llm.token", "delta": "a"}, {"type": "safety.blocked"}], "[1].type"),
    ("/events", [{"type": "llm.token", "delta": "a"}, {"type": "nothing"}], "[1].type"),
    ("/events", [{"type": "llm.token", "delta": "a"}, 5], "[1]"),
    ("/events", [{"type": "llm.token", "delta": "a"}] * 1001, "body"),
    ("/intercept", {"instance": "mira", "tool": "x", "params": {"a": "x" * 4_000_001}}, "params"),
]


@pytest.mark.parametrize(("path", "body", "at"), INSIDE, ids=[f"{path} {at}" for path, _, at in INSIDE])
def test_nested_error_names_its_path(server: Server, path: str, body: Any, at: str) -> None:
    refused(server.ask("POST", path, body), at)


QUERIES = [
    ("GET", "/status?contextKey=a&contextKey=b", "contextKey"),
    ("GET", "/status?contextKey=%ff", "query"),
    ("GET", "/status?contextKey=a%00b", "contextKey"),
    ("GET", "/status?contextKey=" + "x" * 1025, "contextKey"),
    ("GET", "/status?namespace=", "namespace"),
    ("GET", "/approvals?namespace=", "namespace"),
    ("GET", "/status?" + "&".join(f"x{number}=1" for number in range(100)), "query"),
    ("GET", "/journal?limit=0", "limit"),
    ("GET", "/journal?limit=1001", "limit"),
    ("GET", "/journal?limit=x", "limit"),
    ("GET", "/journal?limit=1.5", "limit"),
    ("GET", "/journal?limit=", "limit"),
    ("GET", "/journal?limit=99999999999999999999999", "limit"),
    ("GET", "/journal?wait=-1", "wait"),
    ("GET", "/journal?wait=61", "wait"),
    ("GET", "/journal?wait=nan", "wait"),
    ("GET", "/journal?wait=inf", "wait"),
    ("GET", "/journal?newest=maybe", "newest"),
    ("GET", "/journal?cursor=x", "cursor"),
    ("GET", "/journal?cursor=j-1", "cursor"),
    ("GET", "/journal?cursor=j99999999999999999999", "cursor"),
    ("GET", "/journal?session=", "session"),
    ("GET", "/journal?contextKey=", "contextKey"),
    ("GET", "/events?types=nothing", "types"),
    ("GET", "/events?namespace=", "namespace"),
    ("DELETE", "/lock/?instance=mira", "contextKey"),
    ("DELETE", "/lock/%ff?instance=mira", "contextKey"),
    ("DELETE", "/lock/a%0ab?instance=mira", "contextKey"),
    ("DELETE", f"/lock/{'x' * 1025}?instance=mira", "contextKey"),
    ("DELETE", "/lock/x?instance=", "instance"),
    ("DELETE", "/lock/x?instance=mira&force=null", "force"),
    ("DELETE", "/lock/x?instance=mira&instance=doug", "instance"),
    *(("POST", f"/approvals/{id}", "id") for id in ("", "0", "-1", "x", "1.0", "5/6", "01", str(2**63), "%FF")),
]


@pytest.mark.parametrize(("method", "path", "at"), QUERIES, ids=[f"{m} {p[:40]}" for m, p, _ in QUERIES])
def test_queries_and_paths_are_read_strictly(server: Server, approver: str, method: str, path: str, at: str) -> None:
    body = {"approve": True} if method == "POST" else None
    refused(
        server.ask(method, path, body, token=token_for(path, approver)), "contextKey" if path.endswith("%FF") else at
    )


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/intercept", 405, "POST"), ("PUT", "/lock/x", 405, "DELETE"), ("DELETE", "/lock", 405, "POST"),
        ("POST", "/status", 405, "GET"), ("PATCH", "/events", 405, "POST, GET"), ("POST", "/docs", 405, "GET"),
        ("GET", "/approvals/5", 405, "POST"), ("GET", "/nowhere", 404, None), ("POST", "/intercept/", 404, None),
        ("POST", "/Intercept", 404, None), ("POST", "//intercept", 404, None),
    ],
)  # fmt: skip
def test_unknown_path_or_method_is_refused(
    server: Server, method: str, path: str, status: int, allow: str | None
) -> None:
    answer = server.ask(method, path, BODIES["/intercept"])
    refused(answer, "method" if status == 405 else "path", status)
    assert answer.headers["Allow"] == allow


HUGE = 100_000_000


def memory_of(pid: int) -> int:
    """Return the most memory that the process ever had, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_100_mb_is_refused_early(server: Server, chunked: bool) -> None:
    head = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % HUGE
    piece = b" " * 65_536
    frame = b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
    with socket.create_connection(server.host_and_port, timeout=20) as client:
        client.sendall(b"POST /intercept HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n")
        sent = 0
        try:
            while sent < HUGE and not bool(select.select([client], [], [], 0)[0]):
                client.sendall(frame)
                sent += len(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = http.client.HTTPResponse(client)
        answer.begin()
        body = json.loads(answer.read())
    assert (answer.status, body["at"]) == (413, "body")
    assert sent < HUGE / 4, "most of it was never sent"


def test_large_bodies_do_not_fill_the_memory(server: Server) -> None:
    largest = b'{"meta":{"a":"' + b"x" * 4_900_000 + b'"}}'
    refused(server.ask("POST", "/intercept", raw=largest), "instance")
    before = memory_of(server.process.pid)
    for _ in range(10):
        refused(server.ask("POST", "/intercept", raw=largest), "instance")
    assert memory_of(server.process.pid) - before < 20_000_000


def test_client_that_disconnects_during_a_request_leaves_nothing(server: Server) -> None:
    body = json.dumps(BODIES["/intercept"]).encode()
    for cut in range(0, len(body), 7):
        with socket.create_connection(server.host_and_port) as client:
            head = b"POST /intercept HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
            client.sendall(head + body[:cut])


def a_call(number: int, tool: str = "act3") -> dict[str, Any]:
    params = {"on": f"k{number}", "n": number, "text": "x" * 500}
    return {"instance": "mira", "tool": tool, "params": params, "callId": f"c{number}", "dispatch": "d"}


def ids_in(server: Server) -> list[int]:
    entries, _ = journal(server)
    return [entry["seq"] for entry in entries]


def test_a_full_disk_is_a_clear_503_and_passes(tmp_path: Path) -> None:
    """The server's files may not grow beyond a limit, as on a full disk; then there is space again."""
    state = tmp_path / "state"
    with serving(state, environ=rules_in(tmp_path)) as server:
        kept = [server.post("/intercept", a_call(0))["id"]]
        size = max(file.stat().st_size for file in state.glob("gate.db*"))
        unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + 60_000, unlimited[1]))
        refusals: list[Any] = []

        def session(first: int) -> None:
            with Connection(lambda: server.host_and_port) as connection:
                for number in range(first, first + 50):
                    answer = connection.ask("POST", "/intercept", a_call(number, ("act3", "send2", "act4")[number % 3]))
                    if answer.status == 200:
                        kept.append(answer.body["id"])
                    else:
                        refusals.append(answer)

        all_at_once([lambda: session(100), lambda: session(200), lambda: session(300)])
        assert refusals, "the disk never was full"
        for answer in refusals:
            refused(answer, "store", 503)
            assert (answer.body["error"].startswith(str(state)), answer.retry_after) == (True, "1")
        assert server.get("/status")["locks"], "who only looks is answered"
        assert sorted(ids_in(server)) == sorted(kept)

        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)
        for number in range(100, 103):  # the same calls again, once there is room
            answer = server.post("/intercept", a_call(number, ("act3", "send2", "act4")[number % 3]))
            assert answer["proceed"]
            kept.append(answer["id"])
        assert sorted(set(ids_in(server))) == sorted(set(kept))
        assert server.get("/health")["status"] == "ok"
    store = SqliteStore(state / "gate.db")
    assert store.check().problems == ()
    store.close()


def test_disk_without_a_free_byte_is_a_clear_error(tmp_path: Path, mounted: Any) -> None:
    disk = tmp_path / "disk"
    mounted(disk, "-t", "tmpfs", "-o", "size=1m", "none")
    with serving(disk / "state", environ=rules_in(tmp_path)) as server:
        kept = [server.post("/intercept", a_call(0))["id"]]
        with (disk / "filler").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):  # noqa: PT012
            while True:
                file.write(b"x" * 4096)
        answers = [server.ask("POST", "/intercept", a_call(number)) for number in range(1, 200)]
        kept += [answer.body["id"] for answer in answers if answer.status == 200]
        full = [answer for answer in answers if answer.status != 200]
        assert full, "the disk never was full"
        for answer in full:
            refused(answer, "store", 503)
        (disk / "filler").unlink()
        kept.append(server.post("/intercept", a_call(1000))["id"])
        assert ids_in(server) == kept


def test_unwritable_folder_is_a_clear_error(tmp_path: Path, mounted: Any) -> None:
    state = tmp_path / "state"
    with serving(state) as server:
        server.post("/intercept", BODIES["/intercept"])
    mounted(tmp_path / "read-only", "--bind", str(state))
    mounted(tmp_path / "read-only", "-o", "remount,bind,ro")
    started = subprocess.run(
        [sys.executable, "-m", "callosum.cli", "serve", "--state", str(tmp_path / "read-only"), "--port", "0"],
        capture_output=True,
        text=True,
        env=environment(state),
        timeout=30,
        check=False,
    )
    assert started.returncode == 3
    assert re.fullmatch(rf"callosum: {tmp_path}/read-only/gate.db: .*Read-only file system.*\n", started.stderr)


def accept(state: Path) -> None:
    """Accept the store as a person would."""
    with closing(SqliteStore(state / "gate.db")) as store:
        assert store.accept()


def test_database_deleted_while_the_server_runs_is_created_again_and_must_be_accepted(tmp_path: Path) -> None:
    """The server notices within a second or so; from then on all requests use the new file."""
    state, environ = tmp_path / "state", rules_in(tmp_path)
    with serving(state, environ=environ) as server:
        server.post("/intercept", a_call(0))
        for file in state.glob("gate.db*"):
            file.unlink()

        def noticed() -> bool:
            answer = server.ask("POST", "/intercept", {"instance": "mira", "tool": "look", "params": {"on": "x"}})
            assert answer.status in (200, 503)
            return answer.status == 200 and answer.body["id"] in ids_in(server)

        until(noticed)
        assert (state / "gate.db").exists()
        refused(server.ask("POST", "/intercept", a_call(1, "act4")), "store", 503)
        accept(state)
        until(lambda: server.ask("POST", "/intercept", a_call(1, "act4")).status == 200)
        decision = server.post("/intercept", a_call(1, "act4"))
        assert decision["id"] in ids_in(server)
        with LocalGate(settings=Settings(state=state, rules=Path(environ["CALLOSUM_RULES"]))) as gate:
            assert not gate.intercept(Call("doug", "act4", {"on": "k1"})).proceed
    assert "was removed or replaced while in use" in server.log.read_text()


def test_database_replaced_while_the_server_runs_is_detected(tmp_path: Path) -> None:
    state = tmp_path / "state"
    notes = b"not a database, but somebody's notes\n" * 100
    with serving(state, environ=rules_in(tmp_path)) as server:
        server.post("/intercept", a_call(0))
        for file in state.glob("gate.db*"):
            file.unlink()
        (state / "gate.db").write_bytes(notes)
        until(lambda: "not a database of Callosum" in server.ask("POST", "/intercept", a_call(1)).text)
        refused(server.ask("POST", "/intercept", a_call(1)), "store", 503)
        health = server.ask("GET", "/health")
        assert (health.status, health.body["status"]) == (503, "unavailable")
        refused(server.ask("GET", "/status"), "store", 503)
        refused(server.ask("GET", "/journal"), "store", 503)
        assert (state / "gate.db").read_bytes() == notes, "it was left as it is"
        (state / "gate.db").unlink()
        until(lambda: "store accept" in server.ask("POST", "/intercept", a_call(2)).text)
        accept(state)
        until(lambda: server.ask("POST", "/intercept", a_call(2)).status == 200)
        until(lambda: server.ask("GET", "/health").status == 200)


def test_health_is_503_while_only_the_sync_fails(tmp_path: Path) -> None:
    """The proof of the store syncs as a decision of tier 3 does: a write alone would succeed."""
    disk = FaultyDisk(tmp_path)
    with serving(tmp_path / "state", environ=rules_in(tmp_path) | disk.environ) as server:
        server.post("/intercept", a_call(0))
        assert server.ask("GET", "/health").status == 200
        with disk.failing("sync"):
            assert server.ask("POST", "/intercept", a_call(1)).status == 503
            until(lambda: server.ask("GET", "/health").status == 503)
            assert server.ask("GET", "/health").body["status"] == "unavailable"
        until(lambda: server.ask("GET", "/health").status == 200)


class Tokened:
    """A server that requires a token for everything, and some tokens."""

    def __init__(self, server: Server, tokens: Mapping[str, str]) -> None:
        self.server = server
        self.tokens = tokens

    def ask(self, who: str | None, method: str, path: str, body: Any = None) -> Any:
        return self.server.ask(method, path, body, token=self.tokens.get(who, who) if who else None)

    def refusals(self, count: int) -> list[dict[str, Any]]:
        """Return the refusals in the journal, once there are ``count``: they are written after the responses."""
        found: list[dict[str, Any]] = until(lambda: found if len(found := self._journal()) >= count else None)
        assert {entry["event"] for entry in found} <= {"refuse"}, "and nothing was done"
        return [entry["body"] for entry in found]

    def _journal(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("reader", "GET", "/journal?limit=1000").body["entries"]
        return found


@pytest.fixture
def tokened(tmp_path: Path) -> Iterator[Tokened]:
    book = Tokens(tmp_path / "state" / "tokens.json")
    tokens = {
        "reader": book.add("reader"),
        "mira": book.add("mira-laptop", instance="mira"),
        "work": book.add("work", namespaces=("work",)),
        "anna": book.add("anna", role=Role.APPROVER),
        "gone": book.add("gone"),
    }
    book.remove("gone")
    # 127.1 is the loopback but no name of the server: so it is treated as an address for other machines.
    with serving(tmp_path / "state", "--host", "127.1", "--port", "0", "--insecure") as server:
        yield Tokened(server, tokens)
    written = server.log.read_text() + b"".join(
        file.read_bytes() for file in (tmp_path / "state").glob("*") if file.is_file()
    ).decode("latin-1")
    for secret in tokens.values():
        assert secret not in written
        assert secret[-43:] not in written


CALL = {"instance": "mira", "tool": "web_search", "params": {"query": "x"}}
ACTS: list[tuple[str, str, dict[str, Any] | list[Any] | None]] = [
    ("POST", "/intercept", {"instance": "doug", "tool": "web_search"}),
    ("POST", "/complete", {"instance": "doug", "contextKey": "doc:x"}),
    ("POST", "/lock", {"instance": "doug", "contextKey": "doc:x"}),
    ("DELETE", "/lock/doc:x", {"instance": "doug"}),
    ("DELETE", "/lock/doc:x?instance=doug", {"instance": "mira"}),
    ("POST", "/renew", {"instance": "doug", "id": 5}),
    ("POST", "/intercept", {"instance": "mira-2", "tool": "web_search"}),
]


def test_without_a_token_nothing_is_answered(tokened: Tokened) -> None:
    """Except whether the server is running, and no more about it."""
    assert tokened.ask(None, "GET", "/health").body == {"status": "ok"}
    paths = ("/status", "/journal", "/metrics", "/health/x", "/docs", "/events", "/nowhere")
    asked = [("GET", path) for path in paths]
    for method, path in [*asked, ("POST", "/health"), ("POST", "/intercept"), ("DELETE", "/lock/x")]:
        answer = tokened.ask(None, method, path, CALL if method == "POST" else None)
        refused(answer, "Authorization", 401)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    found = tokened.refusals(len(asked) + 3)
    assert Counter(body["reason"] for body in found) == {"missing": len(asked) + 3}
    assert (found[-1]["method"], found[-1]["path"], found[-1]["client"]) == ("DELETE", "/lock/x", "127.0.0.1")


def test_wrong_tokens_are_refused_and_journalled(tokened: Tokened) -> None:
    mira = tokened.tokens["mira"]
    wrong = ["x", "cal_mira-laptop_" + "A" * 43, mira[:-1], mira + "A", mira.upper(), tokened.tokens["gone"]]
    for secret in wrong:
        refused(tokened.ask(secret, "POST", "/intercept", CALL), "Authorization", 401)
    for said in (f"Basic {mira}", mira, f"Bearer {mira} {mira}", "Bearer", ""):
        answer = tokened.server.ask("POST", "/intercept", CALL, headers={"Authorization": said})
        refused(answer, "Authorization", 401)
    found = tokened.refusals(len(wrong) + 5)
    assert {body["reason"] for body in found} == {"wrong"}
    assert len(found) == len(wrong) + 5
    holders = Counter(body["holder"] for body in found)
    assert holders["mira-laptop"] >= 1, "whose token it claims to be"
    assert set(holders) <= {"", "mira-laptop"}


def test_token_acts_only_for_its_own_instance(tokened: Tokened) -> None:
    assert tokened.ask("mira", "GET", "/health").status == 200
    for method, path, body in ACTS:
        refused(tokened.ask("mira", method, path, body), "instance", 403)
    for claim in ("parent", "continues"):
        refused(tokened.ask("mira", "POST", "/intercept", {**CALL, claim: "doug"}), claim, 403)
    late = {"calls": [{"call": CALL}, {"call": {**CALL, "instance": "doug"}}]}
    refused(tokened.ask("mira", "POST", "/late", late), "calls[1].call.instance", 403)
    events = [{"type": "llm.token", "delta": "a", "instance": name} for name in ("mira", "doug")]
    refused(tokened.ask("mira", "POST", "/events", events), "[1].instance", 403)
    found = tokened.refusals(len(ACTS) + 4)
    assert {(body["reason"], body["holder"]) for body in found} == {("instance", "mira-laptop")}
    assert len(found) == len(ACTS) + 4
    assert tokened.ask("mira", "POST", "/intercept", {**CALL, "session": "inbox"}).status == 200
    assert tokened.ask("mira", "POST", "/intercept", {**CALL, "instance": "mira/inbox"}).status == 200


def test_token_works_only_in_its_namespaces(tokened: Tokened) -> None:
    for path in ("/status", "/approvals", "/journal", "/journal?namespace=home", "/events?namespace=home"):
        refused(tokened.ask("work", "GET", path), "namespace", 403)
    for method, path, body in ACTS:
        refused(tokened.ask("work", method, path, body), "namespace", 403)
    found = tokened.refusals(len(ACTS) + 5)
    assert {(body["reason"], body["holder"]) for body in found} == {("namespace", "work")}
    assert tokened.ask("work", "POST", "/intercept", {**CALL, "namespace": "work"}).status == 200
    page = tokened.ask("work", "GET", "/journal?namespace=work").body
    assert [entry["event"] for entry in page["entries"]] == ["intercept"]


def test_requests_with_another_host_or_origin_are_refused(tokened: Tokened) -> None:
    token = tokened.tokens["mira"]
    for header, value, status in (
        ("Host", "evil.example", 421),
        ("Origin", "https://evil.example", 403),
        ("Origin", "null", 403),
        ("Sec-Fetch-Site", "cross-site", 403),
    ):
        answer = tokened.server.ask("POST", "/intercept", CALL, token=token, headers={header: value})
        refused(answer, header, status)
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert [body["reason"] for body in tokened.refusals(4)] == ["host", "origin", "origin", "origin"]


def test_a_flood_does_not_fill_the_journal(tmp_path: Path) -> None:
    state = tmp_path / "state"
    tries = 300
    with serving(state) as server:
        with Connection(lambda: server.host_and_port) as connection:
            for number in range(tries):
                answer = connection.ask("POST", "/intercept", CALL, token=f"cal_mira_{number:043}")
                refused(answer, "Authorization", 401)
        assert server.ask("POST", "/intercept", CALL).status == 200, "others go on"
        assert f'callosum_refused_total{{reason="wrong"}} {tries}.0' in server.ask("GET", "/metrics").text
    with serving(state) as server:
        *told, last = [entry["body"] for entry in journal(server)[0] if entry["event"] == "refuse"]
    assert 1 <= len(told) <= 20
    assert (last["reason"], last["suppressed"]) == ("suppressed", tries - len(told))


def test_invalid_utf_8_does_not_slow_the_server(server: Server) -> None:
    """Header fields are bytes, and some clients send anything."""
    with socket.create_connection(server.host_and_port, timeout=10) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Name: \xff\xfe\r\nConnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
