"""Record in the state folder when each hook event of each host last arrived.

The file ``heard.json`` holds ``{"hooks": {HOST: {"PreToolUse": 1795337658.3}}, "instances": {"mira": 1795337700.0}}``
in Unix seconds. ``instances`` are the instances that report their own health (``health.ok``). ``doctor`` and the
console read it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from callosum.errors import ConfigError
from callosum.hosts import files
from callosum.journal import PROBE

logger = logging.getLogger("callosum")

FILE: Final = "heard.json"
_EVERY: Final = 5.0
_MOST: Final = 200
_LONGEST_NAME: Final = 100

Times = dict[str, float]


class LastSeen:
    """Collect the times at which events arrived, starting from the times in the file.

    Use it from one thread; ``save`` may run in another.
    """

    def __init__(self, state: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = state / FILE
        self._clock = clock
        self._hooks, self._instances = load(state)
        self._changed = False
        self._saved = 0.0

    def hook(self, host: str, event: object, session: object) -> None:
        """Record the arrival of a hook event."""
        if session != PROBE and isinstance(event, str) and len(event) <= _LONGEST_NAME:
            self._note(self._hooks.setdefault(host, {}), event)

    def alive(self, instance: str) -> None:
        """Record that an instance, or one of its processes (``instance/process``), reported its health."""
        self._note(self._instances, instance.partition("/")[0])

    def _note(self, times: Times, name: str) -> None:
        times[name] = round(self._clock(), 1)
        self._changed = True
        if len(times) > _MOST:
            del times[min(times, key=lambda name: times[name])]

    def save(self, *, now: bool = False) -> None:
        """Write the file if a time changed, at most every 5 seconds unless ``now`` is set. Log a failure."""
        if not self._changed or (not now and self._clock() - self._saved < _EVERY):
            return
        self._changed, self._saved = False, self._clock()
        hooks, instances = load(self._path.parent)  # another server may have written to the same folder
        for host, times in self._hooks.copy().items():
            hooks[host] = _latest(hooks.get(host, {}), times)
        record = {"hooks": hooks, "instances": _latest(instances, self._instances)}
        try:
            files.write(self._path, json.dumps(record).encode() + b"\n", 0o600)
        except ConfigError as error:
            logger.warning("%s", error)


def load(state: Path) -> tuple[dict[str, Times], Times]:
    """Return the times by host and event, and by instance. Both are empty if the file is missing or malformed."""
    try:
        record = json.loads((state / FILE).read_bytes())
        hooks, instances = record["hooks"], record["instances"]
        return {str(host): _times(times) for host, times in hooks.items()}, _times(instances)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}, {}


def _latest(first: Times, second: Times) -> Times:
    newest = dict(second)
    return {**first, **{name: max(at, first.get(name, at)) for name, at in newest.items()}}


def _times(times: Any) -> Times:
    return {str(name): float(at) for name, at in times.items()}
