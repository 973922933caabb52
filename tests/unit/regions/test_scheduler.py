"""Brainstem: jobs and their times, weeks and topics, and files that are created, changed and removed."""

import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from watchfiles import Change

from callosum.corpus.bus import Corpus
from callosum.corpus.events import (
    CorpusEvent,
    HealthWarning,
    MemoryConsolidated,
    MemoryPromoted,
    SchedulerTick,
    WatcherChanged,
)
from callosum.errors import ConfigError, StoreError, StoreUnavailable
from callosum.model import SECOND, Call, Entry
from callosum.pages import consolidation
from callosum.pages.dates import start_of
from callosum.pages.page_folder import PageFolder
from callosum.regions.episodes import Hippocampus
from callosum.regions.scheduler import JOBS, Brainstem, ScheduledJob, _Interval
from callosum.regions.watched_files import WatchedFiles
from callosum.settings import Settings
from callosum.stores.sqlite import SqliteStore
from callosum.testing import ManualClock
from tests.support.threads import all_at_once
from tests.support.world import InstanceGate

ROOT = Path(__file__).resolve().parents[3]
MONDAY = date(2027, 3, 15)
WAIT = 60.0
"""Seconds until a test fails; the awaited events arrive in well under one."""


class ScheduledGate:
    """A gate with a manual clock, a corpus, and the events that were emitted on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rules = folder / "tiers.json"
        self.clock = ManualClock(start_of(MONDAY) + 9 * 3600 * SECOND, tick=1000)
        self.gate = InstanceGate(
            settings=Settings(state=folder, lease_ttl=60),
            store=SqliteStore(folder / "gate.db", clock=self.clock),
            sleep=self.clock.sleep,
        )
        self.corpus = Corpus()
        self.seen: list[CorpusEvent] = []
        self._news = threading.Condition()
        self.corpus.on("*", self._note)

    def _note(self, _: str, event: CorpusEvent) -> None:
        with self._news:
            self.seen.append(event)
            self._news.notify_all()

    def until(self, what: Callable[[list[CorpusEvent]], object]) -> None:
        """Wait until the emitted events satisfy the condition."""
        with self._news:
            assert self._news.wait_for(lambda: bool(what(self.seen)), WAIT), self.seen

    def brainstem(self, **given: object) -> Brainstem:
        return Brainstem(self.corpus, gate=self.gate, state=self.folder, **given)  # type: ignore[arg-type]

    def of(self, kind: type[CorpusEvent]) -> list[CorpusEvent]:
        return [event for event in self.seen if isinstance(event, kind)]

    def on_day(self, day: int, hour: float = 9) -> None:
        self.clock.now = start_of(MONDAY + timedelta(days=day)) + int(hour * 3600) * SECOND

    def send(self, who: str, target: str = "#general", namespace: str = "default") -> None:
        self.clock.advance(300)
        params = {"action": "send", "target": target, "message": f"{who} at {self.clock.now}"}
        decision = self.gate.intercept(Call(who, "message", params, namespace=namespace, call_id=str(self.clock.now)))
        assert decision.proceed
        self.gate.complete(who, id=decision.id, namespace=namespace)

    def page(self, path: str) -> str:
        return (self.folder / "brain" / path).read_text()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[ScheduledGate]:
    made = ScheduledGate(tmp_path)
    with made.gate, made.corpus:
        yield made


def test_the_jobs_and_their_schedules_in_words() -> None:
    assert {job.name: job.schedule for job in JOBS} == {
        "health": "every 30 s",
        "sweep": "every 30 s",
        "retention": "every 10 min",
        "episodes": "every 5 min",
        "index": "every 1 min",
        "digest": "daily at 00:10",
        "topics": "every 1 h",
    }
    assert ScheduledJob("x", every=0.5).schedule == "every 0.5 s"
    assert ScheduledJob("x", every=90).schedule == "every 90 s"
    assert ScheduledJob("x", every=2 * 86_400).schedule == "every 2 d"


BAD = [({}, "job x: expected either"), ({"every": 1, "daily": "00:10"}, "expected either"), ({"every": 0}, "job x.every"), ({"every": -1}, "job x.every"),
       ({"every": float("nan")}, "job x.every"), ({"every": float("inf")}, "job x.every"), ({"daily": "24:00"}, "job x.daily"), ({"daily": "0:10"}, "job x.daily"),
       ({"daily": "00:10\n"}, "job x.daily")]  # fmt: skip


@pytest.mark.parametrize(("given", "words"), BAD)
def test_invalid_job_is_refused_with_its_place(given: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ScheduledJob("x", **given)  # type: ignore[arg-type]


def test_next_run_times_are_computed(place: ScheduledGate) -> None:
    with place.brainstem() as brainstem:
        times = brainstem.times()
        now = time.time()
        assert set(times) == {job.name for job in JOBS}
        for job in JOBS:
            if job.every is not None:
                assert 0 < times[job.name] - now <= (job.first or job.every) + 1
    assert brainstem.times() == {}


def test_a_missing_digest_is_written_soon_after_the_start_and_else_at_its_time(place: ScheduledGate) -> None:
    with place.brainstem() as brainstem:
        assert brainstem.times()["digest"] - time.time() <= 61
        brainstem.run_job("digest")  # nothing happened last week, so nothing is missing any more
    other = place.brainstem()
    other.run_job("digest")
    with other:
        at = datetime.fromtimestamp(other.times()["digest"], UTC).astimezone()
        assert (at.hour, at.minute) == (0, 10)


def test_unreachable_store_does_not_stop_the_schedule_from_starting(place: ScheduledGate) -> None:
    place.gate.store.close()
    (place.folder / "gate.db").write_bytes(b"not a database, but somebody's notes\n" * 100)
    with pytest.raises(StoreError):
        place.gate.store.now()
    with place.brainstem() as brainstem:
        assert set(brainstem.times()) == {job.name for job in JOBS}


def test_jobs_run_at_their_times(place: ScheduledGate) -> None:
    with place.brainstem(jobs=[ScheduledJob("quick", every=0.02), ScheduledJob("sweep", every=0.02)]):
        for name in ("quick", "sweep"):
            place.until(lambda seen, name=name: sum(getattr(event, "job_name", "") == name for event in seen) >= 3)  # type: ignore[misc]
    assert {event.schedule for event in place.of(SchedulerTick)} == {"every 0.02 s"}  # type: ignore[attr-defined]
    assert not place.of(HealthWarning)


def test_nothing_runs_before_the_start_nor_after_the_end(place: ScheduledGate) -> None:
    brainstem = place.brainstem(jobs=[ScheduledJob("quick", every=0.01)])
    brainstem.close()
    brainstem.close()
    assert brainstem.run_job("quick") is False
    with pytest.raises(RuntimeError, match="closed"):
        brainstem.start()
    assert place.seen == []


def test_closing_ends_all_threads(place: ScheduledGate) -> None:
    before = set(threading.enumerate())
    brainstem = place.brainstem(watch=[place.rules], jobs=[ScheduledJob("quick", every=0.01)])
    brainstem.start()
    brainstem.start()
    place.until(lambda seen: seen)
    brainstem.close()
    left = [thread for thread in set(threading.enumerate()) - before if thread.is_alive()]
    assert left == []


def test_unknown_job_is_refused_with_the_list_of_jobs(place: ScheduledGate) -> None:
    with pytest.raises(ConfigError, match=r'job: there is no job "tpoics"; there are .*topics'):
        place.brainstem().run_job("tpoics")


def test_failed_job_is_reported_and_runs_again(place: ScheduledGate, caplog: pytest.LogCaptureFixture) -> None:
    brainstem = place.brainstem(jobs=[ScheduledJob("sweep", every=0.02)])
    calls = 0

    def away() -> int:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise StoreUnavailable("the disk is full; token=ghp_abcdefghijklmnopqrstuvwxyz0123456789\n# x")
        return 0

    brainstem._own = {"sweep": away}
    with caplog.at_level(logging.CRITICAL, "callosum"), brainstem:
        place.until(lambda _: calls >= 5)
    warnings = place.of(HealthWarning)
    assert len(warnings) == 2
    first = warnings[0]
    assert isinstance(first, HealthWarning)
    assert (first.resource, first.threshold) == ("job.sweep", "no error")
    assert str(first.value).startswith("the disk is full")
    assert "ghp_" not in str(first.value)
    assert str(first.value).isprintable()


def test_job_never_overlaps_itself_and_others_continue(place: ScheduledGate, caplog: pytest.LogCaptureFixture) -> None:
    brainstem = place.brainstem(jobs=[ScheduledJob("sweep", every=0.01), ScheduledJob("other", every=0.01)])
    inside, most = 0, 0
    go, entered = threading.Event(), threading.Event()

    def slow() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        entered.set()
        go.wait(WAIT)
        inside -= 1

    brainstem._own = {"sweep": slow}
    caplog.set_level(logging.ERROR, "apscheduler")
    with brainstem:
        assert entered.wait(WAIT)
        assert brainstem.run_job("sweep") is False
        place.until(lambda seen: sum(getattr(event, "job_name", "") == "other" for event in seen) >= 5)
        assert sum(getattr(event, "job_name", "") == "sweep" for event in place.seen) == 1
        go.set()
    assert most == 1


def test_a_handler_may_close_from_within_a_job(place: ScheduledGate) -> None:
    brainstem = place.brainstem(jobs=[ScheduledJob("quick", every=0.01)])
    place.corpus.on(SchedulerTick, lambda _: brainstem.close())
    brainstem.start()
    place.until(lambda seen: seen)
    assert brainstem.run_job("quick") is False


STUCK = """
import sys, threading
from pathlib import Path
from callosum.corpus.bus import Corpus
from callosum.corpus.events import SchedulerTick
from callosum.gate import LocalGate
from callosum.regions import scheduler
from callosum.settings import Settings

scheduler._PATIENCE = 0.05
entered = threading.Event()
corpus, gate = Corpus(), LocalGate(settings=Settings(state=Path(sys.argv[1])))
corpus.on(SchedulerTick, lambda _: (entered.set(), threading.Event().wait()))
brainstem = scheduler.Brainstem(corpus, gate=gate, state=Path(sys.argv[1]), jobs=[scheduler.ScheduledJob("x", every=9, first=0)])
brainstem.start()
entered.wait()
brainstem.close()
print("the end")
"""


def test_a_job_that_blocks_is_abandoned_and_does_not_keep_the_interpreter_from_ending(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", STUCK, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=2 * WAIT, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "the end\n"), ended.stderr
    assert "is abandoned" in ended.stderr


def test_libraries_do_not_log_each_run_and_change(place: ScheduledGate, monkeypatch: pytest.MonkeyPatch) -> None:
    loud = [logging.getLogger(name) for name in ("apscheduler", "watchfiles")]
    for logger, level in zip(loud, (logging.NOTSET, logging.DEBUG), strict=True):
        monkeypatch.setattr(logger, "level", level)
    with place.brainstem(jobs=[]):
        assert not logging.getLogger("apscheduler.scheduler").isEnabledFor(logging.INFO)
        assert logging.getLogger("watchfiles.main").isEnabledFor(logging.DEBUG)  # where a handler subscribes to it


def test_missed_runs_count_once_however_far_the_clock_jumped() -> None:
    trigger = _Interval(seconds=30, timezone=UTC)
    then, now = datetime(1970, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    assert trigger.get_next_fire_time(then, now) == now + timedelta(seconds=30)
    assert trigger.get_next_fire_time(now - timedelta(seconds=10), now) == now + timedelta(seconds=20)


def test_clock_set_back_restarts_the_schedule(place: ScheduledGate) -> None:
    with place.brainstem() as brainstem:
        assert brainstem._schedule is not None
        for job in brainstem._schedule.get_jobs():
            job.modify(next_run_time=datetime.now(UTC) + timedelta(days=400))
        brainstem._look_at_clock()
        assert min(brainstem.times().values()) - time.time() > 86_400  # it was not: nothing is done
        brainstem._latest = time.time_ns() // 1000 + 400 * 86_400 * SECOND
        brainstem._look_at_clock()
        for job in JOBS:
            assert brainstem.times()[job.name] - time.time() <= (job.every or 86_400) + 1


def test_sweep_settles_expired_leases(place: ScheduledGate) -> None:
    place.gate.lock("mira", "file:/x", 3, 60)
    place.gate.intercept(Call("doug", "email", {"action": "send", "to": "a@example.com", "body": "x"}))
    brainstem = place.brainstem()
    assert brainstem.run_job("sweep")
    assert not place.gate.status().unknown
    place.clock.advance(120)
    assert brainstem.run_job("sweep")
    assert len(place.gate.entries()) == 4
    assert place.of(SchedulerTick)[0] == SchedulerTick("sweep", "every 30 s", at=place.seen[0].at)


def test_retention_rotates_the_journal(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, journal_age=0.001)
    with InstanceGate(settings=settings) as gate, Corpus() as corpus:
        for number in range(20):
            gate.intercept(Call("mira", "read", {"path": f"/{number}"}))
        brainstem = Brainstem(corpus, gate=gate, state=tmp_path)
        assert brainstem.run_job("retention")
        assert list((tmp_path / "journal").glob("*.jsonl.gz"))


@pytest.mark.parametrize(("fault", "traced"), [(StoreUnavailable("the store is away"), False), (KeyError("x"), True)])
def test_unreachable_store_logs_no_tracebacks(
    place: ScheduledGate,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    *,
    traced: bool,
) -> None:
    brainstem = place.brainstem()

    def refused() -> None:
        raise fault

    monkeypatch.setitem(brainstem._own, "sweep", refused)
    assert brainstem.run_job("sweep")
    (record,) = caplog.records
    assert "sweep" in record.getMessage()
    assert (record.exc_info is not None) is traced
    assert [str(getattr(event, "resource", "")) for event in place.of(HealthWarning)] == ["job.sweep"]


def test_the_digest_of_the_last_week_is_written_once(place: ScheduledGate) -> None:
    brainstem = place.brainstem()
    for day in (0, 2):
        place.on_day(day)
        place.send("mira")
        place.send("doug")
    with Hippocampus(place.corpus, store=place.gate.store, state=place.folder) as hippocampus:
        place.on_day(6, 12)
        hippocampus.catch_up()
    brainstem.run_job("digest")
    assert place.of(MemoryConsolidated) == []  # this week is not over, and in the last one nothing happened
    place.on_day(7, 1)
    brainstem.run_job("digest")
    brainstem.run_job("digest")
    place.brainstem().run_job("digest")
    (told,) = place.of(MemoryConsolidated)
    assert isinstance(told, MemoryConsolidated)
    assert (told.week, told.episode_count) == ("2027-W11", 2)
    text = place.page("digests/2027-W11.md")
    assert text.startswith("# 2027-W11, 2027-03-15 to 2027-03-21\n\n2 sessions, 4 calls, 0 held back.\n")
    assert "[2027-03-17](../episodes/2027-03-17.md): 2 sessions, 2 calls, 0 held back." in text
    assert "- `channel:#general`: 4 calls" in text


def test_digest_counts_its_days_with_or_without_a_page(place: ScheduledGate) -> None:
    for day in (0, 2, 3):
        place.on_day(day)
        place.send("mira")
    with Hippocampus(place.corpus, store=place.gate.store, state=place.folder) as hippocampus:
        hippocampus.write()  # only for the last of them: on the others no process was running to write one
    place.on_day(7, 1)
    place.brainstem().run_job("digest")
    (told,) = place.of(MemoryConsolidated)
    assert isinstance(told, MemoryConsolidated)
    assert (told.week, told.episode_count) == ("2027-W11", 3)
    text = place.page(f"digests/{told.week}.md")
    assert [line.partition(":")[0] for line in text.splitlines() if line.startswith(("- 2027", "- [2027"))] == [
        "- 2027-03-15",
        "- 2027-03-17",
        "- [2027-03-18](../episodes/2027-03-18.md)",
    ]


def test_a_key_to_which_sessions_return_gets_a_page(place: ScheduledGate) -> None:
    brainstem = place.brainstem()
    for day, who in enumerate(("mira", "doug")):
        place.on_day(day)
        place.send(who)
        place.send(who, "#elsewhere")
    brainstem.run_job("topics")
    assert place.of(MemoryPromoted) == []
    place.send("anna")
    brainstem.run_job("topics")
    (told,) = place.of(MemoryPromoted)
    assert isinstance(told, MemoryPromoted)
    assert told.topic == "channel:#general"
    assert told.namespace == "default"
    text = place.page(told.path)
    assert text.startswith("# `channel:#general`\n\n3 sessions, 3 calls since 2027-03-15.\n")
    assert re.findall(r"`(\w+)` `message` `\1 at \d+` done", text) == ["anna", "doug", "mira"]

    place.send("mira")
    brainstem.run_job("topics")
    assert "3 sessions, 4 calls" in place.page(told.path)
    other = place.brainstem()  # a new process reads the days again and writes the same
    other.run_job("topics")
    assert "3 sessions, 4 calls" in place.page(told.path)
    assert len(place.of(MemoryPromoted)) == 1
    assert len(list((place.folder / "brain" / "topics").iterdir())) == 1


def test_a_process_that_has_run_for_weeks_writes_what_a_new_one_writes(place: ScheduledGate) -> None:
    old, pages = place.brainstem(), []
    for day in range(12):
        place.on_day(day)
        for number in range(5 * (12 - day)):
            place.send(("mira", "doug", "anna", "bea")[(day + number) % 4], f"#channel{number % 2}")
        place.gate.lock("mira", "channel:#channel0", 3, 60)  # is settled by a sweep, the next day
        old.run_job("sweep")
        old.run_job("topics")
        found = {path.name: path.read_bytes() for path in (place.folder / "brain" / "topics").glob("*.md")}
        for path in (place.folder / "brain" / "topics").glob("*.md"):
            path.unlink()
        place.brainstem().run_job("topics")
        assert {path.name: path.read_bytes() for path in (place.folder / "brain" / "topics").glob("*.md")} == found
        pages.append(found)
    assert [len(found) for found in pages] == [0] + 11 * [2]
    assert any(b" since 2027-03-20" in text for text in pages[-1].values())  # seven days


def test_topics_are_read_in_parts_and_written_once_complete(
    place: ScheduledGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_days(place)
    monkeypatch.setattr(consolidation, "BUDGET", 4)
    read = 0
    entries = consolidation.Consolidation._entries

    def counted(self: consolidation.Consolidation, start: int, end: int | None = None) -> Iterator[Entry]:
        nonlocal read
        for entry in entries(self, start, end):
            read += 1
            yield entry

    monkeypatch.setattr(consolidation.Consolidation, "_entries", counted)
    brainstem, reads = place.brainstem(), []
    while not place.of(MemoryPromoted):
        before = read
        assert brainstem.run_job("topics")
        reads.append(read - before)
        assert len(reads) < 10
    assert max(reads) <= 5  # one more is read to see that it is beyond
    assert sum(reads) >= 12  # six to find it, and six for its page
    (told,) = place.of(MemoryPromoted)
    assert "3 sessions, 3 calls since 2027-03-16" in place.page(told.path)  # type: ignore[attr-defined]


def test_topics_of_two_namespaces_are_separate(place: ScheduledGate) -> None:
    for day, who in enumerate(("mira", "doug", "anna")):
        place.on_day(day)
        for namespace in ("default", "work"):
            place.send(who, namespace=namespace)
    place.brainstem().run_job("topics")
    told = [event for event in place.seen if isinstance(event, MemoryPromoted)]
    assert {event.namespace for event in told} == {"default", "work"}
    for event in told:
        assert ("in `work`" in place.page(event.path)) is (event.namespace == "work")


def test_nothing_is_written_while_another_process_writes(place: ScheduledGate) -> None:
    three_days(place)
    brainstem = place.brainstem()
    with PageFolder(place.folder).alone("topics"), PageFolder(place.folder).alone("digests"):
        brainstem.run_job("topics")
        brainstem.run_job("digest")
        assert not place.of(MemoryPromoted)
        assert not place.of(MemoryConsolidated)
    brainstem.run_job("topics")
    brainstem.run_job("digest")
    assert len(place.of(MemoryPromoted)) == len(place.of(MemoryConsolidated)) == 1


def three_days(place: ScheduledGate) -> None:
    """Journal entries that make a topic, and a digest on the Monday after."""
    for day, who in enumerate(("mira", "doug", "anna"), 1):
        place.on_day(day)
        place.send(who)
    place.on_day(7)


def race(place: ScheduledGate) -> int:
    """Run two at once; return the numbers of digests and topics that they emit."""
    three_days(place)

    def work(one: Brainstem) -> None:
        for job in ("digest", "topics"):
            one.run_job(job)

    all_at_once([partial(work, place.brainstem()) for _ in range(2)])
    assert not place.of(HealthWarning)
    return len(place.of(MemoryPromoted)) + len(place.of(MemoryConsolidated))


def test_only_one_of_two_processes_writes(place: ScheduledGate) -> None:
    assert race(place) == 2


def test_without_the_lock_both_processes_write(place: ScheduledGate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without locks, and at the worst moment, everything is written twice."""
    has, met = PageFolder.has, {"digests": threading.Barrier(2), "topics": threading.Barrier(2)}

    @contextmanager
    def torn(self: PageFolder, what: str) -> Iterator[bool]:
        yield True

    def late(self: PageFolder, path: str) -> bool:
        found = has(self, path)
        if (sort := path.partition("/")[0]) in met:
            met[sort].wait(WAIT)
        return found

    def own_draft(self: PageFolder, path: str, text: str) -> bool:
        return True  # two drafts of one name are what the lock prevents

    monkeypatch.setattr(PageFolder, "alone", torn)
    monkeypatch.setattr(PageFolder, "has", late)
    monkeypatch.setattr(PageFolder, "write", own_draft)
    assert race(place) == 4


def replace(path: Path, text: str) -> None:
    """Replace a file as editors do: with a new file."""
    draft = path.with_name(f"{path.name}~")
    draft.write_text(text)
    draft.replace(path)


def changes(seen: list[CorpusEvent], path: Path) -> list[str]:
    return [event.change_type for event in seen if isinstance(event, WatcherChanged) and event.path == str(path)]


def rule(name: str) -> str:
    return f'{{"rules": [{{"name": "{name}", "tool": "thing", "tier": 4}}]}}'


def test_new_rules_apply_before_the_change_is_emitted(place: ScheduledGate) -> None:
    found: list[str] = []

    def look(_: WatcherChanged) -> None:
        found.append(place.gate.rules._rules.classify(Call("mira", "thing")).rule)

    place.corpus.on(WatcherChanged, look)
    with place.brainstem(watch=[place.rules]):
        replace(place.rules, rule("one"))  # at once: no reader sees half of it
        place.until(lambda seen: changes(seen, place.rules) == ["created"])
        replace(place.rules, rule("second"))
        place.until(lambda seen: changes(seen, place.rules) == ["created", "changed"])
        place.rules.unlink()
        place.until(lambda seen: changes(seen, place.rules) == ["created", "changed", "deleted"])
    assert found[:2] == ["one", "second"]
    assert found[2] != "second"
    assert not place.of(HealthWarning)


def test_invalid_rules_are_reported_with_the_place_and_the_old_ones_stay(
    place: ScheduledGate, caplog: pytest.LogCaptureFixture
) -> None:
    with place.brainstem(watch=[place.rules]):
        replace(place.rules, rule("one"))  # at once: no reader sees half of it
        place.until(lambda seen: changes(seen, place.rules))
        replace(place.rules, '{"rules": [{"name": "two", "tool": "thing", "tier": 9}]}')
        place.until(lambda seen: any(isinstance(event, HealthWarning) for event in seen))
        (warning,) = place.of(HealthWarning)
        assert isinstance(warning, HealthWarning)
        assert (warning.resource, warning.threshold) == ("rules", "valid")
        assert "rules[0].tier" in str(warning.value)
        assert place.gate.rules._rules.classify(Call("mira", "thing")).rule == "one"
        replace(place.rules, rule("three"))
        place.until(lambda seen: len(changes(seen, place.rules)) == 3)
    assert len(place.of(HealthWarning)) == 1
    assert place.gate.rules._rules.classify(Call("mira", "thing")).rule == "three"


def test_other_files_of_the_folder_do_not_count(place: ScheduledGate) -> None:
    wanted = place.folder / "callosum.toml"
    with place.brainstem(watch=[wanted]):
        for number in range(50):
            (place.folder / f"other{number}").write_text("x")
        place.send("mira")
        wanted.write_text("[lease]\n")
        place.until(lambda seen: changes(seen, wanted))
    assert len(place.of(WatcherChanged)) == 1


def test_changes_of_other_files_wake_the_watcher_once_a_second(place: ScheduledGate) -> None:
    files = WatchedFiles([place.rules])
    files._looked = time.monotonic() + 3600
    assert files._wakes(Change.modified, str(place.rules))
    assert not files._wakes(Change.modified, str(place.folder / "gate.db-wal"))
    files._looked = time.monotonic() - 2  # nor do many of them keep it from looking
    assert files._wakes(Change.modified, str(place.folder / "gate.db-wal"))


def test_folder_may_be_created_later_removed_and_created_again(place: ScheduledGate) -> None:
    wanted = place.folder / "later" / "deep" / "callosum.toml"
    with place.brainstem(watch=[wanted, place.rules]):
        wanted.parent.mkdir(parents=True)
        wanted.write_text("one")
        place.until(lambda seen: changes(seen, wanted) == ["created"])
        wanted.unlink()
        wanted.parent.rmdir()
        place.until(lambda seen: changes(seen, wanted) == ["created", "deleted"])
        wanted.parent.mkdir()
        wanted.write_text("two")
        place.until(lambda seen: changes(seen, wanted) == ["created", "deleted", "created"])


def test_a_file_behind_a_link_is_seen(place: ScheduledGate, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "rules.json"
    real.parent.mkdir()
    real.write_text(rule("one"))
    link = place.folder / "linked.json"
    link.symlink_to(real)
    files = WatchedFiles([link])
    assert files.changes() == []
    replace(real, rule("another"))
    assert files.changes() == [(link, "changed")]
    link.unlink()
    assert files.changes() == [(link, "deleted")]
    assert files.changes() == []


def test_folder_of_the_gate_is_checked_without_reports(place: ScheduledGate, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "callosum.toml"
    elsewhere.parent.mkdir()
    files = WatchedFiles([place.rules, elsewhere], busy=place.folder)
    assert list(files._there()) == [str(elsewhere.parent)]
    replace(place.rules, rule("one"))
    assert files.changes() == [(place.rules, "created")]


def test_files_are_checked_where_the_system_cannot_watch(
    place: ScheduledGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> Iterator[object]:
        raise OSError("inotify watch limit reached")

    monkeypatch.setattr("callosum.regions.watched_files.watch", refuse)
    monkeypatch.setattr("callosum.regions.watched_files.LOOK_EVERY", 10)
    caplog.set_level(logging.ERROR, "callosum")
    wanted = tmp_path / "elsewhere" / "callosum.toml"
    wanted.parent.mkdir()
    with place.brainstem(watch=[wanted]):
        replace(wanted, "one")  # at once: no reader sees half of it
        place.until(lambda seen: changes(seen, wanted) == ["created"])
