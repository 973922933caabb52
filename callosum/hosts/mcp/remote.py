"""A server at an address: Streamable HTTP in both of its forms, spoken for a client that speaks lines.

::

    line ── POST ──┬── 202                    nothing comes back
                   ├── application/json       one line
                   ├── text/event-stream      a line an event, until the answer
                   └── an error               the error of the protocol that it holds, else one that says what came

Up to the protocol of 2025 a server may give a session (``Mcp-Session-Id``), is told the version that was agreed on,
and says what it has to say of its own on a GET stream; a stream that breaks is taken up where it was. From 2026 on
every request names its own version, method and tool in its headers, and closing its stream cancels it. Which of the
two it is, each message says itself. A server that refuses to be initialized so (400, 404, 405) is asked whether it
speaks the transport of 2024 (``legacy``).

Headers that the user gives are sent with every request, to this server alone, and shown nowhere.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

import urllib3
from msgspec import UNSET, Raw, UnsetType

from callosum.client.errors import BadAnswer
from callosum.client.sse import Parser
from callosum.errors import ConfigError
from callosum.hosts.mcp import messages, sse
from callosum.hosts.mcp.line_io import LineReader, LineTooLong, LineWriter
from callosum.hosts.mcp.messages import Id, MalformedMessage, Message

if TYPE_CHECKING:
    from callosum.hosts.mcp.proxy import Proxy

logger = logging.getLogger("callosum")

CONNECT_SECONDS: Final = 30.0
READ_SECONDS: Final = 3600.0
"""How long a tool may say nothing at all."""
LAST_SECONDS: Final = 5.0
"""How long what is under way may take when the client says no more."""
AGAIN: Final = 3
"""How often a broken stream is taken up, without a word in between."""
PAUSE: Final = 1.0
"""Seconds before that, where the server names none."""
MAX_BODY: Final = 64_000_000
SESSION: Final = "Mcp-Session-Id"
VERSION: Final = "MCP-Protocol-Version"
OLD: Final = frozenset((400, 404, 405))
"""How a server of 2024 answers a POST to where it has its stream."""
_ACCEPT: Final = "application/json, text/event-stream"
_NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
"""Which of a request's params its ``Mcp-Name`` repeats."""


class HttpUpstream:
    """The server behind ``url``, ``old`` if it is known to speak the transport of 2024.

    Raises ``ConfigError`` for an address that is none.
    """

    def __init__(self, url: str, headers: Mapping[str, str], client: LineWriter, *, old: bool = False) -> None:
        _check(url)
        self._url = url
        self._given = dict(headers)
        self._client = client
        self._pool = _pool_for(url)
        self._tap: Proxy | None = None
        self._old = old
        self._legacy: sse.SseSession | None = None
        self._session: str | None = None
        self._version: str | None = None
        self._starting: Id | None = None
        self._lock = threading.Lock()
        self._open: dict[Id, _Exchange] = {}
        self._threads: set[threading.Thread] = set()
        self._closing = threading.Event()

    def run(self, tap: Proxy, source: int) -> int:
        """Takes lines from ``source`` until its end; returns the exit code."""
        self._tap = tap
        reader = LineReader(source)
        while True:
            try:
                for line in reader:
                    tap.up(line)
                break
            except LineTooLong as error:
                text = f"{error}: nobody has looked at it, so it is not passed on"
                self._client(messages.fault(b"null", messages.INVALID_REQUEST, text) + b"\n")
                for _ in reader.pieces():
                    pass
        tap.finish()
        self._end()
        tap.lost()
        return 0

    def stop(self) -> None:
        """Breaks off what is under way."""
        self._closing.set()
        with self._lock:
            left = list(self._open.values())
        if self._legacy is not None:
            self._legacy.close()
        for exchange in left:
            exchange.close()

    def _end(self) -> None:
        """Waits for what is under way for a while, then breaks it off and ends the session."""
        with self._lock:
            left = [exchange.thread for exchange in self._open.values() if exchange.answers]
        for thread in left:
            thread.join(LAST_SECONDS)
        self.stop()
        if self._session is not None:
            with suppress(urllib3.exceptions.HTTPError):
                self._pool.request("DELETE", self._url, headers=self._headers(None), timeout=2.0, retries=False)

    # --- requests --------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """Posts a line. A request is answered in a thread of its own; anything else is out when this returns."""
        body = line.strip()
        if not body:
            return
        try:
            found = messages.read(body)
        except MalformedMessage:
            found = None
        first = found[0] if isinstance(found, list) and found else found
        message = first if isinstance(first, Message) else None
        key = message.key if message is not None and not isinstance(message.method, UnsetType) else None
        if isinstance(found, Message) and self._cancels(found):
            return
        exchange = _Exchange(body, key, answers=key is not None)
        if key is None:
            self._guarded(exchange, None, message)
            if message is not None and message.method == "notifications/initialized":
                self._listen()
            return
        if message is not None and message.method == "initialize":
            self._session, self._version, self._starting = None, None, key
        self._start(exchange, key, message)

    def _start(self, exchange: _Exchange, key: Id, message: Message | None) -> None:
        exchange.thread = threading.Thread(
            target=self._guarded, args=(exchange, key, message), name="callosum-post", daemon=True
        )
        with self._lock:
            self._open[key] = exchange
        exchange.thread.start()

    def _guarded(self, exchange: _Exchange, key: Id | None, message: Message | None) -> None:
        try:
            self._exchange(exchange, message)
        except Exception as error:
            logger.exception("a request was lost")
            self._failed(exchange, f"the request was lost: {type(error).__name__}")
        finally:
            with self._lock:
                if key is not None and self._open.get(key) is exchange:
                    del self._open[key]

    def _cancels(self, message: Message) -> bool:
        """Whether a notification is one that closes a stream instead of being sent."""
        if message.method != messages.CANCELLED:
            return False
        said = messages.fields_of(message.params).get("requestId")
        key = Message(id=said).key if said is not None else None
        with self._lock:
            exchange = self._open.get(key) if key is not None else None
        if exchange is None:
            return self._version is None
        if not exchange.modern:
            return False
        exchange.answers = False
        exchange.close()
        return True

    def _headers(self, message: Message | None) -> dict[str, str]:
        """The headers of a request; ``None`` for one without a body."""
        headers = {"Accept": _ACCEPT, **self._given}
        if message is not None:
            headers["Content-Type"] = "application/json"
        params = messages.fields_of(message.params) if message is not None else {}
        meta = messages.fields_of(params.get("_meta", UNSET))
        if message is not None and messages.is_modern(meta):
            method = str(message.method)
            headers[VERSION] = _written(messages.text_of(meta.get(messages.VERSION)))
            headers["Mcp-Method"] = _written(method)
            if method in _NAMED:
                headers["Mcp-Name"] = _written(messages.text_of(params.get(_NAMED[method]), 65536))
            if method == messages.CALL:
                headers.update(self._mirrored(params))
            return headers
        if self._version is not None:
            headers[VERSION] = self._version
        if self._session is not None:
            headers[SESSION] = self._session
        return headers

    def _mirrored(self, params: Mapping[str, Raw]) -> dict[str, str]:
        """The arguments that the tool's schema wants repeated in headers (``x-mcp-header``)."""
        tool = self._tap.catalogue.find(messages.text_of(params.get("name"))) if self._tap is not None else None
        try:
            arguments = messages.value_of(bytes(params.get("arguments", b"{}")))
        except MalformedMessage:
            return {}
        schema = tool.input_schema if tool is not None else None
        return {f"Mcp-Param-{name}": _written(text) for name, text in _repeated(schema, arguments)}

    # --- answers ---------------------------------------------------------------------------------

    def _exchange(self, exchange: _Exchange, message: Message | None) -> None:
        headers = self._headers(message if message is not None else Message())
        exchange.modern = "Mcp-Method" in headers
        begins = exchange.key is not None and exchange.key == self._starting
        if begins and self._legacy is not None:
            self._legacy.close()
            self._legacy = None
        if self._legacy is not None or (begins and self._old and self._begun(exchange)):
            self._tell(exchange)
            return
        if self._old:
            self._failed(exchange, f"{self._place()} is to be initialized first")
            return
        try:
            response = self._post(exchange.body, headers)
        except urllib3.exceptions.HTTPError as error:
            self._failed(exchange, f"{self._place()} cannot be reached: {_reason(error)}")
            return
        exchange.response = response
        if begins and response.status in OLD and self._is_old():
            exchange.response = None
            response.close()
            self._tell(exchange)
            return
        try:
            self._take(exchange, response)
        except (urllib3.exceptions.HTTPError, OSError, ValueError, BadAnswer, AttributeError) as error:
            if exchange.answers:
                self._failed(exchange, f"the answer of {self._place()} was cut off: {_reason(error)}")
        finally:
            exchange.close()

    # --- the transport of 2024 -------------------------------------------------------------------

    def _begun(self, exchange: _Exchange) -> bool:
        """Opens its stream; where that fails the request is answered with the reason."""
        try:
            self._open_legacy()
        except sse.SseNotSupported as error:
            self._failed(exchange, f"{self._place()} does not speak the HTTP+SSE transport: {error}")
        except urllib3.exceptions.HTTPError as error:
            self._failed(exchange, f"{self._place()} cannot be reached: {_reason(error)}")
        return self._legacy is not None

    def _is_old(self) -> bool:
        """Whether a server that refused speaks it."""
        with suppress(sse.SseNotSupported, urllib3.exceptions.HTTPError):
            self._open_legacy()
        return self._legacy is not None

    def _open_legacy(self) -> None:
        self._legacy = sse.SseSession(self._pool, self._url, self._given, self._heard, self._lost)

    def _tell(self, exchange: _Exchange) -> None:
        """Posts a message, and of a request waits until the stream has brought its answer."""
        session = self._legacy
        if session is None or session.over.is_set():
            self._failed(exchange, f"the stream of {self._place()} has ended: initialize it again")
            return
        try:
            fault = session.post(exchange.body)
        except urllib3.exceptions.HTTPError as error:
            fault = f"cannot be reached: {_reason(error)}"
        if fault:
            self._failed(exchange, f"{self._place()} {fault}")
        elif exchange.answers:
            exchange.ended.wait(READ_SECONDS)

    def _heard(self, data: bytes) -> None:
        """Passes on what the stream brought; an answer ends the request that it is to."""
        found = messages.read_answer(data)
        answers = [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, Message)]
        with self._lock:
            keys = [one.key for one in answers if isinstance(one.method, UnsetType)]
            known = [self._open.get(key) for key in keys if key is not None]
        exchange = next((one for one in known if one is not None), None)
        self._down(exchange or _Exchange(b"", None, answers=False), data)
        if exchange is not None:
            exchange.ended.set()

    def _lost(self, session: sse.SseSession) -> None:
        """What is under way when the stream ends has no answer any more."""
        if session is not self._legacy:
            return
        with self._lock:
            left = list(self._open.values())
        for exchange in left:
            if exchange.answers and not self._closing.is_set():
                self._failed(exchange, f"the stream of {self._place()} ended without an answer: connection lost")
            exchange.ended.set()

    # --- Streamable HTTP -------------------------------------------------------------------------

    def _post(self, body: bytes, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Posts, and once more where the same server redirects a POST as it is."""
        response = self._sent(self._url, body, headers)
        where = urljoin(self._url, response.headers.get("Location", ""))
        if response.status in (307, 308) and urlsplit(where)[:2] == urlsplit(self._url)[:2]:
            response.drain_conn()
            self._url = where
            response = self._sent(where, body, headers)
        return response

    def _sent(self, url: str, body: bytes, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        return self._pool.request(
            "POST", url, body=body, headers=headers, preload_content=False, redirect=False, retries=False
        )

    def _take(self, exchange: _Exchange, response: urllib3.BaseHTTPResponse) -> None:
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if exchange.key is not None and exchange.key == self._starting and response.status < 400:
            self._session = response.headers.get(SESSION) or None
        if response.status == 202 or not exchange.answers:
            response.drain_conn()
            if exchange.answers:
                self._failed(exchange, f"{self._place()} answered a request with 202 Accepted")
            elif response.status >= 400:
                logger.warning("%s refused a notification: status %s", self._place(), response.status)
        elif response.status >= 300:
            self._refused(exchange, response, kind)
        elif kind == "text/event-stream":
            self._stream(exchange, response)
        elif kind == "application/json":
            self._down(exchange, _body(response))
        else:
            self._failed(exchange, f"{self._place()} answered with {kind or 'nothing that is known'}")

    def _refused(self, exchange: _Exchange, response: urllib3.BaseHTTPResponse, kind: str) -> None:
        """An error: in the server's words where it says it in the protocol's form, under the id of the request."""
        body = _body(response)
        error = messages.fields_of(body).get("error") if kind == "application/json" else None
        if error is not None and messages.fields_of(error).get("message") is not None:
            line = b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (exchange.id, bytes(error))
            self._down(exchange, line)
            return
        text = {
            401: "asks for credentials: give them with --header",
            404: "does not know the session any more" if self._session else "has no such path",
            405: "takes no POST: it speaks no MCP there",
        }.get(response.status, f"answered with status {response.status}")
        if 300 <= response.status < 400:
            text = f"is elsewhere now: {response.headers.get('Location', '?')[:200]}"
        self._failed(exchange, f"{self._place()} {text}")

    def _stream(self, exchange: _Exchange, response: urllib3.BaseHTTPResponse) -> None:
        """Passes on what a stream brings until the answer; takes it up again where it broke, if it can be."""
        parser = Parser()
        tries = 0
        while True:
            with suppress(urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError):
                for data in _events(response, parser):
                    tries = 0
                    self._down(exchange, data)
            if not exchange.answers or self._closing.is_set():
                return
            tries += 1
            if exchange.modern or not parser.last_id or tries > AGAIN:
                break
            self._closing.wait(parser.retry if parser.retry is not None else PAUSE)
            parser = Parser(parser.last_id)
            with suppress(urllib3.exceptions.HTTPError):
                response = exchange.response = self._get(parser.last_id)
        self._failed(exchange, f"the stream of {self._place()} ended without an answer: connection lost")

    def _get(self, last_id: str) -> urllib3.BaseHTTPResponse:
        headers = {**self._headers(None), "Accept": "text/event-stream"}
        if last_id:
            headers["Last-Event-ID"] = last_id
        return self._pool.request(
            "GET", self._url, headers=headers, preload_content=False, redirect=False, retries=False
        )

    def _listen(self) -> None:
        """Opens the stream on which an older server says what nobody asked it."""
        if self._session is None or self._closing.is_set():
            return
        exchange = _Exchange(b"", None, answers=False)
        exchange.thread = threading.Thread(target=self._hear, args=(exchange,), name="callosum-get", daemon=True)
        with self._lock:
            self._open[b"GET"] = exchange
        exchange.thread.start()

    def _hear(self, exchange: _Exchange) -> None:
        last_id, tries, session = "", 0, self._session
        while tries <= AGAIN and not self._closing.is_set() and self._session == session:
            parser = Parser(last_id)
            with suppress(urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError, BadAnswer):
                response = exchange.response = self._get(last_id)
                if response.status != 200:
                    exchange.close()
                    return
                for data in _events(response, parser):
                    tries = 0
                    self._down(exchange, data)
            last_id = parser.last_id
            tries += 1
            self._closing.wait(parser.retry if parser.retry is not None else PAUSE)

    def _down(self, exchange: _Exchange, data: bytes) -> None:
        """Passes one message on, as one line."""
        line = data.replace(b"\r", b" ").replace(b"\n", b" ").strip()
        if not line or self._tap is None:
            return
        found = messages.read_answer(line) if exchange.key is not None else None
        answered = isinstance(found, list) or (
            isinstance(found, Message) and isinstance(found.method, UnsetType) and found.key == exchange.key
        )
        if answered and isinstance(found, Message) and exchange.key == self._starting:
            self._started(found)
        if answered:
            exchange.answers = False
        self._tap.down(line + b"\n")

    def _started(self, answer: Message) -> None:
        """Notes the version that was agreed on."""
        version = messages.text_of(messages.fields_of(answer.result).get("protocolVersion"))
        self._version = _written(version) if version else None
        self._starting = None

    def _failed(self, exchange: _Exchange, text: str) -> None:
        """Answers a request that the server did not answer. The text tells the gate whether it may have run."""
        if not exchange.answers or self._tap is None:
            logger.warning("%s", text)
            return
        exchange.answers = False
        self._tap.down(messages.fault(exchange.id, messages.SERVER_ERROR, text) + b"\n")

    def _place(self) -> str:
        return urlsplit(self._url).netloc


class _Exchange:
    """One request under way. ``answers`` is whether the client still waits for its answer."""

    __slots__ = ("answers", "body", "ended", "key", "modern", "response", "thread")

    def __init__(self, body: bytes, key: Id | None, *, answers: bool) -> None:
        self.body = body
        self.key = key
        self.answers = answers
        self.modern = False
        self.response: urllib3.BaseHTTPResponse | None = None
        self.thread = threading.current_thread()
        self.ended = threading.Event()

    @property
    def id(self) -> bytes:
        """The id as it is written in an answer."""
        return self.key if isinstance(self.key, bytes) else messages.encode(self.key)

    def close(self) -> None:
        """Ends what another thread reads; a connection whose answer was read to its end is kept. Idempotent."""
        response, self.response = self.response, None
        self.ended.set()
        if response is not None:
            with suppress(ValueError, RuntimeError, OSError):  # closing alone would not wake the reader
                response.shutdown()
            with suppress(OSError, urllib3.exceptions.HTTPError):
                response.close()


def _check(url: str) -> None:
    """Refuses what is no address, and one with a secret in it."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound, parts = False, None
    if not sound or parts is None or not url.isprintable() or " " in url:
        raise ConfigError("expected http://HOST/PATH or https://HOST/PATH", at="--url")
    if "@" in parts.netloc:
        raise ConfigError("a user name or a password does not belong there: use --header", at="--url")


def _pool_for(url: str) -> urllib3.PoolManager:
    """Connections to the server, through the proxy of the environment where there is one for it."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415

    timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    options: dict[str, Any] = {"maxsize": 32, "timeout": timeout}
    return urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)


def _events(response: urllib3.BaseHTTPResponse, parser: Parser) -> Iterator[bytes]:
    """The messages of a stream as they come."""
    while data := response.read1(65536):
        for _, kind, text in parser.feed(data):
            if kind == "message" and text:
                yield text.encode()


def _body(response: urllib3.BaseHTTPResponse) -> bytes:
    """The whole of a body. Raises ``BadAnswer`` for one without an end."""
    found = bytearray()
    while data := response.read1(1 << 20):
        found += data
        if len(found) > MAX_BODY:
            raise BadAnswer(f"it is longer than {MAX_BODY} bytes")
    return bytes(found)


def _written(text: str) -> str:
    """A text as the value of a header; what cannot stand there is written in base64."""
    plain = text.isascii() and text.isprintable() and text == text.strip() and text
    if plain and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _repeated(schema: Any, arguments: Any) -> Iterator[tuple[str, str]]:
    """Pairs of a header's name and its value, for the properties that ask for it and have a value."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not isinstance(arguments, Mapping):
        return
    for name, inner in properties.items():
        value = arguments.get(name)
        header = inner.get("x-mcp-header") if isinstance(inner, Mapping) else None
        if isinstance(header, str) and header.isascii() and header.replace("-", "").replace("_", "").isalnum():
            if isinstance(value, bool):
                yield header, "true" if value else "false"
            elif isinstance(value, str | int):
                yield header, str(value)
        elif isinstance(value, Mapping):
            yield from _repeated(inner, value)


def _reason(error: BaseException) -> str:
    """Why a request failed, without what the request held."""
    inner = getattr(error, "reason", None) or error
    text = str(inner)
    return (text.rpartition(">: ")[2] or type(inner).__name__)[:200]
