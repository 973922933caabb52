"""``callosum status`` and ``callosum leases``: show the current state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from callosum.cli.codes import NO
from callosum.cli.options import Config, Json, Namespace, State, exists, open_gate, settings_of

if TYPE_CHECKING:
    from rich.table import Table

    from callosum.cli.show import Listing
    from callosum.model import Holding

Key = Annotated[str | None, typer.Argument(metavar="[KEY]", help="Only this context key.", show_default=False)]


def status(
    key: Key = None, state: State = None, namespace: Namespace = None, config: Config = None, json: Json = False
) -> None:
    """Show leases, pending approvals, unknown outcomes and recent actions."""
    from callosum.cli import show
    from callosum.cli.text import clean
    from callosum.cli.times import clock, since
    from callosum.model import MAX_SUMMARY

    settings = settings_of(state, namespace, config)
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
        show.line("Nothing has been decided here yet.")
        return
    show.line()
    if found.asked:
        show.put(holdings("Waiting for a person", found.asked, note="callosum approve ID, or deny ID"))
    if found.unknown:
        show.put(holdings("Outcome unknown", found.unknown, note="callosum resolve ID --happened, or --not"))
    if found.locks:
        show.put(holdings("Leases", found.locks))
    if found.waiting:
        show.put(holdings("Waiting in line", found.waiting))
    recent = [
        (
            since(action.at),
            action.instance,
            action.tool,
            show.tier(action.tier),
            show.state(action.state),
            show.key(action.context_key),
            action.summary,
        )
        for action in found.recent_actions
    ]
    if recent:
        show.put(show.table("Lately", ("<ago", "session:40", "tool:40", ">tier", "<state", "key", "what:60"), recent))
    else:
        show.line("No action yet" + (" on this key." if key else "."))
    ended = [(since(one.at), one.instance, one.summary) for one in found.farewells]
    if ended:
        show.put(show.table("Sessions that ended", ("<ago", "session:40", f"what it said it did:{MAX_SUMMARY}"), ended))


def leases(
    key: Key = None, state: State = None, namespace: Namespace = None, config: Config = None, json: Json = False
) -> None:
    """List the live leases; exit code 1 if there is none."""
    from callosum.cli import show

    settings = settings_of(state, namespace, config)
    with open_gate(settings) as gate:
        found = gate.status(key, namespace=settings.namespace).locks
    if json:
        show.json(found)
    elif found:
        show.put(holdings("Leases", found, note="callosum release KEY frees one"))
    else:
        show.line("No live lease" + (" on this key." if key else "."))
    if not found:
        raise typer.Exit(NO)


def holdings(title: str, found: tuple[Holding, ...], *, note: str = "") -> Table | Listing:
    """Return the table of live actions of one sort."""
    from callosum.cli import show
    from callosum.cli.shortid import short_of
    from callosum.cli.times import since, until

    rows = [
        (
            short_of(holding.id),
            holding.id,
            holding.instance,
            "lock" if holding.lock else holding.tool,
            show.tier(holding.tier),
            since(holding.at),
            until(holding.expires) if holding.expires else None,
            show.key(holding.context_key),
            holding.summary,
        )
        for holding in found
    ]
    columns = ("<short", "<id", "session:40", "tool:40", ">tier", "<since", "<left", "key", "what:60")
    return show.table(title, columns, rows, note=note)
