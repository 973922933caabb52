"""Make a home for one OpenClaw, its gateway, and the servers that it uses."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from callosum.hosts.openclaw import install
from tests.e2e.home import PATIENCE, until

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
TOKEN = "gateway-token"
INSTANCE = "mira"


class Fake:
    """A local server and the requests it received."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def seen(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = fetch(f"{self.url}/seen")[1]
        return found

    def push(self, text: str) -> None:
        fetch(f"{self.url}/push", {"text": text}, "POST")


@contextmanager
def fake(node: str, name: str, **environ: str) -> Iterator[Fake]:
    """Serve a script of this folder."""
    command = [node, str(HERE / name)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environ}) as process:
        assert process.stdout is not None
        try:
            yield Fake(process, int(process.stdout.readline()))
        finally:
            process.kill()


class OpenClawHome:
    """A home for one OpenClaw: its settings, its workspace, the state of its gate."""

    def __init__(self, folder: Path, programs: SimpleNamespace, model: Fake, telegram: Fake | None = None) -> None:
        self.folder = folder
        self.programs = programs
        self.workspace = folder / "workspace"
        self.state = folder / "callosum"
        self.config = folder / "openclaw.json"
        for path in (self.workspace, folder / "home"):
            path.mkdir(parents=True)
        self.port = free_port()
        offers = {"id": "fake-1", "name": "Fake 1", "input": ["text"], "contextWindow": 128_000, "maxTokens": 8000}
        provider = {"baseUrl": f"{model.url}/v1", "apiKey": "sk-fake", "api": "openai-completions", "models": [offers]}
        agents = {"model": {"primary": "fake/fake-1"}, "workspace": str(self.workspace), "skipBootstrap": True}
        self.settings: dict[str, Any] = {
            "gateway": {"mode": "local", "port": self.port, "bind": "loopback", "auth": {"mode": "token", "token": TOKEN}},
            "models": {"mode": "replace", "providers": {"fake": provider}},
            "agents": {"defaults": {**agents, "heartbeat": {"every": "0m"}}},
        }  # fmt: skip
        if telegram is not None:
            channel = {"enabled": True, "botToken": "7:fake", "apiRoot": telegram.url, "dmPolicy": "open"}
            network = {"dangerouslyAllowPrivateNetwork": True}
            self.settings["channels"] = {"telegram": {**channel, "allowFrom": ["*"], "network": network}}
            self.settings["plugins"] = {"entries": {"telegram": {"enabled": True}}}
        self.write(self.settings)

    def write(self, settings: Mapping[str, Any]) -> None:
        self.config.write_text(json.dumps(settings, indent=2))

    def gated(self, **config: Any) -> "OpenClawHome":
        """Install the plugin as the installer does. ``config`` adds to its own settings."""
        command = (sys.executable, "-m", "callosum.cli")
        options = install.OpenClawOptions(instance=INSTANCE, state=self.state, command=command)
        settings = install.installed(self.settings, options)
        assert install.faults(settings) == []
        settings["plugins"]["entries"]["callosum"]["config"] |= {"heartbeatSeconds": 10, **config}
        self.write(settings)
        return self

    def installed(self) -> dict[str, Any]:
        """Return the current settings."""
        found: dict[str, Any] = json.loads(self.config.read_text())
        return found

    @property
    def environ(self) -> dict[str, str]:
        mine = {
            "HOME": str(self.folder / "home"),
            "OPENCLAW_STATE_DIR": str(self.folder / "openclaw"),
            "OPENCLAW_CONFIG_PATH": str(self.config),
            "PATH": f"{Path(self.programs.node).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
        }
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("CALLOSUM_", "OPENCLAW_", "XDG_"))
        }
        return {**kept, **mine}

    def run(self, *words: str, check: bool = True, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Run one command of OpenClaw to its end."""
        done = subprocess.run(
            [self.programs.node, self.programs.openclaw, *words],
            cwd=self.workspace,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Run one command of OpenClaw beside the test."""
        return subprocess.Popen(
            [self.programs.node, self.programs.openclaw, *words],
            cwd=self.workspace,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def turn(self, session: str, message: str) -> subprocess.Popen[str]:
        """Run a turn of a session through the gateway."""
        return self.begin(
            "agent", "--agent", "main", "--session-key", f"agent:main:{session}", "--json", "--message", message
        )

    # --- The gate of this home -----------------------------------------------------------------

    def gate(self, *words: str) -> Any:
        """Return the JSON output of a Callosum command (one value, or one per line)."""
        command = [sys.executable, "-m", "callosum.cli", *words, "--state", str(self.state), "--json"]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode in (0, 1), done.stderr  # 1: there is nothing
        try:
            return json.loads(done.stdout)
        except ValueError:
            return [json.loads(line) for line in done.stdout.splitlines()]

    def journal(self, session: str | None = None) -> list[dict[str, Any]]:
        """Return the journal entries, oldest first, optionally of one OpenClaw session."""
        if not (self.state / "gate.db").exists():
            return []
        found = self.gate("journal", "--last", "0")
        entries: list[dict[str, Any]] = found if isinstance(found, list) else [found]
        return [entry for entry in entries if session is None or entry["session"] == f"{INSTANCE}/agent:main:{session}"]

    def gates(self) -> list[int]:
        """Return the processes that serve this home's state folder."""
        found = [int(path.stem) for path in (self.state / "servers").glob("*.json")]
        return [pid for pid in found if alive(pid)]

    def logged(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind in the daily log."""
        lines = [
            line.split(" | ", 2)
            for path in sorted((self.state / "brain/corpus").glob("*.log.md"))
            for line in path.read_text("utf-8").splitlines()
        ]
        return [json.loads(parts[2]) for parts in lines if len(parts) == 3 and parts[1] == kind]

    def stop_gate(self) -> None:
        """Stop the gate of this home by its pid."""
        for pid in self.gates():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        until(lambda: not self.gates(), "the gate ends")


class Gateway:
    """A running gateway."""

    def __init__(self, house: OpenClawHome, process: subprocess.Popen[bytes], log: Path) -> None:
        self.house = house
        self.process = process
        self.log = log

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def http(self, method: str, path: str, body: Any = None, *, token: str | None = TOKEN) -> tuple[int, Any]:
        """Send one request to the gateway's own address."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return fetch(f"http://127.0.0.1:{self.house.port}{path}", body, method, headers)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(60)


@contextmanager
def gateway_of(house: OpenClawHome) -> Iterator[Gateway]:
    """Run a gateway over this home until the end of the block. Wait until it answers."""
    log = house.folder / f"gateway-{time.monotonic_ns()}.log"
    command = [house.programs.node, house.programs.openclaw, "gateway", "run", "--port", str(house.port), "--verbose"]
    with log.open("wb") as said:
        process = subprocess.Popen(command, cwd=house.workspace, env=house.environ, stdout=said, stderr=said)
    running = Gateway(house, process, log)
    try:
        until(lambda: process.poll() is not None or answers(house.port), "the gateway listens")
        assert process.poll() is None, running.said()[-3000:]
        yield running
    finally:
        running.stop()


def answers(port: int) -> bool:
    """Return whether the gateway accepts requests."""
    with suppress(OSError):
        return fetch(f"http://127.0.0.1:{port}/healthz")[0] == 200
    return False


def fetch(url: str, body: Any = None, method: str = "GET", headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """Return the status and body of one request, parsed if it is JSON."""
    sent = None if body is None else json.dumps(body).encode()
    said = {"content-type": "application/json", **(headers or {})}
    asked = urllib.request.Request(url, data=sent, headers=said, method=method)  # noqa: S310 - this machine's
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:  # noqa: S310
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text.decode("utf-8", "replace")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port: int = tried.getsockname()[1]
    return port


def play(*turns: Sequence[Mapping[str, Any]], say: str = "All is done.") -> str:
    """Return a message that makes the model call these tools, one list per turn."""
    return f"PLAY:{json.dumps(turns)} SAY:{say}"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def hidden(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a call through its wrapper of a tool that OpenClaw hides from the model."""
    return call("tool_call", id=name, args=arguments)
