"""What was measured, and where it is kept: ``measured.json``, so that the simulation runs without measuring."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

FILE: Final = Path(__file__).with_name("measured.json")
QUANTILES: Final = 40


class Figure(Struct, frozen=True):
    """The median of some rounds, and the smallest and the largest of them."""

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        return cls(statistics.median(values), min(values), max(values), len(values))


class Engine(Struct, frozen=True):
    """The service times of one kind of store. Seconds.

    A server process takes ``request[tier]`` of its processor for each request (a decision or a report) and ``batch``
    more for each transaction; the store's own processes take ``store_request`` and ``store_batch``. A gate without a
    server, which several workers share, takes ``local_request`` for a request of tier 3, of that ``front`` outside its
    store, and the store's own processes ``local_backend``. ``key`` and ``store_key``: more for each further key of a
    request. ``held``: from asking to commit of a decision, by tier (2: not waiting for the disk, 3: waiting for it);
    ``looked``: of that until the step runs. ``trips``: round trips of a decision and of its report.
    """

    front: Figure
    request: Sequence[Figure]
    batch: Figure
    store_request: Figure
    store_batch: Figure
    local_request: Figure
    local_backend: Figure
    key: Figure
    store_key: Figure
    held: Mapping[int, Figure]
    looked: Mapping[int, Figure]
    trips: tuple[float, float]


class Run(Struct, frozen=True):
    """Something that was measured as a whole, to hold the simulation against.

    ``way``: ``server`` (connections to one server) or ``gate`` (threads that share one gate, or processes with one
    each where ``processes`` is more than one). ``rtt``: to the store, added, in seconds. ``rate``: calls a second in an
    open loop, 0 where each worker calls as soon as it is answered. ``others``: how many processors were busy with
    something else; ``loader``: what making the load took for each request. ``calls`` a second; ``p50``, ``p99`` of a
    decision, in seconds.
    """

    name: str
    engine: str
    way: str
    workers: int
    tier: int | None
    keys: int
    processes: int = 1
    rtt: float = 0.0
    rate: float = 0.0
    others: float = 0.0
    loader: float = 0.0
    calls: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    depth: float = 0.0


class Measured(Struct, frozen=True):
    """All of it. ``sync``: quantiles of one sync of the disk, in seconds; ``refused``: processor time of a request
    that is refused before it is judged. ``bytes`` and ``memory``: by what they are of.
    """

    about: Mapping[str, str]
    engines: Mapping[str, Engine]
    sync: Sequence[float]
    refused: Figure
    scripts: Mapping[str, Figure]
    bytes: Mapping[str, Figure]
    memory: Mapping[str, Figure]
    runs: Sequence[Run]


def load(path: Path = FILE) -> Measured:
    """Raises ``FileNotFoundError`` where nothing was measured yet."""
    return msgspec.json.decode(path.read_bytes(), type=Measured)


def save(found: Measured, path: Path = FILE) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(_rounded(found)), indent=1) + b"\n")


def _rounded(value: object) -> object:
    """With four significant digits: more would be noise, and a change of the file should show what has changed."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Struct):
        return {name: _rounded(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(one) for one in value]
    return value


def quantiles(values: Sequence[float], count: int = QUANTILES) -> list[float]:
    """The values at ``count + 1`` even steps from the smallest to the 99.9 %: one stall is not what a disk does."""
    ordered = sorted(values)
    return [ordered[round(step / count * 0.999 * (len(ordered) - 1))] for step in range(count + 1)]
