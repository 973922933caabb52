"""Targets with faults in them: a campaign must find each."""

from __future__ import annotations

import os

from fuzz.source import Source
from fuzz.targets import Target


def _raises(source: Source) -> None:
    if b"B" in source.rest()[:8]:
        raise KeyError("planted")


def _dies(source: Source) -> None:
    if source.number(3) == 3:
        os._exit(3)


def _hangs(source: Source) -> None:
    while source.number(3) == 3:
        source = type(source)(b"\3")  # type: ignore[call-arg]


def _holds(source: Source) -> None:
    source.rest()


TARGETS = (
    Target("planted-raises", "raises", _raises),
    Target("planted-dies", "ends its process", _dies),
    Target("planted-hangs", "goes on for ever", _hangs),
    Target("planted-holds", "holds", _holds),
)
