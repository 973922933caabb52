"""An agent of the OpenAI Agents SDK under the gate, with the SDK's own scripted model (nothing leaves the machine).

Two runs are told to answer the same mail. The second run's model reads what the first did, as its tool's answer.

Run it: ``pip install 'callosum-protocol[examples]' && python examples/openai_agents_tools.py``
"""

import asyncio
import sys
import tempfile

from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from callosum import LocalGate
from callosum.adapters.openai_agents import gate_agent

set_tracing_disabled(disabled=True)


async def run(gate: LocalGate, group: str, inbox: list[str]) -> list[str]:
    """One run of the agent; returns what its model was told by the tools."""

    @function_tool
    def send_email(to: str, subject: str, body: str) -> str:
        """Send an e-mail."""
        inbox.append(f"{group}: {subject}")
        return "sent"

    @function_tool
    def read_file(path: str) -> str:
        """Read a file."""
        return f"content of {path}"

    mail = {"to": "alice@example.com", "subject": "Friday", "body": f"Friday works, says {group}"}
    reading = function_call("read_file", {"path": "/notes/alice.md"}, call_id=f"{group}-1")
    sending = function_call("send_email", mail, call_id=f"{group}-2")
    model = ScriptedModel([[reading, sending], [assistant_message("done")]])
    agent = gate_agent(Agent(name="mira", model=model, tools=[send_email, read_file]), gate, instance="mira")
    await Runner.run(agent, "Answer Alice.", run_config=RunConfig(group_id=group))
    items = [item for item in model.calls[-1].input if isinstance(item, dict)]
    return [str(item["output"]) for item in items if item.get("type") == "function_call_output"]


async def main(state: str) -> tuple[list[str], list[str]]:
    """Runs both sessions; returns Alice's inbox and what the second session's model was told."""
    inbox: list[str] = []
    with LocalGate(state) as gate:
        await run(gate, "chat", inbox)
        return inbox, await run(gate, "heartbeat", inbox)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mails, told = asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else folder))
        print("Alice got:", mails)
        print("The second session was told:", told[-1])
