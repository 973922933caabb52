"""``approve``, ``deny``, ``resolve``, ``release``, ``off``, ``on``: a person's decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from callosum.characters import escaped
from callosum.cli.codes import NO
from callosum.cli.options import Config, Json, Namespace, State, flag, open_gate, option, settings_of
from callosum.cli.shortid import full_id, is_short, read_id
from callosum.errors import ConfigError

if TYPE_CHECKING:
    from callosum.gate import LocalGate
    from callosum.model import Action, Report

Id = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id of the call, long or short, as status and watch show it.", parser=read_id),
]
As = Annotated[str | None, option("--as", "NAME", "Speak for this session, which has checked, instead of as a person.")]
_CHANNEL = "terminal"


def approve(
    id: Id, state: State = None, namespace: Namespace = None, config: Config = None, json: Json = False
) -> None:
    """Let a call that was asked or blocked run once, as it was shown, within an hour."""
    _answer(id, agrees=True, state=state, namespace=namespace, config=config, json=json)


def deny(
    id: Id,
    note: Annotated[
        str, option("--note", "TEXT", "Note to the agent, also kept in the journal.", show_default=False)
    ] = "",
    state: State = None,
    namespace: Namespace = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Refuse a call that waits for an approval."""
    _answer(id, note, agrees=False, state=state, namespace=namespace, config=config, json=json)


def _answer(
    id: str, note: str = "", *, agrees: bool, state: State, namespace: Namespace, config: Config, json: bool
) -> None:
    from callosum.cli.person import require_person

    settings = settings_of(state, namespace, config)
    with open_gate(settings) as gate:
        by = require_person(gate.store, "approve a call" if agrees else "refuse a call")
        meant = full_id(gate, id, settings.namespace)
        verb = gate.approve if agrees else gate.deny
        report = verb(meant, by=by, channel=_CHANNEL, note=note, namespace=settings.namespace)
        action = gate.store.action(settings.namespace, meant) if report.ok else None
    word = "Approved: it may run once, within an hour, as it was shown." if agrees else "Refused."
    _tell(report, word, action, json=json)


def resolve(
    id: Id,
    happened: Annotated[bool | None, flag("--happened/--not", "After checking: it happened, or it did not.")] = None,
    note: Annotated[str, option("--note", "TEXT", "What the check found, for the journal.", show_default=False)] = "",
    as_: As = None,
    state: State = None,
    namespace: Namespace = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Set the outcome of an action that was never reported, after checking what happened."""
    from callosum.cli.person import require_person

    if happened is None:
        raise ConfigError("say which: --happened or --not", at="resolve")
    settings = settings_of(state, namespace, config)
    with open_gate(settings) as gate:
        by = as_ or require_person(gate.store, "resolve a call (a session that has looked says --as NAME)")
        meant, person = full_id(gate, id, settings.namespace), as_ is None
        report = gate.resolve(meant, happened=happened, by=by, note=note, namespace=settings.namespace, person=person)
        action = gate.store.action(settings.namespace, meant) if report.ok else None
    _tell(report, "Settled: it happened." if happened else "Settled: it did not happen.", action, json=json)


def release(
    what: Annotated[str, typer.Argument(metavar="KEY|ID", help="Context key, or id of the lease.")],
    as_: As = None,
    state: State = None,
    namespace: Namespace = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Free the leases on a key, or the lease with this id.

    A lock ends; an intercepted call counts as done. With --as only that
    session's own leases are freed.
    """
    from callosum.cli.person import require_person

    settings = settings_of(state, namespace, config)
    with open_gate(settings) as gate:
        holder, key, id = as_, what, None
        if is_short(what) or (what.isascii() and what.isdigit()):
            id = full_id(gate, what.lower(), settings.namespace)
            holder, key = _of_id(gate, id, settings.namespace, as_)
        by = as_ or require_person(gate.store, "release another's lease (a session's own: --as NAME)")
        report = gate.release(holder or "", key, namespace=settings.namespace, by=by, force=holder is None, id=id)
        action = gate.store.action(settings.namespace, report.id) if report.ok and report.id else None
    _tell(report, "Released.", action, json=json)


def _of_id(gate: LocalGate, id: int, namespace: str, as_: str | None) -> tuple[str, str]:
    action = gate.store.action(namespace, id)
    if action is None or not action.keys:
        raise ConfigError("there is no lease with this id", at=str(id))
    if as_ is not None and as_ != action.session:
        raise ConfigError(f"this lease is not {as_}'s own", at=str(id))
    return action.session, action.keys[0].name


def off(
    for_: Annotated[str, option("--for", "TIME", 'Duration, such as "30m", "1h", "2d".')] = "1h",
    state: State = None,
    namespace: Namespace = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Let every call pass for a while. Calls are still classified and journalled."""
    from callosum.cli import show
    from callosum.cli.person import require_person
    from callosum.cli.times import clock, seconds

    settings = settings_of(state, namespace, config)
    span = seconds(for_, "--for")
    if not 1 <= span <= 30 * 86_400:
        raise ConfigError("expected one second to 30 days", at="--for")
    with open_gate(settings, create=True) as gate:
        by = require_person(gate.store, "switch the gate off")
        until = gate.observe(span, by=by, namespace=settings.namespace)
    if json:
        show.json({"observingUntil": until})
    else:
        show.line(f"The gate only observes until {clock(until)}: every call passes, all is journalled.", "yellow")


def on(state: State = None, namespace: Namespace = None, config: Config = None, json: Json = False) -> None:
    """End what callosum off began."""
    from callosum.cli import show

    settings = settings_of(state, namespace, config)
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


def _tell(report: Report, word: str, action: Action | None, *, json: bool) -> None:
    from callosum.cli import show
    from callosum.cli.text import clean

    if json:
        show.json(report)
    elif report.ok:
        show.line(word, "green")
        if action is not None:
            key = f" on {escaped(action.keys[0].name)}" if action.keys and action.keys[0].name[0] != "=" else ""
            show.line(f"{clean(action.session)}: {clean(action.tool)}{key} (tier {action.tier})", "dim")
    else:
        show.line(f"Nothing was changed: {clean(report.note or 'no', 300)}.")
    if not report.ok:
        raise typer.Exit(NO)
