"""What a model answered, as the providers' APIs put it: which API's shape it is, and answers that come in pieces.

========= ================================================ ==================================
shape     API                                              known by
========= ================================================ ==================================
chat      OpenAI Chat Completions, and the many that       ``choices``
          speak it
responses OpenAI Responses                                 ``output``
messages  Anthropic Messages                               ``content`` of an assistant
gemini    Gemini ``generateContent``                       ``candidates``, ``usageMetadata``
ollama    Ollama ``/api/chat`` and ``/api/generate``       ``done``
mcp       a request ``tools/call`` of MCP                  ``method``
error     what any of them answers when it fails           ``error``
========= ================================================ ==================================

Gemini's names are also known in snake_case, in which its older SDKs write them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from callosum.errors import ConfigError

MAX_ARGUMENTS: Final = 1_000_000
"""How much of the arguments of one streamed answer is kept, in characters. What is cut shows as unreadable."""
_MOST: Final = 1000
"""Most choices, blocks or calls of a streamed answer that are told apart."""


class AnswerShape(StrEnum):
    """Whose form an answer has."""

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
"""Who speaks a shape, where the host does not say it better."""


def plain(answer: object, at: str = "answer") -> Mapping[str, Any]:
    """Returns an answer as a mapping: decoded JSON as it is, an SDK's object by its ``model_dump``.

    Raises ``ConfigError`` at ``at`` for anything else.
    """
    if isinstance(answer, Mapping):
        return answer
    try:
        dump = None if isinstance(answer, type) else getattr(answer, "model_dump", None)
        found = dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else None
    except Exception as error:
        raise ConfigError(f"its model_dump() failed: {type(error).__name__}", at=at) from error
    if isinstance(found, Mapping):
        return found
    raise ConfigError(f"expected an object of decoded JSON, got {type(answer).__name__}", at=at)


def shape_of(answer: Mapping[str, Any], at: str = "answer") -> AnswerShape:
    """Returns whose form an answer has. Raises ``ConfigError`` at ``at`` if it has none that is known."""
    found = _shape_of(answer)
    if found is None:
        known = "choices, output, content, candidates, message or error"
        raise ConfigError(f"no answer of a known API: none of {known} is there as it should be", at=at)
    return found


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
    """Returns the member of that name, in camelCase or in snake_case; None if there is neither."""
    found = of.get(name)
    return found if found is not None else of.get(_UPPER.sub(lambda letter: f"_{letter[0].lower()}", name))


def mapping(value: Any) -> Mapping[str, Any]:
    """Returns the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Returns the mappings in a list, without whatever else is in it; none if it is no list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []


# --- streams --------------------------------------------------------------------------------------------


class AnswerAssembly:
    """Puts the pieces of a streamed answer together: what it says of model and usage, and its tool calls.

    ::

        whole = Assembly()
        for chunk in chunks:          # decoded, as mappings or as the SDK's objects
            print(whole.take(chunk))  # the text that it adds
        whole.answer                  # in the shape of an answer that came at once

    The text itself is not kept. A chunk of no known API is passed over: no stream is stopped by this.
    """

    def __init__(self) -> None:
        self._shape: AnswerShape | None = None
        self._facts: dict[str, Any] = {}
        """Model, usage and whatever else the answer says of itself."""
        self._parts: dict[tuple[int, int], dict[str, Any]] = {}
        """Calls that come in pieces, by their choice and their place in it."""
        self._items: list[Any] = []
        """Calls that come whole."""
        self._room = MAX_ARGUMENTS

    @property
    def answer(self) -> Mapping[str, Any] | None:
        """The answer as far as it is known; None before the first chunk of a known API."""
        parts = [(choice, part) for (choice, _), part in sorted(self._parts.items(), key=lambda item: item[0])]
        match self._shape:
            case AnswerShape.CHAT:
                calls: dict[int, list[Any]] = {}
                for choice, call in parts:
                    calls.setdefault(choice, []).append(call)
                return {**self._facts, "choices": [{"message": {"tool_calls": found}} for found in calls.values()]}
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
        """Adds a chunk; returns the text that it adds to the answer, "" if none. Raises nothing."""
        try:
            found = plain(chunk, "chunk")
        except ConfigError:
            return ""
        kind = found.get("type")
        if isinstance(kind, str) and kind != "error":
            return self._response(kind, found) if kind.startswith("response.") else self._message(kind, found)
        shape = AnswerShape.ERROR if kind == "error" else _shape_of(found)
        if shape is AnswerShape.ERROR:
            self._begin(shape)
            self._facts["error"] = found.get("error") or found.get("message") or "no reason was given"
        elif shape is AnswerShape.CHAT:
            return self._chat(found)
        elif shape is AnswerShape.GEMINI:
            return self._gemini(found)
        elif shape is AnswerShape.OLLAMA:
            return self._ollama(found)
        return ""

    def _begin(self, shape: AnswerShape) -> None:
        """From here on it is an answer of this shape; what was taken as another's is dropped."""
        if self._shape is not shape:
            self._shape = shape
            self._facts, self._parts, self._items = {}, {}, []

    def _note(self, found: Mapping[str, Any], *names: str) -> None:
        """Keeps what the chunk says under these names; the last word holds."""
        self._facts.update({name: said for name in names if (said := either(found, name)) is not None})

    def _chat(self, found: Mapping[str, Any]) -> str:
        self._begin(AnswerShape.CHAT)
        self._note(found, "model", "usage", "provider")
        texts = []
        for choice in mappings(found["choices"]):
            delta = mapping(choice.get("delta"))
            texts.append(_text(delta.get("content")))
            for piece in mappings(delta.get("tool_calls")):
                self._call(_place(choice.get("index"), piece.get("index")), piece, mapping(piece.get("function")))
            if isinstance(delta.get("function_call"), Mapping):
                self._call(_place(choice.get("index"), 0), {}, delta["function_call"])
        return "".join(texts)

    def _call(self, place: tuple[int, int], piece: Mapping[str, Any], function: Mapping[str, Any]) -> None:
        if len(self._parts) >= _MOST and place not in self._parts:
            return
        call = self._parts.setdefault(place, {"id": None, "function": {"name": "", "arguments": ""}})
        call["id"] = piece.get("id") or call["id"]
        call["function"]["name"] = function.get("name") or call["function"]["name"]
        call["function"]["arguments"] += self._fit(function.get("arguments"))

    def _message(self, kind: str, found: Mapping[str, Any]) -> str:
        """An event of the Messages API."""
        place = _place(0, found.get("index"))
        if kind == "message_start":
            self._begin(AnswerShape.MESSAGES)
            self._note(mapping(found.get("message")), "model")
            self._facts["usage"] = dict(mapping(mapping(found.get("message")).get("usage")))
        elif self._shape is not AnswerShape.MESSAGES:
            return ""
        elif kind == "message_delta":
            # these counts are of the whole answer, but need not be all of them
            told = mapping(found.get("usage"))
            self._facts["usage"].update({name: count for name, count in told.items() if count is not None})
        elif kind == "content_block_start":
            block = mapping(found.get("content_block"))
            if block.get("type") == "tool_use":
                self._parts[place] = dict(block)
        elif kind == "content_block_delta":
            delta = mapping(found.get("delta"))
            block = self._parts.get(place, {})
            if block and delta.get("type") == "input_json_delta":
                block["input"] = _text(block.get("input")) + self._fit(delta.get("partial_json"))
            return _text(delta.get("text"))
        return ""

    def _response(self, kind: str, found: Mapping[str, Any]) -> str:
        """An event of the Responses API; the last ones hold the whole answer."""
        self._begin(AnswerShape.RESPONSES)
        if kind == "response.output_text.delta":
            return _text(found.get("delta"))
        if kind == "response.output_item.done" and len(self._items) < _MOST:
            self._items.append(found.get("item"))
        elif isinstance(found.get("response"), Mapping):
            self._note(found["response"], "model", "usage", "output", "error")
        return ""

    def _gemini(self, found: Mapping[str, Any]) -> str:
        self._begin(AnswerShape.GEMINI)
        self._note(found, "usageMetadata", "modelVersion")
        texts = []
        for candidate in mappings(either(found, "candidates")):
            for part in mappings(mapping(candidate.get("content")).get("parts")):
                if isinstance(either(part, "functionCall"), Mapping):
                    self._items += [part][: _MOST - len(self._items)]
                elif not part.get("thought"):
                    texts.append(_text(part.get("text")))
        return "".join(texts)

    def _ollama(self, found: Mapping[str, Any]) -> str:
        self._begin(AnswerShape.OLLAMA)
        self._note(found, "model", "prompt_eval_count", "eval_count")
        message = mapping(found.get("message"))
        self._items += mappings(message.get("tool_calls"))[: _MOST - len(self._items)]
        return _text(message.get("content")) or _text(found.get("response"))

    def _fit(self, text: Any) -> str:
        """As much of the text as there is room for."""
        kept = _text(text)[: self._room]
        self._room -= len(kept)
        return kept


def _place(choice: Any, call: Any) -> tuple[int, int]:
    """Where a piece belongs; what gives no usable number belongs to the first."""
    return _number(choice), _number(call)


def _number(value: Any) -> int:
    return value if type(value) is int and 0 <= value < _MOST else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
