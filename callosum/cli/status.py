"""``callosum status`` and ``callosum leases``: show the current state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from callosum.cli import show
from callosum.cli.options import NOTHING_YET, InNamespace, Json, exists, open_gate
from callosum.cli.shortid import short_of
from callosum.cli.text import clean
from callosum.cli.times import clock
from callosum.model import MAX_SUMMARY, Holding

if TYPE_CHECKING:
    from rich.table import Table

    from callosum.cli.show import Listing

Key = Annotated[str | None, typer.Argument(metavar="[KEY]", help="Only this context key.", show_default=False)]


def status(settings: InNamespace, key: Key = None, json: Json = False) -> None:
    """Show leases, pending approvals, unknown outcomes and recent actions."""
    with open_gate(settings) as gate:
        found = gate.status(key, namespace=settings.namespace)
    if json:
        show.json(found)
        return
    mode = "enforcing"
    if settings.mode == "observe":
        mode = "observing only (by the settings)"
    if found.observing_until is not None:
        mode = f"observing only until {clock(found.observing_until)} (callosum on ends it)"
    show.line(f"{clean(str(settings.state), 200)}  ·  namespace {settings.namespace}  ·  {mode}", "dim")
    if not exists(settings):
        show.line(NOTHING_YET)
        return
    show.line()
    for title, held, note in (
        ("Waiting for a person", found.asked, "callosum approve ID, or deny ID"),
        ("Outcome unknown", found.unknown, "callosum resolve ID --happened, or --not"),
        ("Leases", found.locks, ""),
        ("Waiting in line", found.waiting, ""),
    ):
        if held:
            show.put(holdings(title, held, note=note))
    recent = [
        (one.at, one.instance, one.tool, one.tier, one.state, one.context_key, one.summary)
        for one in found.recent_actions
    ]
    if recent:
        show.put(show.table("Lately", ("<ago", "session:40", "tool:40", ">tier", "<state", "key", "what:60"), recent))
    else:
        show.line("No action yet" + (" on this key." if key else "."))
    ended = [(one.at, one.instance, one.summary) for one in found.farewells]
    if ended:
        show.put(show.table("Sessions that ended", ("<ago", "session:40", f"what it said it did:{MAX_SUMMARY}"), ended))


def leases(settings: InNamespace, key: Key = None, json: Json = False) -> bool:
    """List the live leases; exit code 1 if there is none."""
    with open_gate(settings) as gate:
        found = gate.status(key, namespace=settings.namespace).locks
    if json:
        show.json(found)
    elif found:
        show.put(holdings("Leases", found, note="callosum release KEY frees one"))
    else:
        show.line("No live lease" + (" on this key." if key else "."))
    return bool(found)


def holdings(title: str, found: tuple[Holding, ...], *, note: str = "") -> Table | Listing:
    """Return the table of live actions of one sort."""
    rows: list[Sequence[object]] = []
    for one in found:
        tool, left = "lock" if one.lock else one.tool, one.expires or None
        rows.append(
            (short_of(one.id), one.id, one.instance, tool, one.tier, one.at, left, one.context_key, one.summary)
        )
    columns = ("<short", "<id", "session:40", "tool:40", ">tier", "<since", "<left", "key", "what:60")
    return show.table(title, columns, rows, note=note)
