"""Connect to a server at a URL over Streamable HTTP, in both of its forms, for a client that speaks lines.

::

    line ── POST ──┬── 202                    no answer
                   ├── application/json       one line
                   ├── text/event-stream      one line per event, until the answer
                   └── an error               the protocol error in its body, or one that describes the response

Up to protocol version 2025, a server may assign a session (``Mcp-Session-Id``), receives the negotiated version in a
header, and sends its own messages on a GET stream. A broken stream is resumed. From version 2026 on, every request
names its version, method and tool in its headers, and closing its stream cancels it. Each message shows which of the
two forms it belongs to. The transport before Streamable HTTP (HTTP+SSE, of 2024) is not spoken.

Headers given by the user are sent with every request, to this server only, and are never shown.
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

from callosum.client.errors import BadResponse
from callosum.client.sse import Parser
from callosum.errors import ConfigError
from callosum.hosts.mcp import messages
from callosum.hosts.mcp.child import forward_client
from callosum.hosts.mcp.line_io import LineWriter
from callosum.hosts.mcp.messages import Id, MalformedMessage, Message

if TYPE_CHECKING:
    from callosum.hosts.mcp.proxy import Proxy

logger = logging.getLogger("callosum")

CONNECT_SECONDS: Final = 30.0
READ_SECONDS: Final = 3600.0
"""Seconds that a tool may stay completely silent."""
LAST_SECONDS: Final = 5.0
"""Seconds that pending requests may take after the client's input has ended."""
AGAIN: Final = 3
"""Number of consecutive attempts to resume a broken stream without a message in between."""
PAUSE: Final = 1.0
"""Seconds before each attempt if the server names no other time."""
MAX_BODY: Final = 64_000_000
SESSION: Final = "Mcp-Session-Id"
VERSION: Final = "MCP-Protocol-Version"
_ACCEPT: Final = "application/json, text/event-stream"
_NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
"""Param of each request that its ``Mcp-Name`` header repeats."""


class HttpUpstream:
    """Connect to the server at ``url``. Raises ``ConfigError`` for a malformed URL."""

    def __init__(self, url: str, headers: Mapping[str, str], client: LineWriter) -> None:
        _check(url)
        self._url = url
        self._given = dict(headers)
        self._client = client
        self._pool = _pool_for(url)
        self._proxy: Proxy | None = None
        self._session: str | None = None
        self._version: str | None = None
        self._starting: Id | None = None
        self._lock = threading.Lock()
        self._open: dict[Id, _Exchange] = {}
        self._threads: set[threading.Thread] = set()
        self._closing = threading.Event()

    def run(self, proxy: Proxy, source: int) -> int:
        """Forward lines from ``source`` until its end. Return the exit code."""
        self._proxy = proxy
        forward_client(source, proxy, self._client)
        proxy.finish()
        self._end()
        proxy.lost()
        return 0

    def stop(self) -> None:
        """Abort the pending requests."""
        self._closing.set()
        with self._lock:
            exchanges = list(self._open.values())
        for exchange in exchanges:
            exchange.close()

    def _end(self) -> None:
        """Wait for the pending requests for a while, then abort them and end the session."""
        with self._lock:
            threads = [exchange.thread for exchange in self._open.values() if exchange.answers]
        for thread in threads:
            thread.join(LAST_SECONDS)
        self.stop()
        if self._session is not None:
            with suppress(urllib3.exceptions.HTTPError):
                self._pool.request("DELETE", self._url, headers=self._headers(None), timeout=2.0, retries=False)

    # --- Requests --------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """Post a line. A request is answered in its own thread; anything else was sent when this returns."""
        body = line.strip()
        if not body:
            return
        try:
            parsed = messages.read(body)
        except MalformedMessage:
            parsed = None
        first = parsed[0] if isinstance(parsed, list) and parsed else parsed
        message = first if isinstance(first, Message) else None
        key = message.key if message is not None and not isinstance(message.method, UnsetType) else None
        if isinstance(parsed, Message) and self._cancels(parsed):
            return
        exchange = _Exchange(body, key, answers=key is not None, modern=_is_modern(message))
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
        """Return True if the notification closes a stream instead of being sent."""
        if message.method != messages.CANCELLED:
            return False
        request_id = messages.fields_of(message.params).get("requestId")
        key = Message(id=request_id).key if request_id is not None else None
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
        """Return the headers of a request; ``None`` stands for one without a body."""
        headers = {"Accept": _ACCEPT, **self._given}
        if message is not None:
            headers["Content-Type"] = "application/json"
        if message is not None and _is_modern(message):
            params = messages.fields_of(message.params)
            meta = messages.fields_of(params["_meta"])
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
        """Return the headers for arguments that the tool's schema wants repeated (``x-mcp-header``)."""
        tool = self._proxy.catalogue.find(messages.text_of(params.get("name"))) if self._proxy is not None else None
        try:
            arguments = messages.value_of(bytes(params.get("arguments", b"{}")))
        except MalformedMessage:
            return {}
        schema = tool.input_schema if tool is not None else None
        return {f"Mcp-Param-{name}": _written(text) for name, text in _repeated(schema, arguments)}

    # --- Answers ---------------------------------------------------------------------------------

    def _exchange(self, exchange: _Exchange, message: Message | None) -> None:
        headers = self._headers(message if message is not None else Message())
        try:
            response = self._post(exchange.body, headers)
        except urllib3.exceptions.HTTPError as error:
            self._failed(exchange, f"{self._place()} cannot be reached: {_reason(error)}")
            return
        exchange.response = response
        try:
            if exchange.key is None or exchange.answers:  # else it was cancelled before the server began to answer
                self._take(exchange, response)
        except (urllib3.exceptions.HTTPError, OSError, ValueError, BadResponse, AttributeError) as error:
            if exchange.answers:
                self._failed(exchange, f"the answer of {self._place()} was cut off: {_reason(error)}")
        finally:
            exchange.close()

    # --- Streamable HTTP -------------------------------------------------------------------------

    def _post(self, body: bytes, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Post a request. Repeat it once if the same server redirects it."""
        response = self._sent(self._url, body, headers)
        redirected = urljoin(self._url, response.headers.get("Location", ""))
        if response.status in (307, 308) and urlsplit(redirected)[:2] == urlsplit(self._url)[:2]:
            response.drain_conn()
            self._url = redirected
            response = self._sent(redirected, body, headers)
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
            self._failed(exchange, f"{self._place()} answered with {kind or 'no content type'}")

    def _refused(self, exchange: _Exchange, response: urllib3.BaseHTTPResponse, kind: str) -> None:
        """Answer with an error: the server's own if it has the protocol's form, under the id of the request."""
        body = _body(response)
        error = messages.fields_of(body).get("error") if kind == "application/json" else None
        if error is not None and messages.fields_of(error).get("message") is not None:
            line = b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (exchange.id, bytes(error))
            self._down(exchange, line)
            return
        text = {
            401: "asks for credentials: give them with --header",
            404: "does not know the session any more" if self._session else "has no such path",
            405: "takes no POST: it does not speak Streamable HTTP there",
        }.get(response.status, f"answered with status {response.status}")
        if 300 <= response.status < 400:
            text = f"is elsewhere now: {response.headers.get('Location', '?')[:200]}"
        self._failed(exchange, f"{self._place()} {text}")

    def _stream(self, exchange: _Exchange, response: urllib3.BaseHTTPResponse) -> None:
        """Forward the messages of a stream until the answer. Resume a broken stream if possible."""
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
        """Open the stream on which an older server sends messages of its own accord."""
        if self._session is None or self._closing.is_set():
            return
        exchange = _Exchange(b"", None, answers=False, modern=False)
        exchange.thread = threading.Thread(target=self._hear, args=(exchange,), name="callosum-get", daemon=True)
        with self._lock:
            self._open[b"GET"] = exchange
        exchange.thread.start()

    def _hear(self, exchange: _Exchange) -> None:
        last_id, tries, session = "", 0, self._session
        while tries <= AGAIN and not self._closing.is_set() and self._session == session:
            parser = Parser(last_id)
            with suppress(urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError, BadResponse):
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
        """Forward one message as one line."""
        line = data.replace(b"\r", b" ").replace(b"\n", b" ").strip()
        if not line or self._proxy is None:
            return
        parsed = messages.read_answer(line) if exchange.key is not None else None
        answered = isinstance(parsed, list) or (
            isinstance(parsed, Message) and isinstance(parsed.method, UnsetType) and parsed.key == exchange.key
        )
        if answered and isinstance(parsed, Message) and exchange.key == self._starting:
            version = messages.text_of(messages.fields_of(parsed.result).get("protocolVersion"))
            self._version = _written(version) if version else None
            self._starting = None
        if answered:
            exchange.answers = False
        self._proxy.from_server(line + b"\n")

    def _failed(self, exchange: _Exchange, text: str) -> None:
        """Answer a request that the server did not answer. The text tells the gate whether the call may have run."""
        if not exchange.answers or self._proxy is None:
            logger.warning("%s", text)
            return
        exchange.answers = False
        self._proxy.from_server(messages.fault(exchange.id, messages.SERVER_ERROR, text) + b"\n")

    def _place(self) -> str:
        return urlsplit(self._url).netloc


def _is_modern(message: Message | None) -> bool:
    params = messages.fields_of(message.params) if message is not None else {}
    return messages.is_modern(messages.fields_of(params.get("_meta", UNSET)))


class _Exchange:
    """Hold one pending request. ``answers`` is True while the client waits for its answer."""

    __slots__ = ("answers", "body", "key", "modern", "response", "thread")

    def __init__(self, body: bytes, key: Id | None, *, answers: bool, modern: bool) -> None:
        self.body = body
        self.key = key
        self.answers = answers
        self.modern = modern
        self.response: urllib3.BaseHTTPResponse | None = None
        self.thread = threading.current_thread()

    @property
    def id(self) -> bytes:
        """Return the id as it is written in an answer."""
        return self.key if isinstance(self.key, bytes) else messages.encode(self.key)

    def close(self) -> None:
        """End what another thread reads. A connection whose answer was read in full is kept. Idempotent."""
        response, self.response = self.response, None
        if response is not None:
            with suppress(ValueError, RuntimeError, OSError):  # closing alone does not wake the reader
                response.shutdown()
            with suppress(OSError, urllib3.exceptions.HTTPError):
                response.close()


def _check(url: str) -> None:
    """Raise ``ConfigError`` for a malformed URL or one that contains a secret."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid, parts = False, None
    if not is_valid or parts is None or not url.isprintable() or " " in url:
        raise ConfigError("expected http://HOST/PATH or https://HOST/PATH", at="--url")
    if "@" in parts.netloc:
        raise ConfigError("a user name or a password does not belong there: use --header", at="--url")


def _pool_for(url: str) -> urllib3.PoolManager:
    """Return connections to the server, through the proxy that the environment names for it."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415

    timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    options: dict[str, Any] = {"maxsize": 32, "timeout": timeout}
    return urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)


def _events(response: urllib3.BaseHTTPResponse, parser: Parser) -> Iterator[bytes]:
    """Yield the messages of a stream as they arrive."""
    while data := response.read1(65536):
        for _, kind, text in parser.feed(data):
            if kind == "message" and text:
                yield text.encode()


def _body(response: urllib3.BaseHTTPResponse) -> bytes:
    """Return the whole body. Raises ``BadResponse`` for one that never ends."""
    body = bytearray()
    while data := response.read1(1 << 20):
        body += data
        if len(body) > MAX_BODY:
            raise BadResponse(f"it is longer than {MAX_BODY} bytes")
    return bytes(body)


def _written(text: str) -> str:
    """Return a text as the value of a header, in base64 if it cannot be written otherwise."""
    plain = text.isascii() and text.isprintable() and text == text.strip() and text
    if plain and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _repeated(schema: Any, arguments: Any) -> Iterator[tuple[str, str]]:
    """Yield header names and values for the properties that ask for a header and have a value."""
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
    """Return why a request failed, without the content of the request."""
    inner = getattr(error, "reason", None) or error
    text = str(inner)
    return (text.rpartition(">: ")[2] or type(inner).__name__)[:200]
