"""The part of ``docs/scale.md`` that is written by the run: everything between its two marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bench.scale.curves import CORES, DEADLINE, FLEET, FULL, LAN, THINK, Axis
from bench.scale.measured import Engine, Figure, Measured
from bench.scale.plan import CONNECTIONS, HEADROOM, PAUSES, Units, plan
from bench.scale.traffic import Traffic
from bench.scale.validate import QUIET, RATE, TAIL, Beside

BEGIN: Final = "<!-- written by bench.scale: begin -->"
END: Final = "<!-- written by bench.scale: end -->"
COMMAND: Final = "python -m bench.scale --measure --docs docs/scale.md --svg docs/scale.svg"
FULLY: Final = 0.85
"""From this share of its time on, something is what limits."""
NAMES: Final = {"sqlite": "SQLite", "postgres": "PostgreSQL", "redis": "Redis"}


class Unmarked(Exception):
    """The page has no marks for the tables."""


def put(page: str, section: str) -> str:
    """The page with the section between its marks. Raises ``Unmarked``."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Unmarked(f"the page needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{section}\n{END}{after}"


def section(found: Measured, traffic: Traffic, compared: Sequence[Beside], axes: Sequence[Axis], carried: Units) -> str:
    """All tables."""
    about = found.about
    head = (
        f"Of {about['date']}, printed by `{COMMAND}`; python {about['python']}, {about['platform']}, "
        f"{about['processors']} processors, SQLite {about['sqlite']}, {about['servers']}, {about['libraries']}.\n"
    )
    parts = [
        head,
        "### What was measured\n",
        _services(found),
        _bytes(found),
        "### What each unit can carry\n",
        _units(found, carried),
        "### A million sessions\n",
        _million(found, carried),
        "### The simulation beside what was measured\n",
        _compared(compared),
        "### The curves\n",
        _traffic(traffic),
        *[_axis(axis) for axis in axes if axis.name != "waits"],
    ]
    return "\n".join(parts)


def _traffic(traffic: Traffic) -> str:
    return (
        f"Traffic: {traffic.calls:,} {traffic.source}. Tiers 0 to 4: {_shares(traffic.tiers)}; keys of a call, 0 to "
        f"{len(traffic.keys) - 1}: {_shares(traffic.keys)}; popularity of keys by Zipf, exponent {traffic.zipf:g}.\n"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", "|---|" + "--:|" * (len(header) - 1)]
    return "\n".join([*lines, *[f"| {' | '.join(row)} |" for row in rows]]) + "\n"


def _shares(values: Sequence[float]) -> str:
    return ", ".join(f"{100 * value:.3g}" for value in values) + " %"


def _us(figure: Figure) -> str:
    """In microseconds, with its smallest and largest round."""
    return f"{figure.median * 1e6:,.0f} ({figure.low * 1e6:,.0f} to {figure.high * 1e6:,.0f})"


def _services(found: Measured) -> str:
    engines = found.engines.values()

    def row(name: str, pick: Callable[[Engine], Figure]) -> list[str]:
        return [name, *[_us(pick(engine)) for engine in engines]]

    def trips(engine: Engine) -> str:
        return " and ".join(f"{count:.3g}" for count in engine.trips) if any(engine.trips) else "none"

    tiers = [(f"server's processor, a request of tier {tier}", tier) for tier in range(5)]
    rows = [row(name, lambda engine, tier=tier: engine.request[tier]) for name, tier in tiers]  # type: ignore[misc]
    rows += [
        row("... more for each batch", lambda engine: engine.batch),
        row("store's processors, a request", lambda engine: engine.store_request),
        row("... more for each transaction", lambda engine: engine.store_batch),
        row("a gate without a server, a request of tier 3", lambda engine: engine.local_request),
        row("... of that beside its store", lambda engine: engine.front),
        row("... the store's processors", lambda engine: engine.local_backend),
        row("each further key of a request: gate", lambda engine: engine.key),
        row("... store", lambda engine: engine.store_key),
        row("one transaction alone, tier 2, asked to answered", lambda engine: engine.held[2]),
        row("... tier 3, which waits for the disk", lambda engine: engine.held[3]),
        ["round trips of a decision and of its report", *map(trips, engines)],
    ]
    middle, high = (found.sync[round(part * (len(found.sync) - 1))] * 1e6 for part in (0.5, 0.95))
    scripts = " ".join(f"By `INFO commandstats`, {name}: {_us(figure)}." for name, figure in found.scripts.items())
    words = (
        "Microseconds: the median of the rounds, the smallest and the largest. One sync of this disk (8 KiB, "
        f"`fdatasync`): median {middle:,.0f}, 95 % within {high:,.0f}. Refusing a request takes a server "
        f"{_us(found.refused)}. {scripts}"
    )
    return _table(["", *[NAMES[engine] for engine in found.engines]], rows) + "\n" + words + "\n"


def _bytes(found: Measured) -> str:
    rows = [[name, f"{figure.median:,.0f}"] for name, figure in (*found.bytes.items(), *found.memory.items())]
    return _table(["bytes", ""], rows)


def _units(found: Measured, carried: Units) -> str:
    rows = []
    for name, outcome in carried.found.items():
        busy = max((outcome.server, "the server's processor"), (outcome.store, "the store's processors and disk"))
        limit = busy[1] if busy[0] > FULLY else "one batch after another"
        rows.append([name, _short(outcome.calls), _short(outcome.p50 * 1000), f"{outcome.depth:.0f}", limit])
    words = (
        f"Calls a second at most (a decision and its report), by simulation: {FULL} sessions or more that never pause, "
        f"PostgreSQL with {CORES} processors, Redis with its one thread and a synced log, {LAN * 1000:g} ms between "
        "machines."
    )
    return _table(["", "calls a second", "p50, ms", "requests of a batch", "what limits"], rows) + "\n" + words + "\n"


def _million(found: Measured, carried: Units) -> str:
    rows = []
    for engine in ("postgres", "redis"):
        for pause in PAUSES:
            one = plan(found, carried, engine, pause)
            stores = f"{one.stores} {'clusters' if engine == 'postgres' else 'shards'}"
            rows.append(
                [
                    f"{NAMES[engine]}, {pause:g} s between calls",
                    _short(one.rate),
                    f"{one.servers:,}",
                    f"{one.servers_for_connections:,}",
                    stores,
                    f"{one.per_store:,}",
                    _size(one.store_day),
                    _size(one.segment_day),
                    f"{one.busiest:.0f}",
                ]
            )
    header = ["", "calls a second", "servers for the calls", "for the connections", "stores", "namespaces of each",
              "store grows a day", "segments a day", "calls a second of a namespace"]  # fmt: skip
    words = (
        f"{FLEET} sessions share a namespace; units are planned to {HEADROOM:.0%} of what they can do; a server takes "
        f"{CONNECTIONS:,} connections, and each session keeps one. A store grows by so much while nothing leaves it."
    )
    return _table(header, rows) + "\n" + words + "\n"


def _compared(compared: Sequence[Beside]) -> str:
    rows = []
    for one in compared:
        run, found = one.run, one.found
        verdict = "not judged" if not one.judged else "within" if one.within else "**off**"
        rows.append(
            [
                run.name,
                f"{_short(run.calls)} / {_short(found.calls)}",
                f"{_short(run.p50 * 1000)} / {_short(found.p50 * 1000)}",
                f"{_short(run.p99 * 1000)} / {_short(found.p99 * 1000)}",
                f"{run.others:.2f}",
                verdict,
            ]
        )
    words = (
        f"Measured / simulated, of one machine with everything on it. Within: calls a second and p50 within {RATE:g} "
        f"times, p99 within {TAIL:g} times, either way. Where something else had more than {QUIET:g} of the processors "
        "(last but one column), times of the clock say little and the line is not judged."
    )
    if not any(one.judged for one in compared):
        words = f"**Nothing could be judged: the machine was busy with other things. Measure again.** {words}"
    return _table(["", "calls a second", "p50, ms", "p99, ms", "others", ""], rows) + "\n" + words + "\n"


def _axis(axis: Axis) -> str:
    xs = sorted({x for curve in axis.curves for x, _ in curve.points})
    rows = []
    for curve in axis.curves:
        at = dict(curve.points)
        cells = []
        for x in xs:
            found = at.get(x)
            if found is None:
                cells.append("")
                continue
            shown = f"{axis.pick(found):.2f}" if axis.name == "beyond" else _short(found.calls)
            late = f", {found.late:.0%} late" if found.late >= 0.005 and axis.name != "beyond" else ""
            tail = "" if not found.calls else f" ({_short(found.p50 * 1000)}, {_short(found.p99 * 1000)} ms{late})"
            cells.append(shown + tail)
        rows.append([curve.name, *cells])
    words = f"**{axis.title}**: {axis.up}, and in brackets p50 and p99; along: {axis.along}."
    if axis.name in ("sessions", "beyond"):
        words += f" A session gives up after {DEADLINE:g} s."
    if axis.name == "sessions":
        words += f" {THINK:g} s between calls is assumed, not recorded."
    return words + "\n\n" + _table(["", *[f"{x:,.6g}" for x in xs]], rows)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _size(value: float) -> str:
    return f"{value / 1e12:.2g} TB" if value >= 1e12 else f"{value / 1e9:.3g} GB"
