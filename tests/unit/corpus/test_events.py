"""The catalogue: the original names and fields, the events that hosts may report, and where bad input is refused."""

import json
import math
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from callosum.corpus import events
from callosum.corpus.events import CATALOGUE, CorpusEvent, decode, encode, read, select
from callosum.wire import MAX_EVENTS, BadRequest

SEED = {
    "input.received": "content channelId conversationId", "input.classified": "intent confidence",
    "input.routed": "provider model", "context.built": "tokens sections", "context.trimmed": "before after dropped",
    "llm.response": "provider model tokens", "llm.error": "provider error willRetry", "llm.token": "delta",
    "tool.called": "name args taskId", "tool.completed": "name output duration taskId",
    "tool.failed": "name error attempt taskId", "tool.parsed": "calls", "safety.allowed": "toolName classification",
    "safety.blocked": "toolName reason", "safety.approved": "toolName channelId",
    "safety.denied": "toolName channelId", "task.created": "taskId toolName", "task.started": "taskId attempt",
    "task.stepCompleted": "taskId step duration", "task.completed": "taskId success totalDuration",
    "task.failed": "taskId error attempts", "task.stopped": "taskId reason", "memory.saved": "type path",
    "memory.consolidated": "week episodeCount", "memory.promoted": "topic path", "health.ok": "metrics",
    "health.warning": "resource value threshold", "health.critical": "resource value threshold",
    "resource.low.context": "used max", "resource.low.memory": "used max", "resource.low.disk": "used max",
    "outcome.recorded": "type toolName args", "preference.learned": "pattern preference",
    "scheduler.tick": "jobName schedule", "watcher.changed": "path changeType", "cortex.reindexed": "path action",
}  # fmt: skip
FURTHER = {
    "llm.response": "context window", "safety.allowed": "verdict reason", "safety.blocked": "verdict",
    "tool.called": "traceparent tracestate",
}  # fmt: skip
"""Fields added after the first version."""
BESIDE = dict.fromkeys(("lease.released", "lease.expired"), "contextKeys toolName")
BESIDE["lease.taken"] = "contextKeys tier toolName"
"""Events that the first version did not have."""
BASE = ["at", "instance", "namespace", "callId", "id", "cause", "source"]


def test_catalogue_matches_the_original_and_new_fields_come_last() -> None:
    own = {name: " ".join(kind.__struct_encode_fields__[: -len(BASE)]) for name, kind in CATALOGUE.items()}
    assert len(SEED) == 36
    assert own == BESIDE | {name: f"{fields} {FURTHER.get(name, '')}".rstrip() for name, fields in SEED.items()}
    assert all(list(kind.__struct_encode_fields__[-len(BASE) :]) == BASE for kind in CATALOGUE.values())


def test_every_event_is_described_with_its_emitter() -> None:
    for kind in CATALOGUE.values():
        assert kind.__doc__
        assert kind.region
        assert kind.__doc__ != CorpusEvent.__doc__


@pytest.fixture
def added() -> Iterator[type[CorpusEvent]]:
    class WindowOpened(CorpusEvent, frozen=True):
        """A window was opened."""

        dotted: ClassVar[str] = "window.opened"
        region: ClassVar[str] = "House"
        remote: ClassVar[bool] = True

        side: str

    yield WindowOpened
    del CATALOGUE["window.opened"]


def test_adding_an_event_is_one_class(added: type[CorpusEvent]) -> None:
    (event,) = read(b'{"type": "window.opened", "side": "left", "at": 12}')
    assert isinstance(event, added)
    assert json.loads(encode(event)) == {"side": "left", "at": 12, "namespace": "default"}
    assert select("window.*") == frozenset({"window.opened"})


@pytest.mark.parametrize("name", ["", "tool", "Tool.called", "tool.", "tool called", "tool.called\ndata: x"])
def test_name_that_the_stream_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="expected a name like"):
        type("Bad", (CorpusEvent,), {"dotted": name, "__annotations__": {}}, frozen=True)
    assert name not in CATALOGUE


def test_a_name_is_given_once() -> None:
    with pytest.raises(TypeError, match="is ToolCalled's"):
        type("Other", (CorpusEvent,), {"dotted": "tool.called", "__annotations__": {}}, frozen=True)


def test_a_remote_event_has_no_field_type() -> None:
    with pytest.raises(TypeError, match="on the wire this is the event's name"):
        type(
            "Mixed",
            (CorpusEvent,),
            {"dotted": "mixed.up", "remote": True, "__annotations__": {"type": "str"}},
            frozen=True,
        )
    assert "mixed.up" not in CATALOGUE


def test_event_happens_now_unless_it_has_a_moment() -> None:
    before = time.time()
    assert before <= events.LlmToken("a").at <= time.time()


def test_the_payload_is_camel_case_without_what_is_unknown() -> None:
    event = events.TaskStepCompleted("TASK-1", "copy", 12.5, at=1.5, call_id="c", cause="17.0")
    expected = {"taskId": "TASK-1", "step": "copy", "duration": 12.5, "at": 1.5, "callId": "c", "cause": "17.0"}
    assert json.loads(encode(event)) == expected


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        ({"a": object()}, {"a": "<object>"}),
        ({"a": "x\ud800y"}, {"a": "x\ufffdy"}),
        ({"a": math.nan}, {"a": None}),
        ({"a": "y" * 70_000}, {"a": "y" * 200 + "… (70000 characters)"}),
        ({"a": "one\ntwo\u2028three\r"}, {"a": "one\ntwo\u2028three\r"}),
    ],
)
def test_anything_can_be_encoded_on_one_line(args: dict[str, Any], kept: dict[str, Any]) -> None:
    written = encode(events.ToolCalled("t", args, at=1))
    assert json.loads(written) == {"name": "t", "args": kept, "at": 1}
    assert b"\n" not in written
    assert b"\r" not in written


def test_a_value_inside_itself_can_be_encoded() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    assert json.loads(encode(events.ToolCalled("t", loop, at=1)))["args"]["again"] == "<cycle>"


REMOTE: list[dict[str, Any]] = [
    {"type": "input.received", "content": "hello", "channelId": "cli", "conversationId": "7"},
    {"type": "input.classified", "intent": "read", "confidence": 0.9},
    {"type": "input.routed", "provider": "anthropic", "model": "m"},
    {"type": "context.built", "tokens": 7842, "sections": 12},
    {"type": "context.trimmed", "before": 9, "after": 8, "dropped": 1},
    {"type": "llm.response", "provider": "p", "model": "m", "tokens": 342},
    {"type": "llm.error", "provider": "p", "error": "overloaded", "willRetry": True},
    {"type": "llm.token", "delta": "Hel"},
    {"type": "tool.parsed", "calls": [{"name": "read", "args": {"path": "/a"}, "callId": "c1"}]},
    {"type": "task.created", "taskId": "T", "toolName": "read"},
    {"type": "task.started", "taskId": "T", "attempt": 1},
    {"type": "task.stepCompleted", "taskId": "T", "step": "one", "duration": 3},
    {"type": "task.completed", "taskId": "T", "success": True, "totalDuration": 4.5},
    {"type": "task.failed", "taskId": "T", "error": "no", "attempts": 3},
    {"type": "task.stopped", "taskId": "T", "reason": "by hand"},
    {"type": "health.ok", "metrics": {"everySeconds": 30}, "instance": "gateway"},
]


def test_hosts_report_these_and_no_others() -> None:
    assert [item["type"] for item in REMOTE] == [name for name, kind in CATALOGUE.items() if kind.remote]


@pytest.mark.parametrize("item", REMOTE, ids=lambda item: item["type"])
def test_events_reported_by_hosts_are_unchanged(item: dict[str, Any]) -> None:
    sent = {**item, "at": 1.5, "instance": "mira/1", "namespace": "work", "callId": "c", "id": 5, "cause": "17.0"}
    (event,) = read(json.dumps(sent).encode())
    assert {"type": event.dotted, **json.loads(encode(event))} == sent


def test_host_reports_only_its_own_health() -> None:
    """Otherwise a host could report health for the gate."""
    with pytest.raises(BadRequest) as error:
        read(b'{"type": "health.ok", "metrics": {}, "namespace": null}')
    assert error.value.at == "instance"


def test_no_host_reports_for_all_namespaces() -> None:
    (event,) = read(b'{"type": "llm.token", "delta": "a", "namespace": null}')
    assert event.namespace == "default"


def test_a_list_keeps_its_order() -> None:
    assert [event.dotted for event in read(json.dumps(REMOTE).encode())] == [item["type"] for item in REMOTE]
    assert read(b"[]") == ()


@pytest.mark.parametrize("name", [name for name, kind in CATALOGUE.items() if not kind.remote])
def test_hosts_cannot_report_events_that_only_the_gate_knows(name: str) -> None:
    with pytest.raises(BadRequest, match="hosts cannot report it") as error:
        read(json.dumps([{"type": name}]).encode())
    assert error.value.at == "[0].type"


@pytest.mark.parametrize(
    ("body", "at", "words"),
    [
        (b"", "body", "invalid JSON"),
        (b"7", "body", "expected an object"),
        (b"null", "body", "expected an object"),
        (b'["a"]', "[0]", "expected an object"),
        (b"{}", "type", "expected the dotted name"),
        (b'[{"type": 3}]', "[0].type", "expected the dotted name"),
        (b'{"type": "llm.eror"}', "type", "did you mean 'llm.error'?"),
        (b'[{"type": "llm.token", "delta": ""}, {"type": "llm.token"}]', "[1].delta", "missing"),
        (b'[{"type": "llm.token", "delta": 3}]', "[0].delta", "Expected `str`"),
        (b'{"type": "task.stepCompleted", "taskId": "T", "step": "a", "duration": -1}', "duration", ">= 0"),
        (b'{"type": "input.classified", "intent": "read", "confidence": 1.5}', "confidence", "<= 1"),
        (b'{"type": "context.built", "tokens": 1e300, "sections": 1}', "tokens", "Expected `int`"),
        (b'{"type": "context.built", "tokens": 99999999999999999999, "sections": 1}', "tokens", "<="),
        (b'{"type": "llm.token", "delta": "a", "delta": "b"}', "delta", "twice"),
        (b'[{"type": "llm.token", "delta": "a", "at": -1}]', "[0].at", ">= 0"),
        (b'[{"type": "llm.token", "delta": "a", "id": 0}]', "[0].id", ">= 1"),
        (b'[{"type": "llm.token", "delta": "a", "instance": ""}]', "[0].instance", "1 to 256"),
        (b'[{"type": "llm.token", "delta": "a", "namespace": "a\\nb"}]', "[0].namespace", "control"),
        (b'[{"type": "tool.parsed", "calls": [{"name": 1}]}]', "[0].calls[0].name", "Expected `str`"),
        (b'[{"type": "tool.parsed", "calls": [{"name": "a", "callId": ""}]}]', "[0].calls[0].callId", "1 to 256"),
        (b'{"type": "llm.token", "delta": "\xff"}', "body", "invalid JSON"),
        (b"[" * 50_000, "body", "nested too deeply"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_its_place(body: bytes, at: str, words: str) -> None:
    with pytest.raises(BadRequest) as error:
        read(body)
    assert (error.value.at, words in error.value.message) == (at, True), error.value


def test_too_many_events_are_refused() -> None:
    item = {"type": "llm.token", "delta": "a"}
    assert len(read(json.dumps([item] * MAX_EVENTS).encode())) == MAX_EVENTS
    with pytest.raises(BadRequest, match="at most 1000"):
        read(json.dumps([item] * (MAX_EVENTS + 1)).encode())


def test_long_texts_are_cut_and_secrets_redacted() -> None:
    secret = "ghp_" + "a1" * 18
    (event,) = read(
        json.dumps(
            {"type": "input.received", "content": f"use {secret} now", "channelId": "c" * 300, "conversationId": "7"}
        ).encode()
    )
    assert isinstance(event, events.InputReceived)
    assert event.content == "use [redacted] now"
    assert event.channel_id == "c" * 200 + "… (300 characters)"
    parsed = decode("tool.parsed", {"calls": [{"name": "t", "args": {"password": "x", "text": f"{secret}!"}}]})
    assert isinstance(parsed, events.ToolParsed)
    assert parsed.calls[0].args == {"password": "[redacted]", "text": "[redacted]!"}


def test_a_secret_at_the_cut_does_not_show() -> None:
    secret = "ghp_" + "a1" * 18
    event = decode("llm.token", {"delta": "x" * 190 + " " + secret + " " + "y" * 300})
    assert isinstance(event, events.LlmToken)
    assert "ghp_" not in event.delta


def test_event_without_a_namespace_gets_the_default_one() -> None:
    (event,) = read(b'{"type": "llm.token", "delta": "a"}')
    assert event.namespace == "default"


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("*", None),
        ("tool.called, *", None),
        ("tool.called", {"tool.called"}),
        (" safety.* ,tool.failed", {n for n in SEED if n.startswith("safety.")} | {"tool.failed"}),
        ("resource.*", {n for n in SEED if n.startswith("resource.")}),
        ("resource.low.*", {n for n in SEED if n.startswith("resource.")}),
    ],
)
def test_types_are_names_families_or_all(text: str, chosen: set[str] | None) -> None:
    assert select(text) == (None if chosen is None else frozenset(chosen))


@pytest.mark.parametrize(
    ("text", "near"),
    [("", ""), ("tool.caled", "'tool.called'"), ("saftey.*", "'safety.*'"), ("tool*", ""), (".*", ""), ("a,", "")],
)
def test_types_that_name_nothing_are_refused(text: str, near: str) -> None:
    with pytest.raises(BadRequest, match="there is no event") as error:
        select(text)
    assert error.value.at == "types"
    assert near in error.value.message
