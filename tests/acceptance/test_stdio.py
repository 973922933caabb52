"""``callosum stdio`` as a host uses it: a child of its own, with pipes."""

import json
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from callosum import stdio, wire
from callosum.gate import LocalGate
from callosum.model import Event
from tests.acceptance.command import CALLOSUM, ROOT, environment
from tests.support import forking
from tests.support.serving import until

LIMIT = 60.0
"""Seconds after which a child that does not answer has failed."""
PAGE = ROOT / "docs" / "stdio.md"
RULES = {
    "rules": [
        {"name": "pay", "tier": 4, "tool": "pay", "contextKey": "payment:{params.to}", "repeats": False},
        {"name": "gift", "tier": 4, "tool": "gift", "contextKey": "payment:{params.to}", "verdict": "ask"},
    ]
}

# An orphan: none of its ancestors can pass for an agent's host.
_ALONE = "import os, sys; os._exit(0) if os.fork() else os.execv(sys.argv[1], sys.argv[1:])"


class Child:
    """The command, and the host's end of its pipes."""

    def __init__(self, state: Path, *words: str, program: tuple[str, ...] = (), **env: str) -> None:
        self.process = forking.Popen(
            [*program, *CALLOSUM, "stdio", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # so that what has come can be seen from outside
            env=environment(state, **env),
            cwd=state.parent,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.to, self.back, self.said = self.process.stdin, self.process.stdout, self.process.stderr
        self.answers: dict[Any, Any] = {}
        self._number = 0

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self.to.write(left) :]

    def send(self, method: str, **params: Any) -> int:
        """Send a request and return its id."""
        self._number += 1
        self.write(
            json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}).encode() + b"\n"
        )
        return self._number

    def read(self) -> Any:
        """Return the next response; every line of the output is one."""
        assert select.select([self.back], [], [], LIMIT)[0], "no answer"
        return json.loads(self.back.readline())

    def answer(self, id: Any) -> Any:
        """Return the response to a request; others that come first are kept."""
        while id not in self.answers:
            found = self.read()
            self.answers[found["id"]] = found
        return self.answers.pop(id)

    def ask(self, method: str, **params: Any) -> Any:
        answer = self.answer(self.send(method, **params))
        return answer.get("result") or answer["error"]

    def end(self) -> tuple[int, bytes, bytes]:
        """Close the input; return the exit code, the remaining output and the standard error."""
        self.to.close()
        out, said = self.back.read(), self.said.read()
        return self.process.wait(LIMIT), out, said

    def close(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT)
        for pipe in (self.to, self.back, self.said):
            pipe.close()


@contextmanager
def child(state: Path, *words: str, program: tuple[str, ...] = (), **env: str) -> Iterator[Child]:
    started = Child(state, *words, program=program, **env)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "tiers.json").write_text(json.dumps(RULES))
    return state


def pay(who: str, to: str = "globex", **more: Any) -> dict[str, Any]:
    return {"instance": who, "tool": "pay", "params": {"to": to}, **more}


def in_the_way(who: Child) -> dict[str, int]:
    """Return the conflicts of doug's payment: the action of each kind."""
    return {one["kind"]: one["id"] for one in who.ask("intercept", **pay("doug"))["conflicts"]}


def test_two_children_on_one_folder_conflict(state: Path) -> None:
    with child(state) as mira, child(state) as doug, LocalGate(state) as embedded:
        first = mira.ask("intercept", **pay("mira"))
        assert first["proceed"] is True
        second = doug.ask("intercept", **pay("doug"))
        assert (second["proceed"], second["verdict"]) == (False, "block")
        assert in_the_way(doug)["held"] == first["id"]
        assert [lock.id for lock in embedded.status().locks] == [first["id"]]
        assert mira.ask("complete", instance="mira", id=first["id"], outcome="cancelled")["ok"] is True
        assert doug.ask("intercept", **pay("doug"))["proceed"] is True
        for one in (mira, doug):
            assert one.end() == (0, b"", b"")


def test_lease_of_a_killed_child_expires(state: Path) -> None:
    with child(state, CALLOSUM_LEASE_TTL="4") as mira, child(state) as doug:
        lost = mira.ask("intercept", **pay("mira"))
        mira.process.kill()
        assert mira.process.wait(LIMIT) == -signal.SIGKILL
        assert in_the_way(doug)["held"] == lost["id"]
        until(lambda: not doug.ask("status")["locks"])
        assert in_the_way(doug)["unknown"] == lost["id"]
        lapses = [one for one in doug.ask("journal")["entries"] if one["event"] == Event.LAPSE]
        assert [one["action"] for one in lapses] == [lost["id"]]
        with child(state) as again:  # the host goes on with another child
            assert again.ask("complete", instance="mira", id=lost["id"])["late"] is True


def test_waiting_request_is_answered_after_the_end_of_the_input(state: Path) -> None:
    with child(state) as mira, child(state) as doug:
        doug.ask("lock", instance="doug", contextKey="payment:globex")
        mira.send("intercept", **pay("mira", wait=60))
        mira.to.close()
        until(lambda: bool(doug.ask("status").get("waiting")))
        doug.ask("release", instance="doug", contextKey="payment:globex")
        assert mira.read()["result"]["proceed"] is True
        assert mira.process.wait(LIMIT) == 0


def test_child_answers_accepted_requests_after_sigterm(state: Path) -> None:
    with child(state) as mira, child(state) as doug:
        doug.ask("lock", instance="doug", contextKey="payment:globex")
        waits = mira.send("intercept", **pay("mira", wait=60))
        until(lambda: bool(doug.ask("status").get("waiting")))
        mira.process.send_signal(signal.SIGTERM)
        doug.ask("release", instance="doug", contextKey="payment:globex")
        assert mira.answer(waits)["result"]["proceed"] is True
        assert mira.process.wait(LIMIT) == 0
        assert doug.ask("health")["name"] == "callosum"
        doug.process.send_signal(signal.SIGTERM)
        assert doug.process.wait(LIMIT) == 0


def test_a_second_sigterm_does_not_wait(state: Path) -> None:
    with child(state) as mira, child(state) as doug:
        doug.ask("lock", instance="doug", contextKey="payment:globex")
        mira.send("intercept", **pay("mira", wait=60))
        until(lambda: bool(doug.ask("status").get("waiting")))

        def ended() -> bool:
            mira.process.send_signal(signal.SIGTERM)
            return mira.process.poll() is not None

        until(ended)
        assert mira.process.returncode == -signal.SIGTERM


def test_child_ends_quietly_when_its_output_is_closed(state: Path) -> None:
    """The host is gone; its waiting call must not get a lease that nothing would end."""
    with child(state) as mira, child(state) as doug:
        doug.ask("lock", instance="doug", contextKey="payment:globex")
        mira.send("intercept", **pay("mira", wait=60))
        until(lambda: bool(doug.ask("status").get("waiting")))
        mira.back.close()
        assert mira.process.wait(LIMIT) == 0
        assert mira.said.read() == b""
        doug.ask("release", instance="doug", contextKey="payment:globex")
        assert doug.ask("status")["locks"] == []


def test_endless_and_malformed_lines_do_not_stop_the_child(state: Path) -> None:
    with child(state) as mira:
        for _ in range(60):
            mira.write(b"x" * 1_000_000)
        mira.write(b"\n\xff\xfe\n\x00\n[]\n")
        assert [mira.read()["error"]["code"] for _ in range(4)] == [-32600, -32700, -32700, -32600]
        assert mira.ask("health")["name"] == "callosum"
        if sys.platform.startswith("linux"):
            status = Path(f"/proc/{mira.process.pid}/status").read_text()
            peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])  # type: ignore[index]  # a failure says enough
            assert peak < 150_000


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux")
def test_full_disk_is_reported_and_the_child_continues_once_there_is_space(state: Path) -> None:
    with child(state) as mira:
        assert mira.ask("intercept", **pay("mira", "first"))["proceed"] is True
        room = resource.prlimit(mira.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(mira.process.pid, resource.RLIMIT_FSIZE, (0, room[1]))
        error = mira.ask("intercept", **pay("mira", "second"))
        assert (error["code"], error["data"]) == (-32000, {"kind": "StoreUnavailable"})
        assert mira.ask("health")["name"] == "callosum"
        resource.prlimit(mira.process.pid, resource.RLIMIT_FSIZE, room)
        assert mira.ask("intercept", **pay("mira", "second"))["proceed"] is True
        assert [one["event"] for one in mira.ask("journal")["entries"]] == ["intercept", "intercept"]


def test_program_of_a_person_can_approve(state: Path) -> None:
    with child(state) as mira:
        asked = mira.ask("intercept", instance="mira", tool="gift", params={"to": "acme"})
        with child(state, "--approver", program=(sys.executable, "-c", _ALONE)) as desk:
            assert desk.process.wait(LIMIT) == 0  # the launcher; the orphan has its pipes
            assert desk.ask("approvals")["approvals"][0]["params"] == {"to": "acme"}
            assert desk.ask("approve", id=asked["id"], by="anna")["ok"] is True
            assert desk.end() == (0, b"", b"")
        assert mira.ask("intercept", instance="mira", tool="gift", params={"to": "acme"})["proceed"] is True


def test_no_agents_host_may_call_itself_an_approver(state: Path) -> None:
    with child(state, "--approver", CLAUDECODE="1") as mira:
        code, out, said = mira.end()
        assert (code, out) == (4, b"")
        assert b"CLAUDECODE" in said


def test_no_process_that_runs_gated_calls_may_call_itself_an_approver(state: Path) -> None:
    """The host's own process holds a lease, so its descendants cannot act for a person."""
    code = (
        "import subprocess, sys\n"
        "from callosum import Call, LocalGate\n"
        "from callosum.process import this_process\n"
        "gate = LocalGate(sys.argv[1])\n"
        "gate.intercept(Call('mira', 'pay', {'to': 'acme'}, host=this_process()))\n"
        "sys.exit(subprocess.call(sys.argv[2:], stdin=subprocess.DEVNULL))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(state), *CALLOSUM, "stdio", "--approver"],
        capture_output=True,
        env=environment(state),
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"a person's own program" in done.stderr


def example() -> list[tuple[Any, Any]]:
    """Return the page's session as pairs of request and response (None: no response)."""
    (block,) = re.findall(r"^```\n(> .*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    pairs: list[tuple[Any, Any]] = []
    for line in block.splitlines():
        message = json.loads(line[2:])
        if line.startswith("> "):
            pairs.append((message, None))
        else:
            pairs[-1] = (pairs[-1][0], message)
    return pairs


def matches_page(shown: Any, real: Any, ids: dict[int, int]) -> bool:
    """Return whether a response matches the page; its ids and times stand for the real ones."""
    if isinstance(shown, dict):
        return (
            isinstance(real, dict)
            and list(shown) == list(real)
            and all(matches_page(shown[n], real[n], ids) for n in shown)
        )
    if isinstance(shown, list):
        return (
            isinstance(real, list)
            and len(shown) == len(real)
            and all(map(matches_page, shown, real, [ids] * len(shown)))
        )
    if isinstance(shown, int) and shown > 10**15:
        return isinstance(real, int) and ids.setdefault(shown, real) == real
    if isinstance(shown, float) and shown > 10**9:
        return isinstance(real, float) and real > time.time()
    return bool(shown == real)


def test_example_session_of_the_page_matches_the_child(tmp_path: Path) -> None:
    pairs = example()
    assert len(pairs) >= 5
    ids: dict[int, int] = {}
    with child(tmp_path / "state") as host:
        for sent, shown in pairs:
            text = json.dumps(sent)
            for one, other in ids.items():
                text = text.replace(str(one), str(other))
            host.write(text.encode() + b"\n")
            if shown is not None:
                real = host.read()
                assert matches_page(shown, real, ids), real
        assert host.end() == (0, b"", b"")
    with LocalGate(tmp_path / "state") as gate:
        assert gate.status().locks == ()


def test_the_page_names_every_method_and_every_code() -> None:
    text = PAGE.read_text("utf-8")
    for method in stdio.METHODS:
        assert f"`{method}`" in text
    for code in (-32700, -32600, -32601, -32602, -32603, stdio.AWAY, stdio.REFUSED):
        assert f"| {code} |" in text
    assert f"{wire.MAX_BODY:,} bytes" in text
    assert f"Up to {stdio.WORKERS} calls" in text
