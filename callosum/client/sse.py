"""Parse server-sent events, and read them over connections that are reopened at the last event."""

from __future__ import annotations

from callosum.client.errors import BadResponse, TransportError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, Protocol, Self

    class Source(Protocol):
        """A source of events: a ``ResponseStream``, or a stand-in for one."""

        def read(self, deadline: float) -> bytes:
            """Return the received bytes, b"" at the end."""
            ...

        def interrupt(self) -> None:
            """Interrupt a ``read`` in another thread."""
            ...

        def close(self) -> None:
            """Release the connection."""
            ...


MAX_EVENT: Final = 8_000_000
"""Maximum size of an event, in bytes."""
QUIET: Final = 60.0
"""Seconds without a byte (a comment counts) after which a connection is considered lost."""
_FIRST_PAUSE: Final = 0.1
_LAST_PAUSE: Final = 10.0


class Parser:
    """Parses a ``text/event-stream`` fed in pieces of any size.

    ``last_id`` is the id to continue from; ``retry`` is the number of seconds that the server asks to wait before
    reconnecting, None if it did not ask.
    """

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self.retry: float | None = None
        self._id = last_id
        self._type = ""
        self._data: list[str] = []
        self._size = 0
        self._line = bytearray()
        self._after_cr = False
        self._first = True

    def feed(self, data: bytes) -> list[tuple[str, str, str]]:
        """Feed received bytes and return the events they complete: (id, type, data). Raises ``BadResponse``."""
        found: list[tuple[str, str, str]] = []
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]
        self._after_cr = data[-1:] == b"\r"
        *lines, rest = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if self._line:
                line = bytes(self._line) + line  # noqa: PLW2901 - the line began in an earlier piece
                self._line.clear()
            self._take(line, found)
        self._line += rest
        if self._size + len(self._line) > MAX_EVENT:
            raise BadResponse(f"an event is longer than {MAX_EVENT} bytes")
        return found

    def _take(self, line: bytes, found: list[tuple[str, str, str]]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self._end(found)
            return
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            self._size += len(value) + 1
            if self._size > MAX_EVENT:
                raise BadResponse(f"an event is longer than {MAX_EVENT} bytes")
            self._data.append(text)
        elif name == b"event":
            self._type = text
        elif name == b"id" and "\0" not in text:
            self._id = text
        elif name == b"retry" and text.isascii() and text.isdigit() and len(text) < 9:
            self.retry = int(text) / 1000

    def _end(self, found: list[tuple[str, str, str]]) -> None:
        self.last_id = self._id
        if self._data:
            found.append((self._id, self._type or "message", "\n".join(self._data)))
        self._type = ""
        self._data = []
        self._size = 0


class Events:
    """An endless iterator over events, each (id, type, data).

    ``connect(last_id)`` opens the stream and raises ``TransportError`` if it cannot. The first failure is raised to the
    caller; later ones are retried after growing pauses. ``wait(seconds)`` sleeps and returns whether to continue.
    ``close`` ends the iteration from any thread.
    """

    def __init__(
        self,
        connect: Callable[[str], Source],
        *,
        last_id: str = "",
        quiet: float = QUIET,
        wait: Callable[[float], bool],
        clock: Callable[[], float],
    ) -> None:
        self._connect = connect
        self._quiet = quiet
        self._wait = wait
        self._clock = clock
        self._parser = Parser(last_id)
        self._ready: list[tuple[str, str, str]] = []
        self._source: Source | None = None
        self._pause = 0.0
        self._reading = False
        self.closed = False
        self._source = connect(last_id)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[str, str, str]:
        self._reading = True
        try:
            while not self._ready:
                if self.closed:
                    self._drop()
                    raise StopIteration
                self._ready = self._read()[::-1]
            return self._ready.pop()
        finally:
            self._reading = False

    def close(self) -> None:
        """End the iteration. A ``next`` waiting in another thread ends with ``StopIteration``."""
        self.closed = True
        source = self._source
        if source is not None:
            source.interrupt()
        if not self._reading:
            self._drop()

    def _read(self) -> list[tuple[str, str, str]]:
        try:
            if self._source is None:
                self._source = self._connect(self._parser.last_id)
                self._parser = Parser(self._parser.last_id)
                if self.closed:  # closed while the connection was being opened
                    return []
            data = self._source.read(self._clock() + self._quiet)
            found = self._parser.feed(data) if data else []
        except TransportError:
            data, found = b"", []
        if data:
            self._pause = 0.0
            return found
        self._drop()
        pause = self._parser.retry if self._parser.retry is not None else max(self._pause, _FIRST_PAUSE)
        self._pause = min(max(pause, _FIRST_PAUSE) * 2, _LAST_PAUSE)
        if not self.closed and not self._wait(min(pause, _LAST_PAUSE)):
            self.closed = True
        return found

    def _drop(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()
