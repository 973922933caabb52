"""A request's body and the answer to it, in as few steps as a short exchange needs.

Nearly every request here is one small piece, and so is its answer. Where the connection offers it
(``scope["callosum.answer"]``, see ``Protocol.answer``) an answer goes out in one write; anywhere else, and
wherever it has headers of its own, it is sent as ASGI has it.
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


class Asked(Request):
    """A request whose body is read once."""

    async def body(self) -> bytes:
        """Return the whole body. Raises ``ClientDisconnect`` if the client went away before."""
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
        """Whether the client has gone away; asked once the body is read.

        Where the connection tells (``scope["callosum.gone"]``) it is asked: what Starlette does takes a tenth of a
        millisecond.
        """
        gone = self.scope.get("callosum.gone")
        if gone is None:
            return await super().is_disconnected()
        await asyncio.sleep(0)  # the end of what the client said may lie in the socket, unread
        return bool(gone())


class HttpAnswer:
    """An answer that is known as a whole: an ASGI application."""

    __slots__ = ("body", "headers", "media_type", "status")

    def __init__(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, media_type: str = JSON
    ) -> None:
        self.body, self.status, self.headers, self.media_type = body, status, headers, media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        """Send it."""
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
