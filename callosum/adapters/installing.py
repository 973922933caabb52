"""``install()``: the gate around the tools of every supported framework that a program has imported."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, Unpack

from callosum.adapters.core import Options
from callosum.gate import Gate

logger = logging.getLogger("callosum")

SEAMS: Final[Mapping[str, str]] = {
    "agent_framework": "agent_framework",
    "agno": "agno.agent",
    "claude_agent_sdk": "claude_agent_sdk",
    "crewai": "crewai",
    "google_adk": "google.adk.runners",
    "langchain": "langgraph.prebuilt",
    "llama_index": "llama_index.core.agent",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "smolagents": "smolagents",
    "strands": "strands",
}
"""The adapters that have their own ``install``, and the module that a program imports if it uses the framework."""


class Installed:
    """The result of ``install``: ``gated`` lists the adapters, ``failed`` gives the reasons of the others."""

    def __init__(self, undo: Mapping[str, Callable[[], None]], failed: Mapping[str, str]) -> None:
        self.gated = tuple(undo)
        self.failed = dict(failed)
        self._undo = undo

    def uninstall(self) -> None:
        """Remove the gate. A gate that a later ``install`` has put in its place stays."""
        for undo in self._undo.values():
            undo()

    def __str__(self) -> str:
        gated = f"gated: {', '.join(self.gated) or 'nothing'}"
        return "; ".join([gated, *(f"{name} is NOT gated: {why}" for name, why in self.failed.items())])


def install(gate: Gate, **options: Unpack[Options]) -> Installed:
    """Put the gate around the tools of all agents, for each supported framework that is already imported.

    Call it after the imports and before agents are built: some frameworks only gate agents that are built later. The
    result is logged and returned. Another call replaces the existing gates. A framework that cannot be gated (its
    version is too old) is named in ``failed`` and logged as a warning.
    """
    undo: dict[str, Callable[[], None]] = {}
    failed: dict[str, str] = {}
    for name, imported in SEAMS.items():
        if imported not in sys.modules:
            continue
        try:
            undo[name] = import_module(f"callosum.adapters.{name}").install(gate, **options)
        except (ImportError, AttributeError) as error:
            failed[name] = str(error)
        except BaseException:
            Installed(undo, failed).uninstall()
            raise
    installed = Installed(undo, failed)
    logger.log(logging.WARNING if failed or not undo else logging.INFO, "%s", installed)
    return installed
