"""``callosum rules``: check a rules file, and show what the journal says about the rules."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callosum.cli import show
from callosum.cli.options import InFolder, InNamespace, Json, Only, exists, open_gate, option, rulebook_of
from callosum.cli.person import require_person
from callosum.cli.text import clean
from callosum.cli.times import clock, moment
from callosum.errors import ConfigError
from callosum.model import DAY

if TYPE_CHECKING:
    from callosum.retrospect import Suggestion
    from callosum.rules import RuleSet


def check(
    settings: InFolder,
    file: Annotated[
        Path | None, typer.Argument(help="Rules file (default: the one in force).", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Check a rules file; exit code 2 and the exact place if something is wrong."""
    from callosum.rulebook import path_of
    from callosum.rules import RuleSet

    path = file or path_of(settings)
    shown, usual = clean(str(path), 300), len(RuleSet.parse().rules)
    there = file is not None or path.exists()
    try:
        rules = _rules_of(path if there else None).rules
    except ConfigError as error:
        if json and isinstance(error.__cause__, ConfigError):
            show.json({"ok": False, "file": str(path), "at": error.__cause__.at, "error": error.__cause__.message})
        raise
    own = len(rules) - usual
    if json:
        show.json({"ok": True, "file": str(path) if there else None, "own": own, "rules": len(rules)})
        return
    if not there:
        show.line(f"No rules of your own (there is no {shown}); the {usual} default rules are in force.")
        return
    show.line(f"{shown}: {own} rules of your own are sound, before the {usual} default ones.", "green")
    rows = [
        (place, rule.name, show.tier(rule.tier), ", ".join(rule.tools), "  ".join(one.key for one in rule.keys))
        for place, rule in enumerate(rules[:own])
    ]
    if rows:
        show.put(
            show.table("In this order, first match wins", (">#", "name:50", ">tier", "tools:80", "keys:100"), rows)
        )


Since = Annotated[str, option("--since", "TIME", 'Start here: a time, or how long ago ("30d").')]


def suggest(
    settings: InFolder,
    since: Since = "30d",
    least: Annotated[int, option("--min", "N", "Number of times a pause must have been confirmed.", min=2)] = 5,
    namespace: Only = None,
    json: Json = False,
) -> bool:
    """Propose narrower rules from calls that were always confirmed or approved; exit code 1 if there is none.

    Nothing is changed: read the proposals, and paste those that are right into
    your rules.
    """
    from callosum.journal import EntryFilter, Journal
    from callosum.retrospect import suggest as proposals
    from callosum.rulebook import path_of

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
    return bool(found)


def _print(found: list[Suggestion], path: str, *, there: bool) -> None:
    import json

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


def approvals(settings: InFolder, json: Json = False) -> bool:
    """List the standing approvals ("Approve similar calls" in the console); exit code 1 if there is none."""
    from callosum import standing

    now = time.time()
    found = [one for one in standing.read(standing.path_of(settings.state)) if one.until > now]
    counting = {one.id for one in rulebook_of(settings).current().standing}
    if json:
        show.json({"approvals": [{"counts": one.id in counting, "approval": one} for one in found]})
    elif not found:
        show.line("Nothing is approved beforehand.")
    else:
        rows: list[Sequence[object]] = []
        for one in found:
            params = ", ".join(f"{name} {said}" for name, said in one.params.items())
            lifted = f"the question of {one.rule}" if one.asks else ", ".join(one.kinds)
            until = clock(one.until) if one.id in counting else "its rule has changed: does not count"
            rows.append((one.id, one.tool, params, lifted, one.by, until))
        columns = ("<id", "tool:50", "with:100", "lets pass:60", "by:40", "until")
        show.put(show.table("Standing approvals", columns, rows, note="callosum rules revoke ID ends one"))
    return bool(found)


def revoke(
    settings: InNamespace,
    id: Annotated[int, typer.Argument(metavar="ID", help="Id that callosum rules approvals shows.")],
    json: Json = False,
) -> None:
    """End a standing approval at once; only for a person at a terminal."""
    with open_gate(settings) as gate:
        by = require_person(gate.store, "revoke a standing approval")
        found = gate.revoke(id, by=by, namespace=settings.namespace)
    show.result(
        {"revoked": found.id},
        f"Revoked: the rules alone decide calls of {clean(found.tool, 60)} again.",
        "green",
        json=json,
    )


# --- Gaps ---------------------------------------------------------------------------------------------


def gaps(settings: InFolder, since: Since = "30d", namespace: Only = None, json: Json = False) -> bool:
    """Show where the rules see little: calls without keys, unnamed tools, unshared keys; exit code 1 if nowhere.

    Nothing is changed.
    """
    from callosum.cli import retrospect
    from callosum.journal import EntryFilter, Journal
    from callosum.retrospect import find_gaps

    wanted = EntryFilter(namespace=namespace, since=moment(since, "--since"), event="intercept")
    with open_gate(settings) as gate:
        found = find_gaps(Journal(gate.store, settings.state).read(wanted))
    if json:
        show.json(found)
    else:
        retrospect.show_gaps(found)
    return not found.nothing


# --- Try ----------------------------------------------------------------------------------------------


def try_(
    settings: InFolder,
    file: Annotated[Path, typer.Argument(help="Rules file to try instead of the one in force.")],
    since: Since = "7d",
    most: Annotated[int, option("--most", "N", "Replay at most the newest N calls.", min=1, max=1_000_000)] = 20_000,
    namespace: Only = None,
    json: Json = False,
) -> bool:
    """Show what a changed rules file would have decided on the recorded calls; exit code 1 if nothing differs.

    Nothing is changed, and no tool is run.
    """
    from callosum.cli import retrospect
    from callosum.journal import EntryFilter, Journal
    from callosum.retrospect import try_rules
    from callosum.rulebook import options_of, path_of, protected_of
    from callosum.rules.protected import RULES

    current = path_of(settings)
    options = {"protected": protected_of(settings) | {str(current): RULES}, **options_of(settings)}
    old = _rules_of(current if current.exists() else None, **options)
    new = _rules_of(file, **options)
    start = moment(since, "--since")
    wanted = EntryFilter(namespace=namespace, since=max(0, start - DAY))  # what the first calls are compared with
    with open_gate(settings) as gate:
        book = Journal(gate.store, settings.state)
        found = try_rules(lambda: book.read(wanted), old, new, since=start, most=most)
    if json:
        show.json(found)
    else:
        retrospect.show_trial(found)
    return not found.nothing


def _rules_of(path: Path | None, **options: Any) -> RuleSet:
    """Return the rules of a file, then the default ones. Raises ``ConfigError`` naming the file and the place."""
    from callosum.rules import RuleSet

    if path is None:
        return RuleSet.parse(**options)
    try:
        return RuleSet.parse(path.read_bytes(), source=str(path), **options)
    except OSError as fault:
        raise ConfigError(fault.strerror or "cannot be read", at=str(path)) from fault
    except ConfigError as error:
        here = error.at.startswith(str(path))
        raise ConfigError(error.message if here else str(error), at=error.at if here else str(path)) from error
