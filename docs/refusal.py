# ruff: noqa: INP001 - a script, no package
"""Draw what an agent reads when another session is in the way: ``python docs/refusal.py docs/refusal.svg``.

The sentences are the gate's own: each call is decided by a gate over an empty store.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.terminal_theme import MONOKAI
from rich.text import Text

from callosum import Call, LocalGate

WIDTH = 100
CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("chat", "send_email", {"to": "alice@example.com", "body": "Friday at ten works for me."}),
    ("heartbeat", "send_email", {"to": "alice@example.com", "body": "Friday at ten works for me!"}),
    ("chat", "respond_to_event", {"event_id": "review-7", "response": "accept"}),
    ("heartbeat", "respond_to_event", {"event_id": "review-7", "response": "decline"}),
)


def decided(folder: str) -> Iterator[tuple[str, str, str | None]]:
    """Yield each call's session, the call as text, and the sentence that its agent read (None: the tool ran)."""
    with LocalGate(folder) as gate:
        for number, (session, tool, params) in enumerate(CALLS):
            call = Call("mira", tool, params, session=session, call_id=f"call-{number}", pause=True)
            decision = gate.intercept(call)
            if decision.proceed:
                gate.complete("mira", session=session, id=decision.id, result={"ok": True})
            shown = ", ".join(f"{name}={value!r}" for name, value in params.items())
            yield f"mira/{session}", f"{tool}({shown})", None if decision.proceed else decision.warning


def draw() -> str:
    """Return the picture as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    with tempfile.TemporaryDirectory(prefix="callosum-picture-") as folder:
        for session, call, sentence in decided(folder):
            console.print(Text.assemble((f"{session}  ", "bold cyan"), call))
            answer = Text(sentence, "yellow") if sentence else Text("done", "green")
            console.print(Padding(answer, (0, 0, 1, 4)))
    return console.export_svg(title="two sessions of one agent", theme=MONOKAI, unique_id="refusal")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), "utf-8")
