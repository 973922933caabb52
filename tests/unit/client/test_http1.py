"""The HTTP/1.1 parser: accepted and refused responses, in pieces of any size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callosum.client.errors import BadResponse
from callosum.client.http1 import ChunkedBody, read_head


def test_head_is_parsed() -> None:
    head = read_head(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX-Odd:\t a: b \r\nEmpty:")
    assert (head.status, head.length, head.chunked, head.close) == (200, 12, False, False)
    assert head.headers == {b"content-length": b"12", b"x-odd": b"a: b", b"empty": b""}


@pytest.mark.parametrize(
    ("lines", "length", "chunked", "close"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked", None, True, False),
        (b"HTTP/1.1 200 OK", None, False, True),
        (b"HTTP/1.1 200", None, False, True),
        (b"HTTP/1.1 204 No Content", 0, False, False),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9", 0, False, False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: Close", 1, False, True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1", 1, False, True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive", 1, False, False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1", 1, False, False),
    ],
)
def test_end_of_the_body_is_found(lines: bytes, length: int | None, chunked: bool, close: bool) -> None:
    head = read_head(lines)
    assert (head.length, head.chunked, head.close) == (length, chunked, close)


@pytest.mark.parametrize(
    "lines",
    [
        b"", b"HTTP/2 200 OK", b"HTTP/1.1 20 OK", b"HTTP/1.1 2000", b"HTTP/1.1\xa0200 OK", b"http/1.1 200 OK",
        b"SSH-2.0-OpenSSH_9.6", b"HTTP/1.1 200 OK\r\nno colon", b"HTTP/1.1 200 OK\r\n: no name",
        b"HTTP/1.1 200 OK\r\nContent-Length : 5", b"HTTP/1.1 200 OK\r\nA: b\r\n folded: c",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5", b"HTTP/1.1 200 OK\r\nContent-Length: +5",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5_0", b"HTTP/1.1 200 OK\r\nContent-Length: 64000001",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999", b"HTTP/1.1 200 OK\r\nContent-Length:",
    ],
)  # fmt: skip
def test_malformed_heads_are_refused(lines: bytes) -> None:
    with pytest.raises(BadResponse):
        read_head(lines)


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    for text in (data, b"HTTP/1.1 200 OK\r\n" + data):
        try:
            head = read_head(text)
        except BadResponse:
            continue
        assert 0 <= head.status <= 999


def test_chunks_are_joined() -> None:
    chunks = ChunkedBody()
    assert (
        chunks.feed(b'4\r\n{"a"\r\n3;name=x\r\n: 1\r\nA\r\n}         \r\n0\r\nTrailer: t\r\n') == b'{"a": 1}         '
    )
    assert not chunks.done
    assert chunks.feed(b"\r\n") == b""
    assert (chunks.done, chunks.rest) == (True, False)


def test_bytes_after_the_last_chunk_are_noticed() -> None:
    chunks = ChunkedBody()
    chunks.feed(b"0\r\n\r\nHTTP/1.1 200 OK")
    assert (chunks.done, chunks.rest) == (True, True)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.lists(st.integers(1, 30), min_size=1))
def test_chunks_arrive_in_any_pieces(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    chunks = ChunkedBody()
    found = b""
    at = 0
    while data:
        cut = cuts[at % len(cuts)]
        found += chunks.feed(data[:cut])
        data = data[cut:]
        at += 1
    assert (found, chunks.done, chunks.rest) == (b"".join(parts), True, False)


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n", b"x\r\n", b"-1\r\n", b"0x4\r\nabcd\r\n", b"4_0\r\n", b"4\r\nabcdef", b"4" * 17 + b"\r\n",
        b"4;" + b"x" * 2000, b"a" * 2000, b"0\r\n" + b"t: x\r\n" * 20_000,
    ],
)  # fmt: skip
def test_malformed_chunks_are_refused(data: bytes) -> None:
    with pytest.raises(BadResponse):
        ChunkedBody().feed(data)
