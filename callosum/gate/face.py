"""The face that every gate has, embedded or over a wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from callosum.model import DEFAULT_NAMESPACE, Call, Decision, Host, LockResult, Outcome, Report, Status


class Gate(Protocol):
    """What every gate does, embedded or over a wire.

    ``instance`` and ``session`` name the actor (``Call.actor``); ``namespace`` is who shares a
    memory. Ids are those of ``Decision.id``. All methods raise ``StoreUnavailable`` (or
    ``GateUnavailable``) if the gate cannot answer, ``ConfigError`` on input that cannot be used.
    """

    def intercept(self, call: Call) -> Decision:
        """Decides a call before it runs. A "no" is a value: look at ``Decision.proceed``.

        Idempotent by call id for a day where the call was let through; a "no" is judged afresh.
        Waits up to ``call.wait`` seconds while another session holds a key.

        Raises:
            Unconfirmed: The store could not confirm that the decision survives. Do not run the tool. If
                ``id`` is set, the decision may be in force: cancel it with ``complete``.
            Expired: ``call.deadline`` or ``call.timeout_ms`` has passed. Nothing is open.
        """
        ...

    def complete(
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
        """Reports how an action ended, found by id, else by tool and params, else by key.

        Without id and tool, ``context_key`` None means the newest action without a key. A result
        with an ``error`` is ``failed``; otherwise ``outcome`` says, default ``done``.
        """
        ...

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
        """Takes a lease of ``ttl`` seconds on a key without a tool call; a tier below 3 counts as 3."""
        ...

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
        """Frees this actor's leases on the key; with ``force`` (a person, named by ``by``) all."""
        ...

    def renew(
        self,
        instance: str,
        id: int,
        ttl: float | None = None,
        *,
        session: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Report:
        """Moves the end of a lease to ``ttl`` seconds from now."""
        ...

    def resolve(
        self, id: int, *, happened: bool, by: str = "", note: str = "", namespace: str = DEFAULT_NAMESPACE
    ) -> Report:
        """End an ``unknown`` action: somebody looked, and it happened or it did not.

        A person may end any; ``by`` is that person's name. Where no person is proven, ``by`` names the session that
        has looked (``instance/session``), and it may end those of its own instance below tier 4.
        """
        ...

    def approve(self, id: int, *, by: str = "", channel: str = "", namespace: str = DEFAULT_NAMESPACE) -> Report:
        """Lets a call that was asked or blocked run once, within an hour, as it was shown."""
        ...

    def deny(self, id: int, *, by: str = "", channel: str = "", namespace: str = DEFAULT_NAMESPACE) -> Report:
        """Refuses a call that was asked."""
        ...

    def status(self, context_key: str | None = None, *, namespace: str = DEFAULT_NAMESPACE) -> Status:
        """Shows live leases and recent actions, of one key or of all."""
        ...


@runtime_checkable
class Standby(Protocol):
    """What a gate does for a call that it cannot decide just now."""

    def fallback(self, call: Call, error: Exception) -> Decision:
        """Lets a call of tier 0 to 2 go on; raises ``GateUnavailable`` from ``error`` for a graver one."""
        ...

    def remember_late(self, call: Call, outcome: Outcome | str) -> None:
        """Keeps a call that ran so, and how it ended, to journal it once that is possible."""
        ...
