"""``callosum mcp -- COMMAND`` and ``callosum mcp --url URL``: a server with the gate before its tools."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from callosum.errors import ConfigError
from callosum.hosts.mcp.identity import NameSources, named_by_command, named_by_url, parent_process, server_name
from callosum.hosts.mcp.line_io import LineWriter
from callosum.settings import Settings

if TYPE_CHECKING:
    from types import FrameType

    from callosum.client.client import CallosumClient
    from callosum.hosts.mcp.gate_client import GateClient
    from callosum.hosts.mcp.proxy import Proxy
    from callosum.model import Call


class Wrap(Struct, frozen=True, kw_only=True):
    """What a wrap is told. ``settings`` are those of the local gate; ``gate`` is the address of another one."""

    settings: Settings
    names: NameSources
    name: str = ""
    gate: str | None = None


def client_of(wrap: Wrap) -> CallosumClient:
    """A client of the gate that is named, else of the local one, which the first call starts.

    Raises ``ConfigError`` for an address that is none.
    """
    url = wrap.gate or os.environ.get("CALLOSUM_URL")
    if url:
        from callosum.client.client import CallosumClient  # noqa: PLC0415 - while the server starts

        return CallosumClient(url, state=wrap.settings.state)
    from callosum.client.local import local_client  # noqa: PLC0415

    return local_client(wrap.settings.state)


def check_gate(wrap: Wrap) -> None:
    """Raises ``ConfigError`` for an address of the gate that is none, before anything is started."""
    from callosum.client.transport import Address  # noqa: PLC0415

    for url, place in ((wrap.gate, "--gate"), (os.environ.get("CALLOSUM_URL"), "CALLOSUM_URL")):
        try:
            if url:
                Address(url)
        except ValueError as error:
            raise ConfigError(str(error), at=place) from None


def judge_of(wrap: Wrap, call: Call) -> tuple[int, str]:
    """How grave the rules take a call to be, and what it does. Loads them, which only a missing gate makes needed."""
    from callosum.rulebook import Rulebook  # noqa: PLC0415

    found = Rulebook.of(wrap.settings).current().classify(call)
    return found.tier, found.effect


def run_command(wrap: Wrap, command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Runs a server's command with its calls gated; returns the exit code. Raises ``OSError`` if it cannot start."""
    from callosum.hosts.mcp.child import Child, end_like  # noqa: PLC0415 - an address needs none of it

    out = _own_output()
    client = LineWriter(out)
    child = Child(command, environ, client)  # at once: it starts while the rest is loaded
    keeper, tap = _tap(wrap, client, child.write, otherwise=named_by_command(command), cwd=str(Path.cwd()))
    code = child.run(tap, 0)
    tap.close()
    keeper.close()
    return end_like(code)


def run_url(wrap: Wrap, url: str, headers: Mapping[str, str], *, old: bool = False) -> int:
    """Speaks for the server at an address with its calls gated; returns the exit code. Raises ``ConfigError``.

    ``old``: it is known to speak the transport of 2024; else that is found out.
    """
    try:
        from callosum.hosts.mcp.remote import HttpUpstream  # noqa: PLC0415 - a command needs no HTTP
    except ImportError as missing:
        raise ConfigError(
            f"{missing.name} is not installed: pip install 'callosum-protocol[mcp]'", at="callosum mcp --url"
        ) from None
    client = LineWriter(_own_output())
    remote = HttpUpstream(url, headers, client, old=old)
    keeper, tap = _tap(wrap, client, remote.send, otherwise=named_by_url(url), cwd=None)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        code = remote.run(tap, 0)
    except _Stopped as stopped:
        remote.stop()
        tap.lost()
        code = 128 + stopped.number
    tap.close()
    keeper.close()
    return code


class _Stopped(BaseException):
    """A signal asks for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _stop(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise _Stopped(number)


def _tap(
    wrap: Wrap, to_client: LineWriter, to_server: Callable[[bytes], object], *, otherwise: str, cwd: str | None
) -> tuple[GateClient, Proxy]:
    from callosum.hosts.mcp.gate_client import GateClient  # noqa: PLC0415
    from callosum.hosts.mcp.proxy import Proxy, ProxyConfig  # noqa: PLC0415
    from callosum.process import this_process  # noqa: PLC0415

    logging.basicConfig(format="callosum: %(message)s")

    def client() -> CallosumClient:
        made = client_of(wrap)
        made.here = cwd is not None  # the tools of a server at an address may run anywhere
        return made

    keeper = GateClient(client, lambda call: judge_of(wrap, call))
    threading.Thread(target=keeper.warm, name="callosum-warm", daemon=True).start()
    wrapped = ProxyConfig(
        names=wrap.names,
        started_by=parent_process(),
        server=server_name(wrap.name),
        otherwise=otherwise,
        host=this_process(),
        cwd=cwd,
    )
    return keeper, Proxy(keeper, wrapped, to_client=to_client, to_server=to_server)


def _own_output() -> int:
    """The real standard output; whatever else prints goes to standard error, so that the messages stay alone."""
    out = os.dup(1)
    with suppress(OSError):
        os.dup2(2, 1)
    return out
