"""Events arrive in pieces of any size, and reading continues at the same position after a lost connection."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callosum.client.errors import BadResponse, Unreachable
from callosum.client.sse import MAX_EVENT, Events, Parser

STREAM = (
    b"\xef\xbb\xbf: a comment\n\nid: 1\r\nevent: safety.blocked\r\ndata: {\r\ndata:  }\r\n\r\n"
    b"data\n\nid\rdata:x\r\revent: lost\n\nretry: 2500\nretry: 1x\nunknown: x\nid: 2\n\ndata: half"
)
EVENTS = [("1", "safety.blocked", "{\n }"), ("1", "message", ""), ("", "message", "x")]


@given(st.lists(st.integers(1, 30), min_size=1))
def test_events_arrive_in_any_pieces(cuts: list[int]) -> None:
    parser = Parser()
    found: list[tuple[str, str, str]] = []
    data, at = STREAM, 0
    while data:
        cut = cuts[at % len(cuts)]
        found += parser.feed(data[:cut])
        data = data[cut:]
        at += 1
    assert found == EVENTS
    assert (parser.last_id, parser.retry) == ("2", 2.5)


def test_id_with_a_zero_byte_is_ignored() -> None:
    parser = Parser("start")
    assert parser.feed(b"id: a\0b\ndata: x\n\n") == [("start", "message", "x")]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 100_000 + b"\n", b"x" * 100_000])
def test_an_endless_event_is_refused(piece: bytes) -> None:
    parser = Parser()
    for _ in range(MAX_EVENT // 100_000 - 1):
        assert parser.feed(piece) == []
    with pytest.raises(BadResponse):
        parser.feed(piece + piece)


class Script:
    """Answers of a source, one ``read`` each; b"" ends a connection, an error is raised."""

    def __init__(self, *reads: bytes | Exception) -> None:
        self.reads = list(reads)
        self.closed = 0

    def read(self, deadline: float) -> bytes:
        said = self.reads.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def interrupt(self) -> None:
        self.reads[:] = [b""]

    def close(self) -> None:
        self.closed += 1


class Line:
    """Hands out sources one after another, and notes with which id each was asked for."""

    def __init__(self, *sources: Script | Exception) -> None:
        self.sources = list(sources)
        self.asked: list[str] = []
        self.pauses: list[float] = []

    def connect(self, last_id: str) -> Script:
        self.asked.append(last_id)
        source = self.sources.pop(0)
        if isinstance(source, Exception):
            raise source
        return source

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return bool(self.sources)


def read(line: Line, then: Callable[[Events], None] | None = None) -> list[tuple[str, str, str]]:
    events = Events(line.connect, last_id="0", wait=line.wait, clock=lambda: 0.0)
    return list(events)


def test_a_lost_connection_is_replaced() -> None:
    gone = Unreachable("gone", sent=False)
    first = Script(b"id: 1\ndata: a\n\nid: 2\ndata: half", b"")
    second = Script(b"id: 2\ndata: b\n\n", gone)
    line = Line(first, gone, gone, second)
    assert read(line) == [("1", "message", "a"), ("2", "message", "b")]
    assert line.asked == ["0", "1", "1", "1"]
    assert line.pauses == [0.1, 0.2, 0.4, 0.1]
    assert (first.closed, second.closed) == (1, 1)


def test_server_sets_the_pause_before_a_reconnect() -> None:
    line = Line(Script(b"retry: 3000\n\n", b""), Script(b""))
    assert read(line) == []
    assert line.pauses[0] == 3


def test_pauses_are_bounded() -> None:
    gone = Unreachable("gone", sent=False)
    line = Line(Script(b""), *[gone] * 12, Script(b""))
    read(line)
    assert max(line.pauses) == 10


def test_first_connection_error_is_raised_to_the_caller() -> None:
    with pytest.raises(Unreachable):
        read(Line(Unreachable("nobody", sent=False)))


def test_closing_ends_the_stream() -> None:
    source = Script(b"data: a\n\n", b"data: b\n\n")
    line = Line(source)
    events = Events(line.connect, wait=line.wait, clock=lambda: 0.0)
    assert next(events)[2] == "a"
    events.close()
    assert list(events) == []
    assert source.closed == 1
