"""Describe Gemini CLI."""

from __future__ import annotations

from callosum.programs.program import HookSubscription, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Gemini(Program):
    """Describe Gemini CLI. Its hooks have no call ids, and it asks the gate before it asks the user."""

    name = "gemini"
    title = "Gemini CLI"
    program = "gemini"
    scripts = ("gemini-cli",)
    package = "@google/gemini-cli"
    oldest = (0, 26, 0)
    older = "it calls no hooks by default, so it asks nothing"  # hooks are experimental there
    variables = ("GEMINI_CLI",)
    profile = frozenset(("GEMINI_CLI_HOME",))

    folder = ".gemini"
    file = "settings.json"
    home_variable = "GEMINI_CLI_HOME"
    guards = (".gemini/settings.json",)

    # `PreCompress` is left out, because it comes before every request to the model. A call has no id, so its report
    # must come before the session's next call. A session gets no brief at its start, because a prompt follows.
    events = {  # noqa: RUF012 - a description does not change
        "SessionStart": HookSubscription("start"),
        "BeforeAgent": HookSubscription("prompt"),
        "BeforeTool": HookSubscription("asks", "*"),
        "AfterTool": HookSubscription("done", "*"),
        "AfterAgent": HookSubscription("stop"),
        "Notification": HookSubscription("heard", reports=True),
        "SessionEnd": HookSubscription("end"),
    }
    shell = "run_shell_command"
    background = "is_background"
    noise = frozenset(("timestamp", "prompt_response"))
    answer_field = "prompt_response"
    has_call_ids = False
    informs = frozenset(("done", "prompt"))
    replaces = "tool_input"
    powershell = True
    timeout = 25_000  # milliseconds
    entry = {"name": "callosum"}  # noqa: RUF012 - its hooks can be switched off by this name

    known = "session and tool"
    transcripts = "tmp"
    window = 1_048_576

    then = ("Open sessions of Gemini CLI run without the gate until they are restarted.",)
    hooks = "callosum.hosts.gemini.adapter:GeminiAdapter"
    transcript = "callosum.hosts.gemini.transcript:GeminiTranscript"
    checks = "callosum.hosts.gemini.inspection:GeminiInspection"

    def denial(self, reason: str) -> dict[str, Any]:
        """As in ``Program``."""
        return {"decision": "deny", "reason": reason}


HOST = Gemini()
