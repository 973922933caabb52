"""The fields of a rule: what each may hold, said once for the parser and for the JSON Schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

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


class Field(NamedTuple):
    """One field: how it is checked, its JSON Schema, and what it means."""

    check: Check
    schema: dict[str, Any]
    doc: str


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


def _string(what: str, limit: int = MAX_NAME, *, empty: bool = False) -> Check:
    def check(value: Any, at: str) -> str:
        if not isinstance(value, str):
            raise ConfigError(f"expected {what}, got {shown(value)}", at)
        if not empty and not value.strip():
            raise ConfigError(f"expected {what}, got an empty string", at)
        if len(value) > limit:
            raise ConfigError(f"expected at most {limit} characters, got {len(value)}", at)
        return value

    return check


def _integer(low: int, high: int) -> Check:
    def check(value: Any, at: str) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 3.0 is an integer in JSON
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(f"expected an integer from {low} to {high}, got {shown(value)}", at)
        return value

    return check


def _choice(*values: str) -> Check:
    def check(value: Any, at: str) -> str:
        if value not in values or not isinstance(value, str):
            raise ConfigError(f"expected one of {', '.join(values)}; got {shown(value)}", at)
        return value

    return check


def _boolean(value: Any, at: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"expected true or false, got {shown(value)}", at)
    return value


def _items(value: Any, at: str, what: str, check: Check) -> list[Any]:
    if not value:
        raise ConfigError(f"expected {what}, got an empty list", at)
    if len(value) > MAX_LIST:
        raise ConfigError(f"expected at most {MAX_LIST} items, got {len(value)}", at)
    return [check(one, f"{at}[{place}]") for place, one in enumerate(value)]


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
    if isinstance(value, list):
        return _items(value, at, "a tool's name or a list of names", _tool_name)
    raise ConfigError(f"expected a tool's name or a list of names, got {shown(value)}", at)


def _scalar(value: Any, at: str) -> Any:
    if isinstance(value, (dict, list)):
        raise ConfigError(f"expected a string, a number, true, false or null, got {shown(value)}", at)
    return value


def _params(value: Any, at: str) -> dict[str, list[Any]]:
    if not isinstance(value, dict):
        raise ConfigError(f"expected an object, got {shown(value)}", at)
    if len(value) > MAX_LIST:
        raise ConfigError(f"expected at most {MAX_LIST} params, got {len(value)}", at)
    result = {}
    for name, wanted in value.items():
        where = f"{at}.{name}"
        result[name] = (
            _items(wanted, where, "values", _scalar) if isinstance(wanted, list) else [_scalar(wanted, where)]
        )
    return result


def _present(value: Any, at: str) -> list[str]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise ConfigError(f"expected a param's name or a list of names, got {shown(value)}", at)
    return _items(value, at, "a param's name or a list of names", _string("a param's name"))


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
    if not isinstance(value, dict):
        raise ConfigError(f"expected a key template, got {shown(value)}", at)
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
    if value is None:
        return []
    if isinstance(value, list):
        if len(value) > 16:
            raise ConfigError(f"expected at most 16 keys, got {len(value)}", at)
        return [_key(one, f"{at}[{place}]") for place, one in enumerate(value)]
    return [_key(value, at)]


def _cells(value: Any, at: str) -> dict[Kind, Verdict]:
    if not isinstance(value, dict):
        raise ConfigError(f"expected an object from kind to verdict, got {shown(value)}", at)
    result = {}
    for kind, verdict in value.items():
        if kind not in list(Kind):
            raise ConfigError(f"unknown kind; known are {', '.join(Kind)}", f"{at}.{kind}")
        result[Kind(kind)] = Verdict(_choice(*Verdict)(verdict, f"{at}.{kind}"))
    return result


def _stance(value: Any, at: str) -> str:
    stance = str(_string("a stance such as +attend or -attend", 64)(value, at))
    if stance[0] not in "+-" or not stance[1:].replace("-", "").isalnum():
        raise ConfigError(f"expected a stance such as +attend or -attend, got {shown(stance)}", at)
    return stance


_TEXT: Final = {"type": "string", "minLength": 1, "pattern": r"\S"}
_KEY_SCHEMA: Final = {**_TEXT, "maxLength": MAX_TEMPLATE}
_ANY_KEY: Final = {
    "anyOf": [
        _KEY_SCHEMA,
        {
            "type": "object",
            "properties": {"key": _KEY_SCHEMA, "mode": {"enum": [str(one) for one in Mode]}},
            "required": ["key"],
            "additionalProperties": False,
        },
    ]
}
_NAMES: Final = {
    "anyOf": [
        {**_TEXT, "maxLength": MAX_NAME},
        {"type": "array", "items": {**_TEXT, "maxLength": MAX_NAME}, "minItems": 1, "maxItems": MAX_LIST},
    ]
}
_SCALAR_SCHEMA: Final = {"type": ["string", "number", "boolean", "null"]}
_VERDICTS: Final = [str(one) for one in Verdict]

FIELDS: Final[dict[str, Field]] = {
    "name": Field(
        _string("a name"), {**_TEXT, "maxLength": MAX_NAME}, "What the rule is called in answers and in the journal."
    ),
    "description": Field(
        _string("a text", 4096, empty=True), {"type": "string", "maxLength": 4096}, "For readers; no effect."
    ),
    "tier": Field(
        _integer(0, 4),
        {"type": "integer", "minimum": 0, "maximum": 4},
        "The risk of the call, 0 (none) to 4 (critical).",
    ),
    "tool": Field(
        _tool, _NAMES, "The tools it is for: a name, a list of names, * for all; * and ? in a name match any part."
    ),
    "params": Field(
        _params,
        {
            "type": "object",
            "maxProperties": MAX_LIST,
            "additionalProperties": {
                "anyOf": [
                    _SCALAR_SCHEMA,
                    {"type": "array", "items": _SCALAR_SCHEMA, "minItems": 1, "maxItems": MAX_LIST},
                ]
            },
        },
        "Params that must have exactly this value, or one of these.",
    ),
    "present": Field(
        _present,
        _NAMES,
        "Params that must be there and not be empty; of a name such as replyTo|threadId one of the two.",
    ),
    "commandPattern": Field(
        _pattern,
        {**_TEXT, "maxLength": MAX_PATTERN},
        "An RE2 pattern that must occur in the shell command (params command, cmd, script).",
    ),
    "contextKey": Field(
        _context_key,
        {"anyOf": [{"type": "null"}, *_ANY_KEY["anyOf"], {"type": "array", "items": _ANY_KEY, "maxItems": 16}]},
        "What the call affects: channel:{params.target|params.channel}. A key without a value is absent.",
    ),
    "recentWindowMs": Field(
        _integer(0, MAX_WINDOW_MS),
        {"type": "integer", "minimum": 0, "maximum": MAX_WINDOW_MS},
        "How far back other sessions' acts count, in milliseconds (default one hour; 0: not at all).",
    ),
    "verdict": Field(
        _choice(*Verdict), {"enum": _VERDICTS}, "The mildest answer the call can get, whatever is in the way."
    ),
    "cells": Field(
        _cells,
        {
            "type": "object",
            "properties": {str(one): {"enum": _VERDICTS} for one in Kind},
            "additionalProperties": False,
        },
        "Single cells of the policy table, from kind of conflict to verdict.",
    ),
    "effect": Field(
        _choice("read", "write"),
        {"enum": ["read", "write"]},
        "Whether the call changes anything (default: read at tier 0, else write).",
    ),
    "repeats": Field(
        _boolean,
        {"type": "boolean"},
        "Whether the act happens again when it is repeated (a mail), so that a twin is a duplicate.",
    ),
    "stance": Field(
        _stance,
        {"type": "string", "pattern": r"^[+-][A-Za-z0-9-]*[A-Za-z0-9][A-Za-z0-9-]*$", "maxLength": 64},
        "The side the call takes (+attend); another session's contrary (-attend) on the same key is opposed.",
    ),
    "judge": Field(
        _boolean,
        {"type": "boolean"},
        "For tool * without conditions: whether the default set and the call's looks may raise the tier.",
    ),
}
REQUIRED: Final = ("tier", "tool")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a rules file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Callosum rules",
        "description": "Rules that classify tool calls. The first rule that matches decides.",
        "type": "object",
        "properties": {
            "$schema": {"type": "string"},
            "description": {"type": "string"},
            "recentWindowMs": {
                **FIELDS["recentWindowMs"].schema,
                "description": "For all rules that name none, the shipped ones too, and for calls without a rule.",
            },
            "rules": {"type": "array", "maxItems": 20_000, "items": {"$ref": "#/$defs/rule"}},
        },
        "required": ["rules"],
        "$defs": {
            "rule": {
                "type": "object",
                "properties": {name: {**field.schema, "description": field.doc} for name, field in FIELDS.items()},
                "required": list(REQUIRED),
                "additionalProperties": False,
            }
        },
    }
