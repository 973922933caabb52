"""Read a request's body, run the request and send its response, in as few steps as a short exchange needs.

Nearly every request and response here is one small piece. If the connection offers it
(``scope["callosum.answer"]``, see ``Protocol.answer``), a response is sent in one write. On any other connection,
and if the response has headers of its own, it is sent as ASGI messages.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from callosum.server.wait_queue import Gone
from callosum.server.writer import Result
from callosum.wire import ErrorResponse, encode

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from callosum.server.security import Receive, Scope, Send

JSON: Final = "application/json"
Header = tuple[bytes, bytes]
HEADERS: Final[tuple[Header, ...]] = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
"""Headers of every answer."""

_EVERY: Final = b"".join(b"%b: %b\r\n" % header for header in HEADERS)
_HEAD: Final = b"content-type: %b\r\n" + _EVERY
JSON_HEAD: Final = _HEAD % JSON.encode()
"""Header lines of an answer in JSON, without its length."""


class HttpRequest:
    """A request over ASGI, whose body is read once."""

    __slots__ = ("receive", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope, self.receive = scope, receive

    async def body(self) -> bytes:
        """Return the whole body. Raises ``Gone`` if the client disconnected before."""
        if "callosum.body" in self.scope:
            return self.scope["callosum.body"]  # type: ignore[no-any-return]
        parts: list[bytes] = []
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Gone("the client closed the connection")
            part: bytes = message.get("body", b"")
            if not message.get("more_body", False):
                return b"".join((*parts, part)) if parts else part
            parts.append(part)


class RequestRun:
    """Run a coroutine from now on, in the place of a task, among ``running`` until it ends.

    Most requests wait for nothing but one transaction, whose result resumes them at once. A task would begin in a later
    round of the loop, with a handle and a context of its own. The coroutine must not ask for its task, as
    ``asyncio.timeout`` does: it awaits one. It sets no context variable: there is one context for all requests.
    """

    __slots__ = ("_cancelled", "_coroutine", "_loop", "_running", "_waits_for")

    def __init__(
        self, coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop, running: set[Any]
    ) -> None:
        self._coroutine, self._loop, self._running = coroutine, loop, running
        self._waits_for: asyncio.Future[Any] | None = None
        self._cancelled = False
        running.add(self)
        self._step()

    def cancel(self, msg: str | None = None) -> None:
        """Cancel what the coroutine waits for, or its next step, as uvicorn does with a task when it stops."""
        waits_for = self._waits_for
        if waits_for is None or not waits_for.cancel(msg):
            self._cancelled = True
        elif type(waits_for) is Result:
            self._loop.call_soon(self._step)

    def _step(self, _done: object = None) -> None:
        try:
            if self._cancelled:
                self._cancelled = False
                awaited = self._coroutine.throw(asyncio.CancelledError())
            else:
                awaited = self._coroutine.send(None)
        except BaseException as end:  # noqa: BLE001 - it is reported
            self._running.discard(self)
            # Whoever resumed it goes on.
            if not isinstance(end, StopIteration | asyncio.CancelledError):
                self._loop.call_exception_handler({"message": "a request failed", "exception": end})
            return
        self._waits_for = awaited
        if awaited is None:  # ``asyncio.sleep(0)``
            self._loop.call_soon(self._step)
            return
        awaited._asyncio_future_blocking = False  # noqa: SLF001 - what a task does, too
        if type(awaited) is Result:
            awaited.resume = self._step
        else:
            awaited.add_done_callback(self._step)


class HttpAnswer:
    """A response that is completely known: an ASGI application."""

    __slots__ = ("body", "headers", "media_type", "status")

    def __init__(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, media_type: str = JSON
    ) -> None:
        self.body, self.status, self.headers, self.media_type = body, status, headers, media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        """Send the response."""
        if not self.headers and "callosum.answer" in scope and scope["callosum.headers"] is HEADERS:
            head = JSON_HEAD if self.media_type is JSON else _HEAD % self.media_type.encode("latin-1")
            if scope["callosum.answer"](self.status, head, self.body):
                return
        named = {**(self.headers or {}), "content-length": str(len(self.body)), "content-type": self.media_type}
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in named.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def fault(status: int, error: str, at: str = "", **headers: str) -> HttpAnswer:
    """Return an error response that says what was wrong, and where."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpAnswer(encode(ErrorResponse(error, at)), status, named)
