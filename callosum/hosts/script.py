"""The script that a host with command hooks starts, made from ``hook.sh``: for a state folder's gate, or a server."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from callosum import launch
from callosum.hosts.entries import MARK
from callosum.hosts.remote import Remote, folder_of
from callosum.model import DEFAULT_NAMESPACE
from callosum.sockets import HUNG_SECONDS, HUNG_STATUS, hung_path, origin, origin_path, socket_path
from callosum.spool import FILE as SPOOL

if TYPE_CHECKING:
    from callosum.settings import Settings

NAME: Final = MARK
"""The script's name in the state folder. The gate guards that folder, and so the script."""
REPORT: Final = "report"
"""The script's word for an event that only tells: the host does not wait until the gate has heard it."""
HERE: Final = "here"
"""Its word for an event about a file: where the server is another machine's, this one looks at it by itself."""
PATIENCE: Final = "10"
"""How long such an event may take, in seconds."""
_SECRET: Final = "Authorization: Bearer $token\nTOKEN\n"  # noqa: S105 - how the script says it
_TEND: Final = (
    "case $payload in *SessionStart* | *UserPromptSubmit* | *BeforeAgent*) "
    "{tend} {state} {host} </dev/null >/dev/null 2>&1 & ;; esac"
)
"""What the gate's own process does beside a local gate: the newest table of tiers, and what went on without it."""
_TELL: Final = "[ ! -s {spool} ] || {tell} {state} {host} </dev/null >/dev/null 2>&1"
"""Tells a server what happened without it, before it judges the next event. Beside a local gate, the gate looks."""
_PROGRAMS: Final = "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin:/run/current-system/sw/bin"
"""Where a program for the script is looked for first. The script names it by its path: a host may have another PATH."""
_PRIVILEGED: Final = " -p"
"""Has bash take no function, option or startup file from its variables. Other shells have none of these."""


def script_path(settings: Settings, host: str = "") -> Path:
    """Where the script is: one for all hosts that ask the local gate, one for each ``host`` that asks a server."""
    return settings.state / (f"{NAME}-{host}" if host else NAME)


def closed(script: str, host: str, seconds: int, *, asks: bool, reports: bool = False) -> str:
    """The script as a shell command that never means yes where it fails, for a host that would.

    ``asks``: it is asked whether a tool may run, and its death within ``seconds`` or its absence means no: exit
    code 2 with a reason. Where it only tells, a failure is nobody's business; with ``reports`` nobody waits for it.
    """
    command = f"{shlex.quote(script)} {host}"
    if not asks:
        return f"{command} {REPORT} || true" if reports else f"{command} || true"
    timeout = _program("timeout")
    waits = f"{shlex.quote(timeout)} -k 1 {seconds} " if timeout else ""
    otherwise = "echo 'Callosum: the hook failed, so nothing runs (see callosum doctor)' >&2; exit 2;"
    return f"{waits}{command} || {{ {otherwise} }}"


def names_of(settings: Settings) -> dict[str, str]:
    """Under which names the sessions act, as a hook says it in its query; empty where they are the usual ones."""
    found = {}
    if settings.namespace != DEFAULT_NAMESPACE:
        found["namespace"] = settings.namespace
    if settings.instance:
        found["instance"] = settings.instance
    return found


def script_of(settings: Settings, remote: Remote | None = None, host: str = "") -> str:
    """Returns the text of the script, with the names in the settings.

    It asks the local gate of the settings' state folder; with ``remote`` that server, for one ``host``. The token is
    read each time, and handed to curl by a pipe: it is in no list of processes.
    """
    said = {**({"via": MARK} if remote is not None else {}), **names_of(settings)}
    offline = launch.command(run="callosum.hosts.offline:main")
    offline.insert(2, "-S")
    words = {
        "PRIVILEGED": _PRIVILEGED if _is_bash("/bin/sh") else "",
        "DROPPED": " ".join(_dropped()),
        "CAT": shlex.quote(_program("cat") or "cat"),
        "CURL": shlex.quote(_program("curl") or "curl"),
        "NOW": "read -r now _ </proc/uptime" if _has_proc() else "now=$(date +%s)",
        "HUNG_SECONDS": str(HUNG_SECONDS),
        "HUNG_STATUS": str(HUNG_STATUS),
        "PATIENCE": PATIENCE,
        "OFFLINE": shlex.join(offline),
        "STATE": shlex.quote(str(settings.state)),
    }
    if remote is None:
        path = socket_path(settings.state)
        socket = shlex.quote(path)
        words |= {
            "QUERY": "&".join(filter(None, ("pid=$PPID", urlencode(said)))),
            "CAN": _is_gate(path),
            "HUNG": shlex.quote(hung_path(path)),
            "SECONDS": "1",
            "MILLISECONDS": "1000",
            "WHERE": f"--unix-socket {socket}",
            "BASE": "http://localhost",
            "ALSO": "",
            "SECRET": "",
            "TELL": "",
            "TEND": "",
            "SOCKET": socket,
            "PLACE": "",
            "SERVER": "",
        }
    else:
        token = shlex.quote(remote.token_file)
        trusted = f" --cacert {shlex.quote(remote.cacert)}" if remote.cacert is not None else ""
        place = folder_of(settings.state, host)
        tell = shlex.join(launch.command(run="callosum.hosts.remote:tell"))
        spool = shlex.quote(str(place / SPOOL))
        tend = shlex.join(launch.command(run="callosum.hosts.remote:main"))
        words |= {
            "QUERY": urlencode(said),
            "CAN": f'[ "$2" != {HERE} ] && {{ IFS= read -r token || [ -n "$token" ]; }} 2>/dev/null <{token}',
            "HUNG": shlex.quote(hung_path(str(place / "server"))),
            "SECONDS": f"{remote.seconds:g}",
            "MILLISECONDS": str(int(remote.seconds * 1000)),
            "WHERE": f"-H @/dev/fd/3{trusted}",
            "BASE": shlex.quote(remote.url),
            "ALSO": " 3<<TOKEN",
            "SECRET": _SECRET,
            "TELL": _TELL.format(spool=spool, tell=tell, host=host, state=words["STATE"]),
            "TEND": _TEND.format(tend=tend, host=host, state=words["STATE"]),
            "SOCKET": "''",
            "PLACE": shlex.quote(str(place)),
            "SERVER": shlex.quote(remote.url),
        }
    text = files("callosum.hosts").joinpath("hook.sh").read_text("utf-8")
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return "".join(line for line in text.splitlines(keepends=True) if line.strip())


def _is_gate(path: str) -> str:
    """Return the shell's form of the rule in ``callosum.sockets``: which process the hook speaks to."""
    socket, said = shlex.quote(path), shlex.quote(origin_path(path))
    programs, root = map(shlex.quote, origin())
    runs = f'[ "/proc/$pid/exe" -ef {shlex.quote(sys.executable)} ]' if _has_proc() else 'kill -0 "$pid" 2>/dev/null'
    return (
        f"[ -S {socket} ] && [ -O {socket} ] && [ -O {said} ] && [ ! {socket} -nt {said} ] && "
        f"{{ read -r pid && IFS= read -r programs && IFS= read -r root; }} 2>/dev/null <{said} && "
        f'[ "$programs" = {programs} ] && [ "$root" = {root} ] && {runs}'
    )


def _dropped() -> tuple[str, ...]:
    """Return the names of the variables that the script removes: a shell has no way to remove all that begin alike."""
    loader = ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH")
    kept = ("IFS",)  # the shell's own; it takes none from outside
    return (*loader, *(name for name in launch.DROPPED if name not in kept))


def _program(name: str) -> str | None:
    return shutil.which(name, path=_PROGRAMS) or shutil.which(name)


def _is_bash(shell: str) -> bool:
    return sys.platform == "darwin" or "bash" in Path(shell).resolve().name


def _has_proc() -> bool:
    return os.path.isdir("/proc/self")  # noqa: PTH112
