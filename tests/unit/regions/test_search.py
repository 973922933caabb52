"""Search: what is indexed and found, in which order, and that bad input harms neither."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from callosum.corpus.bus import Corpus
from callosum.corpus.events import CortexReindexed, HealthWarning, SchedulerTick
from callosum.errors import ConfigError, StoreError
from callosum.gate import LocalGate
from callosum.journal import Rotation
from callosum.model import DAY, Call, Outcome
from callosum.regions import search, search_index
from callosum.regions.search import Cortex
from callosum.regions.search_query import MAX_QUERY, MAX_WORDS, match_of
from tests.support.threads import all_at_once
from tests.support.world import InstanceGate


@pytest.fixture
def gate(state: Path) -> Iterator[LocalGate]:
    with InstanceGate(state) as gate:
        yield gate


@pytest.fixture
def index_events(corpus: Corpus) -> list[tuple[str, str]]:
    """Collect the index events."""
    told: list[tuple[str, str]] = []
    corpus.on(CortexReindexed, lambda event: told.append((event.path, event.action)))
    return told


@pytest.fixture
def cortex(corpus: Corpus, gate: LocalGate, state: Path) -> Iterator[Cortex]:
    cortex = Cortex(corpus, store=gate.store, state=state)
    yield cortex
    cortex.close()


def mail(gate: LocalGate, instance: str, to: str, body: str, **more: Any) -> int:
    return gate.intercept(Call(instance, "send_email", {"to": to, "body": body}, **more)).id


def write(gate: LocalGate, instance: str, path: str, text: str = "x", **more: Any) -> int:
    return gate.intercept(Call(instance, "write", {"path": path, "content": text}, **more)).id


def a_day(gate: LocalGate) -> None:
    """A mail that another session wants to answer too, a file that cannot be written, a lock."""
    first = mail(gate, "mira", "alice@example.com", "The Zürich invoice is on its way")
    gate.complete("mira", id=first, outcome=Outcome.DONE, result={"sent": True, "queue": "outgoing"})
    mail(gate, "doug", "alice@example.com", "Your invoice will follow", pause=True)
    failed = write(gate, "doug", "/repo/src/a.py", "print(1)", session="s1")
    gate.complete("doug", id=failed, session="s1", outcome=Outcome.FAILED, result={"error": "ENOSPC: no room left"})
    gate.intercept(
        Call("mira", "message", {"action": "send", "target": "andy", "replyTo": "msg-500", "message": "On it"})
    )
    gate.lock("ops", "#general")


def page(state: Path, path: str, text: str) -> Path:
    file = state / "brain" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name("part")
    part.write_text(text)
    written = time.time()
    os.utime(part, (written, written))  # the file system's own clock may be some milliseconds behind
    return part.replace(file)


def hits_of(cortex: Cortex, query: str, **more: Any) -> list[tuple[str, str]]:
    """Return session and answer of each hit, or the path of a page, in order."""
    return [(hit.session, hit.answer) if hit.seq else (hit.path, hit.kind) for hit in cortex.search(query, **more)]


def whole(state: Path) -> int:
    """Return the number of rows; the words must belong to these rows."""
    with closing(sqlite3.connect(state / "brain" / "search.db")) as db:
        db.execute("insert into words(words, rank) values('integrity-check', 1)")
        (rows,) = db.execute("select count(*) from doc").fetchone()
        db.rollback()
    return int(rows)


@pytest.mark.parametrize(
    ("query", "sessions"),
    [
        pytest.param("doug", {"doug", "doug/s1"}, id="a session"),
        pytest.param("send_email", {"mira", "doug"}, id="a tool"),
        pytest.param("EMAIL", {"mira", "doug"}, id="part of a tool, in another case"),
        pytest.param("email:alice@example.com", {"mira", "doug"}, id="a key, whole"),
        pytest.param("alice", {"mira", "doug"}, id="a key, in part"),
        pytest.param("a.py", {"doug/s1"}, id="a file's name"),
        pytest.param("file:/repo/src/a.py", {"doug/s1"}, id="a file's key"),
        pytest.param("thread:andy:msg-500", {"mira"}, id="a thread"),
        pytest.param("msg-500", {"mira"}, id="a message in a thread"),
        pytest.param("#general", {"ops"}, id="a channel"),
        pytest.param("lock", {"ops"}, id="an event"),
        pytest.param("confirm recent", {"doug"}, id="a verdict and a kind"),
        pytest.param("failed", {"doug/s1"}, id="an outcome"),
        pytest.param("enospc", {"doug/s1"}, id="an error"),
        pytest.param("outgoing", {"mira"}, id="a result"),
        pytest.param("zurich", {"mira"}, id="without the accent"),
        pytest.param("zürich", {"mira"}, id="with it"),
        pytest.param('"on its way"', {"mira"}, id="a phrase"),
        pytest.param('"way its on"', set(), id="no phrase"),
        pytest.param('"invoice is', {"mira"}, id="a phrase that does not end"),
        pytest.param("invo*", {"mira", "doug"}, id="the beginning of a word"),
        pytest.param('"invoice wi"*', {"doug"}, id="the beginning of a phrase"),
        pytest.param("invo", set(), id="a beginning without a star"),
        pytest.param("invoice follow", {"doug"}, id="two words"),
        pytest.param("invoice -follow", {"mira"}, id="a word left out"),
        pytest.param('invoice -"will follow" -zur*', set(), id="a phrase and a beginning left out"),
        pytest.param("invoice nonsense", set(), id="a word that is nowhere"),
        pytest.param("mira OR doug", set(), id="no operator: OR is a word"),
        pytest.param("session:mira", set(), id="no column: a phrase"),
    ],
)
def test_query_finds_its_entries(cortex: Cortex, gate: LocalGate, query: str, sessions: set[str]) -> None:
    a_day(gate)
    cortex.index()
    assert {hit.session for hit in cortex.search(query)} == sessions


def test_hit_has_all_fields(cortex: Cortex, gate: LocalGate) -> None:
    a_day(gate)
    cortex.index()
    (hit,) = cortex.search("enospc")
    entry = next(entry for entry in gate.entries() if entry.outcome == Outcome.FAILED)
    assert (hit.kind, hit.seq, hit.at, hit.path) == ("entry", entry.seq, entry.seq / 1_000_000, "")
    assert (hit.namespace, hit.session, hit.tool, hit.key) == ("default", "doug/s1", "write", "file:/repo/src/a.py")
    assert (hit.answer, hit.text) == ("complete failed", "result: error: ENOSPC: no room left")
    assert {name: [hit.text[start:end] for start, end in spans] for name, spans in hit.marks.items()} == {
        "text": ["ENOSPC"]
    }
    assert hit.score > 0


def test_matching_key_is_shown_with_its_marks(cortex: Cortex, gate: LocalGate) -> None:
    gate.intercept(Call("mira", "send_email", {"to": ["bob@example.com", "carol@example.com"], "body": "hello"}))
    cortex.index()
    (hit,) = cortex.search("carol")
    assert hit.key == "email:carol@example.com"
    assert [hit.key[start:end] for start, end in hit.marks["key"]] == ["carol"]


def test_a_day_is_found_by_its_date(cortex: Cortex, gate: LocalGate) -> None:
    a_day(gate)
    cortex.index()
    count = len(gate.entries())
    now = datetime.now(UTC).astimezone()
    days = [f"{now - timedelta(days=days):%Y-%m-%d}" for days in (0, 1)]  # it may be midnight
    assert sum(len(cortex.search(day)) for day in days) == count
    assert not cortex.search("1999-12-31")
    assert not cortex.search(f"invoice -{days[0]} -{days[1]}")


def test_newest_of_equal_matches_is_first(cortex: Cortex, gate: LocalGate) -> None:
    ids = [write(gate, "mira", f"/repo/{number}.py", "needle") for number in range(5)]
    cortex.index()
    assert [hit.seq for hit in cortex.search("needle")] == ids[::-1]
    assert [hit.seq for hit in cortex.search("needle", limit=2)] == ids[:2:-1]


def test_a_key_counts_for_more_than_a_text(cortex: Cortex, gate: LocalGate) -> None:
    for number in range(20):
        write(gate, "mira", f"/other/{number}.md", "nothing of it here")
    key = write(gate, "mira", "/repo/ledger.py")
    text = write(gate, "mira", "/repo/b.py", "the ledger")
    cortex.index()
    assert [hit.seq for hit in cortex.search("ledger")] == [key, text]


def test_filters_narrow_the_hits(cortex: Cortex, gate: LocalGate, state: Path) -> None:
    write(gate, "mira", "/repo/a.py", session="one")
    write(gate, "mira", "/repo/a.py", session="two")
    write(gate, "mi[r]a?", "/repo/a.py")
    between = write(gate, "doug", "/repo/a.py", namespace="other")
    write(gate, "doug", "/repo/b.py", "a.py")
    page(state, "episodes/2026-05-16.md", "mira wrote /repo/a.py")
    cortex.index()

    def sessions(**more: Any) -> set[str]:
        return {hit.session for hit in cortex.search("a.py", **more)}

    assert sessions() == {"mira/one", "mira/two", "mi[r]a?", "doug", ""}
    assert sessions(session="mira/one") == {"mira/one"}
    assert sessions(session="mira/*") == {"mira/one", "mira/two"}
    assert sessions(session="mi[r]a?") == sessions(session="mi[r]*") == {"mi[r]a?"}
    assert sessions(session="*") == {"mira/one", "mira/two", "mi[r]a?", "doug"}
    assert sessions(session="mira") == sessions(session="?") == sessions(session="one") == set()
    assert sessions(namespace="other") == {"doug"}
    assert sessions(namespace="none") == set()
    assert [hit.seq for hit in cortex.search("a.py", namespace="other", since=between)] == [between]
    assert not cortex.search("a.py", namespace="other", since=between + 1)
    assert len(cortex.search("a.py", since=between)) == 3
    assert not cortex.search("a.py", since=between + DAY)


@pytest.mark.parametrize(
    "query", ["", "  ", "-", "*", '""', "#", "-a", '-"a b" -c*', "?! ( ) : ^ +", "😀", "\x00\ud800"]
)
def test_a_query_needs_a_word(cortex: Cortex, query: str) -> None:
    with pytest.raises(ConfigError) as error:
        cortex.search(query)
    assert error.value.at == "query"


def test_a_query_has_its_limits(cortex: Cortex) -> None:
    assert cortex.search("w " * MAX_WORDS) == []
    with pytest.raises(ConfigError, match="query: at most 32 words, got 33"):
        cortex.search("w " * MAX_WORDS + "-w")
    with pytest.raises(ConfigError, match="query: at most 1000 characters"):
        cortex.search("w" * (MAX_QUERY + 1))
    for limit in (0, -1, 1001):
        with pytest.raises(ConfigError) as error:
            cortex.search("w", limit=limit)
        assert error.value.at == "limit"


SYNTAX = st.text(alphabet="ab\"'*-+^:(){}[].,;#@\\/ \n\t\x00\x02ORANDTé字😀\ud800\u202e", max_size=40)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=60) | SYNTAX, session=st.none() | st.text(max_size=8))
@example(query='a" OR "b', session=None)
@example(query="NEAR(a b, 2)", session='x" OR session:y')
@example(query="a" + "*" * 20, session="*[")
@example(query="{session tool}: a", session="[")
@example(query="a NOT", session="a*")
@example(query="'; drop table doc; --", session="'")
def test_any_query_can_be_searched(cortex: Cortex, gate: LocalGate, query: str, session: str | None) -> None:
    if not cortex.upto():
        a_day(gate)
        cortex.index()
    with suppress(ConfigError):
        match_of(query)
        cortex.search(query, session=session)  # what can be asked for raises nothing
        return
    with pytest.raises(ConfigError, match=r"^query: "):
        cortex.search(query, session=session)


@settings(max_examples=60, deadline=None)
@given(
    st.text(alphabet="abcXYZ0189àßжЯ字漢の가", min_size=1, max_size=12),
    st.sampled_from(["{}", "({})", "<{}>", "x:{}", "{}@y.org", "/{}/z", "#{}", "'{}'", '"{}"']),
)
def test_a_word_is_found_however_it_is_wrapped(word: str, wrapping: str) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(search_index._MAKE)
        search._add(db, [search._Row(1, 1, text=wrapping.format(word))])
        for query in (word, wrapping.format(word), f"{word[:1]}*"):
            assert search._best(db, match_of(query), (0, 9), "1", (), 5), query


def test_hostile_text_stays_on_its_line(cortex: Cortex, gate: LocalGate) -> None:
    write(gate, "mira", "/repo/a.py", "before \x1b[2J\x02fake\x03 ne\u200bed\u202ele\nand\r\nafter \x07")
    cortex.index()
    (hit,) = cortex.search("needle")
    assert hit.text.isprintable()
    assert [hit.text[start:end] for start, end in hit.marks["text"]] == ["needle"]
    (hit,) = cortex.search("fake")
    assert [hit.text[start:end] for start, end in hit.marks["text"]] == ["fake"]


def test_secrets_are_not_found(cortex: Cortex, gate: LocalGate, state: Path) -> None:
    gate.intercept(Call("mira", "http_post", {"url": "https://a.example/x", "password": "hunter2hunter2"}))
    cortex.index()
    assert cortex.search("password")
    assert not cortex.search("hunter2hunter2")
    assert b"hunter2" not in b"".join(file.read_bytes() for file in (state / "brain").iterdir())


def test_each_entry_is_indexed_once(
    cortex: Cortex, gate: LocalGate, state: Path, index_events: list[tuple[str, str]]
) -> None:
    assert (cortex.index(), cortex.upto(), cortex.search("mira"), index_events) == (0, 0, [], [])
    assert not (state / "brain").exists()
    a_day(gate)
    count = len(gate.entries())
    assert cortex.index() == count
    assert index_events == [("journal", "added")]
    assert cortex.upto() == gate.entries()[-1].seq
    assert cortex.index() == 0
    write(gate, "mira", "/repo/z.py")
    assert cortex.index() == 1
    assert index_events == [("journal", "added")] * 2
    assert whole(state) == count + 1


def test_indexing_stays_within_its_budget_and_continues_later(cortex: Cortex, gate: LocalGate, state: Path) -> None:
    for number in range(7):
        write(gate, "mira", f"/repo/{number}.py")
    page(state, "topics/a.md", "one")
    page(state, "topics/b.md", "two")
    assert [cortex.index(budget) for budget in (1, 0, 3, 3, 3, 3)] == [1, 0, 3, 3, 2, 0]
    assert whole(state) == 9


def test_files_are_private(cortex: Cortex, gate: LocalGate, state: Path) -> None:
    a_day(gate)
    cortex.index()
    assert (state / "brain").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (state / "brain").iterdir()} == {0o600}


@pytest.mark.parametrize("before", [True, False], ids=["indexed, then rotated", "rotated, then indexed"])
def test_rotated_entries_are_found(cortex: Cortex, gate: LocalGate, state: Path, before: bool) -> None:
    for number in range(20):
        gate.complete("mira", id=write(gate, "mira", f"/repo/{number}.py", "needle"), outcome=Outcome.DONE)
    count = len(gate.entries())
    if before:
        assert cortex.index() == count
    later = gate.store.now() + 2 * DAY
    moved = Rotation(gate.store, state, age=60, size=1 << 40, batch=5, now=lambda: later).run(later, rounds=100)
    assert moved > 20
    assert len(gate.entries()) < count
    assert cortex.index() == (0 if before else count)
    assert whole(state) == count
    assert len(cortex.search("needle", limit=100)) == 20
    assert cortex.search("0.py")[0].tool == "write"


def test_another_journal_is_read_from_its_beginning(
    cortex: Cortex, gate: LocalGate, corpus: Corpus, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(gate, "mira", "/repo/a.py")
    cortex.index()
    ahead = cortex.upto() + DAY
    with closing(sqlite3.connect(state / "brain" / "search.db")) as db, db:
        db.execute("update meta set value = ?", (ahead,))
    write(gate, "mira", "/repo/b.py")
    assert cortex.index() == 1
    assert "the journal ends before the index does" in caplog.text
    assert cortex.upto() == gate.entries()[-1].seq
    assert cortex.index() == 0
    assert whole(state) == 2


def test_damaged_segment_is_named_and_the_rest_is_indexed(
    cortex: Cortex, gate: LocalGate, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a_day(gate)
    cortex.index()
    (state / "journal").mkdir()
    last = gate.entries()[-1].seq
    (state / "journal" / f"{last + 1}-{last + 2}.jsonl.gz").write_bytes(b"rubbish")
    gate.intercept(Call("mira", "send_email", {"to": "zoe@example.com", "body": "hello"}))
    assert cortex.index() > 0
    assert cortex.search("alice")
    assert cortex.search("zoe")
    assert "is damaged" in caplog.text


def test_pages_are_added_changed_and_removed(cortex: Cortex, state: Path, index_events: list[tuple[str, str]]) -> None:
    day = page(state, "episodes/2026-05-16.md", "# 2026-05-16\n\nmira wrote to *alice*\n")
    page(state, "digests/2026-W20.md", "the week of the invoice")
    page(state, "topics/email-alice.md", "alice again and again")
    page(state, "topics/.hidden.md", "alice")
    page(state, "topics/notes.txt", "alice")
    page(state, "corpus/2026-05-16.log.md", "alice")
    assert cortex.index() == 3
    assert index_events == [
        ("digests/2026-W20.md", "added"),
        ("episodes/2026-05-16.md", "added"),
        ("topics/email-alice.md", "added"),
    ]
    assert sorted(hits_of(cortex, "alice")) == [
        ("episodes/2026-05-16.md", "episode"),
        ("topics/email-alice.md", "topic"),
    ]
    (hit,) = cortex.search("invoice")
    assert (hit.kind, hit.path, hit.seq, hit.session) == ("digest", "digests/2026-W20.md", 0, "")
    assert hit.at == pytest.approx((state / "brain" / hit.path).stat().st_mtime, abs=0.001)

    index_events.clear()
    assert cortex.index() == 0
    page(state, "digests/2026-W20.md", "the week of the invoice")  # written again, the same
    assert cortex.index() == 0
    assert index_events == []

    page(state, "episodes/2026-05-16.md", "mira wrote to bob")
    (state / "brain/topics/email-alice.md").unlink()
    assert cortex.index() == 2
    assert index_events == [("episodes/2026-05-16.md", "changed"), ("topics/email-alice.md", "removed")]
    assert hits_of(cortex, "alice") == []
    assert hits_of(cortex, "bob") == [("episodes/2026-05-16.md", "episode")]
    assert whole(state) == 2

    day.unlink()
    (state / "brain/digests/2026-W20.md").unlink()
    assert cortex.index() == 2
    assert whole(state) == 0


def test_a_page_is_found_beside_many_entries(
    cortex: Cortex, gate: LocalGate, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "RANKED", 5)
    ids = [write(gate, "mira", f"/repo/{number}.py", "needle") for number in range(20)]
    page(state, "topics/needle.md", "needle")
    cortex.index()
    assert sorted(hit.seq for hit in cortex.search("needle")) == [0, *ids[-4:]]


def test_only_files_are_read(cortex: Cortex, state: Path, tmp_path: Path) -> None:
    folder = page(state, "topics/a.md", "needle").parent
    (tmp_path / "secret").write_text("needle")
    (folder / "link.md").symlink_to(tmp_path / "secret")
    (folder / "folder.md").mkdir()
    os.mkfifo(folder / "fifo.md")
    (folder / os.fsdecode(b"bro\xffken.md")).write_text("needle")
    (folder / "bytes.md").write_bytes(b"needle \xff\xfe\x00")
    cortex.index()
    assert sorted(hit.path for hit in cortex.search("needle")) == ["topics/a.md", "topics/bytes.md"]
    assert cortex.index() == 0


def test_only_the_beginning_of_a_huge_page_is_read(cortex: Cortex, state: Path) -> None:
    page(state, "topics/a.md", f"first {'x' * 5_000_000} last")
    cortex.index()
    assert len(cortex.search("first")) == 1
    assert cortex.search("last") == []


def test_tick_of_the_schedule_indexes(
    cortex: Cortex, corpus: Corpus, gate: LocalGate, index_events: list[tuple[str, str]]
) -> None:
    a_day(gate)
    corpus.emit(SchedulerTick("digest", "daily"))
    assert index_events == []
    corpus.emit(SchedulerTick("index", "every 60 s"))
    assert index_events == [("journal", "added")]
    assert cortex.search("alice")
    cortex.close()
    cortex.close()
    write(gate, "mira", "/repo/z.py")
    corpus.emit(SchedulerTick("index", "every 60 s"))
    assert len(index_events) == 1


def test_failed_tick_is_reported_with_its_job(
    cortex: Cortex, corpus: Corpus, gate: LocalGate, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a_day(gate)
    (state / "brain").write_text("in the way")
    warnings: list[HealthWarning] = []
    corpus.on(HealthWarning, warnings.append)
    corpus.emit(SchedulerTick("index", "every 60 s"))
    ((resource, threshold),) = [(one.resource, one.threshold) for one in warnings]
    assert (resource, threshold) == ("job.index", "no error")


def test_huge_names_and_deep_nesting_are_bounded() -> None:
    huge = "k" * 3_000_000
    assert len(search._words({huge: {huge: "value"}}, 1000)) < 1100
    deep: Any = "bottom"
    for _ in range(900):
        deep = [deep]
    assert search._words({"a": deep, "b": 1}, 1000) == "a: , b: 1"


def test_closing_ends_indexing(cortex: Cortex, gate: LocalGate, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        write(gate, "mira", f"/repo/{number}.py")
    monkeypatch.setattr(search, "_CHUNK", 2)
    add = search._add

    def closing_add(*args: Any) -> int:
        cortex.close()
        return add(*args)

    monkeypatch.setattr(search, "_add", closing_add)
    assert cortex.index() == 2


def test_threads_share_one_index(corpus: Corpus, gate: LocalGate, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_CHUNK", 5)
    for number in range(150):
        write(gate, "mira", f"/repo/{number}.py", "needle")
    page(state, "topics/a.md", "needle")
    regions = [Cortex(corpus, store=gate.store, state=state) for _ in range(2)]
    taken: list[int] = []
    all_at_once([lambda: taken.append(regions[0].index()), lambda: taken.append(regions[1].index())] * 2)
    assert sum(taken) == 151
    assert whole(state) == 151


def rubbish(file: Path) -> None:
    file.write_bytes(os.urandom(10_000))


def notes(file: Path) -> None:
    file.write_text("somebody's notes")


def foreign(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as db:
        db.execute("create table theirs(x)")


def older(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("pragma user_version = 0")


def without_a_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("drop table page")


def without_its_words(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("pragma writable_schema = on")
        db.execute("delete from sqlite_schema where name = 'words_config'")
        db.commit()


def torn(file: Path) -> None:
    """Write a file whose head is intact and whose rest is not: the damage shows when it is read."""
    data = file.read_bytes()
    file.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])


@pytest.mark.parametrize("first", ["index", "search"])
@pytest.mark.parametrize("harm", [rubbish, notes, foreign, older, without_a_table, without_its_words, torn, cut])
def test_unusable_file_is_built_again(
    cortex: Cortex, gate: LocalGate, state: Path, harm: Any, first: str, caplog: pytest.LogCaptureFixture
) -> None:
    a_day(gate)
    count = cortex.index()
    expected = cortex.search("alice")
    file = state / "brain" / "search.db"
    harm(file)
    harmed = file.read_bytes()
    if first == "index":
        assert cortex.index() == count
    assert cortex.search("alice") == expected
    assert whole(state) == count
    assert len(caplog.records) == 1
    assert "search.db.damaged and is built again" in caplog.text
    assert (state / "brain" / "search.db.damaged").read_bytes() == harmed


@pytest.mark.parametrize("sides", [(), ("-wal",), ("-wal", "-shm")], ids=str)
def test_removed_file_is_built_again(
    cortex: Cortex, gate: LocalGate, state: Path, sides: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    a_day(gate)
    count = cortex.index()
    file = state / "brain" / "search.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("insert into meta values('old', 1)")
        db.commit()
        left = {side: Path(f"{file}{side}").read_bytes() for side in sides}
    file.unlink()
    for side, data in left.items():  # of a process that was killed
        Path(f"{file}{side}").write_bytes(data)
    assert cortex.search("alice") == []
    assert cortex.index() == count
    assert cortex.search("alice")
    assert whole(state) == count
    assert not caplog.records


def test_a_newer_index_is_left_alone(cortex: Cortex, gate: LocalGate, state: Path) -> None:
    a_day(gate)
    cortex.index()
    with closing(sqlite3.connect(state / "brain" / "search.db")) as db:
        db.execute("pragma user_version = 99")
    for use in (cortex.index, lambda: cortex.search("alice")):
        with pytest.raises(StoreError, match="made by a newer Callosum"):
            use()
    assert not (state / "brain" / "search.db.damaged").exists()


def test_missing_full_text_search_is_an_error(
    corpus: Corpus, gate: LocalGate, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_index, "_MODULE", "fts0")
    with pytest.raises(ConfigError, match=r"^search: the SQLite .* has no full text search"):
        Cortex(corpus, store=gate.store, state=state)


def test_writes_of_other_processes_are_waited_for(
    cortex: Cortex, gate: LocalGate, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(gate, "mira", "/repo/a.py", "needle")
    cortex.index()
    write(gate, "mira", "/repo/b.py", "needle")
    monkeypatch.setattr(search_index, "BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(state / "brain" / "search.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        assert cortex.index() == 0
        assert len(cortex.search("needle")) == 1
        other.execute("rollback")
    assert cortex.index() == 1


def test_entry_of_any_form_is_indexed(cortex: Cortex, gate: LocalGate) -> None:
    write(gate, "mira", "/repo/a.py")
    (entry,) = gate.entries()
    odd = {"params": [1, None, True, {"a": {"b": ["deep"]}}], "conflicts": ["x"], "note": None, "count": "y"}
    row = search._row_of(replace(entry, body=odd, seq=2**62 - 1, keys=()))
    assert row.text == "1, , true, a: b: deep · note: "
    long = search._row_of(replace(entry, body={"params": {"a": ["word " * 100] * 10_000, "b": "x" * 10_000_000}}))
    assert len(long.text) < 2 * search.MAX_TEXT
