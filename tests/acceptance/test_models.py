"""Model traffic over real HTTP: servers with the providers' APIs answer, and the regions read the answers."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

import pytest

from callosum.answers import AnswerAssembly
from callosum.corpus.bus import Corpus
from callosum.corpus.events import CorpusEvent, LlmResponse, LlmToken, ToolParsed
from callosum.regions.models import Thalamus
from callosum.regions.parsing import Wernicke
from tests.e2e.models import ToolUse, model

CALLS = (ToolUse("Bash", {"command": "ls"}), ToolUse("Read", {"file_path": "/a"}))


def post(address: str, path: str, body: Any) -> bytes:
    line = HTTPConnection(address.removeprefix("http://"), timeout=20)
    try:
        line.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        return line.getresponse().read()
    finally:
        line.close()


def events_of(data: bytes) -> list[Any]:
    """Yield the decoded events of a stream."""
    lines = data.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


def anthropic(text: str, *, stream: bool) -> tuple[str, Any]:
    body = {"model": "claude-sonnet-4", "stream": stream, "tools": [{"name": "Bash"}]}
    return "/v1/messages", {**body, "messages": [{"role": "user", "content": text}]}


def gemini(text: str, *, stream: bool) -> tuple[str, Any]:
    way = "streamGenerateContent?alt=sse" if stream else "generateContent"
    body = {"tools": [{}], "contents": [{"role": "user", "parts": [{"text": text}]}]}
    return f"/v1beta/models/fake:{way}", body


def openai(text: str, *, stream: bool) -> tuple[str, Any]:
    return "/v1/responses", {
        "model": "gpt-5",
        "stream": True,
        "tools": [{}],
        "input": [{"role": "user", "content": text}],
    }


@pytest.mark.parametrize(
    ("asks", "stream", "provider"),
    [
        (anthropic, False, "anthropic"),
        (anthropic, True, "anthropic"),
        (gemini, False, "google"),
        (gemini, True, "google"),
        (openai, True, "openai"),
    ],
)
def test_answer_of_a_provider_is_emitted(asks: Any, stream: bool, provider: str) -> None:
    corpus = Corpus()
    seen: list[CorpusEvent] = []
    corpus.on("llm.*", lambda _, event: seen.append(event))
    corpus.on("tool.*", lambda _, event: seen.append(event))
    thalamus, wernicke = Thalamus(corpus), Wernicke(corpus)

    def ask(address: str, text: str) -> Any:
        """Ask as a host does: report the answer and parse it."""
        path, body = asks(text, stream=stream)
        data = post(address, path, body)
        if not stream:
            answer = json.loads(data)
            thalamus.response(answer, instance="mira")
            return wernicke.read(answer, instance="mira")
        whole = AnswerAssembly()
        assert list(thalamus.stream(events_of(data), instance="mira", assembly=whole))
        return wernicke.read(whole.answer, instance="mira")

    with model() as scripted:
        calls = ask(scripted.address, scripted.script("alpha", CALLS))
        assert [(call.name, call.args) for call in calls] == [
            ("Bash", {"command": "ls"}),
            ("Read", {"file_path": "/a"}),
        ]
        assert all(call.call_id for call in calls)
        assert ask(scripted.address, "Hello") == ()
    responses = [event for event in seen if isinstance(event, LlmResponse)]
    assert [(event.provider, event.tokens) for event in responses] == [(provider, 15)] * 2
    assert [event.calls for event in seen if isinstance(event, ToolParsed)] == [calls]
    said = "".join(event.delta for event in seen if isinstance(event, LlmToken))
    assert said == ("Done after 0." if stream and provider != "openai" else "")
