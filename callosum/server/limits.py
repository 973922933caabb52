"""The limits of a connection, and the refusal of a request that exceeds one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from callosum.wire import MAX_BODY

_LOOKED_AT: Final = frozenset((b"host", b"content-length", b"transfer-encoding"))


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of a connection. Sizes are in bytes, times in seconds.

    ``stuck``: how long a client may leave its answer unread. ``pipelined``: number of requests of a
    connection that may wait for an earlier one. ``spare``: number of connections above ``connections`` that get a 503;
    further ones are closed without an answer. Idle connections are closed by uvicorn's ``timeout_keep_alive``; a
    connection that never sends anything is closed after ``arrive``.
    """

    head: int = 16 * 1024
    target: int = 8 * 1024
    headers: int = 100
    body: int = MAX_BODY
    arrive: float = 15.0
    stuck: float = 30.0
    linger: float = 2.0
    connections: int = 16_384
    spare: int = 64
    pipelined: int = 64


class Refusal(Exception):
    """Raised inside the parser to stop it."""

    def __init__(self, status: int, error: str, at: str) -> None:
        super().__init__(error)
        self.status, self.error, self.at = status, error, at


def room_of(headers: Iterable[tuple[bytes, bytes]], version: str, longest: int) -> int:
    """Return how many bytes a chunked body may hold, -1 for any other body.

    Raises ``Refusal`` for a head that two readers could understand in two ways, and for a body that is too long.
    """
    hosts, length, encoding = 0, None, None
    for name, value in headers:
        if name in _LOOKED_AT:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                length = value
            elif encoding is not None:
                raise Refusal(400, "occurs more than once", "Transfer-Encoding")
            else:
                encoding = value
    if version not in {"1.1", "1.0"}:
        raise Refusal(400, "this server speaks HTTP/1.1", "request")
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise Refusal(400, "occurs more than once" if hosts else "is missing", "Host")
    if encoding is not None:
        if length is not None or version == "1.0" or encoding.lower() != b"chunked":
            raise Refusal(400, "expected chunked alone, in HTTP/1.1", "Transfer-Encoding")
        return longest
    if length is not None and int(length) > longest:
        raise Refusal(413, f"longer than {longest} bytes", "body")
    return -1
