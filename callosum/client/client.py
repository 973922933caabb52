"""Use a gate behind a server through the interface of the embedded one.

Time limits of a request::

    began ──── try ── pause ── try ── ... ──── began + deadline      no response: the fallback decides
    began ──── try: waits for its turn ─────── began + deadline + wait

Every try of a call carries the same call id, so that the gate decides the call once. Requests that may safely be
carried out twice (intercept, lock, renew, a report by id, and all reads) are sent again after any failure. Other
requests are sent again only if the gate cannot have received them, or said that it did nothing.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
    RequestRefused,
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
    weight,
    written,
    written_report,
)
from callosum.client.spool import ClientSpool, PageRefused
from callosum.client.sse import Events
from callosum.client.transport import GateAddress, HttpResponse, ResponseStream, Transport
from callosum.deadline import stamp
from callosum.errors import CallosumError, ConfigError, GateUnavailable, StoreUnavailable, Unconfirmed
from callosum.model import DEFAULT_NAMESPACE, Call, Decision, GateRequest, LockResult, Outcome, Report, Tier, Verdict
from callosum.operations import BY_NAME, Gate
from callosum.policy.table import fallback as verdict_without_gate
from callosum.process import acting, own_session
from callosum.worktree import located

logger = logging.getLogger("callosum")

URL: Final = f"http://127.0.0.1:{wire.PORT}"
"""URL of the gate if none is given."""
CHORES_EVERY: Final = 10.0
"""Seconds between two checks for spooled calls and for a new fallback table, while the client is in use."""
CARRY_SECONDS: Final = 1.0
"""Seconds that one attempt to send spooled calls in the background may take."""
TELL_AGAIN: Final = 2.0
"""Seconds for which decisions do not wait again to send spooled calls that a reachable gate did not accept."""
_OF_A_REPORT: Final = ("instance", "session", "namespace", "tool", "params", "action")
_TABLE_EVERY: Final = 300.0
_FIRST_PAUSE: Final = 0.01
_LAST_PAUSE: Final = 0.2
BUSY_PAUSE: Final = 0.6
"""Seconds to wait before asking an overloaded gate again; clients that all return at once would keep it overloaded."""
BUSY_ROOM: Final = 0.4
"""Seconds of the deadline that must remain for that retry; one too late to use the response adds load for nothing."""
_CALL_AT: Final = re.compile(r"calls\[(\d+)\]")

R = TypeVar("R")
T = TypeVar("T")
_Asked = TypeVar("_Asked", Call, wire.Lock)


class StreamEvent(NamedTuple):
    """One event of the gate's stream. ``data`` is its decoded JSON; continue after the event by its ``id``."""

    id: str
    type: str
    data: Any


class CallosumClient(Gate):
    """The gate behind a server, as a ``Gate``. Usable from any thread and after a fork; close it.

    ``url``: ``http://HOST:PORT``, ``https://...`` or ``unix:/PATH`` (default: ``CALLOSUM_URL``, else port 7700 of this
    machine). ``token``: the secret that identifies this client to the server (default: ``CALLOSUM_TOKEN``; for a gate
    of this user on the loopback, the machine's own token in the state folder).
    ``deadline``: seconds that a request may take, all tries together; a call's ``wait`` comes on top. ``cafile``:
    certificates to trust instead of the system's. ``verify`` False trusts any certificate (for tests).

    If no response comes in time, a call whose tool is at most of tier ``highest`` continues (``Decision.fallback``) and
    is journalled once the gate is reachable again; a call of a higher tier raises ``GateUnavailable``. A tool's highest
    tier is looked up in ``fallback`` (a table ``{tool: tier}``, or the path of its file), else in ``fallback.json`` in
    the folder ``state`` (default: ``CALLOSUM_STATE``, else none), else in the table that the gate gave. The spool is
    kept in ``state`` too, so that it outlives this process; without a state folder it is kept in memory.

    ``start(seconds)`` is called at most once per request, if nothing listens at the address, and may start a gate
    there. ``seconds`` is what remains of the deadline; the time that ``start`` takes is not counted. ``sleep`` and
    ``clock`` are for tests. Raises ``ConfigError`` for arguments that cannot be used.

    Methods raise ``ConfigError`` for input that the gate refuses (or a token without the right), ``StoreUnavailable``
    if the gate cannot reach its store, and ``GateUnavailable`` if the gate is unreachable.
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
        if folder is not None and os.path.isfile(folder):  # noqa: PTH113
            raise ConfigError(f"{folder} is a file; expected a folder", at="state")
        self.url = url or os.environ.get("CALLOSUM_URL") or URL
        self.deadline = deadline
        self._highest = highest
        self._start = start
        self._sleep = sleep
        self._clock = clock
        at = "url"
        try:
            GateAddress(self.url)
            at = "token"
            self._transport = Transport(
                self.url,
                token=token or os.environ.get("CALLOSUM_TOKEN"),
                machine_token=partial(_machine_token, folder),
                cafile=os.fspath(cafile) if cafile is not None else None,
                verify=verify,
                clock=clock,
            )
            at = "fallback"
            self._table = TierTable(fallback, folder)
        except ValueError as error:
            raise ConfigError(str(error), at=at) from None
        own = False  # whether the folder's gate listens there, which reads the folder's spool itself
        if folder is not None and self.url.startswith("unix:"):
            from callosum.sockets import socket_path  # noqa: PLC0415 - only if a state folder is given

            own = self.url == f"unix:{socket_path(folder)}"
        classify = Classifier(os.fspath(folder)) if folder is not None else None
        self._spool = ClientSpool(folder, taken=own, classify=classify)
        self._sender = BackgroundSender(self._spool.waiting, self._carry)
        self._streams: set[EventStream] = set()
        self._met = False
        self._tell_at = float("-inf")
        self._chores_at = float("-inf")
        self._table_at = float("-inf")
        self._fields: frozenset[str] | None = None
        """Fields that the gate lists, None until it was asked."""
        self._unknown: frozenset[str] = frozenset()
        """Fields that the gate has refused."""
        self._fields_until = self._unknown_until = 0.0

    here: bool = True
    """True if the calls' tools run on this machine, so that its disk describes their folders."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, which ends waits in other threads. Idempotent.

        Spooled calls that are only in memory are offered to the gate once more first.
        """
        self._sender.stop()
        if not self._transport.closed and self._met and self._spool.waiting():
            self._flush(self._clock() + self.deadline)
        self._transport.close()
        for stream in tuple(self._streams):
            stream.close()

    # --- the gate's operations -------------------------------------------------------------------

    def handle(self, request: GateRequest[R]) -> R:
        """Send a request such as ``wire.Renew`` to the gate and return its reply."""
        if isinstance(request, Call):
            return self._decide(request)  # type: ignore[return-value]  # a call's R is Decision
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
        """Decide a call before it runs, as every gate does; without the gate, decide like ``fallback``.

        A call without a call id or a dispatch gets a new one, which stays the same however often the request is sent.
        What this machine's disk knows about the call is added unless the call already says it: the worktree of its
        ``cwd``, those of other folders where it uses git, and the homes it names.
        """
        return self._decide(call if type(call) is Call and call.session is not None else acting(call))

    def _decide(self, call: Call) -> Decision:
        call = located(call) if self.here else call
        asked = call
        if call.call_id is None or call.dispatch is None:
            fresh = os.urandom(16).hex()
            name = call.call_id if call.call_id is not None else fresh
            asked = replace(call, call_id=name, dispatch=call.dispatch or fresh)
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
        except StoreUnavailable as error:
            if lost or (isinstance(error, Unconfirmed) and error.id is not None):
                self._give_up(asked)
            raise
        except RequestRefused as error:
            if self._table.tier(call.tool, call.params) != Tier.NONE:
                raise
            return self._without_gate(call, error, tier=Tier.NONE, call_id=asked.call_id)

    def report(self, report: wire.Complete, *, sent: Callable[[], object] | None = None) -> Report:
        """Report how an action ended. A result that JSON cannot hold, or that is too long, is summarised.

        ``sent`` is called each time the report has been sent, before the gate responds: the gate receives whatever
        starts in it after the report.
        """
        if report.id is not None:
            check_id(report.id)
        body = written_report(report)
        try:
            return self._ask("POST", "/complete", body, read_report, again=report.id is not None, sent=sent)
        except (StoreUnavailable, GateUnavailable) as error:
            self._keep_report(report)
            error.args = (f"{error}; the report is kept, and is sent once the gate is back",)
            raise

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
        """Return what other sessions are doing and did lately, as far as it matters to this session.

        ``keys``: at most 32 context keys that matter to the session beside those it has touched; ``cwd``: its folder.
        ``budget`` is in tokens (None: the gate's own). Put ``text`` into the session's context, unless it is empty. A
        brief only informs; it confirms nothing.
        """
        named = tuple(keys)
        session = session if session is not None else own_session()
        return self.handle(
            wire.BriefQuery(instance=instance, session=session, keys=named, cwd=cwd, budget=budget, namespace=namespace)
        )

    def approvals(self, *, namespace: str = DEFAULT_NAMESPACE, session: str | None = None) -> tuple[wire.Approval, ...]:
        """Return the calls that wait for a person, oldest first: of ``session``, named as in the journal, or of all."""
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
        """Return the page of the journal after ``cursor``; the page's own ``cursor`` leads to the next.

        ``wait`` is the number of seconds, at most 60, to wait for a new entry. ``namespace`` None means all.
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
        """Open the stream of events; ``types`` are names separated by commas (``safety.*,tool.called``).

        ``last_id`` is the id of the newest event already received; the stream continues after it.
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
        """Report events that a host observed; return how many events the gate accepted.

        Each event is an object with ``type`` and its fields, in wire form. Events are not sent twice: if
        ``GateUnavailable`` is raised, some of them may have been accepted.
        """
        taken = 0
        for first in range(0, len(events), wire.MAX_EVENTS):
            body = written(events[first : first + wire.MAX_EVENTS])
            taken += self._ask("POST", "/events", body, read_accepted, again=False).accepted
        return taken

    def health(self) -> Mapping[str, Any]:
        """Return the gate's report about itself: ``status`` (``ok`` or what is wrong), ``version``, ``store``."""
        return self._ask("GET", "/health", None, read_health, again=True)

    # --- without the gate ------------------------------------------------------------------------

    def fallback(self, call: Call, error: Exception, *, tier: int | None = None) -> Decision:
        """Decide a call while the gate is unreachable (``error`` says why), by the tool's highest tier.

        The call continues and is spooled, or ``GateUnavailable`` is raised. ``tier`` is for a caller that knows the
        tier of the call better than the table.
        """
        return self._without_gate(call, error, tier=tier)

    def _without_gate(
        self, call: Call, error: Exception, *, tier: int | None = None, call_id: str | None = None
    ) -> Decision:
        """Decide like ``fallback``; ``call_id`` is the id under which the gate was asked."""
        tier = self._table.tier(call.tool, call.params) if tier is None else tier
        cause = error.__cause__ if isinstance(error.__cause__, TransportError) else error
        if not verdict_without_gate(tier, self._highest).proceed:
            raise GateUnavailable(
                f"the gate at {self.url} cannot be asked: {cause}; a tier {tier} call does not run without it"
            ) from cause
        logger.warning("%s runs without the gate: %s", call.tool, cause)
        why = str(error) if isinstance(error, RequestRefused) else None
        self._spool.let_through(plain(call), call_id=call_id, why=why)
        self._kept_something()
        return Decision(True, tier, None, 0, Verdict.ALLOW, (), "", fallback=True)

    def remember_late(self, call: Call, outcome: Outcome | str) -> None:
        """Record in the spool how a call ended that ran without the gate.

        Raises ``ConfigError`` if ``outcome`` is not an outcome.
        """
        try:
            said = Outcome(outcome)
        except ValueError:
            raise ConfigError(f"expected one of {', '.join(Outcome)}, got {outcome!r}", at="outcome") from None
        self._spool.report(plain(acting(call)), said.value)
        self._kept_something()

    def flush(self) -> bool:
        """Send the spooled calls now and return whether the gate accepted all of them.

        They are also sent automatically: before the next decision, and within two seconds.
        """
        return self._flush(self._clock() + self.deadline, wait=self.deadline) and not self._spool.waiting()

    def _keep_report(self, report: wire.Complete) -> None:
        """Spool a report that the gate did not receive."""
        words = {name: value for name in _OF_A_REPORT if (value := getattr(report, name)) is not None}
        from callosum.gate.check import outcome_of  # noqa: PLC0415 - needed only while the gate is unreachable

        outcome = outcome_of(report.result, report.outcome)
        self._spool.report_action(words, outcome.value, id=report.id, key=report.context_key)
        self._kept_something()

    def _give_up(self, call: Call) -> None:
        """Record that nothing waits for the decision on a call any more, and that the call does not run."""
        self._spool.give_up(plain(call))
        self._kept_something()

    def _kept_something(self) -> None:
        self._chores_at = float("-inf")
        if self._spool.waiting():
            self._sender.wake()

    def _tell(self, limit: float) -> None:
        """Send the spooled calls before a decision, within half of the time until ``limit``."""
        now = self._clock()
        if self._spool.waiting() and now >= self._tell_at:
            left = (limit - now) / 2
            self._flush(now + left, wait=left)

    def _carry(self) -> None:
        """Try once, in the background, to send the spooled calls."""
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
        """Send a request until it is answered or the time is up.

        ``body`` may be a function of the seconds left until this client gives up, for a request that says how long its
        client waits. ``again``: the request may be carried out twice. ``wait``: seconds that the gate may let the
        request wait. ``tell``: send the spooled calls first. ``lost`` collects the errors of tries that the gate may
        have carried out although its response was lost.

        A try that lasted longer than the deadline was waiting for its turn, and one that a stopping gate refused
        continues at another server; after either, the gate gets the full deadline once more.

        If all tries failed, the error that says most is raised: what the gate answered outlives a later try that was
        cut, or for which no time was left.
        """
        now = self._clock()
        ends = now + self.deadline + wait
        limit = now + self.deadline
        pause, start, dropped = _FIRST_PAUSE, self._start, False
        fault: TransportError | StoreUnavailable | None = None
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
                reply = read(answer)
            except ConfigError as error:
                if dropped or not callable(body) or not self._drops(error):
                    raise
                dropped = True
                now = self._clock()
            except (TransportError, StoreUnavailable) as error:
                if lost is not None and isinstance(error, TransportError) and error.sent:
                    lost.append(error)
                fault = error if fault is None else max(error, fault, key=weight)
                if self._transport.closed or not (again or not getattr(error, "sent", True)):
                    self._fail(fault)
                now = self._clock()
                if now - tried > self.deadline or (wait and isinstance(error, BadResponse) and not error.sent):
                    limit = min(ends, now + self.deadline)
                if start is not None and isinstance(error, Unreachable) and error.absent:
                    hindrance = self._bring_up(start, limit - now)
                    if isinstance(hindrance, ConfigError):
                        self._fail(max(Unreachable(hindrance.message, sent=False), fault, key=weight))
                    start, took = None, self._clock() - now
                    ends, limit = ends + took, limit + took
                else:
                    busy = isinstance(error, GateBusy)
                    length = (BUSY_PAUSE if busy else pause) * (0.5 + os.urandom(1)[0] / 510)
                    if length + (BUSY_ROOM if busy else 0.0) >= limit - now:
                        self._fail(fault)
                    self._sleep(length)
                    pause = min(pause * 2, _LAST_PAUSE)
                now = self._clock()
            else:
                now = self._clock()
                if tell and now >= self._tell_at and self._spool.waiting():
                    self._tell_at = now + TELL_AGAIN  # the gate decides, but does not accept them
                if now >= self._chores_at:
                    self._chores(min(ends, now + self.deadline))
                return reply

    def _lists(self, *fields: str) -> bool:
        """Return True if the gate says that it knows the fields. It is asked again after five minutes."""
        if self._fields is None or self._clock() >= self._fields_until:
            try:
                health = self.health()
            except (CallosumError, TransportError) as error:
                logger.debug("the gate did not say which fields it knows: %s", error)
                return False
            self._fields_until = self._clock() + _TABLE_EVERY
            said = health.get("fields")
            self._fields = (
                frozenset(name for name in said if isinstance(name, str)) if isinstance(said, list) else frozenset()
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
        """Return True if the gate refused an optional field. That field is left out for the next five minutes."""
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
        """Call ``start``. Return its exception if no gate could be started, else None."""
        try:
            start(max(0.0, seconds))
        except (OSError, CallosumError) as error:
            logger.warning("no gate could be started: %s", error)
            return error
        return None

    # --- beside the requests ---------------------------------------------------------------------

    def _chores(self, deadline: float) -> None:
        """Send spooled calls and fetch the fallback table, now and then after a response, in what is left of its time.

        The first response is not delayed by the table; the second is.
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
            record_index = _CALL_AT.match(error.at)
            theirs = answer.status == 403
            if answer.status in (400, 413, 422) or (theirs and record_index is not None):
                raise PageRefused(str(error), int(record_index[1]) if record_index else None, theirs=theirs) from None
            raise


def _machine_token(state: str | os.PathLike[str] | None, port: int) -> str:
    """Return the machine's own token for a server on the loopback, "" if that is another user's or there is none."""
    from callosum.loopback import is_own_listener, read_token  # noqa: PLC0415 - only for a server on the loopback
    from callosum.settings import default_state  # noqa: PLC0415

    return read_token(state if state is not None else default_state()) if is_own_listener(port) else ""


class EventStream:
    """An endless iterator over ``StreamEvent``; after a lost connection it reconnects and continues where it was.

    Close it, or use it as a context manager; ``close`` may be called from any thread.
    """

    def __init__(self, client: CallosumClient, connect: Callable[[str], ResponseStream], last_id: str) -> None:
        self._client = client
        self._ended = threading.Event()
        self._events = Events(connect, last_id=last_id, wait=self._wait, clock=client._clock)  # noqa: SLF001
        client._streams.add(self)  # noqa: SLF001 - its client closes it

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
        """End the iteration. Idempotent."""
        self._ended.set()
        self._events.close()
        self._client._streams.discard(self)  # noqa: SLF001

    def _wait(self, seconds: float) -> bool:
        return not self._ended.wait(seconds * (0.5 + os.urandom(1)[0] / 510))
