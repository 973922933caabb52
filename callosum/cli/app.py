"""All commands: their names, groups and order."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Final

import typer

from callosum.cli.codes import EPILOG
from callosum.cli.options import flag
from callosum.programs import HOSTS

_DECIDE: Final = "Decide (a person, at a terminal)"
_SERVE: Final = "Serve (for sessions of other processes and machines)"
_HOSTS: Final = f"Hosts ({', '.join(host.title for host in HOSTS)}, MCP)"
_CHECK: Final = "Try and check"
_COMMANDS: Final[Mapping[str, str]] = {
    "Inspect": ("status status.leases commitments journal report brief watch console search events decide.explain"),
    _DECIDE: "approvals.approve approvals.deny approvals.resolve approvals.release approvals.off approvals.on",
    _SERVE: "serve serve.stop stdio",
    _HOSTS: "install install.uninstall hook mcp",
    _CHECK: "demo doctor",
}
"""The commands of each panel of the help, each a function of the module before the dot or of the module of its name."""
_GROUPS: Final[Mapping[str, str]] = {"merges": _DECIDE, "store": _SERVE, "token": _SERVE, "rules": _CHECK}
"""The groups of commands, each the app of a module, with their panels."""


def app_for(words: Sequence[str]) -> typer.Typer:
    """Return only the command that the words begin with, or all commands if they begin with none.

    Loading and building all of them takes as long as most commands run.
    """
    app = typer.Typer(
        name="callosum",
        help="The gate between an AI agent's tool call and its execution.",
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(callosum)
    commands = [(*place.rpartition("."), panel) for panel, places in _COMMANDS.items() for place in places.split()]
    first = words[0] if words else ""
    known = first in _GROUPS or first == "--version" or any(first == name for _, _, name, _ in commands)
    for module, _, name, panel in commands:
        if not known or name == first:
            part = import_module(f"callosum.cli.{module or name}")
            kind = getattr(part, "Words", None)  # of a command that reads its words by itself
            app.command(rich_help_panel=panel, epilog=EPILOG, cls=kind)(getattr(part, name))
    for name, panel in _GROUPS.items():
        if not known or name == first:
            app.add_typer(import_module(f"callosum.cli.{name}").app, name=name, rich_help_panel=panel)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from callosum import __version__

        sys.stdout.write(f"callosum {__version__}\n")
        raise typer.Exit


def callosum(
    version: Annotated[bool, flag("--version", "Show the version and exit.", callback=_version, is_eager=True)] = False,
) -> None:
    """The gate between an AI agent's tool call and its execution."""  # noqa: D401 - the first line of the help
