"""What a view holds, no matter how many more rows a store fetched, and what a decision that meets leases costs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from callosum import Call, Decision, LocalGate
from callosum.model import LATEST, Action, Key, KeyView, Mark, Mode, Scope, State
from callosum.rulebook import Rulebook
from callosum.settings import Settings
from callosum.stores.base import Store
from callosum.stores.memory import MemoryStore
from callosum.stores.sqlite import SqliteStore
from callosum.stores.view import Fetched, views
from callosum.testing import ManualClock
from tests.support.opcodes import counting

ME = "mira"


def action_on(id: int, session: str = "doug", key: str = "doc:plan", tier: int = 2, **more: object) -> Action:
    at = {"state": State.DONE, "ended": id + 1, "expires": id + 9, "key": key, "mode": Mode.WRITE, **more}
    return Action(id, "default", session, "write", tier, started=id, **at)  # type: ignore[arg-type]


def view_of(
    *actions: Action,
    key: str = "doc:plan",
    mode: Mode = Mode.WRITE,
    floor: int = 1,
    reads: dict[str, int] | None = None,
) -> KeyView:
    marks = {(name, ME): Mark(read) for name, read in (reads or {}).items()}
    fetched = Fetched({}, marks)
    for action in actions:
        fetched.add(action)
    (view,) = views(fetched, Scope("default", ME, (Key(key, mode),), floor=floor, live=True))
    return view


def test_view_holds_the_newest_action_of_each_session() -> None:
    assert [action.id for action in view_of(action_on(1), action_on(2), action_on(3, "kim")).latest] == [3, 2]


def test_view_holds_the_newest_action_that_counts_behind_one_that_does_not() -> None:
    """An index returns one row per session; older actions behind it are read however many sessions acted later."""
    others = [action_on(100 + number, f"s{number}") for number in range(LATEST - 1)]
    view = view_of(action_on(1, tier=3), action_on(2, tier=3), action_on(200, tier=0), *others)
    assert {action.id for action in view.latest if action.session == "doug"} == {200, 2}
    assert len(view.latest) == LATEST + 1


def test_actions_below_a_tree_do_not_displace_actions_on_it() -> None:
    below = [action_on(100 + number, f"s{number}", f"doc:a/{number}") for number in range(2 * LATEST)]
    view = view_of(action_on(1, key="doc:a/"), *below, key="doc:a/")
    assert action_on(1, key="doc:a/") in view.latest
    assert len(view.latest) == LATEST + 1


def test_view_of_a_read_tree_leaves_out_keys_inside_it() -> None:
    open_ = action_on(5, key="doc:a/b", state=State.OPEN, ended=0)
    assert view_of(open_, key="doc:a/").live == (open_,)
    assert view_of(open_, key="doc:a/", mode=Mode.READ).live == ()


def test_change_below_a_tree_is_stale_if_the_session_read_the_tree_before() -> None:
    changed = action_on(50, key="doc:a/b")
    assert view_of(changed, key="doc:a/", reads={"doc:a/b": 40}).stale == (changed,)
    assert view_of(changed, key="doc:a/", reads={"doc:a/b": 60}).stale == ()
    assert view_of(changed, action_on(45, ME, "doc:a/b"), key="doc:a/").stale == (changed,)


def test_read_of_a_tree_counts_for_a_key_that_was_never_read() -> None:
    view = view_of(action_on(50, key="doc:a/b"), key="doc:a/b", reads={"doc:a/": 40})
    assert (view.mark.read, view.above) == (40, True)
    view = view_of(action_on(50, key="doc:a/b"), key="doc:a/b", reads={"doc:a/": 40, "doc:a/b": 30})
    assert (view.mark.read, view.above) == (30, False)


LEASES = 15
Make = Callable[[Path, ManualClock], Store]
STORES: dict[str, Make] = {
    "memory": lambda _, clock: MemoryStore(clock=clock),
    "sqlite": lambda folder, clock: SqliteStore(folder / "gate.db", clock=clock),
}


class Meeting:
    """A session that replies in a thread in which a number of other sessions have an open lease."""

    def __init__(self, gate: LocalGate, leases: int) -> None:
        self.gate = gate
        self._replies = 0
        for number in range(leases):
            assert gate.intercept(self._reply(f"other-{number}")).proceed
        for _ in range(10):  # fills the caches for the thread
            self.reply()

    def _reply(self, who: str) -> Call:
        self._replies += 1
        params = {"action": "send", "target": "andy", "replyTo": "msg-1", "message": f"Order {self._replies} is sent"}
        return Call(who, "message", params, call_id=f"call-{self._replies}")

    def reply(self) -> tuple[Decision, int]:
        """Reply, and return the decision and the number of steps it took."""
        call = self._reply("mira")
        with counting() as steps:
            decision = self.gate.intercept(call)
        self.gate.complete("mira", id=decision.id, result={"ok": True})
        return decision, steps[0]


@pytest.mark.parametrize("store", STORES)
def test_a_decision_that_meets_fifteen_leases_costs_little_more_than_one_that_meets_one(
    store: str, tmp_path: Path
) -> None:
    """The limit holds before and after the session was notified of them, and against a decision that meets none."""
    told: dict[int, int] = {}
    known: dict[int, int] = {}
    for leases in (0, 1, LEASES):
        clock, folder = ManualClock(), tmp_path / str(leases)
        folder.mkdir()
        settings, rules = Settings(state=folder), Rulebook(None, secret=b"secret" * 4)
        with LocalGate(settings=settings, store=STORES[store](folder, clock), rules=rules) as gate:
            meeting = Meeting(gate, leases)
            decision, told[leases] = meeting.reply()
            assert decision.conflict_count == leases
            clock.advance(2)
            decision, known[leases] = meeting.reply()
            assert (decision.verdict, decision.conflict_count) == ("allow", 0)
    if store == "sqlite":
        assert known[LEASES] <= 1.1 * known[1]
        assert told[LEASES] <= 1.5 * told[1]
    assert known[LEASES] <= 2.2 * known[0]
    assert told[LEASES] <= 3.2 * told[0]
