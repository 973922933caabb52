"""Decisions of the hook client for Windows without a server, under sanitizers: never milder than other hooks'."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from callosum.client.fallback import UNKNOWN, runs_commands, tier_of
from callosum.hosts import native
from callosum.hosts.native import windows
from callosum.hosts.refusal import refusal as refusal_of
from fuzz.check import check
from fuzz.source import Source

WORDS: Final = (
    '{"hook_event_name": "PreToolUse", ', '"tool_name": "', '"tool_input": {', '"_tier": ', '"cwd": "', "\\u0041", "\\ud83d\\ude00",
    "callosum", ".claude", "Read", "Write", "Bash", "1e400", "-0", "\\", '"', "{", "}", "[", "]", "\x00", "\n", "guard ",
)  # fmt: skip
SOURCES: Path = Path(native.__file__).parent
"""The folder whose headers are compiled; a test plants faults in a copy."""
GOES_ON, IS_REFUSED, NO_JUDGE = range(3)
_TABLE: Final = {
    "Read": 0,
    "mcp__files__look": 0,
    "Write": 1,
    "Edit": 2,
    "message": 3,
    "wipe": 4,
    "Bash": 0,
    "ünicode": 0,
}
_STATE: Final = Path("/home/ann/callosum-state")
_EVENT: Final = "PreToolUse"
_FLAGS: Final = ("-std=gnu11", "-g", "-O1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all")
_WITHOUT: Final = "There is no C compiler with sanitizers (cc): the client's decision without a server is NOT tried."


@cache
def judge() -> subprocess.Popen[bytes] | None:
    """Return the process that decides one input after the other; None if it cannot be compiled."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    folder = Path(tempfile.mkdtemp(prefix="callosum-fuzz-offline-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program, source = folder / "judge", Path(__file__).parent.parent / "offline.c"
    words = [
        compiler or "",
        *_FLAGS,
        *native.definitions(),
        "-fsanitize=address,undefined",
        f"-I{SOURCES}",
        "-o",
        str(program),
        str(source),
    ]
    if compiler is None or subprocess.run(words, check=False).returncode:
        print(_WITHOUT, file=sys.stderr, flush=True)
        return None
    environ = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environ)
    atexit.register(process.kill)
    return process


def run(source: Source) -> None:
    """Let the client decide a payload, and compare its output with that of the hooks of other systems."""
    if judge() is None:
        return
    hostile = source.maybe(4)
    lines, tiers = settings(), windows.tiers(_TABLE)
    payload, call = _payload(source)
    if hostile:
        lines, tiers = _broken(source, lines), _broken(source, tiers)
    judged, said = ask(lines, tiers, payload)
    check(judged in (GOES_ON, IS_REFUSED, NO_JUDGE), "the client judges", judged, payload)
    if hostile:
        return
    expected = reference(payload)
    check(judged != GOES_ON or expected == GOES_ON, "the client is never milder", payload, judged, expected)
    if call is not None:
        check(judged == expected, "a call that a host sends is judged as elsewhere", payload, judged, expected)
    if judged == IS_REFUSED:
        refusal = json.loads(said)["hookSpecificOutput"]
        check(refusal["permissionDecision"] == "deny", "the host is told no", said)


def settings() -> bytes:
    """Return the settings of the client that affect its decisions."""
    lines = [f"before {_EVENT}", *(f"guard {word}" for word in windows.guarded(_STATE))]
    lines += [f"refuse-{tier} {refusal_of('codex', tier, '@TOOL@', 'here').decode()}" for tier in (3, 4)]
    return "\n".join(("callosum-hook-remote 1", *lines, "")).encode()


def ask(*parts: bytes) -> tuple[int, bytes]:
    """Return the process's answer to settings, table and payload. Raises what ``check`` does if it dies."""
    process = judge()
    assert process is not None
    assert process.stdin is not None
    assert process.stdout is not None
    head = b""
    try:
        for part in parts:
            process.stdin.write(b"%d\n%s" % (len(part), part))
        process.stdin.flush()
        head = process.stdout.readline()
    except BrokenPipeError:
        pass
    if not head:
        judge.cache_clear()
    check(bool(head), "no sanitizer finds anything", parts)
    judged, size = map(int, head.split())
    return judged, process.stdout.read(size)


def reference(payload: bytes) -> int:
    """Return the decision of ``callosum.hosts.offline`` for the payload, if it cannot ask the rules."""
    try:
        said = json.loads(payload)
        event = said.get("hook_event_name")
    except (ValueError, AttributeError, RecursionError):
        return NO_JUDGE
    tool = said.get("tool_name") if isinstance(said.get("tool_name"), str) else ""
    params = said.get("tool_input") if isinstance(said.get("tool_input"), dict) else {}
    tier = tier_of(_TABLE, tool, params)
    spoken = 0 < tier < UNKNOWN and _speaks_of_the_gate(params, said.get("cwd"))
    return IS_REFUSED if event == _EVENT and (tier >= UNKNOWN or spoken or runs_commands(tool)) else GOES_ON


def _speaks_of_the_gate(params: Mapping[str, Any], cwd: object) -> bool:
    text = json.dumps([params, cwd], ensure_ascii=False).lower()
    return any(word in text for word in windows.guarded(_STATE))


def _payload(source: Source) -> tuple[bytes, dict[str, Any] | None]:
    """Return a payload of a host as text and as an object; the object is None if the payload may be anything."""
    if source.maybe(4):
        return source.rest(), None
    values: tuple[Any, ...] = (
        "a.py",
        7,
        None,
        True,
        [1, {"x": "~/.Claude/settings.json"}],
        "CALLOS~1",
        source.text(20),
        {"deep": [[]]},
        -0.5,
    )
    params: dict[str, Any] = {
        source.pick(("path", "content", "x", ".codex/hooks.json")): source.pick(values) for _ in source.times(4)
    }
    if source.maybe(3):
        params["_tier"] = source.pick(
            (0, 1, 2, 3, 4, 9, 2.5, 1e300, -3, "3", " 2 ", "x", "", True, None, [4], "00000004", "000000004")
        )
    call: dict[str, Any] = {
        "hook_event_name": source.pick((_EVENT, _EVENT, _EVENT, "Stop", 5)),
        "session_id": "A",
        "cwd": source.pick(("/repo", "/home/ann/callosum-state", None)),
        "tool_name": source.pick((*_TABLE, "mcp__x__run-command", "unknown", "", 5, source.text(10))),
        "tool_input": source.pick((params, params, params, "text", None)),
    }
    text = json.dumps(call, ensure_ascii=source.maybe())
    written = text.encode("utf-8", "surrogatepass")
    if source.maybe(3):
        at = source.number(len(written))
        return written[:at] + source.data(6) + written[at + source.number(4) :], None
    plain = not any("\ud800" <= sign <= "\udfff" for sign in json.dumps(call, ensure_ascii=False))
    named = call["tool_name"]
    return written, call if plain and (not isinstance(named, str) or named == named.strip()) else None


def _broken(source: Source, lines: bytes) -> bytes:
    for _ in source.times(3):
        at = source.number(len(lines))
        lines = lines[:at] + source.data(12) + lines[at + source.number(30) :]
    return lines
