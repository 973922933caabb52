"""Test the list of a server's tools, page by page."""

import json
from typing import Any

from callosum.hosts.mcp.catalogue import MAX_SCHEMA, CatalogueTool, ToolCatalogue


def page(*tools: Any, cursor: str | None = None) -> bytes:
    return json.dumps({"tools": tools, **({"nextCursor": cursor} if cursor else {})}).encode()


def test_pages_are_collected_until_the_last() -> None:
    catalogue = ToolCatalogue()
    assert catalogue.learn(page({"name": "a", "annotations": {"readOnlyHint": True}}, cursor="2")) == "2"
    assert not catalogue.fresh
    assert catalogue.learn(page({"name": "b", "description": "B", "inputSchema": {"type": "object"}})) is None
    assert catalogue.fresh
    assert catalogue.find("a") == CatalogueTool("a", None, None, {"readOnlyHint": True})
    assert catalogue.find("b") == CatalogueTool("b", "B", {"type": "object"})
    assert catalogue.find("c") is None


def test_changed_list_is_kept_until_it_is_read_again() -> None:
    catalogue = ToolCatalogue()
    catalogue.learn(page({"name": "a", "description": "old"}))
    catalogue.changed()
    assert not catalogue.fresh
    assert catalogue.find("a") == CatalogueTool("a", "old")
    catalogue.learn(page({"name": "a", "description": "new"}))
    assert catalogue.find("a") == CatalogueTool("a", "new")


def test_malformed_tool_does_not_spoil_the_others() -> None:
    catalogue = ToolCatalogue()
    odd = [5, {}, {"name": 7}, {"name": "x", "annotations": "all"}, None]
    catalogue.learn(page(*odd, {"name": "a"}))
    catalogue.learn(b'{"tools":[{"name":"\xff"},{"name":"b","x":"\xff"}]}')
    assert catalogue.find("a") == CatalogueTool("a")
    assert catalogue.find("x") is None


def test_malformed_page_changes_nothing() -> None:
    catalogue = ToolCatalogue()
    for text in (
        b"",
        b"7",
        b'{"tools":5}',
        b'{"tools":' + b"[" * 50_000,
        b"\xff",
        b'{"\xff":1}',
        b'{"tools":[],"nextCursor":"\xff"}',
    ):
        assert catalogue.learn(text) is None
    assert not catalogue.fresh


def test_schema_too_long_for_every_call_is_left_out() -> None:
    catalogue = ToolCatalogue()
    catalogue.learn(page({"name": "a", "description": "A", "inputSchema": {"x": "y" * MAX_SCHEMA}}))
    assert catalogue.find("a") == CatalogueTool("a", "A")
