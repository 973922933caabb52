"""Prove that a person, not an agent, asks for what only a person may do.

Approving, resolving, releasing another session's lease, switching the gate off and accepting a changed store all go
through ``require_person``, in the CLI and in the library. It refuses a process

1. whose environment contains a variable set by a host (every tool that a host starts inherits them),
2. that descends from a known host, or from a process that holds an open action in the store,
3. one of whose ancestors, or the leader of whose session or process group, was started with such a variable,
4. (Linux) that a running host may have started: its terminal was made by an ancestor younger than the host, or its
   cgroup by ``systemd-run``. A session or process group that holds a process older than the host belongs to a person,
   and so does what a terminal, a multiplexer or a login started.

A program that embeds the gate may ask its user in its own window, so the library does not require a terminal; the CLI
does (``callosum.cli.person``). Whatever passes is journalled with its ancestry: a call from ``python`` below ``init``
stands out.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from callosum.errors import NotAPerson
from callosum.model import State
from callosum.process import (
    ancestors,
    command_of,
    environment_of,
    host_of,
    made_by_systemd_run,
    makes_terminal_of,
    this_process,
    visible,
)
from callosum.programs import host_of_command, is_set_by_host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from callosum.model import Host
    from callosum.stores.base import Store

ACCEPTING: Final = "accept a changed store"
"""Purpose given to ``require_person`` before a store is accepted."""
_MAX_SHOWN: Final = 12
"""Number of ancestors that are journalled, nearest first."""
_MAX_NAME: Final = 40
"""Maximum length in characters of a process name in the journal."""
_TERMINALS: Final = frozenset(
    "alacritty kitty foot footclient ghostty wezterm-gui konsole yakuake gnome-terminal-server xfce4-terminal "
    "mate-terminal lxterminal qterminal tilix terminator guake ptyxis kgx xterm urxvt urxvtd st rio warp tabby code "
    "zed tmux screen zellij sshd sshd-session mosh-server dropbear login agetty".split()
)
"""Programs in which a person sees what runs, or which ask for a login."""
_SAME_START: Final = 0.02
"""Seconds by which two readings of one process's start time may differ."""


def require_person(store: Store, what: str) -> tuple[str, ...]:
    """Return the names of this process's ancestors, nearest first, for the journal.

    ``what`` completes the refusal ("only a person can ..."). Raises ``NotAPerson`` if an agent's host started this
    process.
    """
    return refuse_agents(store, f"only a person can {what}")


def refuse_agents(store: Store | None, refusal: str) -> tuple[str, ...]:
    """Refuse agents as ``require_person`` does; ``refusal`` is the complete beginning of the error.

    Without a store, open actions of the ancestors are not checked.
    """
    variable = _variable_of_host(os.environ)
    if variable is not None:
        raise NotAPerson(f"{refusal}: {variable} is set, so an agent's host started this process")
    above = ancestors(os.getpid())
    leaders = {os.getsid(0), os.getpgid(0)}.union(*({one.pid, *_leaders(one.pid)} for one in above))
    for pid in sorted(leaders - {os.getpid()}):
        if variable := _variable_of_host(environment_of(pid)):
            raise NotAPerson(f"{refusal}: {variable} is set for process {pid}, which began this session or its tree")
    commands = [command_of(process.pid) for process in above]
    host = next((name for command in commands if (name := host_of_command(command))), None)
    if host is not None:
        raise NotAPerson(f"{refusal}: this process descends from {host}")
    holder = holder_of(above, store) if store is not None else None
    if holder is not None:
        raise NotAPerson(f"{refusal}: this process descends from process {holder}, which runs gated calls")
    maker = _maker_of([this_process(), *above], commands)
    if maker is not None:
        raise NotAPerson(
            f"{refusal}: this tree of processes began after process {maker}, which runs an agent, and its parent is "
            "gone: do it in another pane or login"
        )
    return tuple(_shown(command) for command in commands[:_MAX_SHOWN])


def _maker_of(tree: Sequence[Host], commands: Sequence[list[str]]) -> int | None:
    """Return the pid of a host that may have made the session of a process, None if there is none.

    ``tree`` is the process and its ancestors, ``commands`` are those of the ancestors.
    """
    makers = [at for at, one in enumerate(tree) if at and makes_terminal_of(tree[0].pid, one.pid)]
    if not makers and not made_by_systemd_run(tree[0].pid):
        return None
    others = {pid: _leaders(pid) for pid in visible()}
    for pid in others:
        if host_of_command(command_of(pid)):
            with suppress(OSError):
                began = host_of(pid).started
                size = sum(one.started >= began for one in tree)
                groups = {leader for one in tree[:size] for leader in others.get(one.pid, ())}
                alike = [other for other, leaders in others.items() if not groups.isdisjoint(leaders)]
                if (
                    max(makers, default=0)
                    < size
                    < len(tree)  # else an older process shows it, or began it from outside
                    and not any(_program(command) in _TERMINALS for command in commands[:size])
                    and not any(host_of(other).started < began for other in alike)
                ):
                    return pid
    return None


def _program(command: list[str]) -> str:
    """Return a program's file name, also where it shows more there: ``sshd: kim@pts/1``."""
    return command[0].partition(":")[0].rpartition("/")[2].lower() if command else ""


def _leaders(pid: int) -> tuple[int, ...]:
    """Return the leaders of a process's session and process group, none where they are hidden."""
    try:
        return os.getsid(pid), os.getpgid(pid)
    except OSError:
        return ()


def _variable_of_host(environ: Mapping[str, str]) -> str | None:
    """Return the name of a variable that a host has set, or None if there is none."""
    return next((name for name in sorted(environ) if is_set_by_host(name)), None)


def holder_of(above: Sequence[Host], store: Store) -> int | None:
    """Return the pid of an ancestor that is the host of an open action in any namespace, or None."""
    if not above:
        return None
    holders = [action.host for action in store.live(None, (State.OPEN, State.QUEUED)) if action.host is not None]
    for ancestor in above:
        if any(
            holder.pid == ancestor.pid
            and holder.machine == ancestor.machine
            and abs(holder.started - ancestor.started) < _SAME_START
            for holder in holders
        ):
            return ancestor.pid
    return None


def _shown(command: list[str]) -> str:
    """Return the executable's file name, without arguments, which may contain secrets."""
    name = command[0].rpartition("/")[2] if command else "?"
    return "".join(character if character.isprintable() else "?" for character in name[:_MAX_NAME]) or "?"
