"""The calls that are measured: one kind for each tier, as agents make them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from bench.harness import Operation
from bench.texts import message
from callosum import Call, LocalGate
from callosum.settings import Settings

Make = Callable[[int], tuple[str, dict[str, object]]]
"""The tool and the params of the ``count``-th call."""

SPREAD = 100
"""How many keys a kind of call goes round."""


def read(count: int) -> tuple[str, dict[str, object]]:
    """Tier 0: read a file."""
    return "read", {"path": f"/notes-{count % SPREAD}.md"}


def write(count: int) -> tuple[str, dict[str, object]]:
    """Tier 1: write a file at the root, so that nothing lies above its key."""
    return "write", {"path": f"/notes-{count % SPREAD}.md", "content": f"# Notes\n\n{message(count)}\n"}


def write_deep(count: int) -> tuple[str, dict[str, object]]:
    """Tier 1: write a file eight folders deep."""
    path = f"/srv/agents/mira/desk/site/content/posts/drafts/notes-{count % SPREAD}.md"
    return "write", {"path": path, "content": f"# Notes\n\n{message(count)}\n"}


def post(count: int) -> tuple[str, dict[str, object]]:
    """Tier 2: send a message to a channel."""
    return "message", {"action": "send", "target": f"team-{count % SPREAD}", "message": message(count)}


def reply(count: int) -> tuple[str, dict[str, object]]:
    """Tier 3: reply in a thread."""
    return "message", {
        "action": "send",
        "target": "andy",
        "replyTo": f"msg-{count % SPREAD}",
        "message": message(count),
    }


_ids = itertools.count()


def settings(folder: Path, *, rotate: bool = True) -> Settings:
    """The settings as they ship, over this folder, whatever this machine has configured.

    ``rotate=False`` lets the live journal grow: by itself it is rotated long before a million rows.
    """
    return Settings(state=folder) if rotate else Settings(state=folder, journal_size=1 << 50)


def gated(gate: LocalGate, make: Make, *, instance: str = "mira") -> Operation:
    """Intercept and complete, everything on: a new call id each time and a result."""

    def operation(count: int) -> None:
        tool, params = make(count)
        call = Call(instance=instance, tool=tool, params=params, call_id=f"call-{next(_ids)}")
        decision = gate.intercept(call)
        if not decision.proceed:
            raise RuntimeError(f"{tool} was stopped: {decision.warning}")
        gate.complete(instance, id=decision.id, result={"ok": True})

    return operation
