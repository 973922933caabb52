"""What the hooks add to a tool call of Claude Code, Codex and Gemini CLI: the real programs, a scripted model.

::

    python -m bench.hosts.cli [--hosts claude_code,codex,gemini] [--rounds 4] [--calls 12]

A session makes so many calls, one after another. What counts is the time between two requests to the model: all that
the host does for one call. Each kind has a home of its own::

    bare     without hooks
    true     the same entries as installed, with ``/bin/true`` for a command
    curl     the same, with a script of nothing but ``curl`` to a server that answers ``{}`` at once
    gate     as installed, the gate running
    http     (Claude Code) over HTTP, with our server
    empty    (Claude Code) over HTTP, with a server that answers ``{}`` at once

So ``curl`` and ``empty`` are what the ways themselves cost, without a gate. Rounds are shuffled; the differences are
medians over the rounds. The programs are installed as the end-to-end tests install them.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from bench.harness import percentile
from bench.serving import callosum
from tests.e2e.claude_code.conftest import ClaudeMachine
from tests.e2e.codex.conftest import NATIVE, CodexHome
from tests.e2e.gemini.conftest import GeminiHome
from tests.e2e.home import Home
from tests.e2e.hosts import installed, program_in
from tests.e2e.models import Model, ToolUse, model

TARGETS = {
    ("gate", "true"): 15.0,
    ("curl", "true"): None,
    ("gate", "curl"): None,
    ("http", "bare"): 10.0,
    ("empty", "bare"): None,
    ("http", "empty"): None,
}
"""How much more a call may take, in milliseconds; None is for what only explains."""
MOST = 1.7
"""How many times what entries with ``true`` add our hooks may add to a call."""


class Empty(BaseHTTPRequestHandler):
    """Answers every request with ``{}``."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        self.wfile.write(head.encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def empty() -> Iterator[str]:
    """The address of a server that knows nothing but ``Empty``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class Claude:
    """Claude Code, as its end-to-end tests drive it."""

    name = "claude-code"

    def __init__(self, folder: Path, scripted: Model) -> None:
        folder.mkdir()
        programs = (installed("claude_code") / "node_modules" / "@anthropic-ai").glob("claude-code-*/claude")
        self.desk = ClaudeMachine(folder, str(next(programs)), scripted)
        self.settings = self.desk.home / ".claude" / "settings.json"
        self.state = self.desk.state
        self.callosum = self.desk.callosum

    def run(self, prompt: str) -> object:
        return self.desk.run(prompt, "Read")

    def reviewed(self) -> None:
        """Nothing is to be reviewed."""

    def call(self, number: int) -> ToolUse:
        path = self.desk.project / f"{number}.txt"
        path.write_text("a note")
        return ToolUse("Read", {"file_path": str(path)})

    def close(self) -> None:
        self.desk.kill_gate()


class Others:
    """Codex and Gemini CLI."""

    def __init__(self, home: Home, settings: Path, call: Callable[[int], ToolUse]) -> None:
        self.name, self.home, self.settings, self.state, self.call = home.host, home, settings, home.state, call
        self.run, self.callosum, self.close = home.run, home.callosum, home.close

    def reviewed(self) -> None:
        """Trusts the hooks as they are now, where the host wants that."""
        if isinstance(self.home, CodexHome):
            self.home.trust()


def codex(folder: Path, scripted: Model) -> Others:
    home = CodexHome(folder, program_in(installed("codex"), NATIVE), scripted, "scripted")
    return Others(home, home.config.parent / "hooks.json", lambda _: ToolUse("exec_command", {"cmd": "true"}))


def gemini(folder: Path, scripted: Model) -> Others:
    home = GeminiHome(folder, program_in(installed("gemini"), "@google/gemini-cli/bundle/gemini.js"), scripted)

    def call(number: int) -> ToolUse:
        (home.project / f"{number}.txt").write_text("a note")
        return ToolUse("read_file", {"file_path": f"{number}.txt"})

    return Others(home, home.settings, call)


HOSTS: Mapping[str, Callable[[Path, Model], Claude | Others]] = {
    "claude_code": Claude,
    "codex": codex,
    "gemini": gemini,
}


def instead(settings: Any, command: str) -> Any:
    """Return the settings with another command in place of Callosum's."""
    if isinstance(settings, dict):
        ours = "callosum-hook" in str(settings.get("command", ""))
        return {
            name: command if ours and name == "command" else instead(value, command) for name, value in settings.items()
        }
    return [instead(one, command) for one in settings] if isinstance(settings, list) else settings


def set_up(host: str, kind: str, folder: Path, scripted: Model, stack: ExitStack) -> Claude | Others:
    """A home of one kind; it is closed with the stack."""
    rig = HOSTS[host](folder, scripted)
    stack.callback(rig.close)
    if kind in ("http", "empty"):
        served = stack.enter_context(callosum(folder / "server"))
        rig.callosum("install", rig.name, "--yes", "--http", served.address)
        if kind == "empty":
            settings = rig.settings.read_text()
            rig.settings.write_text(settings.replace(served.address, stack.enter_context(empty())))
    elif kind != "bare":
        rig.callosum("install", rig.name, "--yes")
    if kind in ("true", "curl"):
        command = "/bin/true"
        if kind == "curl":
            script = folder / "ask"
            asks = f"exec curl -q -s --noproxy '*' --data-binary @- {stack.enter_context(empty())}"
            script.write_text(f"#!/bin/sh\n{asks}\n")
            script.chmod(0o755)
            command = str(script)  # one word: a host may start it without a shell
        rig.settings.write_text(json.dumps(instead(json.loads(rig.settings.read_text()), command)))
    if kind != "bare":
        rig.reviewed()
    return rig


def gaps(scripted: Model, name: str) -> list[float]:
    """The host's time for each call of a session but the first, in milliseconds."""
    asked = [at for conversation, at in scripted.when if conversation == name]
    return [(later - earlier) * 1000 for earlier, later in pairwise(asked)][1:]


def kinds_of(host: str) -> list[str]:
    """All kinds of homes that a host can have."""
    return ["bare", "true", "curl", "gate", *(["http", "empty"] if host == "claude_code" else [])]


def measure(host: str, rounds: int, calls: int, kinds: Sequence[str] = ()) -> dict[str, list[list[float]]]:
    """The times by kind (none named: all), a list for each round."""
    kinds = kinds or kinds_of(host)
    found: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
    chance = random.Random(1)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="callosum-bench-")))
        scripted = stack.enter_context(model())
        rigs = {kind: set_up(host, kind, folder / kind, scripted, stack) for kind in kinds}
        for number in range(rounds + 1):  # the first warms them up, and starts the gate
            for kind in chance.sample(kinds, len(kinds)):
                rig, name = rigs[kind], f"{kind}-{number}"
                rig.run(scripted.script(name, *([rig.call(one)] for one in range(calls))))
                times = gaps(scripted, name)
                assert len(times) == calls - 1, f"{host} made {len(times) + 1} calls of {calls}"
                if number:
                    found[kind].append(times)
                    print(f"{host} {name}: {statistics.median(times):.1f} ms", file=sys.stderr)
        if "gate" not in rigs:
            return found
        asked = rigs["gate"].callosum("journal", "--last", "0", "--event", "intercept", "--json")
        assert len(asked.splitlines()) == (rounds + 1) * calls, "every call of the one was gated"
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hosts", default=",".join(HOSTS))
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--calls", type=int, default=12)
    chosen = options.parse_args()
    missed = False
    for host in chosen.hosts.split(","):
        found = measure(host, chosen.rounds, chosen.calls)
        medians = {kind: [statistics.median(times) for times in rounds] for kind, rounds in found.items()}
        said = ", ".join(f"{statistics.median(each):.1f} ms {kind}" for kind, each in medians.items())
        print(f"{host}, a tool call: {said} (medians)")
        for (kind, other), target in TARGETS.items():
            if kind not in medians:
                continue
            more = statistics.median(a - b for a, b in zip(medians[kind], medians[other], strict=True))
            low, least = (percentile(chain.from_iterable(found[one]), 0.1) for one in (kind, other))
            print(f"  {kind} above {other}: {more:+.1f} ms", end="")
            if target is not None:
                missed |= more > target
                print(f" (at most {target:g}: {'yes' if more <= target else 'NO'})", end="")
            print("; ", end="")
            print(f"the tenth that other work disturbed least: {low - least:+.1f} ms")
        ours, theirs = (
            statistics.median(a - b for a, b in zip(medians[kind], medians["bare"], strict=True))
            for kind in ("gate", "true")
        )
        if theirs > 0:
            low, least, bare = (percentile(chain.from_iterable(found[one]), 0.1) for one in ("gate", "true", "bare"))
            calm = f"{(low - bare) / (least - bare):.2f}" if least > bare else "-"
            print(f"  the hooks add {ours / theirs:.2f} times what true adds (at most {MOST:g}); ", end="")
            print(f"in the tenth that other work disturbed least: {calm}")
            missed |= ours / theirs > MOST
    sys.exit(missed)


if __name__ == "__main__":
    main()
