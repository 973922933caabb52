import json
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from callosum.corpus.bus import Corpus
from callosum.corpus.events import CorpusEvent, OutcomeRecorded, PreferenceLearned, SchedulerTick
from callosum.journal import line_of
from callosum.model import HOUR, MINUTE, SECOND, Call, Entry, Event, Key, Kind, Mode, Observation, Outcome, Verdict
from callosum.regions.learning import BasalGanglia
from callosum.regions.learning.counts import family
from callosum.regions.learning.endings import Ending, EndingTracker, StoppedCall
from callosum.retrospect import Suggestion, suggest, suggestions
from callosum.retrospect.suggestions import written
from callosum.rules import RuleSet
from callosum.rules.parse import default_rules, parse_rules
from tests.support.threads import all_at_once
from tests.support.world import Decision, World

_DECODE = msgspec.json.Decoder(Entry).decode
WORDS = (
    "the invoice for march was paid yesterday evening", "please bring two extra chairs into the small room",
    "our flight leaves at noon from the northern terminal", "nobody has seen the blue folder since last autumn",
    "soup and bread are served on the terrace tonight", "his violin needs new strings before the concert",
    "rain is expected over the hills by late afternoon", "the printer on floor three ran out of yellow ink",
    "grandmother's recipe asks for plums instead of figs", "seven lanterns were hung along the garden wall",
    "a quiet train crossed the frozen river at dawn", "the museum keeps its oldest maps behind thick glass",
    "two foxes slept beneath the wooden stage all winter", "her lecture on tides begins after the short break",
)  # fmt: skip


class ThreadGate:
    """A gate with the user's own rules, and sessions that reply in threads."""

    def __init__(self, folder: Path, rules: list[Any] | tuple[Any, ...] = (), **more: Any) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "rules.json").write_text(json.dumps({"rules": list(rules)}))
        self.world = World(folder, **more)
        self.gate = self.world.gate
        self.rules = RuleSet.parse((folder / "rules.json").read_bytes())
        self.words = iter(WORDS * 20)

    def entries(self) -> list[Entry]:
        """Return the journal as it is read back from disk."""
        return [_DECODE(line_of(entry)) for entry in self.gate.entries(limit=100_000)]

    def suggest(self, least: int = 5) -> list[Suggestion]:
        return suggest(iter(self.entries()), self.rules, least=least)

    def paused(self) -> list[Entry]:
        return [entry for entry in self.entries() if entry.verdict and not entry.verdict.proceed]

    def ask(self, who: str, tool: str, **params: Any) -> Decision:
        return self.world.ask(who, tool, params=params, pause=True)

    def reply(self, who: str, target: str, thread: str) -> Decision:
        text = next(self.words)
        return self.ask(who, "message", action="send", target=target, replyTo=thread, message=text)

    def end(self, who: str, decision: Decision, outcome: str = "done") -> None:
        assert decision.proceed
        assert self.world.end(who, decision, outcome).ok

    def meet(
        self, target: str, thread: str, *, confirms: bool = True, outcome: str = "done", who: str = "mira"
    ) -> None:
        """Let doug reply, and mira half a minute later: she is stopped unless a rule allows her call."""
        self.end("doug", self.reply("doug", target, thread))
        self.world.after(30)
        decision = self.reply(who, target, thread)
        if not decision.proceed and confirms:
            self.world.after(20)
            decision = self.reply(who, target, thread)
        if decision.proceed:
            self.end(who, decision, outcome)
        self.world.after(3600 * 2)


@pytest.fixture
def stage(tmp_path: Path) -> ThreadGate:
    return ThreadGate(tmp_path / "state")


def outcomes_of(gate_entries: list[Entry], until: int | None = None) -> list[str]:
    endings = EndingTracker()
    found = [ending.how for entry in gate_entries for ending in endings.feed(entry)]
    if until is not None:
        found += [ending.how for ending in endings.pass_time(until)]
    return found


def test_a_pause_that_is_not_repeated_is_heeded_after_ten_minutes(stage: ThreadGate) -> None:
    stage.meet("andy", "m1", confirms=False)
    (pause,) = stage.paused()
    assert outcomes_of(stage.entries(), pause.seq + 10 * MINUTE - 1) == []
    assert outcomes_of(stage.entries(), pause.seq + 10 * MINUTE) == ["heeded"]


@pytest.mark.parametrize("outcome", ["done", "failed", "cancelled", "unknown"])
def test_outcome_of_a_confirmed_call_is_reported(stage: ThreadGate, outcome: str) -> None:
    stage.meet("andy", "m1", outcome=outcome)
    assert outcomes_of(stage.entries()) == ["confirmed", f"confirmed.{outcome}"]


def test_warning_is_reported_with_its_outcome(stage: ThreadGate) -> None:
    stage.end("doug", stage.reply("doug", "andy", "m1"))
    stage.world.after(600)  # so long ago that it only warns
    decision = stage.reply("mira", "andy", "m1")
    assert decision.verdict is Verdict.WARN
    stage.end("mira", decision)
    assert outcomes_of(stage.entries()) == ["warned.done"]


def test_a_pause_for_a_lease_that_ended_in_the_meantime_was_waited_for(stage: ThreadGate) -> None:
    holding = stage.reply("doug", "andy", "m1")
    stage.world.after(5)
    assert {one.kind for one in stage.reply("mira", "andy", "m1").conflicts} == {Kind.HELD}
    stage.end("doug", holding)
    stage.world.after(20)
    stage.end("mira", stage.reply("mira", "andy", "m1"))
    assert outcomes_of(stage.entries()) == ["waited", "waited.done"]


def test_pause_for_a_lease_that_is_still_open_is_confirmed(stage: ThreadGate) -> None:
    stage.reply("doug", "andy", "m1")
    stage.world.after(5)
    assert not stage.reply("mira", "andy", "m1").proceed
    stage.world.after(20)
    stage.end("mira", stage.reply("mira", "andy", "m1"))
    assert outcomes_of(stage.entries()) == ["confirmed", "confirmed.done"]


def test_another_thread_another_tool_and_another_session_confirm_nothing(stage: ThreadGate) -> None:
    stage.end("doug", stage.reply("doug", "andy", "m1"))
    stage.world.after(30)
    assert not stage.reply("mira", "andy", "m1").proceed
    stage.end("mira", stage.reply("mira", "andy", "m2"))
    stage.end("anna", stage.reply("anna", "bert", "m1"))
    stage.ask("mira", "sessions_send", sessionKey="andy")
    (pause,) = stage.paused()
    assert outcomes_of(stage.entries(), pause.seq + 10 * MINUTE) == ["heeded"]


def test_calls_in_observe_mode_confirm_nothing(stage: ThreadGate) -> None:
    stage.end("doug", stage.reply("doug", "andy", "m1"))
    stage.world.after(30)
    assert not stage.reply("mira", "andy", "m1").proceed
    stage.gate.observe(300)
    stage.end("doug", stage.reply("doug", "andy", "m1"))
    stage.world.after(5)
    seen = stage.reply("mira", "andy", "m1")
    assert seen.proceed
    assert seen.observed is Verdict.CONFIRM
    (pause,) = stage.paused()
    assert outcomes_of(stage.entries(), pause.seq + 10 * MINUTE) == ["heeded"]


PAY = {"name": "pay", "tier": 4, "tool": "pay", "contextKey": "payment:{params.to}", "verdict": "ask"}


def test_questions_and_the_answers_of_people_are_counted(tmp_path: Path) -> None:
    stage = ThreadGate(tmp_path, [PAY])
    asked = stage.ask("mira", "pay", to="acme", amount=5)
    assert asked.verdict is Verdict.ASK
    assert stage.ask("mira", "pay", to="acme", amount=5).id == asked.id  # the same question once more
    assert stage.gate.approve(asked.id, by="anna").ok
    stage.end("mira", stage.ask("mira", "pay", to="acme", amount=5))
    stage.world.after(10)
    assert stage.gate.deny(stage.ask("mira", "pay", to="globex", amount=5).id).ok
    assert stage.gate.approve(stage.ask("mira", "pay", to="initech", amount=5).id).ok
    stage.world.after(1)
    stage.ask("mira", "pay", to="hooli", amount=5)
    end = stage.entries()[-1].seq + 2 * HOUR
    assert outcomes_of(stage.entries(), end) == [
        *("approved", "approved.done", "denied", "approved"),
        *("unanswered", "approved.unused"),
    ]


def test_a_question_that_the_next_call_finds_unanswered(tmp_path: Path) -> None:
    stage = ThreadGate(tmp_path, [PAY])
    stage.ask("mira", "pay", to="acme", amount=5)
    stage.world.after(3601)
    stage.ask("mira", "pay", to="acme", amount=5)
    assert outcomes_of(stage.entries()) == ["unanswered"]


def test_block_that_nobody_overrides_and_block_that_expires(tmp_path: Path) -> None:
    stage = ThreadGate(tmp_path, [{"name": "wipe", "tier": 4, "tool": "wipe", "contextKey": "disk:{params.on}"}])
    for disk in ("a", "b"):
        held = stage.ask("doug", "wipe", on=disk)
        assert stage.ask("mira", "wipe", on=disk).verdict is Verdict.BLOCK
        stage.end("doug", held, "failed")
    stage.end("mira", stage.ask("mira", "wipe", on="b"))
    assert outcomes_of(stage.entries(), stage.entries()[-1].seq + HOUR) == ["waited", "waited.done", "blocked"]


def test_confirmed_call_is_regretted_when_another_session_attempts_the_same(stage: ThreadGate) -> None:
    stage.end("doug", stage.reply("doug", "andy", "m1"))
    stage.world.after(30)
    send = {"action": "send", "target": "andy", "replyTo": "m1", "message": WORDS[5]}
    assert not stage.ask("mira", "message", **send).proceed
    stage.world.after(5)
    stage.end("mira", stage.ask("mira", "message", **send))
    stage.world.after(60)
    assert Kind.DUPLICATE in {one.kind for one in stage.ask("anna", "message", **send).conflicts}
    assert outcomes_of(stage.entries()) == ["confirmed", "confirmed.done", "regretted"]


def test_live_conflicts_and_journalled_conflicts_give_the_same_result(stage: ThreadGate) -> None:
    live: list[Entry] = []
    stage.gate.add_observer(lambda seen: live.extend(seen.entries))
    stage.meet("andy", "m1")
    stage.meet("andy", "m2", confirms=False)
    held = stage.reply("doug", "andy", "m3")
    stage.reply("mira", "andy", "m3")
    stage.end("doug", held)
    stage.world.after(9)
    stage.reply("mira", "andy", "m3")
    assert [entry.seq for entry in live] == [entry.seq for entry in stage.entries()]
    assert outcomes_of(live) == outcomes_of(stage.entries()) == ["confirmed", "confirmed.done", "heeded", "waited"]


def test_open_cases_are_bounded() -> None:
    endings = EndingTracker(most=10)
    for number in range(1, 1000):
        key = (Key(f"thread:andy:{number}"),)
        body = {"conflicts": [{"kind": "held", "id": 10_000 + number}]}
        call = {"tool": "message", "tier": 3, "verdict": Verdict.CONFIRM}
        endings.feed(Entry(Event.INTERCEPT, "mira", seq=number, keys=key, body=body, **call))  # type: ignore[arg-type]
    for kept in (endings._paused, endings._by_identity, endings._holders):
        assert len(kept) == 10


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.builds(
            Entry,
            event=st.sampled_from(Event),
            session=st.sampled_from(["mira", "doug"]),
            action=st.integers(0, 12),
            tool=st.sampled_from(["message", "\u202e"]),
            tier=st.none() | st.integers(0, 4),
            verdict=st.none() | st.sampled_from(Verdict),
            rule=st.sampled_from(["thread-reply", "", "self-guard", "gone"]),
            keys=st.just((Key("thread:a:b"), Key("=00", Mode.READ))),
            outcome=st.none() | st.sampled_from(Outcome),
            body=st.fixed_dictionaries({}, optional={"conflicts": JSON, "params": JSON, "callId": JSON})
            | st.just({"conflicts": [{"kind": "recent", "id": 1, "own": None}, {"kind": [], "id": {}}]}),
        ),
        max_size=40,
    )
)
def test_any_journal_can_be_followed(entries: list[Entry]) -> None:
    placed = [replace(entry, seq=number * 200 * SECOND) for number, entry in enumerate(entries, 1)]
    assert isinstance(suggest(placed, RuleSet.parse(), least=2), list)


def replayed(tmp_path: Path, rules: list[Any] | tuple[Any, ...], play: Callable[[ThreadGate], None]) -> ThreadGate:
    """Make the same calls again, under these rules."""
    again = ThreadGate(tmp_path / f"again-{len(list(tmp_path.iterdir()))}", rules)
    play(again)
    return again


def test_rule_for_always_confirmed_calls_ends_their_pauses(tmp_path: Path) -> None:
    def play(stage: ThreadGate) -> None:
        for number in range(12):
            stage.meet("andy", f"m{number}")

    stage = ThreadGate(tmp_path / "state")
    play(stage)
    assert len(stage.paused()) == 12
    (found,) = stage.suggest()
    assert found.rule["cells"] == {"recent": "allow"}
    assert found.rule["tier"] == 3
    assert found.rule["tool"] == "message"
    assert found.rule["params"] == {"action": "send", "target": "andy"}  # the one target; any thread
    assert found.rule["present"] == "replyTo"
    assert found.before == ()
    assert (found.evidence.confirmed, found.evidence.sessions, found.evidence.keys) == (12, 1, ("thread:*",))
    assert "All 12 pauses" in found.why
    again = replayed(tmp_path, found.rules, play)
    assert again.paused() == []
    assert {(entry.tool, entry.tier, entry.keys) for entry in again.entries()} == {
        (entry.tool, entry.tier, entry.keys) for entry in stage.entries()
    }
    assert again.suggest() == []


@pytest.mark.parametrize(("count", "named"), [(12, None), (3, ["person-0", "person-1", "person-2"])])
def test_few_targets_are_named_one_by_one_and_many_are_not(stage: ThreadGate, count: int, named: object) -> None:
    for number in range(12):
        stage.meet(f"person-{number % count}", f"m{number}")
    (found,) = stage.suggest()
    assert found.rule["params"].get("target") == named


def test_proposal_names_only_values_that_were_never_heeded(tmp_path: Path) -> None:
    def play(stage: ThreadGate) -> None:
        for number in range(6):
            stage.meet("andy", f"m{number}")
            stage.meet("boss", f"m{number}", confirms=number % 2 == 0)
            stage.meet(f"other-{number}", "m1")

    stage = ThreadGate(tmp_path / "state")
    play(stage)
    (found,) = stage.suggest()
    assert found.rule["params"] == {"action": ["send", "thread-reply"], "target": "andy"}
    assert found.evidence.confirmed == 6
    again = replayed(tmp_path, found.rules, play)
    assert {entry.keys[0].name.split(":")[1] for entry in again.paused()} == {
        "boss",
        *(f"other-{number}" for number in range(6)),
    }


@pytest.mark.parametrize("outcome", ["failed", "unknown"])
def test_one_failed_call_prevents_the_proposal(stage: ThreadGate, outcome: str) -> None:
    for number in range(10):
        stage.meet("andy", f"m{number}", outcome=outcome if number == 4 else "done")
    assert stage.suggest() == []


def test_too_few_calls_prove_nothing(stage: ThreadGate) -> None:
    for number in range(4):
        stage.meet("andy", f"m{number}")
    assert stage.suggest() == []
    assert len(stage.suggest(least=4)) == 1


def test_leases_that_were_waited_for_prevent_the_proposal(tmp_path: Path) -> None:
    def play(stage: ThreadGate, *, waits: bool) -> None:
        for number in range(6):
            holding = stage.reply("doug", "andy", f"m{number}")
            stage.world.after(5)
            mine = stage.reply("mira", "andy", f"m{number}")
            if waits:
                stage.end("doug", holding)
            if not mine.proceed:
                stage.world.after(20)
                mine = stage.reply("mira", "andy", f"m{number}")
            stage.end("mira", mine)
            if not waits:
                stage.end("doug", holding)
            stage.world.after(7200)

    waiting = ThreadGate(tmp_path / "waiting")
    play(waiting, waits=True)
    assert waiting.suggest() == []
    passing = ThreadGate(tmp_path / "passing")
    play(passing, waits=False)
    (found,) = passing.suggest()
    assert found.rule["cells"] == {"held": "allow"}
    assert replayed(tmp_path, found.rules, lambda stage: play(stage, waits=False)).paused() == []


@pytest.mark.parametrize("kind", ["duplicate", "stale", "opposed", "unknown"])
def test_serious_conflicts_are_never_let_pass(kind: str) -> None:
    entries = list(_confirmations(kind, 20))
    assert outcomes_of(entries).count("confirmed") == 20
    assert suggest(entries, RuleSet.parse()) == []
    assert len(suggest(_confirmations("recent", 20), RuleSet.parse())) == 1


def _confirmations(kind: str, count: int, *, tier: int = 3, rule: str = "thread-reply") -> Iterator[Entry]:
    params = {"action": "send", "target": "andy", "replyTo": "m1", "message": "hello"}
    for number in range(count):
        for verdict, seq in ((Verdict.CONFIRM, 1), (Verdict.ALLOW, 2)):
            at = (number * 100 + seq) * MINUTE
            body: dict[str, Any] = {"params": params}
            if verdict is Verdict.CONFIRM:
                body["conflicts"] = [{"kind": kind, "id": at - 1}, {"kind": "recent", "id": at - 2}]
            action = 0 if verdict is Verdict.CONFIRM else at
            more: dict[str, Any] = {"tier": tier, "rule": rule, "keys": (Key("thread:andy:m1"),), "body": body}
            yield Entry(Event.INTERCEPT, "mira", seq=at, action=action, tool="message", verdict=verdict, **more)


@pytest.mark.parametrize(
    ("tier", "rule"), [(4, "thread-reply"), (3, ""), (3, "self-guard"), (3, "gone"), (3, "message-send")]
)
def test_tier_4_the_guard_and_calls_without_a_rule_are_left_alone(tier: int, rule: str) -> None:
    entries = list(_confirmations("recent", 20, tier=tier, rule=rule))
    assert outcomes_of(entries).count("confirmed") == 20
    assert suggest(entries, RuleSet.parse()) == []


def test_existing_rules_keep_deciding_the_same_calls(tmp_path: Path) -> None:
    """A mail by shell: the copy of ``email-send`` must not take calls of ``repo-delete`` and ``force-push``."""

    def mail(number: int) -> str:
        return f"echo '{WORDS[number % 14]} {number}' | mail -s 'Week {number}' team@example.com"

    def play(stage: ThreadGate) -> None:
        for number in range(0, 12, 2):
            stage.end("doug", stage.ask("doug", "Bash", command=mail(number)))
            stage.world.after(30)
            mine = stage.ask("mira", "Bash", command=mail(number + 1))
            if not mine.proceed:
                stage.world.after(10)
                mine = stage.ask("mira", "Bash", command=mail(number + 1))
            stage.end("mira", mine)
            stage.world.after(86400)

    stage = ThreadGate(tmp_path / "state")
    play(stage)
    (found,) = stage.suggest()
    assert [rule["name"] for rule in found.before] == ["repo-delete", "force-push"]
    assert all(rule["tool"] == "Bash" for rule in found.rules)
    again = replayed(tmp_path, found.rules, play)
    assert again.paused() == []
    for command in (
        "gh repo delete acme/site; mail x@example.com",
        "git push --force; mail x@example.com",
        "ls",
        "git push",
    ):
        call = Call("mira", "Bash", {"command": command}, cwd="/repo")
        assert again.rules.classify(call).tier == stage.rules.classify(call).tier
        assert again.rules.classify(call).keys == stage.rules.classify(call).keys


def test_a_floor_for_all_tools_is_not_undercut(tmp_path: Path) -> None:
    rules = [{"name": "all", "tool": "*", "tier": 3}]
    stage = ThreadGate(tmp_path, rules)
    for number in range(6):

        def send(who: str, to: str = f"s{number}") -> Decision:
            return stage.ask(who, "sessions_send", sessionKey=to, message=next(stage.words))

        stage.end("doug", send("doug"))
        stage.world.after(20)
        assert not send("mira").proceed
        stage.world.after(20)
        stage.end("mira", send("mira"))
        stage.world.after(7200)
    (found,) = stage.suggest()
    assert found.rule["tier"] == 3  # the rule that ships says 2
    proposed = RuleSet.parse(json.dumps({"rules": [*found.rules, *rules]}))
    call = Call("mira", "sessions_send", {"sessionKey": "s1", "message": "hello"})
    assert proposed.classify(call).rule == found.rule["name"]
    assert proposed.classify(call).tier == stage.rules.classify(call).tier == 3


def test_a_rules_own_pause_becomes_a_warning(tmp_path: Path) -> None:
    rules = [{"name": "deploy", "tier": 3, "tool": "deploy", "contextKey": "env:{params.env}", "verdict": "confirm"}]

    def play(stage: ThreadGate) -> None:
        for _ in range(6):
            mine = stage.ask("mira", "deploy", env="staging")
            if not mine.proceed:
                stage.world.after(20)
                mine = stage.ask("mira", "deploy", env="staging")
            stage.end("mira", mine)
            stage.world.after(7200)

    stage = ThreadGate(tmp_path / "state", rules)
    play(stage)
    (found,) = stage.suggest()
    assert found.rule["verdict"] == "warn"
    assert found.rule["params"] == {"env": "staging"}
    assert replayed(tmp_path, [*found.rules, *rules], play).paused() == []
    assert len(replayed(tmp_path, rules, play).paused()) == 6  # without the proposal they are


def test_a_rules_own_pause_at_tier_4_stays(tmp_path: Path) -> None:
    stage = ThreadGate(tmp_path, [{**PAY, "verdict": "confirm"}])
    for _ in range(10):
        assert stage.ask("mira", "pay", to="acme").verdict is Verdict.CONFIRM
        stage.world.after(5)
        stage.end("mira", stage.ask("mira", "pay", to="acme"))
        stage.world.after(86400)
    assert outcomes_of(stage.entries()).count("confirmed.done") == 10
    assert stage.suggest() == []


def _approvals(stage: ThreadGate, count: int = 6, **params: Any) -> None:
    for _ in range(count):
        asked = stage.ask("mira", "pay", **params)
        if asked.verdict is Verdict.ASK:
            assert stage.gate.approve(asked.id, by="anna").ok
            stage.world.after(5)
            asked = stage.ask("mira", "pay", **params)
        elif asked.verdict is Verdict.CONFIRM:
            stage.world.after(5)
            asked = stage.ask("mira", "pay", **params)
        stage.end("mira", asked)
        stage.world.after(86400)


def test_calls_that_a_person_always_approved_are_confirmed_by_the_session(tmp_path: Path) -> None:
    stage = ThreadGate(tmp_path / "state", [PAY])
    _approvals(stage, to="acme", amount=5)
    _approvals(stage, count=3, to="globex", amount=5)
    (found,) = stage.suggest()
    assert found.rule["verdict"] == "confirm"
    assert found.rule["params"] == {"amount": 5, "to": "acme"}
    assert (found.rule["tier"], found.evidence.approved) == (4, 6)
    assert "A person approved all 6 calls" in found.why
    again = replayed(tmp_path, [*found.rules, PAY], lambda stage: _approvals(stage, to="acme", amount=5))
    assert {entry.verdict for entry in again.paused()} == {Verdict.CONFIRM}  # no person is asked any more
    assert again.ask("mira", "pay", to="acme", amount=6).verdict is Verdict.ASK


@pytest.mark.parametrize("how", ["deny", "nobody", "cut", "redacted", "nested"])
def test_approvals_that_prove_nothing(tmp_path: Path, how: str) -> None:
    odd: dict[str, dict[str, Any]] = {
        "cut": {"note": "x" * 300},
        "redacted": {"password": "hunter2"},
        "nested": {"lines": [1, 2]},
    }
    stage = ThreadGate(tmp_path, [PAY])
    _approvals(stage, to="acme", amount=5, **odd.get(how, {}))
    if how == "deny":
        assert stage.gate.deny(stage.ask("mira", "pay", to="acme", amount=5).id).ok
    if how == "nobody":
        stage.ask("mira", "pay", to="acme", amount=5)
        stage.world.after(2 * 3600)
        stage.ask("mira", "pay", to="acme", amount=5)
    assert stage.suggest() == []


def test_stops_that_current_rules_decide_differently_prove_nothing(stage: ThreadGate) -> None:
    for number in range(6):
        stage.meet("andy", f"m{number}")
    (found,) = stage.suggest()
    pasted = RuleSet.parse(json.dumps({"rules": list(found.rules)}))
    assert suggest(stage.entries(), pasted) == []
    for number in range(10, 16):
        stage.meet("bert", f"m{number}")
    (more,) = suggest(stage.entries(), pasted)
    assert more.rule["params"]["target"] == "bert"


def test_rules_are_written_as_they_are_read() -> None:
    text = json.dumps(
        {
            "rules": [
                {
                    "name": "all fields", "tier": 2, "tool": ["a", "b*"], "params": {"x": [1, "1", True, None], "y": 1.5},
                    "present": ["a|b", "c"], "commandPattern": "\\bx", "contextKey": ["a:{params.x}", {"key": "b:c", "mode": "append"}],
                    "recentWindowMs": 0, "verdict": "warn", "cells": {"held": "ask"}, "effect": "read", "repeats": False,
                    "stance": "+attend", "judge": False,
                },
                {"tier": 0, "tool": "*"},
                {"tier": 0, "tool": "x", "effect": "write"},
            ]
        }
    )  # fmt: skip
    for rules in (parse_rules(text, "test"), default_rules()):
        again = parse_rules(json.dumps({"rules": [written(rule) for rule in rules]}), "test")
        assert again == rules


@pytest.mark.parametrize(
    ("key", "of"),
    [("channel:#general", "channel:*"), ("email:thread:7", "email:*"), ("=0a", "(no key)"), ("odd", "odd")],
)
def test_key_families(key: str, of: str) -> None:
    assert family(key) == of


def test_memory_does_not_grow_with_the_journal() -> None:
    """With ever new targets, sessions and threads, surplus values are counted together."""
    made = suggestions._Tally(RuleSet.parse())
    endings = EndingTracker()
    for number, entry in enumerate(_confirmations("recent", 12_000)):
        params = {"action": "send", "target": f"t{number // 2}", "replyTo": f"m{number // 2}"}
        for ending in endings.feed(replace(entry, session=f"s{number // 2}", body={**entry.body, "params": params})):
            made.add(ending)
    (group,) = made.groups.values()
    assert len(group.values) + len(group.questions) <= suggestions.MOST_CELLS + 10
    (count,) = group.pauses.values()
    assert count.confirmed == 12_000
    assert len(count.sessions) == 64
    ((_, found),) = made.proposals(group, 5)
    assert found.rule["params"] == {"action": "send"}
    assert "64 or more sessions" in found.why


class Listening:
    def __init__(self, stage: ThreadGate, **more: Any) -> None:
        self.corpus = Corpus()
        self.events: list[CorpusEvent] = []
        self.region = BasalGanglia(self.corpus, now=stage.world.clock, **more)
        self.corpus.on("outcome.*", lambda _, event: self.events.append(event))
        self.corpus.on("preference.*", lambda _, event: self.events.append(event))
        stage.gate.add_observer(self._observe)

    def _observe(self, seen: Observation) -> None:
        for entry in seen.entries:
            self.region.take(entry)

    def outcomes(self) -> list[OutcomeRecorded]:
        return [event for event in self.events if isinstance(event, OutcomeRecorded)]

    def learned(self) -> list[PreferenceLearned]:
        return [event for event in self.events if isinstance(event, PreferenceLearned)]


def test_outcomes_are_emitted_on_the_corpus(stage: ThreadGate) -> None:
    here = Listening(stage)
    stage.meet("andy", "m1")
    (event,) = here.outcomes()
    pause, ran = stage.paused()[0], stage.entries()[-2]
    assert (event.type, event.tool_name, event.instance, event.namespace) == (
        "confirmed.done",
        "message",
        "mira",
        "default",
    )
    assert event.args["target"] == "andy"
    assert (event.id, event.cause, event.call_id) == (ran.action, f"{pause.seq}.1", pause.body["callId"])
    assert event.at == stage.entries()[-1].seq / SECOND


def test_secrets_in_args_stay_out(tmp_path: Path) -> None:
    stage = ThreadGate(tmp_path, [PAY])
    here = Listening(stage)
    asked = stage.ask("mira", "pay", to="acme", password="hunter2")
    stage.gate.deny(asked.id)
    (event,) = here.outcomes()
    assert event.type == "denied"
    assert "hunter2" not in str(event)


def test_endings_by_time_are_emitted_on_the_schedule(stage: ThreadGate) -> None:
    here = Listening(stage)
    stage.meet("andy", "m1", confirms=False)
    here.corpus.emit(SchedulerTick("digest", "daily"))
    assert here.outcomes() == []
    here.corpus.emit(SchedulerTick("sweep", "every 30 s"))
    assert [event.type for event in here.outcomes()] == ["heeded"]
    assert here.region.sweep() == 0


def test_a_preference_is_learned_once(stage: ThreadGate) -> None:
    here = Listening(stage)
    for number in range(4):
        stage.meet("andy", f"m{number}")
    assert here.learned() == []
    for number in range(4, 12):
        stage.meet("andy", f"m{number}")
    (event,) = here.learned()
    assert event.pattern == 'recent on "thread:*" by message (rule thread-reply)'
    assert "all 5 pauses were confirmed" in event.preference
    assert stage.suggest()[0].pattern == event.pattern


def let_conflict(stage: ThreadGate, numbers: range) -> None:
    for number in numbers:
        stage.meet("andy", f"m{number}")


def test_counts_survive_the_process_and_preferences_are_not_repeated(stage: ThreadGate, tmp_path: Path) -> None:
    kept = tmp_path / "brain" / "learned.json"
    first = Listening(stage, kept=kept)
    let_conflict(stage, range(4))
    first.region.close()
    second = Listening(stage, kept=kept)
    let_conflict(stage, range(4, 9))
    second.corpus.emit(SchedulerTick("sweep", "every 30 s"))
    assert [len(one.learned()) for one in (first, second)] == [1, 1], "the first still hears all of this gate"
    third = Listening(stage, kept=kept)
    let_conflict(stage, range(9, 15))
    assert third.learned() == []
    assert kept.stat().st_mode & 0o777 == 0o600


def test_counts_of_two_processes_add_up(stage: ThreadGate, tmp_path: Path) -> None:
    kept = tmp_path / "learned.json"
    regions = [Listening(stage, kept=kept) for _ in range(2)]
    let_conflict(stage, range(3))
    for one in regions:
        one.corpus.emit(SchedulerTick("sweep", "every 30 s"))
    assert [one.learned() for one in regions] == [[], []]
    let_conflict(stage, range(3, 4))
    assert [len(one.learned()) for one in regions] == [0, 1], "the second took over what the first had counted"


def test_damaged_file_of_counts_starts_again_from_zero(stage: ThreadGate, tmp_path: Path) -> None:
    kept = tmp_path / "learned.json"
    kept.write_text("[{")
    here = Listening(stage, kept=kept)
    let_conflict(stage, range(9))
    here.region.close()
    assert len(here.learned()) == 1
    assert json.loads(kept.read_text())[0]["told"] is True


@pytest.mark.parametrize(("heeded", "learned"), [(0, 1), (1, 0)])
def test_learned_preference_equals_the_proposal(stage: ThreadGate, heeded: int, learned: int) -> None:
    here = Listening(stage)
    for number in range(heeded):
        stage.meet("andy", f"h{number}", confirms=False)
    for number in range(9):
        stage.meet("andy", f"m{number}", who=f"mira{number}")  # no value of a param is there every time
    assert len(here.learned()) == len(stage.suggest()) == learned


def test_nothing_is_learned_from_two_kinds_at_once_if_only_one_was_right() -> None:
    """A rule that lets both pass also lets each one pass, so it is not proposed."""
    region, events = BasalGanglia(corpus := Corpus()), []
    corpus.on("preference.*", lambda _, event: events.append(event))

    def tell(how: str, *kinds: Kind) -> None:
        region._tell(
            [Ending(how, 1, StoppedCall(1, "d", "mira", "t", "r", 3, Verdict.CONFIRM, frozenset(kinds), (), {}))]
        )

    tell("heeded", Kind.RECENT)
    for _ in range(6):
        tell("confirmed", Kind.RECENT, Kind.HELD)
    assert events == []
    for _ in range(6):
        tell("confirmed", Kind.HELD)
    assert len(events) == 1


def test_a_confirmed_call_that_failed_teaches_nothing(stage: ThreadGate) -> None:
    here = Listening(stage)
    stage.meet("andy", "m0", outcome="failed")
    for number in range(1, 12):
        stage.meet("andy", f"m{number}")
    assert here.learned() == []


def test_closing_ends_the_subscription(stage: ThreadGate) -> None:
    here = Listening(stage)
    assert here.corpus.handlers(SchedulerTick) == 1
    here.region.close()
    here.region.close()
    assert here.corpus.handlers(SchedulerTick) == 0


class _Crowded(EndingTracker):
    """Count how many threads were inside at once; each waits a moment for another one."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = self.most_inside = 0
        self.door = threading.Barrier(2)

    def feed(self, entry: Entry) -> list[Any]:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        with suppress(threading.BrokenBarrierError):
            self.door.wait(0.2)
        self.inside -= 1
        return super().feed(entry)


@pytest.mark.parametrize(("guard", "most"), [(threading.Lock(), 1), (nullcontext(), 2)], ids=["real", "control"])
def test_only_one_thread_at_a_time_follows_the_entries(guard: Any, most: int) -> None:
    region = BasalGanglia(Corpus())
    crowded = region._endings = _Crowded()
    region._guard = guard
    entry = next(_confirmations("recent", 1))
    all_at_once([partial(region.take, entry)] * 2)
    assert crowded.most_inside == most


def test_threads_lose_nothing() -> None:
    corpus = Corpus()
    seen: list[str] = []
    corpus.on(OutcomeRecorded, lambda event: seen.append(event.type))
    region = BasalGanglia(corpus, least=10**9)

    def work(mine: int) -> None:
        for number, one in enumerate(_confirmations("recent", 100)):
            place = 10_000 * mine + number + 1
            entry = replace(one, session=f"s{mine}", seq=place, action=place if one.action else 0)
            region.take(entry)
            if entry.action:
                done = replace(entry, event=Event.COMPLETE, verdict=None, outcome=Outcome.DONE)
                region.take(done)

    all_at_once([partial(work, number) for number in range(4)])
    assert seen == ["confirmed.done"] * 400
