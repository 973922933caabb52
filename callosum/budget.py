"""Limit how many values of a request are inspected.

JSON written by a model or a tool can hold millions of small values, and each costs time: to decode, to classify, to
redact, to search for ids. ``lighter`` shortens a request's JSON before anything else reads it: containers with too many
values keep their beginning, and a marker (``UNREAD``) replaces the rest: ``{"values": ..., "bytes": ..., "digest": ...,
"in": [names of shortened params]}``. It holds a digest of the whole text, so that calls which differ only in the rest
stay different calls.

Everything here runs in C over whole texts, and in Python over at most ``MAX_VALUES`` positions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from callosum.unclean import UNREAD

MAX_VALUES: Final = 20_000
"""Maximum number of values inspected in one request or one call."""
SMALL: Final = 2 * MAX_VALUES
"""Size of JSON, in bytes, that cannot hold more than ``MAX_VALUES`` values."""
MAX_LISTED: Final = 200_000
"""Maximum number of values in a request that lists many calls or events."""

_MAX_MEMBERS: Final = MAX_VALUES
"""Maximum number of members of one object that are inspected one by one."""
_SHARE: Final = MAX_VALUES // 4
"""Maximum number of values kept of one member of a shortened object."""
_STRUCTURE: Final = bytes(set(range(256)).difference(b'",[]{}'))
_BLOCK: Final = 262_144
"""Bytes that are searched at a time, about 0.5 ms."""
_UNESCAPED: Final = re.compile(rb"[^\\]")
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)
_NAME: Final = re.compile(rb'[ \t\r\n]*+[{,][ \t\r\n]*+("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL)
_SCALAR: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^"\[\]{}, \t\r\n]++', re.DOTALL)
_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_END: Final = re.compile(rb"[ \t\r\n]*+\}[ \t\r\n]*+\Z")
_CLOSING: Final = {b"{": b"}", b"[": b"]"}


_VALUE: Final = msgspec.json.Decoder(Raw)
_NAMED: Final = msgspec.json.Decoder(str)


class TooMany(ValueError):
    """JSON that holds too many values and cannot be shortened."""


def values_in(text: bytes, most: int = MAX_VALUES) -> int:
    """Return roughly how many values JSON text holds; return ``most`` if fewer. ``text`` may be invalid JSON."""
    if text.count(b",") + text.count(b"[") + text.count(b"{") < most:
        return most  # fewer than ``most`` even if every comma counted
    bones = b"".join(map(_bones, _blocks(text))) if b"\\" in text else text.translate(None, _STRUCTURE)
    strings = bones.count(b'"') // 2
    if strings > 2 * most:  # at most every second string is a name
        return strings // 2
    outside = b"".join(bones.split(b'"')[::2])
    return outside.count(b",") + outside.count(b"[") + outside.count(b"{") + 1


def _blocks(text: bytes) -> Iterator[bytes]:
    """Yield the parts of JSON text; other threads can run between them. No part ends within an escaped character."""
    at = 0
    while at < len(text):
        unescaped = _UNESCAPED.search(text, at + _BLOCK)
        end = unescaped.end() if unescaped is not None else len(text)
        yield text[at:end]
        at = end


def _bones(text: bytes) -> bytes:
    """Return what JSON text consists of besides words and numbers: quotation marks, commas and brackets."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _STRUCTURE)


def all_listed(body: bytes) -> bytes:
    """Return the body of a request that lists calls or events. Raises ``TooMany`` if it holds too many values."""
    if values_in(body, MAX_LISTED) > MAX_LISTED:
        raise TooMany(f"more than {MAX_LISTED} values")
    return body


def lighter(body: bytes) -> bytes:
    """Return the JSON object of a request with at most about ``MAX_VALUES`` values; unchanged if it has no more.

    Raises ``TooMany`` for more values that are not inside the members of an object, because nothing that a request is
    classified by may get lost unnoticed. Text that is not JSON is returned unchanged or with a part left out.
    """
    if len(body) <= SMALL or values_in(body) <= MAX_VALUES:
        return body
    found = _members(body)
    if found is None:
        raise TooMany(f"more than {MAX_VALUES} values")
    pieces, last = [], 0
    for one in found:
        member = body[one.start : one.end]
        if _is_heavy(member):
            pieces += [body[last : one.start], shorter(member)]
            last = one.end
    return b"".join([*pieces, body[last:]])


def shorter(text: bytes) -> bytes:
    """Return a JSON container with at most about ``MAX_VALUES`` values and the marker.

    Each member of an object keeps its beginning, so that no member is lost; if the object has too many members, the
    first ones are kept.
    """
    names: list[str] = []
    kept = text
    found = _members(text) if text[:1] == b"{" else None
    if found is not None:
        pieces, last = [], 0
        for one in found:
            member = text[one.start : one.end]
            if _is_heavy(member):
                pieces += [text[last : one.start], _cut(member, _SHARE)]
                last = one.end
                names.append(one.name)
        kept = b"".join([*pieces, text[last:]])
    if found is None or values_in(kept) > MAX_VALUES:
        kept, names = _cut(text, MAX_VALUES // 2), []
    marker = {
        "values": values_in(text),
        "bytes": len(text),
        "digest": blake2b(text, digest_size=16).hexdigest(),
        "in": names[:64],
    }
    member = b'"%b":%b' % (UNREAD.encode(), msgspec.json.encode(marker))
    if text[:1] == b"[":
        member = b"{%b}" % member
    return kept[:-1] + (b"," if len(kept) > 2 else b"") + member + kept[-1:]


def _is_heavy(member: bytes) -> bool:
    return len(member) > _SHARE and member[:1] in _CLOSING and values_in(member, _SHARE) > _SHARE


def unread(params: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the names of the shortened params: () if it may be any of them, None if none was shortened."""
    marker = params.get(UNREAD)
    if marker is None:
        return None
    names = marker.get("in") if isinstance(marker, dict) else None
    return tuple(map(str, names)) if isinstance(names, list) else ()


class _Member(NamedTuple):
    """The name of an object's member, and the position of its value."""

    name: str
    start: int
    end: int


def _members(text: bytes) -> list[_Member] | None:
    """Return the members of an object; None if it has more than ``_MAX_MEMBERS`` or is not a JSON object.

    Raises ``TooMany`` for a repeated name.
    """
    view, at = memoryview(text), 0
    found: dict[str, _Member] = {}
    while len(found) <= _MAX_MEMBERS:
        match = _NAME.match(text, at)
        if match is None:
            return list(found.values()) if _END.match(text, at) else None
        start = match.end()
        scalar = _SCALAR.match(text, start)
        try:
            at = scalar.end() if scalar is not None else start + _length(view[start:])
            name = _NAMED.decode(match[1])
        except msgspec.DecodeError:
            return None
        if name in found:
            raise TooMany(f'"{name[:100]}" occurs twice in one object')
        found[name] = _Member(name, start, at)
    return None


def _length(text: memoryview) -> int:
    """Return the length of the JSON value at the beginning of a text that continues after it."""
    try:
        _VALUE.decode(text)
    except msgspec.DecodeError as error:
        match = _TRAILING.search(str(error))
        if match is None:
            raise
        return int(match[1]) - 1  # the error counts the first character after the value
    return len(text)


def _cut(text: bytes, values: int) -> bytes:
    """Return a container with about the given number of its first values, nested ones included."""
    opened: list[bytes] = []
    for match in _TOKEN.finditer(text):
        sign = match[0][:1]
        if sign in _CLOSING:
            opened.append(_CLOSING[sign])
            values -= 1
        elif sign in (b"]", b"}"):
            if opened:
                opened.pop()
        elif sign == b",":
            values -= 1
            if values <= 0:
                return text[: match.start()] + b"".join(reversed(opened))
    return text
