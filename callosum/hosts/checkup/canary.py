"""Send a test call that the gate must refuse through the very entry that a host calls.

The call asks to switch the gate off, which the gate refuses whatever its rules say. The journal records it under the
session ``callosum-doctor``.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from callosum.hosts.native import windows
from callosum.journal import PROBE
from callosum.programs.program import Program

_SECONDS: Final = 30.0
_COMMAND: Final = "callosum off"
RULE: Final = "self-guard"
_REASON: Final = "@REASON@"
"""Placeholder for the reason in the form of a refusal."""


class CanaryResult(NamedTuple):
    """Hold the result of the test call.

    ``refused`` is True if the call would not have run, and None if the entry itself does not work. ``says`` is the
    reason, in the words of whatever refused the call.
    """

    refused: bool | None
    says: str

    @property
    def by_gate(self) -> bool:
        """Return True if the gate itself refused the call."""
        return bool(self.refused) and RULE in self.says


def send(host: Program, hook: Mapping[str, Any], environ: Mapping[str, str]) -> CanaryResult:
    """Send the test call through one entry, which is a command or a URL."""
    payload = {
        "hook_event_name": host.asks,
        "session_id": PROBE,
        "cwd": "/",
        "tool_name": host.shell,
        "tool_input": {"command": _COMMAND},
        "tool_use_id": f"doctor-{os.getpid()}-{time.monotonic_ns()}",
    }
    body = json.dumps(payload).encode()
    return _posted(host, str(hook.get("url")), body) if hook.get("type") == "http" else _run(host, hook, body, environ)


def send_to_plugin(
    host: Program, node: str, script: Path, config: Mapping[str, Any], environ: Mapping[str, str]
) -> CanaryResult:
    """Send the test call through the plugin of a host, with the plugin's own config."""
    call = {"session": PROBE, "tool": host.shell, "params": {"command": _COMMAND}}
    process = _started([node, str(script), json.dumps(call)], json.dumps(config).encode(), environ)
    if isinstance(process, CanaryResult):
        return process
    try:
        reason = json.loads(process.stdout).get("reason")
    except (ValueError, AttributeError):
        return CanaryResult(refused=None, says=process.stderr.decode("utf-8", "replace").strip()[:300])
    return CanaryResult(refused=bool(reason), says=str(reason or "it let the call pass")[:300])


def _run(host: Program, hook: Mapping[str, Any], body: bytes, environ: Mapping[str, str]) -> CanaryResult:
    """Start the hook as the host does: with ``args`` as a program, otherwise as a shell command."""
    command, args = str(hook.get("command")), hook.get("args")
    if isinstance(args, list):
        words = [command, *map(str, args)]
    else:
        words = windows.shell(host.name, command) if windows.is_here() else ["/bin/sh", "-c", command]
    process = _started(words, body, environ)
    if isinstance(process, CanaryResult):
        return process
    if process.returncode == 2:
        return CanaryResult(refused=True, says=process.stderr.decode("utf-8", "replace").strip()[:300])
    if process.returncode != 0:
        error = process.stderr.decode("utf-8", "replace").strip()[:300]
        return CanaryResult(refused=None, says=f"it ended with code {process.returncode}: {error}")
    return _read(host, process.stdout)


def _started(
    words: list[str], body: bytes, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes] | CanaryResult:
    try:
        return subprocess.run(  # noqa: S603 - the entry as the host would start it
            words, input=body, capture_output=True, timeout=_SECONDS, env=dict(environ), cwd="/", check=False
        )
    except subprocess.TimeoutExpired:
        return CanaryResult(refused=None, says=f"it did not answer within {_SECONDS:.0f} s")
    except OSError as error:
        return CanaryResult(refused=None, says=f"it cannot be started: {error.strerror}")


def _posted(host: Program, url: str, body: bytes) -> CanaryResult:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - from the settings
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=_SECONDS) as answer:
            return _read(host, answer.read(1_000_000))
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return CanaryResult(refused=None, says=f"no answer from {url}: {reason}")


def _read(host: Program, output: bytes) -> CanaryResult:
    """Return how the host would read the output of the hook."""
    try:
        answer = json.loads(output or b"{}")
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        return CanaryResult(refused=None, says="it did not answer with a JSON object")
    reason = _filled(host.denial(_REASON), answer)
    if reason is not None:
        return CanaryResult(refused=True, says=reason[:300])
    return CanaryResult(refused=False, says="it let the call pass")


def _filled(form: object, answer: object) -> str | None:
    """Return the reason in an answer of this form ("" if the form has none), or None if the answer has another form."""
    if form == _REASON:
        return str(answer)
    if not isinstance(form, dict):
        return "" if form == answer else None
    if not isinstance(answer, dict):
        return None
    parts = [_filled(value, answer.get(name)) for name, value in form.items()]
    return None if None in parts else "".join(filter(None, parts))
