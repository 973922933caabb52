"""Start the server, keep it running, and stop it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from msgspec import Struct

from callosum import __version__
from callosum.brain import Brain
from callosum.corpus.entry_events import JOURNALLED
from callosum.corpus.events import CorpusEvent
from callosum.errors import ConfigError, StoreError
from callosum.gate import LocalGate
from callosum.hosts.transcripts import Transcripts
from callosum.model import State
from callosum.server.accepting import Acceptor, open_files
from callosum.server.app import CONSOLE, HEALTH, App, Service
from callosum.server.async_gate import ServedGate
from callosum.server.jobs import jobs
from callosum.server.listeners import address_of, announced, is_loopback, listen, listen_local
from callosum.server.metrics import Metrics
from callosum.server.openapi import documents
from callosum.server.protocol import Protocol, limited
from callosum.server.recovery import Recovery
from callosum.server.security import Kind, RefusalLog, Security
from callosum.server.stream import Stream
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Tokens
from callosum.settings import Settings
from callosum.stores.base import Pooled

try:
    import resource
except ImportError:  # pragma: no cover - Windows
    resource = None  # type: ignore[assignment]

logger = logging.getLogger("callosum")

KEEP_ALIVE: Final = 75
"""Seconds for which an idle connection is kept."""
STOP_SECONDS: Final = 15
"""Seconds for which a stopping server continues to answer the requests it has accepted."""
_GARBAGE: Final = 20_000
_SWITCH: Final = 0.0005
"""Seconds that a thread returning from the disk waits for the interpreter's lock at most."""
_OWN_FILES: Final = 256
"""Maximum number of open files that are reserved for the gate itself."""
_OWN_RESERVE: Final = 16
"""Open files that the gate may need beyond those it has at its start: logs, segments, connections of threads."""
_FEWEST: Final = 4
"""Minimum number of connections with which a server is useful."""
_LAST_WORDS: Final = 2
"""Seconds for which a stopping server continues to journal the requests that it refused."""
_HANG_UP: Final = getattr(signal, "SIGHUP", signal.SIGTERM)
"""Signal sent when a terminal closes, and by service managers. Windows has no such signal."""
_OPEN: Final = (State.OPEN, State.QUEUED, State.ASKED)


class ServerOptions(Struct, frozen=True, kw_only=True):
    """How to serve. ``socket`` replaces ``host`` and ``port``; port 0 takes a free one.

    ``insecure`` allows an address that others can reach without TLS. ``allow_hosts`` are further names
    by which clients may address the server, ``allow_origins`` further origins of web pages. ``console`` is the address
    at which people with a token find the console (none: only this machine has it). ``idle``: seconds without use
    after which the server ends (None: never). ``drain``: seconds for which a server that was asked to stop still
    accepts requests, until a balancer has noticed; it reports itself as stopping at ``/health`` and ends all waits.
    """

    host: str = "127.0.0.1"
    port: int = 7700
    socket: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    console: str = ""
    idle: float | None = None
    drain: float = 0.0

    @property
    def tls(self) -> bool:
        """Return True if connections are encrypted."""
        return self.tls_cert is not None

    @property
    def public(self) -> bool:
        """Return True if other machines can reach the address."""
        return self.socket is None and not is_loopback(self.host)


def serve(settings: Settings, options: ServerOptions, ready: Callable[[str], None]) -> None:
    """Serve until a signal or idleness ends it. ``ready`` is called with the address once connections are accepted.

    Raises ``ConfigError`` for what may not or cannot be served, ``AlreadyServed``, ``StoreError``.
    """
    tokens = Tokens(settings.state / TOKENS)
    _check(options, tokens)
    tokens.serve_machine()
    _allow_files()
    with ExitStack() as stack:
        if options.socket is not None:
            opened = stack.enter_context(listen_local(options.socket))
            address = f"unix:{options.socket}"
        else:
            opened = stack.enter_context(listen(options.host, options.port))
            address = address_of(opened, tls=options.tls)
        ended = _Ended()
        for number in (signal.SIGINT, signal.SIGTERM):
            stack.callback(signal.signal, number, signal.signal(number, ended))
        stack.callback(_handle_hang_up(ended))
        gate = stack.enter_context(LocalGate(settings=settings))
        if options.public:
            # its hosts may run elsewhere, and transcripts are read only on their own machine
            gate.operations.refused = None
            gate.operations.keeps_purposes = settings.journal_purposes == "on"
        brain = stack.enter_context(Brain(gate))
        stack.enter_context(announced(settings.state, address, __version__, options.drain))
        _tune()

        def started(_: object) -> None:
            ended.serving = True  # not before: a signal that nobody handles yet would be lost
            ready(address)

        with asyncio.Runner(loop_factory=_loop()) as runner:
            runner.run(serve_gate(brain, tokens, options, opened, started))


def _allow_files() -> None:
    """Raise the limit of open files: a connection is an open file, and the default is often too small."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 65_536)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _room() -> tuple[int, int, bool]:
    """Return the number of connections that are served, and of further ones that are answered with 503.

    The third value is True if the limit of open files, beside those that the gate itself needs, determines the numbers.
    Raises ``ConfigError`` if the limit of open files leaves too few.
    """
    limits = Protocol.limits
    wanted = limits.connections + limits.spare
    files = resource.RLIM_INFINITY if resource is None else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if resource is None or files == resource.RLIM_INFINITY or files - _OWN_FILES >= wanted:
        return limits.connections, limits.spare, False
    own = min(_OWN_FILES, max(files // 2, open_files() + _OWN_RESERVE))
    left = files - own
    if left < _FEWEST:
        raise ConfigError(
            f"this process may open {files} files and needs {own} itself: raise the limit to {own + _FEWEST} or more",
            at="ulimit -n",
        )
    spare = min(limits.spare, left // 4)
    return left - spare, spare, True


def _tune() -> None:
    """Collect garbage less often: objects of the start live on, and those of a request have no cycles."""
    gc.freeze()
    gc.set_threshold(_GARBAGE, 20, 50)
    sys.setswitchinterval(_SWITCH)


def _handle_hang_up(handler: Callable[[int, FrameType | None], None]) -> Callable[[], object]:
    """Handle SIGHUP, unless the starting process ignores it (``nohup``); return a function that undoes this.

    Does nothing in threads, which may not handle signals.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(_HANG_UP) is signal.SIG_IGN:
        return lambda: None
    before = signal.signal(_HANG_UP, handler)
    return partial(signal.signal, _HANG_UP, before)


class _Ended:
    """Handle a signal to stop while the event loop's own handlers are not installed.

    Before serving, the signal ends the process at once. After serving it is ignored: uvicorn raises the signal again
    when all requests are answered, and the remaining notifications and log lines must still be written.
    """

    serving = False

    def __call__(self, *_: object) -> None:
        if not self.serving:
            raise SystemExit(0)


def _loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # noqa: PLC0415 - missing on Windows
    except ImportError:  # pragma: no cover - Windows
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def _check(options: ServerOptions, tokens: Tokens) -> None:
    if options.tls_key is not None and options.tls_cert is None:
        raise ConfigError("a key without a certificate", at="--tls-key")
    for path, at in ((options.tls_cert, "--tls-cert"), (options.tls_key, "--tls-key")):
        if path is not None and not path.is_file():
            raise ConfigError(f"there is no file {path}", at=at)
    if options.socket is not None and options.tls:
        raise ConfigError("a Unix socket needs no TLS", at="--tls-cert")
    if options.console and not options.tls and not options.insecure:
        raise ConfigError(
            "the console of other devices needs --tls-cert and --tls-key, or --insecure if something in front encrypts",
            at="--console",
        )
    if not options.public:
        return
    if not options.tls and not options.insecure:
        raise ConfigError(
            f"{options.host} can be reached from other machines: give --tls-cert and --tls-key, "
            "or say --insecure if something in front of it encrypts",
            at="--host",
        )
    if not tokens.list():
        raise ConfigError(
            f"{options.host} can be reached from other machines, and there is no token yet: "
            "make one with `callosum token add NAME`",
            at="--host",
        )


async def serve_gate(
    brain: Brain,
    tokens: Tokens,
    options: ServerOptions,
    opened: socket.socket,
    ready: Callable[[Callable[[], None]], None],
) -> None:
    """Serve a brain's gate on an open socket until it is asked to stop.

    ``ready`` is called once connections are accepted, with a function that stops the server (from any thread).
    """
    gate = brain.gate
    stream = Stream(gate.store, gate.settings.state)
    metrics = Metrics(lambda: _gauges(served, stream), gate.store.pool if isinstance(gate.store, Pooled) else None)
    served = ServedGate(gate, stream.wake, metrics.decided)
    leave = gate.follower.join("metrics", metrics.take)
    # the stream reads the journal's events by itself
    unpublish = brain.corpus.on(
        CorpusEvent, lambda event: stream.publish((event,)) if type(event) not in JOURNALLED else None, ahead=True
    )
    if gate.settings.telemetry_prometheus:
        from callosum.telemetry.prometheus import Prometheus  # noqa: PLC0415

        Prometheus(brain.corpus, metrics.registry)
    transcripts = None
    if not options.public and "models" not in brain.settings.regions_off:  # other hosts' files are elsewhere
        transcripts = Transcripts(brain.corpus.emit, gate.settings.state)
    service = Service(served, stream, metrics, tokens, brain, transcripts)
    tasks: set[asyncio.Task[None]] = set()

    def journal(kind: Kind, details: Mapping[str, Any]) -> None:
        if not served.stopping:
            task = asyncio.ensure_future(served.drive(gate.operations.refuse(kind, details)))
            tasks.add(task)
            task.add_done_callback(_logged)
            task.add_done_callback(tasks.discard)

    refusals = RefusalLog(journal)

    def on_refused(kind: Kind, scope: MutableMapping[str, Any], details: Mapping[str, Any]) -> None:
        metrics.refused(kind)
        refusals(kind, scope, details)

    app = Security(
        App(service, documents),
        tokens,
        allow_hosts=(options.host, *options.allow_hosts),
        allow_origins=options.allow_origins,
        token_required=options.public,
        open_to_all=(HEALTH,),
        proven=(CONSOLE,),
        on_refused=on_refused,
    )
    connections, spare, scarce = _room()
    protocol = limited(connections=connections, spare=spare)
    config = uvicorn.Config(
        service.console_opener.beside(app, options.console, tokens, on_refused) if options.console else app,
        http=protocol,
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=str(options.tls_cert) if options.tls_cert else None,
        ssl_keyfile=str(options.tls_key) if options.tls_key else None,
    )

    async def journal_rest() -> None:
        refusals.flush()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS)

    server = _Server(config, service, protocol, options.drain, lambda: ready(server.leave), journal_rest, scarce=scarce)
    aftermath = Recovery(service, gate.settings.state)
    others = [_start(brain), *([_until_idle(server, service, options.idle)] if options.idle else ())]
    beside = [*map(asyncio.ensure_future, (*(job.run() for job in jobs(gate, aftermath, refusals)), *others))]
    try:
        await server.serve(sockets=[opened])
    finally:
        for task in beside:
            task.cancel()
        aftermath.close()
        if transcripts is not None:
            await asyncio.to_thread(transcripts.close)
        await service.console_opener.close()
        await stream.close()
        await served.close()
        unpublish()
        await asyncio.to_thread(leave)


async def _start(brain: Brain) -> None:
    """Start the periodic work beside the loop, so that the first requests need not wait for it."""
    try:
        await asyncio.to_thread(brain.start)
    except Exception:
        logger.exception("the schedule could not be started")


def _logged(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.warning("a refusal could not be journalled: %s", task.exception())


class _Server(uvicorn.Server):
    """A server that hands over to another one before it stops.

    ::

        asked to stop   /health turns red, waiting calls and stream readers are sent to another server
        drain           requests are still answered, because the balancer has not checked yet; each
                        answer closes its connection
        then            no requests are accepted any more; accepted ones are answered
    """

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        protocol: type[Protocol],
        drain: float,
        ready: Callable[[], None],
        before_stop: Callable[[], Awaitable[None]],
        *,
        scarce: bool = False,
    ) -> None:
        super().__init__(config)
        self._scarce = scarce
        self._service = service
        self._protocol = protocol
        self._drain = drain
        self._ready = ready
        self._before_stop = before_stop
        self._loop = asyncio.get_running_loop()
        self._left = asyncio.Event()
        self._hurried = asyncio.Event()

    def leave(self) -> None:
        """Begin to stop. Safe in any thread."""
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._left.set)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Treat SIGHUP as a request to stop, too, unless the starting process ignores it (``nohup``)."""
        with super().capture_signals(), ExitStack() as stack:
            stack.callback(_handle_hang_up(self.handle_exit))
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal; a second one ends the drain."""
        if self.should_exit:
            self._loop.call_soon_threadsafe(self._hurried.set)
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self._left.set)

    async def main_loop(self) -> None:
        """Wait for the end, without the original's ten checks a second."""
        await self.on_tick(0)
        await self._left.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup([] if self._scarce else sockets)
        for listener in (sockets or ()) if self._scarce else ():
            self.servers.append(self._acceptor(listener))  # type: ignore[arg-type]  # it is closed like the others
        self._ready()

    def _acceptor(self, listener: socket.socket) -> Acceptor:
        limits = self._protocol.limits
        connections = self.server_state.connections
        return Acceptor(
            listener,
            lambda: self._protocol(self.config, self.server_state, self.lifespan.state),
            room=limits.connections + limits.spare,
            count=lambda: len(connections),
            tls=self.config.ssl,
            handshake=limits.arrive,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Hand over, answer the accepted requests and refuse the rest."""
        self._protocol.leaving = True
        self._service.served.leave()
        await self._service.stream.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain):
                await self._hurried.wait()
        await self._before_stop()
        self._service.served.stop()
        self._protocol.stopping = True
        await super().shutdown(sockets)


async def _until_idle(server: _Server, service: Service, idle: float) -> None:
    """End the server after ``idle`` seconds without a request, if nothing is open."""
    while not server.should_exit:
        quiet = time.monotonic() - service.touched
        if quiet < idle:
            await asyncio.sleep(idle - quiet)
            continue
        waited_for = service.stream.readers or service.waiting or service.console_opener.used
        if waited_for or await service.served.read(lambda: _busy(service)):
            await asyncio.sleep(min(idle, 5))
            continue
        if time.monotonic() - service.touched >= idle:
            logger.info("nobody has asked for %.0f s and nothing is open: the server ends", idle)
            server.leave()


def _busy(service: Service) -> bool:
    """Return True if a lease, a waiter or an approval is open."""
    try:
        now = service.store.now()
        return any(
            max(action.expires, action.limit if action.alive else 0) > now
            for action in service.store.live(None, _OPEN)
            if action.approved >= 0
        )
    except StoreError:
        return False


def _gauges(served: ServedGate, stream: Stream) -> dict[str, tuple[str, float]]:
    writer = served.writer
    return {
        "callosum_event_readers": ("Readers of the event stream.", stream.readers),
        "callosum_events_dropped": ("Events that slow readers lost.", stream.dropped),
        "callosum_readers_cut_off": ("Readers that did not read.", stream.stalled),
        "callosum_transactions": ("Transactions of the group commit.", writer.committed),
        "callosum_requests": ("Requests in these transactions.", writer.requests),
        "callosum_turned_away": ("Calls that were refused because too many waited.", served.turned_away),
        "callosum_process_seconds": ("Processor time of the server.", time.process_time()),
        "callosum_pid": ("The server's process.", os.getpid()),
    }
