"""Test that nothing Callosum starts runs code from an agent's working folder or from its host's variables."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from callosum import launch
from callosum.client.local import local_client
from callosum.errors import GateUnavailable
from callosum.hosts import native
from callosum.hosts.openclaw import FOLDER
from callosum.hosts.openclaw import install as openclaw
from callosum.model import Call
from callosum.server.listeners import running
from callosum.sockets import hung_path, leave_origin, note_hung, origin, origin_path, socket_path
from tests.acceptance.command import run
from tests.support import hooks
from tests.support.planted import Planted
from tests.support.serving import end_gates, until
from tests.support.serving import launch as serve
from tests.support.standing import impostor

MAIL = {"to": "bob@example.com", "subject": "Lunch", "body": "Shall we meet at noon on Friday for lunch?"}
ECHO = """
while read -r line; do
  case $line in
  *'"initialize"'*) printf '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"echo","version":"1"}}}\\n' ;;
  *tools/call*) printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%s %s %s"}]}}\\n' "$PWD" "$PYTHONPATH" "$(env | grep -c ^CALLOSUM_)" ;;
  esac
done
"""


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Planted]:
    """Return the folder of a hostile repository. Nothing in it may have run."""
    made = Planted(tmp_path / "repository")
    yield made
    assert made.ran == ""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Yield a state folder. If a gate was started, check its safe command line and end it."""
    folder = tmp_path / "state"
    yield folder
    try:
        check_gates(folder)
    finally:
        end_gates(folder)


def check_gates(folder: Path) -> None:
    """Check that the gates of a state folder were started isolated, in ``/`` and without the host's variables."""
    log = folder / "server.log"
    assert not log.exists() or "preload" not in log.read_text(), "the linker has read the host's variable"
    for one in running(folder) if Path("/proc/self").exists() else ():
        assert Path(f"/proc/{one.process.pid}/cwd").resolve() == Path("/")
        words = Path(f"/proc/{one.process.pid}/cmdline").read_text().split("\0")
        assert words[:3] == [sys.executable, "-I", f"{launch.root()}/callosum/launch.py"]
        inherited = Path(f"/proc/{one.process.pid}/environ").read_text()
        assert "PYTHON" not in inherited
        assert "LD_PRELOAD" not in inherited


def write_script(state: Path, kind: str = hooks.KINDS[0]) -> Path:
    state.mkdir(mode=0o700, exist_ok=True)
    return hooks.written(state, kind)


def send(script: Path, session: str, tool: str, params: dict[str, Any], **options: Any) -> str:
    """Send a call through the hook script. Return its answer."""
    payload = {
        "hook_event_name": "PreToolUse",
        "session_id": session,
        "cwd": "/repo",
        "tool_name": tool,
        "tool_input": params,
        "tool_use_id": f"{session}-{os.urandom(4).hex()}",
    }
    done = subprocess.run(
        [script, "claude-code"],
        input=json.dumps(payload).encode(),
        capture_output=True,
        timeout=60,
        **options,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout.decode())


def test_planted_files_run_without_the_protection(tmp_path: Path) -> None:
    """Negative control: without the safe command line the same folder and variables run the planted code."""
    planted = Planted(tmp_path / "repository")
    for name in ("PYTHONHOME", "PYTHONPATH", "PYTHONPLATLIBDIR"):
        planted.variables.pop(name)
    subprocess.run(
        [sys.executable, "-m", "callosum.cli", "--version"],
        cwd=planted.folder, env=planted.environ, capture_output=True, check=False,
    )  # fmt: skip
    assert planted.ran


def test_hook_starts_a_gate_that_decides(planted: Planted, state: Path) -> None:
    script = write_script(state)
    host = {"cwd": planted.folder, "env": planted.environ}
    assert send(script, "A", "mcp__mail__send_email", MAIL, **host) == ""
    assert "bob@example.com" in send(script, "B", "mcp__mail__send_email", MAIL, **host)
    assert len(running(state)) == 1
    check_gates(state)
    assert planted.ran == ""


def test_hook_decides_a_command_without_a_gate(planted: Planted, state: Path) -> None:
    script = write_script(state)
    (state / "server.log").mkdir()  # no gate can start
    host = {"cwd": planted.folder, "env": planted.environ}
    assert send(script, "A", "Bash", {"command": "ls"}, **host) == ""
    assert "may have tier" in send(script, "A", "Bash", {"command": "rm -rf /srv"}, **host), "its own rules hold"
    (state / "server.log").rmdir()


def test_library_starts_a_gate(planted: Planted, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in planted.variables.items():
        if not name.startswith(("CALLOSUM_", "LD_")):
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(planted.folder)
    with local_client(state, deadline=10) as client:
        assert not client.intercept(Call("mira", "Read", {"file_path": "/repo/a.py"})).fallback
        assert client.health()["status"] == "ok"


def test_library_passes_its_settings_to_the_gate_with_absolute_paths(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.json").write_text('{"rules": [{"name": "mine", "tier": 4, "tool": "Read", "contextKey": "mine"}]}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALLOSUM_RULES", "own.json")
    with local_client(state, deadline=10) as client:
        assert client.intercept(Call("mira", "Read", {"file_path": "/repo/a.py"})).rule == "mine"


def test_server_starts_in_the_background(planted: Planted, state: Path) -> None:
    variables = {name: value for name, value in planted.environ.items() if not name.startswith("CALLOSUM_")}
    options = ("--state", str(state), "--socket", socket_path(state), "--config", str(state.parent / "own.toml"))
    (state.parent / "own.toml").write_text("")
    subprocess.run(
        launch.command("serve", "--background", *options),
        cwd=planted.folder, env=variables, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert send(write_script(state), "A", "mcp__mail__send_email", MAIL) == ""


@pytest.mark.parametrize("wrapped", [True, False], ids=["wrap", "own server"])
def test_mcp_server_entry_starts(planted: Planted, state: Path, tmp_path: Path, wrapped: bool) -> None:
    if not wrapped:
        pytest.importorskip("mcp", reason="the gate's own MCP server is NOT tested: there is no mcp")
    script = tmp_path / "echo.sh"
    script.write_text(ECHO)
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"echo": {"command": "/bin/sh", "args": [str(script)]}}}))
    assert run(state, "install", "mcp", str(config), "--yes").returncode == 0
    entry = json.loads(config.read_text())["mcpServers"]["echo"]
    words = [entry["command"], *entry["args"]]
    if not wrapped:
        words = [*words[: words.index("mcp") + 1]]
    variables = {
        name: value for name, value in planted.environ.items() if name not in ("CALLOSUM_CONFIG", "LD_PRELOAD")
    }
    (planted.folder / "callosum.toml").unlink()
    variables |= {
        "CALLOSUM_STATE": str(state),
        "CALLOSUM_TOKEN": "made-up",
        "CALLOSUM_STORE": f"sqlite:///{state}/gate.db",
    }
    asked: list[dict[str, Any]] = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "read_note", "arguments": {}}},
    ]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=planted.folder, env=variables
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if not wrapped:
                process.stdin.write(json.dumps(asked[0]).encode() + b"\n")
                process.stdin.flush()
                assert b"callosum" in process.stdout.readline().lower()
                return
            until(lambda: running(state))  # it starts the gate by itself
            for message in asked:
                process.stdin.write(json.dumps(message).encode() + b"\n")
                process.stdin.flush()
                if message["method"] == "initialize":
                    assert b"serverInfo" in process.stdout.readline()
            answer = process.stdout.readline().decode()
        finally:
            process.kill()
    assert f"{planted.folder} {planted.variables['PYTHONPATH']} 0" in answer, (
        "the host's folder and variables, less ours"
    )


def test_openclaw_plugin_starts_a_gate(planted: Planted, state: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("OpenClaw's plugin is NOT tested: there is no node")
    made = openclaw.installed({}, openclaw.OpenClawOptions(state=state, command=tuple(launch.command())))
    config = {**made["plugins"]["entries"]["callosum"]["config"], "deadline": 5000}
    code = (
        f"import {{ Gate }} from '{FOLDER}/gate.js'; const gate = new Gate({json.dumps(config)}, console.error);"
        "const up = await gate.start(); console.log(JSON.stringify([up, (await gate.ask('GET', '/health')).status]));"
        "process.exit(0)"
    )
    variables = {name: value for name, value in planted.environ.items() if name not in ("LD_PRELOAD", "OPENSSL_CONF")}
    done = subprocess.run(
        [node, "--input-type=module", "-e", code],
        cwd=planted.folder,
        env=variables,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == (b'[true,"ok"]', 0), done.stderr


def test_openclaw_plugin_drops_the_same_variables() -> None:
    text = (FOLDER / "start.js").read_text()
    for name in (*launch.DROPPED, *launch.DROPPED_PREFIXES):
        assert f'"{name}"' in text
    listed = text.partition("new Set([")[2].partition("])")[0]
    assert listed.count('"') == 2 * len(launch.DROPPED)


def test_demo_sessions_start(planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from callosum.cli.demo_run.runner import DemoProcess  # noqa: PLC0415 - needs the extra `demo`
    from callosum.cli.demo_run.world import World  # noqa: PLC0415

    pytest.importorskip("aiosmtpd", reason="the demo's sessions are NOT tested: there is no aiosmtpd")
    monkeypatch.chdir(planted.folder)
    for name, value in planted.variables.items():
        if not name.startswith(("CALLOSUM_", "LD_")):
            monkeypatch.setenv(name, value)
    folder = tmp_path / "world"
    folder.mkdir()
    world = object.__new__(World)
    world.folder, world.port = folder, 1
    with DemoProcess("mira", world, "") as actor:
        actor.ready()


def test_hook_of_a_remote_server_updates_its_table(planted: Planted, state: Path) -> None:
    state.mkdir(mode=0o700)
    words = launch.command(str(state), "claude-code", run="callosum.hosts.remote:main")
    subprocess.run(words, cwd=planted.folder, env=planted.environ, check=True, capture_output=True, timeout=60)


def test_files_beside_the_package_are_not_imported(planted: Planted, tmp_path: Path) -> None:
    """An editable installation may lie in a folder in which agents work."""
    package = tmp_path / "work" / "callosum"
    shutil.copytree(Path(launch.root()) / "callosum", package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in planted.folder.glob("*.py"):
        shutil.copy(path, package.parent)
    done = subprocess.run(
        [sys.executable, "-I", package / "launch.py", "status", "--state", str(tmp_path / "none")],
        cwd=package.parent, env=planted.environ, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_user_installation_works_without_its_variables(state: Path, tmp_path: Path) -> None:
    """As after ``pip install --user``: ``-I`` skips the packages, and the interpreter belongs to the system."""
    python = getattr(sys, "_base_executable", sys.executable)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    user = tmp_path / "base" / "lib" / version / "site-packages"
    user.mkdir(parents=True)
    shutil.copytree(Path(launch.root()) / "callosum", user / "callosum", ignore=shutil.ignore_patterns("__pycache__"))
    ours = Path(sys.prefix) / "lib" / version / "site-packages"
    for path in ours.iterdir():
        if "callosum" not in path.name and path.suffix != ".pth" and not (user / path.name).exists():
            (user / path.name).symlink_to(path)
    home = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    (tmp_path / "home").mkdir()
    done = subprocess.run(
        [python, "-m", "callosum.cli", "install", "claude-code", "--yes", "--state", str(state)],
        env={**home, "PYTHONUSERBASE": str(tmp_path / "base")}, cwd=tmp_path / "home",
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    script = hooks.installed(state)
    beside = script.with_name(script.name + native.CONFIGURATION)
    written = (beside if beside.exists() else script).read_bytes()
    assert re.search(rb"--import\s(offline )?" + re.escape(os.fsencode(user)), written)
    try:
        assert send(script, "A", "mcp__mail__send_email", MAIL, env=home, cwd="/") == ""
        assert "bob@example.com" in send(script, "B", "mcp__mail__send_email", MAIL, env=home, cwd="/")
        said = Path(origin_path(socket_path(state))).read_text().splitlines()
        assert said[2] == str(user)
    finally:
        for one in running(state):
            os.kill(one.process.pid, signal.SIGTERM)
            until(lambda: not running(state))


def test_gate_uses_the_settings_file_of_the_installation(state: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "rules.json").write_text(
        '{"rules": [{"name": "mine", "tier": 4, "tool": "Read", "contextKey": "mine"}]}'
    )
    (project / "callosum.toml").write_text('rules = "rules.json"')
    home = {"HOME": str(tmp_path)}
    done = run(state, "install", "claude-code", "--yes", "--config", str(project / "callosum.toml"), env=home)
    assert done.returncode == 0, done
    script = hooks.installed(state)
    assert send(script, "A", "Read", {"file_path": "/repo/a.py"}, cwd="/") == ""
    assert "mine" in send(script, "B", "Read", {"file_path": "/repo/a.py"}, cwd="/")


def test_project_cannot_name_a_command_to_run(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "callosum.toml").write_text('notify = ["touch", "ran"]')
    done = subprocess.run(
        launch.command("watch", "--once", "--state", str(tmp_path / "state")),
        cwd=project, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "callosum.toml: notify" in done.stderr
    assert "--config" in done.stderr
    named = run(tmp_path / "state", "watch", "--once", "--config", str(project / "callosum.toml"))
    assert "notify" not in named.stderr


@pytest.mark.parametrize("other", ["nothing said", "another folder", "another interpreter", "another process"])
def test_gate_of_another_installation_is_not_asked(state: Path, other: str) -> None:
    heard = []
    script = write_script(state)
    path = Path(origin_path(socket_path(state)))

    def listen(channel: socket.socket) -> None:
        heard.append(channel.recv(65536))

    with impostor(socket_path(state), listen):
        pid, programs, root = path.read_text().splitlines()
        lines = {
            "nothing said": [],
            "another folder": [pid, programs, "/repo"],
            "another interpreter": [pid, "/opt/other/bin", root],
            "another process": ["1", programs, root],
        }[other]
        path.write_text("\n".join((*lines, "")))
        refused = send(script, "A", "mcp__mail__send_email", MAIL)
    assert "The gate is unreachable" in refused
    assert f"process {os.getpid()}, which listens there" in refused
    assert [piece for piece in heard if piece] == [], "nothing was told to it"


def test_process_in_place_of_a_gate_is_not_asked(state: Path) -> None:
    script = write_script(state)
    heard = []
    server = serve(state, "--socket", socket_path(state))
    try:
        assert send(script, "A", "mcp__mail__send_email", MAIL) == ""
        said = Path(origin_path(socket_path(state))).read_text()
        Path(socket_path(state)).unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(socket_path(state))
            listening.listen(16)
            assert Path(origin_path(socket_path(state))).read_text() == said
            refused = send(script, "B", "mcp__mail__send_email", MAIL)
            listening.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    channel, _ = listening.accept()
                    with channel:
                        heard.append(channel.recv(65536))
        assert "does not name its installation" in refused
        assert not any(heard)
    finally:
        server.kill()


@pytest.mark.skipif("native" not in hooks.KINDS, reason="the native hook client is NOT tested: `make native` builds it")
def test_native_hook_is_not_deceived_by_a_record_that_names_another_process(state: Path) -> None:
    """The script has to trust a record that names a process of this installation; the kernel knows the listener."""
    heard: list[bytes] = []
    path = socket_path(state)
    hook = write_script(state)
    with impostor(path, lambda channel: heard.append(channel.recv(65536))):
        other = subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=subprocess.PIPE)
        try:
            Path(origin_path(path)).write_text("\n".join((str(other.pid), *origin(), "")))
            refused = send(hook, "A", "mcp__mail__send_email", MAIL)
        finally:
            other.communicate(b"\n")
    assert "does not name its installation" in refused
    assert not any(heard)


@pytest.mark.skipif(os.geteuid() != 0, reason="a gate of another user is NOT tested: that takes root")
def test_gate_of_another_user_is_not_asked(state: Path) -> None:
    script = write_script(state)
    path = socket_path(state)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        leave_origin(path)
        told, tell = os.pipe()
        if not (child := os.fork()):  # the kernel remembers the process that calls listen()
            os.setresuid(65534, 65534, 65534)
            listening.listen(4096)
            os.write(tell, b"x")
            signal.pause()
        try:
            os.close(tell)
            assert os.read(told, 1) == b"x"
            Path(origin_path(path)).write_text("\n".join((str(child), *origin(), "")))
            os.chown(path, 65534, 65534)
            assert "belongs to another user (65534)" in send(script, "A", "mcp__mail__send_email", MAIL)
            with local_client(state, deadline=1) as client, pytest.raises(GateUnavailable, match="another user"):
                client.intercept(Call("mira", "delete_database", {"name": "shop"}))
            listening.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    channel, _ = listening.accept()
                    with channel:
                        assert channel.recv(65536) == b""
        finally:
            os.close(told)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_installing_again_replaces_the_gate_of_another_installation(state: Path, tmp_path: Path) -> None:
    server = serve(state, "--socket", socket_path(state))
    path = Path(origin_path(socket_path(state)))
    path.write_text(path.read_text().replace(launch.root(), "/elsewhere"))
    home = {"HOME": str(tmp_path)}
    found = json.loads(run(state, "doctor", "--json", env=home).stdout)["findings"]
    assert all(one["check"] != "gate" for one in found), "no hook asks it"
    assert run(state, "install", "claude-code", "--yes", env=home).returncode == 0
    assert server.process.wait(20) == 0
    assert send(hooks.installed(state), "A", "mcp__mail__send_email", MAIL) == ""


def test_doctor_names_the_gate_of_another_installation(state: Path, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert run(state, "install", "claude-code", "--yes", env=home).returncode == 0
    with impostor(socket_path(state), lambda channel: None):
        path = Path(origin_path(socket_path(state)))
        path.write_text(path.read_text().replace(launch.root(), "/elsewhere"))
        found = {one["check"]: one for one in json.loads(run(state, "doctor", "--json", env=home).stdout)["findings"]}
    assert found["gate"]["level"] == "wrong"
    assert "another installation" in found["gate"]["says"]
    assert "callosum install" in found["gate"]["advice"]


def test_hook_does_not_ask_a_hung_gate_for_a_while(state: Path) -> None:
    script = write_script(state)
    path = socket_path(state)
    (state / "fallback.json").write_text('{"tools": {"Read": 0}}')
    asked: list[socket.socket] = []
    with impostor(path, asked.append):
        assert send(script, "A", "Read", {"file_path": "/repo/a.py"}) == ""
        assert len(asked) == 1, "one call waits in vain"
        for tool, params, answer in (("Read", {"file_path": "/repo/a.py"}, ""), ("mail", MAIL, "is unreachable")):
            assert Path(hung_path(path)).read_text()
            note_hung(path)  # just now, however slow this machine is
            assert answer in send(script, "A", tool, params)
            assert len(asked) == 1
        Path(hung_path(path)).write_text("1\n")  # long ago
        assert send(script, "A", "Read", {"file_path": "/repo/a.py"}) == ""
        assert len(asked) == 2, "then it is tried again"
        for odd in ("x", "a[$(touch ran)]", "9" * 30):
            Path(hung_path(path)).write_text(odd)
            assert send(script, "A", "Read", {"file_path": "/repo/a.py"}, cwd=state) == ""
            assert not (state / "ran").exists()


def test_gate_that_answers_again_is_asked_again(state: Path) -> None:
    script = write_script(state)
    server = serve(state, "--socket", socket_path(state))
    mark = Path(hung_path(socket_path(state)))
    try:
        server.process.send_signal(signal.SIGSTOP)
        assert "The gate is unreachable" in send(script, "A", "mcp__mail__send_email", MAIL)
        assert mark.read_text()
        server.process.send_signal(signal.SIGCONT)
        mark.write_text("1\n")  # the five seconds have passed
        assert send(script, "B", "Read", {"file_path": "/repo/a.py"}) == ""
        assert mark.read_text() == "", "the next call does not look at the clock"
        assert [one["tool"] for one in server.get("/journal")["entries"] if one["session"] == "claude-code/B"] == [
            "Read"
        ]
    finally:
        server.kill()


def test_mark_that_cannot_be_written_blocks_no_call(state: Path) -> None:
    script = write_script(state)
    server = serve(state, "--socket", socket_path(state))
    try:
        Path(hung_path(socket_path(state))).mkdir()
        assert send(script, "A", "Read", {"file_path": "/repo/a.py"}) == ""
        assert "file:/repo/a.py" in str(server.get("/journal"))
    finally:
        server.kill()


def test_hook_without_curl_skips_a_hung_gate_too(state: Path, tmp_path: Path) -> None:
    script = write_script(state, "script")
    path = socket_path(state)
    (state / "fallback.json").write_text('{"tools": {"Read": 0}}')
    script.write_text(script.read_text().replace(str(shutil.which("curl")), str(tmp_path / "none")))
    asked: list[socket.socket] = []
    with impostor(path, asked.append):
        assert send(script, "A", "Read", {"file_path": "/repo/a.py"}) == ""
        assert Path(hung_path(path)).read_text()
        note_hung(path)
        assert send(script, "A", "Read", {"file_path": "/repo/a.py"}) == ""
    assert len(asked) == 1
