"""Connect the calls of an MCP client to the gate: ask, report, renew leases, and decide while it is unreachable.

::

    ask ── intercept ──┬── GateAnswer: the call may run (perhaps with a warning), or the sentence why not
                       │  the gate is unreachable, or rejects the token
                       └── the tier table ── the rules, for calls that only read ── GateAnswer
    report ── complete, or the spool
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from callosum.client.fallback import runs_commands
from callosum.client.local import START_SECONDS
from callosum.errors import CallosumError, ConfigError, GateUnavailable, StoreUnavailable
from callosum.model import Call, Decision, Outcome, Tier, Verdict
from callosum.sockets import HUNG_SECONDS
from callosum.wire import Complete

if TYPE_CHECKING:
    from callosum.client.client import CallosumClient
    from callosum.corpus.events import CorpusEvent

logger = logging.getLogger("callosum")

RENEW_AT: Final = 3
"""Divisor of a lease's duration that gives the time until its renewal."""
FAST: Final = 0.1
"""Seconds above which a gate counts as slow and is waited for in another thread."""
LONG_PARAMS: Final = 3_500_000
"""Length of a call's params in bytes of JSON from which long texts are cut for the gate."""
LONG_TEXT: Final = 100_000
"""Number of characters of such a text that the gate receives."""
_OURS: Final = frozenset(("Authorization", "Host", "Origin", "instance", "session", "namespace", "parent", "token"))
"""Places of an error that mean the gate rejects this client rather than the call."""


T = TypeVar("T")


class GateAnswer(NamedTuple):
    """Hold the gate's answer to one call.

    ``text`` is the sentence for the agent, or ``""``. ``decision`` is the open decision that must be reported, or None
    for a call that does not run. ``question`` is the id of a decision that a person must make. ``retry_after`` is the
    time in seconds after which the same call may succeed; None if time alone does not help.
    """

    proceed: bool
    text: str = ""
    decision: Decision | None = None
    question: int | None = None
    retry_after: float | None = None


class GateClient:
    """Ask the gate and report to it. Any thread may use it.

    ``connect`` creates the client when it is first needed. ``judge`` returns a call's tier and effect by the rules
    alone, for use while the gate is unreachable. ``clock`` is for tests.
    """

    def __init__(
        self,
        connect: Callable[[], CallosumClient],
        judge: Callable[[Call], tuple[int, str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._hung_until = float("-inf")
        self._connect = connect
        self._judge = judge
        self._client: CallosumClient | None = None
        self._lock = threading.Lock()
        self._renewing = _Renewing(self._renew)
        self.warming: threading.Thread | None = None
        """The thread that runs ``warm``, which may be starting the gate: calls wait for it."""
        self.is_fast = False
        """True if the gate's last answer was fast enough to wait for it in the current thread."""

    def warm(self) -> None:
        """Open the connection before it is needed, which may start the local gate. Never raises."""
        try:
            self._timed(self.client.health)
        except CallosumError as error:
            logger.warning("no gate yet: %s", error)

    @property
    def client(self) -> CallosumClient:
        """Return the client. The first access creates it."""
        if self._client is None:
            with self._lock:
                if self._client is None:
                    self._client = self._connect()
        return self._client

    def close(self) -> None:
        """Close the client, after one more attempt to send the spool."""
        self._renewing.close()
        if self._client is not None:
            self._client.close()

    def ask(self, call: Call, size: int) -> GateAnswer:
        """Return whether a call may run. ``size`` is the approximate length of its arguments in bytes. Never raises."""
        try:
            if size > LONG_PARAMS:
                call = replace(call, params=shortened(call.params), rewrite=False)
            decision = self._timed(lambda: self._decide(call))
        except GateUnavailable as error:
            return GateAnswer(False, _away(call, error))
        except CallosumError as error:
            return GateAnswer(False, f"[Callosum] This call cannot be judged, so it did not run: {str(error)[:500]}.")
        except Exception as error:  # after any failure the call has no permission
            logger.exception("%s could not be judged", call.tool)
            return GateAnswer(
                False, f"[Callosum] This call cannot be judged, so it did not run: {type(error).__name__}."
            )
        if not decision.proceed:
            text = decision.warning or f"[Callosum] This call was not let through ({decision.verdict})."
            question = decision.id if decision.verdict is Verdict.ASK else None
            return GateAnswer(False, text, question=question, retry_after=decision.retry_after)
        if decision.lease is not None:
            self._renewing.add(call, decision)
        return GateAnswer(True, (decision.warning or "") if decision.verdict is Verdict.WARN else "", decision)

    def _decide(self, call: Call) -> Decision:
        """Ask the gate, or decide without it.

        After a timeout the gate is not asked for ``HUNG_SECONDS``, as in hooks, so that not every call waits in vain.
        """
        began = self._clock()
        fault: CallosumError
        try:
            decision = self._intercept(call, began)
        except (GateUnavailable, StoreUnavailable) as error:
            fault = error
            self._note_hung(call, began)
        except ConfigError as error:
            if error.at not in _OURS:
                raise
            fault = error
        else:
            if decision.fallback:
                self._note_hung(call, began)
            return decision
        try:
            return self.client.fallback(call, fault)
        except GateUnavailable:
            whatever = (call, replace(call, params={}))  # the tool may be read-only whatever its arguments are
            if runs_commands(call.tool) or any(self._judge(one) != (Tier.NONE, "read") for one in whatever):
                raise
            return self.client.fallback(call, fault, tier=Tier.NONE)

    def _intercept(self, call: Call, now: float) -> Decision:
        if self.warming is not None:
            self.warming.join(START_SECONDS)
        if now < self._hung_until:
            raise GateUnavailable("it did not answer in time a moment ago")
        return self.client.intercept(call)

    def _note_hung(self, call: Call, began: float) -> None:
        now = self._clock()
        if now - began >= self.client.deadline + call.wait:
            self._hung_until = now + HUNG_SECONDS

    def report(
        self,
        call: Call,
        decision: Decision,
        result: Any = None,
        outcome: Outcome | None = None,
        *,
        sent: Callable[[], object] | None = None,
    ) -> None:
        """Report how a call ended. Never raises: the tool has run, and a missing report becomes ``unknown``.

        ``sent`` is called, possibly more than once, when the report is on its way and before the gate has answered.
        """
        if not decision.id:
            return  # the host's hook decided the call, and reports it
        self._renewing.drop(decision.id)
        try:
            if decision.fallback:
                from callosum.gate.check import outcome_of  # noqa: PLC0415 - needed only while the gate is unreachable

                self.client.remember_late(call, outcome or outcome_of(result, None))
                return
            completion = Complete(
                instance=call.instance,
                id=decision.id,
                result=result,
                outcome=outcome,
                session=call.session,
                namespace=call.namespace,
            )
            self._timed(lambda: self.client.report(completion, sent=sent))
        except CallosumError as error:
            logger.warning("the outcome of %s could not be reported: %s", call.tool, error)

    def takes_a_hosts_word(self) -> bool:
        """Return True if this gate accepts a person's answer that comes through the client. Never raises."""
        try:
            return self.client.health().get("hostApprovals") is True
        except Exception as error:  # noqa: BLE001 - after any failure, ask nobody
            logger.info("the gate did not say whether a host's word counts: %s", error)
            return False

    def answer(self, question: int, *, agreed: bool, namespace: str) -> None:
        """Send the gate a person's answer that came through the client.

        Never raises, because the call asks the gate again.
        """
        from callosum.policy.lifecycle import HOST  # noqa: PLC0415 - a wrap starts without the rules

        try:
            say = self.client.approve if agreed else self.client.deny
            say(question, by=HOST, channel=HOST, namespace=namespace)
        except CallosumError as error:
            logger.warning("the answer to question %s did not reach the gate: %s", question, error)

    def tell(self, event: CorpusEvent) -> None:
        """Report an event other than a call. Never raises, because an event may be lost."""
        try:
            self.client.emit({"type": event.dotted, **msgspec.to_builtins(event)})
        except CallosumError as error:
            logger.info("%s could not be reported: %s", event.dotted, error)

    def _timed(self, ask: Callable[[], T]) -> T:
        """Ask the gate and note whether it was fast."""
        began = time.monotonic()
        try:
            return ask()
        finally:
            self.is_fast = time.monotonic() - began < FAST

    def _renew(self, call: Call, id: int) -> bool:
        return self.client.renew(call.instance, id, session=call.session, namespace=call.namespace).ok


def shortened(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params with long texts cut. A call that the gate does not see in full counts as at least tier 3."""
    cut = {name: _cut(value) for name, value in params.items()}
    cut["_tier"] = max(Tier.HIGH, params["_tier"]) if params.get("_tier") in tuple(Tier) else int(Tier.HIGH)
    return cut


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > LONG_TEXT:
        digest = blake2b(value.encode("utf-8", "replace"), digest_size=16).hexdigest()
        return f"{value[:LONG_TEXT]}… ({len(value)} characters, {digest})"
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    return [_cut(item) for item in value] if isinstance(value, list) else value


def _away(call: Call, error: GateUnavailable) -> str:
    why = error.__cause__ or error
    return (
        f"[Callosum] The gate that all sessions share is unreachable ({str(why)[:200]}), and {call.tool} is too "
        "risky to run without it. It did not run. Continue with calls that only read, try again in a minute, or tell "
        "the user."
    )


class _Renewing:
    """Renew the leases of all running calls in one thread, which starts with the first call."""

    def __init__(self, renew: Callable[[Call, int], bool]) -> None:
        self._renew = renew
        self._wake = threading.Condition()
        self._due: list[tuple[float, int]] = []
        self._held: dict[int, tuple[Call, float]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, call: Call, decision: Decision) -> None:
        if decision.lease is None:
            return
        every = max(0.1, decision.lease.ttl) / RENEW_AT
        with self._wake:
            self._held[decision.id] = (replace(call, params={}), every)
            heapq.heappush(self._due, (time.monotonic() + every, decision.id))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="callosum-renewing", daemon=True)
                self._thread.start()
            elif self._due[0][1] == decision.id:
                self._wake.notify()

    def drop(self, id: int) -> None:
        with self._wake:
            self._held.pop(id, None)

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _run(self) -> None:
        while (next_one := self._next()) is not None:
            id, call = next_one
            try:
                if not self._renew(call, id):
                    self.drop(id)
            except CallosumError as error:
                logger.warning("lease %s could not be renewed: %s", id, error)

    def _next(self) -> tuple[int, Call] | None:
        """Wait for the next lease to renew and schedule it again. Return None after ``close``."""
        with self._wake:
            while not self._closed:
                while self._due and self._due[0][1] not in self._held:
                    heapq.heappop(self._due)
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is None or left > 0:
                    self._wake.wait(left)
                    continue
                _, id = heapq.heappop(self._due)
                call, every = self._held[id]
                heapq.heappush(self._due, (time.monotonic() + every, id))
                return id, call
        return None
