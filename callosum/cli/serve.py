"""``callosum serve`` and ``callosum stop``: the gate as a server."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from callosum import launch
from callosum.cli import show
from callosum.cli.options import Config, InFolder, Json, State, flag, option, settings_of
from callosum.errors import ConfigError

if TYPE_CHECKING:
    from callosum.server.listeners import RunningServer
    from callosum.settings import Settings

START_SECONDS = 15.0
"""Seconds within which a server in the background must answer."""
STOP_SECONDS = 30.0
"""Seconds to wait for servers that were told to stop, after the time in which they still answer (``--drain``)."""


def serve(  # noqa: PLR0917  typer names them all
    host: Annotated[str | None, option("--host", "ADDRESS", "Address to listen on (default 127.0.0.1).")] = None,
    port: Annotated[int | None, option("--port", "N", "Port to listen on (default 7700; 0 takes a free one).")] = None,
    socket: Annotated[Path | None, option("--socket", "PATH", "Unix socket instead of host and port.")] = None,
    background: Annotated[bool, flag("--background", "Start it and return; `callosum stop` stops it.")] = False,
    idle: Annotated[
        float | None,
        option("--idle", "SECONDS", "Seconds without a request, and with nothing open, after which it stops.", min=1),
    ] = None,
    drain: Annotated[
        float,
        option(
            "--drain",
            "SECONDS",
            "Seconds to keep answering with a failing /health after a stop request, so that a balancer notices.",
            min=0,
            max=600,
        ),
    ] = 0.0,
    tls_cert: Annotated[Path | None, option("--tls-cert", "FILE", "Certificate chain (PEM).")] = None,
    tls_key: Annotated[Path | None, option("--tls-key", "FILE", "Private key of the certificate (PEM).")] = None,
    insecure: Annotated[
        bool, flag("--insecure", "Let other machines connect without TLS (a proxy in front encrypts).")
    ] = False,
    allow_host: Annotated[
        list[str] | None, option("--allow-host", "NAME", "Additional host name that clients use.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, option("--allow-origin", "ORIGIN", "Additional origin of web pages that may use it.")
    ] = None,
    console: Annotated[
        str | None, option("--console", "URL", "Serve the console at this address to people with a token.")
    ] = None,
    store: Annotated[
        str | None, option("--store", "URL", "Store that servers share, such as postgresql://db/agents.")
    ] = None,
    state: State = None,
    config: Config = None,
    ready_fd: Annotated[int | None, typer.Option("--ready-fd", hidden=True)] = None,
    recorded: Annotated[
        bool, flag("--recorded", "Read the callosum.toml that `callosum install` recorded.", hidden=True)
    ] = False,
) -> None:
    """Serve the gate to sessions of other processes and machines, until SIGTERM or Ctrl-C."""
    if recorded and state is not None and config is None and not os.environ.get("CALLOSUM_CONFIG"):
        found = launch.recorded_path(str(state), "config")
        config = Path(found) if found is not None else None
    settings = settings_of(
        state,
        None,
        config,
        store=store,
        server_host=host,
        server_port=port,
        server_socket=socket,
        server_tls_cert=tls_cert,
        server_tls_key=tls_key,
        server_hosts=allow_host or None,
        server_origins=allow_origin or None,
        server_console=console,
    )
    if socket is None and (host is not None or port is not None):
        settings = msgspec.structs.replace(settings, server_socket=None)
    if background:
        _in_background(settings)
        return
    if ready_fd is not None:
        os.chdir(launch.NEUTRAL)  # all paths in the settings are absolute by now
    _serve(settings, insecure=insecure, idle=idle, drain=drain, ready_fd=ready_fd)


def _serve(settings: Settings, *, insecure: bool, idle: float | None, drain: float, ready_fd: int | None) -> None:

    try:
        from callosum.server.run import ServerOptions
        from callosum.server.run import serve as run
    except ImportError as missing:
        raise ConfigError(
            f"{missing.name} is not installed: pip install 'callosum-protocol[server]'", at="callosum serve"
        ) from None
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    options = ServerOptions(
        host=settings.server_host,
        port=settings.server_port,
        socket=settings.server_socket,
        tls_cert=settings.server_tls_cert,
        tls_key=settings.server_tls_key,
        insecure=insecure,
        allow_hosts=settings.server_hosts,
        allow_origins=settings.server_origins,
        console=settings.server_console,
        idle=idle,
        drain=drain,
    )

    def ready(address: str) -> None:
        if ready_fd is not None:
            os.write(ready_fd, address.encode() + b"\n")
            os.close(ready_fd)
        else:
            show.line(f"Callosum listens on {address}", "green")
            if not address.startswith("unix:"):
                show.line(f"state in {settings.state} · {address}/docs tells the endpoints · Ctrl-C ends it")

    run(settings, options, ready)


def _in_background(settings: Settings) -> None:
    from callosum.server.listeners import AlreadyServed, heard, running

    read, write = os.pipe()
    log = settings.state / "server.log"
    settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    arguments = [argument for argument in sys.argv[1:] if argument != "--background"]
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab") as errors:
        child = subprocess.Popen(  # noqa: S603 - ourselves
            launch.command(*arguments, "--ready-fd", str(write)),
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            pass_fds=(write,),
            start_new_session=True,
            # the person who starts this server sets its settings
            env=launch.environment(os.environ, {k: v for k, v in os.environ.items() if k.startswith("CALLOSUM_")}),
        )
    os.close(write)
    address = heard(read, START_SECONDS)
    if address:
        show.line(f"Callosum listens on {address} (process {child.pid}); `callosum stop` ends it", "green")
        return
    code = child.poll()
    others = [one for one in running(settings.state) if one.process.pid != child.pid]
    if settings.server_socket is not None and any(one.address == f"unix:{settings.server_socket}" for one in others):
        raise AlreadyServed(f"unix:{settings.server_socket}")
    if code is None:
        child.terminate()
    last = log.read_text("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
    raise ConfigError(f"the server did not start: {last[0]}", at=str(log))


def stop(settings: InFolder, json: Json = False) -> bool:
    """Stop the servers of this state folder. They first answer the requests they have accepted."""
    found, left, patience = end(settings)
    if json:
        told: list[dict[str, Any]] = [
            {"address": one.address, "pid": one.process.pid, "stopped": one not in left} for one in found
        ]
        show.json({"servers": told})
    for one in () if json else found:
        if one in left:
            show.line(f"{one.address} (process {one.process.pid}) is still answering after {patience:.0f} s", "yellow")
        else:
            show.line(f"{one.address} (process {one.process.pid}) has stopped")
    if not found and not json:
        show.line("no server runs over this state folder")
    return bool(found) and not left


def end(settings: Settings) -> tuple[list[RunningServer], list[RunningServer], float]:
    """Stop the servers of a state folder. Return them, those that still answer, and the longest wait in seconds."""
    from callosum.process import alive
    from callosum.server.listeners import running

    found = [one for one in running(settings.state) if alive(one.process)]
    for one in found:
        os.kill(one.process.pid, signal.SIGTERM)
    patience = STOP_SECONDS + max((one.drain for one in found), default=0.0)
    ends = time.monotonic() + patience
    while any(alive(one.process) for one in found) and time.monotonic() < ends:
        time.sleep(0.02)
    return found, [one for one in found if alive(one.process)], patience
