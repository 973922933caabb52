"""Sessions that work through a server as fast as it answers, each on a kept connection of its own.

The params of every call hold a unique number (``n``), so that the journal shows which calls it has, whatever the client
was answered.
"""

import http.client
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.support.serving import Server

CONTESTED = ("plan", "budget")
LOST = (OSError, http.client.HTTPException)
"""What a client meets when the server is gone before it has answered."""


class Reply(NamedTuple):
    status: int
    body: Any
    retry_after: str | None = None


class Connection:
    """A kept connection that is opened again after an error. ``to`` returns the current address of the server."""

    def __init__(self, to: Callable[[], tuple[str, int]], timeout: float = 30) -> None:
        self._to, self._timeout = to, timeout
        self._kept: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def ask(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Reply:
        """Send one request. Raises one of ``LOST`` if no complete response arrives."""
        if self._kept is None:
            self._kept = http.client.HTTPConnection(*self._to(), timeout=self._timeout)
            self._kept.connect()
            self._kept.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            self._kept.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self._kept.getresponse()
            return Reply(answer.status, json.loads(answer.read()), answer.headers["Retry-After"])
        except LOST:
            self.close()
            raise

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None


class Request(NamedTuple):
    path: str
    body: dict[str, Any]


class Session:
    """One session: intercepts a call and reports it if it was allowed.

    ``answered`` holds every response with its request; ``pending`` is the last request without a response.
    """

    def __init__(self, name: str, load: "Load") -> None:
        self.name = name
        self.answered: list[tuple[Request, Reply]] = []
        self.pending: Request | None = None
        self.holds: str | None = None
        self._load = load
        self._number = 0
        self._next: Request | None = None

    def run(self) -> None:
        """Work until the load is stopped and no call is open, or until the server is gone."""
        with Connection(lambda: self._load.server.host_and_port) as connection:
            while self._next or not self._load.stopped.is_set():
                request = self.pending or self._next or self._call()
                self._next, self.pending = None, request
                if request.path == "/complete":
                    self._load.let_go(self)
                try:
                    reply = connection.ask("POST", *request)
                except LOST:
                    return
                self.pending = None
                self.answered.append((request, reply))
                if reply.status != 200:
                    return
                self._go_on(request, reply.body)
                self._load.count()

    def _call(self) -> Request:
        self._number += 1
        number = self._number
        tool, on = (
            ("now4", CONTESTED[number % 2]),
            ("act3", f"{self.name}-{number % 7}"),
            ("send2", "channel"),
            ("look", "plan"),
            ("now4", CONTESTED[number // 5 % 2]),
        )[number % 5]
        n = f"{self.name}-{number}"
        call = {"instance": self.name, "tool": tool, "params": {"on": on, "n": n}}
        return Request(
            "/intercept", {**call, "callId": f"call-{n}", "dispatch": "one"} if self._load.call_ids else call
        )

    def _go_on(self, request: Request, answer: dict[str, Any]) -> None:
        if request.path != "/intercept" or not answer["proceed"]:
            return
        if request.body["tool"] == "now4":
            self._load.hold(self, request.body["params"]["on"])
        self._next = Request("/complete", {"instance": self.name, "id": answer["id"], "result": {"ok": True}})


class Load:
    """Sessions on one server, which may be another one each time they are started."""

    def __init__(self, sessions: int, *, call_ids: bool = True) -> None:
        self.server: Server
        self.call_ids = call_ids
        self.sessions = [Session(f"s{number}", self) for number in range(sessions)]
        self.stopped = threading.Event()
        self.together: list[tuple[str, str, str]] = []
        """Who was let in on which key while who held it: must stay empty."""
        self._holders: dict[str, Session] = {}
        self._told = threading.Condition()
        self._count = 0
        self._threads: list[threading.Thread] = []

    def start(self, server: Server) -> None:
        """Continue where the sessions stopped."""
        self.server = server
        self.stopped.clear()
        self._count = 0
        self._threads = [threading.Thread(target=session.run) for session in self.sessions]
        for thread in self._threads:
            thread.start()

    def count(self) -> None:
        with self._told:
            self._count += 1
            self._told.notify_all()

    def after(self, answers: int, seconds: float = 30) -> None:
        """Return once ``count`` responses have arrived since the start."""
        with self._told:
            assert self._told.wait_for(lambda: self._count >= answers, seconds), f"only {self._count} answers came"

    def join(self, seconds: float = 30) -> None:
        """Return once every session has ended."""
        for thread in self._threads:
            thread.join(seconds)
            assert not thread.is_alive(), "a session hangs"

    def finish(self) -> None:
        """Let the sessions finish their open calls and return."""
        self.stopped.set()
        self.join()

    def hold(self, session: Session, key: str) -> None:
        with self._told:
            other = self._holders.get(key)
            if other is not None and other is not session:
                self.together.append((session.name, key, other.name))
            self._holders[key] = session
            session.holds = key

    def let_go(self, session: Session) -> None:
        with self._told:
            if session.holds is not None and self._holders.get(session.holds) is session:
                del self._holders[session.holds]
            session.holds = None

    def answers(self) -> Sequence[tuple[Request, Reply]]:
        return [one for session in self.sessions for one in session.answered]


def journal(server: Server, cursor: str = "", **filters: str) -> tuple[list[dict[str, Any]], str]:
    """Return all of the journal after the cursor, page by page, and the cursor at its end."""
    found: list[dict[str, Any]] = []
    more = "".join(f"&{name}={value}" for name, value in filters.items())
    while True:
        page = server.get(f"/journal?limit=1000&cursor={cursor}{more}")
        found += page["entries"]
        cursor = page["cursor"]
        if not page["entries"]:
            return found, cursor


class Record:
    """The journal as successive servers showed it, from one cursor on."""

    def __init__(self) -> None:
        self.entries: dict[int, dict[str, Any]] = {}
        self.ended: set[int] = set()
        self._cursor = ""

    def read(self, server: Server) -> None:
        found, self._cursor = journal(server, self._cursor)
        for entry in found:
            assert entry["seq"] > max(self.entries, default=0), "the journal has one order"
            self.entries[entry["seq"]] = entry
            if entry["event"] == "complete":
                self.ended.add(entry["action"])

    def let_in_twice(self) -> list[str]:
        """Return the calls that were opened more than once."""
        count = Counter(entry["body"]["params"]["n"] for entry in self.entries.values() if opened(entry))
        return [n for n, times in count.items() if times > 1]

    def held_twice(self) -> list[tuple[int, int]]:
        """Return the actions of tier 4 that began while another one on the key was open."""
        found = []
        holders: dict[str, int] = {}
        for entry in self.entries.values():
            if entry["tier"] == 4 and opened(entry):
                key = entry["keys"][0][0]
                if key in holders:
                    found.append((holders[key], entry["seq"]))
                holders[key] = entry["seq"]
            elif entry["tier"] == 4 and entry["event"] == "complete":
                assert holders.pop(entry["keys"][0][0]) == entry["action"]
        return found


def opened(entry: dict[str, Any]) -> bool:
    return entry["event"] == "intercept" and entry["verdict"] in ("allow", "warn")


def assert_all_there(answers: Iterable[tuple[Request, Reply]], record: Record) -> None:
    """Check that the journal has every acknowledged decision, whatever its tier and verdict, and every report."""
    for request, reply in answers:
        if request.path == "/intercept":
            entry = record.entries[reply.body["id"]]
            assert entry["verdict"] == reply.body["verdict"]
            assert entry["body"]["params"]["n"] == request.body["params"]["n"]
        else:
            assert reply.body["ok"], reply
            assert request.body["id"] in record.ended


def close_hard(connection: socket.socket) -> None:
    """Close a connection as a killed client does."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
