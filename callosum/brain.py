"""The brain: one corpus with the daily log and the regions that the settings switch on, fed by a gate.

::

    with LocalGate(state) as gate, Brain(gate) as brain:
        brain.corpus.on("safety.blocked", lambda event: print(event.reason))
        ...
        print(brain.brief("mira", "chat").text)

    gate ── Observation ──> Feed ── Entry ──> Motor ── tool.* ───┐
                             (a thread)       Amygdala ─ safety.*─┼─> corpus ──> daily log, regions, exporters,
                                              BasalGanglia ───────┘              the server's event stream

A decision never waits for the corpus: the gate's entries go into a queue, and a thread derives the events and emits
them in order. A process's corpus carries the decisions of this process and what hosts report to it. The journal holds
what all processes did; regions that describe all sessions read it there.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakSet

from callosum.corpus.bus import Corpus
from callosum.corpus.daily_log import DailyLog
from callosum.corpus.events import CorpusEvent, HealthWarning, ParsedCall
from callosum.corpus.opening_calls import OpeningCalls
from callosum.errors import ConfigError
from callosum.gate import LocalGate, Observer
from callosum.journal import Journal
from callosum.model import DEFAULT_NAMESPACE, Call, Observation
from callosum.wire import Brief

if TYPE_CHECKING:
    from callosum.regions.budget import RAS
    from callosum.regions.context import Prefrontal
    from callosum.regions.execution import Motor
    from callosum.regions.parsing import Wernicke
    from callosum.regions.scheduler import Brainstem

logger = logging.getLogger("callosum")

FOLDER: Final = "brain"
"""Folder of the log, the pages and the index, below the state folder."""
BATCH_SECONDS: Final = 0.02
"""Seconds between two batches of journal entries. A thread that wakes for each call would slow the call down."""
MOST_WAITING: Final = 100_000
"""Most observations that wait. Beyond it the oldest are dropped and counted; the journal has them in any case."""


class Brain:
    """A corpus with its log, regions and exporters. Close it, or use it as a context manager.

    ``corpus`` is the caller's own; without it one is created, and closed with the brain. ``start`` starts the schedule
    and the watching of files. The regions are attributes, None if they are switched off (``regions.off`` in the
    settings).

    Raises ``ConfigError`` if a region that is switched on needs a package that is not installed.
    """

    def __init__(self, gate: LocalGate, *, corpus: Corpus | None = None) -> None:
        settings = gate.settings
        self.gate = gate
        self.settings = settings
        self.folder = Path(settings.state) / FOLDER
        self._ends = ExitStack()
        self._turn = threading.Lock()
        self._closed = False
        try:
            self.corpus = corpus if corpus is not None else self._ends.enter_context(Corpus())
            self._ends.callback(gate.leave_log())
            folder = self.folder / "corpus"
            self.log = DailyLog(self.corpus, folder, size=settings.corpus_size) if settings.corpus_log else None
            if self.log is not None:
                self._ends.callback(self.log.close)
            takers = self._make_regions()
            self._export()
            self.feed = Feed(self.corpus, takers)
            self._ends.callback(self.feed.close)
            self._ends.callback(gate.add_observer(self.feed.observe))
        except BaseException:
            self._ends.close()
            raise

    def _make_regions(self) -> list[Observer]:
        """Create the regions that are switched on; return the observers of the gate's entries, in order."""
        gate, corpus, state = self.gate, self.corpus, Path(self.settings.state)
        takers: list[Observer] = []
        calls = OpeningCalls(Journal(gate.store, state).entry)
        self.motor: Motor | None = None
        self.wernicke: Wernicke | None = None
        self.prefrontal: Prefrontal | None = None
        self.ras: RAS | None = None
        self.brainstem: Brainstem | None = None
        if self._on("execution"):
            with _needed("execution"):
                from callosum.regions.execution import Motor

            self.motor = self._keep(Motor(corpus, gate, calls=calls))
            takers.append(self.motor.observe)
        if self._on("safety"):
            from callosum.regions.safety import Amygdala

            takers.append(self._keep(Amygdala(corpus, calls=calls)).observe)
        if self._on("learning"):
            from callosum.regions.learning import LEARNED, BasalGanglia

            takers.append(self._keep(BasalGanglia(corpus, kept=self.folder / LEARNED)).observe)
        if self._on("health"):
            from callosum.regions.health import HealthLimits, Hypothalamus

            had = self.settings
            limits = HealthLimits(memory=had.health_memory, disk=had.health_disk, free=had.health_free)
            self._keep(Hypothalamus(corpus, store=gate.store, state=state, limits=limits))
        if self._on("episodes"):
            from callosum.regions.episodes import Hippocampus

            self._keep(Hippocampus(corpus, store=gate.store, state=state))
        if self._on("search"):
            from callosum.regions.search import Cortex

            self._keep(Cortex(corpus, store=gate.store, state=state))
        if self._on("context"):
            from callosum.regions.context import Prefrontal

            self.prefrontal = self._keep(
                Prefrontal(
                    corpus,
                    store=gate.store,
                    secrets=gate.rules.secrets,
                    shares=gate.settings.journal_share_purposes,
                    merges=gate.operations.writers.merges.heads if gate.operations.writers is not None else tuple,
                )
            )
        if self._on("budget"):
            from callosum.regions.budget import RAS

            self.ras = self._keep(RAS(corpus, self.settings.brief_budget))
        if self._on("parsing"):
            from callosum.regions.parsing import Wernicke

            self.wernicke = Wernicke(corpus)
        if self._on("scheduler"):
            with _needed("scheduler"):
                from callosum.regions.scheduler import Brainstem

            files = [path for path in (gate.rules.path, self.settings.config) if path is not None]
            self.brainstem = self._keep(Brainstem(corpus, gate=gate, state=state, watch=files))
        return takers

    def _export(self) -> None:
        if self.settings.telemetry_opentelemetry:
            from callosum.telemetry.otlp import from_environment

            self._keep(from_environment(self.corpus, content=self.settings.telemetry_content))
        if self.settings.telemetry_logging:
            from callosum.telemetry.logs import Logs

            self._keep(Logs(self.corpus))

    def _on(self, region: str) -> bool:
        return region not in self.settings.regions_off

    def _keep(self, part: Any) -> Any:
        self._ends.callback(part.close)
        return part

    def start(self) -> Self:
        """Start the schedule and the watching of files. Return the brain."""
        with self._turn:
            if self.brainstem is not None and not self._closed:
                self.brainstem.start()
        return self

    def brief(
        self,
        instance: str,
        session: str | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        keys: Sequence[str] = (),
        cwd: str | None = None,
        prompt: str | None = None,
        budget: int | None = None,
        forgot: bool = False,
    ) -> Brief:
        """Return what other sessions are doing and did recently, for this session, within ``budget`` tokens.

        ``keys``, ``cwd``, ``prompt`` and ``forgot`` say what matters to the session, as in ``Prefrontal.brief``. The
        brief is empty if Prefrontal is switched off, and uncut if RAS is. Raises ``ConfigError`` with the place for
        invalid input, ``StoreUnavailable`` as the store does.
        """
        if self.prefrontal is None:
            return Brief()
        brief = self.prefrontal.brief(
            instance, session, namespace=namespace, keys=keys, cwd=cwd, prompt=prompt, forgot=forgot
        )
        if self.ras is None:
            return brief
        actor = f"{instance}/{session}" if session else instance
        return self.ras.trim(brief, budget, instance=actor, namespace=namespace)

    def parsed(self, call: Call) -> None:
        """Emit, ahead of the gate's own events, that a host read this call out of a model's answer.

        Costs the caller next to nothing. Nothing is emitted if Wernicke is switched off.
        """
        if self.wernicke is not None:
            read = ParsedCall(call.tool, call.params, call.call_id)
            tell = partial(self.wernicke.tell, read, instance=call.actor, namespace=call.namespace, at=time.time())
            self.feed.hand(tell)

    def tell(self, event: CorpusEvent) -> None:
        """Emit an event after the events of what the gate has journalled so far."""
        self.feed.hand(partial(self.corpus.emit, event))

    def flush(self, seconds: float = 5.0) -> bool:
        """Wait until everything journalled so far is emitted and handled, and the log is written."""
        done = self.feed.flush(seconds) and self.corpus.flush(seconds)
        if self.log is not None:
            self.log.flush()
        return done

    def close(self) -> None:
        """Close everything; what was journalled before is still emitted. Idempotent.

        On an event loop call it in a thread (``asyncio.to_thread``): it waits for handlers, including those of that
        loop.
        """
        with self._turn:
            if self._closed:
                return
            self._closed = True
        self._ends.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Feed:
    """Pass the gate's entries to the observers, in a thread and in order.

    A handler that does not return holds up the events of its process, and no decision.
    """

    def __init__(self, corpus: Corpus, takers: Sequence[Observer]) -> None:
        self._corpus = corpus
        self._takers = tuple(takers)
        self.lost = 0
        """Number of observations that were dropped."""
        self._closed = False
        self.begin_anew()
        _FEEDS.add(self)

    def begin_anew(self) -> None:
        """Start the thread: at the beginning, and in a forked child.

        In a child, waiting observations belong to the parent and are discarded.
        """
        self._waiting: SimpleQueue[tuple[Context, Observation | Callable[[], object]] | None] = SimpleQueue()
        """Each with the context of its call, so that subscribers know the span it belongs to; None ends the thread."""
        if self._takers and not self._closed:
            self._thread = threading.Thread(target=self._run, name="callosum-feed", daemon=True)
            self._thread.start()

    def observe(self, observation: Observation) -> None:
        """Queue an observation of the gate. This costs the gate next to nothing."""
        if observation.entries and self._takers:
            self._put(observation)

    def hand(self, tell: Callable[[], object]) -> None:
        """Run a function in turn: after everything queued before, ahead of everything queued later."""
        if self._takers:
            self._put(tell)
        else:
            tell()

    def _put(self, item: Observation | Callable[[], object]) -> None:
        if self._waiting.qsize() >= MOST_WAITING:
            self.lost += 1
            with suppress(Empty):
                self._waiting.get_nowait()
        self._waiting.put((copy_context(), item))

    def flush(self, seconds: float) -> bool:
        """Wait until everything queued is emitted; return False if that takes longer than ``seconds``."""
        if not self._takers or self._closed:
            return True
        emitted = threading.Event()
        self._put(emitted.set)
        return emitted.wait(seconds)

    def close(self) -> None:
        """Emit what is left, and stop. Idempotent."""
        self._closed = True
        self._waiting.put(None)
        if self._takers and self._thread is not threading.current_thread():
            self._thread.join(5)

    def _run(self) -> None:
        reported, waiting = 0, self._waiting
        while True:
            for _ in range(max(1, waiting.qsize())):  # waits for the first
                queued = waiting.get()
                if queued is None:
                    return
                context, item = queued
                context.run(self._hand_over, item)
            if self.lost > reported:
                reported = self.lost
                logger.warning("corpus: %d observations were dropped: its handlers cannot keep up", reported)
                self._corpus.emit(HealthWarning("corpus.feed", reported, MOST_WAITING))
            time.sleep(BATCH_SECONDS)

    def _hand_over(self, item: Observation | Callable[[], object]) -> None:
        takers: tuple[Callable[[Any], object], ...] = self._takers if isinstance(item, Observation) else (_call,)
        for take in takers:
            try:
                take(item)
            except BaseException:
                logger.exception("corpus: %s could not be emitted", getattr(item, "event", "a call"))


def _call(function: Callable[[], object]) -> None:
    function()


_FEEDS: Final[WeakSet[Feed]] = WeakSet()


def _finish() -> None:
    """Emit what was journalled when the process ends, so that the log, which is written after this, has it."""
    for feed in tuple(_FEEDS):
        feed.close()


def _forked() -> None:
    for feed in tuple(_FEEDS):
        feed.begin_anew()


atexit.register(_finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@contextmanager
def _needed(region: str) -> Iterator[None]:
    """Say which region needs a package that is not installed."""
    try:
        yield
    except ImportError as missing:
        need = f"the region {region} needs {missing.name}: pip install 'callosum-protocol[brain]', or [regions] off"
        raise ConfigError(f'{need} = ["{region}"]', at="regions.off") from missing
