"""Targets with planted faults: a campaign must find each."""

from __future__ import annotations

import os
from pathlib import Path

from fuzz.source import Source
from fuzz.target import Target


def _raises(source: Source) -> None:
    if b"B" in source.rest()[:8]:
        raise KeyError("planted")


def _dies(source: Source) -> None:
    if source.number(3) == 3:
        os._exit(3)


def _hangs(source: Source) -> None:
    while source.number(3) == 3:
        source = Source(b"\3")


def _holds(source: Source) -> None:
    source.rest()


def _tells(source: Source) -> None:
    with Path(os.environ["TOLD"]).open("a") as told:
        told.write(source.rest().hex() + "\n")


TARGETS = (
    Target("planted-raises", "raises", _raises),
    Target("planted-dies", "ends its process", _dies),
    Target("planted-hangs", "goes on for ever", _hangs),
    Target("planted-holds", "holds", _holds),
    Target("planted-tells", "tells its inputs", _tells, words=("rm -rf /", "\u00e9"), minute=800),
)
