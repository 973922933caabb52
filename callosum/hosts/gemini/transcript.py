"""Read a transcript of Gemini CLI and return its events about models.

An answer is written when it arrives, and again with the calls that it led to. Errors and compressions are not written.
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
    """Read one transcript."""

    provider = "google"

    def __init__(self) -> None:
        self._told: OrderedDict[str, None] = OrderedDict()

    def read(self, line: bytes) -> Iterator[CorpusEvent]:
        """As in ``TranscriptReader``."""
        entry = _line(line)
        if entry.type != "gemini" or entry.tokens is None or entry.id in self._told:
            return
        self._told[entry.id] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        context = count(entry.tokens.input)
        total = count(entry.tokens.total) or context + count(entry.tokens.output)
        yield LlmResponse(self.provider, entry.model, total, context or None, HOST.window, at=moment(entry.timestamp))
