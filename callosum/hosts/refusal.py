"""What a hook refuses while no gate can be asked, and in which words."""

from __future__ import annotations

import json

from callosum.programs import GUARDED as _OF_HOSTS
from callosum.programs import WITH_HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

REFUSED_CONNECTION: Final = 7
"""What curl ends with where nobody listens."""
GUARDED: Final = ("callosum", *_OF_HOSTS, "tiers.json")
"""What a call that touches the gate's own files or a host's settings speaks of, in lower case."""
BEFORE: Final = {name: host.asks for name, host in WITH_HOOKS.items()}
"""What a host calls the event in which it asks whether a tool may run."""


def refusal(host: str, tier: int, tool: str, where: str) -> bytes:
    """What the host prints to its model where a call may not run without the gate, which is looked for ``where``."""
    reason = (
        f"[Callosum] The gate cannot be asked, and {tool[:100]} can have tier {tier}: it was not run. "
        "Reading and low-risk work go on. Try again in a moment; "
        f"`callosum doctor` says what is wrong ({where})."
    )
    return json.dumps(WITH_HOOKS[host].denial(reason)).encode()
