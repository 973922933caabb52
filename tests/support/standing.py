"""A process that listens in place of the gate and does not behave like one."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from callosum.sockets import leave_origin, remove_origin


@contextmanager
def impostor(path: str, answer: Callable[[socket.socket], object]) -> Iterator[None]:
    """Run a process that listens in place of the gate and calls ``answer`` for each connection.

    It passes for a gate of this installation, so that hooks connect to it.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        leave_origin(path)
        listening.listen(16)
        taken: list[socket.socket] = []

        def run() -> None:
            while True:
                try:
                    channel, _ = listening.accept()
                except OSError:
                    return
                taken.append(channel)
                with suppress(OSError):
                    answer(channel)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            for channel in taken:
                channel.close()
    Path(path).unlink()
    remove_origin(path)
