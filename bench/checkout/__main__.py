"""Two sessions of one host work in one checkout: how often the gate stops a call that would harm nobody.

    python -m bench.checkout [--host claude-code|codex|gemini|all] [--calls 2000] [--plants 100] [--seed 1] [--verbose]

The checkout is a git repository with a remote. Each session edits files of its own folder; it lists, reads, tests,
commits, stashes, pulls and pushes as an agent does, and a colleague pushes from elsewhere. Each call passes the host's
hook, in the host's own form, to a real gate; a call that may run is run. The other session may act while a call runs.
A paused session looks at what the gate names, then repeats the call.

A pause is wrong if the call would have taken no effect from the other session at that moment: no text of a file that
this session has not seen, no work that no commit holds, nothing that the other one has staged, no other branch. It is
right where a commit of the other one took what this session had staged. The plants are lost updates: a session reads a
file, a pull or the other session changes it, and the first one replaces it.
Exits with 1 if a target is missed. Figures of one seed are the same on every run.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.checkout.sessions import Call, Checkout, Input, Session
from callosum.brain import Brain
from callosum.gate import LocalGate
from callosum.hosts.adapters import ADAPTERS
from callosum.process import this_process
from callosum.settings import Settings
from callosum.stores.sqlite import SqliteStore
from callosum.testing import ManualClock
from tests.support.hooked import Hooked

MOST_WRONG: Final = 5.0
"""Wrong pauses in 1,000 calls that are allowed."""
ATTEMPTS: Final = 6
"""Attempts of a call before its session gives it up."""
HOSTS: Final = ("claude-code", "codex", "gemini")


@dataclass
class Figures:
    """What happened to the calls of one host, by kind. ``work`` counts those that no plant made."""

    calls: int = 0
    work: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    planted: int = 0
    paused: int = 0
    taken: Counter[str] = field(default_factory=Counter)
    never: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Return the wrong pauses in 1,000 calls."""
        return 1000 * sum(self.wrong.values()) / max(1, self.calls)


class Run:
    """The sessions of one host, driven in turns through one gate."""

    def __init__(self, host: str, gate: Hooked, folder: Path, seed: int, *, verbose: bool) -> None:
        self.host, self.gate, self.verbose = host, gate, verbose
        self.chance = random.Random(f"{host}-{seed}")
        self.checkout = Checkout(folder)
        self.figures = Figures()
        self.ids = 0
        pair = [Session(host, name, number, self.checkout, self.chance) for number, name in ((1, "alpha"), (2, "beta"))]
        self.sessions = pair

    def run(self, calls: int, plants: int) -> Figures:
        """Make at least so many calls and so many plants; return what happened."""
        work = [session.work() for session in self.sessions]
        running: list[Iterator[None] | None] = [None, None]
        step = 0
        while self.figures.work < calls or any(running):
            who = self.chance.randrange(2)
            if running[who] is None:
                if self.figures.work >= calls:
                    who = 1 - who
                elif self.figures.planted * calls < plants * self.figures.work and not any(running):
                    self.plant(who)
                    continue
                else:
                    running[who] = self.attempts(self.sessions[who], next(work[who]))
                    self.figures.work += 1
            step += 1
            now = running[who]
            if now is not None and next(now, self) is self:
                running[who] = None
        while self.figures.planted < plants:
            self.plant(self.chance.randrange(2))
        return self.figures

    def plant(self, who: int) -> None:
        """Have one session replace a file whose change it has not seen, all of it."""
        one, other = self.sessions[who], self.sessions[1 - who]
        self.figures.planted += 1
        name, number = f"shared/part{self.chance.randrange(4)}.py", self.figures.planted
        self.through(self.attempts(one, one.read(name)))
        for _ in range(self.chance.randint(0, 2)):
            self.through(self.attempts(one, one.look()))
        theirs = f"VALUE = {number + 1000}\nNAME = 'theirs'\n"
        if self.chance.random() < 0.5:
            self.checkout.push_elsewhere(name, theirs)
            pull = self.chance.choice(("git pull --no-rebase --no-edit origin main", "git pull --no-rebase --no-edit"))
            self.through(self.attempts(other, other.shell(pull, kind="git pull")))
        if self.checkout.text(name) == one.seen[name]:  # git refused, or the other session does it itself
            self.through(self.attempts(other, other.read(name)))
            self.through(self.attempts(other, other.edit(name)))
        write = one.write(name, f"VALUE = {-number}\nNAME = 'mine'\n", kind="planted")
        write.plant = True
        self.through(self.attempts(one, write))
        self.through(self.attempts(one, one.shell(f"git commit -qm shared {name}", kind="git commit")))
        self.checkout.settle()

    def through(self, attempts: Iterator[None]) -> None:
        list(attempts)

    def attempts(self, session: Session, call: Call) -> Iterator[None]:
        """Make a call until it ran, and yield whenever the other session may act. A paused session looks first."""
        self.figures.calls += 1
        reason = ""
        for attempt in range(1, ATTEMPTS + 1):
            self.ids += 1
            self.gate.clock.advance(self.chance.uniform(1, 4))
            named: Input = {"tool_name": call.tool, "tool_input": call.input}
            if self.host != "gemini":
                named["tool_use_id"] = f"toolu_{self.ids}"
            answer = self.send(session, "BeforeTool" if self.host == "gemini" else "PreToolUse", named)
            said: Mapping[str, Any] = answer.get("hookSpecificOutput", answer)
            reason = said.get("permissionDecisionReason") or said.get("reason") or ""
            denied = "deny" in (said.get("permissionDecision"), said.get("decision"))
            self.count(call, reason, attempt, denied=denied)
            if not denied:
                named["tool_input"] = said.get("updatedInput") or said.get("tool_input") or call.input
                if call.reads:
                    session.seen[call.reads] = self.checkout.text(call.reads)
                self.checkout.failed = ""
                output = call.run(named["tool_input"])
                failed = self.checkout.failed if self.host == "claude-code" else ""  # the others report their output
                if self.chance.random() < 0.2:
                    yield
                self.gate.clock.advance(self.chance.uniform(0.1, 1))
                if failed:
                    self.send(session, "PostToolUseFailure", {**named, "error": failed, "is_interrupt": False})
                    return
                named["tool_response"] = self.response(call, output)
                self.send(session, "AfterTool" if self.host == "gemini" else "PostToolUse", named)
                return
            yield
            if attempt == 1 and "ead it" in reason and call.kind not in ("read", "look"):
                look = session.look()
                path = str(call.input.get("file_path", "")).removeprefix(f"{self.checkout.path}/")
                if path and call.plant:
                    look = session.read(path)
                yield from self.attempts(session, look)
        self.figures.never.append(f"{call.kind}: {reason}")

    def count(self, call: Call, reason: str, attempt: int, *, denied: bool) -> None:
        takes = call.takes()
        if call.plant and attempt == 1:
            self.figures.paused += denied
        if denied:
            (self.figures.right if takes else self.figures.wrong)[call.kind] += 1
        elif takes and attempt == 1:
            self.figures.taken[call.kind] += 1
        if self.verbose and (takes != denied and (denied or attempt == 1)):
            print(f"{self.host} {call.kind} attempt {attempt}: {call.input}\n    {reason}")

    def response(self, call: Call, output: str) -> Any:
        if self.host == "gemini":
            return {"llmContent": output, "returnDisplay": output}
        if self.host == "codex":
            return output
        if call.tool == "Read":
            said = call.input["file_path"]
            lines = output.count("\n") + 1
            numbers = {"numLines": lines, "startLine": 1, "totalLines": lines}
            return {"type": "text", "file": {"filePath": said, "content": output, **numbers}}
        if call.tool == "Bash":
            return {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        return {"filePath": call.input.get("file_path", ""), "content": output}

    def send(self, session: Session, event: str, more: Mapping[str, Any]) -> Mapping[str, Any]:
        turn = {"claude-code": "prompt_id", "codex": "turn_id", "gemini": "timestamp"}[self.host]
        payload = {
            "session_id": session.id,
            "transcript_path": f"/nowhere/{session.id}.jsonl",
            "cwd": str(self.checkout.path),
            "hook_event_name": event,
            turn: f"{session.id[:8]}-{session.turn}",
            **more,
        }
        return self.gate.send(ADAPTERS[self.host], payload, this_process())


def drive(host: str, calls: int, plants: int, seed: int, *, verbose: bool = False) -> Figures:
    """Return the figures of one host."""
    folder = Path(tempfile.mkdtemp(prefix="checkout-"))
    try:
        clock = ManualClock()
        store = SqliteStore(folder / "gate.db", clock=clock)
        with LocalGate(settings=Settings(state=folder / "state"), store=store) as gate, Brain(gate) as brain:
            return Run(host, Hooked(brain, clock), folder, seed, verbose=verbose).run(calls, plants)
    finally:
        shutil.rmtree(folder)


def main() -> int:
    """Run the driver; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", choices=(*HOSTS, "all"), default="all")
    parser.add_argument("--calls", type=int, default=2000, help="calls of Claude Code; the other hosts make a quarter")
    parser.add_argument("--plants", type=int, default=100, help="planted lost updates of each host")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="print each wrong pause and each effect that was taken")
    said = parser.parse_args()
    missed = False
    for host in HOSTS if said.host == "all" else (said.host,):
        calls = said.calls if host == "claude-code" else max(500, said.calls // 4)
        figures = drive(host, calls, said.plants, said.seed, verbose=said.verbose)
        print(
            f"{host}: {figures.calls} calls, {figures.rate:.1f} wrong pauses in 1,000 {dict(figures.wrong)}, "
            f"right {dict(figures.right)}, taken without a pause {dict(figures.taken)}, "
            f"planted {figures.paused} of {figures.planted} paused, "
            f"{len(figures.never)} never got through"
        )
        for line in sorted(set(figures.never))[:5]:
            print(f"    {line}")
        missed |= figures.rate > MOST_WRONG or figures.paused < figures.planted or bool(figures.never)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
