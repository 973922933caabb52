"""The six kinds of conflict: which actions count, and which calls must pass (PROTOCOL section 4)."""

from typing import Any

import pytest

from callosum.model import Kind, State, Verdict
from callosum.policy import evidence
from callosum.policy.sentence import decided_by, decides_by
from tests.support.world import World, kinds

ALLOW, WARN, CONFIRM, ASK, BLOCK = Verdict
ON = "plan"
TEXT = {"text": "the quarterly numbers are attached, have a look before noon"}
NEARLY = {"text": "hi, the quarterly numbers are attached, have a look before noon"}
OTHER = {"text": "lunch has moved to the garden because the kitchen is being painted"}


@pytest.mark.parametrize(
    ("tool", "seconds", "seen"),
    [("send3", 3590, True), ("send3", 3601, False), ("short3", 59, True), ("short3", 61, False), ("long3", 7190, True)],
)
def test_window_is_that_of_the_calls_rule(world: World, tool: str, seconds: int, seen: bool) -> None:
    world.do("mira", "look", ON)
    world.do("doug", "send2", ON)
    world.do("mira", "look", ON)
    world.after(seconds)
    assert (Kind.RECENT in kinds(world.ask("mira", tool, ON))) is seen


def test_at_most_ten_conflicts_gravest_first_with_the_count(world: World) -> None:
    for number in range(11):
        world.ask(f"s{number}", "send3", ON, params={"text": f"number {number}"})
    world.after(1)
    decision = world.ask("mira", "send3", ON, params={"text": "mine"})
    assert len(decision.conflicts) == 10
    assert decision.conflict_count == 11
    gravities = [conflict.kind.gravity for conflict in decision.conflicts]
    assert gravities == sorted(gravities, reverse=True)


def test_a_descendant_is_not_held_by_its_ancestor(world: World) -> None:
    world.ask("root", "act4", ON)
    world.ask("child", "look", "elsewhere", parent="root")
    decision = world.ask("grandchild", "send4", ON, parent="child")
    assert Kind.HELD not in kinds(decision)
    assert Kind.HELD in kinds(world.ask("stranger", "send4", ON))


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [("act4", "act1"), ("act1", "act1"), ("act1", "act3"), ("send3", "send3"), ("send2", "send3"), ("join3", "skip3")],
)
def test_running_action_of_an_ancestor_is_no_conflict(world: World, theirs: str, mine: str) -> None:
    world.do("root", "look", "elsewhere")
    for who, parent in (("child", "root"), ("stranger", None)):
        world.do(who, "look", ON, parent=parent)
    world.after(1)
    running = world.ask("root", theirs, ON, params=TEXT)
    world.after(1)
    during = world.ask("child", mine, ON, params=TEXT, parent="root")
    assert (during.verdict, kinds(during)) == (ALLOW, set())
    assert world.ask("stranger", mine, ON, params=TEXT).verdict is not ALLOW, "the control"
    world.end("child", during, "failed")
    world.end("root", running)
    world.after(1)
    assert world.ask("child", mine, ON, params=TEXT, parent="root").verdict is not ALLOW, "what has ended counts"


def test_held_names_the_session_and_the_remaining_time(world: World) -> None:
    opened = world.ask("doug", "send3", ON)
    world.after(40)
    (conflict,) = world.ask("mira", "send3", ON, params=OTHER).conflicts
    assert (conflict.kind, conflict.instance, conflict.key, conflict.id) == (Kind.HELD, "doug", "doc:plan", opened.id)
    assert conflict.age == pytest.approx(40, abs=0.01)
    assert conflict.expires_in == pytest.approx(260, abs=0.01)


def test_block_sentence_names_session_action_and_next_step(world: World) -> None:
    world.ask("session-2", "act4", ON)
    world.after(1)
    warning = world.ask("mira", "send4", ON).warning
    assert warning is not None
    assert warning.startswith(
        '[Callosum] Conflict: session-2 has an active action on "doc:plan". Tier 4 action blocked.'
    )


def test_tiers_0_to_2_hold_no_lease(world: World) -> None:
    for tier in (0, 1, 2):
        decision = world.ask("doug", f"send{tier}", f"t{tier}")
        assert decision.lease is None
        assert Kind.HELD not in kinds(world.ask("mira", "send4", f"t{tier}"))


def test_at_tier_3_several_may_hold(world: World) -> None:
    first = world.ask("doug", "send3", ON, params=TEXT)
    world.after(1)
    second = world.ask("mira", "send3", ON, params=OTHER)
    assert (first.verdict, second.verdict) == (ALLOW, WARN)
    assert first.lease is not None
    assert second.lease is not None
    assert second.lease.token > first.lease.token


@pytest.mark.parametrize(("tier", "seconds", "verdict"), [
    (2, 3500, WARN), (2, 3700, ALLOW),
    (3, 23 * 3600, WARN), (3, 25 * 3600, ALLOW),
    (4, 23 * 3600, BLOCK), (4, 25 * 3600, ALLOW),
])  # fmt: skip
def test_same_content_is_a_duplicate_within_the_window_of_its_tier(
    world: World, tier: int, seconds: int, verdict: Verdict
) -> None:
    world.do("doug", f"send{tier}", ON, params=TEXT)
    world.after(seconds)
    decision = world.ask("mira", f"send{tier}", ON, params=TEXT)
    assert decision.verdict is verdict
    assert kinds(decision) <= {Kind.DUPLICATE}


def test_nearly_the_same_content_is_the_same(world: World) -> None:
    world.do("doug", "send3", ON, params=TEXT)
    world.after(5)
    assert kinds(world.ask("mira", "send3", ON, params=NEARLY)) == {Kind.DUPLICATE}


@pytest.mark.parametrize(("seconds", "seen"), [(6 * 86_400, True), (8 * 86_400, False)])
def test_same_origin_is_a_duplicate_within_seven_days(world: World, seconds: int, seen: bool) -> None:
    world.do("doug", "send3", ON, params=TEXT, origin="webhook-17")
    world.after(seconds)
    decision = world.ask("mira", "send3", ON, params=OTHER, origin="webhook-17")
    assert (Kind.DUPLICATE in kinds(decision)) is seen


def test_later_actions_of_a_session_do_not_hide_its_equal_action(world: World) -> None:
    world.do("doug", "send3", ON, params=TEXT)
    for number in range(20):
        world.after(60)
        world.do("doug", "send2", ON, params={"text": f"and then another thing happened, number {number}"})
    assert Kind.DUPLICATE in kinds(world.ask("mira", "send3", ON, params=TEXT))


@pytest.mark.parametrize("reported", [True, False])
def test_contrary_stance_is_opposed(world: World, reported: bool) -> None:
    decision = world.ask("doug", "join3", ON)
    if reported:
        world.end("doug", decision)
    world.after(5)
    assert Kind.OPPOSED in kinds(world.ask("mira", "skip3", ON))


@pytest.mark.parametrize("asker", ["act3", "act4", "send4"])
@pytest.mark.parametrize("holder", ["act3", "act4"])
@pytest.mark.parametrize("read", [True, False])
def test_a_running_write_with_a_lease_is_held_and_not_stale(world: World, asker: str, holder: str, read: bool) -> None:
    if read:
        world.do("mira", "look", ON)
    world.after(1)
    change = world.ask("doug", holder, ON)
    world.after(3)
    during = world.ask("mira", asker, ON)
    assert kinds(during) == {Kind.HELD}
    assert during.warning is not None
    assert "changed by" not in during.warning
    assert "Read it again" not in during.warning
    world.end("doug", change)
    world.after(1)
    after = world.ask("anna" if not read else "mira", asker, ON)
    assert Kind.HELD not in kinds(after) or not read  # mira's own call may run
    assert (Kind.STALE in kinds(after)) is (read or asker != "send4")


@pytest.mark.parametrize(
    ("asker", "holder"), [("act1", "act1"), ("act1", "act3"), ("act1", "act4"), ("act2", "act3"), ("act3", "act1")]
)
def test_running_write_stays_stale_where_held_is_ignored(world: World, asker: str, holder: str) -> None:
    world.do("mira", "look", ON)
    world.after(1)
    change = world.ask("doug", holder, ON)
    world.after(3)
    during = world.ask("mira", asker, ON, pause=True)
    assert (during.verdict, kinds(during)) == (CONFIRM, {Kind.STALE})
    assert during.conflicts[0].running
    assert during.warning is not None
    assert f'doug is changing "doc:plan" now ({holder}, began 3 s ago)' in during.warning
    assert "Wait until it is done and read it again" in during.warning
    world.end("doug", change)
    world.after(1)
    after = world.ask("anna", asker, ON)
    assert after.warning is None or 'doug changed "doc:plan" 1 s ago' in after.warning


@pytest.mark.parametrize(
    ("theirs", "mine", "kind", "words"),
    [
        ("send2", "send3", Kind.DUPLICATE, "doug is doing the same on"),
        ("join2", "skip3", Kind.OPPOSED, "doug joins"),
        ("add2", "act3", Kind.STALE, "doug is changing"),
        ("post2", "post3", Kind.DUPLICATE, "doug is doing the same on"),
    ],
)
def test_no_sentence_says_that_a_running_action_has_happened(
    world: World, theirs: str, mine: str, kind: Kind, words: str
) -> None:
    params = OTHER if kind is Kind.OPPOSED else TEXT
    running = world.ask("doug", theirs, ON, params=params)
    world.after(20)
    said = world.ask("mira", mine, ON, params=TEXT)
    assert kind in kinds(said)
    assert said.warning is not None
    assert f'{words} "doc:plan" now ({theirs}, began 20 s ago)' in said.warning
    world.end("mira", said, "failed")
    world.end("doug", running)
    world.after(20)
    said = world.ask("anna", mine, ON, params=TEXT)
    assert said.warning is not None
    assert " now (" not in said.warning
    assert "20 s ago" in said.warning


def test_read_before_the_report_is_stale(world: World) -> None:
    change = world.ask("doug", "act1", ON)
    world.after(1)
    world.do("mira", "look", ON)  # while doug's write runs
    world.after(1)
    world.end("doug", change)
    world.after(1)
    assert kinds(world.ask("mira", "act1", ON)) == {Kind.STALE}


def test_read_after_the_report_is_not_stale(world: World) -> None:
    world.do("doug", "act1", ON)
    world.after(1)
    world.do("mira", "look", ON)
    world.after(1)
    assert world.ask("mira", "act1", ON).verdict is ALLOW


def test_a_read_is_dated_by_its_intercept(world: World) -> None:
    read = world.ask("mira", "look", ON)
    world.after(1)
    world.do("doug", "act1", ON)
    world.after(1)
    world.end("mira", read)
    assert kinds(world.ask("mira", "act1", ON)) == {Kind.STALE}


def test_stale_ignores_the_window(world: World) -> None:
    world.do("mira", "look", ON)
    world.after(1)
    world.do("doug", "act1", ON)
    for _ in range(20):
        world.after(6 * 3600)
        world.do("mira", "look", "elsewhere")
    assert kinds(world.ask("mira", "act1", ON)) == {Kind.STALE}


@pytest.mark.parametrize("world", ["memory", "sqlite"], indirect=True)
def test_sixty_own_posts_do_not_hide_the_change_of_another_session(world: World) -> None:
    world.do("mira", "look", ON)
    world.after(1)
    world.do("doug", "act1", ON)
    for _ in range(60):
        world.ask("mira", "note", ON)
    assert kinds(world.ask("mira", "act1", ON)) == {Kind.STALE}


def test_equal_bytes_are_not_stale(world: World) -> None:
    path = "/repo/a.txt"
    world.do("mira", "see", path)
    world.after(1)
    world.do("doug", "write", params={"content": "the same bytes", "path": path})
    world.after(1)
    _, other = world.gate.explain(world.call("mira", "write", params={"content": "other bytes", "path": path}))
    assert kinds(other) == {Kind.STALE}
    assert world.ask("mira", "write", params={"content": "the same bytes", "path": path}).verdict is ALLOW


def test_continued_session_inherits_read_marks(world: World) -> None:
    world.do("first", "look", ON)
    world.after(1)
    world.do("doug", "act1", ON)
    world.after(601)
    assert world.ask("stranger", "act1", ON).verdict is ALLOW  # never read, and changed long ago
    assert kinds(world.ask("second", "act1", ON, continues="first")) == {Kind.STALE}


@pytest.mark.parametrize("tier", [3, 4])
@pytest.mark.parametrize(("seconds", "seen"), [(1, True), (590, True), (610, False)])
def test_own_equal_content_counts_for_ten_minutes(world: World, tier: int, seconds: int, seen: bool) -> None:
    world.do("mira", f"send{tier}", ON, params=TEXT)
    world.after(seconds)
    decision = world.ask("mira", f"send{tier}", ON, params=TEXT)
    assert (Kind.DUPLICATE in kinds(decision)) is seen
    assert all(conflict.own for conflict in decision.conflicts)


def test_states_are_shown_with_conflicts(world: World) -> None:
    world.ask("doug", "send3", ON, params=TEXT)
    world.after(400)
    (conflict,) = [c for c in world.ask("mira", "send3", ON, params=OTHER).conflicts if c.kind is Kind.UNKNOWN]
    assert conflict.state is State.UNKNOWN


def test_keys_are_compared_only_for_actions_of_the_same_content(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    share = evidence._shared

    def counted(*args: Any, **more: Any) -> int | None:
        compared.append(args)
        return share(*args, **more)

    for number in range(20):
        assert world.ask(f"other-{number}", "send3", ON, params={"text": f"report {number}"}).proceed
    world.ask("doug", "send3", ON, params=TEXT)
    monkeypatch.setattr(evidence, "_shared", counted)
    decision = world.ask("mira", "send3", ON, params=TEXT)
    assert Kind.DUPLICATE in kinds(decision)
    assert decision.conflict_count == 22  # each of 21 holds the key, and one is the same message
    assert len(compared) == 1


@pytest.mark.parametrize(
    ("tool", "side", "key", "decided", "decides"),
    [
        ("accept_invitation", "+attend", "event:e", "accepted", "accepts"),
        ("respond_to_event", "-attend", "event:e", "declined", "declines"),
        ("create_event", "+attend", "slot:primary/2027-01-01/10:00", "booked", "books"),
        ("create_event", "+attend", "event:e", "created", "creates"),
        ("cancel_order", "-book", "order:o", "cancelled", "cancels"),
        ("approve_expense", "+approve", "expense:e", "approved", "approves"),
        ("deny_request", "-approve", "request:r", "denied", "denies"),
        ("publish_page", "+publish", "page:p", "published", "publishes"),
        ("stop_server", "-run", "server:s", "stopped", "stops"),
        ("open_issue", "+open", "issue:1", "opened", "opens"),
        ("pay_invoice", "+pay", "invoice:1", "paid", "pays"),
        ("ban_user", "+ban", "user:u", "banned", "bans"),
        ("launch_vote", "+launch", "launch:1", "", ""),
        ("x" * 5_000, "", "", "", ""),
    ],
)
def test_opposed_names_both_decisions_in_words(tool: str, side: str, key: str, decided: str, decides: str) -> None:
    assert (decided_by(tool, side, key), decides_by(tool, side, key)) == (decided, decides)
