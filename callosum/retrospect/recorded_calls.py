"""Calls as the journal has them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from callosum.journal import shown_keys
from callosum.model import SECOND, Call, Entry, Event, Verdict, Worktree
from callosum.redact import MARKER, summarise

P = TypeVar("P", bound=Hashable)
G = TypeVar("G")


class CallGroups(dict[P, G], Generic[P, G]):
    """Counts by group. Memory is bounded: only the first ``most`` groups are counted separately.

    ``left_out`` counts what belonged to further groups.
    """

    def __init__(self, make: Callable[[], G], most: int) -> None:
        super().__init__()
        self._make, self._most = make, most
        self.left_out = 0

    def of(self, key: P) -> G | None:
        """Return the group of this key, a new one if there is none; None if there are too many already."""
        group = self.get(key)
        if group is None:
            if len(self) >= self._most:
                self.left_out += 1
                return None
            group = self[key] = self._make()
        return group


def is_call(entry: Entry) -> bool:
    """Return True if the entry is the decision of a call."""
    return entry.event is Event.INTERCEPT and entry.verdict is not None


def call_of(entry: Entry) -> Call | None:
    """Return the call as the journal has it; None if the journal lacks its params."""
    body = entry.body
    params = body.get("params", {})
    if not isinstance(params, Mapping) or ("params" not in body and shown_keys(entry)):
        return None  # a call with keys had params
    described = body.get("known")
    described = described if isinstance(described, Mapping) else {}
    return Call(
        entry.session,
        entry.tool,
        params,
        namespace=entry.namespace,
        call_id=str(entry.seq),
        cwd=_said(body, "cwd", str),
        pause=body.get("pause") is True or entry.verdict is Verdict.CONFIRM,
        description=_said(described, "description", str),
        schema=_said(described, "schema", dict),
        annotations=_said(described, "annotations", dict),
        origin=_said(body, "origin", str),
        run=entry.run or None,
        worktree=_read(body.get("worktree"), Worktree),
        home=_said(body, "home", str),
        homes=_read(body.get("homes"), dict[str, str]),
        worktrees=_read(body.get("worktrees"), dict[str, Worktree | None]),
    )


def _read(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind | None)
    except msgspec.ValidationError:
        return None


def _said(body: Mapping[str, Any], name: str, kind: type) -> Any:
    value = body.get(name)
    return value if isinstance(value, kind) else None


def is_cut(value: Any, depth: int = 6) -> bool:
    """Return True if the journal has left out part of a value."""
    if isinstance(value, str):
        return MARKER in value or (value.endswith((" characters)", " more)", " items)", " bytes>")) and "…" in value)
    if not depth:
        return False
    if isinstance(value, Mapping):
        return "…" in value or any(is_cut(inner, depth - 1) for inner in value.values())
    return isinstance(value, list) and any(is_cut(inner, depth - 1) for inner in value)


def example(entry: Entry) -> dict[str, Any]:
    """Return a recorded call in the form that is shown."""
    params = entry.body.get("params")
    return {
        "at": entry.seq / SECOND,
        "id": entry.seq,
        "session": entry.session,
        "params": summarise(params) if isinstance(params, Mapping) else None,
    }
