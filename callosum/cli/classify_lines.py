"""Classify calls line by line: JSON in the wire's form in, one line of JSON each out."""

from __future__ import annotations

import re
import sys
from typing import Any, BinaryIO, Final

import msgspec

from callosum.characters import escaped
from callosum.errors import ConfigError
from callosum.model import MAX_NAME, Call, Classification
from callosum.rules import RuleSet
from callosum.worktree import located

MAX_LINE: Final = 4_000_000
"""Maximum length of a call in bytes, as the gate accepts it."""

_decode: Final = msgspec.json.Decoder(Call).decode
_encode: Final = msgspec.json.Encoder().encode
_PLACE: Final = re.compile(r"(.*?)(?: - at `\$?\.?([^`]*)`)?", re.DOTALL)
_NO_INSTANCE: Final = "Object missing required field `instance`"


def read_call(line: bytes, instance: str) -> Call:
    """Return the call on one line; ``instance`` acts if the line names no instance.

    Unknown members are ignored. Raises ``ConfigError`` with the field.
    """
    if len(line) > MAX_LINE:
        raise ConfigError(f"{len(line)} bytes, at most {MAX_LINE} are taken")
    try:
        call = _decode(line)
    except msgspec.ValidationError as fault:
        if str(fault) != _NO_INSTANCE:
            raise _placed(str(fault)) from None
        call = _anonymous(line, instance)
    except (msgspec.DecodeError, UnicodeError) as fault:
        raise ConfigError(f"not JSON: {fault}") from None
    except RecursionError:
        raise ConfigError("nested too deeply") from None
    for name, value in (("tool", call.tool), ("instance", call.instance)):
        if not 0 < len(value) <= MAX_NAME or not value.isprintable():
            raise ConfigError(f"expected 1 to {MAX_NAME} characters, and none that controls", at=name)
    return call


def _anonymous(line: bytes, instance: str) -> Call:
    try:
        given: dict[str, Any] = msgspec.json.decode(line)
        return msgspec.convert({**given, "instance": instance}, Call)
    except msgspec.ValidationError as fault:
        raise _placed(str(fault)) from None


def _placed(fault: str) -> ConfigError:
    """Convert msgspec's ``... - at `$.params` `` into an error with the field in front."""
    parts = _PLACE.fullmatch(fault)
    message, place = (parts[1], parts[2] or "") if parts else (fault, "")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", message)
    return ConfigError("missing", at=missing[1]) if missing else ConfigError(message[:200], at=place[:200])


def brief(found: Classification) -> dict[str, Any]:
    """Return a classification in its printed form."""
    return {
        "tier": int(found.tier),
        "effect": found.effect,
        "keys": [{"key": key.name, "mode": key.mode} for key in found.keys],
        "rule": found.rule,
        "why": found.why,
    }


def classify_lines(rules: RuleSet, instance: str, source: BinaryIO | None = None, out: BinaryIO | None = None) -> int:
    """Classify each line of ``source`` (standard input) to ``out``, in order. Return the number of bad lines.

    A bad line gives ``{"error", "at"}`` in its place; ``at`` is the field, or ``line N``.
    """
    source = sys.stdin.buffer if source is None else source
    out = sys.stdout.buffer if out is None else out
    bad = 0
    number = 0
    while line := source.readline(MAX_LINE + 2):
        number += 1
        while not line.endswith(b"\n") and len(line) > MAX_LINE and (more := source.readline(1 << 16)):
            line = line[: MAX_LINE + 1] + more[-1:]  # the rest of an endless line is read but not kept
        answer: dict[str, Any]
        try:
            call = read_call(line, instance)
            answer = brief(rules.classify(located(call)))
        except ConfigError as error:
            bad += 1
            answer = {"error": error.message, "at": error.at or f"line {number}"}
        except Exception as error:  # noqa: BLE001  whatever one call does, the next is answered
            bad += 1
            answer = {"error": f"cannot be classified: {type(error).__name__}", "at": f"line {number}"}
        out.write(escaped(_encode(answer).decode()).encode() + b"\n")
        out.flush()
    return bad
