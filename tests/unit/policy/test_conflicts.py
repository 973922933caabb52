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


def test_recent_is_left_out_if_another_kind_applies(world: World) -> None:
    world.do("doug", "send3", ON, params=TEXT)
    world.after(1)
    decision = world.ask("mira", "send3", ON, params=TEXT)
    assert kinds(decision) == {Kind.DUPLICATE}
    assert decision.conflict_count == 1


def test_one_action_may_give_several_kinds(world: World) -> None:
    world.ask("doug", "send3", ON, params=TEXT)
    world.after(1)
    assert kinds(world.ask("mira", "send3", ON, params=TEXT)) == {Kind.DUPLICATE, Kind.HELD}


def test_at_most_ten_conflicts_gravest_first_with_the_count(world: World) -> None:
    for number in range(11):
        world.ask(f"s{number}", "send3", ON, params={"text": f"number {number}"})
    world.after(1)
    decision = world.ask("mira", "send3", ON, params={"text": "mine"})
    assert len(decision.conflicts) == 10
    assert decision.conflict_count == 11
    gravities = [conflict.kind.gravity for conflict in decision.conflicts]
    assert gravities == sorted(gravities, reverse=True)


def test_tier_1_action_conflicts_only_with_a_tier_4_call(world: World) -> None:
    world.do("doug", "note", ON)
    world.after(1)
    assert world.ask("mira", "add3", ON).verdict is ALLOW
    world.do("doug", "send1", "other")
    world.after(1)
    assert world.ask("mira", "send3", "other").verdict is ALLOW
    assert Kind.RECENT in kinds(world.ask("anna", "send4", "other"))


def test_reads_are_no_evidence(world: World) -> None:
    world.do("doug", "look", ON)
    assert world.ask("mira", "act4", ON).verdict is ALLOW


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_failed_action_is_no_evidence(world: World, outcome: str) -> None:
    decision = world.ask("doug", "send3", ON, params=TEXT)
    world.end("doug", decision, outcome)
    world.after(1)
    assert world.ask("mira", "send4", ON).verdict is ALLOW
    assert world.ask("anna", "send3", "x", params=TEXT).verdict is ALLOW


def test_a_late_failure_takes_the_evidence_back(world: World) -> None:
    decision = world.ask("doug", "send3", ON, params=TEXT)
    world.after(400)
    assert Kind.UNKNOWN in kinds(world.ask("mira", "send4", ON))
    report = world.end("doug", decision, "failed")
    assert (report.ok, report.late) == (True, True)
    assert world.ask("anna", "send4", ON).verdict is ALLOW


def test_evidence_is_of_other_sessions(world: World) -> None:
    world.do("mira", "send2", ON, params={"text": "one"})
    world.after(700)
    assert world.ask("mira", "send4", ON, params={"text": "two"}).verdict is ALLOW


def test_sessions_of_one_instance_conflict(world: World) -> None:
    world.ask("mira", "send4", ON, session="a")
    assert world.ask("mira", "send4", ON, session="b").verdict is BLOCK


def test_namespaces_are_separate(world: World) -> None:
    world.ask("doug", "send4", ON, params=TEXT, namespace="one")
    assert world.ask("mira", "send4", ON, params=TEXT, namespace="two").verdict is ALLOW


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


def test_another_number_is_another_content(world: World) -> None:
    world.do("doug", "send3", ON, params={"text": "please pay the invoice of 120 euros to the printer today"})
    world.after(5)
    decision = world.ask(
        "mira", "send3", ON, params={"text": "please pay the invoice of 210 euros to the printer today"}
    )
    assert kinds(decision) == {Kind.RECENT}


@pytest.mark.parametrize(("seconds", "seen"), [(6 * 86_400, True), (8 * 86_400, False)])
def test_same_origin_is_a_duplicate_within_seven_days(world: World, seconds: int, seen: bool) -> None:
    world.do("doug", "send3", ON, params=TEXT, origin="webhook-17")
    world.after(seconds)
    decision = world.ask("mira", "send3", ON, params=OTHER, origin="webhook-17")
    assert (Kind.DUPLICATE in kinds(decision)) is seen


def test_same_content_without_a_key_is_a_duplicate(world: World) -> None:
    world.do("doug", "free3", params=TEXT)
    world.after(5)
    assert kinds(world.ask("mira", "free3", params=TEXT)) == {Kind.DUPLICATE}
    assert world.ask("mira", "free3", params=OTHER).verdict is ALLOW


def test_harmless_repeat_is_no_duplicate(world: World) -> None:
    world.do("mira", "look", ON)
    world.do("doug", "act3", ON, params=TEXT)
    world.do("mira", "look", ON)
    world.after(5)
    assert Kind.DUPLICATE not in kinds(world.ask("mira", "act3", ON, params=TEXT))


def test_running_action_counts_as_duplicate(world: World) -> None:
    world.ask("doug", "send3", ON, params=TEXT)
    world.after(1)
    assert Kind.DUPLICATE in kinds(world.ask("mira", "send3", ON, params=TEXT))


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


def test_the_same_stance_is_not_opposed(world: World) -> None:
    world.do("doug", "join3", ON)
    world.after(5)
    assert Kind.OPPOSED not in kinds(world.ask("mira", "join3", ON, params=OTHER))


def test_session_may_contradict_itself(world: World) -> None:
    world.do("mira", "join3", ON)
    world.after(5)
    assert world.ask("mira", "skip3", ON).verdict is ALLOW


def test_contrary_action_is_found_behind_newer_actions(world: World) -> None:
    world.do("doug", "join3", ON)
    world.do("doug", "send3", ON, params=OTHER)
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


def test_a_write_of_tier_2_is_blocked_by_a_hard_lease_as_held(world: World) -> None:
    world.do("mira", "look", ON)
    world.after(1)
    world.ask("doug", "act4", ON)
    world.after(1)
    decision = world.ask("mira", "act2", ON)
    assert (decision.verdict, kinds(decision)) == (BLOCK, {Kind.HELD})


def test_a_rule_that_lets_held_pass_or_forbids_stale_keeps_stale(world: World) -> None:
    world.do("mira", "look", ON)
    world.after(1)
    world.ask("doug", "act3", ON)
    world.after(1)
    decision = world.ask("mira", "soft", ON)
    assert (decision.verdict, kinds(decision)) == (BLOCK, {Kind.STALE})


@pytest.mark.parametrize("read", [True, False])
def test_session_notified_of_held_gets_stale_only_if_it_had_read(world: World, read: bool) -> None:
    if read:
        world.do("mira", "look", ON)
        world.after(1)
    change = world.ask("doug", "act3", ON)
    world.after(3)
    assert kinds(world.ask("mira", "act3", ON, pause=True)) == {Kind.HELD}
    world.after(5)
    world.end("doug", change)
    world.after(5)
    again = world.ask("mira", "act3", ON, pause=True)
    assert kinds(again) == ({Kind.STALE} if read else set())
    world.after(5)
    assert world.ask("mira", "act3", ON, pause=True).verdict is ALLOW


def test_session_notified_of_held_gets_stale_whatever_was_notified_before(world: World) -> None:
    """A mark keeps the gravest kind of all notifications, but a later change is still shown."""
    world.do("mira", "look", ON)
    world.after(1)
    world.do("anna", "act3", ON)
    world.after(1)
    assert Kind.STALE in kinds(world.ask("mira", "act3", ON, pause=True))
    world.after(5)
    world.do("mira", "look", ON)
    world.after(1)
    change = world.ask("doug", "act3", ON)
    world.after(3)
    assert kinds(world.ask("mira", "act3", ON, pause=True)) == {Kind.HELD}
    world.after(5)
    world.end("doug", change)
    world.after(5)
    assert kinds(world.ask("mira", "act3", ON, pause=True)) == {Kind.STALE}


def test_running_change_of_a_read_key_pauses_every_call(world: World) -> None:
    world.do("mira", "look", ON)
    for _ in range(4):
        world.after(1)
        change = world.ask("doug", "act3", ON)
        world.after(1)
        decision = world.ask("mira", "act3", ON, pause=True)
        assert (decision.verdict, kinds(decision)) == (CONFIRM, {Kind.HELD})
        world.end("doug", change)


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


def test_a_write_without_a_report_counts_as_changing(world: World) -> None:
    world.ask("doug", "act1", ON)
    world.after(1)
    world.do("mira", "look", ON)
    world.after(1)
    assert kinds(world.ask("mira", "act1", ON)) == {Kind.STALE}


def test_a_read_is_dated_by_its_intercept(world: World) -> None:
    read = world.ask("mira", "look", ON)
    world.after(1)
    world.do("doug", "act1", ON)
    world.after(1)
    world.end("mira", read)
    assert kinds(world.ask("mira", "act1", ON)) == {Kind.STALE}


def test_own_finished_write_counts_as_a_read(world: World) -> None:
    world.do("doug", "act1", ON)
    world.after(700)
    world.do("mira", "act1", ON)
    world.after(1)
    assert world.ask("mira", "act1", ON).verdict is ALLOW
    world.do("doug", "act1", ON)
    world.after(1)
    assert kinds(world.ask("mira", "act1", ON)) == {Kind.STALE}


def test_own_write_counts_as_of_its_intercept(world: World) -> None:
    mine = world.ask("mira", "act1", ON)
    world.after(1)
    world.do("doug", "act1", ON)
    world.after(1)
    world.end("mira", mine)
    world.after(1)
    assert kinds(world.ask("mira", "act1", ON)) == {Kind.STALE}


def test_a_failed_read_marks_nothing(world: World) -> None:
    world.do("mira", "look", ON)
    world.after(1)
    world.do("doug", "act1", ON)
    world.after(1)
    world.end("mira", world.ask("mira", "look", ON), "failed")
    assert kinds(world.ask("mira", "act1", ON)) == {Kind.STALE}


def test_a_late_report_never_moves_a_mark_forward(world: World) -> None:
    world.do("mira", "look", ON)
    world.after(1)
    mine = world.ask("mira", "act3", ON)
    world.after(1)
    # mira's lease runs out; doug writes; mira's report comes late
    world.after(400)
    world.do("doug", "act1", ON)
    world.after(1)
    assert world.end("mira", mine).late
    world.after(1)
    assert Kind.STALE in kinds(world.ask("mira", "act1", ON))


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


@pytest.mark.parametrize(("seconds", "seen"), [(590, True), (610, False)])
def test_replacing_a_file_that_was_never_read_is_stale(world: World, seconds: int, seen: bool) -> None:
    world.do("doug", "act1", ON)
    world.after(seconds)
    assert (Kind.STALE in kinds(world.ask("mira", "act1", ON))) is seen


def test_appending_to_a_key_that_was_never_read_is_not_stale(world: World) -> None:
    world.do("doug", "act1", ON)
    world.after(1)
    assert world.ask("mira", "note", ON).verdict is ALLOW


def test_a_change_of_tier_1_behind_one_of_tier_2_is_seen_at_tier_3(world: World) -> None:
    world.do("doug", "act2", ON)
    world.after(1)
    world.do("mira", "look", ON)
    world.after(1)
    world.do("doug", "act1", ON)
    world.after(1)
    assert Kind.STALE in kinds(world.ask("mira", "act3", ON))


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


@pytest.mark.parametrize(("first", "second"), [("/repo/", "/repo/a/b.py"), ("/repo/a/b.py", "/repo/")])
def test_tree_and_a_file_in_it_conflict_in_either_order(world: World, first: str, second: str) -> None:
    world.ask("doug", "tree4", first)
    world.after(1)
    decision = world.ask("mira", "tree4", second)
    assert decision.verdict is BLOCK
    assert Kind.HELD in kinds(decision)


def test_neighbouring_keys_do_not_conflict(world: World) -> None:
    world.ask("doug", "tree4", "/repo/")
    assert world.ask("mira", "tree4", "/repository/a.py").verdict is ALLOW
    assert world.ask("mira", "tree4", "/rep").verdict is ALLOW


def test_writing_a_tree_is_stale_if_a_file_read_in_it_changed(world: World) -> None:
    world.do("mira", "see", "/repo/a.py")
    world.after(1)
    world.do("doug", "tree1", "/repo/a.py")
    world.after(3600)
    _, decision = world.gate.explain(world.call("anna", "tree1", "/repo/"))
    assert decision.verdict is ALLOW  # read nothing of it, changed long ago
    assert kinds(world.ask("mira", "tree1", "/repo/")) == {Kind.STALE}


def test_writing_a_file_after_a_tree_was_written_is_stale(world: World) -> None:
    world.do("mira", "see", "/repo/a.py")
    world.after(1)
    world.do("doug", "tree1", "/repo/")
    world.after(3600)
    assert kinds(world.ask("mira", "tree1", "/repo/a.py")) == {Kind.STALE}


def test_reading_a_tree_reads_its_files(world: World) -> None:
    world.do("doug", "tree1", "/repo/a.py")
    world.after(1)
    world.do("mira", "see", "/repo/")
    world.after(1)
    assert world.ask("mira", "tree1", "/repo/a.py").verdict is ALLOW


@pytest.mark.parametrize("tier", [3, 4])
@pytest.mark.parametrize(("seconds", "seen"), [(1, True), (590, True), (610, False)])
def test_own_equal_content_counts_for_ten_minutes(world: World, tier: int, seconds: int, seen: bool) -> None:
    world.do("mira", f"send{tier}", ON, params=TEXT)
    world.after(seconds)
    decision = world.ask("mira", f"send{tier}", ON, params=TEXT)
    assert (Kind.DUPLICATE in kinds(decision)) is seen
    assert all(conflict.own for conflict in decision.conflicts)


def test_own_equal_content_at_tier_2_counts_while_the_action_runs(world: World) -> None:
    running = world.ask("mira", "send2", ON, params=TEXT)
    world.after(1)
    assert kinds(world.ask("mira", "send2", ON, params=TEXT)) == {Kind.DUPLICATE}
    world.do("mira", "send2", "else", params=TEXT)
    world.after(1)
    assert world.ask("mira", "send2", "else", params=TEXT).verdict is ALLOW
    assert world.end("mira", running).ok


def test_several_calls_of_one_session_do_not_conflict(world: World) -> None:
    world.ask("mira", "send4", ON, params=TEXT)
    world.after(1)
    assert world.ask("mira", "send4", ON, params=OTHER).verdict is ALLOW


def test_own_expired_action_is_unknown(world: World) -> None:
    world.ask("mira", "send3", ON, params=TEXT)
    world.after(301)
    decision = world.ask("mira", "send3", ON, params=OTHER)
    assert kinds(decision) == {Kind.UNKNOWN}
    assert decision.conflicts[0].own


def test_own_open_action_of_an_earlier_run_is_unknown_at_once(world: World) -> None:
    world.ask("mira", "send3", ON, params=TEXT, run="one")
    world.after(2)
    assert Kind.UNKNOWN in kinds(world.ask("mira", "send3", ON, params=OTHER, run="two"))


def test_runs_open_at_once_count_as_two_sessions(world: World) -> None:
    world.ask("mira", "send4", ON, params=TEXT, run="one")
    world.after(2)
    decision = world.ask("mira", "send4", ON, params=OTHER, run="two")
    assert decision.verdict is BLOCK
    assert Kind.HELD in kinds(decision)


def test_own_open_action_of_the_same_run_is_no_conflict(world: World) -> None:
    world.ask("mira", "send4", ON, params=TEXT, run="one")
    world.after(2)
    assert world.ask("mira", "send4", ON, params=OTHER, run="one").verdict is ALLOW


def test_equal_content_for_other_recipients_passes(world: World) -> None:
    world.ask("doug", "send4", "alice", params=TEXT)
    assert world.ask("mira", "send4", "bob", params=TEXT).verdict is ALLOW


def test_an_acknowledgement_and_then_the_answer_pass(world: World) -> None:
    world.do("mira", "send3", ON, params={"text": "on it"})
    world.after(30)
    assert world.ask("mira", "send3", ON, params=TEXT).verdict is ALLOW


@pytest.mark.parametrize("text", ["ok", "yes", "thank you"])
def test_short_repeated_phrases_pass(world: World, text: str) -> None:
    world.do("doug", "post2", ON, params={"text": text})
    world.after(5)
    assert world.ask("mira", "post2", ON, params={"text": text}).verdict is ALLOW


def test_two_appends_do_not_conflict(world: World) -> None:
    world.ask("doug", "add4", ON)
    assert world.ask("mira", "add4", ON).verdict is ALLOW


def test_write_after_an_append_conflicts(world: World) -> None:
    world.do("doug", "send2", ON)
    world.do("doug", "add2", ON)
    world.after(1)
    assert Kind.RECENT in kinds(world.ask("mira", "add3", ON))


def test_two_reads_do_not_conflict(world: World) -> None:
    world.ask("doug", "look", ON)
    assert world.ask("mira", "look", ON).verdict is ALLOW


def test_a_read_passes_a_hard_lease(world: World) -> None:
    world.ask("doug", "act4", ON)
    assert world.ask("mira", "look", ON).verdict is ALLOW


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
