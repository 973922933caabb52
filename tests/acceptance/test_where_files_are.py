"""The gate reads files only for callers that could read them: its own user's processes that see the same files.

Each caller is a real process: of another user, behind a forwarder, in another mount namespace or below another root.
"""

import ctypes
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from callosum import Call, Verdict
from callosum.client import CallosumClient
from callosum.errors import CallosumError
from callosum.hosts.hook_entries import missing
from callosum.hosts.install import plan_install
from callosum.hosts.script import hook_of
from callosum.hosts.setup import InstallTarget, wanted_in
from callosum.loopback import TOKEN, is_from_near, is_near, is_own_listener, make_token, read_token
from callosum.process import host_of, this_process
from callosum.programs import NAMED
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Role, Tokens
from callosum.settings import Settings
from tests.support.serving import Server, serving, until

NOBODY = 65_534
SECRET = "the code word is heron"
PROCESS = this_process()
TEXT = f"Monday: met the notary.\nTuesday: {SECRET}.\n"
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="NOT tested: only Linux names the peers")
root = pytest.mark.skipif(os.geteuid() != 0, reason="NOT tested: only root can start a process of another user")


def in_process(act: Callable[[], Any], prepare: Callable[[], object] = lambda: None) -> Any:
    """Return what ``act`` returns in a forked child, after ``prepare`` in it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            prepare()
            found = json.dumps(act()).encode()
        except BaseException as error:  # noqa: BLE001 - the parent raises it
            found = json.dumps({"failed": repr(error)}).encode()
        os.write(write, found)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = json.loads(pipe.read())
    os.waitpid(child, 0)
    assert not (isinstance(answer, dict) and "failed" in answer), answer
    return answer


def attack(server: Server, file: Path, name: str, **asking: Any) -> str:
    """Make the gate compare a write with a file that the session has not read; return all that it answers.

    This is what a process needs to see a file of the gate's user: it claims to have written the file's base.
    """
    answers = []

    def hook(event: str, call: str, content: str, **more: Any) -> None:
        tool = {"tool_name": "Write", "tool_input": {"file_path": str(file), "content": content}, "tool_use_id": call}
        body = {"hook_event_name": event, "session_id": f"evil-{name}", "cwd": "/tmp", **tool, **more}
        answers.append(server.ask("POST", f"/hooks/claude-code?pid={PROCESS.pid}", body, **asking).text)

    hook("PreToolUse", "1", "a\n")
    hook("PostToolUse", "1", "a\n", tool_response={"type": "create", "filePath": str(file), "content": "a\n"})
    other = {"instance": "claude-code", "session": f"other-{name}"}
    asked = {"tool": "Write", "params": {"file_path": str(file), "content": "z\n"}, "cwd": "/tmp", "rewrite": True}
    host = [PROCESS.pid, PROCESS.started, PROCESS.machine]
    found = server.ask("POST", "/intercept", {**other, **asked, "host": host}, **asking)
    answers.append(found.text)
    done = {**other, "id": found.body["id"], "outcome": "done"}
    answers.append(server.ask("POST", "/complete", done, **asking).text)
    hook("PreToolUse", "2", "a\nb\n")
    hook("PreToolUse", "3", "x\na\n")
    return "\n".join(answers)


@contextmanager
def forwarder(server: Server, header: bytes = b"") -> Iterator[Server]:
    """Forward connections in a process of its own, as ``ssh -R`` does; with a header, as a reverse proxy does."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_forward, args=(client, server.host_and_port, header), daemon=True).start()
    try:
        port = listener.getsockname()[1]
        yield Server(server.process, server.state, f"http://127.0.0.1:{port}", server.log)
    finally:
        listener.close()
        os.kill(child, 9)
        os.waitpid(child, 0)


def _forward(client: socket.socket, to: tuple[str, int], header: bytes) -> None:
    with client, socket.create_connection(to) as gate:
        while True:
            for source in select.select([client, gate], [], [])[0]:
                data = source.recv(65_536)
                if not data:
                    return
                if source is client:
                    gate.sendall(data.replace(b"\r\n", b"\r\n" + header, 1) if data[:5] == b"POST " else data)
                else:
                    client.sendall(data)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on a port of the loopback, without tokens but the machine's own."""
    with serving(tmp_path_factory.mktemp("port") / "state") as server:
        yield server


@pytest.fixture(scope="module")
def own_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("socket")
    with serving(folder / "state", "--socket", str(folder / "gate.sock")) as server:
        yield server


def as_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def in_own_mount_namespace() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(0x20000):
        raise OSError(ctypes.get_errno(), "unshare")


def may_unshare() -> bool:
    return subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0


sandbox = pytest.mark.skipif(not may_unshare(), reason="NOT tested: this process may not make mount namespaces")


def sees(
    server: Server, folder: Path, name: str, around: Callable[[Callable[[], Any]], Any] | None = None, **asking: Any
) -> bool:
    """Return True if the gate shows a file to a caller that attacks it. The file is unchanged and not copied."""
    file = folder / f"{name}.txt"
    file.write_text(TEXT)
    file.chmod(0o600)

    def act() -> str:
        return attack(server, file, f"{folder.name}-{name}", **asking)

    text = act() if around is None else around(act)
    assert not any(SECRET.encode() in path.read_bytes() for path in server.state.glob("snapshots/*"))
    assert file.read_text() == TEXT
    return SECRET in text


@linux
def test_loopback_needs_the_machines_own_token(port: Server, tmp_path: Path) -> None:
    assert sees(port, tmp_path, "own", token=read_token(port.state))
    assert not sees(port, tmp_path, "none")


@linux
def test_no_other_token_shows_a_file(tmp_path: Path) -> None:
    state = tmp_path / "state"
    actor = Tokens(state / TOKENS).add("ann")
    with serving(state) as server:
        assert not sees(server, tmp_path, "actor", token=actor)
        assert sees(server, tmp_path, "own", token=read_token(state))


@linux
@root
def test_another_user_sees_no_file_whatever_token_it_has(port: Server, tmp_path: Path) -> None:
    def around(act: Callable[[], Any]) -> Any:
        return in_process(act, as_nobody)

    assert not sees(port, tmp_path, "none", around)
    assert not sees(port, tmp_path, "stolen", around, token=read_token(port.state))
    assert sees(port, tmp_path, "own", in_process, token=read_token(port.state))


@linux
@pytest.mark.parametrize("header", [b"X-Forwarded-For: 203.0.113.7", b"forwarded: for=203.0.113.7", b"Via: 1.1 proxy"])
def test_proxy_of_the_same_user_shows_no_file(port: Server, tmp_path: Path, header: bytes) -> None:
    with forwarder(port, header + b"\r\n") as proxy:
        assert not sees(proxy, tmp_path, "none")
        assert not sees(proxy, tmp_path, "own", token=read_token(port.state))


@linux
def test_forwarder_like_ssh_shows_no_file_without_the_machines_token(port: Server, tmp_path: Path) -> None:
    """Whoever sends the machine's token through a forwarder of the gate's user acts as that user."""
    with forwarder(port) as forwarded:
        assert not sees(forwarded, tmp_path, "none")
        assert sees(forwarded, tmp_path, "own", token=read_token(port.state))


@linux
@sandbox
def test_sandbox_with_socket_or_token_sees_no_file(port: Server, own_socket: Server, tmp_path: Path) -> None:
    def around(act: Callable[[], Any]) -> Any:
        return in_process(act, in_own_mount_namespace)

    assert not sees(own_socket, tmp_path, "socket", around)
    assert not sees(port, tmp_path, "token", around, token=read_token(port.state))
    assert sees(own_socket, tmp_path, "outside", in_process)


@linux
@root
def test_container_below_another_root_sees_no_file(own_socket: Server, tmp_path: Path) -> None:
    def enter() -> None:
        os.chdir(own_socket.state.parent)
        os.chroot(tmp_path)  # the working folder stays outside, and with it the socket

    below = Server(own_socket.process, own_socket.state, "unix:gate.sock", own_socket.log)
    assert not sees(below, tmp_path, "inside", lambda act: in_process(act, enter))
    assert sees(own_socket, tmp_path, "outside", in_process)


@linux
@pytest.mark.parametrize("own", [False, True])
def test_processes_that_a_foreign_caller_names_are_not_looked_up(port: Server, own: bool) -> None:
    """The lease of a process that has ended is free: if the gate does not look, the lease stays."""
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        token = read_token(port.state) if own else None
        process = host_of(sleeper.pid)
        host = [process.pid, process.started, process.machine]
        lock = {"contextKey": f"deploy:{own}", "tier": 4, "ttl": 300}
        assert port.post("/lock", {**lock, "instance": "ann", "host": host}, token=token)["acquired"]
        sleeper.kill()
        sleeper.wait()
        assert port.post("/lock", {**lock, "instance": "bob"}, token=token)["acquired"] is own


ACTS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/intercept", {"instance": "ann", "tool": "Read"}),
    ("POST", "/complete", {"instance": "ann", "id": 1}),
    ("POST", "/lock", {"instance": "ann", "contextKey": "file:/", "tier": 4}),
    ("POST", "/release", {"instance": "ann", "contextKey": "file:/"}),
    ("POST", "/renew", {"instance": "ann", "id": 1}),
    ("DELETE", "/lock/file%3A%2F", {"instance": "ann"}),
    ("POST", "/resolve", {"id": 1, "happened": True, "by": "ann/s"}),
    ("POST", "/events", {"type": "llm.token", "delta": "On", "instance": "ann"}),
    ("POST", "/late", {"calls": [{"call": {"instance": "ann", "tool": "read"}, "outcome": "done"}]}),
    ("POST", "/hooks/claude-code", {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Read"}),
    ("GET", "/brief?instance=ann", {}),
]


@linux
def test_acting_over_tcp_needs_a_token_once_an_actors_exists(tmp_path: Path) -> None:
    """The tokens of approvers and readers, and the machine's own, ask nobody for one."""
    state = tmp_path / "state"
    tokens = Tokens(state / TOKENS)
    tokens.add("looks", role=Role.READER)

    def refused(server: Server, token: str | None = None) -> list[str]:
        asked = [(path, server.ask(method, path, body or None, token=token)) for method, path, body in ACTS]
        assert all("callosum token add" in found.text for _, found in asked if found.status == 401)
        return [path for path, found in asked if found.status == 401]

    with serving(state) as server:
        assert refused(server) == []
        actor = tokens.add("ann")
        until(lambda: refused(server) == [path for _, path, _ in ACTS])
        assert server.ask("GET", "/journal").status == server.ask("GET", "/status").status == 200, "reading needs none"
        assert refused(server, actor) == refused(server, read_token(state)) == []
        with CallosumClient(server.address, state=state, deadline=10) as client:
            assert client.intercept(Call("ann", "Read", {"path": "/x"})).verdict is Verdict.ALLOW
            assert not client.intercept(Call("ann", "Read", {"path": "/x"})).fallback
        tokens.remove("ann")
        until(lambda: refused(server) == [])
    tokens.add("ann")
    with serving(state, "--socket", str(tmp_path / "gate.sock")) as server:
        assert refused(server) == [], "the gate's own socket needs none"


def test_32_a5_f8_http_entries_of_the_users_own_settings_alone_carry_the_machines_token(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path / "state")
    event = {**ACTS[9][2], "tool_use_id": "t", "tool_input": {"file_path": "/x"}, "cwd": "/"}
    Tokens(settings.state / TOKENS).add("ann")
    with serving(settings.state) as server:
        for project, status in ((None, 200), (tmp_path / "shared", 401)):
            where = InstallTarget(home=tmp_path, environ={}, project=project, url=server.address)
            (change,) = plan_install("claude-code", settings, where).changes
            found = json.loads(change.after or b"")
            hook, script = found["hooks"]["PreToolUse"][0]["hooks"][0], hook_of(settings)
            wanted = wanted_in(found, NAMED["claude-code"], str(script.path), bounded=script.native)
            assert not missing(found, wanted), "doctor finds them as they should be"
            token = hook.get("headers", {}).get("Authorization", "").removeprefix("Bearer ")
            path = hook["url"].removeprefix(server.address)
            assert server.ask("POST", path, event, token=token or None).status == status


@linux
@root
def test_client_sends_the_machines_token_to_no_listener_of_another_user(tmp_path: Path) -> None:
    make_token(tmp_path)
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        address = f"http://127.0.0.1:{port}"
        assert is_own_listener(port)
        read, write = os.pipe()

        def listen_as_nobody() -> None:
            as_nobody()
            with socket.create_server(("127.0.0.1", 0)) as other:
                os.write(write, b"%d\n" % other.getsockname()[1])
                accepted, _ = other.accept()
                os.write(write, accepted.recv(65_536).split(b"\r\n\r\n")[0])

        child = os.fork()
        if child == 0:
            listen_as_nobody()
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            address = f"http://127.0.0.1:{int(pipe.readline())}"
            with CallosumClient(address, state=tmp_path, deadline=10) as client, suppress(CallosumError):
                client.health()
            heard.append(pipe.read())
        os.waitpid(child, 0)
    assert heard[0].startswith(b"GET /health")
    assert b"uthorization" not in heard[0]


@linux
def test_machines_token_is_private_and_is_made_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state):
        first = read_token(state)
        assert first
        assert (state / TOKEN).stat().st_mode & 0o777 == 0o600
    with serving(state):
        assert read_token(state) == first
    (state / TOKEN).chmod(0o640)
    assert read_token(state) == ""
    with pytest.raises(PermissionError):
        make_token(state)
    (state / TOKEN).unlink()
    (state / TOKEN).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text(first)
    assert read_token(state) == ""


@linux
def test_owner_of_a_connection_is_found_in_every_spelling_of_its_address() -> None:
    for family, address, host in (
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::ffff:127.0.0.1", "127.0.0.1"),
    ):
        if family == socket.AF_INET6 and not socket.has_ipv6:
            continue
        with socket.create_server((host, 0), family=socket.AF_INET6 if host == "::1" else socket.AF_INET) as listener:
            with socket.socket(family) as client:
                client.connect((address, listener.getsockname()[1]))
                accepted, peer = listener.accept()
                with accepted:
                    assert is_from_near(peer[:2], accepted.getsockname()[:2])
                    assert is_own_listener(listener.getsockname()[1])
            assert not is_from_near(peer[:2], listener.getsockname()[:2])
    assert not is_near(2**22 + 1)
