"""Parse HTTP/1.1 responses with pure functions over bytes; every length is bounded.

The parser is strict where a lenient one could disagree with another reader about where a response ends (two lengths, a
length beside chunks, a folded line), because connections are reused.
"""

from __future__ import annotations

from callosum.client.errors import BadResponse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

MAX_HEAD: Final = 65_536
"""Maximum size of a response head (status line and headers), and of all trailers, in bytes."""
MAX_BODY: Final = 64_000_000
"""Maximum size of a response body, in bytes."""
_MAX_SIZE_LINE: Final = 1024
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


class ResponseHead:
    """The head of a response. Header names are lower case; if a header is repeated, the last one is kept.

    ``length`` is the size of the body in bytes, None if the body is ``chunked`` or ends with the connection. ``close``:
    the connection cannot be reused.
    """

    __slots__ = ("chunked", "close", "headers", "length", "status")

    def __init__(
        self, status: int, headers: Mapping[bytes, bytes], *, length: int | None, chunked: bool, close: bool
    ) -> None:
        self.status = status
        self.headers = headers
        self.length = length
        self.chunked = chunked
        self.close = close


def read_head(data: bytes) -> ResponseHead:
    """Read the status line and headers, without the empty line that ends them. Raises ``BadResponse``."""
    lines = data.split(b"\r\n")
    first = lines[0]
    if not (first[:7] == b"HTTP/1." and first[8:9] == b" " and first[9:12].isdigit() and first[12:13] in b" "):
        raise BadResponse("the answer is not HTTP/1.1")
    headers: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        name = name.lower()
        value = value.strip(b" \t")
        if not colon or not name or name[0] <= 32 or name[-1] <= 32:
            raise BadResponse("the answer has a header that cannot be read")
        if name in headers and name in (b"content-length", b"transfer-encoding") and headers[name] != value:
            raise BadResponse(f"the answer has two values of {name.decode()}")
        headers[name] = value
    return _framed(int(first[9:12]), headers, old=first[7:8] == b"0")


def _framed(status: int, headers: dict[bytes, bytes], *, old: bool) -> ResponseHead:
    """Work out where the body ends."""
    coding = headers.get(b"transfer-encoding")
    written = headers.get(b"content-length")
    said = headers.get(b"connection", b"").lower()
    close = b"close" in said or (old and b"keep-alive" not in said)
    if status < 200 or status in (204, 304):
        return ResponseHead(status, headers, length=0, chunked=False, close=close)
    if coding is not None:
        if coding.lower() != b"chunked" or written is not None or old:
            raise BadResponse("the answer's length cannot be told")
        return ResponseHead(status, headers, length=None, chunked=True, close=close)
    if written is None:
        return ResponseHead(status, headers, length=None, chunked=False, close=True)
    if not written.isdigit() or len(written) > 18:
        raise BadResponse("the answer's length is no number")
    length = int(written)
    if length > MAX_BODY:
        raise BadResponse(f"the answer is longer than {MAX_BODY} bytes")
    return ResponseHead(status, headers, length=length, chunked=False, close=close)


class ChunkedBody:
    """Decodes a chunked body, fed in pieces of any size.

    ``done`` is True once the last chunk and the trailers were read; ``rest`` says whether bytes came after them.
    """

    __slots__ = ("_buffer", "_found", "_left", "_step", "_trailers", "done")

    def __init__(self) -> None:
        self.done = False
        self._buffer = bytearray()
        self._found = bytearray()
        self._left = 0
        self._trailers = 0
        self._step = self._size

    @property
    def rest(self) -> bool:
        """Return whether bytes came after the last chunk."""
        return self.done and bool(self._buffer)

    def feed(self, data: bytes) -> bytes:
        """Feed received bytes and return the body bytes they contain. Raises ``BadResponse``."""
        self._buffer += data
        while not self.done and self._step():
            pass
        found = bytes(self._found)
        self._found.clear()
        return found

    def _size(self) -> bool:
        line = self._line(_MAX_SIZE_LINE)
        if line is None:
            return False
        digits = line.partition(b";")[0].strip(b" \t")
        if not 0 < len(digits) <= 15 or not _HEX.issuperset(digits):
            raise BadResponse("the answer has a chunk without a size")
        self._left = int(digits, 16)
        self._step = self._data if self._left else self._trailer
        return True

    def _data(self) -> bool:
        piece = self._buffer[: self._left]
        del self._buffer[: self._left]
        self._found += piece
        self._left -= len(piece)
        if not self._left:
            self._step = self._end
        return bool(piece)

    def _end(self) -> bool:
        if len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise BadResponse("the answer has a chunk of another size than it says")
        del self._buffer[:2]
        self._step = self._size
        return True

    def _trailer(self) -> bool:
        line = self._line(MAX_HEAD - self._trailers)
        if line is None:
            return False
        self._trailers += len(line) + 2
        self.done = not line
        return True

    def _line(self, limit: int) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end > limit or (end < 0 and len(self._buffer) > limit):
            raise BadResponse("the answer has an endless line among its chunks")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line
