"""Add a new host to a copy of the package with one file and one line, and gate it from end to end.

The copy runs like an installation, with its own command and hook and the gate that this hook starts.
"""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import callosum
from tests.acceptance.command import ROOT
from tests.support.serving import end_gates, until

DESCRIPTION: Final = '''
"""Acme Agent."""

from callosum.programs.program import HookSubscription, Program


class Acme(Program):
    name = "acme"
    title = "Acme Agent"
    program = "acme-agent"
    package = "@acme/agent"
    oldest = (1, 2, 0)
    older = "it calls no hooks"
    variables = ("ACME_",)
    profile = frozenset(("ACME_HOME",))
    folder = ".acme"
    file = "hooks.json"
    folder_variable = "ACME_HOME"
    guards = (".acme/hooks.json",)
    events = {
        "SessionOpened": HookSubscription("start"),
        "PromptGiven": HookSubscription("prompt"),
        "CallRequested": HookSubscription("asks", "*"),
        "CallReturned": HookSubscription("done", "*", reports=True),
        "TurnOver": HookSubscription("stop"),
        "SessionClosed": HookSubscription("end"),
    }
    shell = "run_command"
    timeout = 30

    def denial(self, reason):
        return {"permitted": False, "because": reason}


HOST = Acme()
'''
FOREIGN: Final = (
    '{\n   "theme": "dark",\n   "hooks": {"TurnOver": [{"hooks": [{"type": "command", "command": "beep"}]}]}\n}\n'
)
MAIL: Final = {"to": "bob@example.com", "subject": "Lunch", "body": "Shall we meet at noon on Friday for lunch?"}
Said = tuple[int, dict[str, Any]]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package with the host in it, and with the hook client if a compiler is available."""
    folder = tmp_path_factory.mktemp("installation")
    made = folder / "callosum"
    clients = [path.name for path in Path(callosum.__file__).parent.glob("hosts/native/*-*")]
    shutil.copytree(Path(callosum.__file__).parent, made, ignore=shutil.ignore_patterns("__pycache__", *clients))
    (made / "programs" / "acme.py").write_text(DESCRIPTION)
    listed = made / "programs" / "__init__.py"
    text = listed.read_text()
    assert text.count('    "openclaw",\n') == 1
    listed.write_text(text.replace('    "openclaw",\n', '    "openclaw",\n    "acme",\n'))
    if importlib.util.find_spec("ziglang") is not None:
        build = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]; from release.client import main; main()"
        subprocess.run([sys.executable, "-c", build], check=True, cwd="/", capture_output=True, timeout=300)
    return made


class Home:
    """Return a user's home with the copy's command in it. ``kind`` is the hook that the settings request."""

    def __init__(self, folder: Path, package: Path, kind: str) -> None:
        self.folder, self.state, self.kind = folder, folder / "state", kind
        self._command = [sys.executable, "-I", str(package / "launch.py"), "--import", _site()]
        self._env = {"HOME": str(folder), "PATH": f"{folder / 'bin'}:/usr/bin:/bin", "CALLOSUM_HOOK": kind}
        self.settings = folder / ".acme" / "hooks.json"
        self.settings.parent.mkdir()
        self.settings.write_text(FOREIGN)
        program = folder / "bin" / "acme-agent"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\necho 'acme-agent 1.4.0'\n")
        program.chmod(0o700)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *words, "--state", str(self.state)],
            env=self._env, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def doctor(self) -> dict[str, tuple[str, str]]:
        """Return level and sentence of each check of the host."""
        found = json.loads(self.run("doctor", "--json").stdout)["findings"]
        return {one["check"].removeprefix("acme "): (one["level"], one["says"]) for one in found if one.get("host")}

    def command(self, event: str) -> str:
        """Return the shell command for an event as the settings have it."""
        (group,) = [one for one in json.loads(self.settings.read_text())["hooks"][event] if "callosum" in str(one)]
        return str(group["hooks"][0]["command"])

    def send(self, event: str, session: str = "A", payload: bytes = b"", **said: Any) -> Said:
        """Call the hook as the host does. Return its exit code and output."""
        words = {"hook_event_name": event, "session_id": session, "cwd": str(self.folder), **said}
        done = subprocess.run(
            ["/bin/sh", "-c", self.command(event)],
            input=payload or json.dumps(words).encode(), env=self._env, cwd=self.folder, capture_output=True,
            timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout or b"{}")

    def ask(self, session: str, id: str, tool: str, params: dict[str, Any]) -> Said:
        return self.send("CallRequested", session, tool_name=tool, tool_input=params, tool_use_id=id)

    def journal(self) -> list[dict[str, Any]]:
        lines = self.run("journal", "--json").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def gate(self) -> int:
        (found,) = (self.state / "servers").glob("*.json")
        return int(found.stem)


def _site() -> str:
    """Return the folder with the packages that the copy needs."""
    spec = importlib.util.find_spec("msgspec")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parents[1])


@pytest.fixture(params=["native", "script"])
def home(request: pytest.FixtureRequest, tmp_path: Path, package: Path) -> Iterator[Home]:
    if request.param == "native" and not [*package.glob("hosts/native/*-*")]:
        pytest.skip("the native hook client is NOT tested: there is no compiler (ziglang)")
    made = Home(tmp_path, package, request.param)
    yield made
    end_gates(made.state)


def test_host_described_in_one_file_is_installed_inspected_gated_and_uninstalled(home: Home) -> None:
    assert "acme" in home.run("install", "--help").stdout
    assert home.doctor() == {"entries": ("advice", "Acme Agent does not ask the gate")}

    done = home.run("install", "acme", "--yes")
    assert (done.returncode, "Done. acme asks the gate" in done.stdout) == (0, True), done
    written = json.loads(home.settings.read_text())
    assert written["theme"] == "dark"
    assert [*written["hooks"]] == "TurnOver SessionOpened PromptGiven CallRequested CallReturned SessionClosed".split()
    assert ("callosum-hook-native" in home.command("CallRequested")) is (home.kind == "native")
    assert "exit 2" in home.command("CallRequested"), "what asks fails closed"
    assert home.command("CallReturned").endswith("acme report || true"), "nobody waits for a report"

    # allow: the hook starts the gate
    assert home.send("SessionOpened") == (0, {})
    assert home.ask("A", "a1", "send_email", MAIL) == (0, {})
    # block: in the host's format
    code, said = home.ask("B", "b1", "send_email", MAIL)
    assert (code, said["permitted"], "bob@example.com" in said["because"]) == (0, False, True), said
    # its settings and processes are guarded like those of any host
    for tool, params in (
        ("run_command", {"command": "echo '{}' > ~/.acme/hooks.json"}),
        ("run_command", {"command": 'rm "$ACME_HOME/hooks.json"'}),
        ("write_file", {"file_path": f"{home.folder}/.acme/hooks.json", "content": "{}"}),
        ("run_command", {"command": "acme-agent plugins disable callosum"}),
    ):
        code, said = home.ask("A", f"guard-{params}", tool, params)
        assert (code, said.get("permitted"), "protects Callosum itself" in str(said)) == (0, False, True), (
            params,
            said,
        )
    # report: its call ends, and the key is free
    assert home.send(
        "CallReturned", tool_name="send_email", tool_input=MAIL, tool_use_id="a1", tool_response={"sent": True}
    ) == (0, {})  # fmt: skip
    until(lambda: [one for one in home.journal() if one["event"] == "complete" and one["session"] == "acme/A"])

    found = home.doctor()
    levels = {check: level for check, (level, _) in found.items()}
    assert levels == dict.fromkeys(("entries", "version", "script", "canary", "heard"), "ok"), found
    assert "Acme Agent 1.4.0" in found["version"][1]

    # unreachable: reads continue, everything else is refused in the host's format
    os.kill(home.gate(), signal.SIGSTOP)
    assert home.ask("A", "a2", "read_file", {"file_path": "/etc/hosts"}) == (0, {})
    code, said = home.ask("A", "a3", "send_email", MAIL)
    assert (code, said["permitted"], "is unreachable" in said["because"]) == (0, False, True), said
    # an unclassifiable event is refused if it asks, by the names of this host's events
    broken = b'{"hook_event_name": "%s", '
    assert home.send("CallRequested", payload=broken % b"CallRequested")[0] == 2
    assert home.send("TurnOver", payload=broken % b"TurnOver")[0] == 0
    os.kill(home.gate(), signal.SIGCONT)
    until(lambda: [one for one in home.journal() if one["event"] == "late" and one["tool"] == "read_file"])

    assert home.run("uninstall", "acme", "--yes").returncode == 0
    assert home.settings.read_text() == FOREIGN
    assert home.doctor() == {"entries": ("advice", "Acme Agent does not ask the gate")}
