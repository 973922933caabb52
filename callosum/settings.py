"""The settings, and where each comes from.

A setting comes from the first of these places that has it:

1. the flags of the command (or the arguments of a program that embeds the gate),
2. the environment: ``CALLOSUM_STATE``, ``CALLOSUM_LEASE_TTL``, ...,
3. one ``callosum.toml``: the named one (``--config``, ``CALLOSUM_CONFIG``), otherwise the nearest from the
   working folder up to the root of its repository, otherwise the one in the platform's configuration folder.
   A file in a project's folder cannot set ``notify`` or ``host_approvals``: a cloned repository must not choose
   a command that runs, or who may approve. Gates that hosts start read no working folder (``callosum.launch``),
4. its default.

docs/settings.md lists all settings, with an example of the file.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from callosum.errors import ConfigError
from callosum.model import DEFAULT_NAMESPACE, MAX_NAME

CONFIG: Final = "callosum.toml"
"""Name of the settings file."""


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of a gate, a server and their tools.

    ``state`` is the folder with the store and the journal's segments, ``store`` the URL of another store
    (``callosum.stores.opening``). ``namespace`` names the group of sessions that see each other, ``instance`` the one
    that acts if a call does not say. ``hook`` is the hook that hosts start, if the installation has a native client.
    With ``mode`` ``observe`` the gate decides and records everything and stops nothing. ``lease_ttl`` is in seconds.
    ``rules`` is the user's rules file, which is applied before the default rules. ``notify`` is the command, as
    arguments, that tells a person of a pending approval. ``host_approvals``: an approval through a framework's own
    means answers a question.

    ``journal_params`` says what the journal keeps of a call's params. The journal is rotated beyond ``journal_age``
    (seconds) and ``journal_size`` (bytes). ``journal_purposes``: the prompt that a call serves is kept; ``auto`` keeps
    it in a store of this machine, and never in a server that others can reach. ``journal_share_purposes``: sessions of
    other instances see it too. ``journal_hunks``: the journal keeps lines that a write of a file changes.
    ``snapshots``: writes over unread changes are compared and merged, for which copies of files are kept for a day.

    ``shell`` holds the fields of ``ShellPolicy`` that are set. ``keys_fold_plus_tags``: addresses lose their plus tags
    in keys. ``server_...`` are the options of ``callosum serve``. ``corpus_log``: the daily log is written, with at
    most ``corpus_size`` bytes a day. ``regions_off`` names the regions that are switched off. ``brief_budget`` is the
    maximum length of a brief in tokens. Beyond ``health_memory`` and ``health_disk`` (used shares, 0 to 1), or below
    ``health_free`` (bytes), a health event is emitted. ``telemetry_...`` says what other systems receive from the
    corpus. ``config`` is the file that was read, None if there was none.
    """

    state: Path
    store: str = ""
    namespace: str = DEFAULT_NAMESPACE
    instance: str | None = None
    hook: Literal["native", "script"] = "native"
    mode: Literal["enforce", "observe"] = "enforce"
    lease_ttl: float = 300.0
    rules: Path | None = None
    notify: tuple[str, ...] = ()
    host_approvals: bool = False
    journal_params: Literal["summary", "full", "none"] = "summary"
    journal_age: float = 30 * 86400.0
    journal_size: int = 64_000_000
    journal_purposes: Literal["auto", "on", "off"] = "auto"
    journal_share_purposes: bool = False
    journal_hunks: bool = False
    snapshots: bool = True
    shell: Mapping[str, int | tuple[str, ...]] = {}
    keys_fold_plus_tags: bool = False
    server_host: str = "127.0.0.1"
    server_port: int = 7700
    server_socket: Path | None = None
    server_tls_cert: Path | None = None
    server_tls_key: Path | None = None
    server_hosts: tuple[str, ...] = ()
    server_origins: tuple[str, ...] = ()
    server_console: str = ""
    corpus_log: bool = True
    corpus_size: int = 100_000_000
    regions_off: tuple[str, ...] = ()
    brief_budget: int = 600
    health_memory: float = 0.9
    health_disk: float = 0.95
    health_free: int = 64_000_000
    telemetry_opentelemetry: bool = False
    telemetry_content: bool = False
    telemetry_prometheus: bool = False
    telemetry_logging: bool = False
    config: Path | None = None


_NOT_OF_A_PROJECT: Final = {
    "notify": (
        "a file that is found in a project's folder cannot name a command to run: write it into your own "
        "callosum.toml, give it as --notify or CALLOSUM_NOTIFY, or name this file with --config"
    ),
    "host_approvals": (
        "a file that is found in a project's folder cannot say whose approvals count: write it into your own "
        "callosum.toml, give it as CALLOSUM_HOST_APPROVALS, or name this file with --config"
    ),
}


def load(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    *,
    project: bool = True,
) -> Settings:
    """Return the settings in force.

    ``flags`` have the names of the fields of ``Settings``, and ``config`` for the file to read; None means that a flag
    was not given. ``environ`` and ``cwd`` are the process's own by default. With ``project`` False, a ``callosum.toml``
    in the working folder or above it is not read, because an agent's host chose that folder.

    Raises ``ConfigError`` with the place of the error as its author wrote it (``--lease-ttl``, ``CALLOSUM_LEASE_TTL``,
    ``callosum.toml: lease.ttl``): a value that does not fit, an unknown setting, a named file that is absent or is not
    TOML.
    """
    environ = os.environ if environ is None else environ
    here = Path.cwd() if cwd is None else Path(cwd).absolute()
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    named = _take(given, "config", "--config", here) or _take(
        {"config": environ.get("CALLOSUM_CONFIG")}, "config", "CALLOSUM_CONFIG", here
    )
    for name in given:
        if name not in _READ and name != "config":
            raise ConfigError(_no_such(name, _READ), at=_flag(name))
    found: dict[str, Any] = {}
    config = _find(named, environ, _up_to_repository(here) if project else [])
    if config is not None:
        found.update(_from_file(config))
        if config not in (named, user_config(environ)):
            for name in _NOT_OF_A_PROJECT.keys() & found.keys():
                raise ConfigError(_NOT_OF_A_PROJECT[name], at=f"{config}: {name}")
    for name, read in _READ.items():
        variable = f"CALLOSUM_{name.upper()}"
        if name in given:
            found[name] = _read(read, given[name], _flag(name), here)
        elif environ.get(variable):
            found[name] = _read(read, environ[variable], variable, here)
    if "state" not in found:
        found["state"] = _platform("state", environ)
    shell = {name.removeprefix("shell_"): found.pop(name) for name in list(found) if name.startswith("shell_")}
    return Settings(**found, shell=shell, config=config)


def user_config(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the user's own ``callosum.toml``, which all of the user's processes find by themselves."""
    return _platform("config", os.environ if environ is None else environ) / CONFIG


def handed_on(environ: Mapping[str, str], cwd: str | Path | None = None) -> dict[str, str]:
    """Return the environment variables with gate settings that a process passes to the local gate it starts.

    That gate works in another folder, so paths become absolute, starting at ``cwd`` (default: the working folder).
    Settings that are given as options, that concern one session, or that only a server for several machines has are
    left out.
    """
    here = Path.cwd() if cwd is None else Path(cwd).absolute()
    found: dict[str, str] = {}
    for name, read in {"config": _path, **_READ}.items():
        variable = f"CALLOSUM_{name.upper()}"
        value = environ.get(variable)
        if not value or name in _OF_ONE_PROCESS or name.startswith("server_"):
            continue
        if read is _path:
            value = _absolute(value, here)
        elif read is _folders:
            value = os.pathsep.join(_absolute(word, here) for word in value.split(os.pathsep) if word)
        found[variable] = value
    return found


def _absolute(path: str, here: Path) -> str:
    return str(here / os.path.expanduser(path))  # noqa: PTH111 - an unknown user is for the gate to report


# -- values ----------------------------------------------------------------------------------------


class _Bad(Exception):
    """Carries a description of the expected value."""


_Reader = Callable[[Any, Path], Any]
"""Converts a value to that of the field; the second argument is the folder at which relative paths start."""

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZES: Final = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_AMOUNT: Final = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([a-z]*)\s*", re.IGNORECASE)


def _amount(value: Any, units: Mapping[str, int]) -> float | None:
    if isinstance(value, str) and (parts := _AMOUNT.fullmatch(value)) and parts[2].lower() in units:
        return float(parts[1]) * units[parts[2].lower()]
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _number(units: Mapping[str, int], low: float, high: float, expected: str) -> _Reader:
    def read(value: Any, _: Path) -> float:
        number = _amount(value, units)
        if number is None or not low <= number <= high:
            raise _Bad(expected)
        return number

    return read


def _seconds(low: float, high: float) -> _Reader:
    return _number(
        _UNITS, low, high, f'a number of seconds from {low:g} to {high:g} (or as in "90s", "5m", "2h", "30d")'
    )


def _whole(low: int, high: int, expected: str) -> _Reader:
    def read(value: Any, _: Path) -> int:
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= len(str(high)):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _Bad(expected)
        return value

    return read


def _bytes(low: int) -> _Reader:
    def read(value: Any, _: Path) -> int:
        size = _amount(value, _SIZES)
        if size is None or size < low:
            raise _Bad(f'a number of bytes, at least {low} (or as in "64MB", "1GiB")')
        return int(size)

    return read


def _one_of(*words: str) -> _Reader:
    def read(value: Any, _: Path) -> str:
        if value not in words:
            raise _Bad(" or ".join(f'"{word}"' for word in words))
        return str(value)

    return read


def _name(value: Any, _: Path) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME or not value.isprintable():
        raise _Bad(f"a name of at most {MAX_NAME} characters")
    return value


def _matching(pattern: str, expected: str) -> _Reader:
    def read(value: Any, _: Path) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value) or not value.isprintable():
            raise _Bad(expected)
        return value

    return read


def _path(value: Any, base: Path) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise _Bad("a path")
    try:
        return base / Path(value).expanduser()
    except RuntimeError as fault:
        raise _Bad("a path that starts with a home folder that exists") from fault


def _names(value: Any, base: Path) -> tuple[str, ...]:
    words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
    if not isinstance(words, list | tuple):
        raise _Bad("a list of names, or names with commas between")
    return tuple(_name(word, base) for word in words if word)


def _command(value: Any, _: Path) -> tuple[str, ...]:
    try:
        words = shlex.split(value) if isinstance(value, str) else list(value)
    except (TypeError, ValueError):
        words = []
    if not words or not all(isinstance(word, str) for word in words):
        raise _Bad("a command, as one string or as a list of strings")
    return tuple(words)


def _branches(value: Any, base: Path) -> tuple[str, ...]:
    found = _names(value, base)
    for name in found:
        if "*" in name[:-1] or name == "*":
            raise _Bad('names of branches, or beginnings with a "*" behind')
    return found


def _folders(value: Any, base: Path) -> tuple[str, ...]:
    """Return folders as commands spell them: absolute, and also starting with ``~`` if in the home folder."""
    words = [word for word in value.split(os.pathsep) if word] if isinstance(value, str) else value
    if not isinstance(words, list | tuple):
        raise _Bad(f'a list of folders, or folders with "{os.pathsep}" between')
    found: list[str] = []
    for word in words:
        folder = os.path.normpath(_path(word, base))
        if folder in (os.sep, os.path.normpath(Path.home())):
            raise _Bad("folders below the root and below home")
        found.append(folder)
        if Path(folder).is_relative_to(Path.home()):
            found.append(f"~/{Path(folder).relative_to(Path.home()).as_posix()}")
    return tuple(dict.fromkeys(found))


_SHELL: Final[Mapping[str, _Reader]] = {
    **dict.fromkeys(
        (
            *("inside", "whole", "temporary", "outside", "outside_file", "unknown", "mirror", "system", "discard"),
            *("push", "push_protected", "force_push", "force_push_protected", "delete_branch", "publish", "migrate"),
            "service",
        ),
        _whole(1, 4, "a tier from 1 (low) to 4 (critical)"),
    ),
    "folders": _folders,
    "temporary_folders": _folders,
    "protected": _branches,
}
"""Fields of ``ShellPolicy``, listed here because only a process that judges calls needs to load that class."""

REGIONS: Final = (
    *("execution", "safety", "health", "scheduler", "episodes", "search"),
    *("context", "budget", "learning", "models", "parsing"),
)
"""Module names of the regions, and ``models`` for the reading of hosts' transcripts: ``regions.off`` may name them."""


def _regions(value: Any, base: Path) -> tuple[str, ...]:
    found = _names(value, base)
    for name in found:
        if name not in REGIONS:
            raise _Bad(f"names of regions ({', '.join(REGIONS)})")
    return found


def _switch(value: Any, _: Path) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in ("true", "on", "yes", "1", "false", "off", "no", "0"):
        raise _Bad("true or false")
    return word in ("true", "on", "yes", "1")


_OF_ONE_PROCESS: Final = ("state", "instance", "hook", "notify", "host_approvals")
"""Settings that a process does not pass on to a gate that it starts."""
_READ: Final[Mapping[str, _Reader]] = {
    "state": _path,
    "store": _matching(r"[a-z]+:\S*", 'a URL, as in "postgresql://db/agents"'),
    "namespace": _name,
    "instance": _name,
    "hook": _one_of("native", "script"),
    "mode": _one_of("enforce", "observe"),
    "lease_ttl": _seconds(1, 86400),
    "rules": _path,
    "notify": _command,
    "host_approvals": _switch,
    "journal_params": _one_of("summary", "full", "none"),
    "journal_age": _seconds(3600, 36500 * 86400),
    "journal_size": _bytes(1_000_000),
    "journal_purposes": _one_of("auto", "on", "off"),
    "journal_share_purposes": _switch,
    "journal_hunks": _switch,
    "snapshots": _switch,
    **{f"shell_{name}": reader for name, reader in _SHELL.items()},
    "keys_fold_plus_tags": _switch,
    "server_host": _name,
    "server_port": _whole(0, 65535, "a port from 0 to 65535"),
    "server_socket": _path,
    "server_tls_cert": _path,
    "server_tls_key": _path,
    "server_hosts": _names,
    "server_origins": _names,
    "server_console": _matching(
        r"(?:https://[a-z0-9.-]+(?::[0-9]{1,5})?)?", 'an address without a path, as in "https://gate.example.com"'
    ),
    "corpus_log": _switch,
    "corpus_size": _bytes(2_000_000),
    "regions_off": _regions,
    "brief_budget": _whole(0, 100_000, "a number of tokens from 0 to 100000"),
    "health_memory": _number({"": 1}, 0, 1, "a part from 0 to 1"),
    "health_disk": _number({"": 1}, 0, 1, "a part from 0 to 1"),
    "health_free": _bytes(0),
    "telemetry_opentelemetry": _switch,
    "telemetry_content": _switch,
    "telemetry_prometheus": _switch,
    "telemetry_logging": _switch,
}


def _read(read: _Reader, value: Any, place: str, base: Path) -> Any:
    try:
        return read(value, base)
    except _Bad as expected:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:60] + "…"
        raise ConfigError(f"expected {expected}, not {shown}", at=place) from None


def _take(given: Mapping[str, Any], name: str, place: str, base: Path) -> Path | None:
    value = given.get(name)
    return None if value in (None, "") else _read(_path, value, place, base)


_OPTIONS: Final = {"server_hosts": "--allow-host", "server_origins": "--allow-origin"}
"""Options of ``callosum serve`` whose names differ from the setting's."""


def _flag(name: str) -> str:
    return _OPTIONS.get(name) or "--" + name.removeprefix("server_").replace("_", "-")


def _no_such(name: str, names: Mapping[str, Any]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, n=1)
    return f"there is no such setting{f', did you mean {near[0]}?' if near else ''}"


# -- the file --------------------------------------------------------------------------------------


_TABLES: Final = ("lease", "journal", "shell", "keys", "server", "corpus", "regions", "brief", "health", "telemetry")


def _dotted(name: str) -> str:
    """Return the name of a field in the file: ``lease.ttl``."""
    table, _, key = name.partition("_")
    return f"{table}.{key}" if table in _TABLES else name


_WRITTEN: Final = {_dotted(name): name for name in _READ}


def _find(named: Path | None, environ: Mapping[str, str], folders: Sequence[Path]) -> Path | None:
    if named is not None:
        if not named.is_file():
            raise ConfigError("there is no such file", at=str(named))
        return named
    for folder in folders:
        if (folder / CONFIG).is_file():
            return folder / CONFIG
    own = user_config(environ)
    return own if own.is_file() else None


def _up_to_repository(here: Path) -> list[Path]:
    """Return the folders from here up to the root of the repository; outside a repository, only this one.

    Files above a repository, or in a folder that everyone may write to, are not trusted.
    """
    folders = [here]
    for folder in (here, *here.parents):
        if folder != here:
            folders.append(folder)
        if (folder / ".git").exists():
            return folders
    return [here]


def default_state() -> Path:
    """Return the state folder of this user if no setting names one."""
    return _platform("state", os.environ)


def _platform(kind: Literal["state", "config"], environ: Mapping[str, str]) -> Path:
    variable = environ.get(f"XDG_{kind.upper()}_HOME")
    if variable and Path(variable).is_absolute() and os.name == "posix":
        return Path(variable) / "callosum"
    import platformdirs

    if kind == "state":
        return platformdirs.user_state_path("callosum", appauthor=False)
    return platformdirs.user_config_path("callosum", appauthor=False)


def _from_file(config: Path) -> dict[str, Any]:
    import tomllib

    try:
        with config.open("rb") as file:
            content = tomllib.load(file)
    except (OSError, ValueError, RecursionError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else str(fault)
        raise ConfigError(reason or "cannot be read", at=str(config)) from fault
    written: dict[str, Any] = {}
    for name, value in content.items():
        if name in _TABLES:
            if not isinstance(value, dict):
                raise ConfigError("expected a table", at=f"{config.name}: {name}")
            written.update({f"{name}.{key}": inner for key, inner in value.items()})
        else:
            written[name] = value
    found: dict[str, Any] = {}
    for written_name, value in written.items():
        place = f"{config.name}: {written_name}"
        if written_name not in _WRITTEN:
            raise ConfigError(_no_such(written_name, _WRITTEN), at=place)
        name = _WRITTEN[written_name]
        found[name] = _read(_READ[name], value, place, config.parent)
    return found
