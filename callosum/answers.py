"""A model's answer in the form of the providers' APIs: recognise the API, and join streamed pieces.

========= ================================================ ==================================
shape     API                                              recognised by
========= ================================================ ==================================
chat      OpenAI Chat Completions and compatible APIs      ``choices``
responses OpenAI Responses                                 ``output``
messages  Anthropic Messages                               ``content`` of an assistant
gemini    Gemini ``generateContent``                       ``candidates``, ``usageMetadata``
ollama    Ollama ``/api/chat`` and ``/api/generate``       ``done``
mcp       a request ``tools/call`` of MCP                  ``method``
error     the error answer of any of them                  ``error``
========= ================================================ ==================================

Gemini's names are also recognised in snake_case, as its older SDKs write them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from callosum.errors import ConfigError

MAX_ARGUMENTS: Final = 1_000_000
"""Characters that are kept of all arguments of one streamed answer. Arguments that were cut count as unreadable."""
_MOST: Final = 1000
"""Most choices, blocks or calls of a streamed answer that are kept apart."""


class AnswerShape(StrEnum):
    """The API whose form an answer has."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GEMINI = "gemini"
    OLLAMA = "ollama"
    MCP = "mcp"
    ERROR = "error"


PROVIDERS: Final[Mapping[AnswerShape, str]] = {
    AnswerShape.CHAT: "openai",
    AnswerShape.RESPONSES: "openai",
    AnswerShape.MESSAGES: "anthropic",
    AnswerShape.GEMINI: "google",
    AnswerShape.OLLAMA: "ollama",
}
"""The provider of each shape, if the host does not name one."""


def plain(answer: object, at: str = "answer") -> Mapping[str, Any]:
    """Return an answer as a mapping: decoded JSON as it is, an SDK object through its ``model_dump``.

    Raises ``ConfigError`` at ``at`` for anything else.
    """
    if isinstance(answer, Mapping):
        return answer
    try:
        dump = None if isinstance(answer, type) else getattr(answer, "model_dump", None)
        dumped = dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else None
    except Exception as error:
        raise ConfigError(f"its model_dump() failed: {type(error).__name__}", at=at) from error
    if isinstance(dumped, Mapping):
        return dumped
    raise ConfigError(f"expected an object of decoded JSON, got {type(answer).__name__}", at=at)


def shape_of(answer: Mapping[str, Any], at: str = "answer") -> AnswerShape:
    """Return the API whose form an answer has. Raises ``ConfigError`` at ``at`` if it is unknown."""
    shape = _shape_of(answer)
    if shape is None:
        fields = "choices, output, content, candidates, message or error"
        raise ConfigError(f"no answer of a known API: none of {fields} is there as it should be", at=at)
    return shape


def _shape_of(answer: Mapping[str, Any]) -> AnswerShape | None:
    if answer.get("error"):
        return AnswerShape.ERROR
    if isinstance(answer.get("choices"), list):
        return AnswerShape.CHAT
    if isinstance(answer.get("output"), list):
        return AnswerShape.RESPONSES
    if isinstance(answer.get("content"), list) and (
        answer.get("type") == "message" or answer.get("role") == "assistant"
    ):
        return AnswerShape.MESSAGES
    if isinstance(answer.get("candidates"), list) or any(
        isinstance(either(answer, name), Mapping) for name in ("promptFeedback", "usageMetadata")
    ):
        return AnswerShape.GEMINI
    if "done" in answer and (isinstance(answer.get("message"), Mapping) or isinstance(answer.get("response"), str)):
        return AnswerShape.OLLAMA
    return AnswerShape.MCP if answer.get("method") == "tools/call" else None


_UPPER: Final = re.compile(r"[A-Z]")


def either(of: Mapping[str, Any], name: str) -> Any:
    """Return the member of that name, in camelCase or snake_case; None if there is neither."""
    value = of.get(name)
    return value if value is not None else of.get(_UPPER.sub(lambda letter: f"_{letter[0].lower()}", name))


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list and skip everything else; nothing if the value is not a list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


# --- streams --------------------------------------------------------------------------------------------


class AnswerAssembly:
    """Join the pieces of a streamed answer: its model, its usage and its tool calls.

    ::

        whole = AnswerAssembly()
        for chunk in chunks:          # decoded, as mappings or as the SDK's objects
            print(whole.take(chunk))  # the text that it adds
        whole.answer                  # in the form of an answer that was not streamed

    The text itself is not kept. A chunk of an unknown API is skipped: joining never stops a stream.
    """

    def __init__(self) -> None:
        self._shape: AnswerShape | None = None
        self._facts: dict[str, Any] = {}
        """Model, usage and other properties of the answer."""
        self._parts: dict[tuple[int, int], dict[str, Any]] = {}
        """Calls that arrive in pieces, by choice and index."""
        self._items: list[Any] = []
        """Calls that arrive whole."""
        self._room = MAX_ARGUMENTS

    @property
    def answer(self) -> Mapping[str, Any] | None:
        """The answer as far as it arrived; None before the first chunk of a known API."""
        parts = [(choice, part) for (choice, _), part in sorted(self._parts.items(), key=lambda item: item[0])]
        match self._shape:
            case AnswerShape.CHAT:
                calls: dict[int, list[Any]] = {}
                for choice, call in parts:
                    calls.setdefault(choice, []).append(call)
                return {
                    **self._facts,
                    "choices": [{"message": {"tool_calls": choice_calls}} for choice_calls in calls.values()],
                }
            case AnswerShape.MESSAGES:
                return {**self._facts, "type": "message", "content": [block for _, block in parts]}
            case AnswerShape.RESPONSES:
                return {**self._facts, "output": self._facts.get("output") or self._items}
            case AnswerShape.GEMINI:
                return {**self._facts, "candidates": [{"content": {"parts": self._items}}]}
            case AnswerShape.OLLAMA:
                return {**self._facts, "done": True, "message": {"tool_calls": self._items}}
        return self._facts or None

    def take(self, chunk: object) -> str:
        """Add a chunk; return the text that it adds to the answer, "" if none. Never raises."""
        try:
            decoded = plain(chunk, "chunk")
        except ConfigError:
            return ""
        kind = decoded.get("type")
        if isinstance(kind, str) and kind != "error":
            return self._response(kind, decoded) if kind.startswith("response.") else self._message(kind, decoded)
        shape = AnswerShape.ERROR if kind == "error" else _shape_of(decoded)
        if shape is AnswerShape.ERROR:
            self._begin(shape)
            self._facts["error"] = decoded.get("error") or decoded.get("message") or "no reason was given"
        elif shape is AnswerShape.CHAT:
            return self._chat(decoded)
        elif shape is AnswerShape.GEMINI:
            return self._gemini(decoded)
        elif shape is AnswerShape.OLLAMA:
            return self._ollama(decoded)
        return ""

    def _begin(self, shape: AnswerShape) -> None:
        """Start an answer of this shape; drop anything taken as another shape."""
        if self._shape is not shape:
            self._shape = shape
            self._facts, self._parts, self._items = {}, {}, []

    def _note(self, chunk: Mapping[str, Any], *names: str) -> None:
        """Keep the chunk's values under these names; the latest value wins."""
        self._facts.update({name: value for name in names if (value := either(chunk, name)) is not None})

    def _chat(self, chunk: Mapping[str, Any]) -> str:
        self._begin(AnswerShape.CHAT)
        self._note(chunk, "model", "usage", "provider")
        texts = []
        for choice in mappings(chunk["choices"]):
            delta = mapping(choice.get("delta"))
            texts.append(_text(delta.get("content")))
            for piece in mappings(delta.get("tool_calls")):
                self._call(_place(choice.get("index"), piece.get("index")), piece, mapping(piece.get("function")))
            if isinstance(delta.get("function_call"), Mapping):
                self._call(_place(choice.get("index"), 0), {}, delta["function_call"])
        return "".join(texts)

    def _call(self, index: tuple[int, int], piece: Mapping[str, Any], function: Mapping[str, Any]) -> None:
        if len(self._parts) >= _MOST and index not in self._parts:
            return
        call = self._parts.setdefault(index, {"id": None, "function": {"name": "", "arguments": ""}})
        call["id"] = piece.get("id") or call["id"]
        call["function"]["name"] = function.get("name") or call["function"]["name"]
        call["function"]["arguments"] += self._fit(function.get("arguments"))

    def _message(self, kind: str, chunk: Mapping[str, Any]) -> str:
        """Take an event of the Messages API."""
        index = _place(0, chunk.get("index"))
        if kind == "message_start":
            self._begin(AnswerShape.MESSAGES)
            self._note(mapping(chunk.get("message")), "model")
            self._facts["usage"] = dict(mapping(mapping(chunk.get("message")).get("usage")))
        elif self._shape is not AnswerShape.MESSAGES:
            return ""
        elif kind == "message_delta":
            # these counts cover the whole answer, but may be incomplete
            usage = mapping(chunk.get("usage"))
            self._facts["usage"].update({name: count for name, count in usage.items() if count is not None})
        elif kind == "content_block_start":
            block = mapping(chunk.get("content_block"))
            if block.get("type") == "tool_use":
                self._parts[index] = dict(block)
        elif kind == "content_block_delta":
            delta = mapping(chunk.get("delta"))
            block = self._parts.get(index, {})
            if block and delta.get("type") == "input_json_delta":
                block["input"] = _text(block.get("input")) + self._fit(delta.get("partial_json"))
            return _text(delta.get("text"))
        return ""

    def _response(self, kind: str, chunk: Mapping[str, Any]) -> str:
        """Take an event of the Responses API; its last events hold the whole answer."""
        self._begin(AnswerShape.RESPONSES)
        if kind == "response.output_text.delta":
            return _text(chunk.get("delta"))
        if kind == "response.output_item.done" and len(self._items) < _MOST:
            self._items.append(chunk.get("item"))
        elif isinstance(chunk.get("response"), Mapping):
            self._note(chunk["response"], "model", "usage", "output", "error")
        return ""

    def _gemini(self, chunk: Mapping[str, Any]) -> str:
        self._begin(AnswerShape.GEMINI)
        self._note(chunk, "usageMetadata", "modelVersion")
        texts = []
        for candidate in mappings(either(chunk, "candidates")):
            for part in mappings(mapping(candidate.get("content")).get("parts")):
                if isinstance(either(part, "functionCall"), Mapping):
                    self._items += [part][: _MOST - len(self._items)]
                elif not part.get("thought"):
                    texts.append(_text(part.get("text")))
        return "".join(texts)

    def _ollama(self, chunk: Mapping[str, Any]) -> str:
        self._begin(AnswerShape.OLLAMA)
        self._note(chunk, "model", "prompt_eval_count", "eval_count")
        message = mapping(chunk.get("message"))
        self._items += mappings(message.get("tool_calls"))[: _MOST - len(self._items)]
        return _text(message.get("content")) or _text(chunk.get("response"))

    def _fit(self, text: Any) -> str:
        """Return as much of the text as there is room for."""
        fitting = _text(text)[: self._room]
        self._room -= len(fitting)
        return fitting


def _place(choice: Any, call: Any) -> tuple[int, int]:
    """Return the choice and index that a piece belongs to; unusable numbers count as 0."""
    return _number(choice), _number(call)


def _number(value: Any) -> int:
    return value if type(value) is int and 0 <= value < _MOST else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
