"""The wrap around a server: every line goes through as it came, but for ``tools/call`` the gate is asked before.

::

    client ── up ──┬── tools/call ── Keeper.ask ──┬── no: refusal ── client
                   │                              └── yes, in the order in which they came ── server
                   └── all else ── server
    client ── down ──┬── the answer to a call: Keeper.report, then the line ── client
                     └── all else ── client

The gate is asked and told in threads beside, so that neither a slow gate nor a slow tool holds up what else is said.
The report of a call is on its way before its answer is passed on: what the client does next, the gate sees after it.
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
from callosum.hosts.mcp.rounds import OURS, Answer, Question, Rounds, form, takes_forms
from callosum.model import Call, Host, Outcome

logger = logging.getLogger("callosum")

THREADS: Final = 32
"""Most calls that are asked about or reported at once; further ones stand in line."""
LIST_SECONDS: Final = 2.0
"""How long the first call of a client that never lists the tools may wait until this wrap has listed them."""
MAX_PAGES: Final = 50
"""Most pages of a list that is asked for here."""

_GREETINGS: Final = frozenset(("initialize", "server/discover"))
_TASKS: Final = frozenset(("tasks/result", "tasks/get", "tasks/cancel"))
_TELLING: Final = _GREETINGS | _TASKS | {messages.LIST}
"""Requests whose answers are read besides those to calls."""
_GONE: Final = "its server is gone"
_NOT_WRITTEN: Final = (
    "[Callosum] This call was to run with other arguments, which cannot be written into it: it did not run."
)
_FORGOTTEN: Final = "its server no longer knows it"
_TASK_STATUS: Final = frozenset(("notifications/tasks", "notifications/tasks/status"))
TASK_SECONDS: Final = 15.0
"""Seconds for which nothing may be heard of a task before the wrap asks for its status itself."""


class _Flight:
    """One call on its way. ``sent`` and ``withdrawn`` change under the tap's lock."""

    __slots__ = (
        "answer",
        "asked",
        "began",
        "call",
        "heard",
        "id",
        "key",
        "made",
        "meta",
        "ruling",
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
        """The call as its client made it, where that may come back with input: it is known again by it."""
        self.answer: Answer | None = None
        """What a person said to the question that this call comes back from."""
        self.state = ""
        """The ``requestState`` of the question that the client is answered with."""
        self.ruling: GateAnswer | None = None
        self.asked: Id | None = None
        """The wrap's last question about the status of the task that the call became."""
        self.sent = False
        self.withdrawn = False
        self.began = self.heard = time.monotonic()

    def refusal(self) -> bytes:
        """What the client is answered if the call may not run."""
        text = self.ruling.text if self.ruling is not None else ""
        if self.state:
            return messages.asked(self.id, form(self.call, text), self.state)
        return messages.refusal(self.id, text, modern=messages.is_modern(self.meta))


class _Once:
    """Writes a line the first time that it is called."""

    __slots__ = ("_line", "_write")

    def __init__(self, write: Callable[[bytes], object], line: bytes) -> None:
        self._write = write
        self._line: bytes | None = line

    def __call__(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            self._write(line)


class ProxyConfig(Struct, frozen=True, kw_only=True):
    """What is known before anything is said.

    ``server`` is the name by which the server's tools are known, ``""`` to take the one it says, with ``otherwise``
    where it says none. ``started_by`` is the session of a client that names none. ``host`` is the process that lives
    while a tool runs, ``cwd`` the folder in which the server's paths start, None where that is unknown.
    """

    names: NameSources
    started_by: str
    server: str = ""
    otherwise: str = "server"
    host: Host | None = None
    cwd: str | None = None


class Proxy:
    """The protocol's side of the wrap. ``to_client`` and ``to_server`` write one line, its end included."""

    def __init__(
        self,
        keeper: GateClient,
        wrapped: ProxyConfig,
        *,
        to_client: Callable[[bytes], object],
        to_server: Callable[[bytes], object],
        task_seconds: float = TASK_SECONDS,
    ) -> None:
        self.catalogue = ToolCatalogue()
        self._keeper = keeper
        self._to_client = to_client
        self._to_server = to_server
        self._wrapped = wrapped
        self._server = wrapped.server
        self._client = ""
        self._ready = False
        self._listing = threading.Lock()
        self._listed = False
        self._lock = threading.Lock()
        self._flights: dict[Id, list[_Flight]] = {}
        self._tasks: dict[str, _Flight] = {}
        self._task_seconds = task_seconds
        self._watch: threading.Thread | None = None
        self._closing = threading.Event()
        self._asked: dict[Id, tuple[str, str]] = {}
        self._batches: dict[Id, list[bytes]] = {}
        self._own: dict[Id, Future[Message]] = {}
        self._rounds: Rounds[_Flight] = Rounds(self._given_up)
        self._pool = ThreadPoolExecutor(THREADS, "callosum-mcp")
        self._telling = ThreadPoolExecutor(1, "callosum-mcp-tasks")
        self._last: Future[None] | None = None
        self._nonce = os.urandom(6).hex()
        self._count = 0

    # --- from the client -------------------------------------------------------------------------

    def up(self, line: bytes) -> None:
        """Takes a line from the client; to be called by one thread, in order."""
        try:
            found = messages.read(line)
        except MalformedMessage as error:
            self._unreadable(line, error)
            return
        if isinstance(found, list):
            flights = [self._flight_of(one) for one in found]
            for one in found:
                self._note(one)
            if any(flights):
                self._begin(partial(self._send_batch, line, found, flights))
                return
        elif found is not None:
            flight = self._flight_of(found)
            if flight is not None:
                if flight.answer is not None:
                    line = messages.first_round(line) + b"\n"
                self._begin(partial(self._send, line, flight))
                return
            if found.method == messages.CANCELLED and self._withdraw(found):
                return
            self._note(found)
        self._to_server(line)

    def finish(self) -> None:
        """Returns once all calls that came were sent on or refused: the client says nothing more."""
        if self._last is not None:
            wait([self._last])

    def _unreadable(self, line: bytes, error: MalformedMessage) -> None:
        """What no reader takes goes on as it is, unless it calls a tool: nobody could say what is called with what."""
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

    def _flight_of(self, message: Message) -> _Flight | None:
        """The call that a message is, None if it is none, or one that no server takes."""
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
            cwd=self._wrapped.cwd,
            pause=True,
            origin=actor.origin,
            parent=actor.parent,
            run=actor.run,
            host=self._wrapped.host,
            meta=trace_of(params.meta),
            rewrite=self._wrapped.cwd is not None,  # the files of a server at an address are not this machine's
        )
        size = 0 if isinstance(params.arguments, UnsetType) else len(bytes(params.arguments))
        flight = _Flight(message, call, size, params.meta)
        try:
            flight.call = replace(call, params=messages.arguments_of(params))
        except MalformedMessage as error:
            flight.ruling = GateAnswer(False, f"[Callosum] This call cannot be read, so it did not run: {error}.")
        else:
            if messages.is_modern(params.meta):
                self._continue(flight, params)  # a batch is older than that
        if flight.key is not None:
            with self._lock:
                self._flights.setdefault(flight.key, []).append(flight)
        return flight

    def _continue(self, flight: _Flight, params: Params) -> None:
        """Find out whether a call is a further round of an earlier one, and go on with that."""
        flight.made = flight.call
        if isinstance(params.input_responses, UnsetType) and isinstance(params.request_state, UnsetType):
            return
        state = b"" if isinstance(params.request_state, UnsetType) else bytes(params.request_state)
        own = messages.text_of(Raw(state)) if state else ""
        if own.startswith(OURS):
            flight.answer = self._rounds.answer(flight.call, own, params.input_responses)
            if flight.answer.question is not None:
                flight.call = replace(flight.call, call_id=f"{flight.answer.question.call_id}:answered")
            return
        earlier = self._rounds.resume(flight.call, state)
        if earlier is not None:
            flight.call, flight.ruling, flight.began = earlier.call, earlier.ruling, earlier.began

    def _given_up(self, flight: _Flight) -> None:
        """Report a call whose server waited for input that nobody brought: it was not carried out."""
        self._report(flight, CallOutcome(None, Outcome.CANCELLED))

    def _note(self, message: Message) -> None:
        """Remembers a request whose answer is worth reading, and what the client says of itself."""
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
        """Heeds a cancellation; returns whether the call it speaks of has not gone out and now will not."""
        said = messages.fields_of(message.params).get("requestId")
        key = Message(id=said).key if said is not None else None
        with self._lock:
            flight = self._flights[key][-1] if key in self._flights else None
            if flight is None or flight.withdrawn:
                return False
            flight.withdrawn = True
            sent = flight.sent
        if sent:  # it may have done all, part or nothing; what the server still answers is a late report
            self._pool.submit(self._report, flight, CallOutcome(None, Outcome.UNKNOWN))
        return not sent

    # --- at the gate -----------------------------------------------------------------------------

    def _begin(self, send: Callable[[Future[None] | None], None]) -> None:
        """Asks the gate and then sends, after what came before it was sent.

        On the spot while the gate is fast and nothing waits for it: a change of thread takes as long as a decision.
        """
        before = self._last if self._last is not None and not self._last.done() else None
        if before is None and self._keeper.brisk:
            self._guarded(send, None)
        else:
            self._last = self._pool.submit(self._guarded, send, before)

    def _guarded(self, send: Callable[[Future[None] | None], None], before: Future[None] | None) -> None:
        try:
            send(before)
        except Exception:
            logger.exception("a call was lost")

    def _send(self, line: bytes, flight: _Flight, before: Future[None] | None) -> None:
        ruling = self._ask(flight)
        if ruling.proceed and before is not None:
            wait([before])
        line, ruling = self._rewritten(line, flight, ruling)
        if self._lets_go(flight, ruling):
            self._to_server(line)
            self._unanswerable([flight])
        elif before is not None:
            wait([before])  # what comes next waits for this one's end alone

    def _send_batch(
        self, line: bytes, found: list[Message], flights: Sequence[_Flight | None], before: Future[None] | None
    ) -> None:
        """Asks for each call of a batch; what may not run is taken out, and answered with what comes back."""
        rulings = [None if flight is None else self._ask(flight) for flight in flights]
        if before is not None:
            wait([before])
        kept: list[bytes] = []
        refusals: list[bytes] = []
        waiting: Id | None = None
        parts = messages.parts(line)
        for raw, message, flight, found_ruling in zip(parts, found, flights, rulings, strict=True):
            part, ruling = raw, found_ruling
            if flight is not None and ruling is not None:
                part = raw if flight.answer is None else messages.first_round(raw)
                part, ruling = self._rewritten(part, flight, ruling)
            if flight is None or ruling is None or self._lets_go(flight, ruling, refusals):
                kept.append(part)
                if message.key is not None and not isinstance(message.method, UnsetType):
                    waiting = message.key
        if kept == parts:
            self._to_server(line)
        elif kept:
            if refusals and waiting is not None:
                with self._lock:
                    self._batches[waiting], refusals = refusals, []
            self._to_server(messages.batch_of(kept) + b"\n")
        if refusals:
            self._to_client(messages.batch_of(refusals) + b"\n")
        self._unanswerable([flight for flight in flights if flight is not None])

    def _ask(self, flight: _Flight) -> GateAnswer:
        if flight.ruling is None:
            call = flight.call
            name = self._server or self._wrapped.otherwise
            tool = self._tool_of(flight)
            flight.call = replace(
                call,
                tool=tool_name(name, call.tool),
                description=tool.description if tool else None,
                schema=tool.input_schema if tool else None,
                annotations=tool.annotations if tool else None,
            )
            flight.ruling = self._heard(flight) or self._keeper.ask(flight.call, flight.size)
            self._put(flight, flight.ruling)
        return flight.ruling

    def _heard(self, flight: _Flight) -> GateAnswer | None:
        """Hand on what a person said; the ruling where that is nothing, so that the gate is not asked again."""
        question, agreed = flight.answer or (None, None)
        if question is None:
            return None
        if agreed is None:
            return GateAnswer(False, question.text)
        self._keeper.answer(question.decision, agreed=agreed, namespace=flight.call.namespace)
        return None

    def _put(self, flight: _Flight, ruling: GateAnswer) -> None:
        """Put a question to the person behind the client, if it shows forms and the gate takes its word."""
        if ruling.question is None or flight.made is None or not takes_forms(flight.meta):
            return
        if self._keeper.takes_a_hosts_word():
            call_id = (flight.call.call_id or "").removesuffix(":answered")
            flight.state = self._rounds.ask(Question(flight.made, call_id, ruling.question, ruling.text))

    def _rewritten(self, line: bytes, flight: _Flight, ruling: GateAnswer) -> tuple[bytes, GateAnswer]:
        """Put the arguments into a call with which the gate lets it run, where those are not its own.

        A call that cannot be written so does not run.
        """
        if ruling.decision is None or ruling.decision.params is None:
            return line, ruling
        other = messages.replaced(line, flight.call.params, ruling.decision.params)
        if other is not None:
            return other + line[len(line.rstrip()) :], ruling
        self._report(flight, CallOutcome(None, Outcome.CANCELLED))
        flight.ruling = GateAnswer(False, _NOT_WRITTEN)
        return line, flight.ruling

    def _lets_go(self, flight: _Flight, ruling: GateAnswer, refusals: list[bytes] | None = None) -> bool:
        """Whether a call is to be sent now; if not, it is answered (into ``refusals`` for a batch)."""
        with self._lock:
            if ruling.proceed and not flight.withdrawn:
                flight.sent = True
                return True
            self._forget(flight)
        if ruling.proceed:
            self._report(flight, CallOutcome(None, Outcome.CANCELLED))
        elif not flight.withdrawn and flight.key is not None:
            if refusals is None:
                self._to_client(flight.refusal() + b"\n")
            else:
                refusals.append(flight.refusal())
        return False

    def _unanswerable(self, flights: Sequence[_Flight]) -> None:
        """A call without an id is never answered, so nobody will know how it ended."""
        for flight in flights:
            if flight.sent and flight.key is None:
                self._report(flight, CallOutcome(None, Outcome.UNKNOWN))

    def _forget(self, flight: _Flight) -> None:
        """Takes a call from those that wait for their answer. The lock is held."""
        if flight.key is None:
            return
        waiting = self._flights.get(flight.key, [])
        if flight in waiting:
            waiting.remove(flight)
            if not waiting:
                del self._flights[flight.key]

    def _report(self, flight: _Flight, ended: CallOutcome, sent: Callable[[], object] | None = None) -> None:
        decision = flight.ruling.decision if flight.ruling is not None else None
        if decision is not None:
            self._keeper.report(flight.call, decision, ended.result, ended.outcome, sent=sent)

    # --- from the server -------------------------------------------------------------------------

    def down(self, line: bytes) -> None:
        """Takes a line from the server. Several threads may, each for its own requests."""
        waited = self._flights or self._asked or self._own or self._tasks
        if not waited and b"list_changed" not in line:
            self._to_client(line)
            return
        found = messages.read_answer(line)
        if isinstance(found, list):
            self._batch_down(line, found)
        elif found is None:
            self._to_client(line)
        elif not isinstance(found.method, UnsetType):
            self._hear(found)
            self._to_client(line)
        else:
            self._answered(line, found)

    def _hear(self, message: Message) -> None:
        """Heeds a notification."""
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
            flight = self._flight_answered(key)
        if own is not None:
            own.set_result(answer)
            return
        if isinstance(key, str) and key.startswith(f"callosum-{self._nonce}-"):
            return  # it answers a question that the wrap has asked again since
        if asked is not None:
            self._learn(asked, answer)
        if flight is None:
            self._to_client(line)
        else:
            self._beside(partial(self._settle, line, answer, flight))

    def _beside(self, settle: Callable[[], None]) -> None:
        """Reports in a thread beside, on the spot while the gate is fast."""
        if self._keeper.brisk:
            settle()
        else:
            self._pool.submit(settle)

    def _flight_answered(self, key: Id) -> _Flight | None:
        """The call that an answer belongs to, the oldest that was sent. The lock is held."""
        flight = next((one for one in self._flights.get(key, ()) if one.sent), None)
        if flight is not None:
            self._forget(flight)
        return flight

    def _settle(self, line: bytes, answer: Message, flight: _Flight) -> None:
        """Reports a call that was answered and passes the answer on, as soon as the report is on its way."""
        tell = _Once(self._to_client, line)
        try:
            ended = read_outcome(answer)
            told = self._told(line, flight)
            if told is not line:
                tell = _Once(self._to_client, told + b"\n")
            self._end(flight, ended, sent=tell)
        except Exception:
            logger.exception("the outcome of %s was lost", flight.call.tool)
        tell()

    def _told(self, message: bytes, flight: _Flight) -> bytes:
        """An answer as the client gets it: with the gate's warning behind it, where there is one."""
        if flight.ruling is None or not flight.ruling.text:
            return message
        return messages.with_text(message, flight.ruling.text) or message

    def _end(self, flight: _Flight, ended: CallOutcome, sent: Callable[[], object] | None = None) -> None:
        if ended.input is not None and flight.made is not None:
            self._rounds.wait(flight.made, ended.input, flight)
        elif ended.input is not None:
            self._given_up(flight)
        elif ended.task:
            with self._lock:
                self._tasks[ended.task] = flight
                flight.heard = time.monotonic()
                if self._watch is None:
                    self._watch = threading.Thread(target=self._watch_tasks, name="callosum-mcp-watch", daemon=True)
                    self._watch.start()
            self._telling.submit(self._tell, flight)
        else:
            self._report(flight, ended, sent)

    def _batch_down(self, line: bytes, found: list[Message]) -> None:
        flights: list[_Flight | None] = []
        refusals: list[bytes] = []
        with self._lock:
            for one in found:
                key = one.key if isinstance(one.method, UnsetType) else None
                flights.append(None if key is None else self._flight_answered(key))
                refusals += [] if key is None else self._batches.pop(key, [])
        if refusals or any(flights):
            self._beside(partial(self._settle_batch, line, found, flights, refusals))
        else:
            self._to_client(line)

    def _settle_batch(
        self, line: bytes, found: list[Message], flights: list[_Flight | None], refusals: list[bytes]
    ) -> None:
        try:
            parts = messages.parts(line)
            told = [
                part if flight is None else self._told(part, flight)
                for part, flight in zip(parts, flights, strict=True)
            ]
            if refusals or told != parts:
                line = messages.batch_of([*told, *refusals]) + b"\n"
            for answer, flight in zip(found, flights, strict=True):
                if flight is not None:
                    self._end(flight, read_outcome(answer))
        except Exception:
            logger.exception("the outcomes of a batch were lost")
        self._to_client(line)

    def _learn(self, asked: tuple[str, str], answer: Message) -> None:
        """Reads what an answer says of the server, its tools and its tasks."""
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

    # --- tasks -----------------------------------------------------------------------------------

    def _learn_of_task(self, method: str, task: str, answer: Message) -> None:
        """Reads the answer to a request about a task that is under way."""
        if not isinstance(answer.result, UnsetType) and method != "tasks/result":
            self._status(answer.result)
        elif method == "tasks/cancel":
            return  # it could not be cancelled
        elif is_unknown_task(answer):
            self._task_ended(task, CallOutcome(None, Outcome.UNKNOWN), _FORGOTTEN)
        elif method == "tasks/result":
            self._task_ended(task, read_outcome(answer))

    def _status(self, told: Raw | UnsetType) -> None:
        task, ended = read_status(told)
        if ended is not None:
            self._task_ended(task, ended)
        elif (flight := self._tasks.get(task)) is not None:
            flight.heard = time.monotonic()

    def _task_ended(self, task: str, ended: CallOutcome, why: str = "") -> None:
        """Reports a call whose answer was that it goes on."""
        with self._lock:
            flight = self._tasks.pop(task, None)
        if flight is not None:
            self._pool.submit(self._report, flight, ended)
            self._telling.submit(self._tell, flight, ended, why)

    def _watch_tasks(self) -> None:
        """Ask for the status of tasks of which nothing is heard: a client may have left them to themselves."""
        while not self._closing.wait(self._task_seconds / 3):
            late = time.monotonic() - self._task_seconds
            with self._lock:
                quiet = [(task, flight) for task, flight in self._tasks.items() if flight.heard <= late]
            for task, flight in quiet:
                flight.heard = time.monotonic()
                try:
                    self._ask_status(task, flight)
                except Exception:  # the other tasks, and later rounds, must still be asked about
                    logger.exception("the status of the task %s could not be asked for", task)

    def _ask_status(self, task: str, flight: _Flight) -> None:
        """Ask the server for a task's status; an earlier question that it has left open counts no more."""
        with self._lock:
            if flight.asked is not None:
                self._own.pop(flight.asked, None)
        flight.asked, answer = self._request("tasks/get", {"taskId": task}, flight.meta)
        answer.add_done_callback(partial(self._status_came, task))

    def _status_came(self, task: str, answer: Future[Message]) -> None:
        if not answer.cancelled():
            self._learn_of_task("tasks/get", task, answer.result())

    def _tell(self, flight: _Flight, ended: CallOutcome | None = None, why: str = "") -> None:
        """Tells that a task began, or how it ended; it has the name of the call that began it."""
        from callosum.hosts.events import HostSession  # noqa: PLC0415
        from callosum.hosts.tasks import OpenCall, TaskReporter  # noqa: PLC0415 - most servers have no tasks

        call = flight.call
        actor = HostSession(instance=call.instance, session=call.session or "", namespace=call.namespace)
        name = call.call_id or ""
        run = OpenCall(0, call.tool, "", call_id=name, task=name, began=flight.began)
        tasks = TaskReporter(self._keeper.tell)
        if ended is None:
            tasks.begun(actor, run)
            return
        error = ended.result.get("error") if isinstance(ended.result, dict) else None
        outcome = ended.outcome or (Outcome.FAILED if error else Outcome.DONE)
        tasks.ended(actor, run, outcome, error=str(error or ""), why=why)

    # --- the list of tools -----------------------------------------------------------------------

    def _tool_of(self, flight: _Flight) -> CatalogueTool | None:
        """What is known of the tool of a call; a client that never asks for the list is not waited for."""
        found = self.catalogue.find(flight.call.tool)
        modern = messages.is_modern(flight.meta)
        if (found is None or not self.catalogue.fresh) and not self._listed and (modern or self._ready):
            with self._listing:
                if not self._listed:
                    self._listed = True
                    self._list(flight.meta)
            found = self.catalogue.find(flight.call.tool)
        return found

    def _list(self, meta: dict[str, Raw] | None) -> None:
        """Asks the server for its tools, without the client's knowledge, and waits for them for a moment."""
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
        """Send the server a request of the wrap's own, as the client with this ``_meta`` would; return its id too."""
        own = {name: raw for name, raw in (meta or {}).items() if name in messages.REQUEST_META}
        id = f"callosum-{self._nonce}-{time.monotonic_ns()}"
        answer: Future[Message] = Future()
        with self._lock:
            self._own[id] = answer
        sent = {**({"_meta": own} if own else {}), **params}
        try:
            self._to_server(messages.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": sent}) + b"\n")
        except BaseException:
            with self._lock:
                self._own.pop(id, None)
            raise
        return id, answer

    # --- the end ---------------------------------------------------------------------------------

    def lost(self) -> None:
        """The server is gone: what it has not answered may or may not have happened. Returns once that is told."""
        self._closing.set()
        with self._lock:
            left = [flight for waiting in self._flights.values() for flight in waiting if flight.sent]
            tasks = list(self._tasks.values())
            left += tasks
            own = list(self._own.values())
            self._flights.clear()
            self._tasks.clear()
            self._own.clear()
        for answer in own:
            answer.cancel()
        unknown = CallOutcome(None, Outcome.UNKNOWN)
        for flight in self._rounds.close():
            self._given_up(flight)
        told = [self._pool.submit(self._report, flight, unknown) for flight in left]
        told += [self._telling.submit(self._tell, flight, unknown, _GONE) for flight in tasks]
        wait(told)

    def close(self) -> None:
        """Returns once everything is told that there was to tell. What comes then is not taken."""
        self._closing.set()
        self._pool.shutdown(wait=True)
        self._telling.shutdown(wait=True)
