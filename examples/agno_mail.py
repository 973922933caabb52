"""Two sessions of an Agno agent answer one mail. Its model is scripted: nothing leaves the machine.

Run it: ``pip install 'callosum-protocol[agno]' && python examples/agno_mail.py``
"""

import json
import sys
import tempfile
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

from callosum import LocalGate
from callosum.adapters.agno import install


class Script(Model):
    def invoke(self, messages: Any, **_: Any) -> ModelResponse:
        if messages[-1].role == "tool":
            return ModelResponse(role="assistant", content=str(messages[-1].content))
        mail = {"to": "alice@example.com", "body": f"Friday works, says {self.name}"}
        function = {"name": "send_email", "arguments": json.dumps(mail)}
        return ModelResponse(role="assistant", tool_calls=[{"id": "1", "type": "function", "function": function}])

    ainvoke = invoke_stream = ainvoke_stream = invoke  # not needed here, nor the next line
    _parse_provider_response = _parse_provider_response_delta = None


def scripted(session: str) -> Script:
    return Script(id="script", name=session, provider="script")


def run(gate: LocalGate, session: str, inbox: list[str]) -> str:
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(body)
        return "sent"

    uninstall = install(gate, instance="mira")
    agent = Agent(name="mira", model=scripted(session), tools=[send_email], telemetry=False)
    answer = agent.run("Answer Alice.", session_id=session)
    uninstall()
    return str(answer.content)


def main(state: str) -> tuple[list[str], str]:
    inbox: list[str] = []
    with LocalGate(state) as gate:
        run(gate, "chat", inbox)
        return inbox, run(gate, "heartbeat", inbox)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mails, told = main(sys.argv[1] if len(sys.argv) > 1 else folder)
        print("Alice got:", mails, "\nThe second session's model read:", told)
