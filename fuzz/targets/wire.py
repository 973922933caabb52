"""Bodies of requests: read, decided and answered, or refused with the place of the error."""

from __future__ import annotations

import math
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from callosum import wire
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.model import Call, Decision
from callosum.rulebook import Rulebook
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock
from fuzz import make
from fuzz.check import check
from fuzz.source import Source

WORDS: Final = (
    *("instance tool params action session namespace callId cwd pause wait description schema annotations origin parent "
      "run continues timeout host rewrite after taskId attempt id contextKey result outcome error done failed").split(),
    "\\ud800", "\\u0000", "1e999", "-0", "1.0", "true", "null", "{", "}", "[", "]", '"', "\\", ",", ":", "\xff", "\ufeff", "[" * 50,
    "99999999999999999999",
)  # fmt: skip
_CALL: Final = msgspec.json.Decoder(Call)
_COMPLETE: Final = msgspec.json.Decoder(wire.Complete)
_FIELDS: Final = tuple(name for name in Call.__struct_encode_fields__ if name not in ("params", "wait"))
_ENDS: Final = tuple(name for name in wire.Complete.__struct_encode_fields__ if name != "params")
_USES: Final = 300
"""Calls until the store is made anew."""


def run(source: Source) -> None:
    """Send a body to the endpoint for calls, the result to the endpoint for reports, and both directly."""
    kind = source.number(2)
    if kind == 0:
        body = source.rest()
        _intercept(body)
        _complete(body)
        return
    asked = {"instance": "mira", "tool": make.tool(source), "params": make.params(source)}
    ended: dict[str, Any] = {"instance": "mira"}
    for _ in source.times(6):
        asked[source.pick(_FIELDS)] = make.value(source, 1)
    for _ in source.times(4):
        ended[source.pick(_ENDS)] = make.value(source, 1)
    made = _intercept(_written(asked))
    if made is not None and source.maybe():
        ended["id"] = made.id
    _complete(_written(ended))


def _written(made: dict[str, Any]) -> bytes:
    """Return JSON as a careless client writes it: values that it cannot represent are left out."""
    try:
        return msgspec.json.encode(made)
    except (UnicodeEncodeError, OverflowError, RecursionError, ValueError):
        return b'{"instance": "mira", "tool": "x"}'


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="callosum-fuzz-wire-"))


class _Gates:
    """A gate that is created again from time to time, so that its memory stays small."""

    def __init__(self) -> None:
        self._made: LocalGate | None = None
        self._uses = 0

    def one(self) -> LocalGate:
        self._uses += 1
        if self._made is None or self._uses % _USES == 0:
            clock = ManualClock()
            self._made = LocalGate(
                settings=Settings(state=_folder()),
                store=MemoryStore(clock=clock, probe=lambda _: None),
                rules=Rulebook(None, secret=b"s" * 32),
                sleep=clock.sleep,
            )
        return self._made


_GATES: Final = _Gates()


def _intercept(body: bytes) -> Decision | None:
    try:
        call = wire.read(_CALL, body)
        check(math.isfinite(call.wait), "a wait is a number of seconds", call.wait)
        decision = _GATES.one().intercept(msgspec.structs.replace(call, wait=0))
    except ConfigError as error:
        check(str(error), "a refusal says why", body)
        return None
    told = msgspec.json.decode(wire.encode(decision), type=Decision)
    check(told.verdict is decision.verdict and told.tier == decision.tier, "an answer travels whole", decision, told)
    return decision


def _complete(body: bytes) -> None:
    try:
        asked = wire.read(_COMPLETE, body)
        report = _GATES.one().complete(
            asked.instance,
            id=asked.id,
            context_key=asked.context_key,
            tool=asked.tool,
            params=asked.params,
            action=asked.action,
            result=asked.result,
            outcome=asked.outcome,
            session=asked.session,
            namespace=asked.namespace,
        )
    except ConfigError as error:
        check(str(error), "a refusal says why", body)
        return
    msgspec.json.decode(wire.encode(report))
