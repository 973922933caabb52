"""Locate and configure the native hook client, a small program that replaces ``hook.sh``, a shell and curl.

Its source is ``hook.c``, and on Windows ``windows.c``, which asks a server for several machines. A platform wheel
contains the program; ``pip install .`` from a clone compiles it if the machine has a C compiler. Without the program
hooks use the script. ``make native`` builds it for this machine with the pinned compiler.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callosum import launch
from callosum.programs import asking, tending
from callosum.sockets import HUNG_SECONDS, HUNG_STATUS, hung_path, origin, origin_path, socket_path

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM: Final = "callosum-hook"
"""Name of the program in the folder of its platform."""
INSTALLED: Final = "callosum-hook-native"
"""Name of the program in a state folder. It differs from the script's, which a starting shell may be about to read."""
CONFIGURATION: Final = ".conf"
"""Suffix of the program's configuration file, which lies beside the program."""
LIMIT: Final = 18
"""Seconds that one hook event may take in total. Hosts wait for 20 seconds or more."""
_MOST_WORDS: Final = 56
_MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
_SYSTEMS: Final = {"linux": "linux", "darwin": "macos", "win32": "windows"}


def platform() -> str:
    """Return the name of this machine's platform, such as ``linux-x86_64``, or "" if there is no client for it."""
    system = _SYSTEMS.get(sys.platform, "")
    if not system:
        return ""
    reported = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
    machine = reported.lower()
    return f"{system}-{_MACHINES.get(machine, machine)}"


def program_of(name: str) -> str:
    """Return the name of the program in the folder of a platform."""
    return f"{PROGRAM}.exe" if name.startswith("windows") else PROGRAM


def client_path() -> Path | None:
    """Return the path of this installation's client for this machine, or None."""
    path = Path(__file__).parent / platform() / program_of(platform())
    return path if platform() and path.is_file() else None


def definitions() -> list[str]:
    """Return the compiler options that define the hosts' events for the client, as ``client.h`` expects them."""
    named = {"ASKING": asking(), "TENDING": tending()}
    return [f"-D{name}={json.dumps(events)[1:-1]}" for name, events in named.items()]


def configuration(state: Path, query: str, offline: Sequence[str], seconds: int, patience: int) -> bytes | None:
    """Return the client's configuration for the gate of a state folder, one ``key value`` per line.

    ``query`` is what the hook sends beside its parent's pid. ``offline`` is the command line that decides without the
    gate. ``seconds`` is how long a hook waits for the gate and ``patience`` how long a report waits. Return None if
    lines cannot express a value: a name with a line break, or a command line of more than 56 words.
    """
    path = socket_path(state)
    programs, root = origin()
    lines = [
        ("callosum-hook", "1"),
        ("socket", path),
        ("origin", origin_path(path)),
        ("hung", hung_path(path)),
        ("hung-seconds", str(HUNG_SECONDS)),
        ("hung-status", str(HUNG_STATUS)),
        ("query", query),
        ("milliseconds", str(seconds * 1000)),
        ("patience", str(patience * 1000)),
        ("limit", str(LIMIT)),
        ("programs", programs),
        ("root", root),
        ("interpreter", sys.executable),
        ("state", str(state)),
        *(("offline", word) for word in offline),
        *(("drop", name) for name in launch.DROPPED),
        *(("drop", f"{prefix}*") for prefix in launch.DROPPED_PREFIXES),
    ]
    if len(offline) > _MOST_WORDS or any("\n" in value or "\0" in value for _, value in lines):
        return None
    return os.fsencode("".join(f"{key} {value}\n" for key, value in lines))
