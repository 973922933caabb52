"""Run the real Codex CLI in its own home, with a model scripted by the test."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.home import PATIENCE, Home
from tests.e2e.hosts import installed, program_in
from tests.e2e.models import Model

NATIVE = "@openai/codex-*/vendor/*/bin/codex"
"""Return the program. The platform's package contains it, and it needs no Node."""
CONFIG = """\
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{address}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[features]
plugins = false
remote_plugin = false

[analytics]
enabled = false

[projects."{project}"]
trust_level = "trusted"
"""


class CodexHome(Home):
    """A home for Codex. ``model`` is the model that Codex assumes, on which its tools depend."""

    def __init__(self, folder: Path, program: Path, scripted: Model, model: str) -> None:
        self.program, self.config = program, folder / "codex" / "config.toml"
        words = [str(program), "exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access"]
        super().__init__(folder, "codex", words, {"CODEX_HOME": str(folder / "codex"), "SCRIPTED_KEY": "none"})
        self.config.parent.mkdir()
        self.config.write_text(CONFIG.format(model=model, address=scripted.address, project=self.project))

    def hooks(self) -> list[dict[str, Any]]:
        """Return Codex's own data about the installed hooks: ``key``, ``currentHash``, ``trustStatus``, ..."""
        asked: list[dict[str, Any]] = [
            {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
            {"method": "initialized"},
            {"id": 2, "method": "hooks/list", "params": {"cwds": [str(self.project)]}},
        ]
        with subprocess.Popen(
            [self.program, "app-server"],
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server:
            assert server.stdin
            assert server.stdout
            try:
                for message in asked:
                    server.stdin.write(json.dumps(message) + "\n")
                    server.stdin.flush()
                for line in server.stdout:
                    answer = json.loads(line)
                    if answer.get("id") == 2:
                        assert "result" in answer, answer
                        return [hook for folder in answer["result"]["data"] for hook in folder["hooks"]]
            finally:
                server.stdin.close()
                server.wait(PATIENCE)
        raise AssertionError("Codex did not list its hooks")

    def gated(self) -> None:
        """Install the gate and trust the hooks."""
        self.callosum("install", "codex", "--yes")
        self.trust()

    def trust(self) -> None:
        """Write the result of a user's review of the hooks."""
        with self.config.open("a") as config:
            for hook in self.hooks():
                config.write(f'\n[hooks.state.{json.dumps(hook["key"])}]\ntrusted_hash = "{hook["currentHash"]}"\n')


@pytest.fixture(scope="session")
def program() -> Path:
    return program_in(installed("codex"), NATIVE)


@pytest.fixture
def make_home(tmp_path: Path, program: Path, scripted: Model) -> Iterator[Callable[..., CodexHome]]:
    """Return a function that makes a home; ``model`` is as in ``CodexHome``."""
    with ExitStack() as stack:

        def make(model: str = "scripted") -> CodexHome:
            made = CodexHome(tmp_path, program, scripted, model)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def home(make_home: Callable[..., CodexHome]) -> CodexHome:
    """Return a home whose Codex is gated and whose user has trusted the hooks."""
    made = make_home()
    made.gated()
    return made
