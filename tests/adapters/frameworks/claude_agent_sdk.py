"""Claude Agent SDK: its bundled Claude Code runs against a scripted model server on loopback."""

import itertools
import os
from collections.abc import AsyncIterator
from inspect import signature
from tempfile import TemporaryDirectory
from typing import Any

from tests.adapters.harness import Framework, Job, Nested, RunResult, Tool
from tests.e2e.models import Model, ToolUse, model

_runs = itertools.count()


class ClaudeAgentSdk(Framework):
    name = "Claude Agent SDK"
    module = "claude_agent_sdk"
    extra = "claude-agent-sdk"
    imports = "claude_agent_sdk"
    heavy = True
    writes = "`ClaudeAgentOptions(hooks=callosum_hooks(gate))`, or `install(gate)` for all options that are made from then on"
    conversation = "the SDK's `session_id`; the instance is `claude-code`, so the hooks of `callosum install claude-code` may be loaded as well"
    nested = "its own, as a child of the calling session"
    refusal = "a tool result with `is_error`"
    question = "the sentence says how"
    unseen = "tools that run at the provider; input that another hook of the program changes, since hooks run at the same time"
    around = "PreToolUse:{tool} hook error: {sentence}"
    modes = ("async", "streamed")
    concurrent = ()
    cannot = {
        "ask and resume": "a hook can hand a question to `can_use_tool`, but does not hear the answer.",
        "tool raises": (
            "hooks get the text of an error, not its type: a timeout or a lost connection is `unknown` only if the text "
            "says so, else `failed`."
        ),
        "injected arguments": "the SDK injects nothing into a tool.",
    }
    notes = {
        "gate away": "the gate knows MCP tools as `mcp__SERVER__TOOL`; one that the table of tiers does not name is tier 3.",
        "cancelled": "no hook reports it: the adapter hears that the SDK closes its connection to Claude Code.",
        "parallel": "Claude Code runs tools that are not marked as read-only one after the other.",
    }

    def named(self, tool: str) -> str:
        return {"ask_helper": "Agent"}.get(tool, f"mcp__desk__{tool}")

    async def arun(self, job: Job) -> RunResult:
        from claude_agent_sdk import query

        with model() as scripted, TemporaryDirectory() as home:
            prompt = script(scripted, job, self)
            async for _ in query(prompt=prompt, options=self.options(job, scripted, home)):
                pass
            return read(scripted)

    async def stream(self, job: Job) -> RunResult:
        from claude_agent_sdk import ClaudeSDKClient

        with model() as scripted, TemporaryDirectory() as home:
            prompt = script(scripted, job, self)
            options = self.options(job, scripted, home, include_partial_messages=True)

            async def prompts() -> AsyncIterator[dict[str, Any]]:
                yield {"type": "user", "message": {"role": "user", "content": prompt}}

            async with ClaudeSDKClient(options) as client:
                await client.query(prompts())
                async for _ in client.receive_response():
                    pass
            return read(scripted)

    def options(self, job: Job, scripted: Model, home: str, **more: Any) -> Any:
        """Return the SDK's options for a job."""
        from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions, create_sdk_mcp_server

        from callosum.adapters.claude_agent_sdk import callosum_hooks

        nested = [one for one in job.tools if isinstance(one, Nested)]
        tools = [one for one in job.tools if isinstance(one, Tool)] + [tool for one in nested for tool in one.tools]
        names = [self.named(one.name) for one in tools]
        agents = {
            one.name: AgentDefinition(
                description="Does the work.", prompt="Work.", tools=[self.named(tool.name) for tool in one.tools]
            )
            for one in nested
        }
        if job.gate is not None:
            more["hooks"] = callosum_hooks(job.gate, **{"session": job.conversation, **job.options})
        return ClaudeAgentOptions(
            tools=["Agent"] if nested else [],
            allowed_tools=[*names, "Agent"],
            mcp_servers={"desk": create_sdk_mcp_server("desk", "1", [made(one, job) for one in tools])},
            agents=agents or None,
            model="claude-sonnet-5",
            setting_sources=[],
            cwd=home,
            env=environ(scripted.address, home),
            **more,
        )


def environ(address: str, home: str) -> dict[str, str]:
    """Return the variables that keep Claude Code on this machine and in its own folder."""
    return {
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": home,
        "HOME": home,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "NO_PROXY": ",".join(filter(None, (os.environ.get("NO_PROXY"), "127.0.0.1"))),
    }


def script(scripted: Model, job: Job | Nested, framework: ClaudeAgentSdk) -> str:
    """Give a job's turns, and those of its sub-agents, to the model; return the prompt."""
    helpers = {one.name: script(scripted, one, framework) for one in job.tools if isinstance(one, Nested)}
    turns = [
        [
            ToolUse(
                framework.named(call.tool),
                {
                    "description": "Help",
                    "prompt": helpers[call.tool],
                    "subagent_type": call.tool,
                    "run_in_background": False,
                }
                if call.tool in helpers
                else dict(call.args),
                id=call.id,
            )
            for call in turn
        ]
        for turn in job.turns
    ]
    return scripted.script(f"run-{next(_runs)}", *turns)


def made(one: Tool, job: Job) -> Any:
    """Return a tool of an in-process MCP server."""
    from claude_agent_sdk import tool

    function = one.made(awaited=job.awaited)

    @tool(one.name, one.function.__doc__ or "", dict.fromkeys(signature(one.function).parameters, str))
    async def handler(args: dict[str, Any]) -> dict[str, Any]:
        result = await function(**args) if job.awaited else function(**args)
        return {"content": [{"type": "text", "text": result}]}

    return handler


def read(scripted: Model) -> RunResult:
    """Return the text that the models read for each call."""
    ran = RunResult()
    for _, body in scripted.asked:
        for message in body["messages"]:
            for part in message["content"] if isinstance(message["content"], list) else ():
                if part.get("type") == "tool_result":
                    content = part["content"]
                    text = content if isinstance(content, str) else "\n".join(one.get("text", "") for one in content)
                    ran.read[part["tool_use_id"]] = text
    return ran


FRAMEWORK = ClaudeAgentSdk()
