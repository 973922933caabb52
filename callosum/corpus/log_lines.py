"""The form of an event in the daily log: ``HH:MM:SS | type | {json}``, one line, without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from callosum.characters import escaped, is_shown
from callosum.redact import summarise
from callosum.redact.json_lines import is_harmless, suspects

_encode: Final = msgspec.json.Encoder().encode
_decode: Final[Callable[[bytes], Any]] = msgspec.json.Decoder().decode

AT: Final = b',"at":'


class JournalledLine(bytes):
    """A line made from a journal entry. The journal holds no secret, so none is searched for in the line."""

    __slots__ = ()


_MOMENTS: Final = re.compile(rb',"id":1[0-9]{15}(?:,"cause":"1[0-9]{15}\.[0-9]{1,2}")?\}\n')
"""The end of a line with positions in the journal. They are no secrets, but long enough to look like card numbers."""


_KEYS: Final = b' | {"contextKeys":['
"""How the lines of leases begin. Context keys hold no secrets, but random values under a name with "key" look like one.
"""


def without_moment(payload: bytes) -> bytes:
    """Return the rest of a line from an encoded event: its payload without ``at``, and the line end.

    ``at`` comes after the event's own fields and before the other common fields, none of which is a structure. So the
    last ``"at":`` is the right one.
    """
    own_fields, has_moment, rest = payload.rpartition(AT)
    comma = rest.find(b",")
    if has_moment:
        return own_fields + (b"}\n" if comma < 0 else rest[comma:] + b"\n")
    if payload.startswith(b'{"at":'):  # the event has no fields of its own
        return b"{}\n" if comma < 0 else b"{" + rest[comma + 1 :] + b"\n"
    return payload + b"\n"


def finished(lines: list[bytes]) -> list[bytes]:
    """Return the lines as they may be stored: secrets redacted, control and invisible characters escaped.

    Each line ends in a newline and contains no other. A ``JournalledLine`` holds no secret and is not searched for any.
    """
    data = b"".join(lines)
    if data.count(b"\n") != len(lines):  # a payload that was JSON already (msgspec.Raw)
        lines = [line[:-1].replace(b"\n", b" ") + b"\n" for line in lines]
        data = b"".join(lines)
    searched = [number for number, line in enumerate(lines) if type(line) is bytes]
    if searched:
        text = b"".join([lines[number] for number in searched])
        if numbers := suspects(_MOMENTS.sub(b"}\n", text).replace(_KEYS, b' | {"":[')):
            lines = list(lines)
            for number in numbers:
                lines[searched[number]] = _redacted(lines[searched[number]])
            data = b"".join(lines)
    if b"\x7f" in data or not data.isascii():
        shown = data.decode("utf-8", "replace")
        if not is_shown(shown.replace("\n", "")):
            return [escaped(line).encode() + b"\n" for line in shown.split("\n")[:-1]]
    return lines


def _redacted(line: bytes) -> bytes:
    start = line.index(b"{")
    try:
        payload = _decode(line[start:])
        return line if is_harmless(payload) else line[:start] + _encode(summarise(payload, mode="full")) + b"\n"
    except (ValueError, RecursionError, msgspec.MsgspecError):  # a payload that claimed to be JSON already
        return line[:start] + b'{"unreadable":"%d bytes"}\n' % (len(line) - start)
