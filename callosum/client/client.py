"""``CallosumClient``: the gate behind a server, with the face of the embedded one.

A request in time::

    began ──── try ── pause ── try ── ... ──── began + deadline      nobody answers: the fallback decides
    began ──── try: waits for its turn ─────── began + deadline + wait

Every try of one call bears the same call id, so that the gate decides it once. What may be carried out twice
without harm is sent again after any failure (intercept, lock, renew, a report by id, and all that only looks);
the rest only where the gate cannot have got it or has said that it did nothing with it.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn, Self, TypeVar

import msgspec
from msgspec.structs import replace

from callosum import wire
from callosum.client.background import BackgroundSender
from callosum.client.classify import Classifier
from callosum.client.errors import BadResponse, GateBusy, TransportError, Unreachable
from callosum.client.fallback import TierTable
from callosum.client.messages import (
    READERS,
    check_id,
    check_times,
    check_ttl,
    fault_of,
    plain,
    query_of,
    read_accepted,
    read_any,
    read_decision,
    read_health,
    read_locked,
    read_report,
    refuse_call,
    refuse_key,
    sent_as,
    written,
    written_report,
)
from callosum.client.spool import ClientSpool, PageRefused
from callosum.client.sse import Events
from callosum.client.transport import HttpResponse, ResponseStream, Transport
from callosum.deadline import stamp
from callosum.errors import CallosumError, ConfigError, GateUnavailable, StoreUnavailable
from callosum.model import (
    DEFAULT_NAMESPACE,
    Call,
    Decision,
    GateRequest,
    LockResult,
    Outcome,
    Report,
    Tier,
    Verdict,
)
from callosum.operations import BY_NAME, Gate
from callosum.policy.table import fallback as verdict_without_gate
from callosum.worktree import located

logger = logging.getLogger("callosum")

URL: Final = f"http://127.0.0.1:{wire.PORT}"
"""Where a gate is looked for, if nothing is said."""
CHORES_EVERY: Final = 10.0
"""How often, in seconds, a client that is in use looks whether late calls wait."""
CARRY_SECONDS: Final = 1.0
"""Seconds that one try to send late calls beside the others may take."""
TELL_AGAIN: Final = 2.0
"""Seconds for which decisions do not wait again for late calls that a gate which decides did not take."""
_OF_A_REPORT: Final = ("instance", "session", "namespace", "tool", "params", "action")
_TABLE_EVERY: Final = 300.0
_FIRST_PAUSE: Final = 0.01
_LAST_PAUSE: Final = 0.2
BUSY_PAUSE: Final = 0.6
"""Before a gate that has too much to do is asked again: a crowd that comes back at once keeps it from its work."""
BUSY_ROOM: Final = 0.4
"""What must be left of the deadline then: who comes back too late for an answer keeps it from its work as well."""
_CALL_AT: Final = re.compile(r"calls\[(\d+)\]")

R = TypeVar("R")
T = TypeVar("T")
_Asked = TypeVar("_Asked", Call, wire.Lock)


class StreamEvent(NamedTuple):
    """One event of the gate's stream; ``data`` is what its JSON says. ``id`` is what to go on from."""

    id: str
    type: str
    data: Any


class CallosumClient(Gate):
    """The gate behind a server, as a ``Gate``. Usable from any thread and after a fork; close it.

    ``url``: ``http://HOST:PORT``, ``https://...`` or ``unix:/PATH`` (default: ``CALLOSUM_URL``, else
    port 7700 of this machine). ``token``: the secret that the server knows this client by (default:
    ``CALLOSUM_TOKEN``). ``deadline``: how long a request may take, in seconds, all tries together; a call's
    ``wait`` comes on top. ``cafile``: certificates to believe instead of the system's. ``verify`` False believes
    any certificate (for tests).

    When no answer comes in time, a call whose tool is of tier ``highest`` at most goes on (``Decision.fallback``)
    and is journalled once the gate is back; a graver one raises ``GateUnavailable``. How grave a tool can be is
    looked up in ``fallback`` (a table ``{tool: tier}``, or the path of its file), else in ``fallback.json`` in
    the folder ``state`` (default: ``CALLOSUM_STATE``, else none), else in the table that the gate gave. In
    ``state`` the late calls are kept too, so that they outlive this process; else they are kept in memory.

    ``start(seconds)`` is called, once a request, where nobody listens at the address, and may bring up a gate
    there; so much of the deadline is left then, and what it takes is not counted. ``sleep`` and ``clock`` are for
    tests. Raises ``ConfigError`` for what cannot be used.

    Methods raise ``ConfigError`` for input that the gate refuses (a token that may not do this, too),
    ``StoreUnavailable`` if the gate cannot reach its store, ``GateUnavailable`` if it cannot be asked.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        deadline: float = 1.0,
        fallback: Mapping[str, int] | str | os.PathLike[str] | None = None,
        state: str | os.PathLike[str] | None = None,
        highest: int = Tier.MEDIUM,
        cafile: str | os.PathLike[str] | None = None,
        verify: bool = True,
        start: Callable[[float], object] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 < deadline <= 3600:
            raise ConfigError(f"expected seconds, more than 0 and at most 3600, got {deadline!r}", at="deadline")
        state = state or os.environ.get("CALLOSUM_STATE") or None
        folder = os.path.expanduser(state) if state is not None else None  # noqa: PTH111
        self.url = url or os.environ.get("CALLOSUM_URL") or URL
        self.deadline = deadline
        self._highest = highest
        self._start = start
        self._sleep = sleep
        self._clock = clock
        self._transport = self._open(token, cafile, verify=verify)
        try:
            self._table = TierTable(fallback, folder)
        except ValueError as error:
            raise ConfigError(str(error), at="fallback") from None
        own = folder is not None and self.url.startswith("unix:") and _is_own(self.url, folder)
        classify = Classifier(os.fspath(folder)) if folder is not None else None
        self._spool = ClientSpool(folder, taken=own, classify=classify)
        self._sender = BackgroundSender(self._spool.waiting, self._carry)
        self._streams: set[EventStream] = set()
        self._met = False
        self._tell_at = float("-inf")
        self._chores_at = float("-inf")
        self._table_at = float("-inf")
        self._fields: frozenset[str] | None = None
        """The fields that the gate lists, None while it has not been asked."""
        self._unknown: frozenset[str] = frozenset()
        """The fields that the gate has refused."""
        self._fields_until = self._unknown_until = 0.0

    here: bool = True
    """Whether the tools of its calls run on this machine, so that its disk tells of their folders."""

    def _open(self, token: str | None, cafile: str | os.PathLike[str] | None, *, verify: bool) -> Transport:
        token = token or os.environ.get("CALLOSUM_TOKEN")
        try:
            Transport(self.url)
        except ValueError as error:
            raise ConfigError(str(error), at="url") from None
        try:
            return Transport(
                self.url,
                token=token,
                cafile=os.fspath(cafile) if cafile is not None else None,
                verify=verify,
                clock=self._clock,
            )
        except ValueError as error:
            raise ConfigError(str(error), at="token") from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections, which ends what other threads wait for. Idempotent.

        Late calls that are in memory alone are offered to the gate once more before.
        """
        self._sender.stop()
        if not self._transport.closed and self._met and self._spool.waiting():
            self._flush(self._clock() + self.deadline)
        self._transport.close()
        for stream in tuple(self._streams):
            stream.close()

    # --- the gate's operations -------------------------------------------------------------------

    def handle(self, request: GateRequest[R]) -> R:
        """Carries out a request at the gate, such as ``wire.Renew``, and returns its reply."""
        if isinstance(request, Call):
            return self.intercept(request)  # type: ignore[return-value]  # a call's R is Decision
        if isinstance(request, wire.Complete):
            return self.report(request)  # type: ignore[return-value]
        if isinstance(request, wire.Lock):
            return self._lock(request)  # type: ignore[return-value]
        row = BY_NAME[request.operation]
        target, body = sent_as(row, request)
        read: Callable[[HttpResponse], R] = READERS[row.answer]
        wait = request.wait if isinstance(request, wire.JournalQuery) else 0.0
        return self._ask(row.method, target, body, read, again=row.again, wait=wait)

    def intercept(self, call: Call) -> Decision:
        """Decides a call before it runs, as every gate does; without the gate as ``fallback`` does.

        A call without a call id gets one. What this machine's disk tells of it is added, as far as nobody has said it:
        the worktree of its ``cwd``, those of the other folders where it uses git, the homes it names.
        """
        call = located(call) if self.here else call
        asked = call if call.call_id is not None else replace(call, call_id=os.urandom(16).hex())
        if call.wait != 0 or call.timeout is not None:
            check_times(call)
        if (
            asked.meta is not None
            or asked.commits is not None
            or asked.summary is not None
            or asked.purpose is not None
        ) and not self._lists(*wire.NEWER):
            asked = replace(asked, **{name: None for name in wire.NEWER if not self._lists(name)})

        def timed(left: float) -> bytes:
            deadline, timeout_ms = stamp(left)
            wait = min(call.wait, max(0.0, round(left - self.deadline, 6))) if call.wait else call.wait
            sent = replace(asked, wait=wait, deadline=deadline, timeout_ms=timeout_ms)
            return written(self._known(sent), lambda: refuse_call(asked))

        lost: list[TransportError] = []
        try:
            return self._ask(
                "POST", "/intercept", timed, read_decision, again=True, wait=call.wait, tell=True, lost=lost
            )
        except GateUnavailable as error:
            if self._transport.closed:
                raise
            try:
                return self._without_gate(call, error, call_id=asked.call_id)
            except GateUnavailable:
                if lost:
                    self._give_up(asked)
                raise
        except StoreUnavailable:
            if lost:
                self._give_up(asked)
            raise

    def report(self, report: wire.Complete, *, sent: Callable[[], object] | None = None) -> Report:
        """Reports how an action ended. A result that cannot be written as JSON, or is too long, is summarised.

        ``sent`` is called each time that the report is out, before the gate's answer: what is begun there, the gate
        hears of after the report.
        """
        if report.id is not None:
            check_id(report.id)
        body = written_report(report)
        try:
            return self._ask("POST", "/complete", body, read_report, again=report.id is not None, sent=sent)
        except (StoreUnavailable, GateUnavailable) as error:
            self._keep_report(report)
            raise type(error)(f"{error}; the report is kept, and is sent once the gate is back") from error.__cause__

    def _lock(self, asked: wire.Lock) -> LockResult:
        check_ttl(asked.ttl)

        def timed(left: float) -> bytes:
            deadline, timeout_ms = stamp(left)
            sent = replace(asked, deadline=deadline, timeout_ms=timeout_ms)
            return written(self._known(sent), lambda: refuse_key(asked.context_key))

        return self._ask("POST", "/lock", timed, read_locked, again=True, tell=True)

    # --- what a server has besides ---------------------------------------------------------------

    def brief(
        self,
        instance: str,
        session: str | None = None,
        *,
        keys: Sequence[str] = (),
        cwd: str | None = None,
        budget: int | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> wire.Brief:
        """Returns what the others have in hand and did lately, as far as it matters to this session.

        ``keys``: context keys that matter to it beside those it has touched (at most 32), ``cwd``: its folder.
        ``budget`` is in tokens (None: the gate's own). Put ``text`` into the session's context, unless it is
        empty. It informs, it confirms nothing.
        """
        named = tuple(keys)
        return self.handle(
            wire.BriefQuery(instance=instance, session=session, keys=named, cwd=cwd, budget=budget, namespace=namespace)
        )

    def approvals(self, *, namespace: str = DEFAULT_NAMESPACE, session: str | None = None) -> tuple[wire.Approval, ...]:
        """Returns the calls that wait for a person, oldest first; ``session``, as the journal names it, or all."""
        return self.handle(wire.ApprovalsQuery(namespace=namespace, session=session)).approvals

    def journal(
        self,
        cursor: str = "",
        *,
        limit: int = 100,
        session: str | None = None,
        context_key: str | None = None,
        newest: bool = False,
        wait: float = 0,
        namespace: str | None = None,
    ) -> wire.JournalPage:
        """Returns a page of the journal after ``cursor``; its own ``cursor`` leads to the next.

        With ``wait`` (seconds, at most 60) it waits for something new. ``namespace`` None means all.
        """
        return self.handle(
            wire.JournalQuery(
                cursor=cursor,
                limit=limit,
                session=session,
                context_key=context_key,
                newest=newest,
                wait=wait,
                namespace=namespace,
            )
        )

    def events(self, types: str = "*", *, last_id: str = "", namespace: str | None = None) -> EventStream:
        """Opens the stream of events: ``types`` are names with commas between (``safety.*,tool.called``).

        ``last_id`` is the id of the newest event that was seen, to go on from there.
        """
        if not last_id.isprintable():
            raise ConfigError("control characters are not allowed", at="last_id")
        target = f"/events{query_of({'types': types, 'namespace': namespace})}"
        try:
            return EventStream(self, lambda last: self._connect(target, last), last_id)
        except TransportError as error:
            self._fail(error)

    def _connect(self, target: str, last_id: str) -> ResponseStream:
        headers = ["Accept: text/event-stream"]
        if last_id:
            headers.append(f"Last-Event-ID: {last_id}")
        deadline = self._clock() + self.deadline
        stream = self._transport.open(target, headers, deadline=deadline)
        fault: Exception = BadResponse("the answer is no stream of events")
        try:
            if stream.status != 200:
                fault = fault_of(stream.read_all(deadline))
            elif stream.headers.get(b"content-type", b"").lower().startswith(b"text/event-stream"):
                return stream
        except TransportError as error:
            fault = error
        stream.close()
        raise BadResponse(str(fault)) if isinstance(fault, StoreUnavailable) else fault

    def emit(self, *events: Mapping[str, Any]) -> int:
        """Reports what a host saw happen; returns how many events the gate took.

        Each is an object with ``type`` and its fields, in the words of the wire. They are not sent twice: if
        ``GateUnavailable`` is raised, some of them may have been taken.
        """
        taken = 0
        for first in range(0, len(events), wire.MAX_EVENTS):
            body = written(events[first : first + wire.MAX_EVENTS])
            taken += self._ask("POST", "/events", body, read_accepted, again=False).accepted
        return taken

    def health(self) -> Mapping[str, Any]:
        """Returns what the gate says of itself: ``status`` (``ok`` or what is wrong), ``version``, ``store``."""
        return self._ask("GET", "/health", None, read_health, again=True)

    # --- without the gate ------------------------------------------------------------------------

    def fallback(self, call: Call, error: Exception, *, tier: int | None = None) -> Decision:
        """Decides a call that the gate could not be asked about (``error`` says why), by the tool's highest tier.

        It goes on and will be journalled, or raises ``GateUnavailable``. ``tier`` is for a caller that knows how
        grave the call is where the table does not.
        """
        return self._without_gate(call, error, tier=tier)

    def _without_gate(
        self, call: Call, error: Exception, *, tier: int | None = None, call_id: str | None = None
    ) -> Decision:
        """Decides as ``fallback`` does; ``call_id`` is the one that the gate was asked under."""
        tier = self._table.tier(call.tool, call.params) if tier is None else tier
        cause = error.__cause__ if isinstance(error.__cause__, TransportError) else error
        if not verdict_without_gate(tier, self._highest).proceed:
            raise GateUnavailable(
                f"the gate at {self.url} cannot be asked: {cause}; a tier {tier} call does not run without it"
            ) from cause
        logger.warning("%s runs without the gate: %s", call.tool, cause)
        self._spool.let_through(plain(call), call_id=call_id)
        self._kept_something()
        return Decision(
            proceed=True,
            tier=tier,
            context_key=None,
            id=0,
            verdict=Verdict.ALLOW,
            context_keys=(),
            rule="",
            fallback=True,
        )

    def remember_late(self, call: Call, outcome: Outcome | str) -> None:
        """Says how a call ended that ran without the gate, for the journal.

        Raises ``ConfigError`` for an outcome that is none.
        """
        try:
            said = Outcome(outcome)
        except ValueError:
            raise ConfigError(f"expected one of {', '.join(Outcome)}, got {outcome!r}", at="outcome") from None
        self._spool.report(plain(call), said.value)
        self._kept_something()

    def flush(self) -> bool:
        """Send now what the gate could not be told before. Return whether it took everything.

        Late calls are sent by themselves too: before the next decision, and within two seconds.
        """
        return self._flush(self._clock() + self.deadline, wait=self.deadline) and not self._spool.waiting()

    def _keep_report(self, report: wire.Complete) -> None:
        """Keeps a report that the gate did not take."""
        said = {name: getattr(report, name) for name in _OF_A_REPORT}
        words = {name: value for name, value in said.items() if value is not None}
        from callosum.gate.check import outcome_of  # noqa: PLC0415 - for a gate that is away

        outcome = outcome_of(report.result, report.outcome)
        self._spool.report_action(words, outcome.value, id=report.id, key=report.context_key)
        self._kept_something()

    def _give_up(self, call: Call) -> None:
        """Notes that nobody waits for the answer to a call any more, and that it does not run."""
        self._spool.give_up(plain(call))
        self._kept_something()

    def _kept_something(self) -> None:
        self._chores_at = float("-inf")
        if self._spool.waiting():
            self._sender.wake()

    def _tell(self, limit: float) -> None:
        """Tells the gate what it does not know yet, before it decides: in half of the time until ``limit``."""
        now = self._clock()
        if self._spool.waiting() and now >= self._tell_at:
            left = (limit - now) / 2
            self._flush(now + left, wait=left)

    def _carry(self) -> None:
        """Tries once, beside the calls, to tell the gate what it does not know yet."""
        if not self._transport.closed:
            self._flush(self._clock() + min(self.deadline, CARRY_SECONDS))

    # --- requests --------------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        target: str,
        body: bytes | Callable[[float], bytes] | None,
        read: Callable[[HttpResponse], T],
        *,
        again: bool,
        wait: float = 0.0,
        sent: Callable[[], object] | None = None,
        tell: bool = False,
        lost: list[TransportError] | None = None,
    ) -> T:
        """Sends a request until it is answered or the time is up. ``tell``: the gate must know the late calls first.

        ``lost`` gets the errors of the tries that the gate may have carried out without the client knowing its answer.

        ``body`` may be a function of the seconds left until this client gives up, for a request that says how
        long its client waits. ``again``: it may be carried out twice. ``wait``: how long the gate may let it wait.
        A try that lasted longer than the deadline was waiting for its turn, and one that a stopping gate sent on
        goes on elsewhere, so after these the gate gets the deadline once more.
        """
        now = self._clock()
        ends = now + self.deadline + wait
        limit = now + self.deadline
        pause = _FIRST_PAUSE
        start = self._start
        dropped = False
        while True:
            if tell:
                self._tell(limit)
                now = self._clock()
            tried = now
            try:
                content = body(ends - now) if callable(body) else body
                answer = self._transport.request(
                    method, target, content, deadline=ends, connect_by=limit, again=again, sent=sent
                )
                found = read(answer)
            except ConfigError as error:
                if dropped or not callable(body) or not self._drops(error):
                    raise
                dropped = True
                now = self._clock()
            except (TransportError, StoreUnavailable) as error:
                if lost is not None and isinstance(error, TransportError) and error.sent:
                    lost.append(error)
                if self._transport.closed or not (again or not getattr(error, "sent", True)):
                    self._fail(error)
                now = self._clock()
                if now - tried > self.deadline or (wait and _sent_on(error)):
                    limit = min(ends, now + self.deadline)
                if start is not None and isinstance(error, Unreachable) and error.absent:
                    hindrance = self._bring_up(start, limit - now)
                    if isinstance(hindrance, ConfigError):
                        self._fail(Unreachable(hindrance.message, sent=False))
                    start, took = None, self._clock() - now
                    ends, limit = ends + took, limit + took
                else:
                    busy = isinstance(error, GateBusy)
                    length = (BUSY_PAUSE if busy else pause) * (0.5 + os.urandom(1)[0] / 510)
                    if length + (BUSY_ROOM if busy else 0.0) >= limit - now:
                        self._fail(error)
                    self._sleep(length)
                    pause = min(pause * 2, _LAST_PAUSE)
                now = self._clock()
            else:
                now = self._clock()
                if tell and now >= self._tell_at and self._spool.waiting():
                    self._tell_at = now + TELL_AGAIN  # it decides, but it does not take them
                if now >= self._chores_at:
                    self._chores(min(ends, now + self.deadline))
                return found

    def _lists(self, *fields: str) -> bool:
        """Return True if the gate says that it knows the fields. It is asked once, and again after some minutes."""
        if self._fields is None or self._clock() >= self._fields_until:
            try:
                health = self.health()
            except (CallosumError, TransportError) as error:
                logger.debug("the gate did not say which fields it knows: %s", error)
                return False
            self._fields_until = self._clock() + _TABLE_EVERY
            said = health.get("fields")
            self._fields = (
                frozenset(one for one in said if isinstance(one, str)) if isinstance(said, list) else frozenset()
            )
        return self._fields.issuperset(fields)

    def _known(self, asked: _Asked) -> _Asked:
        """Return the request without the fields that the gate has refused."""
        if not self._unknown or self._clock() >= self._unknown_until:
            return asked
        defaults = dict(map(wire.OPTIONAL.__getitem__, self._unknown))
        own = asked.__struct_fields__
        return replace(asked, **{name: value for name, value in defaults.items() if name in own})

    def _drops(self, error: ConfigError) -> bool:
        """Return True if the gate refused a field that the request can do without. For some minutes it is not sent."""
        if not error.message.startswith(wire.UNKNOWN_FIELD) or error.at not in wire.OPTIONAL:
            return False
        now = self._clock()
        self._unknown = frozenset((error.at,)) | (self._unknown if now < self._unknown_until else frozenset())
        self._unknown_until = now + _TABLE_EVERY
        return True

    def _fail(self, error: Exception) -> NoReturn:
        if isinstance(error, StoreUnavailable):
            raise error
        raise GateUnavailable(f"the gate at {self.url} cannot be asked: {error}") from error

    def _bring_up(self, start: Callable[[float], object], seconds: float) -> Exception | None:
        """Start a gate. Return why it could not be started, None if nothing is known against it."""
        try:
            start(max(0.0, seconds))
        except (OSError, CallosumError) as error:
            logger.warning("no gate could be started: %s", error)
            return error
        return None

    # --- beside the requests ---------------------------------------------------------------------

    def _chores(self, deadline: float) -> None:
        """What is done now and then after an answer, in what is left of its time: late calls, the table.

        The first answer of all is not made to wait for the table: the second is.
        """
        now = self._clock()
        self._chores_at = now + CHORES_EVERY
        if self._spool.waiting() and (now < self._tell_at or not self._flush(deadline)):
            return
        if not self._met:
            self._met = True
            self._chores_at = now
        elif now >= self._table_at and self._table.wanted():
            self._table_at = now + CHORES_EVERY
            try:
                answer = self._transport.request("GET", "/fallback", deadline=deadline, again=True)
                self._table.learn(read_any(answer))
            except (TransportError, CallosumError, ValueError) as error:
                logger.debug("no fallback table: %s", error)
            else:
                self._table_at = now + _TABLE_EVERY

    def _flush(self, deadline: float, wait: float = 0.0) -> bool:
        """Send the spooled calls to the gate. Return True if it accepted them; ``wait`` as in ``ClientSpool.flush``."""
        try:
            self._spool.flush(lambda body, _: self._post_late(body, deadline), wait)
        except (TransportError, CallosumError, OSError) as error:
            logger.debug("late calls are kept for later: %s", error)
            return False
        return True

    def _post_late(self, body: bytes, deadline: float) -> None:
        answer = self._transport.request("POST", "/late", body, deadline=deadline)
        try:
            read_accepted(answer)
        except ConfigError as error:
            place = _CALL_AT.match(error.at)
            theirs = answer.status == 403
            if answer.status in (400, 413, 422) or (theirs and place is not None):
                raise PageRefused(str(error), int(place[1]) if place else None, theirs=theirs) from None
            raise


def _is_own(url: str, state: str) -> bool:
    """Whether the gate at a socket is the one of this state folder, whose spool it takes in by itself."""
    from callosum.sockets import socket_path  # noqa: PLC0415 - where a state folder is given

    return url == f"unix:{socket_path(state)}"


def _sent_on(error: Exception) -> bool:
    """Whether a gate answered that it did nothing with the request: another one, or the next, may."""
    return isinstance(error, BadResponse) and not error.sent


class EventStream:
    """An endless iterator over ``StreamEvent``; lost connections are replaced, going on where it was.

    Close it, or use it as a context manager; ``close`` may come from any thread.
    """

    def __init__(self, client: CallosumClient, connect: Callable[[str], ResponseStream], last_id: str) -> None:
        self._client = client
        self._ended = threading.Event()
        self._events = Events(connect, last_id=last_id, wait=self._wait, clock=client._clock)  # noqa: SLF001
        client._streams.add(self)  # noqa: SLF001 - closed with its client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StreamEvent:
        id, type, text = next(self._events)
        try:
            return StreamEvent(id, type, msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError):
            return StreamEvent(id, type, text)

    def close(self) -> None:
        """Ends the iteration. Idempotent."""
        self._ended.set()
        self._events.close()
        self._client._streams.discard(self)  # noqa: SLF001

    def _wait(self, seconds: float) -> bool:
        return not self._ended.wait(seconds * (0.5 + os.urandom(1)[0] / 510))
