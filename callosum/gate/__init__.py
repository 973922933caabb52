"""The gate: it decides whether a tool call may run.

``Gate`` describes what every gate does (``callosum.operations``). ``LocalGate`` is the embedded gate, over a store in
the state folder. The operations are written once, as generators of effects (``callosum.gate.operations``), and a server
runs the same generators in its own way.

``intercept``, ``complete``, ``lock``, ``release``, ``renew``, ``resolve`` and ``approve`` all call ``Store.transact``
with different steps (``callosum.policy``). Each returns a value. They raise only if the gate itself failed
(``StoreUnavailable``) or the input cannot be used (``ConfigError``).
"""

from typing import Protocol, runtime_checkable

from callosum.gate.check import MAX_PARAMS, MAX_TTL, outcome_of
from callosum.gate.effects import Effects, Read, Sleep, TakenIn
from callosum.gate.local import UPKEEP_EVERY, LocalGate
from callosum.gate.operations import Caller, Observer, Operations
from callosum.model import Call, Decision, Outcome
from callosum.operations import Gate
from callosum.stores.opening import DATABASE
from callosum.wire import MAX_WAIT

__all__ = [
    "DATABASE",
    "MAX_PARAMS",
    "MAX_TTL",
    "MAX_WAIT",
    "UPKEEP_EVERY",
    "Caller",
    "Effects",
    "Gate",
    "LocalGate",
    "Observer",
    "Operations",
    "Read",
    "Sleep",
    "Standby",
    "TakenIn",
    "outcome_of",
]


@runtime_checkable
class Standby(Protocol):
    """What a gate does with a call that it cannot decide at the moment."""

    def fallback(self, call: Call, error: Exception) -> Decision:
        """Let a call of tier 0 to 2 run; raise ``GateUnavailable`` from ``error`` for a higher tier."""
        ...

    def remember_late(self, call: Call, outcome: Outcome | str) -> None:
        """Keep a call that ran without a decision, and its outcome, to journal it once that is possible."""
        ...
