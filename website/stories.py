"""Run the stories of ``docs/stories.md`` through a gate: ``python -m website.stories`` writes their blocks anew."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from callosum import Call, LocalGate

PAGE: Final = Path(__file__).parents[1] / "docs" / "stories.md"
_BLOCK: Final = re.compile(r"(<!-- story: (?P<name>[a-z-]+) -->\n).*?(<!-- end of story -->)", re.DOTALL)
_REQUEST: Final = {
    "owner": "acme",
    "repo": "compiler",
    "base": "main",
    "title": "Pin the toolchain",
    "body": "The nightly build fails since the new toolchain. Pin the last version that works.",
}
_LIST: Final = "/srv/app/PROGRESS.md"

STORIES: Final[Mapping[str, tuple[tuple[str, str, Mapping[str, Any]], ...]]] = {
    "two-pull-requests": (
        ("schedule", "github_create_pull_request", {**_REQUEST, "head": "pin-1"}),
        ("comment", "github_create_pull_request", {**_REQUEST, "head": "pin-2"}),
    ),
    "one-stash": (
        ("docs", "Bash", {"command": "git stash push"}),
        ("tests", "Bash", {"command": "git stash pop"}),
    ),
    "one-list": (
        ("lexer", "Read", {"file_path": _LIST}),
        ("parser", "Read", {"file_path": _LIST}),
        ("lexer", "Write", {"file_path": _LIST, "content": "- [x] lexer\n- [ ] parser\n"}),
        ("parser", "Write", {"file_path": _LIST, "content": "- [ ] lexer\n- [x] parser\n"}),
    ),
}
"""Session, tool and params of each call, in order. All sessions belong to ``mira`` and work in one checkout."""


def blocks(name: str) -> Iterator[str]:
    """Yield what happens to each call of the story, as Markdown: the call, then what its session reads."""
    with tempfile.TemporaryDirectory(prefix="callosum-story-") as folder, LocalGate(folder) as gate:
        for number, (session, tool, params) in enumerate(STORIES[name]):
            call = Call("mira", tool, params, session=session, call_id=f"{number}", cwd="/srv/app", pause=True)
            decision = gate.intercept(call)
            said = f"**mira/{session}** calls `{tool}`:\n\n```json\n{json.dumps(params)}\n```\n\n"
            if decision.proceed:
                gate.complete("mira", session=session, id=decision.id, result={"ok": True})
                yield f"{said}The call runs.\n"
            else:
                yield f"{said}The call does not run. The session reads:\n\n> {decision.warning}\n"


def filled(page: str) -> str:
    """Return the page with every story's block replaced by a new run of it."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{chr(10).join(blocks(block['name']))}\n{block[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
