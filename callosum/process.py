"""Names processes so that they can be told from later ones with the same pid.

Where no process of ours lives while a tool runs, a lease stands as long as the host's process does.
So a process is known by three things: its pid, when it started, and the machine it runs on. A machine
here is one boot of one computer as seen from one pid namespace, because a pid means nothing outside.

Linux tells the start of a process in clock ticks since boot. That is kept as it is (in seconds):
turned into the time of day it would change whenever somebody sets the clock, and live processes would
count as dead. Elsewhere it is Unix seconds, as the system itself keeps it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from typing import Final, NamedTuple

from callosum.bootclock import boot_id
from callosum.model import Host

_LINUX: Final = sys.platform.startswith("linux")
_TICK: Final = 1 / os.sysconf("SC_CLK_TCK") if _LINUX else 0.01
"""Seconds; two starts closer than this are one."""
_GENERATIONS: Final = 256
"""A chain of parents longer than this is not followed."""

_this: Host | None = None
_session: tuple[Host, str] | None = None


def this_process() -> Host:
    """The process that asks. Kept for the next time; a forked child gets its own."""
    global _this  # noqa: PLW0603  one value a process, and a fork has to be seen
    if _this is None or _this.pid != os.getpid():
        _this = host_of(os.getpid())
    return _this


def own_session() -> str:
    """Return the name of the session that a process is by itself: its pid, its start and its machine.

    A forked child gets its own. No two processes share one, so two runs of one program are never one actor.
    """
    global _session  # noqa: PLW0603  one value a process, and a fork has to be seen
    host = this_process()
    if _session is None or _session[0] is not host:
        machine = hashlib.blake2b(host.machine.encode(), digest_size=3).hexdigest()
        _session = (host, f"pid-{host.pid}-{round(host.started / _TICK)}-{machine}")
    return _session[1]


def host_of(pid: int) -> Host:
    """The running process with this pid.

    Raises ``ProcessLookupError`` if there is none, ``PermissionError`` if it is hidden from us.
    """
    found = _look(pid)
    if found is None or found.dead:
        raise ProcessLookupError(f"no process {pid}")
    return Host(pid, found.started, _machine(_namespace()))


def is_of_this_machine(host: Host) -> bool:
    """Whether a process runs on this machine, since its last boot and in this container."""
    return host.machine == _machine(_namespace())


def alive(host: Host) -> bool | None:
    """Whether this very process still runs.

    None where that cannot be known: it runs on another machine (or ran before the last boot, or in
    another container), or the system does not let us look. A zombie is dead, as is a process whose pid
    was given to another.
    """
    if not is_of_this_machine(host):
        return None
    try:
        found = _look(host.pid)
    except PermissionError:
        return None
    return found is not None and not found.dead and abs(found.started - host.started) < 1.5 * _TICK


def ancestors(pid: int) -> list[Host]:
    """The parent of this process, its parent and so on, as far as can be seen; itself is left out.

    Empty for a process that does not exist.
    """
    found: list[Host] = []
    seen = {pid}
    machine = _machine(_namespace())
    try:
        child = _look(pid)
        while child is not None and child.parent not in seen and len(found) < _GENERATIONS:
            parent = _look(child.parent)
            if parent is None or parent.started > child.started + _TICK:
                break  # gone meanwhile, and its pid perhaps given to somebody younger
            if not parent.dead:
                found.append(Host(child.parent, parent.started, machine))
            seen.add(child.parent)
            child = parent
    except PermissionError:
        pass
    return found


def command_of(pid: int) -> list[str]:
    """Return the command line of a process, or an empty list where it cannot be seen."""
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


_BETWEEN: Final = frozenset(
    "sh dash bash zsh ksh ash busybox fish env timeout gtimeout nice nohup setsid sudo doas curl callosum".split()
)
"""Programs that stand between a host and its hook, by the name of their file."""


def host_above(pid: int) -> Host | None:
    """The program on whose behalf ``pid`` runs: itself or its nearest ancestor that is no shell and no wrapper.

    None where there is none to be seen. Names are told on Linux alone; elsewhere it is ``pid`` itself.
    """
    try:
        chain = [host_of(pid), *ancestors(pid)]
    except OSError:
        return None
    return next((one for one in chain if _read(f"/proc/{one.pid}/comm") not in _BETWEEN), None)


class _Process(NamedTuple):
    """What the system tells about a process. ``parent`` is 0 where there is none."""

    started: float
    parent: int
    dead: bool


def _look(pid: int) -> _Process | None:
    """Ask the system; None where there is no such process.

    Raises ``PermissionError`` where one exists but is hidden from us.
    """
    if pid <= 0:
        return None
    return _look_linux(pid) if _LINUX else _look_elsewhere(pid)


def _look_linux(pid: int) -> _Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123  on the way of each call
            line = file.read(1024)
    except (FileNotFoundError, ProcessLookupError):
        _check_hidden(pid)
        return None
    # the name, in parentheses, may itself hold spaces and parentheses
    fields = line[line.rindex(b")") + 2 :].split()
    # a process whose first thread has ended is a zombie by its state, while its other threads run
    dead = fields[0] in b"ZXx" and int(fields[17]) <= 1
    return _Process(int(fields[19]) * _TICK, int(fields[1]), dead)


def _check_hidden(pid: int) -> None:
    """Raise ``PermissionError`` if the process exists all the same (``/proc`` may hide others')."""
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
    """The pid namespace, for a process may be moved out of the one in which this module was loaded."""
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


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read(256).strip()
    except OSError:
        return ""
