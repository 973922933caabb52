"""The policy as a table: every cell, tier by kind, through a real gate."""

from pathlib import Path

import pytest

from callosum.model import Kind, Verdict
from callosum.policy.table import fallback
from tests.support.world import World, gate_time, kinds

ALLOW, WARN, CONFIRM, ASK, BLOCK = Verdict
ON = "plan"

# PROTOCOL section 5. A blank is "allow".
TABLE = {
    0: {}, 1: {Kind.STALE: WARN}, 2: {Kind.DUPLICATE: WARN, Kind.STALE: WARN}, 3: dict.fromkeys(Kind, WARN),
    4: dict.fromkeys(Kind, BLOCK),
}  # fmt: skip
CELLS = [(tier, kind, TABLE[tier].get(kind, ALLOW)) for tier in TABLE for kind in Kind]


def in_the_way(world: World, kind: Kind, tier: int) -> str:
    """Create evidence of this kind against mira. Return the tool that conflicts with it at this tier."""
    if kind is Kind.HELD:
        world.ask("doug", "act3", ON)
    elif kind is Kind.RECENT:
        world.do("doug", "act2", ON)
    elif kind is Kind.DUPLICATE:
        world.do("doug", f"send{tier}", ON)
    elif kind is Kind.STALE:
        world.do("mira", "look", ON)
        world.after(1)
        world.do("doug", "act1", ON)
        return f"act{tier}"
    elif kind is Kind.OPPOSED:
        world.do("doug", f"join{max(tier, 2)}", ON)
        return f"skip{tier}"
    else:
        world.ask("doug", "act3", ON)
        world.after(301)
    return f"send{tier}"


@pytest.mark.parametrize(("tier", "kind", "verdict"), CELLS)
def test_every_cell_gives_its_verdict(world: World, tier: int, kind: Kind, verdict: Verdict) -> None:
    tool = in_the_way(world, kind, tier)
    world.after(1)
    decision = world.ask("mira", tool, ON)
    assert (decision.tier, decision.verdict) == (tier, verdict)
    assert decision.proceed is verdict.proceed
    assert (kind in kinds(decision)) is (verdict is not ALLOW)
    assert (decision.warning is None) is (verdict is ALLOW)


@pytest.mark.parametrize("tier", [2, 3])
def test_tier_4_lease_blocks_tiers_2_and_3(world: World, tier: int) -> None:
    world.ask("doug", "act4", ON)
    world.after(1)
    decision = world.ask("mira", f"act{tier}", ON)
    assert decision.verdict is BLOCK
    assert Kind.HELD in kinds(decision)


@pytest.mark.parametrize("tier", [0, 1])
def test_lowest_tiers_pass_a_tier_4_lease(world: World, tier: int) -> None:
    world.ask("doug", "act4", ON)
    world.after(1)
    assert Kind.HELD not in kinds(world.ask("mira", f"act{tier}", ON))


@pytest.mark.parametrize("tier", [2, 3])
def test_notification_does_not_lift_a_tier_4_lease(world: World, tier: int) -> None:
    world.do("mira", "look", ON)
    world.after(1)
    world.ask("doug", "act4", ON)
    world.after(1)
    assert world.ask("mira", "act1", ON).verdict is WARN  # stale: notified of doug's action
    world.after(10)
    assert world.ask("mira", f"act{tier}", ON).verdict is BLOCK


def test_tier_4_lock_blocks_tiers_2_and_3(world: World) -> None:
    world.gate.lock("doug", f"doc:{ON}", 4)
    assert world.ask("mira", "act2", ON).verdict is BLOCK
    assert world.ask("mira", "act3", ON).verdict is BLOCK
    assert world.ask("mira", "act4", ON).verdict is BLOCK
    assert world.ask("mira", "act1", ON).verdict is ALLOW


def test_strictest_cell_wins(world: World) -> None:
    world.do("anna", "act2", ON)
    world.gate.lock("doug", f"doc:{ON}", 4)
    world.after(1)
    decision = world.ask("mira", "send3", ON)
    assert decision.verdict is BLOCK
    assert kinds(decision) == {Kind.HELD, Kind.RECENT}
    assert [c.kind for c in decision.conflicts] == [Kind.HELD, Kind.RECENT]  # the gravest first


def test_strictest_key_wins(world: World) -> None:
    world.ask("doug", "act4", "second")
    world.after(1)
    decision = world.ask("mira", "send3", "first", params={"also": "second"})
    assert decision.verdict is BLOCK
    assert [c.key for c in decision.conflicts] == ["doc:second"]


@pytest.mark.parametrize(("tier", "kind", "verdict"), CELLS)
def test_every_cell_gives_its_verdict_for_a_host_that_pauses(
    world: World, tier: int, kind: Kind, verdict: Verdict
) -> None:
    tool = in_the_way(world, kind, tier)
    world.after(1)
    decision = world.ask("mira", tool, ON, pause=True)
    assert decision.verdict is (CONFIRM if verdict is WARN else verdict)


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(1, CONFIRM), (119, CONFIRM), (121, WARN), (3000, WARN), (3601, ALLOW)]
)
def test_recent_pauses_only_for_fresh_actions(world: World, seconds: int, verdict: Verdict) -> None:
    world.do("doug", "act2", ON)
    world.after(seconds)
    assert world.ask("mira", "send3", ON, pause=True).verdict is verdict


@pytest.mark.parametrize(
    ("kind", "verdict"), [(Kind.RECENT, ALLOW), (Kind.HELD, ALLOW), (Kind.STALE, BLOCK), (Kind.UNKNOWN, ASK)]
)
def test_rule_overrides_cells(world: World, kind: Kind, verdict: Verdict) -> None:
    in_the_way(world, kind, 3)
    world.after(1)
    assert world.ask("mira", "soft", ON).verdict is verdict


@pytest.mark.parametrize(("seconds", "verdict", "kind"), [(1, CONFIRM, Kind.HELD), (400, WARN, Kind.UNKNOWN)])
def test_cell_of_a_low_tier_sees_actions_behind_newer_ones(
    world: World, seconds: int, verdict: Verdict, kind: Kind
) -> None:
    world.ask("doug", "act3", ON)
    world.after(seconds)
    world.do("doug", "act2", ON)
    decision = world.ask("mira", "shy", ON)
    assert (decision.verdict, kinds(decision)) == (verdict, {kind})


def test_rule_does_not_soften_a_tier_4_lease(world: World) -> None:
    world.ask("doug", "act4", ON)
    world.after(1)
    decision = world.ask("mira", "soft", ON)
    assert (decision.verdict, kinds(decision)) == (BLOCK, {Kind.HELD})


@pytest.mark.parametrize(("tool", "first", "second"), [("never", BLOCK, BLOCK), ("sure", CONFIRM, ALLOW)])
def test_a_rule_may_always_refuse_or_require_confirmation(
    world: World, tool: str, first: Verdict, second: Verdict
) -> None:
    assert world.ask("mira", tool, ON).verdict is first
    world.after(60)
    assert world.ask("mira", tool, ON).verdict is second


def test_required_confirmation_of_a_call_without_keys(world: World) -> None:
    assert world.ask("mira", "sure-low").verdict is CONFIRM
    assert world.ask("mira", "sure-low", params={"text": "another"}).verdict is CONFIRM
    world.after(2)
    assert world.ask("mira", "sure-low").verdict is ALLOW


def test_required_confirmation_counts_from_the_last_pause(world: World) -> None:
    """At tier 4 every conflict is shown again, so the last pause counts and not the last new notification."""
    world.do("doug", "act2", ON)
    for _ in range(3):
        world.after(700)
        assert world.ask("mira", "sure4", ON).verdict is CONFIRM
        world.after(2)
    assert world.ask("mira", "sure4", ON).verdict is WARN


@pytest.mark.parametrize(("tier", "kind", "verdict"), CELLS)
def test_observe_lets_all_pass_and_marks_what_it_would_have_stopped(
    tmp_path: Path, tier: int, kind: Kind, verdict: Verdict
) -> None:
    world = World(tmp_path, mode="observe")
    with gate_time(world.clock):
        tool = in_the_way(world, kind, tier)
        world.after(1)
        decision = world.ask("mira", tool, ON, pause=True)
        assert decision.proceed
        stopped = CONFIRM if verdict is WARN else verdict
        assert decision.observed is (None if stopped.proceed else stopped)
        entry = world.gate.entries(newest=True, limit=1)[0]
        assert entry.body.get("observed") == decision.observed


def test_observing_ends_at_its_set_time(world: World) -> None:
    world.ask("doug", "act4", ON)
    until = world.gate.observe(3600, by="person")
    assert until == pytest.approx(world.clock.now / 1e6 + 3600, abs=1)
    decision = world.ask("mira", "act2", ON)
    assert (decision.proceed, decision.observed) == (True, BLOCK)
    world.end("mira", decision)
    world.after(3601)
    world.ask("doug", "act4", "other")
    decision = world.ask("mira", "act2", "other")
    assert (decision.proceed, decision.observed) == (False, None)


def test_observing_ends_when_it_is_switched_off(world: World) -> None:
    world.ask("doug", "act4", ON)
    world.gate.observe(3600)
    world.gate.observe(0)
    assert world.ask("mira", "act2", ON).verdict is BLOCK


def test_observe_mode_notifies_no_session(world: World) -> None:
    world.do("doug", "act2", ON)
    world.after(1)
    world.gate.observe(60)
    world.do("mira", "act3", ON, pause=True)
    world.gate.observe(0)
    world.after(5)
    assert world.ask("mira", "act3", ON, pause=True).verdict is CONFIRM


@pytest.mark.parametrize(("tier", "proceeds"), [(0, True), (1, True), (2, True), (3, False), (4, False)])
def test_low_tiers_continue_without_a_gate(tier: int, proceeds: bool) -> None:
    assert fallback(tier).proceed is proceeds
    assert fallback(tier, highest=0).proceed is (tier == 0)
