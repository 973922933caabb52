"""Describe Codex CLI."""

from __future__ import annotations

from callosum.programs.program import HookSubscription, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from callosum.programs.program import Lines

_REFUSED = {
    "exec_command": 'exec_command failed: CreateProcess { message: "Rejected(\\"rejected by user\\")" }',
    "apply_patch": "patch rejected by user",
}
"""Complete output of a call that the user declined, by tool. The tools themselves never print it."""


class Codex(Program):
    """Describe Codex CLI.

    A command is reported when it ends, which may be turns later. A tool that fails is not reported at all.
    """

    name = "codex"
    title = "Codex CLI"
    program = "codex"
    scripts = ("@openai/codex", "codex-cli")
    package = "@openai/codex"
    oldest = (0, 124, 0)
    older = "it calls no hooks by default, so it asks nothing"  # hooks are experimental there
    variables = ("CODEX_",)
    profile = frozenset(("CODEX_HOME",))

    folder = ".codex"
    file = "hooks.json"
    folder_variable = "CODEX_HOME"
    guards = (".codex/config.toml", ".codex/hooks.json", ".codex/hooks/")

    # The host drops all events if one has a key that it does not know. The reports of a call's end, which name its id,
    # and of compactions, which are only journalled, may arrive later.
    events = {  # noqa: RUF012 - a description does not change
        "SessionStart": HookSubscription("start"),
        "UserPromptSubmit": HookSubscription("prompt"),
        "PreToolUse": HookSubscription("asks", ".*"),
        "PostToolUse": HookSubscription("done", ".*", reports=True),
        "SubagentStart": HookSubscription("child start"),
        "SubagentStop": HookSubscription("child stop"),
        "PreCompact": HookSubscription("heard", reports=True),
        "PostCompact": HookSubscription("heard", reports=True),
        "Stop": HookSubscription("stop"),
        "Interrupt": HookSubscription("child stop"),
        "SessionEnd": HookSubscription("end"),
    }
    shell = "Bash"
    starts = frozenset(("spawn_agent",))
    run_field = "turn_id"
    noise = frozenset(("permission_mode",))
    informs = frozenset(("asks", "done", "start", "child start", "prompt"))
    replaces = "updatedInput"
    replaces_with_allow = True
    commands_outlive_turns = True
    types_unseen = True
    timeout = 25

    transcripts = "sessions"
    tells_refusals = True

    since = "once you have reviewed the entries"
    then = (
        (
            "Codex runs only hooks that you have reviewed and silently skips others: start `codex`, open /hooks and "
            "trust the entries of Callosum."
        ),
    )
    hooks = "callosum.hosts.codex.adapter:CodexAdapter"
    transcript = "callosum.hosts.codex.transcript:CodexTranscript"
    checks = "callosum.hosts.codex.inspection:CodexInspection"

    def transcript_of(self, session: str, agent: str | None) -> str:
        """As in ``Program``."""
        return f"*/*/*/*-{agent or session}.jsonl"

    def refused(self, lines: Lines, session: str, call_id: str, since: float) -> bool:  # noqa: ARG002 - the file name contains the session
        """As in ``Program``.

        The whole output of a command or a patch is Codex's own sentence that the user rejected it. Other tools return
        text of their own there, so they are not believed. A cancelled dialog looks like an interrupted command, so its
        action stays ``unknown`` and a person must resolve it.
        """
        output = None
        for at, line in lines:
            payload = line.get("payload")
            if (
                line.get("type") != "response_item"
                or not isinstance(payload, dict)
                or payload.get("call_id") != call_id
            ):
                continue
            kind = str(payload.get("type"))
            if output is None and kind in ("function_call_output", "custom_tool_call_output"):
                output = payload.get("output")
                if not isinstance(output, str) or at < since:
                    return False
            elif kind in ("function_call", "custom_tool_call"):
                rejection = _REFUSED.get(str(payload.get("name")))
                return rejection is not None and output == rejection and not payload.get("namespace")
        return False


HOST = Codex()
