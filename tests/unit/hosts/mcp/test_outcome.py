"""Test how the outcome of a call is read from its answer."""

from typing import Any

import msgspec
import pytest

from callosum.hosts.mcp.messages import Message
from callosum.hosts.mcp.outcome import MAX_RESULT, CallOutcome, read_outcome, read_status
from callosum.model import Outcome


def answered(**parts: Any) -> Message:
    return msgspec.json.decode(msgspec.json.encode({"id": 1, **parts}), type=Message)


def content(*texts: str) -> list[Any]:
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("parts", "ended"),
    [
        ({"result": {"content": content("a", "b")}}, CallOutcome({"text": "a\nb"}, Outcome.DONE)),
        ({"result": {"content": content("x"), "structuredContent": {"id": 7}}}, CallOutcome({"id": 7}, Outcome.DONE)),
        ({"result": {"content": [{"type": "image", "data": "x"}]}}, CallOutcome({"text": ""}, Outcome.DONE)),
        ({"result": {"content": "odd"}}, CallOutcome({"text": ""}, Outcome.DONE)),
        ({"result": {}}, CallOutcome(None, Outcome.DONE)),
        ({"result": {"content": content("x" * MAX_RESULT)}}, CallOutcome({"length": MAX_RESULT + 27}, Outcome.DONE)),
        ({"result": {"content": content("no"), "isError": True}}, CallOutcome({"error": "no"})),
        ({"result": {"isError": True}}, CallOutcome({"error": "the tool failed"})),
        ({"result": {"isError": "true", "content": []}}, CallOutcome({"text": ""}, Outcome.DONE)),
        ({"error": {"code": -32603, "message": "timed out"}}, CallOutcome({"error": "timed out"})),
        ({"error": "odd"}, CallOutcome({"error": "an error of the protocol"})),
        ({"result": {"resultType": "input_required", "inputRequests": {}}}, CallOutcome(input=b"")),
        ({"result": {"resultType": "input_required", "requestState": "s"}}, CallOutcome(input=b'"s"')),
        ({"result": {"resultType": "complete", "content": []}}, CallOutcome({"text": ""}, Outcome.DONE)),
        ({"result": {"task": {"taskId": "t1", "status": "working"}}}, CallOutcome(task="t1")),
        ({"result": {"resultType": "task", "taskId": "t2"}}, CallOutcome(task="t2")),
    ],
)
def test_call_outcome_is_read(parts: dict[str, Any], ended: CallOutcome) -> None:
    assert read_outcome(answered(**parts)) == ended


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ("completed", CallOutcome(None, Outcome.DONE)),
        ("failed", CallOutcome(None, Outcome.FAILED)),
        ("cancelled", CallOutcome(None, Outcome.UNKNOWN)),
        ("working", None),
        ("input_required", None),
        (5, None),
    ],
)
@pytest.mark.parametrize("form", [lambda task: task, lambda task: {"task": task}])
def test_task_outcome_is_read(form: Any, status: Any, ended: CallOutcome | None) -> None:
    told = msgspec.Raw(msgspec.json.encode(form({"taskId": "t", "status": status})))
    assert read_status(told) == ("t", ended)
