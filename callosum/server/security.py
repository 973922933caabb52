"""Check who sends a request, from where, and as which instance: the outermost layer of the server.

``Security`` checks each request before anything else does:

==============  ===========================================================  ========================
part            what is accepted                                             otherwise
==============  ===========================================================  ========================
Host            one, and a name of this server                               400 none or two, 421
Origin          none, this server's own, or one that is listed               403
Sec-Fetch-Site  anything but ``cross-site``, unless the Origin is listed     403
Authorization   one valid token; none if none is required,                   400 two, 401
                or for a path in ``open_to_all``
==============  ===========================================================  ========================

A page in a browser can send requests to this machine, also to the loopback address. The check of Host stops a page
whose name was made to resolve to this machine (DNS rebinding), that of Origin any other. Over a Unix socket any Host is
accepted, because browsers cannot reach it. The token goes into ``scope["callosum.token"]``; ``may_act``,
``may_approve`` and ``may_read`` check what it permits, and their ``Refused`` holds the answer.
``scope["callosum.needs_token"]`` says of a request over TCP without a token whether acting needs one. A request that
was accepted without the required token is marked as a stranger's (``scope["callosum.stranger"]``), and is answered with
no more than necessary. The headers of every answer are in ``scope["callosum.headers"]``, for answers that are not sent
by ``send``.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, Literal

from callosum.errors import CallosumError, ConfigError
from callosum.server.caller import is_direct
from callosum.server.responses import HEADERS, Header, fault
from callosum.server.tokens import Role, Token, Tokens

logger = logging.getLogger("callosum")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Kind = Literal["host", "origin", "missing", "wrong", "role", "instance", "namespace", "suppressed"]
"""Why a request was refused. ``suppressed`` is written by ``RefusalLog`` for refusals that it only counted."""
OnRefused = Callable[[Kind, Scope, Mapping[str, Any]], None]

LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
"""The names of a server on the loopback."""
_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
_BEARER: Final = re.compile(r"bearer +([\x21-\x7e]+) *", re.IGNORECASE)
_LOOKED_AT: Final = frozenset((b"origin", b"authorization", b"sec-fetch-site"))
_PREFLIGHT: Final[tuple[Header, ...]] = (
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, last-event-id"),
    (b"access-control-max-age", b"600"),
)
_MOST_SPELLINGS: Final = 256
"""Number of accepted Host spellings that are cached; the client chooses the port."""


class Refused(CallosumError):
    """A request that is refused: ``status``, ``error`` and ``at`` are the answer, ``kind`` is the reason.

    ``token`` is the name of the token that was sent, ``""`` if there was none or it is unknown.
    """

    def __init__(self, status: int, error: str, at: str, *, kind: Kind, token: str = "") -> None:
        super().__init__(f"{at}: {error}")
        self.status, self.error, self.at, self.kind, self.token = status, error, at, kind, token

    def response(self) -> App:
        """Return the answer as an ASGI application. Sending it calls ``on_refused`` of the ``Security`` around it."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            report = scope.get("callosum.refused")
            if report is not None:
                report(self, scope)
            headers = {"WWW_Authenticate": "Bearer"} if self.status == 401 else {}
            await fault(self.status, self.error, self.at, **headers)(scope, receive, send)

        return answer


# --- Permissions of a token ---


_OF: Final = {Role.ACTOR: "an actor's", Role.APPROVER: "an approver's", Role.READER: "a reader's"}


def may_act(token: Token | None, instance: str, namespace: str, *, at: str = "instance") -> None:
    """Raise ``Refused`` if the token may not act as this instance (or actor, ``instance/session``) here.

    Without a token everything is permitted: ``Security`` has demanded one if it is required. A token for ``mira``
    also speaks for ``mira/inbox``, one of its sessions. An approver's token does not
    act. ``at`` is the field that names the instance: ``parent`` and ``continues`` claim one too.
    """
    if token is None:
        return
    if token.role is not Role.ACTOR:
        raise Refused(403, f"{_OF[token.role]} token cannot act", "Authorization", kind="role", token=token.name)
    own = token.instance
    if own is not None and instance != own and not instance.startswith(f"{own}/"):
        raise Refused(403, "this token belongs to another instance", at, kind="instance", token=token.name)
    _in_namespace(token, namespace)


def may_approve(token: Token | None, namespace: str) -> None:
    """Raise ``Refused`` unless this is an approver's token for this namespace; one is required locally too."""
    if token is None:
        raise Refused(401, "only a person may do this: an approver's token is needed", "Authorization", kind="missing")
    if token.role is not Role.APPROVER:
        raise Refused(403, f"{_OF[token.role]} token cannot approve", "Authorization", kind="role", token=token.name)
    _in_namespace(token, namespace)


def may_read(token: Token | None, namespace: str | None) -> None:
    """Raise ``Refused`` if the token may not see this namespace; None means all of them."""
    if token is not None:
        _in_namespace(token, namespace)


def signed(token: Token | None, by: str) -> str:
    """Return the person's name for the journal, given the client's ``by``. A token's name is always part of it."""
    if token is None or by == token.name:
        return by
    return f"{by} (token {token.name})" if by else token.name


def _in_namespace(token: Token, namespace: str | None) -> None:
    if token.namespaces is not None and namespace not in token.namespaces:
        error = (
            "this token is not valid in this namespace"
            if namespace is not None
            else "name one of this token's namespaces"
        )
        raise Refused(403, error, "namespace", kind="namespace", token=token.name)


# --- Requests ---


class Security:
    """An ASGI application around another, which accepts only permitted requests.

    ``local`` and ``allow_hosts``: names of this server as they occur in a Host, with any port; a name
    given with a port is accepted with this port only. The address at which the connection arrived is always accepted.
    ``allow_origins``: origins (``https://console.example``) whose pages may send requests; a wildcard is refused.
    ``token_required``: nothing is answered without a token except a GET of the paths in ``open_to_all``, for a balancer
    that has no token, and a POST of the paths in ``proven``, which demand a proof of their own. ``on_refused`` is
    called for every refusal with the kind, the scope and details for a journal (never a secret).

    An error in the application becomes a 500, a cancelled request a 503, both as JSON.
    Raises ``ConfigError`` for an invalid host or origin.
    """

    def __init__(
        self,
        app: App,
        tokens: Tokens,
        *,
        local: Iterable[str] = LOCAL,
        allow_hosts: Iterable[str] = (),
        allow_origins: Iterable[str] = (),
        token_required: bool = False,
        open_to_all: Iterable[str] = (),
        proven: Iterable[str] = (),
        on_refused: OnRefused | None = None,
    ) -> None:
        self.app, self.tokens = app, tokens
        self.token_required = token_required
        self._untokened = frozenset([*(("GET", path) for path in open_to_all), *(("POST", path) for path in proven)])
        self._on_refused = on_refused
        self._names = frozenset([*(_host(name) for name in local), *(_host(name) for name in allow_hosts)])
        self._origins = frozenset(_origin(origin) for origin in allow_origins)
        self._good: set[bytes] = set()
        self._report_refused = self._report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it with the reason."""
        extra, began = HEADERS, False

        def sending(message: Message) -> Awaitable[None]:  # not a coroutine of its own: one less to run per message
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            return send(message)

        scope["callosum.refused"] = self._report_refused
        scope["callosum.headers"] = HEADERS
        try:
            host, said = _gather(scope["headers"])
            if host not in self._good:
                self._check_host(host, scope)
            token = None
            if said:
                scope["callosum.headers"] = extra = self._check_origin(said, scope, host)
                if extra is not HEADERS and _is_preflight(scope):
                    await sending({"type": "http.response.start", "status": 204, "headers": _preflight(scope)})
                    await sending({"type": "http.response.body", "body": b""})
                    return
                token = self._token(said, scope)
            if token is None and self.token_required:
                if (scope["method"], scope["path"]) not in self._untokened:
                    raise Refused(401, "a token is required", "Authorization", kind="missing")  # noqa: TRY301
                scope["callosum.stranger"] = True
            scope["callosum.token"] = token
            if token is None and scope["server"] is not None and scope["server"][1] is not None:
                scope["callosum.needs_token"] = self.tokens.asks_actors
            await self.app(scope, receive, sending)
        except Refused as refused:
            await refused.response()(scope, receive, sending)
        except CancelledError:
            if began:
                raise
            await fault(503, "the server is stopping", Retry_After="1")(scope, receive, sending)
        except Exception:
            if began:
                raise
            logger.exception("%s %s failed", scope["method"], scope["path"])
            await fault(500, "internal error: the server's log has it")(scope, receive, sending)

    def _check_host(self, host: bytes | None, scope: Scope) -> None:
        server = scope.get("server")
        if server is not None and server[1] is None:  # a Unix socket
            return
        if host is None:
            raise Refused(400, "is missing", "Host", kind="host")
        parts = _HOST.fullmatch(host)
        name = parts[1].decode("ascii").lower() if parts else ""
        if not (name in self._names or host.decode("latin-1").lower() in self._names or (name and _is(name, server))):
            raise Refused(421, "this server has another name (see callosum serve --allow-host)", "Host", kind="host")
        if len(self._good) < _MOST_SPELLINGS:
            self._good.add(host)

    def _check_origin(self, said: dict[bytes, bytes], scope: Scope, host: bytes | None) -> tuple[Header, ...]:
        """Return the headers of the answer."""
        origin = said.get(b"origin")
        if origin is not None:
            text = origin.decode("latin-1").lower()
            if text in self._origins:
                return (*HEADERS, (b"access-control-allow-origin", origin), (b"vary", b"origin"))
            if host is None or text != f"{scope['scheme']}://{host.decode('latin-1').lower()}":
                raise Refused(
                    403, "pages of this origin may not ask (callosum serve --allow-origin)", "Origin", kind="origin"
                )
        elif said.get(b"sec-fetch-site") == b"cross-site":
            raise Refused(403, "requests from pages of other sites are refused", "Sec-Fetch-Site", kind="origin")
        return HEADERS

    def _token(self, said: dict[bytes, bytes], scope: Scope) -> Token | None:
        given = said.get(b"authorization")
        if given is None:
            return None
        bearer = _BEARER.fullmatch(given.decode("latin-1"))
        if bearer is None:
            raise Refused(401, 'expected "Bearer" and a token', "Authorization", kind="wrong")
        token = self.tokens.find(bearer[1])
        if token is None:
            name = self.tokens.named(bearer[1])
            error = "this token is not in force: unknown, removed, replaced or expired"
            raise Refused(401, error, "Authorization", kind="wrong", token=name)
        if token is self.tokens.machine and not is_direct(scope):
            return None  # it says that its sender is on this machine, which nothing shows
        return token

    def _report(self, refused: Refused, scope: Scope) -> None:
        if self._on_refused is None:
            return
        client = scope.get("client")
        details = {
            "status": refused.status,
            "error": refused.error,
            "at": refused.at,
            "holder": refused.token,  # "token" would be redacted in the journal
            "client": client[0] if client else "",
            "method": scope["method"],
            "path": scope["path"][:200],
        }
        self._on_refused(refused.kind, scope, details)


def _gather(headers: Iterable[Header]) -> tuple[bytes | None, dict[bytes, bytes] | None]:
    """Return the Host and the other checked headers; each may occur at most once."""
    host: bytes | None = None
    said: dict[bytes, bytes] | None = None
    for name, value in headers:
        if name == b"host":
            if host is not None:
                raise Refused(400, "occurs more than once", "Host", kind="host")
            host = value
        elif name in _LOOKED_AT:
            if said is None:
                said = {}
            elif name in said:
                kind: Kind = "wrong" if name == b"authorization" else "origin"
                raise Refused(400, "occurs more than once", name.decode("ascii").title(), kind=kind)
            said[name] = value
    return host, said


def _is(name: str, server: tuple[str, int] | None) -> bool:
    """Return True if this is the address at which the connection arrived: no DNS name can be made to match it."""
    if server is None:
        return False
    try:
        return _address(name.strip("[]")) == _address(server[0].partition("%")[0])
    except ValueError:
        return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(text)
    return getattr(found, "ipv4_mapped", None) or found  # of a socket for both kinds


def _is_preflight(scope: Scope) -> bool:
    return scope["method"] == "OPTIONS" and any(
        name == b"access-control-request-method" for name, _ in scope["headers"]
    )


def _preflight(scope: Scope) -> tuple[Header, ...]:
    if any(name == b"access-control-request-private-network" for name, _ in scope["headers"]):
        return (*_PREFLIGHT, (b"access-control-allow-private-network", b"true"))
    return _PREFLIGHT


def _host(name: str) -> str:
    """Return a Host in the form in which it is compared: lower case, an IPv6 address in brackets."""
    written = f"[{name.partition('%')[0]}]" if name.count(":") > 1 and not name.startswith("[") else name
    if not written.isascii() or not _HOST.fullmatch(written.encode()):
        raise ConfigError(f"expected a host name or an address, not {name!r:.100}", at="--allow-host")
    return written.lower()


def _origin(origin: str) -> str:
    small = origin.lower().removesuffix("/")
    if not _ORIGIN.fullmatch(small):
        raise ConfigError(
            f'expected an origin such as "https://console.example:8443", no wildcard, not {origin!r:.100}',
            at="--allow-origin",
        )
    return small


# --- Journal of refusals ---


class RefusalLog:
    """Passes refusals on to a journal, but so few that a flood of requests cannot fill it.

    At most ``limit`` refusals in each ``span`` of seconds go to ``write`` (kind and details). Further ones are
    counted, and after the span they are written as one, of the kind ``suppressed``, with the number of each
    kind; that happens with the next refusal, or in ``flush``. ``clock`` returns seconds that never run
    backwards. The object is called as ``on_refused`` is.
    """

    def __init__(
        self,
        write: Callable[[Kind, Mapping[str, Any]], None],
        *,
        limit: int = 20,
        span: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._limit, self._span, self._clock = write, limit, span, clock
        self._began = clock()
        self._written = 0
        self._beyond: Counter[Kind] = Counter()

    def __call__(self, kind: Kind, scope: Scope, details: Mapping[str, Any]) -> None:  # noqa: ARG002 - OnRefused
        """Log a refusal, or count it."""
        if self._clock() - self._began >= self._span:
            self.flush()
        if self._written < self._limit:
            self._written += 1
            self._write(kind, details)
        else:
            self._beyond[kind] += 1

    def flush(self) -> None:
        """Log the number of refusals that were counted in the last span, and begin a new span."""
        now = self._clock()
        beyond, self._beyond = self._beyond, Counter()
        began, self._began = self._began, now
        self._written = 0
        if beyond:
            details = {"suppressed": beyond.total(), "seconds": round(now - began, 1), "kinds": dict(beyond)}
            self._write("suppressed", details)

    def tick(self) -> None:
        """Write the count if it is due. Call this from time to time, so that it is not kept until the next refusal."""
        if self._beyond and self._clock() - self._began >= self._span:
            self.flush()
