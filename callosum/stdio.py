"""The gate as JSON-RPC 2.0 over stdin and stdout, one message a line, for a host that prefers a child to a port.

::

    channel.read ── LineSplitter ── reader ──┬── RpcMethods ── gate             idle: answered in the reader's thread
                                             └── Workers ── RpcMethods ── gate  the request waits, or others are pending
    channel.write <── whole lines, under a lock ──┘

The reading thread also answers while requests come one at a time, because a change of thread takes as long as a
decision. A request that may take long (``wait``) goes to a worker. Only when every worker has such a request may the
next one block the reader.
"""

from __future__ import annotations

import difflib
import logging
import os
import select
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from callosum import __version__, operations, wire
from callosum.corpus.bus import Corpus
from callosum.deadline import Expiry
from callosum.errors import CallosumError, ConfigError, Unconfirmed
from callosum.gate import Caller, Gate, LocalGate
from callosum.gate.check import check_name
from callosum.model import DEFAULT_NAMESPACE, GateRequest
from callosum.regions.budget import RAS
from callosum.regions.context import Prefrontal

logger = logging.getLogger("callosum")

R = TypeVar("R")

WORKERS: Final = 32
"""Maximum number of requests that workers handle at the same time as the reader."""
MAX_BATCH: Final = 1000
"""Maximum number of requests in one batch."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
UNKNOWN_METHOD: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
AWAY: Final = -32000
"""Error code: the gate or its store cannot answer now."""
REFUSED: Final = -32001
"""Error code: only a person may use the method."""

_DRAIN_POLL: Final = 0.25
_CHUNK: Final = 65536
_GONE: Final = select.POLLERR | select.POLLHUP
"""Poll events at the writing end of a pipe after the reading end was closed."""


# --- methods ---


class HealthQuery(Struct, GateRequest["ChildHealth"], frozen=True):
    """Params of ``health``: none."""

    operation: ClassVar[str] = "health"


class ChildHealth(Struct, frozen=True, rename="camel"):
    """The name and version of this child, and its methods."""

    name: str
    version: str
    methods: tuple[str, ...]


METHODS: Final[Mapping[str, type[GateRequest[Any]]]] = {**operations.METHODS, "health": HealthQuery}
"""The parameter type of every method."""
_DECODERS: Final = {name: msgspec.json.Decoder(kind) for name, kind in METHODS.items()}


Briefs = Callable[[wire.ReadBrief], wire.Brief]
"""Serves the method ``brief``, which a gate alone does not offer."""


def briefs_of(gate: LocalGate, corpus: Corpus | None = None) -> Briefs:
    """Return a function that makes briefs for an embedded gate and emits their events to ``corpus``."""
    corpus = corpus if corpus is not None else Corpus()
    prefrontal = Prefrontal(
        corpus,
        store=gate.store,
        secrets=gate.rules.secrets,
        shares=gate.settings.journal_share_purposes,
        merges=gate.operations.writers.merges.heads if gate.operations.writers is not None else tuple,
    )
    ras = RAS(corpus, gate.settings.brief_budget)

    def brief(asked: wire.ReadBrief) -> wire.Brief:
        made = prefrontal.brief(
            asked.instance,
            asked.session,
            namespace=asked.namespace,
            keys=asked.keys,
            cwd=asked.cwd,
            prompt=asked.prompt,
        )
        return ras.trim(made, asked.budget)

    return brief


class ApproverRequired(CallosumError):
    """Only a person may do this. ``at`` names the method, or the field that requires a person."""

    def __init__(self, at: str) -> None:
        super().__init__(f"only a person may {at}, and this child acts for none: start it with --approver")
        self.at = at


class RpcMethods:
    """Runs the methods. ``approver``: the host acts for a person, so it may approve and deny."""

    def __init__(self, gate: Gate, briefs: Briefs, *, approver: bool) -> None:
        self._gate = gate
        self._briefs = briefs
        self._approver = approver
        self.closing = threading.Event()
        """Set when no more requests are accepted: readers that wait for the journal then get the entries there are."""

    def methods(self) -> tuple[str, ...]:
        """Return the names of the methods that this child offers."""
        return tuple(name for name in METHODS if self._approver or name not in operations.FOR_APPROVERS)

    def admit(self, method: str) -> None:
        """Raise ``ApproverRequired`` for a method that needs a person, if this child has none."""
        if method in operations.FOR_APPROVERS and not self._approver:
            raise ApproverRequired(method)

    def answer(self, request: Any) -> Any:
        """Carry out the request and return the struct of its reply. Raises ``CallosumError``."""
        operation = request.operation
        if isinstance(self._gate, LocalGate) and not self._gate.here and getattr(request, "host", None) is not None:
            request = replace(request, host=None)  # a process that this one cannot look up
        if operation == "intercept":
            return self._gate.handle(request)
        if operation == "health":
            return ChildHealth("callosum", __version__, self.methods())
        if request.namespace is not None:
            check_name(request.namespace, "namespace")
        if operation == "brief":
            return self._briefs(request)
        caller = Caller(expiry=Expiry(None, self.closing.is_set)) if operation == "journal" else None
        if not self._approver:
            if operation == "release" and request.force:
                raise ApproverRequired("force")
            if operation == "resolve":
                caller = Caller(person=False)
        if caller is not None and isinstance(self._gate, LocalGate):
            return self._gate.handle(request, caller)
        return self._gate.handle(request)


# --- messages ---


class _Message(Struct, frozen=True, gc=False):
    jsonrpc: Literal["2.0"]
    method: str
    id: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


class _Known(Struct, frozen=True, gc=False):
    """The part of an invalid message that can be read: the id to answer to."""

    id: Raw = Raw(b"null")


class _Said(Struct, frozen=True, gc=False):
    """Flags for the fields that a request sets itself although this child has its own values for them."""

    namespace: Raw | UnsetType = UNSET
    channel: Raw | UnsetType = UNSET


class _Error(Struct, frozen=True, gc=False, omit_defaults=True):
    code: int
    message: str
    data: Mapping[str, str | int] | None = None


class _Answer(Struct, frozen=True, gc=False, tag_field="jsonrpc", tag="2.0"):
    id: Raw
    result: Any


class _Failure(Struct, frozen=True, gc=False, tag_field="jsonrpc", tag="2.0"):
    id: Raw
    error: _Error


_NULL: Final = Raw(b"null")
_EMPTY: Final = Raw(b"{}")
_BATCH: Final = msgspec.json.Decoder(list[Raw])
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_ANYTHING: Final = msgspec.json.Decoder(Any)
_KNOWN: Final = msgspec.json.Decoder(_Known)
_SAID: Final = msgspec.json.Decoder(_Said)
_ID: Final = msgspec.json.Decoder(str | int | float | None)


class RpcError(Exception):
    """A message that cannot be carried out. ``id`` None: a notification, which gets no response."""

    def __init__(self, id: Raw | None, code: int, message: str, /, **data: str | int) -> None:
        super().__init__(message)
        self.id = id
        self.error = _Error(code, message, data or None)

    def answer(self) -> bytes | None:
        """Return the error response as a line, without the line end."""
        return wire.encode(_Failure(self.id, self.error)) if self.id is not None else None


class RpcRequest(NamedTuple):
    """A valid request. ``id`` is the text as the client wrote it; None for a notification."""

    id: Raw | None
    method: str
    params: Any

    @property
    def slow(self) -> bool:
        """Return True if the request may take longer than a transaction."""
        return bool(getattr(self.params, "wait", 0) > 0)


def read_job(body: bytes, desk: RpcMethods, namespace: str = DEFAULT_NAMESPACE) -> RpcRequest:
    """Read one message. ``namespace`` is used for a request that names none. Raises ``RpcError``."""
    message = _read_message(body)
    id = (
        None if message.id is UNSET else message.id.copy()
    )  # copied, because a view would keep the whole line in memory
    method = message.method
    decoder = _DECODERS.get(method)
    if decoder is None:
        near = difflib.get_close_matches(method, METHODS, n=1) if len(method) <= 64 else []
        more = {"near": near[0]} if near else {}
        raise RpcError(id, UNKNOWN_METHOD, f"there is no method {method[:64]!r}", at="method", **more)
    try:
        desk.admit(method)
    except ApproverRequired as refusal:
        raise RpcError(id, REFUSED, str(refusal), at=refusal.at) from None
    return RpcRequest(
        id, method, _read_params(decoder, _EMPTY if message.params is UNSET else message.params, id, namespace)
    )


def _read_message(body: bytes) -> _Message:
    try:
        message = _MESSAGE.decode(body)
        _no_name_twice(message, body)
    except msgspec.ValidationError as error:
        raise _broken(body, wire.fault_of(error)) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise RpcError(_NULL, PARSE_ERROR, f"invalid JSON: {error}", at="message") from None
    except RecursionError:
        raise RpcError(_NULL, PARSE_ERROR, "nested too deeply", at="message") from None
    except ConfigError as error:
        raise _broken(body, error) from None
    if message.id is not UNSET and not _is_id(message.id):
        raise RpcError(_NULL, INVALID_REQUEST, "expected a string, a number or null", at="id")
    return message


def _no_name_twice(message: _Message, body: bytes) -> None:
    """Raise ``RpcError`` for an envelope that has a name twice; the params are checked when they are read."""
    names = 2 + (message.id is not UNSET)
    if message.params is not UNSET:
        names += 1
        body = body.replace(message.params, b"0", 1)
    if body.count(b":") != names:  # otherwise there is no room for more names than the known ones
        wire.read(_ANYTHING, body)


def _broken(body: bytes, error: ConfigError) -> RpcError:
    """Return the error for an invalid message, with its id if that can be read. ``error`` is the first fault."""
    id = _NULL
    try:
        found = _KNOWN.decode(body).id
        if error.at != "id" and _is_id(found):
            id = found.copy()
    except msgspec.ValidationError:
        pass  # not an object
    except (msgspec.DecodeError, RecursionError) as worse:
        return RpcError(_NULL, PARSE_ERROR, f"invalid JSON: {worse}", at="message")
    return RpcError(id, INVALID_REQUEST, error.message, at=error.at if error.at != "body" else "message")


def _is_id(raw: Raw) -> bool:
    try:
        _ID.decode(raw)
    except msgspec.DecodeError:
        return False
    return True


def _read_params(decoder: msgspec.json.Decoder[Any], raw: Raw, id: Raw | None, namespace: str) -> Any:
    try:
        params = wire.read(decoder, bytes(raw))
        if namespace != DEFAULT_NAMESPACE or isinstance(params, wire.Approve):
            params = _with_own(params, _SAID.decode(raw), namespace=namespace, channel="stdio")
    except ConfigError as error:
        code = INVALID_PARAMS if bytes(raw)[:1] in (b"{", b"[") else INVALID_REQUEST
        raise RpcError(id, code, error.message, at=error.at if error.at != "body" else "params") from None
    return params


def _with_own(params: Any, said: _Said, **own: str) -> Any:
    """Return the request with this child's own values in the fields that it leaves out."""
    fields = params.__struct_fields__
    return replace(params, **{name: own[name] for name in own if name in fields and getattr(said, name) is UNSET})


# --- lines ---


class LineSplitter:
    """Splits input into lines; a line longer than ``most`` bytes is skipped and not stored."""

    def __init__(self, most: int = wire.MAX_BODY) -> None:
        self._most = most
        self._part = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that ``data`` completes, without line ends; None for a line that was too long."""
        *ends, rest = data.split(b"\n")
        lines = [self._end(one) for one in ends]
        self._keep(rest)
        return lines

    def rest(self) -> bytes | None:
        """Return the text after the last line end."""
        return self._end(b"")

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._most:
            self._part += part
        else:
            self._part.clear()

    def _end(self, part: bytes) -> bytes | None:
        if not self._size and len(part) <= self._most:
            return part
        self._keep(part)
        line = bytes(self._part) if self._size <= self._most else None
        self._part.clear()
        self._size = 0
        return line


# --- workers ---


class Workers:
    """Up to ``most`` threads, each started when it is first needed. Only one thread hands out work."""

    def __init__(self, most: int = WORKERS) -> None:
        self._most = most
        self._slots = threading.Semaphore(most)
        self._idle = threading.Semaphore(0)
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def start(self, job: Callable[[], None], *, wait: bool) -> bool:
        """Run ``job``, which must not raise, in a thread; return False if none is free and ``wait`` is False."""
        if not self._slots.acquire(blocking=wait):
            return False
        if not self._idle.acquire(blocking=False):
            thread = threading.Thread(target=self._work, daemon=True, name=f"callosum-stdio-{len(self._threads)}")
            try:
                thread.start()
            except RuntimeError:  # the system refuses to start more threads
                self._slots.release()
                return False
            self._threads.append(thread)
        self._jobs.put(job)
        return True

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._idle.release()
            self._slots.release()

    def finish(self, given_up: Callable[[], bool]) -> bool:
        """Wait until all jobs are done and end the threads; return False if ``given_up`` was true before."""
        for _ in range(self._most):
            while not self._slots.acquire(timeout=_DRAIN_POLL):
                if given_up():
                    return False
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        return True


Reply = Callable[[bytes | None], None]


class _Batch:
    """Collects the answers of a batch; the last request to finish sends them."""

    def __init__(self, count: int, send: Reply) -> None:
        self._left = count
        self._send = send
        self._answers: list[bytes] = []
        self._lock = threading.Lock()

    def add(self, answer: bytes | None) -> None:
        with self._lock:
            if answer is not None:
                self._answers.append(answer)
            self._left -= 1
            if self._left:
                return
        if self._answers:
            self._send(b"[" + b",".join(self._answers) + b"]")


# --- conversation ---


class Channel(Protocol):
    """Source and destination of messages. ``read`` is called by one thread, the other methods by any."""

    def read(self) -> bytes | None:
        """Wait for input; return ``b""`` at its end, None after ``stop``."""
        ...

    def write(self, data: bytes) -> None:
        """Write all of the data. Raises ``OSError`` if that fails."""
        ...

    def stop(self) -> None:
        """End the running ``read`` and every later one. Safe in a signal handler."""
        ...

    def gone(self) -> bool:
        """Return True if nothing reads the output any more."""
        ...


class _Conversation:
    def __init__(self, desk: RpcMethods, channel: Channel, namespace: str, workers: int) -> None:
        self._desk = desk
        self._channel = channel
        self._namespace = namespace
        self._workers = Workers(workers)
        self._writing = threading.Lock()
        self._busy: set[object] = set()
        self.failure: OSError | None = None
        """The error after which nothing more can be written."""

    # --- input ---

    def take(self, line: bytes | None, *, alone: bool) -> None:
        """Answer a line, or hand it to a worker. ``alone``: no other line has arrived with it."""
        try:
            self._take_line(line, alone=alone)
        except RpcError as fault:
            self._send(fault.answer())

    def _take_line(self, line: bytes | None, *, alone: bool) -> None:
        if line is None:
            raise RpcError(_NULL, INVALID_REQUEST, f"the line is longer than {wire.MAX_BODY} bytes", at="message")
        line = line.lstrip(b" \t\r")
        if not line:
            return
        if not line.isascii():
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise RpcError(_NULL, PARSE_ERROR, f"invalid UTF-8: {error.reason}", at="message") from None
        if line[:1] == b"[":
            self._take_batch(line)
        else:
            self._take_one(line, self._send, alone=alone)

    def _take_batch(self, line: bytes) -> None:
        try:
            raws = _BATCH.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RpcError(_NULL, PARSE_ERROR, f"invalid JSON: {error}", at="message") from None
        if not 1 <= len(raws) <= MAX_BATCH:
            raise RpcError(_NULL, INVALID_REQUEST, f"expected 1 to {MAX_BATCH} requests in a batch", at="message")
        batch = _Batch(len(raws), self._send)
        for raw in raws:
            self._take_one(bytes(raw), batch.add, alone=len(raws) == 1)

    def _take_one(self, body: bytes, reply: Reply, *, alone: bool) -> None:
        try:
            job = read_job(body, self._desk, self._namespace)
        except RpcError as fault:
            return reply(fault.answer())
        except Exception as error:  # one message that fails must not stop the next
            logger.exception("a message could not be read")
            return reply(RpcError(_NULL, INTERNAL_ERROR, "internal error", kind=type(error).__name__).answer())
        started = False
        if job.slow:
            started = self._workers.start(partial(self._work, job, reply), wait=True)
        elif self._busy or not alone:  # several requests at once share one sync of the disk
            started = self._beside(job, reply)
        if not started:
            self._work(job, reply)
        return None

    def _beside(self, job: RpcRequest, reply: Reply) -> bool:
        """Hand a quick request to a worker; return False if all wait, so that freeing a lease is not held up."""
        token = object()

        def work() -> None:
            self._work(job, reply)
            self._busy.discard(token)

        self._busy.add(token)
        started = self._workers.start(work, wait=False)
        if not started:
            self._busy.discard(token)
        return started

    # --- output ---

    def _work(self, job: RpcRequest, reply: Reply) -> None:
        reply(self._answer(job))

    def _answer(self, job: RpcRequest) -> bytes | None:
        try:
            result = self._desk.answer(job.params)
            return wire.encode(_Answer(job.id, result)) if job.id is not None else None
        except ConfigError as error:
            fault = RpcError(job.id, INVALID_PARAMS, error.message, at=error.at)
        except ApproverRequired as refusal:
            fault = RpcError(job.id, REFUSED, str(refusal), at=refusal.at)
        except CallosumError as error:
            named = {"id": error.id} if isinstance(error, Unconfirmed) and error.id is not None else {}
            fault = RpcError(job.id, AWAY, str(error), kind=type(error).__name__, **named)
        except Exception as error:  # one request that fails must not stop the next
            logger.exception("%s failed", job.method)
            fault = RpcError(job.id, INTERNAL_ERROR, "internal error", kind=type(error).__name__)
        return fault.answer()

    def _send(self, answer: bytes | None) -> None:
        if answer is None:
            return
        with self._writing:
            if self.failure is not None:
                return
            try:
                self._channel.write(answer + b"\n")
            except OSError as error:
                self.failure = error
                self._channel.stop()

    def finish(self) -> bool:
        """Wait for the pending answers. Return False if nothing reads them any more."""
        self._desk.closing.set()
        done = self._workers.finish(lambda: self.failure is not None or self._channel.gone())
        if not done:
            with self._writing:  # later writers write nothing, because the channel may be closed by then
                self.failure = self.failure or BrokenPipeError()
        return done


def serve(
    gate: Gate,
    briefs: Briefs,
    channel: Channel,
    *,
    approver: bool = False,
    namespace: str = DEFAULT_NAMESPACE,
    workers: int = WORKERS,
) -> bool:
    """Answer the requests of ``channel`` until it ends or is stopped; then finish those that were accepted.

    ``namespace`` is used for requests that name none. With ``approver`` the host may decide as a person.
    Answers are written in the order in which they are ready. Returns False if requests are still running when
    nobody is there to read their answers; the gate is then in use. Raises ``OSError`` if answers could not be
    written although somebody might read them (a full disk).
    """
    conversation = _Conversation(RpcMethods(gate, briefs, approver=approver), channel, namespace, workers)
    lines = LineSplitter()
    while data := channel.read():
        found = lines.feed(data)
        for line in found:
            if conversation.failure is None:
                conversation.take(line, alone=len(found) == 1)
    if data is not None:
        conversation.take(lines.rest(), alone=True)  # the last line has no line end, but counts if it can be read
    done = conversation.finish()
    if conversation.failure is not None and not isinstance(conversation.failure, ConnectionError):
        raise conversation.failure
    return done


class Pipes:
    """The channel over two file descriptors, which must differ."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._ear, self._bell = os.pipe()
        os.set_blocking(self._bell, False)
        self._events = select.poll()
        self._events.register(source, select.POLLIN)
        self._events.register(self._ear, select.POLLIN)
        self._events.register(sink, 0)

    def read(self) -> bytes | None:
        while True:
            events = dict(self._events.poll())
            if self._ear in events:
                return None
            there = events.pop(self._sink, 0)
            if there & _GONE:
                return None
            if there:
                self._events.unregister(self._sink)  # a device that cannot be polled
            if events:
                try:
                    return os.read(self._source, _CHUNK)
                except BlockingIOError:
                    continue
                except ConnectionError:
                    return b""

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._sink, left) :]
            except BlockingIOError:
                room = select.poll()
                room.register(self._sink, select.POLLOUT)
                room.poll()

    def stop(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._bell, b"!")

    def gone(self) -> bool:
        look = select.poll()
        look.register(self._sink, 0)
        return any(events & _GONE for _, events in look.poll(0))

    def close(self) -> None:
        """Close the descriptors that this channel opened itself."""
        os.close(self._ear)
        os.close(self._bell)
