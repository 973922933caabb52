"""A real server whose event loop tells how much processor time passes between two of its turns."""

import asyncio
import gc
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from callosum.gate import LocalGate
from callosum.settings import Settings
from tests.support.cpu import slowness
from tests.support.serving import hosted

_BEAT: Final = 0.001
"""Seconds between two turns of a loop that has nothing else to do."""
_SECONDS: Final = 60.0


class Pulse:
    """The longest turn of the server's loop since ``reset``: in seconds of this process's processor time.

    All threads count: one that keeps the interpreter's lock makes the loop's turn as long.
    """

    port = 0
    longest = 0.0

    def reset(self) -> None:
        self.longest = 0.0

    async def beat(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(_BEAT)
            now = time.process_time()
            self.longest = max(self.longest, now - last)
            last = now

    def ask(self, head: bytes, body: bytes) -> bytes:
        """Send one request and return the head of the answer; nothing else of this process runs meanwhile."""
        request = b"%b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (
            head,
            len(body),
        )
        with socket.create_connection(("127.0.0.1", self.port), timeout=_SECONDS) as client:
            client.sendall(request)
            client.sendall(body)
            answer = bytearray()
            while piece := client.recv(1 << 20):
                answer += piece
        return bytes(answer)

    def longest_of(self, head: bytes, body: bytes) -> tuple[float, bytes]:
        """Return the longest turn that a request causes, on a machine of usual speed, with the response.

        The shortest of eight tries counts, because other processes may have disturbed the others, or slowed this
        machine down between its timing and the request. What a request itself causes, it causes each time. A machine
        on which the first try is short need not be timed.
        """
        found, answer = [], b""
        for number in range(8):
            before = slowness() if number else 1.0
            self.reset()
            answer = self.ask(head, body)
            found.append(self.longest / (max(before, slowness()) if number else 1.0))
            if found[-1] < 0.04:
                break
        return min(found), answer


@contextmanager
def pulsing(state: Path) -> Iterator[Pulse]:
    """Run a server in a thread, with the shipped rules and regions, for the length of a block."""
    pulse = Pulse()
    with LocalGate(settings=Settings(state=state)) as gate, hosted(gate, state, beside=pulse.beat) as address:
        pulse.port = int(address.rpartition(":")[2])
        gc.collect()
        gc.freeze()
        try:
            yield pulse
        finally:
            gc.unfreeze()
