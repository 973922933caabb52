"""What a server says of its tools, kept from its answers to ``tools/list``.

Description, schema and annotations help to judge a call; they stand in the list alone. They are hints of the
server's author: the rules let them raise a tier and never lower one.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

MAX_TOOLS: Final = 10_000
"""Most tools that are kept; a list that never ends is not."""
MAX_SCHEMA: Final = 65_536
"""Longest schema that is sent to the gate with each call, in bytes as JSON."""


class CatalogueTool(Struct, frozen=True, rename="camel"):
    """One tool of a list. Absent is None, not the default of the protocol."""

    name: str
    description: str | None = None
    input_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] | None = None


class _Page(Struct, rename="camel"):
    tools: list[msgspec.Raw]
    next_cursor: str | None = None


_PAGE: Final = msgspec.json.Decoder(_Page)
_TOOL: Final = msgspec.json.Decoder(CatalogueTool)
_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encode: Final = msgspec.json.Encoder().encode


class ToolCatalogue:
    """The tools of one server. Usable from any thread."""

    def __init__(self) -> None:
        self._tools: dict[str, CatalogueTool] = {}
        self._lock = threading.Lock()
        self.fresh = False
        """Whether a whole list was seen since the server last said that it changed."""

    def changed(self) -> None:
        """The server says that its list is another one now. What is known is kept until it is said anew."""
        self.fresh = False

    def learn(self, result: bytes) -> str | None:
        """Takes a page of the list and returns the cursor of the next, None after the last or for no page at all."""
        try:
            page = _PAGE.decode(result)
        except _FAULTS:
            return None
        with self._lock:
            for raw in page.tools:
                tool = _tool(raw)
                if tool is not None and (tool.name in self._tools or len(self._tools) < MAX_TOOLS):
                    self._tools[tool.name] = tool
            self.fresh = page.next_cursor is None
        return page.next_cursor

    def find(self, name: str) -> CatalogueTool | None:
        """Returns what is known of a tool."""
        return self._tools.get(name)


def _tool(raw: msgspec.Raw) -> CatalogueTool | None:
    """One tool; None for what is none, of which the others shall not suffer."""
    try:
        tool = _TOOL.decode(raw)
        if tool.input_schema is not None and len(_encode(tool.input_schema)) > MAX_SCHEMA:
            return CatalogueTool(tool.name, tool.description, None, tool.annotations)
    except _FAULTS:
        return None
    return tool
