"""JSON-RPC lines of MCP: read as far as the gate needs, written where the gate answers itself.

A line is never written anew to be passed on: who passes it on passes its bytes. What is read here are the names at
the top of a message, whatever else it holds; a line that no JSON reader of ours takes (nested too deeply, broken
UTF-8) is taken apart by its brackets alone, because the server behind may well read it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

CALL: Final = "tools/call"
LIST: Final = "tools/list"
CANCELLED: Final = "notifications/cancelled"
LIST_CHANGED: Final = "notifications/tools/list_changed"
VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT: Final = "io.modelcontextprotocol/clientInfo"
SERVER: Final = "io.modelcontextprotocol/serverInfo"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
REQUEST_META: Final = frozenset((VERSION, CLIENT, CAPABILITIES))
"""What every request of the newer era says of its client."""
PER_REQUEST: Final = "2026"
"""From versions that begin so on every request says its version, and a result what it is."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
SERVER_ERROR: Final = -32000

Id = str | int | float | bytes
"""What a request is known by: as it reads, whichever way it is spelled; its bytes where it is no name."""


class Message(Struct):
    """A request (``method`` and ``id``), a notification (``method``) or an answer (``id`` alone)."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def key(self) -> Id | None:
        """What its answer is found by, None for a notification."""
        return None if isinstance(self.id, UnsetType) or bytes(self.id) == b"null" else _key(bytes(self.id))


class Params(Struct):
    """Of the params of ``tools/call``: ``arguments`` as they are, ``_meta`` in parts.

    ``input_responses`` and ``request_state`` are there in a further round of a call.
    """

    name: str
    arguments: Raw | UnsetType = UNSET
    input_responses: Raw | UnsetType = msgspec.field(default=UNSET, name="inputResponses")
    request_state: Raw | UnsetType = msgspec.field(default=UNSET, name="requestState")
    meta: dict[str, Raw] | None = msgspec.field(default=None, name="_meta")


class MalformedMessage(Exception):
    """A line that this module cannot read as JSON."""


_MESSAGE: Final = msgspec.json.Decoder(Message)
_BATCH: Final = msgspec.json.Decoder(list[Raw])
_PARAMS: Final = msgspec.json.Decoder(Params)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ANY: Final = msgspec.json.Decoder()
encode: Final = msgspec.json.Encoder().encode

_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read(line: bytes) -> Message | list[Message] | None:
    """Returns what a line says, a list for a batch, None for an empty one. Raises ``MalformedMessage``."""
    text = line.strip()
    if not text:
        return None
    try:
        return _decoded(text)
    except _FAULTS:
        return _decoded_mended(text)


def _decoded(text: bytes) -> Message | list[Message]:
    if text[:1] == b"[":
        return [_MESSAGE.decode(one) for one in _BATCH.decode(text)]
    return _MESSAGE.decode(text)


def _decoded_mended(text: bytes) -> Message | list[Message]:
    try:
        return _decoded(_mended(text))
    except (ValueError, RecursionError, *_FAULTS) as error:
        raise MalformedMessage(str(error)[:200]) from None


def _mended(text: bytes) -> bytes:
    """What Python's own reader takes besides: half a surrogate pair, which hosts send, becomes a question mark."""
    return json.dumps(json.loads(text.decode()), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def parts(line: bytes) -> list[bytes]:
    """The messages of a batch that was read, each as it is."""
    try:
        return [bytes(one) for one in _BATCH.decode(line.strip())]
    except _FAULTS:
        return [bytes(one) for one in _BATCH.decode(_mended(line.strip()))]


def raw_id(message: Message) -> bytes:
    """The id as the sender spelled it, ``null`` where there is none."""
    return b"null" if isinstance(message.id, UnsetType) else bytes(message.id)


def params_of(message: Message) -> Params | None:
    """The params of a ``tools/call``; None where they are not of that form, which no server takes either."""
    if isinstance(message.params, UnsetType):
        return None
    try:
        return _PARAMS.decode(message.params)
    except _FAULTS:
        return None


def arguments_of(params: Params) -> dict[str, Any]:
    """The arguments as values; what is no object is put into one. Raises ``MalformedMessage``."""
    raw = params.arguments
    if isinstance(raw, UnsetType):
        return {}
    found = value_of(bytes(raw))
    if found is None:
        return {}
    return found if isinstance(found, dict) else {"arguments": found}


def value_of(raw: bytes) -> Any:
    """A JSON text as a value. Raises ``MalformedMessage``."""
    try:
        return _ANY.decode(raw)
    except _FAULTS as error:
        raise MalformedMessage(str(error)[:200]) from None


def fields_of(raw: Raw | bytes | UnsetType) -> dict[str, Raw]:
    """The members of an object, each as it is; none for what is no object."""
    if isinstance(raw, UnsetType):
        return {}
    try:
        return _OBJECT.decode(raw)
    except _FAULTS:
        return {}


def text_of(raw: Raw | None, limit: int = 4096) -> str:
    """A JSON string as text, ``""`` for anything else."""
    if raw is None:
        return ""
    try:
        found = _ANY.decode(raw)
    except _FAULTS:
        return ""
    return found[:limit] if isinstance(found, str) else ""


def is_modern(meta: Mapping[str, Raw] | None) -> bool:
    """Whether a request with this ``_meta`` is of the era in which each says its own version."""
    return bool(meta) and text_of(meta.get(VERSION) if meta else None) >= PER_REQUEST


def key_of(value: Any) -> Id | None:
    """What a request is found by whose id stands in another message (``requestId``)."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _key(raw: bytes) -> Id:
    try:
        found = key_of(_ANY.decode(raw))
    except _FAULTS:
        found = None
    return raw if found is None else found


# --- lines that cannot be read -------------------------------------------------------------------------

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]:,]|[^\s"{}\[\]:,]++', re.DOTALL)


def taken_apart(text: bytes) -> dict[str, bytes]:
    """The members of an object by its brackets alone, for a text that no reader takes. Linear in its length."""
    return _taken_apart(text)[0]


def _taken_apart(text: bytes) -> tuple[dict[str, bytes], bytes]:
    """The members, and what stands behind the object."""
    found: dict[str, bytes] = {}
    depth = 0
    name: str | None = None
    begun = -1
    waiting: bytes = b""
    for match in _TOKEN.finditer(text):
        token = match.group()
        if depth == 1 and token in (b",", b"}"):
            if name is not None and begun >= 0:
                found[name] = text[begun : match.start()].strip()
            name, begun, waiting = None, -1, b""
        elif depth == 1 and token == b":" and name is None:
            name, begun = _name_of(waiting), match.end()
        elif depth == 1 and name is None:
            waiting = token
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return found, text[match.end() :]
    if name is not None and begun >= 0:
        found[name] = text[begun:].strip()  # it was cut off
    return found, b""


def _name_of(token: bytes) -> str:
    try:
        found = json.loads(token.decode("utf-8", "replace"))
    except ValueError:
        return ""
    return found if isinstance(found, str) else ""


def call_inside(text: bytes) -> tuple[bytes, str, bool] | None:
    """For a line that cannot be read: id, tool and era of the ``tools/call`` that it may be, None if it is none.

    A batch counts as one call, with the id ``null``, as soon as it speaks of the method anywhere; so does what stands
    behind a first object, which some servers read as a further message.
    """
    text = text.strip()
    top, behind = ({}, text) if text[:1] == b"[" else _taken_apart(text)
    if _name_of(top.get("method", b"")) != CALL:
        strings = (match.group() for match in _TOKEN.finditer(behind) if match.group()[:1] == b'"')
        return (b"null", "?", False) if any(_name_of(one) == CALL for one in strings) else None
    params = taken_apart(top.get("params", b""))
    version = taken_apart(params.get("_meta", b"")).get(VERSION, b"")
    id = top.get("id", b"null")
    try:
        _ANY.decode(id)
    except _FAULTS:
        id = b"null"
    return id, _name_of(params.get("name", b"")) or "?", _name_of(version) >= PER_REQUEST


# --- what the gate says itself -------------------------------------------------------------------------


def refusal(id: bytes, text: str, *, modern: bool) -> bytes:
    """The answer to a call that does not run: a tool's own error, which every client shows to its model."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    if modern:
        result["resultType"] = "complete"
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (id, encode(result))


def asked(id: bytes, requests: Mapping[str, Any], state: str) -> bytes:
    """The answer to a call that a person must decide: the client collects the input and calls again with it."""
    result = {"resultType": "input_required", "inputRequests": requests, "requestState": state}
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (id, encode(result))


def first_round(message: bytes) -> bytes:
    """The same request as it was before anybody was asked for input."""
    top = fields_of(message)
    params = fields_of(top.get("params", UNSET))
    for name in ("inputResponses", "requestState"):
        params.pop(name, None)
    top["params"] = Raw(_joined(params))
    return _joined(top)


def replaced(message: bytes, params: Mapping[str, Any], by: Mapping[str, Any]) -> bytes | None:
    """The same call with other values in its arguments: those of ``by`` that are not as in ``params``.

    None where the arguments are no object with such names.
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
    """An error of the protocol."""
    return b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (id, encode({"code": code, "message": text}))


def with_text(message: bytes, text: str) -> bytes | None:
    """The same answer with one more block of text at the end of its content; None where it has no content."""
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
    """Messages as one batch."""
    return b"[%s]" % b",".join(messages)


def _joined(members: Mapping[str, Raw]) -> bytes:
    return b"{%s}" % b",".join(b"%s:%s" % (encode(name), bytes(raw)) for name, raw in members.items())


def read_answer(line: bytes) -> Message | list[Message] | None:
    """As ``read``, for what a server says: what cannot be read is taken apart, for its id and whether it failed."""
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
