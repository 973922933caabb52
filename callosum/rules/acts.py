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
from callosum.rules.name import read_name

if TYPE_CHECKING:
    from callosum.rules.name import Name

MAX_VERB: Final = 64
"""How long an action may be, in characters; what is longer is no verb."""
MAX_TOOL: Final = 128
MAX_LINE: Final = 4096
MOST: Final = 64
"""How many calls of a list are read; a longer one is judged by these, and never taken for a look."""

_TOOLS: Final = frozenset((*lex.TOOL_PARAMS, "name"))
_CALLING: Final = lex.GENERIC | {"", "call"}
_NAMED: Final = lex.CALLED | {"tools", "rpc", "mcp"}
_CALLS: Final = frozenset("tools/call tool/call tools.call call_tool callTool".split())
"""JSON-RPC methods whose params name the tool."""
_WORDED: Final = frozenset("command op operation verb".split())
_GIVEN: Final = frozenset("arguments args params parameters input tool_input toolInput".split())
"""What stands beside the name of a tool that is called."""
BATCHES: Final = frozenset("operations actions calls tool_calls toolCalls tool_uses requests commands batch".split())
"""Params that hold a list of calls."""
NAMING: Final = frozenset((*lex.TOOL_PARAMS, *lex.ACTION_PARAMS)) | BATCHES
"""Params by which a call says what it does; ``name`` does so for the tools of ``calls_others``."""


_ARGUMENTS: Final = (*sorted(_GIVEN), "tool_args", "toolArgs", "tool_arguments", "toolArguments", "arguments_json",
    "argumentsJson", "params_json", "kwargs", "payload", "body", "data")  # fmt: skip
"""Params that hold the arguments of a tool that is called."""
_HOLDERS: Final = ("call", "tool_call", "toolCall", "function_call", "functionCall", "request", "params")
"""Params that may hold a whole call."""
_CALLEES: Final = frozenset((*lex.TOOL_PARAMS, "name", "action"))
_DEFINES: Final = frozenset(
    "create register define add update edit modify delete remove save install uninstall enable disable configure "
    "document generate design train mock stub".split()
)
"""Verbs of tools that are told of a tool and call none."""
_ACTION: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z]+)+")
"""An action that is called like a tool."""


def may_call(names: set[Any]) -> bool:
    """Tells whether params of these names may name a tool and hold its arguments."""
    return (
        not (_CALLEES.isdisjoint(names) or names.isdisjoint(_ARGUMENTS))
        or not BATCHES.isdisjoint(names)
        or not names.isdisjoint(_HOLDERS)
    )


def calls(tool: str, params: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the calls of other tools that a call makes: each tool with its arguments."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    name = read_name(tool)
    if not (name.firm and name.verb and (name.verb in _DEFINES or not name.tier)):
        others = calls_others(name)
        remote = params.get("method") in _CALLS if type(params.get("method")) is str else False
        found += _called(params, named=others)
        for one in _HOLDERS:
            if inner := opaque.held(params.get(one)):
                found += _called(inner, named=others or remote or one not in ("params", "request"))
    for one in sorted(BATCHES.intersection(params)):
        value = params[one]
        for entry in islice(value, MOST) if isinstance(value, (list, tuple)) else ():
            if isinstance(entry, Mapping):
                found += _called(entry, named=True)
    return found[:MOST]


def _called(one: Mapping[str, Any], *, named: bool) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the call that an object stands for, nothing where it is none. ``named``: ``name`` is that of a tool."""
    function = one.get("function")
    if isinstance(function, Mapping):
        one, named = function, True
    callee = _tool(one, lex.TOOL_PARAMS) or (_tool(one, ("name",)) if named else "")
    if not callee:
        action = _tool(one, ("action",))
        callee = action if _ACTION.fullmatch(action) else ""
    if not callee:
        return []
    for name in _ARGUMENTS:
        if (value := one.get(name)) is not None and (given := opaque.held(value)) is not None:
            return [(callee.removeprefix("functions."), given)]
    return []


def calls_others(name: Name) -> bool:
    """Tells whether a tool is there to call what its ``name`` param names (``execute_tool``, ``run_function``)."""
    return name.verb in _CALLING and not _NAMED.isdisjoint(name.words)


def said(tool: str, params: Mapping[str, Any]) -> tuple[str, str]:
    """Return the verb that the arguments give and the param that gives it, ``("", "")`` if none does.

    ``"tool"`` stands for the param where the arguments name another tool.
    """
    for name in lex.ACTION_PARAMS:
        value = params.get(name)
        if value is None:
            continue
        word = _word(value, name, tool)
        if word in _CALLS:
            break
        if word:
            return word, name
    else:
        if _TOOLS.isdisjoint(params) or read_name(tool).verb not in _CALLING:
            return "", ""
        found = _tool(params, lex.TOOL_PARAMS)
        if not found and calls_others(read_name(tool)):
            found = _tool(params, ("name",))
        return (found, "tool") if found else ("", "")
    inner = params.get("params")
    return _tool(inner if isinstance(inner, Mapping) else params, ("name", *lex.TOOL_PARAMS)) or "invoke", "tool"


def _word(value: Any, name: str, tool: str) -> str:
    """Return the verb in the value of an action param, ``""`` where it holds none.

    A command may be a line (``DEL a``), a list (``["DEL", "a"]``) or an object whose first name is the
    command (``{"drop": "users"}``). That it only looks is believed of a database's alone: elsewhere more
    may follow in the same line.
    """
    whole = type(value) is str
    if not whole:
        if name not in _WORDED or not isinstance(value, (list, tuple, Mapping)) or not value:
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
    return first if known.tier or (alone and not _STORES.isdisjoint(read_name(tool).words)) else ""


_PARTED: Final = re.compile(r"\s")
_SEVERAL: Final = re.compile(r"[;\n\r|&]")
_STORES: Final = frozenset("redis valkey keydb memcached mongo mongodb couchdb etcd database db kv cache".split())


def _tool(params: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((one for name in names if type(one := params.get(name)) is str and 0 < len(one) <= MAX_TOOL), "")


def batched(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what each call of a list among the params does, as ``said`` does, each once."""
    found: dict[tuple[str, str], None] = {}
    for name in BATCHES:
        value = params.get(name)
        if not isinstance(value, (list, tuple)):
            continue
        for one in islice(value, MOST):
            if (act := _entry(one, name))[0]:
                found[act] = None
        if len(value) > MOST:
            found["more", "list"] = None  # no verb that is known: at least a write
    return list(found)


def _entry(one: Any, name: str) -> tuple[str, str]:
    """Return what one entry of a list of calls does."""
    if not isinstance(one, Mapping):
        return (_word(one, "command", ""), "command") if name == "commands" else ("", "")
    inner = one.get("function")
    if isinstance(inner, Mapping):
        one = inner
    if inner is None and (found := said("", one))[0]:
        return found
    if not _GIVEN.isdisjoint(one):
        return _tool(one, ("name",)), "tool"
    if len(one) == 1 and type(only := next(iter(one))) is str and isinstance(one[only], Mapping):
        return (only, "action") if len(only) <= MAX_VERB else ("", "")  # {"deleteContentRange": {...}}
    return "", ""
