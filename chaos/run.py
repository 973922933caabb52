"""Run campaigns one after another, and report of each what was done, what was answered and what did not hold."""

from __future__ import annotations

import argparse
import math
import os
import threading
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from callosum.model import Entry
from chaos.campaigns import CAMPAIGNS, Campaign
from chaos.checker import Promise, Violation, check, meet
from chaos.estate import Absent, Engine, Estate
from chaos.history import Event
from chaos.scene import Scene

KEPT: Final = Path(__file__).parent.parent / ".chaos"
"""Folder for the files of a campaign that did not pass; not part of the project."""
_BESIDE: Final = 5.0
"""Approximate seconds that a campaign takes besides its load: to start, to heal and to settle."""
_HEAD: Final = f"{'campaign':18}   calls   acked unknown  faults  journal seconds  violations"
_SHOWN: Final = 8
_AROUND: Final = 4
_REQUESTS: Final = frozenset({"intercept", "lock", "renew", "complete", "release"})
_ASKS: Final = frozenset({"intercept", "lock"})
_ENDS: Final = frozenset({"complete", "release"})
_MANY: Final = 40
"""Number of live leases in a history from which on expired ones are searched for."""
_CROWDED: Final = 2
"""Number of things that the workers of a thorough run compete for."""
_FASTEST: Final = 3
"""Number of campaigns per engine that are repeated until there are enough operations."""
_ONCE_MORE: Final = 30.0
"""Seconds for which such a campaign is repeated."""
_OFTEN, _ONCE = 60.0, 10.0
"""Minimum seconds of a campaign in a thorough run: if its faults are counted, and if they are not."""

CONTENDED: Final = 100_000
"""Number of contended operations of a thorough run in total."""
STORE: Final = 10_000
"""Number of contended operations of a thorough run on each store."""
EACH: Final = 50
"""Number of times that a thorough run injects each fault."""
ENGINES: Final[Sequence[Engine]] = ("sqlite", "postgres", "redis")
COUNTED: Final = (
    "server hung", "tier-4 call given up", "disk: sync", "server away", "report spooled", "late call",
    "no file descriptors", "Redis frozen", "PostgreSQL frozen", "Redis out of memory", "database removed",
    "database replaced by an empty one", "database replaced by an older one", "log truncated", "log halved",
    "log removed", "disk: full", "disk: read-only", "server started on a read-only database",
    "clock set an hour ahead or back",
)  # fmt: skip
"""Kinds of faults that a thorough run must have injected ``EACH`` times."""
_OTHER: Final = "other violations"
_SORTS: Final[Mapping[str, frozenset[str]]] = {
    "double admissions": frozenset({"exclusion", "tokens", "nothing doubled"}),
    "lost acknowledgements": frozenset(
        {"nothing lost", "no lost report", "no lost late call", "no lost update", "outcomes"}
    ),
    _OTHER: frozenset(),
}
"""Which rules a total counts."""


class Outcome(NamedTuple):
    """The result of one campaign. ``calls`` were answered (``acknowledged``) or not (``unknown``).

    A call is ``contended`` if it requested or ended a lease while another session requested, or had, an overlapping
    key. ``faults`` counts the faults of each kind.
    """

    name: str
    calls: int
    acknowledged: int
    unknown: int
    faults: Counter[str]
    contended: int
    entries: int
    seconds: float
    violations: list[Violation]
    events: list[Event]
    journal: list[Entry]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaigns. Return 0 if everything held, 1 if not or if a required one cannot run, 2 if none can."""
    asked = _parser().parse_args(argv)
    chosen = [one for one in CAMPAIGNS if not asked.only or any(one.name.startswith(name) for name in asked.only)]
    if not chosen:
        print(f"no such campaign; there are {', '.join(one.name for one in CAMPAIGNS)}")
        return 2
    print(_HEAD, flush=True)
    lanes = [[one for one in chosen if one.engine == engine] for engine in dict.fromkeys(one.engine for one in chosen)]
    # Each lane has its own servers, which it may stop at any time.
    share = max(0.0, asked.seconds / max(len(lane) for lane in lanes) - _BESIDE)
    totals = Totals()
    with ThreadPoolExecutor(len(lanes)) as pool:
        bad = list(pool.map(lambda lane: _lane(lane, asked, share, totals), lanes))
    missing = totals.missing() if asked.thorough else []
    print("\n".join([*totals.lines(), *missing]), flush=True)
    return 1 if sum(bad) or missing else 0


def _lane(lane: Sequence[Campaign], asked: argparse.Namespace, share: float, totals: Totals) -> int:
    """Run the campaigns of one engine, one after another. Return how many did not pass.

    With ``--thorough``, each runs until it has enough faults, or for its part of the time that is left. Then the
    fastest ones run again, with other seeds, until there are enough operations.
    """
    bad = 0
    ends = time.monotonic() + asked.seconds
    rates: dict[Campaign, float] = {}
    with Estate() as estate:
        for number, campaign in enumerate(lane):
            limits: dict[str, Any] = {"seconds": campaign.load if asked.minute else max(campaign.load, share)}
            if asked.thorough:
                most = max(campaign.load, (ends - time.monotonic()) / (len(lane) - number) - _BESIDE)
                limits = {"each": EACH if campaign.often else 1, "most": most, "places": _CROWDED}
                limits["seconds"] = max(campaign.load, min(most, _OFTEN if campaign.often else _ONCE))
            outcome = _tried(campaign, estate, asked.seed, limits)
            if isinstance(outcome, Outcome):
                rates[campaign] = outcome.contended / outcome.seconds
                totals.add(campaign.engine, outcome)
                bad += bool(outcome.violations)
            else:
                bad += outcome
        fastest = sorted(rates, key=lambda one: rates[one], reverse=True)[:_FASTEST]
        seed = asked.seed
        while asked.thorough and fastest and time.monotonic() < ends and totals.too_few(lane[0].engine):
            seed += 1
            outcome = _tried(fastest[seed % len(fastest)], estate, seed, {"seconds": _ONCE_MORE, "places": _CROWDED})
            if not isinstance(outcome, Outcome):
                return bad + outcome
            totals.add(lane[0].engine, outcome)
            bad += bool(outcome.violations)
    return bad


def _tried(campaign: Campaign, estate: Estate, seed: int, limits: Mapping[str, Any]) -> Outcome | bool:
    """Run a campaign and show its result. If it cannot run, return whether that is a failure."""
    try:
        outcome = run(campaign, estate, seed, **limits)
    except Absent as absent:
        print(f"{campaign.name:18} NOT RUN: {absent}", flush=True)
        return os.environ.get("CALLOSUM_SERVERS") == "required"
    except Exception:  # noqa: BLE001 - one that cannot be run does not keep the others from being run
        print(f"{campaign.name:18} FAILED\n{traceback.format_exc()}", flush=True)
        return True
    show(outcome)
    if outcome.violations:
        print(f"  what everybody saw, and the journal: {keep(outcome)}", flush=True)
    return outcome


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaos", description="Breaks what a gate stands on, and checks what is left."
    )
    parser.add_argument("--seconds", type=float, default=600, help="for all campaigns together (default 600)")
    parser.add_argument("--minute", action="store_true", help="each campaign shortly: about a minute for all")
    parser.add_argument(
        "--thorough", action="store_true", help="fail unless there were enough operations and faults (chaos/README.md)"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="campaigns whose names begin so; can be given again"
    )
    parser.add_argument("--seed", type=int, default=1, help="where chance begins (default 1)")
    return parser


class Totals:
    """The totals of a run: operations of each store, faults of each kind, and what did not hold.

    It may be used from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engines: dict[str, Counter[str]] = {}
        self._faults: Counter[str] = Counter()
        self._violations: Counter[str] = Counter()

    def add(self, engine: str, outcome: Outcome) -> None:
        """Add one campaign."""
        with self._lock:
            counted = {"operations": outcome.calls, "contended": outcome.contended, "answered": outcome.acknowledged}
            self._engines.setdefault(engine, Counter()).update(counted)
            self._faults.update(outcome.faults)
            self._violations.update(_sort(violation) for violation in outcome.violations)

    def lines(self) -> list[str]:
        """Return the totals, for people."""
        everywhere = sum(self._engines.values(), Counter[str]())
        rows = [*self._engines.items(), ("all", everywhere)]
        return [
            "",
            *(
                f"{name:10} {row['operations']:>9,} operations, {row['contended']:>9,} of them contended, "
                f"{row['answered']:>9,} answered"
                for name, row in rows
            ),
            "",
            *(f"{count:>9,} {kind}" for kind, count in sorted(self._faults.items())),
            "",
            *(f"{self._violations[sort]:>9,} {sort}" for sort in _SORTS),
        ]

    def too_few(self, engine: str) -> bool:
        """Return True if a thorough run needs more contended operations, on this engine or in total."""
        with self._lock:
            return self._contended() < CONTENDED or self._engines.get(engine, Counter())["contended"] < STORE

    def _contended(self) -> int:
        return sum(one["contended"] for one in self._engines.values())

    def missing(self) -> list[str]:
        """Return what a thorough run must reach and this one did not."""
        everywhere = self._contended()
        wanted = [("contended operations in all", everywhere, CONTENDED)]
        stores = {name: self._engines.get(name, Counter())["contended"] for name in ENGINES}
        wanted += [(f"contended operations on {name}", count, STORE) for name, count in stores.items()]
        wanted += [(kind, self._faults[kind], EACH) for kind in COUNTED]
        return [f"NOT REACHED: {count:,} of {least:,} {what}" for what, count, least in wanted if count < least]


def _sort(violation: Violation) -> str:
    return next((sort for sort, rules in _SORTS.items() if violation.rule in rules), _OTHER)


def contended(events: Sequence[Event]) -> int:
    """Return how many requests met another session's: one that requested, or had, an overlapping key."""
    live: dict[tuple[str, str], Event] = {}
    found = 0
    for event in events:
        name = event.who, event.op
        if event.what == "invoke" and event.verb in _REQUESTS:
            mine = event if event.verb in _ASKS else live.get(name)
            if mine is not None and event.verb in _ASKS:
                live[name] = event
            if mine is not None:
                found += any(one.who != event.who and meet(one.keys, mine.keys) for one in live.values())
        elif event.what == "unknown" or (event.what == "answer" and (event.verb in _ENDS or not _granted(event))):
            live.pop(name, None)
        elif event.verb == "killed":
            live = {one: asked for one, asked in live.items() if one[0].partition(":")[0] != event.who}
        if event.what == "invoke" and len(live) > _MANY:  # leases that sessions left to run out
            live = {one: asked for one, asked in live.items() if asked.at + asked.ttl * 1e9 > event.at}
    return found


def _granted(answer: Event) -> bool:
    """Return True if the session has a lease from now on, or still has it."""
    return answer.verb not in _ASKS or (answer.ok and answer.id > 0)


def run(
    campaign: Campaign,
    estate: Estate,
    seed: int,
    seconds: float,
    *,
    each: int = 1,
    most: float = math.inf,
    places: int = 6,
) -> Outcome:
    """Run one campaign for ``seconds``, and until each fault happened ``each`` times or ``most`` seconds have passed.

    Its workers compete for ``places`` things.

    Raises:
        Absent: Its server is not installed.
    """
    began = time.monotonic()
    clock = time.time_ns() - time.monotonic_ns()
    scene = Scene(estate, campaign.name, seed, campaign.ttl, places)
    try:
        campaign.stage(scene)
        scene.working("it began")
        scene.disturb(seconds, campaign.faults, settles=campaign.settles, each=each, most=most)
        scene.heal()
        scene.working("everything was whole again")
        scene.end()
        scene.close()
        journal = scene.rest()
    except BaseException:
        scene.abandon()
        raise
    events = scene.history()
    found = scene.found
    if campaign.checked:
        told = clock if campaign.timed else None
        tier = max(campaign.tier, scene.tier)
        promise = Promise(ttl=campaign.ttl, tier=tier, reports=scene.reports, clock=told, spools=campaign.spools)
        found += check(events, journal, scene.counters(), promise)
    faults = scene.faults
    if campaign.counts:
        faults.update(campaign.counts(scene, events))
    found += _idle(events, faults.total())
    asked = [event for event in events if event.verb in _REQUESTS]
    return Outcome(
        campaign.name,
        sum(event.what == "invoke" for event in asked),
        sum(event.what == "answer" for event in asked),
        sum(event.what == "unknown" for event in asked),
        faults,
        contended(events),
        len(journal),
        time.monotonic() - began,
        found,
        events,
        journal,
    )


def _idle(events: Sequence[Event], faults: int) -> list[Violation]:
    """Return why a campaign shows nothing: no fault happened, or no call was let through afterwards."""
    if not faults:
        return [Violation("a real campaign", "no fault was injected")]
    last = max((event.at for event in events if event.verb == "fault"), default=0)
    let = any(
        event.at > last and event.what == "answer" and event.ok and event.verb in ("intercept", "lock")
        for event in events
    )
    return [] if let else [Violation("a real campaign", "nobody was let through after the last fault")]


def keep(outcome: Outcome) -> Path:
    """Write the history and the journal of a campaign to a folder. Return the folder."""
    folder = KEPT / outcome.name
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (("history", outcome.events), ("journal", outcome.journal)):
        (folder / f"{name}.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return folder


def show(outcome: Outcome) -> None:
    """Print a campaign's line, and its violations with the surrounding history."""
    numbers = f"{outcome.calls:>7,} {outcome.acknowledged:>7,} {outcome.unknown:>7,} {outcome.faults.total():>7,}"
    numbers += f" {outcome.entries:>8,} {outcome.seconds:>7.1f}"
    lines = [f"{outcome.name:18} {numbers}  {len(outcome.violations) or 'none'}"]
    for violation in outcome.violations[:_SHOWN]:
        lines.append(f"  {violation.rule}: {violation.told}")
        around = [number for number, event in enumerate(outcome.events) if event.at == violation.at]
        for number in around[:1]:
            for event in outcome.events[max(0, number - _AROUND) : number + _AROUND + 1]:
                mark = ">" if event.at == violation.at else " "
                facts = f"{event.who} {event.what} {event.verb} {event.op} {' '.join(event.keys)}"
                facts += f" ok={event.ok} id={event.id} {event.state} {event.text[:200]}"
                lines.append(f"  {mark} {event.at / 1e9:.6f} {facts}")
    if len(outcome.violations) > _SHOWN:
        lines.append(f"  ... and {len(outcome.violations) - _SHOWN} more")
    print("\n".join(lines), flush=True)
