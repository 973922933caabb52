"""Two sessions write one file: the changes are merged, both sessions are notified, and the merge can be undone."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from callosum import Blocked, Call, LocalGate, State, Verdict, gated
from callosum.brain import Brain
from callosum.errors import ConfigError
from callosum.hosts.adapters import ADAPTERS
from callosum.loopback import read_token
from callosum.merging.merge_store import MergeRecord, bring_back
from callosum.model import Decision
from callosum.process import this_process
from callosum.server.tokens import FILE as TOKENS
from callosum.server.tokens import Tokens
from callosum.settings import Settings
from callosum.testing import ManualClock
from tests.acceptance.command import at_terminal, run
from tests.support.hooked import Hooked
from tests.support.serving import serving

TEXT = "".join(f"line {number}\n" for number in range(20))


class Session:
    """A session with guarded tools. ``told`` holds the warnings that its model got."""

    def __init__(self, gate: LocalGate, name: str) -> None:
        self.told: list[str] = []
        around: dict[str, Any] = {
            "gate": gate, "instance": name, "session": name, "pause": False, "warned": self._warned,
        }  # fmt: skip
        self.read: Callable[..., str] = gated(read_file, **around)
        self.write: Callable[..., Any] = gated(write_file, **around)
        self.edit: Callable[..., Any] = gated(edit_file, **around)

    def _warned(self, decision: Decision) -> None:
        self.told.append(decision.warning or "")


def read_file(path: str) -> str:
    return Path(path).read_text()


def write_file(path: str, content: str) -> int:
    return Path(path).write_text(content)


def edit_file(path: str, old_string: str, new_string: str) -> int:
    text = Path(path).read_text()
    assert text.count(old_string) == 1
    return Path(path).write_text(text.replace(old_string, new_string))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "plan.md"
    file.write_text(TEXT)
    return file


def test_changes_of_different_lines_are_merged_notified_and_undone(gate: LocalGate, file: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine, theirs = mira.read(str(file)), doug.read(str(file))
    doug.write(str(file), theirs.replace("line 2\n", "doug's\n"))
    mira.write(str(file), mine.replace("line 15\n", "mira's\n"))
    both = TEXT.replace("line 2\n", "doug's\n").replace("line 15\n", "mira's\n")
    assert file.read_text() == both
    assert "Changes that doug/doug made there" in mira.told[-1]
    assert "doug's" in mira.told[-1]
    # doug has not seen the merge: his next write is merged again, and says what mira did
    doug.write(str(file), theirs.replace("line 2\n", "doug's\n").replace("line 8\n", "doug again\n"))
    assert file.read_text() == both.replace("line 8\n", "doug again\n")
    assert "mira/mira" in doug.told[-1]
    assert gate.operations.writers is not None
    newest, first = gate.operations.writers.merges.all()
    assert (newest.session, first.session, first.others) == ("doug/doug", "mira/mira", ("doug/doug",))
    bring_back(newest, "before")
    assert file.read_text() == both
    bring_back(first, "before")
    assert file.read_text() == TEXT.replace("line 2\n", "doug's\n")
    bring_back(first, "proposal")
    assert file.read_text() == TEXT.replace("line 15\n", "mira's\n")


def test_brief_shows_a_merge_until_its_file_is_read(gate: LocalGate, file: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine, theirs = mira.read(str(file)), doug.read(str(file))
    doug.write(str(file), theirs.replace("line 2\n", "doug's\n"))
    with Brain(gate) as brain:
        mira.write(str(file), mine.replace("line 15\n", "mira's\n"))
        mira.write(str(file), mine.replace("line 15\n", "mira's\n").replace("line 9\n", "mira again\n"))
        assert gate.operations.writers is not None
        ids = [merged.id for merged in gate.operations.writers.merges.heads()]
        assert len(ids) == 2
        told = brain.brief("doug", "doug").text
        assert "mira/mira wrote the file merged with this session's change" in told
        assert all(f"callosum merges show {id}" in told for id in ids)
        assert "merged" not in brain.brief("mira", "mira").text
        assert "overwritten" not in told
        gate.operations.writers.merges.note_loss(gate.operations.writers.merges.all()[0], "something")
        assert "Something was overwritten then." in brain.brief("doug", "doug").text
        doug.read(str(file))
        assert "merged" not in brain.brief("doug", "doug").text


def test_journal_holds_no_line_of_a_merged_file(gate: LocalGate, file: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine, theirs = mira.read(str(file)), doug.read(str(file))
    doug.write(str(file), theirs.replace("line 2\n", "unheard-of words\n"))
    mira.write(str(file), mine.replace("line 15\n", "mira's\n"))
    assert "unheard-of words" in mira.told[-1]
    of_mira = [entry for entry in gate.entries() if entry.session == "mira/mira"]
    assert of_mira
    assert "unheard-of" not in repr(of_mira)


def test_write_to_a_line_that_another_session_changed_is_paused_and_shows_both(gate: LocalGate, file: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine, theirs = mira.read(str(file)), doug.read(str(file))
    doug.write(str(file), theirs.replace("line 2\n", "doug's\n"))
    with pytest.raises(Blocked) as paused:
        mira.write(str(file), mine.replace("line 2\n", "mira's\n"))
    assert paused.value.decision.verdict is Verdict.CONFIRM
    assert "doug's" in str(paused.value)
    assert file.read_text() == TEXT.replace("line 2\n", "doug's\n")
    mira.write(str(file), mira.read(str(file)).replace("doug's\n", "both\n"))
    assert "both\n" in file.read_text()


def test_edit_far_from_what_another_changed_is_no_conflict(gate: LocalGate, file: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mira.read(str(file)), doug.read(str(file))
    doug.edit(str(file), "line 2\n", "doug's\n")
    mira.edit(str(file), "line 6\n", "mira's\n")
    assert mira.told == []
    mira.edit(str(file), "line 5\n", "too near\n")  # two unchanged lines between it and doug's
    assert "doug/doug changed" in mira.told[-1]


def test_edit_over_an_unread_change_does_not_count_as_reading_it(gate: LocalGate, file: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine = mira.read(str(file))
    doug.read(str(file))
    doug.edit(str(file), "line 2\n", "doug's\n")
    mira.edit(str(file), "line 15\n", "mira's\n")
    mira.write(str(file), mine.replace("line 15\n", "mira's\n").replace("line 18\n", "mira again\n"))
    expected = (
        TEXT.replace("line 2\n", "doug's\n").replace("line 15\n", "mira's\n").replace("line 18\n", "mira again\n")
    )
    assert file.read_text() == expected


def test_merged_write_holds_its_file_until_its_report(gate: LocalGate, file: Path) -> None:
    mira, doug, ann = (Session(gate, name) for name in ("mira", "doug", "ann"))
    texts = [one.read(str(file)) for one in (mira, doug, ann)]
    doug.write(str(file), texts[1].replace("line 2\n", "doug's\n"))
    params = {"path": str(file), "content": texts[0].replace("line 15\n", "mira's\n")}
    running = gate.intercept(Call("mira", "write_file", params, session="mira", rewrite=True))
    assert running.merged
    assert running.lease is not None
    for write in (ann.write, doug.write):
        with pytest.raises(Blocked, match="mira/mira has an active action"):
            write(str(file), texts[2].replace("line 8\n", "ann's\n"))
    with pytest.raises(Blocked):  # notified, and still held
        ann.write(str(file), texts[2].replace("line 8\n", "ann's\n"))
    assert running.params is not None
    file.write_text(running.params["content"])
    assert gate.complete("mira", id=running.id, session="mira").state is State.DONE
    ann.write(str(file), texts[2].replace("line 8\n", "ann's\n"))
    assert file.read_text() == "".join(
        {2: "doug's\n", 8: "ann's\n", 15: "mira's\n"}.get(number, f"line {number}\n") for number in range(20)
    )


def test_write_while_another_is_still_written_is_paused(gate: LocalGate, file: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine, theirs = mira.read(str(file)), doug.read(str(file))
    params = {"path": str(file), "content": theirs.replace("line 2\n", "doug's\n")}
    running = gate.intercept(Call("doug", "write_file", params, session="doug"))
    with pytest.raises(Blocked, match="is changing"):
        mira.write(str(file), mine.replace("line 15\n", "mira's\n"))
    file.write_text(params["content"])
    gate.complete("doug", id=running.id, session="doug")
    mira.write(str(file), mine.replace("line 15\n", "mira's\n"))
    assert "doug's\n" in file.read_text()
    assert "mira's\n" in file.read_text()


def test_file_that_was_read_in_part_has_no_base(gate: LocalGate, file: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    part = gate.intercept(Call("mira", "read_file", {"path": str(file)}, session="mira"))
    gate.complete("mira", id=part.id, session="mira", result="".join(TEXT.splitlines(keepends=True)[:10]))
    theirs = doug.read(str(file))
    doug.write(str(file), theirs.replace("line 2\n", "doug's\n"))
    mira.write(str(file), TEXT.replace("line 15\n", "mira's\n"))
    assert "doug/doug changed" in mira.told[-1]
    assert "doug's" not in file.read_text()


@pytest.mark.parametrize("keeps", [True, False])
def test_journal_keeps_lines_of_a_write_only_if_the_setting_allows_it(tmp_path: Path, file: Path, keeps: bool) -> None:
    with LocalGate(settings=Settings(state=tmp_path / "state", journal_hunks=keeps)) as gate:
        mira, doug = Session(gate, "mira"), Session(gate, "doug")
        part = gate.intercept(Call("mira", "read_file", {"path": str(file)}, session="mira"))
        gate.complete("mira", id=part.id, session="mira", result="a part of it")
        theirs = doug.read(str(file)).replace("line 18\n", "doug's\ntoken = ghp_0123456789abcdefghijABCDEFGHIJ012345\n")
        doug.write(str(file), theirs)
        doug.write(str(file), theirs.replace("line 7\n", "doug's again\n"))
        file.write_text(TEXT)
        doug.write(str(file), TEXT.replace("line 7\n", "doug's third\n"))
        mira.write(str(file), TEXT)
        assert ("| +doug's third" in mira.told[-1]) is keeps
        kept = [entry.body["hunk"] for entry in gate.entries() if "hunk" in entry.body]
        assert [hunk.splitlines()[-1] for hunk in kept[:1]] == ["| +doug's third"] * keeps, (
            "the file held a secret before"
        )


def test_file_that_changed_while_it_was_read_has_no_base(gate: LocalGate, file: Path) -> None:
    doug = Session(gate, "doug")
    look = gate.intercept(Call("mira", "read_file", {"path": str(file)}, session="mira"))
    file.write_text(f"{TEXT}more\n")
    gate.complete("mira", id=look.id, session="mira", result=TEXT)
    doug.write(str(file), doug.read(str(file)).replace("line 2\n", "doug's\n"))
    decision = gate.intercept(
        Call("mira", "write_file", {"path": str(file), "content": TEXT}, session="mira", rewrite=True)
    )
    assert not decision.merged


def test_failed_proposal_is_no_base(gate: LocalGate, file: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine, theirs = mira.read(str(file)), doug.read(str(file))
    never = {"path": str(file), "content": mine.replace("line 10\n", "never written\n")}
    failed = gate.intercept(Call("mira", "write_file", never, session="mira"))
    gate.complete("mira", id=failed.id, session="mira", outcome="failed")
    doug.write(str(file), theirs.replace("line 2\n", "doug's\n"))
    mira.write(str(file), mine.replace("line 15\n", "mira's\n"))
    assert file.read_text() == TEXT.replace("line 2\n", "doug's\n").replace("line 15\n", "mira's\n")


@pytest.mark.parametrize("name", [".env", "id_rsa", "deploy.key"])
def test_file_that_looks_like_a_secret_is_not_copied(gate: LocalGate, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TEXT)
    (tmp_path / "settings.ini").write_text("password = correcthorsebattery\n")
    mira = Session(gate, "mira")
    for path in (tmp_path / name, tmp_path / "settings.ini"):
        mira.write(str(path), mira.read(str(path)))
    gate.close()
    assert not (tmp_path / "state" / "snapshots").exists()


def test_copies_are_private(gate: LocalGate, file: Path, tmp_path: Path) -> None:
    Session(gate, "mira").read(str(file))
    gate.close()
    folder = tmp_path / "state" / "snapshots"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {one.stat().st_mode & 0o777 for one in folder.iterdir()} == {0o600}


def test_no_call_waits_until_old_copies_are_removed(gate: LocalGate) -> None:
    writers = gate.operations.writers
    assert writers is not None
    copies, later = writers.snapshots.folder, writers.snapshots.later
    copies.write("old", b"x")
    os.utime(copies.path / "old", (0, 0))
    with later._working:  # whoever removes them now waits here
        gate.upkeep()
        assert copies.names() == ["old"]
    later.finish()
    assert copies.names() == []


def test_setting_switches_merging_off(tmp_path: Path, file: Path) -> None:
    with LocalGate(settings=Settings(state=tmp_path / "state", snapshots=False)) as gate:
        mira, doug = Session(gate, "mira"), Session(gate, "doug")
        mine, theirs = mira.read(str(file)), doug.read(str(file))
        doug.write(str(file), theirs.replace("line 2\n", "doug's\n"))
        mira.write(str(file), mine.replace("line 15\n", "mira's\n"))
        assert file.read_text() == TEXT.replace("line 15\n", "mira's\n")
        assert not (tmp_path / "state" / "snapshots").exists()


def test_result_that_no_longer_parses_is_paused(gate: LocalGate, tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    file.write_text("[\n1,\n2,\n3,\n4,\n5\n]\n")
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine, theirs = mira.read(str(file)), doug.read(str(file))
    doug.write(str(file), theirs.replace("[\n1", "{\n1"))
    with pytest.raises(Blocked, match="pars"):
        mira.write(str(file), mine.replace("5\n]\n", "5,\n6\n]\n"))


def test_repeated_call_gets_the_merged_text_again(gate: LocalGate, file: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine, theirs = mira.read(str(file)), doug.read(str(file))
    doug.write(str(file), theirs.replace("line 2\n", "doug's\n"))
    params = {"path": str(file), "content": mine.replace("line 15\n", "mira's\n")}
    call = Call("mira", "write_file", params, session="mira", rewrite=True, call_id="c1", dispatch="d")
    first, again = gate.intercept(call), gate.intercept(call)
    assert again.repeated
    assert (again.id, again.params) == (first.id, first.params)


def test_change_between_merge_and_write_is_reported(gate: LocalGate, file: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine, theirs = mira.read(str(file)), doug.read(str(file))
    doug.write(str(file), theirs.replace("line 2\n", "doug's\n"))
    params = {"path": str(file), "content": mine.replace("line 15\n", "mira's\n")}
    running = gate.intercept(Call("mira", "write_file", params, session="mira", rewrite=True))
    replaced = file.read_text().replace("line 5\n", "an editor's\n")
    assert running.params is not None
    file.write_text(running.params["content"])
    report = gate.complete("mira", id=running.id, session="mira", result={"originalFile": replaced})
    assert "an editor's" in (report.warning or "")
    doug.write(str(file), theirs.replace("line 2\n", "doug's\n").replace("line 9\n", "doug again\n"))
    assert "overwritten" in doug.told[-1]


WRITER = """
import sys
from pathlib import Path
from callosum import Blocked, LocalGate, gated
from callosum.settings import Settings
state, path, name, count = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
def read_file(path: str) -> str:
    return Path(path).read_text()
def write_file(path: str, content: str) -> int:
    fresh = Path(f"{path}.{name}")
    fresh.write_text(content)
    fresh.replace(path)
with LocalGate(settings=Settings(state=state, snapshots=sys.argv[5] == "on")) as gate:
    around = dict(gate=gate, instance=name, session=name, warned=lambda decision: None)
    read, write = gated(read_file, **around), gated(write_file, **around)
    text = read(path)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        text = text.replace(f"{name} {number}\\n", f"{name} {number} done\\n")
        while True:
            try:
                write(path, text)
                break
            except Blocked:
                pass
"""


def race(tmp_path: Path, snapshots: str) -> list[str]:
    """Let three processes write one file, each its own lines, without reading it again; return what it holds."""
    names, count = ("ann", "bob", "eve"), 8
    file = tmp_path / "shared.txt"
    gap = "".join(f"between {number}\n" for number in range(3))
    file.write_text("".join(f"{name} {number}\n{gap}" for number in range(count) for name in names))
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "state"), str(file), name, str(count), snapshots],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        for name in names
    ]
    for process in started:  # a file that changes while it is read is no base
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=120)
    assert [process.returncode for process in started] == [0, 0, 0]
    lines = file.read_text().splitlines()
    return [f"{name} {number}" for name in names for number in range(count) if f"{name} {number} done" not in lines]


def test_processes_that_write_one_file_lose_nothing(tmp_path: Path) -> None:
    assert race(tmp_path, "on") == []


def test_without_merging_the_same_processes_lose_changes(tmp_path: Path) -> None:
    assert race(tmp_path, "off") != []


def test_command_lists_shows_and_undoes_merges(gate: LocalGate, file: Path, tmp_path: Path) -> None:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine, theirs = mira.read(str(file)), doug.read(str(file))
    doug.write(str(file), theirs.replace("line 2\n", "doug's\n"))
    mira.write(str(file), mine.replace("line 15\n", "mira's\n"))
    state = tmp_path / "state"
    listed = json.loads(run(state, "merges", "--json", "list").stdout)["merges"]  # 32 B.5: F11
    assert [(one["session"], one["others"]) for one in listed] == [("mira/mira", ["doug/doug"])]
    shown = run(state, "merges", "show", str(listed[0]["id"])).stdout
    assert "+doug's" in shown
    undo = ("merges", "undo", str(listed[0]["id"]))
    assert at_terminal(state, *undo).code == 0
    assert file.read_text() == TEXT.replace("line 2\n", "doug's\n")
    file.write_text("something else\n")
    assert at_terminal(state, *undo).code == 2
    assert file.read_text() == "something else\n"
    assert run(state, "merges", "show", "7").returncode == 1


@pytest.fixture
def merged(gate: LocalGate, file: Path) -> MergeRecord:
    mira, doug = Session(gate, "mira"), Session(gate, "doug")
    mine, theirs = mira.read(str(file)), doug.read(str(file))
    doug.write(str(file), theirs.replace("line 2\n", "doug's\n"))
    mira.write(str(file), mine.replace("line 15\n", "mira's\n"))
    assert gate.operations.writers is not None
    return next(iter(gate.operations.writers.merges.all()))


def test_undo_does_not_follow_a_folder_that_became_a_link(
    merged: MergeRecord, file: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, elsewhere = file.parent, tmp_path_factory.mktemp("elsewhere")
    (elsewhere / file.name).write_text("private\n")
    folder.rename(elsewhere / "moved")
    folder.symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="link to another"):
        bring_back(merged, "before", force=True)
    assert (elsewhere / file.name).read_text() == "private\n"


def test_undo_keeps_hard_links_mode_and_owner(merged: MergeRecord, file: Path) -> None:
    other = file.with_name("other.md")
    other.hardlink_to(file)
    bring_back(merged, "before")
    assert other.read_text() == file.read_text() == merged.before
    assert other.samefile(file)
    other.unlink()
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 65_534, 65_534)
    owner = file.stat().st_uid
    bring_back(merged, "merge")
    facts = file.stat()
    assert (file.read_text(), facts.st_mode & 0o777, facts.st_uid) == (merged.merge, 0o640, owner)


def test_no_agent_undoes_a_merge(tmp_path: Path) -> None:
    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        asked = gate.intercept(Call("mira", "Bash", {"command": "callosum merges undo 7"}))
        assert asked.verdict is Verdict.BLOCK
        assert gate.intercept(Call("mira", "Bash", {"command": "callosum merges show 7"})).proceed


@pytest.mark.parametrize(
    ("where", "merges"),
    [("socket", True), ("port with the machine's token", True), ("port with another token", False), ("port", False)],
)
def test_server_reads_files_only_for_its_own_user(tmp_path: Path, file: Path, where: str, merges: bool) -> None:
    state = tmp_path / "served"
    state.mkdir()
    token = Tokens(state / TOKENS).add("ann") if where == "port with another token" else None
    options = ("--socket", str(tmp_path / "socket")) if where == "socket" else ()
    process = this_process()
    host = [process.pid, process.started, process.machine]
    with serving(state, *options) as server:
        token = read_token(state) if "machine's" in where else token

        def call(session: str, tool: str, **params: str) -> dict[str, Any]:
            asked = {"tool": tool, "params": {"path": str(file), **params}, "rewrite": True, "host": host}
            who = {"instance": "ann", "session": session}
            found: dict[str, Any] = server.post("/intercept", {**who, **asked}, token=token)
            if "content" in params:
                file.write_text(found.get("params", params)["content"])
            done = {"id": found["id"], "outcome": "done", "result": file.read_text()}
            server.post("/complete", {**who, **done}, token=token)
            return found

        theirs, mine = TEXT.replace("line 2\n", "doug's\n"), TEXT.replace("line 15\n", "mira's\n")
        for session in ("mira", "doug"):
            call(session, "read_file")
        call("doug", "write_file", content=theirs)
        decision = call("mira", "write_file", content=mine)
        assert decision.get("merged", False) is merges
        assert ("doug's" in repr(decision)) is merges


class Hooks:
    """Sessions of a host with hooks and one file. The host runs the call as the hook answers, like the real ones."""

    def __init__(self, brain: Brain, file: Path, name: str) -> None:
        self.hooked, self.file, self.adapter = Hooked(brain, ManualClock()), file, ADAPTERS[name]
        self.gemini = name == "gemini"
        self.before, self.after = ("BeforeTool", "AfterTool") if self.gemini else ("PreToolUse", "PostToolUse")
        self.number = 0

    def send(self, event: str, session: str, tool: str, params: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        said = {"session_id": session, "cwd": str(self.file.parent), "tool_name": tool, "tool_input": params, **more}
        said |= {"hook_event_name": event} | ({} if self.gemini else {"tool_use_id": f"{session}{self.number}"})
        return dict(self.hooked.send(self.adapter, said, this_process()))

    def asked(self, session: str, tool: str, params: Mapping[str, Any], mode: str = "default") -> dict[str, Any]:
        """Return the output of the hook before the call."""
        self.number += 1
        return self.send(self.before, session, tool, params, permission_mode=mode)

    def done(self, session: str, tool: str, params: Mapping[str, Any], result: object) -> str:
        """Return the output of the hook for the model after the call."""
        said = self.send(self.after, session, tool, params, tool_response=result)
        return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))

    def read_by(self, *sessions: str) -> None:
        tool, params = ("read_file" if self.gemini else "Read"), {"file_path": str(self.file)}
        for session in sessions:
            assert self.asked(session, tool, params) == {}
            text = self.file.read_text()
            if self.gemini:
                self.done(session, tool, params, {"llmContent": text})
            else:  # for a read Claude Code calls only the hook of its batch
                shown = "".join(f"{number}\t{line}\n" for number, line in enumerate(text.splitlines(), 1))
                call = {"tool_name": tool, "tool_input": params, "tool_use_id": f"{session}{self.number}"}
                self.send("PostToolBatch", session, tool, params, tool_calls=[{**call, "tool_response": shown}])

    def edits(self, session: str, old: str, new: str) -> dict[str, Any]:
        tool = "replace" if self.gemini else "Edit"
        params = {"file_path": str(self.file), "old_string": old, "new_string": new}
        answer = self.asked(session, tool, params)
        if not answer:
            self.file.write_text(self.file.read_text().replace(old, new))
            self.done(session, tool, params, "done")
        return answer

    def writes(self, session: str, content: str, meanwhile: str = "") -> tuple[dict[str, Any], str]:
        """Let a session write the file; return what the hook said before and after the call."""
        tool, params = ("write_file" if self.gemini else "Write"), {"file_path": str(self.file), "content": content}
        answer = self.asked(session, tool, params)
        said = answer.get("hookSpecificOutput", {})
        if answer.get("decision") == "deny" or "permissionDecision" in said:
            return answer, ""
        params = said.get("tool_input" if self.gemini else "updatedInput", params)
        before = meanwhile or self.file.read_text()
        self.file.write_text(params["content"])
        result = {"returnDisplay": {"originalContent": before}} if self.gemini else {"originalFile": before}
        return answer, self.done(session, tool, params, result)


@pytest.mark.parametrize("name", ["claude-code", "gemini"])
def test_hooks_pass_a_far_edit_and_run_a_write_merged(gate: LocalGate, file: Path, name: str) -> None:
    with Brain(gate) as brain:
        host = Hooks(brain, file, name)
        host.read_by("mira", "doug")
        assert host.edits("doug", "line 2\n", "doug's\n") == {}
        assert host.edits("mira", "line 15\n", "mira's\n") == {}
        near = repr(host.edits("mira", "line 4\n", "mira's\n"))
        assert " changed " in near
        assert "+doug" in near
        answer, told = host.writes("mira", TEXT.replace("line 15\n", "mira's\n").replace("line 9\n", "again\n"))
        assert "permissionDecision" not in repr(answer), "nothing runs that the host would have asked about"
        assert file.read_text() == TEXT.replace("line 2\n", "doug's\n").replace("line 15\n", "mira's\n").replace(
            "line 9\n", "again\n"
        )
        assert "were merged into this call's text" in (told if host.gemini else repr(answer))
        assert [entry["outcome"] for entry in host.hooked.journal("complete")].count("done") == 5
        assert gate.operations.writers is not None
        assert [merged.lost for merged in gate.operations.writers.merges.all()] == [""]


@pytest.mark.parametrize("name", ["claude-code", "gemini"])
def test_hooks_report_what_a_merge_overwrote(gate: LocalGate, file: Path, name: str) -> None:
    with Brain(gate) as brain:
        host = Hooks(brain, file, name)
        host.read_by("mira", "doug")
        host.edits("doug", "line 2\n", "doug's\n")
        meanwhile = file.read_text().replace("line 5\n", "an editor's\n")
        _, told = host.writes("mira", TEXT.replace("line 15\n", "mira's\n"), meanwhile)
        assert "+an editor's" in told
        answer, told = host.writes("doug", TEXT.replace("line 2\n", "doug's\n").replace("line 9\n", "again\n"))
        assert "Something was overwritten then" in (told if host.gemini else repr(answer))


def test_codex_patch_runs_merged_if_its_user_is_not_asked_for_permission(gate: LocalGate, file: Path) -> None:
    with Brain(gate) as brain:
        host = Hooks(brain, file, "codex")
        look = {"command": "cat plan.md"}
        for session in ("mira", "doug"):
            host.asked(session, "Bash", look)
            host.done(session, "Bash", look, TEXT)
        theirs = {"command": "*** Begin Patch\n*** Update File: plan.md\n@@\n-line 2\n+doug's\n*** End Patch\n"}
        assert host.asked("doug", "apply_patch", theirs) == {}
        file.write_text(TEXT.replace("line 2\n", "doug's\n"))
        host.done("doug", "apply_patch", theirs, "Exit code: 0\n")
        near = "*** Begin Patch\n*** Update File: plan.md\n@@\n line 2\n line 3\n-line 4\n+mira's\n*** End Patch\n"
        asked = host.asked("mira", "apply_patch", {"command": near})["hookSpecificOutput"]
        assert asked["permissionDecision"] == "deny"
        assert "would be merged into it" in asked["permissionDecisionReason"]
        said = host.asked("mira", "apply_patch", {"command": near}, "bypassPermissions")["hookSpecificOutput"]
        runs = said["updatedInput"]
        assert " doug's\n line 3\n-line 4\n+mira's\n" in runs["command"]
        assert "merged into this call's text" in said["additionalContext"]
        file.write_text("something else\n")
        assert host.done("mira", "apply_patch", runs, "Exit code: 0\n") == "", "Codex does not wait for a report"
        following = host.asked("mira", "Bash", {"command": "ls"})
        assert "does not hold the merge" in following["hookSpecificOutput"]["additionalContext"]
        assert host.asked("mira", "Bash", {"command": "ls"}) == {}
