"""A key with very many open actions: a view holds most of them as numbers, and decisions are the same as with all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from callosum.model import (
    LAPSED,
    MINUTE,
    SECOND,
    Applied,
    Asks,
    Call,
    Change,
    Classification,
    Content,
    Host,
    Key,
    Kind,
    Mark,
    Mode,
    Scope,
    State,
    View,
)
from callosum.policy import lifecycle
from callosum.policy.admit import admit
from callosum.policy.call_facts import CallFacts, Decided, prints_of, scope_of
from callosum.policy.lifecycle import Requester, lapses
from callosum.process import this_process
from callosum.stores.base import Request
from callosum.stores.crowd import BOUND
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript

KEY, FACET, TREE, BELOW = "doc:plan", "doc:plan|title", "file:/repo/", "file:/repo/a.py"
CROWD = 1_000
SENT = Content(b"sent" * 4, words=b"aaaabbbb", numbers=b"12", repeats=True, origin=b"origin", stance="+attend")
SAVED = Content(b"save" * 4, whole=b"whole" * 3)
MODES = (Mode.WRITE, Mode.APPEND, Mode.READ)


def content(number: int) -> Content:
    """Something else each time."""
    return Content(b"%016d" % number, words=b"%08d" % number, repeats=number % 2 == 0)


def crowd(script: StoreScript, key: str = KEY, count: int = CROWD, **more: Any) -> list[int]:
    """Opens an action of tier 3 each by so many sessions."""
    more = {"tier": 3, "state": State.OPEN, "lease": 60 * MINUTE, "live": False, **more}
    return [script.act(f"s{number}", key, content=content(number), **more) for number in range(count)]


def ask(key: Key, *, who: str = "mira", tier: int = 3, of: Content = SENT, waiter: int = 0, **call: Any) -> CallFacts:
    """A call."""
    found = Classification(tier, (key,), content=of)
    return CallFacts(Call(who, "tool", {}, **call), who, found, (key,), b"call", None, MINUTE, waiter=waiter)


def views(script: StoreScript, scope: Scope) -> tuple[View, View]:
    """What the scope's step sees, and what it would see if all open actions were shown."""
    seen: list[View] = []

    def step(view: View) -> Change:
        seen.append(replace(view, bodies=None, lately=None))
        return Change()

    script.run(scope, step)
    few = seen[-1]
    script.run(replace(scope, asks=None), step)
    full = seen[-1]
    assert few.now == full.now
    assert not any(place.more for place in full.keys)
    return few, full


def alike(script: StoreScript, asked: CallFacts) -> Change:
    """Decides a call both ways and compares all of it; returns what would be written."""
    few, full = views(script, scope_of(asked, None))
    mine, theirs = admit(asked, few), admit(asked, full)
    assert mine == theirs
    return mine


def count_of(change: Change) -> int:
    """How many conflicts a decision counts."""
    ruling: Decided = change.answer
    return ruling.decision.conflict_count


def old_ones(script: StoreScript) -> Iterator[int]:
    """The oldest actions of a crowd: one of each sort that must not be lost among a thousand."""
    here = this_process()
    dead = Host(2**22 + 7, 1.0, here.machine)
    lasting: dict[str, Any] = {"state": State.OPEN, "lease": 60 * MINUTE}
    for number in range(4):
        yield script.act(f"oldest{number}", KEY, tier=3, content=content(number), **lasting)
    yield script.act("hard", KEY, tier=4, **lasting)
    yield script.act("mira", KEY, tier=3, **lasting)
    yield script.act("mira", KEY, tier=3, content=SENT, prints=prints_of(SENT), host=here, **lasting)
    against = replace(content(1), stance="-attend")
    yield script.act("no", KEY, tier=3, content=against, prints=prints_of(against), **lasting)
    yield script.act("twin", KEY, tier=3, content=replace(SENT, stance=""), **lasting)
    yield script.act("text", KEY, tier=3, content=replace(SENT, digest=b"x" * 16, origin=b"", stance=""), **lasting)
    yield script.act("source", KEY, tier=3, content=replace(content(2), origin=b"origin", repeats=True), **lasting)
    yield script.act("same", KEY, tier=3, content=SAVED, **lasting)
    yield script.act("boss", KEY, tier=3, content=content(3), **lasting)
    yield script.act("lock", KEY, tier=3, lock=True, **lasting)
    yield script.act("append", Key(KEY, Mode.APPEND), tier=3, **lasting)
    yield script.act("reader", Key(KEY, Mode.READ), tier=3, **lasting)
    yield script.act("late", KEY, tier=3, state=State.OPEN, lease=SECOND)
    yield script.act("mira", KEY, tier=3, state=State.OPEN, lease=SECOND)
    yield script.act("dies", KEY, tier=3, host=dead, **lasting)
    yield script.act("lives", KEY, tier=3, state=State.OPEN, lease=SECOND, limit=9 * 10**18, host=here)
    yield script.act("asker", KEY, tier=3, state=State.ASKED, lease=60 * MINUTE)
    yield script.act("mira", KEY, tier=3, state=State.ASKED, lease=60 * MINUTE, content=SENT)
    yield script.act("waiter", KEY, tier=4, state=State.QUEUED, lease=60 * MINUTE)
    yield script.act("doug", KEY, tier=1, **lasting)


def test_a_crowd_decides_as_if_all_were_shown(script: StoreScript, clock: ManualClock) -> None:
    """Whatever is the oldest of a thousand: verdict, conflicts, their number, marks and what is settled are the same."""
    old = list(old_ones(script))
    ids = crowd(script)
    clock.advance(5)
    asked = ask(Key(KEY))
    few, _ = views(script, scope_of(asked, None))
    assert len(few.keys[0].live) < 100
    by_sort = [id for more in few.keys[0].more for id in more.ids]
    assert {min(by_sort), max(by_sort)} == {old[0], ids[-1]}
    marks = [
        Mark(),
        Mark(notified=ids[500], notified_kind=2, notified_at=1),
        Mark(notified=ids[-1], notified_kind=2, notified_at=1),
    ]
    marks.append(Mark(read=1, notified=ids[-1], notified_kind=3, notified_at=1))
    counts = set()
    for mark in marks:
        script.move("mira", KEY, mark)
        for tier, mode, of in product(range(1, 5), MODES, (SENT, SAVED, Content(), replace(SENT, brief=True))):
            counts.add(count_of(alike(script, ask(Key(KEY, mode), tier=tier, of=of, pause=tier == 2))))
        alike(script, ask(Key(KEY), run="2", host=this_process()))
        alike(script, ask(Key(KEY), tier=4, parent="boss"))
        alike(script, ask(Key(KEY), tier=4, waiter=old[-2] + 1))
        alike(script, ask(Key(FACET)))
        alike(script, ask(Key(KEY), who="boss", run="3"))
    assert min(counts) == 0
    assert any(100 < count < CROWD for count in counts)  # of which a part was told
    assert max(counts) > CROWD


@pytest.mark.parametrize("count", [0, 1, 3, 15])
def test_a_few_decide_as_if_all_were_shown(script: StoreScript, clock: ManualClock, count: int) -> None:
    """As many as sessions meet every day, among them one that is nearly the same text, by whatever keys they are met."""
    text = b"".join(number.to_bytes(4, "big") for number in range(2, 82, 4))
    mine = Content(b"mine" * 4, words=text, repeats=True)
    near = Content(b"near" * 4, words=text[:-4] + b"\1\1\1\2", repeats=True)
    lasting: dict[str, Any] = {"tier": 3, "state": State.OPEN, "lease": 60 * MINUTE, "live": False}
    script.act("reworded", KEY, content=near, **lasting)
    script.act("both", FACET, KEY, **lasting)
    script.act("tree", TREE, BELOW, **lasting)
    crowd(script, count=count)
    crowd(script, BELOW, count=count)
    script.act("s0", KEY, tier=3, content=content(5))
    clock.advance(5)
    kinds: set[Kind] = set()
    for asked, tier, read in product((KEY, FACET, TREE, BELOW), range(1, 5), (False, True)):
        if read:
            script.read("mira", asked)
        for mode in MODES:
            change = alike(script, ask(Key(asked, mode), tier=tier, of=mine, pause=tier == 3))
            kinds.update(conflict.kind for conflict in change.answer.decision.conflicts)
    assert {Kind.HELD, Kind.STALE, Kind.DUPLICATE} <= kinds
    keys = (Key(KEY), Key(BELOW))
    alike(script, replace(ask(Key(KEY), of=SAVED), keys=keys))


def test_a_crowd_above_or_below_a_tree_decides_alike(script: StoreScript, clock: ManualClock) -> None:
    """A thousand on a tree meet who acts below it."""
    script.act("hard", TREE, tier=4, state=State.OPEN, lease=60 * MINUTE)
    crowd(script, TREE)
    clock.advance(5)
    for key, tier in product((BELOW, TREE), (1, 3, 4)):
        alike(script, ask(Key(key), tier=tier, of=SAVED))
    script.read("mira", BELOW)
    alike(script, ask(Key(BELOW), tier=1, of=SAVED))


def test_a_crowd_whose_time_ran_out_is_settled_a_part_at_a_time(script: StoreScript, clock: ManualClock) -> None:
    """The newest first; all count as unknown meanwhile, and none is ever lost."""
    crowd(script, count=300, lease=MINUTE)
    clock.advance(90)
    asked = ask(Key(KEY))
    change = alike(script, asked)
    assert len(change.settles) == LAPSED
    assert count_of(change) == 300
    scope = script.scope("mira", (KEY,), asks=Asks())
    for left in (236, 172, 108, 44, 0):
        alike(script, ask(Key(KEY), tier=4))
        script.run(scope, lambda view: Change(tuple((found := lapses(view))[1]), settles=tuple(found[0])))
        assert len(script.store.live("default", (State.OPEN,), KEY)) == left
    assert len(script.store.live("default", (State.UNKNOWN,), KEY)) == 300


def test_a_crowd_changes_between_two_looks(script: StoreScript, clock: ManualClock) -> None:
    """What is remembered of a crowd never outlives what the store says: reports, lapses, renewals, new ones."""
    ids = crowd(script, count=BOUND * 4)
    asked = ask(Key(KEY))
    assert count_of(alike(script, asked)) == len(ids)
    for id in ids[:10]:
        script.end(f"s{ids.index(id)}", id)
    script.end("s20", ids[20], State.UNKNOWN)
    assert count_of(alike(script, asked)) == len(ids)  # twelve are held and ten recent: see latest
    newer = crowd(script, count=5)
    alike(script, asked)
    clock.advance(59 * 60)
    script.settle(ids[15], State.OPEN, expires=clock.now + 60 * MINUTE)
    script.settle(ids[20], State.OPEN, expires=clock.now + 60 * MINUTE)
    clock.advance(90)
    alike(script, asked)
    assert views(script, scope_of(asked, None))[0].keys[0].more
    for id in (*ids[10:], *newer):
        if script.store.action("default", id).state is State.OPEN:  # type: ignore[union-attr]
            script.end("s", id)
    few, full = views(script, scope_of(asked, None))
    assert few == full


def test_locks_and_renewals_meet_a_crowd_as_if_all_were_shown(script: StoreScript) -> None:
    """The conflict that a lock names is the same, and so is what is too late to renew."""
    late = script.act("mira", KEY, tier=3, state=State.OPEN, lease=SECOND)
    crowd(script, count=BOUND * 2)
    for hard in (False, True):
        if hard:
            script.act("hard", KEY, tier=4, state=State.OPEN, lease=60 * MINUTE)
            crowd(script, count=BOUND * 2)
        few, full = views(script, script.scope("mira", (KEY,), asks=Asks()))
        who = Requester("mira", "default")
        assert lifecycle.lock(who, Key(KEY), 3, MINUTE, None, few) == lifecycle.lock(
            who, Key(KEY), 3, MINUTE, None, full
        )
        action = next(one for one in full.keys[0].live if one.id == late)
        found = [replace(view, found=replace(action, state=State.UNKNOWN)) for view in (few, full)]
        assert lifecycle.renew(who, MINUTE, found[0]) == lifecycle.renew(who, MINUTE, found[1])


def test_a_crowd_on_two_keys_is_counted_as_if_all_were_shown(script: StoreScript) -> None:
    """An action that is met through both keys is held on each, and does the same once."""
    keys = (Key(KEY), Key(BELOW))
    same: dict[str, Any] = {"tier": 3, "state": State.OPEN, "content": SENT, "prints": prints_of(SENT), "live": False}
    for number in range(BOUND * 2):
        script.act(f"s{number}", *(keys if number % 3 else keys[:1]), **same)
    for tier in (2, 3, 4):
        assert count_of(alike(script, replace(ask(Key(KEY), tier=tier), keys=keys))) >= BOUND * 2


class Together(StoreScript):
    """Collects steps, to run them in one transaction."""

    def __init__(self, script: StoreScript) -> None:
        super().__init__(script.store)
        self.requests: list[Request] = []

    def run(self, scope: Scope, step: Callable[[View], Change]) -> Applied:
        """Puts off a step; what is returned says nothing."""
        self.requests.append((scope, step))
        return Applied(Change(), (0,), 0)

    def see(self, scope: Scope) -> list[View]:
        """Returns where a step's view will be, the last one: a step may be run more than once."""
        seen: list[View] = []

        def step(view: View) -> Change:
            seen.append(replace(view, bodies=None, lately=None))
            return Change()

        self.run(scope, step)
        return seen

    def commit(self) -> list[int]:
        """Runs them; returns for each the id of what it opened, or 0."""
        answers, self.requests = self.store.transact(self.requests), []
        assert all(isinstance(answer, Applied) for answer in answers), answers
        return [a.ids[-1] if isinstance(a, Applied) and a.change.open is not None else 0 for a in answers]


@pytest.mark.parametrize("seed", range(4, 8))
def test_a_batch_sees_what_it_changed_itself(script: StoreScript, clock: ManualClock, seed: int) -> None:
    """Whatever a store keeps between the steps of a batch, and from one batch to the next, ends with the lease."""
    chance, batch = Random(seed), Together(script)
    on: dict[str, list[int]] = {KEY: crowd(script, count=15), BELOW: []}
    ends = [State.DONE, State.FAILED, State.CANCELLED, State.UNKNOWN]
    for number in range(40):
        told: list[tuple[CallFacts, list[View], list[View], list[int], int]] = []
        """The call, both views, what is open of the batches before, and how many steps of this one came before."""
        opened: list[tuple[int, str]] = []
        for _ in range(chance.randint(2, 8)):
            key = chance.choice([KEY, KEY, BELOW])
            what = chance.choice(["open", "end", "end", "renew", "look"])
            if what == "open":
                opened.append((len(batch.requests), key))
                lease = chance.choice([5 * SECOND, 60 * MINUTE])
                who = f"s{chance.randrange(20)}"
                batch.act(
                    who, key, tier=3, state=State.OPEN, lease=lease, content=content(chance.randrange(9)), live=False
                )
            elif what == "end" and on[key]:
                batch.end("s", on[key].pop(chance.randrange(len(on[key]))), chance.choice(ends))
            elif what == "renew" and on[key]:
                batch.settle(chance.choice(on[key]), State.OPEN, expires=clock.now + 60 * MINUTE)
            elif what == "look":
                batch.read(f"s{chance.randrange(20)}", key)
            asked = ask(
                Key(chance.choice([key, TREE])), who=f"s{chance.randrange(20)}", of=content(chance.randrange(9))
            )
            by_sort, shown = batch.see(scope_of(asked, None)), batch.see(replace(scope_of(asked, None), asks=None))
            told.append((asked, by_sort, shown, list(on[key]), len(batch.requests)))
        ids = batch.commit()
        for place, key in opened:
            on[key].append(ids[place])
        for asked, by_sort, shown, before, upto in told:
            few, full = by_sort[-1], shown[-1]
            found = [*(a.id for a in few.keys[0].live), *(id for one in few.keys[0].more for id in one.ids)]
            assert sorted(found) == sorted(a.id for a in full.keys[0].live), (seed, number)
            if asked.keys[0].name != TREE:
                mine = [ids[place] for place, key in opened if key == asked.keys[0].name and place < upto]
                lost = {a.id for a in full.keys[0].live if a.state is State.UNKNOWN}
                assert set(found) - lost == {*before, *mine}, (seed, number)
            assert admit(asked, replace(few, now=full.now)) == admit(asked, full), (seed, number)
        clock.advance(chance.choice([0.001, 3, 40]))
