"""``callosum report``: show what the gate stopped, or would have stopped while it only observed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

from callosum.cli import show
from callosum.cli.options import NOTHING_YET, InFolder, Json, Only, exists, open_gate, option
from callosum.cli.times import clock, moment
from callosum.model import Entry

if TYPE_CHECKING:
    pass


_PAUSED: Final = ("confirm", "ask")
_STOPPED: Final = (*_PAUSED, "block")
_KEPT: Final = 2000
"""Maximum number of stopped calls that are listed, the newest."""
_NAMES: Final = {"confirm": "pause", "ask": "ask", "block": "block"}
_COUNTED: Final = {
    "calls": "calls",
    "wouldHavePaused": "wouldPaused",
    "wouldHaveBlocked": "wouldBlocked",
    "wouldHaveWarned": "wouldWarn",
} | {name: name for name in ("paused", "blocked", "warned")}
"""The counts by their names in JSON."""


def report(
    settings: InFolder,
    since: Annotated[str, option("--since", "TIME", 'Start here: a time, or how long ago ("7d").')] = "30d",
    last: Annotated[int, option("--last -n", "N", "List the newest N; 0 lists 2,000.", min=0)] = 50,
    namespace: Only = None,
    json: Json = False,
) -> bool:
    """Count and list the calls that were stopped, or would have been stopped while the gate only observed.

    Exit code 1 if no call is recorded for this time.
    """
    from callosum.journal import EntryFilter, Journal, is_canary

    wanted = EntryFilter(namespace=namespace, event="intercept", since=moment(since, "--since"))
    counts: Counter[str] = Counter()
    listed: list[Entry] = []
    with open_gate(settings) as gate:
        for entry in Journal(gate.store, settings.state).read(wanted):
            if is_canary(entry):
                continue
            counts["calls"] += 1
            verdict, observed = _answer(entry)
            if verdict == "warn":
                counts["wouldWarn" if observed else "warned"] += 1
            elif verdict in _STOPPED:
                word = "Paused" if verdict in _PAUSED else "Blocked"
                counts[f"would{word}" if observed else word.lower()] += 1
                listed.append(entry)
                del listed[: -(last or _KEPT)]
        observing = gate.status(namespace=settings.namespace).observing_until
    total = sum(counts[name] for name in ("wouldPaused", "wouldBlocked", "paused", "blocked"))
    if json:
        counted = {name: counts[found] for name, found in _COUNTED.items()}
        show.json({**counted, "listed": [_facts(entry) for entry in reversed(listed)]})
    elif not counts["calls"]:
        show.line("No calls are recorded for this time." if exists(settings) else NOTHING_YET)
    else:
        _print(counts, listed, total, observing or (settings.mode == "observe"))
    return bool(counts["calls"])


def _answer(entry: Entry) -> tuple[str, bool]:
    """Return the verdict that the gate would have enforced, and whether it only observed."""
    observed = entry.body.get("observed")
    return (observed, True) if isinstance(observed, str) else (str(entry.verdict or ""), False)


def _facts(entry: Entry) -> dict[str, Any]:
    from callosum.cli.journal import reason_of
    from callosum.journal import shown_keys

    verdict, observed = _answer(entry)
    return {
        "id": entry.seq,
        "at": entry.seq / 1_000_000,
        "session": entry.session,
        "tool": entry.tool,
        "tier": entry.tier,
        "verdict": verdict,
        "observed": observed,
        "keys": shown_keys(entry),
        "rule": entry.rule,
        "why": reason_of(entry),
    }


def _print(counts: Counter[str], listed: list[Entry], total: int, observing: float | bool) -> None:

    would = f"{counts['wouldPaused']:,} would have been paused, {counts['wouldBlocked']:,} blocked"
    did = f"{counts['paused']:,} were paused, {counts['blocked']:,} blocked"
    said = [would] if observing or counts["wouldPaused"] or counts["wouldBlocked"] else []
    if not said or counts["paused"] or counts["blocked"]:
        said.append(did)
    here = f"; here {'it is' if total == 1 else 'they are'}" if total else ""
    show.line(f"Of {counts['calls']:,} calls, {' and '.join(said)}{here}.", "bold")
    warned = counts["wouldWarn"] + counts["warned"]
    if warned:
        show.line(f"{warned:,} more ran with a warning to the agent, or would have: callosum journal --verdict warn")
    if observing:
        until = f" until {clock(observing)}; callosum on ends that" if not isinstance(observing, bool) else ""
        show.line(f"The gate only observes{until}.", "yellow")
    if not listed:
        return
    show.line()
    rows = []
    for one in map(_facts, reversed(listed)):
        answer = show.cell(_NAMES[one["verdict"]], show.VERDICTS[one["verdict"]])
        rows.append((one["at"], answer, one["session"], one["tool"], one["tier"], "  ".join(one["keys"]), one["why"]))
    note = f"the newest {len(listed)}; more with -n" if total > len(listed) else ""
    columns = ("<time", "<answer", "session:40", "tool:40", ">tier", "key", "why:160")
    show.put(show.table("Stopped, or would have been", columns, rows, note=note))
