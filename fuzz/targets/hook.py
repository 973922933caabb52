"""The native hook client under sanitizers: hostile gates, hostile configurations, payloads of any size."""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from callosum.hosts import native
from callosum.sockets import leave_origin, socket_path
from fuzz.check import check
from fuzz.source import Source

WORDS: Final = (
    "HTTP/1.1 200 OK\r\n", "HTTP/1.1 ", "\r\n\r\n", "content-length: ", "Transfer-Encoding: chunked\r\n", "{}", "{", "}", "[", "]",
    '"', "\\", "\x00", "PreToolUse", "hook_event_name", "callosum-hook 1\n", "offline ", "drop ", "limit ", "socket ", "hung ",
    "99999999999999999999",
)  # fmt: skip
SOURCES: Path = Path(native.__file__).parent
"""The folder of what is compiled; a test plants faults in a copy."""
_OFFLINE: Final = b'{"offline": true}'
_KEYS: Final = (
    "socket origin hung query programs root interpreter state milliseconds patience limit hung-seconds hung-status "
    "offline drop"
).split()
_FLAGS: Final = ("-std=gnu11", "-g", "-O1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all")
_FAULT: Final = 99
_PATIENCE: Final = 60.0
_WITHOUT: Final = "There is no C compiler with sanitizers (cc): the native hook client is NOT tried."


class _Client(NamedTuple):
    program: Path
    configuration: bytes
    listening: socket.socket


@cache
def _client() -> _Client | None:
    """Start the client with sanitizers, its configuration, and the gate that it asks: this process."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    folder = Path(tempfile.mkdtemp(prefix="callosum-fuzz-hook-"))
    program = folder / native.PROGRAM
    words = [
        compiler or "",
        *_FLAGS,
        *native.definitions(),
        "-fsanitize=address,undefined",
        "-o",
        str(program),
        str(SOURCES / "hook.c"),
    ]
    if compiler is None or not native.platform() or subprocess.run(words, check=False).returncode:
        print(_WITHOUT, file=sys.stderr, flush=True)
        return None
    says = folder / "offline"
    says.write_text(f"#!/bin/sh\nprintf '%s\\n' '{_OFFLINE.decode()}'\n")
    says.chmod(0o700)
    path = socket_path(folder)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    leave_origin(path)
    listening.listen(64)
    atexit.register(listening.close)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    configuration = native.configuration(folder, "namespace=n", [str(says)], 50, 50)
    assert configuration is not None
    return _Client(program, configuration.replace(b"\nlimit %d\n" % native.LIMIT, b"\nlimit 50\n"), listening)


def run(source: Source) -> None:
    """Let a gate send anything, or configure the client in any way, and check the client's output."""
    client = _client()
    if client is None:
        return
    hostile = source.maybe(3)
    configuration = _configuration(source, client.configuration) if hostile else client.configuration
    client.program.with_name(native.PROGRAM + native.CONFIGURATION).write_bytes(configuration)
    payload = source.pick((b'{"hook_event_name": "PreToolUse"}', b'{"hook_event_name": "Stop"}', b"", b"\x00\xff"))
    payload = payload + b" " * source.pick((0, 0, 0, 65535, 65536, 2_000_000))
    answer, body, clean = _answer(source)
    reads = source.pick((1 << 30, 0, 100))
    done, asked = _asked(client, payload, answer, reads)
    told = done.stderr[-3000:].decode("utf-8", "replace")
    check(done.returncode in (0, 2), "the client ends with 0 or 2", done.returncode, told, configuration, answer)
    check("Sanitizer" not in told and "runtime error" not in told, "no sanitizer finds anything", told)
    known = (b"", _OFFLINE + b"\n", body.strip(b" \t\r\n") + b"\n")
    check(done.stdout in known, "what is printed is an answer, whole, or the offline path's words", done.stdout, answer)
    if clean and asked and not hostile and reads == 1 << 30:
        wanted = b"" if body == b"{}" else known[2]
        check((done.returncode, done.stdout) == (0, wanted), "a clean answer is handed on", done.stdout, answer, told)
    elif clean is False:
        check(done.stdout in known[:2] and (hostile or done.stdout), "no error is handed on", done.stdout, answer)
    elif done.stdout == known[2] and done.stdout:
        check(_is_object(body), "what is printed is one JSON object", body)


def _answer(source: Source) -> tuple[bytes, bytes, bool | None]:
    """Return the bytes that the gate sends before it closes, their body, and whether they are a clean answer.

    The last is None if that is in doubt.
    """
    if source.maybe(4):
        answer = source.rest()
        return answer, answer.partition(b"\r\n\r\n")[2], None
    body = source.pick(
        (b"{}", b'{"a": "b"}', b'{"hookSpecificOutput": {"x": ["\\"]}"]}}', b'{"a": "' + b"x" * 200_000 + b'"}')
    )
    length = len(body)
    clean: bool | None = True
    head = b"HTTP/1.1 200 OK\r\n"
    if source.maybe(4):
        head = b"HTTP/1.1 %d No\r\ncontent-length: %d\r\n\r\n" % (source.pick((500, 413, 404, 302, 204, 100)), length)
        return head + body, body, False
    for _ in source.times(3):
        change = source.number(6)
        clean = None
        if change == 0:
            at = source.number(len(body))
            body = body[:at] + source.data(8) + body[at + source.number(3) :]
        elif change == 1:
            length = source.pick((0, length - 1, length + 1, 1 << 40, 67108864))
        elif change == 2:
            head += source.data(30) + b"\r\n"
        elif change == 3:
            body += source.data(8)
        elif change == 4:
            head = b"HTTP/1.1 " + source.data(6) + b"\r\n"
        elif change == 5:
            body = b"{" * source.number(2000) + body
        else:
            length = -1
    if length >= 0:
        head += b"content-length: %d\r\n" % length
    answer = head + b"\r\n" + body
    body = body[:length] if length >= 0 else body
    if source.maybe(4):
        return answer[: source.number(len(answer))], body, None
    return answer, body, clean


def _configuration(source: Source, usual: bytes) -> bytes:
    lines = usual.split(b"\n")
    for _ in source.times(4):
        at = source.number(len(lines) - 1)
        change = source.number(4)
        if change == 0:
            del lines[at]
        elif change == 1:
            lines[at] = source.data(200)
        elif change == 2:
            lines[at:at] = [source.pick(_KEYS).encode() + b" " + source.data(60)] * source.pick((1, 1, 70))
        elif change == 3:
            lines[at] = lines[at].partition(b" ")[0] + b" " + b"x" * source.pick((0, 107, 108, 5000))
        else:
            return b"\n".join(lines)[: source.number(len(usual))]
        lines = lines or [b""]
    # the words of the offline path are never random: they would be run
    return b"\n".join(line for line in lines if not line.startswith(b"offline /") or line in usual.split(b"\n"))


def _asked(
    client: _Client, payload: bytes, answer: bytes, reads: int
) -> tuple[subprocess.CompletedProcess[bytes], bool]:
    """Start the client and answer it; return also whether it sent a request."""
    environ = {
        "ASAN_OPTIONS": f"exitcode={_FAULT}:detect_leaks=0",
        "UBSAN_OPTIONS": f"halt_on_error=1:exitcode={_FAULT}:print_stacktrace=1",
        "BASH_ENV": "x", "PYTHONPATH": "x", "PATH": os.environ["PATH"],
    }  # fmt: skip
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(payload)
        given.seek(0)
        words = [str(client.program), "codex"]
        process = subprocess.Popen(words, stdin=given, stdout=out, stderr=errors, env=environ)
        asked = False
        ended = os.pidfd_open(process.pid)
        try:
            ready = select.select([client.listening.fileno(), ended], [], [], _PATIENCE)[0]
            if client.listening.fileno() in ready:
                asked = True
                channel, _ = client.listening.accept()
                with channel, suppress(OSError):
                    channel.settimeout(_PATIENCE)
                    _read(channel, reads)
                    channel.sendall(answer)
            process.wait(_PATIENCE)
        finally:
            os.close(ended)
            if process.poll() is None:
                process.kill()
                process.wait()
        for file in (out, errors):
            file.seek(0)
        return subprocess.CompletedProcess(words, process.returncode, out.read(), errors.read()), asked


def _read(channel: socket.socket, most: int) -> None:
    """Read a request to its end, or ``most`` bytes of it."""
    received = b""
    while len(received) < most:
        piece = channel.recv(1 << 20)
        received += piece
        head, end, body = received.partition(b"\r\n\r\n")
        if not piece or (end and len(body) >= int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])):
            return


def _is_object(body: bytes) -> bool:
    """Return whether a strict JSON reader sees one object, or nests too deeply itself."""
    try:
        return isinstance(json.loads(body), dict)
    except RecursionError:
        return True
    except ValueError:
        return False
