"""The hook that a host with command hooks starts: the native client, or the script that is made from ``hook.sh``.

The client asks the gate of a state folder, on platforms for which the installation has one (``callosum.hosts.native``).
Everything else takes the script: other platforms, and servers of several machines.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from callosum import launch
from callosum.errors import ConfigError
from callosum.hosts import native
from callosum.hosts.hook_entries import MARK
from callosum.hosts.native import windows
from callosum.hosts.remote import RemoteServer, folder_of
from callosum.model import DEFAULT_NAMESPACE
from callosum.programs import asking, tending
from callosum.sockets import HUNG_SECONDS, HUNG_STATUS, hung_path, origin, origin_path, socket_path
from callosum.spool import FILE as SPOOL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callosum.settings import Settings

NAME: Final = MARK
"""File name of the script in the state folder. The names of all hook files begin with it, and the gate guards them."""
REPORT: Final = "report"
"""First argument of the script for an event that only reports: the host does not wait for the gate."""
HERE: Final = "here"
"""First argument for an event about a file: for a server on another machine, this machine reads the file itself."""
PATIENCE: Final = 10
"""How long such an event may take, in seconds."""
SECONDS: Final = 1
"""How long a hook waits for the answer of the local gate, in seconds."""
_SECRET: Final = "Authorization: Bearer $token\nTOKEN\n"  # noqa: S105 - how the script says it
_TEND: Final = "case $payload in {events}) {tend} {state} {host} </dev/null >/dev/null 2>&1 & ;; esac"
"""What the gate's own process does beside a local gate: the newest table of tiers, and what went on without it."""
_TELL: Final = "[ ! -s {spool} ] || {tell} {state} {host} </dev/null >/dev/null 2>&1"
"""Tells a server what happened without it, before it judges the next event. Beside a local gate, the gate looks."""
_PROGRAMS: Final = "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin:/run/current-system/sw/bin"
"""Where a program for the script is looked for first. The script names it by its path: a host may have another PATH."""
_PRIVILEGED: Final = " -p"
"""Has bash take no function, option or startup file from its variables. Other shells have none of these."""


def native_path(settings: Settings) -> Path:
    """Where the native client is, for all hosts that ask the local gate."""
    return settings.state / native.INSTALLED


def script_path(settings: Settings, host: str = "") -> Path:
    """Where the script is: one for all hosts that ask the local gate, one for each ``host`` that asks a server."""
    name = f"{NAME}-{host}" if host else NAME
    return settings.state / (f"{name}.exe" if windows.is_here() else name)


class Hook(NamedTuple):
    """What a host starts: ``path``, and the files that make it up, in the order in which they are written."""

    path: Path
    files: tuple[tuple[Path, bytes, int], ...]
    """Path, content and mode of each."""
    native: bool

    @property
    def is_written(self) -> bool:
        """Whether the files are there as they should be."""
        return all(_content(path) == content for path, content, _ in self.files)

    @property
    def kind(self) -> str:
        """What it is, in words."""
        return "the native client" if self.native else "the script"


def hook_of(settings: Settings, remote: RemoteServer | None = None, host: str = "", *, script: bool = False) -> Hook:
    """Return the hook for the gate of the settings' state folder; with ``remote``, for that server and one ``host``.

    It is the native client where there is one, unless ``script`` or the settings (``hook = "script"``) say otherwise.
    On Windows it is always the client. Raises ``ConfigError`` there if this installation has none.
    """
    if windows.is_here():
        return _windows_hook(settings, remote, host)
    wanted = remote is None and not script and settings.hook == "native"
    program = native.client_path() if wanted else None
    if program is not None:
        query = urlencode(names_of(settings))
        configuration = native.configuration(settings.state, query, _offline(), SECONDS, PATIENCE)
        if configuration is not None:
            path = native_path(settings)
            beside = path.with_name(path.name + native.CONFIGURATION)
            return Hook(path, ((beside, configuration, 0o600), (path, program.read_bytes(), 0o700)), native=True)
    path = script_path(settings, host)
    return Hook(path, ((path, script_of(settings, remote, host).encode(), 0o700),), native=False)


def _windows_hook(settings: Settings, remote: RemoteServer | None, host: str) -> Hook:
    program = native.client_path()
    if program is None:
        raise ConfigError("this installation has no hook client for this machine: install its wheel", at="callosum")
    path = script_path(settings, host)
    if remote is None:  # a check of entries that are there; an installation was refused before
        return Hook(path, ((path, program.read_bytes(), 0o700),), native=True)
    query = urlencode({"via": MARK, **names_of(settings)})
    folder = folder_of(settings.state, host)
    configuration = windows.configuration(
        settings.state, folder, host, remote, query, patience=PATIENCE, limit=native.LIMIT
    )
    beside = path.with_name(path.name + native.CONFIGURATION)
    return Hook(path, ((beside, configuration, 0o600), (path, program.read_bytes(), 0o700)), native=True)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def closed(script: str, host: str, seconds: int, *, asks: bool, word: str = "", bounded: bool = False) -> str:
    """The hook as a shell command that never means yes where it fails, for a host that would.

    ``bounded``: it ends by itself within ``seconds``, as the native client does. The script is ended by ``timeout``.

    ``asks``: it is asked whether a tool may run, and its death within ``seconds`` or its absence means no: exit
    code 2 with a reason. Where it only tells, a failure is nobody's business. ``word``: ``REPORT``, ``HERE`` or none.
    """
    if windows.is_here():
        return windows.closed(script, host, asks=asks, word=word)
    command = f"{shlex.quote(script)} {host} {word}".rstrip()
    if not asks:
        return f"{command} || true"
    timeout = None if bounded else _program("timeout")
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


def script_of(settings: Settings, remote: RemoteServer | None = None, host: str = "") -> str:
    """Returns the text of the script, with the names in the settings.

    It asks the local gate of the settings' state folder; with ``remote`` that server, for one ``host``. The token is
    read each time, and handed to curl by a pipe: it is in no list of processes.
    """
    said = {**({"via": MARK} if remote is not None else {}), **names_of(settings)}
    words = {
        "PRIVILEGED": _PRIVILEGED if _is_bash("/bin/sh") else "",
        "DROPPED": " ".join(_dropped()),
        "CAT": shlex.quote(_program("cat") or "cat"),
        "CURL": shlex.quote(_program("curl") or "curl"),
        "NOW": "read -r now _ </proc/uptime" if _has_proc() else "now=$(date +%s)",
        "HUNG_SECONDS": str(HUNG_SECONDS),
        "HUNG_STATUS": str(HUNG_STATUS),
        "PATIENCE": str(PATIENCE),
        "OFFLINE": shlex.join(_offline()),
        "STATE": shlex.quote(str(settings.state)),
        "ASKS": _patterns(asking()),
    }
    if remote is None:
        path = socket_path(settings.state)
        socket = shlex.quote(path)
        words |= {
            "QUERY": "&".join(filter(None, ("pid=$PPID", urlencode(said)))),
            "CAN": _is_gate(path),
            "HUNG": shlex.quote(hung_path(path)),
            "SECONDS": str(SECONDS),
            "MILLISECONDS": str(SECONDS * 1000),
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
            "TEND": _TEND.format(events=_patterns(tending()), tend=tend, host=host, state=words["STATE"]),
            "SOCKET": "''",
            "PLACE": shlex.quote(str(place)),
            "SERVER": shlex.quote(remote.url),
        }
    text = files("callosum.hosts").joinpath("hook.sh").read_text("utf-8")
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return "".join(line for line in text.splitlines(keepends=True) if line.strip())


def _patterns(events: Iterable[str]) -> str:
    """Return the shell's pattern for what speaks of one of the events."""
    return " | ".join(f"*{event}*" for event in events)


def _offline() -> list[str]:
    """Return the command line that decides without the gate."""
    words = launch.command(run="callosum.hosts.offline:main")
    return [*words[:2], "-S", *words[2:]]


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
