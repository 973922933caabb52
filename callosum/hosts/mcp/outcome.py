"""What the answer to a ``tools/call`` tells of how the call ended."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import UNSET, Raw, UnsetType

from callosum.hosts.mcp import messages
from callosum.hosts.mcp.messages import Message, Unreadable
from callosum.model import Outcome

MAX_RESULT: Final = 262_144
"""Longest result of a tool that the gate is told, in bytes; of a longer one it is told the length."""
_STATUS: Final = {
    "completed": Outcome.DONE,
    "failed": Outcome.FAILED,
    "cancelled": Outcome.UNKNOWN,  # it had begun
}


class Ended(NamedTuple):
    """How a call ended. ``outcome`` None leaves it to the gate, which reads the ``result``."""

    result: Any = None
    outcome: Outcome | None = None
    task: str = ""
    """The server's name of what goes on after this answer; the call has not ended then."""


def read_outcome(answer: Message) -> Ended:
    """Reads an answer.

    A protocol's error and ``isError`` are failures, which the gate tells from a lost connection by their text. A
    server that first wants input has done nothing yet: the client calls again with it.
    """
    if not isinstance(answer.error, UnsetType):
        said = messages.text_of(messages.fields_of(answer.error).get("message"))
        return Ended({"error": said or "an error of the protocol"})
    result = messages.fields_of(answer.result)
    kind = messages.text_of(result.get("resultType"))
    if kind == "input_required":
        return Ended(None, Outcome.CANCELLED)
    task = messages.text_of(messages.fields_of(result.get("task", UNSET)).get("taskId"))
    if kind == "task":
        task = task or messages.text_of(result.get("taskId"))
    if task:
        return Ended(task=task)
    if bytes(result.get("isError", b"")) == b"true":
        return Ended({"error": _text(result) or "the tool failed"})
    return Ended(_content(result), Outcome.DONE)


def read_status(told: Raw | UnsetType) -> tuple[str, Ended | None]:
    """Which task a status is about, and how it ended; None while it goes on."""
    fields = messages.fields_of(told)
    fields = messages.fields_of(fields["task"]) if "task" in fields else fields
    outcome = _STATUS.get(messages.text_of(fields.get("status")))
    return messages.text_of(fields.get("taskId")), None if outcome is None else Ended(None, outcome)


def _content(result: dict[str, Raw]) -> Any:
    """What the tool found, for the gate to see which things it looked at: as data where it says it as data."""
    size = len(bytes(result.get("structuredContent", b""))) or len(bytes(result.get("content", b"")))
    if size > MAX_RESULT:
        return {"length": size}
    if "structuredContent" in result:
        try:
            return messages.value_of(bytes(result["structuredContent"]))
        except Unreadable:
            pass
    return {"text": _text(result)} if "content" in result else None


def _text(result: dict[str, Raw]) -> str:
    try:
        blocks = messages.value_of(bytes(result.get("content", b"[]")))
    except Unreadable:
        return ""
    texts = [block.get("text") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    return "\n".join(text for text in texts if isinstance(text, str))
