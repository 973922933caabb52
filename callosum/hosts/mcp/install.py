"""Put each server in a host's configuration behind the gate, and restore it.

::

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "server-filesystem", "/srv"]}}}
    {"mcpServers": {"files": {"command": "PYTHON", "args": ["-I", ".../callosum/launch.py", "mcp", "--name", "files",
                                                            "--", "npx", "-y", ...]}}}

The words before ``mcp`` are the command line of ``callosum.launch``, which runs no code from the host's working folder.
Entries of earlier versions, which did, are rewritten. An entry that the user wrote by hand stays.

Pure: parsed JSON in, changed JSON out. Order, unknown fields and earlier content stay. The original is restored from
the rewritten entry itself, so fields that were added meanwhile stay too. The value of a header goes into the entry's
``env``, because process lists show arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from callosum.hosts.mcp.headers import TRANSPORTS

PLACES: Final = (("mcpServers",), ("servers",), ("mcp", "servers"))
"""Places of the servers: in most hosts, in VS Code's ``mcp.json``, in VS Code's ``settings.json``."""
COMMAND: Final = ("callosum",)
_VARIABLE: Final = "CALLOSUM_MCP_HEADER_"
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9]+")


class SkippedServer(NamedTuple):
    """Name a server that stays unchanged, and say why."""

    name: str
    why: str


def installed(config: Mapping[str, Any], command: Sequence[str] = COMMAND) -> dict[str, Any]:
    """Return the configuration with every server behind the gate, started by ``command``."""
    return _changed(config, lambda name, entry: _wrapped(name, entry, command))


def removed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with every server as it was before ``installed``."""
    return _changed(config, lambda _, entry: _unwrapped(entry))


def skipped(config: Mapping[str, Any]) -> list[SkippedServer]:
    """Return the servers that ``installed`` leaves without the gate, with the reason."""
    servers = []
    for name, entry in _servers(config):
        why = _unfit(entry)
        if why and not _is_wrapped(entry) and not _is_gate(entry):
            servers.append(SkippedServer(name, why))
    return servers


def covered(config: Mapping[str, Any]) -> dict[str, bool]:
    """Return for every server whether its calls pass the gate. The gate's own server counts as covered."""
    return {name: _is_wrapped(entry) or _is_gate(entry) for name, entry in _servers(config)}


def needed(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the modules that the entries need beside those of every gate, each with the name of a server."""
    modules: dict[str, str] = {}
    for name, entry in _servers(config):
        words = _mcp_words(entry)
        if _is_gate(entry):
            modules.setdefault("mcp", name)
        elif (words is not None and "--url" in words) or ("url" in entry and not _unfit(entry)):
            modules.setdefault("urllib3", name)
    return modules


def programs(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the program that starts each server behind the gate, by the server's name."""
    return {name: str(entry["command"]) for name, entry in _servers(config) if _mcp_words(entry) is not None}


# --- Places in a configuration --------------------------------------------------------------------------


def _servers(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in PLACES:
        table: Any = config
        for step in path:
            table = table.get(step) if isinstance(table, Mapping) else None
        if isinstance(table, Mapping):
            yield from ((name, entry) for name, entry in table.items() if isinstance(entry, Mapping))


def _changed(config: Mapping[str, Any], change: Any) -> dict[str, Any]:
    changed = dict(config)
    for path in PLACES:
        parent, table = changed, changed.get(path[0])
        if len(path) == 2 and isinstance(table, Mapping):
            parent = changed[path[0]] = dict(table)
            table = parent.get(path[1])
        if isinstance(table, Mapping):
            parent[path[-1]] = {
                name: change(name, entry) if isinstance(entry, Mapping) else entry for name, entry in table.items()
            }
    return changed


# --- One server -----------------------------------------------------------------------------------------


def _wrapped(name: str, entry: Mapping[str, Any], command: Sequence[str]) -> Mapping[str, Any]:
    if _is_wrapped(entry) or _is_gate(entry):
        words = _mcp_words(entry)
        if not words or not words[0].startswith("--name") or not entry["command"].startswith("/"):
            return entry
        return {**entry, "command": command[0], "args": [*command[1:], "mcp", *words]}  # as this installation writes it
    if _unfit(entry):
        return entry
    program, *front = command
    if "command" in entry:
        # Written in one word if there were no args, so that the restored entry has none either.
        called = ["--name", name] if "args" in entry else [f"--name={name}"]
        words = [*front, "mcp", *called, "--", entry["command"], *entry.get("args", [])]
        return _rewritten(entry, "command", {"command": program, "args": words})
    words = [*front, "mcp", "--name", name, "--url", entry["url"]]
    values: dict[str, str] = {}
    for number, (header, value) in enumerate(entry.get("headers", {}).items(), 1):
        variable = f"{_VARIABLE}{number}_{_UNUSUAL.sub('_', header).upper()}"
        values[variable] = value
        words += ["--header-env", f"{header}={variable}"]
    if "type" in entry:
        words += ["--transport", entry["type"]]
    wrapped = _rewritten(entry, "url", {"command": program, "args": words}, type="stdio")
    if values:
        wrapped["env"] = {**entry.get("env", {}), **values}
    return wrapped


def _unwrapped(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    words = _mcp_words(entry)
    if words is None or not _is_wrapped(entry):
        return entry
    if "--" in words[:-1]:
        front, back = words[: words.index("--")], words[words.index("--") + 1 :]
        bare = any(word.startswith("--name=") for word in front) and len(back) == 1
        return _rewritten(entry, "command", {"command": back[0], **({} if bare else {"args": back[1:]})})
    options = list(pairwise(words))
    env = dict(entry.get("env", {}))
    headers: dict[str, Any] = {}
    for option, value in options:
        header, _, variable = value.partition("=")
        if option == "--header-env" and variable in env:
            headers[header] = env.pop(variable)
    url = next(value for option, value in options if option == "--url")
    kind = next((value for option, value in options if option == "--transport"), None)
    restored = _rewritten(entry, "command", {"url": url, **({"headers": headers} if headers else {})}, type=kind)
    if headers and env:
        restored["env"] = env
    elif headers:
        del restored["env"]
    return restored


def _rewritten(
    entry: Mapping[str, Any], at: str, fields: Mapping[str, Any], *, type: str | None = None
) -> dict[str, Any]:
    """Return the entry in its own order, with ``fields`` in place of ``at`` and nowhere else."""
    rewritten: dict[str, Any] = {}
    for key, value in entry.items():
        if key == at:
            rewritten.update(fields)
        elif key == "type" and type is not None:
            rewritten[key] = type
        elif key == "args" and "args" in fields:
            rewritten.setdefault(key, fields["args"])
        elif key not in ("command", "args", "url") and not (key == "headers" and value):
            rewritten[key] = value
    return rewritten


def _unfit(entry: Mapping[str, Any]) -> str:
    """Return why a server cannot be put behind the gate, or ``""`` if it can."""
    if _is_gate(entry):
        return "it is the gate's own server"
    if "command" in entry and ("url" in entry or "headers" in entry):
        return "it has both a command and an address"
    if isinstance(entry.get("command"), str) and entry["command"]:
        args = entry.get("args", [])
        sound = isinstance(args, list) and all(isinstance(word, str) for word in args)
        return "" if sound else "its args are no list of strings"
    url = entry.get("url")
    if not isinstance(url, str) or not url or url.startswith("-") or "command" in entry or "args" in entry:
        return "it has neither a command nor a url"
    if entry.get("type") == "sse":
        return "it speaks the HTTP+SSE transport of 2024: use its Streamable HTTP address"
    if "type" in entry and entry["type"] not in TRANSPORTS:
        return f"its type is not known: {str(entry['type'])[:40]}"
    headers = entry.get("headers", {})
    if not isinstance(headers, Mapping) or not all(isinstance(value, str) for value in headers.values()):
        return "its headers are no texts"
    return "" if isinstance(entry.get("env", {}), Mapping) else "its env is no object"


def _mcp_words(entry: Mapping[str, Any]) -> list[str] | None:
    """Return the words behind ``callosum mcp`` in an entry, or None if it is another command."""
    program, args = entry.get("command"), entry.get("args", [])
    if not isinstance(program, str) or not isinstance(args, list) or not all(isinstance(word, str) for word in args):
        return None
    words = [program, *args]
    for at, word in enumerate(words[:-1]):
        if word == "--":
            return None
        if words[at + 1] == "mcp" and _is_callosum(words[: at + 1]):
            return words[at + 2 :]
    return None


def _is_callosum(words: Sequence[str]) -> bool:
    """Return True if the words start Callosum: a program of that name, or ``launch.py`` of its package with options."""
    if words[-1].replace("\\", "/").rpartition("/")[2] in _PROGRAMS:
        return True
    at = next((at for at, word in enumerate(words) if word.endswith(_LAUNCHER)), None)
    return at is not None and set(words[at + 1 :: 2]) <= {"--import"} and (len(words) - at) % 2 == 1


_LAUNCHER: Final = "/callosum/launch.py"
_PROGRAMS: Final = ("callosum", "callosum.exe", "callosum.cli", "callosum-protocol")


def _is_wrapped(entry: Mapping[str, Any]) -> bool:
    words = _mcp_words(entry)
    return words is not None and ("--" in words[:-1] or "--url" in words[:-1])


def _is_gate(entry: Mapping[str, Any]) -> bool:
    words = _mcp_words(entry)
    return words is not None and not ("--" in words[:-1] or "--url" in words[:-1])
