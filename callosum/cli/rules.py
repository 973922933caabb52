"""``callosum rules``: check a rules file, and show what the journal says about the rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callosum.cli.codes import EPILOG, NO
from callosum.cli.options import (
    Config,
    Json,
    Namespace,
    Only,
    State,
    exists,
    open_gate,
    option,
    rulebook_of,
    settings_of,
)
from callosum.errors import ConfigError

if TYPE_CHECKING:
    from callosum.retrospect import Suggestion
    from callosum.rules import RuleSet
app = typer.Typer(help="The rules that classify calls.", no_args_is_help=True, epilog=EPILOG)


@app.command(epilog=EPILOG)
def check(
    file: Annotated[
        Path | None, typer.Argument(help="Rules file (default: the one in force).", show_default=False)
    ] = None,
    state: State = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Check a rules file; exit code 2 and the exact place if something is wrong."""
    from callosum.cli import show
    from callosum.cli.text import clean
    from callosum.rulebook import path_of
    from callosum.rules import RuleSet

    settings = settings_of(state, None, config)
    path = file or path_of(settings)
    shown = clean(str(path), 300)
    if file is None and not path.exists():
        rules = RuleSet.parse()
        if json:
            show.json({"ok": True, "file": None, "own": 0, "rules": len(rules.rules)})
        else:
            show.line(f"No rules of your own (there is no {shown}); the {len(rules.rules)} default rules are in force.")
        return
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise ConfigError(fault.strerror or "cannot be read", at=str(path)) from fault
    try:
        rules = RuleSet.parse(data, source=str(path))
    except ConfigError as error:
        if json:
            show.json({"ok": False, "file": str(path), "at": error.at, "error": error.message})
        raise error if error.at.startswith(str(path)) else ConfigError(str(error), at=str(path)) from None
    own = len(rules.rules) - len(RuleSet.parse().rules)
    if json:
        show.json({"ok": True, "file": str(path), "own": own, "rules": len(rules.rules)})
        return
    show.line(f"{shown}: {own} rules of your own are sound, before the {len(rules.rules) - own} default ones.", "green")
    rows = [
        (place, rule.name, show.tier(rule.tier), ", ".join(rule.tools), "  ".join(one.key for one in rule.keys))
        for place, rule in enumerate(rules.rules[:own])
    ]
    if rows:
        show.put(
            show.table("In this order, first match wins", (">#", "name:50", ">tier", "tools:80", "keys:100"), rows)
        )


Since = Annotated[str, option("--since", "TIME", 'Start here: a time, or how long ago ("30d").')]


@app.command(epilog=EPILOG)
def suggest(
    since: Since = "30d",
    least: Annotated[int, option("--min", "N", "Number of times a pause must have been confirmed.", min=2)] = 5,
    namespace: Only = None,
    state: State = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Propose narrower rules from calls that were always confirmed or approved; exit code 1 if there is none.

    Nothing is changed: read the proposals, and paste those that are right into
    your rules.
    """
    from callosum.cli import show
    from callosum.cli.text import clean
    from callosum.cli.times import moment
    from callosum.journal import EntryFilter, Journal
    from callosum.retrospect import suggest as proposals
    from callosum.rulebook import path_of

    settings = settings_of(state, namespace, config)
    path = path_of(settings)
    wanted = EntryFilter(namespace=namespace, since=moment(since, "--since"))
    rules = rulebook_of(settings).current()
    found: list[Suggestion] = []
    if exists(settings):
        with open_gate(settings) as gate:
            entries = Journal(gate.store, settings.state).read(wanted)
            found = proposals(entries, rules, least=least, now=gate.store.now())
    if json:
        together = [rule for one in found for rule in one.rules]
        show.json({"changed": False, "file": str(path), "suggestions": found, "rules": together})
    elif found:
        _print(found, clean(str(path), 300), there=path.exists())
    else:
        show.line("Nothing to propose.")
    if not found:
        raise typer.Exit(NO)


def _print(found: list[Suggestion], path: str, *, there: bool) -> None:
    import json
    from textwrap import indent

    from callosum.cli import show

    for number, one in enumerate(found, 1):
        show.line(f"{number}. {one.pattern}", "bold")
        show.line(one.why)
        if one.before:
            show.line(f"{len(one.before)} of your rules, or of those that ship, come with it to stay in front of it.")
        show.line(indent(",\n".join(json.dumps(rule, indent=2) for rule in one.rules), "    "), "cyan")
        show.line()
    where = f'at the top of "rules" in {path}' if there else f'as {{"rules": [...]}} into a new file {path}'
    show.line(f"Nothing was changed. To use a proposal put it {where}; then `callosum rules check`.", "bold")


# --- Standing approvals -----------------------------------------------------------------------------


@app.command(epilog=EPILOG)
def approvals(state: State = None, config: Config = None, json: Json = False) -> None:
    """List the standing approvals ("Approve similar calls" in the console); exit code 1 if there is none."""
    import time

    from callosum import standing
    from callosum.cli import show
    from callosum.cli.times import clock

    settings = settings_of(state, None, config)
    now = time.time()
    found = [one for one in standing.read(standing.path_of(settings.state)) if one.until > now]
    counting = {one.id for one in rulebook_of(settings).current().standing}
    if json:
        show.json({"approvals": [{"counts": one.id in counting, "approval": one} for one in found]})
    elif not found:
        show.line("Nothing is approved beforehand.")
    else:
        rows = [
            (
                one.id,
                one.tool,
                ", ".join(f"{name} {said}" for name, said in one.params.items()),
                f"the question of {one.rule}" if one.asks else ", ".join(one.kinds),
                one.by,
                clock(one.until) if one.id in counting else "its rule has changed: does not count",
            )
            for one in found
        ]
        columns = ("<id", "tool:50", "with:100", "lets pass:60", "by:40", "until")
        show.put(show.table("Standing approvals", columns, rows, note="callosum rules revoke ID ends one"))
    if not found:
        raise typer.Exit(NO)


@app.command(epilog=EPILOG)
def revoke(
    id: Annotated[int, typer.Argument(metavar="ID", help="Id that callosum rules approvals shows.")],
    state: State = None,
    namespace: Namespace = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """End a standing approval at once; only for a person at a terminal."""
    from callosum.cli import show
    from callosum.cli.person import require_person
    from callosum.cli.text import clean

    settings = settings_of(state, namespace, config)
    with open_gate(settings) as gate:
        by = require_person(gate.store, "revoke a standing approval")
        found = gate.revoke(id, by=by, namespace=settings.namespace)
    if json:
        show.json({"revoked": found.id})
    else:
        show.line(f"Revoked: the rules alone decide calls of {clean(found.tool, 60)} again.", "green")


# --- Gaps ---------------------------------------------------------------------------------------------


@app.command(epilog=EPILOG)
def gaps(
    since: Since = "30d", namespace: Only = None, state: State = None, config: Config = None, json: Json = False
) -> None:
    """Show where the rules see little: calls without keys, unnamed tools, unshared keys; exit code 1 if nowhere.

    Nothing is changed.
    """
    from callosum.cli import retrospect, show
    from callosum.cli.times import moment
    from callosum.journal import EntryFilter, Journal
    from callosum.retrospect import find_gaps

    settings = settings_of(state, namespace, config)
    wanted = EntryFilter(namespace=namespace, since=moment(since, "--since"), event="intercept")
    with open_gate(settings) as gate:
        found = find_gaps(Journal(gate.store, settings.state).read(wanted))
    if json:
        show.json(found)
    else:
        retrospect.show_gaps(found)
    if found.nothing:
        raise typer.Exit(NO)


# --- Try ----------------------------------------------------------------------------------------------


@app.command("try", epilog=EPILOG)
def try_(
    file: Annotated[Path, typer.Argument(help="Rules file to try instead of the one in force.")],
    since: Since = "7d",
    most: Annotated[int, option("--most", "N", "Replay at most the newest N calls.", min=1, max=1_000_000)] = 20_000,
    namespace: Only = None,
    state: State = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show what a changed rules file would have decided on the recorded calls; exit code 1 if nothing differs.

    Nothing is changed, and no tool is run.
    """
    from callosum.cli import retrospect, show
    from callosum.cli.times import moment
    from callosum.journal import EntryFilter, Journal
    from callosum.model import DAY
    from callosum.retrospect import try_rules
    from callosum.rulebook import options_of, path_of, protected_of
    from callosum.rules.protected import RULES

    settings = settings_of(state, namespace, config)
    current = path_of(settings)
    protected = protected_of(settings) | {str(current): RULES}
    options = options_of(settings)
    old = _rules_of(current if current.exists() else None, protected, options)
    new = _rules_of(file, protected, options)
    start = moment(since, "--since")
    wanted = EntryFilter(namespace=namespace, since=max(0, start - DAY))  # what the first calls are compared with
    with open_gate(settings) as gate:
        book = Journal(gate.store, settings.state)
        found = try_rules(lambda: book.read(wanted), old, new, since=start, most=most)
    if json:
        show.json(found)
    else:
        retrospect.show_trial(found)
    if found.nothing:
        raise typer.Exit(NO)


def _rules_of(path: Path | None, protected: dict[str, str], options: dict[str, Any]) -> RuleSet:
    """Return the rules of a file, then the default ones. Raises ``ConfigError`` naming the file and the place."""
    from callosum.rules import RuleSet

    if path is None:
        return RuleSet.parse(protected=protected, **options)
    try:
        return RuleSet.parse(path.read_bytes(), source=str(path), protected=protected, **options)
    except OSError as fault:
        raise ConfigError(fault.strerror or "cannot be read", at=str(path)) from fault
    except ConfigError as error:
        raise error if error.at.startswith(str(path)) else ConfigError(str(error), at=str(path)) from None
