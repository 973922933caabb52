"""Two sessions of a LlamaIndex agent answer one mail. Its model is scripted: nothing leaves the machine.

Run it: ``pip install 'callosum-protocol[llama-index]' && python examples/llama_index_mail.py``
"""

import asyncio
import sys
import tempfile
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer

from callosum import LocalGate
from callosum.adapters.llama_index import install


def scripted(session: str) -> MockFunctionCallingLLM:
    def says(messages: Any, **_: Any) -> ChatMessage:
        if messages[-1].role == "tool":
            return ChatMessage(role="assistant", content=messages[-1].content)
        mail = {"to": "alice@example.com", "body": f"Friday works, says {session}"}
        call = ToolCallBlock(tool_call_id="1", tool_name="send_email", tool_kwargs=mail)
        return ChatMessage(role="assistant", blocks=[call])

    return MockFunctionCallingLLM(response_generator=says, is_chat_model=True)


async def run(gate: LocalGate, session: str, inbox: list[str]) -> str:
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(body)
        return "sent"

    uninstall = install(gate, instance="mira")
    agent = FunctionAgent(tools=[send_email], llm=scripted(session), streaming=False)
    answer = await agent.run(user_msg="Answer Alice.", memory=ChatMemoryBuffer.from_defaults(chat_store_key=session))
    uninstall()
    return str(answer)


def main(state: str) -> tuple[list[str], str]:
    inbox: list[str] = []
    with LocalGate(state) as gate:
        asyncio.run(run(gate, "chat", inbox))
        return inbox, asyncio.run(run(gate, "heartbeat", inbox))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mails, told = main(sys.argv[1] if len(sys.argv) > 1 else folder)
        print("Alice got:", mails, "\nThe second session's model read:", told)
