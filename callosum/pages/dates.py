"""Local days and ISO weeks as moments (microseconds since 1970), and moments in readable form."""

from __future__ import annotations

import time
from datetime import date, timedelta
from typing import Final

from callosum.model import SECOND

ONE_DAY: Final = timedelta(days=1)


def day_of(moment: int) -> date:
    """Return the local day of a moment."""
    local = time.localtime(moment / SECOND)
    return date(local.tm_year, local.tm_mon, local.tm_mday)


def start_of(day: date) -> int:
    """Return the moment at which a local day begins. A day has 23 to 25 hours, depending on the clock change."""
    return int(time.mktime((day.year, day.month, day.day, 0, 0, 0, 0, 0, -1))) * SECOND


def clock(moment: int) -> str:
    """Return the local time of day: ``09:15``."""
    return time.strftime("%H:%M", time.localtime(moment / SECOND))


def monday_of(day: date) -> date:
    """Return the first day of the day's ISO week."""
    return day - timedelta(days=day.weekday())


def week_of(day: date) -> str:
    """Return the day's ISO week: ``2026-W20``. At the turn of the year its year can differ from the day's."""
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02}"
