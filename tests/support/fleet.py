"""Several servers on one store, behind a plain balancer that does not read HTTP."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from tests.support.serving import SECONDS, Server, serving, until
from tests.support.world import RULES


class Balancer:
    """Passes each connection to the next server that accepts it. ``order`` holds the server of each connection."""

    def __init__(self, places: Sequence[tuple[str, int]]) -> None:
        self._places = list(places)
        self._next = 0
        self._begun = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="balancer")
        self.taken = [0] * len(self._places)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._begun.wait(SECONDS)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024))
        self.port = server.sockets[0].getsockname()[1]
        self._begun.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self._places:
            number = self._next = (self._next + 1) % len(self._places)
            try:
                there, back = await asyncio.open_connection(*self._places[number])
            except OSError:
                continue
            self.taken[number] += 1
            await asyncio.gather(_carry(reader, back), _carry(there, writer))
            return
        writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction of a connection, including its end."""
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        with suppress(OSError, RuntimeError):
            writer.close()


class Fleet:
    """The servers and the balancer in front of them. ``rules`` are those of ``tests.support.world``."""

    def __init__(self, servers: list[Server], balancer: Balancer) -> None:
        self.servers = servers
        self.balancer = balancer
        self.url = balancer.url

    def looks(self, server: Server) -> int:
        """Return how often a server has read from its store so far."""
        return int(self.metric(server, "callosum_requests"))

    def metric(self, server: Server, name: str) -> float:
        text = server.ask("GET", "/metrics").text
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))

    def ask(self, server: Server, who: str, tool: str, on: str, call_id: str, **more: Any) -> Any:
        body = {"instance": who, "tool": tool, "params": {"on": on}, "callId": call_id, **more}
        return server.post("/intercept", body, timeout=70)

    def waiting(self, count: int, key: str) -> None:
        """Return once ``count`` calls are queued for a key."""
        until(lambda: len(self.line(self.servers[-1], key)) == count)

    def line(self, server: Server, key: str) -> list[str]:
        """Return the sessions queued for a key, as a server shows them."""
        return [waiter["instance"] for waiter in server.get(f"/status?contextKey={key}").get("waiting", ())]


@contextmanager
def fleet(folder: Path, store: str, *options: str, count: int = 2, rules: str | None = RULES) -> Iterator[Fleet]:
    """Run servers with state folders of their own on one ``store``; without one they share a file, as on one machine.

    Without ``rules`` they use the shipped rules.
    """
    environ = {}
    if rules is not None:
        (folder / "rules.json").write_text(rules)
        environ["CALLOSUM_RULES"] = str(folder / "rules.json")
    secret = os.urandom(32)
    with ExitStack() as stack:
        servers = []
        for number in range(count):
            state = folder / (f"state{number}" if store else "state0")
            state.mkdir(exist_ok=True, mode=0o700)
            if not (state / "content.key").exists():
                (state / "content.key").write_bytes(secret)
                (state / "content.key").chmod(0o600)
            where = ("--store", store) if store else ()
            servers.append(stack.enter_context(serving(state, *where, *options, environ=environ)))
        balancer = stack.enter_context(Balancer([server.host_and_port for server in servers]))
        yield Fleet(servers, balancer)


class Late:
    """The pending result of a function that runs in a thread of its own."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run = run
        self._answer: Any = None
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._go)
        self._thread.start()

    def _go(self) -> None:
        try:
            self._answer = self._run()
        except BaseException as fault:  # noqa: BLE001 - it is raised where the answer is asked for
            self._fault = fault

    def answer(self, seconds: float = 60) -> Any:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "it still waits"
        if self._fault is not None:
            raise self._fault
        return self._answer
