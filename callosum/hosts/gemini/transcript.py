"""What a transcript of Gemini CLI says of models.

An answer is written once when it comes, and again with the calls it led to. Errors and compressions are not written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from callosum.corpus.events import CorpusEvent, LlmResponse
from callosum.hosts.inspection import moment
from callosum.hosts.transcripts import count
from callosum.programs.gemini import HOST

_REMEMBERED: Final = 100


class _Tokens(Struct):
    input: int | None = None
    output: int | None = None
    total: int | None = None


class _Line(Struct):
    id: str = ""
    type: str = ""
    timestamp: str = ""
    model: str = ""
    tokens: _Tokens | None = None


_line: Final = msgspec.json.Decoder(_Line).decode


class GeminiTranscript:
    """Reads one transcript."""

    provider = "google"

    def __init__(self) -> None:
        self._told: OrderedDict[str, None] = OrderedDict()

    def read(self, line: bytes) -> Iterator[CorpusEvent]:
        """As in ``transcripts.Reader``."""
        found = _line(line)
        if found.type != "gemini" or found.tokens is None or found.id in self._told:
            return
        self._told[found.id] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        context = count(found.tokens.input)
        whole = count(found.tokens.total) or context + count(found.tokens.output)
        yield LlmResponse(self.provider, found.model, whole, context or None, HOST.window, at=moment(found.timestamp))
