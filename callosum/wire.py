"""The wire format of requests, and how requests are read.

Every message is JSON in camelCase. A request is read into one of the structs here (``Call`` for an
intercept); answers are the model's own structs. Both ends use this module: the server reads requests
with ``read``, a client reads answers with ``msgspec`` decoders of the model's types. A fault in a request names the
field at fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from callosum import budget, unclean
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
"""Address on which a server listens by default."""
MAX_BODY: Final = 5_000_000
"""Maximum size of a request body, in bytes."""
MAX_EVENTS: Final = 1000
"""Maximum number of events, or of spooled records, in one request."""
MAX_LATE_KEYS: Final = 256
"""Maximum number of keys of one spooled record."""
MAX_WAIT: Final = 60.0
"""Maximum time that a call, or a reader of the journal, may wait, in seconds."""
MAX_PAGE: Final = 1000
"""Maximum number of journal entries in one page."""
MAX_KEYS: Final = 32
"""Maximum number of keys that a request for a brief may name."""
MAX_PATH: Final = 4096
"""Maximum length of the path of a session's folder, in characters."""
MAX_BUDGET: Final = 100_000
"""Maximum budget that a request for a brief may name, in tokens."""


Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Intercept(Call, frozen=True, gc=False, forbid_unknown_fields=True):
    """``POST /intercept``: a call, refused if it has unknown fields.

    A spooled call is read as ``Call`` instead, because it may have fields of a later version.
    """


class _Request(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of requests: says how they are encoded."""


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

    ``host`` ties the lease to a process of the server's machine, as it does for an intercepted call. ``deadline`` and
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
    """``DELETE /lock/{key}``: release the leases on a key. ``force`` needs a person, named by ``by``."""

    instance: str = ""
    session: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    by: str = ""
    force: bool = False


class ReleaseQuery(_Request, frozen=True, kw_only=True):
    """``DELETE /lock/{key}``: query parameters, each of which overrides the body's field of the same name."""

    instance: str | UnsetType = UNSET
    session: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    by: str | UnsetType = UNSET
    force: bool | UnsetType = UNSET


class ReleaseAt(Release, GateRequest[Report], frozen=True, kw_only=True):
    """``release`` over JSON-RPC: release the leases on a key."""

    operation: ClassVar[str] = "release"
    context_key: str


class ReleaseKey(ReleaseAt, frozen=True, kw_only=True):
    """``POST /release``: the same as ``DELETE /lock/{key}``, with the key in the body."""

    instance: str
    context_key: str


class Renew(_Request, GateRequest[Report], frozen=True, kw_only=True):
    """``POST /renew``: move the end of a lease to ``ttl`` seconds from now."""

    operation: ClassVar[str] = "renew"
    instance: str
    id: int
    ttl: float | None = None
    session: str | None = None
    namespace: str = DEFAULT_NAMESPACE


class Resolve(_Request, GateRequest[Report], frozen=True, kw_only=True):
    """``POST /resolve``: end an ``unknown`` action after a check showed that it happened, or that it did not."""

    operation: ClassVar[str] = "resolve"
    id: int
    happened: bool
    by: str = ""
    note: str = ""
    namespace: str = DEFAULT_NAMESPACE


class ApprovalAnswer(_Request, frozen=True, kw_only=True):
    """``POST /approvals/{id}``: a person's answer to a call whose verdict was ask or block.

    ``note`` is shown to the agent with a refusal, and is journalled.
    """

    approve: bool
    by: str = ""
    channel: str = ""
    note: str = ""
    namespace: str = DEFAULT_NAMESPACE


class Approve(_Request, GateRequest[Report], frozen=True, kw_only=True):
    """``approve``: a person lets a call run once whose verdict was ask or block."""

    operation: ClassVar[str] = "approve"
    agrees: ClassVar[bool] = True
    id: int
    by: str = ""
    channel: str = ""
    note: str = ""
    namespace: str = DEFAULT_NAMESPACE


class Deny(Approve, frozen=True, kw_only=True):
    """``deny``: a person refuses a call whose verdict was ask."""

    operation: ClassVar[str] = "deny"
    agrees: ClassVar[bool] = False


class ReadStatus(_Request, GateRequest[Status], frozen=True, kw_only=True):
    """``status``: live leases and recent actions, on one key or on all."""

    operation: ClassVar[str] = "status"
    context_key: str | None = None
    namespace: str = DEFAULT_NAMESPACE


class StatusQuery(ReadStatus, frozen=True, kw_only=True):
    """``GET /status``. ``instance`` and ``session`` are accepted from old clients and ignored."""

    instance: str | None = None
    session: str | None = None


class ApprovalsQuery(_Request, GateRequest["Approvals"], frozen=True, kw_only=True):
    """``GET /approvals``."""

    operation: ClassVar[str] = "approvals"
    namespace: str = DEFAULT_NAMESPACE
    session: str | None = None


class BriefQuery(_Request, GateRequest["Brief"], frozen=True, kw_only=True):
    """``GET /brief``. ``key`` may be repeated; ``cwd`` is the session's folder, ``budget`` is in tokens."""

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
    """``brief`` over JSON-RPC. ``keys`` matter to the session in addition to those it has touched."""

    keys: Annotated[tuple[str, ...], Meta(max_length=MAX_KEYS)] = ()
    cwd: str | None = None
    prompt: str | None = None


class JournalQuery(_Request, GateRequest["JournalPage"], frozen=True, kw_only=True):
    """``GET /journal``. ``namespace`` None means all. ``wait``: seconds to wait for a new entry."""

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
    """The classification of a spooled call, made where the call ran. Keys are written ``["file:/a.md", "write"]``."""

    tier: Annotated[int, Meta(ge=0, le=4)]
    keys: Annotated[tuple[Key, ...], Meta(max_length=MAX_LATE_KEYS)] = ()
    rule: Annotated[str, Meta(max_length=MAX_NAME)] = ""
    effect: Annotated[str, Meta(max_length=MAX_NAME)] = "write"
    content: Content = Content()
    gap: bool = False


class LateCall(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One record of a spool: something that happened while no gate could be reached.

    ``kind`` is ``call`` (it ran without the gate), ``report`` (how a call ended) or ``cancel`` (its caller gave up
    before it had an answer). A gate skips a kind that it does not support. ``running``: nobody has reported the
    outcome of a call yet. ``id`` names the action of a report. ``found`` is the classification, with the fingerprint of
    the content key that its hashes were made with. Without it the gate classifies the call: ``params`` are whole where
    ``v`` is 2, and a summary where it is 1, the version of records before there were kinds. ``started`` and ``ended``
    are Unix seconds. ``why`` is the reason why the gate refused to judge a call of tier 0 that ran all the same.
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
    why: str | None = None


class LateBatch(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """``POST /late``: spooled records. ``now`` is the sender's clock in Unix seconds, which dates the records."""

    calls: Annotated[list[LateCall], Meta(max_length=MAX_EVENTS)]
    now: float | None = None


class Accepted(Struct, frozen=True, rename="camel"):
    """Number of events, or of spooled records, that were accepted."""

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
    """``GET /approvals``: the calls that wait for a person, oldest first."""

    approvals: tuple[Approval, ...]


class JournalPage(Struct, frozen=True, rename="camel"):
    """``GET /journal``: entries in order, and the cursor at which the next page starts."""

    entries: tuple[Entry, ...]
    cursor: str


class FallbackTable(Struct, frozen=True, rename="camel"):
    """``GET /fallback``: each tool's name and the highest tier it can have. An unlisted tool counts as tier 3."""

    tools: Mapping[str, int]


class Section(Struct, frozen=True, rename="camel"):
    """A part of a brief: its subject, and its lines without line ends, most important first."""

    title: str
    lines: tuple[str, ...]


class OpenConsole(Struct, frozen=True):
    """``POST /console``: asks for the console's address. ``terminal`` is the secret of a terminal that made a link."""

    terminal: str = ""


class HookEvent(Struct, frozen=True):
    """``POST /hooks/{host}``: a hook event as the host wrote it. Each host adds fields, which its adapter reads.

    ``hook_event_name`` is the host's name for the event; ``session_id`` names the session.
    """

    hook_event_name: str
    session_id: str


class Brief(Struct, frozen=True, rename="camel"):
    """``GET /brief``: the summary of the other sessions, most important section first.

    ``text`` is what a host puts into the session's context, ``""`` if there is nothing to report; ``tokens`` is
    its approximate length. ``trimmed``: number of lines that were left out.
    """

    text: str = ""
    tokens: int = 0
    sections: tuple[Section, ...] = ()
    trimmed: int = 0


FIELDS: Final = tuple(
    sorted({name for kind in (Intercept, Complete, Lock) for name in kind.__struct_encode_fields__} - {"host"})
)
"""Fields that a call, a report or a request for a lease may have: ``fields`` of ``GET /health``."""
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
    "dispatch": ("dispatch", None),
    "taskId": ("task_id", None),
    "attempt": ("attempt", 1),
    "timeout": ("timeout", None),
    "host": ("host", None),
}
"""Optional fields that an older gate may not support: attribute and default, by the name on the wire."""
NEWER: Final = ("meta", "commits", "summary", "purpose")
"""Optional fields that are sent only to a gate that lists them."""


EXPIRED: Final = "deadline"
"""``at`` of the error (408) for a request whose client had stopped waiting when it was to be decided."""
OVERLOADED: Final = "load"
"""``at`` of the error for a request that an overloaded server refuses."""


class ErrorResponse(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The body of every 4xx and 5xx response. ``at`` names the field or the part of the request at fault.

    ``id`` names a decision that may be in force although the request failed: the client must not act on
    it, and may cancel it.
    """

    error: str
    at: str = ""
    id: int | None = None


class BadRequest(ConfigError):
    """A request that cannot be read."""


T = TypeVar("T")


_CALL_AT: Final[Mapping[Any, tuple[str, str]]] = {
    **dict.fromkeys((Call, Intercept, Complete), ("tool", "params")),
    dict[str, Any]: ("tool_name", "tool_input"),
}
"""The fields of a call in each kind of request that is judged even if it is no clean JSON."""
_PLACE: Final = re.compile(r" - at `(?P<place>[^`]*)`\Z")

encode: Final = msgspec.json.Encoder(order=None).encode


def read(decoder: msgspec.json.Decoder[T], body: bytes | bytearray, *, listed: bool = False) -> T:
    """Return a request's body, decoded. ``listed``: the body is a list of records, all of which are needed.

    Of a value that holds more than ``budget.MAX_VALUES`` values only the beginning is read.

    A call, a report or a hook's event that is no clean JSON is read as callosum/unclean.py says.

    Raises:
        BadRequest: The body is not JSON, a field is wrong or missing, or of any other request: it is not UTF-8, an
            object has a name twice, it is nested too deeply, or a number is out of range. ``at`` names the field.
    """
    read = body
    faults: list[BadRequest] = []  # a list: an error that the frame of its own traceback holds keeps the body in memory
    try:
        body.decode()  # the decoder does not check text that it skips
        if len(body) > budget.SMALL:
            read = budget.all_listed(bytes(body)) if listed else budget.lighter(bytes(body))
        request = decoder.decode(read)
        refuse_name_twice(bytes(read))
    except msgspec.ValidationError as error:
        if not str(error).startswith("Number out of range"):
            raise fault_of(error, decoder.type) from None
        faults.append(fault_of(error, decoder.type))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        faults.append(BadRequest(f"invalid JSON: {error}", at="body"))
    except budget.TooMany as error:
        faults.append(BadRequest(str(error), at="body"))
    except RecursionError:
        faults.append(BadRequest("nested too deeply", at="body"))
    except BadRequest as error:
        faults.append(error)
    else:
        return request
    return _read_unclean(decoder, bytes(body), faults)


def _read_unclean(decoder: msgspec.json.Decoder[T], body: bytes, faults: list[BadRequest]) -> T:
    """Return a call, a report or a hook's event that is no clean JSON. Raises the fault if it cannot be read either."""
    names = _CALL_AT.get(decoder.type)
    if names is None:
        raise faults.pop() from None
    try:
        (found, *others), twice, whole = unclean.readings(body)
        # No field of a report may occur twice. In a call those of ``names`` may: each of their readings is judged.
        if not isinstance(found, dict) or twice.difference(() if decoder.type is Complete else names):
            raise faults.pop() from None
        body = encode(unclean.with_readings(found, others, *names, whole=whole))
        return decoder.decode(budget.lighter(body))
    except msgspec.ValidationError as error:
        raise fault_of(error, decoder.type) from None
    except (ValueError, RecursionError):
        raise faults.pop() from None


UNKNOWN_FIELD: Final = "unknown field"
"""First words of the error about a field that a request does not have."""
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*)`\Z", re.DOTALL)


def fault_of(error: msgspec.ValidationError, kind: Any = None) -> BadRequest:
    """Turn the decoder's error into a message and a field. ``kind`` is the type that the request was decoded as."""
    text = str(error)
    match = _PLACE.search(text)
    if match is None and (unknown := _UNKNOWN.fullmatch(text)):
        return _unknown_field(unknown["name"], getattr(kind, "__struct_encode_fields__", ()))
    if match is None:
        missing = re.search(r"missing required field `([^`]+)`", text)
        return BadRequest(text, at=missing[1] if missing else "body")
    field = match["place"].removeprefix("$").removeprefix(".")
    text = text[: match.start()]
    missing = re.search(r"missing required field `([^`]+)`", text)
    if missing:
        field = f"{field}.{missing[1]}" if field else missing[1]
    return BadRequest(text, at=field or "body")


def _unknown_field(name: str, field_names: Iterable[str]) -> BadRequest:
    """Return the error about an unknown field, which also names the nearest known one."""
    import difflib  # noqa: PLC0415 - for a request that is refused

    spelled = {field_name.lower(): field_name for field_name in field_names}
    near = difflib.get_close_matches(name[:MAX_NAME].lower().replace("_", ""), spelled, 1)
    from callosum.redact import quote  # noqa: PLC0415 - a client starts without the redaction

    shown = quote(escaped(name), 100)
    hint = f'; the nearest known one is "{spelled[near[0]]}"' if near else ""
    return BadRequest(f"{UNKNOWN_FIELD} {shown}{hint}", at=shown[1:-1])


_SPACED_NAME: Final = re.compile(rb'"\s+:')
_NAME: Final = re.compile(rb'"([^"]*)":')


def refuse_name_twice(body: bytes) -> None:
    """Raise ``BadRequest`` for an object that has a name twice: it would be unclear which value was classified."""
    # Without escaped quotes every quote begins or ends a string, so each name ends in a quote and a colon. A text that
    # begins with a colon hides a name or counts as one, and a name that loses characters here can be mistaken for a
    # duplicate: the slow check below decides.
    text = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    if not _SPACED_NAME.search(text):
        names = {*_NAME.findall(text)}
        if len(names) == text.count(b'":') and not (b"\\" in text and any(b"\\" in name for name in names)):
            return

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        decoded = dict(members)
        if len(decoded) != len(members):
            earlier: set[str] = set()
            for name, _ in members:
                if name in earlier:
                    raise BadRequest("occurs twice in one object", at=name[:100] or "body")
                earlier.add(name)
        return decoded

    try:
        json.loads(body, object_pairs_hook=pairs)
    except RecursionError:
        raise BadRequest("nested too deeply", at="body") from None
    except ValueError as error:  # in a field that the decoder skipped: a number of thousands of digits, invalid UTF-8
        raise BadRequest(f"invalid JSON: {error}", at="body") from None
