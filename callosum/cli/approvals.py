"""``approve``, ``deny``, ``resolve``, ``release``, ``off``, ``on``: a person's decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from callosum.characters import escaped
from callosum.cli import show
from callosum.cli.options import InNamespace, Json, flag, open_gate, option
from callosum.cli.person import require_person
from callosum.cli.shortid import full_id, is_short, read_id
from callosum.cli.text import clean
from callosum.cli.times import clock, seconds
from callosum.errors import ConfigError
from callosum.model import Report

if TYPE_CHECKING:
    from callosum.gate import LocalGate
    from callosum.settings import Settings

Id = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id of the call, long or short, as status and watch show it.", parser=read_id),
]
As = Annotated[str | None, option("--as", "NAME", "Speak for this session, which has checked, instead of as a person.")]


def approve(settings: InNamespace, id: Id, json: Json = False) -> bool:
    """Let a call that was asked or blocked run once, as it was shown, within an hour."""
    word = "Approved: it may run once, within an hour, as it was shown."
    return _told(settings, word, lambda gate: answer(gate, id, settings.namespace, agrees=True), json=json)


def deny(
    settings: InNamespace,
    id: Id,
    note: Annotated[
        str, option("--note", "TEXT", "Note to the agent, also kept in the journal.", show_default=False)
    ] = "",
    json: Json = False,
) -> bool:
    """Refuse a call that waits for an approval."""
    return _told(settings, "Refused.", lambda gate: answer(gate, id, settings.namespace, note, agrees=False), json=json)


def answer(
    gate: LocalGate, id: str, namespace: str, note: str = "", *, agrees: bool, what: str = "", channel: str = "terminal"
) -> Report:
    """Approve or refuse a call for the person at the terminal. Raises ``NotAPerson`` if there is none."""
    by = require_person(gate.store, what or ("approve a call" if agrees else "refuse a call"))
    verb = gate.approve if agrees else gate.deny
    return verb(full_id(gate, id, namespace), by=by, channel=channel, note=note, namespace=namespace)


def resolve(
    settings: InNamespace,
    id: Id,
    happened: Annotated[bool | None, flag("--happened/--not", "After checking: it happened, or it did not.")] = None,
    note: Annotated[str, option("--note", "TEXT", "What the check found, for the journal.", show_default=False)] = "",
    as_: As = None,
    json: Json = False,
) -> bool:
    """Set the outcome of an action that was never reported, after checking what happened."""
    if happened is None:
        raise ConfigError("say which: --happened or --not", at="resolve")
    space, person = settings.namespace, as_ is None

    def act(gate: LocalGate) -> Report:
        by = as_ or require_person(gate.store, "resolve a call (a session that has looked says --as NAME)")
        meant = full_id(gate, id, space)
        return gate.resolve(meant, happened=bool(happened), by=by, note=note, namespace=space, person=person)

    return _told(settings, "Settled: it happened." if happened else "Settled: it did not happen.", act, json=json)


def release(
    settings: InNamespace,
    what: Annotated[str, typer.Argument(metavar="KEY|ID", help="Context key, or id of the lease.")],
    as_: As = None,
    json: Json = False,
) -> bool:
    """Free the leases on a key, or the lease with this id.

    A lock ends; an intercepted call counts as done. With --as only that
    session's own leases are freed.
    """

    def act(gate: LocalGate) -> Report:
        holder, key, id = as_ or "", what, None
        if is_short(what) or (what.isascii() and what.isdigit()):
            id = full_id(gate, what.lower(), settings.namespace)
            action = gate.store.action(settings.namespace, id)
            if action is None or not action.keys:
                raise ConfigError("there is no lease with this id", at=str(id))
            if as_ is not None and as_ != action.session:
                raise ConfigError(f"this lease is not {as_}'s own", at=str(id))
            holder, key = action.session, action.keys[0].name
        by = as_ or require_person(gate.store, "release another's lease (a session's own: --as NAME)")
        force = as_ is None and id is None
        return gate.release(holder, key, namespace=settings.namespace, by=by, force=force, id=id)

    return _told(settings, "Released.", act, json=json)


def off(
    settings: InNamespace,
    for_: Annotated[str, option("--for", "TIME", 'Duration, such as "30m", "1h", "2d".')] = "1h",
    json: Json = False,
) -> None:
    """Let every call pass for a while. Calls are still classified and journalled."""
    span = seconds(for_, "--for")
    if not 1 <= span <= 30 * 86_400:
        raise ConfigError("expected one second to 30 days", at="--for")
    with open_gate(settings, create=True) as gate:
        by = require_person(gate.store, "switch the gate off")
        until = gate.observe(span, by=by, namespace=settings.namespace)
    show.result(
        {"observingUntil": until},
        f"The gate only observes until {clock(until)}: every call passes, all is journalled.",
        "yellow",
        json=json,
    )


def on(settings: InNamespace, json: Json = False) -> None:
    """End what callosum off began."""
    with open_gate(settings) as gate:
        was = bool(gate.status(namespace=settings.namespace).observing_until)
        if was:
            gate.observe(0, by="callosum on", namespace=settings.namespace)
    if json:
        show.json({"observingUntil": None, "was": was})
    elif settings.mode == "observe":
        show.line('It still only observes, because the settings say mode = "observe".', "yellow")
    else:
        show.line("The gate is on again." if was else "The gate was on already.", "green")


def _told(settings: Settings, word: str, act: Callable[[LocalGate], Report], *, json: bool) -> bool:
    """Print what a person's decision changed, and return whether it changed anything."""
    with open_gate(settings) as gate:
        report = act(gate)
        action = gate.store.action(settings.namespace, report.id) if report.ok and report.id else None
    if json:
        show.json(report)
    elif report.ok:
        show.line(word, "green")
        if action is not None:
            key = f" on {escaped(action.keys[0].name)}" if action.keys and action.keys[0].name[0] != "=" else ""
            show.line(f"{clean(action.session)}: {clean(action.tool)}{key} (tier {action.tier})", "dim")
    else:
        show.line(f"Nothing was changed: {clean(report.note or 'no', 300)}.")
    return report.ok
