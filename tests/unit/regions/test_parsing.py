from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callosum.corpus.bus import Corpus
from callosum.corpus.events import ParsedCall, ToolParsed, encode
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.model import Call
from callosum.regions.parsing import Wernicke
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from tests.unit.regions.answers import ANDY, ANSWERS, BERT, CHAT, GEMINI, MESSAGES, RESPONSES, Model
from tests.unit.regions.test_models import JSON, SECRET, disturbed


class ParsedEvents:
    def __init__(self) -> None:
        self.corpus = Corpus()
        self.events: list[ToolParsed] = []
        self.corpus.on(ToolParsed, self.events.append)
        self.wernicke = Wernicke(self.corpus)


@pytest.fixture
def here() -> ParsedEvents:
    return ParsedEvents()


def chat(*calls: Any, **message: Any) -> dict[str, Any]:
    return {**CHAT, "choices": [{"message": {"role": "assistant", "tool_calls": list(calls), **message}}]}


def function(name: Any, arguments: Any, id: Any = "c1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


# --- each API --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ANSWERS)
@pytest.mark.parametrize("made", [dict, Model])
def test_each_api_is_read(here: ParsedEvents, shape: str, made: Any) -> None:
    calls = here.wernicke.read(made(ANSWERS[shape][0]), instance="mira/chat", namespace="default")
    assert calls == (ParsedCall("message", ANDY, "call_1"), ParsedCall("message", BERT, "call_2"))
    (event,) = here.events
    assert (event.calls, event.instance, event.namespace) == (calls, "mira/chat", "default")


def test_older_and_rarer_forms_are_read(here: ParsedEvents) -> None:
    custom = {"id": "c2", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin Patch"}}
    legacy = {"name": "message", "arguments": '{"target": "andy"}'}
    assert here.wernicke.read(chat(custom, function_call=legacy)) == (
        ParsedCall("apply_patch", {"input": "*** Begin Patch"}, "c2"),
        ParsedCall("message", {"target": "andy"}),
    )
    output = [
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "local_shell_call", "call_id": "c2", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "shell_call", "call_id": "c3", "action": {"commands": ["ls"]}},
        {"type": "apply_patch_call", "call_id": "c4", "operation": {"type": "update_file", "path": "a", "diff": "-"}},
        {"type": "computer_call", "call_id": "c5", "action": {"type": "click", "x": 1, "y": 2}},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "mcp_call", "id": "mcp_1", "name": "roll", "arguments": "{}", "server_label": "dice"},
    ]
    assert [(call.name, call.call_id) for call in here.wernicke.read({**RESPONSES, "output": output})] == [
        ("apply_patch", "c1"), ("local_shell", "c2"), ("shell", "c3"), ("apply_patch", "c4"), ("computer", "c5"),
    ]  # fmt: skip
    snake = {"candidates": [{"content": {"parts": [{"function_call": {"name": "f", "args": {"x": 1}}}]}}]}
    assert here.wernicke.read(snake) == (ParsedCall("f", {"x": 1}),)
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "f", "arguments": {"x": 1}}}
    assert here.wernicke.read(request) == (ParsedCall("f", {"x": 1}, "7"),)


def test_all_choices_and_candidates_are_read(here: ParsedEvents) -> None:
    two = {**CHAT, "choices": [*CHAT["choices"], *CHAT["choices"]]}
    assert len(here.wernicke.read(two)) == 4
    assert len(here.wernicke.read({**GEMINI, "candidates": GEMINI["candidates"] * 3})) == 6


@pytest.mark.parametrize(
    "answer",
    [
        chat(content="Hello"),
        {**MESSAGES, "content": [{"type": "text", "text": "Hello"}]},
        {**GEMINI, "candidates": []},
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ],
)
def test_answer_without_calls_emits_nothing(here: ParsedEvents, answer: Any) -> None:
    assert here.wernicke.read(answer) == ()
    assert here.events == []


# --- what models write -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ('{"target": "andy"}', {"target": "andy"}),
        (' {"target": "andy"}\n', {"target": "andy"}),
        ({"target": "andy"}, {"target": "andy"}),
        ("", {}),
        ("  ", {}),
        (None, {}),
        ('{"target": "an', {"_unparsed": '{"target": "an'}),
        ("andy, please", {"_unparsed": "andy, please"}),
        ('["andy"]', {"_unparsed": '["andy"]'}),
        ("null", {"_unparsed": "null"}),
        ('{"a": 1, "a": 2}', {"_unparsed": '{"a": 1, "a": 2}'}),
        ('{"a": NaN}', {"_unparsed": '{"a": NaN}'}),
        ("x" * 300, {"_unparsed": "x" * 200 + "… (300 characters)"}),
        ("\ud800", {"_unparsed": "\ufffd"}),
        (5, {"_unparsed": "5"}),
        ([1], {"_unparsed": "[1]"}),
    ],
)
def test_arguments_are_parsed(here: ParsedEvents, arguments: Any, args: Any) -> None:
    assert here.wernicke.read(chat(function("f", arguments))) == (ParsedCall("f", args, "c1"),)
    assert len(here.events) == 1


@pytest.mark.parametrize("arguments", ['{"a":' * 100_000, '{"a": "' + "x" * 5_000_000 + '"}'])
def test_arguments_too_deep_or_too_long_are_reported_unread(here: ParsedEvents, arguments: str) -> None:
    (call,) = here.wernicke.read(chat(function("f", arguments)))
    assert list(call.args) == ["_unparsed"]
    assert len(call.args["_unparsed"]) < 300


@pytest.mark.parametrize(
    ("name", "id", "read"),
    [
        (None, None, ParsedCall("", {}, None)),
        (5, [], ParsedCall("", {}, None)),
        ("f", "", ParsedCall("f", {}, None)),
        ("f", 2**70, ParsedCall("f", {}, None)),
    ],
)
def test_invalid_names_and_ids_are_left_empty(here: ParsedEvents, name: Any, id: Any, read: ParsedCall) -> None:
    assert here.wernicke.read(chat(function(name, "{}", id))) == (read,)


def test_caller_gets_the_original_and_the_event_a_redacted_call(here: ParsedEvents) -> None:
    arguments = f'{{"password": "hunter2", "body": "{"x" * 900}", "note": "{SECRET}"}}'
    (call,) = here.wernicke.read(chat(function("send\x1b[2J\u202e", arguments, "id\n")))
    assert call.args["password"] == "hunter2"
    assert call.args["note"] == SECRET
    assert (call.name, call.call_id) == ("send\x1b[2J\u202e", "id\n")
    (told,) = here.events[0].calls
    assert (told.name, told.call_id) == ("send[2J", None)
    assert told.args["password"] == told.args["note"] == "[redacted]"
    assert len(told.args["body"]) < 250


def test_many_calls_are_split_into_several_events(here: ParsedEvents) -> None:
    calls = here.wernicke.read(chat(*(function(f"f{number}", "{}") for number in range(250))))
    assert [len(event.calls) for event in here.events] == [100, 100, 50]
    assert [call.name for event in here.events for call in event.calls] == [call.name for call in calls]


@pytest.mark.parametrize("answer", [None, "text", [], [CHAT], {}, {"choices": 5}, {"method": "tools/list"}, 5, Model])
def test_value_that_is_not_an_answer_is_refused(here: ParsedEvents, answer: Any) -> None:
    with pytest.raises(ConfigError) as error:
        here.wernicke.read(answer)
    assert error.value.at == "answer"


@pytest.mark.parametrize("names", [{"instance": ""}, {"namespace": "\x00"}])
def test_names_that_cannot_be_used_are_refused(here: ParsedEvents, names: Any) -> None:
    with pytest.raises(ConfigError):
        here.wernicke.read(CHAT, **names)


@settings(max_examples=150, deadline=None)
@given(JSON | disturbed())
def test_any_input_raises_only_config_errors_and_events_can_be_encoded(answer: Any) -> None:
    here = ParsedEvents()
    with suppress(ConfigError):
        here.wernicke.read(answer)
    for event in here.events:
        encode(event)


@settings(max_examples=100, deadline=None)
@given(st.text() | st.binary().map(repr))
def test_any_text_of_a_model_is_reported(arguments: str) -> None:
    (call,) = ParsedEvents().wernicke.read(chat(function("f", arguments)))
    assert isinstance(call.args, dict)


def test_parsed_call_is_accepted_by_the_gate(here: ParsedEvents, tmp_path: Any) -> None:
    with LocalGate(settings=Settings(state=tmp_path), store=MemoryStore()) as gate:
        for call in here.wernicke.read(MESSAGES):
            assert gate.intercept(Call("mira", call.name, call.args, call_id=call.call_id)).proceed
