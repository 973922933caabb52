"""Names that sessions choose as labels, events as records of logging, and the telemetry page."""

import ast
import json
import logging
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from callosum.corpus.bus import Corpus
from callosum.corpus.entry_events import events_of
from callosum.corpus.events import (
    CATALOGUE,
    HealthCritical,
    InputReceived,
    LlmToken,
    SafetyBlocked,
    ToolCompleted,
    ToolFailed,
)
from callosum.model import Entry, Event, Outcome
from callosum.telemetry import logs
from callosum.telemetry.labels import OTHER, LabelLimit, error_type, line
from callosum.telemetry.logs import LOGGER, LONGEST, Logs
from tests.support.threads import all_at_once


def test_first_names_are_kept_and_all_others_share_one() -> None:
    few = LabelLimit(2)
    assert [few(name) for name in ("a", "b", "c", "a", "d", "b")] == ["a", "b", OTHER, "a", OTHER, "b"]
    assert few("") == few(None) == ""


def test_threads_that_bring_new_names_at_once_stay_within_the_limit() -> None:
    few = LabelLimit(50)
    seen: list[str] = []

    def bring(first: int) -> None:
        seen.extend(few(f"tool-{number}") for number in range(first, first + 100))

    all_at_once([partial(bring, first) for first in (0, 30, 60, 90)])
    assert len(set(seen) - {OTHER}) == 50
    assert OTHER in seen


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("send_email", "send_email"), ("ünal", "ünal"), ("a\nb\tc", "a b c"), ("x\x1b[31mred", "x[31mred"),
        ("lone \ud800 half", "lone half"), ("right\u202eleft", "rightleft"), ("n" * 5000, "n" * 255 + "…"),
    ],
)  # fmt: skip
def test_a_name_is_one_line_that_can_be_encoded(text: str, shown: str) -> None:
    assert line(text) == shown
    line(text).encode()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("TimeoutError: no answer after 30 s", "TimeoutError"),
        ("requests.exceptions.ReadTimeout: host", "requests.exceptions.ReadTimeout"),
        ("KeyError", "KeyError"),
        ("failed", "failed"),
        ("cancelled: it was let through and did not run", "cancelled"),
        ("nobody knows how it ended: the process was killed", "unknown"),
        ("ghp_1234567890abcdefghij1234567890abcdef", "_OTHER"),
        ("no such file: /home/anna/plan.txt", "_OTHER"),
        ("Sk1-secret-9: x", "_OTHER"),
        ("", "_OTHER"),
        ("A" * 10_000 + ":", "_OTHER"),
    ],
)
def test_an_error_is_named_without_its_content(error: str, kind: str) -> None:
    assert error_type(error) == kind


@pytest.mark.parametrize(("outcome", "kind"), [(Outcome.UNKNOWN, "unknown"), (Outcome.CANCELLED, "cancelled")])
def test_known_outcomes_have_their_own_label(outcome: Outcome, kind: str) -> None:
    entry = Entry(Event.COMPLETE, "mira", seq=2_000_000, action=1_000_000, tool="act", outcome=outcome)
    (failed,) = events_of(entry)
    assert isinstance(failed, ToolFailed)
    assert error_type(failed.error) == kind


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


ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "telemetry.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
DOTTED = re.compile(r"(?:gen_ai|callosum)\.[a-z_.]+|error\.type")


@pytest.mark.parametrize("code", BLOCKS, ids=["logging", "providers", "variables", "prometheus"])
def test_code_on_the_page_runs(code: str, tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        # nothing listens at the default address: nothing may be sent there
        env={**clean, "PYTHONPATH": str(ROOT), "OTEL_METRICS_EXPORTER": "none"},
    )
    assert ran.returncode == 0, ran.stderr
    assert re.search('execute_tool github_prs|tool.completed|github_prs"}', ran.stdout + ran.stderr) or "otlp" in code


def test_tables_name_exactly_the_attributes_and_metrics() -> None:
    sources = [ROOT / "callosum" / "telemetry" / f"{name}.py" for name in ("opentelemetry", "metrics")]
    nodes = [node for path in sources for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    written = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    named = {name for row in TEXT.splitlines() if row.startswith("|") for name in re.findall(r"`([^`]+)`", row)}
    there = {name for name in written if DOTTED.fullmatch(name)}
    assert {name for name in named if DOTTED.fullmatch(name)} == there
    assert len(there) > 25


def test_table_names_every_prometheus_metric() -> None:
    source = (ROOT / "callosum" / "telemetry" / "prometheus.py").read_text("utf-8")
    metrics = set(re.findall(r'"(callosum_[a-z_]+)"', source))
    named = {name.removesuffix("_total") for name in re.findall(r"^\| `(callosum_[a-z_]+)`", TEXT, re.MULTILINE)}
    assert named == metrics
