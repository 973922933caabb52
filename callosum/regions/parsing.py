"""Wernicke: emits the tool calls that a host has read out of a model's answer, before they reach the gate."""

from __future__ import annotations

from callosum.characters import is_shown
from callosum.corpus.bus import Corpus
from callosum.corpus.events import ParsedCall, ToolParsed
from callosum.model import MAX_NAME
from callosum.redact import quote, summarise


class Wernicke:
    """Emit parsed tool calls. It has no subscription. May be used from any thread."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def tell(self, call: ParsedCall, *, instance: str | None, namespace: str | None, at: float) -> None:
        """Emit a call, summarised and redacted, as ``tool.parsed`` at the moment ``at`` in Unix seconds."""
        self._corpus.emit(ToolParsed((_shown(call),), instance=instance, namespace=namespace, at=at))


def _shown(call: ParsedCall) -> ParsedCall:
    """Return the call in the form that others may see."""
    id = call.call_id
    is_usable = id is not None and len(id) <= MAX_NAME and is_shown(id)
    name = quote(str(summarise({"name": call.name})["name"]), MAX_NAME)[1:-1]
    return ParsedCall(name, summarise(call.args), id if is_usable else None)
