"""The entries of command hooks in a host's settings: put in, taken out, looked over. Pure.

Hosts with command hooks share one shape::

    {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "...", ...}]}]}}

What is not ours stays as it is, in its order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from callosum.errors import ConfigError

MARK: Final = "callosum-hook"
"""What tells our entries from others: how the name of the script begins, or what the query in a URL has."""

Group = Mapping[str, Any]
"""A matcher with its hooks."""


def installed(settings: Mapping[str, Any], wanted: Mapping[str, Group]) -> dict[str, Any]:
    """The settings with our entries, one group an event, in place of what was ours before.

    Raises ``ConfigError`` at the place in the settings that has another shape.
    """
    made = removed(settings)
    hooks = dict(made.get("hooks", {}))
    for event, group in wanted.items():
        hooks[event] = [*hooks.get(event, ()), group]
    return {**made, "hooks": hooks}


def removed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without our entries; a list, and the table of hooks, that they leave empty goes too."""
    made = dict(settings)
    hooks = made.get("hooks")
    if hooks is None:
        return made
    kept: dict[str, Any] = {}
    for event, groups in _object(hooks, "hooks").items():
        # a host may keep settings of its own beside the events
        if not isinstance(groups, Sequence) or isinstance(groups, str) or not _has_ours(groups):
            kept[event] = groups
            continue
        left = [group for group in map(_without_ours, groups) if group is not None]
        if left:
            kept[event] = left
    if kept or not hooks:
        made["hooks"] = kept
    else:
        del made["hooks"]
    return made


def missing(settings: Mapping[str, Any], wanted: Mapping[str, Group]) -> list[str]:
    """The events whose entry is not there, or is not as it is wanted."""
    hooks = settings.get("hooks")
    found = hooks if isinstance(hooks, Mapping) else {}
    return [event for event, group in wanted.items() if group not in (found.get(event) or ())]


def ours(settings: Mapping[str, Any], event: str) -> list[Mapping[str, Any]]:
    """Our hooks of an event."""
    hooks = settings.get("hooks")
    groups = hooks.get(event) if isinstance(hooks, Mapping) else None
    found = []
    for group in groups if isinstance(groups, list) else ():
        inner = group.get("hooks") if isinstance(group, Mapping) else None
        found += [hook for hook in inner if _is_ours(hook)] if isinstance(inner, list) else []
    return found


def _has_ours(groups: Sequence[Any]) -> bool:
    return any(_without_ours(group) is not group for group in groups)


def _without_ours(group: Any) -> Any:
    """The group without our hooks: itself if there are none in it, None if there are no others."""
    hooks = group.get("hooks") if isinstance(group, Mapping) else None
    if not isinstance(hooks, list) or not any(map(_is_ours, hooks)):
        return group
    left = [hook for hook in hooks if not _is_ours(hook)]
    return {**group, "hooks": left} if left else None


def _is_ours(hook: Any) -> bool:
    return isinstance(hook, Mapping) and any(MARK in str(hook.get(field, "")) for field in ("command", "url"))


def _object(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"expected an object, got {type(value).__name__}", at=at)
    return value
