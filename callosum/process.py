"""Identify processes in a way that distinguishes them from later ones with the same pid.

If no process of ours lives while a tool runs, a lease lasts as long as the host's process does. A process is therefore
identified by three things: its pid, its start time, and its machine. A machine here is one boot of one computer as seen
from one pid namespace, because a pid means nothing outside of it.

Linux reports the start of a process in clock ticks since boot. It is stored as such, in seconds: as time of day it
would change whenever somebody sets the clock, and running processes would count as dead. On other systems it is Unix
seconds, as the system itself stores it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from callosum.bootclock import boot_id
from callosum.model import Call, Host

_LINUX: Final = sys.platform.startswith("linux")
_TICK: Final = 1 / os.sysconf("SC_CLK_TCK") if _LINUX else 0.01
"""Seconds below which two start times count as equal."""
_GENERATIONS: Final = 256
"""Maximum length of a chain of parents that is followed."""


@cache
def this_process() -> Host:
    """Return this process. The result is cached; a forked child gets its own."""
    return host_of(os.getpid())


@cache
def own_session() -> str:
    """Return a session name for this process, made of its pid, start time and machine.

    A forked child gets its own name. No two processes share one, so two runs of a program are never one session.
    """
    host = this_process()
    machine = hashlib.blake2b(host.machine.encode(), digest_size=3).hexdigest()
    return f"pid-{host.pid}-{round(host.started / _TICK)}-{machine}"


def acting(call: Call) -> Call:
    """Return the call as one of the session of this process, unless it names its own."""
    if not isinstance(call, Call):
        raise TypeError(f"expected a Call, got {type(call).__name__}")
    return call if call.session is not None else replace(call, session=own_session())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=this_process.cache_clear)
    os.register_at_fork(after_in_child=own_session.cache_clear)


def host_of(pid: int) -> Host:
    """Return the running process with this pid.

    Raises: ``ProcessLookupError`` if there is none, ``PermissionError`` if it is hidden from us.
    """
    process = _look(pid)
    if process is None or process.dead:
        raise ProcessLookupError(f"no process {pid}")
    return Host(pid, process.started, _machine(_namespace()))


def is_of_this_machine(host: Host) -> bool:
    """Return True if a process runs on this machine, in its current boot and in this container."""
    return host.machine == _machine(_namespace())


def alive(host: Host) -> bool | None:
    """Return True if this very process still runs, and None if that is unknown.

    It is unknown if the process runs on another machine, in another container or ran before the last boot, or if the
    system hides it. A zombie is dead, and so is a process whose pid was reused.
    """
    if not is_of_this_machine(host):
        return None
    try:
        process = _look(host.pid)
    except PermissionError:
        return None
    return process is not None and not process.dead and abs(process.started - host.started) < 1.5 * _TICK


def ancestors(pid: int) -> list[Host]:
    """Return the parent of a process, the parent's parent and so on, as far as they are visible.

    The process itself is left out. The list is empty if the process does not exist.
    """
    machine = _machine(_namespace())
    parents = itertools.islice(_lineage(pid), 1, None)
    return [Host(parent, process.started, machine) for parent, process in parents if not process.dead]


def _lineage(pid: int) -> Iterator[tuple[int, _Process]]:
    """Yield a process and its ancestors with their pids, as far as they are visible.

    Each is looked up only when it is asked for.
    """
    visited: set[int] = set()
    with suppress(PermissionError):
        process = _look(pid)
        while process is not None and len(visited) <= _GENERATIONS:
            yield pid, process
            visited.add(pid)
            parent = _look(process.parent) if process.parent not in visited else None
            if parent is None or parent.started > process.started + _TICK:
                return  # it ended meanwhile, and a younger process may have its pid
            pid, process = process.parent, parent


def command_of(pid: int) -> list[str]:
    """Return the command line of a process, or an empty list if it is hidden."""
    if _LINUX:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
                return [word.decode(errors="replace") for word in file.read(4096).split(b"\0") if word]
        except OSError:
            return []
    import psutil

    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.Error:
        return []


def visible() -> list[int]:
    """Return the pids of all processes of this user, as far as Linux shows them; none on other systems."""
    with suppress(OSError):
        return [
            int(one.name) for one in os.scandir("/proc") if one.name.isdecimal() and one.stat().st_uid == os.getuid()
        ]
    return []


def environment_of(pid: int) -> dict[str, str]:
    """Return the variables a process was started with; empty if they are hidden, and on other systems than Linux."""
    words = _read(f"/proc/{pid}/environ", 131_072).split("\0")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def made_by_systemd_run(pid: int) -> bool:
    """Return True if a process is in a cgroup that ``systemd-run`` made for a command."""
    return any("/run-" in line for line in _read(f"/proc/{pid}/cgroup", 4096).splitlines())


def makes_terminal_of(pid: int, maker: int) -> bool:
    """Return True if ``maker`` holds the other end of the terminal that controls a process (Linux only)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            number = int(file.read(1024).rpartition(b")")[2].split()[4])
        index = os.minor(number) + 256 * (os.major(number) - 136)
        return number > 0 and any(
            f"tty-index:\t{index}\n" in _read(f"/proc/{maker}/fdinfo/{name}", 4096) + "\n"
            for name in os.listdir(f"/proc/{maker}/fdinfo")  # noqa: PTH208
        )
    except (OSError, ValueError, IndexError):
        return False


_BETWEEN: Final = frozenset(
    "sh dash bash zsh ksh ash busybox fish env timeout gtimeout nice nohup setsid sudo doas curl callosum".split()
)
"""File names of programs that stand between a host and its hook."""


def host_above(pid: int) -> Host | None:
    """Return the program for which ``pid`` runs: itself or its nearest ancestor that is neither shell nor wrapper.

    Return None if none is visible. Only Linux shows names; on other systems the result is ``pid`` itself.
    """
    for above, process in _lineage(pid):
        if process.dead and above == pid:
            return None
        if not process.dead and process.name not in _BETWEEN:
            return Host(above, process.started, _machine(_namespace()))
    return None


def process_name(process: Host) -> str:
    """Return a session name made of a process's pid and start time."""
    return f"{process.pid}-{int(process.started * 100):x}"


class _Process(NamedTuple):
    """Hold what the system says about a process. ``parent`` is 0 if there is none, ``name`` empty if unknown."""

    started: float
    parent: int
    dead: bool
    name: str = ""


def _look(pid: int) -> _Process | None:
    """Return what the system says about a process, or None if it does not exist.

    Raises: ``PermissionError`` if it exists but is hidden from us.
    """
    if pid <= 0:
        return None
    return _look_linux(pid) if _LINUX else _look_elsewhere(pid)


def _look_linux(pid: int) -> _Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123  runs for each call
            line = file.read(1024)
    except (FileNotFoundError, ProcessLookupError):
        _check_hidden(pid)
        return None
    # the name, in parentheses, may itself contain spaces and parentheses
    opening, closing = line.index(b"("), line.rindex(b")")
    fields = line[closing + 2 :].split()
    # a process whose first thread has ended has the state of a zombie while its other threads run
    dead = fields[0] in b"ZXx" and int(fields[17]) <= 1
    name = line[opening + 1 : closing].decode("ascii", "replace")
    return _Process(int(fields[19]) * _TICK, int(fields[1]), dead, name)


def _check_hidden(pid: int) -> None:
    """Raise ``PermissionError`` if the process exists although ``/proc`` hides it."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return
    raise PermissionError(pid)


def _look_elsewhere(pid: int) -> _Process | None:
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            dead = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
            return _Process(process.create_time(), process.ppid(), dead)
    except psutil.AccessDenied as fault:
        raise PermissionError(pid) from fault
    except (psutil.NoSuchProcess, OverflowError):
        return None


def _namespace() -> str:
    """Return the pid namespace. It is read each time, because a process may move to another one."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115  a Path costs more than the call
    except OSError:
        return ""


@cache
def _machine(namespace: str) -> str:
    machine = _read("/etc/machine-id") or _read("/var/lib/dbus/machine-id") or _node()
    return hashlib.blake2b(f"{machine}\n{boot_id()}\n{namespace}".encode(), digest_size=8).hexdigest()


def _node() -> str:
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def _read(path: str, most: int = 256) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read(most).strip()
    except OSError:
        return ""
