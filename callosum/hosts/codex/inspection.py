"""Inspect Codex CLI."""

from __future__ import annotations

import json
import select
import subprocess
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from callosum.hosts.hook_entries import MARK
from callosum.hosts.inspection import (
    HostInspection,
    ReviewState,
    TranscriptCall,
    TranscriptCalls,
    UserContext,
    lines_of,
    moment,
    newest,
    read_all,
)

WITHOUT_HOOK: Final = frozenset(("write_stdin", "exec", "wait"))
"""Tools without hooks: typing into a running program, and the scripts of code mode, whose own calls have hooks."""
_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call")
_NEVER_RAN: Final = (
    "Command blocked by PreToolUse hook",
    "Tool call blocked by PreToolUse hook",
    "unsupported ",
    "failed to parse function arguments",
    "aborted",
)
_SECONDS: Final = 15.0


class CodexInspection(HostInspection):
    """Inspect the switches, reviews and transcripts of Codex CLI."""

    def switched_off(self, here: UserContext, settings: Mapping[str, Any]) -> list[str]:  # noqa: ARG002 - its switch is elsewhere
        """As in ``HostInspection``."""
        path = self._config_path(here)
        features = _config(path).get("features")
        if isinstance(features, Mapping) and features.get("hooks") is False:
            return [f"hooks are switched off: [features] hooks = false in {path}"]
        return []

    def transcripts(self, here: UserContext, since: float) -> TranscriptCalls:
        """As in ``HostInspection``."""
        folder = self.host.settings_folder(here.home, here.environ) / self.host.transcripts
        return read_all(newest(folder, "**/rollout-*.jsonl", since), since, _calls_in)

    def reviewed(self, executable: Path | None, here: UserContext, settings: Path) -> ReviewState | None:
        """As in ``HostInspection``."""
        untrusted = self._untrusted(executable, here, settings)
        if untrusted:
            says = f"not reviewed by you, so Codex silently skips them: {', '.join(untrusted[:4])}"
            return ReviewState("wrong", says, "Only you can: start `codex`, open /hooks, trust the entries.")
        if untrusted is None:
            return ReviewState("advice", "reviewed once; Codex could not say whether they changed since")
        return ReviewState("ok", "you have reviewed the current entries")

    def _untrusted(self, executable: Path | None, here: UserContext, settings: Path) -> list[str] | None:
        """Return the events whose entry the user has not reviewed in its current form, so that Codex skips it.

        The program is asked. If it is missing, the record of reviews is read, which does not show whether an entry
        changed since its review. Return None if the state is unknown.
        """
        # Codex lists the hooks of a project only for the project's folder.
        folders = dict.fromkeys((str(here.folder), str(settings.parent.parent)))
        listed = _ask(executable, here, [*folders]) if executable is not None else None
        if listed is not None:
            ours = [
                hook for hook in listed if MARK in str(hook.get("command")) and hook.get("sourcePath") == str(settings)
            ]
            unreviewed = [
                str(hook.get("eventName")) for hook in ours if hook.get("trustStatus") not in ("trusted", "managed")
            ]
            return [*dict.fromkeys(unreviewed)] if ours else ["Codex does not see any of them"]
        hooks = _config(self._config_path(here)).get("hooks")
        state = hooks.get("state") if isinstance(hooks, Mapping) else None
        reviewed = [key for key in state if str(key).startswith(f"{settings}:")] if isinstance(state, Mapping) else []
        return None if reviewed else ["all"]

    def _config_path(self, here: UserContext) -> Path:
        return self.host.settings_folder(here.home, here.environ) / "config.toml"


def _calls_in(path: Path) -> Iterator[TranscriptCall]:
    session = path.stem[-36:]  # rollout-TIME-SESSION.jsonl
    calls: dict[str, tuple[str, float]] = {}
    ran: dict[str, bool] = {}
    for line in lines_of(path):
        payload = line.get("payload")
        if line.get("type") != "response_item" or not isinstance(payload, dict):
            continue
        kind, id = str(payload.get("type")), str(payload.get("call_id"))
        if kind in _CALLS:
            calls[id] = (str(payload.get("name", "shell")), moment(line.get("timestamp")))
        elif kind.removesuffix("_output") in _CALLS:
            output = payload.get("output")
            ran[id] = not (output if isinstance(output, str) else json.dumps(output)).startswith(_NEVER_RAN)
    for id, (tool, at) in calls.items():
        if ran.get(id) is not False and tool not in WITHOUT_HOOK:
            yield TranscriptCall(session=session, tool=tool, id=id, at=at, ran=ran.get(id))


def _ask(executable: Path, here: UserContext, folders: list[str]) -> list[dict[str, Any]] | None:
    """Return what Codex's own server says about its hooks, or None if it does not answer in time."""
    messages = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "callosum-doctor", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": folders}},
    )
    try:
        with subprocess.Popen(  # noqa: S603 - the user's own program
            [str(executable.absolute()), "app-server"],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(here.environ),
        ) as process:
            try:
                return _conversation(process, messages)
            finally:
                process.kill()
    except OSError:
        return None


def _conversation(
    process: subprocess.Popen[bytes], messages: tuple[dict[str, Any], ...]
) -> list[dict[str, Any]] | None:
    if process.stdin is None or process.stdout is None:
        return None
    ends = time.monotonic() + _SECONDS
    process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    process.stdin.flush()
    received = b""
    while select.select([process.stdout], [], [], max(0.0, ends - time.monotonic()))[0]:
        piece = process.stdout.read1(65536)  # type: ignore[attr-defined]  # a buffered reader
        if not piece:
            return None
        received += piece
        *lines, received = received.split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict) and message.get("id") == 2:
                folders = message.get("result", {}).get("data", ())
                return [hook for folder in folders for hook in folder.get("hooks", ()) if isinstance(hook, dict)]
    return None


def _config(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
