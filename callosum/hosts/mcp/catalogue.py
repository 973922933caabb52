"""Keep what a server says about its tools in its answers to ``tools/list``.

Description, schema and annotations help to classify a call, and only the list has them. They are hints by the server's
author: the rules let them raise a tier, never lower it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

MAX_TOOLS: Final = 10_000
"""Maximum number of tools that are kept, as a guard against an endless list."""
MAX_SCHEMA: Final = 65_536
"""Maximum length, in bytes of JSON, of a schema that is sent to the gate with each call."""


class CatalogueTool(Struct, frozen=True, rename="camel"):
    """Describe one tool of the list. An absent field is None, not the protocol's default."""

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
    """Hold the tools of one server. Any thread may use it."""

    def __init__(self) -> None:
        self._tools: dict[str, CatalogueTool] = {}
        self._lock = threading.Lock()
        self.fresh = False
        """True if a complete list was read since the server last reported a change."""

    def changed(self) -> None:
        """Note that the server's list changed. The known tools stay until they are listed again."""
        self.fresh = False

    def learn(self, result: bytes) -> str | None:
        """Read a page of the list. Return the cursor of the next page.

        Return None after the last page and for a malformed page.
        """
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
        """Return what is known about a tool, or None."""
        return self._tools.get(name)


def _tool(raw: msgspec.Raw) -> CatalogueTool | None:
    """Parse one tool. Return None if it is malformed, so that one bad entry does not spoil the list."""
    try:
        tool = _TOOL.decode(raw)
        if tool.input_schema is not None and len(_encode(tool.input_schema)) > MAX_SCHEMA:
            return CatalogueTool(tool.name, tool.description, None, tool.annotations)
    except _FAULTS:
        return None
    return tool
