"""The script that a host with command hooks starts, made from ``hook.sh`` for one state folder."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from callosum.client.local import socket_path
from callosum.model import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from callosum.settings import Settings

NAME: Final = "callosum-hook"
"""The script's name in the state folder. The gate guards that folder, and so the script."""


def closed(script: str, host: str, seconds: int, *, asks: bool) -> str:
    """The script as a shell command that never means yes where it fails, for a host that would.

    ``asks``: it is asked whether a tool may run, and its death within ``seconds`` or its absence means no: exit
    code 2 with a reason. Where it only reports, a failure is nobody's business.
    """
    command = f"{shlex.quote(script)} {host}"
    if not asks:
        return f"{command} || true"
    waits = f"timeout -k 1 {seconds} " if shutil.which("timeout") else ""
    otherwise = "echo 'Callosum: the hook failed, so nothing runs (see callosum doctor)' >&2; exit 2;"
    return f"{waits}{command} || {{ {otherwise} }}"


def script_of(settings: Settings) -> str:
    """Returns the text of the script: it asks the local gate of the settings' state folder, in their namespace."""
    socket = socket_path(settings.state)
    said = {}
    if settings.namespace != DEFAULT_NAMESPACE:
        said["namespace"] = settings.namespace
    if settings.instance:
        said["instance"] = settings.instance
    root = Path(__file__).resolve().parents[2]
    text = files("callosum.hosts").joinpath("hook.sh").read_text("utf-8")
    for name, value in {
        "QUERY": f"&{urlencode(said)}" if said else "",
        "WHERE": f"--unix-socket {shlex.quote(socket)}",
        "BASE": "http://localhost",
        "PYTHON": shlex.quote(sys.executable),
        "ROOT": shlex.quote(str(root)),
        "STATE": shlex.quote(str(settings.state)),
        "SOCKET": shlex.quote(socket),
    }.items():
        text = text.replace(f"@{name}@", value)
    return text
