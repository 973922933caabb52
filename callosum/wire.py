"""The wire: what requests look like, and how they are read, faults with their place.

Every message is JSON in camelCase. A request is read into one of the structs here (``Call`` for an
intercept); answers are the model's own structs. Both ends use this module: the server reads requests
with ``read``, a client reads answers with ``msgspec`` decoders of the model's types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from callosum import budget
from callosum.characters import escaped
from callosum.errors import ConfigError
from callosum.model import (
    DEFAULT_NAMESPACE,
    MAX_KEY,
    MAX_NAME,
    Call,
    Conflict,
    Content,
    Entry,
    GateRequest,
    Host,
    Key,
    LockResult,
    Outcome,
    Report,
    Status,
)

PORT: Final = 7700
"""Where a server listens unless it is told otherwise."""
MAX_BODY: Final = 5_000_000
"""Longest request body, in bytes."""
MAX_EVENTS: Final = 1000
"""Most events, or late calls, of one request."""
MAX_LATE_KEYS: Final = 256
"""Most keys of one late call."""
MAX_WAIT: Final = 60.0
"""Longest time that a call, or a reader of the journal, may wait, in seconds."""
MAX_PAGE: Final = 1000
"""Most journal entries of one page."""
MAX_KEYS: Final = 32
"""Most keys that a request for a brief may name."""
MAX_PATH: Final = 4096
"""Longest path of a session's folder, in characters."""
MAX_BUDGET: Final = 100_000
"""Largest budget that may be asked for, in tokens."""


Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Intercept(Call, frozen=True, gc=False, forbid_unknown_fields=True):
    """``POST /intercept``: a call with no other fields. In a spool a call may have those of a later version."""


class _Request(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """How requests are written."""


class Complete(_Request, GateRequest[Report], frozen=True, kw_only=True):
    """``POST /complete``: the outcome of an action, found by id, else by tool and params, else by key."""

    operation: ClassVar[str] = "complete"
    instance: str
    id: int | None = None
    context_key: str | None = None
    tool: str | None = None
    params: Mapping[str, Any] | None = None
    action: str | None = None
    result: Any = None
    outcome: Outcome | None = None
    session: str | None = None
    namespace: str = DEFAULT_NAMESPACE


class Lock(_Request, GateRequest[LockResult], frozen=True, kw_only=True):
    """``POST /lock``: a lease of ``ttl`` seconds without a tool call.

    ``host`` ties it to a process of the server's machine, as an intercepted call's. ``deadline`` and
    ``timeout_ms`` say how long the client waits for the answer, as in ``Call``.
    """

    operation: ClassVar[str] = "lock"
    instance: str
    context_key: str
    tier: int = 3
    ttl: float | None = None
    session: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    host: Host | None = None
    deadline: str | None = None
    timeout_ms: int | None = None


class Release(_Request, frozen=True, kw_only=True):
    """``DELETE /lock/{key}``; ``force`` is a person's, named by ``by``."""

    instance: str = ""
    session: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    by: str = ""
    force: bool = False


class ReleaseQuery(_Request, frozen=True, kw_only=True):
    """``DELETE /lock/{key}``: what is said here stands in place of what the body says."""

    instance: str | UnsetType = UNSET
    session: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    by: str | UnsetType = UNSET
    force: bool | UnsetType = UNSET


class ReleaseAt(Release, GateRequest[Report], frozen=True, kw_only=True):
    """``release``: the leases on a key."""

    operation: ClassVar[str] = "release"
    context_key: str


class ReleaseKey(ReleaseAt, frozen=True, kw_only=True):
    """``POST /release``: as ``DELETE /lock/{key}``, with the key in the body."""

    instance: str
    context_key: str


class Renew(_Request, GateRequest[Report], frozen=True, kw_only=True):
    """``POST /renew``: moves the end of a lease to ``ttl`` seconds from now."""

    operation: ClassVar[str] = "renew"
    instance: str
    id: int
    ttl: float | None = None
    session: str | None = None
    namespace: str = DEFAULT_NAMESPACE


class Resolve(_Request, GateRequest[Report], frozen=True, kw_only=True):
    """``POST /resolve``: somebody looked, and an ``unknown`` action happened or it did not."""

    operation: ClassVar[str] = "resolve"
    id: int
    happened: bool
    by: str = ""
    note: str = ""
    namespace: str = DEFAULT_NAMESPACE


class ApprovalAnswer(_Request, frozen=True, kw_only=True):
    """``POST /approvals/{id}``: a person's word on a call that was asked or blocked.

    ``note`` goes to the agent with a refusal, and to the journal.
    """

    approve: bool
    by: str = ""
    channel: str = ""
    note: str = ""
    namespace: str = DEFAULT_NAMESPACE


class Approve(_Request, GateRequest[Report], frozen=True, kw_only=True):
    """``approve``: a person lets a call run once that was asked or blocked."""

    operation: ClassVar[str] = "approve"
    agrees: ClassVar[bool] = True
    id: int
    by: str = ""
    channel: str = ""
    note: str = ""
    namespace: str = DEFAULT_NAMESPACE


class Deny(Approve, frozen=True, kw_only=True):
    """``deny``: a person refuses a call that was asked."""

    operation: ClassVar[str] = "deny"
    agrees: ClassVar[bool] = False


class ReadStatus(_Request, GateRequest[Status], frozen=True, kw_only=True):
    """``status``: live leases and recent actions, of one key or of all."""

    operation: ClassVar[str] = "status"
    context_key: str | None = None
    namespace: str = DEFAULT_NAMESPACE


class StatusQuery(ReadStatus, frozen=True, kw_only=True):
    """``GET /status``. ``instance`` and ``session`` are taken from old clients and mean nothing."""

    instance: str | None = None
    session: str | None = None


class ApprovalsQuery(_Request, GateRequest["Approvals"], frozen=True, kw_only=True):
    """``GET /approvals``."""

    operation: ClassVar[str] = "approvals"
    namespace: str = DEFAULT_NAMESPACE
    session: str | None = None


class BriefQuery(_Request, GateRequest["Brief"], frozen=True, kw_only=True):
    """``GET /brief``. ``key`` may stand there several times; ``cwd`` is the session's folder, ``budget`` in tokens."""

    operation: ClassVar[str] = "brief"
    instance: str
    session: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    keys: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=MAX_KEY)], ...], Meta(max_length=MAX_KEYS)] = (
        field(default=(), name="key")
    )
    cwd: Annotated[str, Meta(min_length=1, max_length=MAX_PATH)] | None = None
    budget: Annotated[int, Meta(ge=0, le=MAX_BUDGET)] | None = None


class ReadBrief(BriefQuery, frozen=True, kw_only=True):
    """``brief`` over JSON-RPC. ``keys`` matter to the session beside those it has touched."""

    keys: Annotated[tuple[str, ...], Meta(max_length=MAX_KEYS)] = ()
    cwd: str | None = None
    prompt: str | None = None


class JournalQuery(_Request, GateRequest["JournalPage"], frozen=True, kw_only=True):
    """``GET /journal``. ``namespace`` None means all. ``wait``: seconds to wait for something new."""

    operation: ClassVar[str] = "journal"
    cursor: str = ""
    limit: int = 100
    namespace: str | None = None
    session: str | None = None
    context_key: str | None = None
    newest: bool = False
    wait: float = 0


class ReadJournal(JournalQuery, frozen=True, kw_only=True):
    """``journal`` over JSON-RPC. ``session`` is the whole actor; ``namespace`` null means all."""

    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 100
    namespace: str | None = DEFAULT_NAMESPACE
    wait: Annotated[float, Meta(ge=0, le=MAX_WAIT)] = 0


class LateClassification(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The classification of a spooled call, made where it ran. Keys are written ``["file:/a.md", "write"]``."""

    tier: Annotated[int, Meta(ge=0, le=4)]
    keys: Annotated[tuple[Key, ...], Meta(max_length=MAX_LATE_KEYS)] = ()
    rule: Annotated[str, Meta(max_length=MAX_NAME)] = ""
    effect: Annotated[str, Meta(max_length=MAX_NAME)] = "write"
    content: Content = Content()
    gap: bool = False


class LateCall(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One record of a spool: something that no gate could be told of when it happened.

    ``kind`` is ``call`` (it ran without the gate), ``report`` (how a call ended) or ``cancel`` (its caller gave up
    before it had an answer). A gate passes over a kind that it does not know. ``running``: nobody has reported the
    outcome of a call yet. ``id`` names the action of a report. ``found`` is the classification, with the fingerprint of
    the content key that its hashes were made with. Without it the gate classifies the call: ``params`` are whole where
    ``v`` is 2, a summary where it is 1, the version of records before there were kinds. ``started`` and ``ended`` are
    Unix seconds.
    """

    call: Call
    outcome: Outcome = Outcome.DONE
    kind: str = "call"
    v: int = 1
    running: bool = False
    id: Id | None = None
    found: LateClassification | None = None
    content_key: str = ""
    started: float | None = None
    ended: float | None = None


class LateBatch(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """``POST /late``. ``now`` is the sender's clock in Unix seconds, by which the records are dated."""

    calls: Annotated[list[LateCall], Meta(max_length=MAX_EVENTS)]
    now: float | None = None


class Accepted(Struct, frozen=True, rename="camel"):
    """How many events, or late calls, were taken."""

    accepted: int


class Approval(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A call that waits for a person. ``at`` and ``expires`` are Unix seconds; ``params`` are summarised.

    ``summary`` says what the call would do, ``purpose`` what a person had asked its session for.
    """

    id: int
    instance: str
    tool: str
    tier: int
    context_key: str | None
    at: float
    expires: float
    rule: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    warning: str | None = None
    summary: str = ""
    purpose: str = ""


class Approvals(Struct, frozen=True, rename="camel"):
    """``GET /approvals``, oldest first."""

    approvals: tuple[Approval, ...]


class JournalPage(Struct, frozen=True, rename="camel"):
    """``GET /journal``: entries in order, and the cursor from which the next page goes on."""

    entries: tuple[Entry, ...]
    cursor: str


class FallbackTable(Struct, frozen=True, rename="camel"):
    """``GET /fallback``: tool name and the highest tier it can have. What is not in it counts as 3."""

    tools: Mapping[str, int]


class Section(Struct, frozen=True, rename="camel"):
    """A part of a brief: what it is about, and its lines, most important first, without a line's end."""

    title: str
    lines: tuple[str, ...]


class OpenConsole(Struct, frozen=True):
    """``POST /console``: asks where the console is. ``terminal`` is the secret of a terminal that made a link."""

    terminal: str = ""


class HookEvent(Struct, frozen=True):
    """``POST /hooks/{host}``: a hook event as the host wrote it. Each host says more, and is read by its adapter.

    ``hook_event_name`` is the host's word for it; ``session_id`` names the session.
    """

    hook_event_name: str
    session_id: str


class Brief(Struct, frozen=True, rename="camel"):
    """``GET /brief``: what a session is told of the others, most important section first.

    ``text`` is what a host puts into the session's context, ``""`` if there is nothing to tell; ``tokens`` is
    about how long it is. ``trimmed``: how many lines were left out.
    """

    text: str = ""
    tokens: int = 0
    sections: tuple[Section, ...] = ()
    trimmed: int = 0


FIELDS: Final = tuple(
    sorted({name for kind in (Intercept, Complete, Lock) for name in kind.__struct_encode_fields__} - {"host"})
)
"""The fields that a call, a report or a request for a lease may have: ``fields`` of ``GET /health``."""
OPTIONAL: Final[Mapping[str, tuple[str, Any]]] = {
    "deadline": ("deadline", None),
    "timeoutMs": ("timeout_ms", None),
    "meta": ("meta", None),
    "commits": ("commits", None),
    "summary": ("summary", None),
    "purpose": ("purpose", None),
    "worktree": ("worktree", None),
    "rewrite": ("rewrite", False),
    "after": ("after", None),
    "taskId": ("task_id", None),
    "attempt": ("attempt", 1),
    "timeout": ("timeout", None),
    "host": ("host", None),
}
"""What a gate may not know and a client can do without: attribute and default, by the name on the wire."""
NEWER: Final = ("meta", "commits", "summary", "purpose")
"""Those that only a gate is sent which lists them."""


EXPIRED: Final = "deadline"
"""The place of the fault (408) where the client no longer waited when its request was to be decided."""
OVERLOADED: Final = "load"
"""The place of the fault where a server has more to do than it can."""


class ErrorResponse(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Every 4xx and 5xx. ``at`` names the field or the part of the request at fault.

    ``id`` names a decision that may be in force although the request failed: its client must not act on
    it, and may cancel it.
    """

    error: str
    at: str = ""
    id: int | None = None


class BadRequest(ConfigError):
    """A request that cannot be read."""


T = TypeVar("T")


_PLACE: Final = re.compile(r" - at `(?P<place>[^`]*)`\Z")

encode: Final = msgspec.json.Encoder(order=None).encode


def read(decoder: msgspec.json.Decoder[T], body: bytes | bytearray, *, listed: bool = False) -> T:
    """Read a request's body; ``listed``: that of one which is a list of others, all of which are wanted.

    Raises ``BadRequest`` with the place of the fault: no JSON, invalid UTF-8, a wrong or missing field,
    a name that stands twice in one object, nesting that is too deep, a number out of range. Of what holds more values
    than ``budget.MAX_VALUES`` the beginning is read.
    """
    try:
        body.decode()  # the decoder looks at no text that it does not need
        if len(body) > budget.SMALL:
            body = budget.all_listed(bytes(body)) if listed else budget.lighter(bytes(body))
        found = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise fault_of(error, decoder.type) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"no valid JSON: {error}", at="body") from None
    except budget.TooMany as error:
        raise BadRequest(str(error), at="body") from None
    except RecursionError:
        raise BadRequest("nested too deeply", at="body") from None
    _no_name_twice(bytes(body))
    return found


UNKNOWN_FIELD: Final = "unknown field"
"""How the error begins about a field that a request does not have."""
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*)`\Z", re.DOTALL)


def fault_of(error: msgspec.ValidationError, kind: Any = None) -> BadRequest:
    """Turn the words of the decoder into a message and a place. ``kind`` is what the request was to be."""
    text = str(error)
    match = _PLACE.search(text)
    if match is None and (unknown := _UNKNOWN.fullmatch(text)):
        return _unknown_field(unknown["name"], getattr(kind, "__struct_encode_fields__", ()))
    if match is None:
        missing = re.search(r"missing required field `([^`]+)`", text)
        return BadRequest(text, at=missing[1] if missing else "body")
    place = match["place"].removeprefix("$").removeprefix(".")
    text = text[: match.start()]
    missing = re.search(r"missing required field `([^`]+)`", text)
    if missing:
        place = f"{place}.{missing[1]}" if place else missing[1]
    return BadRequest(text, at=place or "body")


def _unknown_field(name: str, known: Iterable[str]) -> BadRequest:
    """Name the field and the nearest known one."""
    import difflib  # noqa: PLC0415 - for a request that is refused

    spelled = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name[:MAX_NAME].lower().replace("_", ""), spelled, 1)
    from callosum.redact import quote  # noqa: PLC0415 - a client starts without the redaction

    shown = quote(escaped(name), 100)
    hint = f'; the nearest known one is "{spelled[near[0]]}"' if near else ""
    return BadRequest(f"{UNKNOWN_FIELD} {shown}{hint}", at=shown[1:-1])


def _no_name_twice(body: bytes) -> None:
    """Refuses an object that has a name twice: nobody could tell which of the two was judged."""
    # without escaped quotes every quote begins or ends a string; a name that loses other characters here as well
    # can only be taken for another one, which is looked at below
    text = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    parts = text.split(b'"')
    names = [name for name, after in zip(parts[1::2], parts[2::2], strict=False) if after.lstrip()[:1] == b":"]
    plain = not any(b"\\" in name for name in names)
    if plain and len(set(names)) == len(names):
        return

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) != len(found):
            seen: set[str] = set()
            for name, _ in found:
                if name in seen:
                    raise BadRequest("stands twice in one object", at=name[:100] or "body")
                seen.add(name)
        return made

    try:
        json.loads(body, object_pairs_hook=pairs)
    except RecursionError:
        raise BadRequest("nested too deeply", at="body") from None
    except ValueError as error:  # in a field that is not looked at: a number of thousands of digits, no UTF-8
        raise BadRequest(f"no valid JSON: {error}", at="body") from None
