"""Local days and ISO weeks as moments (microseconds since 1970), and moments as people read them."""

from __future__ import annotations

import time
from datetime import date, timedelta
from typing import Final

from callosum.model import SECOND

ONE_DAY: Final = timedelta(days=1)


def day_of(moment: int) -> date:
    """The local day of a moment."""
    local = time.localtime(moment / SECOND)
    return date(local.tm_year, local.tm_mon, local.tm_mday)


def start_of(day: date) -> int:
    """The moment at which a day begins here; a day is as long as the clocks make it (23 to 25 hours)."""
    return int(time.mktime((day.year, day.month, day.day, 0, 0, 0, 0, 0, -1))) * SECOND


def clock(moment: int) -> str:
    """The local time of day: ``09:15``."""
    return time.strftime("%H:%M", time.localtime(moment / SECOND))


def monday_of(day: date) -> date:
    """The first day of its ISO week."""
    return day - timedelta(days=day.weekday())


def week_of(day: date) -> str:
    """Its ISO week: ``2026-W20``. The year is the week's, which at its turn can be another than the day's."""
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02}"
