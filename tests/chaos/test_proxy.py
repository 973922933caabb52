"""The proxy treats a connection as its mode says, observed from both ends."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from chaos.proxy import Proxy
from tests.support.serving import until

WORDS = b"x" * 64


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends everything back."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65_536):
                    connection.sendall(data)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    yield listener.getsockname()[:2]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.fixture
def proxy(echo: tuple[str, int]) -> Iterator[Proxy]:
    with Proxy(echo, delay=0.2, one_in=1) as proxy:
        yield proxy


@pytest.fixture
def line(proxy: Proxy) -> Iterator[socket.socket]:
    """A connection through the proxy that works."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as line:
        line.sendall(WORDS)
        assert line.recv(1000) == WORDS
        yield line


def test_delay_keeps_every_byte(proxy: Proxy, line: socket.socket) -> None:
    proxy.set("delay")
    began = time.monotonic()
    line.sendall(WORDS)
    assert line.recv(1000) == WORDS
    assert time.monotonic() - began > 0.39
    assert proxy.faults == 2


def test_silence_keeps_the_connection_open(proxy: Proxy, line: socket.socket) -> None:
    """A new connection works as soon as the proxy does."""
    proxy.set("silent")
    line.sendall(WORDS)
    until(lambda: proxy.faults)
    proxy.set("plain")
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as other:
        other.sendall(WORDS)
        assert other.recv(1000) == WORDS
    line.settimeout(0.2)
    with pytest.raises(TimeoutError):
        line.recv(1000)


def test_reset_closes_the_connection_with_an_error(proxy: Proxy, line: socket.socket) -> None:
    proxy.set("reset")
    with pytest.raises(ConnectionResetError):
        line.recv(1000)
    proxy.set("plain")
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as other:
        other.sendall(WORDS)
        assert other.recv(1000) == WORDS


def test_corruption_flips_one_bit(proxy: Proxy, line: socket.socket) -> None:
    """This happens in both directions."""
    proxy.set("corrupt")
    line.sendall(WORDS)
    got = line.recv(1000)
    assert sum((one ^ other).bit_count() for one, other in zip(WORDS, got, strict=True)) in (0, 2)
    assert proxy.faults == 2
