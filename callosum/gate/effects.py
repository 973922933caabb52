"""What an operation asks for while it runs. ``callosum.gate.operations`` says how each is answered."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from callosum.deadline import Expiry
from callosum.model import Scope
from callosum.stores.base import Request


class Sleep(NamedTuple):
    """Wait for ``seconds``."""

    seconds: float


class Read(NamedTuple):
    """Read something, from the store or from a host's transcript."""

    read: Callable[[], Any]


class TakenIn(NamedTuple):
    """Enter the spool's records about the keys and the content of a scope, that of a call of ``tool``.

    The answer is whether they are in before ``expiry`` comes near.
    """

    scope: Scope
    tool: str
    expiry: Expiry | None


T = TypeVar("T")
Effects = Generator[Request | Sleep | Read | TakenIn | list[Request], Any, T]
