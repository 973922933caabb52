"""A new call is searched for secrets once: its params, keys and reasons together."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from callosum import Call, LocalGate
from callosum.redact.secret_shapes import Redactor
from callosum.settings import Settings

CALLS: dict[str, tuple[str, dict[str, str]]] = {
    "read": ("Read", {"file_path": "/srv/site/page-{n}.md"}),
    "read below the folder": ("Read", {"file_path": "page-{n}.md"}),
    "write": ("Write", {"file_path": "/srv/site/page-{n}.md", "content": "# Page {n}\n\nHello.\n"}),
    "edit": ("Edit", {"file_path": "/srv/site/page-{n}.md", "old_string": "page {n}", "new_string": "part {n}"}),
    "command": ("Bash", {"command": "ls -la src/{n}"}),
    "command with a description": ("Bash", {"command": "git log -p {n}", "description": "Read what {n} changed"}),
    "several commands": ("Bash", {"command": "cd src && kubectl apply -f deploy/{n}.yaml"}),
    "message": ("message", {"action": "send", "target": "team-{n}", "message": "Page {n} is ready."}),
    "mail": ("send_email", {"to": "ana-{n}@example.com", "subject": "Page {n}", "body": "It is ready: {n}."}),
}


@pytest.mark.parametrize("name", CALLS)
def test_new_call_takes_one_search_for_secrets(name: str, tmp_path: Path) -> None:
    tool, params = CALLS[name]
    searches: list[int] = []

    def pair(number: int) -> int:
        """Make a call and report it; return the number of searches that both took."""
        before = len(searches)
        made = {param: text.replace("{n}", f"{number:04}") for param, text in params.items()}
        decision = gate.intercept(Call("mira", tool, made, cwd="/srv/site", call_id=f"toolu_{number}"))
        gate.complete("mira", id=decision.id, result={"ok": True})
        return len(searches) - before

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is Redactor.possible.__code__:
            searches.append(1)

    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        pair(1)  # the names of the session, the tool and the params are searched once and remembered
        sys.setprofile(count)
        try:
            taken = [pair(number) for number in range(2, 6)]
        finally:
            sys.setprofile(None)
    assert taken == [1, 1, 1, 1]
