"""When each hook event of each host was last heard, kept in the state folder for whoever looks the hosts over.

``heard.json``: ``{"hooks": {HOST: {"PreToolUse": 1795337658.3}}, "instances": {"mira": 1795337700.0}}``, in Unix
seconds. ``instances`` are those that tell by themselves that they live (``health.ok``).
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

logger = logging.getLogger("callosum")

FILE: Final = "heard.json"
PROBE: Final = "callosum-doctor"
"""The session of a call that ``doctor`` makes up: it is none of the host's."""
_EVERY: Final = 5.0
_MOST: Final = 200
_LONGEST_NAME: Final = 100

Times = dict[str, float]


class LastSeen:
    """What a server heard, on top of what the file says already. For one thread; ``save`` may run in another."""

    def __init__(self, state: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = state / FILE
        self._clock = clock
        self._hooks, self._instances = load(state)
        self._changed = False
        self._saved = 0.0

    def hook(self, host: str, event: object, session: object) -> None:
        """A hook event of a host came."""
        if session != PROBE and isinstance(event, str) and len(event) <= _LONGEST_NAME:
            self._note(self._hooks.setdefault(host, {}), event)

    def alive(self, instance: str) -> None:
        """An instance says that it lives, or one of its processes (``instance/process``)."""
        self._note(self._instances, instance.partition("/")[0])

    def _note(self, times: Times, name: str) -> None:
        times[name] = round(self._clock(), 1)
        self._changed = True
        if len(times) > _MOST:
            del times[min(times, key=lambda name: times[name])]

    def save(self, *, now: bool = False) -> None:
        """Writes the file if there is something new, every few seconds at most. A fault is logged."""
        if not self._changed or (not now and self._clock() - self._saved < _EVERY):
            return
        self._changed, self._saved = False, self._clock()
        hooks, instances = load(self._path.parent)  # another server of this folder may have written
        for host, times in self._hooks.copy().items():
            hooks[host] = _latest(hooks.get(host, {}), times)
        told = {"hooks": hooks, "instances": _latest(instances, self._instances)}
        try:
            files.write(self._path, json.dumps(told).encode() + b"\n", 0o600)
        except ConfigError as error:
            logger.warning("%s", error)


def load(state: Path) -> tuple[dict[str, Times], Times]:
    """What was heard of hosts by event, and of instances; empty where the file is not there or is none."""
    try:
        found = json.loads((state / FILE).read_bytes())
        hooks, instances = found["hooks"], found["instances"]
        return {str(host): _times(times) for host, times in hooks.items()}, _times(instances)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}, {}


def _latest(one: Times, other: Times) -> Times:
    both = dict(other)
    return {**one, **{name: max(at, one.get(name, at)) for name, at in both.items()}}


def _times(found: Any) -> Times:
    return {str(name): float(at) for name, at in found.items()}
