"""A model server on loopback in place of Anthropic's, for ``claude_agent_sdk_mail.py``."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODEL = "claude-sonnet-5"


def scripted(session: str) -> str:
    """Serve a model that sends a mail and is done, point Claude Code to it, and return the model's name."""
    mail = {"to": "alice@example.com", "body": f"Friday works, says {session}"}
    call = {"type": "tool_use", "id": f"{session}-1", "name": "mcp__desk__send_email", "input": {}}
    arguments = {"type": "input_json_delta", "partial_json": json.dumps(mail)}
    text, done = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            calls = bool(asked.get("tools")) and "tool_result" not in str(asked["messages"])
            message = {"id": "msg", "type": "message", "role": "assistant", "model": MODEL, "content": [], "usage": {}}
            end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for event in (
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": call if calls else text},
                {"type": "content_block_delta", "index": 0, "delta": arguments if calls else done},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
                {"type": "message_stop"},
            ):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ |= {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}", "ANTHROPIC_API_KEY": "none"}
    return MODEL
