"""Two sessions of an agent of Google ADK answer one mail. Its model is scripted: nothing leaves the machine.

Run it: ``pip install 'callosum-protocol[google-adk]' && python examples/google_adk_mail.py``
"""

import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from callosum import LocalGate
from callosum.adapters.google_adk import CallosumPlugin


class Script(BaseLlm):
    turns: Any

    async def generate_content_async(self, *_: Any, **__: Any) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=types.Content(role="model", parts=[next(self.turns)]))


def scripted(session: str) -> Script:
    mail = {"to": "alice@example.com", "body": f"Friday works, says {session}"}
    call = types.FunctionCall(id=f"{session}-1", name="send_email", args=mail)
    return Script(model="script", turns=iter([types.Part(function_call=call), types.Part(text="done")]))


def run(gate: LocalGate, session: str, inbox: list[str]) -> str:
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(body)
        return "sent"

    agent = LlmAgent(name="mira", model=scripted(session), tools=[send_email])
    app = App(name="desk", root_agent=agent, plugins=[CallosumPlugin(gate, instance="mira")])
    runner = InMemoryRunner(app=app)
    runner.auto_create_session = True
    message = types.Content(role="user", parts=[types.Part(text="Answer Alice.")])
    events = runner.run(user_id="ann", session_id=session, new_message=message)
    return next(str(answer.response) for event in events for answer in event.get_function_responses())


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
