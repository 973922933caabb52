"""Prove that a person runs a command: the library's proof (``callosum.person``), and a terminal.

A command that a person types has a terminal as standard input and output, and as its controlling terminal.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from callosum.errors import NotAPerson
from callosum.person import refuse_agents

if TYPE_CHECKING:
    from callosum.stores.base import Store


def require_person(store: Store, what: str) -> str:
    """Return the login name of the person at the terminal.

    ``what`` completes the refusal ("only a person can ..."). Raises ``NotAPerson`` with the reason.
    """
    refusal = f"only a person can {what}"
    refuse_agents(store, refusal)
    if not at_terminal():
        raise NotAPerson(f"{refusal}: run it at a terminal of your own, without pipes")
    return login()


def at_terminal() -> bool:
    """Return True if standard input and output are a terminal, and this process has a controlling one."""
    try:
        if not (os.isatty(sys.stdin.fileno()) and os.isatty(sys.stdout.fileno())):
            return False
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except (OSError, ValueError, AttributeError):
        return False
    return True


def login() -> str:
    """Return the login name of the user who runs this process."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "person"
