"""Hippocampus over a real gate: its pages, when it writes them, and that two instances agree."""

from collections.abc import Iterator
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import pytest

from callosum.corpus.bus import Corpus
from callosum.corpus.events import CorpusEvent, HealthWarning, MemorySaved, SchedulerTick
from callosum.errors import StoreError
from callosum.journal import Rotation
from callosum.model import MINUTE, SECOND, Call, Decision
from callosum.pages.dates import start_of
from callosum.pages.page_folder import PageFolder
from callosum.regions.episodes import Hippocampus
from callosum.settings import Settings
from callosum.stores.sqlite import SqliteStore
from callosum.testing import ManualClock
from tests.support.threads import all_at_once
from tests.support.world import InstanceGate

DAY = date(2027, 3, 16)
RULES = """{"rules": [
  {"name": "pay", "tool": "pay", "tier": 4, "contextKey": "account:{params.to}"},
  {"name": "ask-first", "tool": "deploy", "tier": 3, "verdict": "ask", "contextKey": "host:{params.host}"}]}"""


class PageGate:
    """A gate with a manual clock, a corpus, and the events that were emitted on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tiers.json").write_text(RULES)
        self.clock = ManualClock(at(9), tick=1000)
        self.gate = InstanceGate(
            settings=Settings(state=folder, lease_ttl=60, journal_age=10.0**9),
            store=SqliteStore(folder / "gate.db", clock=self.clock),
            sleep=self.clock.sleep,
        )
        self.corpus = Corpus()
        self.seen: list[CorpusEvent] = []
        self.corpus.on("memory.*", lambda _, event: self.seen.append(event))
        self.corpus.on(HealthWarning, self.seen.append)

    def region(self) -> Hippocampus:
        return Hippocampus(self.corpus, store=self.gate.store, state=self.folder)

    def ask(self, who: str, tool: str, params: dict[str, object], **more: object) -> Decision:
        self.clock.advance(40)
        return self.gate.intercept(Call(who, tool, params, call_id=f"call-{self.clock.now}", **more))  # type: ignore[arg-type]

    def do(self, who: str, tool: str, params: dict[str, object], result: object = None, **more: object) -> Decision:
        decision = self.ask(who, tool, params, **more)
        if decision.proceed:
            self.gate.complete(who, id=decision.id, result=result, session=more.get("session"))
        return decision

    def page(self, day: date = DAY) -> str:
        return (self.folder / "brain" / "episodes" / f"{day}.md").read_text()

    def saved(self) -> list[str]:
        return [event.path for event in self.seen if isinstance(event, MemorySaved)]


def at(hour: float, day: date = DAY) -> int:
    return start_of(day) + int(hour * 3600) * SECOND


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PageGate]:
    made = PageGate(tmp_path)
    with made.gate, made.corpus:
        yield made


def message(text: str, **more: str) -> dict[str, object]:
    return {"action": "send", "target": "#general", "message": text, **more}


REPLY = {"action": "send", "target": "andy", "replyTo": "msg-500"}


def test_a_day_of_several_sessions_as_a_person_reads_it(place: PageGate) -> None:
    for number in range(3):
        place.do("mira", "read", {"path": f"/repo/{number}.md"}, session="chat")
    place.do("mira", "write", {"path": "/repo/a.md", "content": "x"}, session="chat")
    place.do("mira", "message", message("good morning"), session="chat")
    place.do("doug", "message", {**REPLY, "message": "on it"})
    assert not place.do("mira", "message", {**REPLY, "message": "I do it"}, session="chat", pause=True).proceed
    assert place.do("mira", "message", {**REPLY, "message": "I do it, then"}, session="chat", pause=True).proceed
    place.do(
        "doug",
        "email",
        {"action": "send", "to": "alice@example.com", "body": "hi"},
        result={"error": "550 no such user"},
    )
    unknown = place.ask("mira", "pay", {"to": "acme", "amount": 5}, session="chat").id
    assert not place.do("doug", "pay", {"to": "acme", "amount": 70}).proceed
    question = place.do("doug", "deploy", {"host": "prod"})
    assert place.gate.approve(question.id, by="anna", channel="cli").ok
    place.clock.advance(600)
    assert place.gate.sweep() == 1

    with place.region() as hippocampus:
        page = hippocampus.write()
    assert page == place.folder / "brain" / "episodes" / "2027-03-16.md"
    assert place.saved() == ["episodes/2027-03-16.md"]
    assert (
        place.page()
        == f"""\
# 2027-03-16, Tuesday, so far

2 sessions, 12 calls, 3 held back, 1 unknown outcome. Last entry at 09:18.

- Calls: 3 of tier 0, 1 of tier 1, 1 of tier 2, 5 of tier 3, 2 of tier 4
- Held back: 1 confirm, 1 ask, 1 block
- Not completed: 1 failed, 1 with unknown outcome
- People: 1 approved

## Unknown outcomes

These may or may not have happened; `callosum resolve ID --happened` (or `--not`) settles one:

- 09:06 `mira/chat` `pay` `'5' to 'acme'` → `account:acme` **outcome unknown**: `the lease ran out` (id `{unknown}`)

## `mira/chat`

09:00 to 09:06, 8 calls, 1 held back, read 3 times, wrote once: `file:/repo/a.md`.

- 09:03 `message` `good morning` → `channel:#general` done
- 09:04 `message` `I do it` → `thread:andy:msg-500` held back (confirm): `doug` acted on it 40 s before; let through at 09:05
- 09:05 `message` `I do it, then` → `thread:andy:msg-500` done
- 09:06 `pay` `'5' to 'acme'` → `account:acme` **outcome unknown**: `the lease ran out`

## `doug`

09:04 to 09:08, 4 calls, 2 held back.

- 09:04 `message` `on it` → `thread:andy:msg-500` done
- 09:06 `email` `hi` → `email:alice@example.com` failed: `550 no such user`
- 09:07 `pay` `'70' to 'acme'` → `account:acme` held back (block): `mira/chat` held it
- 09:08 `deploy` → `host:prod` held back (ask; approved by `anna` through `cli`): rule `ask-first`
"""
    )


def test_unchanged_page_is_not_written_again(place: PageGate) -> None:
    with place.region() as hippocampus:
        assert hippocampus.write() is None  # nothing happened
        assert not (place.folder / "brain" / "episodes").exists()
        place.do("mira", "message", message("one"))
        assert hippocampus.write() is not None
        assert hippocampus.write() is None
        place.do("mira", "message", message("two"))
        page = hippocampus.write()
        assert page is not None
        page.unlink()
        assert hippocampus.write() is not None  # it was lost
    assert len(place.saved()) == 3


def test_a_tick_of_its_job_writes_and_other_ticks_do_not(place: PageGate) -> None:
    place.do("mira", "message", message("one"))
    with place.region():
        place.corpus.emit(SchedulerTick("digest", "daily at 00:10"))
        assert place.saved() == []
        place.corpus.emit(SchedulerTick("episodes", "every 5 min"))
        assert place.saved() == ["episodes/2027-03-16.md"]
    place.do("mira", "message", message("two"))
    place.corpus.emit(SchedulerTick("episodes", "every 5 min"))
    assert len(place.saved()) == 1


def test_failed_tick_is_reported_with_its_job(place: PageGate) -> None:
    place.do("mira", "message", message("one"))
    (place.folder / "brain").write_text("in the way")
    with place.region():
        place.corpus.emit(SchedulerTick("episodes", "every 5 min"))
    warnings = [event for event in place.seen if isinstance(event, HealthWarning)]
    assert [(one.resource, one.threshold) for one in warnings] == [("job.episodes", "no error")]
    assert "cannot be used" in str(warnings[0].value)


def test_after_midnight_the_day_is_finished_once_and_the_next_begins(place: PageGate) -> None:
    with place.region() as hippocampus:
        place.do("mira", "message", message("one"))
        hippocampus.catch_up()
        assert place.page().startswith("# 2027-03-16, Tuesday, so far\n")
        place.clock.now = at(23.9)
        place.do("mira", "message", message("the last"))
        place.clock.now = at(24) + MINUTE // 2
        hippocampus.catch_up()
        assert "so far" in place.page()  # a transaction that began before midnight may still be under way
        place.clock.now = at(24) + 2 * MINUTE
        place.do("doug", "message", message("a new day"))
        assert [page.name for page in hippocampus.catch_up()] == ["2027-03-16.md", "2027-03-17.md"]
        assert place.page().startswith("# 2027-03-16, Tuesday\n")
        assert "2 calls" in place.page()
        assert "doug" not in place.page()
        assert hippocampus.catch_up() == []
        assert hippocampus.write(DAY) is None


def test_at_most_seven_missing_days_are_written_later(place: PageGate) -> None:
    for day in range(10):
        place.clock.now = at(9, DAY + timedelta(days=day))
        if day != 5:
            place.do("mira", "message", message(f"day {day}"))
    with place.region() as hippocampus:
        found = [page.name for page in hippocampus.catch_up()]
        assert found == [f"{DAY + timedelta(days=day)}.md" for day in (2, 3, 4, 6, 7, 8, 9)]
        assert hippocampus.catch_up() == []
        assert hippocampus.write(DAY) is not None  # on demand any day
        assert hippocampus.write(DAY + timedelta(days=5)) is None
    with place.region() as another:
        assert another.catch_up() == []


def test_rotated_entries_are_on_the_page(place: PageGate) -> None:
    for number in range(30):
        place.do("mira", "message", message(f"m{number}"))
    place.clock.now = at(9, DAY + timedelta(days=5))
    rotation = Rotation(place.gate.store, place.folder, age=86_400, size=10**12, batch=10, now=place.clock)
    place.gate.store.maintain(place.clock.now)
    assert rotation.run(place.clock.now, rounds=100) >= 50
    with place.region() as hippocampus:
        assert hippocampus.write(DAY) is not None
    assert "1 session, 30 calls" in place.page()


def test_entries_are_read_once(place: PageGate) -> None:
    for number in range(20):
        place.do("mira", "message", message(f"m{number}"))
    with place.region() as hippocampus:
        hippocampus.write()
        read: list[int] = []
        entries = place.gate.store.entries

        def counted(**given: object) -> object:
            found = entries(**given)  # type: ignore[arg-type]
            read.append(len(found))
            return found

        place.gate.store.entries = counted  # type: ignore[assignment, method-assign]
        assert hippocampus.write() is None
        assert sum(read) == 1
        place.do("mira", "message", message("one more"))
        read.clear()
        assert hippocampus.write() is not None
        assert sum(read) <= 3  # the newest, and the two that are new


def test_two_writers_of_one_folder_write_a_page_once(place: PageGate) -> None:
    for number in range(20):
        place.do(f"s{number % 3}", "message", message(f"m{number}"))
    with place.region() as one, place.region() as other:
        assert one.write() is not None
        assert other.write() is None
        place.do("mira", "message", message("more"))
        assert other.write() is not None
        assert one.write() is None
        place.do("mira", "message", message("still more"))
        with PageFolder(place.folder).alone("episodes"):
            assert one.write() is None  # another process is writing
        assert one.write() is not None
    assert len(place.saved()) == 3


def test_many_threads_leave_a_complete_page(place: PageGate) -> None:
    for number in range(50):
        place.do(f"s{number % 3}", "message", message(f"m{number}"))
    regions = [place.region() for _ in range(2)]

    def work(number: int) -> None:
        for _ in range(5):
            regions[number % 2].write()

    all_at_once([partial(work, number) for number in range(8)])
    assert place.saved() == ["episodes/2027-03-16.md"]
    assert "3 sessions, 50 calls" in place.page()


def test_unusable_folder_is_reported(place: PageGate) -> None:
    place.do("mira", "message", message("one"))
    (place.folder / "brain").write_text("not a folder")
    with place.region() as hippocampus:
        with pytest.raises(StoreError, match="cannot be used"):
            hippocampus.write()
        place.corpus.emit(SchedulerTick("episodes", "every 5 min"))
        assert any(isinstance(event, HealthWarning) for event in place.seen)
        (place.folder / "brain").unlink()
        assert hippocampus.write() is not None


def test_closed_writer_writes_nothing_and_can_be_closed_twice(place: PageGate) -> None:
    place.do("mira", "message", message("one"))
    hippocampus = place.region()
    hippocampus.close()
    hippocampus.close()
    assert hippocampus.write() is None
    assert place.corpus.handlers(SchedulerTick) == 0


def test_empty_page_left_by_a_power_cut_is_written_again(place: PageGate) -> None:
    place.do("mira", "message", message("one"))
    with place.region() as hippocampus:
        hippocampus.write()
    place.clock.now = at(12, DAY + timedelta(days=1))
    (place.folder / "brain" / "episodes" / f"{DAY}.md").write_text("")
    with place.region() as hippocampus:
        assert [page.name for page in hippocampus.catch_up()] == [f"{DAY}.md"]
    assert place.page().startswith("# 2027-03-16, Tuesday\n")


def test_a_long_read_is_given_up_when_it_is_closed(place: PageGate) -> None:
    place.do("mira", "message", message("one"))
    hippocampus = place.region()
    entries = place.gate.store.entries

    def closing(**given: object) -> object:
        hippocampus.close()
        return entries(**given)  # type: ignore[arg-type]

    place.gate.store.entries = closing  # type: ignore[assignment, method-assign]
    assert hippocampus.write() is None
    assert not (place.folder / "brain" / "episodes").exists()
