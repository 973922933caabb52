"""Find the identity of a caller and the gate's names for servers and tools.

The first source that names the caller counts: the arguments of the wrap, ``_meta`` of the call, the environment (and
``callosum.toml``), then the client's own name and the process that started the wrap. The protocol's session never
counts, because current clients open a new one for every request.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Raw, Struct

from callosum.characters import escaped
from callosum.hosts.mcp.messages import CLIENT, fields_of, text_of
from callosum.model import DEFAULT_NAMESPACE, MAX_NAME, TRACE
from callosum.process import host_above, process_name

AGENT: Final = "io.callosum/agent"
"""Field of ``_meta`` with the acting instance."""
SESSION: Final = "io.callosum/session"
RUN: Final = "io.callosum/run"
PARENT: Final = "io.callosum/parent"
ORIGIN: Final = "io.callosum/origin"
CALL_ID: Final = "io.callosum/call"
"""Field of ``_meta`` with the host's own id of the call, by which a repeated call is recognised."""

_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")
_LONGEST_STATE: Final = 512
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_-]+")
_STARTERS: Final = frozenset(
    "npx npm pnpm pnpx yarn bunx bun deno uvx uv pipx python python3 node docker podman exec run dlx tool x env".split()
)


class NameSources(Struct, frozen=True, kw_only=True):
    """Hold the names that come from outside the calls: ``given`` by arguments, ``usual`` from the environment."""

    given_instance: str | None = None
    given_session: str | None = None
    usual_instance: str | None = None
    usual_session: str | None = None
    namespace: str = DEFAULT_NAMESPACE


class CallerIdentity(Struct, frozen=True):
    """Identify the caller, with the other fields of its call's ``_meta``."""

    instance: str
    session: str
    run: str | None = None
    parent: str | None = None
    origin: str | None = None
    call_id: str | None = None


def actor_of(names: NameSources, meta: Mapping[str, Raw] | None, client: str, started_by: str) -> CallerIdentity:
    """Return the identity of a caller.

    ``client`` is the client's name from its handshake, or ``""``. ``started_by`` is the session to use if no source
    names one.
    """
    meta = meta or {}

    def said(name: str) -> str | None:
        return _name(text_of(meta.get(name)))

    client = text_of(fields_of(meta[CLIENT]).get("name")) if CLIENT in meta else client
    return CallerIdentity(
        names.given_instance or said(AGENT) or names.usual_instance or _name(client) or "mcp",
        names.given_session or said(SESSION) or names.usual_session or started_by,
        said(RUN),
        said(PARENT),
        said(ORIGIN),
        said(CALL_ID),
    )


def trace_of(meta: Mapping[str, Raw] | None) -> dict[str, str] | None:
    """Return the trace that ``_meta`` names, or None if it names none or a malformed one."""
    parent = text_of(meta.get(TRACE[0])) if meta else ""
    if meta is None or not _PARENT.fullmatch(parent):
        return None
    state = text_of(meta.get(TRACE[1]))
    if not state or len(state) > _LONGEST_STATE or not state.isascii() or not state.isprintable():
        return {TRACE[0]: parent}
    return {TRACE[0]: parent, TRACE[1]: state}


def parent_process() -> str:
    """Return the program that started this process, behind shells, as a session name.

    All servers that one host starts are one session, and the gate finds the calls that the host's hooks decided.
    """
    host = host_above(os.getppid())
    return process_name(host) if host is not None else str(os.getppid())


def tool_name(server: str, tool: str) -> str:
    """Return the rules' name for a server's tool: ``mcp__github__create_issue``."""
    return f"mcp__{server}__{escaped(tool)}"[:MAX_NAME]


def server_name(text: str) -> str:
    """Return a server's name as it appears in the names of its tools, or ``""`` if no valid character remains."""
    return _UNUSUAL.sub("_", text).strip("_")[:64]


def named_by_command(command: Sequence[str]) -> str:
    """Return a server's name from its command: ``npx -y @scope/server-memory`` is ``server-memory``."""
    for word in command:
        base = os.path.basename(word.rstrip("/"))  # noqa: PTH119 - pathlib costs 5 ms of every start
        base = base.rpartition("@")[0] or base  # without a version
        if base and not base.startswith("-") and base not in _STARTERS:
            return server_name(base) or "server"
    return "server"


def named_by_url(url: str) -> str:
    """Return a server's name from its URL: the host."""
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    return server_name(host.partition(":")[0]) or "server"


def _name(text: str) -> str | None:
    text = escaped(text.strip())
    return text if 0 < len(text) <= MAX_NAME else None
