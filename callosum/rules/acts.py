"""The verb among a call's arguments: ``{"action": "delete"}``, ``{"method": "tools/call", "name": ...}``.

A tool for everything says in an argument what it does: an action, an HTTP method, the name of another
tool, a database's command, or a list of such calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from callosum.rules import lexicon as lex
from callosum.rules import opaque
from callosum.rules.lexicon import lists
from callosum.rules.name import read_name

if TYPE_CHECKING:
    from callosum.rules.name import Name

MAX_VERB: Final = 64
"""How long an action may be, in characters; what is longer is no verb."""
MAX_TOOL: Final = 128
MAX_LINE: Final = 4096
MOST: Final = 64
"""How many calls of a list are read; a longer one is judged by these, and never taken for a look."""

_TOOLS: Final = frozenset((*lists.TOOL_PARAMS, "name"))
_CALLING: Final = lex.GENERIC | {"", "call"}
_NAMED: Final = lex.CALLED | {"tools", "rpc", "mcp"}
NAMING: Final = frozenset((*lists.TOOL_PARAMS, *lists.ACTION_PARAMS)) | lex.BATCH_PARAMS
"""Params by which a call says what it does; ``name`` does so for the tools of ``calls_others``."""


CALLEES: Final = frozenset((*lists.TOOL_PARAMS, "name", "action"))
"""Params that may name the tool that is called."""
_ACTION: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z]+)+")
"""An action that is called like a tool."""


def calls(tool: str, params: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the calls of other tools that a call makes: each tool with its arguments."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    name = read_name(tool)
    if not (name.firm and name.verb and (name.verb in lex.DEFINES_TOOLS or not name.tier)):
        others = calls_others(name)
        remote = params.get("method") in lex.RPC_CALL_METHODS if type(params.get("method")) is str else False
        found += _called(params, named=others)
        for item in lists.CALL_HOLDER_PARAMS:
            if inner := opaque.held(params.get(item)):
                found += _called(inner, named=others or remote or item not in ("params", "request"))
    for item in sorted(lex.BATCH_PARAMS.intersection(params)):
        value = params[item]
        for entry in islice(value, MOST) if isinstance(value, (list, tuple)) else ():
            if isinstance(entry, Mapping):
                found += _called(entry, named=True)
    return found[:MOST]


def _called(entry: Mapping[str, Any], *, named: bool) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the call that an object stands for, nothing where it is none. ``named``: ``name`` is that of a tool."""
    function = entry.get("function")
    if isinstance(function, Mapping):
        entry, named = function, True
    callee = _tool(entry, lists.TOOL_PARAMS) or (_tool(entry, ("name",)) if named else "")
    if not callee:
        action = _tool(entry, ("action",))
        callee = action if _ACTION.fullmatch(action) else ""
    if not callee:
        return []
    for name in lists.CALLEE_ARGUMENT_PARAMS:
        if (value := entry.get(name)) is not None and (given := opaque.held(value)) is not None:
            return [(callee.removeprefix("functions."), given)]
    return []


def calls_others(name: Name) -> bool:
    """Return True if a tool is there to call what its ``name`` param names (``execute_tool``, ``run_function``)."""
    return name.verb in _CALLING and not _NAMED.isdisjoint(name.words)


def said(tool: str, params: Mapping[str, Any]) -> tuple[str, str]:
    """Return the verb that the arguments give and the param that gives it, ``("", "")`` if none does.

    ``"tool"`` stands for the param where the arguments name another tool.
    """
    for name in lists.ACTION_PARAMS:
        value = params.get(name)
        if value is None:
            continue
        word = _word(value, name, tool)
        if word in lex.RPC_CALL_METHODS:
            break
        if word:
            return word, name
    else:
        if _TOOLS.isdisjoint(params) or read_name(tool).verb not in _CALLING:
            return "", ""
        found = _tool(params, lists.TOOL_PARAMS)
        if not found and calls_others(read_name(tool)):
            found = _tool(params, ("name",))
        return (found, "tool") if found else ("", "")
    inner = params.get("params")
    return _tool(inner if isinstance(inner, Mapping) else params, ("name", *lists.TOOL_PARAMS)) or "invoke", "tool"


def _word(value: Any, name: str, tool: str) -> str:
    """Return the verb in the value of an action param, ``""`` where it holds none.

    A command may be a line (``DEL a``), a list (``["DEL", "a"]``) or an object whose first name is the
    command (``{"drop": "users"}``). That it only looks is believed of a database's alone: elsewhere more
    may follow in the same line.
    """
    whole = type(value) is str
    if not whole:
        if name not in lex.STRUCTURED_ACTION_PARAMS or not isinstance(value, (list, tuple, Mapping)) or not value:
            return ""
        value = next(iter(value))
        if type(value) is not str:
            return ""
    value = value.strip() if len(value) <= MAX_LINE else ""
    if whole and (name != "command" or not _PARTED.search(value)):
        return value if len(value) <= MAX_VERB else ""
    first = value.split(None, 1)[0] if value else ""
    if len(first) > MAX_VERB or not (known := read_name(first)).verb:
        return ""
    alone = not whole or _SEVERAL.search(value) is None
    return first if known.tier or (alone and not lex.STORE_NOUNS.isdisjoint(read_name(tool).words)) else ""


_PARTED: Final = re.compile(r"\s")
_SEVERAL: Final = re.compile(r"[;\n\r|&]")


def _tool(params: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if type(value := params.get(name)) is str and 0 < len(value) <= MAX_TOOL), "")


def batched(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what each call of a list among the params does, as ``said`` does, each once."""
    found: dict[tuple[str, str], None] = {}
    for name in lex.BATCH_PARAMS:
        value = params.get(name)
        if not isinstance(value, (list, tuple)):
            continue
        for item in islice(value, MOST):
            if (act := _entry(item, name))[0]:
                found[act] = None
        if len(value) > MOST:
            found["more", "list"] = None  # no verb that is known: at least a write
    return list(found)


def _entry(value: Any, name: str) -> tuple[str, str]:
    """Return what one entry of a list of calls does."""
    if not isinstance(value, Mapping):
        return (_word(value, "command", ""), "command") if name == "commands" else ("", "")
    inner = value.get("function")
    if isinstance(inner, Mapping):
        value = inner
    if inner is None and (found := said("", value))[0]:
        return found
    if not lex.GIVEN_ARGUMENT_PARAMS.isdisjoint(value):
        return _tool(value, ("name",)), "tool"
    if len(value) == 1 and type(only := next(iter(value))) is str and isinstance(value[only], Mapping):
        return (only, "action") if len(only) <= MAX_VERB else ("", "")  # {"deleteContentRange": {...}}
    return "", ""
