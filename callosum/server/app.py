"""The HTTP endpoints: what each one reads, which operation of the gate it runs, and what it returns.

``ENDPOINTS`` is the only list of endpoints. It begins with the gate's operations. Routing, the OpenAPI document and
the documentation page are made from it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from callosum import __version__, wire
from callosum.brain import Brain
from callosum.corpus import events
from callosum.deadline import Expiry, expires_at
from callosum.errors import ConfigError, Expired, NotAPerson, StoreChanged, StoreError, StoreUnavailable, Unconfirmed
from callosum.gate.check import check_name, check_note, id_of
from callosum.gate.operations import SERVED, UNKNOWN, Caller
from callosum.gate.spool_records import check_record, check_seconds
from callosum.hosts.adapters import adapter_of
from callosum.hosts.dispatch import Dispatcher
from callosum.hosts.events import HostIdentity
from callosum.hosts.last_seen import LastSeen
from callosum.hosts.settings_guard import fault_of
from callosum.hosts.terminals import Terminals
from callosum.hosts.transcripts import Transcripts
from callosum.model import DEFAULT_NAMESPACE, MAX_NAME, Call, GateRequest
from callosum.operations import OPERATIONS, GateOperation
from callosum.policy.lifecycle import HOST
from callosum.process import host_above, is_of_this_machine
from callosum.server.async_gate import LARGE, ServedGate
from callosum.server.caller import is_direct, is_here
from callosum.server.console_address import ConsoleOpener
from callosum.server.health import StoreHealth
from callosum.server.metrics import Metrics
from callosum.server.queries import EventsQuery, HookQuery, key_of_path, read_query
from callosum.server.responses import HttpAnswer, HttpRequest, fault
from callosum.server.security import Refused, may_act, may_approve, may_read, signed
from callosum.server.stream import Stream
from callosum.server.tokens import Role, Token, Tokens
from callosum.server.wait_queue import Gone, Overloaded, Stopping
from callosum.stores.base import Pool, Pooled
from callosum.worktree import located

logger = logging.getLogger("callosum")

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

T = TypeVar("T")
A = TypeVar("A", Call, wire.Lock)

HEALTH: Final = "/health"
"""Path that a load balancer asks without a token: open to all."""
CONSOLE: Final = "/console"


class Health(Struct, frozen=True, rename="camel"):
    """``GET /health``. ``status`` is ``ok``, or ``stopping`` or ``unavailable`` (with 503); ``uptime`` is in seconds.

    ``pool`` describes the connections to a store that is reached over a network. ``fields`` lists the optional fields
    of a call, a report or a lease request. ``hostApprovals`` is present and true if a host's approval counts.
    ``behind`` says what fails or lags behind the journal. If a token is required, a client without one gets ``status``.
    """

    status: str
    version: str | UnsetType = UNSET
    store: str | UnsetType = UNSET
    uptime: float | UnsetType = UNSET
    decisions: int | UnsetType = UNSET
    pool: Pool | UnsetType = UNSET
    fields: tuple[str, ...] | UnsetType = UNSET
    host_approvals: bool | UnsetType = UNSET
    behind: list[str] | UnsetType = UNSET


class ConsoleAddress(Struct, frozen=True):
    """``POST /console``: the address of the console. Only a link made in a person's terminal opens it."""

    address: str


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


_CALL: Final[msgspec.json.Decoder[Call]] = _decoder(wire.Intercept)
_PAYLOAD: Final = _decoder(dict[str, Any])
LATE_CALLS: Final = _decoder(wire.LateBatch)
OPEN_CONSOLE: Final = _decoder(wire.OpenConsole)


class Service:
    """Everything the endpoints work with, created when the server starts."""

    def __init__(
        self,
        served: ServedGate,
        stream: Stream,
        metrics: Metrics,
        tokens: Tokens,
        brain: Brain,
        transcripts: Transcripts | None = None,
    ) -> None:
        """Create the service. ``transcripts`` reads the transcripts of this machine's hosts; None reads none."""
        self.console_opener = ConsoleOpener(served, stream, metrics.took)
        self.served = served
        self.transcripts = transcripts
        self.brain = brain
        self.operations = served.operations
        self.store = served.gate.store
        self.dispatcher = Dispatcher(
            served.operations,
            brief=lambda told: told.of(self.brain),
            emit=brain.corpus.emit,
            parsed=brain.parsed,
            tell=brain.tell,
            changed=partial(fault_of, served.gate.settings.state),
            decided=served.decided,
            keep=served.gate.keep,
        )
        self.terminals = Terminals()
        self.heard = LastSeen(served.gate.settings.state)
        self.stream = stream
        self.metrics = metrics
        self.tokens = tokens
        self.began = self.touched = time.monotonic()
        """When the last request came. A server that ends when it is unused reads this."""
        self.waiting = 0
        self._health = StoreHealth(self.store)

    async def _read(self, decoder: msgspec.json.Decoder[T], body: bytes, *, listed: bool = False) -> T:
        """Read a request's body. Parse a large body in a thread, so that other requests need not wait for it."""
        if len(body) < LARGE:
            return wire.read(decoder, body)
        return await self.served.read(partial(wire.read, decoder, body, listed=listed))

    async def change(self, request: HttpRequest, *, of: _Change, decoder: msgspec.json.Decoder[Any]) -> HttpAnswer:
        """Read a request that changes something, check that its sender is permitted to, and drive its operation."""
        served = self.served
        arrived = served.arrivals.arrived() if of.decides else 0.0
        named = of.named(request) if of.named is not None else None
        body = await request.body() or of.empty
        if of.decides:
            served.admit()
            await served.take_in()
        size = len(body)
        found = wire.read(decoder, body) if size < LARGE else await served.read(partial(wire.read, decoder, body))
        if isinstance(found, wire.Lock):
            found, _ = await _with_own_process(request, found)
        asked, caller = of.permit(request, found, named, arrived)
        answer = await served.drive(SERVED[asked.operation](self.operations, asked, caller), size=size)
        self.stream.wake()
        return HttpAnswer(wire.encode(answer))

    async def show(self, request: HttpRequest, *, of: type[_Reading]) -> HttpAnswer:
        """Serve a request that only reads, and that may wait for something new."""
        asked = read_query(of, request.scope["query_string"])
        if asked.namespace is not None:
            check_name(asked.namespace, "namespace")
        may_read(_token(request), asked.namespace)
        caller = Caller(expiry=_expiry(request, None, None, 0.0))
        return _json(await self.served.drive(SERVED[asked.operation](self.operations, asked, caller)))

    # --- Endpoints with steps of their own, listed in ``ENDPOINTS`` --------------------------------

    async def intercept(self, request: HttpRequest) -> HttpAnswer:
        began, arrived = time.perf_counter(), self.served.arrivals.arrived()
        body = await request.body()
        self.served.admit()
        await self.served.take_in()
        size = len(body)
        call: Call = wire.read(_CALL, body) if size < LARGE else await self._read(_CALL, body)
        if (token := _actor(request)) is not None:
            _may_make(token, call)
        expiry = _expiry(request, call.deadline, call.timeout_ms, arrived)
        call, here = await _with_own_process(request, call)
        if self.dispatcher.at_servers and here and (by_hook := self.dispatcher.by_hook(call)) is not None:
            return _json(by_hook)
        call = located(call) if here and call.cwd else call
        if call.wait:
            self.waiting += 1
            left = asyncio.ensure_future(_left(request))
            try:
                decision = await asyncio.create_task(self.served.in_turn(call, size, left, expiry, here=here))
            finally:
                self.waiting -= 1
                left.cancel()
        else:
            decision = await self.served.drive(self.operations.intercept(call, expiry, here=here), size=size)
        self.served.decided(decision, time.perf_counter() - began)
        self.stream.wake()
        return HttpAnswer(wire.encode(decision))

    async def brief(self, request: HttpRequest) -> HttpAnswer:
        asked = read_query(wire.BriefQuery, request.scope["query_string"])
        check_name(asked.namespace, "namespace")
        may_act(_actor(request), asked.instance, asked.namespace)
        return _json(await self.served.read(partial(self.brain.brief, **asdict(asked))))

    async def hook(self, request: HttpRequest) -> HttpAnswer:
        arrived = self.served.arrivals.arrived()
        adapter = adapter_of(key_of_path(request.scope["raw_path"]))
        body = await request.body()
        asked = read_query(HookQuery, request.scope["query_string"])
        home = asked.home if asked.home is not UNSET else None
        place = HostIdentity(adapter.name if asked.instance is None else asked.instance, asked.namespace, home)
        check_name(place.instance, "instance")
        check_name(place.namespace, "namespace")
        may_act(_actor(request), place.instance, place.namespace)
        payload = await self._read(_PAYLOAD, body)
        deadline = asked.deadline if asked.deadline is not UNSET else None
        timeout_ms = asked.timeout_ms if asked.timeout_ms is not UNSET else None
        expiry = _expiry(request, deadline, timeout_ms, arrived)
        try:
            await self.served.take_in()
        except StoreError:  # a decision needs the spooled calls first; an event's report is journalled beside them
            if payload.get("hook_event_name") == adapter.host.asks:
                raise
        self.heard.hook(adapter.name, payload.get("hook_event_name"), payload.get("session_id"))
        pid = asked.pid if asked.pid is not UNSET and await is_here(request.scope) else None
        host = host_above(pid) if pid is not None else None
        named = self.terminals.named_apart(adapter, payload, place, host)
        effects = self.dispatcher.handle(adapter, named, place, host, here=pid is not None, expiry=expiry)
        answer = await self.served.drive(effects, size=len(body))
        await asyncio.sleep(0)  # the client's end of stream may lie unread in the socket
        if request.scope["callosum.gone"]():
            await self.served.drive(self.dispatcher.retract(adapter, named, place), size=len(body))
        if self.transcripts is not None and host is not None:
            self.transcripts.look(adapter, payload, place, host)
        self.stream.wake()
        return _json(answer)

    async def take_events(self, request: HttpRequest) -> HttpAnswer:
        """Record events that a client sends. Raises ``Stopping`` if the server is stopping."""
        if self.served.stopping:
            raise Stopping("the server is stopping")
        body = await request.body()
        take = partial(self._take, body, _actor(request), here=await is_here(request.scope))
        return _json(wire.Accepted(await self.served.read(take) if len(body) >= LARGE else take()))

    def _take(self, body: bytes, token: Token | None, *, here: bool) -> int:
        taken = events.read(body)
        for place, event in enumerate(taken):
            may_act(token, event.instance or "", event.namespace or DEFAULT_NAMESPACE, at=f"[{place}].instance")
        for event in taken:
            if isinstance(event, events.HealthOk) and event.instance:
                self.heard.alive(event.instance)
                if not here and "pid" in event.metrics:  # its process is not looked up
                    metrics = {name: value for name, value in event.metrics.items() if name != "pid"}
                    self.brain.corpus.emit(replace(event, metrics=metrics))
                    continue
            self.brain.corpus.emit(event)
        return len(taken)

    async def late(self, request: HttpRequest) -> HttpAnswer:
        body = await request.body()
        asked = await self._read(LATE_CALLS, body, listed=True)
        check_seconds(asked.now, "now")
        token = _actor(request)
        records = []
        # Check all records first, so that nothing is journalled if one is malformed.
        for place, late in enumerate(asked.calls):
            _may_make(token, late.call, f"calls[{place}].call.")
            if check_record(late, f"calls[{place}]."):
                records.append(replace(late, call=(await _with_own_process(request, late.call))[0]))
        await self.served.enter(records, asked.now if asked.now is not None else time.time())
        self.stream.wake()
        return _json(wire.Accepted(len(asked.calls)))

    async def fallback(self, _request: HttpRequest) -> HttpAnswer:
        return _json(wire.FallbackTable(self.served.gate.rules.current().highest_tiers()))

    async def health(self, request: HttpRequest) -> HttpAnswer:
        status, code, store = ("stopping", 503, "ok") if self.served.leaving else ("ok", 200, "ok")
        if fault := await self._health.fault(self.served.read):
            status, code, store = "unavailable", 503, fault
        if request.scope.get("callosum.stranger"):
            return _json(Health(status), code)
        found = Health(
            status,
            __version__,
            store,
            round(time.monotonic() - self.began, 3),
            self.served.decisions,
            self.store.pool() if isinstance(self.store, Pooled) else UNSET,
            wire.FIELDS,
            self.operations.settings.host_approvals or UNSET,
            self.served.gate.follower.behind() or UNSET,
        )
        return _json(found, code)

    async def open_console(self, request: HttpRequest) -> HttpAnswer:
        """Return an address that signs a person of this machine in to the console once."""
        if not is_direct(request.scope):
            raise Refused(403, "the console is opened from this machine", "address", kind="origin")
        asked = await self._read(OPEN_CONSOLE, await request.body())
        try:
            return _json(ConsoleAddress(await self.console_opener.address(asked.terminal)))
        except NotAPerson as refused:
            raise Refused(403, str(refused), "terminal", kind="missing") from None

    async def show_metrics(self, _request: HttpRequest) -> HttpAnswer:
        """Return the server's figures in Prometheus's text format."""
        await self.served.read(partial(self.served.gate.follower.flush, 1.0))
        return HttpAnswer(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


# --- requests -----------------------------------------------------------------------------------------


def _token(request: HttpRequest) -> Token | None:
    return request.scope["callosum.token"]  # type: ignore[no-any-return]


def _actor(request: HttpRequest) -> Token | None:
    """Return the token of a request that acts. Raises ``Refused`` if it has none and needs one."""
    scope = request.scope
    token: Token | None = scope["callosum.token"]
    if token is None and "callosum.needs_token" in scope and scope["callosum.needs_token"]():
        error = (
            "acting over TCP needs a token since one was made that may act: send one (`callosum token add NAME`), "
            "or that of machine.token in the state folder; the gate's own socket needs none"
        )
        raise Refused(401, error, "Authorization", kind="missing")
    return token


def _may_make(token: Token | None, call: Call, at: str = "") -> None:
    for claimed, name in ((call.instance, "instance"), (call.parent, "parent"), (call.continues, "continues")):
        if claimed is not None:
            may_act(token, claimed, call.namespace, at=f"{at}{name}")


def _expiry(request: HttpRequest, deadline: str | None, timeout_ms: int | None, arrived: float) -> Expiry:
    """Return the check whether a request's client still waits for the answer."""
    ends = None if deadline is None and timeout_ms is None else expires_at(deadline, timeout_ms, arrived)
    return Expiry(ends, request.scope.get("callosum.gone"))


async def _left(request: HttpRequest) -> None:
    """Return once the client has closed the connection. Call it after the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _with_own_process(request: HttpRequest, asked: A) -> tuple[A, bool]:
    """Return what is asked, and True if the process that it names is one of this machine, which may be looked up.

    A request that comes from elsewhere cannot name a process of this machine: the name is removed.
    """
    if asked.host is None or not is_of_this_machine(asked.host):
        return asked, False
    if await is_here(request.scope):
        return asked, True
    return replace(asked, host=None), False


def _person(request: HttpRequest, by: str) -> str:
    """Return the person's name for the journal. The client's part is cut, to leave room for the token's name."""
    if len(by) > MAX_NAME:
        raise ConfigError(f"expected at most {MAX_NAME} characters, got {len(by)}", at="by")
    return signed(_token(request), by)


def _id_of_path(request: HttpRequest) -> int:
    written = key_of_path(request.scope["raw_path"])
    if not re.fullmatch(r"[1-9][0-9]{0,18}", written) or int(written) >= 2**63:
        raise ConfigError("expected the id of a decision", at="id")
    return int(written)


# --- Permission to change something, and what the gate knows about the client ------------------------------


def _by_actor(request: HttpRequest, asked: Any, _named: object, _arrived: float) -> tuple[Any, Caller]:
    may_act(_actor(request), asked.instance, asked.namespace)
    return asked, UNKNOWN


def _by_locker(request: HttpRequest, asked: wire.Lock, _named: object, arrived: float) -> tuple[wire.Lock, Caller]:
    may_act(_actor(request), asked.instance, asked.namespace)
    return asked, Caller(expiry=_expiry(request, asked.deadline, asked.timeout_ms, arrived))


def _by_holder(request: HttpRequest, asked: wire.ReleaseAt, _named: object, _arrived: float) -> tuple[Any, Caller]:
    if asked.force:
        may_approve(_token(request), asked.namespace)
    else:
        may_act(_actor(request), asked.instance, asked.namespace)
    return replace(asked, by=_person(request, asked.by)), UNKNOWN


def _by_holder_of_key(request: HttpRequest, found: wire.Release, key: str, arrived: float) -> tuple[Any, Caller]:
    check_name(found.namespace, "namespace")  # also if the query names another session
    said = read_query(wire.ReleaseQuery, request.scope["query_string"])
    fields = asdict(found) | {name: value for name, value in asdict(said).items() if value is not UNSET}
    return _by_holder(request, wire.ReleaseAt(context_key=key, **fields), None, arrived)


def _by_witness(request: HttpRequest, asked: wire.Resolve, _named: object, _arrived: float) -> tuple[Any, Caller]:
    check_name(asked.namespace, "namespace")
    id_of(asked.id)
    check_note(asked.note, "note")
    token = _token(request)
    if asked.by and (token is None or token.role is not Role.APPROVER):
        may_act(_actor(request), asked.by, asked.namespace, at="by")
        return asked, Caller(person=False)
    may_approve(token, asked.namespace)
    return replace(asked, by=_person(request, asked.by)), Caller(person=True)


def _by_approver(request: HttpRequest, found: wire.ApprovalAnswer, id: int, _arrived: float) -> tuple[Any, Caller]:
    check_name(found.namespace, "namespace")
    token = _token(request)
    kind = wire.Approve if found.approve else wire.Deny
    by, channel = _person(request, found.by), found.channel or "server"
    asked = kind(id=id, by=by, channel=channel, note=found.note, namespace=found.namespace)
    # Not a person's approval, so the settings decide.
    if channel == HOST and (token is None or token.role is not Role.APPROVER):
        own = (token.instance if token is not None else None) or ""
        may_act(_actor(request), own, found.namespace)
        return asked, Caller(instance=own)
    may_approve(token, found.namespace)
    return asked, Caller(person=True)


class _Change(NamedTuple):
    """How a request that changes something is read.

    ``permit`` gets the request, its decoded body, what ``named`` found in the path, and the arrival time. It returns
    the input of the operation and its sender, or raises ``Refused``. If ``decides`` is true, spooled calls are entered
    first, and an overloaded server refuses the request. ``empty`` is the body of a request without one.
    """

    permit: Callable[[HttpRequest, Any, Any, float], tuple[GateRequest[Any], Caller]]
    named: Callable[[HttpRequest], object] | None = None
    decides: bool = False
    empty: bytes = b""


# --- Responses ----------------------------------------------------------------------------------------


def _json(value: object, status: int = 200) -> HttpAnswer:
    return HttpAnswer(wire.encode(value), status)


_Reading = wire.StatusQuery | wire.ApprovalsQuery | wire.JournalQuery
Handler = Callable[[Service, HttpRequest], Awaitable["ASGIApp"]]

_OWN: Final = (
    GateOperation(
        "POST /hooks/{host}",
        "Decide or record what a host's hook tells",
        "Takes a hook event of a host as the host wrote it, and answers in the host's own words; `{}`: go on.",
        body=wire.HookEvent,
        query=HookQuery,
        answer=dict[str, Any],
        example={"hook_event_name": "PreToolUse", "session_id": "s1", "tool_name": "Read"},
    ),
    GateOperation(
        "POST /events",
        "Report events",
        "Takes in what a host saw happen: it goes onto the corpus, and from there to all who listen.",
        body=Any,
        answer=wire.Accepted,
        example={"type": "llm.token", "delta": "On", "instance": "mira"},
    ),
    GateOperation(
        "POST /late",
        "Take in what happened while the gate could not be asked",
        "Takes in what ran, ended or was given up while the gate could not be asked.",
        body=wire.LateBatch,
        answer=wire.Accepted,
        example={"calls": [{"call": {"instance": "mira", "tool": "read"}, "outcome": "done"}]},
    ),
    GateOperation(
        "GET /fallback",
        "The highest tier of each tool",
        "Which tools a client may let through by itself when this server is away.",
        answer=wire.FallbackTable,
    ),
    GateOperation(
        f"GET {HEALTH}",
        "Whether the gate can decide",
        "Whether the gate can decide, and goes on to: a balancer sends nobody where it does not.",
        answer=Health,
    ),
    GateOperation(
        f"POST {CONSOLE}",
        "Where the console is",
        "Opens the console's own address on this machine, and tells it to the terminal that made a link.",
        body=wire.OpenConsole,
        answer=ConsoleAddress,
        example={"terminal": "the secret that `callosum console` left in the state folder"},
    ),
    GateOperation(
        "GET /metrics", "Prometheus metrics", "Counters and gauges in Prometheus's text form.", media_type="text/plain"
    ),
)
ENDPOINTS: Final = (*OPERATIONS, *_OWN)
"""All endpoints: the gate's operations, and those that only a server has."""
_CHANGES: Final = {
    "POST /complete": _Change(_by_actor),
    "POST /lock": _Change(_by_locker, decides=True),
    "DELETE /lock/{key}": _Change(
        _by_holder_of_key, lambda request: key_of_path(request.scope["raw_path"]), empty=b"{}"
    ),
    "POST /release": _Change(_by_holder),
    "POST /renew": _Change(_by_actor),
    "POST /resolve": _Change(_by_witness),
    "POST /approvals/{id}": _Change(_by_approver, _id_of_path),
}
_HANDLERS: Final[Mapping[str, Handler]] = {
    **{
        row.endpoint: partial(Service.change, of=_CHANGES[row.endpoint], decoder=_decoder(row.body))
        for row in OPERATIONS
        if row.endpoint in _CHANGES
    },
    "POST /intercept": Service.intercept,
    "GET /status": partial(Service.show, of=wire.StatusQuery),
    "GET /brief": Service.brief,
    "GET /approvals": partial(Service.show, of=wire.ApprovalsQuery),
    "GET /journal": partial(Service.show, of=wire.JournalQuery),
    "POST /hooks/{host}": Service.hook,
    "POST /events": Service.take_events,
    "POST /late": Service.late,
    "GET /fallback": Service.fallback,
    f"GET {HEALTH}": Service.health,
    f"POST {CONSOLE}": Service.open_console,
    "GET /metrics": Service.show_metrics,
}


DOCUMENTS: Final = ("/openapi.json", "/docs", "/")
_FAULTS: Final[Mapping[type[Exception], tuple[int, str, dict[str, str]]]] = {
    Stopping: (503, "", {"Retry_After": "1", "Connection": "close"}),
    Overloaded: (503, wire.OVERLOADED, {"Retry_After": "1"}),
    Expired: (408, wire.EXPIRED, {}),
    StoreChanged: (503, "store", {}),
    StoreUnavailable: (503, "store", {"Retry_After": "1"}),
}
"""Status, place and headers of the answers to errors that a client can do something about."""


class App:
    """The ASGI application: the endpoints, the event stream, the documents."""

    def __init__(self, service: Service, documents: Callable[[], Mapping[str, tuple[str, bytes]]]) -> None:
        """Create the application. ``documents`` returns media type and content by path below ``DOCUMENTS``."""
        self.service = service
        self._documents = documents
        self._routes: dict[str, dict[str, Handler]] = {}
        """Handlers by the path, or by its part before the parameter, which is always the last part."""
        for row in ENDPOINTS:
            self._routes.setdefault(row.path.partition("{")[0], {})[row.method] = _HANDLERS[row.endpoint]
        self._routes["/events"]["GET"] = _open_stream
        self._routes |= {path: {"GET": self._document} for path in DOCUMENTS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request: 4xx for bad input, 503 for the store."""
        path, method, service = scope["path"], scope["method"], self.service
        service.touched = time.monotonic()
        known = self._routes[path] if path in self._routes else self._routes.get(path[: path.find("/", 1) + 1], {})
        response: ASGIApp
        try:
            if method in known:
                response = await known[method](service, HttpRequest(scope, receive))
            elif known:
                response = fault(405, f"{path} takes {', '.join(known)}", "method", Allow=", ".join(known))
            else:
                response = fault(404, "there is no such endpoint; GET /docs lists them", "path")
        except ConfigError as error:
            response = fault(400, error.message, error.at)
        except Refused as error:
            response = error.response()
        except Unconfirmed as error:
            unconfirmed = wire.ErrorResponse(str(error), "store", error.id)
            response = HttpAnswer(wire.encode(unconfirmed), 503, {"Retry-After": "1"})
        except tuple(_FAULTS) as error:
            status, at, headers = next(row for kind, row in _FAULTS.items() if isinstance(error, kind))
            response = fault(status, str(error), at, **headers)
        except StoreError as error:
            logger.error("the store: %s", error)  # noqa: TRY400 - the message is enough
            response = fault(503, str(error), "store")
        except Gone:
            response = fault(408, "the client closed the connection")
        except RecursionError:
            response = fault(400, "nested too deeply", "body")
        except Exception:
            logger.exception("%s %s failed", method, path)
            response = fault(500, "internal error: the server's log has it")
        await response(scope, receive, send)

    async def _document(self, service: Service, request: HttpRequest) -> HttpAnswer:
        media_type, content = (await service.served.read(self._documents))[request.scope["path"]]
        return HttpAnswer(content, media_type=media_type)


async def _open_stream(service: Service, request: HttpRequest) -> ASGIApp:
    if service.served.leaving:
        raise Stopping("the server is stopping")
    asked = read_query(EventsQuery, request.scope["query_string"])
    if asked.namespace is not None:
        check_name(asked.namespace, "namespace")
    token = _token(request)
    if token is None or not token.namespaces or asked.namespace is not None:
        may_read(token, asked.namespace)
    last = next((value.decode("latin-1") for name, value in request.scope["headers"] if name == b"last-event-id"), None)
    types, position = service.stream.check(asked.types, last)
    allowed = frozenset(token.namespaces) if token is not None and token.namespaces else None
    return partial(
        service.stream.serve,
        types=types,
        namespace=asked.namespace,
        namespaces=allowed,
        last_event_id=position,
        holds=None if token is None else partial(service.tokens.holds, token),
    )
