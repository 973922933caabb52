"""Proof that a person asks: what an agent must not be able to do for itself goes through here.

Three things are looked at, and all must hold. They make it loud, not impossible, to go around the gate
on one's own machine.

1. There is a terminal: standard input and output are one, and the process has a controlling one.
2. No mark of a gated host is in the environment, which every tool that a host starts inherits.
3. No ancestor process is a known host, or holds an open action in the store.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callosum.cli.codes import NotAPerson
from callosum.model import State
from callosum.process import ancestors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from callosum.model import Host
    from callosum.stores.base import Store

_MARKS: Final = ("CLAUDECODE", "CLAUDE_CODE", "CODEX_", "GEMINI_CLI", "OPENCLAW_", "CALLOSUM_SESSION")
"""How the names of variables begin that a host gives to what it starts."""
_SETTINGS: Final = frozenset(
    "CODEX_HOME CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX CLAUDE_CODE_MAX_OUTPUT_TOKENS "
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC GEMINI_CLI_HOME OPENCLAW_HOME OPENCLAW_STATE_DIR "
    "OPENCLAW_CONFIG_PATH".split()
)
"""Variables of hosts that people put into their own profile: they say nothing about who asks."""
_HOSTS: Final = frozenset(
    "claude codex gemini openclaw openclaw-gateway opencode cursor-agent goose qwen aider copilot".split()
)
_SCRIPT: Final = re.compile(
    r"(?:^|/)(?:claude-code|@openai/codex|codex-cli|gemini-cli|openclaw|opencode|cursor-agent|qwen-code)(?:/|$)"
)
_RUNNERS: Final = frozenset("node nodejs bun deno python python3".split())


def require_person(store: Store, what: str) -> str:
    """Returns the name of the person who asks.

    ``what`` is said in the refusal (``approve a call``). Raises ``NotAPerson`` with the reason.
    """
    words = f"only a person can {what}"
    refuse_agents(store, words)
    if not terminal():
        raise NotAPerson(f"{words}: run it at a terminal of your own, without pipes")
    return _login()


def refuse_agents(store: Store, what: str) -> None:
    """Raises ``NotAPerson``, which begins with ``what``, where an agent's host stands behind this process."""
    mark = mark_of_a_host(os.environ)
    if mark is not None:
        raise NotAPerson(f"{what}: {mark} is set, so an agent's host started this process")
    above = ancestors(os.getpid())
    host = next((name for one in above if (name := host_name(one.pid))), None)
    if host is not None:
        raise NotAPerson(f"{what}: this process descends from {host}")
    holder = holder_of(above, store)
    if holder is not None:
        raise NotAPerson(f"{what}: this process descends from process {holder}, which runs gated calls")


def mark_of_a_host(environ: Mapping[str, str]) -> str | None:
    """Returns the name of a variable that a gated host has set, None if there is none."""
    return next((name for name in sorted(environ) if name.startswith(_MARKS) and name not in _SETTINGS), None)


def terminal() -> bool:
    """Whether standard input and output are a terminal, and this process has one that controls it."""
    try:
        if not (os.isatty(sys.stdin.fileno()) and os.isatty(sys.stdout.fileno())):
            return False
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except (OSError, ValueError, AttributeError):
        return False
    return True


def host_name(pid: int) -> str | None:
    """Returns the name of the agent's host that this process is, None if it is none that is known."""
    words = _command(pid)
    if not words:
        return None
    program = Path(words[0]).name.lower().removesuffix(".exe").lstrip("-")
    if program in _HOSTS:
        return program
    if program.rstrip("0123456789.") in _RUNNERS:
        for word in words[1:4]:
            script = Path(word).name.lower()
            if script.removesuffix(".js").removesuffix(".mjs") in _HOSTS or _SCRIPT.search(word.lower()):
                return script
    return None


def _command(pid: int) -> list[str]:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()[:4096]
        return [word.decode(errors="replace") for word in raw.split(b"\0") if word]
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return []
    import psutil

    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def holder_of(above: list[Host], store: Store) -> int | None:
    """The pid of an ancestor that is the host of an open action, in any namespace."""
    if not above:
        return None
    holding = [action.host for action in store.live(None, (State.OPEN, State.QUEUED)) if action.host is not None]
    for one in above:
        if any(h.pid == one.pid and h.machine == one.machine and abs(h.started - one.started) < 0.02 for h in holding):
            return one.pid
    return None


def _login() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "person"
