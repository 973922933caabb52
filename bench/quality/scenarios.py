"""What went wrong elsewhere, told as data: sessions, calls, and what each call must get.

The numbers are those of the list of reports (``incidents.md``): 6A the same effect twice, 6B work lost, 6D
what must pass. ``opposites`` are not from that list: one session undoes what another has just decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

Expect = Literal["runs", "told", "passes", "repeated"]

REPORT: Final = "The nightly report is ready: twelve jobs ran, none of them failed, the longest took an hour."
SUMMARY: Final = "All good tonight, see the summary in the usual place for what was running."
INTRO: Final = "Hello, I am the assistant of the family and will help with the calendar from now on."
REPO: Final = "/srv/app"
ONE_TREE: Final = f"{REPO}/.worktrees/one"
TWO_TREE: Final = f"{REPO}/.worktrees/two"


@dataclass(frozen=True)
class Step:
    """A call. ``told``: it must not run unannounced; ``runs`` and ``passes``: it must; ``repeated``: it must get the
    answer it got before. ``outcome``: how it ends if it runs (``""``: no report, text after ``error:`` as the
    tool's error). ``after``: seconds since the step before. ``result``: what the tool brings back.
    """

    who: str
    tool: str
    params: dict[str, Any]
    expect: Expect = "runs"
    after: float = 20
    outcome: str = "done"
    more: dict[str, Any] = field(default_factory=dict)
    result: Any = None


@dataclass(frozen=True)
class Scenario:
    """``unseen``: why no gate between intent and execution can see it; it has no steps then."""

    section: Literal["6A", "6B", "6D", "opposites", "promises", "kept"]
    number: int
    report: str
    story: str
    steps: tuple[Step, ...] = ()
    unseen: str = ""

    @property
    def name(self) -> str:
        return f"{self.section}.{self.number} {self.report}"


def say(who: str, to: str, text: str, expect: Expect = "runs", *, reply: str = "", **rest: Any) -> Step:
    params = {"action": "send", "target": to, "message": text, **({"replyTo": reply} if reply else {})}
    return _step(who, "message", params, expect, rest)


def mail(who: str, to: str, text: str, expect: Expect = "runs", *, tool: str = "send_email", **rest: Any) -> Step:
    params = {"to": to, "subject": "Offer", "body": text, **rest.pop("params", {})}
    return _step(who, tool, params, expect, rest)


def bash(who: str, command: str, expect: Expect = "runs", *, cwd: str = REPO, **rest: Any) -> Step:
    return _step(who, "Bash", {"command": command}, expect, {"cwd": cwd, **rest})


def read(who: str, path: str, expect: Expect = "runs", **rest: Any) -> Step:
    return _step(who, "Read", {"file_path": path}, expect, rest)


def write(who: str, path: str, text: str, expect: Expect = "runs", **rest: Any) -> Step:
    return _step(who, "Write", {"file_path": path, "content": text}, expect, rest)


def edit(who: str, path: str, old: str, new: str, expect: Expect = "runs", **rest: Any) -> Step:
    return _step(who, "Edit", {"file_path": path, "old_string": old, "new_string": new}, expect, rest)


def do(who: str, tool: str, expect: Expect = "runs", *, step: dict[str, Any] | None = None, **params: Any) -> Step:
    return _step(who, tool, params, expect, step or {})


def _step(who: str, tool: str, params: dict[str, Any], expect: Expect, rest: dict[str, Any]) -> Step:
    after, outcome = rest.pop("after", 20), rest.pop("outcome", "done")
    return Step(who, tool, params, expect, after, outcome, rest)


def _pull(title: str, head: str, body: str) -> dict[str, Any]:
    return {"owner": "acme", "repo": "shop", "title": title, "head": head, "base": "main", "body": body}


_PULL: Final = "mcp__github__create_pull_request"
_FIX: Final = "The nightly build failed because the test depends on the order of a dictionary."
_RETRY: Final = "Uploads were lost when the connection broke. The uploader now tries again, three times, with a pause."

TWICE: Final = (
    Scenario("6A", 1, "openclaw#56643", "one heartbeat fires in every session, all into one channel", (
        say("heart-1", "#ops", REPORT),
        *(say(f"heart-{number}", "#ops", REPORT, "told", after=300) for number in range(2, 6)),
    )),
    Scenario("6A", 2, "openclaw#10061", "three gateways stamp the same heartbeat with their own time", (
        say("gateway-1", "#ops", f"[09:00:01] {REPORT}", origin="heartbeat-17"),
        say("gateway-2", "#ops", f"[09:00:02] {REPORT}", "told", after=1, origin="heartbeat-17"),
        say("gateway-3", "#ops", f"[09:00:04] {REPORT}", "told", after=2, origin="heartbeat-17"),
    )),
    Scenario("6A", 3, "openclaw#40178", "one cron run in two texts, by two paths", (
        say("wake", "#ops", SUMMARY, origin="cron-run-5"),
        say("announce", "#ops", REPORT, "told", after=3, origin="cron-run-5"),
    )),
    Scenario("6A", 4, "openclaw#27018", "a job's result is announced by two code paths within 11 s", (
        say("path-1", "#ops", REPORT, outcome=""),
        say("path-2", "#ops", REPORT, "told", after=11),
    )),
    Scenario("6A", 5, "openclaw#102367", "the identical report again 3.2 s later, the first outcome unknown", (
        say("announce", "#ops", REPORT, outcome="error:connection reset by peer"),
        say("mirror", "#ops", REPORT, "told", after=3.2),
        say("announce", "#ops", REPORT, "told", after=1),
    )),
    Scenario("6A", 6, "openclaw#106444", "one logical result by message.send, final reply and a resumed turn", (
        say("mira", "andy", SUMMARY, reply="msg-9", origin="msg-9", run="turn-1"),
        say("mira-mirror", "andy", REPORT, "told", reply="msg-9", origin="msg-9", run="turn-1", after=2),
        say("mira-resumed", "andy", REPORT, "told", reply="msg-9", origin="msg-9", run="turn-2", after=5),
    )),
    Scenario("6A", 7, "openclaw#84332", "a heartbeat's parallel session answers the same message otherwise", (
        say("live", "andy", "The meeting with the bank stays on Tuesday as planned.", reply="msg-40"),
        say("heart", "andy", "I have moved the bank to Friday, you had two dates.", "told", reply="msg-40", after=9),
    )),
    Scenario("6A", 8, "openclaw#12053", "webhooks of 17 h ago are replayed after a restart", (
        say("before", "aunt", INTRO, origin="webhook-4"),
        *(say(f"replay-{number}", "aunt", INTRO, "told", after=17 * 3600 if not number else 1, origin="webhook-4")
          for number in range(4)),
    )),
    Scenario("6A", 9, "openclaw#110853", "sent late, reported as failed by a timeout, sent again", (
        say("mira", "alice", REPORT, reply="msg-7", outcome="error:timeout after 30 s"),
        say("mira", "alice", REPORT, "told", reply="msg-7", after=5),
        say("doug", "alice", REPORT, "told", reply="msg-7", after=5),
    )),
    Scenario("6A", 10, "openclaw#143787", "a heartbeat delivers the last final reply again", (
        say("mira", "andy", REPORT, reply="msg-3"),
        say("mira/heartbeat", "andy", REPORT, "told", reply="msg-3", after=600),
    )),
    Scenario("6A", 11, "openclaw#78264", "a restart with a retry sends again; the history shows one", (
        say("mira", "andy", REPORT, outcome="", run="before"),
        say("mira", "andy", REPORT, "told", run="after", after=12),
    )),
    Scenario("6A", 12, "google_workspace_mcp#997", "a send that is not idempotent is tried again", (
        mail("mira", "alice@example.com", REPORT, tool="mcp__google_workspace__send_gmail_message", call_id=None,
             outcome=""),
        mail("mira", "alice@example.com", REPORT, "told", tool="mcp__google_workspace__send_gmail_message",
             call_id=None, after=2),
    )),
    Scenario("6A", 13, "email-mcp#62", "a retried send has a fresh Message-ID", (
        mail("mira", "alice@example.com", REPORT, params={"message_id": "<a1@example.com>"}, outcome=""),
        mail("mira", "alice@example.com", REPORT, "told", params={"message_id": "<b2@example.com>"}, after=4),
    )),
    Scenario("6A", 14, "agentmail-mcp#49", "no idempotency key: two sessions, two mails", (
        mail("one", "alice@example.com", REPORT),
        mail("two", "alice@example.com", REPORT, "told", after=40),
    )),
    Scenario("6A", 15, "Lobster#1524", "the transport reconnects in the middle of a call", (
        say("mira", "andy", REPORT, reply="msg-500", run="before", outcome=""),
        say("mira", "andy", REPORT, "told", reply="msg-500", run="after", after=22),
    )),
    Scenario("6A", 16, "tend#280", "two triggers, two pull requests 48 s apart", (
        do("trigger-1", _PULL, **_pull("Fix the flaky test of the nightly build", "fix-1", _FIX)),
        do("trigger-2", _PULL, "told", step={"after": 48},
           **_pull("Fix the flaky test of the nightly build", "fix-2", _FIX)),
    )),
    Scenario("6A", 17, "multica#6947", "two tasks of one issue, two pull requests in other words", (
        do("task-1", _PULL, step={"origin": "issue-2518"}, **_pull("Retry uploads", "retry", _RETRY)),
        do("task-2", _PULL, "told", step={"origin": "issue-2518", "after": 400},
           **_pull("Make the uploader survive broken connections", "robust-upload", "Adds a back-off.")),
    )),
    Scenario("6A", 18, "claude-code#91353", "two executions of one background agent on one ticket", (
        do("bg-1", "mcp__jira__add_comment", issue_key="SHOP-7", comment=REPORT),
        do("bg-2", "mcp__jira__add_comment", "told", issue_key="SHOP-7", comment=REPORT),
    )),
    Scenario("6A", 18, "claude-code#91353 (contradicting)", "the two comment on the ticket in contradicting words", (
        do("bg-1", "mcp__jira__add_comment", issue_key="SHOP-7", step={"origin": "agent-run-3"},
           comment="The fault is in the cache, which keeps prices for a day. I will shorten that."),
        do("bg-2", "mcp__jira__add_comment", "told", issue_key="SHOP-7", step={"origin": "agent-run-3"},
           comment="Nothing is wrong with the cache; the price list itself is out of date."),
    )),
    Scenario("6A", 19, "stella#1136", "sessions that share one login take the same issue", (
        do("bot/one", _PULL, step={"origin": "issue-5134"}, **_pull("Sort the index", "index-a", _FIX)),
        do("bot/two", _PULL, "told", step={"origin": "issue-5134", "after": 240}, **_pull("Order it", "b", _RETRY)),
        do("bot/three", _PULL, "told", step={"origin": "issue-5134", "after": 240}, **_pull("Index", "c", SUMMARY)),
    )),
    Scenario("6A", 20, "hive#5111", "five pull requests of identical bytes", (
        do("agent-0", _PULL, **_pull("Add the missing retry to the uploader", "retry", _RETRY)),
        *(do(f"agent-{number}", _PULL, "told", step={"after": 60},
             **_pull("Add the missing retry to the uploader", "retry", _RETRY)) for number in range(1, 5)),
    )),
    Scenario("6A", 21, "beads#3575", "one bead, two agents, two nearly equal pull requests", (
        do("agent-1", _PULL, **_pull("Add the missing retry to the uploader", "retry-1", _RETRY)),
        do("agent-2", _PULL, "told", step={"after": 90},
           **_pull("Add the missing retry to the uploader", "bead-12", _RETRY.replace("now tries", "then tries"))),
    )),
    Scenario("6A", 22, "commonly#889", "two agents answer one message 39 s apart", (
        say("one", "andy", "I have taken the invoice to the accountant.", reply="msg-77"),
        say("two", "andy", "The accountant wants the invoice by post, I will see to it.", "told", reply="msg-77",
            after=39),
    )),
    Scenario("6A", 22, "commonly#889 (merge)", "the same merge is run twice 50 s apart", (
        do("one", "mcp__github__merge_pull_request", owner="acme", repo="shop", pull_number=5),
        do("two", "mcp__github__merge_pull_request", "told", step={"after": 50}, owner="acme", repo="shop",
           pull_number=5),
    )),
    Scenario("6A", 23, "keeperhub#2207", "a transaction without idempotency key is broadcast again", (
        do("keeper", "send_transaction", step={"outcome": "error:timed out waiting for the receipt"}, to="0xabc",
           amount="1.5"),
        do("keeper", "send_transaction", "told", step={"after": 30}, to="0xabc", amount="1.5"),
        do("keeper-2", "send_transaction", "told", step={"after": 5}, to="0xabc", amount="1.5"),
    )),
)  # fmt: skip

LOST: Final = (
    Scenario("6B", 24, "claude-code#90943", "a commit from an index that another session's commit made old", (
        bash("mira", "git add src/a.py"),
        bash("doug", "git status"),
        bash("doug", 'git add src/b.py && git commit -m "b"'),
        bash("mira", 'git commit -m "a"', "told"),
    )),
    Scenario("6B", 25, "claude-code#95355", "each pops what the other has stashed", (
        bash("mira", "git stash", cwd=ONE_TREE),
        bash("doug", "git stash", cwd=TWO_TREE),
        bash("mira", "git stash pop", "told", cwd=ONE_TREE),
    )),
    Scenario("6B", 25, "claude-code#95355 (sweep)", "a stash takes away what another session is editing", (
        edit("doug", f"{REPO}/src/a.py", "a", "b"),
        bash("mira", "git stash", "told"),
    )),
    Scenario("6B", 25, "claude-code#95355 (reset)", "a hard reset over what another session has edited", (
        edit("mira", f"{REPO}/src/a.py", "a", "b"),
        bash("doug", "git reset --hard", "told"),
    )),
    Scenario("6B", 26, "claude-code#60295", "a checkout takes the branch from under another session", (
        bash("mira", "git checkout -b feature-a"),
        bash("doug", "git checkout main", "told"),
    )),
    Scenario("6B", 27, "chematic#218", "the stash is one stack for all worktrees", (
        bash("one", "git stash", cwd=ONE_TREE),
        bash("two", "git stash pop", "told", cwd=TWO_TREE),
    )),
    Scenario("6B", 27, "chematic#218 (process)", "a process killed by name was a sibling's", (
        bash("one", "npm run dev &", cwd=ONE_TREE),
        bash("two", 'pkill -f "npm run dev"', "told", cwd=TWO_TREE),
    )),
    Scenario("6B", 28, "sourcelibrary-v2#2343", "a restore wipes what another session has not staged", (
        edit("mira", f"{REPO}/src/a.py", "a", "b"),
        bash("doug", "git restore .", "told"),
    )),
    Scenario("6B", 29, "claude-code#47905", "subagents update one tracking file from what they have read", (
        *(read(f"sub-{number}", f"{REPO}/progress.md", parent="main", after=1) for number in range(10)),
        write("sub-0", f"{REPO}/progress.md", "0 done", parent="main"),
        *(write(f"sub-{number}", f"{REPO}/progress.md", f"{number} done", "told", parent="main", after=1)
          for number in range(1, 10)),
    )),
    Scenario("6B", 30, "claude-code#87243", "one session's scratch file is written over by another", (
        write("one", "/tmp/pr-body.md", "The body of pull request one"),
        write("two", "/tmp/pr-body.md", "The body of pull request two", "told"),
    )),
    Scenario("6B", 30, "claude-code#87243 (shell)", "the same by redirection", (
        bash("one", "cat > /tmp/commit-msg.txt <<'EOF'\nFix the index\nEOF"),
        bash("two", 'echo "Close the account" > /tmp/commit-msg.txt', "told"),
    )),
    Scenario("6B", 31, "agentic-dev-team#1571", "a sibling reverts a file twice", (
        read("one", f"{REPO}/app.py"),
        read("two", f"{REPO}/app.py"),
        edit("one", f"{REPO}/app.py", "a", "b"),
        edit("two", f"{REPO}/app.py", "b", "a", "told"),
    )),
    Scenario("6B", 31, "agentic-dev-team#1571 (sweep)", "a commit sweeps in what another has staged", (
        bash("one", "git add src/one.py src/two.py"),
        bash("two", 'git commit -am "mine"', "told"),
        bash("two", 'git commit -m "mine" src/three.py'),
    )),
    Scenario("6B", 32, "claude-code#28922", "the host's own JSON is written by two processes without a lock",
             unseen="the host writes it itself: no tool is called"),
    Scenario("6B", 33, "opencrabs#954", "a file is written from a stale read", (
        do("mira", "read_file", path=f"{REPO}/main.rs"),
        do("doug", "read_file", path=f"{REPO}/main.rs"),
        do("doug", "write_file", path=f"{REPO}/main.rs", content="doug's version"),
        do("mira", "write_file", "told", path=f"{REPO}/main.rs", content="mira's version"),
    )),
    Scenario("6B", 34, "ai-employee#548", "two runs of one agent race a migration", (
        bash("agent", "npx prisma migrate dev --name add_price", run="run-1", outcome=""),
        bash("agent", "npx prisma migrate dev --name add_stock", "told", run="run-2", after=3),
    )),
    Scenario("6B", 34, "ai-employee#548 (build)", "two sessions build in one working folder", (
        bash("agent/1", "npm run build", outcome=""),
        bash("agent/2", "npm run build", "told", after=3),
    )),
    Scenario("6B", 34, "ai-employee#548 (built)", "a build that is over is in nobody's way: this must pass", (
        bash("agent/1", "npm run build"),
        bash("agent/2", "npm run build", "passes", after=3),
        bash("agent/1", "npm run build", "passes", after=3),
    )),
    Scenario("6B", 35, "agentglass#118", "two worktrees race a migration of one database", (
        bash("one", "alembic upgrade head", cwd=ONE_TREE),
        bash("two", "alembic upgrade head", "told", cwd=TWO_TREE),
    )),
    Scenario("6B", 35, "agentglass#118 (port)", "two worktrees serve on one port", (
        bash("one", "python -m http.server 8000 &", cwd=ONE_TREE),
        bash("two", "python -m http.server 8000 &", "told", cwd=TWO_TREE),
    )),
    Scenario("6B", 36, "cyrus#1465", "two sessions of one worktree edit one file", (
        read("one", f"{ONE_TREE}/src/app.ts"),
        read("two", f"{ONE_TREE}/src/app.ts"),
        edit("one", f"{ONE_TREE}/src/app.ts", "a", "b"),
        edit("two", f"{ONE_TREE}/src/app.ts", "c", "d", "told"),
    )),
    Scenario("6B", 37, "claude-code#7443", "a check that is too strict drives agents around it: these must pass", (
        read("mira", f"{REPO}/app.py"),
        edit("mira", f"{REPO}/app.py", "a", "b", "passes"),
        read("doug", f"{REPO}/app.py", "passes"),
        edit("mira", f"{REPO}/app.py", "b", "c", "passes"),
        write("mira", f"{REPO}/new.py", "x = 1\n", "passes"),
        write("doug", f"{REPO}/new.py", "x = 1\n", "passes"),
        bash("mira", "pytest -q", "passes"),
        edit("mira", f"{REPO}/app.py", "c", "d", "passes"),
    )),
)  # fmt: skip

PASSING: Final = (
    Scenario("6D", 47, "nanoclaw#2506", "an acknowledgement and then the answer", (
        say("mira", "andy", "on it", "passes", reply="msg-500"),
        say("mira", "andy", REPORT, "passes", reply="msg-500", after=40),
    )),
    Scenario("6D", 47, "nanoclaw#2506 (channel)", "two sessions talk in one channel", (
        say("mira", "#general", "I will look at the failing build of this morning", "passes"),
        say("doug", "#general", "The garden party is moved to the eighth because of the rain", "passes"),
        say("mira", "#general", "It was the disk of the builder, which is full again", "passes"),
    )),
    Scenario("6D", 48, "openclaw-cliq#114", "identical commands and short phrases", (
        *(say(who, "#ops", text, "passes", after=60)
          for text in ("/status", "ok", "thanks", "done") for who in ("mira", "doug", "mira")),
    )),
    Scenario("6D", 49, "sutando#3742", "two senders say the same in one room", (
        do("mira", "message", "passes", action="send", target="#hall", message=INTRO, accountId="anna"),
        do("doug", "message", "passes", action="send", target="#hall", message=INTRO, accountId="bert"),
    )),
    Scenario("6D", 49, "sutando#3742 (recipients)", "one newsletter to many", (
        *(mail(f"session-{number % 2}", f"reader{number}@example.com", REPORT, "passes", after=2)
          for number in range(5)),
    )),
    Scenario("6D", 50, "openclaw-cliq#123", "a repeat of one call gets its answer, no error", (
        say("mira", "#ops", REPORT, "passes", call_id="toolu_1"),
        say("mira", "#ops", REPORT, "repeated", call_id="toolu_1", after=400),
    )),
    Scenario("6D", 51, "orbit#407", "an answer outlives its lease", (
        mail("mira", "alice@example.com", REPORT, "passes", call_id="toolu_9"),
        mail("mira", "alice@example.com", REPORT, "repeated", call_id="toolu_9", after=3600),
    )),
    Scenario("6D", 52, "KiroCrew#11200", "nobody answered is not denied",
             unseen="a matter of wording: tests/acceptance/test_incidents.py holds it"),
    Scenario("6D", 53, "agent-config#1341", "every session on one branch, each with its own files", (
        *(step for number in range(6) for step in (
            bash(f"session-{number}", "git status", "passes", after=3),
            bash(f"session-{number}", "git log --oneline -5", "passes", after=3),
            read(f"session-{number}", f"{REPO}/README.md", "passes", after=3),
            write(f"session-{number}", f"{REPO}/src/{number}.py", "x", "passes", after=3),
            bash(f"session-{number}", f"pytest tests/test_{number}.py", "passes", after=3),
        )),
    )),
    Scenario("6D", 53, "coven-cave#4534", "one relative path in two worktrees is two files", (
        write("one", f"{ONE_TREE}/app.py", "x", "passes"),
        write("two", f"{TWO_TREE}/app.py", "y", "passes"),
        bash("one", 'git add -A && git commit -m "one"', "passes", cwd=ONE_TREE),
        bash("two", 'git add -A && git commit -m "two"', "passes", cwd=TWO_TREE),
    )),
    Scenario("6D", 53, "claude-code#76727", "keyed on the written path, not on the working folder", (
        write("one", f"{ONE_TREE}/app.py", "x", "passes", cwd=REPO),
        write("two", f"{TWO_TREE}/app.py", "y", "passes", cwd=REPO),
        write("two", ".worktrees/one/app.py", "y", "told", cwd=REPO),
    )),
)  # fmt: skip

OPPOSITES: Final = (
    Scenario("opposites", 1, "accept and decline", "one session accepts, the other declines", (
        do("mira", "accept_invitation", event_id="ev-7"),
        do("doug", "decline_invitation", "told", event_id="ev-7"),
    )),
    Scenario("opposites", 2, "answers in an argument", "the same by an argument", (
        do("mira", "respond_to_event", event_id="ev-7", response="accepted"),
        do("doug", "respond_to_event", "told", event_id="ev-7", response="declined"),
    )),
    Scenario("opposites", 3, "book and cancel", "a booking is cancelled by who did not make it", (
        do("mira", "book_reservation", reservation_id="R-118"),
        do("doug", "cancel_reservation", "told", reservation_id="R-118"),
    )),
    Scenario("opposites", 4, "approve and reject", "two reviews of one expense", (
        do("mira", "approve_expense", expense_id="E-9"),
        do("doug", "reject_expense", "told", expense_id="E-9"),
    )),
    Scenario("opposites", 5, "enable and disable", "a feature is switched on and off", (
        do("mira", "enable_feature", feature_id="checkout-2"),
        do("doug", "disable_feature", "told", feature_id="checkout-2"),
    )),
    Scenario("opposites", 6, "close and reopen", "an issue is closed and opened again", (
        do("mira", "close_issue", issue_number=12, owner="acme", repo="shop"),
        do("doug", "reopen_issue", "told", issue_number=12, owner="acme", repo="shop"),
    )),
    Scenario("opposites", 7, "different things", "accepting one and declining another is no contradiction", (
        do("mira", "accept_invitation", event_id="ev-7"),
        do("doug", "decline_invitation", "passes", event_id="ev-8"),
    )),
)  # fmt: skip

ALL: Final = (*TWICE, *LOST, *PASSING, *OPPOSITES)
