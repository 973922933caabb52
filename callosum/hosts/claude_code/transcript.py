"""Read what a transcript of Claude Code says of models.

An answer of a model takes one line per block of its content, and each line has the usage of the whole answer. The
reader reports an answer once, by its id. A failed request that Claude Code repeats has a line of its own; a failed
request that it gave up is written as an answer.
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
"""The end of the name of a model that is asked for with a context of a million tokens."""
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
"""What a line has in it that says anything; others are not decoded."""


class ClaudeCodeTranscript:
    """Reads one transcript."""

    provider = PROVIDER

    def __init__(self) -> None:
        self._told = ""
        """The id of the newest answer that was told."""
        self._held: tuple[str, LlmResponse] | None = None
        """An answer that still grows, by its id."""
        self._messages = 0

    def read(self, line: bytes) -> Iterator[CorpusEvent]:
        """As in ``transcripts.Reader``."""
        if not any(mark in line for mark in _TELLING):
            return
        found = _line(line)
        at = moment(found.timestamp)
        if found.type in ("assistant", "user"):
            self._messages += 1
        if found.type == "assistant":
            yield from self._answered(found, _message(found.message), at)
            return
        yield from self._release()
        if found.type == "system" and found.subtype == "api_error":
            again = (found.retry_attempt or 0) <= (found.max_retries or 0)
            yield LlmError(PROVIDER, _reason(found.error), again, at=at)
        elif found.type == "system" and found.compact_metadata is not None:
            yield self._compacted(found.compact_metadata, at)

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
        """Yield the answer that grew, if there is one: it is whole."""
        if self._held is not None:
            (self._told, event), self._held = self._held, None
            yield event

    def _compacted(self, said: _Compacted, at: float) -> ContextTrimmed:
        kept = _anything(said.preserved_messages.get("uuids", b"[]"))
        kept = len(kept) if isinstance(kept, list) else 0
        dropped, self._messages = max(0, self._messages - kept), kept
        return ContextTrimmed(count(said.pre_tokens), count(said.post_tokens), dropped, at=at)


def _reason(error: Raw) -> str:
    """What an error says of itself."""
    found: Any = _anything(error) if bytes(error) else ""
    if isinstance(found, dict):
        found = found.get("formatted") or found.get("message")
    return found if isinstance(found, str) and found else "error"


def _text(content: Raw) -> str:
    found: Any = _anything(content) if bytes(content) else ()
    parts = found if isinstance(found, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))
