"""Amygdala: emits the gate's decisions and leases as ``safety.*`` and ``lease.*`` events."""

from __future__ import annotations

from callosum.corpus.bus import Corpus
from callosum.corpus.opening_calls import OpeningCalls
from callosum.model import Entry, Observation


class Amygdala:
    """Emit ``safety.*`` and ``lease.*`` for what the gate has journalled.

    To use it alone: ``gate.add_observer(Amygdala(corpus).observe)``.
    """

    def __init__(self, corpus: Corpus, *, calls: OpeningCalls | None = None) -> None:
        """Create the region.

        ``calls`` knows the calls that people's answers refer to. Without it, only calls that this object has seen are
        known.
        """
        self._corpus = corpus
        self._calls = calls or OpeningCalls()

    def observe(self, observation: Observation) -> None:
        """Emit the events of an observation."""
        for entry in observation.entries:
            self.take(entry)

    def take(self, entry: Entry) -> None:
        """Emit the events of one journal entry."""
        for event in self._calls.events_of(entry):
            if event.dotted.startswith(("safety.", "lease.")):
                self._corpus.emit_journalled(event)

    def close(self) -> None:
        """Do nothing: it has no subscription. Idempotent."""
