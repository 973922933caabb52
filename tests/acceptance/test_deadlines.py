"""A request whose client gave up while the gate was stopped is not decided when the gate wakes."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from callosum.bootclock import boot_id, boot_now
from callosum.client import CallosumClient
from callosum.deadline import stamp
from callosum.errors import GateUnavailable
from callosum.hosts.openclaw import FOLDER
from callosum.model import Call
from callosum.sockets import socket_path
from tests.support import hooks
from tests.support.mcpwrap import text_of, wrapped
from tests.support.serving import Server, serving, until
from tests.support.standing import impostor

REPO = {"repository": "acme/site"}
KEY = "repo:acme/site"
WRITE = {"file_path": "/repo/a.py", "content": "1"}
FOREIGN = "0f0f0f0f-0000-4000-8000-000000000000"
"""The boot id of another machine."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "state") as running:
        yield running


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Server]:
    """Run a server on the socket that the hosts of this machine use."""
    state = tmp_path / "state"
    with serving(state, "--socket", socket_path(state)) as running:
        yield running


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """Stop the server for the length of the block."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def delete(who: str, **more: Any) -> dict[str, Any]:
    """Return a tier 4 call on the one repository of these tests."""
    return {"instance": who, "tool": "delete_repository", "params": REPO, **more}


def send(server: Server, path: str, body: dict[str, Any]) -> socket.socket:
    """Send a request and do not read the response."""
    if server.address.startswith("unix:"):
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        channel.connect(server.address.removeprefix("unix:"))
    else:
        channel = socket.create_connection(server.host_and_port)
    channel.settimeout(20)
    written = json.dumps(body).encode()
    channel.sendall(
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (path.encode(), len(written), written)
    )
    return channel


def answer(channel: socket.socket) -> tuple[int, Any]:
    """Read the pending response."""
    response = http.client.HTTPResponse(channel)
    response.begin()
    return response.status, json.loads(response.read())


def expired(server: Server) -> list[dict[str, Any]]:
    """Return the journal's entries of expired requests."""
    entries = server.get("/journal?limit=100")["entries"]
    return [one for one in entries if one["event"] == "refuse" and one["body"].get("reason") == "expired"]


def assert_nothing_is_open(server: Server) -> None:
    """Check that no session holds or waits for the repository, and that another session may delete it."""
    status = server.get("/status")
    assert not status["locks"]
    assert not status.get("waiting")
    decision = server.post("/intercept", delete("doug"))
    assert decision["verdict"] == "allow", decision


def given_up(server: Server, path: str, body: dict[str, Any]) -> None:
    with stopped(server):
        send(server, path, body).close()


@pytest.mark.parametrize("over", ["server", "local"])
def test_call_whose_client_disconnected_while_the_gate_was_stopped_opens_nothing(
    over: str, request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(over)
    given_up(server, "/intercept", delete("mira", callId="c-1"))
    (entry,) = until(lambda: expired(server))
    assert (entry["session"], entry["tool"], entry["tier"]) == ("mira", "delete_repository", 4)
    assert entry["keys"][0][0] == KEY
    assert entry["body"]["callId"] == "c-1"
    assert_nothing_is_open(server)


def test_lock_whose_client_disconnected_while_the_gate_was_stopped_is_not_taken(server: Server) -> None:
    given_up(server, "/lock", {"instance": "mira", "contextKey": KEY, "tier": 4})
    (entry,) = until(lambda: expired(server))
    assert (entry["session"], entry["body"]["lock"]) == ("mira", True)
    assert_nothing_is_open(server)


def test_call_whose_client_waits_is_decided_after_the_gate_was_stopped(server: Server) -> None:
    """Negative control: there is no deadline and the connection stays open."""
    with stopped(server):
        channel = send(server, "/intercept", delete("mira"))
    status, decision = answer(channel)
    channel.close()
    assert (status, decision["verdict"]) == (200, "allow")
    assert [lock["instance"] for lock in server.get("/status")["locks"]] == ["mira"]
    assert not expired(server)


def test_request_whose_deadline_passed_while_the_gate_was_stopped_is_answered_408(server: Server) -> None:
    """Behind a proxy that keeps its connection open, only the deadline shows that the client gave up."""
    call = ("/intercept", delete("mira"))
    lock = ("/lock", {"instance": "mira", "contextKey": KEY, "tier": 4})
    both, alone = dict(zip(("deadline", "timeoutMs"), stamp(0.2), strict=True)), {"deadline": stamp(0.2)[0]}
    elsewhere = {"deadline": f"{FOREIGN}:1.5", "timeoutMs": 1000}
    rows = ((call, {"timeoutMs": 1000}), (lock, elsewhere), (call, both), (lock, both), (call, alone), (lock, alone))
    cases = [(path, {**body, **fields}) for (path, body), fields in rows]
    with stopped(server):
        channels = [send(server, path, body) for path, body in cases]
        sent = boot_now()
        until(lambda: boot_now() - sent > 1.6)  # longer than what counts as a standstill, and than any of these
    for channel, case in zip(channels, cases, strict=True):
        status, fault = answer(channel)
        channel.close()
        assert (status, fault.get("at")) == (408, "deadline"), (fault, case)
    assert len(expired(server)) == len(cases)
    assert_nothing_is_open(server)


def test_waiting_call_that_was_given_up_while_the_gate_was_stopped_is_never_let_in(server: Server) -> None:
    held = server.post("/intercept", delete("anna"))
    deadline, timeout_ms = stamp(0.5)
    channel = send(server, "/intercept", delete("mira", wait=30, callId="w", deadline=deadline, timeoutMs=timeout_ms))
    until(lambda: server.get("/status").get("waiting"))
    with stopped(server):
        until(lambda: boot_now() > float((deadline or ":0").rpartition(":")[2]))
    server.post("/complete", {"instance": "anna", "id": held["id"], "outcome": "cancelled"})
    status, fault = answer(channel)
    channel.close()
    assert (status, fault["at"]) == (408, "deadline"), fault
    assert_nothing_is_open(server)


def test_client_that_gave_up_leaves_no_lease_behind(server: Server) -> None:
    with CallosumClient(server.address, deadline=1.2) as client:
        assert client.intercept(Call("warm", "look", {"on": "plan"})).proceed
        with stopped(server), pytest.raises(GateUnavailable):
            client.intercept(Call("mira", "delete_repository", REPO))
        until(lambda: expired(server))
        with stopped(server), pytest.raises(GateUnavailable):
            client.lock("mira", KEY, 4)
        until(lambda: len(expired(server)) >= 2)
    assert_nothing_is_open(server)


@pytest.mark.parametrize("kind", hooks.KINDS)
def test_hook_that_gave_up_leaves_no_lease_behind(local: Server, kind: str) -> None:
    script = hooks.written(local.state, kind)
    payload = hook_event("PreToolUse", tool_name="mcp__github__delete_repository", tool_input=REPO, tool_use_id="t1")
    with stopped(local):
        done = subprocess.run(
            [script, "claude-code"], input=json.dumps(payload), capture_output=True, text=True, timeout=60, check=False
        )
    assert "deny" in done.stdout
    (entry,) = until(lambda: expired(local))
    assert (entry["session"], entry["body"]["callId"]) == ("claude-code/A", "t1")
    assert_nothing_is_open(local)


def test_hook_event_whose_deadline_passed_is_not_decided_and_its_report_is_recorded(server: Server) -> None:
    """The host may have continued: its report is true whenever it arrives."""
    before = hook_event("PreToolUse", tool_name="Write", tool_input=WRITE, tool_use_id="t1")
    server.post("/hooks/claude-code", before)
    after = hook_event("PostToolUse", tool_name="Write", tool_input=WRITE, tool_response={"ok": True}, tool_use_id="t1")
    late = f"/hooks/claude-code?timeoutMs=1&deadline={boot_id()}:0.5"
    assert server.ask("POST", late, after).status == 200
    found = server.ask("POST", late, {**before, "tool_use_id": "t2"})
    assert (found.status, found.body["at"]) == (408, "deadline")
    entries = server.get("/journal?limit=10")["entries"]
    assert [(one["event"], one.get("outcome")) for one in entries] == [
        ("intercept", None), ("complete", "done"), ("refuse", None)
    ]  # fmt: skip


def hook_event(name: str, **more: Any) -> dict[str, Any]:
    return {"hook_event_name": name, "session_id": "A", "cwd": "/repo", "prompt_id": "p1", **more}


@pytest.mark.parametrize("kind", hooks.KINDS)
def test_hook_says_until_when_it_waits(tmp_path: Path, kind: str) -> None:
    script = hooks.written(tmp_path / "state", kind)
    asked: list[bytes] = []
    payload = json.dumps(hook_event("PreToolUse", tool_name="Read", tool_input={"file_path": "/a"}, tool_use_id="t1"))
    began = boot_now()
    with impostor(socket_path(tmp_path / "state"), lambda channel: asked.append(channel.recv(4096))):
        subprocess.run([script, "claude-code"], input=payload.encode(), capture_output=True, timeout=60, check=False)
    query = parse_qs(urlsplit(asked[0].split()[1].decode()).query)
    (deadline,), (timeout_ms,) = query["deadline"], query["timeoutMs"]
    boot, _, moment = deadline.rpartition(":")
    assert (boot, timeout_ms) == (boot_id(), "1000")
    assert began + 0.9 < float(moment) < boot_now() + 1.0


def test_wrapped_mcp_server_leaves_no_lease_behind_for_a_call_that_was_given_up(server: Server, tmp_path: Path) -> None:
    """The wrap has its own deadline and keeps its connection open until then."""
    environ = {"CALLOSUM_URL": server.address}
    with wrapped(tmp_path / "wrap", "--name", "shop", "--instance", "mira", environ=environ) as client:
        with stopped(server):
            result = client.call("delete_database", {"name": "orders"})
            assert "is unreachable" in text_of(result), result
        (entry,) = until(lambda: expired(server))
        assert (entry["session"].partition("/")[0], entry["tier"]) == ("mira", 4)
        assert client.calls() == []
        assert_nothing_is_open(server)


@pytest.mark.parametrize("client", ["JavaScript client", "OpenClaw plugin"])
def test_program_in_javascript_leaves_no_lease_behind_for_a_call_that_it_gave_up(
    local: Server, tmp_path: Path, client: str
) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("the JavaScript clients are NOT tested: there is no node")
    tests = Path(__file__).parent
    script = tmp_path / "give_up.mjs"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CALLOSUM_")}
    if client == "OpenClaw plugin":
        environ |= {"CALLOSUM_STATE": str(local.state), "CALLOSUM_PLUGIN": str(FOLDER)}
        script.write_text(
            f"""
            import {{ Host, callOf }} from {json.dumps((tests / "openclaw" / "host.mjs").as_uri())};
            const host = new Host({{ deadlineMs: 900 }});
            const {{ event, ctx }} = callOf("delete_repository", {json.dumps(REPO)});
            console.log(await host.before(event, ctx));
            process.exit(0);
            """
        )
        running: Any = nullcontext(local)
    else:
        script.write_text(
            f"""
            import {{ CallosumClient }} from {json.dumps((tests.parents[1] / "clients/javascript/callosum.js").as_uri())};
            const gate = new CallosumClient({{ url: process.argv[2], instance: "mira", deadline: 900 }});
            const call = {{ tool: "delete_repository", params: {json.dumps(REPO)} }};
            await gate.intercept(call).then(console.log, (error) => console.log(error.message));
            """
        )
        running = serving(tmp_path / "tcp" / "state")
    with running as server:
        with stopped(server):
            done = subprocess.run(
                [node, str(script), server.address], env=environ, capture_output=True, text=True, timeout=60, check=True
            )
            assert "cannot be asked" in done.stdout or "is unreachable" in done.stdout, done
        (entry, *_) = until(lambda: expired(server))
        assert entry["session"].startswith("mira")
        assert_nothing_is_open(server)
