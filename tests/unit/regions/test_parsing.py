"""Wernicke: what a host read out of a model's answer, as events."""

from callosum.corpus.bus import Corpus
from callosum.corpus.events import ParsedCall, ToolParsed
from callosum.regions.parsing import Wernicke

SECRET = "sk-ant-api03-" + "Q" * 90


def told(call: ParsedCall) -> ToolParsed:
    with Corpus() as corpus:
        seen: list[ToolParsed] = []
        corpus.on(ToolParsed, seen.append)
        Wernicke(corpus).tell(call, instance="mira/chat", namespace="default", at=5.0)
    (event,) = seen
    return event


def test_call_is_emitted_with_the_caller_and_the_moment() -> None:
    event = told(ParsedCall("read", {"path": "/a"}, "c1"))
    assert [(call.name, call.args, call.call_id) for call in event.calls] == [("read", {"path": "/a"}, "c1")]
    assert (event.instance, event.namespace, event.at) == ("mira/chat", "default", 5.0)


def test_event_shows_no_secret_and_no_hidden_character() -> None:
    (call,) = told(ParsedCall("send\x1b[2J\u202e", {"key": SECRET}, "id\n")).calls
    assert call.name.isprintable()
    assert "\u202e" not in call.name
    assert SECRET not in str(call.args)
    assert call.call_id is None
