"""Test the real Codex CLI behind the gate: its sessions' calls, its models' input, and the journal."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from callosum.sockets import socket_path
from tests.e2e.codex.conftest import CodexHome
from tests.e2e.home import until
from tests.e2e.models import Model, ToolUse, Turn
from tests.support.standing import impostor

MakeHome = Callable[..., CodexHome]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

STALE = "and this session has not read it since"
MAIL = "himalaya message send 'To: bob@example.com, is noon on Friday all right for lunch?'"


def shell(command: str, **more: Any) -> ToolUse:
    return ToolUse("exec_command", {"cmd": command, **more})


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))


def change(old: str, new: str) -> str:
    return patch("*** Update File: a.txt", "@@", f"-{old}", f"+{new}")


def overtaken(home: CodexHome, scripted: Model, act: Callable[[str], ToolUse]) -> tuple[str, str]:
    """Let two sessions read a file, and the second change it before the first. Return the text both models read."""
    (home.project / "a.txt").write_text("one\n")
    written = threading.Event()
    look = shell("cat a.txt")
    first = home.begin(scripted.script("first", [look], Turn([act("first")], after=written)))
    scripted.wait("first", 1)
    second = home.begin(scripted.script("second", [look], [act("second")], Turn([shell("ls")], after=written)))
    scripted.wait("second", 2)
    assert first.lives
    assert second.lives
    written.set()
    first.end()
    second.end()
    return scripted.heard("first"), scripted.heard("second")


def test_second_session_on_one_file_is_notified(home: CodexHome, scripted: Model) -> None:
    one, other = overtaken(home, scripted, lambda who: shell(f"echo {who} > a.txt"))
    assert (home.project / "a.txt").read_text() == "second\n"
    assert STALE in one
    assert "[Callosum]" not in other
    # The host does not wait for a report, which may arrive after the next call's decision.
    assert sorted(map(sorted, home.outcomes("Bash").values()), key=len) == [
        ["allow", "confirm", "done"],
        ["allow"] * 3 + ["done"] * 3,
    ]


def test_patch_conflicts_by_the_files_in_it(make_home: MakeHome, scripted: Model) -> None:
    home = make_home("gpt-5.5")  # one that has ``apply_patch``
    home.gated()
    one, other = overtaken(home, scripted, lambda who: ToolUse("apply_patch", {}, change("one", who)))
    assert (home.project / "a.txt").read_text() == "second\n"
    # The host does not wait for a report; until it arrives the change counts as running.
    assert "a.txt" in one.partition("[Callosum] Conflict:")[2][:300]
    assert "[Callosum]" not in other
    assert sorted(home.outcomes("apply_patch").values(), key=len) == [["confirm"], ["allow", "done"]]


def test_patch_beside_anothers_change_runs_merged(make_home: MakeHome, scripted: Model) -> None:
    home = make_home("gpt-5.5")
    home.gated()
    file = home.project / "a.txt"
    file.write_text("".join(f"line {number}\n" for number in range(9)))
    changed = threading.Event()
    look = shell("cat a.txt")
    mine = patch("*** Update File: a.txt", "@@", " line 1", " line 2", "-line 3", "+mine")
    first = home.begin(
        scripted.script("first", [look], Turn([ToolUse("apply_patch", {}, mine)], after=changed), [shell("ls")])
    )
    scripted.wait("first", 1)
    theirs = patch("*** Update File: a.txt", "@@", "-line 1", "+theirs")
    home.run(scripted.script("second", [look], [ToolUse("apply_patch", {}, theirs)]))
    until(lambda: [*home.outcomes("apply_patch").values()] == [["allow", "done"]], "its report, for which nobody waits")
    changed.set()
    first.end()
    assert file.read_text().splitlines() == ["line 0", "theirs", "line 2", "mine", *(f"line {n}" for n in range(4, 9))]
    assert "were merged into this call's text" in scripted.heard("first")
    assert sorted(map(sorted, home.outcomes("apply_patch").values())) == [["allow", "done"], ["done", "warn"]]


def test_failed_patch_holds_nothing_after_its_turn(make_home: MakeHome, scripted: Model) -> None:
    home = make_home("gpt-5.5")
    home.gated()
    home.run(scripted.script("alone", [ToolUse("apply_patch", {}, change("that is not in it", "x"))]))
    assert "verification failed" in scripted.heard("alone"), "Codex has no event for that"
    assert list(home.outcomes("apply_patch").values()) == [["allow", "unknown"]]
    stops = [entry["event"] for entry in home.journal()]
    assert stops.index("complete") < len(stops) - 1, "with the turn, before the session's end"


def test_nested_calls_of_a_script_are_decided_each(make_home: MakeHome, scripted: Model) -> None:
    home = make_home("gpt-6-sol")  # one that writes scripts instead of calls
    home.gated()
    script = """
        const say = async (name, call) => { try { text(name + ": " + JSON.stringify(await call)) } catch (e) { text(name + " failed: " + e) } };
        await say("file", tools.exec_command({cmd: "echo made > made.txt"}));
        await say("waiting", tools.exec_command({cmd: "bash", tty: true}));
        await say("patch", tools.apply_patch(PATCH));
    """.replace("PATCH", json.dumps(patch("*** Add File: patched.txt", "+by a script")))
    home.run(scripted.script("alone", [ToolUse("exec", {}, script)]))
    assert (home.project / "made.txt").read_text() == "made\n"
    assert (home.project / "patched.txt").read_text() == "by a script\n"
    assert "waiting failed" in scripted.heard("alone")
    assert "take its commands from what is typed" in scripted.heard("alone")
    assert list(home.outcomes("Bash").values()) == [["allow", "done"]]
    assert list(home.outcomes("apply_patch").values()) == [["allow", "done"]]


def test_shell_that_would_wait_for_input_is_refused(home: CodexHome, scripted: Model) -> None:
    home.run(scripted.script("alone", [shell("bash", tty=True)], [shell("bash -lc 'echo begun > made.txt'")]))
    assert "take its commands from what is typed" in scripted.heard("alone")
    assert (home.project / "made.txt").read_text() == "begun\n"
    refused = [entry["body"] for entry in home.journal() if entry.get("body", {}).get("what") == "refused call"]
    assert [body["params"]["tool"] for body in refused] == ["Bash"]


def test_long_command_is_reported_when_it_ends(home: CodexHome, scripted: Model) -> None:
    path = home.project / "a.txt"
    long = "echo begun > a.txt; while [ ! -e go ]; do sleep 0.1; done; echo ended >> a.txt"
    reached = threading.Event()
    session = home.begin(
        scripted.script(
            "alone",
            [shell(long, yield_time_ms=250)],
            Turn([shell("touch go")], after=reached),
            [shell("until grep -q ended a.txt; do sleep 0.1; done", yield_time_ms=30_000)],
            [ToolUse("write_stdin", {"session_id": "the first", "chars": "", "yield_time_ms": 250})],
        )
    )
    scripted.wait("alone", 1)
    assert list(home.outcomes("Bash").values()) == [["allow"]]
    other = home.begin(scripted.script("other", [shell("echo other > a.txt")]))
    other.end()
    assert "[Callosum]" in scripted.heard("other"), "it is held while the command runs"
    reached.set()
    session.end()
    assert path.read_text() == "begun\nended\n"


def test_without_the_gate_reads_continue_and_no_mail_is_sent(home: CodexHome, scripted: Model) -> None:
    sent, dead = home.mailer(), threading.Event()
    (home.project / "a.txt").write_text("what stands in it\n")
    prompt = scripted.script(
        "alone", [shell("ls")], Turn([shell("cat a.txt")], after=dead), [shell(MAIL)], [shell("echo still here")]
    )
    session = home.begin(prompt)
    scripted.wait("alone", 1)
    home.kill_gate()
    with impostor(socket_path(home.state), lambda channel: None):  # no other gate can start, and this one is silent
        dead.set()
        session.end()
    heard = scripted.heard("alone")
    assert "what stands in it" in heard
    assert "The gate is unreachable" in heard
    assert "still here" in heard
    assert not sent.exists()


def test_equal_mail_is_sent_once(home: CodexHome, scripted: Model) -> None:
    sent = home.mailer()
    home.run(scripted.script("first", [shell(MAIL)]))
    assert len(sent.read_text().splitlines()) == 1
    home.run(scripted.script("second", [shell(MAIL)]))
    assert len(sent.read_text().splitlines()) == 1
    assert "bob@example.com" in scripted.heard("second")
    assert "[Callosum]" in scripted.heard("second")


def test_session_gets_a_brief_at_its_start(home: CodexHome, scripted: Model) -> None:
    home.mailer()
    home.run(scripted.script("first", [shell(MAIL)]))
    home.run(scripted.script("second", [shell("ls")]))
    first_request = next(body for name, body in scripted.asked if name == "second")
    told = [
        item for item in first_request["input"] if item.get("role") == "developer" and "bob@example.com" in str(item)
    ]
    assert told


def test_sub_agent_is_gated_as_a_session_of_its_own(home: CodexHome, scripted: Model) -> None:
    sent, done = home.mailer(), threading.Event()
    home.run(scripted.script("first", [shell(MAIL)]))
    work = scripted.script("child", [shell(MAIL)], [shell("ls")])
    spawn = ToolUse("multi_agent_v1.spawn_agent", {"message": work})
    parent = home.begin(scripted.script("parent", [spawn], Turn([shell("ls")], after=done)))
    scripted.wait("child", 2)
    done.set()
    parent.end()
    assert len(sent.read_text().splitlines()) == 1
    begun = next(body for name, body in scripted.asked if name == "child")
    assert str(begun["input"]).count("What other sessions are doing") == 1
    assert "Command blocked by PreToolUse hook: [Callosum] Conflict" in scripted.heard("child")
    assert "[Callosum] Conflict" not in scripted.heard("parent")
    verdicts = home.outcomes("Bash")
    (child,) = [name for name in verdicts if name.count(":") == 1]
    assert child.split(":")[0] in verdicts
    assert verdicts[child][:3] == ["confirm", "allow", "done"]


def test_without_the_entries_nothing_is_gated(home: CodexHome, scripted: Model) -> None:
    home.callosum("uninstall", "codex", "--yes")
    one, _ = overtaken(home, scripted, lambda who: shell(f"echo {who} > a.txt"))
    assert (home.project / "a.txt").read_text() == "first\n"
    assert "[Callosum]" not in one
    assert home.journal() == []


def test_untrusted_hooks_are_skipped_and_codex_reports_them(make_home: MakeHome, scripted: Model) -> None:
    home = make_home()
    home.callosum("install", "codex", "--yes")
    assert {hook["trustStatus"] for hook in home.hooks()} == {"untrusted"}
    one, _ = overtaken(home, scripted, lambda who: shell(f"echo {who} > a.txt"))
    assert "[Callosum]" not in one
    assert home.journal() == []
    home.words = (*home.words, "--dangerously-bypass-hook-trust")
    one, _ = overtaken(home, scripted, lambda who: shell(f"echo {who} > a.txt"))
    assert STALE in one
    home.trust()
    assert {hook["trustStatus"] for hook in home.hooks()} == {"trusted"}
    path = home.config.parent / "hooks.json"
    path.write_text(path.read_text().replace('"timeout": 25', '"timeout": 24'))
    assert "modified" in {hook["trustStatus"] for hook in home.hooks()}


def test_project_hooks_work_alone_and_beside_the_users(make_home: MakeHome, scripted: Model) -> None:
    home = make_home()
    home.callosum("install", "codex", "--project", str(home.project), "--yes")
    home.trust()
    one, _ = overtaken(home, scripted, lambda who: shell(f"echo {who} > a.txt"))
    assert STALE in one
    bare, sent = home.config.read_text().partition("\n[hooks.state")[0], home.mailer()
    home.config.write_text(bare)
    home.gated()
    home.run(scripted.script("both", [shell(MAIL)]))
    assert len(sent.read_text().splitlines()) == 1
    assert "[Callosum] Conflict" not in scripted.heard("both")
    assert list(home.outcomes("Bash").values())[-1] == ["allow", "done"], "asked twice, it is one action"


def test_gate_frees_the_leases_of_a_killed_session(home: CodexHome, scripted: Model) -> None:
    sleeping = shell("himalaya message send 'To: bob@example.com, lunch at noon?' && sleep 1000")
    home.mailer()
    session = home.begin(scripted.script("first", [sleeping]))
    until((home.folder / "sent").exists, "the mail goes out")
    session.process.kill()
    session.process.communicate()
    home.run(scripted.script("second", [shell(MAIL.replace("noon on Friday", "one on Monday"))]))
    heard = scripted.heard("second")
    assert "never reported" in heard
    assert "has an active action" not in heard
