"""The form by which a client of MCP asks a person about a call, and what the person's answer means.

The wrap of a server (``callosum.hosts.mcp``) and the adapter of FastMCP put the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from callosum.characters import escaped

FIELD: Final = "callosum"
"""The name of the form among a result's ``inputRequests``."""
INPUT_SECONDS: Final = 600.0
"""Seconds that a call stays open while its client collects what its tool or server has asked for."""
MOST: Final = 256
"""Most questions, and most calls, whose next round is awaited; of more the oldest is given up."""
SHOWN: Final = 2000
"""Most characters of a call's arguments that the form shows."""

_canonical: Final = msgspec.json.Encoder(order="sorted").encode


def form(tool: str, params: Mapping[str, Any], sentence: str) -> dict[str, Any]:
    """Return the params of an elicitation: what would run, why it is asked, and a yes or no."""
    shown = escaped(_canonical(params).decode())
    if len(shown) > SHOWN:
        shown = f"{shown[:SHOWN]}… ({len(shown)} characters)"
    approve = {
        "type": "boolean",
        "title": "Let this call run",
        "description": "Once, as it is shown.",
        "default": False,
    }
    schema = {"type": "object", "properties": {"approve": approve}, "required": ["approve"]}
    return {"mode": "form", "message": f"{tool} {shown}\n\n{sentence}", "requestedSchema": schema}


def agreed(action: str | None, *, approve: bool) -> bool | None:
    """Return what a person said; None where the form was dismissed."""
    if action == "accept":
        return approve
    return False if action == "decline" else None
