"""Wrap a server so that the gate decides its tool calls: ``callosum mcp -- COMMAND``, ``callosum mcp --url URL``."""

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
    """Configure a wrap. ``settings`` are those of the local gate; ``gate`` is the URL of another gate."""

    settings: Settings
    names: NameSources
    name: str = ""
    gate: str | None = None


def client_of(wrap: Wrap) -> CallosumClient:
    """Return a client of the named gate, or of the local gate, which the first call starts.

    Raises: ``ConfigError`` for a malformed URL.
    """
    url = wrap.gate or os.environ.get("CALLOSUM_URL")
    if url:
        from callosum.client.client import CallosumClient  # noqa: PLC0415 - imported while the server starts

        return CallosumClient(url, state=wrap.settings.state)
    from callosum.client.local import local_client  # noqa: PLC0415

    return local_client(wrap.settings.state)


def check_gate(wrap: Wrap) -> None:
    """Raise ``ConfigError`` if the URL of the gate is malformed, before anything is started."""
    from callosum.client.transport import GateAddress  # noqa: PLC0415

    for url, source in ((wrap.gate, "--gate"), (os.environ.get("CALLOSUM_URL"), "CALLOSUM_URL")):
        try:
            if url:
                GateAddress(url)
        except ValueError as error:
            raise ConfigError(str(error), at=source) from None


def judge_of(wrap: Wrap, call: Call) -> tuple[int, str]:
    """Return a call's tier and effect by the rules. This loads the rules, which only an unreachable gate requires."""
    from callosum.rulebook import Rulebook  # noqa: PLC0415

    classification = Rulebook.of(wrap.settings).current().classify(call)
    return classification.tier, classification.effect


def run_command(wrap: Wrap, command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a server's command with its calls gated. Return the exit code. Raises ``OSError`` if it cannot start."""
    from callosum.hosts.mcp.child import Child, end_like  # noqa: PLC0415 - not needed for a URL

    out = _own_output()
    client = LineWriter(out)
    child = Child(command, environ, client)  # it starts while the rest is loaded
    gate_client, proxy = _make_proxy(
        wrap, client, child.write, otherwise=named_by_command(command), cwd=str(Path.cwd())
    )
    code = child.run(proxy, 0)
    proxy.close()
    gate_client.close()
    return end_like(code)


def run_url(wrap: Wrap, url: str, headers: Mapping[str, str]) -> int:
    """Stand in for the server at a URL with its calls gated. Return the exit code. Raises ``ConfigError``."""
    try:
        from callosum.hosts.mcp.remote import HttpUpstream  # noqa: PLC0415 - not needed for a command
    except ImportError as missing:
        raise ConfigError(
            f"{missing.name} is not installed: pip install 'callosum-protocol[mcp]'", at="callosum mcp --url"
        ) from None
    client = LineWriter(_own_output())
    remote = HttpUpstream(url, headers, client)
    gate_client, proxy = _make_proxy(wrap, client, remote.send, otherwise=named_by_url(url), cwd=None)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        code = remote.run(proxy, 0)
    except _Stopped as stopped:
        remote.stop()
        proxy.lost()
        code = 128 + stopped.number
    proxy.close()
    gate_client.close()
    return code


class _Stopped(BaseException):
    """Report a signal that asks the wrap to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _stop(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise _Stopped(number)


def _make_proxy(
    wrap: Wrap, to_client: LineWriter, to_server: Callable[[bytes], object], *, otherwise: str, cwd: str | None
) -> tuple[GateClient, Proxy]:
    # Imported before any thread starts: two threads that import parts of one circle at once both fail.
    import callosum.client.client  # noqa: PLC0415
    import callosum.gate.check  # noqa: PLC0415
    import callosum.rulebook  # noqa: F401, PLC0415
    from callosum.hosts.mcp.gate_client import GateClient  # noqa: PLC0415
    from callosum.hosts.mcp.proxy import Proxy, ProxyConfig  # noqa: PLC0415
    from callosum.process import this_process  # noqa: PLC0415

    logging.basicConfig(format="callosum: %(message)s")

    def client() -> CallosumClient:
        made = client_of(wrap)
        made.here = cwd is not None  # the tools of a server at a URL may run anywhere
        return made

    gate_client = GateClient(client, lambda call: judge_of(wrap, call))
    gate_client.warming = threading.Thread(target=gate_client.warm, name="callosum-warm", daemon=True)
    gate_client.warming.start()
    wrapped = ProxyConfig(
        names=wrap.names,
        started_by=parent_process(),
        server=server_name(wrap.name),
        otherwise=otherwise,
        host=this_process(),
        cwd=cwd,
    )
    return gate_client, Proxy(gate_client, wrapped, to_client=to_client, to_server=to_server)


def _own_output() -> int:
    """Return the real standard output. Anything else that prints goes to standard error, apart from the messages."""
    out = os.dup(1)
    with suppress(OSError):
        os.dup2(2, 1)
    return out
