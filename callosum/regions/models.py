"""Thalamus: emits model traffic that a host reports, as ``llm.response``, ``llm.error`` and ``llm.token``.

::

    thalamus = Thalamus(corpus)
    answer = client.chat.completions.create(...)              # any of the APIs of ``callosum.answers``
    thalamus.response(answer, instance="mira/chat")

    for chunk in thalamus.stream(client.messages.create(..., stream=True), instance="mira/chat"):
        ...                                                   # chunks pass through unchanged

A host that reaches models of many providers through one API names the provider (``provider``). Without it, the API's
own is assumed: ``openai``, ``anthropic``, ``google``, ``ollama``.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from callosum.answers import PROVIDERS, AnswerAssembly, AnswerShape, either, mapping, plain, shape_of
from callosum.corpus.bus import Corpus
from callosum.corpus.events import LlmError, LlmResponse, LlmToken
from callosum.errors import ConfigError
from callosum.gate.check import check_name
from callosum.redact import quote, redact_text, summarise

logger = logging.getLogger("callosum")

MAX_TOKENS: Final = 2**53
"""Largest believable count of tokens; a larger one is an error."""
MAX_DELTA: Final = 16_384
"""Longest piece of an answer in an event, in characters; a longer piece is cut."""

T = TypeVar("T")


class _Usage(Struct, frozen=True):
    """Where an API states its token counts: a total, else ``parts``."""

    under: str
    total: str
    parts: tuple[str, ...]


_USAGE: Final[Mapping[AnswerShape, _Usage]] = {
    AnswerShape.CHAT: _Usage("usage", "total_tokens", ("prompt_tokens", "completion_tokens")),
    AnswerShape.RESPONSES: _Usage("usage", "total_tokens", ("input_tokens", "output_tokens")),
    AnswerShape.MESSAGES: _Usage(
        # tokens read from or written to the cache are input too, and not part of input_tokens
        "usage",
        "",
        ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"),
    ),
    AnswerShape.GEMINI: _Usage(
        "usageMetadata",
        "totalTokenCount",
        ("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount"),
    ),
    AnswerShape.OLLAMA: _Usage("", "", ("prompt_eval_count", "eval_count")),
}


class Thalamus:
    """Emit model traffic. It has no subscription, so ``close`` does nothing.

    ``instance``, ``namespace`` and ``call_id`` are the common fields of events; invalid names raise ``ConfigError``
    with their place. Its methods may be called from any thread.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def close(self) -> None:
        """Do nothing: there is no subscription. Idempotent."""

    def response(
        self,
        answer: object,
        *,
        provider: str | None = None,
        instance: str | None = None,
        namespace: str | None = None,
        call_id: str | None = None,
    ) -> LlmResponse | LlmError:
        """Emit that a model answered; return the event.

        ``answer`` is the provider's, as decoded JSON or an SDK object. ``tokens`` counts input and output together,
        including cached and reasoning tokens; 0 if the answer has no usage. The model is "" if it is not named. If the
        answer is an error, ``llm.error`` is emitted (see ``error``).

        Raises ``ConfigError`` with the place (``answer.usage.prompt_tokens``) if ``answer`` is not an answer.
        """
        facts = _facts(instance, namespace, call_id)
        if provider is not None:
            check_name(provider, "provider")
        decoded = plain(answer)
        shape = shape_of(decoded)
        if shape is AnswerShape.ERROR:
            return self.error(provider or "unknown", decoded, **facts)
        if shape is AnswerShape.MCP:
            raise ConfigError("a request of MCP is no answer of a model", at="answer")
        event = LlmResponse(provider or PROVIDERS[shape], _model_of(decoded), _tokens_of(decoded, shape), **facts)
        self._corpus.emit(event)
        return event

    def error(
        self,
        provider: str,
        error: BaseException | str | Mapping[str, Any],
        *,
        will_retry: bool = False,
        instance: str | None = None,
        namespace: str | None = None,
        call_id: str | None = None,
    ) -> LlmError:
        """Emit that a model failed; return the event.

        ``error`` is the exception, a text, or the API's error answer. Secrets are removed from it, and it is cut to
        about 200 characters on one line. ``will_retry``: the host tries again.
        """
        check_name(provider, "provider")
        event = LlmError(provider, _error_text(error), will_retry, **_facts(instance, namespace, call_id))
        self._corpus.emit(event)
        return event

    def token(
        self,
        delta: str,
        *,
        instance: str | None = None,
        namespace: str | None = None,
        call_id: str | None = None,
    ) -> None:
        """Emit a piece of a streamed answer, without secrets; an empty piece is ignored.

        Raises ``ConfigError`` at ``delta`` if it is not text.
        """
        if not isinstance(delta, str):
            raise ConfigError(f"expected text, got {type(delta).__name__}", at="delta")
        facts = _facts(instance, namespace, call_id)
        if delta:
            self._corpus.emit(LlmToken(redact_text(delta[:MAX_DELTA]), **facts))

    # --- streams -------------------------------------------------------------------------------------

    def stream(
        self,
        chunks: Iterable[T],
        *,
        provider: str | None = None,
        instance: str | None = None,
        namespace: str | None = None,
        call_id: str | None = None,
        assembly: AnswerAssembly | None = None,
    ) -> Iterator[T]:
        """Yield the chunks as they arrive; emit each text and, at the end, the answer.

        Chunks are decoded events of any of the APIs; others pass through unreported. If the host stops early, the part
        of the answer that arrived is reported. If the stream fails, ``llm.error`` is emitted and the error is raised
        again. With the host's own ``assembly``, its ``answer`` has the tool calls once the stream has ended.
        """
        facts = _facts(instance, namespace, call_id)
        joined = assembly if assembly is not None else AnswerAssembly()
        with self._telling(joined, provider, facts):
            for chunk in chunks:
                self.token(joined.take(chunk), **facts)
                yield chunk

    async def astream(
        self,
        chunks: AsyncIterable[T],
        *,
        provider: str | None = None,
        instance: str | None = None,
        namespace: str | None = None,
        call_id: str | None = None,
        assembly: AnswerAssembly | None = None,
    ) -> AsyncIterator[T]:
        """Stream as ``stream`` does, for asynchronous chunks. A cancelled task counts as an early stop too."""
        facts = _facts(instance, namespace, call_id)
        joined = assembly if assembly is not None else AnswerAssembly()
        with self._telling(joined, provider, facts):
            async for chunk in chunks:
                self.token(joined.take(chunk), **facts)
                yield chunk

    @contextmanager
    def _telling(self, assembly: AnswerAssembly, provider: str | None, facts: dict[str, Any]) -> Iterator[None]:
        """Report how a stream ended: with its answer as far as it arrived, or with an error."""
        try:
            yield
        except Exception as error:
            self.error(provider or _provider_of(assembly), error, **facts)
            raise
        except BaseException:  # the host stopped early: it closed the generator, cancelled its task, or was interrupted
            self._end(assembly, provider, facts)
            raise
        self._end(assembly, provider, facts)

    def _end(self, assembly: AnswerAssembly, provider: str | None, facts: dict[str, Any]) -> None:
        """Report a streamed answer. Errors in it are only logged, because the host already has its chunks."""
        answer = assembly.answer
        if answer is None:
            return
        try:
            self.response(answer, provider=provider, **facts)
        except ConfigError as error:
            logger.warning("a streamed answer could not be reported: %s", error)


def _facts(instance: str | None, namespace: str | None, call_id: str | None) -> dict[str, Any]:
    facts = {"instance": instance, "namespace": namespace, "call_id": call_id}
    for name, value in facts.items():
        if value is not None:
            check_name(value, "callId" if name == "call_id" else name)
    return facts


def _provider_of(assembly: AnswerAssembly) -> str:
    answer = assembly.answer
    return PROVIDERS.get(shape_of(answer), "unknown") if answer is not None else "unknown"


def _model_of(answer: Mapping[str, Any]) -> str:
    for name in ("model", "modelVersion"):
        model = either(answer, name)
        if model is not None and not isinstance(model, str):
            raise ConfigError(f"expected text, got {type(model).__name__}", at=f"answer.{name}")
        if model:
            return _short(model)
    return ""


def _tokens_of(answer: Mapping[str, Any], shape: AnswerShape) -> int:
    usage, at = answer, "answer"
    fields = _USAGE[shape]
    if fields.under:
        nested = either(answer, fields.under)
        at = f"answer.{fields.under}"
        if nested is None:
            return 0
        if not isinstance(nested, Mapping):
            raise ConfigError(f"expected an object, got {type(nested).__name__}", at=at)
        usage = nested
    total = _count(usage, fields.total, at) if fields.total else None
    counts = [_count(usage, name, at) or 0 for name in fields.parts]
    return min(sum(counts), MAX_TOKENS) if total is None else total


def _count(usage: Mapping[str, Any], name: str, at: str) -> int | None:
    count = either(usage, name)
    if count is None:
        return None
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    if type(count) is not int or not 0 <= count <= MAX_TOKENS:
        raise ConfigError(f"expected a whole number from 0, got {_short(repr(count))}", at=f"{at}.{name}")
    return count


def _error_text(error: BaseException | str | Mapping[str, Any]) -> str:
    """Return an error as one line of text."""
    if isinstance(error, str):
        return _short(error)
    if isinstance(error, Mapping):
        return _short(_reason(error))
    if not isinstance(error, BaseException):
        raise ConfigError(f"expected an error, got {type(error).__name__}", at="error")
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - str() of a foreign error may fail too
        text = ""
    return _short(f"{kind}: {text}" if text else kind)


def _reason(answer: Mapping[str, Any]) -> str:
    """Return an API error as text: its type or code, and its message."""
    inner = answer.get("error", answer)
    if isinstance(inner, str):
        return inner
    fields = mapping(inner)
    kind = next((value for name in ("type", "status", "code") if isinstance(value := fields.get(name), str)), "")
    message = fields.get("message")
    if isinstance(message, str):
        return f"{kind}: {message}" if kind else message
    return kind or msgspec.json.encode(summarise({"error": inner})).decode()


def _short(text: str) -> str:
    """Return the text without secrets and invisible characters, cut, on one line."""
    return quote(str(summarise({"text": text})["text"]), 260)[1:-1]
