"""Wernicke: what a host read out of a model's answer, as events."""

from __future__ import annotations

from callosum.corpus.bus import Corpus
from callosum.corpus.events import ParsedCall, ToolParsed
from callosum.regions.parsing import MOST, Wernicke

SECRET = "sk-ant-api03-" + "Q" * 90


def told(*calls: ParsedCall, instance: str | None = None) -> list[ToolParsed]:
    with Corpus() as corpus:
        seen: list[ToolParsed] = []
        corpus.on(ToolParsed, seen.append)
        wernicke = Wernicke(corpus)
        wernicke.tell(calls, instance=instance, namespace="default", at=5.0)
        wernicke.close()
    return seen


def test_calls_are_emitted_in_order_with_the_caller_and_the_moment() -> None:
    (event,) = told(ParsedCall("read", {"path": "/a"}, "c1"), ParsedCall("write", {"path": "/b"}), instance="mira/chat")
    assert [(call.name, call.args, call.call_id) for call in event.calls] == [
        ("read", {"path": "/a"}, "c1"),
        ("write", {"path": "/b"}, None),
    ]
    assert (event.instance, event.namespace, event.at) == ("mira/chat", "default", 5.0)


def test_many_calls_are_several_events_and_none_are_no_event() -> None:
    events = told(*(ParsedCall(f"f{number}", {}) for number in range(2 * MOST + 50)))
    assert [len(event.calls) for event in events] == [MOST, MOST, 50]
    assert told() == []


def test_event_shows_no_secret_and_no_hidden_character() -> None:
    (event,) = told(ParsedCall("send\x1b[2J\u202e", {"key": SECRET}, "id\n"))
    (call,) = event.calls
    assert call.name.isprintable()
    assert "\u202e" not in call.name
    assert SECRET not in str(call.args)
    assert call.call_id is None
