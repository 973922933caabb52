"""Calendar slots: appointments that overlap share a key, one for each quarter of an hour."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from callosum.rules import keys

_START: Final = (
    "start",
    "start_time",
    "startTime",
    "start_at",
    "startAt",
    "start_datetime",
    "startDateTime",
    "begin",
    "from",
    "date",
    "time",
)
_END: Final = ("end", "end_time", "endTime", "end_at", "endAt", "end_datetime", "endDateTime", "until")
_CALENDAR: Final = ("calendar_id", "calendarId", "calendar")
_QUARTER: Final = timedelta(minutes=15)
MAX_SLOTS: Final = 32
"""Eight hours: what takes longer is no appointment and gets no slots."""


def derive(params: Mapping[str, Any]) -> list[str]:
    """Returns the slot keys of an appointment, none where its time is not given in full.

    Times with an offset are told in UTC, others as they stand. Without an end it takes the
    ``duration`` in minutes, or half an hour.
    """
    start = _moment(params, _START)
    if start is None:
        return []
    end = _moment(params, _END)
    if end is None:
        minutes = next(
            (params[name] for name in ("duration", "duration_minutes", "durationMinutes") if name in params),
            30,
        )
        if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not 0 < minutes <= 480:
            minutes = 30
        end = start + timedelta(minutes=minutes)
    if (start.tzinfo is None) != (end.tzinfo is None) or not timedelta(0) < end - start <= _QUARTER * MAX_SLOTS:
        return []
    calendar = next((one for name in _CALENDAR if (one := keys.text(params.get(name)))), "primary")
    at = start.replace(minute=start.minute // 15 * 15, second=0, microsecond=0)
    found: list[str] = []
    while at < end and len(found) <= MAX_SLOTS:
        found.append(keys.fit(f"slot:{keys.clean(calendar)}:{at:%Y-%m-%dT%H:%M}"))
        at += _QUARTER
    return found


def _moment(params: Mapping[str, Any], names: tuple[str, ...]) -> datetime | None:
    for name in names:
        value = params.get(name)
        if isinstance(value, Mapping):
            value = value.get("dateTime")
        if isinstance(value, str) and 15 <= len(value) <= 40 and ":" in value:
            try:
                moment = datetime.fromisoformat(value.strip())
                return moment.astimezone(UTC) if moment.tzinfo is not None else moment
            except (ValueError, OverflowError):
                continue
    return None
