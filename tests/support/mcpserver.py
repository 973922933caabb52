"""A small MCP server for the tests: it records every line it reads and does what its tools say.

``python mcpserver.py LOG``: LOG gets every line unchanged and proves what the server received.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

TOOLS = [
    {
        "name": "read_note",
        "description": "Reads a note.",
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "delete_database",
        "description": "Deletes a database for good.",
        "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        "annotations": {"destructiveHint": True},
    },
    {"name": "send_email", "description": "Sends an e-mail.", "inputSchema": {"type": "object"}},
    {"name": "frobnicate", "description": "Permanently deletes a repository.", "inputSchema": {"type": "object"}},
]

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)  # the process that runs the tests may ignore them

out = sys.stdout.buffer


def say(message: dict[str, Any]) -> None:
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def raw(data: bytes) -> None:
    out.write(data)
    out.flush()


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], **more}


waiting: dict[str, Any] = {}


def call(id: Any, params: dict[str, Any]) -> None:
    arguments = params.get("arguments") or {}
    act = arguments.get("act", "")
    if act == "wait":  # until the client releases it
        waiting[str(arguments.get("as", id))] = id
    elif act == "die":
        os._exit(7)
    elif act == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif act == "fail":
        say({"id": id, "result": text("no such thing", isError=True)})
    elif act == "error":
        say({"id": id, "error": {"code": -32602, "message": "unknown tool"}})
    elif act == "ask" and "inputResponses" not in params:
        say({"id": id, "result": {"resultType": "input_required", "requestState": "s"}})
    elif act == "task":
        say({"id": id, "result": {"task": {"taskId": "t-1", "status": "working"}}})
    elif act == "environment":
        say({"id": id, "result": text(json.dumps(sorted(os.environ)))})
    elif id is not None:
        say({"id": id, "result": text(f"done {params.get('name')}")})


def heed(message: dict[str, Any]) -> None:
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if not isinstance(params, dict):
        return
    if method == "initialize":
        info = {"name": "shop", "version": "1"}
        said: dict[str, Any] = {
            "protocolVersion": params.get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
        say({"id": id, "result": said})
    elif method == "tools/list":
        at = int(params.get("cursor") or 0)
        more = {"nextCursor": str(at + 1)} if at + 1 < len(TOOLS) else {}
        say({"id": id, "result": {"tools": [TOOLS[at]], **more}})
    elif method == "tools/call":
        call(id, params)
    elif method == "test/emit":
        raw(bytes.fromhex(params["hex"]))
    elif method == "test/release":
        say({"id": waiting.pop(params["as"]), "result": text("released")})
    elif method == "tasks/result":
        say({"id": id, "result": text("the task's result")})
    elif method == "test/tell":
        sys.stderr.write("a word on standard error\n")
        sys.stderr.flush()
        say({"id": id, "result": {}})
    elif id is not None and method is not None:
        say({"id": id, "result": {}})


def main() -> None:
    with Path(sys.argv[1]).open("ab", buffering=0) as log:
        for line in sys.stdin.buffer:
            log.write(line)
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, list):
                parts = [
                    {"jsonrpc": "2.0", "id": one["id"], "result": text("of a batch")}
                    for one in found
                    if one.get("id") is not None
                ]
                if parts:
                    raw(json.dumps(parts).encode() + b"\n")
            else:
                heed(found)
    sys.exit(int(os.environ.get("TEST_EXIT", "0")))


if __name__ == "__main__":
    main()
