"""Wernicke: emits the tool calls that a host has read out of a model's answer, before they reach the gate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from callosum.characters import is_shown
from callosum.corpus.bus import Corpus
from callosum.corpus.events import ParsedCall, ToolParsed
from callosum.model import MAX_NAME
from callosum.redact import quote, summarise

MOST: Final = 100
"""Most calls in one event; further calls get further events."""


class Wernicke:
    """Emit parsed tool calls. It has no subscription, so ``close`` does nothing. May be used from any thread."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def close(self) -> None:
        """Do nothing: there is no subscription. Idempotent."""

    def tell(
        self,
        calls: Sequence[ParsedCall],
        *,
        instance: str | None = None,
        namespace: str | None = None,
        at: float | None = None,
    ) -> None:
        """Emit calls, summarised and redacted, as ``tool.parsed`` at the moment ``at`` (None: now)."""
        for start in range(0, len(calls), MOST):
            shown = tuple([_shown(call) for call in calls[start : start + MOST]])
            moment = time.time() if at is None else at
            self._corpus.emit(ToolParsed(shown, instance=instance, namespace=namespace, at=moment))


def _shown(call: ParsedCall) -> ParsedCall:
    """Return the call in the form that others may see."""
    id = call.call_id
    is_usable = id is not None and len(id) <= MAX_NAME and is_shown(id)
    name = quote(str(summarise({"name": call.name})["name"]), MAX_NAME)[1:-1]
    return ParsedCall(name, summarise(call.args), id if is_usable else None)
