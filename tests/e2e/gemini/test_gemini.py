"""Test the real Gemini CLI behind the gate: its sessions' calls, its models' input, and the journal."""

import json
import threading
from typing import Any

import pytest

from callosum.sockets import socket_path
from tests.e2e.gemini.conftest import SETTINGS, GeminiHome
from tests.e2e.models import Model, ToolUse, Turn
from tests.support.standing import impostor

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

STALE = "and this session has not read it since"
MAIL = "himalaya message send 'To: bob@example.com, is noon on Friday all right for lunch?'"


def shell(command: str, **more: Any) -> ToolUse:
    return ToolUse("run_shell_command", {"command": command, "description": "work", **more})


def read(path: str) -> ToolUse:
    return ToolUse("read_file", {"file_path": path})


def write(path: str, content: str) -> ToolUse:
    return ToolUse("write_file", {"file_path": path, "content": content})


def overtaken(home: GeminiHome, scripted: Model) -> tuple[str, str]:
    """Let two sessions read a file, and the second write it before the first. Return the text both models read."""
    (home.project / "a.txt").write_text("one\n")
    written = threading.Event()
    first = home.begin(scripted.script("first", [read("a.txt")], Turn([write("a.txt", "first\n")], after=written)))
    scripted.wait("first", 1)
    second = home.begin(
        scripted.script("second", [read("a.txt")], [write("a.txt", "second\n")], Turn([shell("ls")], after=written))
    )
    scripted.wait("second", 2)
    assert first.lives
    assert second.lives
    written.set()
    first.end()
    second.end()
    return scripted.heard("first"), scripted.heard("second")


def test_second_session_on_one_file_is_notified(home: GeminiHome, scripted: Model) -> None:
    one, other = overtaken(home, scripted)
    assert (home.project / "a.txt").read_text() == "second\n"
    assert "Tool execution blocked: [Callosum]" in one
    assert STALE in one
    assert "[Callosum]" not in other
    assert sorted(home.outcomes("write_file").values(), key=len) == [["confirm"], ["allow", "done"]]
    assert list(home.outcomes("read_file").values()) == [["allow", "done"]] * 2


def test_write_over_anothers_change_runs_merged_and_both_are_notified(home: GeminiHome, scripted: Model) -> None:
    text = "".join(f"line {number}\n" for number in range(30))
    file = home.project / "plan.md"
    file.write_text(text)
    written, told = threading.Event(), threading.Event()
    mine, theirs = text.replace("line 20\n", "mine\n"), text.replace("line 3\n", "theirs\n")
    first = home.begin(scripted.script("first", [read("plan.md")], Turn([write("plan.md", mine)], after=written)))
    scripted.wait("first", 1)
    again = theirs.replace("line 10\n", "again\n")
    second = home.begin(
        scripted.script("second", [read("plan.md")], [write("plan.md", theirs)], Turn([write("plan.md", again)], told))
    )
    scripted.wait("second", 2)
    written.set()
    first.end()
    assert file.read_text() == theirs.replace("line 20\n", "mine\n")
    told.set()
    second.end()
    assert file.read_text() == again.replace("line 20\n", "mine\n")
    assert "were merged into this call's text" in scripted.heard("first")
    assert "wrote the file merged with this session's change" in scripted.heard("second")
    assert sorted(home.outcomes("write_file").values(), key=len) == [
        ["warn", "done"],
        ["allow", "done", "warn", "done"],
    ]


def test_project_hooks_work_alone_and_beside_the_users(bare: GeminiHome, scripted: Model) -> None:
    sent = bare.mailer()
    bare.callosum("install", "gemini", "--project", str(bare.project), "--yes")
    bare.run(scripted.script("untrusted", [shell("ls")]))
    assert bare.journal() == [], "the project's hooks wait for the folder to be trusted"
    bare.environ["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    bare.run(scripted.script("project", [shell("ls")]))
    assert [*bare.outcomes("run_shell_command").values()] == [["allow", "done"]]
    bare.callosum("install", "gemini", "--yes")
    bare.run(scripted.script("both", [shell(MAIL)]))
    assert len(sent.read_text().splitlines()) == 1
    assert "[Callosum] Conflict" not in scripted.heard("both")
    assert [*bare.outcomes("run_shell_command").values()][-1] == ["allow", "done"], "asked twice, it is one action"


def test_without_the_entries_nothing_is_gated(home: GeminiHome, scripted: Model) -> None:
    home.callosum("uninstall", "gemini", "--yes")
    assert json.loads(home.settings.read_text()) == SETTINGS
    one, _ = overtaken(home, scripted)
    assert (home.project / "a.txt").read_text() == "first\n"
    assert "[Callosum]" not in one
    assert home.journal() == []


def test_without_the_gate_reads_continue_and_no_mail_is_sent(home: GeminiHome, scripted: Model) -> None:
    sent, dead = home.mailer(), threading.Event()
    (home.project / "a.txt").write_text("what stands in it\n")
    prompt = scripted.script(
        "alone", [shell("ls")], Turn([read("a.txt")], after=dead), [shell(MAIL)], [shell("echo still here")]
    )
    session = home.begin(prompt)
    scripted.wait("alone", 1)
    home.kill_gate()
    with impostor(
        socket_path(home.state), lambda channel: None
    ):  # no other gate can start, and this one does not answer
        dead.set()
        session.end()
    heard = scripted.heard("alone")
    assert "what stands in it" in heard
    assert "Tool execution blocked: [Callosum] The gate is unreachable" in heard
    assert "Output: still here" in heard
    assert not sent.exists()


def test_equal_mail_is_sent_once_and_a_session_gets_a_brief(home: GeminiHome, scripted: Model) -> None:
    sent = home.mailer()
    home.run(scripted.script("first", [shell(MAIL)]))
    assert len(sent.read_text().splitlines()) == 1
    home.run(scripted.script("second", [shell(MAIL)]))
    assert len(sent.read_text().splitlines()) == 1
    assert "Tool execution blocked: [Callosum]" in scripted.heard("second")
    begun = next(body for name, body in scripted.asked if name == "second")
    assert "bob@example.com" in json.dumps(begun["contents"])


def test_warning_reaches_the_model_with_the_result(home: GeminiHome, scripted: Model) -> None:
    """A session stopped twice by the same neighbour is only warned the third time, and the call runs."""
    sent = home.mailer()
    mails = [[shell(f"himalaya message send 'To: bob@example.com, {text}'")] for text in ("one", "two", "three")]
    goes = [threading.Event() for _ in range(2)]
    busy = scripted.script("busy", mails[0], *(Turn(mail, after=go) for mail, go in zip(mails[1:], goes, strict=True)))
    stopped = [threading.Event() for _ in range(3)]
    other = [[shell(f"himalaya message send 'To: bob@example.com, {text}'")] for text in ("uno", "due", "tre")]
    polite = scripted.script("polite", *(Turn(mail, after=go) for mail, go in zip(other, stopped, strict=True)))
    one, two = home.begin(busy), home.begin(polite)
    for place in range(3):
        scripted.wait("busy", place + 1)
        stopped[place].set()
        scripted.wait("polite", place + 1)
        if place < len(goes):
            goes[place].set()
    one.end()
    two.end()
    assert len(sent.read_text().splitlines()) == 4
    asked = next(body for name, body in reversed(scripted.asked) if name == "polite")
    said = json.dumps(asked["contents"][-1])
    assert "Tool execution blocked" not in said
    assert "<hook_context>[Callosum]" in said
    assert "bob@example.com" in said


def test_equal_simultaneous_calls_are_reported_each(home: GeminiHome, scripted: Model) -> None:
    home.run(scripted.script("alone", [shell("echo a"), shell("echo a"), shell("exit 3")]))
    (what,) = home.outcomes("run_shell_command").values()
    assert sorted(what) == ["allow"] * 3 + ["done"] * 3


def test_failed_call_causes_no_conflict(home: GeminiHome, scripted: Model) -> None:
    (home.project / "a.txt").write_text("one\n")
    change = {"file_path": "a.txt", "old_string": "not in it", "new_string": "x", "instruction": "work"}
    home.run(scripted.script("alone", [ToolUse("replace", change)]))
    assert list(home.outcomes("replace").values()) == [["allow", "failed"]]


def test_background_command_is_open_until_it_ends(home: GeminiHome, scripted: Model) -> None:
    going = threading.Event()
    wait = "echo begun > a.txt; while [ ! -e go ]; do sleep 0.1; done; echo ended >> a.txt"
    prompt = scripted.script(
        "alone",
        [shell(wait, is_background=True)],
        Turn([shell("touch go; until grep -q ended a.txt; do sleep 0.1; done; sleep 1")], after=going),
        [ToolUse("list_background_processes", {})],
        [shell("ls")],
    )
    session = home.begin(prompt)
    scripted.wait("alone", 1)
    home.run(scripted.script("other", [write("a.txt", "other\n")]))
    assert "[Callosum]" in scripted.heard("other")
    going.set()
    session.end()
    (what,) = [what for what in home.outcomes("run_shell_command").values() if what]
    assert what == ["allow", "allow", "done", "done", "allow", "done"], "the list of what runs said that it has ended"
    assert (home.project / "a.txt").read_text() == "begun\nended\n"


def test_command_may_name_its_own_folder(home: GeminiHome, scripted: Model) -> None:
    (home.project / "sub").mkdir()
    home.run(scripted.script("alone", [shell("echo x > a.txt", dir_path="sub")]))
    assert (home.project / "sub" / "a.txt").read_text() == "x\n"
    keys = [key for entry in home.journal() for key, _ in entry.get("keys") or ()]
    assert keys == [f"file:{home.project}/sub/a.txt"] * 2
