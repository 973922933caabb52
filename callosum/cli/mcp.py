"""``callosum mcp``: an MCP server with the gate in front of its tools, or the gate itself as an MCP server."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from callosum.cli.options import Config, Namespace, State, option, settings_of
from callosum.errors import ConfigError


def mcp(  # noqa: PLR0917  typer names them all
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND ARGS...", help="Command of the server to wrap, as its host would start it."),
    ] = None,
    url: Annotated[str | None, option("--url", "URL", "Address of the server to wrap (Streamable HTTP).")] = None,
    header: Annotated[
        list[str] | None,
        option("--header", "'NAME: VALUE'", "Header for each request to --url; ${VAR} is read from the environment."),
    ] = None,
    header_env: Annotated[
        list[str] | None,
        option("--header-env", "NAME=VARIABLE", "Header whose value comes from an environment variable."),
    ] = None,
    transport: Annotated[
        str | None,
        option("--transport", "TYPE", "Transport of --url: Streamable HTTP, by one of its names in hosts' settings."),
    ] = None,
    name: Annotated[
        str, option("--name", "NAME", "Server name in its tools' names (default: the name it reports).")
    ] = "",
    instance: Annotated[
        str | None, option("--instance", "NAME", "Instance that acts (default: CALLOSUM_INSTANCE).")
    ] = None,
    session: Annotated[
        str | None, option("--session", "NAME", "Session that acts (default: the host's process).")
    ] = None,
    gate: Annotated[
        str | None, option("--gate", "URL", "Gate to ask (default: CALLOSUM_URL, otherwise a local one).")
    ] = None,
    state: State = None,
    namespace: Namespace = None,
    config: Config = None,
) -> None:
    """Wrap an MCP server: same tools, same answers, every call through the gate.

    Without a server to wrap, serve tools with which an agent asks what the
    others do and who holds what, and takes, awaits and releases leases.
    """
    from callosum.hosts.mcp.headers import TRANSPORTS, read_headers
    from callosum.hosts.mcp.identity import NameSources
    from callosum.hosts.mcp.wrap import Wrap, check_gate, run_command, run_url

    settings = settings_of(state, namespace, config, project=False)  # the host chose the folder
    names = NameSources(
        given_instance=instance,
        given_session=session,
        usual_instance=settings.instance,
        usual_session=os.environ.get("CALLOSUM_SESSION") or None,
        namespace=settings.namespace,
    )
    wrap = Wrap(settings=settings, names=names, name=name, gate=gate)
    if command and url:
        raise typer.BadParameter("name either a command or an address")
    if transport is not None and transport not in TRANSPORTS:
        raise typer.BadParameter(f"expected one of {', '.join(TRANSPORTS)}", param_hint="--transport")
    if (header or header_env) and not url:
        raise typer.BadParameter("headers are for a server by its address", param_hint="--header")
    check_gate(wrap)
    if url:
        code = run_url(wrap, url, read_headers(header or (), header_env or (), os.environ))
    elif command:
        code = run_command(wrap, command, os.environ)
    else:
        try:
            from callosum.hosts.mcp.server import serve
        except ImportError as missing:
            raise ConfigError(
                f"{missing.name} is not installed: pip install 'callosum-protocol[mcp]'", at="callosum mcp"
            ) from None
        code = serve(wrap)
    raise typer.Exit(code)
