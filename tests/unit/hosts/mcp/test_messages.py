"""Test how JSON-RPC lines and a user's headers are read, and how answers are written."""

import json
from typing import Any

import msgspec
import pytest

from callosum.errors import ConfigError
from callosum.hosts.mcp import messages
from callosum.hosts.mcp.headers import read_headers
from callosum.hosts.mcp.messages import AmbiguousMessage, MalformedMessage, Message


def single_message(line: bytes) -> Message:
    found = messages.read(line)
    assert isinstance(found, Message)
    return found


@pytest.mark.parametrize(
    ("written", "key"),
    [(b"1", 1), (b"1.0", 1), (b'"a"', "a"), (b'"\\u0061"', "a"), (b"null", None), (b"[1]", b"[1]"), (b"true", b"true")],
)
def test_id_is_found_in_every_spelling(written: bytes, key: object) -> None:
    assert single_message(b'{"id":%s,"method":"x"}' % written).key == key


def test_other_names_change_nothing() -> None:
    found = single_message(b' {"x":[{"method":"tools/call"}],"method":"ping","id":7}\r\n')
    assert (found.method, found.key, messages.raw_id(found)) == ("ping", 7, b"7")


@pytest.mark.parametrize(
    "line",
    [
        b'{"method":"tools/call","method":"ping","id":1}', b'{"method":"ping","method":"tools/call","id":1}',
        b'{"METHOD":"tools/call","id":1}', b'{"method":"ping","Method":"tools/call","id":1}',
        b'{"method":"ping","m\\u0065thod":"tools/call","id":1}', b'{"method":"Tools/Call","id":1}',
        b'{"method":"Tools\\/Call","id":1}',
        b'{"method":"tools/call","params":{"name":"ls"},"Params":{"name":"rm"},"id":1}',
        b'{"method":"tools/call","params":{"name":"ls"},"params":{"name":"rm"},"id":1}',
        b'[{"method":"ping","id":1},{"method":"tools/call","method":"ping","id":2}]',
        b'{"method":"tools/call","method":"ping","id":1,"x":"\\ud800"}',
    ],
)  # fmt: skip
def test_message_that_a_server_may_read_otherwise_is_refused(line: bytes) -> None:
    with pytest.raises(AmbiguousMessage):
        messages.read(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"method":"tools/call","id":1,"params":{"name":"http","arguments":{"method":"GET","METHOD":1,"id":2}}}',
        b'[{"method":"ping","id":1},{"method":"ping","id":2}]',
        b'{"method":"tools/call","id":1,"params":{"name":"a","arguments":{"text":"\\u0041 Tools/Call"}}}',
    ],
)
def test_names_below_the_top_level_are_the_servers_own(line: bytes) -> None:
    assert messages.read(line) is not None


@pytest.mark.parametrize("line", [b"", b"  \r\n"])
def test_empty_line_is_no_message(line: bytes) -> None:
    assert messages.read(line) is None


DEEP = b"[" * 50_000 + b"]" * 50_000


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense", b"\xff", b'{"method":5}', b'{"id":1,"method":"x"', b'{"method":"x","params":%s}' % DEEP, b"[1]",
        b"7",
    ],
)  # fmt: skip
def test_malformed_message_is_rejected(line: bytes) -> None:
    with pytest.raises(MalformedMessage):
        messages.read(line)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"method":"tools/call","id":3,"params":{"name":"t","arguments":%s}}' % DEEP, (b"3", "t", False)),
        (b'{"id":"a","params":{"arguments":%s,"name":"t"},"method":"tools\\/call"}' % DEEP, (b'"a"', "t", False)),
        (b'{"method":"tools/call","id":1,"params":{"name":"\xff"}', (b"1", "\ufffd", False)),
        (b'{"method":"tools/call"', (b"null", "?", False)),
        (b'{"method":"tools/call","id":{]', (b"null", "?", False)),
        (b'[{"method":"tools\\u002fcall","id":1},%s]' % DEEP, (b"null", "?", False)),
        (b'{"method":"ping","params":{"method":"tools/call"},"id":%s}' % DEEP, None),
        (b'{"params":"tools/call"', None),
        (b'{"method":"ping","id":1}\r{"method":"tools\\/call","id":2}', (b"null", "?", False)),
        (b'{"method":"ping","id":1} {"method":"ping","id":2}', None),
        (b'\xef\xbb\xbf{"method":"tools/call","id":2}', (b"2", "?", False)),
        (b"tools/call", None),
        (b"", None),
    ],
)
def test_call_is_found_in_an_unreadable_line(line: bytes, found: object) -> None:
    assert messages.call_inside(line) == found


def test_protocol_of_an_unreadable_call_is_found() -> None:
    meta = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
    line = b'{"method":"tools/call","id":1,"params":{"arguments":%s,"_meta":%s,"name":"t"}}' % (DEEP, meta)
    assert messages.call_inside(line) == (b"1", "t", True)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        (b'{"a":"x\\ud83d","b":"\\\\ud83d \\ud83d\\ude00"}', {"a": "x\ufffdd83d", "b": "\\ud83d \U0001f600"}),
        (b'{"a":"x\xff"}', {"a": "x\ufffddcff"}),
        (b'{"a":1,"a":2}', {"a": 2, "callosum:readings": [["t", {"a": 1}]]}),
    ],
)
def test_32_b6_arguments_that_are_no_clean_json_are_read(arguments: bytes, read: dict[str, object]) -> None:
    params = messages.params_of(single_message(b'{"params":{"name":"t","arguments":%s}}' % arguments))
    assert params is not None
    assert messages.arguments_of(params) == read


def test_32_b6_params_that_name_the_tool_twice_are_refused() -> None:
    written = b'{"name":"ls","name":"rm","arguments":{}}'
    params = messages.params_of(single_message(b'{"params":%s}' % written))
    assert params is not None
    with pytest.raises(MalformedMessage, match="'name' occurs twice"):
        messages.arguments_of(params, written)


@pytest.mark.parametrize(
    ("written", "found"),
    [(b"null", {}), (b'{"a":1}', {"a": 1}), (b'"text"', {"arguments": "text"}), (b"[1]", {"arguments": [1]})],
)
def test_arguments_always_have_names(written: bytes, found: object) -> None:
    params = messages.params_of(single_message(b'{"params":{"name":"t","arguments":%s}}' % written))
    assert params is not None
    assert messages.arguments_of(params) == found


def test_params_of_another_form_are_left_to_the_server() -> None:
    for params in (b"[]", b'{"name":5}', b"{}", b'"x"'):
        assert messages.params_of(single_message(b'{"params":%s}' % params)) is None


def test_text_is_appended_and_everything_else_stays() -> None:
    line = (
        b'{"jsonrpc":"2.0","result":{"n":1.50,"content":[ {"type":"text","text":"\\u0061"} ],"isError":false},"id":1}'
    )
    told = messages.with_text(line, 'a "word"')
    assert told is not None
    assert b'"n":1.50' in told
    assert b'"\\u0061"' in told
    result = json.loads(told)["result"]
    assert [block["text"] for block in result["content"]] == ["a", 'a "word"']


@pytest.mark.parametrize("result", [b"{}", b'{"content":5}', b"7"])
def test_result_without_content_gets_no_text(result: bytes) -> None:
    assert messages.with_text(b'{"id":1,"result":%s}' % result, "x") is None


def test_empty_content_gets_its_first_block() -> None:
    told = messages.with_text(b'{"id":1,"result":{"content":[]}}', "x")
    assert told is not None
    assert json.loads(told)["result"]["content"] == [{"type": "text", "text": "x"}]


@pytest.mark.parametrize(("failed", "said"), [(b"true", True), (b"false", False)])
def test_unreadable_answer_shows_its_id_and_whether_it_failed(failed: bytes, said: bool) -> None:
    found = messages.read_answer(b'{"id":"a","result":{"isError":%s,"deep":%s}}' % (failed, DEEP))
    assert isinstance(found, Message)
    assert found.key == "a"
    assert msgspec.json.decode(found.result) == {"isError": said}  # type: ignore[arg-type]


def test_malformed_answer_is_none() -> None:
    assert messages.read_answer(b"garbage") is None
    assert messages.read_answer(b'{"result":%s}' % DEEP) is None


ARGUMENTS = b'{"path" : "\\u002fa", "content":"mine", "n":1.0}'
LINE = b'{"id":7, "method":"tools/call","params":{"arguments":%s,"name":"write_file","_meta":{"x":1e0}}}\n'


def test_only_differing_arguments_are_replaced() -> None:
    params = {"path": "/a", "content": "mine", "n": 1.0}
    other = messages.replaced(LINE % ARGUMENTS, params, {**params, "content": 'mine\nand "yours"'})
    assert other is not None
    assert json.loads(other) == json.loads(LINE % ARGUMENTS.replace(b"mine", b'mine\\nand \\"yours\\"'))
    assert b'"\\u002fa"' in other
    assert b'{"x":1e0}' in other


@pytest.mark.parametrize(
    ("arguments", "by"),
    [
        (ARGUMENTS, {"path": "/a", "content": "x", "n": 1.0, "mode": "append"}),
        (ARGUMENTS, {"path": "/a", "content": "x"}),
        (b'"text"', {"content": "x"}),
    ],
    ids=["one more", "one less", "no object"],
)
def test_some_arguments_cannot_be_replaced(arguments: bytes, by: dict[str, Any]) -> None:
    params = {"path": "/a", "content": "mine", "n": 1.0}
    assert messages.replaced(LINE % arguments, params, by) is None


def test_first_round_is_the_call_without_responses() -> None:
    params = b'{"name":"deploy","inputResponses":{"a":{}},"arguments":{"host":1.0},"requestState":"s"}'
    line = messages.first_round(b'{"id":7,"method":"tools/call","params":%s}' % params)
    assert line == b'{"id":7,"method":"tools/call","params":{"name":"deploy","arguments":{"host":1.0}}}'


ENVIRON = {"KEY": "k-1", "BAD": "a\nb", "EMPTY": ""}


def test_values_come_from_the_environment() -> None:
    found = read_headers(["Authorization: Bearer ${KEY}", "X-A:b:c", "X-E: ${EMPTY}"], ["X-Key=KEY"], ENVIRON)
    assert found == {"Authorization": "Bearer k-1", "X-A": "b:c", "X-E": "", "X-Key": "k-1"}


@pytest.mark.parametrize(
    ("given", "named", "word"),
    [
        (["no colon"], [], "Name: value"), (["A: ${NONE}"], [], "NONE"), (["A b: x"], [], "name of a header"),
        ([": x"], [], "name of a header"), (["Host: x"], [], "transport"), (["mcp-session-ID: x"], [], "transport"),
        (["Mcp-Param-X: x"], [], "transport"), (["A: ${BAD}"], [], "cannot stand"), (["A: é"], [], "cannot stand"),
        ([], ["A"], "NAME=VARIABLE"), ([], ["A=NONE"], "NONE"),
    ],
)  # fmt: skip
def test_errors_hide_the_value(given: list[str], named: list[str], word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_headers(given, named, ENVIRON)
    assert word in str(caught.value)
    assert caught.value.at in ("--header", "--header-env")
    assert "a\nb" not in str(caught.value)
