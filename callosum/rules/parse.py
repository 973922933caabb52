"""Reads a rules file: JSON in, checked rules out, every fault with its place."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, Final

from msgspec import Struct

from callosum.errors import ConfigError
from callosum.model import HOUR, Kind, Mode, Verdict
from callosum.rules.fields import FIELDS, REQUIRED, shown

MAX_BYTES: Final = 8_388_608
MAX_RULES: Final = 20_000
_MILLISECOND: Final = 1000


class KeyTemplate(Struct, frozen=True, omit_defaults=True):
    """One context key of a rule; ``mode`` None leaves it to the kind of key and the tier."""

    key: str
    mode: Mode | None = None


class Rule(Struct, frozen=True, omit_defaults=True):
    """One rule as it was written, checked. ``window`` is in microseconds.

    ``repeats`` and ``stance`` None leave it to the verb of the tool. ``params`` holds the allowed
    values of each param.
    """

    name: str
    tier: int
    tools: tuple[str, ...]
    params: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    present: tuple[str, ...] = ()
    pattern: str | None = None
    keys: tuple[KeyTemplate, ...] = ()
    window: int = HOUR
    verdict: Verdict | None = None
    cells: dict[Kind, Verdict] | None = None
    effect: str = "write"
    repeats: bool | None = None
    stance: str | None = None
    judge: bool = True

    @property
    def names_no_tool(self) -> bool:
        """Whether it matches every call there is."""
        return "*" in self.tools and not (self.params or self.present or self.pattern)


WINDOW: Final = "recentWindowMs"
"""A field of a rule, and of a file for all its rules, those that ship and calls that no rule decides."""


class _Object(dict[str, Any]):
    """A JSON object that remembers a key it was given twice."""

    twice: str | None = None


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    result = _Object()
    for name, value in pairs:
        if name in result:
            result.twice = name
        result[name] = value
    return result


def parse_rules(data: bytes | str, source: str) -> tuple[Rule, ...]:
    """Return the rules of a file in order; raise ``ConfigError`` naming the exact place.

    ``source`` names the file in faults that lie in no rule.
    """
    return parse_file(data, source)[0]


def parse_file(data: bytes | str, source: str) -> tuple[tuple[Rule, ...], int | None]:
    """Return the rules, and the file's ``recentWindowMs`` for all of them in microseconds, None if it has none."""
    document = _load(data, source)
    if not isinstance(document, _Object):
        raise ConfigError(f"expected an object with a list of rules, got {shown(document)}", source)
    _once(document, "")
    if "rules" not in document:
        raise ConfigError("missing", "rules")
    rules = document["rules"]
    if not isinstance(rules, list):
        raise ConfigError(f"expected a list of rules, got {shown(rules)}", "rules")
    if len(rules) > MAX_RULES:
        raise ConfigError(f"expected at most {MAX_RULES} rules, got {len(rules)}", "rules")
    window = None
    if WINDOW in document:
        window = FIELDS[WINDOW](document[WINDOW], WINDOW) * _MILLISECOND
    usual = HOUR if window is None else window
    return tuple(_rule(value, f"rules[{place}]", usual) for place, value in enumerate(rules)), window


def _load(data: bytes | str, source: str) -> Any:
    if len(data) > MAX_BYTES:
        raise ConfigError(f"expected at most {MAX_BYTES} bytes, got {len(data)}", source)
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ConfigError(f"not UTF-8 at byte {error.start}", source) from None

    def constant(name: str) -> Any:
        raise ConfigError(f"{name} is not JSON", source)

    try:
        return json.loads(data.removeprefix("\ufeff"), object_pairs_hook=_object, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise ConfigError(f"not JSON: {error.msg}", f"{source}:{error.lineno}:{error.colno}") from None
    except RecursionError:
        raise ConfigError("nested too deeply", source) from None
    except ValueError:  # a number of more digits than Python reads
        raise ConfigError("a number with too many digits", source) from None


def _once(value: Any, at: str) -> None:
    """Refuse a key that an object has twice, at any depth."""
    todo: list[tuple[Any, str]] = [(value, at)]
    while todo:
        value, at = todo.pop()
        if isinstance(value, _Object):
            if value.twice is not None:
                raise ConfigError("given twice", f"{at}.{value.twice}" if at else value.twice)
            todo += [(held, f"{at}.{name}" if at else name) for name, held in reversed(value.items())]
        elif isinstance(value, list):
            todo += [(item, f"{at}[{place}]") for place, item in reversed(list(enumerate(value)))]


def _rule(value: Any, at: str, usual: int) -> Rule:
    if not isinstance(value, dict):
        raise ConfigError(f"expected a rule (an object), got {shown(value)}", at)
    got: dict[str, Any] = {}
    for name, held in value.items():
        check = FIELDS.get(name)
        if check is None:
            raise ConfigError(f"unknown field; known are {', '.join(FIELDS)}", f"{at}.{name}")
        got[name] = check(held, f"{at}.{name}")
    for name in REQUIRED:
        if name not in got:
            raise ConfigError("missing", f"{at}.{name}")
    tier = got["tier"]
    window = got.get(WINDOW)
    return Rule(
        name=got.get("name", at),
        tier=tier,
        tools=tuple(got["tool"]),
        params=tuple((name, tuple(values)) for name, values in got.get("params", {}).items()),
        present=tuple(got.get("present", ())),
        pattern=got.get("commandPattern"),
        keys=tuple(KeyTemplate(**item) for item in got.get("contextKey", ())),
        window=usual if window is None else window * _MILLISECOND,
        verdict=Verdict(got["verdict"]) if "verdict" in got else None,
        cells=got.get("cells") or None,
        effect=got.get("effect", "write" if tier else "read"),
        repeats=got.get("repeats"),
        stance=got.get("stance"),
        judge=got.get("judge", True),
    )


@cache
def default_rules() -> tuple[Rule, ...]:
    """Return the rules that ship with Callosum."""
    return parse_rules(resources.files(__package__).joinpath("tiers.json").read_bytes(), "callosum/rules/tiers.json")
