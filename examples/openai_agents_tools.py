"""``gated`` tools under openai-agents, with the SDK's own scripted model (nothing leaves the machine).

Two runs of one agent are told to answer the same thread. The second is told what the first did; its
model sees the gate's sentence as the tool's answer.

Run it: ``pip install 'callosum-protocol[examples]' && python examples/openai_agents_tools.py``
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from callosum import LocalGate, gated

set_tracing_disabled(disabled=True)


def tools(gate: LocalGate, session: str, inbox: list[str]) -> list[object]:
    """The agent's tools, as this session uses them."""

    def send_email(to: str, subject: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(f"{session}: {subject}")
        return "sent"

    def read_file(path: str) -> str:
        """Read a file."""
        return f"content of {path}"

    def under_the_gate(tool: Callable[..., str]) -> Callable[..., str]:
        return gated(tool, gate=gate, instance="mira", session=session, blocked=lambda no: no.warning, pause=True)

    return [function_tool(under_the_gate(tool)) for tool in (send_email, read_file)]


async def run(gate: LocalGate, session: str, inbox: list[str]) -> list[str]:
    """One run of the agent; returns what its model was told by the tools."""
    model = ScriptedModel(
        [
            [
                function_call("read_file", {"path": "/notes/alice.md"}, call_id=f"{session}-1"),
                function_call(
                    "send_email",
                    {"to": "alice@example.com", "subject": "Friday", "body": f"Friday works, says {session}"},
                    call_id=f"{session}-2",
                ),
            ],
            [assistant_message("done")],
        ]
    )
    agent = Agent(name="mira", model=model, tools=tools(gate, session, inbox))
    await Runner.run(agent, "Answer Alice.")
    return [
        item["output"]
        for item in model.calls[-1].input
        if isinstance(item, dict) and item.get("type") == "function_call_output"
    ]


async def main(state: str) -> tuple[list[str], list[str]]:
    """Runs both sessions; returns Alice's inbox and what the second session's model was told."""
    inbox: list[str] = []
    with LocalGate(state) as gate:
        await run(gate, "chat", inbox)
        told = await run(gate, "heartbeat", inbox)
    return inbox, told


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mails, told = asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else folder))
        print("Alice got:", mails)
        print("The second session was told:", told[-1])
