"""Read from the answer to a ``tools/call`` how the call ended."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import UNSET, Raw, UnsetType

from callosum.hosts.mcp import messages
from callosum.hosts.mcp.messages import MalformedMessage, Message
from callosum.model import Outcome

MAX_RESULT: Final = 262_144
"""Maximum length in bytes of a tool's result that is sent to the gate. Of a longer result, only the length is sent."""
_STATUS: Final = {
    "completed": Outcome.DONE,
    "failed": Outcome.FAILED,
    "cancelled": Outcome.UNKNOWN,  # it may have run in part
}


class CallOutcome(NamedTuple):
    """Describe how a call ended. If ``outcome`` is None, the gate reads it from ``result``.

    A call with a ``task`` or ``input`` has not ended. ``task`` is the server's name for work that continues after this
    answer. ``input`` is the ``requestState`` with which the client will return (empty bytes: without one).
    """

    result: Any = None
    outcome: Outcome | None = None
    task: str = ""
    input: bytes | None = None


def read_outcome(answer: Message) -> CallOutcome:
    """Return the outcome in an answer.

    Protocol errors and ``isError`` are failures. The gate tells them from a lost connection by their text.
    """
    if not isinstance(answer.error, UnsetType):
        message = messages.text_of(messages.fields_of(answer.error).get("message"))
        return CallOutcome({"error": message or "an error of the protocol"})
    result = messages.fields_of(answer.result)
    kind = messages.text_of(result.get("resultType"))
    if kind == "input_required":
        return CallOutcome(input=bytes(result.get("requestState", b"")))
    task = messages.text_of(messages.fields_of(result.get("task", UNSET)).get("taskId"))
    if kind == "task":
        task = task or messages.text_of(result.get("taskId"))
    if task:
        _, ended = read_status(answer.result)
        return ended or CallOutcome(task=task)
    return _ended(result)


def _ended(result: dict[str, Raw]) -> CallOutcome:
    if bytes(result.get("isError", b"")) == b"true":
        return CallOutcome({"error": _text(result) or "the tool failed"})
    return CallOutcome(_content(result), Outcome.DONE)


def read_status(raw_status: Raw | UnsetType) -> tuple[str, CallOutcome | None]:
    """Return the task that a status is about, and its outcome, or None while the task runs.

    From protocol version 2026 on, the status of a finished task contains its result or error.
    """
    fields = messages.fields_of(raw_status)
    fields = messages.fields_of(fields["task"]) if "task" in fields else fields
    task = messages.text_of(fields.get("taskId"))
    outcome = _STATUS.get(messages.text_of(fields.get("status")))
    if outcome is None:
        return task, None
    if outcome is Outcome.DONE and "result" in fields:
        return task, _ended(messages.fields_of(fields["result"]))
    if outcome is Outcome.FAILED and "error" in fields:
        return task, read_outcome(Message(error=fields["error"]))
    return task, CallOutcome(None, outcome)


def is_unknown_task(answer: Message) -> bool:
    """Return True if the server no longer knows the task, so that its outcome stays unknown."""
    return bytes(messages.fields_of(answer.error).get("code", b"")) == b"%d" % messages.INVALID_PARAMS


def _content(result: dict[str, Raw]) -> Any:
    """Return the result for the gate, which looks for the things that were read: structured data if there is any."""
    size = len(bytes(result.get("structuredContent", b""))) or len(bytes(result.get("content", b"")))
    if size > MAX_RESULT:
        return {"length": size}
    if "structuredContent" in result:
        try:
            return messages.value_of(bytes(result["structuredContent"]))
        except MalformedMessage:
            pass
    return {"text": _text(result)} if "content" in result else None


def _text(result: dict[str, Raw]) -> str:
    try:
        blocks = messages.value_of(bytes(result.get("content", b"[]")))
    except MalformedMessage:
        return ""
    texts = [block.get("text") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    return "\n".join(text for text in texts if isinstance(text, str))
