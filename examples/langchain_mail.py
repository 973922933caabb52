"""Two sessions of a LangChain agent answer one mail. Its model is scripted: nothing leaves the machine.

Run it: ``pip install 'callosum-protocol[langchain]' && python examples/langchain_mail.py``
"""

import sys
import tempfile
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage

from callosum import LocalGate
from callosum.adapters.langchain import CallosumMiddleware


class Script(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> "Script":
        return self


def scripted(session: str) -> Script:
    """A model that sends a mail and is done."""
    mail = {"to": "alice@example.com", "body": f"Friday works, says {session}"}
    calls = [{"name": "send_email", "args": mail, "id": f"{session}-1"}]
    return Script(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))


def run(gate: LocalGate, session: str, inbox: list[str]) -> str:
    """One run of the agent; returns what its model read as the tool's answer."""

    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(body)
        return "sent"

    agent = create_agent(scripted(session), tools=[send_email], middleware=[CallosumMiddleware(gate, instance="mira")])
    answer = agent.invoke({"messages": [("user", "Answer Alice.")]}, {"configurable": {"thread_id": session}})
    return next(str(message.content) for message in answer["messages"] if isinstance(message, ToolMessage))


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
