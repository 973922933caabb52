"""The gate as middleware of a LangChain agent, with LangChain's own fake chat model (nothing leaves the machine).

Run it: ``pip install 'callosum-protocol[examples]' && python examples/langgraph_tools.py``
"""

import sys
import tempfile
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from callosum import LocalGate
from callosum.adapters.langchain import CallosumMiddleware


class Script(GenericFakeChatModel):
    """A model that says what it was given, whatever tools it is shown."""

    def bind_tools(self, tools: Any, **_: Any) -> "Script":
        return self


def send_email(to: str, subject: str, body: str) -> str:
    """Send an e-mail."""
    return f"sent {subject!r} to {to}: {body}"


def run(gate: LocalGate, thread: str) -> str:
    """One run of the agent; returns what its tool answered."""
    arguments = {"to": "alice@example.com", "subject": "Friday", "body": f"Friday works, says {thread}"}
    call = {"name": "send_email", "args": arguments, "id": f"{thread}-1"}
    model = Script(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")]))
    agent = create_agent(model, tools=[send_email], middleware=[CallosumMiddleware(gate, instance="mira")])
    answer = agent.invoke({"messages": [HumanMessage("Answer Alice.")]}, {"configurable": {"thread_id": thread}})
    return next(str(message.content) for message in answer["messages"] if isinstance(message, ToolMessage))


def main(state: str) -> tuple[str, str]:
    """Two threads of one agent, one after the other; returns what each was told."""
    with LocalGate(state) as gate:
        return run(gate, "chat"), run(gate, "heartbeat")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(*main(sys.argv[1] if len(sys.argv) > 1 else folder), sep="\n\n")
