"""Inputs: all kinds of JSON, Python objects that an embedding host may pass, and calls made of both."""

from __future__ import annotations

import json
from collections import UserDict
from typing import Any, Final

from callosum.model import Call
from fuzz.source import Source

WORDS: Final = (
    "", "unknown", "/a/../b/", "a@x.org", "A@X.ORG", "callosum off", "rm -rf *", "To: a@b.c", "*** Update File: x\n",
    "select 1", "{params.x}", "\x00\n|", "~", "C:\\x", "7", "2026-05-19", "2026-05-19T10:00+02:00", "9999-12-31T23:59",
    "https://X.org/a", "acme/site", "mutation { deleteX }", '{"id": 5}', "draft", "GET", "delete", "yes", "no", "null",
    "../..", "file:///etc/passwd", "order:1", "drop table x", "\uff41\uff20\uff58.org", "\u0430ndy@x.org", "\u202eb", "😀",
)  # fmt: skip
NAMES: Final = (
    "action path file_path command cmd args target replyTo message content to cc id order_id owner repo url sql query "
    "start end _tier _contextKey input files status amount date day calendar_id duration params arguments tool_name "
    "database port limit name username attendees thread_id iban outputDir cwd workdir text body subject method operation "
    "data payload variables channel recipients response approve value from schema key ids cursor"
).split()
TOOLS: Final = (
    "message exec Bash write read apply_patch cron gateway send_email delete_order create_event run_sql pay move_file "
    "mcp__a__get_x sessions_send list_events reserve_room search_orders list_issues execute_tool graphql run_migrations "
    "start_server get_unread_emails add_user_to_channel update_profile schedule_payment verify_domain list_files handle "
    "terminal http_request read_and_delete gallon_to_liter take_screenshot MultiEdit WebFetch Task process accept decline"
).split()
HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title")
DESCRIPTIONS: Final = (
    "Gets a thing.", "Deletes it. This cannot be undone.", "Read-only. Never writes.", "Sends an email to the customer.",
    "Use this tool to", "Marks as read as well.", "a," * 40,
)  # fmt: skip
_NUMBERS: Final = (0, 1, -1, 7, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400, 10**5000)
_FLOATS: Final = (0.0, -0.0, 1.0, 0.1, 1e308, 1e-320, 2.0**53, float("inf"), float("-inf"), float("nan"))


def scalar(source: Source) -> Any:
    """Make one JSON value that contains no others."""
    match source.number(7):
        case 0:
            return source.pick(WORDS)
        case 1:
            return source.text()
        case 2:
            return source.pick(_NUMBERS)
        case 3:
            return source.number(2**32)
        case 4:
            return source.pick(_FLOATS)
        case 5:
            return source.maybe()
        case 6:
            return None
        case _:
            return source.text(400)


def name(source: Source) -> str:
    """Make the name of a param."""
    return source.text(20) if source.maybe(4) else source.pick(NAMES)


def value(source: Source, depth: int = 3) -> Any:
    """Make a JSON value with a few levels, or with very many."""
    kind = source.number(9) if depth else 0
    if kind < 6:
        return scalar(source)
    if kind == 6:
        return [value(source, depth - 1) for _ in source.times(5)]
    if kind == 7:
        return {name(source): value(source, depth - 1) for _ in source.times(5)}
    if kind == 8:
        return [scalar(source)] * source.number(300)
    made = scalar(source)
    lists = source.maybe()
    for _ in source.times(2000):
        made = [made] if lists else {"a": made}
    return made


class _Rude:
    """An object that cannot be written as text."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class _Text(str):
    """A text of its own class."""

    __slots__ = ()


def strange(source: Source) -> Any:
    """Make a value that JSON cannot hold, as an embedding host may pass it."""
    loop: list[Any] = [1]
    loop.append(loop)
    ring: dict[str, Any] = {"id": 1}
    ring["params"] = ring
    return source.pick(
        (
            loop,
            ring,
            b"bytes",
            bytearray(b"\xff"),
            (1, "a"),
            {1, 2},
            frozenset(("a",)),
            _Rude(),
            _Text("a@x.org"),
            UserDict({"id": "W1"}),
            1j,
            range(9),
            {1: 2, None: 3},
            {("a",): _Rude()},
            memoryview(b"x"),
            object,
        )
    )


def params(source: Source, *, python: bool = False) -> dict[str, Any]:
    """Make the params of a call; ``python`` adds values that JSON cannot hold."""
    made = {name(source): value(source) for _ in source.times(6)}
    if python and source.maybe(3):
        made[name(source)] = strange(source)
    return made


def tool(source: Source) -> str:
    """Make the name of a tool that the gate accepts: 1 to 256 characters."""
    return (source.text(60) if source.maybe(4) else source.pick(TOOLS)) or "x"


def call(source: Source, *, python: bool = False) -> Call:
    """Make a call with any of the facts that a host can supply."""
    return Call(
        "a",
        tool(source),
        params(source, python=python),
        action=scalar_text(source) if source.maybe(4) else None,
        cwd=scalar_text(source) if source.maybe() else None,
        description=_description(source) if source.maybe() else None,
        schema={"properties": {name(source): value(source, 2) for _ in source.times(4)}} if source.maybe(3)
        else ({source.text(8): value(source, 2)} if source.maybe(4) else None),
        annotations=hints(source) if source.maybe(3) else None,
        origin=source.text(10) if source.maybe(6) else None,
    )  # fmt: skip


def scalar_text(source: Source) -> str:
    """Make a text, often a meaningful one."""
    return source.text(60) if source.maybe(3) else source.pick(WORDS)


def _description(source: Source) -> str:
    return source.text(200) if source.maybe(3) else " ".join(source.pick(DESCRIPTIONS) for _ in range(2))


def hints(source: Source) -> dict[str, Any]:
    """Make the hints that the author of a tool gives."""
    return {
        source.pick(HINTS): value(source, 1) if source.maybe(4) else source.pick((True, False, None, "true", 1))
        for _ in source.times(5)
    }


def document(text: str) -> Any:
    """Parse any JSON, None if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
