"""Amygdala: tells of the gate's decisions and of leases, as ``safety.*`` and ``lease.*`` events."""

from __future__ import annotations

from callosum.corpus.bus import Corpus
from callosum.corpus.opening_calls import OpeningCalls
from callosum.model import Entry, Observation


class Amygdala:
    """Emits ``safety.*`` and ``lease.*`` for what the gate has journalled.

    Alone: ``gate.add_observer(Amygdala(corpus).observe)``.
    """

    def __init__(self, corpus: Corpus, *, calls: OpeningCalls | None = None) -> None:
        """``calls`` knows the calls that people's answers speak of; without it those told of by this object."""
        self._corpus = corpus
        self._calls = calls or OpeningCalls()

    def observe(self, seen: Observation) -> None:
        """Takes what the gate's observer is handed."""
        for entry in seen.entries:
            self.take(entry)

    def take(self, entry: Entry) -> None:
        """Tells of one entry of the journal."""
        for event in self._calls.events_of(entry):
            if event.dotted.startswith(("safety.", "lease.")):
                self._corpus.emit(event)

    def close(self) -> None:
        """Ends it. Idempotent."""
