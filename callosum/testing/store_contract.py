"""The contract of a store as a test class: every promise of ``Store`` and of the model is a test.

The whole test of a backend::

    class TestMyStore(StoreContract):
        @pytest.fixture
        def make_store(self, tmp_path: Path) -> MakeStore:
            return lambda clock, probe: MyStore(tmp_path / "db", clock=clock, probe=probe)

A fixture ``writes`` may count the engine's own writes, to prove that an empty change makes none.
"""
# ruff: noqa: S101  what asserts here is a test

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
from callosum.stores.base import MAX_LATELY, MAX_NEARBY_SESSIONS, Ancestry, Clock, Nearby, Probe, Store
from callosum.testing.clock import ManualClock
from callosum.testing.script import LEASE, StoreScript, ids, unmarked

MakeStore = Callable[[Clock, Probe], Store]
"""Makes a store with this clock and this way to see whether a process lives."""

KEY = "doc:plan"
READ, WRITE, APPEND = Mode.READ, Mode.WRITE, Mode.APPEND
CROWD_SIZE = 40
"""More sessions on a key than a store may look at one by one."""
BELOW_SIZE = 600
"""More keys below a tree than a store may look at one by one."""


def _ids(nearby: Iterable[Nearby]) -> list[int]:
    return [one.action.id for one in nearby]


class StoreContract:
    """Inherit it and provide ``make_store``; nothing else is needed."""

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Return the one fixture that a backend provides."""
        raise NotImplementedError("provide the fixture make_store(clock, probe) -> Store")

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the store's clock."""
        return ManualClock()

    @pytest.fixture
    def living(self) -> dict[int, bool]:
        """Which host processes live, by pid; of any other it cannot be told."""
        return {}

    @pytest.fixture
    def store(self, make_store: MakeStore, clock: ManualClock, living: dict[int, bool]) -> Iterator[Store]:
        """Yield the store under test."""
        store = make_store(clock, lambda host: living.get(host.pid))
        yield store
        store.close()
        store.close()  # it may be closed twice

    @pytest.fixture
    def script(self, store: Store) -> StoreScript:
        """Return the store with short words around it."""
        return StoreScript(store)

    @pytest.fixture
    def writes(self, store: Store) -> Callable[[], object]:
        """Something that changes whenever the engine writes; by default the journal alone is looked at."""
        return lambda: len(store.entries())

    # --- transactions ----------------------------------------------------------------------------

    def test_a_change_comes_back_with_its_ids_and_answer(self, script: StoreScript) -> None:
        """``Applied`` holds the change untouched, the places of its entries in order, and the moment."""
        answer = object()
        scope = script.scope("mira", [KEY])
        applied = script.run(scope, lambda _: Change((script.entry("mira"), script.entry("mira")), answer=answer))
        assert applied.change.answer is answer
        assert len(applied.ids) == 2
        assert applied.ids[0] == applied.now
        assert [entry.seq for entry in script.store.entries()] == list(applied.ids)

    def test_a_step_may_run_twice(self, script: StoreScript) -> None:
        """The last run counts alone: one entry, however often the step was run."""
        runs = []

        def step(view: View) -> Change:
            runs.append(view.now)
            return Change((script.entry("mira", body={"run": len(runs)}),))

        script.run(script.scope("mira"), step)
        entries = script.store.entries()
        assert len(entries) == 1
        assert entries[0].body == {"run": len(runs)}

    def test_a_step_that_raises_fails_alone(self, script: StoreScript) -> None:
        """Its exception stands in its place; its neighbours in the batch are stored."""
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
        """Neither its entry nor its action nor its mark, and its neighbours in the batch are stored."""
        kept = script.act("mira", KEY)

        def bad(view: View) -> Change:
            entry = script.entry("mira", [KEY], body={"cannot": object()})
            return Change((script.entry("mira"), entry), Opening(State.OPEN, view.now + LEASE))

        def good(_: View) -> Change:
            return Change((script.entry("mira"),))

        scope = script.scope("mira", [KEY])
        answers = script.store.transact([(scope, good), (scope, bad)])
        assert isinstance(answers[1], Exception)
        assert len(script.store.entries()) == 2
        assert script.place("doug", KEY).live == ()
        assert ids(script.place("doug", KEY).latest) == [kept]

    def test_a_batch_runs_in_order(self, script: StoreScript) -> None:
        """A later step sees what an earlier one of the same batch changed."""
        seen: list[tuple[int, ...]] = []

        def step(view: View) -> Change:
            seen.append(tuple(ids(view.keys[0].latest)))
            return Change((script.entry(str(len(seen)), [KEY]),), Opening(State.DONE, view.now + LEASE))

        first, second = script.store.transact([(script.scope("1", [KEY]), step), (script.scope("2", [KEY]), step)])
        assert not isinstance(first, Exception)
        assert not isinstance(second, Exception)
        assert seen[-1] == first.ids
        assert second.now > first.ids[-1]

    def test_an_empty_batch_is_answered(self, store: Store) -> None:
        """No request, no answer, no entry."""
        assert store.transact([]) == []
        assert store.entries() == []

    def test_an_empty_change_writes_nothing(self, script: StoreScript, writes: Callable[[], object]) -> None:
        """Neither to the journal nor to anything beside it."""
        script.act("mira", KEY)
        before = writes()
        script.look("mira", KEY)
        script.look("doug", KEY)
        script.look("new", "doc:other", parent="mira", continues="doug")
        assert writes() == before

    def test_now_never_runs_backwards(self, script: StoreScript, clock: ManualClock) -> None:
        """A clock that is set back does not take the store's time with it."""
        moments = [script.act("mira", KEY)]
        for seconds in (5, -3600, 0, 1, -5):
            clock.advance(seconds)
            view = script.look("mira", KEY)
            assert view.now > moments[-1]
            moments.append(script.act("mira", KEY))
        assert moments == sorted(set(moments))

    def test_now_follows_the_clock(self, script: StoreScript, clock: ManualClock) -> None:
        """Where it does not run backwards it is the clock's."""
        script.act("mira", KEY)
        clock.advance(90)
        assert script.look("mira", KEY).now == clock.now

    def test_ids_grow_and_none_is_given_twice(self, script: StoreScript) -> None:
        """Entries are numbered upwards, also while the clock stands still."""
        given = [script.act(str(number % 3), KEY) for number in range(20)]
        assert given == sorted(set(given))
        assert [entry.seq for entry in script.store.entries()] == given

    def test_threads_take_turns(self, script: StoreScript) -> None:
        """Steps on one key run one after another: of eight that open if nothing is open, one opens."""
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
        assert ids(script.place("late", KEY).live) == opened

    # --- a view of one key: live actions -----------------------------------------------------------

    @pytest.mark.parametrize("state", [State.QUEUED, State.ASKED, State.OPEN])
    def test_live_shows_everybodys(self, script: StoreScript, state: State) -> None:
        """Queued, asked and open actions, of the session itself too."""
        first = script.act("doug", KEY, state=state, tier=3)
        second = script.act("mira", KEY, state=state, tier=3)
        assert sorted(ids(script.place("mira", KEY).live)) == [first, second]

    def test_live_shows_unknown_ones_until_they_are_settled(self, script: StoreScript) -> None:
        """They do not age out."""
        id = script.act("doug", KEY, state=State.OPEN, tier=3)
        script.end("doug", id, State.UNKNOWN)
        (seen,) = script.place("mira", KEY).live
        assert (seen.id, seen.state, seen.ended) == (id, State.UNKNOWN, 0)
        script.settle(id, State.DONE, ended=script.look("x").now)
        assert script.place("mira", KEY).live == ()

    def test_live_is_not_cut(self, script: StoreScript) -> None:
        """However many are open."""
        opened = [script.act(str(number), KEY, state=State.OPEN, tier=3) for number in range(LATEST * 3)]
        assert sorted(ids(script.place("mira", KEY).live)) == opened

    @pytest.mark.parametrize("floor", [0, 1, 2])
    @pytest.mark.parametrize("told", [0, 6])
    def test_live_shows_the_newest_unknown_ones(self, script: StoreScript, floor: int, told: int) -> None:
        """At least ``LATEST`` of them, whatever the asking call's tier is and whatever its session was told before."""
        lost = [script.act(f"s{number}", KEY, state=State.OPEN, tier=3) for number in range(LATEST + 3)]
        for number, id in enumerate(lost):
            script.end(f"s{number}", id, State.UNKNOWN)
        if told:
            script.move("mira", KEY, Mark(0, script.store.now(), told, script.store.now()))
        seen = ids(script.place("mira", KEY, floor=floor).live)
        assert set(lost[-LATEST:]) <= set(seen) <= set(lost)

    def test_live_shows_calls_that_read(self, script: StoreScript) -> None:
        """A question about a read waits for its answer like any other."""
        id = script.act("mira", Key(KEY, READ), state=State.ASKED, tier=3)
        (seen,) = script.place("mira", Key(KEY, READ)).live
        assert (seen.id, seen.mode) == (id, READ)

    def test_live_comes_only_if_it_is_asked_for(self, script: StoreScript) -> None:
        """``Scope.live`` False spares the store the work."""
        script.act("doug", KEY, state=State.OPEN, tier=3)
        assert script.place("mira", KEY, live=False).live == ()

    def test_an_ended_action_is_live_no_more(self, script: StoreScript) -> None:
        """Whatever its end was."""
        for state in (State.DONE, State.FAILED, State.CANCELLED):
            id = script.act("doug", KEY, state=State.OPEN, tier=3)
            script.end("doug", id, state)
            assert script.place("mira", KEY).live == ()

    def test_ending_one_action_leaves_the_other_open(self, script: StoreScript) -> None:
        """Two of one session on one key are two."""
        older = script.act("doug", KEY, state=State.OPEN, tier=3)
        newer = script.act("doug", KEY, state=State.OPEN, tier=3)
        script.end("doug", older)
        assert ids(script.place("mira", KEY).live) == [newer]

    def test_an_action_is_open_on_all_its_keys(self, script: StoreScript) -> None:
        """And its end frees them all."""
        id = script.act("doug", "a:1", "b:2", state=State.OPEN, tier=3)
        assert ids(script.place("mira", "a:1").live) == ids(script.place("mira", "b:2").live) == [id]
        script.end("doug", id)
        assert script.place("mira", "a:1").live == script.place("mira", "b:2").live == ()

    def test_an_unknown_action_can_be_open_again(self, script: StoreScript) -> None:
        """A late renewal: the state and the expiry move, the id stays."""
        id = script.act("doug", KEY, state=State.OPEN, tier=3)
        script.end("doug", id, State.UNKNOWN)
        until = script.look("x").now + HOUR
        script.settle(id, State.OPEN, expires=until)
        (seen,) = script.place("mira", KEY).live
        assert (seen.id, seen.state, seen.expires) == (id, State.OPEN, until)

    def test_an_action_is_kept_as_it_was_opened(self, script: StoreScript, living: dict[int, bool]) -> None:
        """Every field of it."""
        content = Content(b"d" * 16, b"w", b"abcd", b"efgh", repeats=True, stance="+attend", origin=b"o", brief=True)
        host = Host(77, 12.5, "machine")
        living[77] = True
        id = script.act(
            "doug", Key(KEY), Key("b:2", APPEND),
            state=State.OPEN, tier=4, content=content, host=host, limit=9 * HOUR, supersedes=(3, 4), lease=MINUTE,
        )  # fmt: skip
        (seen,) = script.place("mira", "b:2").live
        assert (seen.id, seen.namespace, seen.session, seen.tool, seen.tier) == (id, "default", "doug", "tool", 4)
        assert (seen.state, seen.started, seen.ended, seen.expires, seen.limit) == (
            State.OPEN, id, 0, id + MINUTE, 9 * HOUR,
        )  # fmt: skip
        assert (seen.content, seen.host, seen.alive, seen.supersedes) == (content, host, True, (3, 4))
        assert (seen.keys, seen.key, seen.mode) == ((Key(KEY), Key("b:2", APPEND)), "b:2", APPEND)

    def test_alive_is_what_the_probe_says(self, script: StoreScript, living: dict[int, bool]) -> None:
        """True, False, or None where it cannot be told or no host is known."""
        script.act("doug", KEY, state=State.OPEN, tier=3, host=Host(7, 1.0, "m"))
        for said in (True, False):
            living[7] = said
            assert script.place("mira", KEY).live[0].alive is said
        living.clear()
        assert script.place("mira", KEY).live[0].alive is None

    # --- a view of one key: what others did ----------------------------------------------------------

    def test_latest_is_each_other_sessions_newest(self, script: StoreScript) -> None:
        """One of each, the newest change first; the session's own is not among them."""
        script.act("doug", KEY)
        doug = script.act("doug", KEY)
        anna = script.act("anna", KEY)
        script.act("mira", KEY)
        assert ids(script.place("mira", KEY).latest) == [anna, doug]

    def test_own_acts_do_not_hide_anothers(self, script: StoreScript) -> None:
        """Sixty of one's own after the other's one."""
        doug = script.act("doug", KEY)
        mine = [script.act("mira", KEY) for _ in range(60)][-1]
        place = script.place("mira", KEY)
        assert ids(place.latest) == [doug]
        assert place.own is not None
        assert place.own.id == mine

    def test_one_busy_session_does_not_hide_another(self, script: StoreScript) -> None:
        """Sixty of a third session after the other's one."""
        doug = script.act("doug", KEY)
        anna = [script.act("anna", KEY) for _ in range(60)][-1]
        assert ids(script.place("mira", KEY).latest) == [anna, doug]

    def test_latest_is_cut_at_its_limit(self, script: StoreScript) -> None:
        """The newest of them are shown."""
        acted = [script.act(f"s{number}", KEY) for number in range(LATEST + 5)]
        assert ids(script.place("mira", KEY).latest) == acted[::-1][:LATEST]

    @pytest.mark.parametrize("others", [1, 3, 4, 5, 8, LATEST - 1, LATEST, LATEST + 3, LATEST + 4, LATEST * 3])
    @pytest.mark.parametrize("floor", [0, 1, 2])
    def test_latest_shows_all_others_up_to_its_limit(self, script: StoreScript, others: int, floor: int) -> None:
        """However many there are, whether the session itself is among them, and whoever only looked."""
        script.read("anna", KEY)
        acted = [script.act(f"s{number}", KEY, tier=3) for number in range(others)]
        assert ids(script.place("mira", KEY, floor=floor).latest) == acted[::-1][:LATEST]
        script.act("mira", KEY, tier=3)
        script.read("kim", KEY)
        assert ids(script.place("mira", KEY, floor=floor).latest) == acted[::-1][:LATEST]

    @pytest.mark.parametrize("others", [5, LATEST * 3])
    @pytest.mark.parametrize("floor", [0, 1, 2])
    def test_what_was_told_hides_nobody(self, script: StoreScript, others: int, floor: int) -> None:
        """An act of nearly the same content is graver than what a session was told, and no digest finds it."""
        append = Key(KEY, APPEND)
        acted = [script.act(f"s{number}", append, tier=3) for number in range(others)]
        script.move("mira", KEY, Mark(0, script.store.now(), 6, script.store.now()))
        place = script.place("mira", append, floor=floor, prints=(b"another",))
        assert ids(place.latest) == acted[::-1][:LATEST]

    def test_a_crowd_hides_nobody(self, script: StoreScript, clock: ManualClock) -> None:
        """However many sessions have acted on a key or looked at it, and whatever was forgotten meanwhile."""
        mira = script.act("mira", KEY)
        for number in range(LATEST * 2):
            script.read(f"reader-{number}", KEY)
        for number in range(LATEST * 4):
            acted = script.act(f"s{number}", KEY)
            assert script.place("anna", KEY).latest[0].id == acted
        doug = script.act("doug", KEY)
        place = script.place("mira", KEY)
        assert (place.latest[0].id, place.own and place.own.id) == (doug, mira)
        script.end("doug", script.act("doug", KEY), State.FAILED)
        assert script.place("mira", KEY).latest[0].id == doug
        clock.advance(2 * 3600)
        for _ in range(20):
            script.store.maintain(clock.now - HOUR)
        anna = script.act("anna", KEY)
        assert script.place("mira", KEY).latest[0].id == anna
        for number in range(LATEST * 4):
            acted = script.act(f"t{number}", KEY)
            assert script.place("mira", KEY).latest[0].id == acted

    def test_a_report_is_a_change(self, script: StoreScript, clock: ManualClock) -> None:
        """``ended`` is its moment."""
        doug = script.act("doug", KEY)
        clock.advance(40)
        script.end("doug", doug)
        (seen,) = script.place("mira", KEY).latest
        assert (seen.started, seen.ended, seen.state) == (doug, clock.now, State.DONE)

    @pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
    def test_what_failed_is_nobodys_latest(self, script: StoreScript, state: State) -> None:
        """The session's one before it is its newest again, or none."""
        older = script.act("doug", KEY)
        newer = script.act("doug", KEY)
        script.end("doug", newer, state)
        assert ids(script.place("mira", KEY).latest) == [older]
        script.end("doug", older, state)
        assert script.place("mira", KEY).latest == ()

    def test_failures_in_any_order_leave_what_stands(self, script: StoreScript) -> None:
        """The older fails first, then the newer: what stands is the oldest."""
        first, second, third = (script.act("doug", KEY) for _ in range(3))
        script.end("doug", second, State.FAILED)
        script.end("doug", third, State.FAILED)
        assert ids(script.place("mira", KEY).latest) == [first]
        place = script.place("doug", KEY)
        assert place.own is not None
        assert place.own.id == first

    def test_open_and_unknown_acts_are_among_the_latest(self, script: StoreScript) -> None:
        """They did something, or may have."""
        opened = script.act("doug", KEY, state=State.OPEN, tier=3)
        lost = script.act("anna", KEY, state=State.OPEN, tier=3)
        script.end("anna", lost, State.UNKNOWN)
        assert sorted(ids(script.place("mira", KEY).latest)) == [opened, lost]

    def test_what_never_acted_is_nobodys_latest(self, script: StoreScript) -> None:
        """Waiters, questions, locks, refused calls and reads."""
        script.act("a", KEY, state=State.QUEUED, tier=3)
        script.act("b", KEY, state=State.ASKED, tier=3)
        script.act("c", KEY, state=State.OPEN, tier=3, lock=True)
        script.refuse("d", KEY)
        script.read("e", KEY)
        assert script.place("mira", KEY).latest == ()

    def test_an_act_of_a_low_tier_does_not_hide_one_that_counts(self, script: StoreScript) -> None:
        """Behind what is below the floor the session's newest that counts is shown."""
        counts = script.act("doug", KEY, tier=2)
        script.act("doug", KEY, tier=1)
        assert counts in ids(script.place("mira", KEY, floor=2).latest)

    def test_nor_does_one_that_failed_between_them(self, script: StoreScript) -> None:
        """What was taken back does not end the search for the newest that counts."""
        theirs = script.act("doug", KEY, tier=3)
        failed = script.act("doug", KEY, tier=3)
        note = script.act("doug", KEY, tier=1)
        script.end("doug", failed, State.FAILED)
        assert ids(script.place("mira", KEY, floor=2).latest) == [note, theirs]

    def test_nor_below_a_tree(self, script: StoreScript) -> None:
        """What a session did in a tree counts though it did something lesser there since."""
        counts = script.act("doug", "file:/repo/a.py", tier=2)
        script.act("doug", "file:/repo/a.py", tier=1)
        assert counts in ids(script.place("mira", "file:/repo/", floor=2).latest)

    def test_an_act_that_counts_does_not_hide_a_later_change_of_a_low_tier(self, script: StoreScript) -> None:
        """Every write makes what was read before it stale, whatever its tier."""
        script.act("doug", KEY, tier=2)
        newest = script.act("doug", KEY, tier=1)
        assert newest in ids(script.place("mira", KEY, floor=2).latest)

    def test_an_append_does_not_hide_a_write_from_an_append(self, script: StoreScript) -> None:
        """Two appends never meet, so what matters to the one is the write behind the other."""
        wrote = script.act("doug", Key(KEY, WRITE))
        script.act("doug", Key(KEY, APPEND))
        assert wrote in ids(script.place("mira", Key(KEY, APPEND)).latest)

    def test_own_is_the_sessions_newest(self, script: StoreScript) -> None:
        """None before it has acted, and again after the only one was taken back."""
        assert script.place("mira", KEY).own is None
        older, newer = script.act("mira", KEY), script.act("mira", KEY)
        script.read("mira", KEY)
        script.act("mira", KEY, state=State.OPEN, tier=3, lock=True)
        own = script.place("mira", KEY).own
        assert own is not None
        assert own.id == newer
        script.end("mira", newer, State.FAILED)
        script.end("mira", older, State.CANCELLED)
        assert script.place("mira", KEY).own is None

    # --- a view of one key: the mark ------------------------------------------------------------------

    def test_a_mark_is_kept_whole(self, script: StoreScript) -> None:
        """Every field of it, per session and key."""
        mark = Mark(5, 6, 3, 7, b"call", "run", 4, 2, (-9, -3, -(2**52), 1, 2))
        script.move("mira", KEY, mark)
        assert script.place("mira", KEY).mark == mark
        assert unmarked(script.place("doug", KEY).mark)
        assert unmarked(script.place("mira", "doc:other").mark)

    def test_a_mark_moves_without_an_action(self, script: StoreScript) -> None:
        """A pause opens nothing and tells all the same."""
        script.move("mira", KEY, Mark(notified=9, notified_kind=1, notified_at=9))
        script.move("mira", KEY, Mark(notified=11, notified_kind=2, notified_at=12))
        mark = script.place("mira", KEY).mark
        assert (mark.notified, mark.notified_kind, mark.notified_at) == (11, 2, 12)

    def test_acting_keeps_the_mark(self, script: StoreScript) -> None:
        """An act on the key moves nothing by itself, nor does its report."""
        mark = Mark(read=5, notified=6, notified_kind=3, notified_at=7)
        script.move("mira", KEY, mark)
        id = script.act("mira", KEY)
        script.end("mira", id)
        assert script.place("mira", KEY).mark == mark

    def test_a_failed_read_marks_nothing(self, script: StoreScript, clock: ManualClock) -> None:
        """The mark returns to what it was, and keeps what it was told."""
        first = script.read("mira", KEY)
        script.move("mira", KEY, replace(script.place("mira", KEY).mark, notified=4, notified_kind=1, notified_at=4))
        clock.advance(60)
        second = script.read("mira", KEY)
        assert script.place("mira", KEY).mark.read == second
        script.end("mira", second, State.FAILED)
        mark = script.place("mira", KEY).mark
        assert (mark.read, mark.notified) == (first, 4)
        script.end("mira", first, State.CANCELLED)
        assert script.place("mira", KEY).mark.read == 0

    def test_a_read_that_failed_leaves_a_later_one(self, script: StoreScript, clock: ManualClock) -> None:
        """Only what it set itself is taken back."""
        early = script.read("mira", KEY)
        clock.advance(1)
        late = script.read("mira", KEY)
        script.end("mira", early, State.FAILED)
        assert script.place("mira", KEY).mark.read == late

    def test_two_failed_reads_leave_none(self, script: StoreScript, clock: ManualClock) -> None:
        """In whichever order they fail."""
        for order in ((0, 1), (1, 0)):
            key = f"doc:{order}"
            reads = []
            for _ in range(2):
                clock.advance(1)
                reads.append(script.read("mira", key))
            for number in order:
                script.end("mira", reads[number], State.FAILED)
            assert script.place("mira", key).mark.read == 0

    def test_a_session_that_continues_another_inherits_its_marks(self, script: StoreScript, clock: ManualClock) -> None:
        """What it read and was told of, through a chain; a predecessor's finished write is a read."""
        read = script.read("one", "doc:a")
        script.move("one", "doc:b", Mark(notified=8, notified_kind=2, notified_at=8, notified_call=b"x"))
        wrote = script.act("one", "doc:c")
        clock.advance(1)
        script.end("one", wrote)
        script.act("two", "doc:z", continues="one")
        for session, more in (("two", {}), ("three", {"continues": "two"})):
            assert script.place(session, "doc:a", **more).mark.read == read
            mark = script.place(session, "doc:b", **more).mark
            assert (mark.notified, mark.notified_kind) == (8, 2)
            assert script.place(session, "doc:c", **more).mark.read == wrote

    def test_an_inherited_mark_does_not_set_ones_own_back(self, script: StoreScript, clock: ManualClock) -> None:
        """The later read of the two counts."""
        script.read("one", KEY)
        clock.advance(5)
        own = script.read("two", KEY)
        assert script.place("two", KEY, continues="one").mark.read == own

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
    def test_what_overlaps_meets_in_either_order(self, script: StoreScript, first: str, second: str) -> None:
        """Live and latest show what covers a key and what it covers, named as it was written."""
        opened = script.act("doug", first, state=State.OPEN, tier=3)
        place = script.place("mira", second)
        assert ids(place.live) == ids(place.latest) == [opened]
        assert place.live[0].key == place.latest[0].key == first
        script.end("doug", opened)
        place = script.place("mira", second)
        assert place.live == ()
        assert ids(place.latest) == [opened]

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
    def test_what_does_not_overlap_never_meets(self, script: StoreScript, first: str, second: str) -> None:
        """In neither order."""
        script.act("doug", first, state=State.OPEN, tier=3)
        place = script.place("mira", second)
        assert (place.live, place.latest, place.stale) == ((), (), ())
        script.act("doug", second, state=State.OPEN, tier=3)
        assert first not in {action.key for action in script.place("mira", second).live}

    def test_reading_a_tree_is_reading_what_is_in_it(self, script: StoreScript) -> None:
        """But reading a file is not reading its tree."""
        read = script.read("mira", "file:/repo/")
        assert script.place("mira", "file:/repo/a.py").mark.read == read
        script.read("doug", "file:/repo/a.py")
        assert script.place("doug", "file:/repo/").mark.read == 0

    def test_a_look_at_a_tree_is_less_than_one_at_the_thing(self, script: StoreScript, clock: ManualClock) -> None:
        """It counts only for what the session neither looked at nor changed itself: a list shows no contents."""
        seen = script.read("mira", "file:/repo/seen.py")
        mine = script.act("mira", "file:/repo/mine.py")
        script.act("doug", "file:/repo/other.py")
        clock.advance(60)
        listed = script.read("mira", "file:/repo/")
        places = script.look("mira", "file:/repo/seen.py", "file:/repo/mine.py", "file:/repo/other.py").keys
        assert [place.mark.read for place in places] == [seen, 0, listed]
        assert [place.above for place in places] == [False, False, True]
        assert places[1].own is not None
        assert places[1].own.id == mine

    def test_a_look_at_a_tree_does_not_see_facets_of_what_is_in_it(self, script: StoreScript) -> None:
        """A list of issues shows a new one, but no comment; a look at one issue shows its comments."""
        listed = script.read("mira", "issue:/")
        looked = script.read("mira", "issue:8")
        for key in ("issue:7|comment", "issue:8|comment", "issue:/|new", "issue:7"):
            script.act("doug", Key(key, APPEND))
        reads = [script.place("mira", key).mark.read for key in ("issue:7|comment", "issue:8|comment", "issue:7")]
        assert reads == [0, looked, listed]
        assert script.place("mira", "issue:/|new").mark.read == listed

    def test_stale_shows_changes_below_a_tree_of_what_was_read(self, script: StoreScript, clock: ManualClock) -> None:
        """Of what the session read before them, and of nothing else."""
        script.read("mira", "file:/repo/a.py")
        script.read("mira", "file:/repo/b.py")
        clock.advance(1)
        script.end("doug", a := script.act("doug", "file:/repo/a.py", tier=1))
        script.end("doug", script.act("doug", "file:/repo/never-read.py", tier=1))
        script.end("mira", script.act("mira", "file:/repo/b.py", tier=1))
        stale = script.place("mira", "file:/repo/").stale
        assert ids(stale) == [a]
        assert stale[0].key == "file:/repo/a.py"
        clock.advance(1)
        script.read("mira", "file:/repo/a.py")
        assert script.place("mira", "file:/repo/").stale == ()

    def test_stale_below_a_tree_counts_own_writes_as_reads(self, script: StoreScript, clock: ManualClock) -> None:
        """What the session wrote, another changed afterwards."""
        script.end("mira", script.act("mira", "file:/repo/a.py", tier=1))
        clock.advance(1)
        script.end("doug", theirs := script.act("doug", "file:/repo/a.py", tier=1))
        assert ids(script.place("mira", "file:/repo/").stale) == [theirs]

    def test_an_own_write_without_a_report_is_no_look_below_a_tree(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Nobody knows whether it happened, and so what the session knows of the thing."""
        script.act("mira", "file:/repo/a.py", tier=1)
        clock.advance(1)
        script.end("doug", script.act("doug", "file:/repo/a.py", tier=1))
        assert script.place("mira", "file:/repo/").stale == ()

    def test_a_write_without_a_report_is_stale_below_a_tree(self, script: StoreScript, clock: ManualClock) -> None:
        """It counts as still changing."""
        theirs = script.act("doug", "file:/repo/a.py", tier=1)
        clock.advance(1)
        script.read("mira", "file:/repo/a.py")
        assert ids(script.place("mira", "file:/repo/").stale) == [theirs]

    # --- the rest of a view --------------------------------------------------------------------------------

    def test_twins_are_found_by_print(self, script: StoreScript) -> None:
        """On a shared key, of anybody, newest first; not on another key, not of another print."""
        mine = script.act("mira", KEY, prints=(b"same", b"origin"))
        other = script.act("doug", KEY, prints=(b"same",))
        script.act("doug", "doc:other", prints=(b"same",))
        script.act("doug", KEY, prints=(b"different",))
        assert ids(script.look("mira", KEY, prints=(b"same",)).twins) == [other, mine]
        assert ids(script.look("mira", KEY, prints=(b"origin", b"x")).twins) == [mine]
        assert script.look("mira", KEY, prints=(b"none",)).twins == ()
        assert script.look("mira", KEY).twins == ()

    def test_a_twin_is_found_behind_newer_acts(self, script: StoreScript) -> None:
        """Of its own session and of others."""
        twin = script.act("doug", KEY, prints=(b"same",))
        for number in range(60):
            script.act("doug" if number % 2 else "mira", KEY, prints=(b"%d" % number,))
        assert ids(script.look("mira", KEY, prints=(b"same",)).twins) == [twin]

    def test_what_failed_is_no_twin(self, script: StoreScript) -> None:
        """Its prints go with it, also when it is reported late."""
        for state in (State.FAILED, State.CANCELLED):
            id = script.act("doug", KEY, prints=(b"same",), state=State.OPEN, tier=3)
            script.end("doug", id, State.UNKNOWN)
            assert ids(script.look("mira", KEY, prints=(b"same",)).twins) == [id]
            script.end("doug", id, state)
            assert script.look("mira", KEY, prints=(b"same",)).twins == ()

    def test_what_failed_does_not_hide_what_was_done(self, script: StoreScript) -> None:
        """Many failed attempts after it, and another act: the one that was done is still found."""
        done = script.act("doug", KEY, prints=(b"same",))
        for _ in range(20):
            script.end("doug", script.act("doug", KEY, prints=(b"same",)), State.FAILED)
        script.act("doug", KEY, prints=(b"other",))
        assert done in ids(script.look("mira", KEY, prints=(b"same",)).twins)

    def test_ancestors_are_the_sessions_that_started_it(self, script: StoreScript) -> None:
        """Nearest first; remembered once said; a circle ends."""
        script.act("child", KEY, parent="root")
        assert script.look("grandchild", KEY, parent="child").ancestors == ("child", "root")
        assert script.look("child", KEY).ancestors == ("root",)
        assert script.look("root", KEY).ancestors == ()
        script.act("root", KEY, parent="child")
        assert set(script.look("root", KEY).ancestors) == {"child", "root"}

    @pytest.mark.parametrize(
        ("held", "waited_for"), [(KEY, KEY), ("file:/repo/", "file:/repo/a.py"), ("file:/repo/a.py", "file:/repo/")]
    )
    def test_wanted_names_who_waits_for_this_session(
        self, script: StoreScript, clock: ManualClock, held: str, waited_for: str
    ) -> None:
        """Live waiters alone, and only where it is asked for."""
        id = script.act("mira", held, state=State.OPEN, tier=4)
        script.act("mira", waited_for, state=State.QUEUED, tier=4)
        script.act("doug", waited_for, state=State.QUEUED, tier=4, lease=3 * SECOND)
        script.act("anna", "doc:other", state=State.QUEUED, tier=4)
        assert script.look("mira", "x:1", waits=True).wanted == ("doug",)
        assert script.look("mira", "x:1").wanted == ()
        clock.advance(4)
        assert script.look("mira", "x:1", waits=True).wanted == ()
        script.act("doug", waited_for, state=State.QUEUED, tier=4)
        script.end("mira", id)
        assert script.look("mira", "x:1", waits=True).wanted == ()

    def test_wanted_follows_a_chain_of_waiters(self, script: StoreScript) -> None:
        """Kim waits for anna, who waits for doug, who waits for mira; ben waits for lea, who waits for nobody."""
        for who, key in (("mira", "x:1"), ("doug", "x:2"), ("anna", "x:3"), ("lea", "x:4")):
            script.act(who, key, state=State.OPEN, tier=4)
        for who, key in (("doug", "x:1"), ("anna", "x:2"), ("kim", "x:3"), ("ben", "x:4")):
            script.act(who, key, state=State.QUEUED, tier=4)
        assert script.look("mira", "x:9", waits=True).wanted == ("anna", "doug", "kim")
        assert script.look("anna", "x:9", waits=True).wanted == ("kim",)
        assert script.look("kim", "x:9", waits=True).wanted == ()

    def test_superseded_are_the_actions_that_the_found_one_repeats(self, script: StoreScript) -> None:
        """In no order."""
        lost = [script.act("doug", KEY, state=State.OPEN, tier=3) for _ in range(2)]
        again = script.act("doug", KEY, state=State.OPEN, tier=3, supersedes=tuple(lost))
        assert sorted(ids(script.look_for("doug", Find(id=again)).superseded)) == lost

    def test_earlier_is_what_the_calls_identity_opened(self, script: StoreScript, clock: ManualClock) -> None:
        """With the answer that was given; for a day; not for another identity."""
        id = script.act("mira", KEY, call=b"one", body={"warning": "told"})
        clock.advance(23 * 3600)
        script.store.maintain(clock.now - 7 * DAY)
        earlier = script.look("mira", KEY, call=b"one").earlier
        assert earlier is not None
        assert earlier.id == id
        assert b"told" in earlier.answer
        assert earlier.verdict is Verdict.ALLOW
        assert script.look("mira", KEY, call=b"two").earlier is None
        assert script.look("mira", KEY).earlier is None
        clock.advance(2 * 3600)
        script.act("doug", "doc:other")
        script.store.maintain(clock.now - 7 * DAY)
        assert script.look("mira", KEY, call=b"one").earlier is None

    def test_earlier_is_found_on_any_keys(self, script: StoreScript) -> None:
        """And in whatever state it is by now."""
        id = script.act("mira", KEY, call=b"one", state=State.OPEN, tier=3)
        for state in (State.UNKNOWN, State.DONE):
            script.end("mira", id, state)
            earlier = script.look("mira", call=b"one").earlier
            assert earlier is not None
            assert earlier.state is state

    def test_a_waiter_is_nobodys_earlier_answer(self, script: StoreScript) -> None:
        """A call that waits or asks opened nothing yet."""
        script.act("mira", KEY, call=b"one", state=State.QUEUED, tier=4)
        script.act("mira", KEY, call=b"two", state=State.ASKED, tier=4)
        assert script.look("mira", KEY, call=b"one").earlier is None
        assert script.look("mira", KEY, call=b"two").earlier is None

    def test_observing_is_for_all(self, script: StoreScript) -> None:
        """Until a moment, whatever the namespace; 0 ends it."""
        assert script.store.observing() == 0
        scope = script.scope("person")
        for until in (99, 0):
            entry = script.entry("person", event=Event.OBSERVE)
            script.run(scope, lambda _, e=entry, u=until: Change((e,), observe_until=u))  # type: ignore[misc]
            assert script.store.observing() == until
            assert StoreScript(script.store, "other").look("mira", KEY).observe_until == until

    # --- how a report finds its action ----------------------------------------------------------------------

    def test_found_by_id(self, script: StoreScript) -> None:
        """Anybody's, whole, in any state; the id of an entry that opened nothing finds none."""
        id = script.act("doug", KEY, state=State.OPEN, tier=3)
        action = script.found("mira", id=id)
        assert action is not None
        assert (action.session, action.state, action.keys) == ("doug", State.OPEN, (Key(KEY),))
        report = script.end("doug", id)
        assert script.found("doug", id=report) is None
        assert script.found("doug", id=1) is None

    def test_a_refused_call_is_found_by_id(self, script: StoreScript) -> None:
        """So that a person can still approve it."""
        content = Content(b"d" * 16)
        id = script.refuse("mira", KEY, content=content)
        for action in (script.found("person", id=id), script.store.action("default", id)):
            assert action is not None
            assert (action.id, action.state, action.verdict) == (id, State.ASKED, Verdict.BLOCK)
            assert (action.session, action.content, action.keys) == ("mira", content, (Key(KEY),))
        assert script.place("mira", KEY).live == ()

    def test_settling_a_refused_call_makes_it_an_action(self, script: StoreScript) -> None:
        """A question that was answered: live on its keys until it is used."""
        id = script.refuse("mira", KEY)
        script.settle(id, State.ASKED, expires=script.look("x").now + HOUR, approved=5)
        (seen,) = script.place("mira", KEY).live
        assert (seen.id, seen.state, seen.approved) == (id, State.ASKED, 5)
        script.settle(id, State.CANCELLED, ended=6)
        assert script.place("mira", KEY).live == ()

    def test_the_params_of_a_question_are_kept_while_it_is_pending(self, script: StoreScript) -> None:
        """Its own session gets them once it is approved."""
        id = script.act("mira", KEY, state=State.ASKED, tier=3, params=b'{"to":"alice"}')
        script.settle(id, State.ASKED, approved=5)
        assert script.place("mira", KEY).live[0].answer == b'{"to":"alice"}'
        assert b"alice" not in script.place("doug", KEY).live[0].answer

    def test_found_by_key_is_the_newest_open_one(self, script: StoreScript) -> None:
        """Of this session; then the one before it; then none."""
        older = script.act("mira", KEY, "doc:second", state=State.OPEN, tier=3)
        newer = script.act("mira", KEY, call=b"with-id")
        script.act("doug", KEY)
        script.act("mira", "doc:other")
        for id in (newer, older):
            action = script.found("mira", key=KEY)
            assert action is not None
            assert action.id == id
            script.end("mira", id)
        assert script.found("mira", key=KEY) is None
        assert script.found("mira", key="doc:second") is None

    def test_found_by_key_is_never_a_lock(self, script: StoreScript) -> None:
        """Nor a waiter nor a question nor a refused call."""
        script.act("mira", KEY, state=State.OPEN, tier=3, lock=True)
        script.act("mira", KEY, state=State.QUEUED, tier=3)
        script.act("mira", KEY, state=State.ASKED, tier=3)
        script.refuse("mira", KEY)
        assert script.found("mira", key=KEY) is None

    def test_found_by_key_is_an_unknown_one_only_if_nothing_else_is_open(self, script: StoreScript) -> None:
        """A late report still finds it."""
        opened = script.act("mira", KEY, state=State.OPEN, tier=3)
        lost = script.act("mira", KEY, state=State.OPEN, tier=3)
        script.end("mira", lost, State.UNKNOWN)
        for id in (opened, lost):
            action = script.found("mira", key=KEY)
            assert action is not None
            assert action.id == id
            script.end("mira", id)
        assert script.found("mira", key=KEY) is None

    def test_found_without_a_key(self, script: StoreScript) -> None:
        """``""`` means the newest action that has none, also behind the hidden key of its content."""
        script.act("mira", KEY)
        bare = script.act("mira", tier=1)
        hidden = script.act("mira", "=c0ffee", state=State.OPEN, tier=3)
        for id in (hidden, bare):
            action = script.found("mira", key="")
            assert action is not None
            assert action.id == id
            script.end("mira", id)
        assert script.found("mira", key="") is None

    @pytest.mark.parametrize("call", [None, b"identity"])
    def test_found_by_digest_is_the_oldest_unreported(self, script: StoreScript, call: bytes | None) -> None:
        """Hosts without ids report in the order in which they called."""
        content = Content(b"d" * 16)
        first = script.act("mira", KEY, content=content, call=call)
        second = script.act("mira", KEY, content=content, state=State.OPEN, tier=3)
        script.act("mira", KEY, content=Content(b"e" * 16))
        script.act("doug", KEY, content=content)
        for id in (first, second):
            action = script.found("mira", digest=content.digest)
            assert action is not None
            assert action.id == id
            script.end("mira", id)
        assert script.found("mira", digest=content.digest) is None

    def test_found_by_digest_after_its_lease_ran_out(self, script: StoreScript) -> None:
        """A late report finds it too."""
        content = Content(b"d" * 16)
        lost = script.act("mira", KEY, content=content, state=State.OPEN, tier=3)
        script.end("mira", lost, State.UNKNOWN)
        action = script.found("mira", digest=content.digest)
        assert action is not None
        assert action.id == lost

    # --- namespaces ------------------------------------------------------------------------------------------

    def test_namespaces_never_see_one_another(self, script: StoreScript) -> None:
        """Not by key, tree, print, id, call, mark, parent, nor in any list."""
        other = StoreScript(script.store, "other")
        content = Content(b"d" * 16)
        id = script.act(
            "mira", KEY, "file:/repo/",
            state=State.OPEN, tier=4, prints=(b"same",), content=content, parent="root", continues="old", call=b"c",
        )  # fmt: skip
        script.read("mira", "doc:read")
        script.act("mira", KEY, state=State.QUEUED, tier=4)
        view = other.look("mira", KEY, "file:/repo/a.py", "file:/", "doc:read", prints=(b"same",), waits=True)
        for place in view.keys:
            assert (place.live, place.latest, place.own, place.stale) == ((), (), None, ())
            assert unmarked(place.mark)
        assert (view.twins, view.ancestors, view.wanted) == ((), (), ())
        assert other.found("mira", id=id) is None
        assert other.found("mira", key=KEY) is None
        assert other.found("mira", digest=content.digest) is None
        assert script.store.action("other", id) is None
        assert script.store.live("other", list(State)) == []
        assert script.store.recent("other") == []
        assert script.store.entries(namespace="other") == []

    def test_namespaces_and_keys_do_not_run_together(self, script: StoreScript) -> None:
        """A namespace's name is no part of a key's."""
        StoreScript(script.store, "a").act("mira", "b:c", state=State.OPEN, tier=4)
        assert StoreScript(script.store, "a\x1fb").place("doug", "c").live == ()
        assert script.place("doug", "a\x1fb:c").live == ()
        assert script.place("doug", "b:c").live == ()

    # --- reading -----------------------------------------------------------------------------------------------

    def test_bodies_of_actions(self, script: StoreScript) -> None:
        """A step and a reader see what the opening entries hold, of their own namespace and up to a length."""
        id = script.act("doug", KEY, body={"params": {"to": "al\u00efce"}})
        bare, long = script.act("doug", KEY), script.act("doug", KEY, body={"params": "x" * MAX_KEPT})
        ids = [id, bare, long, id + 10_000_000]
        seen: list[dict[int, bytes]] = []

        def step(view: View) -> Change:
            assert view.bodies is not None
            seen.append(dict(view.bodies(ids)))
            return Change((script.entry("mira"),))

        script.run(script.scope("mira", [KEY]), step)
        for found in (seen[-1], script.store.bodies(script.namespace, ids)):
            read = {at: msgspec.json.decode(body) for at, body in found.items()}
            assert read.pop(bare, {}) == {}
            assert read == {id: {"params": {"to": "al\u00efce"}}}
        assert script.store.bodies("other", ids) == {}
        assert script.store.bodies(script.namespace, []) == {}

    def test_what_a_session_did_lately(self, script: StoreScript) -> None:
        """A step sees a session's newest calls on whichever keys, the newest first."""
        first = script.act("doug", KEY)
        script.act("anna", KEY)
        calls = [script.act("doug", f"{KEY}{n}") for n in range(MAX_LATELY)]
        seen: list[list[int]] = []

        def step(view: View) -> Change:
            assert view.lately is not None
            seen.append([action.id for action in view.lately("doug")])
            seen.append([action.id for action in view.lately("nobody")])
            assert {action.session for action in view.lately("doug")} == {"doug"}
            return Change((script.entry("mira"),))

        script.run(script.scope("mira", [KEY]), step)
        assert first not in calls
        assert seen[-2:] == [calls[::-1], []]

    def test_farewells(self, script: StoreScript) -> None:
        """The newest first; no other entry of a host, and none of another namespace."""

        def tell(session: str, what: str, said: str = "", namespace: str = script.namespace) -> None:
            body = {"what": what, "params": {"summary": "x"}, "summary": said}
            entry = Entry(Event.HOST, session, namespace, body=body)
            script.run(replace(script.scope(session), namespace=namespace), lambda _view: Change((entry,)))

        script.act("doug", KEY, body={"summary": "no farewell"})
        tell("doug/1", "SessionEnd", "paid it")
        tell("doug/2", "SessionEnd")
        tell("doug/3", "SessionEnd", "elsewhere", "other")
        tell("doug/4", "SessionEnd", "wrote na\u00efvely")
        tell("doug/1", "SessionStart")
        found = [(entry.session, entry.body["summary"]) for entry in script.store.farewells(script.namespace)]
        assert found == [("doug/4", "wrote na\u00efvely"), ("doug/1", "paid it")]
        assert [entry.session for entry in script.store.farewells(script.namespace, 1)] == ["doug/4"]

    def test_action_by_id(self, script: StoreScript) -> None:
        """Whole; None for what is absent, of any size."""
        id = script.act("mira", KEY, state=State.OPEN, tier=3)
        action = script.store.action("default", id)
        assert action is not None
        assert (action.id, action.session, action.state, action.keys) == (id, "mira", State.OPEN, (Key(KEY),))
        for absent in (0, -1, id + 1, 2**62, 2**70, -(2**70)):
            assert script.store.action("default", absent) is None

    def test_live_lists_by_state_key_and_namespace(self, script: StoreScript) -> None:
        """Oldest first, each once."""
        other = StoreScript(script.store, "other")
        opened = script.act("mira", KEY, "doc:second", state=State.OPEN, tier=3)
        queued = script.act("doug", KEY, state=State.QUEUED, tier=3)
        foreign = other.act("anna", KEY, state=State.OPEN, tier=3)
        lost = script.act("mira", "doc:third", state=State.OPEN, tier=3)
        script.end("mira", lost, State.UNKNOWN)
        script.act("mira", KEY)
        store = script.store
        assert ids(store.live("default", [State.OPEN])) == [opened]
        assert ids(store.live("default", [State.OPEN, State.QUEUED, State.UNKNOWN])) == [opened, queued, lost]
        assert ids(store.live(None, [State.OPEN])) == [opened, foreign]
        assert ids(store.live("default", list(State), "doc:second")) == [opened]
        assert ids(store.live("default", [State.DONE])) == []

    def test_recent_lists_the_newest(self, script: StoreScript) -> None:
        """Newest first, also what failed; with a key those whose first key it is."""
        first = script.act("mira", KEY, "doc:second")
        second = script.act("doug", "doc:second")
        script.end("doug", second, State.FAILED)
        script.refuse("doug", KEY)
        assert ids(script.store.recent("default")) == [second, first]
        assert ids(script.store.recent("default", limit=1)) == [second]
        assert ids(script.store.recent("default", "doc:second")) == [second]
        assert ids(script.store.recent("default", KEY)) == [first]

    def test_recent_can_leave_out_sessions_and_low_tiers(self, script: StoreScript) -> None:
        """And looks no farther back than it is told, in entries of all sessions."""
        high = script.act("doug", KEY, tier=3)
        low = script.act("doug", KEY, tier=1)
        mine = script.act("mira", KEY, tier=3)
        recent = script.store.recent
        assert ids(recent("default", floor=2)) == [mine, high]
        assert ids(recent("default", besides=("mira",))) == [low, high]
        assert ids(recent("default", KEY, floor=2, besides=("mira", "anna"))) == [high]
        assert ids(recent("default", within=2)) == [mine, low]

    # --- what a session works on, and who else does ----------------------------------------------------

    def test_touched_are_the_newest_calls_of_sessions(self, script: StoreScript) -> None:
        """Reads, what failed, what waits and what was refused too; of these sessions in this namespace alone."""
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

    def test_nearby_is_what_others_did_and_when_this_session_last_looked(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """A look is a read or an act of its own; what it did itself is not told."""
        before = script.act("doug", KEY)
        assert [(one.action.id, one.seen) for one in script.store.nearby("default", ["mira"], [KEY])] == [(before, 0)]
        clock.advance(1)
        read = script.read("mira", KEY)
        clock.advance(1)
        after = script.act("anna", KEY)
        found = script.store.nearby("default", ["mira"], [KEY, "doc:none"])
        assert [(one.action.id, one.seen, one.action.key) for one in found] == [(after, read, KEY), (before, read, KEY)]
        mine = script.act("mira", KEY)
        assert {one.seen for one in script.store.nearby("default", ["mira"], [KEY])} == {mine}
        assert {one.seen for one in script.store.nearby("default", ["vera"], [KEY])} == {0}
        assert {one.seen for one in script.store.nearby("default", ["vera", "mira"], [KEY])} == {mine}
        assert {one.action.session for one in script.store.nearby("default", ["mira", "doug"], [KEY])} == {"anna"}
        assert script.store.nearby("other", ["mira"], [KEY]) == []

    def test_nearby_is_each_sessions_newest_act(self, script: StoreScript, clock: ManualClock) -> None:
        """Newest change first; a late report is a change. Reads, and what failed, are no acts."""
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

    def test_nearby_shows_what_is_live(self, script: StoreScript) -> None:
        """Locks, waiters, questions and unknown ones; an action of several keys comes once."""
        lock = script.act("doug", KEY, state=State.OPEN, tier=4, lock=True)
        lost = script.act("doug", KEY, state=State.OPEN, tier=3)
        script.end("doug", lost, State.UNKNOWN)
        waiting = script.act("anna", KEY, state=State.QUEUED, tier=3)
        asked = script.act("anna", KEY, state=State.ASKED, tier=3)
        both = script.act("otto", KEY, "doc:second", state=State.OPEN, tier=3)
        script.act("mira", KEY, state=State.OPEN, tier=3)
        found = script.store.nearby("default", ["mira"], [KEY, "doc:second"])
        assert sorted(_ids(found)) == sorted([lock, lost, waiting, asked, both])
        script.end("doug", lock)
        assert lock not in _ids(script.store.nearby("default", ["mira"], [KEY]))

    def test_nearby_is_cut_and_own_acts_hide_nobodys(self, script: StoreScript, clock: ManualClock) -> None:
        """The newest of very many, whether their acts are done, open or lost."""
        for number in range(CROWD_SIZE):
            clock.advance(1)
            script.act(f"other-{number}", KEY)
            script.act("mira", KEY, state=State.OPEN, tier=3)
        names = {one.action.session for one in script.store.nearby("default", ["mira"], [KEY])}
        assert names == {f"other-{number}" for number in range(CROWD_SIZE - MAX_NEARBY_SESSIONS, CROWD_SIZE)}
        for number in range(CROWD_SIZE):
            lost = script.act(f"lost-{number}", "doc:lost", state=State.OPEN, tier=3)
            script.end(f"lost-{number}", lost, State.UNKNOWN)
            script.act(f"open-{number}", "doc:open", state=State.OPEN, tier=3)
        assert len(script.store.nearby("default", ["mira"], ["doc:lost"])) <= 2 * MAX_NEARBY_SESSIONS
        newest = {one.action.session for one in script.store.nearby("default", ["mira"], ["doc:open"])}
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
    def test_nearby_is_above_and_below_too(self, script: StoreScript, asked: str, acted: str, state: State) -> None:
        """Trees, what is in them, and facets, in either direction; the key is the one that was acted on."""
        script.act("doug", "file:/repository/a.py", state=state, tier=3)
        id = script.act("doug", acted, state=state, tier=3)
        assert [(one.action.id, one.action.key) for one in script.store.nearby("default", ["mira"], [asked])] == [
            (id, acted)
        ]

    def test_a_look_at_a_tree_is_one_at_all_in_it(self, script: StoreScript, clock: ManualClock) -> None:
        """Whether the tree or the file is asked for."""
        script.act("doug", "file:/repo/src/a.py")
        clock.advance(1)
        look = script.read("mira", "file:/repo/src/")
        for asked in ("file:/repo/", "file:/repo/src/a.py"):
            (found,) = script.store.nearby("default", ["mira"], [asked])
            assert (found.action.key, found.seen) == ("file:/repo/src/a.py", look)

    def test_nearby_below_a_large_tree_is_bounded(self, script: StoreScript) -> None:
        """The newest are there."""
        for number in range(BELOW_SIZE):
            script.act("doug", f"file:/repo/{number:04}.py")
        script.read("doug", "file:/repo/read.py")
        found = script.store.nearby("default", ["mira"], ["file:/repo/"])
        assert found[0].action.key == f"file:/repo/{BELOW_SIZE - 1:04}.py"
        assert "file:/repo/read.py" not in {one.action.key for one in found}

    def test_underway_is_ones_own_and_others_leases(self, script: StoreScript) -> None:
        """Own questions and unknown ones too; of others what is open or in line, from a tier on. Newest first."""
        mine = script.act("mira", KEY, state=State.OPEN, tier=2)
        script.act("doug", KEY, state=State.OPEN, tier=2)
        lease = script.act("doug", "doc:second", "doc:third", state=State.OPEN, tier=3)
        waiting = script.act("anna", KEY, state=State.QUEUED, tier=4)
        script.act("anna", KEY, state=State.ASKED, tier=4)
        asked = script.act("mira", KEY, state=State.ASKED, tier=4)
        lost = script.act("mira", KEY, state=State.OPEN, tier=3)
        script.end("mira", lost, State.UNKNOWN)
        StoreScript(script.store, "other").act("mira", KEY, state=State.OPEN, tier=3)
        underway = script.store.underway
        assert ids(underway("default", ["mira"], 3)) == [lost, asked, waiting, lease, mine]
        assert ids(underway("default", ["mira"], 4)) == [lost, asked, waiting, mine]
        assert ids(underway("default", ["mira"], 3, limit=2)) == [lost, asked]
        assert ids(underway("default", [], 3)) == [waiting, lease]

    def test_kin_is_what_the_calls_of_a_session_said(self, script: StoreScript) -> None:
        """Its parent and its predecessor; nothing is known of a session that has not called."""
        script.act("mira/2", KEY, parent="mira", continues="mira/1")
        script.act("mira/2", KEY)
        assert script.store.kin("default", "mira/2") == Ancestry("mira", "mira/1")
        assert script.store.kin("default", "mira") == Ancestry()
        assert script.store.kin("other", "mira/2") == Ancestry()

    def test_looking_around_writes_nothing(self, script: StoreScript, writes: Callable[[], object]) -> None:
        """Not even what a transaction notes beside."""
        for number in range(CROWD_SIZE):
            script.act(f"other-{number}", KEY)
        before = writes()
        script.store.touched("default", ["mira"])
        script.store.nearby("default", ["mira"], [KEY, "file:/repo/"])
        script.store.underway("default", ["mira"], 3)
        script.store.kin("default", "mira")
        assert writes() == before

    # --- the journal -------------------------------------------------------------------------------------------

    def test_an_entry_is_kept_whole(self, script: StoreScript) -> None:
        """Every field of it; its body as JSON knows it."""
        entry = Entry(
            Event.INTERCEPT, "mira", "default", 0, 0, "send", 3, Verdict.BLOCK, "mail", "run-1",
            (Key(KEY, APPEND), Key("b:2", READ)), None, {"params": {"to": ["alice"], "n": 1.5, "none": None}},
        )  # fmt: skip
        (id,) = script.run(script.scope("mira"), lambda _: Change((entry,))).ids
        assert script.store.entries() == [replace(entry, seq=id)]

    def test_an_entry_about_an_action_names_it(self, script: StoreScript) -> None:
        """What it says of the action's tool, tier, run and keys is the action's."""
        id = script.act("mira", KEY, tier=3, state=State.OPEN)
        script.end("mira", id)
        opened, ended = script.store.entries()
        assert (ended.event, ended.action, ended.outcome) == (Event.COMPLETE, id, Outcome.DONE)
        assert (ended.tool, ended.tier, ended.keys) == (opened.tool, opened.tier, opened.keys)

    def test_the_entry_that_opens_speaks_of_itself(self, script: StoreScript) -> None:
        """``action`` is its own place."""
        id = script.act("mira", KEY)
        assert script.store.entries()[-1].action == id

    @pytest.mark.parametrize("size", [1, 3, 7, 1000])
    def test_paging_misses_nothing(self, script: StoreScript, clock: ManualClock, size: int) -> None:
        """A reader that goes on from the last ``seq`` sees every entry once, also those that come meanwhile."""
        written = [script.act("mira", KEY) for _ in range(10)]
        seen: list[int] = []
        rounds = 0
        while page := script.store.entries(after=seen[-1] if seen else 0, limit=size):
            seen += [entry.seq for entry in page]
            if rounds < 5:
                clock.advance(-1)
                written.append(script.act("doug", KEY))
            rounds += 1
        assert seen == written

    def test_entries_are_selected(self, script: StoreScript) -> None:
        """By namespace, session and first key; ``newest`` turns to the last ones, oldest first."""
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

    def test_maintaining_keeps_what_can_be_asked_for(self, script: StoreScript, clock: ManualClock) -> None:
        """Evidence and marks younger than the horizon, remembered calls, live actions, the journal."""
        lost = script.act("doug", "doc:lost", state=State.OPEN, tier=3)
        script.end("doug", lost, State.UNKNOWN)
        clock.advance(30 * 86_400)
        twin = script.act("doug", KEY, prints=(b"same",), call=b"c")
        read = script.read("mira", "doc:read")
        before = script.store.entries()
        for _ in range(5):
            script.store.maintain(clock.now - 7 * DAY)
        assert script.store.entries() == before
        assert ids(script.look("mira", KEY, prints=(b"same",)).twins) == [twin]
        assert ids(script.place("mira", KEY).latest) == [twin]
        assert script.place("mira", "doc:read").mark.read == read
        assert script.look("doug", call=b"c").earlier is not None
        assert ids(script.place("mira", "doc:lost").live) == [lost]

    def test_marks_live_as_long_as_their_session(self, script: StoreScript, clock: ManualClock) -> None:
        """A read of long ago stands while its session goes on calling."""
        read = script.read("mira", KEY)
        for _ in range(10):
            clock.advance(86_400)
            script.act("mira", "doc:other")
            script.store.maintain(clock.now - 7 * DAY)
        assert script.place("mira", KEY).mark.read == read

    def test_marks_of_other_namespaces_do_too(self, script: StoreScript, clock: ManualClock) -> None:
        """Each session is its own namespace's."""
        other = StoreScript(script.store, "other")
        read = other.read("mira", KEY)
        for _ in range(10):
            clock.advance(86_400)
            other.act("mira", "doc:other")
            script.store.maintain(clock.now - 7 * DAY)
        assert other.place("mira", KEY).mark.read == read

    def test_a_change_of_long_ago_is_still_later_than_an_older_read(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """Staleness has no window: who read before it must still see it."""
        script.read("mira", KEY)
        clock.advance(60)
        script.end("doug", theirs := script.act("doug", KEY, tier=1))
        for _ in range(10):
            clock.advance(86_400)
            script.act("mira", "doc:other")
            script.store.maintain(clock.now - 7 * DAY)
        assert ids(script.place("mira", KEY).latest) == [theirs]

    def test_maintaining_forgets_what_nobody_can_ask_for(self, script: StoreScript, clock: ManualClock) -> None:
        """Prints, calls and marks of long ago; then there is nothing left to forget."""
        for number in range(5):
            script.act("doug", f"doc:{number}", prints=(b"same",), call=b"%d" % number)
            script.read("mira", f"doc:{number}")
        clock.advance(30 * 86_400)
        script.act("anna", KEY)
        gone = sum(script.store.maintain(clock.now - 7 * DAY) for _ in range(4))
        assert gone >= 15
        assert script.store.maintain(clock.now - 7 * DAY) == 0
        assert script.look("mira", "doc:1", prints=(b"same",)).twins == ()
        assert unmarked(script.place("mira", "doc:1").mark)

    def test_maintaining_keeps_to_its_budget(self, script: StoreScript, clock: ManualClock) -> None:
        """At most so many rows of each sort at a time, and all in the end."""
        for number in range(9):
            script.act("doug", f"doc:{number}", prints=(b"same",))
        clock.advance(30 * 86_400)
        script.act("anna", KEY)
        rounds = [script.store.maintain(clock.now - 7 * DAY, budget=2) for _ in range(60)]
        assert max(rounds) <= 2 * 5
        assert sum(rounds) >= 9
        assert rounds[-1] == 0

    def test_taking_keeps_what_is_still_needed(self, script: StoreScript, clock: ManualClock) -> None:
        """Entries of open actions, of remembered calls, and of evidence since the horizon."""
        opened = script.act("mira", "doc:open", state=State.OPEN, tier=3)
        lost = script.act("mira", "doc:lost", state=State.OPEN, tier=3)
        script.end("mira", lost, State.UNKNOWN)
        old = script.act("mira", "doc:old")
        told = script.end("mira", old)
        refused = script.refuse("mira", "doc:refused")
        clock.advance(8 * 86_400)
        remembered = script.act("mira", "doc:call", call=b"c")
        evidence = script.act("mira", "doc:evidence")
        last = script.act("doug", "doc:last")
        until, horizon = clock.now + SECOND, clock.now - 7 * DAY
        taken = [entry.seq for entry in script.store.take(until, horizon)]
        assert {old, told, refused} <= set(taken)
        assert not {opened, lost, remembered, evidence, last} & set(taken)
        assert len(script.store.entries()) == len(taken) + len(
            [e for e in script.store.entries() if e.seq not in taken]
        )
        assert script.store.take(until, horizon, delete=True) == []
        left = [entry.seq for entry in script.store.entries()]
        assert not set(taken) & set(left)
        assert {opened, lost, remembered, evidence, last} <= set(left)
        assert ids(script.place("x", "doc:open").live) == [opened]
        assert ids(script.place("x", "doc:lost").live) == [lost]
        assert script.look("mira", call=b"c").earlier is not None
        assert ids(script.place("x", "doc:evidence").latest) == [evidence]

    def test_taking_is_bounded_and_looks_before_it_deletes(self, script: StoreScript, clock: ManualClock) -> None:
        """The oldest first; without ``delete`` nothing goes; with it just what was shown."""
        old = [script.refuse("mira", KEY) for _ in range(6)]
        clock.advance(8 * 86_400)
        script.act("mira", KEY)
        until, horizon = clock.now, clock.now - 7 * DAY
        assert [entry.seq for entry in script.store.take(until, horizon, 4)] == old[:4]
        assert [entry.seq for entry in script.store.take(old[1], horizon)] == old[:2]
        assert len(script.store.entries()) == 7
        script.store.take(until, horizon, 4, delete=True)
        assert [entry.seq for entry in script.store.take(until, horizon)] == old[4:]

    def test_deleting_only_what_was_copied(self, script: StoreScript, clock: ManualClock) -> None:
        """``only`` names it; what else may leave stays, and what may not leave stays though it is named."""
        old = [script.refuse("mira", KEY) for _ in range(4)]
        opened = script.act("mira", KEY, state=State.OPEN, tier=3)
        script.act("doug", KEY)
        script.store.take(clock.now + DAY, clock.now, delete=True, only={old[0], old[2], opened})
        left = [entry.seq for entry in script.store.entries()]
        assert old[1] in left
        assert old[3] in left
        assert opened in left
        assert not {old[0], old[2]} & set(left)

    def test_taking_keeps_a_change_that_somebody_is_still_to_be_told_of(
        self, script: StoreScript, clock: ManualClock
    ) -> None:
        """On any of its keys; and the own finished write that was the look at it. Who goes silent keeps neither."""
        mine = script.act("mira", "doc:mine", KEY)
        script.end("mira", mine)
        clock.advance(60)
        theirs = script.act("doug", "doc:theirs", KEY)
        script.end("doug", theirs)
        clock.advance(30 * 86_400)
        script.act("mira", "doc:other")
        script.act("anna", "doc:other")
        script.store.take(clock.now, clock.now - 7 * DAY, delete=True)
        place = script.place("mira", KEY)
        assert (ids(place.latest), place.own and place.own.id) == ([theirs], mine)
        clock.advance(30 * 86_400)
        script.act("anna", "doc:other")
        for _ in range(5):
            script.store.maintain(clock.now - 7 * DAY)
        assert {mine, theirs} <= {entry.seq for entry in script.store.take(clock.now, clock.now - 7 * DAY)}

    def test_size_grows_with_what_is_in_it(self, script: StoreScript) -> None:
        """In bytes."""
        empty = script.store.size()
        for _ in range(300):
            script.refuse("mira", KEY)
        assert script.store.size() > max(empty, 300 * 20)

    def test_time_survives_taking_everything(self, script: StoreScript, clock: ManualClock) -> None:
        """The store's now does not run backwards when its journal leaves."""
        last = [script.refuse("mira", KEY) for _ in range(3)][-1]
        script.store.take(clock.now + DAY, clock.now + DAY, delete=True)
        clock.advance(-3600)
        assert script.act("mira", KEY) > last

    def test_check_counts_and_finds_nothing_wrong(self, script: StoreScript, clock: ManualClock) -> None:
        """And says by how much the clock was set back."""
        script.act("mira", KEY, "doc:second", state=State.OPEN, tier=3)
        script.act("mira", KEY)
        health = script.store.check()
        assert (health.entries, health.live) == (2, 1)
        assert not health.problems
        clock.advance(-100)
        assert 99 < script.store.check().ahead < 101

    def test_gates_with_different_content_keys_are_counted(self, store: Store, clock: ManualClock) -> None:
        """Those of the last day; a gate that goes on is registered anew before that."""
        assert store.check().content_keys == 0
        assert [store.register("one"), store.register("one")] == [1, 1]
        clock.advance(13 * 3600)
        assert [store.register("other"), store.register("one"), store.check().content_keys] == [2, 2, 2]
        clock.advance(13 * 3600)
        assert [store.register("other"), store.check().content_keys] == [2, 2]
        clock.advance(12 * 3600)
        assert [store.check().content_keys, store.register("other")] == [1, 1]
        assert store.maintain(clock.now) == 0  # nothing that a rule asks for

    def test_a_scope_may_be_durable(self, script: StoreScript) -> None:
        """It is stored like any other; that it outlives a power cut is the engine's word."""
        id = script.act("mira", KEY, state=State.OPEN, tier=4, durable=True)
        assert ids(script.place("doug", KEY).live) == [id]

    def test_scopes_of_many_keys(self, script: StoreScript) -> None:
        """All or none, each with its own view."""
        keys = [f"doc:{number}" for number in range(64)]
        id = script.act("doug", *keys, state=State.OPEN, tier=4)
        view = script.look("mira", *keys)
        assert [place.key.name for place in view.keys] == keys
        assert all(ids(place.live) == [id] for place in view.keys)

    def test_odd_names_are_only_names(self, script: StoreScript) -> None:
        """Quotes, wildcards, percent signs and other scripts in keys and sessions."""
        names = ["a'b", 'a"b', "a%b", "a_b", "a*b", "a?b", "a;b--", "ключ", "鍵/", "a\\b", "[a]", "{a}", "a" * 1000]
        given = {name: script.act(name[:200], name, state=State.OPEN, tier=4) for name in names}
        for name, id in given.items():
            assert ids(script.place("mira", name).live) == [id]
