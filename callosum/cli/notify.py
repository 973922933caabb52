"""Run the user's command for what waits for a person.

The command is a list of words and is started unchanged: nothing that an agent wrote is ever part of it, and no shell
reads it. The facts are passed on standard input (JSON) and as ``CALLOSUM_CALL_*`` in the environment.
"""

from __future__ import annotations

import logging
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from callosum.cli.text import clean

logger = logging.getLogger("callosum")

TIMEOUT: Final = 30.0
"""Seconds after which the command is ended."""
_FACTS: Final = ("event", "id", "short", "instance", "tool", "tier", "key", "rule", "warning")


class ApprovalNotifier:
    """Runs ``command`` once for each ``send``, one after another, in a thread of its own.

    If a command fails, ``complain`` gets a sentence and nothing else happens. ``close`` lets what was sent finish.
    """

    def __init__(self, command: Sequence[str], complain: Callable[[str], None]) -> None:
        self._command = list(command)
        self._complain = complain
        self._facts: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="callosum-notify", daemon=True)
        if self._command:
            self._thread.start()

    def send(self, facts: Mapping[str, Any]) -> None:
        """Run the command for these facts."""
        if self._command:
            self._facts.put(facts)

    def close(self) -> None:
        """Wait for what was sent, at most as long as one command may take."""
        if self._command:
            self._facts.put(None)
            self._thread.join(TIMEOUT)

    def _work(self) -> None:
        while (facts := self._facts.get()) is not None:
            fault = run(self._command, facts)
            if fault is not None:
                self._complain(fault)


def run(command: Sequence[str], facts: Mapping[str, Any]) -> str | None:
    """Run the command for these facts. Return what went wrong in a sentence, None if nothing did."""
    shown = clean(command[0], 100)
    try:
        done = subprocess.run(  # noqa: S603  the user's own command, and nothing of a call in it
            list(command),
            input=msgspec.json.encode(facts) + b"\n",
            env={**os.environ, **environment(facts)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the notify command {shown} was ended after {TIMEOUT:.0f} s"
    except (OSError, ValueError) as fault:
        return f"the notify command {shown} could not be started: {getattr(fault, 'strerror', None) or fault}"
    return f"the notify command {shown} ended with {done.returncode}" if done.returncode else None


def environment(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts as variables, each one escaped line."""
    return {f"CALLOSUM_CALL_{name.upper()}": clean(str(facts.get(name) or ""), 1000) for name in _FACTS}
