"""Count the calls of functions, Python's and C's, that a decision makes.

``measure`` counts in a process of its own, whose interpreter nothing else profiles. A pair is one intercept and one
complete; what threads do for it counts too, until the journal and the daily log are written. Of the pairs of each tier
(``tier 0`` to ``tier 3``, ``ls -la``), only what the caller waits for counts.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench import calls
from callosum import Call, LocalGate
from tests.support.serving import hosted

WARM: Final = 80
"""Number of pairs before anything is counted."""
PAIRS: Final = 40
"""Number of pairs that are counted together; the figure is the lowest of ``ROUNDS`` counts."""
ROUNDS: Final = 5
CLIENTS: Final = 64
FOLDER: Final = "/srv/site"

Step = Callable[[int], object]
_counted = itertools.count()


def _profile(_frame: object, event: str, _argument: object) -> None:
    if event in ("call", "c_call"):
        next(_counted)


def measure(root: Path, *only: str) -> dict[str, float]:
    """Return the calls of each pair and request, by their keys in ``budget.toml``, counted with this interpreter.

    ``only`` names the figures to count (default: all). ``root`` is the repository whose code is counted.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CALLOSUM_", "PYTHON"))}
    command = [sys.executable, "-m", "bench.budget.calls", *only]
    done = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-2000:]}")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return {name.replace(".", f".{version}.", 1): figure for name, figure in json.loads(done.stdout).items()}


# --- Embedded ----------------------------------------------------------------------------------------


def pairs() -> Mapping[str, calls.Make]:
    """Return the ten pairs as agents make them, each with a text of its own; a second session makes the last one."""
    return {
        "Read": lambda n: ("Read", {"file_path": f"{FOLDER}/page-{n % 50}.md"}),
        "Write": lambda n: ("Write", {"file_path": f"{FOLDER}/page-{n % 50}.md", "content": f"# Page\n\nDraft {n}.\n"}),
        "Edit": lambda n: (
            "Edit",
            {"file_path": f"{FOLDER}/page-{n % 50}.md", "old_string": f"Draft {n}", "new_string": f"Draft {n + 1}"},
        ),
        "Bash ls": lambda _: ("Bash", {"command": "ls -la src"}),
        "Bash pytest": lambda _: ("Bash", {"command": "pytest x -q"}),
        "Bash git log": lambda _: ("Bash", {"command": "git log -p"}),
        "message": lambda n: ("message", {"action": "send", "target": f"team-{n % 50}", "message": f"{n} is green"}),
        "mail": lambda n: ("send_email", {"to": f"a{n % 50}@example.com", "subject": "Build", "body": f"{n} is green"}),
        "kubectl apply": lambda n: ("Bash", {"command": f"kubectl apply -f deploy-{n}.yaml"}),
        "conflict": lambda n: ("message", {"action": "send", "target": "andy", "replyTo": f"m{n}", "message": f"{n}"}),
    }  # fmt: skip


def tiers() -> Mapping[str, calls.Make]:
    """Return the pairs that are counted in the caller's thread alone."""
    return {
        "tier 0": calls.read,
        "tier 1": calls.write,
        "tier 2": calls.post,
        "tier 3": calls.reply,
        "ls -la": lambda n: ("Bash", {"command": f"ls -la src{n}"}),
    }


def _pair(gate: LocalGate, make: calls.Make, sessions: Sequence[str]) -> Step:
    def step(number: int) -> None:
        tool, params = make(number)
        for session in sessions:
            call = Call("mira", tool, params, session=session, call_id=f"call-{session}-{number}", cwd=FOLDER)
            decision = gate.intercept(call)
            if not decision.proceed:
                raise RuntimeError(f"{tool} was stopped: {decision.warning}")
            gate.complete("mira", id=decision.id, session=session, result={"ok": True})

    return step


def embedded(name: str, make: calls.Make) -> float:
    """Return the calls of one pair of the ten, in all threads, until what it leaves behind is written."""
    threading.setprofile(_profile)
    try:
        with tempfile.TemporaryDirectory() as folder, LocalGate(settings=calls.settings(Path(folder))) as gate:
            sessions = ("chat", "night") if name == "conflict" else ("chat",)
            resume = [gate.leave_log()]

            def begin() -> None:
                resume.pop()()

            def quiet() -> None:
                resume.append(gate.leave_log())
                for thread in threading.enumerate():
                    if thread is not threading.current_thread():
                        thread.join()

            return _lowest(_pair(gate, make, sessions), begin, quiet)
    finally:
        threading.setprofile(None)


def waited_for(make: calls.Make) -> float:
    """Return the calls of one pair in the caller's own thread."""
    with tempfile.TemporaryDirectory() as folder, LocalGate(settings=calls.settings(Path(folder))) as gate:
        return _lowest(calls.gated(gate, make), lambda: None, lambda: None)


def _lowest(step: Step, begin: Callable[[], object], quiet: Callable[[], object]) -> float:
    """Return the calls of a step: the lowest count, as threads that meet make more.

    ``begin`` runs before each count, ``quiet`` at its end.
    """
    numbers = itertools.count(1)
    begin()
    for number in itertools.islice(numbers, WARM):
        step(number)
    quiet()
    found = []
    for _ in range(ROUNDS):
        begin()
        batch = list(itertools.islice(numbers, PAIRS))
        before = next(_counted)
        sys.setprofile(_profile)
        for number in batch:
            step(number)
        quiet()
        sys.setprofile(None)
        found.append((next(_counted) - before - 1) / PAIRS)
    return round(min(found), 1)


# --- Over HTTP ---------------------------------------------------------------------------------------


class Connection:
    """A kept connection to the server, without anything that is profiled."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition("/")[2].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def send(self, path: str, body: Mapping[str, Any]) -> None:
        """Send a POST with a JSON body."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
        self._socket.sendall(f"{head}{len(content)}\r\n\r\n".encode() + content)

    def receive(self) -> Any:
        """Return the JSON of the response. Raises ``RuntimeError`` unless it is a 200."""
        status, length = self._file.readline(), 0
        while line := self._file.readline().strip().lower():
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        body = self._file.read(length)
        if b" 200 " not in status:
            raise RuntimeError(f"{status!r}: {body!r}")
        return json.loads(body or b"null")


def requests(address: str) -> Iterator[tuple[str, Step, int]]:
    """Yield each request over HTTP: its name, what makes it, and how many are made at once."""
    one = Connection(address)

    def ask(path: str, body: Mapping[str, Any]) -> Any:
        one.send(path, body)
        return one.receive()

    def both(tool: str, params: Callable[[int], dict[str, Any]]) -> Step:
        def step(number: int) -> None:
            call = {"instance": "mira", "tool": tool, "params": params(number), "callId": f"{tool}-{number}"}
            ask("/complete", {"instance": "mira", "id": ask("/intercept", call)["id"], "result": {"ok": True}})

        return step

    def hook(number: int) -> None:
        event = {"hook_event_name": "PreToolUse", "session_id": "chat", "cwd": FOLDER, "tool_use_id": f"toolu_{number}"}
        call = {"tool_name": "Read", "tool_input": {"file_path": f"{FOLDER}/page-{number % 50}.md"}}
        ask("/hooks/claude-code", event | call)

    def batch(number: int) -> None:
        for client, connection in enumerate(every):
            params = {"file_path": f"{FOLDER}/page-{client}.md"}
            call = {"instance": f"mira-{client}", "tool": "Read", "params": params, "callId": f"batch-{number}"}
            connection.send("/intercept", call)
        for connection in every:
            connection.receive()

    yield "Read", both("Read", lambda n: {"file_path": f"{FOLDER}/page-{n % 50}.md"}), 1
    yield "mail", both("send_email", lambda n: {"to": f"b{n % 50}@example.com", "subject": "Build", "body": f"{n} is red"}), 1  # fmt: skip  # noqa: E501
    yield "hook", hook, 1
    every = [Connection(address) for _ in range(CLIENTS)]  # only now: the server closes a connection that is long idle
    yield "batch", batch, CLIENTS


@contextmanager
def _server() -> Iterator[str]:
    threading.setprofile(_profile)  # the server's threads alone: this one only asks
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            LocalGate(settings=calls.settings(Path(folder))) as gate,
            hosted(gate, Path(folder)) as address,
        ):
            yield address
    finally:
        threading.setprofile(None)


def _until_quiet() -> None:
    """Return once the server's threads have made fewer than 50 calls in a tenth of a second."""
    before = next(_counted)
    while True:
        time.sleep(0.1)
        now = next(_counted)
        if now - before < 50:
            return
        before = now


def served() -> dict[str, float]:
    """Return the calls that the server makes for each request, in all its threads."""
    figures: dict[str, float] = {}
    with _server() as address:
        for name, step, at_once in requests(address):
            numbers = itertools.count(1)
            for number in itertools.islice(numbers, WARM // at_once + 1):
                step(number)
            found = []
            for _ in range(ROUNDS):
                _until_quiet()
                rounds = max(PAIRS // at_once, 4)
                before = next(_counted)
                for number in itertools.islice(numbers, rounds):
                    step(number)
                _until_quiet()
                found.append((next(_counted) - before) / rounds / at_once)
            figures[f"served.{name}"] = round(min(found), 1)
    return figures


def main() -> None:
    """Print the figures that the arguments name, or all, as JSON."""
    only = set(sys.argv[1:])
    counts: Mapping[str, Callable[[], float]] = {
        f"calls.waited {name}": partial(waited_for, make) for name, make in tiers().items()
    } | {f"calls.{name}": partial(embedded, name, make) for name, make in pairs().items()}
    figures = {name: count() for name, count in counts.items() if not only or name in only}
    print(json.dumps(figures if only else figures | served()))


if __name__ == "__main__":
    main()
