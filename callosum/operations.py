"""The gate's operations: one table of what can be asked, over HTTP, over JSON-RPC and in Python.

::

    Operation ──┬── server       its endpoint: method, path, and the structs of its body and query
                ├── OpenAPI      its summary, description and example
                ├── stdio        its JSON-RPC methods, one for each struct of ``rpc``
                ├── clients      how a request is sent and its reply read
                └── ``GateRequest.operation``, by which a gate finds what serves a request

To add an operation, add its request to ``wire``, its row here and what serves it to ``gate/course.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from callosum import wire
from callosum.model import Decision, GateRequest, LockResult, Report, Status


class Operation(NamedTuple):
    """One row: an endpoint, and the JSON-RPC methods that do the same.

    ``body`` and ``query`` are what the endpoint takes, ``answer`` what it replies with. ``example`` is a body. ``rpc``
    are the requests of JSON-RPC, and of a gate's ``handle``; the method is named by ``GateRequest.operation``.
    ``approver``: only a person may ask. ``again``: a client whose request may have been carried out may send it again.
    """

    method: str
    path: str
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


_CALL: Final = {"instance": "mira", "session": "chat", "tool": "message"}
_PARAMS: Final = {"action": "send", "target": "andy", "replyTo": "msg-500", "message": "On it"}
_ID: Final = 1747386902123456

OPERATIONS: Final = (
    Operation(
        "POST",
        "/intercept",
        "Decide a tool call before it runs",
        "Decides a tool call before it runs.",
        body=wire.Intercept,
        answer=Decision,
        example={**_CALL, "params": _PARAMS},
        rpc=(wire.Intercept,),
        again=True,
    ),
    Operation(
        "POST",
        "/complete",
        "Report how an action ended",
        "Reports how an action ended, and frees its lease.",
        body=wire.Complete,
        answer=Report,
        example={"instance": "mira", "session": "chat", "id": _ID, "result": {"sent": True}},
        rpc=(wire.Complete,),
    ),
    Operation(
        "POST",
        "/lock",
        "Take a lease without a tool call",
        "Takes a lease on a key without a tool call.",
        body=wire.Lock,
        answer=LockResult,
        example={"instance": "mira", "contextKey": "doc:plan", "tier": 3, "ttl": 300},
        rpc=(wire.Lock,),
        again=True,
    ),
    Operation(
        "DELETE",
        "/lock/{key}",
        "Free a lease",
        "Frees this actor's leases on the key; a person frees all with ``force``.",
        body=wire.Release,
        query=wire.ReleaseQuery,
        answer=Report,
        example={"instance": "mira"},
        rpc=(wire.ReleaseAt,),
    ),
    Operation(
        "POST",
        "/release",
        "Free a lease, named in the body",
        "Does the same for the key in the body.",
        body=wire.ReleaseKey,
        answer=Report,
        example={"instance": "mira", "contextKey": "doc:plan"},
    ),
    Operation(
        "POST",
        "/renew",
        "Prolong a lease",
        "Moves the end of a lease to ``ttl`` seconds from now.",
        body=wire.Renew,
        answer=Report,
        example={"instance": "mira", "id": _ID, "ttl": 300},
        rpc=(wire.Renew,),
        again=True,
    ),
    Operation(
        "POST",
        "/resolve",
        "End an unknown action",
        "Ends an ``unknown`` action: somebody looked, and it happened or it did not.\n\n"
        "With an approver's token a person says so, of any action. Otherwise ``by`` names the session that has looked, "
        "of its own instance's actions below tier 4.",
        body=wire.Resolve,
        answer=Report,
        example={"id": _ID, "happened": True, "note": "it is in the sent mails"},
        rpc=(wire.Resolve,),
    ),
    Operation(
        "GET",
        "/status",
        "Live leases and recent actions",
        "Shows live leases and recent actions, of one key or of all.",
        query=wire.StatusQuery,
        answer=Status,
        rpc=(wire.ReadStatus,),
        again=True,
    ),
    Operation(
        "GET",
        "/brief",
        "What the others have in hand and did lately",
        "Tells a session what the others have in hand and did lately. It informs, it confirms nothing.",
        query=wire.BriefQuery,
        answer=wire.Brief,
        rpc=(wire.ReadBrief,),
        again=True,
    ),
    Operation(
        "GET",
        "/approvals",
        "Calls that wait for a person",
        "Lists the calls that wait for a person, oldest first.",
        query=wire.ApprovalsQuery,
        answer=wire.Approvals,
        rpc=(wire.ApprovalsQuery,),
        again=True,
    ),
    Operation(
        "POST",
        "/approvals/{id}",
        "Approve or deny a call",
        "Approves a call that was asked or blocked, or denies it.",
        body=wire.Answer,
        answer=Report,
        example={"approve": True, "by": "anna"},
        rpc=(wire.Approve, wire.Deny),
        approver=True,
    ),
    Operation(
        "GET",
        "/journal",
        "Pages and tail of the journal",
        "A page of the journal; with ``wait`` a tail that answers as soon as there is something new.",
        query=wire.JournalQuery,
        answer=wire.JournalPage,
        rpc=(wire.ReadJournal,),
        again=True,
    ),
)

BY_NAME: Final[Mapping[str, Operation]] = {kind.operation: row for row in OPERATIONS for kind in row.rpc}
"""The row of each operation that can be asked for by a request."""
METHODS: Final[Mapping[str, type[GateRequest[Any]]]] = {kind.operation: kind for row in OPERATIONS for kind in row.rpc}
"""The JSON-RPC methods, each with what it takes."""
FOR_APPROVERS: Final = frozenset(kind.operation for row in OPERATIONS if row.approver for kind in row.rpc)
"""The operations that only a person may ask for."""
