"""Print tables, lines and JSON, safely whatever an agent has written.

Every cell is a ``Text``, never markup, and every text from elsewhere passes through ``clean``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from callosum.characters import escaped
from callosum.cli.text import clean
from callosum.cli.times import clock, since, until
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
TIERS: Final = ("dim", "", "", "yellow", "red")
_KEY: Final = "key"
"""The column whose cells people copy: they are never cut or broken."""
_GAP: Final = "  "
INDENT: Final = "    "
"""Indentation of a key on a line of its own."""
LIMIT: Final = 80
"""Longest text of a cell, in characters, unless its column says otherwise."""
_NONE: Final = "-"
_UNNAMED: Final = frozenset({"id", "short", "answer", "state", "time"})
"""Columns whose cells need no label."""
_NO_LIMIT: Final = 1_000_000


@cache
def console() -> Console:
    """Return the console of standard output."""
    return Console(highlight=False, emoji=False, markup=False)


def line(text: str = "", style: str = "") -> None:
    """Print one line of Callosum's own words; text from elsewhere in it must be clean."""
    console().print(Text(text, style=style), soft_wrap=True)


def cell(value: object, style: str = "", limit: int = LIMIT) -> Text:
    """Return any value as a table's cell; None is a dash."""
    if value is None or value == "":
        return Text(_NONE, style="dim")
    return Text(clean(str(value), limit), style=style)


def verdict(value: Verdict | None) -> Text:
    """Return a verdict in its colour."""
    return cell(value, VERDICTS[value]) if value is not None else cell(None)


def tier(value: int | None) -> Text:
    """Return a tier in its colour."""
    return cell(None) if value is None else Text(str(value), style=TIERS[value] if 0 <= value < len(TIERS) else "")


def key(name: str | None) -> Text:
    """Return a context key as a cell: complete, with hidden characters escaped."""
    return Text(escaped(name)) if name else cell(None)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, note: str = "") -> Table | Listing:
    """Return a table. A column whose name starts with ``>`` is right-aligned, one with ``<`` is not wrapped.

    A value that is no ``Text`` is shown as its column's name says (``_SHOWN``), or as ``cell`` does, cut at the number
    after the name: ``tool:40``. ``note`` follows the title, dimmed. Cells of a column named ``key`` can be copied at
    any width (``Listing``).
    """
    limits = [int(column.partition(":")[2] or 0) for column in columns]
    columns = [column.partition(":")[0] for column in columns]
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
        )
    cells = [[_shown(*one) for one in zip(row, columns, limits, strict=True)] for row in rows]
    for row in cells:
        made.add_row(*row)
    return Listing(made, heading, columns, cells) if _KEY in columns else made


_SHOWN: Final[Mapping[str, Callable[[Any], object]]] = {
    "tier": tier,
    **dict.fromkeys(("ago", "since"), since),
    **dict.fromkeys(("left", "until", "ends in", "old one ends in"), until),
    **dict.fromkeys(("time", "at", "made"), clock),
}
"""How a number is shown in a column of that name; those of times hold Unix seconds."""


def _shown(value: object, column: str, limit: int) -> Text:
    name = column.lstrip("<>")
    if name == _KEY and not limit and isinstance(value, str):
        return key(value)
    if isinstance(value, int | float) and name in _SHOWN:
        value = _SHOWN[name](value)
    if isinstance(value, Text):
        return value
    style = VERDICTS[value] if isinstance(value, Verdict) else STATES[value] if isinstance(value, State) else ""
    return cell(value, style, limit or LIMIT)


class Listing:
    """A table with a column of keys.

    If it is wider than the screen, each key gets a line of its own below its row. The key is one unbroken line, which a
    terminal wraps by itself, so that copying it yields the key.
    """

    def __init__(self, table: Table, title: Text, columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
        self._table, self._title, self._columns, self._rows = table, title, columns, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the table, or the rows with their keys below them if the table is too wide."""
        natural = Measurement.get(console, options.update(max_width=_NO_LIMIT), self._table).maximum
        if natural <= options.max_width:
            yield self._table
            return
        yield wrapped(self._title)
        at = self._columns.index(_KEY)
        others = [number for number in range(len(self._columns)) if number != at]
        names = [column.lstrip("<>") for column in self._columns]
        widths = {
            number: max(len(names[number]), *(row[number].cell_len for row in self._rows)) if self._rows else 0
            for number in others
        }
        aligned = 1 + sum(widths.values()) + len(_GAP) * (len(others) - 1) <= options.max_width
        if aligned:
            yield self._aligned([Text(name, style="dim") for name in names], others, widths)
        for row in self._rows:
            if aligned:
                yield self._aligned(row, others, widths)
            else:
                yield from _hanging(Text(_GAP).join(self._labelled(row, names, others)), console, options.max_width)
            yield Text(INDENT).append_text(row[at])
        yield Text()

    def _aligned(self, row: Sequence[Text], others: Sequence[int], widths: Mapping[int, int]) -> Text:
        line = Text(" ")
        for number in others:
            pad = " " * (widths[number] - row[number].cell_len)
            right = self._columns[number].startswith(">")
            line.append(pad if right else "").append_text(row[number]).append("" if right else pad).append(_GAP)
        line.rstrip()
        return line

    def _labelled(self, row: Sequence[Text], names: Sequence[str], others: Sequence[int]) -> Iterable[Text]:
        """Yield the cells. Short columns, whose values mean little alone, are labelled with the column's name."""
        for number in others:
            if not row[number].plain.strip() or row[number].plain == _NONE:
                continue
            if names[number] == "ago":
                yield row[number].copy().append(" ago", "dim")
            elif self._columns[number].startswith(("<", ">")) and names[number] not in _UNNAMED:
                yield Text(f"{names[number]} ", style="dim").append_text(Text(row[number].plain, row[number].style))
            else:
                yield row[number]


def _hanging(text: Text, console: Console, width: int) -> Iterable[Text]:
    """Return the lines of a row, all but the first indented, so that no line begins with an agent's text."""
    first, *more = text.wrap(console, width - len(INDENT), overflow="fold", no_wrap=False)
    yield first
    for line in more:
        yield Text(INDENT).append_text(line)


def wrapped(text: Text, indent: str = "") -> Padding:
    """Return the text so that it is wrapped between words even if other lines are left to the terminal."""
    text = text.copy()
    text.no_wrap, text.overflow = False, "fold"
    return Padding(text, (0, 0, 0, len(indent)), expand=False)


def put(*things: Any) -> None:
    """Print tables and texts."""
    for thing in things:
        console().print(thing, soft_wrap=isinstance(thing, Listing))


def result(value: Any, text: str, style: str = "", *, json: bool) -> None:
    """Print what a command did: the value as JSON for programs, the text for people."""
    if json:
        raw(msgspec.json.encode(value))
    else:
        line(text, style)


def json(value: Any) -> None:
    """Print one value as a line of JSON and flush it."""
    raw(msgspec.json.encode(value))


def raw(encoded: bytes) -> None:
    """Print one encoded line of JSON and flush it; control and invisible characters are escaped."""
    encoded = escaped(encoded.decode("utf-8", "surrogatepass")).encode()
    out = sys.stdout.buffer
    out.write(encoded + b"\n")
    out.flush()
