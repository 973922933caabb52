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
    "crewai": "crewai",
    "google_adk": "google.adk.runners",
    "langchain": "langgraph.prebuilt",
    "llama_index": "llama_index.core.agent",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "smolagents": "smolagents",
    "strands": "strands",
}
"""The adapters that have an ``install`` of their own, and what a program has imported that uses the framework."""


class Installed:
    """What ``install`` has gated: ``gated`` are the adapters, ``failed`` the others' reasons by adapter."""

    def __init__(self, undo: Mapping[str, Callable[[], None]], failed: Mapping[str, str]) -> None:
        self.gated = tuple(undo)
        self.failed = dict(failed)
        self._undo = undo

    def uninstall(self) -> None:
        """Take the gate away again; what another ``install`` has put in its place stays."""
        for undo in self._undo.values():
            undo()

    def __str__(self) -> str:
        gated = f"gated: {', '.join(self.gated) or 'nothing'}"
        return "; ".join([gated, *(f"{name} is NOT gated: {why}" for name, why in self.failed.items())])


def install(gate: Gate, **options: Unpack[Options]) -> Installed:
    """Put the gate around the tools of all agents, of each supported framework that is imported already.

    Call it after the imports and before agents are built: some frameworks take the gate only into agents that are made
    later. What is gated is logged and returned. Called again it replaces the gates that are there. A framework whose
    seam cannot be gated (a version that is too old) is named in ``failed`` and logged as a warning.
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
