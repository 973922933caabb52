"""Calendar slots: appointments that overlap share a key, one for each quarter of an hour.

``slot:primary/2026-05-19/16:00`` lies in the tree of its day and in that of its calendar, so that
who looks at a day (``slot:primary/2026-05-19/``) has looked at all that is in it. What else is
booked for a time (a room) has slots of its own: ``slot:room-7/2026-05-19/16:00``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from callosum.rules import keys
from callosum.rules import lexicon as lex
from callosum.rules.lexicon import maps
from callosum.rules.name import words

_START, _END, _DAY, _LENGTH, _CALENDAR = "start", "end", "day", "length", "calendar"
_QUARTER: Final = timedelta(minutes=15)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")
MAX_SLOTS: Final = 32
"""Eight hours: what takes longer is no appointment and gets the tree of its day, appended to."""
MAX_DAYS: Final = 7
"""A look at more days is one at the calendar."""
_MOST: Final = 64
_LAST: Final = 9999  # the last year there is: nothing can be added to its end


@lru_cache(maxsize=1024)
def _meaning(name: str) -> str:
    found = words(name)
    if len(found) > 1 and found[0] in lex.APPOINTMENT_WORDS:
        found = found[1:]
    return maps.TIME_PARAMS.get("_".join(found), "")


def is_time(name: str) -> bool:
    """Return True if a param says when, or in which calendar."""
    return isinstance(name, str) and len(name) <= 64 and _meaning(name) != ""


def _told(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the times among the params by what they mean, the first of each."""
    found: dict[str, Any] = {}
    for name, value in islice(params.items(), _MOST):
        if value is not None and isinstance(name, str) and len(name) <= 64 and (means := _meaning(name)):
            found.setdefault(means, value)
    return found


def derive(params: Mapping[str, Any], whose: str = "") -> list[str]:
    """Return the slot keys of an appointment, none where its time is not given in full.

    ``whose`` is what is booked, without it the calendar. Times with an offset are told in UTC,
    others as they stand. Without an end it takes the ``duration`` in minutes, or half an hour.
    """
    told = _told(params)
    start = _moment(told.get(_START))
    if start is None or start.year >= _LAST:
        return []
    end = _moment(told.get(_END))
    if end is None:
        minutes = told.get(_LENGTH, 30)
        if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not 0 < minutes <= 480:
            minutes = 30
        end = start + timedelta(minutes=minutes)
    if (start.tzinfo is None) != (end.tzinfo is None) or not timedelta(0) < end - start <= _QUARTER * MAX_SLOTS:
        return []
    where = whose or _calendar(told)
    at = start.replace(minute=start.minute // 15 * 15, second=0, microsecond=0)
    found: list[str] = []
    while at < end and len(found) <= MAX_SLOTS:
        found.append(keys.fit(f"slot:{where}/{at:%Y-%m-%d/%H:%M}"))
        at += _QUARTER
    return found


def days(params: Mapping[str, Any]) -> list[str]:
    """Return the trees of the days that a look at a calendar is about, none where it names no day.

    More than ``MAX_DAYS`` days are the whole calendar.
    """
    told = _told(params)
    first = _day(told.get(_DAY)) or _day(told.get(_START))
    if first is None:
        return []
    last = _day(told.get(_END)) or first
    root = f"slot:{_calendar(told)}/"
    count = (last - first).days + 1
    if not 0 < count <= MAX_DAYS:
        return [keys.fit(root)]
    return [keys.fit(f"{root}{first + timedelta(days=day):%Y-%m-%d}/") for day in range(count)]


def _calendar(told: Mapping[str, Any]) -> str:
    return keys.clean(keys.text(told.get(_CALENDAR)) or "primary").replace("/", "%2F") or "primary"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("dateTime") or value.get("date_time") or value.get("date")
    return value.strip() if isinstance(value, str) and 10 <= len(value) <= 40 else ""


def _moment(value: Any) -> datetime | None:
    said = _text(value)
    if len(said) >= 15 and ":" in said:
        try:
            moment = datetime.fromisoformat(said)
            return moment.astimezone(UTC) if moment.tzinfo is not None else moment
        except (ValueError, OverflowError):
            return None
    return None


def _day(value: Any) -> date | None:
    match = _DATE.match(_text(value))
    if match is None:
        return None
    try:
        found = date.fromisoformat(match.group())
    except ValueError:
        return None
    return found if found.year < _LAST else None


def end_of(said: Mapping[str, Any]) -> datetime | None:
    """Return when what is told of here ends: by its end, else by its start and duration, else by its day.

    Without an offset where the text has none. None where no date is told.
    """
    told: dict[str, Any] = {}
    for name, value in islice(said.items(), _MOST):
        if isinstance(name, str) and len(name) <= 64 and isinstance(value, (str, Mapping)):
            means = _meaning(name) or maps.DATE_PARAMS.get("_".join(words(name)), "")
            if means and (_moment(value) is not None or _day(value) is not None):
                told.setdefault(means, value)
    for means in (_END, _START, _DAY):
        value = told.get(means)
        if value is None:
            continue
        moment = _moment(value)
        if moment is None:
            day = _day(value)
            return datetime.combine(day, time.max) if day is not None else None
        if means == _END or moment.year >= _LAST:
            return moment
        minutes = next((item for name, item in said.items() if isinstance(name, str) and _meaning(name) == _LENGTH), 30)
        plain = isinstance(minutes, (int, float)) and not isinstance(minutes, bool) and 0 < minutes <= 10_000
        return moment + timedelta(minutes=minutes if plain else 30)
    return None
