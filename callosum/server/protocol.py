"""HTTP/1.1 with limits: requests that are too long, too slow, too many or malformed never reach the application.

``Protocol`` is uvicorn's protocol class over the same parser (llhttp, which itself refuses folded headers, repeated
lengths, bare line feeds and malformed chunks), with limits around it and JSON for every refusal:

====  =================================================================================================
400   malformed HTTP; a missing or repeated Host; a target that is not a path; an odd Transfer-Encoding
408   a request that is not complete after ``arrive`` seconds
413   a body longer than ``body``: by its Content-Length at once, in chunks once it has grown too long
414   a target longer than ``target``
431   a head longer than ``head``, or with more than ``headers`` headers
503   more connections than ``connections``, or more requests in a row than ``pipelined``
====  =================================================================================================

After a refusal the connection is closed, but only after the client had a chance to read the answer: what it
still sends is discarded for ``linger`` seconds. Answers keep the order of the requests.

A plain request that arrives in one piece costs one more check of its headers and no timer.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import unquote

import httptools
from msgspec import structs
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from callosum.server.caller import Peer
from callosum.server.limits import Limits, Refusal, room_of
from callosum.server.responses import JSON_HEAD, RequestRun
from callosum.wire import ErrorResponse, encode

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

logger = logging.getLogger("callosum")

_UPGRADING: Final = frozenset((b"upgrade", b"http2-settings"))
_AT_ONCE: Final = ("/intercept", "/complete", "/hooks/")
"""Beginnings of the paths whose requests run without a task."""
_FRAMING: Final = 1_000_000
"""Maximum size of the framing of a chunked body, in bytes: sizes, extensions, trailers."""


class Protocol(HttpToolsProtocol):
    """One connection. Class attributes apply to all connections: see ``limited``.

    ``leaving``: each connection is closed with its next answer, so that clients move to another server.
    ``stopping``: no new connections are accepted.
    """

    limits: ClassVar[Limits] = Limits()
    leaving: ClassVar[bool] = False
    stopping: ClassVar[bool] = False

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config=config, server_state=server_state, app_state=app_state, _loop=_loop)
        self.ws_protocol_class = None
        self._whole = True  # between two requests
        self._headed = False  # the head of the newest request was valid
        self._begun = False  # the newest request began in this piece
        self._fed = 0  # size of the unfinished head, or of the body after it, without this piece
        self._piece = 0  # size of this piece
        self._room = -1  # bytes that a chunked body may still hold, -1 for any other body
        self._expecting = False
        self._upgrading = False
        self._unstarted: RequestResponseCycle | None = None  # begun in this piece
        self._deaf = False  # nothing more is read from this client
        self._last: bytes | None = None  # the refusal to send once the earlier requests are answered
        self._running: RequestResponseCycle | None = None
        self._idle_since = 0.0
        self._arriving: asyncio.TimerHandle | None = None
        self._ending: asyncio.TimerHandle | None = None
        self._peer: Peer | None = None

    # --- Connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or answer that there are too many."""
        super().connection_made(transport)
        if self.stopping:  # it was accepted while the listener was being closed
            transport.close()
            return
        beyond = len(self.connections) - self.limits.connections
        if beyond > self.limits.spare:
            transport.abort()
        elif beyond > 0:
            self._refuse(503, "there are too many connections", "connection")
        else:
            self._peer = Peer(transport)
            self._arriving = self.loop.call_later(self.limits.arrive, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark every request of the connection as disconnected, not only the newest."""
        for timer in (self._arriving, self._ending):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        for cycle in (self._running, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """Refuse an incomplete request when the client sends no more. A client that waits for an answer is gone."""
        if not self._deaf and not self._whole:
            self._refuse(400, "the request ends before it is whole", "body" if self._headed else "request")

    def data_received(self, data: bytes) -> None:
        """Feed the parser and watch a request that is not complete yet."""
        if self._deaf:
            return
        quiet, before = self._whole, self.cycle
        self._piece = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            self._start(at_once=False)
            self._fault(error)
            return
        if not self._whole:
            self._start(at_once=False)
            self._measure(alone=quiet and before is self.cycle)
            if self._arriving is not None:
                return
        elif self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None
        if not self._whole or (cycle := self.cycle) is None or cycle.response_complete:
            self._arriving = self.loop.call_later(self.limits.arrive, self._late)
        elif self._unstarted is not None:
            self._start(at_once=True)

    def _start(self, *, at_once: bool) -> None:
        """Start the request that this piece began: in a task, unless it is whole and most likely only decides."""
        cycle, self._unstarted = self._unstarted, None
        if cycle is None:
            return
        cycle.message_event.set()
        if at_once and not self.flow.read_paused and cycle.scope["path"].startswith(_AT_ONCE):
            cycle.scope["callosum.body"] = bytes(cycle.body)  # type: ignore[typeddict-unknown-key]
            RequestRun(cycle.run_asgi(self.app), self.loop, self.tasks)
        else:
            self._start_asgi_task(cycle, self.app)

    def _measure(self, *, alone: bool) -> None:
        """Add this piece to the size of the unfinished request. ``alone``: it contains nothing else."""
        begun, self._begun = self._begun, False
        if alone or not begun:
            self._fed += self._piece
        if self._headed:
            if self._room >= 0 and self._fed > self.limits.body + _FRAMING:
                self._refuse(413, f"longer than {self.limits.body} bytes with its chunks' frames", "body")
        elif len(self.url) > self.limits.target:
            self._refuse(414, f"longer than {self.limits.target} bytes", "target")
        elif self._fed > self.limits.head:
            self._refuse(431, f"longer than {self.limits.head} bytes", "headers")

    def pause_writing(self) -> None:
        """Stop writing to a client that does not read, and end the connection after a while."""
        super().pause_writing()
        if self._ending is None:
            self._ending = self.loop.call_later(self.limits.stuck, self._abort)

    def resume_writing(self) -> None:
        """Continue writing: the client reads again."""
        super().resume_writing()
        if self._ending is not None and not self.transport.is_closing() and not self._deaf:
            self._ending.cancel()
            self._ending = None

    def shutdown(self) -> None:
        """Close the connection, now or after the answer, because the server stops."""
        super().shutdown()
        self._see_to_the_end()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection. One timer serves many requests: it starts again for one that was used meanwhile."""
        idle = monotonic() - self._idle_since if self._whole and self.cycle.response_complete else 0.0
        if (left := self.timeout_keep_alive - idle) > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
            return
        super().timeout_keep_alive_handler()
        self._see_to_the_end()

    # --- Requests ---

    def on_message_begin(self) -> None:
        """Prepare for a new request."""
        self.url = b""
        self.headers = []
        self._whole = self._headed = self.expect_100_continue = False
        self._begun = True
        self._fed = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        name = name.lower()
        self.headers += ((name, value),)
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        """Check the head and start the request."""
        limits, headers, parser = self.limits, self.headers, self.parser
        url = self.url
        if len(url) > limits.target:
            raise Refusal(414, f"longer than {limits.target} bytes", "target")
        if len(headers) > limits.headers:
            raise Refusal(431, f"more than {limits.headers} headers", "headers")
        size = self._fed + self._piece  # of which a body may be a part
        if size > limits.head and len(url) + sum(len(name) + len(value) + 4 for name, value in headers) > limits.head:
            raise Refusal(431, f"longer than {limits.head} bytes", "headers")
        if url[:1] != b"/" and url != b"*":
            raise Refusal(400, "expected a path", "target")
        version = parser.get_http_version()
        self._room = room_of(headers, version, limits.body)
        if self.pipeline and len(self.pipeline) >= limits.pipelined:
            raise Refusal(503, f"more than {limits.pipelined} requests are waiting on this connection", "connection")
        if parser.should_upgrade():
            self._upgrading = True
            return
        parsed = httptools.parse_url(url)
        path = str(parsed.path, "ascii")
        scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": str(parser.get_method(), "ascii"),
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": parsed.path,
            "query_string": parsed.query or b"",
            "headers": headers,
            "callosum.abort": self._abort,
            "callosum.answer": self.answer,
            "callosum.gone": self.transport.is_closing,
            "callosum.peer": self._peer,
        }
        cycle = RequestResponseCycle(
            scope,  # type: ignore[arg-type]  # with keys of its own
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            self.access_log,
            self.server_state.default_headers,
            asyncio.Event(),
            self.expect_100_continue,
            version == "1.1" and not self.leaving and parser.should_keep_alive(),
            self.on_response_complete,
        )
        before, self.cycle = self.cycle, cycle
        if before is None or before.response_complete:
            self._running = self._unstarted = cycle
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))
        self._headed, self._fed = True, 0
        if self._room >= 0:
            self.headers = []  # trailers are not headers: the checked headers stay as they are
        if self.expect_100_continue:  # the body may be refused unread, and may still come: only closing is safe
            self._expecting, cycle.keep_alive = cycle.keep_alive, False

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._room >= 0:
            self._room -= len(body)
            if self._room < 0:
                raise Refusal(413, f"longer than {self.limits.body} bytes", "body")
        cycle = self.cycle  # as in uvicorn, without its check for upgrades
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            if cycle is not self._unstarted:
                cycle.message_event.set()

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        self._whole = True
        if self._upgrading:
            return
        cycle = self.cycle
        if self._expecting:
            self._expecting = False
            if not cycle.response_started:
                cycle.keep_alive = True
        if not cycle.response_complete:
            cycle.more_body = False
            if cycle is not self._unstarted:
                cycle.message_event.set()

    def answer(self, status: int, head: bytes, body: bytes) -> bool:
        """Write the whole answer to the current request, in one piece.

        ``head`` holds header lines, each with its line end, without the length. ``send`` would take two messages, two
        system calls and a check of each header. Returns False, having written nothing, if ``send`` must be
        used: the client does not read at the moment or is gone, an answer was begun, or no body may be sent.
        """
        cycle = self._running
        if cycle is None or cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        if cycle.scope["method"] == "HEAD" or self.server_state.default_headers:
            return False
        last = b"" if cycle.keep_alive else b"connection: close\r\n"
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        self.transport.write(b"%b%bcontent-length: %d\r\n%b\r\n%b" % (STATUS_LINE[status], head, len(body), last, body))
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True

    def on_response_complete(self) -> None:
        """Continue with the next request, or send the refusal that waits for this answer."""
        self._idle_since = monotonic()
        if self.transport.is_closing():
            self._see_to_the_end()
        elif self.pipeline:
            self.flow.resume_reading()
            self._running, app = self.pipeline.pop()
            self._start_asgi_task(self._running, app)
        elif self._last is not None:
            self._say_and_end(self._last)
        else:
            self.flow.resume_reading()
            if self.timeout_keep_alive_task is None and not self._deaf:
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )

    def _go_on_without(self, rest: bytes) -> None:
        """Read a request for an upgrade, which is not granted, as a plain request: parse it again without that header.

        The parser treats everything after such a head as another protocol, so the body would be lost (Java's client
        asks for HTTP/2 in this way with its first request).
        """
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                kept = [word for part in value.split(b",") if (word := part.strip()).lower() not in _UPGRADING]
                lines += [b"connection: " + b", ".join(kept)] if kept else []
            elif name not in _UPGRADING:
                lines.append(name + b": " + value)
        self._upgrading = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    # --- Refusals ---

    def _fault(self, error: httptools.HttpParserError) -> None:
        cause = error.__context__
        if isinstance(cause, Refusal):
            self._refuse(cause.status, cause.error, cause.at)
        elif isinstance(error, httptools.HttpParserCallbackError) and not isinstance(cause, httptools.HttpParserError):
            logger.error("a request could not be taken", exc_info=cause)
            self._refuse(500, "internal error: the server's log has it", "")
        elif isinstance(error, httptools.HttpParserCallbackError):
            self._refuse(400, "expected a path", "target")
        else:
            self._refuse(400, f"no valid HTTP: {error}", "body" if self._headed and not self._whole else "request")

    def _late(self) -> None:
        self._arriving = None
        if self._deaf:
            return
        if self.flow.read_paused:  # the request waits for this server, which is therefore not late
            self._arriving = self.loop.call_later(self.limits.arrive, self._late)
        elif self._whole:
            self._say_and_end(b"")
        else:
            at = "body" if self._headed else "request"
            self._refuse(408, f"the request was not complete after {self.limits.arrive:g} s", at)

    def _refuse(self, status: int, error: str, at: str) -> None:
        """Refuse the newest request once the earlier ones are answered, and close the connection."""
        self._deaf = True
        answer = self._answer(status, error, at)
        waits = bool(self.pipeline)
        if self._headed and not self._whole:  # its head was valid, so it may have begun
            cycle = self.cycle
            if waits:
                self.pipeline.popleft()
            elif cycle.response_started:
                answer = b""
            cycle.disconnected = True
            cycle.message_event.set()
        elif not waits:
            waits = self._running is not None and not self._running.response_complete
        if waits:
            self._last = answer
        else:
            self._say_and_end(answer)

    def _answer(self, status: int, error: str, at: str) -> bytes:
        body = encode(ErrorResponse(error, at))
        head = b"%b%bcontent-length: %d\r\nconnection: close\r\n\r\n"
        return head % (STATUS_LINE[status], JSON_HEAD, len(body)) + body

    def _say_and_end(self, answer: bytes) -> None:
        """Send the last answer, and close when the client has closed, or after a while."""
        self._deaf, self._last = True, None
        transport = self.transport
        if transport.is_closing():
            return
        self._unset_keepalive_if_required()
        if answer:
            transport.write(answer)
        if transport.can_write_eof():
            transport.write_eof()
        self.flow.resume_reading()  # unread bytes would turn the close into a reset, which can overtake the answer
        self._end_in(self.limits.linger)

    def _see_to_the_end(self) -> None:
        """Limit the time for which a closing connection waits for the client to read the rest."""
        if self._ending is None and self.transport.is_closing():
            self._end_in(self.limits.stuck)

    def _end_in(self, seconds: float) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._ending = self.loop.call_later(seconds, self._abort)

    def _abort(self) -> None:
        self.transport.abort()


def limited(**limits: Any) -> type[Protocol]:
    """Return a ``Protocol`` class with other limits, by the names of ``Limits``, for ``uvicorn.Config(http=...)``."""
    return type("Protocol", (Protocol,), {"limits": structs.replace(Protocol.limits, **limits)})
