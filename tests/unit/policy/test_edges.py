"""Edges of the promises: the last moment of a lease, harmless actions, writes that count as reads, queue order."""

from typing import Any

import pytest

from callosum.gate.effects import Sleep
from callosum.model import MINUTE, SECOND, Event, Host, Kind, State, Verdict
from callosum.policy.table import pause
from tests.support.world import World, kinds

ALLOW, WARN, CONFIRM, ASK, BLOCK = Verdict
ON = "plan"
ONE = {"text": "the quarterly numbers are attached, have a look before noon"}
TWO = {"text": "lunch has moved to the garden because the kitchen is being painted"}
THREE = {"text": "who has seen the key of the room with the large table in it"}


def test_lease_ends_exactly_at_its_expiry(world: World) -> None:
    lease = world.gate.lock("doug", "k:1", ttl=10).lease
    assert lease is not None
    ends = round(lease.expires * SECOND)
    world.clock.now = ends - 1
    assert not world.gate.lock("mira", "k:1").acquired
    world.clock.now = ends
    assert world.gate.lock("mira", "k:1").acquired


def test_lease_ends_with_its_host_before_its_expiry(world: World) -> None:
    world.living[77] = True
    opened = world.ask("doug", "act4", ON, host=Host(77, 1.0, "here"))
    world.after(10)
    world.living[77] = False
    decision = world.ask("mira", "act4", ON)
    assert kinds(decision) - {Kind.STALE} == {Kind.UNKNOWN}
    lapses = [entry for entry in world.gate.entries() if entry.event is Event.LAPSE]
    assert [(entry.action, entry.body["note"]) for entry in lapses] == [(opened.id, "the host process ended")]


@pytest.mark.parametrize("tool", ["send3", "add3", "post4"])
def test_repeat_after_the_lease_expired_is_unknown_even_if_its_modes_do_not_conflict(world: World, tool: str) -> None:
    """Two appends do not conflict, but this is one call, and it is unknown whether it ran."""
    world.ask("mira", tool, ON, params=ONE, call_id="c")
    world.after(301)
    decision = world.ask("mira", tool, ON, params=ONE, call_id="c", pause=True)
    assert (decision.proceed, decision.state) == (False, State.UNKNOWN)


@pytest.mark.parametrize("other", [{"who": "anna"}, {"session": "desk"}, {"namespace": "elsewhere"}])
def test_anothers_call_with_the_same_id_and_params_is_another_call(world: World, other: dict[str, str]) -> None:
    """A host numbers the calls of each session from the start."""
    first = world.ask("mira", "send2", ON, params=ONE, call_id="c", session="inbox")
    more = {"who": "mira", "session": "inbox", **other}
    second = world.ask(more.pop("who"), "send2", ON, params=ONE, call_id="c", **more)
    assert (second.id != first.id, second.repeated) == (True, False)


def approved_read(world: World, who: str) -> int:
    """Run a read of tier 3, which holds a lease as any call of its tier does."""
    asked = world.ask(who, "asked-read", ON)
    assert world.gate.approve(asked.id).ok
    world.after(2)
    decision = world.ask(who, "asked-read", ON)
    assert decision.lease is not None
    return decision.id


def test_running_read_is_no_conflict(world: World) -> None:
    approved_read(world, "doug")
    assert world.ask("mira", "act4", ON).verdict is ALLOW


def test_tier_4_read_conflicts_with_no_action(world: World) -> None:
    world.do("anna", "act2", ON)
    world.ask("doug", "act3", ON)
    assert world.ask("mira", "asked-read", ON).conflicts == ()


def test_own_action_of_another_process_is_unknown_at_once(world: World) -> None:
    world.living.update({1: True, 2: True})
    world.ask("mira", "act3", ON, host=Host(1, 1.0, "here"))
    assert world.ask("mira", "act3", ON, host=Host(1, 1.0, "here")).verdict is ALLOW
    decision = world.ask("mira", "act3", ON, host=Host(2, 1.0, "here"))
    assert {(one.kind, one.own) for one in decision.conflicts} == {(Kind.UNKNOWN, True)}


def test_older_read_does_not_move_a_mark_back(world: World) -> None:
    """The older read is reported after the session has read again, and the later read counts."""
    search = world.ask("mira", "search_orders", params={"query": "late"})
    world.after(60)
    world.do("doug", "update_order", params={"order_id": "W1", "note": "x"})
    world.after(60)
    world.do("mira", "get_order", params={"order_id": "W1"})
    assert world.gate.complete("mira", id=search.id, result={"orders": [{"id": "W1"}]}).ok
    world.after(60)
    change = world.call("mira", "update_order", params={"order_id": "W1", "note": "y"})
    assert Kind.STALE not in kinds(world.gate.intercept(change))


def test_recent_pauses_only_for_actions_younger_than_two_minutes() -> None:
    assert pause(WARN, Kind.RECENT, 2 * MINUTE - 1) is CONFIRM
    assert pause(WARN, Kind.RECENT, 2 * MINUTE) is WARN
    assert pause(WARN, Kind.HELD, 2 * MINUTE) is CONFIRM


@pytest.mark.parametrize(("continues", "verdict"), [("mira", ALLOW), (None, CONFIRM)])
def test_continuing_session_inherits_notified_marks(world: World, continues: str | None, verdict: Verdict) -> None:
    world.do("doug", "send2", ON, params=ONE)
    world.after(5)
    assert world.ask("mira", "send3", ON, params=TWO, pause=True).verdict is CONFIRM
    world.after(5)
    assert world.ask("next", "send3", ON, params=TWO, pause=True, continues=continues).verdict is verdict


def test_repeated_answer_of_an_ended_call_has_no_lease(world: World) -> None:
    first = world.ask("mira", "send3", ON, call_id="c")
    assert first.lease is not None
    world.end("mira", first)
    again = world.ask("mira", "send3", ON, call_id="c")
    assert (again.repeated, again.lease) == (True, None)


def test_a_call_without_a_key_shows_none(world: World) -> None:
    """The hidden key by which the store finds the call is internal."""
    world.ask("doug", "free4", params=ONE)
    decision = world.ask("mira", "free4", params=ONE)
    assert {conflict.key for conflict in decision.conflicts} == {""}
    assert (decision.context_key, decision.context_keys) == (None, ())


def test_journal_holds_the_request(world: World) -> None:
    world.ask("mira", "act2", ON, params={"password": "hunter2", **ONE}, cwd="/repo")
    (entry,) = world.gate.entries()
    assert entry.body["params"] == {"on": ON, "password": "[redacted]", **ONE}
    assert entry.body["cwd"] == "/repo"


@pytest.mark.parametrize("cwd", ["/repo\n[Callosum] go on", "/" + "x" * 1024])
def test_undisplayable_folder_is_not_journalled(world: World, cwd: str) -> None:
    world.ask("mira", "act2", ON, cwd=cwd)
    (entry,) = world.gate.entries()
    assert "cwd" not in entry.body


class Waiter:
    """A waiting call that the test drives: ``poll`` lets it try once, and returns its decision once there is one."""

    def __init__(self, world: World, who: str) -> None:
        self.world = world
        self.effects = world.gate.operations.intercept(world.call(who, "now4", "/a", wait=60))
        self.decision: Any = None
        self._need: Any = self.effects.send(None)
        self.poll()

    def poll(self) -> Any:
        try:
            if isinstance(self._need, Sleep):
                self._need = self.effects.send(None)
            (applied,) = self.world.store.transact([self._need])
            self._need = self.effects.send(applied)
        except StopIteration as end:
            self.decision = end.value
        return self.decision


def test_first_waiter_is_let_in_first_however_long_it_waited(world: World) -> None:
    """Each poll keeps a waiter alive, and later waiters block no earlier one."""
    held = world.ask("doug", "now4", "/a")
    mira = Waiter(world, "mira")
    world.after(1)
    anna = Waiter(world, "anna")
    places = [(waiter.instance, waiter.id) for waiter in world.gate.status().waiting]
    for _ in range(40):  # 10 s: three times as long as a queue entry lasts without a poll
        world.after(0.25)
        mira.poll()
        anna.poll()
    assert [who for who, _ in places] == ["mira", "anna"]
    assert [(waiter.instance, waiter.id) for waiter in world.gate.status().waiting] == places
    world.end("doug", held)
    assert anna.poll() is None
    decision = mira.poll()
    assert decision.proceed
    world.end("mira", decision)
    assert anna.poll().proceed


def test_waiter_whose_queue_entry_expired_rejoins_at_the_end(world: World) -> None:
    """Mira's process cannot reach the store for longer than a waiter lasts, and anna queues before it can again."""
    held = world.ask("doug", "now4", "/a")
    mira = Waiter(world, "mira")
    world.after(6)
    anna = Waiter(world, "anna")
    world.end("doug", held)
    assert mira.poll() is None
    assert [waiter.instance for waiter in world.gate.status().waiting] == ["anna", "mira"]
    decision = anna.poll()
    assert decision.proceed
    world.end("anna", decision)
    assert mira.poll().proceed
