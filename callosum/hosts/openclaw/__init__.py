"""OpenClaw: the plugin (JavaScript, in this folder), where it is set up, and what goes around it.

The plugin holds no policy: it speaks to the gate. OpenClaw loads it from this folder, whose path is in its settings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from msgspec import Struct, convert

ID: Final = "callosum"
"""The plugin's id in OpenClaw."""
FOLDER: Final = Path(__file__).parent
"""Where the plugin is: what OpenClaw loads."""
_AROUND: Final = FOLDER / "around.json"


class UngatedPath(Struct, frozen=True):
    """A way on which something leaves OpenClaw without being asked about.

    ``advice`` is what a person can do. ``seen`` is the version of OpenClaw in which it was found by running.
    """

    way: str
    what: str
    advice: str
    seen: str


def around() -> tuple[UngatedPath, ...]:
    """The ways that go around the plugin, as they were found by running the host."""
    return convert(json.loads(_AROUND.read_bytes())["around"], tuple[UngatedPath, ...])
