"""Decide where a request comes from: the one rule for every endpoint that reads files or looks at processes.

A request comes from here, so that the paths and pids in it mean this machine's files and processes, only if all of this
holds:

1. It arrives on the gate's own Unix socket, or on the loopback with the machine's own token. No other token counts.
2. No header says that a proxy forwards it.
3. The process at the other end, as the kernel names it, is near (``callosum.loopback``): it belongs to the gate's user,
   and has the gate's root folder and mount namespace. A process that the request names proves nothing.

For any other request nothing is read, copied or shown, and none of its processes are looked up. The process at the
other end is looked up once for each connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import MutableMapping
from typing import Any, Final

from callosum.loopback import is_from_near, is_near
from callosum.server.tokens import MACHINE
from callosum.sockets import peer

_UNIX: Final = getattr(socket, "AF_UNIX", None)
_FORWARDED: Final = frozenset(
    b"forwarded via x-forwarded x-forwarded-for x-forwarded-host x-forwarded-proto x-forwarded-port x-forwarded-server "
    b"x-forwarded-by x-forwarded-prefix x-forwarded-scheme x-forwarded-ssl x-forwarded-user x-original-forwarded-for "
    b"x-real-ip x-client-ip x-cluster-client-ip true-client-ip cf-connecting-ip fly-client-ip fastly-client-ip "
    b"x-envoy-external-address x-original-host x-original-url client-ip".split()
)
"""Headers that proxies add."""


class Peer:
    """The process at the other end of a connection. ``near`` is None until it has been looked up."""

    __slots__ = ("by_socket", "near")

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        """Look the process up if the connection is a Unix socket: it may end before its request is read."""
        channel = transport.get_extra_info("socket")
        self.by_socket = channel is not None and channel.family == _UNIX
        self.near: bool | None = None
        if self.by_socket:
            found = peer(channel)
            self.near = found is not None and found[1] == os.geteuid() and is_near(found[0])


def is_direct(scope: MutableMapping[str, Any]) -> bool:
    """Return True if a request arrives on a Unix socket or the loopback, and no proxy says that it forwards it."""
    client = scope.get("client")
    address = client[0] if client else ""
    local = not address or address == "::1" or address.startswith(("127.", "::ffff:127."))
    return local and _FORWARDED.isdisjoint(dict(scope["headers"]))


async def is_here(scope: MutableMapping[str, Any]) -> bool:
    """Return True if a request comes from here, as the docstring of this module says."""
    found: Peer | None = scope.get("callosum.peer")
    if found is None or found.near is False or not is_direct(scope):
        return False
    if found.by_socket:
        return True
    token = scope.get("callosum.token")
    if token is None or token.name != MACHINE:
        return False
    if found.near is None:
        found.near = await asyncio.to_thread(is_from_near, scope["client"], scope["server"])
    return found.near
