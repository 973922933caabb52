"""Two sessions of a smolagents agent answer one mail. Its model is scripted: nothing leaves the machine.
Run it: ``pip install 'callosum-protocol[smolagents]' && python examples/smolagents_mail.py``
"""

import sys
import tempfile
from typing import Any

from smolagents import Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

from callosum import LocalGate
from callosum.adapters.smolagents import install


class Script(Model):
    def generate(self, *_: Any, **__: Any) -> ChatMessage:
        name, arguments = next(self.kwargs["turns"])
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=name, type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def scripted(session: str) -> Script:
    mail = {"to": "alice@example.com", "body": f"Friday works, says {session}"}
    return Script(turns=iter([("send_email", mail), ("final_answer", {"answer": "done"})]))


def run(gate: LocalGate, session: str, inbox: list[str]) -> str:
    @tool
    def send_email(to: str, body: str) -> str:
        """Send an e-mail.

        Args:
            to: The address.
            body: The text.
        """
        inbox.append(body)
        return "sent"

    uninstall = install(gate, instance="mira", session=session)
    agent = ToolCallingAgent(tools=[send_email], model=scripted(session), verbosity_level=0)
    agent.run("Answer Alice.")
    uninstall()
    return str(agent.memory.steps[1].observations)


def main(state: str) -> tuple[list[str], str]:
    inbox: list[str] = []
    with LocalGate(state) as gate:
        run(gate, "chat", inbox)
        return inbox, run(gate, "heartbeat", inbox)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mails, told = main(sys.argv[1] if len(sys.argv) > 1 else folder)
        print("Alice got:", mails, "\nThe second session's model read:", told)
