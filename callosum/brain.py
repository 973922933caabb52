"""The brain: one corpus with the daily log and the regions that the settings switch on, fed by a gate.

::

    with LocalGate(state) as gate, Brain(gate) as brain:
        brain.corpus.on("safety.blocked", lambda event: print(event.reason))
        ...
        print(brain.brief("mira", "chat").text)

    gate ── what it journalled ──> Follower ── tool.*, safety.*, lease.* ──┐
                                  (a thread)   BasalGanglia ── outcome.* ──┴─> corpus ──> daily log, regions,
                                                                                          exporters, the event stream

A decision never waits for the corpus: the gate's follower derives the events in a thread and emits them in order.
A process's corpus carries the decisions of this process and what hosts report to it. The journal holds
what all processes did; regions that describe all sessions read it there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from callosum.corpus.bus import Corpus
from callosum.corpus.daily_log import DailyLog
from callosum.corpus.events import CorpusEvent, ParsedCall
from callosum.corpus.follower import Batch
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.model import DEFAULT_NAMESPACE, Call
from callosum.wire import Brief

if TYPE_CHECKING:
    from callosum.regions.budget import RAS
    from callosum.regions.context import Prefrontal
    from callosum.regions.execution import Motor
    from callosum.regions.learning import BasalGanglia
    from callosum.regions.parsing import Wernicke
    from callosum.regions.scheduler import Brainstem

FOLDER: Final = "brain"
"""Folder of the log, the pages and the index, below the state folder."""
EVERY: Final = 0.05
"""Seconds between two batches of journal entries. A thread that wakes for each call would slow the call down."""


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
            folder, worker = self.folder / "corpus", gate.follower.worker
            self.log: DailyLog | None = None
            if settings.corpus_log:
                self.log = self._keep(DailyLog(self.corpus, folder, size=settings.corpus_size, worker=worker))
            self._make_regions()
            self._export()
            self._ends.callback(gate.follower.join("regions", self._take, every=EVERY))
        except BaseException:
            self._ends.close()
            raise

    def _take(self, batch: Batch) -> None:
        """Emit the events of each journal entry in order, and then let learning take the entry."""
        for entry, events in batch:
            for event in events:
                if event.region in self._emitting:
                    self.corpus.emit_journalled(event)
            if self.learning is not None:
                self.learning.take(entry)

    def _make_regions(self) -> None:
        """Create the regions that are switched on."""
        gate, corpus, state = self.gate, self.corpus, Path(self.settings.state)
        self._emitting = {"Amygdala"} if self._on("safety") else set()
        """The regions whose events are derived from journal entries, as far as they are switched on."""
        self.learning: BasalGanglia | None = None
        self.motor: Motor | None = None
        self.wernicke: Wernicke | None = None
        self.prefrontal: Prefrontal | None = None
        self.ras: RAS | None = None
        self.brainstem: Brainstem | None = None
        if self._on("execution"):
            with _needed("execution"):
                from callosum.regions.execution import Motor

            self.motor = self._keep(Motor(corpus, gate))
            self._emitting.add("Motor")
        if self._on("learning"):
            from callosum.regions.learning import LEARNED, BasalGanglia

            self.learning = self._keep(BasalGanglia(corpus, kept=self.folder / LEARNED))
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
            self.gate.follower.hand(tell)

    def tell(self, event: CorpusEvent) -> None:
        """Emit an event after the events of what the gate has journalled so far."""
        self.gate.follower.hand(partial(self.corpus.emit, event))

    def flush(self, seconds: float = 5.0) -> bool:
        """Wait until everything journalled so far is emitted and handled, and the log is written."""
        done = self.gate.follower.flush(seconds) and self.corpus.flush(seconds)
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


@contextmanager
def _needed(region: str) -> Iterator[None]:
    """Say which region needs a package that is not installed."""
    try:
        yield
    except ImportError as missing:
        need = f"the region {region} needs {missing.name}: pip install 'callosum-protocol[brain]', or [regions] off"
        raise ConfigError(f'{need} = ["{region}"]', at="regions.off") from missing
