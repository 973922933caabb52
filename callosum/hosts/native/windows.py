"""The hook on Windows: the client of ``windows.c``, which asks a server of several machines.

::

    <state>/callosum-hook-HOST.exe         the client; each host has a program of its own
            callosum-hook-HOST.exe.conf    whom it asks, and what it answers while nobody can be asked
            remote/HOST/tiers.txt          the server's table of tiers, in lines; fetched anew with every prompt

A hook on Windows starts no shell and no Python, but for a look at a settings file of this machine. The client decides
by itself while the server cannot be asked (``offline.h``): by the table, never milder than ``callosum.hosts.offline``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from callosum import launch
from callosum.client.fallback import tier_of
from callosum.client.transport import Address
from callosum.errors import ConfigError
from callosum.hosts.refusal import BEFORE, GUARDED, REFUSED_CONNECTION, refusal
from callosum.programs import WITH_HOOKS
from callosum.sockets import HUNG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from callosum.hosts.remote import RemoteServer

TIERS: Final = "tiers.txt"
"""The name of the table in the folder of a host."""
_FIRST: Final = "callosum-hook-remote 1"
_FIRST_OF_TIERS: Final = "callosum-tiers 1"
_TOOL: Final = "@TOOL@"
"""Where the client puts the name of the tool that it refuses."""
_SHORT: Final = 6
"""How many letters of a long name Windows keeps in its short one, as in ``CALLOS~1``."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:\\/~-]+")
"""A path that cmd takes without quotation marks, which a host may escape in its own way."""


def is_here() -> bool:
    """Return whether this is Windows."""
    return sys.platform == "win32"


def configuration(
    state: Path, folder: Path, host: str, server: RemoteServer, query: str, *, patience: int, limit: int
) -> bytes:
    """Return the client's configuration for one host, one ``key value`` a line.

    ``folder``: the host's own, below ``state``. ``patience``: seconds that a report may take. ``limit``: seconds that
    any event may take. ``query``: under which names the sessions act.
    Raises ``ConfigError`` for a name with a line break.
    """
    address = Address(server.url)
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
    """Return the words, in lower case, whose presence in a call means that it may touch the gate's own files.

    Windows knows a file by a short name too (``CALLOS~1``). Of a name that is not ASCII every word counts: the client
    compares ASCII alone.
    """
    names = [*GUARDED, state.name.lower()]
    if not state.name.isascii():
        return [""]
    short = {re.sub(r"[^a-z0-9_-]", "", name.rpartition(".")[0] or name)[:_SHORT] + "~" for name in names if name}
    return [*dict.fromkeys(name for name in names if name), *sorted(short - {"~"})]


def tiers(tools: Mapping[str, int]) -> bytes:
    """Return the server's table of tiers as the client reads it. What a line cannot hold counts as unknown there."""
    named = {name: tier_of(tools, name) for name in tools if name and not re.search(r"[\0-\x1f\x7f]", name)}
    lines = "".join(f"{tier} {name}\n" for name, tier in sorted(named.items()))
    return f"{_FIRST_OF_TIERS}\n{lines}".encode("utf-8", "surrogatepass")


def closed(program: str, host: str, *, asks: bool, word: str = "") -> str:
    """The hook as a line of the shell in which the host runs it: cmd or PowerShell.

    ``asks``: it is asked whether a tool may run, and its absence or any code but 0 means no: exit code 2 with a reason.
    Raises ``ConfigError`` for a path that cannot be handed to cmd.
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
    """Return the command line with which a host starts such a line."""
    powershell = WITH_HOOKS[host].powershell
    return ["powershell.exe", "-NoProfile", "-Command", line] if powershell else ["cmd.exe", "/C", line]


def token_fault(program: Path, token: Path) -> str:
    """Return why the client would not use a token file, "" if it would: its access list may name the user alone."""
    try:
        done = subprocess.run([str(program), "token", str(token)], capture_output=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        return f"the hook client cannot look at it: {error}"
    return "" if done.returncode == 0 else done.stderr.decode("utf-8", "replace") or "the hook client cannot look at it"
