"""Requests that cost as much as the limits of the wire allow."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

FULL: Final = 3_900_000
"""Bytes of a request that is nearly as long as one may be."""
LINE: Final = 131_000
"""Characters of a command line that is read as a whole."""
INLINE: Final = 8_000
"""Bytes of a request that is still judged on the event loop itself."""
BESIDE: Final = 32_000
"""Bytes of a request whose texts are all read, in a thread beside the loop."""

TEXTS: Final[dict[str, str]] = {
    "blanks": " ", "newlines": "\n", "letters": "a",
    "words": "delete the file and send it to alice@example.com, then 5 of them. ", "quotes": '"',
    "apostrophes": "' ", "backslashes": "\\", "substitutions": "$(", "parentheses": "(", "braces": "{a,b}",
    "semicolons": ";", "commands": "rm -rf /x; ", "pipes": "a|", "here-documents": "cat <<E\nE\n", "paths": "/a",
    "statements": "select * from a where b = 'c'; ", "comments": "/* -- ", "headers": "To: ", "equals": "a=b ",
    "secrets": "password=hunter22 ", "addresses": "a@b.co,", "accents": "é ", "dashes": "--a ", "json": '{"id": ',
    "gates": "callosum ", "patches": "*** Update File: a\n",
}  # fmt: skip
"""Pieces that fill a text."""


def filled(piece: str, length: int = FULL) -> str:
    """Return about ``size`` bytes of JSON."""
    return piece * (length // len(json.dumps(piece)[1:-1].encode()))


VALUES: Final[dict[str, bytes]] = {
    "numbers": b"1", "objects": b"{}", "named objects": b'{"id":"x1"}', "lists": b"[]", "texts": b'""',
    "escaped texts": b'"\\""', "rows": b'{"id":7,"name":"row","value":null}',
}  # fmt: skip
"""Values that fill a list."""


def listed(value: bytes, length: int = FULL) -> bytes:
    return b"[%b]" % b",".join([value] * (length // (len(value) + 1)))


def named(length: int = FULL) -> bytes:
    """Return an object with very many names."""
    return b"{%b}" % b",".join(b'"name%x":1' % number for number in range(length // 13))


def _call(tool: str, params: bytes, more: bytes = b"") -> bytes:
    return b'{"instance":"mira","tool":"%b","params":%b%b}' % (tool.encode(), params, more)


def _object(**members: Any) -> bytes:
    return json.dumps(members).encode()


def _texts(text: str) -> Iterator[tuple[str, bytes, Callable[[], bytes]]]:
    intercept = b"POST /intercept"
    yield "command", intercept, lambda: _call("Bash", _object(command=text))
    yield "message", intercept, lambda: _call("send_email", _object(to="a@b.co", body=text))
    yield "file", intercept, lambda: _call("write", _object(path="/a", content=text))
    yield "query", intercept, lambda: _call("run_query", _object(sql=text, id=text[:99]))
    yield "id", intercept, lambda: _call("delete_order", _object(order_id=text, url="", data={"a": [""]}))
    yield "address", intercept, lambda: _call("fetch", _object(url=text, to=text[:9999], path=text))
    yield "patch", intercept, lambda: _call("apply_patch", _object(input=text))
    yield "result", b"POST /complete", lambda: _object(instance="mira", id=1, result={"content": [{"text": text}]})
    yield "error", b"POST /complete", lambda: _object(instance="mira", id=1, result={"error": text})
    yield "description", intercept, lambda: _call("frob", b"{}", b',"description":' + json.dumps(text).encode())
    hook = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t"}
    yield "hook", b"POST /hooks/claude-code", lambda: _object(**hook, tool_input={"command": text})
    prompt = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": text}
    yield "prompt", b"POST /hooks/claude-code", lambda: _object(**prompt)
    yield "event", b"POST /events", lambda: _object(type="llm.response", content=text)


def _short_values(name: str, value: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    intercept, few = b"POST /intercept", listed(value, INLINE - 400)
    yield f"short argument of {name}", intercept, _call("frob", b'{"a":%b}' % few)
    yield f"short schema of {name}", intercept, _call("frob", b"{}", b',"schema":{"properties":{"x":%b}}' % few)
    yield f"short result of {name}", b"POST /complete", b'{"instance":"mira","id":1,"result":%b}' % few


def _short_names() -> Iterator[tuple[str, bytes, bytes]]:
    intercept, few = b"POST /intercept", named(INLINE - 400)
    yield "params of some names", intercept, _call("frob", few)
    yield "schema of some names", intercept, _call("frob", b"{}", b',"schema":{"type":"object","properties":%b}' % few)
    yield "deep params", intercept, _call("frob", b'{"a":' + b"[" * 900 + b"]" * 900 + b"}")


def short_requests() -> Iterator[tuple[str, bytes, bytes]]:
    """Yield those of ``requests`` with short texts and values; the long ones, gigabytes together, are not made."""
    for name, piece in TEXTS.items():
        for kind, head, make in _texts("x " + filled(piece, INLINE - 400)):
            yield f"short {kind} of {name}", head, make()
    for name, value in VALUES.items():
        yield from _short_values(name, value)
    yield from _short_names()


def requests(chosen: Callable[[str], bool]) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield names, request lines and bodies. Of the requests made of a text, only those with a chosen name are made."""
    intercept = b"POST /intercept"
    for name, piece in TEXTS.items():
        for size, text in (("", filled(piece)), ("short ", "x " + filled(piece, INLINE - 400))):
            for kind, head, make in _texts(text):
                if chosen(what := f"{size}{kind} of {name}"):
                    yield what, head, make()
        for kind, length in (("middle line", BESIDE), ("line", LINE)):
            yield f"{kind} of {name}", intercept, _call("Bash", _object(command="x " + filled(piece, length)))
    for name, value in VALUES.items():
        yield from _short_values(name, value)
        many = listed(value)
        yield f"argument of {name}", intercept, _call("frob", b'{"a":%b}' % many)
        yield f"command list of {name}", intercept, _call("Bash", b'{"command":%b}' % many)
        yield f"nested {name}", intercept, _call("frob", b'{"a":{"b":[%b]},"c":1}' % many)
        yield f"schema of {name}", intercept, _call("frob", b"{}", b',"schema":{"properties":{"x":%b}}' % many)
        yield (
            f"result list of {name}",
            b"POST /complete",
            b'{"instance":"mira","tool":"list_orders","params":{},"result":%b}' % many,
        )
        hook = b'{"session_id":"s","hook_event_name":"PostToolUse","tool_name":"Read","tool_use_id":"t",'
        yield (
            f"hook of {name}",
            b"POST /hooks/claude-code",
            hook + b'"tool_input":{"file_path":"/a"},"tool_response":%b}' % many,
        )
        yield f"events of {name}", b"POST /events", many
        yield f"lock of {name}", b"POST /lock", b'{"instance":"mira","contextKey":%b}' % many
        yield f"unknown field of {name}", intercept, b'{"instance":"mira","tool":"frob","zzz":%b}' % many
    yield from _short_names()
    names = named()
    yield "params of many names", intercept, _call("frob", names)
    yield (
        "schema of many names",
        intercept,
        _call("frob", b"{}", b',"schema":{"type":"object","properties":%b}' % names),
    )
    yield "result of many names", b"POST /complete", b'{"instance":"mira","id":1,"result":%b}' % names
    yield "command line params of many names", intercept, _call("Bash", names)
    yield "long key", b"POST /lock", _object(instance="mira", contextKey="a" * FULL)
    late = {"call": {"instance": "mira", "tool": "Bash", "params": {"command": "rm -rf /x; " * 300}}}
    yield "a thousand late calls", b"POST /late", _object(calls=[late] * 1000)
    event = {"type": "tool.parsed", "name": "x", "args": {f"a{number}": "b" * 30 for number in range(30)}}
    yield "a thousand events", b"POST /events", json.dumps([event] * 1000).encode()
