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
    """What is counted, by what it has in common. Memory is bounded: the first ``most`` groups are told apart.

    ``left_out`` is how often something belonged to a further one.
    """

    def __init__(self, make: Callable[[], G], most: int) -> None:
        super().__init__()
        self._make, self._most = make, most
        self.left_out = 0

    def of(self, place: P) -> G | None:
        """Return the group of this place, a new one if there is none; None where there are too many already."""
        found = self.get(place)
        if found is None:
            if len(self) >= self._most:
                self.left_out += 1
                return None
            found = self[place] = self._make()
        return found


def is_call(entry: Entry) -> bool:
    """Whether the entry is the decision of a call."""
    return entry.event is Event.INTERCEPT and entry.verdict is not None


def call_of(entry: Entry) -> Call | None:
    """The call as the journal has it; None where it has not its params."""
    body = entry.body
    params = body.get("params", {})
    if not isinstance(params, Mapping) or ("params" not in body and shown_keys(entry)):
        return None  # what has keys had params
    known = body.get("known")
    known = known if isinstance(known, Mapping) else {}
    return Call(
        entry.session,
        entry.tool,
        params,
        namespace=entry.namespace,
        call_id=str(entry.seq),
        cwd=_said(body, "cwd", str),
        pause=body.get("pause") is True or entry.verdict is Verdict.CONFIRM,
        description=_said(known, "description", str),
        schema=_said(known, "schema", dict),
        annotations=_said(known, "annotations", dict),
        origin=_said(body, "origin", str),
        run=entry.run or None,
        worktree=_read(body.get("worktree"), Worktree),
        home=_said(body, "home", str),
        homes=_read(body.get("homes"), dict[str, str]),
        worktrees=_read(body.get("worktrees"), dict[str, Worktree | None]),
    )


def _read(said: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(said, kind | None)
    except msgspec.ValidationError:
        return None


def _said(body: Mapping[str, Any], name: str, kind: type) -> Any:
    value = body.get(name)
    return value if isinstance(value, kind) else None


def is_cut(value: Any, depth: int = 6) -> bool:
    """Whether the journal has left out something of a value."""
    if isinstance(value, str):
        return MARKER in value or (value.endswith((" characters)", " more)", " items)", " bytes>")) and "…" in value)
    if not depth:
        return False
    if isinstance(value, Mapping):
        return "…" in value or any(is_cut(one, depth - 1) for one in value.values())
    return isinstance(value, list) and any(is_cut(one, depth - 1) for one in value)


def example(entry: Entry) -> dict[str, Any]:
    """A recorded call as it is shown."""
    params = entry.body.get("params")
    return {
        "at": entry.seq / SECOND,
        "id": entry.seq,
        "session": entry.session,
        "params": summarise(params) if isinstance(params, Mapping) else None,
    }
