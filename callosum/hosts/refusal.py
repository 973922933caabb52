"""Render the refusal that a hook prints while the gate is unreachable."""

from __future__ import annotations

import json

from callosum.programs import GUARDED as _OF_HOSTS
from callosum.programs import WITH_HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

REFUSED_CONNECTION: Final = 7
"""Exit code of curl if nobody listens."""
GUARDED: Final = ("callosum", *_OF_HOSTS, "tiers.json")
"""Lower-case texts that occur in every call that touches the gate's own files or a host's settings."""
BEFORE: Final = {name: host.asks for name, host in WITH_HOOKS.items()}
"""Name of the event in which each host asks whether a tool may run."""


def refusal(host: str, tier: int, tool: str, where: str, refused: str = "") -> bytes:
    """Return what the host prints to its model if a call may not run without the gate.

    ``where`` says where the gate was looked for, ``refused`` why the gate refused to judge the call, if it did.
    """
    reason = (
        f"[Callosum] The gate refused to judge {tool[:100]}, so it was not run: {refused}"
        if refused
        else f"[Callosum] The gate is unreachable and {tool[:100]} may have tier {tier}, so it was not run. "
        "Reads and low-risk calls continue. Try again in a moment; "
        f"`callosum doctor` says what is wrong ({where})."
    )
    return json.dumps(WITH_HOOKS[host].denial(reason)).encode()
