"""Callosum: the gate between an AI agent's intent (a tool call) and its execution."""

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

__version__ = "0.1.0"

__all__ = [
    "Action",
    "AsyncGate",
    "Blocked",
    "Call",
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
