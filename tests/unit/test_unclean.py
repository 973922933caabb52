"""Calls that are no clean JSON are judged, by all that they may mean."""

import msgspec
import pytest

from callosum import wire
from callosum.model import Classification
from callosum.rules import RuleSet

CALL = msgspec.json.Decoder(wire.Intercept)
DEEP = 100_000


def judged(params: bytes, more: bytes = b"") -> Classification:
    body = b'{"instance": "mira", "tool": "message", %b "params": %b}' % (more, params)
    return RuleSet.parse().classify(wire.read(CALL, body))


@pytest.mark.parametrize(
    ("params", "tier"),
    [
        (b'{"a": 1e999}', 2), (b'{"a": NaN}', 2), (b'{"a": "\\udfff"}', 2), (b'{"a": "\xff"}', 2), (b'{"\xff": 1}', 2),
        (b'{"action": "channel-delete", "action": "read"}', 4), (b'{"action": "read", "action": "channel-delete"}', 4),
        (b'{"a": {"b": 1, "b": 2}}', 2), (b'{"a": %b}' % b",".join([b"1"]).join([b"[", b"]"]), 2),
        (b"{%b}" % b",".join([b'"a": 1'] * 9), 3), (b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b"}", 3),
        (b'{"a":' * DEEP + b"1" + b"}" * DEEP, 3),
    ],
)  # fmt: skip
def test_32_b6_gravest_reading_of_unclean_params_counts(params: bytes, tier: int) -> None:
    assert judged(params).tier == tier


def test_32_b6_all_readings_give_their_keys_and_the_tool_may_be_named_twice() -> None:
    found = judged(b'{"to": "ann@x.org", "to": "bob@x.org"}', b'"tool": "send_email", "tool": "read_mail",')
    assert found.tier == 3
    assert "email:ann@x.org" in [key.name for key in found.keys]


def test_32_b6_digest_is_over_the_bytes() -> None:
    texts = (b"\\ud83d", b"\\ud83e", b"\xff", b"\xfe", "\ufffdd83d".encode(), b"?")
    assert len({judged(b'{"a": "%b"}' % text).content.digest for text in texts}) == len(texts)
    deep = [b"[" * DEEP + text + b"]" * DEEP for text in (b"1", b"2")]
    assert judged(b'{"a": %b}' % deep[0]).content.digest != judged(b'{"a": %b}' % deep[1]).content.digest


@pytest.mark.parametrize("more", [b'"instance": "doug",', b'"session": "a", "session": "b",'])
def test_who_acts_has_one_reading(more: bytes) -> None:
    with pytest.raises(wire.BadRequest, match="twice"):
        judged(b"{}", more)


def test_outcome_of_a_report_has_one_reading_and_its_result_any() -> None:
    decoder = msgspec.json.Decoder(wire.Complete)
    with pytest.raises(wire.BadRequest, match="twice"):
        wire.read(decoder, b'{"instance": "mira", "id": 5, "outcome": "done", "outcome": "failed"}')
    assert wire.read(decoder, b'{"instance": "mira", "id": 5, "result": "\\ud83d"}').result == "\ufffdd83d"
