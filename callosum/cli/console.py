"""``callosum console``: open the page on which a person sees all sessions and answers what waits."""

from __future__ import annotations

import os
import secrets
import time
import webbrowser
from contextlib import contextmanager, suppress
from html import escape
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import msgspec

from callosum.cli import show
from callosum.cli.options import InFolder, flag, open_gate
from callosum.cli.person import require_person
from callosum.cli.text import clean
from callosum.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from callosum.client.transport import ResponseStream
    from callosum.settings import Settings

_SECONDS = 15.0
"""Seconds within which the server must answer."""
_HOURS = 13 * 3600.0


def console(
    settings: InFolder,
    browser: Annotated[
        bool, flag("--browser/--no-browser", "Open it in the browser, or only print the file that opens it.")
    ] = True,
) -> None:
    """Open the console in the browser: what all sessions do, and what waits for you. Ctrl-C closes it.

    Approving a call of tier 4 requires a code, which is shown here.
    """
    keep_open(settings, browser=browser)


def keep_open(settings: Settings, *, browser: bool = True) -> None:
    """Open the console of a state folder and keep it open until Ctrl-C or until the server ends.

    Raises ``NotAPerson``, and ``ConfigError`` if it cannot be opened.
    """
    with open_gate(settings, create=True) as gate:
        by = require_person(gate.store, "open the console")
    try:
        from callosum.console.access import leave_link
    except ImportError as missing:
        raise ConfigError(
            f"{missing.name} is not installed: pip install 'callosum-protocol[server]'", at="callosum console"
        ) from None
    secret, terminal = leave_link(settings.state, by, time.time())
    address = _address(settings, terminal)
    door = f"{address}/console/open?link={quote(secret)}"
    with _page(settings.state, door) as page, _lines(address, terminal) as lines:
        opened = browser and webbrowser.open(page.as_uri())
        show.line("The console is open in your browser." if opened else f"Open this file in your browser: {page}")
        show.line("Ctrl-C closes it. A code for an answer of tier 4 is shown here:", "dim")
        try:
            for line in lines:
                show.line(clean(line, 200), "bold")
        except KeyboardInterrupt:
            return
    show.line("The server has ended.")


def _address(settings: Settings, terminal: str) -> str:
    """Return the console's address at a server of this state folder, or at the local gate if none runs.

    ``terminal`` is this terminal's secret. Raises ``ConfigError`` if no server answers.
    """
    from callosum.client import local
    from callosum.client.transport import Transport, TransportError
    from callosum.server.listeners import running
    from callosum.sockets import socket_path

    addresses = [one.address for one in running(settings.state)]
    if not addresses:
        local.start(settings.state)
        addresses = [f"unix:{socket_path(settings.state)}"]

    asked = msgspec.json.encode({"terminal": terminal})
    fault = "no server answers"
    for address in addresses:
        transport = Transport(address, verify=False)
        try:
            answer = transport.request("POST", "/console", asked, deadline=time.monotonic() + _SECONDS)
        except TransportError as error:
            fault = str(error)
            continue
        finally:
            transport.close()
        said = msgspec.json.decode(answer.body, type=dict[str, object])
        if answer.status == 200:
            return str(said["address"])
        fault = str(said.get("error", answer.status))
    raise ConfigError(fault, at="console")


@contextmanager
def _page(state: Path, address: str) -> Iterator[Path]:
    """Create a private page that leads to the console, so that no process list shows the link."""
    from callosum.console.access import FOLDER

    path = state.absolute() / FOLDER / f"open-{secrets.token_hex(8)}.html"
    text = (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0;url={escape(address)}"><title>Callosum</title>'
        f'<a href="{escape(address)}">Open the console</a>'
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _lines(address: str, terminal: str) -> Iterator[Iterator[str]]:
    """Yield what the server shows in this terminal. The console stays open as long as this is read."""
    from callosum.client.transport import Transport, TransportError

    def said(stream: ResponseStream) -> Iterator[str]:
        ends, rest = time.monotonic() + _HOURS, b""
        with suppress(TransportError):
            while data := stream.read(ends):
                *lines, rest = (rest + data).split(b"\n")
                yield from (line.decode() for line in lines if line)

    transport = Transport(address)
    try:
        header = f"X-Callosum-Terminal: {terminal}"
        stream = transport.open("/console/terminal", [header], deadline=time.monotonic() + _SECONDS)
        if stream.status != 200:
            raise ConfigError("the server does not know this terminal", at="console")
        try:
            yield said(stream)
        finally:
            stream.close()
    finally:
        transport.close()
