"""Describe Claude Code."""

from __future__ import annotations

from callosum.programs.program import HookSubscription, Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from callosum.programs.program import Lines

_LOOKS = frozenset(("Read", "Grep", "Glob", "LS", "NotebookRead", "TodoRead", "WebFetch", "WebSearch"))


class ClaudeCode(Program):
    """Describe Claude Code.

    A denied call has no event of its own but appears in its batch. An interrupted call appears in no batch.
    """

    name = "claude-code"
    title = "Claude Code"
    program = "claude"
    scripts = ("claude-code",)
    package = "@anthropic-ai/claude-code"
    oldest = (2, 1, 295)
    older = "it runs a tool whose hook fails, so the entries do not protect it"  # it ignores `onFailure`
    variables = ("CLAUDECODE", "CLAUDE_CODE")
    profile = frozenset((
        "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    ))  # fmt: skip

    folder = ".claude"
    file = "settings.json"
    folder_variable = "CLAUDE_CONFIG_DIR"
    guards = (".claude/settings.json", ".claude/settings.local.json")

    # A batch and a denial name each call by its id, so they may arrive after the session's next call. Compactions are
    # only journalled. The host waits for the report of a call that is not a read, so it comes before its batch. The
    # host also waits for the event that settles a session (`Stop`), which must not settle later calls. The end of a
    # read changes nothing and its batch says enough, which saves a hook for most calls.
    events = {  # noqa: RUF012 - a description does not change
        "SessionStart": HookSubscription("start", by_url=False),
        "UserPromptSubmit": HookSubscription("prompt"),
        "PreToolUse": HookSubscription("asks", "*"),
        "PostToolUse": HookSubscription("done", f"^(?!({'|'.join(sorted(_LOOKS))})$)"),
        "PostToolUseFailure": HookSubscription("failed", "*"),
        "PostToolBatch": HookSubscription("batch", reports=True),
        "PermissionDenied": HookSubscription("denied", reports=True),
        "SubagentStart": HookSubscription("child start"),
        "SubagentStop": HookSubscription("child stop"),
        "PreCompact": HookSubscription("heard", reports=True),
        "PostCompact": HookSubscription("heard", reports=True),
        "MessageDisplay": HookSubscription("said", reports=True, by_url=False),
        "Stop": HookSubscription("stop"),
        "StopFailure": HookSubscription("stop"),
        "SessionEnd": HookSubscription("end"),
        "ConfigChange": HookSubscription("settings", by_url=False),
    }
    shell = "Bash"
    looks = _LOOKS
    starts = frozenset(("Agent", "Task"))
    background = "run_in_background"
    run_field = "prompt_id"
    informs = frozenset(("asks", "done", "failed", "batch", "start", "child start", "prompt"))
    replaces = "updatedInput"
    words_apart = True
    timeout = 20
    entry_that_stops = {"onFailure": "block"}  # noqa: RUF012
    asks_urls = True

    transcripts = "projects"
    tells_refusals = True

    hooks = "callosum.hosts.claude_code.adapter:ClaudeCodeAdapter"
    transcript = "callosum.hosts.claude_code.transcript:ClaudeCodeTranscript"
    checks = "callosum.hosts.claude_code.inspection:ClaudeCodeInspection"

    def transcript_of(self, session: str, agent: str | None) -> str:
        """As in ``Program``."""
        return f"*/{session}.jsonl" if agent is None else f"*/{session}/subagents/agent-{agent}.jsonl"

    def refused(self, lines: Lines, session: str, call_id: str, since: float) -> bool:
        """As in ``Program``.

        The line of the result says ``toolDenialBeforeRun`` (Esc, deny with interrupt) or ``permissionDecision:
        {"decision": "reject"}`` (no with a reason). An interrupted running tool has neither.
        """
        for at, line in lines:
            message = line.get("message")
            content = message.get("content") if isinstance(message, dict) else None
            results = [part for part in content if _is_result(part)] if isinstance(content, list) else []
            if line.get("type") != "user" or not any(part.get("tool_use_id") == call_id for part in results):
                continue
            # the newest result of the call decides
            decision = line.get("permissionDecision")
            rejected = isinstance(decision, dict) and decision.get("decision") == "reject"
            before_run = line.get("toolDenialKind") == "user-rejected" and line.get("toolDenialBeforeRun") is True
            return (
                (rejected or before_run)
                and not line.get("toolDenialAfterRun")
                and len(results) == 1
                and results[0].get("is_error") is True
                and line.get("sessionId") == session
                and at >= since
            )
        return False


def _is_result(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "tool_result"


HOST = ClaudeCode()
