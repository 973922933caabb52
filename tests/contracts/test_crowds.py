"""A key with very many open actions: a view holds most of them as numbers, and decisions are the same as with all."""

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
CROWD = 400
SENT = Content(b"sent" * 4, words=b"aaaabbbb", numbers=b"12", repeats=True, origin=b"origin", stance="+attend")
SAVED = Content(b"save" * 4, whole=b"whole" * 3)
MODES = (Mode.WRITE, Mode.APPEND, Mode.READ)


def distinct_content(number: int) -> Content:
    """Return content that differs for each number."""
    return Content(b"%016d" % number, words=b"%08d" % number, repeats=number % 2 == 0)


def crowd(script: StoreScript, key: str = KEY, count: int = CROWD, **more: Any) -> list[int]:
    """Open an action of tier 3 in each of ``count`` sessions."""
    more = {"tier": 3, "state": State.OPEN, "lease": 60 * MINUTE, "live": False, **more}
    return [script.act(f"s{number}", key, content=distinct_content(number), **more) for number in range(count)]


def call_facts(
    key: Key, *, session: str = "mira", tier: int = 3, content: Content = SENT, waiter: int = 0, **call: Any
) -> CallFacts:
    """Return the facts of a call."""
    classification = Classification(tier, (key,), content=content)
    return CallFacts(
        Call(session, "tool", {}, **call), session, classification, (key,), b"call", None, MINUTE, waiter=waiter
    )


def views(script: StoreScript, scope: Scope) -> tuple[View, View]:
    """Return the view that the scope's step gets, and the view it would get if all open actions were in it."""
    step_views: list[View] = []

    def step(view: View) -> Change:
        step_views.append(replace(view, bodies=None, lately=None))
        return Change()

    script.run(scope, step)
    few = step_views[-1]
    script.run(replace(scope, asks=None), step)
    full = step_views[-1]
    assert few.now == full.now
    assert not any(key_view.groups for key_view in full.keys)
    return few, full


def same_decision(script: StoreScript, facts: CallFacts) -> Change:
    """Decide a call on both views and check that the changes are equal. Return the change."""
    few, full = views(script, scope_of(facts, None))
    with_numbers, with_all = admit(facts, few), admit(facts, full)
    assert with_numbers == with_all
    return with_numbers


def conflict_count(change: Change) -> int:
    """Return how many conflicts a decision counts."""
    decided: Decided = change.answer
    return decided.decision.conflict_count


def oldest_actions(script: StoreScript) -> Iterator[int]:
    """Open the oldest actions of a crowd: one of each sort that must not be lost among hundreds."""
    here = this_process()
    dead = Host(2**22 + 7, 1.0, here.machine)
    lasting: dict[str, Any] = {"state": State.OPEN, "lease": 60 * MINUTE}
    for number in range(4):
        yield script.act(f"oldest{number}", KEY, tier=3, content=distinct_content(number), **lasting)
    yield script.act("hard", KEY, tier=4, **lasting)
    yield script.act("mira", KEY, tier=3, **lasting)
    yield script.act("mira", KEY, tier=3, content=SENT, prints=prints_of(SENT), host=here, **lasting)
    against = replace(distinct_content(1), stance="-attend")
    yield script.act("no", KEY, tier=3, content=against, prints=prints_of(against), **lasting)
    yield script.act("twin", KEY, tier=3, content=replace(SENT, stance=""), **lasting)
    yield script.act("text", KEY, tier=3, content=replace(SENT, digest=b"x" * 16, origin=b"", stance=""), **lasting)
    yield script.act(
        "source", KEY, tier=3, content=replace(distinct_content(2), origin=b"origin", repeats=True), **lasting
    )
    yield script.act("same", KEY, tier=3, content=SAVED, **lasting)
    yield script.act("boss", KEY, tier=3, content=distinct_content(3), **lasting)
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


def test_crowd_decides_as_if_all_actions_were_in_the_view(script: StoreScript, clock: ManualClock) -> None:
    """Verdict, conflicts, their number, marks and settles are the same, whatever the oldest actions are."""
    oldest = list(oldest_actions(script))
    ids = crowd(script)
    clock.advance(5)
    facts = call_facts(Key(KEY))
    few, _ = views(script, scope_of(facts, None))
    assert len(few.keys[0].live) < 100
    numbered = [id for more in few.keys[0].groups for id in more.ids]
    assert {min(numbered), max(numbered)} == {oldest[0], ids[-1]}
    marks = [
        Mark(),
        Mark(notified=ids[CROWD // 2], notified_kind=2, notified_at=1),
        Mark(notified=ids[-1], notified_kind=2, notified_at=1),
    ]
    marks.append(Mark(read=1, notified=ids[-1], notified_kind=3, notified_at=1))
    conflict_counts = set()
    for mark in marks:
        script.move("mira", KEY, mark)
        cases = list(product(range(1, 5), MODES, (SENT, SAVED, Content(), replace(SENT, brief=True))))
        for tier, mode, content in cases if mark == Mark() else cases[::5]:
            conflict_counts.add(
                conflict_count(
                    same_decision(script, call_facts(Key(KEY, mode), tier=tier, content=content, pause=tier == 2))
                )
            )
        same_decision(script, call_facts(Key(KEY), run="2", host=this_process()))
        same_decision(script, call_facts(Key(KEY), tier=4, parent="boss"))
        same_decision(script, call_facts(Key(KEY), tier=4, waiter=oldest[-2] + 1))
        same_decision(script, call_facts(Key(FACET)))
        same_decision(script, call_facts(Key(KEY), session="boss", run="3"))
    assert min(conflict_counts) == 0
    assert any(100 < count < CROWD for count in conflict_counts)  # the session was notified of a part of the crowd
    assert max(conflict_counts) > CROWD


@pytest.mark.parametrize("count", [0, 1, 3, 15])
def test_few_actions_decide_as_if_all_were_in_the_view(script: StoreScript, clock: ManualClock, count: int) -> None:
    """As many sessions as meet every day, one with nearly the same text, through whatever keys they meet."""
    text = b"".join(number.to_bytes(4, "big") for number in range(2, 82, 4))
    own = Content(b"mine" * 4, words=text, repeats=True)
    similar = Content(b"near" * 4, words=text[:-4] + b"\1\1\1\2", repeats=True)
    lasting: dict[str, Any] = {"tier": 3, "state": State.OPEN, "lease": 60 * MINUTE, "live": False}
    script.act("reworded", KEY, content=similar, **lasting)
    script.act("both", FACET, KEY, **lasting)
    script.act("tree", TREE, BELOW, **lasting)
    crowd(script, count=count)
    crowd(script, BELOW, count=count)
    script.act("s0", KEY, tier=3, content=distinct_content(5))
    clock.advance(5)
    kinds: set[Kind] = set()
    for key, tier, read in product((KEY, FACET, TREE, BELOW), range(1, 5), (False, True)):
        if read:
            script.read("mira", key)
        for mode in MODES:
            change = same_decision(script, call_facts(Key(key, mode), tier=tier, content=own, pause=tier == 3))
            kinds.update(conflict.kind for conflict in change.answer.decision.conflicts)
    assert {Kind.HELD, Kind.STALE, Kind.DUPLICATE} <= kinds
    keys = (Key(KEY), Key(BELOW))
    same_decision(script, replace(call_facts(Key(KEY), content=SAVED), keys=keys))


def test_crowd_on_a_tree_decides_alike_above_and_below(script: StoreScript, clock: ManualClock) -> None:
    """A session that acts below a tree meets hundreds of actions on the tree."""
    script.act("hard", TREE, tier=4, state=State.OPEN, lease=60 * MINUTE)
    crowd(script, TREE)
    clock.advance(5)
    for key, tier in product((BELOW, TREE), (1, 3, 4)):
        same_decision(script, call_facts(Key(key), tier=tier, content=SAVED))
    script.read("mira", BELOW)
    same_decision(script, call_facts(Key(BELOW), tier=1, content=SAVED))


def test_crowd_whose_leases_ran_out_is_settled_in_parts(script: StoreScript, clock: ManualClock) -> None:
    """The newest are settled first. Meanwhile all count as unknown, and none is lost."""
    crowd(script, count=300, lease=MINUTE)
    clock.advance(90)
    facts = call_facts(Key(KEY))
    change = same_decision(script, facts)
    assert len(change.settles) == LAPSED
    assert conflict_count(change) == 300
    scope = script.scope("mira", (KEY,), asks=Asks())
    for left in (236, 172, 108, 44, 0):
        same_decision(script, call_facts(Key(KEY), tier=4))
        script.run(scope, lambda view: Change(tuple((lapsed := lapses(view))[1]), settles=tuple(lapsed[0])))
        assert len(script.store.live("default", (State.OPEN,), KEY)) == left
    assert len(script.store.live("default", (State.UNKNOWN,), KEY)) == 300


@pytest.mark.parametrize("script", ["memory", "sqlite", "lmdb", "redis", "postgres"], indirect=True)
def test_crowd_that_changes_between_two_views(script: StoreScript, clock: ManualClock) -> None:
    """What a store caches of a crowd follows reports, lapses, renewals and new actions."""
    ids = crowd(script, count=BOUND * 4)
    facts = call_facts(Key(KEY))
    assert conflict_count(same_decision(script, facts)) == len(ids)
    for id in ids[:10]:
        script.end(f"s{ids.index(id)}", id)
    script.end("s20", ids[20], State.UNKNOWN)
    assert conflict_count(same_decision(script, facts)) == len(ids)  # twelve are held and ten recent: see latest
    newer = crowd(script, count=5)
    same_decision(script, facts)
    clock.advance(59 * 60)
    script.settle(ids[15], State.OPEN, expires=clock.now + 60 * MINUTE)
    script.settle(ids[20], State.OPEN, expires=clock.now + 60 * MINUTE)
    clock.advance(90)
    same_decision(script, facts)
    assert views(script, scope_of(facts, None))[0].keys[0].groups
    for id in (*ids[10:], *newer):
        if script.store.action("default", id).state is State.OPEN:  # type: ignore[union-attr]
            script.end("s", id)
    few, full = views(script, scope_of(facts, None))
    assert few == full


def test_locks_and_renewals_meet_a_crowd_as_if_all_actions_were_in_the_view(script: StoreScript) -> None:
    """A lock names the same conflict, and the same renewals are too late."""
    late = script.act("mira", KEY, tier=3, state=State.OPEN, lease=SECOND)
    crowd(script, count=BOUND * 2)
    for hard in (False, True):
        if hard:
            script.act("hard", KEY, tier=4, state=State.OPEN, lease=60 * MINUTE)
            crowd(script, count=BOUND * 2)
        few, full = views(script, script.scope("mira", (KEY,), asks=Asks()))
        requester = Requester("mira", "default")
        assert lifecycle.lock(requester, Key(KEY), 3, MINUTE, None, few) == lifecycle.lock(
            requester, Key(KEY), 3, MINUTE, None, full
        )
        lapsed = next(action for action in full.keys[0].live if action.id == late)
        found_views = [replace(view, found=replace(lapsed, state=State.UNKNOWN)) for view in (few, full)]
        assert lifecycle.renew(requester, MINUTE, found_views[0]) == lifecycle.renew(requester, MINUTE, found_views[1])


def test_crowd_on_two_keys_is_counted_as_if_all_actions_were_in_the_view(script: StoreScript) -> None:
    """An action that is met through both keys is held on each of them and counts once as a duplicate."""
    keys = (Key(KEY), Key(BELOW))
    same: dict[str, Any] = {"tier": 3, "state": State.OPEN, "content": SENT, "prints": prints_of(SENT), "live": False}
    for number in range(BOUND * 2):
        script.act(f"s{number}", *(keys if number % 3 else keys[:1]), **same)
    for tier in (2, 3, 4):
        assert conflict_count(same_decision(script, replace(call_facts(Key(KEY), tier=tier), keys=keys))) >= BOUND * 2


class BatchScript(StoreScript):
    """A script that collects steps and runs them in one transaction."""

    def __init__(self, script: StoreScript) -> None:
        super().__init__(script.store)
        self.requests: list[Request] = []

    def run(self, scope: Scope, step: Callable[[View], Change]) -> Applied:
        """Collect a step. The returned result is empty."""
        self.requests.append((scope, step))
        return Applied(Change(), (0,), 0)

    def collect_views(self, scope: Scope) -> list[View]:
        """Return the list that will hold a step's views. The last one counts, because a step may run more than once."""
        step_views: list[View] = []

        def step(view: View) -> Change:
            step_views.append(replace(view, bodies=None, lately=None))
            return Change()

        self.run(scope, step)
        return step_views

    def commit(self) -> list[int]:
        """Run the collected steps. Return for each the id of the action it opened, or 0."""
        answers, self.requests = self.store.transact(self.requests), []
        assert all(isinstance(answer, Applied) for answer in answers), answers
        return [a.ids[-1] if isinstance(a, Applied) and a.change.open is not None else 0 for a in answers]


@pytest.mark.parametrize("script", ["memory", "sqlite", "lmdb", "redis", "postgres"], indirect=True)
@pytest.mark.parametrize("seed", range(4, 8))
def test_batch_sees_its_own_changes(script: StoreScript, clock: ManualClock, seed: int) -> None:
    """What a store keeps between the steps of a batch, and between batches, does not outlive the lease."""
    chance, batch = Random(seed), BatchScript(script)
    open_on: dict[str, list[int]] = {KEY: crowd(script, count=15), BELOW: []}
    ends = [State.DONE, State.FAILED, State.CANCELLED, State.UNKNOWN]
    for number in range(40):
        checks: list[tuple[CallFacts, list[View], list[View], list[int], int]] = []
        """The call, both views, the actions left open by earlier batches, and the number of earlier steps in this batch."""
        opened: list[tuple[int, str]] = []
        for _ in range(chance.randint(2, 8)):
            key = chance.choice([KEY, KEY, BELOW])
            operation = chance.choice(["open", "end", "end", "renew", "read"])
            if operation == "open":
                opened.append((len(batch.requests), key))
                lease = chance.choice([5 * SECOND, 60 * MINUTE])
                session = f"s{chance.randrange(20)}"
                batch.act(
                    session,
                    key,
                    tier=3,
                    state=State.OPEN,
                    lease=lease,
                    content=distinct_content(chance.randrange(9)),
                    live=False,
                )
            elif operation == "end" and open_on[key]:
                batch.end("s", open_on[key].pop(chance.randrange(len(open_on[key]))), chance.choice(ends))
            elif operation == "renew" and open_on[key]:
                batch.settle(chance.choice(open_on[key]), State.OPEN, expires=clock.now + 60 * MINUTE)
            elif operation == "read":
                batch.read(f"s{chance.randrange(20)}", key)
            facts = call_facts(
                Key(chance.choice([key, TREE])),
                session=f"s{chance.randrange(20)}",
                content=distinct_content(chance.randrange(9)),
            )
            with_numbers, with_all = (
                batch.collect_views(scope_of(facts, None)),
                batch.collect_views(replace(scope_of(facts, None), asks=None)),
            )
            checks.append((facts, with_numbers, with_all, list(open_on[key]), len(batch.requests)))
        ids = batch.commit()
        for index, key in opened:
            open_on[key].append(ids[index])
        for facts, with_numbers, with_all, before, position in checks:
            few, full = with_numbers[-1], with_all[-1]
            found_ids = [*(a.id for a in few.keys[0].live), *(id for more in few.keys[0].groups for id in more.ids)]
            assert sorted(found_ids) == sorted(a.id for a in full.keys[0].live), (seed, number)
            if facts.keys[0].name != TREE:
                own = [ids[index] for index, key in opened if key == facts.keys[0].name and index < position]
                unknown = {a.id for a in full.keys[0].live if a.state is State.UNKNOWN}
                assert set(found_ids) - unknown == {*before, *own}, (seed, number)
            assert admit(facts, replace(few, now=full.now)) == admit(facts, full), (seed, number)
        clock.advance(chance.choice([0.001, 3, 40]))
