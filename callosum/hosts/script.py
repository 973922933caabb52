"""Build the hook that a host with command hooks starts: the native client, or the script made from ``hook.sh``.

The native client asks the gate of a state folder, on platforms for which the installation contains a client
(``callosum.hosts.native``). All other cases use the script: other platforms, and a server for several machines.
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
"""File name of the script in the state folder. All hook files start with it, and the gate guards such files."""
REPORT: Final = "report"
"""Second argument of the script for an event that only reports: the host does not wait for the gate."""
HERE: Final = "here"
"""Second argument for an event about a file, which this machine reads even if the gate is on another machine."""
PATIENCE: Final = 10
"""Seconds that such an event may take."""
SECONDS: Final = 1
"""Seconds that a hook waits for the answer of the local gate."""
INPUT_SECONDS: Final = 5
"""Seconds in which a host must have written an event; what is whole by then is judged."""
_SECRET: Final = "Authorization: Bearer $token\nTOKEN\n"  # noqa: S105 - how the script says it
_TEND: Final = "case $payload in {events}) {tend} {state} {host} </dev/null >/dev/null 2>&1 & ;; esac"
"""Shell line that fetches the newest tier table and sends the spool. A local gate does both itself."""
_TELL: Final = "[ ! -s {spool} ] || {tell} {state} {host} </dev/null >/dev/null 2>&1"
"""Shell line that sends the spool to a server before the server decides again. A local gate reads the spool itself."""
_PROGRAMS: Final = "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin:/run/current-system/sw/bin"
"""Folders searched first for the programs that the script runs by absolute path. A host may have another PATH."""
_PRIVILEGED: Final = " -p"
"""Option that stops bash from taking functions, options or startup files from its environment. Others take none."""


def native_path(settings: Settings) -> Path:
    """Return the path of the native client for all hosts that ask the local gate."""
    return settings.state / native.INSTALLED


def script_path(settings: Settings, host: str = "") -> Path:
    """Return the path of the script: shared by hosts that ask the local gate, separate for a ``host`` with a server."""
    name = f"{NAME}-{host}" if host else NAME
    return settings.state / (f"{name}.exe" if windows.is_here() else name)


class Hook(NamedTuple):
    """Describe the hook that a host starts: its path and its files, in the order in which they are written."""

    path: Path
    files: tuple[tuple[Path, bytes, int], ...]
    """Path, content and mode of each file."""
    native: bool

    @property
    def is_written(self) -> bool:
        """Return True if all files have the wanted content."""
        return all(_content(path) == content for path, content, _ in self.files)

    @property
    def kind(self) -> str:
        """Return the kind of hook in words."""
        return "the native client" if self.native else "the script"


def hook_of(settings: Settings, remote: RemoteServer | None = None, host: str = "", *, script: bool = False) -> Hook:
    """Return the hook for the gate of this state folder or, with ``remote``, for that server and one ``host``.

    It is the native client if one is available, unless ``script`` or the settings (``hook = "script"``) say otherwise.
    On Windows it is always the native client.

    Raises: ``ConfigError`` on Windows if this installation has no native client.
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
    if remote is None:  # only to check existing entries; an installation was refused before
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
    """Return a shell command that runs the hook and never allows a call if the hook fails.

    ``bounded`` says that the hook ends by itself within ``seconds``, as the native client does; the script is ended by
    ``timeout``. With ``asks`` the event asks whether a tool may run: if the hook dies, hangs or is missing, the command
    exits with code 2 and a reason. Without ``asks`` the event only reports and a failure is ignored. ``word`` is
    ``REPORT``, ``HERE`` or empty.
    """
    if windows.is_here():
        return windows.closed(script, host, asks=asks, word=word)
    command = f"{shlex.quote(script)} {host} {word}".rstrip()
    if not asks:
        return f"{command} || true"
    waits = shlex.join([] if bounded else _bounded(seconds))
    otherwise = "echo 'Callosum: the hook failed, so nothing runs (see callosum doctor)' >&2; exit 2;"
    return f"{waits} {command} || {{ {otherwise} }}".lstrip()


def _bounded(seconds: int) -> tuple[str, ...]:
    """Return the words before a command that end it after some seconds; none where there is no ``timeout``."""
    timeout = _program("timeout")
    return (timeout, "-k", "1", str(seconds)) if timeout else ()


def names_of(settings: Settings) -> dict[str, str]:
    """Return the instance and namespace that a hook sends in its query. Leave out the default names."""
    names = {}
    if settings.namespace != DEFAULT_NAMESPACE:
        names["namespace"] = settings.namespace
    if settings.instance:
        names["instance"] = settings.instance
    return names


def script_of(settings: Settings, remote: RemoteServer | None = None, host: str = "") -> str:
    """Return the text of the script, with the names in the settings.

    The script asks the local gate of this state folder or, with ``remote``, that server for one ``host``. It reads the
    token each time and passes it to curl through a pipe, so that no list of processes shows it.
    """
    said = {**({"via": MARK} if remote is not None else {}), **names_of(settings)}
    words = {
        "PRIVILEGED": _PRIVILEGED if sys.platform == "darwin" or "bash" in Path("/bin/sh").resolve().name else "",
        "DROPPED": " ".join(_dropped()),
        "READ": shlex.join((*_bounded(INPUT_SECONDS), _program("cat") or "cat")),
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
        folder = folder_of(settings.state, host)
        tell = shlex.join(launch.command(run="callosum.hosts.remote:tell"))
        spool = shlex.quote(str(folder / SPOOL))
        tend = shlex.join(launch.command(run="callosum.hosts.remote:main"))
        words |= {
            "QUERY": urlencode(said),
            "CAN": f'[ "$2" != {HERE} ] && {{ IFS= read -r token || [ -n "$token" ]; }} 2>/dev/null <{token}',
            "HUNG": shlex.quote(hung_path(str(folder / "server"))),
            "SECONDS": f"{remote.seconds:g}",
            "MILLISECONDS": str(int(remote.seconds * 1000)),
            "WHERE": f"-H @/dev/fd/3{trusted}",
            "BASE": shlex.quote(remote.url),
            "ALSO": " 3<<TOKEN",
            "SECRET": _SECRET,
            "TELL": _TELL.format(spool=spool, tell=tell, host=host, state=words["STATE"]),
            "TEND": _TEND.format(events=_patterns(tending()), tend=tend, host=host, state=words["STATE"]),
            "SOCKET": "''",
            "PLACE": shlex.quote(str(folder)),
            "SERVER": shlex.quote(remote.url),
        }
    text = files("callosum.hosts").joinpath("hook.sh").read_text("utf-8")
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return "".join(line for line in text.splitlines(keepends=True) if line.strip())


def _patterns(events: Iterable[str]) -> str:
    """Return the shell pattern that matches a payload with one of the events."""
    return " | ".join(f"*{event}*" for event in events)


def _offline() -> list[str]:
    """Return the command line that decides without the gate."""
    words = launch.command(run="callosum.hosts.offline:main")
    return [*words[:2], "-S", *words[2:]]


def _is_gate(path: str) -> str:
    """Return the shell form of the rule in ``callosum.sockets`` about which process the hook may talk to."""
    socket, said = shlex.quote(path), shlex.quote(origin_path(path))
    programs, root = map(shlex.quote, origin())
    runs = f'[ "/proc/$pid/exe" -ef {shlex.quote(sys.executable)} ]' if _has_proc() else 'kill -0 "$pid" 2>/dev/null'
    return (
        f"[ -S {socket} ] && [ -O {socket} ] && [ -O {said} ] && [ ! {socket} -nt {said} ] && "
        f"{{ read -r pid && IFS= read -r programs && IFS= read -r root; }} 2>/dev/null <{said} && "
        f'[ "$programs" = {programs} ] && [ "$root" = {root} ] && {runs}'
    )


def _dropped() -> tuple[str, ...]:
    """Return the names of the variables to remove. A shell cannot remove variables by prefix."""
    loader = ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH")
    kept = ("IFS",)  # the shell sets it itself and ignores the inherited value
    return (*loader, *(name for name in launch.DROPPED if name not in kept))


def program_in_no_project(name: str) -> str | None:
    """Return the first program of this name in ``PATH`` that may be recorded for gates and hooks, or None.

    It lies in no project, where an agent could replace it: not in the working folder, unless that holds the user's
    home, and no folder above it holds a ``.git``.
    """
    here = Path.cwd().resolve()
    is_project = not Path.home().resolve().is_relative_to(here)
    for entry in filter(os.path.isabs, os.get_exec_path()):
        folder = Path(entry).resolve()
        above = (folder, *folder.parents)
        if not (is_project and here in above) and not any(one.joinpath(".git").exists() for one in above):
            found = shutil.which(name, path=str(folder))
            if found is not None:
                return found
    return None


def _program(name: str) -> str | None:
    return shutil.which(name, path=_PROGRAMS) or program_in_no_project(name)


def _has_proc() -> bool:
    return os.path.isdir("/proc/self")  # noqa: PTH112
