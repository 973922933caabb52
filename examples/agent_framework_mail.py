"""Two sessions of a Microsoft Agent Framework agent answer one mail. Its model is scripted: nothing leaves the machine.

Run it: ``pip install 'callosum-protocol[agent-framework]' && python examples/agent_framework_mail.py``
"""

import asyncio
import sys
import tempfile
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message, tool

from callosum import LocalGate
from callosum.adapters.agent_framework import CallosumMiddleware


class Script(FunctionInvocationLayer, BaseChatClient):
    def __init__(self, *turns: list[Content]) -> None:
        super().__init__()
        self.turns = iter(turns)

    async def _inner_get_response(self, **_: Any) -> ChatResponse:
        return ChatResponse(messages=[Message(role="assistant", contents=next(self.turns))])


def scripted(session: str) -> Script:
    """A model that sends a mail and is done."""
    mail = {"to": "alice@example.com", "body": f"Friday works, says {session}"}
    return Script(
        [Content.from_function_call(f"{session}-1", "send_email", arguments=mail)], [Content.from_text("done")]
    )


def run(gate: LocalGate, session: str, inbox: list[str]) -> str:
    """One run of the agent; returns what its model read as the tool's answer."""

    @tool
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(body)
        return "sent"

    agent = Agent(client=scripted(session), tools=[send_email], middleware=[CallosumMiddleware(gate, instance="mira")])
    answer = asyncio.run(agent.run("Answer Alice.", session=agent.create_session(session_id=session)))
    contents = [one for message in answer.messages for one in message.contents]
    return next(str(one.result) for one in contents if one.type == "function_result")


def main(state: str) -> tuple[list[str], str]:
    """Both sessions answer the mail; returns Alice's inbox, and what the second session's model read."""
    inbox: list[str] = []
    with LocalGate(state) as gate:
        run(gate, "chat", inbox)
        return inbox, run(gate, "heartbeat", inbox)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mails, told = main(sys.argv[1] if len(sys.argv) > 1 else folder)
        print("Alice got:", mails, "\nThe second session's model read:", told)
