"""Faults planted in the gate's own code: the checks of the targets find each of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import callosum.gate.check
import callosum.redact.kept_params
import callosum.rules.fields
import callosum.rules.judge
import callosum.rules.keys
import callosum.rules.ruleset
import callosum.rules.shell.line
import callosum.rules.shell.parser
import callosum.rules.slots
import callosum.rules.sql
import fuzz.targets.sketch
from fuzz.attempt import CORPUS, Fault, attempt
from fuzz.check import Broken
from fuzz.targets import TARGETS
from fuzz.targets.growth import grows

BY_NAME = {one.name: one for one in TARGETS}
TRIES = 4000


def find_fault(name: str) -> Fault | None:
    """Try a target with its seeds and with random inputs until a fault shows."""
    chance = random.Random(1)
    seeds = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    _forget()
    try:
        for at in range(TRIES):
            data = seeds[at] if at < len(seeds) else chance.randbytes(chance.choice((8, 30, 120)))
            if (fault := attempt(BY_NAME[name], data)) is not None:
                return fault
    finally:
        _forget()
    return None


def _forget() -> None:
    """Clear the caches, which would hide a planted fault before and keep it after."""
    for memo in (callosum.rules.keys._spell_memo, callosum.rules.shell.line._kept, callosum.rules.sql._read):
        memo.cache_clear()


def wrapped(real: Callable[..., Any], change: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **named: change(real(*given, **named), *given)


def _shouting(keys: Any) -> Any:
    return lambda value: [one.strip(".") for one in keys._ADDRESS.findall(value)]


def _no_rm(real: Any) -> Any:
    return lambda run, argv, command: None if argv[:1] == ["rm"] else real(run, argv, command)


def _never_odd(parsed: Any, *_: Any) -> Any:
    parsed.odd = ""
    return parsed


def _believes(seen: Any, call: Any, *_: Any) -> Any:
    return seen._replace(tier=0, effect="read") if (call.annotations or {}).get("readOnlyHint") is True else seen


def _raises(error: type[Exception]) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise error("planted")

    return fail


SHELL, KEYS, SQL = callosum.rules.shell.line, callosum.rules.keys, callosum.rules.sql
PLANTS = [
    ("keys", KEYS, "addresses", _shouting(KEYS), "an address has one spelling"),
    ("keys", callosum.rules.slots, "_moment", lambda value: None, "an appointment takes its quarters"),
    ("shell", SHELL, "_dispatch", _no_rm(SHELL._dispatch), "grave stays grave|dangerous command counts"),
    ("shell", SHELL, "parse", wrapped(callosum.rules.shell.parser.parse, _never_odd), "what no shell would take counts as a write"),
    ("structured", SQL, "_STARTS", re.compile(r"\s*(?:select|drop|delete|insert)\s", re.IGNORECASE), "case, space and comments|as grave as|every statement"),
    ("redaction", callosum.redact.kept_params, "REDACTOR", SimpleNamespace(redact=lambda text, *_: text), "a planted secret is not kept"),
    ("classify", callosum.rules.ruleset, "judge", wrapped(callosum.rules.judge.judge, _believes), "no hint lowers a tier"),
    ("rules", callosum.rules.fields, "compile_pattern", _raises(LookupError), "LookupError"),
    ("wire", callosum.gate.check, "is_shown", _raises(TypeError), "TypeError"),
    ("sketch", fuzz.targets.sketch, "near", lambda a, b: a.digest < b.digest, "near"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "where", "what", "planted", "sign"), PLANTS, ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, where: Any, what: str, planted: Any, sign: str
) -> None:
    monkeypatch.setattr(where, what, planted)
    fault = find_fault(name)
    assert fault is not None
    assert re.search(sign, fault.sign), fault


def test_only_superlinear_growth_is_found() -> None:
    def text(length: int) -> str:
        return "x" * length

    grows("linear", lambda one: sum(map(ord, one)), text, "x")
    with pytest.raises(Broken, match="4 times as long took"):
        grows("quadratic", lambda one: [one.count("y", at) for at in range(0, len(one), 4)], text, "x")


def test_slow_input_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.attempt._limit", lambda: 0.0)
    fault = attempt(BY_NAME["sketch"], b"x")
    assert fault is not None
    assert "bounded time" in fault.sign
