"""LangGraph repeats a node after an interrupt, and with it a mail that went out; under the gate it goes out once.

A model calls two tools at once: one sends a mail, the other asks a person, which interrupts the graph. When the person
answers, the node runs again from its beginning (langgraph issues 6792 and 7780).

Run it: ``pip install 'callosum-protocol[langchain]' && python examples/langgraph_replay.py``
"""

import sys
import tempfile
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from callosum import LocalGate
from callosum.adapters.langchain import CallosumMiddleware


def run(wrappers: Any) -> list[str]:
    """Run the graph to the interrupt and on; returns Alice's inbox."""
    inbox: list[str] = []

    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(body)
        return "sent"

    def confirm(question: str) -> str:
        """Ask the person."""
        return str(interrupt(question))

    mail = {"name": "send_email", "args": {"to": "alice@example.com", "body": "Friday works"}, "id": "1"}
    asking = {"name": "confirm", "args": {"question": "Book the room too?"}, "id": "2"}
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda _: {"messages": [AIMessage("", tool_calls=[mail, asking])]})
    graph.add_node("tools", ToolNode([send_email, confirm], **wrappers))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    compiled, thread = graph.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "chat"}}
    compiled.invoke({"messages": [("user", "Answer Alice.")]}, thread)
    compiled.invoke(Command(resume="yes"), thread)
    return inbox


def main(state: str) -> tuple[list[str], list[str]]:
    """Returns Alice's inbox without the gate and with it."""
    with LocalGate(state) as gate:
        return run({}), run(CallosumMiddleware(gate).wrappers())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        without, gated = main(sys.argv[1] if len(sys.argv) > 1 else folder)
        print("Alice got, without the gate:", without, "\nand with it:", gated)
