"""Check the fields of a rule. ``tiers.schema.json`` says the same to editors, and what each field means."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from typing import Any, Final

import msgspec
import re2

from callosum.errors import ConfigError
from callosum.model import Kind, Mode, Verdict
from callosum.rules.template import MAX_TEMPLATE, TemplateError, compile_template

MAX_NAME: Final = 200
MAX_PATTERN: Final = 4096
MAX_LIST: Final = 1000
MAX_WINDOW_MS: Final = 366 * 86_400_000

Check = Callable[[Any, str], Any]
"""Takes a value and its place, returns the value to keep, raises ``ConfigError``."""


def shown(value: Any) -> str:
    """Return a value as an error message shows it: its JSON kind, or itself where that is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return text if len(text := repr(value)) <= 24 else "a number"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 40 and value.isprintable() else "a string"
    return "a list" if isinstance(value, list) else "an object"


def _expect(fits: bool, what: str, value: Any, at: str) -> None:
    if not fits:
        raise ConfigError(f"expected {what}, got {shown(value)}", at)


def _at_most(limit: int, what: str, value: Any, at: str) -> None:
    if len(value) > limit:
        raise ConfigError(f"expected at most {limit} {what}, got {len(value)}", at)


def _string(what: str, limit: int = MAX_NAME, *, empty: bool = False) -> Check:
    def check(value: Any, at: str) -> str:
        _expect(isinstance(value, str), what, value, at)
        if not empty and not value.strip():
            raise ConfigError(f"expected {what}, got an empty string", at)
        _at_most(limit, "characters", value, at)
        return str(value)

    return check


def _integer(low: int, high: int) -> Check:
    def check(value: Any, at: str) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 3.0 is an integer in JSON
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        _expect(fits, f"an integer from {low} to {high}", value, at)
        return int(value)

    return check


def _choice(*values: str) -> Check:
    def check(value: Any, at: str) -> str:
        if value not in values or not isinstance(value, str):
            raise ConfigError(f"expected one of {', '.join(values)}; got {shown(value)}", at)
        return value

    return check


def _boolean(value: Any, at: str) -> Any:
    _expect(isinstance(value, bool), "true or false", value, at)
    return value


def _items(value: Any, at: str, what: str, check: Check) -> list[Any]:
    _expect(isinstance(value, list), what, value, at)
    if not value:
        raise ConfigError(f"expected {what}, got an empty list", at)
    _at_most(MAX_LIST, "items", value, at)
    return [check(item, f"{at}[{place}]") for place, item in enumerate(value)]


def _tool_name(value: Any, at: str) -> str:
    name = str(_string("a tool's name")(value, at))
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigError("expected a tool's name, got a lone surrogate", at) from None
    return name


def _tool(value: Any, at: str) -> list[str]:
    if isinstance(value, str):
        return [_tool_name(value, at)]
    return _items(value, at, "a tool's name or a list of names", _tool_name)


def _scalar(value: Any, at: str) -> Any:
    _expect(not isinstance(value, (dict, list)), "a string, a number, true, false or null", value, at)
    return value


def _params(value: Any, at: str) -> dict[str, list[Any]]:
    _expect(isinstance(value, dict), "an object", value, at)
    _at_most(MAX_LIST, "params", value, at)
    return {
        name: _items(wanted, f"{at}.{name}", "values", _scalar)
        if isinstance(wanted, list)
        else [_scalar(wanted, f"{at}.{name}")]
        for name, wanted in value.items()
    }


def _present(value: Any, at: str) -> list[str]:
    names = [value] if isinstance(value, str) else value
    return _items(names, at, "a param's name or a list of names", _string("a param's name"))


def _pattern(value: Any, at: str) -> str:
    pattern = str(_string("a pattern", MAX_PATTERN)(value, at))
    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise ConfigError(str(error), at) from None
    return pattern


def pattern_options(max_mem: int = 16 << 20) -> Any:
    """Return RE2 options that do not write to standard error. ``max_mem`` is in bytes."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = max_mem
    return options


def compile_pattern(pattern: str) -> Any:
    """Return the compiled RE2 pattern; raise ``ValueError`` telling why it cannot be used."""
    try:
        return re2.compile(pattern, pattern_options())
    except re2.error as error:
        said = error.args[0] if error.args else b""
        reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        hint = " (lookaheads, lookbehinds and backreferences are not supported: patterns run in linear time)"
        unsupported = "perl operator" in reason or "escape sequence" in reason
        raise ValueError(f"not a usable RE2 pattern: {reason}{hint if unsupported else ''}") from None
    except UnicodeEncodeError:
        raise ValueError("not a usable RE2 pattern: a lone surrogate") from None


def _template(value: Any, at: str) -> dict[str, Any]:
    template = _string("a key template", MAX_TEMPLATE)(value, at)
    try:
        compile_template(template)
    except TemplateError as error:
        raise ConfigError(str(error), at) from None
    return {"key": template, "mode": None}


def _key(value: Any, at: str) -> dict[str, Any]:
    if isinstance(value, str):
        return _template(value, at)
    _expect(isinstance(value, dict), "a key template", value, at)
    for name in value:
        if name not in ("key", "mode"):
            raise ConfigError("unknown field; known are key, mode", f"{at}.{name}")
    if "key" not in value:
        raise ConfigError("missing", f"{at}.key")
    result = _template(value["key"], f"{at}.key")
    if "mode" in value:
        result["mode"] = Mode(_choice(*Mode)(value["mode"], f"{at}.mode"))
    return result


def _context_key(value: Any, at: str) -> list[dict[str, Any]]:
    if isinstance(value, list):
        _at_most(16, "keys", value, at)
        return [_key(key, f"{at}[{place}]") for place, key in enumerate(value)]
    return [] if value is None else [_key(value, at)]


def _cells(value: Any, at: str) -> dict[Kind, Verdict]:
    _expect(isinstance(value, dict), "an object from kind to verdict", value, at)
    result = {}
    for kind, verdict in value.items():
        if kind not in list(Kind):
            raise ConfigError(f"unknown kind; known are {', '.join(Kind)}", f"{at}.{kind}")
        result[Kind(kind)] = Verdict(_choice(*Verdict)(verdict, f"{at}.{kind}"))
    return result


def _stance(value: Any, at: str) -> str:
    what = "a stance such as +attend or -attend"
    stance = str(_string(what, 64)(value, at))
    _expect(stance[0] in "+-" and stance[1:].replace("-", "").isalnum(), what, stance, at)
    return stance


FIELDS: Final[dict[str, Check]] = {
    "name": _string("a name"),
    "description": _string("a text", 4096, empty=True),
    "tier": _integer(0, 4),
    "tool": _tool,
    "params": _params,
    "present": _present,
    "commandPattern": _pattern,
    "contextKey": _context_key,
    "recentWindowMs": _integer(0, MAX_WINDOW_MS),
    "verdict": _choice(*Verdict),
    "cells": _cells,
    "effect": _choice("read", "write"),
    "repeats": _boolean,
    "stance": _stance,
    "judge": _boolean,
}
REQUIRED: Final = ("tier", "tool")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a rules file."""
    schema: dict[str, Any] = msgspec.json.decode(
        resources.files(__package__).joinpath("tiers.schema.json").read_bytes()
    )
    return schema
