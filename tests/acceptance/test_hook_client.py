"""Test the native hook client alone: hostile gates, hostile environments, and its behaviour if everything fails."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from callosum import launch
from callosum.hosts.install import write_hook
from callosum.hosts.native import LIMIT, client_path
from callosum.hosts.script import REPORT, hook_of
from callosum.settings import Settings
from callosum.sockets import hung_path, socket_path
from tests.support import hooks
from tests.support.cpu import HANG
from tests.support.serving import until
from tests.support.standing import impostor

pytestmark = pytest.mark.skipif(
    client_path() is None, reason="the native hook client is NOT tested: `make native` builds it"
)

CALL: Final = json.dumps({"hook_event_name": "PreToolUse", "session_id": "A", "tool_name": "Read"}).encode()
DENY: Final = b'{"hookSpecificOutput": {"permissionDecision": "deny", "why": "a \\"}]{\\\\"}}'
OFFLINE: Final = b'{"offline": true}'


@pytest.fixture
def hook(tmp_path: Path) -> Path:
    """Yield a client whose offline path is a program that reports the status it was given."""
    path = hooks.written(tmp_path / "state", "native")
    offline(path, f"cat > /dev/null; echo \"$5\" >> {path.parent}/status; printf '%s\\n' '{OFFLINE.decode()}'")
    return path


def offline(hook: Path, does: str) -> None:
    """Make the client start a shell with this script instead of the offline path."""
    beside = Path(f"{hook}.conf")
    lines = [line for line in beside.read_text().splitlines() if not line.startswith("offline ")]
    program = hook.with_name("offline")
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o700)
    beside.write_text("\n".join((*lines, f"offline {program}", "")))


def status(hook: Path) -> list[int]:
    """Return the exit code of curl that the offline path was given."""
    path = hook.parent / "status"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def send(hook: Path, payload: bytes = CALL, *words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [hook, *(words or ("claude-code",))], input=payload, capture_output=True, timeout=60, check=False, **options
    )


def answering(*pieces: bytes, closes: bool = False) -> Callable[[socket.socket], None]:
    def answer(channel: socket.socket) -> None:
        channel.recv(65536)
        for piece in pieces:
            channel.sendall(piece)
        if closes:
            channel.close()

    return answer


def response(body: bytes, head: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (head, len(body), body)


def test_answer_in_single_bytes_is_printed(hook: Path) -> None:
    whole = response(DENY)
    with impostor(socket_path(hook.parent), answering(*(whole[at : at + 1] for at in range(len(whole))))):
        done = send(hook)
    assert (done.returncode, done.stdout) == (0, DENY + b"\n")
    assert status(hook) == []


@pytest.mark.parametrize("body", [b"{}", b"{}\n", b" \r\n"], ids=["nothing to say", "with a newline", "blank"])
def test_empty_answer_prints_nothing(hook: Path, body: bytes) -> None:
    with impostor(socket_path(hook.parent), answering(response(body))):
        done = send(hook)
    said = b"" if b"{}" in body else OFFLINE + b"\n"
    assert (done.returncode, done.stdout) == (0, said)


def test_answer_without_a_length_ends_with_the_connection(hook: Path) -> None:
    with impostor(socket_path(hook.parent), answering(b"HTTP/1.1 200 OK\r\n\r\n" + DENY, closes=True)):
        assert send(hook).stdout == DENY + b"\n"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (answering(response(DENY, b"500 No")), 22),
        (answering(response(DENY, b"413 Too long")), 22),
        (answering(response(DENY, b"204 No Content")), 1),
        (answering(response(DENY, b"302 Found")), 1),
        (answering(response(DENY, b"2000 OK")), 1),
        (answering(response(DENY, b"100 Continue")), 1),
        (answering(response(DENY).replace(b"HTTP/1.1", b"HTTP/1.0")), 1),
        (answering(response(DENY).replace(b"content-length", b"transfer-encoding: chunked\r\nx")), 1),
        (answering(response(DENY).replace(b"content-length: ", b"content-length: 1\r\ncontent-length: ")), 1),
        (answering(response(DENY).replace(b"content-length: ", b"content-length: -")), 1),
        (answering(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n{}"), 1),
        (answering(response(DENY[:-1])), 1),
        (answering(response(DENY + b"}")), 1),
        (answering(response(DENY + DENY)), 1),
        (answering(response(b'{"a": [1, 2}')), 1),
        (answering(response(b'{"a": "\x00"}')), 1),
        (answering(response(b'{"a": \x00}')), 1),
        (answering(response(b"[]")), 1),
        (answering(response(b'{"a":' * 5000 + b"1" + b"}" * 5000)), 1),
        (answering(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000, closes=True), 1),
        (answering(b"SSH-2.0-OpenSSH_9.9\r\n"), 1),
        (answering(b"H", closes=True), 18),
        (answering(response(DENY)[:-1], closes=True), 18),
        (answering(closes=True), 52),
    ],
)  # fmt: skip
def test_malformed_answer_goes_to_the_offline_path(
    hook: Path, answer: Callable[[socket.socket], None], code: int
) -> None:
    with impostor(socket_path(hook.parent), answer):
        done = send(hook)
    assert (done.returncode, done.stdout, status(hook)) == (0, OFFLINE + b"\n", [code])


def test_gate_that_closes_without_reading_is_no_gate(hook: Path) -> None:
    with impostor(socket_path(hook.parent), lambda channel: channel.close()):
        done = send(hook, CALL[:-1] + b', "x": "' + b"x" * 5_000_000 + b'"}')
    assert done.stdout == OFFLINE + b"\n"
    assert status(hook)[0] in (52, 55, 56)


def test_gate_that_rejects_a_long_payload_early_is_understood(hook: Path) -> None:
    def refuse(channel: socket.socket) -> None:
        channel.recv(1000)
        channel.sendall(response(b"{}", b"413 Too long"))
        channel.close()

    with impostor(socket_path(hook.parent), refuse):
        send(hook, b'{"x": "' + b"x" * 5_000_000 + b'"}')
    assert status(hook) == [22]


@pytest.mark.parametrize("drips", [False, True], ids=["silent", "dripping"])
def test_gate_that_does_not_answer_is_given_up_after_a_second(hook: Path, drips: bool) -> None:
    gone: list[bool] = []

    def drip(channel: socket.socket) -> None:
        channel.sendall(b"HTTP/1.1 200 OK\r\n\r\n{")
        with suppress(OSError):
            while drips and not gone:
                channel.sendall(b" ")
                select.select([], [], [], 0.01)

    began = time.monotonic()
    with impostor(socket_path(hook.parent), drip):
        done = send(hook)
        gone.append(True)
    assert (done.stdout, status(hook)) == (OFFLINE + b"\n", [28])
    assert 0.9 < time.monotonic() - began < HANG


def test_full_accept_queue_counts_as_no_answer(hook: Path) -> None:
    path = socket_path(hook.parent)
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as first:
        listening.bind(path)
        listening.listen(0)
        first.connect(path)
        send(hook)
    assert status(hook) == [28]


def test_recently_hung_gate_is_not_asked(hook: Path) -> None:
    asked: list[socket.socket] = []
    with impostor(socket_path(hook.parent), asked.append):
        for said in (int(time.clock_gettime(time.CLOCK_BOOTTIME)) + 4, "x", "9" * 30, ""):
            Path(hung_path(socket_path(hook.parent))).write_text(f"{said}\n" if said else "")
            if said and said != "x" and len(str(said)) < 30:
                send(hook)
    assert (asked, status(hook)) == ([], [1028])


@pytest.mark.parametrize("payload", [CALL, b"", b"[]", b'{"hook_event_name": "Stop"}'])
@pytest.mark.parametrize(
    "content",
    [None, b"", b"\n", b"callosum-hook 2\n", b"callosum-hook 1\n", b"\x00\xff", b"callosum-hook 1\nlimit x\n"],
)
def test_unusable_configuration_blocks_only_tool_calls(hook: Path, content: bytes | None, payload: bytes) -> None:
    beside = Path(f"{hook}.conf")
    if content is None:
        beside.unlink()
    else:
        beside.write_bytes(content)
    done = send(hook, payload)
    assert (done.returncode, done.stdout) == (0 if b"Stop" in payload else 2, b"")
    assert (b"callosum doctor" in done.stderr) == (done.returncode == 2)


@pytest.mark.parametrize("line", ["limit 99999999999999999999", "milliseconds -1", "socket", "hung-status 1x"])
def test_one_malformed_line_spoils_the_configuration(hook: Path, line: str) -> None:
    beside = Path(f"{hook}.conf")
    key = line.split(maxsplit=1)[0]
    lines = [line if one.split()[0] == key else one for one in beside.read_text().splitlines()]
    beside.write_text("\n".join((*lines, "")))
    assert send(hook).returncode == 2


@pytest.mark.parametrize("host", ["../x", "a b", "", "A", "x" * 40, "a\r\nX: y"])
def test_unknown_host_name_is_not_sent(hook: Path, host: str) -> None:
    heard: list[socket.socket] = []
    with impostor(socket_path(hook.parent), heard.append):
        assert send(hook, CALL, host).returncode == 2
    assert heard == []


@pytest.mark.parametrize("does", ["exit 3", "kill -9 $$", "echo '{}'; exit 1"])
def test_failing_offline_path_blocks_the_call(hook: Path, does: str) -> None:
    offline(hook, f"cat > /dev/null; {does}")
    done = send(hook)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"neither the gate nor its tier table" in done.stderr
    assert send(hook, b'{"hook_event_name": "Stop"}').returncode == 0


def test_missing_or_hanging_offline_path_blocks_the_call_in_time(hook: Path) -> None:
    hooks.edit(hook, f"limit {LIMIT}", "limit 1")
    offline(hook, f"echo $$ > {hook.parent}/pid; exec sleep 600")
    began = time.monotonic()
    assert send(hook).returncode == 2
    assert time.monotonic() - began < HANG
    pid = int((hook.parent / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    hook.with_name("offline").unlink()
    assert send(hook).returncode == 2


def test_gate_started_by_the_offline_path_is_not_waited_for(hook: Path) -> None:
    """A child may keep the client's standard output open for ever."""
    offline(hook, "cat > /dev/null; sleep 600 2>/dev/null & echo $! > $2/pid; echo '{\"a\": 1}'")
    began = time.monotonic()
    done = send(hook)
    os.kill(int((hook.parent / "pid").read_text()), signal.SIGKILL)
    assert (done.returncode, done.stdout) == (0, b'{"a": 1}\n')
    assert time.monotonic() - began < HANG


def test_variables_that_change_the_code_are_not_passed_on(hook: Path) -> None:
    offline(hook, f"cat > /dev/null; env > {hook.parent}/env; echo '{{}}'")
    dropped = dict.fromkeys(launch.DROPPED, "x") | {f"{prefix}X": "x" for prefix in launch.DROPPED_PREFIXES}
    send(hook, CALL, env={**dropped, "LD_PRELOAD": "/none.so", "KEPT": "kept", "PATH": os.environ["PATH"]})
    names = {line.partition("=")[0] for line in (hook.parent / "env").read_text().splitlines()}
    assert "KEPT" in names
    assert names <= {"KEPT", "PATH", "PWD", "OLDPWD", "SHLVL", "_"}


def test_offline_path_gets_the_same_arguments_as_from_the_script(hook: Path) -> None:
    offline(hook, f'cat > {hook.parent}/body; printf "%s\\n" "$@" > {hook.parent}/words; echo "{{}}"')
    send(hook, CALL * 100_000)
    state = str(hook.parent)
    words = (hook.parent / "words").read_text().splitlines()
    assert words == ["claude-code", state, socket_path(state), f"/hooks/claude-code?pid={os.getpid()}", "7"]
    assert (hook.parent / "body").read_bytes() == CALL * 100_000


@pytest.mark.parametrize("descriptors", [(0,), (1,), (2,), (0, 1, 2)], ids=["input", "output", "errors", "all"])
def test_refusal_that_cannot_be_printed_is_given_by_the_exit_code(hook: Path, descriptors: tuple[int, ...]) -> None:
    words = " ".join(f"{one}{'<' if one == 0 else '>'}&-" for one in descriptors)
    with impostor(socket_path(hook.parent), answering(response(DENY))):
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$1" claude-code {words}', "sh", hook],
            input=CALL, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
    if descriptors == (2,):
        assert (done.returncode, done.stdout) == (0, DENY + b"\n")
    else:
        assert (done.returncode, done.stdout) == (2, b"")


def test_broken_pipe_does_not_kill_the_client(hook: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with impostor(socket_path(hook.parent), answering(response(DENY))):
        done = subprocess.run([hook, "codex"], input=CALL, stdout=write, timeout=60, check=False)
    os.close(write)
    assert done.returncode == 2


def test_endless_input_is_given_up(hook: Path) -> None:
    hooks.edit(hook, f"limit {LIMIT}", "limit 1")
    read, write = os.pipe()
    os.write(write, CALL)
    done = subprocess.run([hook, "codex"], stdin=read, capture_output=True, timeout=60, check=False)
    os.close(read)
    os.close(write)
    assert done.returncode == 2


def test_kernel_ends_a_client_that_cannot_even_write(hook: Path) -> None:
    """The last resort, for a host that does not read its full pipe. The entry turns it into a refusal."""
    hooks.edit(hook, f"limit {LIMIT}", "limit 1")
    read, write = os.pipe()
    large = b'{"a": "' + b"x" * 1_000_000 + b'"}'
    with impostor(socket_path(hook.parent), answering(response(large))):
        done = subprocess.run([hook, "codex"], input=CALL, stdout=write, timeout=60, check=False)
    os.close(read)
    os.close(write)
    assert done.returncode == -signal.SIGALRM


def test_signals_that_a_host_ignores_or_blocks_do_not_break_the_client(hook: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "for one in (signal.SIGCHLD, signal.SIGALRM, signal.SIGPIPE): signal.signal(one, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGCHLD})\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, hook, "codex"], input=CALL, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, OFFLINE + b"\n")


def test_report_leaves_the_session_and_the_descriptors_of_its_host(hook: Path) -> None:
    heard: list[bytes] = []
    release = socket.socketpair()

    def hear(channel: socket.socket) -> None:
        heard.append(channel.recv(65536))
        release[1].recv(1)
        channel.sendall(response(b"{}"))

    read, write = os.pipe()
    os.set_inheritable(write, True)
    with impostor(socket_path(hook.parent), hear):
        done = send(hook, CALL, "codex", REPORT, close_fds=False)
        os.close(write)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        until(lambda: heard)
        assert os.read(read, 1) == b"", "nobody else holds the host's pipe, while it still waits for the gate"
        assert b"timeoutMs=10000" in heard[0]
        release[0].send(b"x")
    os.close(read)
    for one in release:
        one.close()


def test_report_never_fails_a_host(hook: Path) -> None:
    Path(f"{hook}.conf").unlink()
    assert send(hook, CALL, "codex", REPORT).returncode == 0
    assert send(hook, CALL, "../x", REPORT).returncode == 0


@pytest.mark.parametrize("script", [False, True], ids=["client", "script"])
def test_hook_is_replaced_while_hosts_call_it(hook: Path, script: bool) -> None:
    """The same with a hook of another kind, since each has its own name."""
    wanted = [hook_of(Settings(state=hook.parent), script=script), hook_of(Settings(state=hook.parent))]
    for one in wanted:
        write_hook(one)
    with impostor(socket_path(hook.parent), answering(response(b"{}"), closes=True)):
        calls = []
        for count in range(24):
            calls.append(subprocess.Popen([wanted[0].path, "codex"], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            write_hook(wanted[count % 2])
        said = [call.communicate(b'{"hook_event_name": "PreToolUse"}', timeout=60)[0] for call in calls]
    assert ({call.returncode for call in calls}, set(said)) == ({0}, {b""})


def test_replaced_program_finds_its_configuration(hook: Path) -> None:
    """The program runs from a file that no longer has a name."""
    with impostor(socket_path(hook.parent), answering(response(DENY))):
        call = subprocess.Popen([hook, "codex"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        content = hook.read_bytes()
        hook.unlink()
        hook.write_bytes(content)
        assert call.communicate(CALL, timeout=60)[0] == DENY + b"\n"
