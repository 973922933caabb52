"""All commands: their names, groups and order."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Annotated, Final

import typer

from callosum.cli.codes import EPILOG
from callosum.cli.options import flag, with_settings
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
_GROUPS: Final[Mapping[str, tuple[str, str, str]]] = {
    "merges": (
        _DECIDE,
        "list show undo",
        "List writes that were merged with another session's changes, and restore their texts.",
    ),
    "store": (_SERVE, "check migrate copy accept restore", "The store behind the gate: check, migrate, copy."),
    "token": (_SERVE, "add list remove rotate", "The tokens of the server's clients."),
    "rules": (_CHECK, "check suggest approvals revoke gaps try", "The rules that classify calls."),
}
"""The groups of commands, each a module: its panel, the functions that are its commands, and its help."""


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
            _add(app, import_module(f"callosum.cli.{module or name}"), name, panel)
    for name, (panel, verbs, help) in _GROUPS.items():
        if not known or name == first:
            part = import_module(f"callosum.cli.{name}")
            alone = getattr(part, name, None)  # what the group does without a command of its own
            group = typer.Typer(help=help, epilog=EPILOG, no_args_is_help=alone is None)
            if alone is not None:
                group.callback(invoke_without_command=True)(with_settings(alone))
            for verb in verbs.split():
                _add(group, part, verb)
            app.add_typer(group, name=name, rich_help_panel=panel)
    return app


def _add(app: typer.Typer, part: ModuleType, name: str, panel: str | None = None) -> None:
    """Add the function of that name; one whose name Python or the module has already ends with an underscore."""
    function = getattr(part, f"{name}_", None) or getattr(part, name)
    kind = getattr(part, "Words", None)  # of a command that reads its words by itself
    app.command(name, rich_help_panel=panel, epilog=EPILOG, cls=kind)(with_settings(function))


def _version(wanted: bool) -> None:
    if wanted:
        from callosum import __version__

        sys.stdout.write(f"callosum {__version__}\n")
        raise typer.Exit


def callosum(
    version: Annotated[bool, flag("--version", "Show the version and exit.", callback=_version, is_eager=True)] = False,
) -> None:
    """The gate between an AI agent's tool call and its execution."""  # noqa: D401 - the first line of the help
