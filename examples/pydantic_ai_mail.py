"""Two sessions of a pydantic-ai agent answer one mail. Its model is scripted: nothing leaves the machine.

Run it: ``pip install 'callosum-protocol[pydantic-ai]' && python examples/pydantic_ai_mail.py``
"""

import asyncio
import sys
import tempfile
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from callosum import LocalGate
from callosum.adapters.pydantic_ai import CallosumCapability


def scripted(session: str) -> FunctionModel:
    """A model that sends a mail and is done."""
    mail = {"to": "alice@example.com", "body": f"Friday works, says {session}"}
    turns = iter([[ToolCallPart("send_email", mail, f"{session}-1")], [TextPart("done")]])

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        return ModelResponse(parts=next(turns))

    return FunctionModel(answer)


def run(gate: LocalGate, session: str, inbox: list[str]) -> str:
    """One run of the agent; returns what its model read as the tool's answer."""

    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(body)
        return "sent"

    agent = Agent(scripted(session), tools=[send_email], capabilities=[CallosumCapability(gate, instance="mira")])
    answer = asyncio.run(agent.run("Answer Alice.", conversation_id=session))
    parts = [part for message in answer.all_messages() for part in message.parts]
    return next(str(part.content) for part in parts if isinstance(part, ToolReturnPart))


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
