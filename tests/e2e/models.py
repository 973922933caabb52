"""A model that says what a test tells it, in the words of the three APIs that the hosts speak. Loopback alone.

A conversation is known by its name, which stands in double square brackets in its first prompt: ``[[alpha]]``. Its
script is a list of turns, each a list of tool calls that are made at once; after the last turn the model says that it
is done. A turn may wait for an event of the test's, so that two sessions come to act at the same time.
"""

import json
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

SECONDS = 60.0
_NAME = re.compile(r"\[\[([a-z0-9-]+)\]\]")


class ToolUse(NamedTuple):
    """A tool call of the model's. ``text``: the input of a tool that takes free text (Codex's ``apply_patch``)."""

    tool: str
    input: dict[str, Any]
    text: str | None = None
    id: str = ""
    """The call's id, where a test names it (the API of Anthropic alone)."""


class Turn(NamedTuple):
    """Calls that are made at once, when ``after`` has happened."""

    calls: Sequence[ToolUse]
    after: threading.Event | None = None


class Model:
    """The server, its scripts, and all that it was asked."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.scripts: dict[str, list[Turn]] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.when: list[tuple[str, float]] = []
        """The conversation of each request and when it came, on the clock of ``time.perf_counter``, in seconds."""
        self.reached: dict[tuple[str, int], threading.Event] = {}
        self.failing = 0
        """Number of the next requests that are answered with an error of the server."""
        self.sizes: dict[str, int] = {}
        """By conversation, how many tokens its requests are said to have; 10 where nothing is said."""

    def script(self, name: str, *turns: Sequence[ToolUse] | Turn) -> str:
        """Set the script of a conversation; return the prompt that begins it."""
        self.scripts[name] = [turn if isinstance(turn, Turn) else Turn(turn) for turn in turns]
        for place in range(len(turns) + 1):
            self.reached[name, place] = threading.Event()
        return f"Do the work of [[{name}]]."

    def fails(self) -> bool:
        """Return whether this request fails."""
        failing = self.failing > 0
        self.failing -= failing
        return failing

    def heard(self, name: str) -> str:
        """All that the model was shown in a conversation, as one text."""
        return "\n".join(json.dumps(body, ensure_ascii=False) for asked, body in self.asked if asked == name)

    def wait(self, name: str, turn: int) -> None:
        """Wait until a conversation has requested this turn (counted from 0)."""
        assert self.reached[name, turn].wait(SECONDS), f"{name} never came to turn {turn}"

    def turn(self, name: str, done: int, body: dict[str, Any]) -> Sequence[ToolUse]:
        """The calls of the turn after ``done`` ones."""
        self.when.append((name, time.perf_counter()))
        self.asked.append((name, body))
        turns = self.scripts.get(name, [])
        reached = self.reached.get((name, done))
        if reached is not None:
            reached.set()
        if done >= len(turns):
            return ()
        calls, after = turns[done]
        if after is not None:
            after.wait(SECONDS)
        return calls


def _name_in(texts: Iterable[str]) -> str:
    return next((found[1] for text in texts if (found := _NAME.search(text))), "")


Event = tuple[str, dict[str, Any]]


def _anthropic(model: Model, body: dict[str, Any]) -> dict[str, Any]:
    texts, done = [], 0
    for message in body.get("messages", ()):
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts += [part["text"] for part in parts if part.get("type") == "text" and message["role"] == "user"]
        done += any(part.get("type") == "tool_result" for part in parts)
    name = _name_in(texts)
    calls = model.turn(name, done, body) if body.get("tools") else ()
    blocks: list[dict[str, Any]] = [
        {"type": "tool_use", "id": call.id or f"toolu_{done}_{index}", "name": call.tool, "input": call.input}
        for index, call in enumerate(calls)
    ]
    usage = {
        "input_tokens": model.sizes.get(name, 10),
        "output_tokens": 5,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    return {
        "id": f"msg_{len(model.asked)}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": blocks or [{"type": "text", "text": f"Done after {done}."}],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def _streamed(message: dict[str, Any]) -> Iterator[Event]:
    """The events in which a message of the first API arrives."""
    yield "message_start", {"message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        empty: dict[str, Any] = {"input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block.get("input"))}
        if block["type"] == "text":
            empty, delta = {"text": ""}, {"type": "text_delta", "text": block["text"]}
        yield "content_block_start", {"index": index, "content_block": {**block, **empty}}
        yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"delta": ending, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield "message_stop", {}


def _openai(model: Model, body: dict[str, Any]) -> Iterator[Event]:
    texts, results, offered = [], 0, bool(body.get("tools"))
    for item in body.get("input", ()):
        kind = item.get("type")
        if item.get("role") == "user":
            content = item.get("content")
            texts += [content] if isinstance(content, str) else [part.get("text", "") for part in content]
        results += kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
        offered = offered or kind == "additional_tools"
    name = _name_in(texts)
    done, left = 0, results
    for turn in model.scripts.get(name, ()):
        if left < len(turn.calls):
            break
        left, done = left - len(turn.calls), done + 1
    calls = model.turn(name, done, body) if offered else ()
    items: list[dict[str, Any]] = []
    for index, call in enumerate(calls):
        folder, _, tool = call.tool.rpartition(".")
        known = {"call_id": f"call_{done}_{index}", "name": tool, "status": "completed"}
        if folder:  # of a tool in a namespace: multi_agent_v1.spawn_agent
            known["namespace"] = folder
        if call.text is not None:
            items.append({"type": "custom_tool_call", "id": f"ctc_{done}_{index}", "input": call.text, **known})
        else:
            arguments = json.dumps(call.input)
            items.append({"type": "function_call", "id": f"fc_{done}_{index}", "arguments": arguments, **known})
    if not items:
        said = {"type": "output_text", "text": f"Done after {done}.", "annotations": []}
        items = [{"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [said]}]
    response = {"id": f"resp_{len(model.asked)}"}
    yield "response.created", {"response": {**response, "status": "in_progress"}}
    for index, item in enumerate(items):
        yield "response.output_item.added", {"output_index": index, "item": item}
        yield "response.output_item.done", {"output_index": index, "item": item}
    size = model.sizes.get(name, 10)
    counted = {"input_tokens": size, "output_tokens": 5, "total_tokens": size + 5}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    yield (
        "response.completed",
        {"response": {**response, "status": "completed", "output": items, "usage": {**counted, **details}}},
    )


def _gemini(model: Model, body: dict[str, Any]) -> dict[str, Any]:
    texts, done = [], 0
    for content in body.get("contents", ()):
        parts = content.get("parts", ())
        texts += [part.get("text") or "" for part in parts if content.get("role") == "user"]
        done += any("functionResponse" in part for part in parts)
    asks_json = "json" in str(body.get("generationConfig", {}).get("responseMimeType"))
    name = _name_in(texts)
    calls = model.turn(name, done, body) if body.get("tools") and not asks_json else ()
    parts = [
        {"functionCall": {"id": f"fc_{done}_{index}", "name": call.tool, "args": call.input}}
        for index, call in enumerate(calls)
    ]
    if asks_json:
        parts = [{"text": json.dumps({"reasoning": "no", "next_speaker": "user", "model_choice": "pro"})}]
    candidate = {
        "content": {"role": "model", "parts": parts or [{"text": f"Done after {done}."}]},
        "finishReason": "STOP",
        "index": 0,
    }
    size = model.sizes.get(name, 10)
    usage = {"promptTokenCount": size, "candidatesTokenCount": 5, "totalTokenCount": size + 5}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted", "responseId": "r"}


_ASKING = ("/v1/messages", "/responses", "enerateContent")
_BROKEN = b'{"type": "error", "error": {"type": "api_error", "message": "Internal server error"}}'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def log_message(self, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        self._send(b'{"object": "list", "data": [], "models": []}')

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        body = json.loads(self._body() or b"{}")
        if path.endswith(_ASKING) and self.model.fails():
            self._send(_BROKEN, status=500 if path.endswith("/v1/messages") else 503)
        elif path.endswith("count_tokens") or "countTokens" in path:
            self._send(b'{"input_tokens": 10, "totalTokens": 10}')
        elif path.endswith("/v1/messages"):
            message = _anthropic(self.model, body)
            if body.get("stream"):
                self._stream(_streamed(message))
            else:
                self._send(json.dumps(message).encode())
        elif path.endswith("/responses"):
            self._stream(_openai(self.model, body))
        elif "generateContent" in path or "streamGenerateContent" in path:
            answer = json.dumps(_gemini(self.model, body)).encode()
            if "stream" in path:
                self._send(b"data: " + answer + b"\r\n\r\n", "text/event-stream")
            else:
                self._send(answer)
        else:
            self._send(b"{}")

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        found = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _stream(self, events: Iterator[Event]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for name, payload in events:
            self.wfile.write(f"event: {name}\ndata: {json.dumps({**payload, 'type': name})}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True

    def _send(self, content: bytes, kind: str = "application/json", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def model() -> Iterator[Model]:
    """A model for the length of a block."""
    handler = type("_Bound", (_Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    made = Model(f"http://127.0.0.1:{server.server_address[1]}")
    handler.model = made  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, name="model")
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join(SECONDS)
        server.server_close()
