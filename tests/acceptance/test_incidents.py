"""What went wrong elsewhere because sessions did not know of one another, told to the gate.

Each test, or row of a table, is named after a report (repository and number); ``SEEN_BY`` has them by their number
in the list of reports, and ``NOT_SEEN`` says why a gate cannot see the others. The rules are the ones that ship; the
host pauses, as all hosts do that can show a warning only by not running the tool.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum.gate import LocalGate
from callosum.model import Call, Decision, Kind, State, Verdict, Worktree
from callosum.policy.table import fallback
from callosum.rulebook import Rulebook
from callosum.settings import Settings
from callosum.stores.memory import MemoryStore
from callosum.testing import ManualClock
from tests.acceptance.command import run
from tests.support.world import gate_time, kinds

ALLOW, WARN, CONFIRM, ASK, BLOCK = Verdict
REPORT = "The nightly report is ready: twelve jobs ran, none of them failed, the longest took an hour."
SHORT = "All good tonight, see the summary in the usual place for what was running."
SMTP = "curl --url smtps://mail.example.com --mail-from me@example.com --mail-rcpt alice@example.com -T mail.txt"


class Fleet:
    """Sessions of one agent behind one gate, with methods named as in the reports."""

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


PULL = "mcp__github__create_pull_request"
BEAD = {"owner": "gastownhall", "repo": "beads", "base": "main"}
TWICE: dict[str, tuple[str, dict[str, Any], dict[str, Any], str, float, Kind]] = {
    # openclaw/openclaw#10061: the copies differ only in their timestamps and share one origin
    "openclaw_10061": ("message", send("#ops", f"[09:00:01] {REPORT}"), send("#ops", f"[09:00:02] {REPORT}"), "heartbeat-17", 1, Kind.DUPLICATE),
    # openclaw/openclaw#40178: a short summary by one path, the full text by another; one run
    "openclaw_40178": ("message", send("#ops", SHORT), send("#ops", REPORT), "cron-run-5", 3, Kind.DUPLICATE),
    # agentmail-to/agentmail-mcp#49, MervinPraison/PraisonAI#4621: two sessions, one mail each
    "agentmail_mcp_49": ("send_email", mail("alice@example.com", REPORT), mail("alice@example.com", REPORT), "", 40, Kind.DUPLICATE),
    # max-sixty/tend#280: PRQL/prql#5803 and #5804 by two triggers; the check belongs at the effect
    "tend_280": (PULL, TEND := {"owner": "PRQL", "repo": "prql", "title": "Fix the flaky test of the nightly build", "head": "fix-1", "base": "main",
        "body": "The nightly build failed because the test depends on the order of a dictionary."}, {**TEND, "head": "fix-2"}, "", 48, Kind.DUPLICATE),
    # gastownhall/beads#3575, #3570: two near-identical pull requests, #114 and #115
    "beads_3570": (PULL, {**BEAD, "head": "one", "title": "Show the age of a bead in the list",
        "body": "Adds a column with the age of each bead, sorted with the oldest on top, and a test of the order."},
        {**BEAD, "head": "two", "title": "Show a bead's age in the list",
        "body": "This adds a column with the age of each bead, sorted with the oldest at the top, and tests the order."}, "", 600, Kind.DUPLICATE),
    # Team-Commonly/commonly#889: 39 s apart, each in its own words
    "commonly_889": ("message", send("#team", "I have merged it and told the customer."),
        send("#team", "Merging now; will inform them when it is out."), "message-31", 39, Kind.DUPLICATE),
    # Team-Commonly/commonly#889: two agents on one message; one merge run twice
    "commonly_889_merge": ("mcp__github__merge_pull_request", MERGE := {"owner": "o", "repo": "r", "pull_number": 5}, MERGE, "", 50, Kind.STALE),
    # anthropics/claude-code#87243: one session's pr-body.md is published by the other
    "claude_code_87243": ("Write", {"file_path": __file__, "content": "The body of pull request one"},
        {"file_path": __file__, "content": "The body of pull request two"}, "", 30, Kind.STALE),
}  # fmt: skip
"""Reports of two sessions that do the same: the tool, both params, the origin, the seconds between, the kind."""


@pytest.mark.parametrize(("tool", "first", "second", "origin", "seconds", "kind"), TWICE.values(), ids=TWICE)
def test_second_session_is_stopped(
    fleet: Fleet, tool: str, first: dict[str, Any], second: dict[str, Any], origin: str, seconds: float, kind: Kind
) -> None:
    fleet.do("one", tool, first, origin=origin or None)
    fleet.after(seconds)
    decision = fleet.ask("two", tool, second, origin=origin or None)
    assert (decision.proceed, kinds(decision)) == (False, {kind})


IN_ONE_FOLDER: dict[str, str] = {
    # anthropics/claude-code#90943: one session commits the index as it was before the other session's commit
    "claude_code_90943": "one git add app.py && git diff --cached / two git status / two git add -A && git commit -m 'x'"
    " / one! git commit -m 'my work'",
    # #95355: 600 lines and another session's 86 files lost; with a bare ``git stash`` and ``git stash pop`` in one folder
    "claude_code_95355": "one git stash / two! git stash pop / one write src/app.py / two! git reset --hard",
    "claude_code_95355_takes": "one edit src/app.py / two! git stash / three git stash push src/other.py",
    # #60295, #90146, #95244, #71433: the branch is switched in another's working folder
    "claude_code_60295": "one git status / two git checkout other-branch / one! git commit -am 'on my branch'",
    # kent-tokyo/chematic#218, OmniRoute#5955, claude-power-pack#1056: refs/stash is one stack
    "chematic_218": "one@/wt/a git -C /repo stash push / two@/wt/b! cd /repo && git stash pop",
    # alvarolobato/inmo-tool#581: ``pkill -f`` killed a sibling's dev server
    "inmo_tool_581": "one@/wt/a npm run dev & / two@/wt/b! pkill -f 'npm run dev'",
    # Embassy-of-the-Free-Mind/sourcelibrary-v2#2343: ``git restore`` wipes unstaged work without a trace
    "sourcelibrary_2343": "one edit src/app.py / two! git restore . / three! git checkout -- src/app.py",
    # SirAllap/agentglass#118, obra/superpowers#597: worktrees race one migration, and a server takes another's port
    "agentglass_118_database": "one@/wt/a psql postgres://localhost:5432/app -c 'ALTER TABLE users ADD COLUMN age int'"
    " / two@/wt/b! psql postgres://localhost:5432/app -c 'ALTER TABLE users DROP COLUMN age'",
    "agentglass_118_port": "one@/wt/a python -m http.server 8000 & / two@/wt/b! fuser -k 8000/tcp",
    # bdfinst/agentic-dev-team#1571: an edit by a session that has not seen the change
    "agentic_dev_team_1571": "one read app.py / two read app.py / one edit app.py / two! edit app.py / one edit app.py"
    " / two! edit app.py",
    # anthropics/claude-code#28922, #29217, #28988, #29008: read, changed and written by each, without a lock
    "claude_code_28922": "one read a.json / two read a.json / three read a.json / one write a.json / two! write a.json"
    " / three! write a.json",
    # cyrusagents/cyrus#1465: 232 of 234 overlaps in one worktree were both writing the same files or git
    "cyrus_1465": "one read app.py / two read app.py / one edit app.py / two! multi app.py",
}
"""Reports of sessions on one machine: what each does, a minute apart; ``!`` marks what must not run."""


@pytest.mark.parametrize("story", IN_ONE_FOLDER.values(), ids=IN_ONE_FOLDER)
def test_session_that_would_undo_anothers_work_is_stopped(fleet: Fleet, story: str) -> None:
    for step in story.split(" / "):
        who, line = step.split(" ", 1)
        name, _, cwd = who.rstrip("!").partition("@")
        verb, path = line.split(" ", 1)
        edit = {"old_string": "a", "new_string": name}
        calls: dict[str, tuple[str, dict[str, Any]]] = {
            "read": ("Read", {"file_path": f"/repo/{path}"}),
            "write": ("Write", {"file_path": f"/repo/{path}", "content": name}),
            "edit": ("Edit", {"file_path": f"/repo/{path}", **edit}),
            "multi": ("MultiEdit", {"file_path": path, "edits": [edit]}),
        }
        tool, params = calls.get(verb, ("Bash", bash(line)))
        decision = fleet.ask(name, tool, params, cwd=cwd or "/repo")
        assert decision.proceed is (who[-1] != "!"), (step, decision.warning)
        assert not decision.proceed or fleet.gate.complete(name, id=decision.id).ok
        fleet.after(60)


def test_openclaw_56643_one_heartbeat_in_every_session(fleet: Fleet) -> None:
    """openclaw/openclaw#56643: it fires per session, all into one channel."""
    fleet.do("heartbeat-1", "message", send("#ops", REPORT))
    for number in range(2, 8):
        fleet.after(300)
        decision = fleet.ask(f"heartbeat-{number}", "message", send("#ops", REPORT))
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

    Without call ids the first retry is paused; a loop that retries blindly after that confirms itself.
    """
    tool = "mcp__google_workspace__send_gmail_message"
    fleet.ask("mira", tool, mail("alice@example.com", REPORT), call_id=None)
    fleet.after(2)
    decision = fleet.ask("mira", tool, mail("alice@example.com", REPORT), call_id=None)
    assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})


def test_email_mcp_62_a_retried_send_looks_like_a_new_mail(fleet: Fleet) -> None:
    """codefuturist/email-mcp#62: a fresh Message-ID each time; the call id distinguishes them."""
    first = fleet.ask("mira", "send_email", mail("alice@example.com", REPORT), call_id="toolu_1")
    again = fleet.ask("mira", "send_email", mail("alice@example.com", REPORT), call_id="toolu_1")
    assert (again.id, again.repeated) == (first.id, True)


def test_lobster_1524_a_reconnect_in_the_middle_of_a_call(fleet: Fleet) -> None:
    """SiderealPress/Lobster#1524: the same reply twice, 22 s apart."""
    reply = send("andy", REPORT, replyTo="msg-500")
    fleet.ask("mira", "message", reply, run="before")
    fleet.after(22)
    decision = fleet.ask("mira", "message", reply, run="after")
    assert not decision.proceed
    assert Kind.DUPLICATE in kinds(decision)


def test_hive_5111_five_pull_requests_of_identical_bytes(fleet: Fleet) -> None:
    """hivecommons/hive#5111, gastownhall/beads#3575: the same payload from each agent."""
    tool = "mcp__github__create_pull_request"
    pull = {"owner": "o", "repo": "r", "title": "Add the missing retry to the uploader", "head": "x", "base": "main"}
    fleet.do("agent-0", tool, pull)
    for number in range(1, 5):
        fleet.after(60)
        assert not fleet.ask(f"agent-{number}", tool, pull).proceed


def test_keeperhub_2207_a_transaction_is_broadcast_twice(fleet: Fleet) -> None:
    """KeeperHub/keeperhub#2207: retries of a write without an idempotency key."""
    pay = {"to": "0xabc", "amount": "1.5"}
    first = fleet.ask("keeper", "send_transaction", pay)
    fleet.gate.complete("keeper", id=first.id, result={"error": "timed out waiting for the receipt"})
    fleet.after(30)
    for who in ("keeper", "keeper-2"):
        assert fleet.ask(who, "send_transaction", pay).verdict is BLOCK


def test_openclaw_106444_one_result_is_one_visible_message(fleet: Fleet) -> None:
    """openclaw/openclaw#106444: by the tool, as the final reply, by a mirror and by the resumed turn."""
    fleet.do("mira/chat", "message", send("#ops", REPORT), origin="turn-9")
    for path, text in (("final-reply", f"Here it is. {REPORT}"), ("mirror", SHORT), ("resumed", REPORT)):
        fleet.after(2)
        decision = fleet.ask(f"mira/{path}", "message", send("#ops", text), origin="turn-9")
        assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})


def test_openclaw_84332_a_parallel_session_answers_the_same_message(fleet: Fleet) -> None:
    """openclaw/openclaw#84332: the heartbeat spawns a live session that captures the user's messages."""
    fleet.do("live", "message", send("andy", "Yes, I moved the meeting to noon.", replyTo="msg-4"), origin="msg-4")
    fleet.after(20)
    other = send("andy", "No, the meeting stays where it was, nothing has changed.", replyTo="msg-4")
    decision = fleet.ask("heartbeat", "message", other, origin="msg-4")
    assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})
    fleet.after(3600)  # and an hour later, in other words, and not as a reply
    fleet.do("live", "message", send("andy", "I have also told Bob about it."), origin="msg-4")
    assert not fleet.ask("heartbeat", "message", send("andy", "Bob should know about this."), origin="msg-4").proceed


def test_openclaw_143787_the_last_reply_is_delivered_again(fleet: Fleet) -> None:
    """openclaw/openclaw#143787: a heartbeat with nothing to say re-delivers the last final reply, 3 of 3."""
    fleet.do("mira/chat", "message", send("andy", REPORT))
    for number, text in enumerate((REPORT, f"Hi Andy, {REPORT}", f"{REPORT}\n-- \nyour assistant")):
        fleet.after(900)
        decision = fleet.ask(f"mira/heartbeat-{number}", "message", send("andy", text))
        assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})


def test_openclaw_78264_a_restart_and_a_retry_after_compaction(fleet: Fleet) -> None:
    """openclaw/openclaw#78264: the chat gets repeats, the session's history shows one."""
    fleet.ask("mira", "message", send("andy", REPORT), run="before")  # it died before it could report
    fleet.after(15)
    decision = fleet.ask("mira", "message", send("andy", REPORT), run="after")
    assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})


def test_multica_6947_a_second_task_for_one_issue(fleet: Fleet) -> None:
    """multica-ai/multica#6947: self-assignment spawns an unaware task; anolisa#2518 and #2519 for one issue."""
    tool = "mcp__github__create_pull_request"
    first = {"owner": "o", "repo": "anolisa", "title": "Retry the upload", "head": "a", "base": "main",
             "body": "The uploader gives up after the first timeout; it tries three times now."}  # fmt: skip
    other = {"owner": "o", "repo": "anolisa", "title": "Make uploads robust", "head": "b", "base": "main",
             "body": "Wraps the client in a helper with backoff, because a lost packet ended the job."}  # fmt: skip
    fleet.do("task-1", tool, first, origin="issue-2511")
    fleet.after(300)
    decision = fleet.ask("task-2", tool, other, origin="issue-2511")
    assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})
    fleet.after(6 * 86_400)
    assert not fleet.ask("task-3", tool, {**other, "head": "c"}, origin="issue-2511").proceed


def test_claude_code_91353_two_executions_on_one_ticket(fleet: Fleet) -> None:
    """anthropics/claude-code#91353: duplicate and contradictory comments of one background agent that ran twice."""
    tool = "mcp__jira__add_comment"
    one = {"issue_key": "OPS-7", "comment": "The fault is fixed in the release of tonight, the ticket can be closed."}
    fleet.do("run-1", tool, one, origin="OPS-7")
    fleet.after(30)
    same = {**one, "comment": "Hi team, the fault is fixed in the release of tonight; the ticket can be closed."}
    assert kinds(fleet.ask("run-2", tool, same)) == {Kind.DUPLICATE}
    against = {**one, "comment": "I could reproduce the fault, the release does not contain what was promised."}
    decision = fleet.ask("run-2", tool, against, origin="OPS-7")
    assert (decision.proceed, kinds(decision)) == (False, {Kind.DUPLICATE})


def test_stella_1136_sessions_that_share_one_login(fleet: Fleet) -> None:
    """macanderson/stella#1136, #5134: three pull requests in 12 minutes; a claim by login distinguishes nobody."""
    tool = "mcp__github__create_pull_request"
    pull = {"owner": "o", "repo": "r", "base": "main", "author": "stella-bot"}
    told = []
    for number, title in enumerate(("Fix the crash on empty input", "Handle empty input", "Do not crash on nothing")):
        params = {
            **pull,
            "title": title,
            "head": f"fix-{number}",
            "body": f"By way of {title.lower()}, in my own words.",
        }
        told.append(fleet.ask(f"stella/{number}", tool, params, origin="issue-5134").proceed)
        fleet.after(240)
    assert told == [True, False, False]


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
    """anthropics/claude-code#47905: each writes what it had read before the others wrote."""
    path = {"file_path": "/repo/progress.md"}
    for number in range(20):
        fleet.do(f"sub-{number}", "Read", path, parent="main")
    fleet.after(1)
    fleet.do("sub-0", "Write", {**path, "content": "0 done"}, parent="main")
    fleet.after(1)
    for number in range(1, 20):
        decision = fleet.ask(f"sub-{number}", "Write", {**path, "content": f"{number} done"}, parent="main")
        assert (decision.proceed, kinds(decision)) == (False, {Kind.STALE})


def test_agentic_dev_team_1571_a_commit_sweeps_in_what_the_other_has_staged(fleet: Fleet) -> None:
    """bdfinst/agentic-dev-team#1571: a first commit with four files of three other agents in it."""
    fleet.do("one", "Bash", bash("git add src/one.py src/two.py"), cwd="/repo")
    fleet.after(20)
    for command in ("git commit -m 'mine'", "git add src/three.py && git commit -m 'mine'", "git commit -am 'mine'"):
        assert not fleet.ask("two", "Bash", bash(command), cwd="/repo", call_id=command).proceed
        fleet.after(700)
        fleet.do("one", "Bash", bash("git add src/one.py"), cwd="/repo")
        fleet.after(20)
    fleet.do(
        "three", "Bash", bash("git commit -m 'mine' src/three.py"), cwd="/repo"
    )  # the command names the files it takes


def bash(command: str) -> dict[str, Any]:
    return {"command": command}


def test_chematic_218_worktrees_in_folders_that_tell_nothing(fleet: Fleet) -> None:
    """kent-tokyo/chematic#218: the host sends what its disk says about a folder with the call."""
    one, two = (Worktree(f"/home/u/{name}", "/home/u/app") for name in ("fix", "try"))
    fleet.do("one", "Bash", bash("git stash"), cwd="/home/u/fix", worktree=one)
    fleet.do("two", "Bash", bash("git stash"), cwd="/home/u/try/src", worktree=two)
    fleet.after(60)
    assert not fleet.ask("one", "Bash", bash("git stash pop"), cwd="/home/u/fix", worktree=one).proceed
    fleet.do("two", "Bash", bash("git commit -am 'mine'"), cwd="/home/u/try", worktree=two)
    fleet.do("one", "Bash", bash("git commit -am 'mine'"), cwd="/home/u/fix", worktree=one)


def test_ai_employee_548_three_runs_migrate_one_workspace(fleet: Fleet) -> None:
    """greeves89/AI-Employee#548: racing ``prisma migrate dev`` and ``next build`` of one identity."""
    migrate = bash("npx prisma migrate dev --name add_users")
    fleet.ask("employee", "Bash", migrate, cwd="/repo/app", run="run-1")
    fleet.after(5)
    assert not fleet.ask("employee", "Bash", migrate, cwd="/repo/app", run="run-2").proceed
    assert not fleet.ask("employee-2", "Bash", bash("npx prisma migrate dev"), cwd="/repo/app", run="run-3").proceed


def test_ai_employee_548_two_builds_in_one_folder(fleet: Fleet) -> None:
    """greeves89/AI-Employee#548: another session writes the output of a running ``next build``; then the build ends."""
    for command in ("npx next build", "npm run build", "make"):
        folder = f"/repo/{len(command)}"
        running = fleet.ask("employee-1", "Bash", bash(command), cwd=folder)
        fleet.after(5)
        assert not fleet.ask("employee-2", "Bash", bash(command), cwd=folder).proceed
        assert fleet.gate.complete("employee-1", id=running.id).ok
        fleet.after(5)
        for who in ("employee-3", "employee-1", "employee-3"):
            fleet.do(who, "Bash", bash(command), cwd=folder)
            fleet.after(5)


def test_agentglass_118_worktrees_race_a_migration(fleet: Fleet) -> None:
    """SirAllap/agentglass#118, obra/superpowers#597: the database is none of the worktrees' own."""
    fleet.do("one", "Bash", bash("alembic upgrade head"), cwd="/repo/.worktrees/one")
    fleet.after(20)
    assert not fleet.ask("two", "Bash", bash("alembic upgrade head"), cwd="/repo/.worktrees/two").proceed
    elsewhere = Worktree("/home/u/three", "/repo")
    assert not fleet.ask("three", "Bash", bash("alembic upgrade head"), cwd="/home/u/three", worktree=elsewhere).proceed
    fleet.do("four", "Bash", bash("alembic upgrade head"), cwd="/another/repo")


def test_claude_code_7443_a_check_that_is_too_strict_teaches_to_go_around_it(fleet: Fleet) -> None:
    """anthropics/claude-code#7443, #8216, #12981: "File has been unexpectedly modified", again and again."""
    path = {"file_path": "/repo/app.py"}
    for number in range(5):  # a session's own edits, while others only read
        fleet.do("mira", "Read", path)
        fleet.do("doug", "Read", path)
        fleet.do("mira", "Edit", {**path, "old_string": f"{number}", "new_string": f"{number + 1}"})
        fleet.do("mira", "Edit", {**path, "old_string": f"{number + 1}", "new_string": "x"})
        fleet.after(5)
    fleet.do("doug", "Read", path)  # the same bytes again, by a formatter that another session ran
    fleet.do("mira", "Write", {**path, "content": "as it stands"})
    fleet.after(5)
    fleet.do("doug", "Write", {**path, "content": "as it stands"})
    fleet.after(5)
    fleet.do("mira", "Read", path)
    fleet.do("mira", "Write", {**path, "content": "and on"})
    fleet.after(5)
    first = fleet.ask("doug", "Edit", {**path, "old_string": "a", "new_string": "b"})
    assert kinds(first) == {Kind.STALE}
    fleet.after(5)  # notified once, the session continues
    fleet.do("doug", "Edit", {**path, "old_string": "a", "new_string": "b"})
    fleet.do("doug", "Edit", {**path, "old_string": "b", "new_string": "c"})


def test_autonomous_dev_1620_a_pattern_that_never_ends(tmp_path: Path, fleet: Fleet) -> None:
    """akaszubski/autonomous-dev#1620: a command of 174 characters took 8.6 s, and every gate was skipped."""
    rules = tmp_path / "tiers.json"
    rules.write_text('{"rules": [{"tool": "Bash", "tier": 3, "commandPattern": "(a+)+$"}]}')
    fleet.gate.rules = Rulebook(rules)
    decision = fleet.ask("mira", "Bash", {"command": "a" * 100_000 + "!"})
    assert decision.verdict is ALLOW


def test_omnigent_536_an_error_is_not_an_allow() -> None:
    """omnigent-ai/omnigent#536, harinipsamy/wellness-planning#337: without the gate, risky calls do not run."""
    assert [fallback(tier).proceed for tier in range(5)] == [True, True, True, False, False]


def test_gen_code_441_an_allow_does_not_skip_a_deny(fleet: Fleet) -> None:
    """genai-io/gen-code#441: hints of the agent never lower the tier that the rules give."""
    for said in ({"_tier": 0}, {"_contextKey": "harmless"}):
        decision = fleet.ask("mira", "gateway", {"action": "config.apply", **said})
        assert decision.tier == 4


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
    """sprintberlin/openclaw-cliq#114, automagik-dev/omni#867: a repeated short text proves nothing."""
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
    """event4u-app/agent-config#1341: a branch that all sessions share causes no conflict by itself."""
    for number in range(10):
        fleet.do(f"session-{number}", "Bash", {"command": "git status"}, cwd="/repo")
        fleet.do(f"session-{number}", "Read", {"file_path": "/repo/README.md"})
        fleet.do(f"session-{number}", "Write", {"file_path": f"/repo/{number}.py", "content": "x"})


def test_claude_code_76727_worktrees_by_the_target_of_the_write(fleet: Fleet, tmp_path: Path) -> None:
    """anthropics/claude-code#76727: the key is the path that is written, not the working folder."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "app.py").write_text("x")
    repo = str(tmp_path / "repo")
    fleet.do("one", "Write", {"file_path": str(tmp_path / "a" / "app.py"), "content": "x"}, cwd=repo)
    fleet.do("two", "Write", {"file_path": str(tmp_path / "b" / "app.py"), "content": "y"}, cwd=repo)
    assert not fleet.ask("two", "Write", {"file_path": "../a/app.py", "content": "y"}, cwd=repo).proceed


def test_other_recipients_get_the_same_newsletter(fleet: Fleet) -> None:
    """sonichi/sutando#3742: deduplication by the text alone is wrong."""
    for number in range(5):
        fleet.do(f"session-{number % 2}", "send_email", mail(f"reader{number}@example.com", REPORT))
        fleet.after(2)


def test_a_mail_by_shell_meets_a_mail_by_shell(fleet: Fleet) -> None:
    """dotdevdotdev/agentwire-dev#457: the path through the shell is gated too."""
    fleet.do("one", "exec", {"command": SMTP})
    fleet.after(30)
    decision = fleet.ask("two", "exec", {"command": SMTP})
    assert (decision.tier, decision.context_key, decision.proceed) == (3, "email:alice@example.com", False)


def test_nanoclaw_2506_two_answers_of_one_session_to_one_message(fleet: Fleet) -> None:
    """nanoclaw#2506: one message may cause several messages of one session."""
    for text in ("On it, give me a minute.", REPORT, "One more thing: the disk of the builder is nearly full."):
        fleet.do("mira", "message", send("andy", text), origin="msg-500")
        fleet.after(30)
    fleet.do("mira", "message", {"action": "react", "target": "andy", "emoji": "ok"}, origin="msg-500")
    fleet.do("doug", "message", {"action": "react", "target": "andy", "emoji": "ok"}, origin="msg-500")


def test_sutando_3742_different_senders_in_one_room(fleet: Fleet) -> None:
    """sonichi/sutando#3742: two people write the same and each gets an answer; two accounts write the same."""
    answer = "Yes, the office is open today from nine to five."
    for number in range(2):
        fleet.do(f"session-{number}", "message", send("room", answer, replyTo=f"msg-{number}"), origin=f"msg-{number}")
        fleet.after(5)
    text = "I will be in the office today, ask me anything about the move."
    fleet.do("one", "message", send("room", text, accountId="anna"))
    fleet.do("two", "message", send("room", text, accountId="bert"))
    assert not fleet.ask("three", "message", send("room", text, accountId="anna")).proceed


def test_openclaw_cliq_123_a_benign_repeat_is_no_error(fleet: Fleet) -> None:
    """sprintberlin/openclaw-cliq#123: a call delivered twice gets one decision twice; its report counts once."""
    params = send("#ops", REPORT)
    first = fleet.ask("mira", "message", params, call_id="delivery-1", dispatch="d")
    again = fleet.ask("mira", "message", params, call_id="delivery-1", dispatch="d")
    assert (again.id, again.verdict, again.repeated) == (first.id, ALLOW, True)
    assert fleet.gate.complete("mira", id=first.id).ok
    second = fleet.gate.complete("mira", id=first.id)
    assert (second.state, bool(second.note)) == ("done", True)
    fleet.after(3600)
    late = fleet.ask("mira", "message", params, call_id="delivery-1", dispatch="d")
    assert (late.proceed, late.state, late.verdict) == (False, State.DONE, Verdict.BLOCK), "it is not sent twice"
    assert "already done at" in (late.warning or "")


@pytest.mark.parametrize(
    ("tool", "params", "more"),
    [
        ("set_status", {"user_id": 7, "status": "away for the rest of the day"}, {}),
        ("update_ticket", {"ticket_id": 7, "title": "The uploader gives up after the first timeout"}, {}),
        ("Bash", {"command": "git push origin topic"}, {"cwd": "/repo"}),
        ("write", {"path": "/a.md", "content": "the same words in the same file"}, {}),
        ("delete_message", {"message_id": 7}, {}),
        ("create_record", {"kind": "visit", "text": "a visit of the office in the old town"}, {"annotations": {"idempotentHint": True}}),
    ],
)  # fmt: skip
def test_harmless_repeat_is_no_duplicate(fleet: Fleet, tool: str, params: dict[str, Any], more: dict[str, Any]) -> None:
    for who in ("mira", "doug", "mira"):
        assert Kind.DUPLICATE not in kinds(fleet.ask(who, tool, params, **more))
        fleet.after(300)


def test_idempotent_hint_is_ignored_for_tools_whose_repeat_others_notice(fleet: Fleet) -> None:
    """A mail tool that its author declares idempotent still sends two mails."""
    hint: dict[str, Any] = {"annotations": {"idempotentHint": True}}
    for tool, params in (
        ("send_email", mail("a@example.com", REPORT)),
        ("post_message", {"channel": "x", "text": REPORT}),
    ):
        fleet.do("mira", tool, params, **hint)
        fleet.after(60)
        assert Kind.DUPLICATE in kinds(fleet.ask("doug", tool, params, **hint))


def test_same_origin_counts_for_seven_days_and_for_one_key(fleet: Fleet) -> None:
    fleet.do("one", "message", send("#ops", REPORT), origin="cron-5")
    fleet.do("two", "message", send("#other", SHORT), origin="cron-5")  # another channel is another action
    fleet.after(6 * 86_400)
    assert kinds(fleet.ask("three", "message", send("#ops", SHORT), origin="cron-5")) == {Kind.DUPLICATE}
    fleet.after(2 * 86_400)
    fleet.do("four", "message", send("#ops", SHORT), origin="cron-5")


def test_same_origin_is_detected_across_processes(tmp_path: Path) -> None:
    """One process sends a summary and another the full text minutes later; the stored origin shows the duplicate."""

    def say(who: str, text: str, origin: str) -> dict[str, Any]:
        call = {"instance": who, "tool": "message", "params": send("#ops", text), "origin": origin, "pause": True}
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "intercept", "params": call})
        shown = run(tmp_path / "state", "stdio", text=line + "\n")
        assert shown.returncode == 0, shown.stderr
        answers = [json.loads(one) for one in shown.stdout.splitlines()]
        (answer,) = [one["result"] for one in answers if one.get("id") == 1]
        found: dict[str, Any] = answer
        return found

    assert say("wake", SHORT, "cron-run-5")["proceed"]
    told = say("announce", REPORT, "cron-run-5")
    assert (told["proceed"], told["verdict"]) == (False, "confirm")
    assert [one["kind"] for one in told["conflicts"]] == ["duplicate"]
    assert say("announce", "Another report altogether: the builder was moved to the new rack.", "cron-run-6")["proceed"]
    assert say("wake", "And once more, with what was missing in the first one.", "cron-run-5")["proceed"]


SEEN_BY: dict[int, str] = {
    1: "openclaw_56643", 2: "openclaw_10061", 3: "openclaw_40178", 4: "openclaw_27018", 5: "openclaw_102367",
    6: "openclaw_106444", 7: "openclaw_84332", 8: "openclaw_12053", 9: "openclaw_110853", 10: "openclaw_143787",
    11: "openclaw_78264", 12: "google_workspace_mcp_997", 13: "email_mcp_62", 14: "agentmail_mcp_49",
    15: "lobster_1524", 16: "tend_280", 17: "multica_6947", 18: "claude_code_91353", 19: "stella_1136",
    20: "hive_5111", 21: "beads_3570", 22: "commonly_889", 23: "keeperhub_2207", 24: "claude_code_90943",
    25: "claude_code_95355", 26: "claude_code_60295", 27: "chematic_218", 28: "sourcelibrary_2343",
    29: "claude_code_47905", 30: "claude_code_87243", 31: "agentic_dev_team_1571", 32: "claude_code_28922",
    33: "opencrabs_954", 34: "ai_employee_548", 35: "agentglass_118", 36: "cyrus_1465", 37: "claude_code_7443",
    47: "nanoclaw_2506", 48: "openclaw_cliq_114", 49: "sutando_3742", 50: "openclaw_cliq_123", 51: "orbit_407",
    52: "kirodotcrew_11200", 53: "agent_config_1341",
}  # fmt: skip
"""The reports of 6A, 6B and 6D by their numbers, with the beginning of the test that tells them."""
NOT_SEEN: dict[int, str] = {
    19: "a part: #5700, a guard of theirs that was inert where gh is absent, is not at this gate",
    27: "a part: which programs a pattern of pkill fits is known to the system alone",
    31: "a part: a commit that sweeps in what others have staged is seen; what others have only edited is not, where "
    "`git add -A` takes it: a key that met every edit would make every reader of the folder stale",
    35: "a part: two worktrees whose settings name two databases are told of one another all the same, and two folders "
    "that are no worktrees of one repository are not: which database a migration speaks to stands in their settings",
    53: "a part: coven-cave#4534, a guard of theirs that skipped worktrees; ours goes by the path that is written",
}
"""What of them a gate cannot see, and why."""


def test_every_incident_report_has_a_test() -> None:
    assert sorted(SEEN_BY) == [*range(1, 38), *range(47, 54)]
    tests = [*TWICE, *IN_ONE_FOLDER, *(name.removeprefix("test_") for name in globals() if name.startswith("test_"))]
    assert [name for name in SEEN_BY.values() if not any(test.startswith(name) for test in tests)] == []
    assert set(NOT_SEEN) <= set(SEEN_BY)
