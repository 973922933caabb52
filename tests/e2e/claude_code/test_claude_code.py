"""Test the real Claude Code, installed from its registry, with a model scripted by the test."""

import json
import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Tokens
from callosum.sockets import socket_path
from tests.e2e.claude_code.conftest import SECONDS, ClaudeMachine, bash
from tests.e2e.models import ToolUse, Turn
from tests.support.certificates import certificate_in
from tests.support.serving import serving, until
from tests.support.standing import impostor

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
SENTENCE = "and this session has not read it since"


def write(path: Path, content: str) -> ToolUse:
    return ToolUse("Write", {"file_path": str(path), "content": content})


def read(path: Path) -> ToolUse:
    return ToolUse("Read", {"file_path": str(path)})


def _silent(_channel: socket.socket) -> None:
    """Accept the connection and never answer."""


MAIL = bash("printf 'To: bob@example.com\\nSubject: Lunch\\n\\nShall we meet at noon?' | himalaya message send")


def overlapping(desk: ClaudeMachine) -> str:
    """Two sessions that live at once: both read a file, the second writes it, then the first does, by the shell.

    By the shell, because Claude Code looks itself whether a file that it is to write was changed since it was read.
    Returns what stands in the file at last.
    """
    path = desk.project / "a.txt"
    path.write_text("one\n")
    written = threading.Event()
    blind = bash(f"echo by the first > {path}")
    first = desk.model.script("first", [read(path)], Turn([blind], after=written))
    second = desk.model.script("second", [read(path)], [write(path, "by the second\n")])
    one = desk.start(first)
    desk.model.wait("first", 1)
    desk.run(second)
    assert one.poll() is None, "both sessions live at once"
    written.set()
    desk.finish(one)
    return path.read_text()


def test_second_session_on_one_file_is_notified(desk: ClaudeMachine) -> None:
    assert overlapping(desk) == "by the second\n"
    heard = desk.model.heard("first")
    assert SENTENCE in heard
    assert json.dumps('did: 1 line, "by the second" (asked: "Do the work of [[second]].")')[1:-1] in heard
    assert "[Callosum] Conflict" not in desk.model.heard("second")
    assert desk.outcomes() == [("Read", "done"), ("Read", "done"), ("Write", "done")]
    stopped = [entry for entry in desk.journal("intercept") if entry["verdict"] == "confirm"]
    assert [(entry["tool"], entry["keys"]) for entry in stopped] == [
        ("Bash", [[f"file:{desk.project}/a.txt", "write"]])
    ]


TEXT = "".join(f"line {number}\n" for number in range(30))


def edit(path: Path, old: str, new: str) -> ToolUse:
    return ToolUse("Edit", {"file_path": str(path), "old_string": old, "new_string": new})


def after_another(desk: ClaudeMachine, looks: ToolUse, theirs: ToolUse, *mine: ToolUse) -> str:
    """Let two sessions read a file and the second change it. Return the text that the first gets at its next calls."""
    changed = threading.Event()
    first = desk.model.script("first", [looks], Turn(mine[:1], after=changed), *[[one] for one in mine[1:]])
    one = desk.start(first)
    desk.model.wait("first", 1)
    desk.run(desk.model.script("second", [looks], [theirs]))
    changed.set()
    desk.finish(one)
    return desk.model.heard("first")


def test_distant_edits_pass_and_a_nearby_one_shows_the_change_with_the_next_request(desk: ClaudeMachine) -> None:
    path = desk.project / "plan.md"
    path.write_text(TEXT)
    theirs = edit(path, "line 3\n", "the second's\n")
    heard = after_another(
        desk, read(path), theirs, edit(path, "line 20\n", "the first's\n"), edit(path, "line 5\n", "too near\n")
    )
    assert path.read_text() == TEXT.replace("line 3\n", "the second's\n").replace("line 20\n", "the first's\n")
    assert [entry["tool"] for entry in desk.journal("intercept") if entry["verdict"] != "allow"] == ["Edit"]
    refusal = heard.partition("[Callosum] Conflict")[2]
    assert SENTENCE in refusal
    assert r"| -line 3\n| +the second's" in refusal


def numbered(path: Path) -> ToolUse:
    """Read a whole file in a way that Claude Code does not recognise as a read; it knows ``cat`` and ``grep``."""
    return bash(f"nl -ba {path}")


def test_write_to_a_file_that_claude_code_did_not_read_runs_merged(desk: ClaudeMachine) -> None:
    path = desk.project / "plan.md"
    path.write_text(TEXT)
    theirs = write(path, TEXT.replace("line 3\n", "the second's\n"))
    mine = write(path, TEXT.replace("line 20\n", "the first's\n"))
    heard = after_another(desk, numbered(path), theirs, mine)
    assert path.read_text() == TEXT.replace("line 3\n", "the second's\n").replace("line 20\n", "the first's\n")
    assert "were merged into this call's text" in heard
    assert "+the second's" in heard
    (merged,) = json.loads(desk.callosum("merges", "--json"))["merges"]
    assert merged["lost"] == ""


def test_merge_requires_the_permission_of_the_write(desk: ClaudeMachine) -> None:
    path = desk.project / "plan.md"
    path.write_text(TEXT)
    one = numbered(path)
    theirs = bash(f"sed -i 's/line 3$/theirs/' {path}")
    changed = threading.Event()
    mine = write(path, TEXT.replace("line 20\n", "mine\n"))
    first = desk.start(desk.model.script("first", [one], Turn([mine], after=changed)), "Bash", "Read")
    desk.model.wait("first", 1)
    desk.run(desk.model.script("second", [one], [theirs]))
    changed.set()
    desk.finish(first)
    assert path.read_text() == TEXT.replace("line 3\n", "theirs\n")
    assert "requested permissions to write" in desk.model.heard("first")


def test_without_the_entries_one_session_overwrites_the_other(desk: ClaudeMachine) -> None:
    desk.callosum("uninstall", "claude-code", "--yes")
    assert overlapping(desk) == "by the first\n"
    assert "[Callosum]" not in desk.model.heard("first")


def test_second_session_is_notified_over_http(desk: ClaudeMachine) -> None:
    desk.callosum("uninstall", "claude-code", "--yes")
    with serving(desk.state) as server:
        desk.callosum("install", "claude-code", "--http", server.address, "--yes")
        assert overlapping(desk) == "by the second\n"
        assert SENTENCE in desk.model.heard("first")
        assert ("Write", "done") in desk.outcomes()
        desk.callosum("stop")


def test_second_session_is_notified_by_a_shared_server(desk: ClaudeMachine) -> None:
    cert, key = certificate_in(desk.root / "tls")
    state, token = desk.root / "server", desk.root / "token"
    token.write_text(Tokens(state / TOKENS).add("ann"))
    token.chmod(0o600)
    with serving(state, "--tls-cert", str(cert), "--tls-key", str(key)) as server:
        where = ("--url", server.address, "--token-file", str(token), "--cacert", str(cert))
        desk.callosum("install", "claude-code", "--yes", *where)
        assert overlapping(desk) == "by the second\n"
        assert SENTENCE in desk.model.heard("first")
        desk.state = state
        assert ("Write", "done") in desk.outcomes()


def test_without_the_gate_reads_continue_and_no_mail_is_sent(desk: ClaudeMachine) -> None:
    path, mark = desk.project / "a.txt", desk.mailer()
    path.write_text("what stands in it\n")
    dead = threading.Event()
    prompt = desk.model.script("alone", [bash("ls")], Turn([read(path)], after=dead), [MAIL])
    process = desk.start(prompt)
    desk.model.wait("alone", 1)
    desk.kill_gate()
    with impostor(socket_path(desk.state), _silent):  # no other gate can start, and this one does not answer
        dead.set()
        desk.finish(process)
    heard = desk.model.heard("alone")
    assert "what stands in it" in heard
    assert "The gate is unreachable" in heard
    assert not mark.exists()


def test_equal_mail_is_sent_once(desk: ClaudeMachine) -> None:
    mark = desk.mailer()
    desk.run(desk.model.script("first", [MAIL]))
    assert mark.exists()
    mark.unlink()
    desk.run(desk.model.script("second", [MAIL]))
    assert not mark.exists()
    refusal = desk.model.heard("second").partition("[Callosum] Conflict")[2]
    assert "did: " in refusal
    assert "Shall we meet at noon" in refusal.partition("did: ")[2], "it quotes the first"


def test_call_without_permission_is_cancelled(desk: ClaudeMachine) -> None:
    desk.run(desk.model.script("alone", [bash("touch made")], [bash("ls")]), "Read")
    assert not (desk.project / "made").exists(), "the hook gave no permission of its own"
    assert ("Bash", "cancelled") in desk.outcomes()


def test_failing_command_is_failed(desk: ClaudeMachine) -> None:
    desk.run(desk.model.script("alone", [bash("cp nowhere there")]))
    assert desk.outcomes() == [("Bash", "failed")]


def test_background_command_stays_open_until_it_ends(desk: ClaudeMachine) -> None:
    held = desk.root / "held"
    command = f"while [ ! -e {held} ]; do sleep 0.1; done; touch done"
    ended = threading.Event()
    started = bash(command, run_in_background=True)
    prompt = desk.model.script("alone", [started], Turn([bash("ls")], after=ended))
    process = desk.start(prompt)
    desk.model.wait("alone", 1)
    assert desk.outcomes() == []
    held.touch()
    until((desk.project / "done").exists, SECONDS)
    ended.set()
    desk.finish(process)
    assert len(desk.outcomes()) == 2


def test_settings_that_switch_the_hooks_off_take_no_effect(desk: ClaudeMachine) -> None:
    local = desk.project / ".claude" / "settings.local.json"
    path, mark = desk.project / "a.txt", desk.mailer()
    path.write_text("one\n")
    changed = threading.Event()
    prompt = desk.model.script(
        "alone", [read(path)], Turn([bash("callosum off")], after=changed), Turn([bash("git push --force origin main")])
    )
    process = desk.start(prompt)
    desk.model.wait("alone", 1)
    local.parent.mkdir(exist_ok=True)
    local.write_text('{"disableAllHooks": true}')
    until(
        lambda: [entry for entry in desk.journal("host") if entry.get("body", {}).get("what") == "refused settings"],
        SECONDS,
    )
    changed.set()
    desk.finish(process)
    assert "self-guard" in desk.model.heard("alone")
    assert not mark.exists()


def test_prompt_brings_the_brief(desk: ClaudeMachine) -> None:
    desk.mailer()
    held = threading.Event()
    one = desk.start(desk.model.script("first", [MAIL], Turn([bash("ls")], after=held)))
    desk.model.wait("first", 1)
    desk.run(desk.model.script("second", [bash("ls")]))
    held.set()
    desk.finish(one)
    told = desk.model.heard("second")
    brief = told.partition("What other sessions are doing and did recently")[2]
    assert "email:bob@example.com" in brief
    assert "Do the work of [[first]]." in brief.partition("asked: ")[2], "it says what for"


def test_sub_agent_acts_under_its_own_name(desk: ClaudeMachine) -> None:
    path = desk.project / "a.txt"
    path.write_text("one\n")
    inner = desk.model.script("inner", [read(path)])
    task = ToolUse("Agent", {"description": "look", "prompt": inner, "subagent_type": "general-purpose"})
    desk.run(desk.model.script("outer", [task], [bash("ls")]), "Bash", "Read", "Agent", "Task")
    sessions = {entry["session"] for entry in desk.journal("intercept") if entry["tool"] == "Read"}
    assert len(sessions) == 1
    assert ":" in sessions.pop(), "the parent's session and the agent's id"


def _repositories(desk: ClaudeMachine) -> Path:
    """Make a project folder with two repositories, of which ``shop`` contains a third. Pushes go to bare ones."""
    quiet = {**desk.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(folder: Path, *words: str) -> None:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        subprocess.run(["git", *who, *words], cwd=folder, env=quiet, check=True, capture_output=True, timeout=60)

    for name in ("shop", "blog", "shop/inner"):
        folder, remote = desk.project / name, desk.root / f"{name.replace('/', '-')}.git"
        folder.mkdir()
        git(desk.root, "init", "--bare", str(remote))
        git(folder, "init", "-b", "main")
        (folder / "README.md").write_text("x\n")
        git(folder, "add", "README.md")
        git(folder, "commit", "-m", "first")
        git(folder, "remote", "add", "origin", str(remote))
        git(folder, "push", "-u", "origin", "main")
    return desk.project


def test_sessions_in_nested_repositories_meet_only_in_the_shared_one(desk: ClaudeMachine) -> None:
    project = _repositories(desk)
    pushed = threading.Event()
    there = "git push --force origin main"
    first = desk.model.script(
        "first",
        [bash(f"cd shop && {there}")],
        [bash(f"cd inner && {there}")],  # the host stays in the folder that a command changed to
        Turn([bash("ls")], after=pushed),
    )
    second = desk.model.script(
        "second",
        [bash("git -C blog push --force origin main")],
        [bash(f"(cd shop/inner; {there})")],
        [bash("git -C shop/inner fetch")],
        [bash(f"(cd shop/inner; {there})")],
        [bash(f"cd {project}/blog && {there}")],
    )
    one = desk.start(first)
    desk.model.wait("first", 2)
    desk.run(second)
    assert one.poll() is None, "both sessions live at once"
    pushed.set()
    desk.finish(one)
    assert f"git:{project}/shop/inner|remote:origin/main" in desk.model.heard("second")
    assert "[Callosum]" not in desk.model.heard("first")
    calls = [(entry["verdict"], entry["keys"][0][0]) for entry in desk.journal("intercept") if entry["tier"] == 4]
    inner, blog, shop = (f"git:{project}/{name}|remote:origin/main" for name in ("shop/inner", "blog", "shop"))
    assert calls == [
        ("allow", shop),
        ("allow", inner),
        ("allow", blog),
        ("block", inner),
        ("allow", inner),
        ("allow", blog),
    ]


def test_file_in_the_home_is_one_file_in_every_spelling(desk: ClaudeMachine) -> None:
    path = desk.home / "notes.md"
    path.write_text("one\n")
    desk.run(desk.model.script("first", [bash("echo two > ~/notes.md")]))
    desk.run(desk.model.script("second", [bash(f"echo three > {path}")]))
    assert path.read_text() == "two\n"
    assert f"file:{path}" in desk.model.heard("second")
