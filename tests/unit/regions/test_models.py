from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callosum.answers import MAX_ARGUMENTS, AnswerAssembly
from callosum.corpus.bus import Corpus
from callosum.corpus.events import CorpusEvent, LlmError, LlmResponse, LlmToken, encode
from callosum.errors import ConfigError
from callosum.regions.models import MAX_DELTA, MAX_TOKENS, Thalamus
from callosum.regions.parsing import Wernicke
from tests.unit.regions.answers import ANDY, ANSWERS, BERT, CHAT, GEMINI, MESSAGES, RESPONSES, STREAMS, Model

SECRET = "sk-proj-1234567890abcdef1234567890abcdef"


class ModelEvents:
    def __init__(self) -> None:
        self.corpus = Corpus()
        self.events: list[CorpusEvent] = []
        self.corpus.on("llm.*", lambda _, event: self.events.append(event))
        self.thalamus = Thalamus(self.corpus)

    def text(self) -> str:
        return "".join(event.delta for event in self.events if isinstance(event, LlmToken))


@pytest.fixture
def here() -> ModelEvents:
    return ModelEvents()


# --- answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ANSWERS)
@pytest.mark.parametrize("made", [dict, Model])
def test_each_api_is_read(here: ModelEvents, shape: str, made: Any) -> None:
    answer, provider, model = ANSWERS[shape]
    event = here.thalamus.response(made(answer), instance="mira/chat", namespace="default", call_id="c1")
    assert here.events == [event]
    assert isinstance(event, LlmResponse)
    assert (event.provider, event.model, event.tokens) == (provider, model, 342)
    assert (event.instance, event.namespace, event.call_id) == ("mira/chat", "default", "c1")


def test_provider_named_by_the_host_is_used(here: ModelEvents) -> None:
    assert here.thalamus.response(CHAT, provider="openrouter").provider == "openrouter"


def test_gemini_in_snake_case(here: ModelEvents) -> None:
    answer = {
        "candidates": [],
        "model_version": "gemini-2.5-flash",
        "usage_metadata": {"prompt_token_count": 3, "thoughts_token_count": 4},
    }
    event = here.thalamus.response(answer)
    assert isinstance(event, LlmResponse)
    assert (event.model, event.tokens) == ("gemini-2.5-flash", 7)


@pytest.mark.parametrize("shape", ANSWERS)
def test_without_usage_and_model_there_are_no_tokens_and_no_name(here: ModelEvents, shape: str) -> None:
    bare = {
        name: value
        for name, value in ANSWERS[shape][0].items()
        if name not in ("model", "modelVersion", "usage", "usageMetadata", "prompt_eval_count", "eval_count")
    }
    event = here.thalamus.response(bare)
    assert isinstance(event, LlmResponse)
    assert (event.model, event.tokens) == ("", 0)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"total_tokens": 7}, 7),
        ({"prompt_tokens": 3, "completion_tokens": 4}, 7),
        ({"prompt_tokens": 3.0, "completion_tokens": None}, 3),
        ({"prompt_tokens": MAX_TOKENS, "completion_tokens": MAX_TOKENS}, MAX_TOKENS),
        ({}, 0),
        (None, 0),
    ],
)
def test_tokens_are_counted(here: ModelEvents, usage: Any, tokens: int) -> None:
    event = here.thalamus.response({**CHAT, "usage": usage})
    assert isinstance(event, LlmResponse)
    assert event.tokens == tokens


@pytest.mark.parametrize(
    ("answer", "at"),
    [
        (None, "answer"),
        ("text", "answer"),
        ([CHAT], "answer"),
        ({}, "answer"),
        (Model, "answer"),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, "answer"),
        ({**CHAT, "choices": {}}, "answer"),
        ({**CHAT, "model": 5}, "answer.model"),
        ({**GEMINI, "modelVersion": []}, "answer.modelVersion"),
        ({**CHAT, "usage": 7}, "answer.usage"),
        ({**CHAT, "usage": {"prompt_tokens": "7"}}, "answer.usage.prompt_tokens"),
        ({**CHAT, "usage": {"prompt_tokens": True}}, "answer.usage.prompt_tokens"),
        ({**CHAT, "usage": {"completion_tokens": -1}}, "answer.usage.completion_tokens"),
        ({**CHAT, "usage": {"total_tokens": 1.5}}, "answer.usage.total_tokens"),
        ({**RESPONSES, "usage": {"input_tokens": float("nan")}}, "answer.usage.input_tokens"),
        ({**MESSAGES, "usage": {"output_tokens": 2**60}}, "answer.usage.output_tokens"),
    ],
)
def test_malformed_answers_are_refused_with_their_field(here: ModelEvents, answer: Any, at: str) -> None:
    with pytest.raises(ConfigError) as error:
        here.thalamus.response(answer)
    assert error.value.at == at
    assert here.events == []


def test_an_sdk_object_that_fails_is_refused(here: ModelEvents) -> None:
    class Broken:
        def model_dump(self, **_: Any) -> Any:
            raise RuntimeError("no")

    with pytest.raises(ConfigError, match="RuntimeError"):
        here.thalamus.response(Broken())


@pytest.mark.parametrize(
    ("names", "at"),
    [
        ({"instance": ""}, "instance"),
        ({"namespace": "a\x00"}, "namespace"),
        ({"call_id": "x" * 257}, "callId"),
        ({"provider": 5}, "provider"),
    ],
)
def test_names_that_cannot_be_used_are_refused(here: ModelEvents, names: Any, at: str) -> None:
    with pytest.raises(ConfigError) as error:
        here.thalamus.response(CHAT, **names)
    assert error.value.at == at


def test_a_hostile_model_name_is_made_harmless(here: ModelEvents) -> None:
    event = here.thalamus.response({**CHAT, "model": f"gpt\x1b[2J\u202e {SECRET} " + "x" * 900})
    assert isinstance(event, LlmResponse)
    assert event.model.isprintable()
    assert SECRET not in event.model
    assert len(event.model) <= 260


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@st.composite
def disturbed(draw: st.DrawFn) -> Any:
    """Return a real answer in which one value, at any depth, is replaced."""
    answer = copy.deepcopy(draw(st.sampled_from([answer for answer, _, _ in ANSWERS.values()])))
    place: Any = answer
    while True:
        step = draw(st.sampled_from(sorted(place)) if isinstance(place, dict) else st.integers(0, len(place) - 1))
        inner = place[step]
        if not (isinstance(inner, dict | list) and inner) or draw(st.booleans()):
            place[step] = draw(JSON)
            return answer
        place = inner


@settings(max_examples=150, deadline=None)
@given(JSON | disturbed())
def test_any_input_raises_only_config_errors_and_events_can_be_encoded(answer: Any) -> None:
    here = ModelEvents()
    with suppress(ConfigError):
        here.thalamus.response(answer)
    for event in here.events:
        encode(event)


# --- errors ----------------------------------------------------------------------------------------------


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("rate limited", "rate limited"),
        (TimeoutError("read timed out"), "TimeoutError: read timed out"),
        (ConnectionResetError(), "ConnectionResetError"),
        (Mute(), "Mute"),
        (
            {"error": {"type": "rate_limit_error", "message": "slow down"}, "type": "error"},
            "rate_limit_error: slow down",
        ),
        (
            {"error": {"code": 503, "message": "The model is overloaded", "status": "UNAVAILABLE"}},
            "UNAVAILABLE: The model is overloaded",
        ),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"error": {"odd": [1]}}, "{'error':{'odd':[1]}}"),
        ("two\nlines\x1b[2J\u202e", "two lines[2J"),
    ],
)
def test_errors_become_text(here: ModelEvents, error: Any, said: str) -> None:
    event = here.thalamus.error("anthropic", error, will_retry=True, instance="mira")
    assert here.events == [event]
    assert (event.provider, event.error, event.will_retry, event.instance) == ("anthropic", said, True, "mira")


def test_errors_are_redacted_and_cut(here: ModelEvents) -> None:
    said = here.thalamus.error("openai", f"Incorrect API key provided: {SECRET}. " + "x" * 100_000).error
    assert SECRET not in said
    assert "[redacted]" in said
    assert len(said) <= 260


@pytest.mark.parametrize("error", [None, 5, ["x"]])
def test_value_that_is_not_an_error_is_refused(here: ModelEvents, error: Any) -> None:
    with pytest.raises(ConfigError) as fault:
        here.thalamus.error("openai", error)
    assert fault.value.at == "error"


@pytest.mark.parametrize(
    "answer",
    [
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {**RESPONSES, "status": "failed", "error": {"code": "server_error", "message": "Overloaded"}, "usage": None},
    ],
)
def test_error_answer_emits_an_error(here: ModelEvents, answer: Any) -> None:
    event = here.thalamus.response(answer, provider="some")
    assert isinstance(event, LlmError)
    assert event.error.endswith("Overloaded")
    assert event.provider == "some"
    assert not event.will_retry


# --- tokens and streams ----------------------------------------------------------------------------------


def test_pieces_are_emitted_without_secrets(here: ModelEvents) -> None:
    for delta in ("Hel", "", "lo\n", f"key {SECRET}", "x" * 2 * MAX_DELTA):
        here.thalamus.token(delta, instance="mira")
    assert len(here.events) == 4
    assert here.text().startswith("Hello\nkey [redacted]x")
    assert len(here.text()) < MAX_DELTA + 50
    with pytest.raises(ConfigError) as error:
        here.thalamus.token(b"x")  # type: ignore[arg-type]
    assert error.value.at == "delta"


@pytest.mark.parametrize("shape", STREAMS)
@pytest.mark.parametrize("made", [dict, Model])
def test_stream_emits_pieces_and_the_answer(here: ModelEvents, shape: str, made: Any) -> None:
    chunks = [made(chunk) for chunk in STREAMS[shape]]
    whole = AnswerAssembly()
    assert list(here.thalamus.stream(iter(chunks), instance="mira", assembly=whole)) == chunks
    assert here.text() == "To both."
    last = here.events[-1]
    assert isinstance(last, LlmResponse)
    assert (last.provider, last.model, last.tokens) == (*ANSWERS[shape][1:], 342)
    assert {event.instance for event in here.events} == {"mira"}
    calls = Wernicke(Corpus()).read(whole.answer)
    assert [(call.name, call.args, call.call_id) for call in calls] == [
        ("message", ANDY, "call_1"),
        ("message", BERT, "call_2"),
    ]


def test_asynchronous_stream_is_read(here: ModelEvents) -> None:
    async def chunks() -> AsyncIterator[Any]:
        for chunk in STREAMS["messages"]:
            yield chunk

    async def read() -> list[Any]:
        return [chunk async for chunk in here.thalamus.astream(chunks(), provider="bedrock")]

    assert asyncio.run(read()) == STREAMS["messages"]
    assert here.text() == "To both."
    assert isinstance(here.events[-1], LlmResponse)
    assert here.events[-1].provider == "bedrock"


def test_stream_that_stops_early_emits_the_part_that_arrived(here: ModelEvents) -> None:
    stream = here.thalamus.stream(STREAMS["messages"])
    for _ in range(4):
        next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert here.text() == "To "
    assert isinstance(here.events[-1], LlmResponse)
    assert here.events[-1].tokens == 313


def test_stream_of_a_cancelled_task_emits_the_part_that_arrived(here: ModelEvents) -> None:
    reached = asyncio.Event()

    async def chunks() -> AsyncIterator[Any]:
        for chunk in STREAMS["messages"][:4]:
            yield chunk
        reached.set()
        await asyncio.Event().wait()

    async def read() -> list[Any]:
        return [chunk async for chunk in here.thalamus.astream(chunks())]

    async def give_up() -> None:
        task = asyncio.create_task(read())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    assert here.text() == "To "
    assert isinstance(here.events[-1], LlmResponse)
    assert here.events[-1].tokens == 313


def _breaks(chunks: list[Any]) -> Iterator[Any]:
    yield from chunks
    raise ConnectionResetError("by peer")


def test_failed_stream_emits_an_error_and_raises(here: ModelEvents) -> None:
    with pytest.raises(ConnectionResetError):
        list(here.thalamus.stream(_breaks(STREAMS["messages"][:4])))
    (last,) = [event for event in here.events if not isinstance(event, LlmToken)]
    assert isinstance(last, LlmError)
    assert (last.provider, last.error) == ("anthropic", "ConnectionResetError: by peer")


@pytest.mark.parametrize(
    "chunk",
    [
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"type": "error", "code": "server_error", "message": "Overloaded", "param": None},
        {"error": {"message": "Overloaded"}},
    ],
)
def test_error_inside_a_stream_is_emitted(here: ModelEvents, chunk: Any) -> None:
    list(here.thalamus.stream([*STREAMS["messages"][:4], chunk]))
    assert isinstance(here.events[-1], LlmError)
    assert here.events[-1].error.endswith("Overloaded")


@pytest.mark.parametrize("chunks", [[], [None, "[DONE]", 5, {"type": "ping"}]])
def test_stream_of_an_unknown_api_passes_unreported(here: ModelEvents, chunks: list[Any]) -> None:
    assert list(here.thalamus.stream(chunks)) == chunks
    assert here.events == []


def test_a_streamed_answer_with_bad_usage_is_logged(here: ModelEvents, caplog: pytest.LogCaptureFixture) -> None:
    chunks = [*STREAMS["chat"][:2], {"choices": [], "usage": {"total_tokens": "many"}}]
    assert list(here.thalamus.stream(chunks)) == chunks
    assert "answer.usage.total_tokens" in caplog.text


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([chunk for chunks in STREAMS.values() for chunk in chunks]) | JSON, max_size=12),
    st.randoms(),
)
def test_any_stream_can_be_read(chunks: list[Any], random: Any) -> None:
    """Pieces of all APIs arrive in any order, with anything in between."""
    chunks = copy.deepcopy(chunks)
    for chunk in chunks:
        if isinstance(chunk, dict) and chunk and random.random() < 0.5:
            chunk[random.choice(sorted(chunk))] = random.choice([None, 5, "x", [], {}, [{}], {"x": [None]}])
    here, whole = ModelEvents(), AnswerAssembly()
    assert list(here.thalamus.stream(chunks, assembly=whole)) == chunks
    if whole.answer is not None:
        Wernicke(Corpus()).read(whole.answer)


def test_a_stream_without_end_takes_no_more_memory() -> None:
    whole = AnswerAssembly()
    piece = {"index": 0, "function": {"name": "x", "arguments": "y" * 1000}}
    for index in range(5000):
        whole.take({"choices": [{"index": index, "delta": {"tool_calls": [{**piece, "index": index % 7}]}}]})
        whole.take({"choices": [{"index": index % 999, "delta": {"tool_calls": [{**piece, "index": index % 998}]}}]})
    assert sum(len(call["function"]["arguments"]) for call in whole._parts.values()) == MAX_ARGUMENTS
    assert len(whole._parts) <= 1000
