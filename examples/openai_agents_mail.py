"""Two sessions of an agent of the OpenAI Agents SDK answer one mail. Its model is scripted: nothing leaves the machine.

Run it: ``pip install 'callosum-protocol[openai-agents]' && python examples/openai_agents_mail.py``
"""

import asyncio
import sys
import tempfile

from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from callosum import LocalGate
from callosum.adapters.openai_agents import gate_agent

set_tracing_disabled(disabled=True)


def scripted(session: str) -> ScriptedModel:
    """A model that sends a mail and is done."""
    mail = {"to": "alice@example.com", "body": f"Friday works, says {session}"}
    return ScriptedModel([[function_call("send_email", mail, call_id=f"{session}-1")], [assistant_message("done")]])


def run(gate: LocalGate, session: str, inbox: list[str]) -> str:
    """One run of the agent; returns what its model read as the tool's answer."""

    @function_tool
    def send_email(to: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(body)
        return "sent"

    model = scripted(session)
    agent = gate_agent(Agent(name="mira", model=model, tools=[send_email]), gate, instance="mira")
    asyncio.run(Runner.run(agent, "Answer Alice.", run_config=RunConfig(group_id=session)))
    items = [item for item in model.calls[-1].input if isinstance(item, dict)]
    return next(str(item["output"]) for item in items if item.get("type") == "function_call_output")


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
