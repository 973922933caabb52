"""How things look: tables, lines and JSON, calm and safe whatever an agent has written.

Every cell is a ``Text``, never markup, and every text from elsewhere went through ``clean``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from callosum.characters import escaped
from callosum.cli.text import clean
from callosum.model import State, Verdict

VERDICTS: Final = {
    Verdict.ALLOW: "green",
    Verdict.WARN: "yellow",
    Verdict.CONFIRM: "yellow",
    Verdict.ASK: "magenta",
    Verdict.BLOCK: "red",
}
STATES: Final = {
    State.QUEUED: "cyan",
    State.ASKED: "magenta",
    State.OPEN: "cyan",
    State.DONE: "green",
    State.FAILED: "red",
    State.CANCELLED: "dim",
    State.UNKNOWN: "yellow",
}
_KEY_WIDTH: Final = 24
"""Narrower than this a column of keys cannot be read, in characters."""
TIERS: Final = ("dim", "", "", "yellow", "red")


@cache
def console() -> Console:
    """The console of standard output."""
    return Console(highlight=False, emoji=False, markup=False)


def line(text: str = "", style: str = "") -> None:
    """Prints one line of our own words; text from elsewhere in it must be clean."""
    console().print(Text(text, style=style), soft_wrap=True)


def cell(value: object, style: str = "", limit: int = 80) -> Text:
    """A table's cell out of anything; None shows as a dash."""
    if value is None or value == "":
        return Text("-", style="dim")
    return Text(clean(str(value), limit), style=style)


def verdict(value: Verdict | None) -> Text:
    """A verdict in its colour."""
    return cell(value, VERDICTS[value]) if value is not None else cell(None)


def state(value: State) -> Text:
    """An action's state in its colour."""
    return cell(value, STATES[value])


def tier(value: int | None) -> Text:
    """A tier in its colour."""
    return cell(None) if value is None else Text(str(value), style=TIERS[value] if 0 <= value < len(TIERS) else "")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Text]], *, note: str = "") -> Table:
    """A table; a column whose name starts with ``>`` stands to the right, with ``<`` it is not wrapped.

    ``note`` stands dim after the title.
    """
    heading = Text.assemble((title, "bold"), (f"  {note}" if note else "", "dim"))
    made = Table(
        title=heading,
        title_justify="left",
        title_style="",
        box=SIMPLE_HEAD,
        header_style="dim",
        pad_edge=False,
        collapse_padding=True,
    )
    for column in columns:
        made.add_column(
            Text(column.lstrip("<>")),
            justify="right" if column.startswith(">") else "left",
            no_wrap=column.startswith(("<", ">")),
            overflow="fold",
            min_width=_KEY_WIDTH if column == "key" else None,
        )
    for row in rows:
        made.add_row(*row)
    return made


def put(*things: Any) -> None:
    """Prints tables and texts."""
    for thing in things:
        console().print(thing)


def json(value: Any) -> None:
    """Prints one value as a line of JSON and flushes it."""
    raw(msgspec.json.encode(value))


def raw(encoded: bytes) -> None:
    """Print one encoded line of JSON and flush it; what a terminal obeys or nobody sees is escaped."""
    encoded = escaped(encoded.decode("utf-8", "surrogatepass")).encode()
    out = sys.stdout.buffer
    out.write(encoded + b"\n")
    out.flush()
