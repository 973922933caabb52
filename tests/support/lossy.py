"""A loopback proxy that can lose one response: the server has done the work and the client never gets the result."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self


class Lossy:
    """Listens on ``port`` in front of a server's port.

    ``lose(text)``: lose the response to the next request that contains this text. ``lost`` counts the lost responses;
    the connection of the client is closed instead.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._text = b""
        self._then: Callable[[], object] = int
        self.lost = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def lose(self, text: bytes, then: Callable[[], object] = int) -> None:
        """Lose the response to the next request that contains ``text``; run ``then`` before the client can notice."""
        self._then = then
        self._text = text

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                losing = threading.Event()
                threading.Thread(target=self._asks, args=(client, server, losing), daemon=True).start()
                threading.Thread(target=self._answers, args=(client, server, losing), daemon=True).start()

    def _asks(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):
            while asked := client.recv(1 << 20):
                if self._text and self._text in asked:
                    self._text = b""
                    losing.set()
                server.sendall(asked)
            server.shutdown(socket.SHUT_WR)

    def _answers(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):
            while (answer := server.recv(1 << 20)) and not losing.is_set():
                client.sendall(answer)
            if losing.is_set():
                self.lost += 1
                self._then()
            client.shutdown(socket.SHUT_RDWR)
