"""Set up the hook on Windows: the client of ``windows.c``, which asks a server for several machines.

::

    <state>/callosum-hook-HOST.exe         the client; each host has its own program
            callosum-hook-HOST.exe.conf    the server to ask, and the answers while it is unreachable
            remote/HOST/tiers.txt          the server's tier table as lines; fetched anew with every prompt

A hook on Windows starts neither a shell nor Python, except to inspect a settings file of this machine. While the server
is unreachable, the client decides by itself (``offline.h``) by the tier table, never more leniently than
``callosum.hosts.offline``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from callosum import launch
from callosum.client.fallback import tier_of
from callosum.client.transport import GateAddress
from callosum.errors import ConfigError
from callosum.hosts.refusal import BEFORE, GUARDED, REFUSED_CONNECTION, refusal
from callosum.programs import WITH_HOOKS
from callosum.sockets import HUNG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from callosum.hosts.remote import RemoteServer

TIERS: Final = "tiers.txt"
"""Name of the tier table in the folder of a host."""
_FIRST: Final = "callosum-hook-remote 1"
_FIRST_OF_TIERS: Final = "callosum-tiers 1"
_TOOL: Final = "@TOOL@"
"""Placeholder for the name of the tool that the client refuses."""
_SHORT: Final = 6
"""Number of letters of a long name that Windows keeps in the short one, as in ``CALLOS~1``."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:\\/~-]+")
"""Matches a path that cmd accepts without quotation marks, which a host may escape in its own way."""


def is_here() -> bool:
    """Return True on Windows."""
    return sys.platform == "win32"


def configuration(
    state: Path, folder: Path, host: str, server: RemoteServer, query: str, *, patience: int, limit: int
) -> bytes:
    """Return the client's configuration for one host, one ``key value`` per line.

    ``folder`` is the host's own folder below ``state``. ``patience`` is the number of seconds that a report may take,
    and ``limit`` the number that any event may take. ``query`` has the instance and namespace of the sessions.

    Raises: ``ConfigError`` for a name with a line break.
    """
    address = GateAddress(server.url)
    milliseconds = int(server.seconds * 1000)
    where = f"{address.prefix}/hooks/{host}?{query}&timeoutMs={milliseconds}"
    asked = [host, str(state), "", where, str(REFUSED_CONNECTION), str(folder), address.url]
    look = launch.command(*asked, run="callosum.hosts.offline:main")
    tend = launch.command(str(state), host, run="callosum.hosts.remote:main")
    lines = [
        ("host", address.host),
        ("port", str(address.port)),
        ("secure", "1" if address.tls else "0"),
        ("target", where),
        ("token", server.token_file),
        ("tiers", str(folder / TIERS)),
        ("hung", str(folder / "server.hung")),
        ("hung-seconds", str(HUNG_SECONDS)),
        ("milliseconds", str(milliseconds)),
        ("patience", str(patience * 1000)),
        ("limit", str(limit)),
        ("before", BEFORE[host]),
        *(("guard", word) for word in guarded(state)),
        *((f"refuse-{tier}", refusal(host, tier, _TOOL, address.url).decode()) for tier in (3, 4)),
        ("here", subprocess.list2cmdline([*look[:2], "-S", *look[2:]])),
        ("tend", subprocess.list2cmdline(tend)),
    ]
    if any(sign in value for _, value in lines for sign in "\n\0"):
        raise ConfigError("the name of a file or folder has a line break in it", at="callosum install")
    return os.fsencode("".join((f"{_FIRST}\n", *(f"{key} {value}\n" for key, value in lines))))


def guarded(state: Path) -> list[str]:
    """Return lower-case words whose presence in a call means that the call may touch the gate's own files.

    Windows gives a file a short name too (``CALLOS~1``). If the state folder's name is not ASCII, every call counts,
    because the client compares only ASCII.
    """
    names = [*GUARDED, state.name.lower()]
    if not state.name.isascii():
        return [""]
    short = {re.sub(r"[^a-z0-9_-]", "", name.rpartition(".")[0] or name)[:_SHORT] + "~" for name in names if name}
    return [*dict.fromkeys(name for name in names if name), *sorted(short - {"~"})]


def tiers(tools: Mapping[str, int]) -> bytes:
    """Return the server's tier table in the client's format. A name that a line cannot hold counts as unknown."""
    named = {name: tier_of(tools, name) for name in tools if name and not re.search(r"[\0-\x1f\x7f]", name)}
    lines = "".join(f"{tier} {name}\n" for name, tier in sorted(named.items()))
    return f"{_FIRST_OF_TIERS}\n{lines}".encode("utf-8", "surrogatepass")


def closed(program: str, host: str, *, asks: bool, word: str = "") -> str:
    """Return the hook as a command line for the shell in which the host runs it: cmd or PowerShell.

    With ``asks`` the event asks whether a tool may run. If the hook is missing or exits with any code but 0, the line
    exits with code 2 and a reason.

    Raises: ``ConfigError`` for a path that cmd cannot be given.
    """
    words = f"{host} {word}".strip()
    failed = "Callosum: the hook failed, so nothing runs (see callosum doctor)"
    if WITH_HOOKS[host].powershell:
        quoted = program.replace("'", "''")
        if not asks:
            return f"try {{ & '{quoted}' {words} }} catch {{ }}; exit 0"
        refuse = f"[Console]::Error.WriteLine('{failed}'); exit 2"
        return f"try {{ & '{quoted}' {words} }} catch {{ }}; if ($LASTEXITCODE -eq 0) {{ exit 0 }}; {refuse}"
    if not _PLAIN.fullmatch(program):
        title = WITH_HOOKS[host].title
        raise ConfigError(
            f"{title} cannot start {program}: name a state folder with letters, digits and _ . - alone", at="--state"
        )
    if not asks:
        return f"{program} {words} || exit 0"
    said = failed.replace("(", "^(").replace(")", "^)")
    return f"{program} {words} || (echo {said} 1>&2 & exit 2)"


def shell(host: str, line: str) -> list[str]:
    """Return the command with which a host starts such a line."""
    powershell = WITH_HOOKS[host].powershell
    return ["powershell.exe", "-NoProfile", "-Command", line] if powershell else ["cmd.exe", "/C", line]


def token_fault(program: Path, token: Path) -> str:
    """Return why the client rejects a token file, or "". The file's access list may name only the user."""
    try:
        process = subprocess.run([str(program), "token", str(token)], capture_output=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        return f"the hook client cannot look at it: {error}"
    return (
        ""
        if process.returncode == 0
        else process.stderr.decode("utf-8", "replace") or "the hook client cannot look at it"
    )
