"""``callosum rules check``: whether a rules file can be used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from callosum.cli.codes import EPILOG
from callosum.cli.options import Config, Json, State, settings_of
from callosum.errors import ConfigError

app = typer.Typer(help="The rules by which calls are judged.", no_args_is_help=True, epilog=EPILOG)


@app.command(epilog=EPILOG)
def check(
    file: Annotated[
        Path | None, typer.Argument(help="The rules file; by default the one in force.", show_default=False)
    ] = None,
    state: State = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Check a rules file; exit code 2 and the exact place if something is wrong."""
    from callosum.cli import show
    from callosum.cli.text import clean
    from callosum.rules import RuleSet

    settings = settings_of(state, None, config)
    path = file or settings.rules or settings.state / "tiers.json"
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
        (
            show.cell(place),
            show.cell(rule.name, limit=50),
            show.tier(rule.tier),
            show.cell(", ".join(rule.tools), limit=80),
            show.cell("  ".join(one.key for one in rule.keys), limit=100),
        )
        for place, rule in enumerate(rules.rules[:own])
    ]
    if rows:
        show.put(show.table("In this order, first match wins", (">#", "name", ">tier", "tools", "keys"), rows))
