"""One request has one hard deadline, whatever the peer does."""

import errno
import os
import select
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from callosum.client.http1 import MAX_BODY, MAX_HEAD
from callosum.client.transport import (
    MAX_IDLE,
    BadResponse,
    DeadlineExceeded,
    GateAddress,
    HttpResponse,
    Transport,
    Unreachable,
)
from tests.support.cpu import HANG
from tests.support.peer import Peer, Request, Script, close, free_port, full_backlog, hang, replies, sends_bytes
from tests.support.threads import all_at_once

Transports = Callable[..., Transport]

SHORT = 0.2
FORKS = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # that is what is tested


@pytest.fixture
def transports() -> Iterator[Transports]:
    made: list[Transport] = []

    def make(url: str, **more: Any) -> Transport:
        made.append(Transport(url, **more))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


def get(transport: Transport, seconds: float = 10.0, **more: Any) -> HttpResponse:
    return transport.request("GET", "/status", deadline=time.monotonic() + seconds, **more)


def post(transport: Transport, body: bytes = b"{}", seconds: float = 10.0, **more: Any) -> HttpResponse:
    return transport.request("POST", "/late", body, deadline=time.monotonic() + seconds, **more)


@pytest.mark.parametrize(
    ("url", "place", "authority", "prefix"),
    [
        ("http://127.0.0.1:7700", ("127.0.0.1", 7700), "127.0.0.1:7700", ""),
        ("http://localhost", ("localhost", 80), "localhost", ""),
        ("https://gate.example.com", ("gate.example.com", 443), "gate.example.com", ""),
        ("https://gate.example.com:7700/a/b/", ("gate.example.com", 7700), "gate.example.com:7700", "/a/b"),
        ("http://[::1]:7700/", ("::1", 7700), "[::1]:7700", ""),
        ("http://[fe80::1]", ("fe80::1", 80), "[fe80::1]", ""),
        ("unix:/run/gate.sock", "/run/gate.sock", "localhost", ""),
        ("unix:///run/gate.sock", "/run/gate.sock", "localhost", ""),
        ("http+unix:///run/gate.sock", "/run/gate.sock", "localhost", ""),
        ("http+unix://%2Frun%2Fa%20b.sock", "/run/a b.sock", "localhost", ""),
        ("http+unix://%2Frun%2Fgate.sock/pre", "/run/gate.sock", "localhost", "/pre"),
    ],
)
def test_addresses_are_parsed(url: str, place: Any, authority: str, prefix: str) -> None:
    address = GateAddress(url)
    assert (address.path or (address.host, address.port)) == place
    assert (address.authority, address.prefix, address.tls) == (authority, prefix, url.startswith("https"))


@pytest.mark.parametrize(
    "url",
    [
        "", "gate", "127.0.0.1:7700", "ftp://host", "http:/host", "http://", "http://:7700", "http://host:x",
        "http://host:0", "http://host:65536", "http://host:-1", "http://a:b:1", "http://user:secret@host",
        "http://host/a b", "http://host/?x=1", "http://host/#x", "http://host\r\nX: 1", "http://höst", "http://[::1",
        "http://[::1]x", "unix:", "unix://", "http+unix://", "http+unix://%", "http+unix://%2Gx", "http://host/\u202e",
    ],
)  # fmt: skip
def test_malformed_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        Transport(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["a b", "a\r\nX: 1", "tökén", "a\0"])
def test_malformed_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="token") as caught:
        Transport("http://127.0.0.1:1", token=token)
    assert token not in str(caught.value)


def test_a_request_over_tcp_and_over_a_unix_socket(transports: Transports, tmp_path: Path) -> None:
    for peer in (Peer(), Peer(path=tmp_path / "gate.sock")):
        with peer:
            transport = transports(peer.url, token="s3cret")
            answer = post(transport, b'{"a": 1}')
            assert (answer.status, answer.body[:1], answer.headers[b"content-type"]) == (200, b"{", b"application/json")
            get(transport)
            first, second = peer.seen
            assert (first.method, first.target, first.body) == ("POST", "/late", b'{"a": 1}')
            assert first.headers == {
                "host": transport.address.authority, "authorization": "Bearer s3cret",
                "content-type": "application/json", "content-length": "8",
            }  # fmt: skip
            assert (second.method, second.body) == ("GET", b"")
            assert "content-length" not in second.headers
            assert peer.connections == 1
            assert "s3cret" not in repr(transport)


def test_small_requests_are_sent_at_once(transports: Transports) -> None:
    with Peer() as peer:
        transport = transports(peer.url)
        get(transport)
        sock = transport._idle[0]._sock
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_prefix_is_added_to_every_path(transports: Transports) -> None:
    with Peer() as peer:
        get(transports(f"{peer.url}/gate/"))
        assert peer.seen[0].target == "/gate/status"


def test_host_names_are_resolved(transports: Transports, monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer() as peer:
        assert get(transports(f"http://localhost:{peer.port}")).status == 200
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", peer.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, **more: found)
        assert get(transports(f"http://gate.test:{peer.port}")).status == 200


@pytest.mark.parametrize(
    ("data", "body", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hint\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", b"abc", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", b"abc", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK", b"abc", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nmore", b"abc", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n", b"", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("drip", [False, True])
def test_every_form_of_response_is_read(
    transports: Transports, data: bytes, body: bytes, kept: bool, drip: bool
) -> None:
    def script(request: Request) -> None:
        for at in range(len(data)) if drip else ():
            request.raw(data[at : at + 1])
        if not drip:
            request.raw(data)

    with Peer(script) as peer:
        transport = transports(peer.url)
        answer = get(transport)
        assert answer.body == body
        if not drip or kept:  # data after a response may arrive too late to be noticed with it
            assert len(transport._idle) == kept
            assert get(transport).body == body


def test_body_that_ends_with_the_connection_is_read(transports: Transports) -> None:
    with Peer(sends_bytes(b"HTTP/1.1 200 OK\r\n\r\nabc")) as peer:
        assert get(transports(peer.url)).body == b"abc"


def test_large_body_is_sent(transports: Transports) -> None:
    large = os.urandom(3_000_000)
    with Peer(lambda request: request.reply(request.body)) as peer:
        assert post(transports(peer.url), large).body == large


def test_early_response_is_read(transports: Transports) -> None:
    """As from a server that refuses a request as too long and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(10)
            connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert post(transports(f"http://127.0.0.1:{listener.getsockname()[1]}"), b"x" * 3_000_000).status == 413
    finally:
        thread.join(HANG)
        listener.close()


GARBAGE: dict[str, Script] = {
    "another protocol": sends_bytes(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "noise": sends_bytes(os.urandom(5) + b"\xff\x00\r\n\r\n"),
    "noise without end": sends_bytes(b"\x15\x03\x01\x00\x02\x02\x46", then=hang),
    "half a head": sends_bytes(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "half a body": sends_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
    "half a chunk": sends_bytes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"),
    "no last chunk": sends_bytes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
    "two lengths": sends_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    "too long": sends_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1), then=hang),
    "endless head": sends_bytes(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * (MAX_HEAD // 6 + 1), then=hang),
    "endless header": sends_bytes(b"HTTP/1.1 200 OK\r\nX: " + b"y" * (MAX_HEAD + 1), then=hang),
    "endless hints": sends_bytes(b"HTTP/1.1 103 Hint\r\n\r\n" * 10),
}


@pytest.mark.parametrize("script", GARBAGE.values(), ids=GARBAGE)
def test_malformed_response_is_an_error(transports: Transports, script: Script) -> None:
    with Peer(script) as peer:
        transport = transports(peer.url)
        with pytest.raises(BadResponse) as caught:
            get(transport)
        assert caught.value.sent
        assert not transport._idle


def test_an_endless_body_is_bounded(transports: Transports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callosum.client.transport.MAX_BODY", 1_000_000)

    def script(request: Request) -> None:
        request.raw(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            request.raw(b"x" * 65536)

    def chunks(request: Request) -> None:
        request.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            request.raw(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    for endless in (script, chunks):
        with Peer(endless) as peer, pytest.raises(BadResponse, match="longer"):
            get(transports(peer.url))


def drips(request: Request) -> None:
    """Always says a little more, until the other side has had enough."""
    request.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    waits = threading.Event()
    while not waits.wait(0.01):
        request.raw(b"x")


@pytest.mark.parametrize(
    "script",
    [hang, drips, sends_bytes(b"HTTP/1.1 200 OK\r\n", then=hang), sends_bytes(b"HTTP/1.1 200 OK\r\n\r\n", then=hang)],
)
def test_no_request_outlasts_its_deadline(transports: Transports, script: Script) -> None:
    with Peer(script) as peer:
        transport = transports(peer.url)
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded) as caught:
            get(transport, SHORT)
        assert SHORT <= time.monotonic() - began < HANG
        assert caught.value.sent
        assert not transport._idle


def test_peer_that_does_not_read_is_given_up(transports: Transports) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded) as caught:
            post(transports(f"http://127.0.0.1:{listener.getsockname()[1]}"), b"x" * 20_000_000, SHORT)
        assert time.monotonic() - began < HANG
        assert caught.value.sent


def test_port_that_accepts_no_connection_is_given_up(transports: Transports) -> None:
    with full_backlog() as url:
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded) as caught:
            get(transports(url), SHORT)
        assert time.monotonic() - began < HANG
        assert not caught.value.sent
        with pytest.raises(DeadlineExceeded):
            get(transports(url), 60, connect_by=time.monotonic() + SHORT)


def test_hung_name_server_is_given_up(transports: Transports, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, **more: Any) -> list[Any]:
        asked.append(host)
        free.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    transport = transports("http://gate.test:7700")
    try:
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(DeadlineExceeded) as caught:
                get(transport, SHORT)
            assert time.monotonic() - began < HANG
            assert not caught.value.sent
        assert asked == ["gate.test"]  # one question is enough
    finally:
        free.set()
        for thread in threading.enumerate():
            if thread.name == "callosum-lookup":
                thread.join(HANG)


def test_passed_deadline_sends_nothing(transports: Transports) -> None:
    with Peer() as peer:
        transport = transports(peer.url)
        get(transport)
        with pytest.raises(DeadlineExceeded):
            get(transport, -1)
        with pytest.raises(DeadlineExceeded):
            get(transports(peer.url), -1)
        assert len(peer.seen) == 1


def test_closed_port_and_stale_socket_are_unreachable(transports: Transports, tmp_path: Path) -> None:
    stale = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(stale))
    port = free_port()
    for url in (f"http://127.0.0.1:{port}", f"http://localhost:{port}", f"unix:{tmp_path}/none.sock", f"unix:{stale}"):
        with pytest.raises(Unreachable) as caught:
            get(transports(url))
        assert (caught.value.sent, caught.value.absent) == (False, True)


def test_unknown_host_name_is_unreachable(transports: Transports, monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, port: int, **more: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(Unreachable, match="not known") as caught:
        get(transports("http://gate.test:7700"))
    assert (caught.value.sent, caught.value.absent) == (False, False)


@pytest.mark.parametrize("url", ["http://127.0.0.1:7700", "unix:/tmp/callosum-none.sock"])
def test_no_file_left_for_a_socket_counts_as_unreachable(
    transports: Transports, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", full)
    with pytest.raises(Unreachable, match="Too many open files") as caught:
        get(transports(url))
    assert not caught.value.sent


def test_no_thread_left_to_look_up_a_name_counts_as_unreachable(
    transports: Transports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is looked up again the next time."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    transport = transports("http://gate.invalid:7700")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(Unreachable, match="start new thread"):
            get(transport)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    with pytest.raises(Unreachable, match="no address"):
        get(transport)


def test_too_long_socket_path_is_refused(transports: Transports) -> None:
    with pytest.raises(Unreachable):
        get(transports(f"unix:/{'x' * 300}"))


def quiet_close(peer: Peer, transport: Transport) -> None:
    """Closes the kept connection and returns once its end has arrived."""
    connection = transport._idle[0]
    peer.hang_up()
    poll = select.poll()
    poll.register(connection._sock, select.POLLIN)
    assert poll.poll(10_000)


def test_closed_connection_is_replaced(transports: Transports) -> None:
    with Peer() as peer:
        transport = transports(peer.url)
        get(transport)
        quiet_close(peer, transport)
        assert post(transport).status == 200
        assert (len(peer.seen), peer.connections) == (2, 2)


def test_unsolicited_response_is_never_used(transports: Transports) -> None:
    """A late response on a kept connection would be taken for that of the next request."""
    late = threading.Event()
    said = threading.Event()

    def first(request: Request) -> None:
        request.reply({"first": True})
        late.wait(10)
        request.reply({"late": True})
        said.set()

    with Peer(first, replies({"second": True})) as peer:
        transport = transports(peer.url)
        get(transport)
        late.set()
        said.wait(10)
        assert b"second" in get(transport).body
        assert peer.connections == 2


@pytest.mark.parametrize(("again", "count"), [(True, 3), (False, 2)])
def test_connection_that_closes_during_the_request_is_an_error(transports: Transports, again: bool, count: int) -> None:
    """The gate may have received it: only a repeatable request is sent again, and once."""
    with Peer(Request.reply, close, Request.reply) as peer:
        transport = transports(peer.url)
        get(transport)
        if again:
            assert post(transport, again=True).status == 200
        else:
            with pytest.raises(Unreachable) as caught:
                post(transport)
            assert caught.value.sent
        assert len(peer.seen) == count


def test_a_new_connection_that_closes_is_not_tried_again(transports: Transports) -> None:
    with Peer(close) as peer:
        with pytest.raises(Unreachable) as caught:
            get(transports(peer.url), again=True)
        assert caught.value.sent
        assert len(peer.seen) == 1


def test_threads_have_connections_of_their_own(transports: Transports) -> None:
    together = threading.Barrier(8, timeout=10)

    def script(request: Request) -> None:
        together.wait()
        request.reply({"got": request.body.decode()})

    with Peer(script) as peer:
        transport = transports(peer.url)
        found: list[bytes] = []

        def work(name: int) -> None:
            found.extend(post(transport, b"%d" % name).body for _ in range(3))

        all_at_once([partial(work, name) for name in range(8)])
        assert sorted(found) == sorted(b'{"got": "%d"}' % name for name in range(8) for _ in range(3))
        assert peer.connections <= 24
        assert len(transport._idle) == 8 <= MAX_IDLE
        assert not transport._busy


def test_the_number_of_kept_connections_is_bounded(transports: Transports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callosum.client.transport.MAX_IDLE", 2)
    together = threading.Barrier(4, timeout=10)

    def script(request: Request) -> None:
        together.wait()
        request.reply()

    with Peer(script) as peer:
        transport = transports(peer.url)
        all_at_once([partial(get, transport)] * 4)
        assert len(transport._idle) == 2


@FORKS
def test_forked_child_opens_its_own_connection(transports: Transports, tmp_path: Path) -> None:
    with Peer(path=tmp_path / "gate.sock") as peer:
        transport = transports(peer.url)
        get(transport)
        mine, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                told = [get(transport).status, len(transport._idle), len(transport._busy)]
                os.write(theirs, repr(told).encode())
                transport.close()
                status = 0
            finally:
                os._exit(status)
        os.close(theirs)
        _, status = os.waitpid(child, 0)
        with os.fdopen(mine) as pipe:
            assert pipe.read() == "[200, 1, 0]"
        assert status == 0
        assert get(transport).status == 200  # the parent's was not touched
        assert peer.connections == 2


@FORKS
def test_fork_during_a_request_does_not_disturb_it(transports: Transports, tmp_path: Path) -> None:
    """The child closes its copy; the parent's request still gets its response."""
    free = threading.Event()

    def slow(request: Request) -> None:
        free.wait(10)
        request.reply({"for": "the parent"})

    with Peer(slow, path=tmp_path / "gate.sock") as peer:
        transport = transports(peer.url)
        found: list[bytes] = []
        thread = threading.Thread(target=lambda: found.append(get(transport).body))
        thread.start()
        peer.wait(1)
        child = os.fork()
        if child == 0:
            transport.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        free.set()
        thread.join(HANG)
        assert found == [b'{"for": "the parent"}']


def test_closing_ends_requests_of_other_threads(transports: Transports) -> None:
    with Peer(hang) as peer:
        transport = transports(peer.url)
        caught: list[BaseException] = []

        def work() -> None:
            try:
                get(transport, 60)
            except Unreachable as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        peer.wait(1)
        transport.close()
        thread.join(HANG)
        assert len(caught) == 1
        with pytest.raises(Unreachable, match="closed"):
            get(transport)
        transport.close()


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\n\r\nabcdef",
    ],
)
def test_a_stream_is_read_to_its_end(transports: Transports, data: bytes) -> None:
    with Peer(sends_bytes(data)) as peer:
        transport = transports(peer.url)
        deadline = time.monotonic() + HANG
        stream = transport.open("/events", ["Accept: text/event-stream", "Last-Event-ID: 5"], deadline=deadline)
        assert stream.read_all(deadline).body == b"abcdef"
        assert stream.read(deadline) == b""
        stream.close()
        assert peer.seen[0].headers["last-event-id"] == "5"
        assert not transport._busy


def test_silent_stream_is_given_up(transports: Transports) -> None:
    with Peer(sends_bytes(b"HTTP/1.1 200 OK\r\n\r\n", then=hang)) as peer:
        transport = transports(peer.url)
        stream = transport.open("/events", deadline=time.monotonic() + HANG)
        with pytest.raises(DeadlineExceeded):
            stream.read(time.monotonic() + SHORT)
        thread = threading.Thread(target=transport.close)
        thread.start()
        assert stream.read(time.monotonic() + 60) == b""
        thread.join(HANG)
        stream.close()


def test_stream_that_does_not_open_is_an_error(transports: Transports) -> None:
    with Peer(close) as peer:
        transport = transports(peer.url)
        with pytest.raises(Unreachable):
            transport.open("/events", deadline=time.monotonic() + HANG)
        assert not transport._busy


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of its own for 127.0.0.1, with its key in the same file."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key", "-out", folder / "cert",
        ],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    both = folder / "both.pem"
    both.write_bytes((folder / "key").read_bytes() + (folder / "cert").read_bytes())
    return both


@pytest.fixture
def secured(certificate: Path) -> Callable[[socket.socket], socket.socket]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return lambda connection: context.wrap_socket(connection, server_side=True)


def test_request_over_tls(transports: Transports, certificate: Path, secured: Any) -> None:
    large = os.urandom(1_000_000)
    with Peer(lambda request: request.reply(request.body), wrap=secured) as peer:
        transport = transports(peer.url, cafile=str(certificate))
        for _ in range(2):
            assert post(transport, large).body == large
        assert peer.connections == 1
        assert get(transports(peer.url, verify=False)).status == 200


def test_untrusted_certificate_is_refused(transports: Transports, secured: Any) -> None:
    with Peer(wrap=secured) as peer:
        with pytest.raises(Unreachable, match="certificate") as caught:
            get(transports(peer.url))
        assert not caught.value.sent
        assert not peer.seen


def test_hung_tls_handshake_is_given_up(transports: Transports) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            get(transports(f"https://127.0.0.1:{listener.getsockname()[1]}"), SHORT)
        assert time.monotonic() - began < HANG


def test_hung_tls_response_is_given_up(transports: Transports, certificate: Path, secured: Any) -> None:
    with Peer(hang, wrap=secured) as peer:
        with pytest.raises(DeadlineExceeded):
            get(transports(peer.url, cafile=str(certificate)), SHORT)
        transport = transports(peer.url, cafile=str(certificate))

        def end() -> None:
            peer.wait(2)
            transport.close()

        thread = threading.Thread(target=end)
        thread.start()
        with pytest.raises(Unreachable):
            get(transport, 60)
        thread.join(HANG)


def test_plain_http_to_a_tls_port_is_an_error(transports: Transports, secured: Any) -> None:
    with Peer(wrap=secured) as peer, pytest.raises((BadResponse, Unreachable)):
        get(transports(peer.url.replace("https", "http")))


def test_tls_to_a_plain_http_port_is_an_error(transports: Transports) -> None:
    def wrap(connection: socket.socket) -> socket.socket:
        connection.recv(5)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        return connection

    with Peer(wrap=wrap) as peer, pytest.raises(Unreachable, match=r"(?i)ssl"):
        get(transports(peer.url))
