"""Thalamus: model traffic that a host reports, as ``llm.response``, ``llm.error`` and ``llm.token``.

::

    thalamus = Thalamus(corpus)
    answer = client.chat.completions.create(...)              # any of the APIs of ``callosum.answers``
    thalamus.response(answer, instance="mira/chat")

    for chunk in thalamus.stream(client.messages.create(..., stream=True), instance="mira/chat"):
        ...                                                   # chunks pass through as they are

A host that speaks to models of many providers through one API says which it is (``provider``); where it does
not, the API's own is meant: ``openai``, ``anthropic``, ``google``, ``ollama``.
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
"""Above this a count of tokens is a fault."""
MAX_DELTA: Final = 16_384
"""Longest piece of an answer that is told, in characters; a longer one is cut."""

T = TypeVar("T")


class _Usage(Struct, frozen=True):
    """Where an API says how many tokens it took: all together, else in ``parts``."""

    under: str
    total: str
    parts: tuple[str, ...]


_USAGE: Final[Mapping[AnswerShape, _Usage]] = {
    AnswerShape.CHAT: _Usage("usage", "total_tokens", ("prompt_tokens", "completion_tokens")),
    AnswerShape.RESPONSES: _Usage("usage", "total_tokens", ("input_tokens", "output_tokens")),
    AnswerShape.MESSAGES: _Usage(
        # what was read from the cache or put into it is input too, and not in input_tokens
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
    """Tells of model traffic. It listens to nothing, so that ``close`` has nothing to end.

    ``instance``, ``namespace`` and ``call_id`` are what every event can carry; names that cannot be used raise
    ``ConfigError`` with their place. Its methods may be called from any thread.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def close(self) -> None:
        """Ends nothing: there is no subscription. Idempotent."""

    def response(
        self,
        answer: object,
        *,
        provider: str | None = None,
        instance: str | None = None,
        namespace: str | None = None,
        call_id: str | None = None,
    ) -> LlmResponse | LlmError:
        """Tells that a model answered; returns the event.

        ``answer`` is the provider's, decoded or as its SDK has it. ``tokens`` are those of input and output
        together, cached and reasoning ones included; 0 where the answer has no usage. The model is "" where
        it is not named. An answer that is an error is told as ``llm.error`` (see ``error``).

        Raises ``ConfigError`` with the place (``answer.usage.prompt_tokens``) for what is no answer.
        """
        facts = _facts(instance, namespace, call_id)
        if provider is not None:
            check_name(provider, "provider")
        found = plain(answer)
        shape = shape_of(found)
        if shape is AnswerShape.ERROR:
            return self.error(provider or "unknown", found, **facts)
        if shape is AnswerShape.MCP:
            raise ConfigError("a request of MCP is no answer of a model", at="answer")
        event = LlmResponse(provider or PROVIDERS[shape], _model_of(found), _tokens_of(found, shape), **facts)
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
        """Tells that a model failed; returns the event.

        ``error`` is what was raised, a text, or the answer of the API. Secrets are taken out of it, and it is
        cut at about 200 characters on one line. ``will_retry``: the host tries again.
        """
        check_name(provider, "provider")
        event = LlmError(provider, _told(error), will_retry, **_facts(instance, namespace, call_id))
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
        """Tells of a piece of an answer while it comes; of an empty one nothing. Secrets are taken out.

        Raises ``ConfigError`` at ``delta`` for what is no text.
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
        """Yields the chunks as they come, telling of each text and, at the end, of the answer.

        Chunks are decoded events of any of the APIs; others pass untold. Where the host stops early, the
        answer is told as far as it came; where the stream fails, that is told as ``llm.error`` and raised on.
        With an ``assembly`` of the host's own, its ``answer`` has the tool calls once the stream has ended.
        """
        facts = _facts(instance, namespace, call_id)
        whole = assembly if assembly is not None else AnswerAssembly()
        with self._telling(whole, provider, facts):
            for chunk in chunks:
                self.token(whole.take(chunk), **facts)
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
        """``stream`` for an asynchronous one. Where the task is cancelled the host has stopped early, too."""
        facts = _facts(instance, namespace, call_id)
        whole = assembly if assembly is not None else AnswerAssembly()
        with self._telling(whole, provider, facts):
            async for chunk in chunks:
                self.token(whole.take(chunk), **facts)
                yield chunk

    @contextmanager
    def _telling(self, whole: AnswerAssembly, provider: str | None, facts: dict[str, Any]) -> Iterator[None]:
        """Tells how a stream ended: with its answer, as far as it came, or by an error."""
        try:
            yield
        except Exception as error:
            self.error(provider or _provider_of(whole), error, **facts)
            raise
        except BaseException:  # the host stopped: it closed the generator, cancelled its task, or was interrupted
            self._end(whole, provider, facts)
            raise
        self._end(whole, provider, facts)

    def _end(self, whole: AnswerAssembly, provider: str | None, facts: dict[str, Any]) -> None:
        """Tells of a streamed answer. What is wrong with it is logged: the host has its chunks already."""
        answer = whole.answer
        if answer is None:
            return
        try:
            self.response(answer, provider=provider, **facts)
        except ConfigError as error:
            logger.warning("a streamed answer could not be told: %s", error)


def _facts(instance: str | None, namespace: str | None, call_id: str | None) -> dict[str, Any]:
    facts = {"instance": instance, "namespace": namespace, "call_id": call_id}
    for name, value in facts.items():
        if value is not None:
            check_name(value, "callId" if name == "call_id" else name)
    return facts


def _provider_of(whole: AnswerAssembly) -> str:
    answer = whole.answer
    return PROVIDERS.get(shape_of(answer), "unknown") if answer is not None else "unknown"


def _model_of(answer: Mapping[str, Any]) -> str:
    for name in ("model", "modelVersion"):
        said = either(answer, name)
        if said is not None and not isinstance(said, str):
            raise ConfigError(f"expected text, got {type(said).__name__}", at=f"answer.{name}")
        if said:
            return _short(said)
    return ""


def _tokens_of(answer: Mapping[str, Any], shape: AnswerShape) -> int:
    usage, place = answer, "answer"
    where = _USAGE[shape]
    if where.under:
        found = either(answer, where.under)
        place = f"answer.{where.under}"
        if found is None:
            return 0
        if not isinstance(found, Mapping):
            raise ConfigError(f"expected an object, got {type(found).__name__}", at=place)
        usage = found
    total = _count(usage, where.total, place) if where.total else None
    counts = [_count(usage, name, place) or 0 for name in where.parts]
    return min(sum(counts), MAX_TOKENS) if total is None else total


def _count(usage: Mapping[str, Any], name: str, place: str) -> int | None:
    said = either(usage, name)
    if said is None:
        return None
    if isinstance(said, float) and said.is_integer():
        said = int(said)
    if type(said) is not int or not 0 <= said <= MAX_TOKENS:
        raise ConfigError(f"expected a whole number from 0, got {_short(repr(said))}", at=f"{place}.{name}")
    return said


def _told(error: BaseException | str | Mapping[str, Any]) -> str:
    """What an error says, in one line of words."""
    if isinstance(error, str):
        return _short(error)
    if isinstance(error, Mapping):
        return _short(_reason(error))
    if not isinstance(error, BaseException):
        raise ConfigError(f"expected an error, got {type(error).__name__}", at="error")
    kind = type(error).__name__
    try:
        said = str(error)
    except Exception:  # noqa: BLE001  an error of somebody else's may fail at that too
        said = ""
    return _short(f"{kind}: {said}" if said else kind)


def _reason(answer: Mapping[str, Any]) -> str:
    """What an API's own error says: its type or code, and its message."""
    inner = answer.get("error", answer)
    if isinstance(inner, str):
        return inner
    found = mapping(inner)
    kind = next((said for name in ("type", "status", "code") if isinstance(said := found.get(name), str)), "")
    message = found.get("message")
    if isinstance(message, str):
        return f"{kind}: {message}" if kind else message
    return kind or msgspec.json.encode(summarise({"error": inner})).decode()


def _short(text: str) -> str:
    """The text without secrets, cut, on one line, and without what is not seen."""
    return quote(str(summarise({"text": text})["text"]), 260)[1:-1]
