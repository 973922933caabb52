"""Read a request's body and send its response, in as few steps as a short exchange needs.

Nearly every request and response here is one small piece. If the connection offers it
(``scope["callosum.answer"]``, see ``Protocol.answer``), a response is sent in one write. On any other connection,
and if the response has headers of its own, it is sent as ASGI messages.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect, Request

from callosum.server.security import HEADERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

JSON: Final = "application/json"

_EVERY: Final = b"".join(b"%b: %b\r\n" % header for header in HEADERS)
_HEAD: Final = b"content-type: %b\r\n" + _EVERY
_JSON_HEAD: Final = _HEAD % JSON.encode()


class HttpRequest(Request):
    """A request whose body is read once."""

    async def body(self) -> bytes:
        """Return the whole body. Raises ``ClientDisconnect`` if the client disconnected before."""
        parts: list[bytes] = []
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part: bytes = message.get("body", b"")
            if not message.get("more_body", False):
                return b"".join((*parts, part)) if parts else part
            parts.append(part)

    async def is_disconnected(self) -> bool:
        """Return True if the client has disconnected. Call it after the body is read.

        Uses the connection's own check (``scope["callosum.gone"]``) if there is one: Starlette's check takes a tenth
        of a millisecond.
        """
        gone = self.scope.get("callosum.gone")
        if gone is None:
            return await super().is_disconnected()
        await asyncio.sleep(0)  # the client's end of stream may lie unread in the socket
        return bool(gone())


class HttpAnswer:
    """A response that is completely known: an ASGI application."""

    __slots__ = ("body", "headers", "media_type", "status")

    def __init__(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, media_type: str = JSON
    ) -> None:
        self.body, self.status, self.headers, self.media_type = body, status, headers, media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        """Send the response."""
        if not self.headers and scope.get("callosum.headers") is HEADERS and "callosum.answer" in scope:
            head = _JSON_HEAD if self.media_type is JSON else _HEAD % self.media_type.encode("latin-1")
            if scope["callosum.answer"](self.status, head, self.body):
                return
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in self._named()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})

    def _named(self) -> list[tuple[str, str]]:
        own = self.headers.items() if self.headers else ()
        return [*own, ("content-length", str(len(self.body))), ("content-type", self.media_type)]
