"""The HTTP protocol on raw sockets: which requests reach the application of a real server, and which do not."""

import json
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from tests.acceptance.command import environment
from tests.support.cpu import HANG

# Echoes requests; a few paths do something else. Prints its port, and a line where a test must wait.
_SERVER = """
import asyncio, json, os, socket, sys
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from callosum.server import protocol

def say(*words):
    print(*words, flush=True)

async def answer(send, status, body, *headers):
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

async def app(scope, receive, send):
    path = scope["path"]
    if path == "/early":  # answered before it is read
        return await answer(send, 401, b"{}")
    if path == "/gone":  # a stream that ends when its reader is gone
        say("streaming")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        return say("gone")
    if path == "/flood":  # more than anybody's buffers hold
        say("flooding")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(10_000):
                await asyncio.wait_for(send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True}), 20)
                if scope["callosum.lost"]():
                    break
        except TimeoutError:
            return say("stuck")
        return say("dropped")
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return say("disconnect") if path == "/told" else None
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if path == "/slow":  # until somebody asks for /go
        say("slow")
        await went.wait()
        went.clear()
    if path == "/go":
        went.set()
    memory = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    names = [name.decode() for name, _ in scope["headers"]]
    found = {"method": scope["method"], "path": path, "query": scope["query_string"].decode(), "length": len(body),
             "headers": names, "memory": memory, "body": body[:100].decode("latin-1"), "version": scope["http_version"]}
    await answer(send, 200, json.dumps(found).encode())

went = asyncio.Event()
limits = json.loads(sys.argv[1])
plain = limits.pop("plain", False)
keep_alive = limits.pop("keep_alive", 5)
path = limits.pop("path", "")
if limits.pop("at_once", False):
    protocol._AT_ONCE = ("/",)
class Watched(protocol.limited(**limits)):
    def on_headers_complete(self):
        super().on_headers_complete()
        if self.cycle is not None:
            self.cycle.scope["callosum.lost"] = lambda: self.parser is None
listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
listener.bind(path or ("127.0.0.1", 0))
listener.listen(128)
config = uvicorn.Config(app, http=HttpToolsProtocol if plain else Watched, ws="none", interface="asgi3", loop="uvloop",
                        lifespan="off", access_log=False, log_level="error", proxy_headers=False, server_header=False,
                        timeout_keep_alive=keep_alive, timeout_graceful_shutdown=1)
say(path or listener.getsockname()[1])
uvicorn.Server(config).run([listener])
"""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    def __init__(self, folder: Path, **limits: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _SERVER, json.dumps(limits)],
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=environment(folder),
        )
        said = self.hears()
        self.address: Any = said if "/" in said else ("127.0.0.1", int(said))

    def hears(self, within: float = 20) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], within)
        assert ready, "the server says nothing"
        return self.process.stdout.readline().strip()

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def connect(self) -> "Client":
        kind = socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET
        plug = socket.socket(kind)
        plug.settimeout(20)
        plug.connect(self.address)
        return Client(plug)

    def says(self, request: bytes) -> Answer:
        with self.connect() as client:
            client.send(request)
            return client.answer()


class Client:
    """A connection with its unread bytes."""

    def __init__(self, plug: socket.socket) -> None:
        self.socket, self.rest = plug, b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def until(self, mark: bytes) -> bytes:
        while mark not in self.rest:
            data = self.socket.recv(65536)
            assert data, f"closed before {mark!r} came: {self.rest[:2000]!r}"
            self.rest += data
        found, _, self.rest = self.rest.partition(mark)
        return found

    def answer(self, *, head: bool = False) -> Answer:
        status, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = 0 if head else int(headers.get("content-length", "0"))
        while len(self.rest) < length:
            data = self.socket.recv(65536)
            assert data, "closed in the middle of an answer"
            self.rest += data
        body, self.rest = self.rest[:length], self.rest[length:]
        return Answer(int(status.split()[1]), headers, body)

    def ended(self) -> bool:
        """Wait until the server closes the connection; return whether nothing came before."""
        try:
            return not self.rest and self.socket.recv(65536) == b""
        except ConnectionError:
            return not self.rest

    def all(self) -> bytes:
        """Return everything up to the end of the connection."""
        try:
            while data := self.socket.recv(65536):
                self.rest += data
        except ConnectionError:
            pass
        return self.rest


LIMITS: dict[str, Any] = {"arrive": 0.4, "linger": 0.4, "stuck": 0.4, "keep_alive": 0.4}


@pytest.fixture(scope="module", params=[False, True], ids=["in tasks", "at once"])
def server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Run a server with the default limits, whose requests run in tasks or, as those of the gate, at once."""
    server = Server(tmp_path_factory.mktemp("server"), at_once=request.param)
    yield server
    assert server.process.poll() is None
    server.stop()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with short time limits."""
    server = Server(tmp_path_factory.mktemp("hasty"), **LIMITS)
    yield server
    assert server.process.poll() is None
    server.stop()


GET = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n"


def post(body: bytes, *headers: bytes, path: bytes = b"/") -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: x", b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


def chunked(*parts: bytes, trailer: bytes = b"", path: bytes = b"/") -> bytes:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"


CHUNKS_COME = chunked(path=b"/told").partition(b"0\r\n")[0]


def refused(answer: Answer, status: int, at: str) -> None:
    assert answer.status == status, answer
    assert answer.json["at"] == at, answer
    assert set(answer.json) == {"error", "at"}
    assert answer.json["error"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_requests_sent_together_are_answered_in_order(server: Server) -> None:
    with server.connect() as client:
        client.send(b"".join(post(b"x" * place, path=b"/%d" % place) for place in range(20)))
        found = [client.answer().json for _ in range(20)]
    assert [(one["path"], one["length"]) for one in found] == [(f"/{place}", place) for place in range(20)]


def test_requests_in_single_bytes_are_understood(server: Server) -> None:
    with server.connect() as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post(b"abc") + chunked(b"de", b"fgh") + GET:
            client.send(bytes((byte,)))
        assert [client.answer().json["length"] for _ in range(3)] == [3, 5, 0]


def test_a_head_request_has_no_body(server: Server) -> None:
    with server.connect() as client:
        client.send(b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n" + GET)
        head = client.answer(head=True)
        assert (head.status, head.headers["content-type"]) == (200, "application/json")
        assert client.answer().json["method"] == "GET"


def test_client_that_expects_100_is_told_to_continue(server: Server) -> None:
    with server.connect() as client:
        for _ in range(2):
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
            assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
            client.send(b"abc")
            found = client.answer()
            assert (found.json["length"], found.headers.get("connection")) == (3, None)


def test_refused_client_that_expects_100_is_disconnected(server: Server) -> None:
    with server.connect() as client:
        client.send(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\nExpect: 100-continue\r\n\r\n")
        found = client.answer()
        assert found.status == 401
        assert client.ended()


def test_a_request_that_is_answered_early_does_not_spoil_the_next(server: Server) -> None:
    with server.connect() as client:
        whole = post(b"x" * 300_000, path=b"/early")
        client.send(whole[:1000])
        assert client.answer().status == 401
        client.send(whole[1000:] + GET)
        assert client.answer().json["path"] == "/a"


def test_http_1_0_is_answered_and_closed(server: Server) -> None:
    with server.connect() as client:
        client.send(b"GET /a HTTP/1.0\r\n\r\n")
        assert client.answer().json["version"] == "1.0"
        assert client.ended()


@pytest.mark.parametrize("body", [b"", b"abc"])
@pytest.mark.parametrize("upgrade", [b"h2c", b"websocket"])
def test_an_upgrade_is_ignored_and_the_body_is_not_lost(server: Server, upgrade: bytes, body: bytes) -> None:
    wishes = b"Connection: Upgrade, HTTP2-Settings, keep-alive", b"Upgrade: " + upgrade, b"HTTP2-Settings: AAEAAEAA"
    with server.connect() as client:
        client.send(post(body, *wishes) * 3 + GET)
        found = [client.answer() for _ in range(4)]
    assert [one.json["body"] for one in found] == [body.decode()] * 3 + [""]
    assert found[0].json["headers"] == ["host", "content-length", "connection"]


def test_trailers_do_not_become_headers(server: Server) -> None:
    found = server.says(chunked(b"abc", trailer=b"Authorization: Bearer x\r\nHost: y\r\n"))
    assert found.json["headers"] == ["host", "transfer-encoding"]


def test_a_body_of_the_greatest_length_is_taken(server: Server) -> None:
    assert server.says(post(b"x" * 5_000_000)).json["length"] == 5_000_000
    assert server.says(chunked(*[b"x" * 50_000] * 100)).json["length"] == 5_000_000


def test_stream_ends_when_its_reader_disconnects_even_behind_another_request(server: Server) -> None:
    with server.connect() as client:
        client.send(b"GET /gone HTTP/1.1\r\nHost: x\r\n\r\n" + GET)
        assert server.hears() == "streaming"
    assert server.hears() == "gone"


BAD = {
    "no http": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "request"),
    "http 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "request"),
    "another version": (b"GET / HTTP/0.9\r\nHost: x\r\n\r\n", "request"),
    "an unknown method": (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", "request"),
    "a space in the target": (b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", "request"),
    "a target beyond ascii": (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n", "request"),
    "another server": (b"GET http://evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "target"),
    "a tunnel": (b"CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", "target"),
    "no host": (b"GET / HTTP/1.1\r\nAccept: x\r\n\r\n", "Host"),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "Host"),
    "a folded header": (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", "request"),
    "a folded first header": (b"GET / HTTP/1.1\r\n Host: x\r\n\r\n", "request"),
    "a space before the colon": (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", "request"),
    "no colon": (b"GET / HTTP/1.1\r\nHost x\r\n\r\n", "request"),
    "a nul": (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\0\r\n\r\n", "request"),
    "line feeds alone": (b"GET / HTTP/1.1\nHost: x\n\n", "request"),
    "a carriage return alone": (b"GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n", "request"),
    "length and chunks": (post(b"abc", b"Transfer-Encoding: chunked"), "request"),
    "chunks and length": (chunked(b"abc").replace(b"Host", b"Content-Length: 3\r\nHost", 1), "request"),
    "two lengths": (post(b"abc", b"Content-Length: 3"), "request"),
    "a signed length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc", "request"),
    "a length beyond numbers": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", "request"),
    "packed chunks": (chunked(b"abc").replace(b"chunked", b"gzip, chunked"), "Transfer-Encoding"),
    "chunks in 1.0": (chunked(b"abc").replace(b"HTTP/1.1", b"HTTP/1.0"), "Transfer-Encoding"),
    "a coding that is none": (chunked(b"abc").replace(b"chunked", b"xchunked"), "request"),
    "a bad chunk": (chunked(b"abc").replace(b"\r\n3\r\n", b"\r\nzz\r\n"), "body"),
    "a chunk that is longer": (chunked(b"abc").replace(b"\r\n3\r\n", b"\r\n2\r\n"), "body"),
    "a length in a trailer": (chunked(b"abc", trailer=b"Content-Length: 3\r\n"), "body"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_malformed_http_is_refused_and_the_connection_closed(hasty: Server, name: str) -> None:
    request, at = BAD[name]
    with hasty.connect() as client:
        client.send(request)
        answer = client.answer()
        # a parser may notice a wrong coding only when the head is through
        refused(answer, 400, answer.json["at"] if name == "a coding that is none" else at)
        assert client.ended()


def test_error_repeats_nothing_of_a_bad_request(server: Server) -> None:
    secret = b"cal_x_secret"
    for request in (
        b"GET /" + secret + b"\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nAuthorization " + secret + b"\r\n\r\n",
        b"GET " + secret + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ):
        assert b"secret" not in server.says(request).body


def test_limits_of_the_head(server: Server) -> None:
    at_most = b"GET /%b HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 99 + b"\r\n"
    assert server.says(at_most % (b"a" * 8191)).status == 200
    refused(server.says(at_most % (b"a" * 8192)), 414, "target")
    refused(server.says(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 100 + b"\r\n"), 431, "headers")
    refused(server.says(b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 16_384 + b"\r\n\r\n"), 431, "headers")


@pytest.mark.parametrize(
    ("flood", "status", "at"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20_000, 431, "headers"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 40_000_000, 431, "headers"),
        (b"GET /" + b"a" * 40_000_000, 414, "target"),
    ],
)
def test_endless_head_is_refused_without_being_kept(server: Server, flood: bytes, status: int, at: str) -> None:
    before = server.says(GET).json["memory"]
    with server.connect() as client:
        client.send(flood)
        refused(client.answer(), status, at)
    assert server.says(GET).json["memory"] - before < 10_000_000


def test_body_with_too_large_a_content_length_is_refused_before_it_arrives(server: Server) -> None:
    with server.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000001\r\nExpect: 100-continue\r\n\r\n")
        refused(client.answer(), 413, "body")


@pytest.mark.parametrize(
    "flood",
    [
        b"1;" + b"a" * 9_000_000,  # an extension
        b"0\r\nA: " + b"b" * 9_000_000,  # a trailer
        b"1\r\nx\r\n" * 1_500_000,  # more frame than content
    ],
)
def test_chunk_framing_counts_towards_the_body_limit(server: Server, flood: bytes) -> None:
    with server.connect() as client:
        client.send(CHUNKS_COME + flood)
        refused(client.answer(), 413, "body")
    assert server.hears() == "disconnect"


def test_incomplete_request_is_refused_with_its_place(server: Server) -> None:
    told = b"/told"
    for request, at in (
        (post(b"abcdef", path=told)[:-3], "body"),
        (GET[:-4], "request"),
        (chunked(b"abc", path=told)[:-7], "body"),
    ):
        with server.connect() as client:
            client.send(request)
            client.socket.shutdown(socket.SHUT_WR)
            refused(client.answer(), 400, at)
            assert client.ended()
        if at == "body":
            assert server.hears() == "disconnect"


def test_an_answer_never_overtakes_an_earlier_one(server: Server) -> None:
    with server.connect() as client, server.connect() as other:
        client.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + GET + b"no http\r\n\r\n" + GET)
        assert server.hears() == "slow"
        client.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.socket.recv(1)
        client.socket.settimeout(20)
        other.send(b"GET /go HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [client.answer().json["path"] for _ in range(2)] == ["/slow", "/a"]
        refused(client.answer(), 400, "request")
        assert client.ended()


def test_pipelined_requests_are_limited(server: Server) -> None:
    with server.connect() as client, server.connect() as other:
        client.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + GET * 1000)
        assert server.hears() == "slow"
        other.send(b"GET /go HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [client.answer().status for _ in range(65)] == [200] * 65
        refused(client.answer(), 503, "connection")


@pytest.mark.parametrize(
    ("start", "drop", "at"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b"A: b\r\n", "request"),
        (post(b"", path=b"/told").replace(b": 0", b": 4000"), b"x", "body"),
        (CHUNKS_COME, b"1\r\nx\r\n", "body"),
        (GET * 3 + b"G", b"", "request"),
    ],
)
def test_slow_request_must_be_complete_before_the_time_limit(hasty: Server, start: bytes, drop: bytes, at: str) -> None:
    began = time.monotonic()
    with hasty.connect() as client:
        client.send(start)
        for _ in range(start.count(b"/a?b")):
            assert client.answer().status == 200
        while not select.select([client.socket], [], [], 0.03)[0]:
            client.send(drop)
            assert time.monotonic() - began < HANG
        refused(client.answer(), 408, at)
        assert time.monotonic() - began > 0.35
        assert client.ended()
    if at == "body":
        assert hasty.hears() == "disconnect"


@pytest.mark.parametrize("said", [b"", b"\r\n", GET, GET + b"\r\n"])
def test_idle_connection_is_closed(hasty: Server, said: bytes) -> None:
    with hasty.connect() as client:
        client.send(said)
        if said.startswith(b"GET"):
            assert client.answer().status == 200
        assert client.ended()


def test_connection_in_use_outlives_the_time_for_idle_ones(hasty: Server) -> None:
    with hasty.connect() as used, hasty.connect() as idle:
        for client in (used, idle):
            client.send(GET)
            assert client.answer().status == 200
        used.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert hasty.hears() == "slow"
        assert idle.ended()  # the time has passed for both
        assert hasty.says(b"GET /go HTTP/1.1\r\nHost: x\r\n\r\n").status == 200
        assert used.answer().status == 200
        assert used.ended()


def test_client_that_does_not_read_is_disconnected(hasty: Server) -> None:
    with hasty.connect() as client:
        client.send(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        assert hasty.hears() == "flooding"
        assert hasty.hears() == "dropped"


def test_a_long_answer_is_not_cut_off_by_the_time_for_requests(hasty: Server) -> None:
    with hasty.connect() as client, hasty.connect() as other:
        client.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert hasty.hears() == "slow"
        assert other.ended()  # which takes as long as a request may
        assert hasty.says(b"GET /go HTTP/1.1\r\nHost: x\r\n\r\n").status == 200
        assert client.answer().json["path"] == "/slow"


def test_connection_over_the_limit_is_refused_until_another_closes(tmp_path: Path) -> None:
    server = Server(tmp_path, connections=3, linger=0.2)
    try:
        clients = [server.connect() for _ in range(3)]
        for client in clients:
            client.send(GET)
            assert client.answer().status == 200
        with server.connect() as fourth:
            refused(fourth.answer(), 503, "connection")
            assert fourth.ended()
        crowd = [server.connect() for _ in range(100)]
        words = [one.all() for one in crowd]  # the first are told so, the last nothing at all
        assert {word[:13] for word in words} == {b"HTTP/1.1 503 ", b""}
        for client in crowd:
            client.socket.close()
        clients.pop().socket.close()
        ends = time.monotonic() + HANG
        while server.says(GET).status != 200:
            assert time.monotonic() < ends
        clients[0].send(GET)
        assert clients[0].answer().status == 200
        for client in clients:
            client.socket.close()
    finally:
        server.stop()


def test_protocol_works_over_a_unix_socket(tmp_path: Path) -> None:
    folder = tempfile.TemporaryDirectory(dir="/tmp")  # a socket's path is short
    server = Server(tmp_path, path=f"{folder.name}/s", **LIMITS)
    try:
        assert server.says(post(b"abc")).json["length"] == 3
        refused(server.says(post(b"").replace(b": 0", b": 9000000")), 413, "body")
        with server.connect() as client:
            client.send(GET[:-2])
            refused(client.answer(), 408, "request")
    finally:
        server.stop()
        folder.cleanup()


@pytest.mark.parametrize("at_once", [False, True])
def test_server_stops_although_clients_stay_connected(tmp_path: Path, at_once: bool) -> None:
    server = Server(tmp_path, at_once=at_once)
    idle, half, slow = (server.connect() for _ in range(3))
    idle.send(GET)
    assert idle.answer().status == 200
    half.send(GET[:-2])
    slow.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    assert server.hears() == "slow"
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < HANG
    for client in (idle, half, slow):
        client.socket.close()


def test_uvicorns_own_protocol_would_accept_these_requests(tmp_path: Path) -> None:
    """Negative control: the limits are those of this protocol; uvicorn's own accepts these requests."""
    server = Server(tmp_path, plain=True)
    try:
        assert server.says(b"GET / HTTP/1.1\r\nA: b\r\n\r\n").status == 200
        assert server.says(b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n").status == 200
        assert server.says(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 5000 + b"\r\n").status == 200
        assert server.says(post(b"x" * 9_000_000)).json["length"] == 9_000_000
        upgraded = server.says(post(b"abc", b"Connection: Upgrade", b"Upgrade: h2c"))
        assert upgraded.json["length"] == 0
        bad = server.says(b"no http\r\n\r\n")
        assert re.match("text/plain", bad.headers["content-type"])
    finally:
        server.stop()
