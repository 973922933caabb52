"""The gate's operations: one table for HTTP, JSON-RPC and Python.

::

    Operation ──┬── server       its endpoint: method, path, and the structs of its body and query
                ├── OpenAPI      its summary, description and example
                ├── stdio        its JSON-RPC methods, one for each struct of ``rpc``
                └── clients      how a request is sent and its reply read

    gate.complete("mira", id=7) ── Gate ── gate.handle(wire.Complete(instance="mira", id=7)) ── in process, or the wire

To add an operation, add its request to ``wire``, its row and its keywords here, its implementation to
``gate/operations.py``, and the tokens that may use it to ``server/app.py``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Final, NamedTuple, NoReturn, ParamSpec, Protocol, TypeVar

from callosum import wire
from callosum.errors import ConfigError, GateUnavailable, StoreUnavailable
from callosum.model import DEFAULT_NAMESPACE, Call, Decision, GateRequest, Host, LockResult, Outcome, Report, Status
from callosum.process import acting, own_session

P = ParamSpec("P")
R = TypeVar("R")


class GateOperation(NamedTuple):
    """One row: an ``endpoint`` such as ``POST /lock``, and the JSON-RPC methods that do the same.

    ``body`` and ``query`` are the structs that the endpoint takes, ``answer`` is the struct of its reply.
    ``example`` is a body. ``rpc`` holds the request types of JSON-RPC, which a gate's ``handle`` takes too;
    ``GateRequest.operation`` names the method. ``approver``: only a person may use it. ``again``: a client may send
    the request again when it does not know whether it was carried out.
    """

    endpoint: str
    summary: str
    description: str
    body: Any = None
    query: type[Any] | None = None
    answer: Any = None
    example: Mapping[str, Any] | None = None
    rpc: tuple[type[GateRequest[Any]], ...] = ()
    approver: bool = False
    again: bool = False
    media_type: str = "application/json"

    @property
    def method(self) -> str:
        """Return the method of the endpoint."""
        return self.endpoint.partition(" ")[0]

    @property
    def path(self) -> str:
        """Return the path of the endpoint, with its parameters in braces."""
        return self.endpoint.partition(" ")[2]


_CALL: Final = {"instance": "mira", "session": "chat", "tool": "message"}
_PARAMS: Final = {"action": "send", "target": "andy", "replyTo": "msg-500", "message": "On it"}
_ID: Final = 1747386902123456

OPERATIONS: Final = (
    GateOperation(
        "POST /intercept",
        "Decide a tool call before it runs",
        "Decides a tool call before it runs.",
        body=wire.Intercept,
        answer=Decision,
        example={**_CALL, "params": _PARAMS},
        rpc=(wire.Intercept,),
        again=True,
    ),
    GateOperation(
        "POST /complete",
        "Report how an action ended",
        "Reports how an action ended, and frees its lease.",
        body=wire.Complete,
        answer=Report,
        example={"instance": "mira", "session": "chat", "id": _ID, "result": {"sent": True}},
        rpc=(wire.Complete,),
    ),
    GateOperation(
        "POST /lock",
        "Take a lease without a tool call",
        "Takes a lease on a key without a tool call.",
        body=wire.Lock,
        answer=LockResult,
        example={"instance": "mira", "contextKey": "doc:plan", "tier": 3, "ttl": 300},
        rpc=(wire.Lock,),
        again=True,
    ),
    GateOperation(
        "DELETE /lock/{key}",
        "Free a lease",
        "Frees this actor's leases on the key; a person frees all with ``force``.",
        body=wire.Release,
        query=wire.ReleaseQuery,
        answer=Report,
        example={"instance": "mira"},
        rpc=(wire.ReleaseAt,),
    ),
    GateOperation(
        "POST /release",
        "Free a lease, named in the body",
        "Does the same for the key in the body.",
        body=wire.ReleaseKey,
        answer=Report,
        example={"instance": "mira", "contextKey": "doc:plan"},
    ),
    GateOperation(
        "POST /renew",
        "Prolong a lease",
        "Moves the end of a lease to ``ttl`` seconds from now.",
        body=wire.Renew,
        answer=Report,
        example={"instance": "mira", "id": _ID, "ttl": 300},
        rpc=(wire.Renew,),
        again=True,
    ),
    GateOperation(
        "POST /resolve",
        "End an unknown action",
        "Ends an ``unknown`` action: somebody looked, and it happened or it did not.\n\n"
        "With an approver's token a person says so, of any action. Otherwise ``by`` names the session that has looked, "
        "of its own instance's actions below tier 4.",
        body=wire.Resolve,
        answer=Report,
        example={"id": _ID, "happened": True, "note": "it is in the sent mails"},
        rpc=(wire.Resolve,),
    ),
    GateOperation(
        "GET /status",
        "Live leases and recent actions",
        "Shows live leases and recent actions, of one key or of all.",
        query=wire.StatusQuery,
        answer=Status,
        rpc=(wire.ReadStatus,),
        again=True,
    ),
    GateOperation(
        "GET /brief",
        "What the others have in hand and did lately",
        "Tells a session what the others have in hand and did lately. It informs, it confirms nothing.",
        query=wire.BriefQuery,
        answer=wire.Brief,
        rpc=(wire.ReadBrief,),
        again=True,
    ),
    GateOperation(
        "GET /approvals",
        "Calls that wait for a person",
        "Lists the calls that wait for a person, oldest first.",
        query=wire.ApprovalsQuery,
        answer=wire.Approvals,
        rpc=(wire.ApprovalsQuery,),
        again=True,
    ),
    GateOperation(
        "POST /approvals/{id}",
        "Approve or deny a call",
        "Approves a call that was asked or blocked, or denies it.",
        body=wire.ApprovalAnswer,
        answer=Report,
        example={"approve": True, "by": "anna"},
        rpc=(wire.Approve, wire.Deny),
        approver=True,
    ),
    GateOperation(
        "GET /journal",
        "Pages and tail of the journal",
        "A page of the journal; with ``wait`` a tail that answers as soon as there is something new.",
        query=wire.JournalQuery,
        answer=wire.JournalPage,
        rpc=(wire.ReadJournal,),
        again=True,
    ),
)

BY_NAME: Final[Mapping[str, GateOperation]] = {kind.operation: row for row in OPERATIONS for kind in row.rpc}
"""The row of each request type."""
METHODS: Final[Mapping[str, type[GateRequest[Any]]]] = {kind.operation: kind for row in OPERATIONS for kind in row.rpc}
"""The JSON-RPC methods, each with its request type."""
FOR_APPROVERS: Final = frozenset(kind.operation for row in OPERATIONS if row.approver for kind in row.rpc)
"""The operations that only a person may use."""


# --- Python interface --------------------------------------------------------------------------------


class Gate(Protocol):
    """The interface of every gate, embedded or over a wire.

    ``instance`` and ``session`` name the actor (``Call.actor``); without a session the process acts. A report or
    renewal by id needs no session: any process of the instance may make it. Sessions in one ``namespace`` share a
    memory. Ids are those of ``Decision.id``. All methods raise ``StoreUnavailable`` (or
    ``GateUnavailable``) if the gate cannot answer, and ``ConfigError`` for invalid input.

    ``handle`` takes any request as it is (without a session the instance acts, as on the wire); the other methods do
    the same with keywords. A subclass need only define it.
    """

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied."""
        raise TypeError(f"a {type(self).__name__} belongs to its process: make one in each process")

    def handle(self, request: GateRequest[R]) -> R:
        """Carry out a request, such as ``wire.Renew``, and return its reply."""
        raise NotImplementedError

    def intercept(self, call: Call) -> Decision:
        """Decide a call before it runs. A "no" is a value: check ``Decision.proceed``.

        A call id that was let through is answered once to each dispatch for a day: an action that is over does not run
        again, and one that still runs does not start twice. A call that was refused or failed is decided again.
        Waits up to ``call.wait`` seconds while another session holds a key.

        Raises:
            Unconfirmed: The store could not confirm that the decision was written durably. Do not run the tool. If
                ``id`` is set, the decision may be in force: cancel it with ``complete``.
            Expired: ``call.deadline`` or ``call.timeout_ms`` has passed. Nothing is open.
        """
        return self.handle(acting(call))

    def complete(  # noqa: PLR0913 - a report has as many parts
        self,
        instance: str,
        *,
        id: int | None = None,
        context_key: str | None = None,
        tool: str | None = None,
        params: Mapping[str, Any] | None = None,
        action: str | None = None,
        result: Any = None,
        outcome: Outcome | str | None = None,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Report:
        """Report how an action ended, found by id, else by tool and params, else by key.

        Without any of them the session's one open action ends. A result with an ``error`` is ``failed``; otherwise
        ``outcome`` counts, by default ``done``.

        Raises:
            ConfigError: No id, key or tool is given, and several actions of the session are open.
        """
        if id is None and context_key is None and tool is None:
            self._require_one_open(f"{instance}/{session if session is not None else own_session()}", namespace)
        return self.handle(
            wire.Complete(
                instance=instance,
                id=id,
                context_key=context_key,
                tool=tool,
                params=params,
                action=action,
                result=result,
                outcome=outcome,  # type: ignore[arg-type]  # the gate checks the outcome and names the valid ones
                session=session if session is not None or id is not None else own_session(),
                namespace=namespace,
            )
        )

    def _require_one_open(self, actor: str, namespace: str) -> None:
        with suppress(StoreUnavailable, GateUnavailable):  # then the report is kept, as any other
            status = self.status(namespace=namespace)
            ids = {one.id for one in status.locks if one.instance == actor and not one.lock}
            ids |= {one.id for one in status.recent_actions if one.instance == actor and not one.reported}
            if len(ids) > 1:
                open_ = f"{len(ids)} actions of {actor} are open ({', '.join(map(str, sorted(ids)))})"
                raise ConfigError(f"{open_}: say which one ended", at="id")

    def lock(
        self,
        instance: str,
        context_key: str,
        tier: int = 3,
        ttl: float | None = None,
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        host: Host | None = None,
    ) -> LockResult:
        """Take a lease of ``ttl`` seconds on a key without a tool call; a tier below 3 counts as 3."""
        return self.handle(
            wire.Lock(
                instance=instance,
                context_key=context_key,
                tier=tier,
                ttl=ttl,
                session=session if session is not None else own_session(),
                namespace=namespace,
                host=host,
            )
        )

    def release(
        self,
        instance: str,
        context_key: str,
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        by: str = "",
        force: bool = False,
    ) -> Report:
        """Release this actor's leases on the key; with ``force`` (a person, named by ``by``), all leases."""
        if session is None and not force and not by:
            session = own_session()
        return self.handle(
            wire.ReleaseAt(
                instance=instance, context_key=context_key, session=session, namespace=namespace, by=by, force=force
            )
        )

    def renew(
        self,
        instance: str,
        id: int,
        ttl: float | None = None,
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Report:
        """Move the end of a lease to ``ttl`` seconds from now."""
        return self.handle(wire.Renew(instance=instance, id=id, ttl=ttl, session=session, namespace=namespace))

    def resolve(
        self, id: int, *, happened: bool, by: str = "", note: str = "", namespace: str = DEFAULT_NAMESPACE
    ) -> Report:
        """End an ``unknown`` action after a check showed that it happened, or that it did not.

        A person may end any action; ``by`` is that person's name. Where no person is proven, ``by`` names the session
        that has checked (``instance/session``), and it may end those of its own instance below tier 4.
        """
        return self.handle(wire.Resolve(id=id, happened=happened, by=by, note=note, namespace=namespace))

    def approve(
        self, id: int, *, by: str = "", channel: str = "", note: str = "", namespace: str = DEFAULT_NAMESPACE
    ) -> Report:
        """Let a call with verdict ask or block run once, within an hour, as it was shown; ``note`` is journalled."""
        return self.handle(wire.Approve(id=id, by=by, channel=channel, note=note, namespace=namespace))

    def deny(
        self, id: int, *, by: str = "", channel: str = "", note: str = "", namespace: str = DEFAULT_NAMESPACE
    ) -> Report:
        """Refuse a call whose verdict was ask. The agent reads ``note`` when it makes the call again."""
        return self.handle(wire.Deny(id=id, by=by, channel=channel, note=note, namespace=namespace))

    def status(self, context_key: str | None = None, *, namespace: str = DEFAULT_NAMESPACE) -> Status:
        """Return live leases and recent actions, on one key or on all."""
        return self.handle(wire.ReadStatus(context_key=context_key or None, namespace=namespace))


class AsyncMethods:
    """The methods of a gate as coroutines. A subclass decides where they run."""

    __reduce__ = Gate.__reduce__

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.complete = self._awaited(gate.complete)
        self.lock = self._awaited(gate.lock)
        self.release = self._awaited(gate.release)
        self.renew = self._awaited(gate.renew)
        self.resolve = self._awaited(gate.resolve)
        self.approve = self._awaited(gate.approve)
        self.deny = self._awaited(gate.deny)
        self.status = self._awaited(gate.status)

    async def handle(self, request: GateRequest[R]) -> R:
        """Carry out a request and return its reply, as ``Gate.handle`` does."""
        if isinstance(request, Call):
            return await self._decide(request)  # type: ignore[return-value]  # a call's R is Decision
        return await self._run(partial(self._gate.handle, request))

    async def intercept(self, call: Call) -> Decision:
        """Decide a call before it runs, as ``Gate.intercept`` does."""
        return await self._decide(acting(call))

    async def _decide(self, call: Call) -> Decision:
        return await self._run(partial(self._gate.handle, call))

    def _awaited(self, method: Callable[P, R]) -> Callable[P, Awaitable[R]]:
        @wraps(method)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await self._run(partial(method, *args, **kwargs))

        return call

    async def _run(self, method: Callable[[], R]) -> R:
        """Call the method without blocking the event loop, and return its result."""
        raise NotImplementedError
