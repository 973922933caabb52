"""The command as people and programs use it: real processes, real terminals."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from callosum import __version__
from callosum.cli import health
from callosum.cli.shortid import full_id, is_short, short_of
from callosum.errors import ConfigError
from callosum.gate import LocalGate
from callosum.model import Call, Commits, Outcome
from tests.acceptance.command import CALLOSUM, at_terminal, environment, run
from tests.support import forking
from tests.support.world import InstanceGate

RULES = {"rules": [{"name": "pay", "tier": 4, "tool": "pay", "contextKey": "payment:{params.to}", "verdict": "ask"}]}
HOSTILE = "acme [bold red]x[/] \x1b[2J\x07\u202e\u009b31m"


@pytest.fixture
def gate(state: Path) -> Iterator[LocalGate]:
    state.mkdir(mode=0o700)
    (state / "tiers.json").write_text(json.dumps(RULES))
    with InstanceGate(state) as gate:
        yield gate


def pay(gate: LocalGate, to: str = "globex", instance: str = "mira") -> int:
    return gate.intercept(Call(instance, "pay", {"to": to, "amount": 5})).id


def reply(gate: LocalGate, instance: str = "mira", target: str = "andy") -> int:
    return gate.intercept(
        Call(instance, "message", {"action": "send", "target": target, "replyTo": "m1", "message": "On it"})
    ).id


COMMANDS = (
    *("status", "leases", "commitments", "journal", "watch", "explain", "approve", "deny", "resolve", "release", "off", "on"),
    *("demo", "doctor", "report", "rules check", "rules suggest", "brief", "search", "events"),
    *("store check", "store migrate", "store copy"),
)  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["status"], ["doctor"]])
def test_output_that_cannot_show_a_character_shows_another(state: Path, gate: LocalGate, words: list[str]) -> None:
    reply(gate)
    shown = run(state, *words, env={"PYTHONIOENCODING": "ascii"})
    assert "Error" not in shown.stderr, shown.stderr
    assert shown.stdout.isascii()
    assert "?" in shown.stdout


def test_help_lists_every_command_and_the_exit_codes(state: Path) -> None:
    shown = run(state, "--help")
    assert shown.returncode == 0
    for name in COMMANDS:
        assert name.split()[0] in shown.stdout
    assert "Exit codes: 0" in shown.stdout


def test_every_command_takes_a_state_folder_and_documents_its_exit_codes(state: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        for shown in pool.map(lambda name: run(state, *name.split(), "--help"), COMMANDS):
            assert shown.returncode == 0
            assert "--state" in shown.stdout, shown
            assert "Exit codes: 0" in shown.stdout, shown
    assert not state.exists()


def test_version_and_completion(state: Path) -> None:
    assert run(state, "--version").stdout == f"callosum {__version__}\n"
    completed = run(state, env={"_CALLOSUM_COMPLETE": "complete_bash", "COMP_WORDS": "callosum exp", "COMP_CWORD": "1"})
    assert completed.stdout.strip() == "explain"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("bogus",), 2, "No such command"),
        (("status", "--bogus"), 2, "No such option"),
        (("approve", "x"), 2, "Invalid value for 'ID'"),
        (("journal", "--since", "soon"), 2, "--since: expected a time"),
        (("journal", "--event", "party"), 2, "--event: expected one of intercept"),
        (("status", "--config", "none.toml"), 2, "there is no such file"),
        (("explain",), 2, "TOOL: expected a tool"),
        (("explain", "x", "[1]"), 2, "PARAMS: expected a JSON object"),
        (("resolve", "5"), 2, "--happened or --not"),
        (("off", "--for", "long"), 2, "--for: expected a duration"),
        (("rules", "check", "none.json"), 2, "none.json: No such file"),
        (("leases",), 1, ""),
        (("commitments",), 1, ""),
        (("journal",), 1, ""),
        (("release", "a:b", "--as", "mira"), 1, ""),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(state: Path, words: tuple[str, ...], code: int, says: str) -> None:
    shown = run(state, *words)
    assert (shown.returncode, says in shown.stderr) == (code, True), shown
    assert "Traceback" not in shown.stderr
    assert not state.exists()


def test_a_foreign_file_is_the_store_being_away(state: Path) -> None:
    state.mkdir()
    (state / "gate.db").write_text("somebody's notes, not a database at all")
    for words in (("status",), ("journal",), ("explain", "read", "{}"), ("brief", "--instance", "mira"), ("stdio",)):
        shown = run(state, *words)
        assert shown.returncode == 3, shown
        assert shown.stderr.startswith("callosum: ")
        assert shown.stderr.count("\n") == 1
        assert "is not a database of Callosum" in shown.stderr
    assert (state / "gate.db").read_text().startswith("somebody's")


def test_flags_come_before_the_environment(state: Path, gate: LocalGate, tmp_path: Path) -> None:
    reply(gate)
    assert run(tmp_path / "other", "leases").returncode == 1
    assert run(tmp_path / "other", "leases", "--state", str(state)).returncode == 0
    assert not (tmp_path / "other").exists()


def test_hostile_text_breaks_no_table_and_moves_no_cursor(state: Path, gate: LocalGate) -> None:
    pay(gate, HOSTILE, instance="evil[/red][bold]")
    gate.intercept(
        Call("evil[/red]", "message", {"action": "send", "target": HOSTILE, "replyTo": HOSTILE, "message": "x"})
    )
    for words in (
        ("status",),
        ("leases",),
        ("journal",),
        ("watch", "--once"),
        ("explain", "pay", json.dumps({"to": HOSTILE})),
    ):
        shown = run(state, *words)
        assert shown.returncode == 0, shown
        assert "[bold" in shown.stdout
        assert all(char == "\n" or char.isprintable() for char in shown.stdout), shown.stdout
    terminal = at_terminal(state, "journal", "--json")
    assert not set(terminal.text) & {"\x1b", "\x07", "\u202e", "\u009b"}
    assert all(json.loads(line) for line in terminal.text.splitlines())


def test_status_as_table_and_as_json(state: Path, gate: LocalGate) -> None:
    asked, lease = pay(gate), reply(gate)
    shown = run(state, "status").stdout
    for word in (
        "Waiting for a person",
        str(asked),
        "payment:globex",
        "Leases",
        str(lease),
        "thread:andy:m1",
        "Lately",
    ):
        assert word in shown
    found = json.loads(run(state, "status", "--json").stdout)
    assert found["locks"][0]["contextKey"] == "thread:andy:m1"
    assert found["asked"][0]["id"] == asked
    assert json.loads(run(state, "leases", "--json").stdout)[0]["token"] == lease
    assert json.loads(run(state, "status", "--json", "thread:nobody:1").stdout)["locks"] == []


def test_the_journal_is_filtered_and_exported(state: Path, gate: LocalGate, tmp_path: Path) -> None:
    id = reply(gate)
    gate.complete("mira", id=id, outcome=Outcome.DONE)
    gate.intercept(Call("doug", "read", {"path": "/etc/hosts"}))
    lines = run(state, "journal", "--json").stdout.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["intercept", "complete", "intercept"]
    assert json.loads(lines[0])["at"].endswith("Z")
    assert json.loads(lines[0])["body"]["params"]["message"] == "On it"
    for words, count in (
        (("--session", "doug", "--event", "intercept", "--verdict", "allow", "--tool", "re*", "--since", "1h"), 1),
        (("--key", "thread:andy:*", "--tier", "1"), 2),
        (("--since", "1h", "--until", "30m"), 0),
        (("--last", "1", "--namespace", "default"), 1),
    ):
        shown = run(state, "journal", "--json", *words)
        assert (len(shown.stdout.splitlines()), shown.returncode) == (count, 0 if count else 1), words
    out = tmp_path / "out.jsonl"
    assert run(state, "journal", "--export", str(out)).returncode == 0
    assert out.read_text().splitlines() == lines
    again = run(state, "journal", "--export", str(out))
    assert (again.returncode, "there is such a file already" in again.stderr) == (2, True)
    assert "intercept" in run(state, "journal").stdout
    before = run(state, "journal", "--json", "-n", "0").stdout
    assert run(state, "journal", "--rotate").stdout == "Moved 1 entries; there are 1 segments now.\n"
    assert run(state, "journal", "--json", "-n", "0").stdout == before
    rotated = run(state, "journal", "--rotate").stdout
    assert rotated == "Nothing was moved: decisions may still need every entry in the store.\n"


def test_the_journal_is_followed_line_by_line(state: Path, gate: LocalGate) -> None:
    reply(gate)
    with forking.Popen(
        [*CALLOSUM, "journal", "--follow", "--json"], stdout=subprocess.PIPE, env=environment(state), text=True
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["session"] == "mira"
        reply(gate, "doug", "zoe")
        assert json.loads(process.stdout.readline())["session"] == "doug"
        process.kill()


def test_a_reader_that_has_seen_enough_is_no_fault(state: Path, gate: LocalGate) -> None:
    for number in range(3000):
        gate.intercept(Call("mira", "read", {"path": f"/doc/{number}"}))
    with forking.Popen(
        [*CALLOSUM, "journal", "--json", "-n", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(state),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


_STYLE = re.compile(r"\x1b\[[0-9;]*m")
LONG_KEY = "file:/home/mira/projects/a-rather-long-folder-name/content/2026/november/announcement-of-the-release.md"


@pytest.mark.parametrize("columns", [30, 100, 200])
@pytest.mark.parametrize("words", [("status",), ("leases",), ("journal",), ("watch", "--once")])
def test_keys_can_be_copied_whole_at_any_width(
    state: Path, gate: LocalGate, columns: int, words: tuple[str, ...]
) -> None:
    path = LONG_KEY.removeprefix("file:")
    gate.intercept(Call("mira/cron-nightly-cleanup", "Write", {"file_path": path, "content": "x"}))
    gate.lock("mira/cron-nightly-cleanup", LONG_KEY, tier=4)
    shown = at_terminal(state, *words, env={"COLUMNS": str(columns)}).text
    lines = [line.strip() for line in shown.splitlines()]
    assert any(LONG_KEY in line for line in lines), shown
    if columns < len(LONG_KEY):  # it stands alone: selecting its lines selects nothing else
        assert LONG_KEY in lines
    assert "\u2026" not in shown


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_for_people_break_between_words(state: Path, gate: LocalGate, columns: int) -> None:
    reply(gate, "mira/an-interactive-session")
    reply(gate, "doug")
    pay(gate)
    for words in (("status",), ("journal",)):
        shown = _STYLE.sub("", at_terminal(state, *words, env={"COLUMNS": str(columns)}).text)
        keys = ("    ", str(state))
        for line in shown.splitlines():
            assert len(line) <= columns or line.startswith(keys), (words, line)
        for word in ("mira/an-interactive-session", "message", "thread:andy:m1", "payment:globex"):
            assert word in shown, (words, word)


def test_a_pipe_gets_one_line_for_each_call_of_the_journal(state: Path, gate: LocalGate) -> None:
    gate.intercept(Call("mira", "Write", {"file_path": LONG_KEY.removeprefix("file:"), "content": "x"}))
    gate.complete("mira", id=reply(gate))
    gate.lock("mira", "file:a", 3)
    _, *lines = run(state, "journal", env={"COLUMNS": "40"}).stdout.splitlines()
    assert len(lines) == 3
    assert re.search(r" intercept +3  allow, done in \d+(\.\d)? m?s  +message ", lines[1]), lines[1]
    _, *entries = run(state, "journal", "--entries").stdout.splitlines()
    assert len(entries) == len(run(state, "journal", "--json").stdout.splitlines()) == 4


def test_explain_says_rule_tier_keys_and_verdict_and_records_nothing(state: Path, gate: LocalGate) -> None:
    reply(gate)
    before = len(gate.entries())
    call = ("explain", "message", '{"action": "send", "target": "andy", "replyTo": "m1", "message": "me too"}')
    shown = run(state, *call, "--instance", "doug")
    for word in ("thread-reply", "thread:andy:m1", "warn", "has an active action"):
        assert word in shown.stdout
    found = json.loads(run(state, *call, "--instance", "doug", "--json").stdout)
    assert found["tier"] == 3
    assert found["decision"]["conflicts"][0]["kind"] == "held"
    options = run(state, "explain", "message", "-p", "action=send", "-p", "target=andy", "-p", "replyTo=m1", "--json")
    assert json.loads(options.stdout)["keys"] == [
        {"key": "thread:andy:m1", "mode": "write"},
        {"key": "thread:|m1", "mode": "append"},
    ]
    whole = run(state, "explain", '{"tool": "pay", "params": {"to": "x"}}', "--json")
    assert json.loads(whole.stdout)["decision"]["verdict"] == "ask"
    assert len(gate.entries()) == before


def test_explain_with_pause_shows_what_an_installed_host_would_get(state: Path, gate: LocalGate) -> None:
    gate.complete("mira", id=reply(gate))
    call = ("explain", "message", '{"action": "send", "target": "andy", "replyTo": "m1", "message": "No, not at all"}')
    quiet, paused = (run(state, *call, "--json", *more) for more in ((), ("--pause",)))
    assert json.loads(quiet.stdout)["decision"]["verdict"] == "warn"
    decision = json.loads(paused.stdout)["decision"]
    assert (decision["verdict"], decision["proceed"]) == ("confirm", False)
    assert "repeat the call" in decision["warning"]


def test_journal_events_and_status_have_one_word_for_one_outcome(state: Path, gate: LocalGate) -> None:
    gate.complete("mira", id=reply(gate))
    no = {"action": "send", "target": "andy", "replyTo": "m1", "message": "No, not at all"}
    assert gate.intercept(Call("doug", "message", no, pause=True)).verdict == "confirm"
    assert gate.intercept(Call("anna", "message", no)).verdict == "warn"
    rows = run(state, "journal").stdout.splitlines()
    for who, verdict, by in (("doug", "confirm", "mira"), ("anna", "warn", "mira")):
        (row,) = [row for row in rows if f" {who} " in row]
        assert f" {verdict} " in row
        assert f"{by} acted on it" in row
    told = run(state, "events", "--last", "9")
    assert "message  confirm: Conflict: mira acted on" in told.stdout
    assert "message  warn, high: Conflict: mira acted on" in told.stdout


def test_explain_needs_no_state_folder(state: Path) -> None:
    shown = run(state, "explain", "read", '{"path": "/etc/hosts"}')
    assert shown.returncode == 0
    assert "file:/etc/hosts" in shown.stdout
    assert not state.exists()


def test_explain_takes_a_whole_call_and_names_the_field_at_fault(state: Path) -> None:
    shown = run(state, "explain", '{"tool": "read", "params": {"path": "/x"}, "cwd": "/"}', "--json")
    answer = json.loads(shown.stdout)
    assert answer.pop("decision")["verdict"] == "allow"
    assert answer == {
        "tier": 0,
        "effect": "read",
        "keys": [{"key": "file:/x", "mode": "read"}],
        "rule": "file-read",
        "why": ["rule file-read"],
        "gap": False,
    }
    for call, says in (
        ("{garbage", "TOOL: expected a JSON object"),
        ('{"tool": 3}', "tool: "),
        ('{"params": {}}', "tool: "),
        ('{"tool": "x", "params": []}', "params: "),
        ('{"tool": "x", "parms": {}}', "parms: unknown field"),
        ('{"tool": ""}', "tool: "),
    ):
        shown = run(state, "explain", call)
        assert (shown.returncode, says in shown.stderr) == (2, True), shown
    assert not state.exists()


def test_approve_at_a_terminal_lets_the_call_run_once(state: Path, gate: LocalGate) -> None:
    id = pay(gate)
    shown = at_terminal(state, "approve", str(id))
    assert shown.code == 0, shown
    assert "Approved" in shown.text
    assert "payment:globex" in shown.text
    decision = gate.intercept(Call("mira", "pay", {"to": "globex", "amount": 5}))
    assert decision.proceed
    entry = next(entry for entry in gate.entries() if entry.event == "approve")
    assert entry.body["channel"] == "terminal"
    again = at_terminal(state, "approve", str(id))
    assert (again.code, "Nothing was changed" in again.text) == (1, True)


def test_deny_at_a_terminal(state: Path, gate: LocalGate) -> None:
    id = pay(gate)
    assert at_terminal(state, "deny", str(id)).code == 0
    decision = gate.intercept(Call("mira", "pay", {"to": "globex", "amount": 5}))
    assert not decision.proceed
    assert "A person refused this" in (decision.warning or "")


def test_a_short_id_means_the_call_it_is_shown_beside(state: Path, gate: LocalGate) -> None:
    first, second, third = pay(gate), pay(gate, "acme"), reply(gate)
    gate.complete("mira", id=third, outcome="unknown")
    lease = gate.lock("mira", "file:/a", tier=4).id
    assert lease is not None
    shown = run(state, "status").stdout
    for id in (first, second, third, lease):
        assert re.search(rf"{short_of(id)} +{id}", shown)
    assert at_terminal(state, "approve", short_of(first)).code == 0
    assert at_terminal(state, "deny", short_of(second).upper()).code == 0
    assert at_terminal(state, "resolve", short_of(third), "--happened").code == 0
    assert at_terminal(state, "release", short_of(lease)).code == 0
    found = {entry.action: entry.event for entry in gate.entries() if entry.event in {"approve", "deny", "resolve"}}
    assert found == {first: "approve", second: "deny", third: "resolve"}
    again = at_terminal(state, "approve", short_of(first))
    assert (again.code, "Nothing was changed" in again.text) == (1, True)


def test_a_short_id_overrides_a_block(state: Path, gate: LocalGate) -> None:
    gate.lock("doug", "payment:globex", tier=4)
    decision = gate.intercept(Call("mira", "pay", {"to": "globex", "amount": 5}))
    assert decision.verdict == "block"
    assert at_terminal(state, "approve", short_of(decision.id)).code == 0


def test_a_short_id_that_means_two_calls_or_none_is_refused(
    state: Path, gate: LocalGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pay(gate), pay(gate, "acme")
    with pytest.raises(ConfigError, match="no call that waits has this short id"):
        full_id(gate, next(id for id in ("a2b3", "b2b3", "c2b3") if id != short_of(first)), "default")
    monkeypatch.setattr("callosum.cli.shortid.short_of", lambda id: "a2b3")
    with pytest.raises(ConfigError, match=f"means 2 calls: say {first} or {second}"):
        full_id(gate, "a2b3", "default")


def test_short_ids_of_neighbouring_calls_differ() -> None:
    ids = range(1_795_447_615_637_991, 1_795_447_615_637_991 + 100_000, 1_000)
    assert len({short_of(id) for id in ids}) == len(ids)
    assert all(is_short(short_of(id)) for id in ids)


@pytest.mark.parametrize(
    "words", [("approve", "ID"), ("deny", "ID"), ("resolve", "ID", "--happened"), ("release", "ID"), ("off",)]
)
def test_without_a_terminal_nobody_is_a_person(state: Path, gate: LocalGate, words: tuple[str, ...]) -> None:
    id = reply(gate) if words[0] == "release" else pay(gate)
    before = len(gate.entries())
    shown = run(state, *(str(id) if word == "ID" else word for word in words))
    assert (shown.returncode, shown.stderr.startswith("callosum: only a person can ")) == (4, True), shown
    assert len(gate.entries()) == before


@pytest.mark.parametrize(
    "mark",
    ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX", "GEMINI_CLI", "OPENCLAW_SESSION", "CALLOSUM_SESSION"],
)
def test_a_terminal_inside_a_gated_host_is_no_person(state: Path, gate: LocalGate, mark: str) -> None:
    shown = at_terminal(state, "approve", str(pay(gate)), env={mark: "1"})
    assert (shown.code, f"{mark} is set" in shown.text) == (4, True), shown


def test_a_descendant_of_a_known_host_is_no_person(state: Path, gate: LocalGate, tmp_path: Path) -> None:
    host = tmp_path / "claude"
    host.symlink_to("/bin/sh")
    words = " ".join((*CALLOSUM, "approve", str(pay(gate))))
    shown = at_terminal(state, "-c", f"{words}; exit $?", program=(str(host),))
    assert (shown.code, "descends from claude" in shown.text) == (4, True), shown


def test_a_descendant_of_a_process_with_open_actions_is_no_person(state: Path, gate: LocalGate) -> None:
    script = """
import subprocess, sys
from callosum import Call, LocalGate
from callosum.process import this_process
with LocalGate() as gate:
    call = Call("mira", "message", {"action": "send", "target": "zoe", "replyTo": "1", "message": "x"}, host=this_process())
    assert gate.intercept(call).proceed
    sys.exit(subprocess.call([sys.executable, "-m", "callosum.cli", "approve", sys.argv[1]]))
"""
    shown = at_terminal(state, "-c", script, str(pay(gate)), program=(sys.executable,))
    assert (shown.code, "runs gated calls" in shown.text) == (4, True), shown


def test_resolve_by_a_person_and_by_a_session_that_has_looked(state: Path, gate: LocalGate) -> None:
    first, second = reply(gate), reply(gate, target="zoe")
    for id in (first, second):
        gate.complete("mira", id=id, outcome="unknown")
    assert "Outcome unknown" in run(state, "status").stdout
    assert at_terminal(state, "resolve", str(first), "--happened", "--note", "it is in the sent mails").code == 0
    refused = run(state, "resolve", str(second), "--not", "--as", "doug/s1")
    assert refused.returncode == 1
    assert f"belongs to another instance: ask the person to run `callosum resolve {second}" in refused.stdout
    assert run(state, "resolve", str(second), "--not", "--as", "mira/s2").returncode == 0
    found = {entry.action: entry for entry in gate.entries() if entry.event == "resolve"}
    assert found[first].outcome == "done"
    assert found[first].body["note"] == "it is in the sent mails"
    assert found[second].outcome == "failed"
    assert found[second].session == found[second].body["by"] == "mira/s2"
    assert found[first].body["ancestry"], "which processes the person's command descends from"
    assert run(state, "resolve", str(second), "--not", "--as", "mira").returncode == 1


def test_release_by_a_person_and_by_the_session_itself(state: Path, gate: LocalGate) -> None:
    gate.lock("mira", "file:/a", tier=4)
    lock = gate.lock("mira", "file:/b", tier=4)
    assert run(state, "release", "file:/a", "--as", "doug").returncode == 1
    assert run(state, "release", "file:/a", "--as", "mira").returncode == 0
    assert at_terminal(state, "release", str(lock.id)).code == 0
    assert gate.status().locks == ()
    gate.lock("mira", "file:/a", tier=4)
    assert at_terminal(state, "release", "file:/a").code == 0
    assert gate.status().locks == ()


def test_release_by_id_frees_no_other_lease_on_the_key(state: Path, gate: LocalGate) -> None:
    first, second = reply(gate), reply(gate)
    assert {lock.id for lock in gate.status().locks} == {first, second}
    assert at_terminal(state, "release", str(first)).code == 0
    assert {lock.id for lock in gate.status().locks} == {second}


def test_off_lets_all_pass_for_a_while_and_on_ends_it(state: Path, gate: LocalGate) -> None:
    assert at_terminal(state, "off", "--for", "5m").code == 0
    assert "observing only until" in run(state, "status").stdout
    decision = gate.intercept(Call("mira", "pay", {"to": "acme"}))
    assert decision.proceed
    assert decision.observed == "ask"
    assert json.loads(run(state, "on", "--json").stdout) == {"observingUntil": None, "was": True}
    with LocalGate(state) as another:  # one that runs already may take a second to see it
        assert not another.intercept(Call("mira", "pay", {"to": "initech"})).proceed
    assert "was on already" in run(state, "on").stdout


def test_watch_answers_on_the_spot(state: Path, gate: LocalGate) -> None:
    first = pay(gate)
    shown = at_terminal(state, "watch", "--every", "0.05", keys=((str(first), "y"), ("approved pay of mira", "q")))
    assert shown.code == 0, shown
    assert gate.intercept(Call("mira", "pay", {"to": "globex", "amount": 5})).proceed
    second = pay(gate, "acme")
    at_terminal(state, "watch", "--every", "0.05", keys=((str(second), "n"), ("refused pay of mira", "q")))
    assert not gate.intercept(Call("mira", "pay", {"to": "acme", "amount": 5})).proceed


def test_watch_inside_a_host_shows_and_answers_nothing(state: Path, gate: LocalGate) -> None:
    id = pay(gate)
    keys = (("Answers are off", "y"), ("only a person can answer here", "q"))
    at_terminal(state, "watch", "--every", "0.05", keys=keys, env={"CLAUDECODE": "1"})
    assert gate.store.action("default", id).approved == 0  # type: ignore[union-attr]


def test_watch_tells_the_users_command_and_no_shell_reads_what_an_agent_wrote(
    state: Path, gate: LocalGate, tmp_path: Path
) -> None:
    pipe = tmp_path / "told"
    os.mkfifo(pipe)
    program = tmp_path / "notify.py"
    program.write_text(
        "import json, os, sys\n"
        "facts = json.load(sys.stdin)\n"
        "named = {k: v for k, v in os.environ.items() if k.startswith('CALLOSUM_CALL_')}\n"
        "open(sys.argv[1], 'w').write(json.dumps([sys.argv[2:], facts, named]))\n"
    )
    command = f"{sys.executable} {program} {pipe} '$(touch {tmp_path}/owned)'"
    old = pay(gate, "before")
    with forking.Popen(
        [*CALLOSUM, "watch", "--json", "--every", "0.05", "--notify", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(state),
        text=True,
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"event": "watching"}
        id = pay(gate, f"$(touch {tmp_path}/owned) `touch {tmp_path}/owned`")
        told = json.loads(process.stdout.readline())
        words, facts, named = json.loads(pipe.read_text())
        assert (told["event"], told["id"]) == ("approval", id) != ("approval", old)
        assert words == [f"$(touch {tmp_path}/owned)"]
        assert facts == told
        assert named["CALLOSUM_CALL_ID"] == str(id)
        assert named["CALLOSUM_CALL_TOOL"] == "pay"
        gate.intercept(Call("mira", "exec", {"command": f"callosum approve {id}"}))
        assert json.loads(process.stdout.readline())["event"] == "block"
        assert json.loads(pipe.read_text())[1]["event"] == "block"
        process.kill()
    assert not (tmp_path / "owned").exists()


def test_rules_check_names_the_exact_place(state: Path, gate: LocalGate, tmp_path: Path) -> None:
    assert "1 rules of your own are sound" in run(state, "rules", "check").stdout
    bad = tmp_path / "bad.json"
    bad.write_text('{"rules": [{"name": "a", "tier": 9, "tool": "x"}]}')
    shown = run(state, "rules", "check", str(bad))
    assert (shown.returncode, f"{bad}: rules[0].tier: " in shown.stderr) == (2, True), shown
    assert json.loads(run(state, "rules", "check", str(bad), "--json").stdout)["at"] == "rules[0].tier"
    assert json.loads(run(state, "rules", "check", "--json").stdout) == {
        "ok": True,
        "file": str(state / "tiers.json"),
        "own": 1,
        "rules": len(gate.rules.current().rules),
    }


def test_doctor_without_a_host_does_not_say_that_all_is_well(state: Path, gate: LocalGate, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    found = json.loads(run(state, "doctor", "--json", env=env).stdout)
    assert (
        found["ok"],
        {"versions", "state folder", "disk", "rules", "store", "log"} - {one["check"] for one in found["findings"]},
    ) == (True, set())
    shown = run(state, "doctor", env=env)
    assert (shown.returncode, "All is well." in shown.stdout) == (0, False), shown
    assert "no host asks the gate: callosum install HOST" in shown.stdout
    (tmp_path / "servers.json").write_text('{"mcpServers": {"files": {"command": "cat"}}}')
    run(state, "install", "mcp", str(tmp_path / "servers.json"), "--yes", env=env)
    assert "All is well." in run(state, "doctor", env=env).stdout


def test_doctor_names_what_is_wrong_and_what_to_do(state: Path, gate: LocalGate) -> None:
    gate.complete("mira", id=reply(gate), outcome="unknown")
    assert "No check failed, but one action never told how it ended." in run(state, "doctor").stdout
    state.chmod(0o755)
    (state / "gate.db").chmod(0o644)
    (state / "tiers.json").write_text("{")
    (state / "journal").mkdir(mode=0o700)
    (state / "journal" / "1-2.jsonl.gz").write_bytes(b"torn")
    shown = run(state, "doctor", "--json")
    assert shown.returncode == 1
    found = {one["check"]: one for one in json.loads(shown.stdout)["findings"]}
    assert found["state folder"]["level"] == found["rules"]["level"] == found["segments"]["level"] == "wrong"
    assert "chmod" in found["state folder"]["advice"]
    assert found["unknown"]["level"] == "advice"
    assert "callosum resolve" in found["unknown"]["advice"]
    assert run(state, "status").returncode == 0  # people can look and settle while the rules are broken
    assert "things are wrong" in run(state, "doctor").stdout


def test_doctor_finds_the_unrelated_package_of_the_same_name(state: Path, gate: LocalGate, tmp_path: Path) -> None:
    def doctor() -> dict[str, str]:
        script = f"import sys; sys.path.append({str(tmp_path)!r}); import callosum.cli; callosum.cli.main()"
        program = (sys.executable, "-c", script)
        found = json.loads(run(state, "doctor", "--json", program=program).stdout)["findings"]
        return {one["check"]: one["level"] + " " + one["says"] for one in found}

    assert "package" not in doctor(), "callosum-protocol is this one"
    (tmp_path / "callosum-1.0.3.dist-info").mkdir()
    (tmp_path / "callosum-1.0.3.dist-info" / "METADATA").write_text("Name: callosum\nVersion: 1.0.3\n")
    assert doctor()["package"].startswith("wrong the unrelated package callosum 1.0.3 is installed")


def test_doctor_calls_a_read_only_mount_by_its_name(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state.mkdir(mode=0o700)
    real = os.statvfs(state)
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((*real[:8], os.ST_RDONLY, real[9])))
    found = [(one.check, one.level, one.says) for one in (*health._folder(state), *health._room(state))]
    assert found == [("disk", "wrong", f"{state} is on a file system that is mounted read-only")]
    monkeypatch.undo()
    assert [one.level for one in health._room(state)] == ["ok"]


def test_a_broken_rules_file_is_named_wherever_it_is_read(state: Path, gate: LocalGate) -> None:
    (state / "tiers.json").write_text('{"rules": [{"name": "pay", "tier": 9, "tool": "pay"}]}')
    place = f"{state / 'tiers.json'}: rules[0].tier: "
    for words in (("explain", "pay", "{}"), ("rules", "check"), ("rules", "suggest"), ("stdio",)):
        shown = run(state, *words)
        assert (shown.returncode, place in shown.stderr) == (2, True), (words, shown)
    assert place in run(state, "doctor").stdout
    with pytest.raises(ConfigError, match=re.escape(place)):
        LocalGate(state)


def test_doctor_says_when_the_store_is_not_ours(state: Path) -> None:
    state.mkdir(mode=0o700)
    (state / "gate.db").write_text("not a database")
    (state / "gate.db").chmod(0o600)
    shown = run(state, "doctor")
    assert (shown.returncode, "is not a database of Callosum" in shown.stdout) == (1, True), shown


def test_commitments_are_listed_by_session_key_and_end(state: Path, gate: LocalGate) -> None:
    gate.intercept(Call("mira", "accept_invitation", {"event_id": "e1"}, session="chat"))
    gate.intercept(Call("mira", "confirm_booking", {"booking_id": "b1"}, session="chat"))
    says = Commits("approve", what="the [bold]offer", to="the bank")
    gate.intercept(Call("doug", "update_document", {"document_id": "d1"}, commits=says))
    found = json.loads(run(state, "commitments", "--json").stdout)
    assert [(one["instance"], one["contextKeys"], one["decided"]) for one in found] == [
        ("doug", ["doc:d1"], "approved"),
        ("mira/chat", ["booking:b1"], "confirmed"),
        ("mira/chat", ["event:e1"], "accepted"),
    ]
    assert all(29 * 86_400 < one["until"] - one["at"] < 31 * 86_400 for one in found)
    shown = run(state, "commitments", env={"COLUMNS": "160"}).stdout
    assert "the [bold]offer (to the bank)" in shown
    assert [one["id"] for one in json.loads(run(state, "commitments", "event:e1", "--json").stdout)] == [found[2]["id"]]
    assert len(json.loads(run(state, "commitments", "--session", "mira/chat", "--json").stdout)) == 2
    gate.heard("mira", "SessionEnd", {}, session="chat")
    found = json.loads(run(state, "commitments", "--session", "mira/chat", "--json").stdout)
    assert {one["owner"] for one in found} == {"mira"}
    assert run(state, "commitments", "event:none").returncode == 1


def test_a_brief_shows_the_commitments_on_its_keys_and_no_others(state: Path, gate: LocalGate) -> None:
    for event in ("e1", "e2"):
        made = gate.intercept(Call("mira", "accept_invitation", {"event_id": event}, session="chat"))
        gate.complete("mira", id=made.id, session="chat")
    shown = run(state, "brief", "--instance", "doug", "--key", "event:e1").stdout
    told = shown.partition("Commitments of other sessions")[2].partition("\n\n")[0].splitlines()
    assert told[1].startswith('- mira/chat accepted "event:e1"')
    assert "it holds for 30 d more" in told[1]
    assert "e2" not in told[1]
    assert (
        "Commitments" not in run(state, "brief", "--instance", "mira", "--session", "chat", "--key", "event:e1").stdout
    )
