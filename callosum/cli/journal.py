"""``callosum journal``: show decisions and outcomes, including rotated ones."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from callosum.cli import show
from callosum.cli.options import (
    NOTHING_YET,
    Follow,
    InFolder,
    Json,
    Last,
    Only,
    Since,
    exists,
    flag,
    open_gate,
    option,
    rulebook_of,
)
from callosum.cli.text import clean
from callosum.cli.times import clock, moment
from callosum.errors import ConfigError
from callosum.model import MAX_SUMMARY, Entry, Event, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from enum import StrEnum

    from rich.console import RenderableType
    from rich.text import Text

    from callosum.journal import EntryFilter, Journal


def journal(  # noqa: PLR0917  typer names them all
    settings: InFolder,
    session: Annotated[str | None, option("--session", "NAME", "Only this session (* matches anything).")] = None,
    tool: Annotated[str | None, option("--tool", "NAME", "Only this tool (* stands for anything).")] = None,
    key: Annotated[str | None, option("--key", "KEY", "Only what touches this key (* stands for anything).")] = None,
    event: Annotated[str | None, option("--event", "NAME", "Only this event: intercept, complete, lapse, ...")] = None,
    verdict: Annotated[
        str | None, option("--verdict", "NAME", "Only this verdict: allow, warn, confirm, ask, block.")
    ] = None,
    tier: Annotated[int | None, option("--tier", "N", "Only this tier or higher.", min=0, max=4)] = None,
    since: Since = None,
    until: Annotated[str | None, option("--until", "TIME", "Up to then.")] = None,
    namespace: Only = None,
    last: Last = 50,
    follow: Follow = False,
    export: Annotated[
        Path | None, option("--export", "FILE", "Write all matching entries as JSONL to a new file (.gz compresses).")
    ] = None,
    rotate: Annotated[
        bool, flag("--rotate", "Move all entries that no decision needs into compressed segments now.")
    ] = False,
    entries: Annotated[
        bool, flag("--entries", "One line per entry: decisions, reports and renewals separately.")
    ] = False,
    json: Json = False,
) -> bool:
    """Show the journal, oldest first: each call's decision and outcome; exit code 1 if nothing matches.

    A call is one line. With --json, --follow and --entries each entry of the
    journal is shown separately.
    """
    from callosum.journal import EntryFilter, Journal, line_of

    wanted = EntryFilter(
        namespace=namespace,
        session=session,
        tool=tool,
        key=key,
        event=_one_of(Event, event, "--event"),
        verdict=_one_of(Verdict, verdict, "--verdict"),
        tier=tier,
        since=moment(since, "--since") if since else 0,
        until=moment(until, "--until") if until else None,
    )
    with open_gate(settings, create=follow and not exists(settings)) as gate:
        book = Journal(gate.store, settings.state)
        if rotate:
            window = rulebook_of(settings).current().longest_window
            _rotate(book, settings.journal_age, settings.journal_size, window)
        elif export is not None:
            _export(book, wanted, export, json=json)
        else:
            found = book.last(last, wanted) if last else book.read(wanted)
            count, newest = 0, 0
            if json:
                for entry in found:
                    show.raw(line_of(entry))
                    count, newest = count + 1, entry.seq
            else:
                count, newest = _print(((entry, None) for entry in found) if entries else _calls(found), heading=True)
            if follow:
                for entry in book.follow(wanted, after=newest or None):
                    if json:
                        show.raw(line_of(entry))
                    else:
                        _print(((entry, None),), heading=False)
            elif not count:
                if not json:
                    show.line("Nothing in the journal fits." if exists(settings) else NOTHING_YET)
                return False
    return True


def _one_of(names: type[StrEnum], name: str | None, at: str) -> str | None:
    if name is not None and name not in list(names):
        raise ConfigError(f"expected one of {', '.join(names)}", at=at)
    return name


def _rotate(book: Journal, age: float, size: int, window: int) -> None:
    from callosum.journal import Rotation
    from callosum.policy.evidence import horizon

    rotation = Rotation(book.store, book.folder.parent, age=age, size=size)
    moved = rotation.run_all(horizon(book.store.now(), window))
    if moved:
        show.line(f"Moved {moved} entries; there are {len(book.segments())} segments now.")
    elif rotation.busy:
        show.line("Nothing was moved: another process is rotating the journal.")
    else:
        show.line("Nothing was moved: decisions may still need every entry in the store.")


def _export(book: Journal, wanted: EntryFilter, path: Path, *, json: bool) -> None:
    from callosum.journal import export

    try:
        count = export(book.read(wanted), path)
    except FileExistsError:
        raise ConfigError("there is such a file already", at=str(path)) from None
    except OSError as fault:
        raise ConfigError(fault.strerror or str(fault), at=str(path)) from fault
    show.result({"file": str(path), "entries": count}, f"{count} entries are in {clean(str(path), 300)}.", json=json)


# The journal has no end, so its lines are not a rich table, which needs all rows first.


_COLUMNS = (("time", 19), ("session", 16), ("event", 9), ("tier", 4), ("answer", 21), ("tool", 20))
"""Name and minimum width of each column before the keys."""
_HELD = 1000
"""Number of lines that wait for the outcome of their call."""

_Line = tuple["Entry", "Entry | None"]
"""An entry, and the entry with its call's outcome."""


def _calls(entries: Iterable[Entry]) -> Iterator[_Line]:
    """Yield entries in their order, with a call's outcome beside its decision if it is near."""
    from callosum.journal import ENDS

    waiting: OrderedDict[int, _Line] = OrderedDict()
    for entry in entries:
        begun = waiting.get(entry.action) if entry.event in ENDS and entry.outcome is not None else None
        if begun is not None and begun[1] is None and begun[0].event is Event.INTERCEPT:
            waiting[entry.action] = (begun[0], entry)
            continue
        waiting[entry.seq] = (entry, None)
        if len(waiting) > _HELD:
            yield waiting.popitem(last=False)[1]
    yield from waiting.values()


def _print(lines: Iterable[_Line], *, heading: bool) -> tuple[int, int]:
    """Print lines as they come. Return how many there were and the position of the last entry."""
    console = show.console()
    width = console.width if console.is_terminal else None
    count = last = 0
    for entry, ended in lines:
        if heading and not count:
            titles = "  ".join(f"{name:>{size}}" if name == "tier" else f"{name:<{size}}" for name, size in _COLUMNS)
            if width is None or len(titles) + 5 <= width:
                show.line(f"{titles}  key", "dim")
        count, last = count + 1, max(last, entry.seq, ended.seq if ended is not None else 0)
        for line in _lines(entry, ended, width):
            console.print(line, soft_wrap=True)
    return count, last


def _lines(entry: Entry, ended: Entry | None, width: int | None) -> Iterable[RenderableType]:
    """Return an entry as one line, or, if that is longer than ``width``, with a separate line for each key."""
    from rich.text import Text

    from callosum.journal import shown_keys

    cells = (
        Text(clock(entry.seq / 1_000_000), style="dim"),
        show.cell(entry.session, limit=40),
        show.cell(entry.event),
        show.tier(entry.tier),
        _answer(entry, ended),
        show.cell(entry.tool, limit=40),
    )
    head = Text()
    for text, (name, size) in zip(cells, _COLUMNS, strict=True):
        pad = " " * max(0, size - text.cell_len)
        head.append(pad if name == "tier" else "").append_text(text).append("  " if name == "tier" else f"{pad}  ")
    keys = [show.key(key) for key in shown_keys(entry)]
    said = [text for text in (reason_of(entry), _what(entry)) if text]
    remarks = [show.cell(text, "dim italic", 160) for text in said]
    shown = [Text("  ").join(keys) if keys else show.cell(None), *remarks]
    whole = head + Text("  ").join(shown)
    if width is None or whole.cell_len <= width:
        return (whole,)
    head.rstrip()
    first = head if head.cell_len <= width else show.wrapped(Text("  ").join(cells))
    return (
        first,
        *(Text(show.INDENT).append_text(key) for key in keys),
        *(show.wrapped(remark, show.INDENT) for remark in remarks),
    )


def _answer(entry: Entry, ended: Entry | None) -> Text:
    """Return the decision and the outcome: ``allow, done in 1.2 s``."""
    if entry.verdict is None:
        return show.cell(entry.outcome)
    answer = show.verdict(entry.verdict)
    if ended is not None:
        took = (ended.seq - entry.seq) / 1_000_000
        span = f" in {took * 1000:.0f} ms" if took < 1 else f" in {took:.1f} s"
        answer = answer.append(", ", "").append_text(show.cell(ended.outcome)).append(span, "dim")
    return answer


def _what(entry: Entry) -> str:
    """Return what a call does, and what a person had asked its session to do."""
    from callosum.journal import shown_keys
    from callosum.policy.summary import journalled_call, shown, summary_of

    kept = journalled_call(entry.body)
    if entry.event not in (Event.INTERCEPT, Event.LATE):
        return shown(kept.summary, MAX_SUMMARY) if kept.summary else ""
    asked = f"(asked: {shown(kept.purpose, 80)})" if kept.purpose else ""
    return f"{summary_of(kept, next(iter(shown_keys(entry)), ''))} {asked}".strip()


def reason_of(entry: Entry) -> str:
    """Return the reason for an entry's verdict: its conflicts with their sessions, or its warning or note."""
    from callosum.pages.action_lines import in_the_way

    if reasons := dict.fromkeys(filter(None, map(in_the_way, entry.body.get("conflicts", ())))):
        return ", ".join(reasons)
    said = entry.body.get("warning") or entry.body.get("note") or entry.body.get("what") or ""
    return str(said).removeprefix("[Callosum] ")
