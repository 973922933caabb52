"""Recall against false alarms as a picture: an SVG, written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final
from xml.sax.saxutils import escape

from bench.quality.figures import Share

WIDTH: Final = 720
HEIGHT: Final = 420
_LEFT: Final = 64
_RIGHT: Final = 24
_TOP: Final = 44
_BOTTOM: Final = 56
_TICKS: Final = (0, 0.5, 1, 2, 5, 10, 20, 50, 100)
_COLOURS: Final = ("#0b62a4", "#c2571a", "#5b7f3a", "#7a4d9e")


_OPEN: Final = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
    'font-family="system-ui, sans-serif" font-size="13">'
)


@dataclass(frozen=True)
class Point:
    """One judge on one kind of pairs: the share found, and the share of false alarms."""

    who: str
    what: str
    recall: Share
    alarms: Share


def draw(points: Sequence[Point], title: str) -> str:
    """Returns the picture. The axis of the false alarms is by square roots, so that small shares can be told apart.

    Each point has its 95 % intervals as whiskers; a filled mark is the first kind of pairs, a ring the second.
    """
    top = max([0.01, *(point.alarms.interval[1] for point in points)])
    top = next((tick / 100 for tick in _TICKS if tick / 100 >= top), 1.0)
    parts = [
        _OPEN,
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 24, title, weight="600"),
    ]
    parts += _axes(top)
    whos = list(dict.fromkeys(point.who for point in points))
    whats = list(dict.fromkeys(point.what for point in points))
    for point in points:
        colour = _COLOURS[whos.index(point.who) % len(_COLOURS)]
        parts += _mark(point, colour, top, filled=point.what == whats[0])
    parts += _legend(whos, whats)
    return "\n".join([*parts, "</svg>\n"])


def _x(share: float, top: float) -> float:
    return round(_LEFT + sqrt(max(0.0, share) / top) * (WIDTH - _LEFT - _RIGHT), 1)


def _y(share: float) -> float:
    return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)


def _axes(top: float) -> list[str]:
    parts = []
    for tick in (0, 20, 40, 60, 80, 100):
        y = _y(tick / 100)
        parts += [_line(_LEFT, y, WIDTH - _RIGHT, y, "#e3e3e3"), _text(_LEFT - 8, y + 4, f"{tick} %", anchor="end")]
    for share in (tick for tick in _TICKS if tick / 100 <= top):
        x = _x(share / 100, top)
        parts += [
            _line(x, _y(1), x, _y(0), "#e3e3e3"),
            _text(x, HEIGHT - _BOTTOM + 18, f"{share:g} %", anchor="middle"),
        ]
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    return [*parts, _text(middle, HEIGHT - 14, "false alarms (fewer is better: left)", anchor="middle")]


def _mark(point: Point, colour: str, top: float, *, filled: bool) -> list[str]:
    alarms, recall = point.alarms.value or 0.0, point.recall.value or 0.0
    x, y = _x(alarms, top), _y(recall)
    left, right = (_x(end, top) for end in point.alarms.interval)
    low, high = (_y(end) for end in point.recall.interval)
    fill = colour if filled else "#ffffff"
    words = f"{point.who}, {point.what}: found {100 * recall:.1f} %, false alarms {100 * alarms:.2f} %"
    label = f"<title>{escape(words)}</title>"
    return [
        _line(left, y, right, y, colour),
        _line(x, low, x, high, colour),
        f'<circle cx="{x}" cy="{y}" r="6" fill="{fill}" stroke="{colour}" stroke-width="2.5">{label}</circle>',
    ]


def _legend(whos: list[str], whats: list[str]) -> list[str]:
    parts = []
    x, y = WIDTH - _RIGHT - 250, _TOP + 120
    for number, who in enumerate(whos):
        colour = _COLOURS[number % len(_COLOURS)]
        parts += [
            f'<rect x="{x}" y="{y + 20 * number - 9}" width="10" height="10" fill="{colour}"/>',
            _text(x + 18, y + 20 * number, who),
        ]
    y += 20 * len(whos) + 6
    for number, what in enumerate(whats):
        fill = "#555555" if number == 0 else "#ffffff"
        parts += [
            f'<circle cx="{x + 5}" cy="{y + 20 * number - 4}" r="5" fill="{fill}" stroke="#555555" stroke-width="2"/>',
            _text(x + 18, y + 20 * number, what),
        ]
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="1.5"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "400") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" fill="#333333">{escape(words)}</text>'
