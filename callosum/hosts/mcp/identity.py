"""Who acts and what a tool is called, as the gate knows them.

Named in this order, the first that says something wins: the arguments of the wrap, ``_meta`` of the call, the
environment (and ``callosum.toml``), the client's own name and the process that started the wrap. Never the session of
the protocol: today's clients open a new one for every request.
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
from callosum.process import host_of

AGENT: Final = "io.callosum/agent"
"""In ``_meta``: the instance that acts."""
SESSION: Final = "io.callosum/session"
RUN: Final = "io.callosum/run"
PARENT: Final = "io.callosum/parent"
ORIGIN: Final = "io.callosum/origin"
CALL_ID: Final = "io.callosum/call"
"""In ``_meta``: the host's own id of the call, by which a call that comes twice is known."""

_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")
_LONGEST_STATE: Final = 512
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_-]+")
_STARTERS: Final = frozenset(
    "npx npm pnpm pnpx yarn bunx bun deno uvx uv pipx python python3 node docker podman exec run dlx tool x env".split()
)


class NameSources(Struct, frozen=True, kw_only=True):
    """What is said of the actor outside of the calls: ``given`` by argument, ``usual`` by the environment."""

    given_instance: str | None = None
    given_session: str | None = None
    usual_instance: str | None = None
    usual_session: str | None = None
    namespace: str = DEFAULT_NAMESPACE


class CallerIdentity(Struct, frozen=True):
    """Who makes a call, and what else its ``_meta`` says of it."""

    instance: str
    session: str
    run: str | None = None
    parent: str | None = None
    origin: str | None = None
    call_id: str | None = None


def actor_of(names: NameSources, meta: Mapping[str, Raw] | None, client: str, started_by: str) -> CallerIdentity:
    """Returns who makes a call. ``client`` is the client's name from its handshake, ``""`` if it said none.

    ``started_by``: the session where nobody names one.
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
    """Return the trace in which a call was made, as its ``_meta`` says; None where it names none, or wrongly."""
    parent = text_of(meta.get(TRACE[0])) if meta else ""
    if meta is None or not _PARENT.fullmatch(parent):
        return None
    state = text_of(meta.get(TRACE[1]))
    if not state or len(state) > _LONGEST_STATE or not state.isascii() or not state.isprintable():
        return {TRACE[0]: parent}
    return {TRACE[0]: parent, TRACE[1]: state}


def parent_process() -> str:
    """The process that started this one, as the name of a session: its pid and its start.

    All servers that one host starts have the same parent, and so are one session.
    """
    pid = os.getppid()
    try:
        return f"{pid}-{int(host_of(pid).started * 100):x}"
    except OSError:
        return str(pid)


def tool_name(server: str, tool: str) -> str:
    """The name that rules know a server's tool by: ``mcp__github__create_issue``."""
    return f"mcp__{server}__{escaped(tool)}"[:MAX_NAME]


def server_name(text: str) -> str:
    """A server's name as it stands in the names of its tools, ``""`` where nothing is left of it."""
    return _UNUSUAL.sub("_", text).strip("_")[:64]


def named_by_command(command: Sequence[str]) -> str:
    """A server's name by how it is started: ``npx -y @scope/server-memory`` is ``server-memory``."""
    for word in command:
        base = os.path.basename(word.rstrip("/"))  # noqa: PTH119 - pathlib costs 5 ms of every start
        base = base.rpartition("@")[0] or base  # a version
        if base and not base.startswith("-") and base not in _STARTERS:
            return server_name(base) or "server"
    return "server"


def named_by_url(url: str) -> str:
    """A server's name by its address: the host."""
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    return server_name(host.partition(":")[0]) or "server"


def _name(text: str) -> str | None:
    text = escaped(text.strip())
    return text if 0 < len(text) <= MAX_NAME else None
