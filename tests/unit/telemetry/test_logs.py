"""Events as records of the standard logging."""

import json
import logging

import pytest

from callosum.corpus.bus import Corpus
from callosum.corpus.events import CATALOGUE, HealthCritical, InputReceived, LlmToken, SafetyBlocked, ToolCompleted
from callosum.telemetry import logs
from callosum.telemetry.logs import LOGGER, LONGEST, Logs


def test_an_event_is_a_line_with_its_payload(corpus: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    told = Logs(corpus)
    corpus.emit(ToolCompleted("look", "3 open", 12.5, at=1.0, instance="mira", namespace="work"))
    corpus.emit(LlmToken("he"))
    corpus.emit(SafetyBlocked("look", "why"))
    corpus.emit(HealthCritical("store", "locked", "free"))
    told.close()
    told.close()
    corpus.emit(LlmToken("llo"))
    name, _, payload = caplog.messages[0].partition(" ")
    assert (name, json.loads(payload)) == (
        "tool.completed",
        {"name": "look", "output": "3 open", "duration": 12.5, "at": 1.0, "instance": "mira", "namespace": "work"},
    )
    assert [record.levelname for record in caplog.records] == ["INFO", "DEBUG", "WARNING", "ERROR"]
    record = caplog.records[0]
    assert (record.event, record.instance, record.namespace) == ("tool.completed", "mira", "work")  # type: ignore[attr-defined]


def test_hostile_text_is_one_valid_json_line(corpus: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mine")
    told = Logs(corpus, logging.getLogger("mine"))
    text = "a\nINFO:root:forged\x1b[2J\u2028\u202e\U000e0041 ünal"
    corpus.emit(InputReceived(text, "cli", "c"))
    told.close()
    (line,) = caplog.messages
    assert line.isprintable()
    assert json.loads(line.partition(" ")[2])["content"] == text


def test_a_long_payload_is_cut(corpus: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    told = Logs(corpus)
    corpus.emit(ToolCompleted("look", "x" * 10_000))
    told.close()
    assert len(caplog.messages[0]) == len("tool.completed ") + LONGEST
    assert caplog.messages[0].endswith("…")


def test_disabled_levels_are_not_formatted(
    corpus: Corpus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, LOGGER)
    monkeypatch.setattr(logs, "encode", lambda event: pytest.fail("was written out"))
    told = Logs(corpus)
    corpus.emit(ToolCompleted("look"))
    told.close()
    assert caplog.messages == []


def test_only_existing_events_have_levels() -> None:
    assert set(logs._LEVELS) <= set(CATALOGUE)
