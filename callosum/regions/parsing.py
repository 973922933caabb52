"""Wernicke: reads tool calls out of a model's answer, before they reach the gate.

::

    wernicke = Wernicke(corpus)
    for call in wernicke.read(answer, instance="mira/chat"):  # any of the APIs of ``callosum.answers``
        decision = gate.intercept(Call("mira", call.name, call.args, session="chat", call_id=call.call_id))

Calls that the provider runs itself (its web search, its MCP servers) never reach a host and are left out.
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
"""Most calls in one event; further calls get further events."""
UNPARSED: Final = "_unparsed"
"""The only argument of a call whose arguments could not be parsed: the beginning of what the model wrote."""
_MAX_TEXT: Final = 4_000_000
"""Longest arguments that are parsed, in characters: the gate's limit for params."""
_ANYTHING: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()

_HOSTED: Final[Mapping[str, tuple[str, str]]] = {
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
}
"""Items of the Responses API that ask the host to run a built-in tool: the tool's name, and the field of its arguments.
"""


class Wernicke:
    """Read tool calls. It has no subscription, so ``close`` does nothing. May be used from any thread."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def close(self) -> None:
        """Do nothing: there is no subscription. Idempotent."""

    def read(
        self, answer: object, *, instance: str | None = None, namespace: str | None = None
    ) -> tuple[ParsedCall, ...]:
        """Return the tool calls of an answer, in order, and emit them as ``tool.parsed``.

        ``answer`` is the provider's, as decoded JSON or an SDK object, or an MCP request ``tools/call``. Calls have
        name, arguments and id as the model wrote them; in the event, arguments are summarised and redacted. Arguments
        that are not a JSON object (cut off, or with a duplicate name) become ``{"_unparsed": "..."}``, shortened and
        redacted; missing ones become ``{}``. An answer without calls emits nothing.

        Raises ``ConfigError`` if ``answer`` is not an answer, never for what a model wrote.
        """
        for name, value in (("instance", instance), ("namespace", namespace)):
            if value is not None:
                check_name(value, name)
        decoded = plain(answer)
        calls = tuple(_calls_of(decoded, shape_of(decoded)))
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
        """Emit calls that a host has read out of an answer itself, at the moment ``at`` (None: now)."""
        for start in range(0, len(calls), MOST):
            shown = tuple([_shown(call) for call in calls[start : start + MOST]])
            moment = time.time() if at is None else at
            self._corpus.emit(ToolParsed(shown, instance=instance, namespace=namespace, at=moment))


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
    """Yield the calls of a chat message: ``tool_calls``, and the older ``function_call``."""
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
        name, field = _HOSTED[kind]
        yield _call(name, item.get(field), id)


def _free(text: Any) -> Any:
    """Return a custom tool's free text under the name that the API gives it."""
    return {"input": text}


# --- one call -------------------------------------------------------------------------------------------


def _call(name: Any, arguments: Any, id: Any) -> ParsedCall:
    """Return a call as it was written. A name or id that is not text is left empty; a number as id becomes text."""
    if type(id) is int:
        id = str(id) if abs(id) < 2**63 else None
    return ParsedCall(
        name if isinstance(name, str) else "",
        _arguments(arguments),
        id if isinstance(id, str) and id else None,
    )


def _arguments(written: Any) -> Mapping[str, Any]:
    if isinstance(written, Mapping):
        return written
    if written is None or (isinstance(written, str) and not written.strip()):
        return {}
    decoded = _decoded(written) if isinstance(written, str) else None
    if isinstance(decoded, dict):
        return decoded
    return {UNPARSED: _short(written)}


def _decoded(text: str) -> Any:
    """Return the JSON in a text; None if it is not JSON that every parser reads the same way."""
    if len(text) > _MAX_TEXT:
        return None
    try:
        return read(_ANYTHING, text.encode())
    except (ConfigError, UnicodeEncodeError):
        return None


def _short(written: Any) -> str:
    """Return what a model wrote instead of arguments, cut and redacted."""
    short = summarise({"said": written})["said"]
    return short if isinstance(short, str) else msgspec.json.encode(short).decode()


def _shown(call: ParsedCall) -> ParsedCall:
    """Return the call in the form that others may see."""
    id = call.call_id
    is_usable = id is not None and len(id) <= MAX_NAME and is_shown(id)
    name = quote(str(summarise({"name": call.name})["name"]), MAX_NAME)[1:-1]
    return ParsedCall(name, summarise(call.args), id if is_usable else None)
