"""Very many calls that wait for one key, each a long poll on a connection of its own.

``python -m tests.support.crowd 10000`` starts a server with its store in memory and prints the result.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from tests.support.fleet import fleet

KEY = "/crowd"


class Seen(NamedTuple):
    """The order in which calls were let in, the calls that were not, and the seconds that arriving and leaving took."""

    order: list[int]
    others: dict[int, str]
    arriving: float
    leaving: float
    looks: int
    seconds: float


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, place: tuple[str, int]) -> "_Connection":
        return cls(*await asyncio.open_connection(*place))

    def send(self, method: str, path: str, body: Any = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
        self._writer.write(head.encode() + data)

    async def answer(self) -> Any:
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return json.loads(await self._reader.readexactly(int(length.split(b":")[1])))

    def close(self) -> None:
        self._writer.close()


async def wait_in_line(place: tuple[str, int], count: int) -> Seen:
    """Hold a lock until all calls have arrived; each call that is let in ends at once."""
    control = await _Connection.to(place)
    control.send("POST", "/lock", {"instance": "holder", "contextKey": f"file:{KEY}", "tier": 4})
    assert (await control.answer())["acquired"]
    order: list[int] = []
    others: dict[int, str] = {}

    async def one(number: int, connection: _Connection) -> None:
        decision = await connection.answer()
        if decision.get("proceed"):
            order.append(number)
            connection.send("POST", "/complete", {"instance": f"s{number}", "id": decision["id"]})
            assert (await connection.answer())["ok"]
        else:
            others[number] = str(decision)
        connection.close()

    began = time.monotonic()
    tasks = []
    for number in range(count):
        connection = await _Connection.to(place)
        call = {"instance": f"s{number}", "tool": "now4", "params": {"on": KEY}, "callId": f"c{number}", "wait": 60}
        connection.send("POST", "/intercept", call)
        control.send("GET", "/nothing")  # once this is answered, the server has read the other request
        await control.answer()
        tasks.append(asyncio.ensure_future(one(number, connection)))
    arrived = time.monotonic()
    control.send("DELETE", f"/lock/file:{KEY}", {"instance": "holder"})
    assert (await control.answer())["ok"]
    await asyncio.gather(*tasks)
    control.close()
    return Seen(order, others, arrived - began, time.monotonic() - arrived, 0, 0.0)


def crowd(folder: Path, count: int, store: str = "") -> Seen:
    """Make ``count`` calls wait at one server."""
    with fleet(folder, store, count=1) as one:
        (server,) = one.servers
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            seen = runner.run(wait_in_line(server.host_and_port, count))
        return seen._replace(looks=one.looks(server), seconds=one.metric(server, "callosum_process_seconds"))


def main(count: int) -> None:
    """Print the result."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        seen = crowd(Path(folder), count)
    print(f"{len(seen.order)} of {count} let in, in order: {seen.order == sorted(seen.order)}")
    print(f"{seen.seconds:.1f} s of the server's processor")
    print(
        f"arriving {seen.arriving:.1f} s, leaving {seen.leaving:.1f} s, {seen.looks / count:.2f} requests to the store a call"
    )
    if seen.others:
        print(f"not let in: {len(seen.others)}, such as {next(iter(seen.others.items()))}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
