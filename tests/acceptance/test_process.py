"""Test the identity of processes with real processes: others, dead ones, and later ones with the same pid."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from callosum import process
from callosum.model import Host
from callosum.process import alive, ancestors, host_above, host_of, this_process
from tests.support.threads import all_at_once

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


@contextlib.contextmanager
def child(*code: str) -> Iterator[subprocess.Popen[str]]:
    """Start a Python process that runs ``code``, reports it, and ends when its input does."""
    program = "\n".join([*code, "import sys", "print('ready', flush=True)", "sys.stdin.read()"])
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        yield started
        started.kill()


def test_this_process_is_alive_and_found_by_its_pid() -> None:
    assert this_process() == host_of(os.getpid())
    assert this_process().pid == os.getpid()
    assert alive(this_process()) is True


def test_host_survives_json() -> None:
    there = msgspec.json.encode(this_process())
    assert alive(msgspec.json.decode(there, type=Host)) is True


def test_child_is_alive_until_it_is_killed() -> None:
    with child() as started:
        host = host_of(started.pid)
        assert alive(host) is True
        started.kill()
        started.wait()
        assert alive(host) is False
        with pytest.raises(ProcessLookupError):
            host_of(started.pid)


@linux
def test_zombie_is_dead() -> None:
    with child() as started:
        host = host_of(started.pid)
        started.kill()
        os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)  # it has ended and nobody has collected it
        assert Path(f"/proc/{started.pid}/stat").exists()
        assert alive(host) is False
        with pytest.raises(ProcessLookupError):
            host_of(started.pid)
        assert started.wait() < 0


@linux
def test_process_whose_first_thread_has_ended_is_alive() -> None:
    code = (
        "import ctypes, threading", "def other():",
        "    while open('/proc/self/stat').read().rpartition(')')[2].split()[0] != 'Z': pass",
        "    print('ready', flush=True)", "    import sys; sys.stdin.read()", "    import os; os._exit(0)",
        "threading.Thread(target=other).start()", "ctypes.CDLL(None).pthread_exit(None)",
    )  # fmt: skip
    with child(*code) as started:
        host = host_of(started.pid)
        assert alive(host) is True


def test_later_process_with_the_same_pid_is_another() -> None:
    here = this_process()
    assert alive(msgspec.structs.replace(here, started=here.started - 60)) is False
    assert alive(msgspec.structs.replace(here, started=here.started + 0.1)) is False
    assert alive(msgspec.structs.replace(here, started=here.started + 0.001)) is True


def test_process_on_another_machine_is_unknown() -> None:
    assert alive(msgspec.structs.replace(this_process(), machine="elsewhere")) is None
    assert alive(Host(2**22 + 1, 0, "elsewhere")) is None


@pytest.mark.parametrize("pid", [0, -1, 2**31 + 7, 2**80])
def test_impossible_pid_is_no_process(pid: int) -> None:
    with pytest.raises(ProcessLookupError):
        host_of(pid)
    assert ancestors(pid) == []
    assert alive(Host(pid, 0, this_process().machine)) is False


def test_fork_is_a_process_of_its_own() -> None:
    before = this_process()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, msgspec.json.encode(this_process()))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        forked = msgspec.json.decode(pipe.read(), type=Host)
    os.waitpid(pid, 0)
    assert forked.pid == pid
    assert forked.machine == before.machine
    assert alive(forked) is False
    assert this_process() == before


def test_threads_get_the_same_answer() -> None:
    found: list[Host] = []
    all_at_once([lambda: found.append(this_process())] * 4)
    assert found == [this_process()] * 4


def test_ancestors_lead_from_the_parent_upwards() -> None:
    with child() as started:
        line = ancestors(started.pid)
        assert line[0] == this_process()
        assert line[1:] == ancestors(os.getpid())
        assert all(younger.started >= older.started for younger, older in pairwise(line))


def test_grandchild_has_both_ancestors() -> None:
    code = (
        "import os, subprocess",
        "from callosum.process import ancestors",
        f"assert {os.getpid()} in [host.pid for host in ancestors(os.getpid())]",
        "inner = 'import os; from callosum.process import ancestors as a; print(*[h.pid for h in a(os.getpid())][:2])'",
        "import sys",
        "pids = subprocess.run([sys.executable, '-c', inner], capture_output=True, text=True, check=True).stdout",
        f"assert pids.split() == [str(os.getpid()), '{os.getpid()}'], pids",
    )
    with child(*code):
        pass


@linux
def test_host_of_a_hook_is_found_without_looking_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every event of a host asks for it, and a process may have many ancestors."""
    looked: list[int] = []
    look = process._look

    def counted(pid: int) -> object:
        looked.append(pid)
        return look(pid)

    with child("open('/proc/self/comm', 'w').write('sh')") as hook:
        monkeypatch.setattr(process, "_look", counted)
        assert host_above(hook.pid) == this_process()
    assert set(looked) == {hook.pid, os.getpid()}


@linux
@pytest.mark.parametrize("name", ["a) R 1 (b", "a b\nc", "))((", ""])
def test_program_name_with_parentheses_is_parsed(name: str) -> None:
    with child(f"open('/proc/self/comm', 'w').write({name!r})") as started:
        assert alive(host_of(started.pid)) is True
        assert ancestors(started.pid)[0] == this_process()


@linux
def test_hidden_process_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under ``hidepid``: the process reacts to signals but has no folder in ``/proc``."""

    def hidden(path: str, *args: object, **rest: object) -> object:
        raise FileNotFoundError(path)

    here = this_process()
    monkeypatch.setattr(process, "open", hidden, raising=False)
    assert alive(here) is None
    with pytest.raises(PermissionError):
        host_of(here.pid)
    assert ancestors(here.pid) == []


def test_psutil_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the implementation for other systems on this one."""
    with child() as started:
        line = [host.pid for host in ancestors(started.pid)]
        monkeypatch.setattr(process, "_LINUX", False)
        host = host_of(started.pid)
        assert alive(host) is True
        assert [host.pid for host in ancestors(started.pid)] == line
        started.kill()
        os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
        assert alive(host) is False
        started.wait()
        assert alive(host) is False
