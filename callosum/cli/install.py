"""``callosum install`` and ``callosum uninstall``: put the gate in front of a host, and remove it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callosum.cli import show
from callosum.cli.codes import NO
from callosum.cli.options import InNamespace, flag, one_of, open_gate, option
from callosum.cli.person import login
from callosum.cli.times import clock
from callosum.errors import ConfigError
from callosum.loopback import make_token
from callosum.person import refuse_agents
from callosum.programs import NAMED, WITH_HOOKS

if TYPE_CHECKING:
    from callosum.hosts.install import InstallPlan
    from callosum.settings import Settings

_HOSTS = (*NAMED, "mcp")
_BY_URL = [host.title for host in WITH_HOOKS.values() if host.asks_urls]


def _begun(begun: str) -> list[str]:
    """Complete the name of a host without loading anything heavy."""
    return [host for host in _HOSTS if host.startswith(begun)]


Host = Annotated[str, typer.Argument(metavar="HOST", help=f"{one_of(_HOSTS)}.", autocompletion=_begun)]
File = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Settings file, if it is not the usual one.")]
Project = Annotated[Path | None, option("--project", "DIR", "Use this project's settings instead of the user's.")]
DryRun = Annotated[bool, flag("--dry-run", "Show what would change without changing anything.")]
Yes = Annotated[bool, flag("--yes -y", "Do not ask for confirmation.")]
Http = Annotated[
    str | None,
    option("--http", "URL", f"{one_of(_BY_URL)}: ask this machine's server itself. While it is down, no tool runs."),
]
Url = Annotated[str | None, option("--url", "URL", "Ask this server instead of a gate on this machine.")]
TokenFile = Annotated[
    Path | None, option("--token-file", "FILE", "File with the token for --url; only you may read it.")
]
CaCert = Annotated[Path | None, option("--cacert", "FILE", "Certificates to trust instead of the system's.")]


def install(  # noqa: PLR0917  typer names them all
    settings: InNamespace,
    host: Host,
    file: File = None,
    project: Project = None,
    http: Http = None,
    url: Url = None,
    token_file: TokenFile = None,
    cacert: CaCert = None,
    observe: Annotated[
        bool, flag("--observe", "Stop nothing for 30 days; callosum report then shows what would have been stopped.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Put the gate in front of a host: show the change to its settings, ask, and write it."""
    from callosum.hosts import install as hosts
    from callosum.hosts.files import NotPlainJson
    from callosum.hosts.remote import remote_of
    from callosum.hosts.setup import InstallTarget

    if url is None and (token_file or cacert):
        raise ConfigError("is for a server: name it with --url", at="--token-file" if token_file else "--cacert")
    if observe and (url or http):
        raise ConfigError("is for the gate of this machine: say callosum off where the server runs", at="--observe")
    if observe and not dry_run:
        refuse_agents(None, "only a person can have the gate observe")
    remote = remote_of(url, _absolute(token_file), _absolute(cacert)) if url is not None else None
    where = InstallTarget.here(project=_absolute(project), file=_absolute(file), url=http, remote=remote)
    try:
        plan = hosts.plan_install(host, settings, where)
    except NotPlainJson as refusal:  # no program can change the file: a person has to
        if refusal.entries:
            typer.echo(f"Have these members of {refusal.path} read as follows:\n\n{refusal.entries}\n")
        raise
    if http and not dry_run:
        make_token(settings.state)  # the entries carry it
        plan = hosts.plan_install(host, settings, where)
    if not plan.changes_something:
        typer.echo(f"Nothing to do: {_called(host)} asks the gate already.")
        if observe and not dry_run:
            _observe(settings)
    elif _agreed(plan, dry_run=dry_run, yes=yes):
        if observe:
            _observe(settings)
        hosts.install(plan, settings)
        whom = url or http or "the gate"
        since = NAMED[host].since if host in NAMED else "from its next start on"
        typer.echo(f"Done. {_called(host, first=True)} asks {whom} {since}; `callosum doctor` proves it.")
    if not dry_run:
        for sentence in plan.then:
            typer.echo(sentence)


_OBSERVE = 30 * 86_400
"""Seconds for which ``--observe`` makes the gate observe."""


def _observe(settings: Settings) -> None:
    """Make the gate stop nothing for 30 days, for every host of the state folder."""
    with open_gate(settings, create=True) as gate:
        until = gate.observe(_OBSERVE, by=login(), namespace=settings.namespace)
    show.line(
        f"The gate only observes until {clock(until or 0)}: for every host it stops nothing and journals all.", "yellow"
    )
    show.line("See what it would have stopped with `callosum report`; `callosum on` lets it stop calls from then on.")


def uninstall(
    settings: InNamespace,
    host: Host,
    file: File = None,
    project: Project = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove the gate from a host: its settings become what they were."""
    from callosum.hosts import install as hosts
    from callosum.hosts.setup import InstallTarget

    where = InstallTarget.here(project=_absolute(project), file=_absolute(file))
    plan = hosts.plan_uninstall(host, settings, where)
    if not plan.changes_something:
        typer.echo(f"Nothing to do: {_called(host)} does not ask the gate.")
    elif _agreed(plan, dry_run=dry_run, yes=yes):
        hosts.uninstall(plan, settings)
        typer.echo(f"Done. {_called(host, first=True)} does not ask the gate any more, from its next session on.")


def _called(host: str, *, first: bool = False) -> str:
    return f"{'The' if first else 'the'} host of these MCP servers" if host == "mcp" else host


def _agreed(plan: InstallPlan, *, dry_run: bool, yes: bool) -> bool:
    """Show the plan, without secrets. Return True if it is to be carried out."""
    from callosum.redact import redact_text

    for change in plan.changes:
        if summary := change.summary():
            show.line(summary, "bold")
    for change in plan.changes:
        for line in redact_text(change.difference()).splitlines():
            show.line(line, {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], ""))
    if plan.writes_hook and plan.hook is not None:
        show.line(f"writes {plan.hook.path} ({plan.hook.kind})", "dim")
    if dry_run:
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        typer.echo("Nothing was written: there is no terminal to ask at. Say --yes.", err=True)
        raise typer.Exit(NO)
    if typer.confirm("Write this?"):
        return True
    typer.echo("Nothing was written.")
    raise typer.Exit(NO)


def _absolute(path: Path | None) -> Path | None:
    return path.expanduser().absolute() if path is not None else None
