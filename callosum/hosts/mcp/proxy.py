"""Forward the lines between a client and a server unchanged, and ask the gate before each ``tools/call``.

::

    client ── from_client ──┬── tools/call ── GateClient.ask ──┬── no: refusal ── client
                            │                                  └── yes, in the order of arrival ── server
                            └── anything else ── server
    client ── from_server ──┬── the answer to a call: GateClient.report, then the line ── client
                            └── anything else ── client

Other threads ask the gate and report to it, so that neither a slow gate nor a slow tool delays other messages. The
report of a call is on its way before its answer is forwarded, so the gate sees the report before the client's next
call.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Final

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from callosum.hosts.mcp import messages
from callosum.hosts.mcp.catalogue import CatalogueTool, ToolCatalogue
from callosum.hosts.mcp.gate_client import GateAnswer, GateClient
from callosum.hosts.mcp.identity import NameSources, actor_of, server_name, tool_name, trace_of
from callosum.hosts.mcp.messages import Id, MalformedMessage, Message, Params
from callosum.hosts.mcp.outcome import CallOutcome, is_unknown_task, read_outcome, read_status
from callosum.hosts.mcp.rounds import OURS, FormAnswer, Question, Rounds, asking, takes_forms
from callosum.model import Call, Host, Outcome

logger = logging.getLogger("callosum")

THREADS: Final = 32
"""Maximum number of calls that are decided or reported at the same time. Further calls wait."""
LIST_SECONDS: Final = 2.0
"""Seconds that the first call waits for the list of tools if its client never asks for the list."""
MAX_PAGES: Final = 50
"""Maximum number of pages of the list that the proxy requests."""

_GREETINGS: Final = frozenset(("initialize", "server/discover"))
_TASKS: Final = frozenset(("tasks/result", "tasks/get", "tasks/cancel"))
_TELLING: Final = _GREETINGS | _TASKS | {messages.LIST}
"""Requests, beside calls, whose answers are read."""
_GONE: Final = "its server is gone"
_NOT_WRITTEN: Final = (
    "[Callosum] This call was to run with other arguments, which cannot be written into it: it did not run."
)
_FORGOTTEN: Final = "its server no longer knows it"
_TASK_STATUS: Final = frozenset(("notifications/tasks", "notifications/tasks/status"))
TASK_SECONDS: Final = 15.0
"""Seconds without news about a task after which the proxy asks for its status itself."""


class _PendingCall:
    """Hold one call between its request and its answer. The proxy's lock protects ``sent`` and ``withdrawn``."""

    __slots__ = (
        "answer",
        "asked",
        "began",
        "call",
        "gate_answer",
        "heard",
        "id",
        "key",
        "made",
        "meta",
        "sent",
        "size",
        "state",
        "withdrawn",
    )

    def __init__(self, message: Message, call: Call, size: int, meta: dict[str, Raw] | None) -> None:
        self.id = messages.raw_id(message)
        self.key = message.key
        self.call = call
        self.size = size
        self.meta = meta
        self.made: Call | None = None
        """The original call, if it may return with input. The later round is recognised by it."""
        self.answer: FormAnswer | None = None
        """A person's answer to the question that this call returns from."""
        self.state = ""
        """The ``requestState`` of the question sent to the client."""
        self.gate_answer: GateAnswer | None = None
        self.asked: Id | None = None
        """Id of the proxy's last request for the status of the task that the call became."""
        self.sent = False
        self.withdrawn = False
        self.began = self.heard = time.monotonic()

    def refusal(self) -> bytes:
        """Return the answer for the client if the call may not run."""
        text = self.gate_answer.text if self.gate_answer is not None else ""
        if self.state:
            return messages.asked(self.id, asking(self.call, text), self.state)
        retry_after = self.gate_answer.retry_after if self.gate_answer is not None else None
        return messages.refusal(self.id, text, modern=messages.is_modern(self.meta), retry_after=retry_after)


class _Once:
    """Write a line on the first call and do nothing on later calls."""

    __slots__ = ("_line", "_write")

    def __init__(self, write: Callable[[bytes], object], line: bytes) -> None:
        self._write = write
        self._line: bytes | None = line

    def __call__(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            self._write(line)


class ProxyConfig(Struct, frozen=True, kw_only=True):
    """Configure the proxy.

    ``server`` is the server's name in the names of its tools; if it is ``""``, the server's own name counts, or
    ``otherwise`` if the server gives none. ``started_by`` is the session of a client that names none. ``host`` is the
    process that lives while a tool runs. ``cwd`` is the folder of the server's relative paths, or None if it is
    unknown.
    """

    names: NameSources
    started_by: str
    server: str = ""
    otherwise: str = "server"
    host: Host | None = None
    cwd: str | None = None


class Proxy:
    """Forward messages between a client and a server, and gate the calls among them.

    ``to_client`` and ``to_server`` write one line including its end.
    """

    def __init__(
        self,
        gate_client: GateClient,
        wrapped: ProxyConfig,
        *,
        to_client: Callable[[bytes], object],
        to_server: Callable[[bytes], object],
        task_seconds: float = TASK_SECONDS,
    ) -> None:
        self.catalogue = ToolCatalogue()
        self._gate = gate_client
        self._to_client = to_client
        self._to_server = to_server
        self._wrapped = wrapped
        self._server = wrapped.server
        self._client = ""
        self._ready = False
        self._listing = threading.Lock()
        self._listed = False
        self._lock = threading.Lock()
        self._pending: dict[Id, list[_PendingCall]] = {}
        self._tasks: dict[str, _PendingCall] = {}
        self._task_seconds = task_seconds
        self._watch: threading.Thread | None = None
        self._closing = threading.Event()
        self._asked: dict[Id, tuple[str, str]] = {}
        self._batches: dict[Id, list[bytes]] = {}
        self._own: dict[Id, Future[Message]] = {}
        self._rounds: Rounds[_PendingCall] = Rounds(self._given_up)
        self._pool = ThreadPoolExecutor(THREADS, "callosum-mcp")
        self._telling = ThreadPoolExecutor(1, "callosum-mcp-tasks")
        self._last: Future[None] | None = None
        self._nonce = os.urandom(6).hex()
        self._count = 0

    # --- Messages from the client ----------------------------------------------------------------

    def from_client(self, line: bytes) -> None:
        """Handle a line from the client. One thread calls this, in order."""
        try:
            parsed = messages.read(line)
        except MalformedMessage as error:
            self._unreadable(line, error)
            return
        if isinstance(parsed, list):
            pending_calls = [self._call_in(message) for message in parsed]
            for message in parsed:
                self._note(message)
            if any(pending_calls):
                self._ask_then_send(partial(self._send_batch, line, parsed, pending_calls))
                return
        elif parsed is not None:
            pending = self._call_in(parsed)
            if pending is not None:
                if pending.answer is not None:
                    line = messages.first_round(line) + b"\n"
                self._ask_then_send(partial(self._send, line, pending))
                return
            if parsed.method == messages.CANCELLED and self._withdraw(parsed):
                return
            self._note(parsed)
        self._to_server(line)

    def finish(self) -> None:
        """Return once all received calls were forwarded or refused. The client sends nothing more."""
        if self._last is not None:
            wait([self._last])

    def _unreadable(self, line: bytes, error: MalformedMessage) -> None:
        """Forward a line that no parser accepts, unless it may call a tool. Such a call is refused."""
        if isinstance(error, messages.AmbiguousMessage):
            logger.warning("a message was refused: %s", error)
            self._to_client(messages.fault(b"null", messages.INVALID_REQUEST, str(error)) + b"\n")
            return
        call = messages.call_inside(line)
        if call is None:
            self._to_server(line)
            return
        id, tool, modern = call
        logger.warning("a call of %.100r was refused: it cannot be read: %s", tool, error)
        text = f"this call cannot be read, so it did not run: {error}"
        if id == b"null":
            self._to_client(messages.fault(id, messages.PARSE_ERROR, text) + b"\n")
        else:
            self._to_client(messages.refusal(id, f"[Callosum] T{text[1:]}.", modern=modern) + b"\n")

    def _call_in(self, message: Message) -> _PendingCall | None:
        """Return the call in a message, or None if there is none or its form is one that no server accepts."""
        params = messages.params_of(message) if message.method == messages.CALL else None
        if params is None:
            return None
        actor = actor_of(self._wrapped.names, params.meta, self._client, self._wrapped.started_by)
        self._count += 1
        call = Call(
            actor.instance,
            params.name,
            session=actor.session,
            namespace=self._wrapped.names.namespace,
            call_id=actor.call_id or f"{self._nonce}-{self._count}",
            dispatch=actor.call_id,  # that of the host's hook, if it has one; without a host's id the client makes one
            cwd=self._wrapped.cwd,
            pause=True,
            origin=actor.origin,
            parent=actor.parent,
            run=actor.run,
            host=self._wrapped.host,
            meta=trace_of(params.meta),
        )
        arguments = b"" if isinstance(params.arguments, UnsetType) else bytes(params.arguments)
        size = len(arguments)
        # The files of a server at a URL are not on this machine, and no repaired text is written to a file.
        call = replace(call, rewrite=self._wrapped.cwd is not None and "\ufffd".encode() not in arguments)
        pending = _PendingCall(message, call, size, params.meta)
        try:
            pending.call = replace(call, params=messages.arguments_of(params, bytes(message.params or b"{}")))
        except MalformedMessage as error:
            pending.gate_answer = GateAnswer(False, f"[Callosum] This call cannot be read, so it did not run: {error}.")
        else:
            if messages.is_modern(params.meta):
                self._continue(pending, params)  # batches exist only in older versions of the protocol
        if pending.key is not None:
            with self._lock:
                self._pending.setdefault(pending.key, []).append(pending)
        return pending

    def _continue(self, pending: _PendingCall, params: Params) -> None:
        """Find out whether a call is a further round of an earlier call, and continue that call."""
        pending.made = pending.call
        if isinstance(params.input_responses, UnsetType) and isinstance(params.request_state, UnsetType):
            return
        state = b"" if isinstance(params.request_state, UnsetType) else bytes(params.request_state)
        own = messages.text_of(Raw(state)) if state else ""
        if own.startswith(OURS):
            pending.answer = self._rounds.answer(pending.call, own, params.input_responses)
            if pending.answer.question is not None:
                pending.call = replace(pending.call, call_id=f"{pending.answer.question.call_id}:answered")
            return
        earlier = self._rounds.resume(pending.call, state)
        if earlier is not None:
            pending.call, pending.gate_answer, pending.began = earlier.call, earlier.gate_answer, earlier.began

    def _given_up(self, pending: _PendingCall) -> None:
        """Report a call as cancelled because nobody supplied the input that its server waited for."""
        self._report(pending, CallOutcome(None, Outcome.CANCELLED))

    def _note(self, message: Message) -> None:
        """Remember a request whose answer must be read, and the client's name."""
        method = message.method
        if method == "notifications/initialized":
            self._ready = True
        elif isinstance(method, str) and method in _TELLING and message.key is not None:
            params = messages.fields_of(message.params)
            with self._lock:
                self._asked[message.key] = (method, messages.text_of(params.get("taskId")))
            if method == "initialize":
                client = messages.fields_of(params.get("clientInfo", UNSET))
                self._client = messages.text_of(client.get("name"))

    def _withdraw(self, message: Message) -> bool:
        """Handle a cancellation. Return True if its call was not sent yet and now never will be."""
        request_id = messages.fields_of(message.params).get("requestId")
        key = Message(id=request_id).key if request_id is not None else None
        with self._lock:
            pending = self._pending[key][-1] if key in self._pending else None
            if pending is None or pending.withdrawn:
                return False
            pending.withdrawn = True
            sent = pending.sent
        if sent:  # it may have run in full, in part or not at all; an answer that still comes is a late report
            self._pool.submit(self._report, pending, CallOutcome(None, Outcome.UNKNOWN))
        return not sent

    # --- Asking the gate --------------------------------------------------------------------------

    def _ask_then_send(self, send: Callable[[Future[None] | None], None]) -> None:
        """Ask the gate, then forward the message after all earlier messages.

        This happens in the current thread if the gate is fast and nothing waits, because a thread switch takes as long
        as a decision.
        """
        before = self._last if self._last is not None and not self._last.done() else None
        if before is None and self._gate.is_fast:
            self._guarded(send, None)
        else:
            self._last = self._pool.submit(self._guarded, send, before)

    def _guarded(self, send: Callable[[Future[None] | None], None], before: Future[None] | None) -> None:
        try:
            send(before)
        except Exception:
            logger.exception("a call was lost")

    def _send(self, line: bytes, pending: _PendingCall, before: Future[None] | None) -> None:
        gate_answer = self._ask(pending)
        if gate_answer.proceed and before is not None:
            wait([before])
        line, gate_answer = self._rewritten(line, pending, gate_answer)
        if self._may_send(pending, gate_answer):
            self._to_server(line)
            self._unanswerable([pending])
        elif before is not None:
            wait([before])  # later calls wait only for this one

    def _send_batch(
        self,
        line: bytes,
        parsed: list[Message],
        pending_calls: Sequence[_PendingCall | None],
        before: Future[None] | None,
    ) -> None:
        """Ask about each call of a batch. Take out the calls that may not run and add their refusals to the answer."""
        gate_answers = [None if pending is None else self._ask(pending) for pending in pending_calls]
        if before is not None:
            wait([before])
        kept_parts: list[bytes] = []
        refusals: list[bytes] = []
        answer_key: Id | None = None
        parts = messages.parts(line)
        for raw, message, pending, found_answer in zip(parts, parsed, pending_calls, gate_answers, strict=True):
            part, gate_answer = raw, found_answer
            if pending is not None and gate_answer is not None:
                part = raw if pending.answer is None else messages.first_round(raw)
                part, gate_answer = self._rewritten(part, pending, gate_answer)
            if pending is None or gate_answer is None or self._may_send(pending, gate_answer, refusals):
                kept_parts.append(part)
                if message.key is not None and not isinstance(message.method, UnsetType):
                    answer_key = message.key
        if kept_parts == parts:
            self._to_server(line)
        elif kept_parts:
            if refusals and answer_key is not None:
                with self._lock:
                    self._batches[answer_key], refusals = refusals, []
            self._to_server(messages.batch_of(kept_parts) + b"\n")
        if refusals:
            self._to_client(messages.batch_of(refusals) + b"\n")
        self._unanswerable([pending for pending in pending_calls if pending is not None])

    def _ask(self, pending: _PendingCall) -> GateAnswer:
        if pending.gate_answer is None:
            call = pending.call
            name = self._server or self._wrapped.otherwise
            tool = self._tool_of(pending)
            pending.call = replace(
                call,
                tool=tool_name(name, call.tool),
                description=tool.description if tool else None,
                schema=tool.input_schema if tool else None,
                annotations=tool.annotations if tool else None,
            )
            pending.gate_answer = self._heard(pending) or self._gate.ask(pending.call, pending.size)
            self._ask_person(pending, pending.gate_answer)
        return pending.gate_answer

    def _heard(self, pending: _PendingCall) -> GateAnswer | None:
        """Pass a person's answer on to the gate. Without one, return the earlier refusal and ask nothing."""
        question, agreed = pending.answer or (None, None)
        if question is None:
            return None
        if agreed is None:
            return GateAnswer(False, question.text)
        self._gate.answer(question.decision, agreed=agreed, namespace=pending.call.namespace)
        return None

    def _ask_person(self, pending: _PendingCall, gate_answer: GateAnswer) -> None:
        """Ask the person behind the client, if the client shows forms and the gate trusts its answers."""
        if gate_answer.question is None or pending.made is None or not takes_forms(pending.meta):
            return
        if self._gate.takes_a_hosts_word():
            call_id = (pending.call.call_id or "").removesuffix(":answered")
            pending.state = self._rounds.ask(Question(pending.made, call_id, gate_answer.question, gate_answer.text))

    def _rewritten(self, line: bytes, pending: _PendingCall, gate_answer: GateAnswer) -> tuple[bytes, GateAnswer]:
        """Write the arguments that the gate wants into a call, if they differ from the call's own.

        A call that cannot be written this way does not run.
        """
        if gate_answer.decision is None or gate_answer.decision.params is None:
            return line, gate_answer
        other = messages.replaced(line, pending.call.params, gate_answer.decision.params)
        if other is not None:
            return other + line[len(line.rstrip()) :], gate_answer
        self._report(pending, CallOutcome(None, Outcome.CANCELLED))
        pending.gate_answer = GateAnswer(False, _NOT_WRITTEN)
        return line, pending.gate_answer

    def _may_send(self, pending: _PendingCall, gate_answer: GateAnswer, refusals: list[bytes] | None = None) -> bool:
        """Return True if a call is to be sent now. Otherwise answer it, in a batch by adding to ``refusals``."""
        with self._lock:
            if gate_answer.proceed and not pending.withdrawn:
                pending.sent = True
                return True
            self._forget(pending)
        if gate_answer.proceed:
            self._report(pending, CallOutcome(None, Outcome.CANCELLED))
        elif not pending.withdrawn and pending.key is not None:
            if refusals is None:
                self._to_client(pending.refusal() + b"\n")
            else:
                refusals.append(pending.refusal())
        return False

    def _unanswerable(self, pending_calls: Sequence[_PendingCall]) -> None:
        """Report calls without an id as unknown, because no answer will say how they ended."""
        for pending in pending_calls:
            if pending.sent and pending.key is None:
                self._report(pending, CallOutcome(None, Outcome.UNKNOWN))

    def _forget(self, pending: _PendingCall) -> None:
        """Remove a call from those that wait for an answer. The caller holds the lock."""
        if pending.key is None:
            return
        waiting = self._pending.get(pending.key, [])
        if pending in waiting:
            waiting.remove(pending)
            if not waiting:
                del self._pending[pending.key]

    def _report(self, pending: _PendingCall, outcome: CallOutcome, sent: Callable[[], object] | None = None) -> None:
        decision = pending.gate_answer.decision if pending.gate_answer is not None else None
        if decision is not None:
            self._gate.report(pending.call, decision, outcome.result, outcome.outcome, sent=sent)

    # --- Messages from the server ----------------------------------------------------------------

    def from_server(self, line: bytes) -> None:
        """Handle a line from the server. Several threads may call this, each for its own requests."""
        expects_answer = self._pending or self._asked or self._own or self._tasks
        if not expects_answer and b"list_changed" not in line:
            self._to_client(line)
            return
        answer = messages.read_answer(line)
        if isinstance(answer, list):
            self._batch_down(line, answer)
        elif answer is None:
            self._to_client(line)
        elif not isinstance(answer.method, UnsetType):
            self._hear(answer)
            self._to_client(line)
        else:
            self._answered(line, answer)

    def _hear(self, message: Message) -> None:
        """Handle a notification."""
        if message.method == messages.LIST_CHANGED:
            self.catalogue.changed()
            self._listed = False
        elif message.method in _TASK_STATUS:
            self._status(message.params)

    def _answered(self, line: bytes, answer: Message) -> None:
        key = answer.key
        if key is None:
            self._to_client(line)
            return
        with self._lock:
            own = self._own.pop(key, None)
            asked = self._asked.pop(key, None)
            pending = self._call_answered(key)
        if own is not None:
            own.set_result(answer)
            return
        if isinstance(key, str) and key.startswith(f"callosum-{self._nonce}-"):
            return  # it answers a status request that the proxy has repeated since
        if asked is not None:
            self._learn(asked, answer)
        if pending is None:
            self._to_client(line)
        else:
            self._settle_in_thread(partial(self._settle, line, answer, pending))

    def _settle_in_thread(self, settle: Callable[[], None]) -> None:
        """Report in another thread, or in the current one if the gate is fast."""
        if self._gate.is_fast:
            settle()
        else:
            self._pool.submit(settle)

    def _call_answered(self, key: Id) -> _PendingCall | None:
        """Return the oldest sent call that an answer belongs to. The caller holds the lock."""
        pending = next((one for one in self._pending.get(key, ()) if one.sent), None)
        if pending is not None:
            self._forget(pending)
        return pending

    def _settle(self, line: bytes, answer: Message, pending: _PendingCall) -> None:
        """Report an answered call, and forward the answer as soon as the report is on its way."""
        forward_once = _Once(self._to_client, line)
        try:
            outcome = read_outcome(answer)
            with_warning = self._with_warning(line, pending)
            if with_warning is not line:
                forward_once = _Once(self._to_client, with_warning + b"\n")
            self._end(pending, outcome, sent=forward_once)
        except Exception:
            logger.exception("the outcome of %s was lost", pending.call.tool)
        forward_once()

    def _with_warning(self, message: bytes, pending: _PendingCall) -> bytes:
        """Return the answer for the client, with the gate's warning appended if there is one."""
        if pending.gate_answer is None or not pending.gate_answer.text:
            return message
        return messages.with_text(message, pending.gate_answer.text) or message

    def _end(self, pending: _PendingCall, outcome: CallOutcome, sent: Callable[[], object] | None = None) -> None:
        if outcome.input is not None and pending.made is not None:
            self._rounds.wait(pending.made, outcome.input, pending)
        elif outcome.input is not None:
            self._given_up(pending)
        elif outcome.task:
            with self._lock:
                self._tasks[outcome.task] = pending
                pending.heard = time.monotonic()
                if self._watch is None:
                    self._watch = threading.Thread(target=self._watch_tasks, name="callosum-mcp-watch", daemon=True)
                    self._watch.start()
            self._telling.submit(self._emit_task, pending)
        else:
            self._report(pending, outcome, sent)

    def _batch_down(self, line: bytes, answers: list[Message]) -> None:
        pending_calls: list[_PendingCall | None] = []
        refusals: list[bytes] = []
        with self._lock:
            for answer in answers:
                key = answer.key if isinstance(answer.method, UnsetType) else None
                pending_calls.append(None if key is None else self._call_answered(key))
                refusals += [] if key is None else self._batches.pop(key, [])
        if refusals or any(pending_calls):
            self._settle_in_thread(partial(self._settle_batch, line, answers, pending_calls, refusals))
        else:
            self._to_client(line)

    def _settle_batch(
        self, line: bytes, answers: list[Message], pending_calls: list[_PendingCall | None], refusals: list[bytes]
    ) -> None:
        try:
            parts = messages.parts(line)
            answer_parts = [
                part if pending is None else self._with_warning(part, pending)
                for part, pending in zip(parts, pending_calls, strict=True)
            ]
            if refusals or answer_parts != parts:
                line = messages.batch_of([*answer_parts, *refusals]) + b"\n"
            for answer, pending in zip(answers, pending_calls, strict=True):
                if pending is not None:
                    self._end(pending, read_outcome(answer))
        except Exception:
            logger.exception("the outcomes of a batch were lost")
        self._to_client(line)

    def _learn(self, asked: tuple[str, str], answer: Message) -> None:
        """Read what an answer says about the server, its tools and its tasks."""
        method, task = asked
        if method in _TASKS and task in self._tasks:
            self._learn_of_task(method, task, answer)
        if isinstance(answer.result, UnsetType):
            return
        if method == messages.LIST:
            self._listed = True
            self.catalogue.learn(bytes(answer.result))
        elif method in _GREETINGS and not self._server:
            result = messages.fields_of(answer.result)
            info = result.get("serverInfo") or messages.fields_of(result.get("_meta", UNSET)).get(messages.SERVER)
            self._server = server_name(messages.text_of(messages.fields_of(info or UNSET).get("name")))

    # --- Tasks -----------------------------------------------------------------------------------

    def _learn_of_task(self, method: str, task: str, answer: Message) -> None:
        """Read the answer to a request about a running task."""
        if not isinstance(answer.result, UnsetType) and method != "tasks/result":
            self._status(answer.result)
        elif method == "tasks/cancel":
            return  # the task could not be cancelled
        elif is_unknown_task(answer):
            self._task_ended(task, CallOutcome(None, Outcome.UNKNOWN), _FORGOTTEN)
        elif method == "tasks/result":
            self._task_ended(task, read_outcome(answer))

    def _status(self, status: Raw | UnsetType) -> None:
        task, outcome = read_status(status)
        if outcome is not None:
            self._task_ended(task, outcome)
        elif (pending := self._tasks.get(task)) is not None:
            pending.heard = time.monotonic()

    def _task_ended(self, task: str, outcome: CallOutcome, why: str = "") -> None:
        """Report a call that became a task, now that the task has ended."""
        with self._lock:
            pending = self._tasks.pop(task, None)
        if pending is not None:
            self._pool.submit(self._report, pending, outcome)
            self._telling.submit(self._emit_task, pending, outcome, why)

    def _watch_tasks(self) -> None:
        """Ask for the status of silent tasks, because a client may have lost interest in them."""
        while not self._closing.wait(self._task_seconds / 3):
            late = time.monotonic() - self._task_seconds
            with self._lock:
                quiet = [(task, pending) for task, pending in self._tasks.items() if pending.heard <= late]
            for task, pending in quiet:
                pending.heard = time.monotonic()
                try:
                    self._ask_status(task, pending)
                except Exception:  # the other tasks and later passes must go on
                    logger.exception("the status of the task %s could not be asked for", task)

    def _ask_status(self, task: str, pending: _PendingCall) -> None:
        """Ask the server for a task's status. An earlier unanswered request no longer counts."""
        with self._lock:
            if pending.asked is not None:
                self._own.pop(pending.asked, None)
        pending.asked, answer = self._request("tasks/get", {"taskId": task}, pending.meta)
        answer.add_done_callback(partial(self._status_came, task))

    def _status_came(self, task: str, answer: Future[Message]) -> None:
        if not answer.cancelled():
            self._learn_of_task("tasks/get", task, answer.result())

    def _emit_task(self, pending: _PendingCall, outcome: CallOutcome | None = None, why: str = "") -> None:
        """Emit the event that a task started or ended. The task has the id of the call that started it."""
        from callosum.hosts.events import HostSession  # noqa: PLC0415
        from callosum.hosts.tasks import OpenCall, TaskReporter  # noqa: PLC0415 - most servers have no tasks

        call = pending.call
        actor = HostSession(instance=call.instance, session=call.session or "", namespace=call.namespace)
        name = call.call_id or ""
        task_call = OpenCall(0, call.tool, "", call_id=name, task=name, began=pending.began)
        reporter = TaskReporter(self._gate.tell)
        if outcome is None:
            reporter.begun(actor, task_call)
            return
        error = outcome.result.get("error") if isinstance(outcome.result, dict) else None
        final = outcome.outcome or (Outcome.FAILED if error else Outcome.DONE)
        reporter.ended(actor, task_call, final, error=str(error or ""), why=why)

    # --- The list of tools -----------------------------------------------------------------------

    def _tool_of(self, pending: _PendingCall) -> CatalogueTool | None:
        """Return what is known about the tool of a call. Request the list if the client has not."""
        tool = self.catalogue.find(pending.call.tool)
        modern = messages.is_modern(pending.meta)
        if (tool is None or not self.catalogue.fresh) and not self._listed and (modern or self._ready):
            with self._listing:
                if not self._listed:
                    self._listed = True
                    self._list(pending.meta)
            tool = self.catalogue.find(pending.call.tool)
        return tool

    def _list(self, meta: dict[str, Raw] | None) -> None:
        """Request the server's tools without the client's knowledge, and wait for them for a moment."""
        ends = time.monotonic() + LIST_SECONDS
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            _, answer = self._request(messages.LIST, {} if cursor is None else {"cursor": cursor}, meta)
            try:
                result = answer.result(max(0.0, ends - time.monotonic())).result
            except (TimeoutError, CancelledError):
                return
            cursor = None if isinstance(result, UnsetType) else self.catalogue.learn(bytes(result))
            if cursor is None:
                return

    def _request(self, method: str, params: dict[str, Any], meta: dict[str, Raw] | None) -> tuple[Id, Future[Message]]:
        """Send the server a request of the proxy's own with the client's ``_meta``. Return its id and its future."""
        own_meta = {name: raw for name, raw in (meta or {}).items() if name in messages.REQUEST_META}
        id = f"callosum-{self._nonce}-{time.monotonic_ns()}"
        answer: Future[Message] = Future()
        with self._lock:
            self._own[id] = answer
        full_params = {**({"_meta": own_meta} if own_meta else {}), **params}
        try:
            self._to_server(
                messages.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": full_params}) + b"\n"
            )
        except BaseException:
            with self._lock:
                self._own.pop(id, None)
            raise
        return id, answer

    # --- The end ---------------------------------------------------------------------------------

    def lost(self) -> None:
        """Report all unanswered calls as unknown because the server is gone. Return once they are reported."""
        self._closing.set()
        with self._lock:
            unanswered = [pending for waiting in self._pending.values() for pending in waiting if pending.sent]
            tasks = list(self._tasks.values())
            unanswered += tasks
            own_requests = list(self._own.values())
            self._pending.clear()
            self._tasks.clear()
            self._own.clear()
        for answer in own_requests:
            answer.cancel()
        unknown = CallOutcome(None, Outcome.UNKNOWN)
        for pending in self._rounds.close():
            self._given_up(pending)
        reports = [self._pool.submit(self._report, pending, unknown) for pending in unanswered]
        reports += [self._telling.submit(self._emit_task, pending, unknown, _GONE) for pending in tasks]
        wait(reports)

    def close(self) -> None:
        """Return once everything was reported. Later messages are not accepted."""
        self._closing.set()
        self._pool.shutdown(wait=True)
        self._telling.shutdown(wait=True)
