"""Model traffic over real HTTP: servers that speak the providers' APIs answer, and the regions read what came."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from callosum.answers import Assembly
from callosum.corpus.bus import Corpus
from callosum.corpus.events import CorpusEvent, LlmResponse, LlmToken, ToolParsed
from callosum.regions.models import Thalamus
from callosum.regions.parsing import Wernicke
from tests.acceptance.command import ROOT

FAKES = ROOT.parent / "shared" / "hosts" / "fakes"
CALLS = 'CALLS:[[{"name": "Bash", "input": {"command": "ls"}}, {"name": "Read", "input": {"file_path": "/a"}}]]'


@contextmanager
def serving(name: str, folder: Path) -> Iterator[int]:
    """A server of a provider's API on loopback; its port."""
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, FAKES / name], env={"PORT": str(port), "LOG": str(folder), "PATH": "/usr/bin:/bin"}
    )
    try:
        ends = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < ends
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        yield port
    finally:
        process.kill()
        process.wait()


def post(port: int, path: str, body: Any) -> bytes:
    line = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        line.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        return line.getresponse().read()
    finally:
        line.close()


def events_of(data: bytes) -> list[Any]:
    """The decoded events of a stream."""
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
    ("server", "asks", "stream", "provider"),
    [
        ("fake_anthropic.py", anthropic, False, "anthropic"),
        ("fake_anthropic.py", anthropic, True, "anthropic"),
        ("fake_gemini.py", gemini, False, "google"),
        ("fake_gemini.py", gemini, True, "google"),
        ("fake_openai.py", openai, True, "openai"),
    ],
)
def test_what_a_provider_answers_is_told(tmp_path: Path, server: str, asks: Any, stream: bool, provider: str) -> None:
    corpus = Corpus()
    seen: list[CorpusEvent] = []
    corpus.on("llm.*", lambda _, event: seen.append(event))
    corpus.on("tool.*", lambda _, event: seen.append(event))
    thalamus, wernicke = Thalamus(corpus), Wernicke(corpus)

    def ask(port: int, text: str) -> Any:
        """As a host does it: the answer, told and read."""
        path, body = asks(text, stream=stream)
        data = post(port, path, body)
        if not stream:
            answer = json.loads(data)
            thalamus.response(answer, instance="mira")
            return wernicke.read(answer, instance="mira")
        whole = Assembly()
        assert list(thalamus.stream(events_of(data), instance="mira", assembly=whole))
        return wernicke.read(whole.answer, instance="mira")

    with serving(server, tmp_path) as port:
        calls = ask(port, CALLS)
        assert [(call.name, call.args) for call in calls] == [
            ("Bash", {"command": "ls"}),
            ("Read", {"file_path": "/a"}),
        ]
        assert all(call.call_id for call in calls)
        assert ask(port, "Hello") == ()
    responses = [event for event in seen if isinstance(event, LlmResponse)]
    assert [(event.provider, event.tokens) for event in responses] == [(provider, 15)] * 2
    assert [event.calls for event in seen if isinstance(event, ToolParsed)] == [calls]
    said = "".join(event.delta for event in seen if isinstance(event, LlmToken))
    assert said.startswith("FINAL") if stream and provider != "openai" else not said
