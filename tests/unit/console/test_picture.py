"""What the console remembers is bounded, whatever the sessions do, and where actions are drawn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from callosum.console import picture as pictures
from callosum.console.lanes import BARS, WIDTH, draw
from callosum.console.picture import Bar, Picture
from callosum.console.rates import Ended
from callosum.console.views import Views
from callosum.gate import LocalGate
from callosum.journal import Journal
from callosum.model import SECOND, Call, State, Verdict
from callosum.pages.totals import JournalTotals
from callosum.regions.learning.endings import Ending, StoppedCall
from callosum.settings import Settings

RULES = """{"rules": [
    {"name": "refund", "tool": "refund", "tier": 3, "verdict": "ask", "contextKey": "account:{params.to}"},
    {"name": "deploy", "tool": "deploy", "tier": 3, "verdict": "block", "contextKey": "env:{params.env}"}
]}"""


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[LocalGate]:
    (tmp_path / "tiers.json").write_text(RULES)
    with LocalGate(settings=Settings(state=tmp_path)) as made:
        yield made


def test_blocked_calls_without_end_push_out_no_question(gate: LocalGate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_HELD", 10)
    picture = Picture(Journal(gate.store, gate.settings.state), "default")
    asked = gate.intercept(Call("mira", "refund", {"to": "Bob"}, session="chat"))
    for number in range(30):
        gate.intercept(Call("mira", "deploy", {"env": f"e{number}"}, session="flood"))
    picture.update()
    assert len(picture.held) == 10
    assert picture.held[asked.id].verdict is Verdict.ASK
    assert sum(entry.verdict is Verdict.BLOCK for entry in picture.held.values()) == 9, "the newest of the others"


def test_texts_of_forgotten_actions_are_dropped(gate: LocalGate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST", 5)
    monkeypatch.setattr(pictures, "_NAMES", 20)
    picture = Picture(Journal(gate.store, gate.settings.state), "default")
    for number in range(100):
        gate.intercept(Call("mira", "read_file", {"path": f"/tmp/{number}"}, session="chat"))
        picture.update()
    assert len(picture.bars) == 5
    assert len(picture._names) <= 4 * 5 + 20 + 3


def test_session_that_works_on_is_acting_and_says_what_needs_a_person(gate: LocalGate) -> None:
    views = Views(gate, "default")

    def row() -> tuple[str, int]:
        views.update()
        (session,) = views.sessions()["alone"]
        return session.state, session.needs

    gate.intercept(Call("mira", "deploy", {"env": "live"}, session="chat"))
    assert row() == ("person", 1)
    gate.intercept(Call("mira", "read_file", {"path": "/tmp/a"}, session="chat"))
    assert row() == ("acting", 1)
    for _ in range(2):  # the second is the same question
        gate.intercept(Call("mira", "refund", {"to": "Bob"}, session="chat"))
        assert row() == ("person", 2)


def test_nobody_is_asked_whether_a_read_happened(gate: LocalGate) -> None:
    views, totals = Views(gate, "default"), JournalTotals(0)
    for tool, params in (("read_file", {"path": "/tmp/a"}), ("send_email", {"to": "a@example.com"})):
        gate.complete("mira", id=gate.intercept(Call("mira", tool, params)).id, outcome="unknown")
    views.update()
    for entry in gate.entries():
        totals.add(entry)
    asked = [one.tool for one in views.all_waiting()]
    assert asked == [one.tool for one in gate.status().unknown] == ["send_email"]
    assert totals.unknowns == 1


def test_report_counts_no_stop_that_ran_anyway_as_prevented_and_no_canary(gate: LocalGate) -> None:
    for session in ("chat", "callosum-doctor"):
        gate.intercept(Call("mira", "deploy", {"env": "live"}, session=session))
    views = Views(gate, "default")
    assert views.report()["counts"] == {"calls": 1, "block": 1}
    stopped = StoppedCall(1, "default", "chat", "deploy", "deploy", 3, Verdict.BLOCK, frozenset(), (), {})
    ended = Ended()
    ended.add(Ending(how, 1, stopped) for how in ("heeded", "waited", "denied", "confirmed", "regretted"))
    assert [one.how for one in ended.prevented(9)] == ["denied", "waited", "heeded"]
    assert (ended.useful, ended.false) == (3, 0)


def bar(id: int, session: str, begin: int, end: int = 0, **more: object) -> Bar:
    said = {"tool": "write", "tier": 1, "verdict": Verdict.ALLOW, "state": State.DONE, "key": "file:/a"} | more
    return Bar(id=id, session=session, begin=begin * SECOND, end=end * SECOND, **said)  # type: ignore[arg-type]


def test_an_action_is_drawn_from_its_begin_to_its_end_and_an_open_one_to_the_edge() -> None:
    drawn = draw([bar(1, "a", 10, 20), bar(2, "b", 50, state=State.OPEN)], 0, 100 * SECOND)
    assert [(round(box.x), round(box.width)) for box in drawn.boxes] == [(100, 100), (500, 500)]
    assert [row.session for row in drawn.rows] == ["a", "b"]


def test_those_that_met_are_tied_the_newest_first_and_the_rest_is_counted() -> None:
    drawn = draw(
        [bar(1, "a", 1, 2), *(bar(at, "b", at, at + 1, met=(1, 9999)) for at in range(2, 403))], 0, 500 * SECOND
    )
    assert (len(drawn.ties), drawn.untied) == (300, 101)
    assert drawn.ties[0].x == drawn.boxes[-1].x
    assert drawn.ties[0].y1 < drawn.ties[0].y2


def test_of_very_many_neighbours_become_one_with_a_count_and_the_gravest_look() -> None:
    bars = [bar(at, f"s{at % 5}", at, at + 1) for at in range(10_000)]
    bars[7000] = bar(7000, "s0", 7000, 7001, tier=4, state=State.UNKNOWN)
    drawn = draw(bars, 0, 10_000 * SECOND)
    assert 1000 < len(drawn.boxes) <= BARS
    assert sum(box.count for box in drawn.boxes) == drawn.count == 10_000
    (grave,) = [box for box in drawn.boxes if box.state == "unknown"]
    assert (grave.tier, abs(grave.x - 0.7 * WIDTH) < 5) == (4, True)
