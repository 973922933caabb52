"""What Callosum adds to a call, by host, event and platform, as a table in Markdown: ``make bench-hosts``.

::

    python -m bench.hosts.table [--only hook,mcp,claude_code,codex,gemini,openclaw] [--rounds 4] [--calls 12]

The hosts are the real ones, with a scripted model on the loopback, as ``bench.hosts.cli`` and ``bench.hosts.openclaw``
run them; each is run beside itself without Callosum, in shuffled rounds. ``p50`` is the median difference between a
call with Callosum and the call of the same round without. ``p95`` is that percentile with Callosum less the same one
without. ``worst`` is the slowest call with Callosum, less the median without. On a machine with other work the last
two are mostly that work.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Final, NamedTuple

from bench.harness import percentile
from bench.hosts import cli, hook, mcp, openclaw

TITLES: Final = {"claude_code": "Claude Code", "codex": "Codex CLI", "gemini": "Gemini CLI"}


class Row(NamedTuple):
    """One row, and the times in milliseconds that it is made of."""

    host: str
    event: str
    gated: Sequence[float]
    bare: Sequence[float]

    @property
    def text(self) -> str:
        """The row in Markdown."""
        usual = statistics.median(self.bare)
        added = (
            statistics.median(gated - bare for gated, bare in zip(self.gated, self.bare, strict=False)),
            percentile(self.gated, 0.95) - percentile(self.bare, 0.95),
            max(self.gated) - usual,
        )
        figures = " | ".join(f"{figure:.1f} ms" for figure in added)
        return f"| {self.host} | {self.event} | {_PLATFORM} | {figures} | {usual:.1f} ms | {len(self.gated)} |"


_PLATFORM: Final = f"{platform.system()} {platform.machine()}"
_HEAD: Final = (
    "| host | event | platform | p50 | p95 | worst | median without | calls |\n|---|---|---|--:|--:|--:|--:|--:|"
)


def hooks(rounds: int, calls: int) -> Iterator[Row]:
    """Measure one process of the hook, minus that of ``true`` in its place."""
    found = hook.sample(rounds * calls)
    for kind in hook.KINDS:
        title = "one hook: the native client" if kind == "native" else "one hook: the script"
        yield Row(title, "a call, started by the host itself", found[f"{kind}: started"], found["true started"])
        yield Row(title, "a call, started by `sh`", found[f"{kind}: gate"], found["true"])
        yield Row(title, "a report, started by `sh`", found[f"{kind}: report"], found["true"])
        yield Row(title, "a call while no gate runs", found[f"{kind}: nobody"], found["true"])


def wraps(rounds: int, calls: int) -> Iterator[Row]:
    """``callosum mcp`` around a server on standard input and output."""
    for event, tool, arguments in (
        ("a call that reads", "read_note", {"path": "/notes/a"}),
        ("a call that writes", "update_note", {"path": "/notes/a", "text": "b"}),
    ):
        times = mcp.sample(rounds, calls, tool, arguments).times
        yield Row("MCP over stdio", event, *(list(chain(*times[name])) for name in (mcp.BEHIND, mcp.WITHOUT)))


def command_host(host: str) -> Callable[[int, int], Iterator[Row]]:
    """A host with command hooks: all that it does between two requests to the model."""

    def rows(rounds: int, calls: int) -> Iterator[Row]:
        found = cli.measure(host, rounds, calls, ("bare", "true", "gate"))
        gated, bare, nothing = (list(chain(*found[kind])) for kind in ("gate", "bare", "true"))
        what = "shell command" if host == "codex" else "read"
        yield Row(TITLES[host], f"a whole {what}, all hooks", gated, bare)
        yield Row(TITLES[host], "the same, above hooks that are `true`", gated, nothing)

    return rows


def plugin(rounds: int, calls: int) -> Iterator[Row]:
    """OpenClaw's plugin."""
    found = openclaw.measure(rounds, calls)
    yield Row("OpenClaw", "a whole read, the plugin", found["gated"], found["bare"])


PARTS: Final[dict[str, Callable[[int, int], Iterator[Row]]]] = {
    "hook": hooks,
    "mcp": wraps,
    **{host: command_host(host) for host in TITLES},
    "openclaw": plugin,
}


def main() -> None:
    """Print the table, row by row as it is measured."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default=",".join(PARTS))
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--calls", type=int, default=12)
    chosen = options.parse_args()
    names = chosen.only.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        sys.exit(f"--only: there is no {unknown[0]!r}; known are {', '.join(PARTS)}")
    print(_HEAD, flush=True)
    loads = [os.getloadavg()[0]]
    for name in names:
        for row in PARTS[name](chosen.rounds, chosen.calls):
            print(row.text, flush=True)
        loads.append(os.getloadavg()[0])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f"load {min(loads):.0f} to {max(loads):.0f}"
    print(f"\nOf {datetime.now(UTC):%Y-%m-%d}, {cores} cores, {load}, Python {platform.python_version()}.")


if __name__ == "__main__":
    main()
