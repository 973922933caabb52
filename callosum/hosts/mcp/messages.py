"""Read JSON-RPC lines of MCP as far as the gate needs, and write the answers that the gate gives itself.

A forwarded line is never encoded again; its bytes are passed on. This module reads only the top-level names of a
message, whatever else it contains. A line that the JSON parser rejects (nested too deeply, broken UTF-8) is split by
its brackets alone, because the server behind may well be able to read it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from callosum.unclean import readings, repaired, with_readings
from callosum.wire import BadRequest, refuse_name_twice

CALL: Final = "tools/call"
LIST: Final = "tools/list"
CANCELLED: Final = "notifications/cancelled"
LIST_CHANGED: Final = "notifications/tools/list_changed"
VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT: Final = "io.modelcontextprotocol/clientInfo"
SERVER: Final = "io.modelcontextprotocol/serverInfo"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
REQUEST_META: Final = frozenset((VERSION, CLIENT, CAPABILITIES))
"""Fields of ``_meta`` that every request of the newer protocol has about its client."""
PER_REQUEST: Final = "2026"
"""Prefix of protocol versions from which on every request names its version and every result its type."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
SERVER_ERROR: Final = -32000

Id = str | int | float | bytes
"""Key of a request: the value of its id, however it is written, or the id's bytes if it is no plain value."""


class Message(Struct):
    """Hold a request (``method`` and ``id``), a notification (``method``) or an answer (``id`` alone)."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def key(self) -> Id | None:
        """Return the key by which the answer is found, or None for a notification."""
        return None if isinstance(self.id, UnsetType) or bytes(self.id) == b"null" else _key(bytes(self.id))


class Params(Struct):
    """Hold the params of ``tools/call``: ``arguments`` unparsed, ``_meta`` split into its fields.

    ``input_responses`` and ``request_state`` are present in a further round of a call.
    """

    name: str
    arguments: Raw | UnsetType = UNSET
    input_responses: Raw | UnsetType = msgspec.field(default=UNSET, name="inputResponses")
    request_state: Raw | UnsetType = msgspec.field(default=UNSET, name="requestState")
    meta: dict[str, Raw] | None = msgspec.field(default=None, name="_meta")


class MalformedMessage(Exception):
    """Report a line that cannot be parsed as JSON."""


class AmbiguousMessage(MalformedMessage):
    """Report a message whose method or params the server may read otherwise than the gate."""


_LOOKED_AT: Final = ("id", "method", "params")
_NAME: Final = re.compile(rb'"(?i:id|method|params)"|\\u00|(?!tools/call)(?i:tools\\?/call)')
"""What the gate looks at, in any case, or letters that JSON writes in another way."""
_PLAIN: Final = frozenset((b'"id"', b'"method"', b'"params"'))
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""What JSON writes with a backslash; the group is a lone surrogate."""
_MESSAGE: Final = msgspec.json.Decoder(Message)
_BATCH: Final = msgspec.json.Decoder(list[Raw])
_PARAMS: Final = msgspec.json.Decoder(Params)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ANY: Final = msgspec.json.Decoder()
encode: Final = msgspec.json.Encoder().encode

_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read(line: bytes) -> Message | list[Message] | None:
    """Return the message in a line, a list for a batch, or None for an empty line. Raises ``MalformedMessage``."""
    text = line.strip()
    if not text:
        return None
    try:
        found = _decoded(text)
    except _FAULTS:
        try:
            found = _decoded(_mended(text))
        except (ValueError, RecursionError, *_FAULTS) as error:
            raise MalformedMessage(str(error)[:200]) from None
    _refuse_ambiguous(text)
    return found


def _decoded(text: bytes) -> Message | list[Message]:
    if text[:1] == b"[":
        return [_MESSAGE.decode(item) for item in _BATCH.decode(text)]
    return _MESSAGE.decode(text)


class _Pairs(list[tuple[str, Any]]):
    """Hold an object's members in order, with names that occur twice."""


def _refuse_ambiguous(text: bytes) -> None:
    """Raise ``AmbiguousMessage`` if a message names what the gate looks at twice, or in another case."""
    found = _NAME.findall(text)
    if len(set(found)) == len(found) and _PLAIN.issuperset(found):
        return
    try:
        read = json.loads(text.decode("utf-8", "replace"), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(str(error)) from error
    for pairs in [read] if isinstance(read, _Pairs) else read:
        for name in _LOOKED_AT:
            alike = [(other, value) for other, value in pairs if other.lower() == name]
            if len(alike) > 1 or (alike and alike[0][0] != name):
                raise AmbiguousMessage(f"{name!r} occurs more than once, or as {alike[0][0]!r}")
            if name == "method" and alike and alike[0][1] != CALL and str(alike[0][1]).lower() == CALL:
                raise AmbiguousMessage(f"expected {CALL!r}, not {alike[0][1]!r}")


def _mended(text: bytes) -> bytes:
    """Return the text with each lone surrogate, which some hosts send, or broken byte as U+FFFD and its number."""
    whole = repaired(text.decode("utf-8", "surrogateescape")).encode()
    return _ESCAPE.sub(lambda found: b"\\ufffd" + found[1].lower() if found[1] else found[0], whole)


def parts(line: bytes) -> list[bytes]:
    """Return the messages of a parsed batch, each unchanged."""
    try:
        return [bytes(item) for item in _BATCH.decode(line.strip())]
    except _FAULTS:
        return [bytes(item) for item in _BATCH.decode(_mended(line.strip()))]


def raw_id(message: Message) -> bytes:
    """Return the id as the sender wrote it, or ``null`` if there is none."""
    return b"null" if isinstance(message.id, UnsetType) else bytes(message.id)


def params_of(message: Message) -> Params | None:
    """Return the params of a ``tools/call``, or None if they have a form that no server accepts."""
    if isinstance(message.params, UnsetType):
        return None
    try:
        return _PARAMS.decode(message.params)
    except _FAULTS:
        return None


def arguments_of(params: Params, written: bytes = b"") -> dict[str, Any]:
    """Return the arguments as values. Anything but an object is put into one.

    ``written`` are the whole params, arguments included; without them only the arguments are checked. Raises
    ``MalformedMessage``, also if the params name the tool or its arguments twice.
    """
    raw = b"null" if isinstance(params.arguments, UnsetType) else bytes(params.arguments)
    others, whole = list[Any](), True
    try:
        value = value_of(raw)
        refuse_name_twice(written or raw)
    except (MalformedMessage, BadRequest):
        try:
            (value, *others), _, whole = readings(raw)
            twice = readings(written or b"{}")[1]
        except (ValueError, RecursionError) as error:
            raise MalformedMessage(str(error)[:200]) from None
        if twice:
            raise MalformedMessage(f"{min(twice)[:100]!r} occurs twice") from None
    if value is None:
        return {}
    arguments = value if isinstance(value, dict) else {"arguments": value}
    if not others and whole:
        return arguments
    call, *alike = ({"name": params.name, "arguments": one} for one in (arguments, *others))
    read: dict[str, Any] = with_readings(call, alike, "name", "arguments", whole=whole)["arguments"]
    return read


def value_of(raw: bytes) -> Any:
    """Return the value of a JSON text. Raises ``MalformedMessage``."""
    try:
        return _ANY.decode(raw)
    except _FAULTS as error:
        raise MalformedMessage(str(error)[:200]) from None


def fields_of(raw: Raw | bytes | UnsetType) -> dict[str, Raw]:
    """Return the members of an object, each unparsed, or none if it is no object."""
    if isinstance(raw, UnsetType):
        return {}
    try:
        return _OBJECT.decode(raw)
    except _FAULTS:
        return {}


def text_of(raw: Raw | None, limit: int = 4096) -> str:
    """Return a JSON string as text, or ``""`` for anything else."""
    try:
        value = _ANY.decode(raw or b"null")
    except _FAULTS:
        return ""
    return value[:limit] if isinstance(value, str) else ""


def is_modern(meta: Mapping[str, Raw] | None) -> bool:
    """Return True if this ``_meta`` belongs to the newer protocol, in which each request names its version."""
    return text_of((meta or {}).get(VERSION)) >= PER_REQUEST


def key_of(value: Any) -> Id | None:
    """Return the key of a request whose id appears in another message (``requestId``)."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _key(raw: bytes) -> Id:
    try:
        key = key_of(_ANY.decode(raw))
    except _FAULTS:
        key = None
    return raw if key is None else key


# --- Lines that cannot be parsed ------------------------------------------------------------------------

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]:,]|[^\s"{}\[\]:,]++', re.DOTALL)


def taken_apart(text: bytes) -> dict[str, bytes]:
    """Return the members of an object, split by brackets alone, for a text no parser accepts. Takes linear time."""
    return _taken_apart(text)[0]


def _taken_apart(text: bytes) -> tuple[dict[str, bytes], bytes]:
    """Return the members and the text behind the object."""
    members: dict[str, bytes] = {}
    depth = 0
    name: str | None = None
    value_start = -1
    last_token: bytes = b""
    for match in _TOKEN.finditer(text):
        token = match.group()
        if depth == 1 and token in (b",", b"}"):
            if name is not None and value_start >= 0:
                members[name] = text[value_start : match.start()].strip()
            name, value_start, last_token = None, -1, b""
        elif depth == 1 and token == b":" and name is None:
            name, value_start = _name_of(last_token), match.end()
        elif depth == 1 and name is None:
            last_token = token
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return members, text[match.end() :]
    if name is not None and value_start >= 0:
        members[name] = text[value_start:].strip()  # the text was cut off
    return members, b""


def _name_of(token: bytes) -> str:
    try:
        name = json.loads(token.decode("utf-8", "replace"))
    except ValueError:
        return ""
    return name if isinstance(name, str) else ""


def call_inside(text: bytes) -> tuple[bytes, str, bool] | None:
    """Return id, tool and era of a ``tools/call`` in a line that cannot be parsed, or None if it contains none.

    A batch counts as one call with the id ``null`` if it mentions the method anywhere. The same holds for text behind a
    first object, which some servers read as a further message.
    """
    text = text.strip()
    members, rest = ({}, text) if text[:1] == b"[" else _taken_apart(text)
    if _name_of(members.get("method", b"")) != CALL:
        strings = (match.group() for match in _TOKEN.finditer(rest) if match.group()[:1] == b'"')
        return (b"null", "?", False) if any(_name_of(string) == CALL for string in strings) else None
    params = taken_apart(members.get("params", b""))
    version = taken_apart(params.get("_meta", b"")).get(VERSION, b"")
    id = members.get("id", b"null")
    try:
        _ANY.decode(id)
    except _FAULTS:
        id = b"null"
    return id, _name_of(params.get("name", b"")) or "?", _name_of(version) >= PER_REQUEST


# --- Answers by the gate -------------------------------------------------------------------------------


def refusal(id: bytes, text: str, *, modern: bool, retry_after: float | None = None) -> bytes:
    """Return a tool error, which every client shows to its model. ``_meta`` says when the same call may succeed."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    if retry_after is not None:
        result["_meta"] = {"io.callosum/retryable": True, "io.callosum/retryAfter": retry_after}
    if modern:
        result["resultType"] = "complete"
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (id, encode(result))


def asked(id: bytes, requests: Mapping[str, Any], state: str) -> bytes:
    """Return the answer to a call that a person must decide. The client collects the input and repeats the call."""
    result = {"resultType": "input_required", "inputRequests": requests, "requestState": state}
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (id, encode(result))


def first_round(message: bytes) -> bytes:
    """Return the request without input responses, as in its first round."""
    top = fields_of(message)
    params = fields_of(top.get("params", UNSET))
    for name in ("inputResponses", "requestState"):
        params.pop(name, None)
    top["params"] = Raw(_joined(params))
    return _joined(top)


def replaced(message: bytes, params: Mapping[str, Any], by: Mapping[str, Any]) -> bytes | None:
    """Return the call with other values in its arguments: those of ``by`` that differ from ``params``.

    Return None if the arguments are no object with these names.
    """
    top = fields_of(message)
    inner = fields_of(top.get("params", UNSET))
    arguments = fields_of(inner.get("arguments", UNSET))
    changed = {name: value for name, value in by.items() if name not in params or params[name] != value}
    if not arguments or changed.keys() - arguments.keys() or params.keys() - by.keys():
        return None
    inner["arguments"] = Raw(_joined(arguments | {name: Raw(encode(value)) for name, value in changed.items()}))
    top["params"] = Raw(_joined(inner))
    return _joined(top)


def fault(id: bytes, code: int, text: str) -> bytes:
    """Return a protocol error."""
    return b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (id, encode({"code": code, "message": text}))


def with_text(message: bytes, text: str) -> bytes | None:
    """Return the answer with one more block of text at the end of its content, or None if it has no content."""
    top = fields_of(message)
    result = fields_of(top.get("result", UNSET))
    content = bytes(result.get("content", b"")).strip()
    if content[:1] != b"[":
        return None
    block = encode({"type": "text", "text": text})
    inner = content[1:-1].strip()
    result["content"] = Raw(b"[%s]" % (b",".join((inner, block)) if inner else block))
    top["result"] = Raw(_joined(result))
    return _joined(top)


def batch_of(messages: list[bytes]) -> bytes:
    """Return messages as one batch."""
    return b"[%s]" % b",".join(messages)


def _joined(members: Mapping[str, Raw]) -> bytes:
    return b"{%s}" % b",".join(b"%s:%s" % (encode(name), bytes(raw)) for name, raw in members.items())


def read_answer(line: bytes) -> Message | list[Message] | None:
    """Read a server's answer like ``read``. From a malformed line, take only its id and whether it failed."""
    try:
        return read(line)
    except MalformedMessage:
        top = taken_apart(line.strip())
    try:
        id = Raw(top["id"])
        _ANY.decode(id)
    except (KeyError, *_FAULTS):
        return None
    failed = taken_apart(top.get("result", b"")).get("isError") == b"true"
    return Message(id, result=Raw(b'{"isError":%s}' % (b"true" if failed else b"false")))
