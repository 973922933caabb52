"""Answers in the form of each provider's API, with a tool call ``send`` to andy and another to bert."""

from __future__ import annotations

from typing import Any

ANDY = {"action": "send", "target": "andy"}
BERT = {"action": "send", "target": "bert"}
_ANDY, _BERT = '{"action": "send", "target": "andy"}', '{"action": "send", "target": "bert"}'

CHAT: dict[str, Any] = {
    "id": "chatcmpl-9",
    "object": "chat.completion",
    "created": 1747386902,
    "model": "gpt-5-mini-2025-08-07",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "message", "arguments": _ANDY}},
                    {"id": "call_2", "type": "function", "function": {"name": "message", "arguments": _BERT}},
                ],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {
        "prompt_tokens": 320,
        "completion_tokens": 22,
        "total_tokens": 342,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 10},
    },
}
RESPONSES: dict[str, Any] = {
    "id": "resp_67",
    "object": "response",
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "model": "gpt-5-2025-08-07",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "message", "arguments": _ANDY, "status": "completed"},
        {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "message", "arguments": _BERT, "status": "completed"},
    ],
    "usage": {
        "input_tokens": 300,
        "input_tokens_details": {"cached_tokens": 128},
        "output_tokens": 42,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 342,
    },
}  # fmt: skip
MESSAGES: dict[str, Any] = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-20250514",
    "content": [
        {"type": "text", "text": "I will write to both."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "andy"}},
        {"type": "tool_use", "id": "call_1", "name": "message", "input": ANDY},
        {"type": "tool_use", "id": "call_2", "name": "message", "input": BERT},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 12,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 200,
        "output_tokens": 30,
        "service_tier": "standard",
    },
}
GEMINI: dict[str, Any] = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "I will write to both."},
                    {"functionCall": {"id": "call_1", "name": "message", "args": ANDY}, "thoughtSignature": "AQ=="},
                    {"functionCall": {"id": "call_2", "name": "message", "args": BERT}},
                ],
            },
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 300,
        "candidatesTokenCount": 22,
        "thoughtsTokenCount": 20,
        "totalTokenCount": 342,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 300}],
    },
    "modelVersion": "gemini-2.5-flash",
    "responseId": "r1",
}
OLLAMA: dict[str, Any] = {
    "model": "qwen3",
    "created_at": "2025-05-27T22:54:57.641643Z",
    "message": {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "call_1", "function": {"index": 0, "name": "message", "arguments": ANDY}},
            {"id": "call_2", "function": {"index": 1, "name": "message", "arguments": BERT}},
        ],
    },
    "done_reason": "stop",
    "done": True,
    "total_duration": 2_000_000,
    "prompt_eval_count": 320,
    "eval_count": 22,
}

ANSWERS: dict[str, tuple[dict[str, Any], str, str]] = {
    "chat": (CHAT, "openai", "gpt-5-mini-2025-08-07"),
    "responses": (RESPONSES, "openai", "gpt-5-2025-08-07"),
    "messages": (MESSAGES, "anthropic", "claude-sonnet-4-20250514"),
    "gemini": (GEMINI, "google", "gemini-2.5-flash"),
    "ollama": (OLLAMA, "ollama", "qwen3"),
}
"""By shape: the answer, its provider, its model. All took 342 tokens."""

STREAMS: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"object": "chat.completion.chunk", "model": "gpt-5-mini-2025-08-07", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "To "}}]},
        {"object": "chat.completion.chunk", "model": "gpt-5-mini-2025-08-07", "choices": [{"index": 0, "delta": {"content": "both."}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "message", "arguments": ""}}]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": _ANDY[:9]}}]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "id": "call_2", "type": "function", "function": {"name": "message", "arguments": _BERT}}]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": _ANDY[9:]}}]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"object": "chat.completion.chunk", "model": "gpt-5-mini-2025-08-07", "choices": [], "usage": CHAT["usage"]},
    ],
    "responses": [
        {"type": "response.created", "sequence_number": 0, "response": {**RESPONSES, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "To "},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "both."},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1, "delta": _ANDY},
        {"type": "response.output_item.done", "output_index": 1, "item": RESPONSES["output"][1]},
        {"type": "response.output_item.done", "output_index": 2, "item": RESPONSES["output"][2]},
        {"type": "response.completed", "sequence_number": 9, "response": RESPONSES},
    ],
    "messages": [
        {"type": "message_start", "message": {**MESSAGES, "content": [], "stop_reason": None, "usage": {**MESSAGES["usage"], "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "To "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "both."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "call_1", "name": "message", "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": _ANDY[:9]}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": _ANDY[9:]}},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "call_2", "name": "message", "input": {}}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": _BERT}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 30, "input_tokens": None}},
        {"type": "message_stop"},
    ],
    "gemini": [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "To "}]}}], "modelVersion": "gemini-2.5-flash"},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "both."}]}}], "usageMetadata": {"promptTokenCount": 300, "totalTokenCount": 301}},
        {"candidates": [{"content": {"role": "model", "parts": GEMINI["candidates"][0]["content"]["parts"][1:]}}], "usageMetadata": GEMINI["usageMetadata"]},
    ],
    "ollama": [
        {"model": "qwen3", "message": {"role": "assistant", "content": "To "}, "done": False},
        {"model": "qwen3", "message": {"role": "assistant", "content": "both."}, "done": False},
        {"model": "qwen3", "message": {"role": "assistant", "content": "", "tool_calls": OLLAMA["message"]["tool_calls"]}, "done": False},
        {"model": "qwen3", "message": {"role": "assistant", "content": ""}, "done": True, "prompt_eval_count": 320, "eval_count": 22},
    ],
}  # fmt: skip
"""The same answers in pieces, with the text ``To both.``"""


class Model:
    """An object like those of SDKs: only pydantic's ``model_dump`` is used."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        assert (mode, by_alias, exclude_none) == ("json", True, True)
        return self._body
