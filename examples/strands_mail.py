"""Two sessions of a Strands agent answer one mail. Its model is scripted: nothing leaves the machine.
Run it: ``pip install 'callosum-protocol[strands-agents]' && python examples/strands_mail.py``
"""

import sys
import tempfile
from collections.abc import AsyncIterator

from strands import Agent, tool
from strands.models import Model

from callosum import LocalGate
from callosum.adapters.strands import CallosumIntervention


class Script(Model):
    get_config = update_config = structured_output = dict  # not needed here

    def __init__(self, use: dict[str, str]) -> None:
        self.turns = iter([[use], []])

    async def stream(self, *_: object, **__: object) -> AsyncIterator[dict[str, object]]:
        uses = next(self.turns)
        yield {"messageStart": {"role": "assistant"}}
        for use in uses:
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": use}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if uses else "end_turn"}}


def scripted(session: str) -> Script:
    mail = f'{{"to": "alice@example.com", "body": "Friday works, says {session}"}}'
    return Script({"toolUseId": f"{session}-1", "name": "send_email", "input": mail})


def run(gate: LocalGate, session: str, inbox: list[str]) -> str:
    @tool
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(body)
        return "sent"

    gated = CallosumIntervention(gate, instance="mira", session=session)
    agent = Agent(scripted(session), tools=[send_email], interventions=[gated], callback_handler=None)
    agent("Answer Alice.")
    return str(agent.messages[2]["content"][0]["toolResult"]["content"][0]["text"])


def main(state: str) -> tuple[list[str], str]:
    inbox: list[str] = []
    with LocalGate(state) as gate:
        run(gate, "chat", inbox)
        return inbox, run(gate, "heartbeat", inbox)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mails, told = main(sys.argv[1] if len(sys.argv) > 1 else folder)
        print("Alice got:", mails, "\nThe second session's model read:", told)
