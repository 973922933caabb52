"""Standing approvals: the calls they allow, those they never allow, and when they expire."""

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callosum import standing
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.model import Call, Entry, Event, Kind, Verdict
from callosum.policy.table import cell
from callosum.retrospect import like
from callosum.rulebook import Rulebook
from callosum.rules import RuleSet, StandingApproval
from callosum.settings import Settings

REFUND = {"name": "refund", "tool": "refund", "tier": 3, "verdict": "ask", "contextKey": "account:{params.to}"}
RULES = RuleSet.parse(json.dumps({"rules": [REFUND]}))


def approval(rules: RuleSet = RULES, **more: Any) -> StandingApproval:
    said: dict[str, Any] = {
        "id": 7, "tool": "refund", "tier": 3, "rule": "refund", "under": rules.digest_of("refund"),
        "params": {"to": "Bob"}, "asks": True, "kinds": (), "by": "anna", "at": time.time(),
        "until": time.time() + 60,
    }  # fmt: skip
    return StandingApproval(**(said | more))


def refund(to: str, **more: Any) -> Call:
    return Call("mira", "refund", {"to": to, "amount": "20", **more}, pause=True)


def verdict_of(rules: RuleSet, call: Call) -> Verdict | None:
    return rules.classify(call).verdict


def test_standing_approval_lifts_only_the_question_of_its_rule() -> None:
    before, after = RULES.classify(refund("Bob")), RULES.with_standing([approval()]).classify(refund("Bob"))
    assert (before.verdict, after.verdict) == (Verdict.ASK, None)
    assert (after.tier, after.keys, after.cells, after.content) == (
        before.tier,
        before.keys,
        before.cells,
        before.content,
    )
    assert after.why[-1] == "standing approval 7"


@pytest.mark.parametrize(
    "call",
    [
        refund("Eve"),
        refund("Bob", _tier=4),
        Call("mira", "refund", {"amount": "20"}),
        Call("mira", "pay", {"to": "Bob"}),
        refund("Bob", iban="EVE"),
        refund("Bob", cmd="x"),
        refund("Bob", args=["--all"]),
        refund("Bob", cwd="/prod"),
    ],
    ids="another value,a graver tier,the param is missing,another tool,a target,a command,arguments,a folder".split(
        ","
    ),
)
def test_standing_approval_lets_no_other_call_pass(call: Call) -> None:
    assert RULES.with_standing([approval()]).classify(call) == RULES.classify(call)


def test_standing_approval_can_pass_only_recent_and_held() -> None:
    made = RULES.with_standing([approval(asks=False, kinds=(Kind.RECENT, Kind.HELD))]).classify(refund("Bob"))
    assert made.verdict is Verdict.ASK, "what the rule demands stays"
    passing = {kind for kind in Kind if cell(3, kind, 3, made.cells) is Verdict.ALLOW}
    assert passing == {Kind.RECENT, Kind.HELD}
    assert cell(3, Kind.HELD, 4, made.cells) is Verdict.BLOCK, "a lease of tier 4 holds off as before"


def test_standing_approval_ends_when_its_rule_changes() -> None:
    stricter = RuleSet.parse(json.dumps({"rules": [{**REFUND, "verdict": "block"}]}))
    assert stricter.with_standing([approval()]).standing == ()
    moved = RuleSet.parse(json.dumps({"rules": [{"name": "x", "tool": "x", "tier": 1}, REFUND]}))
    assert verdict_of(moved.with_standing([approval()]), refund("Bob")) is None, "another rule changes nothing"


@pytest.mark.parametrize(
    "wrong",
    [{"tier": 4}, {"kinds": ["duplicate"]}, {"asks": False}, {"params": {"to": ["Bob"]}}, {"tool": ""}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_file_with_unknown_fields_approves_nothing(tmp_path: Path, wrong: dict[str, Any]) -> None:
    said = msgspec.to_builtins(approval()) | wrong
    standing.path_of(tmp_path).write_text(json.dumps({"standing": [msgspec.to_builtins(approval(id=8)), said]}))
    with pytest.raises(ConfigError, match="standing"):
        standing.read(standing.path_of(tmp_path))
    (tmp_path / "tiers.json").write_text(json.dumps({"rules": [REFUND]}))
    book = Rulebook.of(Settings(state=tmp_path))
    assert verdict_of(book.current(), refund("Bob")) is Verdict.ASK
    assert book.current().standing == ()


def test_simultaneous_changes_by_two_processes_lose_nothing(tmp_path: Path) -> None:
    standing.add(tmp_path, approval(id=1))
    standing.add(tmp_path, approval(id=2))
    standing.add(tmp_path, approval(id=2, params={"to": "Eve"}))
    assert [(one.id, one.params["to"]) for one in standing.read(standing.path_of(tmp_path))] == [(1, "Bob"), (2, "Eve")]
    assert standing.path_of(tmp_path).stat().st_mode & 0o777 == 0o600
    assert standing.revoke(tmp_path, 1).id == 1
    with pytest.raises(ConfigError, match="no standing approval 1"):
        standing.revoke(tmp_path, 1)


def test_an_expired_approval_stops_counting_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is not read again in between: the expiry is known when it is read."""
    (tmp_path / "tiers.json").write_text(json.dumps({"rules": [REFUND]}))
    given = approval()
    standing.add(tmp_path, given)
    book = Rulebook.of(Settings(state=tmp_path))
    monkeypatch.setattr(book, "_next", float("inf"))
    assert verdict_of(book.current(), refund("Bob")) is None
    monkeypatch.setattr(time, "time", lambda: given.until)
    assert verdict_of(book.current(), refund("Bob")) is Verdict.ASK


def test_a_running_gate_reads_what_was_approved_and_revoked(tmp_path: Path) -> None:
    rules = tmp_path / "tiers.json"
    text = json.dumps({"note": "mine", "rules": [REFUND]}, indent=7)
    rules.write_text(text)
    book = Rulebook.of(Settings(state=tmp_path))
    assert verdict_of(book.current(), refund("Bob")) is Verdict.ASK
    standing.add(tmp_path, approval())
    assert book.reload()
    assert verdict_of(book.current(), refund("Bob")) is None
    standing.revoke(tmp_path, 7)
    assert book.reload()
    assert verdict_of(book.current(), refund("Bob")) is Verdict.ASK
    assert rules.read_text() == text


def test_no_agent_may_write_the_file(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with LocalGate(state=state) as gate:
        for call in (
            Call("mira", "Write", {"file_path": str(state / "standing.json"), "content": "{}"}),
            Call("mira", "Bash", {"command": f"echo {{}} > {state}/standing.json"}),
            Call("mira", "Bash", {"command": "callosum rules revoke 7"}),
        ):
            made = gate.intercept(call)
            assert (made.verdict, made.rule) == (Verdict.BLOCK, "self-guard")


def recorded(tool: str, params: dict[str, Any], tier: int, rule: str, verdict: Verdict, *kinds: str) -> Entry:
    body = {"params": params, "pause": True, "cwd": "/w", "conflicts": [{"kind": kind, "id": 1} for kind in kinds]}
    return Entry(Event.INTERCEPT, "mira", seq=99, tool=tool, tier=tier, rule=rule, verdict=verdict, body=body)


def test_a_question_of_a_rule_can_be_approved_with_its_params() -> None:
    found = like(
        recorded("refund", {"to": "Bob", "cut": "a… (900 characters)", "_tier": 3}, 3, "refund", Verdict.ASK), RULES
    )
    assert found is not None
    assert (found.asks, found.choices, found.open) == (True, {"to": "Bob"}, ("cut",))
    made = found.approval(frozenset({"to"}), "anna", 1000.0, standing.LASTS)
    assert (made.params, made.until) == ({"to": "Bob"}, 1000.0 + 30 * 86_400)
    assert RULES.with_standing([made]).standing == (made,)


def test_command_must_be_equal_and_in_the_same_folder() -> None:
    rules = RuleSet.parse(json.dumps({"rules": [{"name": "make", "tool": "Bash", "tier": 3, "verdict": "ask"}]}))
    found = like(recorded("Bash", {"command": "make deploy", "description": "x"}, 3, "make", Verdict.ASK), rules)
    assert found is not None
    made = found.approval(frozenset(), "anna", 1.0, 1.0)
    assert (made.params, made.cwd) == ({"command": "make deploy"}, "/w")
    after = rules.with_standing([made])
    for command, cwd, verdict in (
        ("make deploy", "/w", None),
        ("make deploy", "/x", Verdict.ASK),
        ("make deploy; rm x", "/w", Verdict.ASK),
    ):
        assert verdict_of(after, Call("mira", "Bash", {"command": command}, cwd=cwd)) is verdict
    assert like(recorded("Bash", {"command": "make… (900 characters)"}, 3, "make", Verdict.ASK), rules) is None


def test_other_calls_cannot_get_a_standing_approval() -> None:
    four = RuleSet.parse(json.dumps({"rules": [{**REFUND, "tier": 4}]}))
    to = {"to": "Bob"}
    assert like(recorded("refund", to, 4, "refund", Verdict.ASK), four) is None, "tier 4"
    assert like(recorded("refund", to, 3, "refund", Verdict.BLOCK), RULES) is None, "a block"
    assert like(recorded("refund", to, 3, "other", Verdict.ASK), RULES) is None, "its rule is no longer there"
    mail = {"to": "a@example.com", "subject": "s"}
    tier, rule = (found := RULES.classify(Call("mira", "send_email", mail))).tier, found.rule
    for kind in Kind:
        found_like = like(recorded("send_email", mail, tier, rule, Verdict.CONFIRM, kind.value), RULES)
        assert (found_like is not None) is (kind in (Kind.RECENT, Kind.HELD)), kind
    both = like(recorded("send_email", mail, tier, rule, Verdict.CONFIRM, "recent", "duplicate"), RULES)
    assert both is None
