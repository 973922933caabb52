"""Where actions are drawn."""

from callosum.console.lanes import BARS, WIDTH, draw
from callosum.console.picture import Bar
from callosum.model import SECOND, State, Verdict


def bar(id: int, session: str, begin: int, end: int = 0, **more: object) -> Bar:
    said = {"tool": "write", "tier": 1, "verdict": Verdict.ALLOW, "state": State.DONE, "key": "file:/a"} | more
    return Bar(id=id, session=session, begin=begin * SECOND, end=end * SECOND, **said)  # type: ignore[arg-type]


def test_an_action_is_drawn_from_its_begin_to_its_end_and_an_open_one_to_the_edge() -> None:
    drawn = draw([bar(1, "a", 10, 20), bar(2, "b", 50, state=State.OPEN)], 0, 100 * SECOND)
    assert [(round(box.x), round(box.width)) for box in drawn.boxes] == [(100, 100), (500, 500)]
    assert [row.session for row in drawn.rows] == ["a", "b"]


def test_two_that_met_are_tied() -> None:
    drawn = draw([bar(1, "a", 10, 20), bar(2, "b", 30, 31, met=(1, 99))], 0, 100 * SECOND)
    (tie,) = drawn.ties
    assert tie.x == drawn.boxes[1].x
    assert tie.y1 < tie.y2


def test_of_very_many_neighbours_become_one_with_a_count_and_the_gravest_look() -> None:
    bars = [bar(at, f"s{at % 5}", at, at + 1) for at in range(10_000)]
    bars[7000] = bar(7000, "s0", 7000, 7001, tier=4, state=State.UNKNOWN)
    drawn = draw(bars, 0, 10_000 * SECOND)
    assert 1000 < len(drawn.boxes) <= BARS
    assert sum(box.count for box in drawn.boxes) == drawn.count == 10_000
    (grave,) = [box for box in drawn.boxes if box.state == "unknown"]
    assert (grave.tier, abs(grave.x - 0.7 * WIDTH) < 5) == (4, True)
