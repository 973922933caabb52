"""Lay out actions over time, a lane for each session, as rectangles that a template writes as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from markupsafe import Markup
from msgspec import Struct

from callosum.characters import escaped
from callosum.console.picture import Bar
from callosum.model import SECOND, State

WIDTH: Final = 1000
"""Width of the drawing, in units."""
ROW: Final = 24
HEAD: Final = 20
BARS: Final = 2000
"""Number of bars above which neighbours in a lane become one bar with a count."""
_LEAST: Final = 2.0
"""Minimum width of a bar, in units."""
_LANES: Final = 100
_TIES: Final = 300
_TICKS: Final = 8
_STEPS: Final = (1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 10800, 21600)


class Box(Struct):
    """A bar as it is drawn: of one action, or of ``count`` neighbours. ``state`` names how it is filled."""

    x: float
    width: float
    y: int
    tier: int
    state: str
    count: int
    first: Bar


class Tie(Struct, frozen=True):
    """A line between two actions that met."""

    x: float
    y1: int
    y2: int


class Tick(Struct, frozen=True):
    """A labelled moment on the axis."""

    x: float
    label: str


class LaneRow(Struct, frozen=True):
    """A session's lane."""

    session: str
    y: int
    count: int


class Lanes(Struct, frozen=True):
    """Everything that is drawn. ``hidden`` and ``untied`` are the numbers of sessions and lines that did not fit."""

    rows: tuple[LaneRow, ...]
    boxes: tuple[Box, ...]
    ties: tuple[Tie, ...]
    ticks: tuple[Tick, ...]
    bars: tuple[Bar, ...]
    count: int
    width: int
    height: int
    hidden: int
    untied: int


def draw(bars: Sequence[Bar], begin: int, end: int) -> Lanes:
    """Lay out the actions of a span; moments are in microseconds."""
    counts: dict[str, int] = {}
    for bar in bars:
        counts[bar.session] = counts.get(bar.session, 0) + 1
    names = sorted(counts, key=lambda name: -counts[name])[:_LANES]
    rows = {name: HEAD + ROW * at for at, name in enumerate(sorted(names))}
    scale = WIDTH / max(1, end - begin)
    cell = WIDTH * len(rows) / BARS if len(bars) > BARS else 0.0
    boxes: list[Box] = []
    cells: dict[tuple[str, int], Box] = {}
    places: dict[int, Box] = {}
    for bar in bars:
        y = rows.get(bar.session)
        if y is None:
            continue
        x = max(0.0, (bar.begin - begin) * scale)
        width = max(_LEAST, min(WIDTH, ((bar.end or end) - begin) * scale) - x)
        place = (bar.session, int(x / cell) if cell else len(boxes))
        box = cells.get(place)
        if box is None:
            box = cells[place] = Box(x, width, y, bar.tier, _word(bar), 1, bar)
            boxes.append(box)
        else:
            box.width = max(box.width, x + width - box.x)
            box.count += 1
            if (_gravity_of(_word(bar)), bar.tier) > (_gravity_of(box.state), box.tier):
                box.tier, box.state = bar.tier, _word(bar)
        places[bar.id] = box
    ties = [
        Tie(here.x, *sorted((here.y + ROW // 2 - 2, there.y + ROW // 2 - 2)))
        for bar in reversed(bars)
        if bar.met and (here := places.get(bar.id)) is not None
        for other in bar.met
        if (there := places.get(other)) is not None and there.y != here.y
    ]
    return Lanes(
        tuple(LaneRow(name, y, counts[name]) for name, y in rows.items()),
        tuple(boxes),
        tuple(ties[:_TIES]),
        tuple(_ticks(begin, end, scale)),
        tuple(bars[-200:]),
        len(bars),
        WIDTH,
        HEAD + ROW * len(rows) + 4,
        len(counts) - len(rows),
        max(0, len(ties) - _TIES),
    )


def boxes(drawn: Lanes, action: str, zoomed: Callable[[Box], str]) -> Markup:
    """Return the bars as SVG. One action links to ``action`` with its id in place of the 0, several to ``zoomed``.

    They are written here and not in a template, which takes ten times as long for two thousand of them.
    """
    found = []
    for box in drawn.boxes:
        bar = box.first
        if box.count == 1:
            said, to = (
                f"{bar.tool[:40]} {bar.key[:60]}, tier {box.tier}, {box.state}",
                action.replace("0", str(bar.id), 1),
            )
        else:
            said, to = f"{box.count} actions", zoomed(box)
        said = escape(escaped(said))
        found.append(
            f'<a tabindex="-1" aria-label="{said}" href="{escape(to)}"><rect class="t{box.tier} {box.state}" '
            f'x="{box.x:.1f}" y="{box.y + 2}" width="{box.width:.1f}" height="16" rx="2">'
            f"<title>{said}</title></rect></a>"
        )
    return Markup("".join(found))  # noqa: S704 - all text from elsewhere is escaped


def _word(bar: Bar) -> str:
    """Return how a bar is filled: by its verdict if the call did not run, otherwise by its state."""
    return str(bar.verdict) if not bar.verdict.proceed else str(bar.state)


def _gravity_of(state: str) -> int:
    return {State.UNKNOWN.value: 3, State.FAILED.value: 2, "block": 2, "ask": 2, "confirm": 1}.get(state, 0)


def _ticks(begin: int, end: int, scale: float) -> list[Tick]:
    span = (end - begin) / SECOND
    step = next((one for one in _STEPS if span / one <= _TICKS), 86_400)
    form = "%H:%M:%S" if step < 60 else "%H:%M"
    at = (begin // SECOND // step + 1) * step
    found = []
    while at * SECOND < end:
        local = datetime.fromtimestamp(at, UTC).astimezone()
        found.append(Tick((at * SECOND - begin) * scale, local.strftime(form)))
        at += step
    return found
