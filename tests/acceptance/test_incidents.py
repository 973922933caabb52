"""What went wrong elsewhere because sessions did not know of one another, told to the gate.

Each test is named after a report (repository and number). The rules are the ones that ship; the host
pauses, as all hosts do that can show a warning only by not running the tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum.gate import LocalGate
from callosum.model import Call, Decision, Kind, Verdict
from callosum.policy.table import fallback
from callosum.rulebook import Rulebook
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock
from tests.support.world import gate_time, kinds

ALLOW, WARN, CONFIRM, ASK, BLOCK = Verdict
REPORT = "The nightly report is ready: twelve jobs ran, none of them failed, the longest took an hour."
SHORT = "All good tonight, see the summary in the usual place for what was running."
SMTP = "curl --url smtps://mail.example.com --mail-from me@example.com --mail-rcpt alice@example.com -T mail.txt"


class Fleet:
    """Sessions of one agent behind one gate, told in the words of the reports."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.gate = LocalGate(
            settings=Settings(state=folder),
            store=MemoryStore(clock=self.clock),
            rules=Rulebook(None, secret=b"s" * 32),
            sleep=self.clock.sleep,
        )
        self.calls = 0

    def after(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def ask(self, who: str, tool: str, params: dict[str, Any], **more: Any) -> Decision:
        self.calls += 1
        more.setdefault("call_id", f"call-{self.calls}")
        more.setdefault("pause", True)
        return self.gate.intercept(Call(who, tool, params, **more))

    def do(self, who: str, tool: str, params: dict[str, Any], outcome: str = "done", **more: Any) -> Decision:
        decision = self.ask(who, tool, params, **more)
        assert decision.proceed, decision.warning
        assert self.gate.complete(who, id=decision.id, outcome=outcome).ok
        return decision


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    with gate_time(fleet.clock):
        yield fleet


def send(to: str, text: str, **more: Any) -> dict[str, Any]:
    return {"action": "send", "target": to, "message": text, **more}


def mail(to: str, text: str) -> dict[str, Any]:
    return {"to": to, "subject": "Offer", "body": text}


# --- 6A: the same effect twice ------------------------------------------------------------------------


def test_openclaw_56643_one_heartbeat_in_every_session(fleet: Fleet) -> None:
    """openclaw/openclaw#56643: it fires per session, all into one channel."""
    fleet.do("heartbeat-1", "message", send("#ops", REPORT))
    for number in range(2, 8):
        fleet.after(300)
        decision = fleet.ask(f"heartbeat-{number}", "message", send("#ops", REPORT))
        assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})


def test_openclaw_10061_three_gateways_stamp_the_same_heartbeat(fleet: Fleet) -> None:
    """openclaw/openclaw#10061: the copies differ in their timestamps alone, their cause is one."""
    fleet.do("gateway-1", "message", send("#ops", f"[09:00:01] {REPORT}"), origin="heartbeat-17")
    fleet.after(1)
    decision = fleet.ask("gateway-2", "message", send("#ops", f"[09:00:02] {REPORT}"), origin="heartbeat-17")
    assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})


def test_openclaw_40178_one_cron_run_in_two_texts(fleet: Fleet) -> None:
    """openclaw/openclaw#40178: a short summary by one path, the full text by another; one run."""
    fleet.do("wake", "message", send("#ops", SHORT), origin="cron-run-5")
    fleet.after(3)
    decision = fleet.ask("announce", "message", send("#ops", REPORT), origin="cron-run-5")
    assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})


def test_openclaw_27018_a_job_runs_twice_within_11_seconds(fleet: Fleet) -> None:
    """openclaw/openclaw#27018, #13687, #27921: announced two or three times by two code paths."""
    running = fleet.ask("path-1", "message", send("#ops", REPORT))
    fleet.after(11)
    assert not fleet.ask("path-2", "message", send("#ops", REPORT)).proceed
    assert fleet.gate.complete("path-1", id=running.id).ok


def test_openclaw_12053_webhooks_of_17_hours_ago_are_replayed(fleet: Fleet) -> None:
    """openclaw/openclaw#12053: eleven identical intro messages to a family contact after a restart."""
    text = "Hello, I am the assistant of the family and will help with the calendar from now on."
    fleet.do("before", "message", send("aunt", text), origin="webhook-4")
    fleet.after(17 * 3600)
    for number in range(11):
        decision = fleet.ask(f"replay-{number}", "message", send("aunt", text), origin="webhook-4")
        assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})


def test_openclaw_110853_sent_late_and_reported_as_failed(fleet: Fleet) -> None:
    """openclaw/openclaw#110853: the outer timeout says "failed", the agent tries again."""
    reply = send("alice", REPORT, replyTo="msg-7")
    first = fleet.ask("mira", "message", reply)
    assert fleet.gate.complete("mira", id=first.id, result={"error": "timeout after 30 s"}).state == "unknown"
    fleet.after(5)
    decision = fleet.ask("mira", "message", reply)
    assert (decision.proceed, kinds(decision)) == (False, {Kind.UNKNOWN, Kind.DUPLICATE})
    fleet.after(5)
    assert not fleet.ask("doug", "message", reply).proceed


def test_openclaw_102367_an_unknown_outcome_is_no_failure(fleet: Fleet) -> None:
    """openclaw/openclaw#102367: the same report twice, 3.2 s apart, then "failed", though both arrived."""
    first = fleet.ask("mira", "send_email", mail("boss@example.com", REPORT))
    report = fleet.gate.complete("mira", id=first.id, result={"error": "connection reset by peer"})
    assert report.state == "unknown"
    fleet.after(3.2)
    assert not fleet.ask("doug", "send_email", mail("boss@example.com", REPORT)).proceed


def test_google_workspace_mcp_997_a_send_is_retried_three_times(fleet: Fleet) -> None:
    """taylorwilsdon/google_workspace_mcp#997: up to four deliveries, reported once.

    Without call ids the first retry is told; a loop that retries blindly after that confirms itself.
    """
    tool = "mcp__google_workspace__send_gmail_message"
    fleet.ask("mira", tool, mail("alice@example.com", REPORT), call_id=None)
    fleet.after(2)
    decision = fleet.ask("mira", tool, mail("alice@example.com", REPORT), call_id=None)
    assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})


def test_email_mcp_62_a_retried_send_looks_like_a_new_mail(fleet: Fleet) -> None:
    """codefuturist/email-mcp#62: a fresh Message-ID each time; the call's identity tells them apart."""
    first = fleet.ask("mira", "send_email", mail("alice@example.com", REPORT), call_id="toolu_1")
    again = fleet.ask("mira", "send_email", mail("alice@example.com", REPORT), call_id="toolu_1")
    assert (again.id, again.repeated) == (first.id, True)


def test_agentmail_mcp_49_no_idempotency_key_two_mails(fleet: Fleet) -> None:
    """agentmail-to/agentmail-mcp#49, MervinPraison/PraisonAI#4621: two sessions, one mail each."""
    fleet.do("one", "send_email", mail("alice@example.com", REPORT))
    fleet.after(40)
    assert kinds(fleet.ask("two", "send_email", mail("alice@example.com", REPORT))) == {Kind.DUPLICATE}


def test_lobster_1524_a_reconnect_in_the_middle_of_a_call(fleet: Fleet) -> None:
    """SiderealPress/Lobster#1524: the same reply twice, 22 s apart."""
    reply = send("andy", REPORT, replyTo="msg-500")
    fleet.ask("mira", "message", reply, run="before")
    fleet.after(22)
    decision = fleet.ask("mira", "message", reply, run="after")
    assert not decision.proceed
    assert Kind.DUPLICATE in kinds(decision)


def test_tend_280_two_pull_requests_48_seconds_apart(fleet: Fleet) -> None:
    """max-sixty/tend#280: PRQL/prql#5803 and #5804 by two triggers; the check belongs at the effect."""
    tool = "mcp__github__create_pull_request"
    pull = {"owner": "PRQL", "repo": "prql", "title": "Fix the flaky test of the nightly build", "head": "fix-1", "base": "main",
            "body": "The nightly build failed because the test depends on the order of a dictionary."}  # fmt: skip
    fleet.do("trigger-1", tool, pull)
    fleet.after(48)
    decision = fleet.ask("trigger-2", tool, {**pull, "head": "fix-2"})
    assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})


def test_hive_5111_five_pull_requests_of_identical_bytes(fleet: Fleet) -> None:
    """hivecommons/hive#5111, gastownhall/beads#3575: the same payload from each agent."""
    tool = "mcp__github__create_pull_request"
    pull = {"owner": "o", "repo": "r", "title": "Add the missing retry to the uploader", "head": "x", "base": "main"}
    fleet.do("agent-0", tool, pull)
    for number in range(1, 5):
        fleet.after(60)
        assert not fleet.ask(f"agent-{number}", tool, pull).proceed


def test_commonly_889_the_same_merge_twice(fleet: Fleet) -> None:
    """Team-Commonly/commonly#889: two agents on one message 39 s apart; one merge run twice."""
    merge = {"owner": "o", "repo": "r", "pull_number": 5}
    fleet.do("one", "mcp__github__merge_pull_request", merge)
    fleet.after(50)
    decision = fleet.ask("two", "mcp__github__merge_pull_request", merge)
    assert not decision.proceed


def test_keeperhub_2207_a_transaction_is_broadcast_twice(fleet: Fleet) -> None:
    """KeeperHub/keeperhub#2207: retries of a write without an idempotency key."""
    pay = {"to": "0xabc", "amount": "1.5"}
    first = fleet.ask("keeper", "send_transaction", pay)
    fleet.gate.complete("keeper", id=first.id, result={"error": "timed out waiting for the receipt"})
    fleet.after(30)
    for who in ("keeper", "keeper-2"):
        assert fleet.ask(who, "send_transaction", pay).verdict is BLOCK


# --- 6B: work lost -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("read", "write"), [("Read", "Write"), ("read_file", "write_file")])
def test_opencrabs_954_a_file_written_from_a_stale_read(fleet: Fleet, read: str, write: str) -> None:
    """adolfousier/opencrabs#954, NousResearch/hermes-agent#65604: the other's change is gone."""
    path = {"file_path": "/repo/main.py"} if read == "Read" else {"path": "/repo/main.py"}
    fleet.do("mira", read, path)
    fleet.after(20)
    fleet.do("doug", read, path)
    fleet.do("doug", write, {**path, "content": "doug's version"})
    fleet.after(20)
    decision = fleet.ask("mira", write, {**path, "content": "mira's version"})
    assert (decision.proceed, kinds(decision)) == (False, {Kind.STALE})
    fleet.do("mira", read, path)
    assert fleet.ask("mira", write, {**path, "content": "both versions"}).proceed


def test_claude_code_47905_twenty_subagents_update_one_tracking_file(fleet: Fleet) -> None:
    """anthropics/claude-code#47905: each writes what it read before the others wrote."""
    path = {"file_path": "/repo/progress.md"}
    for number in range(20):
        fleet.do(f"sub-{number}", "Read", path, parent="main")
    fleet.after(1)
    fleet.do("sub-0", "Write", {**path, "content": "0 done"}, parent="main")
    fleet.after(1)
    for number in range(1, 20):
        decision = fleet.ask(f"sub-{number}", "Write", {**path, "content": f"{number} done"}, parent="main")
        assert (decision.proceed, kinds(decision)) == (False, {Kind.STALE})


def test_claude_code_87243_shared_scratch_names(fleet: Fleet) -> None:
    """anthropics/claude-code#87243: one session's pr-body.md is published by the other."""
    path = {"file_path": "/tmp/pr-body.md"}
    fleet.do("one", "Write", {**path, "content": "The body of pull request one"})
    fleet.after(30)
    decision = fleet.ask("two", "Write", {**path, "content": "The body of pull request two"})
    assert (decision.proceed, kinds(decision)) == (False, {Kind.STALE})


def test_agentic_dev_team_1571_a_sibling_reverts_a_file_twice(fleet: Fleet) -> None:
    """bdfinst/agentic-dev-team#1571: an edit by who has not seen the change."""
    path = {"file_path": "/repo/app.py"}
    for who in ("one", "two"):
        fleet.do(who, "Read", path)
    fleet.after(5)
    for _ in range(2):
        fleet.do("one", "Edit", {**path, "old_string": "a", "new_string": "b"})
        fleet.after(5)
        assert not fleet.ask("two", "Edit", {**path, "old_string": "b", "new_string": "a"}).proceed
        fleet.after(5)


# --- 6C: the gate itself --------------------------------------------------------------------------------


def test_autonomous_dev_1620_a_pattern_that_never_ends(tmp_path: Path, fleet: Fleet) -> None:
    """akaszubski/autonomous-dev#1620: a command of 174 characters took 8.6 s, and every gate was skipped."""
    rules = tmp_path / "tiers.json"
    rules.write_text('{"rules": [{"tool": "Bash", "tier": 3, "commandPattern": "(a+)+$"}]}')
    fleet.gate.rules = Rulebook(rules)
    decision = fleet.ask("mira", "Bash", {"command": "a" * 100_000 + "!"})
    assert decision.verdict is ALLOW


def test_omnigent_536_an_error_is_not_an_allow() -> None:
    """omnigent-ai/omnigent#536, harinipsamy/wellness-planning#337: the gate is away, grave calls do not run."""
    assert [fallback(tier).proceed for tier in range(5)] == [True, True, True, False, False]


def test_gen_code_441_an_allow_does_not_skip_a_deny(fleet: Fleet) -> None:
    """genai-io/gen-code#441: what the agent says never lowers what the rules say."""
    for said in ({"_tier": 0}, {"_contextKey": "harmless"}):
        decision = fleet.ask("mira", "gateway", {"action": "config.apply", **said})
        assert decision.tier == 4


# --- 6D: what must pass --------------------------------------------------------------------------------


def test_nanoclaw_2506_an_acknowledgement_and_then_the_answer(fleet: Fleet) -> None:
    """nanoclaw#2506: deduplication by destination and window drops real replies."""
    fleet.do("mira", "message", send("andy", "on it", replyTo="msg-500"))
    fleet.after(40)
    fleet.do("mira", "message", send("andy", REPORT, replyTo="msg-500"))


def test_nanoclaw_2506_two_sessions_talk_in_one_channel(fleet: Fleet) -> None:
    fleet.do("mira", "message", send("#general", "I will look at the failing build of this morning"))
    fleet.do("doug", "message", send("#general", "The garden party is moved to the eighth because of the rain"))
    fleet.do("mira", "message", send("#general", "It was the disk of the builder, which is full again"))


def test_openclaw_cliq_114_identical_commands(fleet: Fleet) -> None:
    """sprintberlin/openclaw-cliq#114, automagik-dev/omni#867: short texts mean nothing by being repeated."""
    for who in ("mira", "doug", "mira", "doug"):
        fleet.do(who, "message", send("#ops", "/status"))
        fleet.after(60)
    for text in ("ok", "yes", "thanks", "done"):
        for who in ("mira", "doug"):
            fleet.do(who, "message", send("#ops", text))


def test_orbit_407_an_answer_outlives_its_lease(fleet: Fleet) -> None:
    """Noveum/orbit#407: an expired lease repeated a write that was already made."""
    first = fleet.do("mira", "send_email", mail("alice@example.com", REPORT), call_id="toolu_9")
    fleet.after(3600)
    again = fleet.ask("mira", "send_email", mail("alice@example.com", REPORT), call_id="toolu_9")
    assert (again.id, again.repeated) == (first.id, True)


def test_kirodotcrew_11200_nobody_answered_is_not_denied(fleet: Fleet) -> None:
    """kirodotdev/KiroCrew#11200: a timeout came back as "User denied", six times in one session."""
    blocked = fleet.ask("doug", "gateway", {"action": "config.apply"})
    assert blocked.proceed
    blocked = fleet.ask("mira", "gateway", {"action": "config.apply"})
    assert blocked.verdict is BLOCK
    fleet.after(4000)
    report = fleet.gate.deny(4711)
    assert not report.ok
    assert "denied" not in (fleet.ask("mira", "gateway", {"action": "config.apply"}).warning or "").lower()


def test_agent_config_1341_every_session_on_one_branch(fleet: Fleet) -> None:
    """event4u-app/agent-config#1341: what is shared by all collides with nothing by itself."""
    for number in range(10):
        fleet.do(f"session-{number}", "Bash", {"command": "git status"}, cwd="/repo")
        fleet.do(f"session-{number}", "Read", {"file_path": "/repo/README.md"})
        fleet.do(f"session-{number}", "Write", {"file_path": f"/repo/{number}.py", "content": "x"})


def test_claude_code_76727_worktrees_by_the_target_of_the_write(fleet: Fleet) -> None:
    """anthropics/claude-code#76727: keyed on the path that is written, not on the working folder."""
    fleet.do("one", "Write", {"file_path": "/worktrees/a/app.py", "content": "x"}, cwd="/repo")
    fleet.do("two", "Write", {"file_path": "/worktrees/b/app.py", "content": "y"}, cwd="/repo")
    assert not fleet.ask("two", "Write", {"file_path": "../worktrees/a/app.py", "content": "y"}, cwd="/repo").proceed


def test_other_recipients_get_the_same_newsletter(fleet: Fleet) -> None:
    """sonichi/sutando#3742: deduplication that looks at the text alone is not a valid one."""
    for number in range(5):
        fleet.do(f"session-{number % 2}", "send_email", mail(f"reader{number}@example.com", REPORT))
        fleet.after(2)


def test_a_mail_by_shell_meets_a_mail_by_shell(fleet: Fleet) -> None:
    """dotdevdotdev/agentwire-dev#457: the path through the shell is gated too."""
    fleet.do("one", "exec", {"command": SMTP})
    fleet.after(30)
    decision = fleet.ask("two", "exec", {"command": SMTP})
    assert (decision.tier, decision.context_key, decision.proceed) == (3, "email:alice@example.com", False)
