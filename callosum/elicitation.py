"""The form in which an MCP client asks a person about a call, and the meaning of the person's answer.

The MCP proxy (``callosum.hosts.mcp``) and the adapter of FastMCP use the same form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from callosum.characters import escaped

FIELD: Final = "callosum"
"""Name of the form among a result's ``inputRequests``."""
INPUT_SECONDS: Final = 600.0
"""Seconds for which a call stays open while its client collects the input that its tool or server requested."""
MOST: Final = 256
"""Maximum number of questions, and of calls, whose next round is awaited. Beyond it the oldest is given up."""
SHOWN: Final = 2000
"""Maximum number of characters of a call's arguments that the form shows."""

_canonical: Final = msgspec.json.Encoder(order="sorted").encode


def form(tool: str, params: Mapping[str, Any], sentence: str) -> dict[str, Any]:
    """Return the params of an elicitation: what would run, why a person is asked, and a yes or no."""
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
    """Return the person's answer; None if the form was dismissed."""
    if action == "accept":
        return approve
    return False if action == "decline" else None
