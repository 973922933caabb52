"""OpenClaw: the plugin (JavaScript, in this folder), its installation, and what bypasses it.

The plugin has no policy of its own; it asks the gate. OpenClaw loads it from this folder, whose path is in its
settings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from msgspec import Struct, convert

ID: Final = "callosum"
"""Id of the plugin in OpenClaw."""
FOLDER: Final = Path(__file__).parent
"""Folder of the plugin, which OpenClaw loads."""
_BYPASSES: Final = FOLDER / "bypasses.json"


class UngatedPath(Struct, frozen=True):
    """Describe a way in which something leaves OpenClaw without a question to the gate.

    ``advice`` says what a person can do. ``seen`` is the version of OpenClaw in which a run showed it.
    """

    way: str
    what: str
    advice: str
    seen: str


def ungated_paths() -> tuple[UngatedPath, ...]:
    """Return the ways that bypass the plugin, as runs of the host showed them."""
    return convert(json.loads(_BYPASSES.read_bytes())["around"], tuple[UngatedPath, ...])
