"""The contract of a store as a test class: every promise of ``Store`` and of the model is a test.

The complete test of a backend::

    class TestMyStore(StoreContract):
        @pytest.fixture
        def make_store(self, tmp_path: Path) -> MakeStore:
            return lambda clock, probe: MyStore(tmp_path / "db", clock=clock, probe=probe)

Override the fixture ``writes`` to count the engine's own writes and so prove that an empty change makes none.
"""
# ruff: noqa: S101 - tests assert

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pytest
from msgspec.structs import replace

from callosum.model import (
    DAY,
    HOUR,
    LATEST,
    MAX_KEPT,
    MINUTE,
    SECOND,
    Change,
    Content,
    Entry,
    Event,
    Find,
    Host,
    Key,
    Mark,
    Mode,
    Opening,
    Outcome,
    State,
    Verdict,
    View,
)
from callosum.stores.base import MAX_LATELY, MAX_NEARBY_SESSIONS, Ancestry, Clock, NearbyAction, Probe, Store
from callosum.testing.clock import ManualClock
from callosum.testing.script import LEASE, StoreScript, ids, unmarked

MakeStore = Callable[[Clock, Probe], Store]
"""Makes a store with this clock and this probe, which tells whether a host process is alive."""

KEY = "doc:plan"
READ, WRITE, APPEND = Mode.READ, Mode.WRITE, Mode.APPEND
CROWD_SIZE = 40
"""Number of sessions on a key, more than a store may examine one by one."""
BELOW_SIZE = 600
"""Number of keys below a tree, more than a store may examine one by one."""


def _ids(nearby: Iterable[NearbyAction]) -> list[int]:
    return [found.action.id for found in nearby]


class StoreContract:
    """The contract's tests. A subclass provides the fixture ``make_store`` and nothing else."""

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Return a function that makes the store under test. Every backend overrides this fixture."""
        raise NotImplementedError("provide the fixture make_store(clock, probe) -> Store")

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the store's clock."""
        return ManualClock()

    @pytest.fixture
    def living(self) -> dict[int, bool]:
        """Return which host processes are alive, by pid. Whether any other process is alive cannot be determined."""
        return {}

    @pytest.fixture
    def store(self, make_store: MakeStore, clock: ManualClock, living: dict[int, bool]) -> Iterator[Store]:
        """Yield the store under test."""
        store = make_store(clock, lambda host: living.get(host.pid))
        yield store
        store.close()
        store.close()  # closing twice is allowed

    @pytest.fixture
    def script(self, store: Store) -> StoreScript:
        """Return a ``StoreScript`` that drives the store."""
        return StoreScript(store)

    @pytest.fixture
    def writes(self, store: Store) -> Callable[[], object]:
        """Return a function whose result changes when the engine writes. The default counts only journal entries."""
        return lambda: len(store.entries())

    # --- transactions ----------------------------------------------------------------------------

    def test_transact_returns_the_change_with_its_ids_and_answer(self, script: StoreScript) -> None:
        """Return the change itself, the ``seq`` of each of its entries in order, and the time of the transaction."""
        answer = object()
        scope = script.scope("mira", [KEY])
        applied = script.run(scope, lambda _: Change((script.entry("mira"), script.entry("mira")), answer=answer))
        assert applied.change.answer is answer
        assert len(applied.ids) == 2
        assert applied.ids[0] == applied.now
        assert [entry.seq for entry in script.store.entries()] == list(applied.ids)

    def test_only_the_last_run_of_a_step_counts(self, script: StoreScript) -> None:
        """Write one entry, however often the store ran the step."""
        runs = []

        def step(view: View) -> Change:
            runs.append(view.now)
            return Change((script.entry("mira", body={"run": len(runs)}),))

        script.run(script.scope("mira"), step)
        entries = script.store.entries()
        assert len(entries) == 1
        assert entries[0].body == {"run": len(runs)}

    def test_a_step_that_raises_fails_alone(self, script: StoreScript) -> None:
        """Return the exception in place of the step's answer, and store the other steps of the batch."""
        fault = RuntimeError("no")

        def bad(_: View) -> Change:
            raise fault

        def good(_: View) -> Change:
            return Change((script.entry("mira"),))

        scope = script.scope("mira", [KEY])
        first, second, third = script.store.transact([(scope, good), (scope, bad), (scope, good)])
        assert not isinstance(first, Exception)
        assert second is fault
        assert not isinstance(third, Exception)
        assert [entry.seq for entry in script.store.entries()] == [*first.ids, *third.ids]

    def test_a_change_that_cannot_be_stored_leaves_nothing(self, script: StoreScript) -> None:
        """Store no entry, action or mark of a change that fails, and store the other changes of the batch."""
        stored = script.act("mira", KEY)

        def bad(view: View) -> Change:
            entry = script.entry("mira", [KEY], body={"cannot": object()})
            return Change((script.entry("mira"), entry), Opening(State.OPEN, view.now + LEASE))

        def good(_: View) -> Change:
            return Change((script.entry("mira"),))

        scope = script.scope("mira", [KEY])
        answers = script.store.transact([(scope, good), (scope, bad)])
        assert isinstance(answers[1], Exception)
        assert len(script.store.entries()) == 2
        assert script.key_view("doug", KEY).live == ()
        assert ids(script.key_view("doug", KEY).latest) == [stored]

    def test_a_batch_runs_in_order(self, script: StoreScript) -> None:
        """Show a later step what an earlier step of the same batch changed."""
        latest_ids: list[tuple[int, ...]] = []

        def step(view: View) -> Change:
            latest_ids.append(tuple(ids(view.keys[0].latest)))
            return Change((script.entry(str(len(latest_ids)), [KEY]),), Opening(State.DONE, view.now + LEASE))

        first, second = script.store.transact([(script.scope("1", [KEY]), step), (script.scope("2", [KEY]), step)])
        assert not isinstance(first, Exception)
        assert not isinstance(second, Exception)
        assert latest_ids[-1] == first.ids
        assert second.now > first.ids[-1]

    def test_an_empty_batch_gets_no_answers(self, store: Store) -> None:
        """Return an empty list and write no entry."""
        assert store.transact([]) == []
        assert store.entries() == []

    def test_an_empty_change_writes_nothing(self, script: StoreScript, writes: Callable[[], object]) -> None:
        """Write neither to the journal nor anywhere else."""
        script.act("mira", KEY)
        before = writes()
        script.view("mira", KEY)
        script.view("doug", KEY)
        script.view("new", "doc:other", parent="mira", continues="doug")
        assert writes() == before

    def test_now_never_runs_backwards(self, script: StoreScript, clock: ManualClock) -> None:
        """Keep the store's time growing when the clock is set back."""
        moments = [script.act("mira", KEY)]
        for seconds in (5, -3600, 0, 1, -5):
            clock.advance(seconds)
            view = script.view("mira", KEY)
            assert view.now > moments[-1]
            moments.append(script.act("mira", KEY))
        assert moments == sorted(set(moments))

    def test_now_follows_the_clock(self, script: StoreScript, clock: ManualClock) -> None:
        """Return the clock's time, as long as the clock does not run backwards."""
        script.act("mira", KEY)
        clock.advance(90)
        assert script.view("mira", KEY).now == clock.now

    def test_ids_grow_and_are_unique(self, script: StoreScript) -> None:
        """Number entries upwards, also while the clock does not move."""
        given = [script.act(str(number % 3), KEY) for number in range(20)]
        assert given == sorted(set(given))
        assert [entry.seq for entry in script.store.entries()] == given

    def test_steps_on_one_key_run_one_after_another(self, script: StoreScript) -> None:
        """Open one action when eight threads run a step that opens an action only if nothing is open on the key."""
        start = threading.Barrier(8)
        opened: list[int] = []

        def racer(number: int) -> None:
            name = str(number)

            def step(view: View) -> Change:
                if view.keys[0].live:
                    return Change()
                return Change((script.entry(name, [KEY]),), Opening(State.OPEN, view.now + LEASE))

            start.wait()
            opened.extend(script.run(script.scope(name, [KEY]), step).ids)

        threads = [threading.Thread(target=racer, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(opened) == 1
        assert ids(script.key_view("late", KEY).live) == opened

    # --- a view of one key: live actions -----------------------------------------------------------

    @pytest.mark.parametrize("state", [State.QUEUED, State.ASKED, State.OPEN])
    def test_live_has_the_actions_of_all_sessions(self, script: StoreScript, state: State) -> None:
        """Return queued, asked and open actions, including the asking session's own."""
        first = script.act("doug", KEY, state=state, tier=3)
        second = script.act("mira", KEY, state=state, tier=3)
        assert sorted(ids(script.key_view("mira", KEY).live)) == [first, second]

    def test_live_has_unknown_actions_until_they_are_settled(self, script: StoreScript) -> None:
        """Return an unknown action however old it is."""
        id = script.act("doug", KEY, state=State.OPEN, tier=3)
        script.end("doug", id, State.UNKNOWN)
        (action,) = script.key_view("mira", KEY).live
        assert (action.id, action.state, action.ended) == (id, State.UNKNOWN, 0)
        script.settle(id, State.DONE, ended=script.view("x").now)
        assert script.key_view("mira", KEY).live == ()

    def test_live_has_no_limit(self, script: StoreScript) -> None:
        """Return all open actions, however many there are."""
        opened = [script.act(str(number), KEY, state=State.OPEN, tier=3) for number in range(LATEST * 3)]
        assert sorted(ids(script.key_view("mira", KEY).live)) == opened

    @pytest.mark.parametrize("floor", [0, 1, 2])
    @pytest.mark.parametrize("notified", [0, 6])
    def test_live_has_the_newest_unknown_actions(self, script: StoreScript, floor: int, notified: int) -> None:
        """Return at least ``LATEST`` unknown actions, whatever the scope's floor and the session's notified mark."""
        unknown = [script.act(f"s{number}", KEY, state=State.OPEN, tier=3) for number in range(LATEST + 3)]
        for number, id in enumerate(unknown):
            script.end(f"s{number}", id, State.UNKNOWN)
        if notified:
            script.move("mira", KEY, Mark(0, script.store.now(), notified, script.store.now()))
        live_ids = ids(script.key_view("mira", KEY, floor=floor).live)
        assert set(unknown[-LATEST:]) <= set(live_ids) <= set(unknown)

    def test_live_has_reads(self, script: StoreScript) -> None:
        """Return a read that waits for an approval, like any other call."""
        id = script.act("mira", Key(KEY, READ), state=State.ASKED, tier=3)
        (action,) = script.key_view("mira", Key(KEY, READ)).live
        assert (action.id, action.mode) == (id, READ)

    def test_live_is_empty_if_the_scope_does_not_ask_for_it(self, script: StoreScript) -> None:
        """Leave out live actions if ``Scope.live`` is False, which saves the store the work."""
        script.act("doug", KEY, state=State.OPEN, tier=3)
        assert script.key_view("mira", KEY, live=False).live == ()

    def test_an_ended_action_is_not_live(self, script: StoreScript) -> None:
        """Leave out done, failed and cancelled actions."""
        for state in (State.DONE, State.FAILED, State.CANCELLED):
            id = script.act("doug", KEY, state=State.OPEN, tier=3)
            script.end("doug", id, state)
            assert script.key_view("mira", KEY).live == ()

    def test_ending_one_action_leaves_the_other_open(self, script: StoreScript) -> None:
        """Treat two actions of one session on one key as two actions."""
        older = script.act("doug", KEY, state=State.OPEN, tier=3)
        newer = script.act("doug", KEY, state=State.OPEN, tier=3)
        script.end("doug", older)
        assert ids(script.key_view("mira", KEY).live) == [newer]

    def test_an_action_is_open_on_all_its_keys(self, script: StoreScript) -> None:
        """Show an action on each of its keys, and free all of them when it ends."""
        id = script.act("doug", "a:1", "b:2", state=State.OPEN, tier=3)
        assert ids(script.key_view("mira", "a:1").live) == ids(script.key_view("mira", "b:2").live) == [id]
        script.end("doug", id)
        assert script.key_view("mira", "a:1").live == script.key_view("mira", "b:2").live == ()

    def test_an_unknown_action_can_be_opened_again(self, script: StoreScript) -> None:
        """Change state and expiry and keep the id, as a late renewal requires."""
        id = script.act("doug", KEY, state=State.OPEN, tier=3)
        script.end("doug", id, State.UNKNOWN)
        until = script.view("x").now + HOUR
        script.settle(id, State.OPEN, expires=until)
        (action,) = script.key_view("mira", KEY).live
        assert (action.id, action.state, action.expires) == (id, State.OPEN, until)

    def test_every_field_of_an_action_is_stored(self, script: StoreScript, living: dict[int, bool]) -> None:
        """Return every field as the opening set it."""
        content = Content(b"d" * 16, b"w", b"abcd", b"efgh", repeats=True, stance="+attend", origin=b"o", brief=True)
        host = Host(77, 12.5, "machine")
        living[77] = True
        id = script.act(
            "doug", Key(KEY), Key("b:2", APPEND),
            state=State.OPEN, tier=4, content=content, host=host, limit=9 * HOUR, supersedes=(3, 4), lease=MINUTE,
        )  # fmt: skip
        (action,) = script.key_view("mira", "b:2").live
        assert (action.id, action.namespace, action.session, action.tool, action.tier) == (
            id,
            "default",
            "doug",
            "tool",
            4,
        )
        assert (action.state, action.started, action.ended, action.expires, action.limit) == (
            State.OPEN, id, 0, id + MINUTE, 9 * HOUR,
        )  # fmt: skip
        assert (action.content, action.host, action.alive, action.supersedes) == (content, host, True, (3, 4))
        assert (action.keys, action.key, action.mode) == ((Key(KEY), Key("b:2", APPEND)), "b:2", APPEND)

    def test_alive_is_the_result_of_the_probe(self, script: StoreScript, living: dict[int, bool]) -> None:
        """Return True, False, or None if it cannot be determined or the action has no host."""
        script.act("doug", KEY, state=State.OPEN, tier=3, host=Host(7, 1.0, "m"))
        for alive in (True, False):
            living[7] = alive
            assert script.key_view("mira", KEY).live[0].alive is alive
        living.clear()
        assert script.key_view("mira", KEY).live[0].alive is None

    # --- a view of one key: actions of others ----------------------------------------------------------

    def test_latest_has_the_newest_action_of_each_other_session(self, script: StoreScript) -> None:
        """Return one action for each session, the newest change first, and none of the asking session."""
        script.act("doug", KEY)
        doug = script.act("doug", KEY)
        anna = script.act("anna", KEY)
        script.act("mira", KEY)
        assert ids(script.key_view("mira", KEY).latest) == [anna, doug]

    def test_own_actions_do_not_hide_an_action_of_another_session(self, script: StoreScript) -> None:
        """Return another session's action after the asking session made sixty newer ones."""
        doug = script.act("doug", KEY)
        own = [script.act("mira", KEY) for _ in range(60)][-1]
        key_view = script.key_view("mira", KEY)
        assert ids(key_view.latest) == [doug]
        assert key_view.own is not None
        assert key_view.own.id == own

    def test_one_busy_session_does_not_hide_another(self, script: StoreScript) -> None:
        """Return a session's action after a third session made sixty newer ones."""
        doug = script.act("doug", KEY)
        anna = [script.act("anna", KEY) for _ in range(60)][-1]
        assert ids(script.key_view("mira", KEY).latest) == [anna, doug]

    def test_latest_is_cut_at_its_limit(self, script: StoreScript) -> None:
        """Return the newest ``LATEST`` actions."""
        acted = [script.act(f"s{number}", KEY) for number in range(LATEST + 5)]
        assert ids(script.key_view("mira", KEY).latest) == acted[::-1][:LATEST]

    @pytest.mark.parametrize("others", [1, 3, 4, 5, 8, LATEST - 1, LATEST, LATEST + 3, LATEST + 4, LATEST * 3])
    @pytest.mark.parametrize("floor", [0, 1, 2])
    def test_latest_has_all_other_sessions_up_to_its_limit(self, script: StoreScript, others: int, floor: int) -> None:
        """Return all other sessions up to ``LATEST``, also after own actions and after reads of any session."""
        script.read("anna", KEY)
        acted = [script.act(f"s{number}", KEY, tier=3) for number in range(others)]
        assert ids(script.key_view("mira", KEY, floor=floor).latest) == acted[::-1][:LATEST]
        script.act("mira", KEY, tier=3)
        script.read("kim", KEY)
        assert ids(script.key_view("mira", KEY, floor=floor).latest) == acted[::-1][:LATEST]

    @pytest.mark.parametrize("others", [5, LATEST * 3])
    @pytest.mark.parametrize("floor", [0, 1, 2])
    def test_notified_mark_hides_no_action(self, script: StoreScript, others: int, floor: int) -> None:
        """Return actions that the session was notified of: similar content is graver, and no digest finds it."""
        append = Key(KEY, APPEND)
        acted = [script.act(f"s{number}", append, tier=3) for number in range(others)]
        script.move("mira", KEY, Mark(0, script.store.now(), 6, script.store.now()))
        key_view = script.key_view("mira", append, floor=floor, prints=(b"another",))
        assert ids(key_view.latest) == acted[::-1][:LATEST]

    def test_many_sessions_on_a_key_hide_no_newest_action(self, script: StoreScript, clock: ManualClock) -> None:
        """Return the newest action however many sessions wrote or read the key, and after ``maintain`` deleted rows."""
        mira = script.act("mira", KEY)
        for number in range(LATEST * 2):
            script.read(f"reader-{number}", KEY)
        for number in range(LATEST * 4):
            acted = script.act(f"s{number}", KEY)
            assert script.key_view("anna", KEY).latest[0].id == acted
        doug = script.act("doug", KEY)
        key_view = script.key_view("mira", KEY)
        assert (key_view.latest[0].id, key_view.own and key_view.own.id) == (doug, mira)
        script.end("doug", script.act("doug", KEY), State.FAILED)
        assert script.key_view("mira", KEY).latest[0].id == doug
        clock.advance(2 * 3600)
        for _ in range(20):
            script.store.maintain(clock.now - HOUR)
        anna = script.act("anna", KEY)
        assert script.key_view("mira", KEY).latest[0].id == anna
        for number in range(LATEST * 4):
            acted = script.act(f"t{number}", KEY)
            assert script.key_view("mira", KEY).latest[0].id == acted

    def test_a_report_is_a_change(self, script: StoreScript, clock: ManualClock) -> None:
        """Return the time of the report as ``ended``."""
        doug = script.act("doug", KEY)
        clock.advance(40)
        script.end("doug", doug)
        (action,) = script.key_view("mira", KEY).latest
        assert (action.started, action.ended, action.state) == (doug, clock.now, State.DONE)

    @pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
    def test_failed_actions_are_not_in_latest(self, script: StoreScript, state: State) -> None:
        """Return the session's action before the failed one, or none."""
        older = script.act("doug", KEY)
        newer = script.act("doug", KEY)
        script.end("doug", newer, state)
        assert ids(script.key_view("mira", KEY).latest) == [older]
        script.end("doug", older, state)
        assert script.key_view("mira", KEY).latest == ()

    def test_failures_in_any_order_leave_the_action_before_them(self, script: StoreScript) -> None:
        """Return the oldest action after the second and then the third one failed."""
        first, second, third = (script.act("doug", KEY) for _ in range(3))
        script.end("doug", second, State.FAILED)
        script.end("doug", third, State.FAILED)
        assert ids(script.key_view("mira", KEY).latest) == [first]
        key_view = script.key_view("doug", KEY)
        assert key_view.own is not None
        assert key_view.own.id == first

    def test_latest_has_open_and_unknown_actions(self, script: StoreScript) -> None:
        """Return actions that had an effect or may have had one."""
        opened = script.act("doug", KEY, state=State.OPEN, tier=3)
        unknown = script.act("anna", KEY, state=State.OPEN, tier=3)
        script.end("anna", unknown, State.UNKNOWN)
        assert sorted(ids(script.key_view("mira", KEY).latest)) == [opened, unknown]

    def test_latest_leaves_out_calls_that_changed_nothing(self, script: StoreScript) -> None:
        """Leave out waiters, questions, locks, refused calls and reads."""
        script.act("a", KEY, state=State.QUEUED, tier=3)
        script.act("b", KEY, state=State.ASKED, tier=3)
        script.act("c", KEY, state=State.OPEN, tier=3, lock=True)
        script.refuse("d", KEY)
        script.read("e", KEY)
        assert script.key_view("mira", KEY).latest == ()

    def test_action_below_the_floor_does_not_hide_one_above_it(self, script: StoreScript) -> None:
        """Return a session's newest action at or above the floor, although a newer one is below it."""
        counted = script.act("doug", KEY, tier=2)
        script.act("doug", KEY, tier=1)
        assert counted in ids(script.key_view("mira", KEY, floor=2).latest)

    def test_failed_action_does_not_end_the_search_for_one_above_the_floor(self, script: StoreScript) -> None:
        """Skip a failed action when searching for the session's newest action at or above the floor."""
        counted = script.act("doug", KEY, tier=3)
        failed = script.act("doug", KEY, tier=3)
        low = script.act("doug", KEY, tier=1)
        script.end("doug", failed, State.FAILED)
        assert ids(script.key_view("mira", KEY, floor=2).latest) == [low, counted]

    def test_action_below_the_floor_does_not_hide_one_above_it_in_a_tree(self, script: StoreScript) -> None:
        """Return a session's newest action at or above the floor when the scope's key is the tree."""
        counted = script.act("doug", "file:/repo/a.py", tier=2)
        script.act("doug", "file:/repo/a.py", tier=1)
        assert counted in ids(script.key_view("mira", "file:/repo/", floor=2).latest)

    def test_action_above_the_floor_does_not_hide_a_later_change_below_it(self, script: StoreScript) -> None:
        """Return the newer action: every write makes earlier reads stale, whatever its tier."""
        script.act("doug", KEY, tier=2)
        newest = script.act("doug", KEY, tier=1)
        assert newest in ids(script.key_view("mira", KEY, floor=2).latest)

    def test_an_append_does_not_hide_a_write_from_an_append(self, script: StoreScript) -> None:
        """Return the write before an append: two appends never conflict, so the write is what matters to an append."""
        wrote = script.act("doug", Key(KEY, WRITE))
        script.act("doug", Key(KEY, APPEND))
        assert wrote in ids(script.key_view("mira", Key(KEY, APPEND)).latest)

    def test_own_is_the_newest_action_of_the_session(self, script: StoreScript) -> None:
        """Return None before the session has acted, and again after all its actions failed or were cancelled."""
        assert script.key_view("mira", KEY).own is None
        older, newer = script.act("mira", KEY), script.act("mira", KEY)
        script.read("mira", KEY)
        script.act("mira", KEY, state=State.OPEN, tier=3, lock=True)
        own = script.key_view("mira", KEY).own
        assert own is not None
        assert own.id == newer
        script.end("mira", newer, State.FAILED)
        script.end("mira", older, State.CANCELLED)
        assert script.key_view("mira", KEY).own is None

    # --- a view of one key: the mark ------------------------------------------------------------------

    def test_every_field_of_a_mark_is_stored(self, script: StoreScript) -> None:
        """Store every field for one session and one key."""
        mark = Mark(5, 6, 3, 7, b"call", "run", 4, 2, (-9, -3, -(2**52), 1, 2))
        script.move("mira", KEY, mark)
        assert script.key_view("mira", KEY).mark == mark
        assert unmarked(script.key_view("doug", KEY).mark)
        assert unmarked(script.key_view("mira", "doc:other").mark)

    def test_a_mark_moves_without_an_action(self, script: StoreScript) -> None:
        """Store a notified mark although the call opened nothing, as a paused call does."""
        script.move("mira", KEY, Mark(notified=9, notified_kind=1, notified_at=9))
        script.move("mira", KEY, Mark(notified=11, notified_kind=2, notified_at=12))
        mark = script.key_view("mira", KEY).mark
        assert (mark.notified, mark.notified_kind, mark.notified_at) == (11, 2, 12)

    def test_an_action_leaves_the_mark_unchanged(self, script: StoreScript) -> None:
        """Change no mark when an action is opened or reported."""
        mark = Mark(read=5, notified=6, notified_kind=3, notified_at=7)
        script.move("mira", KEY, mark)
        id = script.act("mira", KEY)
        script.end("mira", id)
        assert script.key_view("mira", KEY).mark == mark

    def test_a_failed_read_restores_the_read_mark(self, script: StoreScript, clock: ManualClock) -> None:
        """Restore the read mark from before the read, and keep the notified mark."""
        first = script.read("mira", KEY)
        script.move("mira", KEY, replace(script.key_view("mira", KEY).mark, notified=4, notified_kind=1, notified_at=4))
        clock.advance(60)
        second = script.read("mira", KEY)
        assert script.key_view("mira", KEY).mark.read == second
        script.end("mira", second, State.FAILED)
        mark = script.key_view("mira", KEY).mark
        assert (mark.read, mark.notified) == (first, 4)
        script.end("mira", first, State.CANCELLED)
        assert script.key_view("mira", KEY).mark.read == 0

    def test_a_failed_read_leaves_the_mark_of_a_later_read(self, script: StoreScript, clock: ManualClock) -> None:
        """Undo only what the failed read itself set."""
        early = script.read("mira", KEY)
        clock.advance(1)
        late = script.read("mira", KEY)
        script.end("mira", early, State.FAILED)
        assert script.key_view("mira", KEY).mark.read == late

    def test_two_failed_reads_leave_no_read_mark(self, script: StoreScript, clock: ManualClock) -> None:
        """Undo both reads, in whichever order they fail."""
        for order in ((0, 1), (1, 0)):
            key = f"doc:{order}"
            reads = []
            for _ in range(2):
                clock.advance(1)
                reads.append(script.read("mira", key))
            for number in order:
                script.end("mira", reads[number], State.FAILED)
            assert script.key_view("mira", key).mark.read == 0

    def test_a_session_that_continues_another_inherits_its_marks(self, script: StoreScript, clock: ManualClock) -> None:
        """Inherit read and notified marks along a chain. A predecessor's finished write counts as a read."""
        read = script.read("one", "doc:a")
        script.move("one", "doc:b", Mark(notified=8, notified_kind=2, notified_at=8, notified_call=b"x"))
        wrote = script.act("one", "doc:c")
        clock.advance(1)
        script.end("one", wrote)
        script.act("two", "doc:z", continues="one")
        for session, more in (("two", {}), ("three", {"continues": "two"})):
            assert script.key_view(session, "doc:a", **more).mark.read == read
            mark = script.key_view(session, "doc:b", **more).mark
            assert (mark.notified, mark.notified_kind) == (8, 2)
            assert script.key_view(session, "doc:c", **more).mark.read == wrote

    def test_an_inherited_mark_does_not_replace_a_later_own_read(self, script: StoreScript, clock: ManualClock) -> None:
        """Return the later of the inherited and the own read."""
        script.read("one", KEY)
        clock.advance(5)
        own = script.read("two", KEY)
        assert script.key_view("two", KEY, continues="one").mark.read == own

    # --- trees and facets --------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("file:/repo/", "file:/repo/a/b.py"),
            ("file:/repo/a/b.py", "file:/repo/"),
            ("file:/repo/", "file:/repo/a/"),
            ("file:/repo/a/", "file:/repo/"),
            ("channel:general", "channel:general|message"),
            ("channel:general|message", "channel:general"),
            ("order:/", "order:W1"),
            ("order:5", "order:/"),
            ("order:/", "order:a/b/"),
            ("order:/", "order:W1|comment"),
            ("order:/", "order:/|new"),
            ("order:/|new", "order:/"),
            ("file:/", "file:README.md"),
            ("git:/r|remote:origin/", "git:/r|remote:origin/main"),
            ("git:/r|remote:origin/main", "git:/r|remote:origin/"),
        ],
    )
    def test_overlapping_keys_meet_in_either_order(self, script: StoreScript, first: str, second: str) -> None:
        """Return actions on keys that cover the scope's key or that it covers, under the key of the action."""
        opened = script.act("doug", first, state=State.OPEN, tier=3)
        key_view = script.key_view("mira", second)
        assert ids(key_view.live) == ids(key_view.latest) == [opened]
        assert key_view.live[0].key == key_view.latest[0].key == first
        script.end("doug", opened)
        key_view = script.key_view("mira", second)
        assert key_view.live == ()
        assert ids(key_view.latest) == [opened]

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("file:/repo/", "file:/repository/a.py"),
            ("file:/repo", "file:/repo/a.py"),
            ("file:/repo/a/", "file:/repo/b/c.py"),
            ("channel:general", "channel:generals"),
            ("channel:general|message", "channel:general|topic"),
            ("order:/", "orders:W1"),
            ("order:/", "order"),
            ("order:/|new", "order:W1"),
            ("slot:room:/", "slot:room:1"),
        ],
    )
    def test_keys_that_do_not_overlap_never_meet(self, script: StoreScript, first: str, second: str) -> None:
        """Return no actions on keys that neither cover the scope's key nor are covered by it."""
        script.act("doug", first, state=State.OPEN, tier=3)
        key_view = script.key_view("mira", second)
        assert (key_view.live, key_view.latest, key_view.stale) == ((), (), ())
        script.act("doug", second, state=State.OPEN, tier=3)
        assert first not in {action.key for action in script.key_view("mira", second).live}

    def test_reading_a_tree_reads_the_keys_in_it(self, script: StoreScript) -> None:
        """Return a tree's read mark for a key below it, but not a key's read mark for its tree."""
        read = script.read("mira", "file:/repo/")
        assert script.key_view("mira", "file:/repo/a.py").mark.read == read
        script.read("doug", "file:/repo/a.py")
        assert script.key_view("doug", "file:/repo/").mark.read == 0

    def test_an_own_read_or_write_of_a_key_outweighs_a_read_of_its_tree(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Count a tree's read only for keys that the session neither read nor changed: a list shows no contents."""
        read = script.read("mira", "file:/repo/seen.py")
        written = script.act("mira", "file:/repo/mine.py")
        script.act("doug", "file:/repo/other.py")
        clock.advance(60)
        listed = script.read("mira", "file:/repo/")
        key_views = script.view("mira", "file:/repo/seen.py", "file:/repo/mine.py", "file:/repo/other.py").keys
        assert [key_view.mark.read for key_view in key_views] == [read, 0, listed]
        assert [key_view.above for key_view in key_views] == [False, False, True]
        assert key_views[1].own is not None
        assert key_views[1].own.id == written

    def test_reading_a_tree_does_not_read_facets_of_the_keys_in_it(self, script: StoreScript) -> None:
        """Count a list of issues as a read of new issues, not of comments; reading an issue reads its comments."""
        listed = script.read("mira", "issue:/")
        read = script.read("mira", "issue:8")
        for key in ("issue:7|comment", "issue:8|comment", "issue:/|new", "issue:7"):
            script.act("doug", Key(key, APPEND))
        reads = [script.key_view("mira", key).mark.read for key in ("issue:7|comment", "issue:8|comment", "issue:7")]
        assert reads == [0, read, listed]
        assert script.key_view("mira", "issue:/|new").mark.read == listed

    def test_stale_has_changes_below_a_tree_of_keys_that_were_read(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Return later changes of keys that the session had read, and no others."""
        script.read("mira", "file:/repo/a.py")
        script.read("mira", "file:/repo/b.py")
        clock.advance(1)
        script.end("doug", a := script.act("doug", "file:/repo/a.py", tier=1))
        script.end("doug", script.act("doug", "file:/repo/never-read.py", tier=1))
        script.end("mira", script.act("mira", "file:/repo/b.py", tier=1))
        stale = script.key_view("mira", "file:/repo/").stale
        assert ids(stale) == [a]
        assert stale[0].key == "file:/repo/a.py"
        clock.advance(1)
        script.read("mira", "file:/repo/a.py")
        assert script.key_view("mira", "file:/repo/").stale == ()

    def test_stale_below_a_tree_counts_own_writes_as_reads(self, script: StoreScript, clock: ManualClock) -> None:
        """Return another session's change of a key that the session wrote before."""
        script.end("mira", script.act("mira", "file:/repo/a.py", tier=1))
        clock.advance(1)
        script.end("doug", changed := script.act("doug", "file:/repo/a.py", tier=1))
        assert ids(script.key_view("mira", "file:/repo/").stale) == [changed]

    def test_an_own_write_without_a_report_is_no_read_below_a_tree(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Ignore an own unreported write: whether it took place is unknown, and so is what the session saw."""
        script.act("mira", "file:/repo/a.py", tier=1)
        clock.advance(1)
        script.end("doug", script.act("doug", "file:/repo/a.py", tier=1))
        assert script.key_view("mira", "file:/repo/").stale == ()

    def test_a_write_without_a_report_is_stale_below_a_tree(self, script: StoreScript, clock: ManualClock) -> None:
        """Return another session's unreported write, because it may still be changing the key."""
        changed = script.act("doug", "file:/repo/a.py", tier=1)
        clock.advance(1)
        script.read("mira", "file:/repo/a.py")
        assert ids(script.key_view("mira", "file:/repo/").stale) == [changed]

    # --- the rest of a view --------------------------------------------------------------------------------

    def test_twins_are_found_by_fingerprint(self, script: StoreScript) -> None:
        """Return all sessions' actions on a shared key that have one of the fingerprints, newest first."""
        own = script.act("mira", KEY, prints=(b"same", b"origin"))
        other = script.act("doug", KEY, prints=(b"same",))
        script.act("doug", "doc:other", prints=(b"same",))
        script.act("doug", KEY, prints=(b"different",))
        assert ids(script.view("mira", KEY, prints=(b"same",)).twins) == [other, own]
        assert ids(script.view("mira", KEY, prints=(b"origin", b"x")).twins) == [own]
        assert script.view("mira", KEY, prints=(b"none",)).twins == ()
        assert script.view("mira", KEY).twins == ()

    def test_a_twin_is_found_behind_newer_actions(self, script: StoreScript) -> None:
        """Search behind newer actions of the same and of other sessions."""
        twin = script.act("doug", KEY, prints=(b"same",))
        for number in range(60):
            script.act("doug" if number % 2 else "mira", KEY, prints=(b"%d" % number,))
        assert ids(script.view("mira", KEY, prints=(b"same",)).twins) == [twin]

    def test_a_failed_action_is_no_twin(self, script: StoreScript) -> None:
        """Remove an action's fingerprints when it fails, also when that is reported late."""
        for state in (State.FAILED, State.CANCELLED):
            id = script.act("doug", KEY, prints=(b"same",), state=State.OPEN, tier=3)
            script.end("doug", id, State.UNKNOWN)
            assert ids(script.view("mira", KEY, prints=(b"same",)).twins) == [id]
            script.end("doug", id, state)
            assert script.view("mira", KEY, prints=(b"same",)).twins == ()

    def test_failed_actions_do_not_hide_a_twin_that_was_done(self, script: StoreScript) -> None:
        """Return the action that was done, behind many failed attempts and another action."""
        done = script.act("doug", KEY, prints=(b"same",))
        for _ in range(20):
            script.end("doug", script.act("doug", KEY, prints=(b"same",)), State.FAILED)
        script.act("doug", KEY, prints=(b"other",))
        assert done in ids(script.view("mira", KEY, prints=(b"same",)).twins)

    def test_ancestors_are_the_sessions_that_started_this_one(self, script: StoreScript) -> None:
        """Return the nearest ancestor first, remember a parent after its first mention, and stop at a cycle."""
        script.act("child", KEY, parent="root")
        assert script.view("grandchild", KEY, parent="child").ancestors == ("child", "root")
        assert script.view("child", KEY).ancestors == ("root",)
        assert script.view("root", KEY).ancestors == ()
        script.act("root", KEY, parent="child")
        assert set(script.view("root", KEY).ancestors) == {"child", "root"}

    @pytest.mark.parametrize(
        ("held", "waited_for"), [(KEY, KEY), ("file:/repo/", "file:/repo/a.py"), ("file:/repo/a.py", "file:/repo/")]
    )
    def test_wanted_has_the_sessions_that_wait_for_this_one(
        self, script: StoreScript, clock: ManualClock, held: str, waited_for: str
    ) -> None:
        """Return live waiters only, and only if the scope asks for them."""
        id = script.act("mira", held, state=State.OPEN, tier=4)
        script.act("mira", waited_for, state=State.QUEUED, tier=4)
        script.act("doug", waited_for, state=State.QUEUED, tier=4, lease=3 * SECOND)
        script.act("anna", "doc:other", state=State.QUEUED, tier=4)
        assert script.view("mira", "x:1", waits=True).wanted == ("doug",)
        assert script.view("mira", "x:1").wanted == ()
        clock.advance(4)
        assert script.view("mira", "x:1", waits=True).wanted == ()
        script.act("doug", waited_for, state=State.QUEUED, tier=4)
        script.end("mira", id)
        assert script.view("mira", "x:1", waits=True).wanted == ()

    def test_wanted_follows_a_chain_of_waiters(self, script: StoreScript) -> None:
        """Return waiters of waiters: kim waits for anna, anna for doug, doug for mira. Ben waits for lea only."""
        for session, key in (("mira", "x:1"), ("doug", "x:2"), ("anna", "x:3"), ("lea", "x:4")):
            script.act(session, key, state=State.OPEN, tier=4)
        for session, key in (("doug", "x:1"), ("anna", "x:2"), ("kim", "x:3"), ("ben", "x:4")):
            script.act(session, key, state=State.QUEUED, tier=4)
        assert script.view("mira", "x:9", waits=True).wanted == ("anna", "doug", "kim")
        assert script.view("anna", "x:9", waits=True).wanted == ("kim",)
        assert script.view("kim", "x:9", waits=True).wanted == ()

    def test_superseded_has_the_actions_that_the_found_action_repeats(self, script: StoreScript) -> None:
        """Return them in any order."""
        repeated = [script.act("doug", KEY, state=State.OPEN, tier=3) for _ in range(2)]
        again = script.act("doug", KEY, state=State.OPEN, tier=3, supersedes=tuple(repeated))
        assert sorted(ids(script.find_view("doug", Find(id=again)).superseded)) == repeated

    def test_earlier_is_the_action_that_the_same_call_opened(self, script: StoreScript, clock: ManualClock) -> None:
        """Return the action and its answer for a day after the call, and nothing for another call identity."""
        id = script.act("mira", KEY, call=b"one", body={"warning": "told"})
        clock.advance(23 * 3600)
        script.store.maintain(clock.now - 7 * DAY)
        earlier = script.view("mira", KEY, call=b"one").earlier
        assert earlier is not None
        assert earlier.id == id
        assert b"told" in earlier.answer
        assert earlier.verdict is Verdict.ALLOW
        assert script.view("mira", KEY, call=b"two").earlier is None
        assert script.view("mira", KEY).earlier is None
        clock.advance(2 * 3600)
        script.act("doug", "doc:other")
        script.store.maintain(clock.now - 7 * DAY)
        assert script.view("mira", KEY, call=b"one").earlier is None

    def test_earlier_is_found_without_its_keys_and_in_any_state(self, script: StoreScript) -> None:
        """Return the action for a scope without keys, whatever the action's state is."""
        id = script.act("mira", KEY, call=b"one", state=State.OPEN, tier=3)
        for state in (State.UNKNOWN, State.DONE):
            script.end("mira", id, state)
            earlier = script.view("mira", call=b"one").earlier
            assert earlier is not None
            assert earlier.state is state

    def test_a_waiting_call_is_not_an_earlier_answer(self, script: StoreScript) -> None:
        """Return nothing for a call that is queued or asked, because it has opened nothing."""
        script.act("mira", KEY, call=b"one", state=State.QUEUED, tier=4)
        script.act("mira", KEY, call=b"two", state=State.ASKED, tier=4)
        assert script.view("mira", KEY, call=b"one").earlier is None
        assert script.view("mira", KEY, call=b"two").earlier is None

    def test_observing_covers_all_namespaces(self, script: StoreScript) -> None:
        """Return the same time in every namespace; 0 ends observing."""
        assert script.store.observing() == 0
        scope = script.scope("person")
        for until in (99, 0):
            entry = script.entry("person", event=Event.OBSERVE)
            script.run(scope, lambda _, e=entry, u=until: Change((e,), observe_until=u))  # type: ignore[misc]
            assert script.store.observing() == until
            assert StoreScript(script.store, "other").view("mira", KEY).observe_until == until

    # --- how a report finds its action ----------------------------------------------------------------------

    def test_found_by_id(self, script: StoreScript) -> None:
        """Return any session's action in any state, and None for the id of an entry that opened nothing."""
        id = script.act("doug", KEY, state=State.OPEN, tier=3)
        action = script.find("mira", id=id)
        assert action is not None
        assert (action.session, action.state, action.keys) == ("doug", State.OPEN, (Key(KEY),))
        report = script.end("doug", id)
        assert script.find("doug", id=report) is None
        assert script.find("doug", id=1) is None

    def test_a_refused_call_is_found_by_id(self, script: StoreScript) -> None:
        """Return a refused call as an action, so that a person can still approve it."""
        content = Content(b"d" * 16)
        id = script.refuse("mira", KEY, content=content)
        for action in (script.find("person", id=id), script.store.action("default", id)):
            assert action is not None
            assert (action.id, action.state, action.verdict) == (id, State.ASKED, Verdict.BLOCK)
            assert (action.session, action.content, action.keys) == ("mira", content, (Key(KEY),))
        assert script.key_view("mira", KEY).live == ()

    def test_settling_a_refused_call_makes_it_an_action(self, script: StoreScript) -> None:
        """Return an approved call as live on its keys until it is used."""
        id = script.refuse("mira", KEY)
        script.settle(id, State.ASKED, expires=script.view("x").now + HOUR, approved=5)
        (action,) = script.key_view("mira", KEY).live
        assert (action.id, action.state, action.approved) == (id, State.ASKED, 5)
        script.settle(id, State.CANCELLED, ended=6)
        assert script.key_view("mira", KEY).live == ()

    def test_the_params_of_a_question_are_kept_while_it_is_pending(self, script: StoreScript) -> None:
        """Return the params of an approved question to its own session only."""
        id = script.act("mira", KEY, state=State.ASKED, tier=3, params=b'{"to":"alice"}')
        script.settle(id, State.ASKED, approved=5)
        assert script.key_view("mira", KEY).live[0].answer == b'{"to":"alice"}'
        assert b"alice" not in script.key_view("doug", KEY).live[0].answer

    def test_found_by_key_is_the_newest_open_action(self, script: StoreScript) -> None:
        """Return the session's newest open action on the key, then the one before it, then None."""
        older = script.act("mira", KEY, "doc:second", state=State.OPEN, tier=3)
        newer = script.act("mira", KEY, call=b"with-id")
        script.act("doug", KEY)
        script.act("mira", "doc:other")
        for id in (newer, older):
            action = script.find("mira", key=KEY)
            assert action is not None
            assert action.id == id
            script.end("mira", id)
        assert script.find("mira", key=KEY) is None
        assert script.find("mira", key="doc:second") is None

    def test_found_by_key_is_never_a_lock_or_a_call_that_did_not_run(self, script: StoreScript) -> None:
        """Return no lock, waiter, question or refused call."""
        script.act("mira", KEY, state=State.OPEN, tier=3, lock=True)
        script.act("mira", KEY, state=State.QUEUED, tier=3)
        script.act("mira", KEY, state=State.ASKED, tier=3)
        script.refuse("mira", KEY)
        assert script.find("mira", key=KEY) is None

    def test_found_by_key_is_unknown_only_if_nothing_else_is_open(self, script: StoreScript) -> None:
        """Prefer an open action, but let a late report find an unknown one."""
        opened = script.act("mira", KEY, state=State.OPEN, tier=3)
        unknown = script.act("mira", KEY, state=State.OPEN, tier=3)
        script.end("mira", unknown, State.UNKNOWN)
        for id in (opened, unknown):
            action = script.find("mira", key=KEY)
            assert action is not None
            assert action.id == id
            script.end("mira", id)
        assert script.find("mira", key=KEY) is None

    def test_found_without_a_key(self, script: StoreScript) -> None:
        """Find the newest action without a key by the key ``""``, even if it has a hidden key for its content."""
        script.act("mira", KEY)
        bare = script.act("mira", tier=1)
        hidden = script.act("mira", "=c0ffee", state=State.OPEN, tier=3)
        for id in (hidden, bare):
            action = script.find("mira", key="")
            assert action is not None
            assert action.id == id
            script.end("mira", id)
        assert script.find("mira", key="") is None

    @pytest.mark.parametrize("call", [None, b"identity"])
    def test_found_by_digest_is_the_oldest_unreported_action(self, script: StoreScript, call: bytes | None) -> None:
        """Return the oldest, because hosts without call ids report in the order of their calls."""
        content = Content(b"d" * 16)
        first = script.act("mira", KEY, content=content, call=call)
        second = script.act("mira", KEY, content=content, state=State.OPEN, tier=3)
        script.act("mira", KEY, content=Content(b"e" * 16))
        script.act("doug", KEY, content=content)
        for id in (first, second):
            action = script.find("mira", digest=content.digest)
            assert action is not None
            assert action.id == id
            script.end("mira", id)
        assert script.find("mira", digest=content.digest) is None

    def test_found_by_digest_after_the_lease_ran_out(self, script: StoreScript) -> None:
        """Return an unknown action for a late report."""
        content = Content(b"d" * 16)
        unknown = script.act("mira", KEY, content=content, state=State.OPEN, tier=3)
        script.end("mira", unknown, State.UNKNOWN)
        action = script.find("mira", digest=content.digest)
        assert action is not None
        assert action.id == unknown

    # --- namespaces ------------------------------------------------------------------------------------------

    def test_namespaces_never_see_one_another(self, script: StoreScript) -> None:
        """Share nothing by key, tree, fingerprint, id, call, mark or parent, nor in any list."""
        other = StoreScript(script.store, "other")
        content = Content(b"d" * 16)
        id = script.act(
            "mira", KEY, "file:/repo/",
            state=State.OPEN, tier=4, prints=(b"same",), content=content, parent="root", continues="old", call=b"c",
        )  # fmt: skip
        script.read("mira", "doc:read")
        script.act("mira", KEY, state=State.QUEUED, tier=4)
        view = other.view("mira", KEY, "file:/repo/a.py", "file:/", "doc:read", prints=(b"same",), waits=True)
        for key_view in view.keys:
            assert (key_view.live, key_view.latest, key_view.own, key_view.stale) == ((), (), None, ())
            assert unmarked(key_view.mark)
        assert (view.twins, view.ancestors, view.wanted) == ((), (), ())
        assert other.find("mira", id=id) is None
        assert other.find("mira", key=KEY) is None
        assert other.find("mira", digest=content.digest) is None
        assert script.store.action("other", id) is None
        assert script.store.live("other", list(State)) == []
        assert script.store.recent("other") == []
        assert script.store.entries(namespace="other") == []

    def test_namespaces_and_keys_do_not_run_together(self, script: StoreScript) -> None:
        """Keep a namespace's name apart from a key's name, also if their concatenation is the same."""
        StoreScript(script.store, "a").act("mira", "b:c", state=State.OPEN, tier=4)
        assert StoreScript(script.store, "a\x1fb").key_view("doug", "c").live == ()
        assert script.key_view("doug", "a\x1fb:c").live == ()
        assert script.key_view("doug", "b:c").live == ()

    # --- reading -----------------------------------------------------------------------------------------------

    def test_bodies_are_those_of_the_opening_entries(self, script: StoreScript) -> None:
        """Return the bodies to a step and to a reader, of their own namespace and up to ``MAX_KEPT`` characters."""
        id = script.act("doug", KEY, body={"params": {"to": "al\u00efce"}})
        without_params, long = script.act("doug", KEY), script.act("doug", KEY, body={"params": "x" * MAX_KEPT})
        ids = [id, without_params, long, id + 10_000_000]
        in_steps: list[dict[int, bytes]] = []

        def step(view: View) -> Change:
            assert view.bodies is not None
            in_steps.append(dict(view.bodies(ids)))
            return Change((script.entry("mira"),))

        script.run(script.scope("mira", [KEY]), step)
        for bodies in (in_steps[-1], script.store.bodies(script.namespace, ids)):
            decoded = {action_id: msgspec.json.decode(body) for action_id, body in bodies.items()}
            assert decoded.pop(without_params, {}) == {}
            assert decoded == {id: {"params": {"to": "al\u00efce"}}}
        assert script.store.bodies("other", ids) == {}
        assert script.store.bodies(script.namespace, []) == {}

    def test_lately_has_the_newest_calls_of_a_session(self, script: StoreScript) -> None:
        """Return a session's newest calls on any keys to a step, newest first."""
        first = script.act("doug", KEY)
        script.act("anna", KEY)
        calls = [script.act("doug", f"{KEY}{n}") for n in range(MAX_LATELY)]
        in_steps: list[list[int]] = []

        def step(view: View) -> Change:
            assert view.lately is not None
            in_steps.append([action.id for action in view.lately("doug")])
            in_steps.append([action.id for action in view.lately("nobody")])
            assert {action.session for action in view.lately("doug")} == {"doug"}
            return Change((script.entry("mira"),))

        script.run(script.scope("mira", [KEY]), step)
        assert first not in calls
        assert in_steps[-2:] == [calls[::-1], []]

    def test_farewells_are_newest_first(self, script: StoreScript) -> None:
        """Return no other entries of a host and none of another namespace."""

        def journal(session: str, event: str, summary: str = "", namespace: str = script.namespace) -> None:
            body = {"what": event, "params": {"summary": "x"}, "summary": summary}
            entry = Entry(Event.HOST, session, namespace, body=body)
            script.run(replace(script.scope(session), namespace=namespace), lambda _view: Change((entry,)))

        script.act("doug", KEY, body={"summary": "no farewell"})
        journal("doug/1", "SessionEnd", "paid it")
        journal("doug/2", "SessionEnd")
        journal("doug/3", "SessionEnd", "elsewhere", "other")
        journal("doug/4", "SessionEnd", "wrote na\u00efvely")
        journal("doug/1", "SessionStart")
        farewells = [(entry.session, entry.body["summary"]) for entry in script.store.farewells(script.namespace)]
        assert farewells == [("doug/4", "wrote na\u00efvely"), ("doug/1", "paid it")]
        assert [entry.session for entry in script.store.farewells(script.namespace, 1)] == ["doug/4"]

    def test_action_by_id(self, script: StoreScript) -> None:
        """Return the whole action, and None for an id of any size that does not exist."""
        id = script.act("mira", KEY, state=State.OPEN, tier=3)
        action = script.store.action("default", id)
        assert action is not None
        assert (action.id, action.session, action.state, action.keys) == (id, "mira", State.OPEN, (Key(KEY),))
        for absent in (0, -1, id + 1, 2**62, 2**70, -(2**70)):
            assert script.store.action("default", absent) is None

    def test_live_lists_by_state_key_and_namespace(self, script: StoreScript) -> None:
        """Return each action once, oldest first."""
        other = StoreScript(script.store, "other")
        opened = script.act("mira", KEY, "doc:second", state=State.OPEN, tier=3)
        queued = script.act("doug", KEY, state=State.QUEUED, tier=3)
        foreign = other.act("anna", KEY, state=State.OPEN, tier=3)
        unknown = script.act("mira", "doc:third", state=State.OPEN, tier=3)
        script.end("mira", unknown, State.UNKNOWN)
        script.act("mira", KEY)
        store = script.store
        assert ids(store.live("default", [State.OPEN])) == [opened]
        assert ids(store.live("default", [State.OPEN, State.QUEUED, State.UNKNOWN])) == [opened, queued, unknown]
        assert ids(store.live(None, [State.OPEN])) == [opened, foreign]
        assert ids(store.live("default", list(State), "doc:second")) == [opened]
        assert ids(store.live("default", [State.DONE])) == []

    def test_recent_is_newest_first(self, script: StoreScript) -> None:
        """Include failed actions. With a key, return the actions whose first key it is."""
        first = script.act("mira", KEY, "doc:second")
        second = script.act("doug", "doc:second")
        script.end("doug", second, State.FAILED)
        script.refuse("doug", KEY)
        assert ids(script.store.recent("default")) == [second, first]
        assert ids(script.store.recent("default", limit=1)) == [second]
        assert ids(script.store.recent("default", "doc:second")) == [second]
        assert ids(script.store.recent("default", KEY)) == [first]

    def test_recent_can_leave_out_sessions_and_low_tiers(self, script: StoreScript) -> None:
        """Search only the newest ``within`` entries of all sessions."""
        high = script.act("doug", KEY, tier=3)
        low = script.act("doug", KEY, tier=1)
        own = script.act("mira", KEY, tier=3)
        recent = script.store.recent
        assert ids(recent("default", floor=2)) == [own, high]
        assert ids(recent("default", besides=("mira",))) == [low, high]
        assert ids(recent("default", KEY, floor=2, besides=("mira", "anna"))) == [high]
        assert ids(recent("default", within=2)) == [own, low]

    # --- what a session and others near it work on ----------------------------------------------------

    def test_touched_has_the_newest_calls_of_the_sessions(self, script: StoreScript) -> None:
        """Include reads and failed, waiting and refused calls, but only of these sessions in this namespace."""
        read = script.read("mira", KEY)
        failed = script.act("mira", "doc:second")
        script.end("mira", failed, State.FAILED)
        script.act("doug", KEY)
        StoreScript(script.store, "other").act("mira", "doc:foreign")
        refused = script.refuse("mira", "doc:third")
        asked = script.act("mira/2", KEY, "doc:fourth", state=State.ASKED, tier=4)
        touched = script.store.touched
        assert ids(touched("default", ["mira"])) == [refused, failed, read]
        assert ids(touched("default", ["mira", "mira/2"], limit=2)) == [asked, refused]
        assert touched("default", ["anna"]) == []
        found = touched("default", ["mira", "mira/2"])
        assert [[key.name for key in action.keys] for action in found] == [
            [KEY, "doc:fourth"], ["doc:third"], ["doc:second"], [KEY],
        ]  # fmt: skip
        states = [(action.state, bool(action.expires)) for action in found]
        assert states == [(State.ASKED, True), (State.ASKED, False), (State.FAILED, True), (State.DONE, True)]

    def test_nearby_has_actions_of_others_and_when_this_session_last_saw_the_key(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Count an own read or action as having seen the key, and leave out the session's own actions."""
        before = script.act("doug", KEY)
        assert [(near.action.id, near.seen) for near in script.store.nearby("default", ["mira"], [KEY])] == [
            (before, 0)
        ]
        clock.advance(1)
        read = script.read("mira", KEY)
        clock.advance(1)
        after = script.act("anna", KEY)
        found = script.store.nearby("default", ["mira"], [KEY, "doc:none"])
        assert [(near.action.id, near.seen, near.action.key) for near in found] == [
            (after, read, KEY),
            (before, read, KEY),
        ]
        own = script.act("mira", KEY)
        assert {near.seen for near in script.store.nearby("default", ["mira"], [KEY])} == {own}
        assert {near.seen for near in script.store.nearby("default", ["vera"], [KEY])} == {0}
        assert {near.seen for near in script.store.nearby("default", ["vera", "mira"], [KEY])} == {own}
        assert {near.action.session for near in script.store.nearby("default", ["mira", "doug"], [KEY])} == {"anna"}
        assert script.store.nearby("other", ["mira"], [KEY]) == []

    def test_nearby_has_the_newest_action_of_each_session(self, script: StoreScript, clock: ManualClock) -> None:
        """Return the newest change first, count a late report as a change, and leave out reads and failed actions."""
        script.act("doug", KEY)
        slow = script.act("doug", KEY)
        clock.advance(1)
        quick = script.act("anna", KEY)
        script.read("vera", KEY)
        script.end("otto", failed := script.act("otto", KEY), State.FAILED)
        assert failed
        assert _ids(script.store.nearby("default", ["mira"], [KEY])) == [quick, slow]
        clock.advance(1)
        script.end("doug", slow)
        assert _ids(script.store.nearby("default", ["mira"], [KEY])) == [slow, quick]

    def test_nearby_has_live_actions(self, script: StoreScript) -> None:
        """Include locks, waiters, questions and unknown actions. Return an action with several keys once."""
        lock = script.act("doug", KEY, state=State.OPEN, tier=4, lock=True)
        unknown = script.act("doug", KEY, state=State.OPEN, tier=3)
        script.end("doug", unknown, State.UNKNOWN)
        waiting = script.act("anna", KEY, state=State.QUEUED, tier=3)
        asked = script.act("anna", KEY, state=State.ASKED, tier=3)
        on_both = script.act("otto", KEY, "doc:second", state=State.OPEN, tier=3)
        script.act("mira", KEY, state=State.OPEN, tier=3)
        found = script.store.nearby("default", ["mira"], [KEY, "doc:second"])
        assert sorted(_ids(found)) == sorted([lock, unknown, waiting, asked, on_both])
        script.end("doug", lock)
        assert lock not in _ids(script.store.nearby("default", ["mira"], [KEY]))

    def test_nearby_is_bounded_and_own_actions_hide_none_of_others(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Return the newest of very many actions, whether they are done, open or unknown."""
        for number in range(CROWD_SIZE):
            clock.advance(1)
            script.act(f"other-{number}", KEY)
            script.act("mira", KEY, state=State.OPEN, tier=3)
        names = {near.action.session for near in script.store.nearby("default", ["mira"], [KEY])}
        assert names == {f"other-{number}" for number in range(CROWD_SIZE - MAX_NEARBY_SESSIONS, CROWD_SIZE)}
        for number in range(CROWD_SIZE):
            unknown = script.act(f"lost-{number}", "doc:lost", state=State.OPEN, tier=3)
            script.end(f"lost-{number}", unknown, State.UNKNOWN)
            script.act(f"open-{number}", "doc:open", state=State.OPEN, tier=3)
        assert len(script.store.nearby("default", ["mira"], ["doc:lost"])) <= 2 * MAX_NEARBY_SESSIONS
        newest = {near.action.session for near in script.store.nearby("default", ["mira"], ["doc:open"])}
        assert {f"open-{CROWD_SIZE - 1}", f"open-{CROWD_SIZE - 2}"} <= newest
        assert len(newest) <= 2 * MAX_NEARBY_SESSIONS

    @pytest.mark.parametrize(
        ("asked", "acted"),
        [
            ("file:/repo/a.py", "file:/repo/"),
            ("file:/repo/", "file:/repo/src/a.py"),
            ("channel:general", "channel:general|topic"),
            ("channel:general|topic", "channel:general"),
        ],
    )
    @pytest.mark.parametrize("state", [State.DONE, State.OPEN])
    def test_nearby_covers_trees_and_facets_in_both_directions(
        self, script: StoreScript, asked: str, acted: str, state: State
    ) -> None:
        """Return actions on trees, on keys below them and on facets, each under the key of the action."""
        script.act("doug", "file:/repository/a.py", state=state, tier=3)
        id = script.act("doug", acted, state=state, tier=3)
        assert [(near.action.id, near.action.key) for near in script.store.nearby("default", ["mira"], [asked])] == [
            (id, acted)
        ]

    def test_reading_a_tree_counts_as_having_seen_every_key_in_it(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Return the tree's read as ``seen``, whether ``nearby`` gets the tree or the file."""
        script.act("doug", "file:/repo/src/a.py")
        clock.advance(1)
        read = script.read("mira", "file:/repo/src/")
        for asked in ("file:/repo/", "file:/repo/src/a.py"):
            (near,) = script.store.nearby("default", ["mira"], [asked])
            assert (near.action.key, near.seen) == ("file:/repo/src/a.py", read)

    def test_nearby_below_a_large_tree_is_bounded(self, script: StoreScript) -> None:
        """Return the newest actions, and no reads."""
        for number in range(BELOW_SIZE):
            script.act("doug", f"file:/repo/{number:04}.py")
        script.read("doug", "file:/repo/read.py")
        found = script.store.nearby("default", ["mira"], ["file:/repo/"])
        assert found[0].action.key == f"file:/repo/{BELOW_SIZE - 1:04}.py"
        assert "file:/repo/read.py" not in {near.action.key for near in found}

    def test_underway_has_all_own_live_actions_and_leases_of_others(self, script: StoreScript) -> None:
        """Include own questions and unknown actions, and open and queued ones of others from a tier up."""
        own = script.act("mira", KEY, state=State.OPEN, tier=2)
        script.act("doug", KEY, state=State.OPEN, tier=2)
        lease = script.act("doug", "doc:second", "doc:third", state=State.OPEN, tier=3)
        waiting = script.act("anna", KEY, state=State.QUEUED, tier=4)
        script.act("anna", KEY, state=State.ASKED, tier=4)
        asked = script.act("mira", KEY, state=State.ASKED, tier=4)
        unknown = script.act("mira", KEY, state=State.OPEN, tier=3)
        script.end("mira", unknown, State.UNKNOWN)
        StoreScript(script.store, "other").act("mira", KEY, state=State.OPEN, tier=3)
        underway = script.store.underway
        assert ids(underway("default", ["mira"], 3)) == [unknown, asked, waiting, lease, own]
        assert ids(underway("default", ["mira"], 4)) == [unknown, asked, waiting, own]
        assert ids(underway("default", ["mira"], 3, limit=2)) == [unknown, asked]
        assert ids(underway("default", [], 3)) == [waiting, lease]

    def test_kin_is_where_the_calls_of_a_session_say_it_comes_from(self, script: StoreScript) -> None:
        """Return the session's parent and predecessor, and nothing for a session that has made no call."""
        script.act("mira/2", KEY, parent="mira", continues="mira/1")
        script.act("mira/2", KEY)
        assert script.store.kin("default", "mira/2") == Ancestry("mira", "mira/1")
        assert script.store.kin("default", "mira") == Ancestry()
        assert script.store.kin("other", "mira/2") == Ancestry()

    def test_reads_for_a_brief_write_nothing(self, script: StoreScript, writes: Callable[[], object]) -> None:
        """Write nothing, not even what a transaction records besides its entries."""
        for number in range(CROWD_SIZE):
            script.act(f"other-{number}", KEY)
        before = writes()
        script.store.touched("default", ["mira"])
        script.store.nearby("default", ["mira"], [KEY, "file:/repo/"])
        script.store.underway("default", ["mira"], 3)
        script.store.kin("default", "mira")
        assert writes() == before

    # --- the journal -------------------------------------------------------------------------------------------

    def test_every_field_of_an_entry_is_stored(self, script: StoreScript) -> None:
        """Return every field; the body is what JSON makes of it."""
        entry = Entry(
            Event.INTERCEPT, "mira", "default", 0, 0, "send", 3, Verdict.BLOCK, "mail", "run-1",
            (Key(KEY, APPEND), Key("b:2", READ)), None, {"params": {"to": ["alice"], "n": 1.5, "none": None}},
        )  # fmt: skip
        (id,) = script.run(script.scope("mira"), lambda _: Change((entry,))).ids
        assert script.store.entries() == [replace(entry, seq=id)]

    def test_an_entry_about_an_action_names_it(self, script: StoreScript) -> None:
        """Return the action's tool, tier, run and keys with the entry."""
        id = script.act("mira", KEY, tier=3, state=State.OPEN)
        script.end("mira", id)
        opened, ended = script.store.entries()
        assert (ended.event, ended.action, ended.outcome) == (Event.COMPLETE, id, Outcome.DONE)
        assert (ended.tool, ended.tier, ended.keys) == (opened.tool, opened.tier, opened.keys)

    def test_an_opening_entry_names_its_own_action(self, script: StoreScript) -> None:
        """Return the entry's own ``seq`` as ``action``."""
        id = script.act("mira", KEY)
        assert script.store.entries()[-1].action == id

    @pytest.mark.parametrize("size", [1, 3, 7, 1000])
    def test_paging_returns_every_entry_once(self, script: StoreScript, clock: ManualClock, size: int) -> None:
        """Return each entry once to a reader that continues from the last ``seq``, also entries written meanwhile."""
        written = [script.act("mira", KEY) for _ in range(10)]
        returned: list[int] = []
        rounds = 0
        while page := script.store.entries(after=returned[-1] if returned else 0, limit=size):
            returned += [entry.seq for entry in page]
            if rounds < 5:
                clock.advance(-1)
                written.append(script.act("doug", KEY))
            rounds += 1
        assert returned == written

    def test_entries_are_selected(self, script: StoreScript) -> None:
        """Select by namespace, session and first key. ``newest`` returns the last entries, oldest first."""
        other = StoreScript(script.store, "other")
        first = script.act("mira", KEY)
        second = script.act("doug", KEY)
        third = other.act("mira", KEY)
        fourth = script.act("mira", "doc:other", KEY)
        entries = script.store.entries
        assert [e.seq for e in entries(namespace="default")] == [first, second, fourth]
        assert [e.seq for e in entries(session="mira")] == [first, third, fourth]
        assert [e.seq for e in entries(namespace="default", key=KEY)] == [first, second]
        assert [e.seq for e in entries(newest=True, limit=2)] == [third, fourth]
        assert [e.seq for e in entries(after=second, newest=True, limit=5)] == [third, fourth]

    # --- upkeep ------------------------------------------------------------------------------------------------

    def test_maintain_keeps_what_a_rule_can_ask_for(self, script: StoreScript, clock: ManualClock) -> None:
        """Keep evidence and marks since the horizon, remembered calls, live actions and the journal."""
        unknown = script.act("doug", "doc:lost", state=State.OPEN, tier=3)
        script.end("doug", unknown, State.UNKNOWN)
        clock.advance(30 * 86_400)
        twin = script.act("doug", KEY, prints=(b"same",), call=b"c")
        read = script.read("mira", "doc:read")
        before = script.store.entries()
        for _ in range(5):
            script.store.maintain(clock.now - 7 * DAY)
        assert script.store.entries() == before
        assert ids(script.view("mira", KEY, prints=(b"same",)).twins) == [twin]
        assert ids(script.key_view("mira", KEY).latest) == [twin]
        assert script.key_view("mira", "doc:read").mark.read == read
        assert script.view("doug", call=b"c").earlier is not None
        assert ids(script.key_view("mira", "doc:lost").live) == [unknown]

    def test_marks_are_kept_while_their_session_is_active(self, script: StoreScript, clock: ManualClock) -> None:
        """Keep the mark of an old read while its session makes calls."""
        read = script.read("mira", KEY)
        for _ in range(10):
            clock.advance(86_400)
            script.act("mira", "doc:other")
            script.store.maintain(clock.now - 7 * DAY)
        assert script.key_view("mira", KEY).mark.read == read

    def test_marks_are_kept_while_their_session_is_active_in_any_namespace(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Judge whether a session is active in its own namespace."""
        other = StoreScript(script.store, "other")
        read = other.read("mira", KEY)
        for _ in range(10):
            clock.advance(86_400)
            other.act("mira", "doc:other")
            script.store.maintain(clock.now - 7 * DAY)
        assert other.key_view("mira", KEY).mark.read == read

    def test_an_old_change_is_kept_for_a_session_that_read_before_it(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Keep the change: ``stale`` has no time window, so the session that read before it must still see it."""
        script.read("mira", KEY)
        clock.advance(60)
        script.end("doug", changed := script.act("doug", KEY, tier=1))
        for _ in range(10):
            clock.advance(86_400)
            script.act("mira", "doc:other")
            script.store.maintain(clock.now - 7 * DAY)
        assert ids(script.key_view("mira", KEY).latest) == [changed]

    def test_maintain_deletes_what_no_rule_can_ask_for(self, script: StoreScript, clock: ManualClock) -> None:
        """Delete old fingerprints, calls and marks, until nothing is left to delete."""
        for number in range(5):
            script.act("doug", f"doc:{number}", prints=(b"same",), call=b"%d" % number)
            script.read("mira", f"doc:{number}")
        clock.advance(30 * 86_400)
        script.act("anna", KEY)
        gone = sum(script.store.maintain(clock.now - 7 * DAY) for _ in range(4))
        assert gone >= 15
        assert script.store.maintain(clock.now - 7 * DAY) == 0
        assert script.view("mira", "doc:1", prints=(b"same",)).twins == ()
        assert unmarked(script.key_view("mira", "doc:1").mark)

    def test_maintain_keeps_to_its_budget(self, script: StoreScript, clock: ManualClock) -> None:
        """Delete at most ``budget`` rows of each sort per call, and everything after enough calls."""
        for number in range(9):
            script.act("doug", f"doc:{number}", prints=(b"same",))
        clock.advance(30 * 86_400)
        script.act("anna", KEY)
        rounds = [script.store.maintain(clock.now - 7 * DAY, budget=2) for _ in range(60)]
        assert max(rounds) <= 2 * 5
        assert sum(rounds) >= 9
        assert rounds[-1] == 0

    def test_take_keeps_what_is_still_needed(self, script: StoreScript, clock: ManualClock) -> None:
        """Keep the entries of open actions, remembered calls, and evidence since the horizon."""
        opened = script.act("mira", "doc:open", state=State.OPEN, tier=3)
        unknown = script.act("mira", "doc:lost", state=State.OPEN, tier=3)
        script.end("mira", unknown, State.UNKNOWN)
        old = script.act("mira", "doc:old")
        report = script.end("mira", old)
        refused = script.refuse("mira", "doc:refused")
        clock.advance(8 * 86_400)
        remembered = script.act("mira", "doc:call", call=b"c")
        evidence = script.act("mira", "doc:evidence")
        last = script.act("doug", "doc:last")
        until, horizon = clock.now + SECOND, clock.now - 7 * DAY
        taken = [entry.seq for entry in script.store.take(until, horizon)]
        assert {old, report, refused} <= set(taken)
        assert not {opened, unknown, remembered, evidence, last} & set(taken)
        assert len(script.store.entries()) == len(taken) + len(
            [e for e in script.store.entries() if e.seq not in taken]
        )
        assert script.store.take(until, horizon, delete=True) == []
        left = [entry.seq for entry in script.store.entries()]
        assert not set(taken) & set(left)
        assert {opened, unknown, remembered, evidence, last} <= set(left)
        assert ids(script.key_view("x", "doc:open").live) == [opened]
        assert ids(script.key_view("x", "doc:lost").live) == [unknown]
        assert script.view("mira", call=b"c").earlier is not None
        assert ids(script.key_view("x", "doc:evidence").latest) == [evidence]

    def test_take_is_bounded_and_deletes_what_it_returned(self, script: StoreScript, clock: ManualClock) -> None:
        """Return the oldest entries first. With ``delete``, delete exactly the entries returned before."""
        old = [script.refuse("mira", KEY) for _ in range(6)]
        clock.advance(8 * 86_400)
        script.act("mira", KEY)
        until, horizon = clock.now, clock.now - 7 * DAY
        assert [entry.seq for entry in script.store.take(until, horizon, 4)] == old[:4]
        assert [entry.seq for entry in script.store.take(old[1], horizon)] == old[:2]
        assert len(script.store.entries()) == 7
        script.store.take(until, horizon, 4, delete=True)
        assert [entry.seq for entry in script.store.take(until, horizon)] == old[4:]

    def test_take_deletes_only_the_named_entries(self, script: StoreScript, clock: ManualClock) -> None:
        """Keep entries that ``only`` does not name, and named ones that have to stay."""
        old = [script.refuse("mira", KEY) for _ in range(4)]
        opened = script.act("mira", KEY, state=State.OPEN, tier=3)
        script.act("doug", KEY)
        script.store.take(clock.now + DAY, clock.now, delete=True, only={old[0], old[2], opened})
        left = [entry.seq for entry in script.store.entries()]
        assert old[1] in left
        assert old[3] in left
        assert opened in left
        assert not {old[0], old[2]} & set(left)

    def test_take_keeps_a_change_that_an_active_session_must_still_be_notified_of(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Keep the change, on any of its keys, and the own finished write that counted as the read before it.

        Both may leave once the session that wrote before the change is no longer active.
        """
        own = script.act("mira", "doc:mine", KEY)
        script.end("mira", own)
        clock.advance(60)
        changed = script.act("doug", "doc:theirs", KEY)
        script.end("doug", changed)
        clock.advance(30 * 86_400)
        script.act("mira", "doc:other")
        script.act("anna", "doc:other")
        script.store.take(clock.now, clock.now - 7 * DAY, delete=True)
        key_view = script.key_view("mira", KEY)
        assert (ids(key_view.latest), key_view.own and key_view.own.id) == ([changed], own)
        clock.advance(30 * 86_400)
        script.act("anna", "doc:other")
        for _ in range(5):
            script.store.maintain(clock.now - 7 * DAY)
        assert {own, changed} <= {entry.seq for entry in script.store.take(clock.now, clock.now - 7 * DAY)}

    def test_size_grows_with_the_stored_data(self, script: StoreScript) -> None:
        """Return the size in bytes."""
        empty = script.store.size()
        for _ in range(300):
            script.refuse("mira", KEY)
        assert script.store.size() > max(empty, 300 * 20)

    def test_time_does_not_run_backwards_after_take_removed_all_entries(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Keep the store's time when its last entry leaves."""
        last = [script.refuse("mira", KEY) for _ in range(3)][-1]
        script.store.take(clock.now + DAY, clock.now + DAY, delete=True)
        clock.advance(-3600)
        assert script.act("mira", KEY) > last

    def test_check_of_a_sound_store(self, script: StoreScript, clock: ManualClock) -> None:
        """Count entries and live actions, report no problem, and return by how much the clock was set back."""
        script.act("mira", KEY, "doc:second", state=State.OPEN, tier=3)
        script.act("mira", KEY)
        health = script.store.check()
        assert (health.entries, health.live) == (2, 1)
        assert not health.problems
        clock.advance(-100)
        assert 99 < script.store.check().ahead < 101

    def test_gates_with_different_content_keys_are_counted(self, store: Store, clock: ManualClock) -> None:
        """Count the content keys of the last day; a running gate renews its registration before the day is over."""
        assert store.check().content_keys == 0
        assert [store.register("one"), store.register("one")] == [1, 1]
        clock.advance(13 * 3600)
        assert [store.register("other"), store.register("one"), store.check().content_keys] == [2, 2, 2]
        clock.advance(13 * 3600)
        assert [store.register("other"), store.check().content_keys] == [2, 2]
        clock.advance(12 * 3600)
        assert [store.check().content_keys, store.register("other")] == [1, 1]
        assert store.maintain(clock.now) == 0  # registrations are not counted as deleted rows

    def test_a_scope_may_be_durable(self, script: StoreScript) -> None:
        """Store a durable scope like any other. Whether it survives a power failure depends on the engine."""
        id = script.act("mira", KEY, state=State.OPEN, tier=4, durable=True)
        assert ids(script.key_view("doug", KEY).live) == [id]

    def test_a_scope_may_have_many_keys(self, script: StoreScript) -> None:
        """Open the action on all keys, and return a view for each."""
        keys = [f"doc:{number}" for number in range(64)]
        id = script.act("doug", *keys, state=State.OPEN, tier=4)
        view = script.view("mira", *keys)
        assert [key_view.key.name for key_view in view.keys] == keys
        assert all(ids(key_view.live) == [id] for key_view in view.keys)

    def test_special_characters_in_names_are_stored_as_they_are(self, script: StoreScript) -> None:
        """Accept quotes, wildcards, percent signs and other scripts in keys and sessions."""
        names = ["a'b", 'a"b', "a%b", "a_b", "a*b", "a?b", "a;b--", "ключ", "鍵/", "a\\b", "[a]", "{a}", "a" * 1000]
        given = {name: script.act(name[:200], name, state=State.OPEN, tier=4) for name in names}
        for name, id in given.items():
            assert ids(script.key_view("mira", name).live) == [id]
