"""The curves as a picture: small charts side by side, an SVG written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Final
from xml.sax.saxutils import escape

from bench.scale.curves import Axis, Curve

WIDTH: Final = 1020
_CELL: Final = 340
_HIGH: Final = 318
_HEAD: Final = 44
_LEFT: Final = 54
_RIGHT: Final = 16
_TOP: Final = 34
_PLOT: Final = 158
COLOURS: Final = ("#0b62a4", "#c2571a", "#5b7f3a", "#7a4d9e", "#8a6d00")
_GREY: Final = "#e3e3e3"


class _Scale:
    """From values to places along one axis, straight or by logarithms."""

    def __init__(self, low: float, high: float, start: float, end: float, *, log: bool) -> None:
        self._log = log
        self._start, self._end = start, end
        if log:
            low, high = max(low, 1e-9), max(high, 1e-9)
            self._low, self._high = log10(low), log10(high)
        else:
            self._low, self._high = min(0.0, low), high
        if self._high <= self._low:
            self._high = self._low + 1

    def at(self, value: float) -> float:
        shown = log10(max(value, 1e-9)) if self._log else value
        part = (shown - self._low) / (self._high - self._low)
        return round(self._start + min(1.0, max(0.0, part)) * (self._end - self._start), 1)

    def ticks(self) -> list[float]:
        if self._log:
            decades = range(floor(self._low), ceil(self._high) + 1)
            steps = (1.0,) if self._high - self._low > 2.2 else (1.0, 2.0, 5.0)
            found = [step * 10.0**decade for decade in decades for step in steps]
            return [tick for tick in found if self._low - 1e-9 <= log10(tick) <= self._high + 1e-9]
        span = self._high - self._low
        step = 10.0 ** floor(log10(span))
        step = next(part * step for part in (0.2, 0.25, 0.5, 1.0) if span / (part * step) <= 5.0 + 1e-9)
        return [step * number for number in range(int(span / step + 1e-9) + 1)]


def draw(axes: Sequence[Axis], title: str) -> str:
    """Returns the picture: one chart an axis, three in a row, each with its own legend below."""
    rows = ceil(len(axes) / 3)
    height = _HEAD + rows * _HIGH
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
    parts = [
        head + 'font-family="system-ui, sans-serif" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(16, 26, title, size=15, weight="600"),
    ]
    names = list(dict.fromkeys(curve.name for axis in axes for curve in axis.curves if axis.name == "sessions"))
    for number, axis in enumerate(axes):
        parts += _chart(axis, _CELL * (number % 3), _HEAD + _HIGH * (number // 3), names)
    return "\n".join([*parts, "</svg>\n"])


def _colours(axis: Axis, names: Sequence[str]) -> list[str]:
    """Return the colours. A layout has the same colour in every chart; one in a single chart takes an unused one."""
    known = {curve.name: COLOURS[names.index(curve.name)] for curve in axis.curves if curve.name in names}
    left = iter([colour for colour in reversed(COLOURS) if colour not in known.values()])
    return [known.get(curve.name) or next(left) for curve in axis.curves]


def _chart(axis: Axis, left: float, top: float, names: Sequence[str]) -> list[str]:
    xs = [x for curve in axis.curves for x, _ in curve.points]
    ys = [axis.pick(outcome) for curve in axis.curves for _, outcome in curve.points]
    low = min(y for y in ys if y > 0 or not axis.log_y)
    x = _Scale(min(xs), max(xs), left + _LEFT, left + _CELL - _RIGHT, log=axis.log_x)
    bottom = top + _TOP + _PLOT
    y = _Scale(_below(low), _above(max(ys)), bottom, top + _TOP, log=axis.log_y) if axis.log_y else _Scale(
        0.0, _above(max(ys)), bottom, top + _TOP, log=False
    )  # fmt: skip
    parts = [_text(left + 16, top + 14, axis.title, size=13, weight="600"), _text(left + 16, top + 27, axis.up)]
    for tick in y.ticks():
        at = y.at(tick)
        parts += [
            _line(left + _LEFT, at, left + _CELL - _RIGHT, at, _GREY),
            _text(left + _LEFT - 6, at + 4, _short(tick), anchor="end"),
        ]
    marks = sorted(set(xs)) if len(set(xs)) <= 4 else x.ticks()
    for tick in marks:
        at = x.at(tick)
        parts += [_line(at, top + _TOP, at, bottom, _GREY), _text(at, bottom + 14, _short(tick), anchor="middle")]
    parts.append(_text(left + (_LEFT + _CELL - _RIGHT) / 2, bottom + 29, axis.along, anchor="middle"))
    for place, (curve, colour) in enumerate(zip(axis.curves, _colours(axis, names), strict=True)):
        parts += _curve(axis, curve, x, y, colour)
        at = bottom + 46 + 14 * place
        parts += [
            f'<rect x="{left + _LEFT}" y="{at - 8}" width="9" height="9" fill="{colour}"/>',
            _text(left + _LEFT + 14, at, curve.name),
        ]
    return parts


def _curve(axis: Axis, curve: Curve, x: _Scale, y: _Scale, colour: str) -> list[str]:
    places = [(x.at(at), y.at(axis.pick(outcome))) for at, outcome in curve.points]
    line = " ".join(f"{a},{b}" for a, b in places)
    parts = [f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8"/>']
    for (at, outcome), (a, b) in zip(curve.points, places, strict=True):
        words = f"{curve.name}, {axis.along} {_short(at)}: {axis.up} {_short(axis.pick(outcome))}"
        parts.append(f'<circle cx="{a}" cy="{b}" r="2.8" fill="{colour}"><title>{escape(words)}</title></circle>')
    return parts


def _below(value: float) -> float:
    """The next 1, 2 or 5 below."""
    decade = 10.0 ** floor(log10(max(value, 1e-9)))
    return max(step * decade for step in (1.0, 2.0, 5.0) if step * decade <= max(value, 1e-9) * (1 + 1e-9))


def _above(value: float) -> float:
    """The next 1, 2, 5 or 10 above."""
    decade = 10.0 ** floor(log10(max(value, 1e-9)))
    return min(step * decade for step in (1.0, 2.0, 5.0, 10.0) if step * decade >= value * (1 - 1e-9))


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    if value >= 1_000:
        return f"{value / 1_000:.3g}k"
    return f"{value:.3g}"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="1"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "400", size: int = 11) -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" font-size="{size}" '
        f'fill="#333333">{escape(words)}</text>'
    )
