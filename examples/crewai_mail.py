"""Two sessions of a CrewAI agent answer one mail. Its model is scripted: nothing leaves the machine.

Run it: ``pip install 'callosum-protocol[crewai]' && python examples/crewai_mail.py``
"""

import json
import sys
import tempfile
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

from callosum import LocalGate
from callosum.adapters.crewai import install


class Script(BaseLLM):
    turns: Any

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        return next(self.turns, messages[-1]["content"])


def scripted(session: str) -> Script:
    mail = {"to": "alice@example.com", "body": f"Friday works, says {session}"}
    function = {"name": "send_email", "arguments": json.dumps(mail)}
    call = {"id": f"{session}-1", "type": "function", "function": function}
    return Script(model="script", turns=iter([[call]]))


def run(gate: LocalGate, session: str, inbox: list[str]) -> str:
    @tool
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(body)
        return "sent"

    uninstall = install(gate, instance="mira", session=session)
    agent = Agent(role="mira", goal="Answer.", backstory="none", llm=scripted(session), tools=[send_email])
    task = Task(description="Answer Alice.", expected_output="done", agent=agent)
    answer = Crew(agents=[agent], tasks=[task]).kickoff()
    uninstall()
    return str(answer.raw)


def main(state: str) -> tuple[list[str], str]:
    inbox: list[str] = []
    with LocalGate(state) as gate:
        run(gate, "chat", inbox)
        return inbox, run(gate, "heartbeat", inbox)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mails, told = main(sys.argv[1] if len(sys.argv) > 1 else folder)
        print("Alice got:", mails, "\nThe second session's model read:", told)
