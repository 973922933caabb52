"""Runs campaigns, one after another, and says of each what was done, what was answered and what did not hold."""

from __future__ import annotations

import argparse
import os
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from callosum.model import Entry
from chaos.campaigns import CAMPAIGNS, Campaign
from chaos.checker import Promise, Violation, check
from chaos.estate import Absent, Estate
from chaos.history import Event
from chaos.scene import Scene

KEPT: Final = Path(__file__).parent.parent / ".chaos"
"""What a campaign that did not pass leaves; not part of the project."""
_BESIDE: Final = 5.0
"""About how many seconds a campaign takes beside its load: to start, to heal and to come to rest."""
_HEAD: Final = f"{'campaign':18}   calls   acked unknown  faults  journal seconds  violations"
_SHOWN: Final = 8
_AROUND: Final = 4
_REQUESTS: Final = frozenset({"intercept", "lock", "renew", "complete", "release"})


class Outcome(NamedTuple):
    """What came of one campaign. ``calls`` were answered (``acknowledged``) or not (``unknown``)."""

    name: str
    calls: int
    acknowledged: int
    unknown: int
    faults: int
    entries: int
    seconds: float
    violations: list[Violation]
    events: list[Event]
    journal: list[Entry]


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 if all held, 1 if something did not or could not be run where it must, 2 if it cannot be tried."""
    asked = _parser().parse_args(argv)
    chosen = [one for one in CAMPAIGNS if not asked.only or any(one.name.startswith(name) for name in asked.only)]
    if not chosen:
        print(f"no such campaign; there are {', '.join(one.name for one in CAMPAIGNS)}")
        return 2
    print(_HEAD, flush=True)
    lanes = [[one for one in chosen if one.engine == engine] for engine in dict.fromkeys(one.engine for one in chosen)]
    # Each lane has servers of its own, which it may stop as it likes.
    share = max(0.0, asked.seconds / max(len(lane) for lane in lanes) - _BESIDE)
    with ThreadPoolExecutor(len(lanes)) as pool:
        bad = list(pool.map(lambda lane: _lane(lane, asked, share), lanes))
    return 1 if sum(bad) else 0


def _lane(lane: Sequence[Campaign], asked: argparse.Namespace, share: float) -> int:
    """Runs the campaigns of one engine, one after another; returns how many did not pass."""
    bad = 0
    with Estate() as estate:
        for campaign in lane:
            try:
                outcome = run(
                    campaign, estate, asked.seed, campaign.load if asked.minute else max(campaign.load, share)
                )
            except Absent as absent:
                print(f"{campaign.name:18} NOT RUN: {absent}", flush=True)
                bad += os.environ.get("CALLOSUM_SERVERS") == "required"
                continue
            except Exception:  # noqa: BLE001 - one that cannot be run does not keep the others from being run
                print(f"{campaign.name:18} FAILED\n{traceback.format_exc()}", flush=True)
                bad += 1
                continue
            bad += bool(outcome.violations)
            show(outcome)
            if outcome.violations:
                print(f"  what everybody saw, and the journal: {keep(outcome)}", flush=True)
    return bad


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaos", description="Breaks what a gate stands on, and checks what is left."
    )
    parser.add_argument("--seconds", type=float, default=600, help="for all campaigns together (default 600)")
    parser.add_argument("--minute", action="store_true", help="each campaign shortly: about a minute for all")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="campaigns whose names begin so; can be given again"
    )
    parser.add_argument("--seed", type=int, default=1, help="where chance begins (default 1)")
    return parser


def run(campaign: Campaign, estate: Estate, seed: int, seconds: float) -> Outcome:
    """Runs one campaign. Raises ``Absent`` where its server is not installed."""
    began = time.monotonic()
    clock = time.time_ns() - time.monotonic_ns()
    scene = Scene(estate, campaign.name, seed, campaign.ttl)
    try:
        campaign.stage(scene)
        scene.working("it began")
        scene.disturb(seconds, campaign.faults, settles=campaign.settles)
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
        promise = Promise(ttl=campaign.ttl, tier=scene.tier, reports=scene.reports, clock=told, spools=campaign.spools)
        found += check(events, journal, scene.counters(), promise)
    faults = scene.faults + (campaign.counts(scene, events) if campaign.counts else 0)
    found += _idle(events, faults)
    asked = [event for event in events if event.verb in _REQUESTS]
    return Outcome(
        campaign.name,
        sum(event.what == "invoke" for event in asked),
        sum(event.what == "answer" for event in asked),
        sum(event.what == "unknown" for event in asked),
        faults,
        len(journal),
        time.monotonic() - began,
        found,
        events,
        journal,
    )


def _idle(events: Sequence[Event], faults: int) -> list[Violation]:
    """A campaign in which nothing was broken, or nobody was let through afterwards, has shown nothing."""
    if not faults:
        return [Violation("a real campaign", "no fault was injected")]
    last = max((event.at for event in events if event.verb == "fault"), default=0)
    let = any(
        event.at > last and event.what == "answer" and event.ok and event.verb in ("intercept", "lock")
        for event in events
    )
    return [] if let else [Violation("a real campaign", "nobody was let through after the last fault")]


def keep(outcome: Outcome) -> Path:
    """Writes the history and the journal of a campaign where they can be looked at; returns the folder."""
    folder = KEPT / outcome.name
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (("history", outcome.events), ("journal", outcome.journal)):
        (folder / f"{name}.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return folder


def show(outcome: Outcome) -> None:
    """Prints a campaign's line, and its violations with what stands around them in the history."""
    numbers = f"{outcome.calls:>7,} {outcome.acknowledged:>7,} {outcome.unknown:>7,} {outcome.faults:>7,}"
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
