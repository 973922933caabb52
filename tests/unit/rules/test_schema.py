"""The shipped JSON Schema and the parser say the same."""

import json
import re
from importlib import resources
from typing import Any

import pytest

from callosum.errors import ConfigError
from callosum.model import Kind, Mode, Verdict
from callosum.rules import RuleSet, json_schema
from callosum.rules.fields import FIELDS
from tests.unit.rules import test_parse


def shipped(name: str) -> Any:
    return json.loads(resources.files("callosum.rules").joinpath(name).read_text("utf-8"))


def holds(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    """A JSON Schema validator for the words that our schema uses."""
    if "$ref" in schema:
        return holds(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], value, root)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    known = {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "number": isinstance(value, (int, float)) and not isinstance(value, bool),
        "integer": not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer())),
    }  # fmt: skip
    if kinds and not any(known[kind] for kind in kinds):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "anyOf" in schema and not any(holds(one, value, root) for one in schema["anyOf"]):
        return False
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)) or len(value) < schema.get("minLength", 0):
            return False
        if "pattern" in schema and not re.search(schema["pattern"], value):
            return False
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return False
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        if "items" in schema and not all(holds(schema["items"], one, root) for one in value):
            return False
    if isinstance(value, dict):
        if not all(name in value for name in schema.get("required", ())) or len(value) > schema.get(
            "maxProperties", len(value)
        ):
            return False
        more = schema.get("additionalProperties", True)
        for name, one in value.items():
            inner = schema.get("properties", {}).get(name, more)
            if inner is False or (isinstance(inner, dict) and not holds(inner, one, root)):
                return False
    return True


def test_schema_has_the_fields_and_words_of_the_parser() -> None:
    properties = json_schema()["$defs"]["rule"]["properties"]
    assert list(properties) == list(FIELDS)
    assert properties["verdict"]["enum"] == list(Verdict)
    assert list(properties["cells"]["properties"]) == list(Kind)
    assert properties["contextKey"]["anyOf"][2]["properties"]["mode"]["enum"] == list(Mode)


def test_default_rules_match_the_schema() -> None:
    schema = json_schema()
    assert holds(schema, shipped("tiers.json"), schema)


def is_json(text: str | bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


# What JSON Schema cannot say: whether a pattern compiles, what a template's braces hold, keys given twice.
BEYOND = ("commandPattern", "contextKey")


@pytest.mark.parametrize("text", [text for text, _ in test_parse.BAD if is_json(text)])
def test_schema_refuses_what_the_parser_refuses(text: str | bytes) -> None:
    document = json.loads(text)
    schema = json_schema()
    with pytest.raises(ConfigError) as caught:
        RuleSet.parse(text)
    if caught.value.message.startswith("given twice"):
        return
    if any(part in caught.value.at for part in BEYOND) and holds(schema, document, schema):
        return
    assert not holds(schema, document, schema)


GOOD: list[dict[str, Any]] = [
    {"tier": 3.0, "tool": "*"},
    {"tier": 1, "tool": ["a", "b*"], "name": "n", "description": ""},
    {"tier": 1, "tool": "a", "params": {"a": 1, "b": [None, True, "x"]}, "present": "x|y"},
    {"tier": 1, "tool": "a", "present": ["x", "y"], "commandPattern": "^a+$", "recentWindowMs": 0},
    {"tier": 1, "tool": "a", "contextKey": None},
    {"tier": 1, "tool": "a", "contextKey": ["a:{params.x|new}", {"key": "b:{tool}"}, {"key": "c:d|e", "mode": "append"}]},
    {"tier": 1, "tool": "a", "contextKey": []},
    {"tier": 4, "tool": "a", "verdict": "ask", "cells": {"held": "block"}, "effect": "read", "repeats": True},
    {"tier": 4, "tool": "a", "stance": "+attend", "judge": False, "cells": {}},
]  # fmt: skip


@pytest.mark.parametrize("good", GOOD)
def test_schema_accepts_what_the_parser_accepts(good: dict[str, Any]) -> None:
    document = {"rules": [good]}
    RuleSet.parse(json.dumps(document))
    schema = json_schema()
    assert holds(schema, document, schema)
