"""Two sessions of an agent of the Claude Agent SDK answer one mail. Its model is scripted: nothing leaves the machine.

Run it: ``pip install 'callosum-protocol[claude-agent-sdk]' && python examples/claude_agent_sdk_mail.py``
"""

import asyncio
import sys
import tempfile

from claude_agent_sdk import ClaudeAgentOptions, ToolResultBlock, UserMessage, create_sdk_mcp_server, query, tool
from scripted_claude import scripted

from callosum import LocalGate
from callosum.adapters.claude_agent_sdk import callosum_hooks


async def run(gate: LocalGate, session: str, inbox: list[str]) -> str:
    """Run the agent once; return what its model read as the tool's answer."""

    @tool("send_email", "Send an e-mail.", {"to": str, "body": str})
    async def send_email(mail: dict[str, str]) -> dict[str, object]:
        inbox.append(mail["body"])
        return {"content": [{"type": "text", "text": "sent"}]}

    options = ClaudeAgentOptions(
        model=scripted(session),
        mcp_servers={"desk": create_sdk_mcp_server("desk", tools=[send_email])},
        allowed_tools=["mcp__desk__send_email"],
        setting_sources=[],
        hooks=callosum_hooks(gate, instance="mira", session=session),
    )
    answer = ""
    async for message in query(prompt="Answer Alice.", options=options):
        if isinstance(message, UserMessage) and isinstance(message.content[0], ToolResultBlock):
            answer = str(message.content[0].content)
    return answer


def main(state: str) -> tuple[list[str], str]:
    """Let both sessions answer the mail; return Alice's inbox, and what the second session's model read."""
    inbox: list[str] = []
    with LocalGate(state) as gate:
        asyncio.run(run(gate, "chat", inbox))
        return inbox, asyncio.run(run(gate, "heartbeat", inbox))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mails, read = main(sys.argv[1] if len(sys.argv) > 1 else folder)
        print("Alice got:", mails, "\nThe second session's model read:", read)
