"""Send requests to a gate over TCP, TLS or a Unix socket, each with one hard deadline.

::

    request ── a kept connection, or a new one ── send ── receive ── response, and the connection is kept

A connection carries one request at a time and is kept only after its response was read to the end, so one response can
never be taken for another. Only the process that opened a connection uses it: a forked child opens its own. Usable from
any thread. The transport follows no redirects and ignores proxy variables: a gate is where its URL says.

This module exists because no library has one deadline for a whole request, and for speed: over a Unix socket
`http.client` takes 3 times as long, `urllib3` 6 and `httpx` 14 times (`python -m bench.run --only transport`,
2026-11-23).
"""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from time import monotonic

from callosum.client.errors import BadResponse, DeadlineExceeded, TransportError, Unreachable
from callosum.client.http1 import MAX_BODY, MAX_HEAD, ChunkedBody, ResponseHead, read_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    import threading
    from collections.abc import Callable, Iterable, Mapping
    from typing import Final

__all__ = [
    "BadResponse",
    "DeadlineExceeded",
    "GateAddress",
    "HttpResponse",
    "ResponseStream",
    "Transport",
    "TransportError",
    "Unreachable",
]

MAX_IDLE: Final = 16
"""Maximum number of idle connections kept for reuse."""
_PIECE: Final = 65_536
_PORTS: Final = {"http": 80, "https": 443}
_UNIX: Final = getattr(socket, "AF_UNIX", None)
"""Address family of Unix sockets, None on a system without them."""


class GateAddress:
    """Where a gate listens, parsed from its URL.

    ::

        http://127.0.0.1:7700    https://gate.example.com/callosum
        unix:/run/user/1000/callosum.sock    http+unix://%2Frun%2Fuser%2F1000%2Fcallosum.sock

    ``path`` is the socket file ("" over TCP); ``prefix`` precedes the path of every request. Raises ``ValueError`` for
    anything else, including a URL with a user name, because a secret does not belong there.
    """

    __slots__ = ("host", "path", "port", "prefix", "tls", "url")

    def __init__(self, url: str) -> None:
        self.url = url
        self.host, self.port, self.path, self.prefix, self.tls = "localhost", 0, "", "", False
        if not url.isprintable() or any(character in url for character in " ?#"):
            raise ValueError("expected an address without spaces, query and fragment")
        scheme, colon, rest = url.partition(":")
        if colon and scheme == "unix":
            self.path = rest.removeprefix("//")
        elif colon and scheme == "http+unix" and rest.startswith("//"):
            self._read_socket(rest[2:])
        elif colon and scheme in _PORTS and rest.startswith("//"):
            self.tls = scheme == "https"
            self._read_place(rest[2:], _PORTS[scheme])
            return
        else:
            raise ValueError("expected http://HOST:PORT, https://HOST:PORT or unix:/PATH")
        if not self.path:
            raise ValueError("expected the path of a socket")

    def _read_socket(self, rest: str) -> None:
        if rest.startswith("/"):
            self.path = rest
            return
        quoted, _, prefix = rest.partition("/")
        self.path = _unquoted(quoted)
        self.prefix = f"/{prefix.rstrip('/')}" if prefix.strip("/") else ""

    def _read_place(self, rest: str, port: int) -> None:
        place, _, prefix = rest.partition("/")
        self.prefix = f"/{prefix.rstrip('/')}" if prefix.strip("/") else ""
        if "@" in place:
            raise ValueError("expected an address without user name and password")
        if place.startswith("["):
            self.host, bracket, after = place[1:].partition("]")
            written = after.removeprefix(":") if bracket and (not after or after[0] == ":") else "?"
        else:
            self.host, _, written = place.partition(":")
        if not self.host or not rest.isascii() or (written and not written.isdecimal()):
            raise ValueError("expected HOST:PORT in ASCII, an IPv6 address in brackets")
        self.port = int(written) if written else port
        if not 0 < self.port < 65_536:
            raise ValueError("expected a port from 1 to 65535")

    @property
    def authority(self) -> str:
        """Return the value of the ``Host`` header."""
        if self.path:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS["https" if self.tls else "http"] else f"{host}:{self.port}"


def _unquoted(text: str) -> str:
    first, *others = text.encode().split(b"%")
    try:
        return os.fsdecode(first + b"".join(bytes.fromhex(part[:2].decode()) + part[2:] for part in others))
    except ValueError:
        raise ValueError("expected a percent-encoded path of a socket") from None


class HttpResponse:
    """A response: ``status``, ``headers`` (lower-case names, as bytes) and ``body``."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class Transport:
    """Sends requests to one address. ``token`` is sent with each request and never shown.

    Without one, ``machine_token`` is called for each connection to the loopback with its port; the token that it
    returns is sent over that connection ("": none).
    ``cafile``: certificates to trust instead of the system's; ``verify`` False trusts any certificate (for tests).
    Deadlines are moments of ``clock`` (default ``time.monotonic``). Raises ``ValueError`` for a URL or token that
    cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        machine_token: Callable[[int], str] | None = None,
        cafile: str | None = None,
        verify: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.address = GateAddress(url)
        self.closed = False
        self.owner: int | None = None
        """Over a Unix socket: the user id that the listening process must have, None for any."""
        lines = [f"Host: {self.address.authority}"]
        if token:
            if not token.isascii() or not token.isprintable() or " " in token:
                raise ValueError("the token contains characters that tokens never contain")
            lines.append(f"Authorization: Bearer {token}")
        self._machine_token = None if token else machine_token
        self._lines = "\r\n".join(lines).encode()
        self._prefix = self.address.prefix
        self._tls = (cafile, verify)
        self._context: ssl.SSLContext | None = None
        self._clock = clock
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._lookup: _Lookup | None = None
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"Transport({self.address.url!r})"

    def close(self) -> None:
        """Close the connections; requests running in other threads end with ``Unreachable``. Idempotent."""
        self.closed = True
        for connection in tuple(self._busy):
            if connection.pid == os.getpid():
                connection.interrupt()
        self._drop_idle()

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        deadline: float,
        connect_by: float | None = None,
        again: bool = False,
        sent: Callable[[], object] | None = None,
    ) -> HttpResponse:
        """Send one request and return the response, whatever its status.

        ``target`` is path and query in ASCII, ``body`` is JSON. Everything ends at ``deadline``; opening a connection
        ends at ``connect_by`` if that is sooner. A kept connection that proves to be closed is replaced by a new one,
        once, if the request cannot have been received, or if ``again`` says that it may be carried out twice. ``sent``
        is called each time the request has been sent, before waiting for the response.

        Raises ``Unreachable``, ``DeadlineExceeded`` or ``BadResponse``.
        """
        message = self._message(method, target, body)
        connection = self._take()
        lost = False
        if connection is not None:
            try:
                return self._exchange(connection, message, deadline, sent)
            except Unreachable as error:
                if error.sent and not again:
                    raise
                lost = error.sent
        try:
            return self._exchange(self._connect(connect_by, deadline), message, deadline, sent)
        except TransportError as error:
            error.sent = error.sent or lost  # the gate may have received it over the kept connection
            raise

    def open(self, target: str, headers: Iterable[str] = (), *, deadline: float) -> ResponseStream:
        """Send a GET over a connection of its own and return the response with its body still unread."""
        connection = self._connect(None, deadline)
        self._busy.add(connection)
        stream = None
        try:
            connection.send(self._message("GET", target, None, headers), deadline)
            stream = ResponseStream(self, connection, *connection.head(deadline))
        finally:
            if stream is None:
                self.release(connection, keep=False)
        return stream

    # --- connections -----------------------------------------------------------------------------

    def _message(self, method: str, target: str, body: bytes | None, headers: Iterable[str] = ()) -> bytes:
        first = f"{method} {self._prefix}{target} HTTP/1.1\r\n".encode("ascii")
        if body is not None:
            length = b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            return b"".join((first, self._lines, length, body))
        more = "".join(f"\r\n{line}" for line in headers).encode()
        length = b"" if method == "GET" else b"\r\nContent-Length: 0"
        return b"".join((first, self._lines, more, length, b"\r\n\r\n"))

    def _exchange(
        self, connection: _Connection, message: bytes, deadline: float, sent: Callable[[], object] | None
    ) -> HttpResponse:
        keep = False
        self._busy.add(connection)
        try:
            connection.send(message, deadline)
            if sent is not None:
                sent()
            answer, keep = connection.receive(deadline)
        finally:
            self.release(connection, keep=keep)
        return answer

    def release(self, connection: _Connection, *, keep: bool) -> None:
        """Take a connection back, to keep or to close it."""
        self._busy.discard(connection)
        if keep and not self.closed and len(self._idle) < MAX_IDLE:
            self._idle.append(connection)
            if self.closed:
                self._drop_idle()
        else:
            connection.close()

    def _take(self) -> _Connection | None:
        if self._pid != os.getpid():
            self._after_fork()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.silent():
                return connection
            connection.close()

    def _after_fork(self) -> None:
        """Close this process's copies of the parent's sockets without sending anything."""
        self._pid = pid = os.getpid()
        for held in (self._idle, self._busy):
            for connection in tuple(held):
                if connection.pid != pid:
                    connection.close()
        self._busy.intersection_update(tuple(one for one in tuple(self._busy) if one.pid == pid))

    def _drop_idle(self) -> None:
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def _connect(self, connect_by: float | None, deadline: float) -> _Connection:
        if self.closed:
            raise Unreachable("this client is closed", sent=False)
        if connect_by is not None and connect_by < deadline:
            deadline = connect_by
        if self.address.path:
            if _UNIX is None:
                raise Unreachable(f"this system has no sockets like {self.address.url}", sent=False)
            return self._dial(_UNIX, self.address.path, deadline)
        places = self._places(deadline)
        fault: TransportError | None = None
        for number, (family, place) in enumerate(places):
            share = (deadline - self._clock()) / (len(places) - number)
            try:
                return self._dial(family, place, self._clock() + share)
            except (Unreachable, DeadlineExceeded) as error:
                fault = fault or error
        raise fault or Unreachable(f"{self.address.host} has no address", sent=False)

    def _places(self, deadline: float) -> list[tuple[int, tuple[str, int]]]:
        """Return the addresses of the host; a name server that hangs costs no more than the deadline."""
        host, port = self.address.host, self.address.port
        if host == "localhost" or host.endswith(".localhost"):  # RFC 6761: such names mean this machine
            return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port))]
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            socket.inet_pton(family, host)
        except OSError:
            pass
        else:
            return [(family, (host, port))]
        lookup = self._lookup
        if lookup is None or lookup.pid != os.getpid() or lookup.done.is_set():
            self._lookup = lookup = _Lookup(host, port)
        if not lookup.done.wait(max(0.0, deadline - self._clock())):
            raise DeadlineExceeded(f"no address was found for {host} in time", sent=False)
        if not lookup.found:
            raise Unreachable(f"no address was found for {host}: {lookup.error}", sent=False)
        return lookup.found

    def _dial(self, family: int, place: str | tuple[str, int], deadline: float) -> _Connection:
        url = self.address.url
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # for example, no file descriptors left
            raise Unreachable(f"no connection to {url}: {error}", sent=False) from error
        try:
            sock.settimeout(_left(deadline, self._clock, sent=False))
            sock.connect(place)
            if family != _UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            elif self.owner is not None:
                self._check_owner(sock)
            if self.address.tls:
                sock.settimeout(_left(deadline, self._clock, sent=False))
                sock = self._secured().wrap_socket(sock, server_hostname=self.address.host)
        except BaseException as error:
            sock.close()
            if isinstance(error, TimeoutError):
                raise DeadlineExceeded(f"no connection to {url} in time", sent=False) from None
            if isinstance(error, OSError):
                absent = isinstance(error, FileNotFoundError | ConnectionRefusedError)
                raise Unreachable(f"no connection to {url}: {error}", sent=False, absent=absent) from error
            raise
        is_loopback = isinstance(place, tuple) and (place[0] == "::1" or place[0].startswith("127."))
        token = self._machine_token(self.address.port) if is_loopback and self._machine_token is not None else ""
        return _Connection(sock, self._clock, token)

    def _check_owner(self, sock: socket.socket) -> None:
        """Raise ``Unreachable`` if the listening process belongs to another user, before anything is sent."""
        from callosum.sockets import peer  # noqa: PLC0415 - only for the local gate

        found = peer(sock)
        if found is not None and found[1] != self.owner:
            raise Unreachable(f"process {found[0]}, which listens there, belongs to another user", sent=False)

    def _secured(self) -> ssl.SSLContext:
        if self._context is None:
            import ssl  # noqa: PLC0415 - takes 5 ms, and a gate on the same machine does not need it

            cafile, verify = self._tls
            context = ssl.create_default_context(cafile=cafile)
            if not verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            self._context = context
        return self._context


class _Connection:
    """One connected socket. ``pid`` is the process that opened it, ``token`` is sent with its requests."""

    __slots__ = ("_clock", "_line", "_poll", "_sock", "pid")

    def __init__(self, sock: socket.socket, clock: Callable[[], float], token: str) -> None:
        self._line = f"\r\nAuthorization: Bearer {token}\r\n".encode() if token else b""
        self._sock = sock
        self._clock = clock
        self._poll = select.poll() if hasattr(select, "poll") else None  # Windows has no poll()
        if self._poll is not None:
            self._poll.register(sock, select.POLLIN)
        self.pid = os.getpid()

    def silent(self) -> bool:
        """Return whether the connection can be reused: opened by this process, not closed, and no unread bytes."""
        if self.pid != os.getpid():
            return False
        return not (self._poll.poll(0) if self._poll is not None else select.select([self._sock], [], [], 0)[0])

    def close(self) -> None:
        self._sock.close()

    def interrupt(self) -> None:
        """Interrupt whatever another thread does with the connection."""
        with suppress(OSError):
            socket.socket.shutdown(
                self._sock, socket.SHUT_RDWR
            )  # TLS's own shutdown would discard state that the reader uses

    def send(self, message: bytes, deadline: float) -> None:
        """Send the whole message. If the gate responds and closes before reading all of it, its response counts."""
        view: bytes | memoryview = message.replace(b"\r\n", self._line, 1) if self._line else message
        sent = False
        try:
            while True:
                self._sock.settimeout(_left(deadline, self._clock, sent=sent))
                count = self._sock.send(view)
                sent = True
                if count == len(view):
                    return
                view = memoryview(view)[count:]
        except TimeoutError:
            raise DeadlineExceeded("the request could not be sent in time") from None
        except OSError as error:
            if not sent:
                raise Unreachable(f"the connection was lost: {error}", sent=False) from error

    def receive(self, deadline: float) -> tuple[HttpResponse, bool]:
        """Read one response and return it with whether the connection can be reused."""
        head, body = self.head(deadline)
        if head.length is not None:
            if len(body) < head.length:
                body = self._rest(head.length, body, deadline)
            whole = len(body) == head.length
            return HttpResponse(head.status, head.headers, body[: head.length]), whole and not head.close
        if head.chunked:
            return self._unchunked(head, body, deadline)
        return HttpResponse(head.status, head.headers, self._until_closed(body, deadline)), False

    def head(self, deadline: float) -> tuple[ResponseHead, bytes]:
        """Read the head of the response, and body bytes that came with it. Interim responses are skipped."""
        data = self.more(deadline)
        if not data:
            raise Unreachable("the connection was closed without an answer", sent=True)
        seen = 0
        while True:
            end = data.find(b"\r\n\r\n", max(0, seen - 3))
            if end > MAX_HEAD or (end < 0 and len(data) > MAX_HEAD):
                raise BadResponse(f"the head of the answer is longer than {MAX_HEAD} bytes")
            if end >= 0:
                head = read_head(data[:end])
                data = data[end + 4 :]
                if head.status >= 200:
                    return head, data
                seen = 0
                if data:
                    continue
            elif data[:5] != b"HTTP/"[: len(data)]:
                raise BadResponse("the answer is not HTTP")
            else:
                seen = len(data)
            more = self._next(deadline)
            if not more:
                raise BadResponse("the answer is cut off in its head")
            data += more

    def more(self, deadline: float) -> bytes:
        """Return the next bytes, b"" when the other side has closed."""
        try:
            self._sock.settimeout(_left(deadline, self._clock, sent=True))
            return self._sock.recv(_PIECE)
        except TimeoutError:
            raise DeadlineExceeded("no answer in time") from None
        except OSError as error:
            raise Unreachable(f"the connection was lost: {error}", sent=True) from error

    def _next(self, deadline: float) -> bytes:
        """Read more inside a response, where a lost connection means that the response is cut off."""
        try:
            return self.more(deadline)
        except Unreachable as error:
            raise BadResponse(f"the answer is cut off: {error}") from error

    def _rest(self, length: int, start: bytes, deadline: float) -> bytes:
        body = bytearray(start)
        while len(body) < length:
            more = self._next(deadline)
            if not more:
                raise BadResponse(f"the answer is cut off after {len(body)} of {length} bytes")
            body += more
        return bytes(body)

    def _unchunked(self, head: ResponseHead, data: bytes, deadline: float) -> tuple[HttpResponse, bool]:
        chunks = ChunkedBody()
        body = bytearray(chunks.feed(data))
        while not chunks.done:
            more = self._next(deadline)
            if not more:
                raise BadResponse("the answer is cut off among its chunks")
            body += chunks.feed(more)
            _check_length(body)
        return HttpResponse(head.status, head.headers, bytes(body)), not head.close and not chunks.rest

    def _until_closed(self, data: bytes, deadline: float) -> bytes:
        body = bytearray(data)
        while more := self._next(deadline):
            body += more
            _check_length(body)
        return bytes(body)


class ResponseStream:
    """A response whose body is read as it comes. Close it; ``close`` may be called from any thread."""

    def __init__(self, transport: Transport, connection: _Connection, head: ResponseHead, start: bytes) -> None:
        self.status = head.status
        self.headers = head.headers
        self._transport = transport
        self._connection = connection
        self._chunks = ChunkedBody() if head.chunked else None
        self._left = head.length
        self._start: bytes | None = start

    def read(self, deadline: float) -> bytes:
        """Return the next bytes of the body, b"" at its end.

        Raises ``DeadlineExceeded``, ``Unreachable`` or ``BadResponse``.
        """
        while True:
            if self._left == 0 or (self._chunks is not None and self._chunks.done):
                return b""
            data, self._start = self._start, None
            if not data:
                data = self._connection.more(deadline)
                if not data:
                    return b""
            if self._chunks is not None:
                data = self._chunks.feed(data)
            elif self._left is not None:
                data = data[: self._left]
                self._left -= len(data)
            if data:
                return data

    def read_all(self, deadline: float) -> HttpResponse:
        """Read the body to its end."""
        body = bytearray()
        while data := self.read(deadline):
            body += data
            _check_length(body)
        return HttpResponse(self.status, self.headers, bytes(body))

    def interrupt(self) -> None:
        """End a ``read`` that is under way in another thread."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._transport.release(self._connection, keep=False)


class _Lookup:
    """Resolve the addresses of a host in a thread of its own, because a lookup cannot be interrupted."""

    def __init__(self, host: str, port: int) -> None:
        import threading  # noqa: PLC0415 - not needed for addresses in numbers

        self.pid = os.getpid()
        self.found: list[tuple[int, tuple[str, int]]] = []
        self.error: OSError | UnicodeError | None = None
        self.done: threading.Event = threading.Event()
        try:
            threading.Thread(target=self._ask, args=(host, port), name="callosum-lookup", daemon=True).start()
        except RuntimeError as error:  # no threads left just now
            self.error = OSError(str(error))
            self.done.set()

    def _ask(self, host: str, port: int) -> None:
        try:
            known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            self.found = [(int(family), (str(place[0]), port)) for family, _, _, _, place in known]
        except (OSError, UnicodeError) as error:
            self.error = error
        finally:
            self.done.set()


def _left(deadline: float, clock: Callable[[], float], *, sent: bool) -> float:
    """Return the seconds until the deadline. Raises ``DeadlineExceeded`` if none are left."""
    left = deadline - clock()
    if left <= 0:
        raise DeadlineExceeded("no answer in time" if sent else "no connection in time", sent=sent)
    return left


def _check_length(body: bytearray) -> None:
    if len(body) > MAX_BODY:
        raise BadResponse(f"the answer is longer than {MAX_BODY} bytes")
