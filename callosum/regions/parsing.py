"""Wernicke: a model's answer read as tool calls, before they reach the gate.

::

    wernicke = Wernicke(corpus)
    for call in wernicke.read(answer, instance="mira/chat"):  # any of the APIs of ``callosum.answers``
        decision = gate.intercept(Call("mira", call.name, call.args, session="chat", call_id=call.call_id))

Calls that the provider runs itself (its web search, its MCP servers) never come to a host, and are left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from callosum.answers import AnswerShape, either, mapping, mappings, plain, shape_of
from callosum.characters import is_shown
from callosum.corpus.bus import Corpus
from callosum.corpus.events import ParsedCall, ToolParsed
from callosum.errors import ConfigError
from callosum.gate.check import check_name
from callosum.model import MAX_NAME
from callosum.redact import quote, summarise
from callosum.wire import read

MOST: Final = 100
"""Most calls of one event; of more there are several."""
UNPARSED: Final = "_unparsed"
"""The only argument of a call whose arguments could not be read: the beginning of what the model wrote."""
_MAX_TEXT: Final = 4_000_000
"""Longest arguments that are read, in characters: as long as the gate takes params."""
_ANYTHING: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()

_HOSTED: Final[Mapping[str, tuple[str, str]]] = {
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
}
"""Items of the Responses API that ask the host to run a built-in tool: its name, and where its arguments stand."""


class Wernicke:
    """Reads tool calls. It listens to nothing, so that ``close`` has nothing to end; usable from any thread."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def close(self) -> None:
        """Ends nothing: there is no subscription. Idempotent."""

    def read(
        self, answer: object, *, instance: str | None = None, namespace: str | None = None
    ) -> tuple[ParsedCall, ...]:
        """Returns the tool calls of an answer, in its order, and tells of them as ``tool.parsed``.

        ``answer`` is the provider's, decoded or as its SDK has it, or a request ``tools/call`` of MCP. The
        calls have name, arguments and id as the model wrote them; in the event arguments are summarised and
        redacted. Arguments that are no JSON object (cut off, say, or with a name twice) come as
        ``{"_unparsed": "..."}``, shortened and redacted; none at all as ``{}``. No call, no event.

        Raises ``ConfigError`` for what is no answer, never for what a model wrote.
        """
        for name, value in (("instance", instance), ("namespace", namespace)):
            if value is not None:
                check_name(value, name)
        found = plain(answer)
        calls = tuple(_calls_of(found, shape_of(found)))
        self.tell(calls, instance=instance, namespace=namespace)
        return calls

    def tell(
        self,
        calls: Sequence[ParsedCall],
        *,
        instance: str | None = None,
        namespace: str | None = None,
        at: float | None = None,
    ) -> None:
        """Tell of calls that a host has read out of an answer by itself, ``at`` a moment (None: now)."""
        for start in range(0, len(calls), MOST):
            told = tuple([_told(call) for call in calls[start : start + MOST]])
            moment = time.time() if at is None else at
            self._corpus.emit(ToolParsed(told, instance=instance, namespace=namespace, at=moment))


# --- the calls of each shape ----------------------------------------------------------------------------


def _calls_of(answer: Mapping[str, Any], shape: AnswerShape) -> Iterator[ParsedCall]:
    match shape:
        case AnswerShape.CHAT:
            for choice in mappings(answer["choices"]):
                yield from _of_message(mapping(choice.get("message")))
        case AnswerShape.OLLAMA:
            yield from _of_message(mapping(answer.get("message")))
        case AnswerShape.RESPONSES:
            for item in mappings(answer["output"]):
                yield from _of_item(item)
        case AnswerShape.MESSAGES:
            for block in mappings(answer["content"]):
                if block.get("type") == "tool_use":
                    yield _call(block.get("name"), block.get("input"), block.get("id"))
        case AnswerShape.GEMINI:
            for candidate in mappings(answer.get("candidates")):
                for part in mappings(mapping(candidate.get("content")).get("parts")):
                    function = either(part, "functionCall")
                    if isinstance(function, Mapping):
                        yield _call(function.get("name"), function.get("args"), function.get("id"))
        case AnswerShape.MCP:
            params = mapping(answer.get("params"))
            yield _call(params.get("name"), params.get("arguments"), answer.get("id"))


def _of_message(message: Mapping[str, Any]) -> Iterator[ParsedCall]:
    """Calls of a chat message: ``tool_calls``, and ``function_call`` of before."""
    for call in mappings(message.get("tool_calls")):
        if isinstance(call.get("custom"), Mapping):
            custom = call["custom"]
            yield _call(custom.get("name"), _free(custom.get("input")), call.get("id"))
        else:
            function = mapping(call.get("function"))
            yield _call(function.get("name"), function.get("arguments"), call.get("id"))
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        yield _call(legacy.get("name"), legacy.get("arguments"), None)


def _of_item(item: Mapping[str, Any]) -> Iterator[ParsedCall]:
    kind, id = item.get("type"), item.get("call_id")
    if kind == "function_call":
        yield _call(item.get("name"), item.get("arguments"), id)
    elif kind == "custom_tool_call":
        yield _call(item.get("name"), _free(item.get("input")), id)
    elif isinstance(kind, str) and kind in _HOSTED:
        name, place = _HOSTED[kind]
        yield _call(name, item.get(place), id)


def _free(text: Any) -> Any:
    """The input of a custom tool is free text, under the name that the API gives it."""
    return {"input": text}


# --- one call -------------------------------------------------------------------------------------------


def _call(name: Any, arguments: Any, id: Any) -> ParsedCall:
    """A call as it was written; a name or an id that is no text is left empty, a number as an id is text."""
    if type(id) is int:
        id = str(id) if abs(id) < 2**63 else None
    return ParsedCall(
        name if isinstance(name, str) else "",
        _arguments(arguments),
        id if isinstance(id, str) and id else None,
    )


def _arguments(said: Any) -> Mapping[str, Any]:
    if isinstance(said, Mapping):
        return said
    if said is None or (isinstance(said, str) and not said.strip()):
        return {}
    found = _decoded(said) if isinstance(said, str) else None
    if isinstance(found, dict):
        return found
    return {UNPARSED: _short(said)}


def _decoded(text: str) -> Any:
    """The JSON that the text holds; None if it holds none that everybody reads alike."""
    if len(text) > _MAX_TEXT:
        return None
    try:
        return read(_ANYTHING, text.encode())
    except (ConfigError, UnicodeEncodeError):
        return None


def _short(said: Any) -> str:
    """What a model wrote instead of arguments: cut and redacted."""
    kept = summarise({"said": said})["said"]
    return kept if isinstance(kept, str) else msgspec.json.encode(kept).decode()


def _told(call: ParsedCall) -> ParsedCall:
    """The call as others may see it."""
    id = call.call_id
    known = id is not None and len(id) <= MAX_NAME and is_shown(id)
    name = quote(str(summarise({"name": call.name})["name"]), MAX_NAME)[1:-1]
    return ParsedCall(name, summarise(call.args), id if known else None)
