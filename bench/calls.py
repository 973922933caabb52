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


LINES = (
    "ls -la src/part-{n}",
    "ls src/part-{n}",
    "cat docs/page-{n}.md",
    "git status --short part-{n}",
    "git log -p -{n} --stat",
    "git diff HEAD~1 -- src/part-{n}.py",
    "git add -A && git commit -m 'Parser: read part {n}'",
    "git checkout -b topic-{n}",
    "git push -u origin topic-{n}",
    "mkdir -p build/part-{n}",
    "rm -rf build/part-{n}",
    "cp -r src/part-{n} /tmp/part-{n}",
    "mv notes-{n}.md docs/",
    "grep -rn 'part {n}' src --include=*.py",
    "rg -l part_{n} src | head -20",
    "find . -name 'part-{n}*' -type f",
    "sed -n '1,{n}p' src/main.py",
    "sed -i 's/part {n}/part/' src/main.py",
    "head -{n} README.md",
    "wc -l src/part-{n}.py",
    "python -m pytest -x -q tests/test_part_{n}.py",
    "pytest tests -k part_{n} 2>&1 | tail -20",
    "python -c 'print({n} + 1)'",
    "npm run build -- --part {n}",
    "npm install left-pad@1.{n}",
    "pip install -r requirements-{n}.txt",
    "make -j4 part-{n}",
    "cargo test part_{n}",
    "docker ps -a --filter name=part-{n}",
    "docker compose -p part-{n} up -d",
    "kubectl get pods -n part-{n}",
    "kubectl apply -f deploy/part-{n}.yaml",
    "curl -s https://example.com/part/{n} -o part-{n}.json",
    "echo 'part {n}' >> notes.md",
    "cd src && ls -l part-{n} && wc -l part-{n}/*",
    "ps aux | grep part-{n}",
    "psql -c 'select count(*) from part_{n}'",
    "gh pr view {n}",
    "for f in src/part-{n}/*.py; do echo $f; done",
    "tar czf /tmp/part-{n}.tgz src/part-{n}",
)
"""Command lines as agents write them; ``{n}`` makes each one new."""


def shell(count: int) -> tuple[str, dict[str, object]]:
    """Run a command line that nobody has run before."""
    return "Bash", {"command": LINES[count % len(LINES)].replace("{n}", str(count))}


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
