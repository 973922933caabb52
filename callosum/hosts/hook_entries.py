"""Add, remove and check the entries of command hooks in a host's settings. Pure.

All hosts with command hooks use the same shape::

    {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "...", ...}]}]}}

Everything that is not ours stays as it is, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from callosum.errors import ConfigError

MARK: Final = "callosum-hook"
"""Text that marks our entries: the start of the script's file name, or a value in the query of a URL."""

Group = Mapping[str, Any]
"""A matcher together with its hooks."""


def installed(settings: Mapping[str, Any], wanted: Mapping[str, Group]) -> dict[str, Any]:
    """Return the settings with our entries, one group per event, in place of our previous entries.

    Raises: ``ConfigError`` that names the place in the settings with an unexpected shape.
    """
    changed = removed(settings)
    hooks = dict(changed.get("hooks", {}))
    for event, group in wanted.items():
        hooks[event] = [*hooks.get(event, ()), group]
    return {**changed, "hooks": hooks}


def removed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without our entries. Lists and the table of hooks that become empty are removed too."""
    changed = dict(settings)
    hooks = changed.get("hooks")
    if hooks is None:
        return changed
    kept: dict[str, Any] = {}
    for event, groups in _object(hooks, "hooks").items():
        # a host may keep its own settings beside the events
        foreign = not isinstance(groups, Sequence) or isinstance(groups, str)
        if foreign or all(_without_ours(group) is group for group in groups):
            kept[event] = groups
        elif remaining := [group for group in map(_without_ours, groups) if group is not None]:
            kept[event] = remaining
    if kept or not hooks:
        changed["hooks"] = kept
    else:
        del changed["hooks"]
    return changed


def missing(settings: Mapping[str, Any], wanted: Mapping[str, Group]) -> list[str]:
    """Return the events whose entry is missing or differs from the wanted one."""
    hooks = settings.get("hooks")
    current = hooks if isinstance(hooks, Mapping) else {}
    return [event for event, group in wanted.items() if group not in (current.get(event) or ())]


def ours(settings: Mapping[str, Any], event: str) -> list[Mapping[str, Any]]:
    """Return our hooks for an event."""
    hooks = settings.get("hooks")
    groups = hooks.get(event) if isinstance(hooks, Mapping) else None
    hooks_found = []
    for group in groups if isinstance(groups, list) else ():
        inner = group.get("hooks") if isinstance(group, Mapping) else None
        hooks_found += [hook for hook in inner if _is_ours(hook)] if isinstance(inner, list) else []
    return hooks_found


def _without_ours(group: Any) -> Any:
    """Return the group without our hooks: the same object if it has none, None if it has no others."""
    hooks = group.get("hooks") if isinstance(group, Mapping) else None
    if not isinstance(hooks, list) or not any(map(_is_ours, hooks)):
        return group
    remaining = [hook for hook in hooks if not _is_ours(hook)]
    return {**group, "hooks": remaining} if remaining else None


def _is_ours(hook: Any) -> bool:
    return isinstance(hook, Mapping) and any(MARK in str(hook.get(field, "")) for field in ("command", "url"))


def _object(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"expected an object, got {type(value).__name__}", at=at)
    return value
