"""All commands: their names, groups and order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import copy
from typing import Annotated

import typer

from callosum.cli import (
    approvals,
    brief,
    commitments,
    console,
    decide,
    demo,
    doctor,
    events,
    hook,
    install,
    journal,
    mcp,
    merges,
    report,
    rules,
    search,
    serve,
    status,
    stdio,
    store,
    token,
    watch,
)
from callosum.cli.codes import EPILOG
from callosum.cli.options import flag
from callosum.programs import HOSTS

app = typer.Typer(
    name="callosum",
    help="The gate between an AI agent's tool call and its execution.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_INSPECT = "Inspect"
_DECIDE = "Decide (a person, at a terminal)"
_SERVE = "Serve (for sessions of other processes and machines)"
_CHECK = "Try and check"
_HOSTS = f"Hosts ({', '.join(host.title for host in HOSTS)}, MCP)"

app.command(rich_help_panel=_INSPECT, epilog=EPILOG)(status.status)
app.command(rich_help_panel=_INSPECT, epilog=EPILOG)(status.leases)
app.command(rich_help_panel=_INSPECT, epilog=EPILOG)(commitments.commitments)
app.command(rich_help_panel=_INSPECT, epilog=EPILOG)(journal.journal)
app.command(rich_help_panel=_INSPECT, epilog=EPILOG)(report.report)
app.command(rich_help_panel=_INSPECT, epilog=EPILOG)(brief.brief)
app.command(rich_help_panel=_INSPECT, epilog=EPILOG)(watch.watch)
app.command(rich_help_panel=_INSPECT, epilog=EPILOG)(console.console)
app.command(rich_help_panel=_INSPECT, epilog=EPILOG, cls=search.Words)(search.search)
app.command(rich_help_panel=_INSPECT, epilog=EPILOG)(events.events)
app.command(rich_help_panel=_INSPECT, epilog=EPILOG)(decide.explain)
app.command(rich_help_panel=_DECIDE, epilog=EPILOG)(approvals.approve)
app.command(rich_help_panel=_DECIDE, epilog=EPILOG)(approvals.deny)
app.command(rich_help_panel=_DECIDE, epilog=EPILOG)(approvals.resolve)
app.command(rich_help_panel=_DECIDE, epilog=EPILOG)(approvals.release)
app.command(rich_help_panel=_DECIDE, epilog=EPILOG)(approvals.off)
app.command(rich_help_panel=_DECIDE, epilog=EPILOG)(approvals.on)
app.command(rich_help_panel=_SERVE, epilog=EPILOG)(serve.serve)
app.command(rich_help_panel=_SERVE, epilog=EPILOG)(serve.stop)
app.command(rich_help_panel=_SERVE, epilog=EPILOG)(stdio.stdio)
app.add_typer(merges.app, name="merges", rich_help_panel=_DECIDE)
app.add_typer(store.app, name="store", rich_help_panel=_SERVE)
app.add_typer(token.app, name="token", rich_help_panel=_SERVE)
app.command(rich_help_panel=_HOSTS, epilog=EPILOG)(install.install)
app.command(rich_help_panel=_HOSTS, epilog=EPILOG)(install.uninstall)
app.command(rich_help_panel=_HOSTS, epilog=EPILOG)(hook.hook)
app.command(rich_help_panel=_HOSTS, epilog=EPILOG)(mcp.mcp)
app.command(rich_help_panel=_CHECK, epilog=EPILOG)(demo.demo)
app.command(rich_help_panel=_CHECK, epilog=EPILOG)(doctor.doctor)
app.add_typer(rules.app, name="rules", rich_help_panel=_CHECK)


def app_for(words: Sequence[str]) -> typer.Typer:
    """Return only the command that the words begin with, or all commands if they begin with none.

    typer builds every command it is given at each start. Building all of them takes as long as most commands run.
    """
    named = words[0] if words else ""
    commands = [one for one in app.registered_commands if one.callback and _name(one.callback) == named]
    groups = [one for one in app.registered_groups if one.name == named]
    if not commands and not groups:
        return app
    chosen = copy(app)
    chosen.registered_commands, chosen.registered_groups = commands, groups
    return chosen


def _name(command: Callable[..., object]) -> str:
    return command.__name__.replace("_", "-")


def _version(wanted: bool) -> None:
    if wanted:
        from callosum import __version__

        sys.stdout.write(f"callosum {__version__}\n")
        raise typer.Exit


@app.callback()
def callosum(
    version: Annotated[bool, flag("--version", "Show the version and exit.", callback=_version, is_eager=True)] = False,
) -> None:
    """The gate between an AI agent's tool call and its execution."""  # noqa: D401 - the first line of the help
