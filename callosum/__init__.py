"""Callosum: the gate between an AI agent's intent (a tool call) and its execution."""

from typing import TYPE_CHECKING

from callosum.errors import (
    Blocked,
    CallosumError,
    ConfigError,
    GateUnavailable,
    StoreError,
    StoreUnavailable,
)
from callosum.gate import Gate, LocalGate
from callosum.guard import AsyncGate, gated, guard
from callosum.model import (
    Action,
    Call,
    Classification,
    Conflict,
    Decision,
    Entry,
    Host,
    Key,
    Kind,
    Lease,
    LockResult,
    Mode,
    Observation,
    Outcome,
    Report,
    State,
    Status,
    Tier,
    Verdict,
)
from callosum.rules import RuleSet

if TYPE_CHECKING:
    from callosum.client import AsyncCallosumClient, CallosumClient

__version__ = "0.1.0"

__all__ = [
    "Action",
    "AsyncCallosumClient",
    "AsyncGate",
    "Blocked",
    "Call",
    "CallosumClient",
    "CallosumError",
    "Classification",
    "ConfigError",
    "Conflict",
    "Decision",
    "Entry",
    "Gate",
    "GateUnavailable",
    "Host",
    "Key",
    "Kind",
    "Lease",
    "LocalGate",
    "LockResult",
    "Mode",
    "Observation",
    "Outcome",
    "Report",
    "RuleSet",
    "State",
    "Status",
    "StoreError",
    "StoreUnavailable",
    "Tier",
    "Verdict",
    "gated",
    "guard",
]


def __getattr__(name: str) -> object:
    """Loads the clients when they are first asked for: who embeds the gate needs none."""
    if name in ("AsyncCallosumClient", "CallosumClient"):
        from callosum import client  # noqa: PLC0415

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
