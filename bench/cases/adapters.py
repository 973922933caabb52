"""What an adapter adds to a tool call, beyond one that does nothing at the same seam, in pairs of the gate.

The seam is called as its framework calls it, with the framework's own request and a tool that returns at once. A pair
is ``intercept`` and ``complete`` of the same call, awaited (``AsyncGate``) where the seam is. Each has a store of its
own, so that none is in another's way.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bench import calls
from bench.harness import Case, Measured, Operation, Report, side_by_side
from callosum import AsyncGate, Call, LocalGate
from callosum.process import this_process

VERSIONS: Final = ("langchain", "openai-agents")
MAKE: Final[dict[str, calls.Make]] = {"tier 0": calls.read, "tier 2": calls.post, "tier 3": calls.reply}
BLOCK: Final = 60
_prefixes: Final = (f"call_{number:04x}" for number in itertools.count(0xA000))
"""How the ids of a case's calls begin."""


def run(folder: Path, rounds: int) -> Report:
    """Measure each adapter's seam in the same rounds as the pair."""
    report = Report("adapters")
    loop = asyncio.new_event_loop()
    with ExitStack() as stack:

        def gate(name: str) -> LocalGate:
            return stack.enter_context(LocalGate(settings=calls.settings(folder / name)))

        cases = [Case("nothing, awaited", lambda _: loop.run_until_complete(_nothing()), BLOCK)]
        for tier, make in MAKE.items():
            cases.append(Case(f"pair, {tier}", pair(gate(f"pair-{tier}"), make), BLOCK))
            cases.append(Case(f"pair awaited, {tier}", awaited(loop, gate(f"awaited-{tier}"), make), BLOCK))
            if find_spec("langchain") is not None:
                ours, nothing = through_langchain(gate(f"langchain-{tier}"), make)
                cases += [Case(f"LangChain, {tier}", ours, BLOCK), Case(f"LangChain, nothing, {tier}", nothing, BLOCK)]
            if find_spec("agents") is not None:
                ours, nothing = through_openai_agents(loop, gate(f"openai-{tier}"), make)
                cases += [Case(f"OpenAI, {tier}", ours, BLOCK), Case(f"OpenAI, nothing, {tier}", nothing, BLOCK)]
        found = side_by_side(cases, rounds)
    loop.close()
    for tier in MAKE:
        if f"LangChain, {tier}" in found:
            added = _added(found[f"LangChain, {tier}"], found[f"LangChain, nothing, {tier}"], found[f"pair, {tier}"])
            report.add(f"LangChain, {tier}: added / pair", added, at_most=1.3)
        if f"OpenAI, {tier}" in found:
            bare = found[f"pair awaited, {tier}"]
            added = _added(found[f"OpenAI, {tier}"], found[f"OpenAI, nothing, {tier}"], bare, found["nothing, awaited"])
            report.add(f"OpenAI Agents SDK, {tier}: added / awaited pair", added, at_most=1.3)
    if find_spec("langchain") is None:
        report.missing.append("LangChain: langchain is not installed")
    if find_spec("agents") is None:
        report.missing.append("OpenAI Agents SDK: openai-agents is not installed")
    return report


def _added(ours: Measured, nothing: Measured, pair: Measured, idle: Measured | None = None) -> float:
    """The median over the rounds of what an adapter adds, in pairs; ``idle`` is what awaiting nothing costs."""
    idles = idle.rounds if idle is not None else (0.0,) * len(pair.rounds)
    rounds = zip(ours.rounds, nothing.rounds, pair.rounds, idles, strict=True)
    return statistics.median((mine - base) / (one - none) for mine, base, one, none in rounds)


async def _nothing() -> None:
    return None


def _call(make: calls.Make, count: int, prefix: str) -> Call:
    """The call as an adapter makes it. No other case has an id like it: an id that was seen before costs less."""
    tool, params = make(count)
    return Call(
        "mira",
        tool,
        params,
        session="chat",
        call_id=f"{prefix}-{count}",
        after=0,
        pause=True,
        rewrite=True,
        host=this_process(),
        description="Act.",
        schema={"type": "object", "properties": {}},
    )


def pair(gate: LocalGate, make: calls.Make) -> Operation:
    """Return the gate's own pair."""
    prefix = next(_prefixes)

    def both(count: int) -> None:
        decision = gate.intercept(_call(make, count, prefix))
        gate.complete("mira", id=decision.id, result="done", session="chat")

    return both


def awaited(loop: asyncio.AbstractEventLoop, gate: LocalGate, make: calls.Make) -> Operation:
    """Return the gate's own pair, awaited."""
    face, prefix = AsyncGate(gate), next(_prefixes)

    async def both(count: int) -> None:
        decision = await face.intercept(_call(make, count, prefix))
        await face.complete("mira", id=decision.id, result="done", session="chat")

    return lambda count: loop.run_until_complete(both(count))


def through_langchain(gate: LocalGate, make: calls.Make) -> tuple[Operation, Operation]:
    """Return a call through the adapter, and one through a middleware that does nothing."""
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import StructuredTool

    from callosum.adapters.langchain import CallosumMiddleware

    tool = StructuredTool.from_function(lambda **_: "done", name=make(0)[0], description="Act.")
    done = ToolMessage("done", tool_call_id="c")

    class Nothing(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return handler(request)

    def through(middleware: Any) -> Operation:
        prefix = next(_prefixes)

        def call(count: int) -> object:
            name, params = make(count)
            asked = {"name": name, "args": params, "id": f"{prefix}-{count}", "type": "tool_call"}
            request = ToolCallRequest(tool_call=asked, tool=tool, state={"messages": []}, runtime=None)
            if middleware.wrap_tool_call(request, lambda _: done).content != "done":
                raise RuntimeError(f"{name} was stopped")
            return None

        return call

    return through(CallosumMiddleware(gate, instance="mira", session="chat")), through(Nothing())


def through_openai_agents(
    loop: asyncio.AbstractEventLoop, gate: LocalGate, make: calls.Make
) -> tuple[Operation, Operation]:
    """Return a call of a tool of a gated agent, and one of the same tool without the gate."""
    from agents import Agent, FunctionTool, RunContextWrapper
    from agents.tool_context import ToolContext

    from callosum.adapters.openai_agents import gate_agent

    async def invoke(_context: Any, _given: str) -> str:
        return "done"

    name = make(0)[0]
    agent = Agent(name="a", tools=[FunctionTool(name, "Act.", {"type": "object", "properties": {}}, invoke)])
    (plain,) = loop.run_until_complete(agent.get_all_tools(RunContextWrapper(None)))
    gate_agent(agent, gate, instance="mira", session="chat")

    def through(tool: Any) -> Operation:
        prefix = next(_prefixes)

        def call(count: int) -> object:
            given = json.dumps(make(count)[1])
            context = ToolContext(context=None, tool_name=name, tool_call_id=f"{prefix}-{count}", tool_arguments=given)
            if loop.run_until_complete(tool.on_invoke_tool(context, given)) != "done":
                raise RuntimeError(f"{name} was stopped")
            return None

        return call

    (gated,) = loop.run_until_complete(agent.get_all_tools(RunContextWrapper(None)))
    return through(gated), through(plain)
