"""Durations and times as people write and read them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

from callosum.errors import ConfigError

_SPAN: Final = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([smhd]?)\s*", re.ASCII)
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str, at: str) -> float:
    """Return the seconds that ``90``, ``90s``, ``5m``, ``1h`` or ``2d`` mean.

    Raises ``ConfigError`` at ``at``.
    """
    parts = _SPAN.fullmatch(text)
    if parts is None:
        raise ConfigError(f'expected a duration such as "90s", "5m", "1h" or "2d", not {text!r:.60}', at=at)
    return float(parts[1]) * _UNITS[parts[2]]


def moment(text: str, at: str) -> int:
    """Return the time (microseconds since 1970) of an ISO time, or of a duration ago (``2h``).

    A time without a zone is local. Raises ``ConfigError`` at ``at``.
    """
    if _SPAN.fullmatch(text):
        return time.time_ns() // 1000 - int(seconds(text, at) * 1_000_000)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1_000_000)
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f'expected a time such as "2026-05-16T09:15" or "2h" (ago), not {text!r:.60}', at=at
        ) from None


def since(unix: float) -> str:
    """Return the time since Unix seconds in words: ``12 s``."""
    from callosum.policy.sentence import ago

    return ago(time.time() - unix)


def until(unix: float) -> str:
    """Return the time until Unix seconds in words: ``4 min``, or ``over`` for the past."""
    return since(2 * time.time() - unix) if unix > time.time() else "over"


def clock(unix: float) -> str:
    """Return the local time of day of Unix seconds, with the date unless it is today."""
    local = datetime.fromtimestamp(unix, UTC).astimezone()
    today = local.date() == datetime.now(UTC).astimezone().date()
    return local.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")
