"""Read a transcript of Codex CLI and return its events about models.

Each answer has a record of its usage. Versions that write no such record count the tokens after each answer. A turn
that failed because of the model ends with the error; retried failures are not written. A compaction is followed by the
new size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from callosum.corpus.events import ContextTrimmed, CorpusEvent, LlmError, LlmResponse
from callosum.hosts.inspection import moment
from callosum.hosts.transcripts import count


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


class _Info(Struct):
    total_token_usage: _Usage = field(default_factory=_Usage)
    last_token_usage: _Usage = field(default_factory=_Usage)
    model_context_window: int | None = None


class _Error(Struct):
    message: str = "error"


class _Payload(Struct):
    type: str = ""
    model: str = ""
    model_provider: str | None = None
    model_context_window: int | None = None
    usage: _Usage | None = None
    info: _Info | None = None
    error: _Error | None = None
    replacement_history: list[Raw] | None = None


class _Line(Struct):
    type: str = ""
    timestamp: str = ""
    payload: Raw = Raw(b"{}")


_line: Final = msgspec.json.Decoder(_Line).decode
_payload: Final = msgspec.json.Decoder(_Payload).decode
_TELLING: Final = frozenset(("session_meta", "turn_context", "event_msg", "token_usage_record", "compacted"))


class CodexTranscript:
    """Read one transcript."""

    def __init__(self) -> None:
        self.provider = ""
        self._model = ""
        self._window: int | None = None
        self._context = 0
        self._items = 0
        self._trimmed: ContextTrimmed | None = None
        """A compaction whose new size is not known yet."""
        self._records = False
        """True if this version writes a record of each answer."""
        self._total = 0

    def read(self, line: bytes) -> Iterator[CorpusEvent]:
        """As in ``TranscriptReader``."""
        entry = _line(line)
        self._items += entry.type == "response_item"
        if entry.type not in _TELLING:
            return
        payload, at = _payload(entry.payload), moment(entry.timestamp)
        self.provider = payload.model_provider or self.provider
        self._model = payload.model or self._model
        self._window = count(payload.model_context_window) or self._window
        if entry.type == "token_usage_record" and payload.usage is not None:
            self._records = True
            yield from self._answered(payload.usage, at)
        elif entry.type == "event_msg" and payload.info is not None:
            yield from self._counted(payload.info, at)
        elif entry.type == "event_msg" and payload.type == "task_complete" and payload.error is not None:
            yield LlmError(self.provider, payload.error.message, False, at=at)
        elif entry.type == "compacted":
            kept_items = len(payload.replacement_history or ())
            self._trimmed = ContextTrimmed(self._context, 0, max(0, self._items - kept_items), at=at)
            self._items = kept_items

    def _counted(self, info: _Info, at: float) -> Iterator[CorpusEvent]:
        self._window = count(info.model_context_window) or self._window
        last, total = info.last_token_usage, count(info.total_token_usage.total_tokens)
        if self._trimmed is not None and not last.input_tokens:
            yield from self._settled(count(last.total_tokens))
        elif not self._records and last.input_tokens and total != self._total:
            yield from self._answered(last, at)
        self._total = total

    def _answered(self, usage: _Usage, at: float) -> Iterator[CorpusEvent]:
        context = count(usage.input_tokens)
        yield from self._settled(context)
        self._context = context
        total = count(usage.total_tokens) or context + count(usage.output_tokens)
        yield LlmResponse(self.provider, self._model, total, context or None, self._window, at=at)

    def _settled(self, after: int) -> Iterator[CorpusEvent]:
        """Yield the pending compaction, if there is one, with its new size."""
        if self._trimmed is not None:
            trimmed, self._trimmed = self._trimmed, None
            yield msgspec.structs.replace(trimmed, after=after)
