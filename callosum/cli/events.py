"""``callosum events``: show what happens at the gate and around it, as typed events."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec.structs import replace

from callosum.cli import show
from callosum.cli.options import NOTHING_YET, Follow, InFolder, Json, Last, Only, Since, exists, flag, open_gate, option
from callosum.cli.text import clean
from callosum.cli.times import moment
from callosum.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callosum.cli.eventsource import ShownEvent


def events(  # noqa: PLR0917  typer names them all
    settings: InFolder,
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATTERN", help="Only these events: tool.completed, 'safety.*', ...", show_default=False
        ),
    ] = None,
    follow: Follow = False,
    last: Last = 50,
    quiet: Annotated[bool, flag("--quiet -q", "Leave out the regular ones: scheduler.tick and health.ok.")] = False,
    since: Since = None,
    namespace: Only = None,
    session: Annotated[str | None, option("--session", "NAME", "Only this session (* matches anything).")] = None,
    url: Annotated[
        str | None, option("--url", "URL", "Address of a server to use instead of the state folder.")
    ] = None,
    token_file: Annotated[
        Path | None, option("--token-file", "FILE", "File with the server's token (or CALLOSUM_TOKEN).")
    ] = None,
    json: Json = False,
) -> bool:
    """Show events, oldest first; exit code 1 if none matches.

    Past events: tool.*, safety.* and lease.* come from the journal, all others
    from the daily log in the state folder, which keeps seven days. With --url
    they come from the newest 1000 entries of that server's journal, which has
    tool.*, safety.* and lease.* only.

    --follow also shows new events: all of them while the state folder has a
    server, otherwise tool.*, safety.* and lease.* only. After a lost connection
    the list continues behind the last event.
    """
    from callosum.cli.eventsource import JOURNALLED, EventSelection, coming, coming_from, past, past_elsewhere
    from callosum.corpus.daily_log import FOLDER
    from callosum.corpus.events import CATALOGUE, select
    from callosum.journal import Journal

    try:
        types = select(",".join(patterns)) if patterns else None
    except ConfigError as error:
        raise ConfigError(error.message, at="PATTERN") from None
    if quiet:
        types = (frozenset(CATALOGUE) if types is None else types) - _CONSTANT
    wanted = EventSelection(
        types=types,
        namespace=namespace,
        session=session,
        since=moment(since, "--since") if since else 0,
    )
    token = _token(token_file)
    now = time.time_ns() // 1000
    if url is not None:
        if not follow and wanted.types is not None and wanted.types.isdisjoint(JOURNALLED):
            raise ConfigError(
                "a server elsewhere tells of the past what its journal has, tool.*, safety.* and lease.*; "
                "these are shown as they come, with --follow",
                at="--url",
            )
        found, newest = past_elsewhere(url, token, wanted, last)
        shown = _put(found, json=json)
        if follow:
            _put(coming_from(url, wanted, newest, now, token, _tell), json=json)
    else:
        with open_gate(settings, create=follow and not exists(settings)) as gate:
            book = Journal(gate.store, settings.state)
            entries = gate.store.entries(limit=1, newest=True)
            newest = entries[0].seq if entries else 0
            until = replace(wanted, until=max(newest, now))
            shown = _put(past(book, settings.state / FOLDER, until, last), json=json)
            if follow:
                _put(coming(book, settings.state, wanted, newest, now, token, _tell), json=json)
    if not shown and not json:
        show.line("No event fits." if url is not None or exists(settings) else NOTHING_YET)
    return bool(shown)


_CONSTANT: Final = frozenset(("scheduler.tick", "health.ok"))
"""Events that occur all the time while nothing happens."""


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get("CALLOSUM_TOKEN") or None
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeError) as fault:
        raise ConfigError(f"cannot be read: {getattr(fault, 'strerror', None) or fault}", at="--token-file") from None


def _put(found: Iterable[ShownEvent], *, json: bool) -> int:
    """Show events as they come. Return how many there were."""
    from callosum.cli.eventline import line
    from callosum.cli.eventsource import DROPPED

    count = 0
    for count, seen in enumerate(found, 1):  # noqa: B007 - counted to the end
        if json:
            show.json({"type": seen.type, "payload": seen.payload})
        elif seen.type == DROPPED:
            least = "at least " if seen.payload.get("atLeast") else ""
            _tell(
                f"{least}{seen.payload.get('count')} events are missing here: "
                "they came faster than they were read, or while the connection was lost"
            )
        elif show.console().is_terminal:
            show.console().print(line(*seen), soft_wrap=True)
        else:
            sys.stdout.write(f"{line(*seen).plain}\n")
            sys.stdout.flush()
    return count


def _tell(text: str) -> None:
    """Print a message to a person, apart from the events."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False, emoji=False, markup=False)
    console.print(Text(f"callosum: {clean(text, 500)}", style="dim"), soft_wrap=True)
