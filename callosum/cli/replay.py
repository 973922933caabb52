"""``callosum replay``: send recorded tool traffic through the gate, by several sessions at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callosum.cli.codes import USAGE
from callosum.cli.options import Config, Namespace, State, settings_of
from callosum.errors import ConfigError

if TYPE_CHECKING:
    from callosum.cli.recorded_calls import BrokenLine
    from callosum.cli.replaying import ReplayPlan, ReplayTotals, SessionShare
    from callosum.settings import Settings

_SHOWN = 5


def replay(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Recorded calls as JSONL.", show_default=False)
    ],
    sessions: Annotated[int, typer.Option("--sessions", "-s", min=1, max=256, help="Number of session processes.")] = 8,
    pause: Annotated[
        bool, typer.Option("--pause", help="Pause on warnings as hosts do; each session then repeats once to confirm.")
    ] = False,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the report as JSON; - is standard output.", show_default=False
        ),
    ] = None,
    state: State = None,
    namespace: Namespace = None,
    config: Config = None,
) -> None:
    """Send recorded calls through the gate as concurrent sessions, and report what it said.

    No tool is run: a call that may run is reported with its recorded outcome.
    Tasks are spread over the sessions. Without --state the gate's own state is
    thrown away afterwards. Broken lines are counted.
    """
    import tempfile
    from contextlib import nullcontext

    from callosum.cli import show

    quiet = json is not None and str(json) == "-"
    settings = settings_of(state, namespace, config)
    with nullcontext(None) if state is not None else tempfile.TemporaryDirectory(prefix="callosum-replay-") as made:
        total, broken, seconds, tasks = _run(
            _in_folder(settings, made), tuple(files), sessions, pause=pause, quiet=quiet
        )
    report = _report(total, broken, seconds, tasks, files, sessions, pause=pause)
    if json is not None and not quiet:
        _write(json, report)
    if quiet:
        show.json(report)
    else:
        _print(report)
    if not total.calls and broken:
        raise typer.Exit(USAGE)


def _in_folder(settings: Settings, made: str | None) -> Settings:
    """Return the settings with their rules, but with the state in its own folder if one was created."""
    from msgspec.structs import replace

    from callosum.rulebook import path_of

    rules = path_of(settings)
    if made is None:
        return settings
    return replace(settings, state=Path(made), rules=rules if rules.exists() else settings.rules)


def _run(
    settings: Settings, files: tuple[Path, ...], sessions: int, *, pause: bool, quiet: bool
) -> tuple[ReplayTotals, list[BrokenLine], float, int]:
    import secrets

    from callosum.cli import show
    from callosum.cli.recorded_calls import BrokenLine, read
    from callosum.cli.replaying import ReplayPlan, replay_all

    broken: list[BrokenLine] = []
    tasks: set[str] = set()
    count = 0
    for found in read(files, sessions):
        if isinstance(found, BrokenLine):
            broken.append(found)
        else:
            count += 1
            tasks.add(found[1].belongs)
    plan = ReplayPlan(files, sessions, settings, secrets.token_hex(4), pause)
    if not count:
        from callosum.cli.replaying import ReplayTotals

        return ReplayTotals(), broken, 0.0, 0
    if quiet:
        total, seconds = replay_all(plan, lambda _: None)
    else:
        total, seconds = _with_bar(plan, count, show.console())
    return total, broken, seconds, len(tasks)


def _with_bar(plan: ReplayPlan, count: int, console: Any) -> tuple[ReplayTotals, float]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from callosum.cli.replaying import replay_all

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("replaying", total=count)
        return replay_all(plan, lambda made: bar.advance(task, made))


def _report(
    total: ReplayTotals,
    broken: list[BrokenLine],
    seconds: float,
    tasks: int,
    files: list[Path],
    sessions: int,
    *,
    pause: bool,
) -> dict[str, Any]:
    from callosum.cli.replaying import percentile

    took = sorted(total.took)
    return {
        "files": [str(path) for path in files],
        "sessions": sessions,
        "pause": pause,
        "tasks": tasks,
        "calls": total.calls,
        "seconds": round(seconds, 3),
        "callsPerSecond": round(total.calls / seconds, 1) if seconds else 0.0,
        "decisionMs": {
            name: round(percentile(took, part) / 1000, 3) for name, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        },
        "tiers": dict(sorted(total.tiers.items())),
        "verdicts": dict(total.verdicts.most_common()),
        "confirmed": total.confirmed,
        "conflicts": dict(total.conflicts.most_common()),
        "keys": _share(total.sources.values()),
        "sources": [
            {"source": name, **_share([one]), "verdicts": dict(one.verdicts.most_common())}
            for name, one in sorted(total.sources.items())
        ],
        "rules": dict(total.rules.most_common()),
        "gaps": {
            "calls": sum(total.gaps.values()),
            "tools": [
                {"tool": tool, "calls": count, "examples": total.examples.get(tool, [])}
                for tool, count in total.gaps.most_common()
            ],
        },
        "refused": total.refused,
        "brokenLines": broken,
    }


def _share(sources: Iterable[SessionShare]) -> dict[str, Any]:
    """Return which share of all calls, and of those that write, got a key: 0 to 1, None without calls."""
    every = list(sources)
    calls, keyed = sum(one.calls for one in every), sum(one.keyed for one in every)
    writes, keyed_writes = sum(one.writes for one in every), sum(one.keyed_writes for one in every)
    return {
        "calls": calls,
        "keyed": keyed,
        "share": round(keyed / calls, 4) if calls else None,
        "writes": writes,
        "keyedWrites": keyed_writes,
        "writesShare": round(keyed_writes / writes, 4) if writes else None,
    }


def _write(path: Path, report: dict[str, Any]) -> None:
    import msgspec

    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    except OSError as fault:
        raise ConfigError(fault.strerror or str(fault), at=str(path)) from fault


def _print_keys(every: dict[str, Any], sources: list[dict[str, Any]]) -> None:
    """Print the share of calls that got a key, in total and, if the recording names sources, by source."""
    from callosum.cli import show
    from callosum.model import Verdict

    if not every["calls"]:
        return
    note = f"{every['keyed']} of {every['calls']} calls got a key ({_percent(every['share'])})"
    if every["writes"]:
        note += f", {every['keyedWrites']} of the {every['writes']} that write ({_percent(every['writesShare'])})"
    if [one["source"] for one in sources] == [""]:
        show.line(f"{note}.")
        show.line()
        return
    said = [verdict for verdict in Verdict if any(one["verdicts"].get(verdict.value) for one in sources)]
    rows = [
        (
            show.cell(one["source"], limit=40),
            *(show.cell(text) for text in (one["calls"], _percent(one["share"]))),
            *(show.cell(text) for text in (one["writes"], _percent(one["writesShare"]))),
            *(show.cell(one["verdicts"].get(verdict.value)) for verdict in said),
        )
        for one in sources
    ]
    columns = ("<source", ">calls", ">with a key", ">writes", ">with a key", *(f">{verdict.value}" for verdict in said))
    show.put(show.table("Keys", columns, rows, note=note))


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f} %"


def _print(report: dict[str, Any]) -> None:
    import msgspec
    from rich.columns import Columns

    from callosum.cli import show

    ms, gaps, broken = report["decisionMs"], report["gaps"], report["brokenLines"]
    show.line(f"{report['calls']} calls of {report['tasks']} tasks, by {report['sessions']} sessions at once", "bold")
    show.line(
        f"{report['callsPerSecond']:,.0f} calls per second (decision and outcome)  ·  "
        f"a decision: p50 {ms['p50']:.2f} ms, p99 {ms['p99']:.2f} ms, longest {ms['max']:.1f} ms"
    )
    show.line()
    counts = [
        ("Tiers", "tier", report["tiers"]),
        ("Verdicts", "verdict", report["verdicts"]),
        ("Conflicts", "kind", report["conflicts"]),
    ]
    show.put(
        Columns(
            [
                show.table(
                    title,
                    (f"<{column}", ">calls"),
                    [(show.cell(name), show.cell(count)) for name, count in rows.items()],
                )
                for title, column, rows in counts
                if rows
            ],
            padding=(0, 4),
        )
    )
    _print_keys(report["keys"], report["sources"])
    if report["pause"]:
        paused = report["verdicts"].get("confirm", 0)
        show.line(f"{report['confirmed']} of {paused} pauses were confirmed by repeating the call.", "dim")
    rows = [
        (
            show.cell(one["tool"], limit=50),
            show.cell(one["calls"]),
            show.cell(msgspec.json.encode(one["examples"][0]).decode() if one["examples"] else None, limit=120),
        )
        for one in gaps["tools"][:10]
    ]
    if rows:
        more = len(gaps["tools"]) - len(rows)
        note = f"{gaps['calls']} calls of tier 2 and up that write and show no key" + (
            f"; {more} more tools" if more > 0 else ""
        )
        show.put(show.table("Gaps", ("tool", ">calls", "for example"), rows, note=note))
    else:
        show.line("No gaps: every call of tier 2 and up that writes has a key.", "green")
    for name, texts in (
        ("could not be judged", report["refused"]),
        ("broken lines", [f"{one.file}:{one.line}: {one.error}" for one in broken]),
    ):
        if texts:
            show.line(f"{len(texts)} {name}:", "yellow")
            for text in texts[:_SHOWN]:
                show.put(show.cell(f"  {text}", limit=300))
            if len(texts) > _SHOWN:
                show.line(f"  ... and {len(texts) - _SHOWN} more", "dim")
