"""Open the console at an address of its own on this machine when a person asks for it.

Browsers do not keep cookies apart by port, so the console has a random host name: a page that an agent serves at
``localhost`` never receives the console's cookie. Browsers resolve names below ``localhost`` to this machine.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import uvicorn

from callosum import standing
from callosum.errors import ConfigError, NotAPerson
from callosum.gate.operations import SERVED, Caller
from callosum.model import GateRequest, Report
from callosum.server.async_gate import ServedGate
from callosum.server.listeners import listen
from callosum.server.protocol import limited
from callosum.server.tokens import Role, Tokens

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from callosum.console.access import Access, ConsoleSession
    from callosum.console.views import Views
    from callosum.console.web import Console
    from callosum.rules import StandingApproval
    from callosum.server.metrics import DecisionTimes
    from callosum.server.security import OnRefused
    from callosum.server.stream import Stream

_NAMESPACES: Final = 8
"""Number of namespaces that stay loaded although no page shows them any more."""
_CONNECTIONS: Final = 256


class _Beside(uvicorn.Server):
    """A second server beside the main one. The main server handles the signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signal handlers unchanged."""
        yield


class ConsoleOpener:
    """Opens a server's console. Belongs to one event loop."""

    def __init__(self, served: ServedGate, stream: Stream, took: Callable[[], DecisionTimes]) -> None:
        """Create the opener. ``took`` returns how long decisions took."""
        self._served, self._stream, self._took = served, stream, took
        self._access: Access | None = None
        self._views: WeakValueDictionary[str, Views] = WeakValueDictionary()
        self._recent: deque[Views] = deque(maxlen=_NAMESPACES)
        """Namespaces that were viewed last. A page keeps the namespace it follows by itself."""
        self._address = ""
        self._server: _Beside | None = None
        self._task: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._first: asyncio.Future[bool] | None = None
        """Reading of the last day, which runs while the person goes to the browser."""

    @property
    def used(self) -> bool:
        """Return True if a page of the console is open."""
        return self._access is not None and self._access.used

    async def address(self, terminal: str) -> str:
        """Return the console's address to a client that made a link in the state folder. Open the address if necessary.

        The host name keeps the cookie from servers at other ports, so only that client learns it. ``terminal`` is the
        secret of the terminal that made the link. Raises ``NotAPerson`` if no link contains it, ``ConfigError`` if a
        package is missing or no address is available.
        """
        if not await self._served.read(partial(self._opened_access().names_terminal, terminal)):
            raise NotAPerson("only a person can open the console: callosum console")
        async with self._opening:
            if not self._address:
                await self._open()
        return self._address

    def beside(self, app: ASGIApp, address: str, tokens: Tokens, on_refused: OnRefused) -> ASGIApp:
        """Serve the console at a public address to people with a token, and ``app`` under every other host name."""
        public = self._console(lambda secret, scope: _let_in(tokens, secret, partial(on_refused, "wrong", scope)))
        wanted = address.removeprefix("https://").encode()

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            here = scope["type"] == "http" and scope["path"].startswith("/console") and _names(scope) == [wanted]
            await (public({**scope, "scheme": "https"}, receive, send) if here else app(scope, receive, send))

        return serve

    async def close(self) -> None:
        """Close the address if it is open."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = self._server.force_exit = True
            await asyncio.gather(self._task, return_exceptions=True)

    async def _open(self) -> None:
        console = self._console(None)
        opened = listen("127.0.0.1", 0)
        name = f"callosum-{secrets.token_hex(8)}.localhost:{opened.getsockname()[1]}"
        config = uvicorn.Config(
            _named(console, name),
            http=limited(connections=_CONNECTIONS, spare=8),
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = _Beside(config)
        self._task = asyncio.ensure_future(self._serve(self._server, opened, console))
        self._address = f"http://{name}"
        settings = self._served.gate.settings
        self._first = asyncio.ensure_future(self._served.read(self._views_of(settings.namespace).update))

    def _console(self, admit: Callable[[str, Scope], ConsoleSession] | None) -> Console:
        try:
            from callosum.console.web import Console  # noqa: PLC0415 - only needed when the console is opened
        except ImportError as missing:
            raise ConfigError(
                f"{missing.name} is not installed: pip install 'callosum-protocol[server]'", at="console"
            ) from None
        return Console(self._opened_access(), self._views_of, self._served.read, self._ask, self._stand, admit)

    def _opened_access(self) -> Access:
        from callosum.console.access import Access  # noqa: PLC0415

        if self._access is None:
            self._access = Access(self._served.gate.settings.state)
        return self._access

    async def _serve(self, server: _Beside, opened: Any, console: Any) -> None:
        try:
            await server.serve(sockets=[opened])
        finally:
            await console.close()
            opened.close()

    def _views_of(self, namespace: str) -> Views:
        from callosum.console.views import Views  # noqa: PLC0415

        found = self._views.get(namespace)
        if found is None:
            found = self._views[namespace] = Views(self._served.gate, namespace, took=self._took)
        if found in self._recent:
            self._recent.remove(found)
        self._recent.append(found)
        return found

    async def _ask(self, request: GateRequest[Report]) -> Report:
        effects = SERVED[request.operation](self._served.operations, request, Caller(person=True))
        report: Report = await self._served.drive(effects)
        self._stream.wake()
        return report

    async def _stand(self, what: str, approval: StandingApproval, by: str, namespace: str) -> None:
        """Give a standing approval once it is journalled; journal a revoked approval once it has ended."""
        state, rules = self._served.gate.settings.state, self._served.gate.rules
        effects = self._served.operations.standing(what, approval, by=by, channel="console", namespace=namespace)
        if what == "approved":
            await self._served.drive(effects)
            await self._served.read(partial(standing.add, state, approval))
        else:
            await self._served.read(partial(standing.revoke, state, approval.id))
        await self._served.read(rules.reload)
        if what == "revoked":
            await self._served.drive(effects)
        self._stream.wake()


def _let_in(tokens: Tokens, secret: str, refused: Callable[[Mapping[str, Any]], None]) -> ConsoleSession:
    """Return the console session for a person's token. Raises ``NoAccess``."""
    from callosum.console.access import SESSION_SECONDS, ConsoleSession, NoAccess  # noqa: PLC0415

    token = tokens.find(secret)
    if token is None or token.role is Role.ACTOR:
        refused({"status": 403, "error": "no person's token", "at": "console", "holder": tokens.named(secret)})
        raise NoAccess("this token does not belong to a person: callosum token add NAME --role approver (or reader)")
    return ConsoleSession(
        by=token.name,
        answers=token.role is Role.APPROVER,
        ends=time.monotonic() + SESSION_SECONDS,
        namespaces=token.namespaces,
        holds=partial(tokens.holds, token),
    )


def _names(scope: Scope) -> list[bytes]:
    return [value for header, value in scope["headers"] if header == b"host"]


def _named(app: ASGIApp, name: str) -> ASGIApp:
    """Serve only requests for the console's own host name, so that no other site's name can lead here."""
    wanted = name.encode()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if _names(scope) != [wanted]:
            await send({"type": "http.response.start", "status": 421, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return serve
