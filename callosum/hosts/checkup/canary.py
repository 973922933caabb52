"""A call that the gate must refuse, sent through the very entry that a host calls.

It asks to switch the gate off, which the gate refuses whatever its rules say. It is in the journal as one of the
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

from callosum.hosts.last_seen import PROBE
from callosum.hosts.native import windows
from callosum.model import Entry
from callosum.programs.program import Program

_SECONDS: Final = 30.0
_COMMAND: Final = "callosum off"
_RULE: Final = "self-guard"
_REASON: Final = "@REASON@"
"""What stands for the reason in the form of a refusal."""


class CanaryResult(NamedTuple):
    """What came of it. ``refused``: the call would not have run; None: the entry itself does not work.

    ``says``: why, in the words of who refused it.
    """

    refused: bool | None
    says: str

    @property
    def by_gate(self) -> bool:
        """Whether the gate itself refused it."""
        return bool(self.refused) and _RULE in self.says


def is_own(entry: Entry) -> bool:
    """Whether the gate journalled such a call, and knew it for what it is."""
    return entry.session.endswith(f"/{PROBE}") and entry.rule == _RULE


def send(host: Program, hook: Mapping[str, Any], environ: Mapping[str, str]) -> CanaryResult:
    """Sends it through one entry: a command or an address."""
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
    """Sends it through the plugin of a host, with the config that it has there."""
    call = {"session": PROBE, "tool": host.shell, "params": {"command": _COMMAND}}
    done = _started([node, str(script), json.dumps(call)], json.dumps(config).encode(), environ)
    if isinstance(done, CanaryResult):
        return done
    try:
        reason = json.loads(done.stdout).get("reason")
    except (ValueError, AttributeError):
        return CanaryResult(refused=None, says=done.stderr.decode("utf-8", "replace").strip()[:300])
    return CanaryResult(refused=bool(reason), says=str(reason or "it let the call pass")[:300])


def _run(host: Program, hook: Mapping[str, Any], body: bytes, environ: Mapping[str, str]) -> CanaryResult:
    """As the host starts it: with ``args`` as a program, else as a line of the shell."""
    command, given = str(hook.get("command")), hook.get("args")
    if isinstance(given, list):
        words = [command, *map(str, given)]
    else:
        words = windows.shell(host.name, command) if windows.is_here() else ["/bin/sh", "-c", command]
    done = _started(words, body, environ)
    if isinstance(done, CanaryResult):
        return done
    if done.returncode == 2:
        return CanaryResult(refused=True, says=done.stderr.decode("utf-8", "replace").strip()[:300])
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()[:300]
        return CanaryResult(refused=None, says=f"it ended with code {done.returncode}: {said}")
    return _read(host, done.stdout)


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
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - from the settings
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(asked, timeout=_SECONDS) as answer:
            return _read(host, answer.read(1_000_000))
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return CanaryResult(refused=None, says=f"no answer from {url}: {reason}")


def _read(host: Program, out: bytes) -> CanaryResult:
    """What a host makes of the words of a hook."""
    try:
        said = json.loads(out or b"{}")
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return CanaryResult(refused=None, says="it answered what is no JSON object")
    reason = _filled(host.denial(_REASON), said)
    if reason is not None:
        return CanaryResult(refused=True, says=reason[:300])
    return CanaryResult(refused=False, says="it let the call pass")


def _filled(form: object, said: object) -> str | None:
    """Return what stands for the reason in an answer of this form ("" if the form has none); None if it is no such."""
    if form == _REASON:
        return str(said)
    if not isinstance(form, dict):
        return "" if form == said else None
    if not isinstance(said, dict):
        return None
    parts = [_filled(value, said.get(name)) for name, value in form.items()]
    return None if None in parts else "".join(filter(None, parts))
