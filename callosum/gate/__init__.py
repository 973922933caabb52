"""The gate: what stands between a tool call and its execution.

``Gate`` is what every gate does (``callosum.operations``); ``LocalGate`` is the embedded one, over a store in the state
folder. What the methods do is written once, as generators of effects (``callosum.gate.operations``), which a server
drives in its own way.

``intercept``, ``complete``, ``lock``, ``release``, ``renew``, ``resolve`` and ``approve`` are the same
verb, ``Store.transact``, with different steps (``callosum.policy``). Each answers with a value and
raises only when the gate itself failed (``StoreUnavailable``) or the input cannot be used
(``ConfigError``).
"""

from callosum.gate.check import MAX_PARAMS, MAX_TTL, outcome_of
from callosum.gate.local import UPKEEP_EVERY, LocalGate
from callosum.gate.operations import Caller, Effects, Observer, Operations, Read, Sleep
from callosum.operations import Gate, Standby
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
    "outcome_of",
]
