"""Adapters for agent frameworks. Each is in its own module, and only that module imports its framework.

==================== ====================================== ===========================================================
framework            module                                 what a program writes
==================== ====================================== ===========================================================
Agent Framework      ``callosum.adapters.agent_framework``  ``Agent(..., middleware=[CallosumMiddleware(gate)])``
AGENT-HOOKS 0.1      ``callosum.adapters.agent_hooks``      ``emitter.register(CallosumInterceptor(gate))``
Agno                 ``callosum.adapters.agno``             ``install(gate)``
Claude Agent SDK     ``callosum.adapters.claude_agent_sdk`` ``ClaudeAgentOptions(hooks=callosum_hooks(gate))``
CrewAI               ``callosum.adapters.crewai``           ``install(gate)``
FastMCP (servers)    ``callosum.adapters.fastmcp``          ``FastMCP(..., middleware=[CallosumMiddleware(gate)])``
Google ADK           ``callosum.adapters.google_adk``       ``App(..., plugins=[CallosumPlugin(gate)])``
LangChain, LangGraph ``callosum.adapters.langchain``        ``create_agent(..., middleware=[CallosumMiddleware(gate)])``
LlamaIndex           ``callosum.adapters.llama_index``      ``install(gate)``
OpenAI Agents SDK    ``callosum.adapters.openai_agents``    ``gate_agent(agent, gate)``, ``install(gate)``
pydantic-ai          ``callosum.adapters.pydantic_ai``      ``Agent(..., capabilities=[CallosumCapability(gate)])``
smolagents           ``callosum.adapters.smolagents``       ``install(gate)``
Strands Agents       ``callosum.adapters.strands``          ``Agent(..., interventions=[CallosumIntervention(gate)])``
==================== ====================================== ===========================================================

``install`` gates every framework that the program has imported. ``callosum.adapters.core`` holds what the adapters
share, and what an adapter for another framework needs.
"""

from callosum.adapters.installing import Installed, install

__all__ = ["Installed", "install"]
