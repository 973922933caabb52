"""The local gate: the first client starts it, each state folder has one, and it ends when it is idle."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from callosum.client import local
from callosum.client.local import local_client
from callosum.errors import GateUnavailable
from callosum.gate import LocalGate
from callosum.model import Call, Verdict
from callosum.process import alive
from callosum.server.listeners import AlreadyServed, RunningServer, listen_local, running
from callosum.sockets import LONGEST, socket_path
from tests.support.fleet import Late
from tests.support.serving import until

DEADLINE = 2.0


def _one(state: Path) -> RunningServer:
    (one,) = running(state)
    return one


def mail(who: str, text: str) -> Call:
    return Call(who, "message", {"target": "andy", "replyTo": "m-1", "message": text}, action="send")


def test_first_call_starts_the_gate_and_the_next_one_uses_it(state: Path) -> None:
    with local_client(state, deadline=DEADLINE) as client:
        first = client.intercept(mail("mira", "On it, I will look into the matter today"))
        assert first.proceed
        assert not first.fallback
        process = _one(state).process
        assert client.complete("mira", id=first.id).ok
    with local_client(state, deadline=DEADLINE) as client:
        second = client.intercept(mail("doug", "Nobody has answered yet, so I will do that now"))
        assert second.verdict is Verdict.WARN
        assert _one(state).process == process
    path = Path(socket_path(state))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) & 0o077 == 0


def _begin(state: Path, start: Barrier, out: multiprocessing.Queue[bool]) -> None:
    start.wait()
    with local_client(state, deadline=DEADLINE) as client:
        out.put(
            client.intercept(mail(f"session-{os.getpid()}", f"From process {os.getpid()}, about our plan")).fallback
        )


def test_many_simultaneous_starts_leave_one_gate(state: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start, out = context.Barrier(4), context.Queue()
    processes = [context.Process(target=_begin, args=(state, start, out)) for _ in range(4)]
    for process in processes:
        process.start()
    assert [out.get(timeout=60) for _ in processes] == [False] * 4
    for process in processes:
        process.join()
    assert len(running(state)) == 1


def test_start_waits_for_a_gate_that_listens_until_it_answers(state: Path) -> None:
    LocalGate(state).close()
    with closing(sqlite3.connect(state / "gate.db", isolation_level=None)) as store:
        store.execute("begin exclusive")
        starting = Late(partial(local.start, state, 60))
        until(lambda: local.listens(socket_path(state)) and running(state) == [])
        store.execute("rollback")
        assert starting.answer()
    assert running(state), "its store is open by now"


def test_second_gate_on_one_socket_is_refused(tmp_path: Path) -> None:
    with (
        listen_local(tmp_path / "gate.sock"),
        pytest.raises(AlreadyServed, match="already listening"),
        listen_local(tmp_path / "gate.sock"),
    ):
        pass


def test_idle_gate_ends_itself(state: Path) -> None:
    with local_client(state, deadline=DEADLINE, idle=1) as client:
        decision = client.intercept(mail("mira", "On it, I will look into the matter today"))
        process = _one(state).process
        assert client.complete("mira", id=decision.id).ok
    until(lambda: alive(process) is not True)
    assert not Path(socket_path(state)).exists()
    assert running(state) == []


def test_gate_stays_as_long_as_a_lease_is_open(state: Path) -> None:
    with local_client(state, deadline=DEADLINE, idle=1) as client:
        assert client.lock("mira", "plan", ttl=4).acquired
        process = _one(state).process
    # It would have ended three times when the lease ends, and ends only then.
    with pytest.raises(AssertionError, match="come true"):
        until(lambda: alive(process) is not True, 3)
    until(lambda: alive(process) is not True)


def test_next_call_after_a_crash_starts_a_new_gate(state: Path) -> None:
    with local_client(state, deadline=DEADLINE) as client:
        before = client.intercept(mail("mira", "On it, I will look into the matter today"))
        process = _one(state).process
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: alive(process) is not True)
        assert Path(socket_path(state)).exists()  # a crash leaves such a file
        after = client.intercept(mail("doug", "Nobody has answered yet, so I will do that now"))
        assert [conflict.id for conflict in after.conflicts] == [before.id]
        assert _one(state).process != process


def test_socket_path_of_a_deep_state_folder_is_short_and_unique(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    assert len(socket_path(deep)) <= LONGEST
    assert socket_path(deep) != socket_path(tmp_path / ("d" * 121))


def test_call_is_decided_by_the_fallback_if_the_gate_cannot_start(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "gate.db").write_bytes(b"this is no database" * 100)
    with local_client(state, deadline=1.0, fallback={"read": 0}) as client:
        decision = client.intercept(Call("mira", "read", {"path": "/notes.md"}))
        assert decision.proceed
        assert decision.fallback
    assert (state / "gate.db").read_bytes() == b"this is no database" * 100
    assert "not a database of Callosum" in (state / "server.log").read_text()


def test_command_starts_and_stops_a_gate_in_the_background(state: Path) -> None:
    def callosum(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "callosum.cli", *arguments, "--state", str(state)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    begun = callosum("serve", "--background", "--port", "0")
    assert begun.returncode == 0, begun.stderr
    assert "listens on http://127.0.0.1:" in begun.stdout
    process = _one(state).process
    assert alive(process)
    ended = callosum("stop")
    assert ended.returncode == 0
    assert alive(process) is not True
    assert callosum("stop").returncode == 1


def test_client_without_the_server_extra_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "httptools" else object())
    with local_client(tmp_path) as gate, caplog.at_level("WARNING", "callosum"):
        with pytest.raises(
            GateUnavailable, match=r"httptools is not installed: pip install 'callosum-protocol\[server\]'"
        ):
            gate.intercept(Call("mira", "pay", {"to": "x"}))
        assert gate.intercept(Call("mira", "Read", {"path": "a.md"})).fallback, "the hosts' own reads go on"
    assert "callosum-protocol[server]" in caplog.text
    assert not (tmp_path / "server.log").exists()
