"""Read a transcript of Claude Code and return its events about models.

An answer of a model takes one line per content block, and each line has the usage of the whole answer. The reader
reports each answer once, by its id. A failed request that Claude Code repeats has a line of its own. A failed request
that it gave up is written as an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from callosum.corpus.events import ContextTrimmed, CorpusEvent, LlmError, LlmResponse
from callosum.hosts.inspection import moment
from callosum.hosts.transcripts import count

PROVIDER: Final = "anthropic"
_LONG_CONTEXT: Final = "[1m]"
"""Suffix of the name of a model requested with a context of a million tokens."""
_LONG: Final = 1_000_000


class _Usage(Struct):
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None


class _Message(Struct):
    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    usage: _Usage | None = None
    content: Raw = Raw(b"")


class _Compacted(Struct, rename="camel"):
    pre_tokens: int | None = None
    post_tokens: int | None = None
    preserved_messages: dict[str, Raw] = field(default_factory=dict)


class _Line(Struct, rename="camel"):
    type: str = ""
    subtype: str = ""
    timestamp: str = ""
    message: Raw = Raw(b"")
    requested_model: str = ""
    is_api_error_message: bool = False
    error: Raw = Raw(b"")
    retry_attempt: int | None = None
    max_retries: int | None = None
    compact_metadata: _Compacted | None = None


_line: Final = msgspec.json.Decoder(_Line).decode
_message: Final = msgspec.json.Decoder(_Message).decode
_anything: Final = msgspec.json.Decoder().decode
_TELLING: Final = (b'"assistant"', b'"api_error"', b'"compact_boundary"', b'"type":"user"')
"""Texts in the lines that matter. Other lines are not decoded."""


class ClaudeCodeTranscript:
    """Read one transcript."""

    provider = PROVIDER

    def __init__(self) -> None:
        self._told = ""
        """Id of the newest answer that was reported."""
        self._held: tuple[str, LlmResponse] | None = None
        """Id and event of an answer that is still growing."""
        self._messages = 0

    def read(self, line: bytes) -> Iterator[CorpusEvent]:
        """As in ``TranscriptReader``."""
        if not any(mark in line for mark in _TELLING):
            return
        entry = _line(line)
        at = moment(entry.timestamp)
        if entry.type in ("assistant", "user"):
            self._messages += 1
        if entry.type == "assistant":
            yield from self._answered(entry, _message(entry.message), at)
            return
        yield from self._release()
        if entry.type == "system" and entry.subtype == "api_error":
            will_retry = (entry.retry_attempt or 0) <= (entry.max_retries or 0)
            yield LlmError(PROVIDER, _reason(entry.error), will_retry, at=at)
        elif entry.type == "system" and entry.compact_metadata is not None:
            yield self._compacted(entry.compact_metadata, at)

    def _answered(self, line: _Line, message: _Message, at: float) -> Iterator[CorpusEvent]:
        if self._held is not None and self._held[0] != message.id:
            yield from self._release()
        if line.is_api_error_message:
            yield LlmError(PROVIDER, _text(message.content) or _reason(line.error), False, at=at)
        elif message.id != self._told and message.usage is not None and not message.model.startswith("<"):
            usage = message.usage
            context = sum(
                map(count, (usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens))
            )
            window = _LONG if line.requested_model.endswith(_LONG_CONTEXT) else None
            event = LlmResponse(
                PROVIDER, message.model, context + count(usage.output_tokens), context or None, window, at=at
            )
            self._held = (message.id, event)
            if message.stop_reason is not None:
                yield from self._release()

    def _release(self) -> Iterator[CorpusEvent]:
        """Yield the growing answer, if there is one, because it is complete."""
        if self._held is not None:
            (self._told, event), self._held = self._held, None
            yield event

    def _compacted(self, compaction: _Compacted, at: float) -> ContextTrimmed:
        preserved = _anything(compaction.preserved_messages.get("uuids", b"[]"))
        preserved = len(preserved) if isinstance(preserved, list) else 0
        dropped, self._messages = max(0, self._messages - preserved), preserved
        return ContextTrimmed(count(compaction.pre_tokens), count(compaction.post_tokens), dropped, at=at)


def _reason(error: Raw) -> str:
    """Return the message of an error."""
    decoded: Any = _anything(error) if bytes(error) else ""
    if isinstance(decoded, dict):
        decoded = decoded.get("formatted") or decoded.get("message")
    return decoded if isinstance(decoded, str) and decoded else "error"


def _text(content: Raw) -> str:
    decoded: Any = _anything(content) if bytes(content) else ()
    parts = decoded if isinstance(decoded, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))
