"""The daily log: its form, its days, its redaction, and its behaviour while it cannot be written."""

import errno
import fcntl
import json
import logging
import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import msgspec
import pytest

from callosum.corpus import daily_log as log_module
from callosum.corpus import day_files, events, log_lines
from callosum.corpus.bus import Corpus
from callosum.corpus.daily_log import DailyLog
from callosum.corpus.day_files import DayFiles
from callosum.corpus.events import (
    CATALOGUE,
    CorpusEvent,
    HealthWarning,
    InputReceived,
    LlmError,
    LlmResponse,
    LlmToken,
    SafetyBlocked,
    TaskStopped,
    ToolCalled,
    ToolCompleted,
    ToolFailed,
)
from callosum.errors import ConfigError
from callosum.redact import MARKER, summarise
from callosum.redact.json_lines import is_harmless, suspects
from tests.support.clocks import Clock
from tests.support.cpu import cpu_within
from tests.support.serving import until
from tests.support.threads import all_at_once

DAY = """\
## 2026-05-16

09:15:02 | input.received | {"content":"Which issues are open?","channelId":"desktop"}
09:15:02 | context.built | {"tokens":7842,"sections":12}
09:15:03 | input.routed | {"provider":"anthropic","model":"claude-sonnet-4"}
09:15:04 | tool.called | {"name":"list_issues","args":{"state":"open"},"taskId":"TASK-12"}
09:15:05 | safety.allowed | {"toolName":"list_issues","classification":"safe"}
09:15:06 | tool.completed | {"name":"list_issues","duration":1204,"taskId":"TASK-12"}
09:15:07 | llm.response | {"provider":"anthropic","tokens":342}
09:15:07 | memory.saved | {"type":"episode","path":"episodes/2026-05-16.md"}
"""
"""A day as the first version wrote it: heading, columns, names and order of payloads."""
LINE = re.compile(r"(\d\d:\d\d:\d\d) \| ([a-z]+(?:\.[A-Za-z]+)+) \| (\{.*\})")
NEVER = 3600.0
"""Seconds that the thread waits before it writes, so that the test decides when."""


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


NOON = moment("2026-05-16 12:00:00")


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the local time zone to UTC, or to the zone that the test sets."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    set_zone("UTC")
    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "brain" / "corpus"


@pytest.fixture
def log(corpus: Corpus, folder: Path, clock: Clock) -> Iterator[DailyLog]:
    with DailyLog(corpus, folder, every=NEVER, now=clock) as log:
        yield log


def read(folder: Path, day: str = "2026-05-16") -> list[tuple[str, str, dict[str, Any]]]:
    """Return the lines of a day: time, type and payload. Fails if the file has another form."""
    head, empty, *lines, end = (folder / f"{day}.log.md").read_text().split("\n")
    assert (head, empty, end) == (f"## {day}", "", "")
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), lines
    return [(match[1], match[2], json.loads(match[3])) for match in found if match]


def payloads(folder: Path) -> list[dict[str, Any]]:
    return [payload for _, _, payload in read(folder)]


def test_log_has_the_form_of_the_first_version(corpus: Corpus, log: DailyLog, folder: Path) -> None:
    """Heading, times, types and payloads are the same, in the same order."""
    head, empty, *seeds = DAY.splitlines()
    for line in seeds:
        clock, name, payload = line.split(" | ", 2)
        kind = CATALOGUE[name]
        known = {msgspec_name(kind, wire): value for wire, value in json.loads(payload).items()}
        missing: dict[str, Any] = {
            field: "" for field in kind.__struct_fields__[:3] if field not in known and needed(kind, field)
        }
        corpus.emit(kind(**known, **missing, at=moment(f"2026-05-16 {clock}") + 0.25))
    assert log.flush()
    written = (folder / "2026-05-16.log.md").read_text().splitlines()
    assert written[:2] == [head, empty]
    assert len(written) == 2 + len(seeds)
    for mine, seed in zip(written[2:], seeds, strict=True):
        filled = re.sub(r',"(conversationId|model)":""', "", mine)  # fields that the first version leaves out
        assert filled == seed


def msgspec_name(kind: type[CorpusEvent], wire: str) -> str:
    return kind.__struct_fields__[kind.__struct_encode_fields__.index(wire)]


def needed(kind: type[CorpusEvent], field: str) -> bool:
    return next(one.required for one in msgspec.structs.fields(kind) if one.name == field)


def test_common_fields_come_after_the_events_own_and_without_the_moment(
    corpus: Corpus, log: DailyLog, folder: Path
) -> None:
    corpus.emit(
        ToolCompleted(
            "github_prs",
            output={"at": 12, "x": '"at":1,'},
            duration=1204.0,
            at=NOON,
            instance='mira,"at":7',
            namespace="home",
            call_id="toolu_1",
            id=7,
            cause="7.0",
        )
    )
    assert log.flush()
    assert (folder / "2026-05-16.log.md").read_text() == (
        '## 2026-05-16\n\n12:00:00 | tool.completed | {"name":"github_prs","output":{"at":12,"x":"\\"at\\":1,"},'
        '"duration":1204.0,"instance":"mira,\\"at\\":7","namespace":"home","callId":"toolu_1","id":7,"cause":"7.0"}\n'
    )


@pytest.fixture
def bare() -> Iterator[type[CorpusEvent]]:
    class BellRang(CorpusEvent, frozen=True):
        """A bell rang."""

        dotted: ClassVar[str] = "bell.rang"
        region: ClassVar[str] = "House"

    yield BellRang
    del CATALOGUE["bell.rang"]


def test_custom_event_is_logged_and_may_have_no_fields(
    bare: type[CorpusEvent], corpus: Corpus, log: DailyLog, folder: Path
) -> None:
    corpus.emit(bare(at=NOON))
    corpus.emit(bare(at=NOON, instance="mira", call_id="c"))
    assert log.flush()
    assert read(folder) == [
        ("12:00:00", "bell.rang", {}),
        ("12:00:00", "bell.rang", {"instance": "mira", "callId": "c"}),
    ]


def test_files_and_folders_are_private(corpus: Corpus, log: DailyLog, folder: Path) -> None:
    corpus.emit(TaskStopped("t", "x", at=NOON))
    assert log.flush()
    assert [one.stat().st_mode & 0o777 for one in (folder, folder / "2026-05-16.log.md")] == [0o700, 0o600]


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines", "\r\n\r\u2028\u2029\x85\x0b\x0c", "\x00\x1b[2J\x7f\x9b2J", '"},{"} | tool.called | {}',
        "\u202egnp.exe \u200b\ufeff \U000e0041", "lone \ud800 half", "日本語 – ünïcode 🎉", "\\n \\\\ \\u0000",
    ],
)  # fmt: skip
def test_one_event_is_one_line_whatever_its_text(corpus: Corpus, log: DailyLog, folder: Path, text: str) -> None:
    corpus.emit(TaskStopped(text, "x", at=NOON))
    corpus.emit(ToolCalled("x", {text: [text]}, at=NOON))
    assert log.flush()
    written = (folder / "2026-05-16.log.md").read_text()
    assert written.count("\n") == 4
    assert all(char == "\n" or char.isprintable() for char in written)
    kept = text.replace("\ud800", "\ufffd")
    assert payloads(folder) == [{"taskId": kept, "reason": "x"}, {"name": "x", "args": {kept: [kept]}}]


def test_values_that_json_cannot_represent_are_described(corpus: Corpus, log: DailyLog, folder: Path) -> None:
    cycle: dict[str, Any] = {}
    cycle["me"] = cycle

    class Own:
        def __repr__(self) -> str:
            raise RuntimeError

    for value in (Own(), {"x": cycle}, 10**400, b"\xff" * 3, math.nan, {Own(): 1}, lambda: None):
        corpus.emit(ToolCompleted("x", output=value, at=NOON, instance="mira"))
    assert log.flush()
    found = payloads(folder)
    assert len(found) == 7
    assert all(one["name"] == "x" and one["instance"] == "mira" and "at" not in one for one in found)
    assert [found[0]["output"], found[1]["output"]] == ["<Own>", {"x": {"me": "<cycle>"}}]


def test_object_whose_encoding_raises_is_summarised(
    corpus: Corpus, log: DailyLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(event: CorpusEvent) -> bytes:
        raise AttributeError

    with monkeypatch.context() as patch:
        patch.setattr(log_module, "encode", fails)
        corpus.emit(ToolCompleted("x", output=object(), at=NOON))
    assert log.flush()
    assert read(folder) == [("12:00:00", "tool.completed", {"unreadable": "AttributeError"})]


def test_foreign_json_cannot_break_the_lines(corpus: Corpus, log: DailyLog, folder: Path) -> None:
    for raw in (b'{"a":\n1}', b'{"password":\n"hunter2"}', b'{"password":"hunter2"', b'{"a":1}\n\n'):
        corpus.emit(ToolCompleted("x", output=msgspec.Raw(raw), at=NOON))
    assert log.flush()
    assert payloads(folder)[0] == {"name": "x", "output": {"a": 1}}
    assert payloads(folder)[1] == {"name": "x", "output": {"password": MARKER}}
    assert payloads(folder)[2]["unreadable"].endswith("bytes")
    assert len(payloads(folder)) == 4


def test_ten_megabytes_are_summarised(corpus: Corpus, log: DailyLog, folder: Path) -> None:
    corpus.emit(ToolCompleted("x", output="a b " * 2_500_000, at=NOON))
    corpus.emit(ToolCompleted("y", output={str(number): "x" * 1000 for number in range(10_000)}, at=NOON))
    assert log.flush()
    first, second = payloads(folder)
    assert first["output"].endswith("… (10000000 characters)")
    assert (folder / "2026-05-16.log.md").stat().st_size < 65_536
    assert second["name"] == "y"


def test_midnight_is_local(
    corpus: Corpus, log: DailyLog, folder: Path, clock: Clock, zone: Callable[[str], None]
) -> None:
    zone("Europe/Berlin")
    night = datetime(2026, 5, 17, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    clock.now = night
    for at in (night - 0.001, night, night - 1, night + 0.5):
        corpus.emit(TaskStopped("t", str(at - night), at=at))
    assert log.flush()
    assert [(at, payload["reason"]) for at, _, payload in read(folder)] == [
        ("23:59:59", str(night - 0.001 - night)),
        ("23:59:59", "-1.0"),
    ]
    assert [at for at, _, _ in read(folder, "2026-05-17")] == ["00:00:00", "00:00:00"]


def test_summer_time_ends(corpus: Corpus, folder: Path, clock: Clock, zone: Callable[[str], None]) -> None:
    zone("Europe/Berlin")
    clock.now = moment("2026-10-25 00:30:00")  # 02:30 for the first time
    with DailyLog(corpus, folder, every=NEVER, now=clock):
        for step in (0, 3600, 7200):
            corpus.emit(TaskStopped("t", "x", at=clock.now + step))
    assert [at for at, _, _ in read(folder, "2026-10-25")] == ["02:30:00", "02:30:00", "03:30:00"]


def test_clock_that_goes_backwards_is_harmless(corpus: Corpus, log: DailyLog, folder: Path, clock: Clock) -> None:
    for now in (NOON, NOON - 100, NOON - 86_400, NOON):
        clock.now = now
        corpus.emit(TaskStopped("t", "x", at=now))
        assert log.flush()
    assert [at for at, _, _ in read(folder)] == ["12:00:00", "11:58:20", "12:00:00"]
    assert [at for at, _, _ in read(folder, "2026-05-15")] == ["12:00:00"]


@pytest.mark.parametrize(
    "at", [0.0, -1.0, 2.0**33, NOON - 8 * 86_400, NOON + 2 * 86_400, math.nan, math.inf, 1e300, "soon", [], None]
)
def test_event_of_a_day_without_a_file_goes_to_the_current_file(log: DailyLog, folder: Path, at: Any) -> None:
    log.take(TaskStopped("t", "first", at=NOON))
    log.take(TaskStopped("t", "x", at=at, instance="mira"))
    log.take(TaskStopped("t", "last", at=NOON))
    assert log.flush()
    assert [one.name for one in folder.iterdir()] == ["2026-05-16.log.md"]
    first, stray, last = read(folder)
    assert (first[2]["reason"], last[2]["reason"]) == ("first", "last")
    assert stray[0] == "12:00:00"
    told = None if isinstance(at, float) and not math.isfinite(at) else at
    assert stray[2] == {"taskId": "t", "reason": "x", "at": told, "instance": "mira"}


def test_only_old_files_are_removed(corpus: Corpus, folder: Path, clock: Clock) -> None:
    folder.mkdir(parents=True)
    logs = [f"2026-05-{day:02}.log.md" for day in range(1, 20)] + ["2025-12-31.log.md"]
    others = ["2026-05-01.md", "x2026-05-01.log.md", "2026-05-01.log.md.bak", "2026-99-01.log.md", "notes.txt"]
    for name in [*logs, *others]:
        (folder / name).write_text("")
    (folder / "2026-04-01.log.md").mkdir()

    def there() -> list[str]:
        return sorted(one.name for one in folder.iterdir())

    with DailyLog(corpus, folder, every=NEVER, now=clock) as log:
        corpus.emit(TaskStopped("t", "x", at=NOON))
        assert log.flush()
        kept = [f"2026-05-{day:02}.log.md" for day in range(9, 20)]
        assert there() == sorted([*kept, *others, "2026-04-01.log.md"])
        (folder / "2026-05-01.log.md").write_text("")
        corpus.emit(TaskStopped("t", "x", at=NOON))
        assert log.flush()
        assert "2026-05-01.log.md" in there(), "it looks once a day"
        clock.now += 86_400
        corpus.emit(TaskStopped("t", "x", at=clock.now))
        assert log.flush()
        assert there() == sorted([*kept[1:], *others, "2026-04-01.log.md"])


def test_today_alone_can_be_kept(tmp_path: Path) -> None:
    for day in ("2026-05-15", "2026-05-16"):
        (tmp_path / f"{day}.log.md").write_text("")
    DayFiles(tmp_path, 0, 1_000_000).clean(date(2026, 5, 16))
    assert [one.name for one in tmp_path.iterdir()] == ["2026-05-16.log.md"]
    DayFiles(tmp_path / "missing", 0, 1_000_000).clean(date(2026, 5, 16))


GITHUB = "ghp_" + "a1B2" * 9
AWS = "AKIA" + "ABCD1234" * 2
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn\n-----END RSA PRIVATE KEY-----"
OWN = f"cal_laptop_{'x9Y' * 14}z"

SECRETS: list[tuple[str, Callable[[], CorpusEvent], str]] = [
    ("shape", lambda: InputReceived(f"use {GITHUB} please", "cli", "c", at=NOON), GITHUB),
    ("behind a newline", lambda: InputReceived(f"the token:\n{GITHUB}", "cli", "c", at=NOON), GITHUB),
    ("behind a tab", lambda: InputReceived(f"\t{AWS}\t", "cli", "c", at=NOON), AWS),
    ("behind a control", lambda: InputReceived(f"\x08\x01{AWS}", "cli", "c", at=NOON), AWS),
    ("in quotes", lambda: ToolFailed("x", f'said "{GITHUB}"', at=NOON), GITHUB),
    ("behind a backslash", lambda: ToolFailed("x", f"C:\\{GITHUB}", at=NOON), GITHUB),
    ("key", lambda: ToolCompleted("cat", output=f"x\n{PEM}\ny", at=NOON), "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn"),
    ("web token", lambda: ToolCompleted("x", output=["a", TOKEN], at=NOON), TOKEN),
    ("our own", lambda: ToolCompleted("x", output=OWN, at=NOON), OWN),
    ("header", lambda: ToolCompleted("x", output="Authorization: Basic dXNlcjpwYXNz", at=NOON), "dXNlcjpwYXNz"),
    ("in a URL", lambda: ToolCalled("x", {"url": "https://me:hunter2hunter@example.com/"}, at=NOON), "hunter2hunter"),
    ("option", lambda: ToolCalled("exec", {"command": "deploy --password hunter2"}, at=NOON), "hunter2"),
    ("after curl -u", lambda: ToolCalled("exec", {"command": 'curl -s "x" -u me:hunter2'}, at=NOON), "hunter2"),
    ("variable", lambda: ToolCalled("exec", {"command": "DB_PASSWORD=hunter2 run"}, at=NOON), "hunter2"),
    ("name", lambda: ToolCalled("x", {"password": "hunter2"}, at=NOON), "hunter2"),
    ("name, upper case", lambda: ToolCalled("x", {"API_KEY": "hunter2"}, at=NOON), "hunter2"),
    ("name in words", lambda: ToolCalled("x", {"api key": "hunter2"}, at=NOON), "hunter2"),
    ("name with a newline", lambda: ToolCalled("x", {"api\nkey": "hunter2"}, at=NOON), "hunter2"),
    ("short name", lambda: ToolCalled("x", {"db_pass": "hunter2"}, at=NOON), "hunter2"),
    ("number", lambda: ToolCalled("x", {"secret": 31337}, at=NOON), "31337"),
    ("card", lambda: ToolCalled("x", {"card number": 4111111111111111, "ssn": "078-05-1120"}, at=NOON), "4111111111111111"),
    ("list below a name", lambda: ToolCalled("x", {"credentials": ["hunter2", 1]}, at=NOON), "hunter2"),
    ("deep below a name", lambda: ToolCalled("x", {"a": [{"secrets": {"b": {"c": "hunter2"}}}]}, at=NOON), "hunter2"),
    ("token, nested", lambda: ToolCalled("x", {"token": {"a": "hunter2"}}, at=NOON), "hunter2"),
    ("pair", lambda: ToolCalled("x", {"h": [{"name": "Authorization", "value": "hunter2"}]}, at=NOON), "hunter2"),
    ("JSON in a text", lambda: ToolCompleted("x", output=json.dumps({"password": "hunter2"}), at=NOON), "hunter2"),
    ("JSON in JSON in a text", lambda: ToolCompleted("x", output=json.dumps({"body": json.dumps({"password": "hunter2"})}), at=NOON), "hunter2"),
    ("as a name", lambda: ToolCalled("x", {GITHUB: 1}, at=NOON), GITHUB),
    ("in a common field", lambda: TaskStopped("x", "y", at=NOON, instance=GITHUB), GITHUB),
    ("in what JSON cannot hold", lambda: ToolCompleted("x", output=[GITHUB, object()], at=NOON), GITHUB),
    ("of a stray event", lambda: ToolCalled("x", {"password": "hunter2"}, at=7), "hunter2"),
    ("in an answer", lambda: LlmToken(f"use {GITHUB}", at=NOON), GITHUB),
]  # fmt: skip


@pytest.mark.parametrize(("make", "secret"), [pytest.param(make, secret, id=name) for name, make, secret in SECRETS])
def test_a_secret_is_redacted_and_the_line_stays_json(
    corpus: Corpus, log: DailyLog, folder: Path, make: Callable[[], CorpusEvent], secret: str
) -> None:
    corpus.emit(TaskStopped("before", "x", at=NOON))
    corpus.emit(make())
    corpus.emit(TaskStopped("after", "x", at=NOON))
    assert log.flush()
    *others, found = sorted(payloads(folder), key=lambda one: MARKER in json.dumps(one))
    assert [one["taskId"] for one in others] == ["before", "after"]
    assert MARKER in json.dumps(found)
    assert secret not in (folder / "2026-05-16.log.md").read_text()


def test_all_secrets_of_a_batch_are_redacted(corpus: Corpus, log: DailyLog, folder: Path) -> None:
    """The secrets are among harmless lines, in any order, and one search finds many of them."""
    for number in range(50):
        for _, make, _ in SECRETS:
            corpus.emit(TaskStopped(f"t{number}", 'a "harmless"\nline', at=NOON))
            corpus.emit(make())
    assert until(log.flush), "while the log's own thread writes much, a flush gives up"
    written = (folder / "2026-05-16.log.md").read_text()
    assert not [secret for _, _, secret in SECRETS if secret in written]
    found = payloads(folder)
    assert sum("delta" not in one for one in found) == 50 * (2 * len(SECRETS) - 1)
    assert {one["reason"] for one in found if "reason" in one} == {'a "harmless"\nline', "y"}


def test_secret_in_pieces_is_redacted_after_they_are_joined(corpus: Corpus, log: DailyLog, folder: Path) -> None:
    for piece in ("the key is ", GITHUB[:10], GITHUB[10:], " there"):
        corpus.emit(LlmToken(piece, at=NOON))
    assert log.flush()
    assert payloads(folder) == [{"delta": f"the key is {MARKER} there"}]


def test_harmless_words_stay(corpus: Corpus, log: DailyLog, folder: Path) -> None:
    args = {
        "author": "vera",
        "keyword": "auth flow",
        "tokens": 12,
        "value": "x",
        "monkey": ["passport", "basic training"],
    }
    corpus.emit(ToolCalled("x", args, at=NOON))
    assert log.flush()
    assert payloads(folder) == [{"name": "x", "args": args}]


def test_a_batch_full_of_unended_keys_is_searched_in_linear_time() -> None:
    """Each key could continue to the end of the batch; a quadratic search would take minutes."""
    line = b'00:00:00 | tool.called | {"x":"-----BEGIN PRIVATE KEY-----"}\n'
    with cpu_within(2):
        assert suspects(line * 20_000) == list(range(20_000))


@pytest.mark.parametrize(
    "payload",
    [
        {"x": {"pass\\\\word": ["x"]}}, {"x": {"value": "a", "name": "Authorization"}}, {"x": ["--key", "hunter22"]},
        {"x": ["-KEY", "hunter22", "--sas", "hunter22"]}, {"x": "apikey abc123"}, {"x": "first\napikey abc123\nlast"},
        {"x": "client * hunter22 10.0.0.1"}, {"x": "a1 LOGIN anna hunter22"}, {"x": "-u anna -p hunter22"},
        {"x": "db:5432:shop:anna:hunter22"},
    ],
)  # fmt: skip
def test_every_line_with_a_secret_is_suspected(payload: dict[str, Any]) -> None:
    """The quick search names every line that the thorough one changes; the fuzz target ``redaction`` tries others."""
    lines = [b"12:00:00 | tool.called | " + msgspec.json.encode(one) + b"\n" for one in ({"x": "harmless"}, payload)]
    found = suspects(b"".join(lines))
    read = [msgspec.json.decode(line[25:]) for line in lines]
    hidden = [number for number, one in enumerate(read) if summarise(one, mode="full") != one]
    assert hidden == found == [1]
    assert not [number for number in hidden if is_harmless(read[number])]
    done = log_lines.finished(lines)
    assert [msgspec.json.decode(line[25:]) for line in done] == [summarise(one, mode="full") for one in read]


def test_context_keys_make_no_line_suspect_but_their_text_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["file:/srv/a8Kd93jFh27dkQ0pLx", f"doc:ghp_{'a8Kd93jF' * 4}aaaa"]
    lines = [f'09:15:06 | lease.taken | {{"contextKeys":["{key}"],"tier":3}}\n'.encode() for key in keys]
    found: list[list[int]] = []

    def look(data: bytes) -> list[int]:
        found.append(suspects(data))
        return found[-1]

    monkeypatch.setattr(log_lines, "suspects", look)
    first, second = log_lines.finished(lines)
    assert found == [[1]]
    assert first == lines[0]
    assert b"ghp_" not in second


def test_line_made_from_the_journal_is_not_searched_for_secrets_and_others_are(
    corpus: Corpus, log: DailyLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has no secret. A host may send an event of the same class, and a handler may emit another."""
    searched: list[bytes] = []

    def look(data: bytes) -> list[int]:
        searched.append(data)
        return suspects(data)

    def answer(event: ToolCalled) -> None:
        if event.name == "journalled":
            corpus.emit(ToolCalled("inner", {"password": "hunter22"}, at=NOON))

    corpus.on(ToolCalled, answer)
    monkeypatch.setattr(log_lines, "suspects", look)
    corpus.emit(ToolCalled("first", {}, at=NOON))  # the first line of a second and class takes a slower way
    corpus.emit_journalled(ToolCalled("journalled", {}, at=NOON))
    corpus.emit(ToolCalled("emitted", {"password": "hunter23"}, at=NOON))
    assert log.flush()
    assert [[name in data for name in (b"journalled", b"inner", b"emitted")] for data in searched] == [
        [False, True, True]
    ]
    written = (folder / "2026-05-16.log.md").read_text()
    assert "journalled" in written
    assert "hunter2" not in written


def test_journal_positions_are_kept_and_make_no_line_suspect(monkeypatch: pytest.MonkeyPatch) -> None:
    place = 1_795_480_805_998_341
    ends = f'"id":{place},"cause":"{place}.0"}}\n'
    plain = f'09:15:06 | safety.allowed | {{"toolName":"read",{ends}'.encode()
    secret = f'09:15:06 | tool.called | {{"args":{{"password":"hunter22"}},{ends}'.encode()
    looked: list[bytes] = []

    def look(data: bytes) -> list[int]:
        looked.append(data)
        return suspects(data)

    monkeypatch.setattr(log_lines, "suspects", look)
    first, second = log_lines.finished([plain, secret])
    assert first == plain
    assert second.endswith(ends.encode())
    assert b"hunter22" not in second
    assert str(place).encode() not in looked[0]


def test_lines_that_cannot_be_redacted_are_not_written(
    corpus: Corpus, log: DailyLog, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(lines: list[bytes]) -> list[bytes]:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(log_module, "finished", broken)
        corpus.emit(TaskStopped("t", "one", at=NOON))
        assert log.flush()
    corpus.emit(TaskStopped("t", "two", at=NOON))
    assert log.flush()
    assert [one["reason"] for one in payloads(folder)] == ["two"]
    assert "1 lines could not be redacted" in caplog.text


def test_a_streamed_answer_is_one_line(corpus: Corpus, log: DailyLog, folder: Path) -> None:
    for number, word in enumerate(("Three ", "PRs ", "wait.")):
        corpus.emit(LlmToken(word, at=NOON + number, instance="mira"))
        corpus.emit(LlmToken(f"{number}", at=NOON + number, instance="doug", namespace="work"))
    corpus.emit(LlmResponse("anthropic", "sonnet", 342, at=NOON + 3, instance="mira"))
    corpus.emit(LlmToken("Next.", at=NOON + 4, instance="mira"))
    corpus.emit(LlmError("anthropic", "overloaded", False, at=NOON + 5, instance="doug", namespace="work"))
    assert log.flush()
    corpus.emit(LlmToken(" More.", at=NOON + 6, instance="mira"))
    assert log.flush()
    assert read(folder) == [
        ("12:00:00", "llm.token", {"delta": "Three PRs wait.", "instance": "mira"}),
        ("12:00:03", "llm.response", {"provider": "anthropic", "model": "sonnet", "tokens": 342, "instance": "mira"}),
        ("12:00:00", "llm.token", {"delta": "012", "instance": "doug", "namespace": "work"}),
        (
            "12:00:05",
            "llm.error",
            {
                "provider": "anthropic",
                "error": "overloaded",
                "willRetry": False,
                "instance": "doug",
                "namespace": "work",
            },
        ),
        ("12:00:04", "llm.token", {"delta": "Next.", "instance": "mira"}),
        ("12:00:06", "llm.token", {"delta": " More.", "instance": "mira"}),
    ]


def test_a_long_answer_and_many_answers_are_bounded(corpus: Corpus, log: DailyLog, folder: Path) -> None:
    for _ in range(10):
        corpus.emit(LlmToken("\x01" * 2500, at=NOON))
    for number in range(2500):
        corpus.emit(LlmToken("x", at=NOON, instance=f"s{number}"))
        assert len(log._answers) <= 1000
    corpus.emit(LlmToken("y" * 10_001, at=NOON))
    log.take(LlmToken(7, at=NOON))  # type: ignore[arg-type]
    assert log.flush()
    texts = [one["delta"] for one in payloads(folder)]
    assert texts[:2] == ["\x01" * 10_000] * 2
    assert {len(text) for text in texts if isinstance(text, str)} == {10_000, 5000, 1, 10_001}
    assert 7 in texts


Warnings = list[tuple[str, Any, Any]]


@pytest.fixture
def warnings(corpus: Corpus) -> Warnings:
    found: Warnings = []
    corpus.on(HealthWarning, lambda event: found.append((event.resource, event.value, event.threshold)))
    return found


def test_fault_is_reported_once_and_no_line_is_lost(
    corpus: Corpus, log: DailyLog, folder: Path, clock: Clock, warnings: Warnings, caplog: pytest.LogCaptureFixture
) -> None:
    """A file is in place of the folder."""
    caplog.set_level(logging.WARNING, "callosum")
    clock.now = time.time()
    day = time.strftime("%Y-%m-%d")
    folder.parent.mkdir(parents=True)
    folder.write_text("")
    for number in range(5):
        corpus.emit(TaskStopped(f"t{number}", "x", at=clock.now))
        assert not log.flush()
    assert warnings == [("log", "Not a directory", "writable")]
    assert caplog.text.count("cannot be written") == 1
    folder.unlink()
    assert log.flush()
    types = [(name, payload.get("taskId") or payload["resource"]) for _, name, payload in read(folder, day)]
    assert sorted(types) == sorted(
        [*[("task.stopped", f"t{number}") for number in range(5)], ("health.warning", "log")]
    )
    assert "can be written again" in caplog.text
    (folder / f"{day}.log.md").unlink()
    (folder / f"{day}.log.md").mkdir()
    corpus.emit(TaskStopped("t", "x", at=clock.now))
    assert not log.flush()
    assert warnings == [("log", "Not a directory", "writable"), ("log", "Is a directory", "writable")]
    (folder / f"{day}.log.md").rmdir()


def test_waiting_lines_are_bounded_and_safety_is_dropped_last(
    corpus: Corpus, folder: Path, clock: Clock, warnings: Warnings
) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("")
    clock.now = time.time()
    day = time.strftime("%Y-%m-%d")
    with DailyLog(corpus, folder, every=NEVER, limit=1024 * 1024, now=clock) as log:
        for number in range(20_000):
            corpus.emit(ToolCompleted("x", output="y" * 100, id=number, at=clock.now))
            if number % 1000 == 0:
                corpus.emit(SafetyBlocked("x", "in the way", id=number, at=clock.now))
                assert not log.flush()
            assert log._waiting <= 1024 * 1024
        folder.unlink()
        assert log.flush()
        assert log.flush(), "what it tells about itself"
    lines = read(folder, day)
    blocked = [payload["id"] for _, name, payload in lines if name == "safety.blocked"]
    assert sorted(blocked) == list(range(0, 20_000, 1000))
    kept = [payload["id"] for _, name, payload in lines if name == "tool.completed"]
    assert kept == list(range(20_000 - len(kept), 20_000)), "the newest stay"
    assert 4000 < len(kept) < 10_000
    told = sum(one[1] for one in warnings if one[0] == "log.dropped")
    assert told == 20_000 - len(kept) + len(warnings) - sum(name == "health.warning" for _, name, _ in lines)
    assert ("health.warning", {"resource": "log.dropped", "value": told, "threshold": 0}) in [one[1:] for one in lines]


def test_safety_alone_is_bounded_too(corpus: Corpus, folder: Path, clock: Clock) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("")
    with DailyLog(corpus, folder, every=NEVER, limit=1024 * 1024, now=clock) as log:
        for number in range(20_000):
            corpus.emit(SafetyBlocked("x", "y" * 100, id=number, at=NOON))
            assert log._waiting <= 1024 * 1024
        folder.unlink()
        assert log.flush()
    kept = [payload["id"] for _, name, payload in read(folder) if name == "safety.blocked"]
    assert kept == list(range(20_000 - len(kept), 20_000))
    assert len(kept) > 5000


def test_days_that_alternate_are_bounded_too(corpus: Corpus, folder: Path, clock: Clock) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("")
    with DailyLog(corpus, folder, every=NEVER, limit=1024 * 1024, now=clock) as log:
        for number in range(10_000):
            corpus.emit(TaskStopped("t", "x", at=NOON - 86_400 * (number % 2)))
        assert log._waiting <= 1024 * 1024
        folder.unlink()
    assert len(read(folder)) + len(read(folder, "2026-05-15")) > 1000


@pytest.mark.parametrize("gone", ["file", "folder"])
def test_deleted_file_is_created_again_with_its_heading(corpus: Corpus, log: DailyLog, folder: Path, gone: str) -> None:
    for number in range(3):
        corpus.emit(TaskStopped(f"t{number}", "x", at=NOON))
        assert log.flush()
        assert [one["taskId"] for one in payloads(folder)] == [f"t{number}"]
        (folder / "2026-05-16.log.md").unlink()
        if gone == "folder":
            folder.rmdir()


def test_a_file_that_is_deleted_while_its_lock_is_awaited(
    corpus: Corpus, log: DailyLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[int] = []
    lock = day_files._lock

    def late(handle: int, path: Path, ends: float) -> None:
        if not locked:
            path.unlink()
        locked.append(handle)
        lock(handle, path, ends)

    monkeypatch.setattr(day_files, "_lock", late)
    corpus.emit(TaskStopped("t", "x", at=NOON))
    assert log.flush()
    assert len(locked) == 2
    assert len(read(folder)) == 1


@pytest.mark.parametrize(
    ("left", "kept"),
    [
        ("## 2026-05-16\n\n11:00:00 | task.stopped | {}\n11:00:01 | task.st", "## 2026-05-16\n\n11:00:00 | task.stopped | {}\n"),
        ("## 2026-05-16\n\n11:00", "## 2026-05-16\n\n"),
        ("## 2026-0", "## 2026-05-16\n\n"),
        ("## 2026-05-16\n", "## 2026-05-16\n\n"),
        ("## 2026-05-16\n\n" + "x" * 300_000 + "\n" + "y" * 300_000, "## 2026-05-16\n\n" + "x" * 300_000 + "\n"),
        ("not ours", "not ours\n"),
        ("not ours\n", "not ours\n"),
    ],
)  # fmt: skip
def test_half_line_of_a_dead_writer_is_removed(
    corpus: Corpus, log: DailyLog, folder: Path, left: str, kept: str
) -> None:
    folder.mkdir(parents=True)
    file = folder / "2026-05-16.log.md"
    file.write_text(left)
    corpus.emit(TaskStopped("t", "x", at=NOON))
    assert log.flush()
    assert file.read_text() == kept + '12:00:00 | task.stopped | {"taskId":"t","reason":"x"}\n'


@pytest.mark.parametrize("there", ["", "## 2026-05-16\n\n11:00:00 | task.stopped | {}\n"])
def test_partial_write_is_undone(
    corpus: Corpus, log: DailyLog, folder: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    folder.mkdir(parents=True)
    file = folder / "2026-05-16.log.md"
    file.write_text(there)
    write, written = os.write, []

    def full(handle: int, data: Any) -> int:
        written.append(len(data))
        if len(written) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, bytes(data[:20]))

    corpus.emit(TaskStopped("t", "x", at=NOON))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        assert not log.flush()
    assert len(written) == 2
    assert file.read_text() == there
    assert log.flush()
    assert file.read_text().startswith(there or "## 2026-05-16\n\n")
    assert '12:00:00 | task.stopped | {"taskId":"t","reason":"x"}\n' in file.read_text()


def test_interrupted_write_is_neither_lost_nor_repeated(
    corpus: Corpus, log: DailyLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def interrupted(handle: int, data: Any) -> int:
        write(handle, data)
        raise KeyboardInterrupt

    corpus.emit(TaskStopped("t", "x", at=NOON))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.flush()
    assert log.flush()
    assert len(read(folder)) == 1


def test_held_lock_does_not_delay_the_emitter(
    corpus: Corpus, log: DailyLog, folder: Path, monkeypatch: pytest.MonkeyPatch, warnings: Warnings
) -> None:
    monkeypatch.setattr(day_files, "PATIENCE", 0.01)
    folder.mkdir(parents=True)
    with (folder / "2026-05-16.log.md").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        corpus.emit(TaskStopped("t", "x", at=NOON))
        assert not log.flush()
    assert warnings == [("log", "another process keeps it locked", "writable")]
    assert log.flush()
    assert "t" in [payload.get("taskId") for payload in payloads(folder)]


def test_pipe_in_place_of_the_log_does_not_block(corpus: Corpus, log: DailyLog, folder: Path) -> None:
    folder.mkdir(parents=True)
    os.mkfifo(folder / "2026-05-16.log.md")
    corpus.emit(TaskStopped("t", "x", at=NOON))
    assert not log.flush()
    (folder / "2026-05-16.log.md").unlink()
    assert log.flush()


def test_full_file_drops_ordinary_lines_first_and_the_log_counts_them(
    corpus: Corpus, folder: Path, clock: Clock, warnings: Warnings
) -> None:
    clock.now = time.time()
    day = time.strftime("%Y-%m-%d")
    size = 1024 * 1024
    with DailyLog(corpus, folder, every=NEVER, size=size, now=clock) as log:
        for number in range(12_000):
            corpus.emit(ToolCompleted("x", output="y" * 100, id=number, at=clock.now))
            if number % 1000 == 0:
                corpus.emit(SafetyBlocked("x", "in the way", id=number, at=clock.now))
                assert log.flush()
    assert (folder / f"{day}.log.md").stat().st_size <= size
    lines = read(folder, day)
    kept = [payload["id"] for _, name, payload in lines if name == "tool.completed"]
    assert kept == list(range(len(kept))), "ordinary lines stop where the reserve begins"
    assert 4000 < len(kept) < 12_000
    blocked = [payload["id"] for _, name, payload in lines if name == "safety.blocked"]
    assert blocked == list(range(0, 12_000, 1000)), "safety events have the reserve"
    told = [payload["value"] for _, name, payload in lines if name == "health.warning"]
    assert told[-1] == f"{12_000 - len(kept)} lines of {day} were dropped"
    assert len(told) <= 5
    assert {one[0] for one in warnings} == {"log.full"}


def test_full_file_never_grows_beyond_its_size(corpus: Corpus, folder: Path, clock: Clock) -> None:
    """Safety events fill the reserve and stop there; several writers share the limit."""
    size = 1024 * 1024
    with (
        DailyLog(corpus, folder, every=NEVER, size=size, now=clock) as log,
        DailyLog(corpus, folder, every=NEVER, size=size, now=clock) as other,
    ):
        for number in range(8_000):
            corpus.emit(SafetyBlocked("x", "in the way " * 10, id=number, at=clock.now))
            if number % 500 == 0:
                assert log.flush()
                assert other.flush()
    length = (folder / "2026-05-16.log.md").stat().st_size
    assert size * 0.99 < length <= size


def test_full_day_leaves_the_next_day_its_room(corpus: Corpus, folder: Path, clock: Clock) -> None:
    with DailyLog(corpus, folder, every=NEVER, size=1024 * 1024, now=clock) as log:
        for number in range(9_000):
            corpus.emit(ToolCompleted("x", output="y" * 100, id=number, at=clock.now))
        assert log.flush()
        dropped = 9_000 - sum(name == "tool.completed" for _, name, _ in read(folder))
        clock.now += 86400
        corpus.emit(ToolCompleted("x", output="next", at=clock.now))
        assert log.flush()
    assert dropped > 0
    assert [payload["output"] for _, name, payload in read(folder, "2026-05-17") if name == "tool.completed"] == [
        "next"
    ]
    assert log._overflow == {}


class Written:
    """Record the moment of each write, behind the real write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.seen = threading.Event()
        self.may = threading.Event()
        self.may.set()
        append = DayFiles.append

        def hooked(files: DayFiles, day: str, lines: list[bytes]) -> int:
            self.may.wait(30)
            dropped = append(files, day, lines)
            self.sizes.append(sum(map(len, lines)))
            self.seen.set()
            return dropped

        monkeypatch.setattr(DayFiles, "append", hooked)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    return Written(monkeypatch)


def test_log_thread_writes_on_its_own_and_then_sleeps(
    corpus: Corpus, folder: Path, clock: Clock, written: Written
) -> None:
    with DailyLog(corpus, folder, every=0.01, now=clock) as log:
        assert log._job.worker.thread is None, "it starts with the first event"
        assert not folder.exists()
        for number in range(3):
            written.seen.clear()
            corpus.emit(TaskStopped(f"t{number}", "x", at=NOON))
            assert written.seen.wait(30)
        corpus.emit(LlmToken("x", at=NOON))
        log.close()
        assert log._job.worker.thread is None
        log.close()
    corpus.emit(TaskStopped("late", "x", at=NOON))
    assert [one.get("taskId") for one in payloads(folder)] == ["t0", "t1", "t2", None]
    assert len(written.sizes) == 4


def test_piece_of_a_streamed_answer_starts_the_write_timer_too(
    corpus: Corpus, folder: Path, clock: Clock, written: Written
) -> None:
    with DailyLog(corpus, folder, every=0.01, now=clock):
        corpus.emit(LlmToken("x", at=NOON))
        assert written.seen.wait(30)
    assert payloads(folder) == [{"delta": "x"}]


def test_events_close_together_are_one_write(corpus: Corpus, log: DailyLog, folder: Path, written: Written) -> None:
    for number in range(3000):
        corpus.emit(TaskStopped(f"t{number}", "x", at=NOON + number / 10))
    assert log.flush()
    assert len(written.sizes) == 1
    assert [one["taskId"] for one in payloads(folder)] == [f"t{number}" for number in range(3000)]


def test_megabyte_of_lines_is_written_at_once(corpus: Corpus, log: DailyLog, folder: Path, written: Written) -> None:
    while not written.sizes:
        corpus.emit(ToolCompleted("x", output="y" * 1000, at=NOON))
        if log._waiting > 2_000_000:
            assert written.seen.wait(30)
    assert sum(written.sizes) > 1_000_000


def test_log_recovers_by_itself(corpus: Corpus, folder: Path, clock: Clock, written: Written) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("")
    told = threading.Event()
    corpus.on(HealthWarning, lambda event: told.set())
    with DailyLog(corpus, folder, every=0.01, now=clock):
        corpus.emit(TaskStopped("t", "x", at=NOON))
        assert told.wait(30)
        folder.unlink()
        assert written.seen.wait(30)


def test_emitter_that_is_too_fast_helps_to_redact(
    corpus: Corpus, log: DailyLog, folder: Path, written: Written
) -> None:
    """The disk is stuck; waiting batches are already redacted when it continues."""
    written.may.clear()
    for _ in range(8000):
        corpus.emit(ToolCompleted("x", output="y" * 1000, at=NOON))
    with log._lock:
        full = list(log._batches)
    assert sum(batch.size for batch in full) > 3_000_000
    assert any(batch._finished for batch in full)
    written.may.set()
    assert log.flush()
    assert len(payloads(folder)) == 8000


def test_emitters_do_not_wait_for_the_disk(corpus: Corpus, log: DailyLog, written: Written) -> None:
    written.may.clear()
    flusher = threading.Thread(target=log.flush)
    corpus.emit(TaskStopped("t", "x", at=NOON))
    flusher.start()

    def emit() -> None:
        for _ in range(2000):
            corpus.emit(TaskStopped("t", "x", at=NOON))

    all_at_once([emit] * 4)
    assert flusher.is_alive()
    written.may.set()
    flusher.join(30)
    assert not flusher.is_alive()


def test_two_logs_share_one_folder(corpus: Corpus, folder: Path, clock: Clock) -> None:
    logs = [DailyLog(corpus, folder, every=0.001, now=clock) for _ in range(2)]

    def emit(who: str) -> None:
        for number in range(500):
            corpus.emit(TaskStopped(f"{who}-{number}", "x", at=NOON))

    all_at_once([partial(emit, f"e{number}") for number in range(3)])
    for log in logs:
        log.close()
    ids = [one["taskId"] for one in payloads(folder)]
    assert sorted(ids) == sorted(2 * [f"e{one}-{number}" for one in range(3) for number in range(500)])


@pytest.mark.parametrize(
    ("given", "at"), [({"keep": -1}, "keep"), ({"every": 0}, "every"), ({"every": math.nan}, "every"), ({"limit": 7}, "limit")]
)  # fmt: skip
def test_invalid_options_are_refused(corpus: Corpus, folder: Path, given: dict[str, Any], at: str) -> None:
    with pytest.raises(ConfigError, match=f"^{at}: expected") as refused:
        DailyLog(corpus, folder, **given)
    assert refused.value.at == at
    assert corpus.handlers(events.TaskStopped) == 0


def test_signal_at_any_point_loses_no_line(corpus: Corpus, folder: Path, clock: Clock) -> None:
    """The signal handler emits too, in the same thread, in the middle of another emit."""
    emitted: list[str] = []
    stopped: list[bool] = []

    def handler(*_: object) -> None:
        if stopped:
            return
        emitted.append(f"s{len(emitted)}")
        corpus.emit(TaskStopped(emitted[-1], "x" * 2000, at=NOON + len(emitted) % 2))
        signal.setitimer(signal.ITIMER_REAL, 0.0001)  # the next one starts only now: they do not pile up

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with DailyLog(corpus, folder, every=NEVER, now=clock) as log:
            signal.setitimer(signal.ITIMER_REAL, 0.0001)
            for number in range(20_000):
                corpus.emit(TaskStopped(f"n{number}", "x" * 100, at=NOON + number % 2))
            stopped.append(True)
            assert log.flush()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    found = [one["taskId"] for one in payloads(folder)]
    assert emitted
    assert sorted(found) == sorted([*emitted, *(f"n{number}" for number in range(20_000))])
