"""``python -m bench.hosts.mcp``: what the wrap adds to a call over stdio, beside the same server without it.

Both servers run throughout, over one gate that is warm. Every round makes a block of calls to each, in a new order;
the figures are medians over the rounds. ``--server`` names another server than the small one that is built in, with
``--tool`` and ``--arguments`` for a call of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench.serving import started

ROOT = Path(__file__).resolve().parents[2]
TARGET = 1.0
"""Milliseconds."""
WITHOUT, BEHIND = "without", "behind the gate"
_SMALL = """
import json, sys
tools = [{"name": "read_note", "description": "Reads a note.", "inputSchema": {"type": "object"}}]
for line in sys.stdin.buffer:
    asked = json.loads(line)
    if "id" in asked:
        result = {"tools": tools, "serverInfo": {"name": "small"}, "protocolVersion": "2025-11-25", "capabilities": {},
                  "content": [{"type": "text", "text": "the note"}]}
        said = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode() + b"\\n"
        sys.stdout.buffer.write(said)
        sys.stdout.buffer.flush()
"""


class Client:
    """One server's pipes, as a host holds them."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env={**os.environ, **environ}
        )
        self._rest = b""
        self._number = 0
        info = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        self._write({"method": "notifications/initialized"})
        self.ask("tools/list", {})

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self.process.stdout is not None
        self._number += 1
        self._write({"id": self._number, "method": method, "params": params})
        while True:
            while b"\n" not in self._rest:
                more = os.read(self.process.stdout.fileno(), 1 << 16)
                if not more:
                    raise RuntimeError("the server ended")
                self._rest += more
            line, _, self._rest = self._rest.partition(b"\n")
            found = json.loads(line)
            if found.get("id") == self._number:
                return found

    def block(self, calls: int, tool: str, arguments: dict[str, Any]) -> list[float]:
        """The time of each call, in milliseconds."""
        times = []
        for _ in range(calls):
            began = time.perf_counter()
            found = self.ask("tools/call", {"name": tool, "arguments": arguments})
            times.append((time.perf_counter() - began) * 1000)
            if "error" in found or found["result"].get("isError"):
                raise RuntimeError(f"the call failed: {found}")
        return times

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


class Sampled(NamedTuple):
    """The times of the calls by server, a list for each round, and processor time a call, all in milliseconds."""

    times: dict[str, list[list[float]]]
    wrap: float
    gate: float


def sample(
    rounds: int,
    calls: int,
    tool: str,
    arguments: dict[str, Any],
    server: Sequence[str] = (sys.executable, "-c", _SMALL),
) -> Sampled:
    """Make the calls."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        socket = Path(folder) / "gate.sock"
        options = ("serve", "--state", str(state), "--socket", str(socket))
        with started("callosum.cli", *options, log=Path(folder) / "log") as gate:
            environ = {"CALLOSUM_URL": gate.address, "PYTHONPATH": str(ROOT)}
            wrap = [sys.executable, "-m", "callosum.cli", "mcp", "--instance", "bench", "--state", str(state), "--"]
            clients = {WITHOUT: Client([*server], environ), BEHIND: Client([*wrap, *server], environ)}
            for client in clients.values():
                client.block(50, tool, arguments)
            wrapping = psutil.Process(clients[BEHIND].process.pid)
            before = _cpu(wrapping), gate.cpu()
            found: dict[str, list[list[float]]] = {name: [] for name in clients}
            chance = random.Random(1)
            for _ in range(rounds):
                names = list(clients)
                chance.shuffle(names)
                for name in names:
                    found[name].append(clients[name].block(calls, tool, arguments))
            taken = [
                1000 * (now - then) / (rounds * calls)
                for now, then in zip((_cpu(wrapping), gate.cpu()), before, strict=True)
            ]
            for client in clients.values():
                client.close()
    return Sampled(found, *taken)


def measure(rounds: int, calls: int, server: list[str], tool: str, arguments: dict[str, Any]) -> bool:
    """Prints the figures; returns whether the target is met."""
    sampled = sample(rounds, calls, tool, arguments, server)
    found = {name: [statistics.median(times) for times in each] for name, each in sampled.times.items()}
    added = [behind - without for without, behind in zip(found[WITHOUT], found[BEHIND], strict=True)]
    quarter = statistics.quantiles(added, n=4)
    load = os.getloadavg()[0]
    print(f"{rounds} rounds of {calls} calls each; load {load:.1f} on {os.cpu_count()} cores")
    for name, medians in found.items():
        print(f"  {name:16} {statistics.median(medians):6.3f} ms a call")
    print(f"  added            {statistics.median(added):6.3f} ms (quartiles {quarter[0]:.3f} to {quarter[2]:.3f})")
    print(f"  processor time   {sampled.wrap:6.3f} ms in the wrap, {sampled.gate:.3f} ms in the gate")
    met = bool(statistics.median(added) <= TARGET)
    print(f"  target           {TARGET:6.3f} ms: {'met' if met else 'missed'}")
    return met


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=25, help="calls of each in a round")
    parser.add_argument("--server", type=shlex.split, default=[sys.executable, "-c", _SMALL])
    parser.add_argument("--tool", default="read_note")
    parser.add_argument("--arguments", type=json.loads, default={"path": "/notes/a"})
    said = parser.parse_args()
    sys.exit(0 if measure(said.rounds, said.calls, said.server, said.tool, said.arguments) else 1)


if __name__ == "__main__":
    main()
