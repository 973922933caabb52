"""Put the gate into the classes of a framework, and take it out again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from inspect import iscoroutinefunction, isfunction
from typing import Any, Final

_UNTOUCHED: Final[dict[tuple[Any, str], Any]] = {}
"""The framework's own functions and classes. They stay known however often a gate takes their place."""


def untouched(owner: Any, name: str) -> Any:
    """Return the framework's own attribute, whatever is in its place."""
    return _UNTOUCHED.setdefault((owner, name), getattr(owner, name))


def put(seams: Mapping[tuple[Any, str], Any]) -> Callable[[], None]:
    """Replace attributes of classes and modules. Return a function that restores the framework's own.

    It restores nothing if a later ``put`` has replaced one of them.
    """
    own = {seam: untouched(*seam) for seam in seams}
    for (owner, name), ours in seams.items():
        setattr(owner, name, functools.wraps(own[owner, name])(ours) if isfunction(ours) else ours)

    def uninstall() -> None:
        if all(getattr(owner, name) is ours for (owner, name), ours in seams.items()):
            for (owner, name), theirs in own.items():
                setattr(owner, name, theirs)

    return uninstall


def add_to_new(
    kind: Any, param: str, ours: Any, is_gated: Callable[[Any], bool], *, first: bool = False
) -> Callable[[], None]:
    """Add ``ours`` to the list that objects of a class made from now on take as ``param``; return as ``put`` does.

    An object whose list has a member that ``is_gated`` keeps its list.
    """
    init = untouched(kind, "__init__")

    def __init__(self: Any, *args: Any, **given: Any) -> None:  # noqa: N807
        found = given.pop(param, None)
        own = list(found) if isinstance(found, Sequence) else [found] if found else []
        if not any(map(is_gated, own)):
            own.insert(0 if first else len(own), ours)
        init(self, *args, **given, **{param: own})

    return put({(kind, "__init__"): __init__})


def noting(run: Callable[..., Any], noted: Callable[[], AbstractContextManager[Any]]) -> Callable[..., Any]:
    """Return the function that runs a tool, wrapped to run within ``noted()``, which records what the tool raises."""
    if iscoroutinefunction(run):

        @functools.wraps(run)
        async def awaited(*args: Any, **given: Any) -> Any:
            with noted():
                return await run(*args, **given)

        return awaited

    @functools.wraps(run)
    def called(*args: Any, **given: Any) -> Any:
        with noted():
            return run(*args, **given)

    return called
