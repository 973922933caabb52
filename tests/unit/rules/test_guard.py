"""The gate guards itself: against every way of saying it, and against nothing else.

``guard/blocked.txt`` and ``guard/passing.txt`` hold the commands. Add a case there.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callosum.gate.local import LocalGate
from callosum.model import Call, Classification, Verdict
from callosum.rules import RuleSet
from callosum.rules import lexicon as lex
from callosum.rules.lexicon import lists
from callosum.server.app import ENDPOINTS as SERVED

HERE = Path(__file__).parent / "guard"
STATE = "/home/u/.local/state/callosum"
LENIENT = json.dumps({"rules": [{"name": "lenient", "tier": 0, "tool": "*", "judge": False}]})
PROTECTED = {STATE: "Callosum's state folder", "/srv/rules/mine.json": "Callosum's rules"}
RULES = RuleSet.parse(LENIENT, protected=PROTECTED, ports=(7700, 7801))


def groups(name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the headings of a table with the commands below each."""
    heading, commands = "", list[str]()
    for line in [*(HERE / name).read_text(encoding="utf-8").splitlines(), "## "]:
        if line.startswith("## "):
            if commands:
                yield heading, commands
            heading, commands = line[3:], []
        elif line.strip() and not line.startswith("# "):
            commands.append(line.replace("⏎", "\n"))


BLOCKED = dict(groups("blocked.txt"))
PASSING = dict(groups("passing.txt"))


def run(command: str, tool: str = "Bash", cwd: str = "/home/u/project", rules: RuleSet = RULES) -> Classification:
    return rules.classify(Call("a", tool, {"command": command}, cwd=cwd))


@pytest.mark.parametrize("group", BLOCKED)
def test_guard_blocks_calls_that_would_change_or_switch_off_the_gate(group: str) -> None:
    passed = [one for one in BLOCKED[group] if run(one).verdict is not Verdict.BLOCK]
    assert passed == []


@pytest.mark.parametrize("group", PASSING)
def test_guard_passes_calls_that_cannot_change_the_gate(group: str) -> None:
    blocked = [(one, seen.why) for one in PASSING[group] if (seen := run(one)).rule == "self-guard"]
    assert blocked == []


def test_tables_are_large_enough() -> None:
    assert sum(map(len, BLOCKED.values())) >= 150
    assert sum(map(len, PASSING.values())) >= 300


def test_block_is_tier_4_with_its_own_rule_and_says_what_it_protected() -> None:
    seen = run("cd ~/.local && rm -rf state")
    assert (seen.tier, seen.verdict, seen.rule) == (4, Verdict.BLOCK, "self-guard")
    assert seen.why == ("the gate guards itself: it would change Callosum's state folder (~/.local/state/callosum)",)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("rm /srv/rules/mine.json", "Callosum's rules (/srv/rules/mine.json)"),
        ("echo x > .claude/settings.json", "the settings of Claude Code (.claude/settings.json)"),
        ("mv ~/.codex x", "the settings of Codex CLI (.codex/)"),
        ("callosum off", '"callosum off"'),
        ("callosum $'\\e[2J'", "a command of Callosum's"),
        ("pkill -f callosum", "Callosum's process"),
        ("curl localhost:7700/lock", "the gate's own port"),
        ("curl -b c http://callosum-0123456789abcdef.localhost:40111/console", "the gate's own port"),
    ],
)
def test_block_names_the_protected_file_and_repeats_no_text_of_the_agent(command: str, named: str) -> None:
    assert named in run(command).why[0]
    assert run(command).why[0].isprintable()


TOOLS: list[tuple[str, dict[str, Any], bool]] = [
    ("Write", {"file_path": f"{STATE}/x"}, True),
    ("write", {"path": ".claude/settings.json"}, True),
    ("Edit", {"file_path": "/home/u/.local/state/../state/callosum/x"}, True),
    ("NotebookEdit", {"notebook_path": f"{STATE}/x.ipynb", "new_source": ""}, True),
    ("mcp__fs__write_file", {"path": "/srv/rules/mine.json", "content": ""}, True),
    ("mcp__fs__move_file", {"source": "/tmp/x", "destination": "/home/u/.codex/hooks.json"}, True),
    ("mcp__fs__move_file", {"source": STATE, "destination": "/tmp/x"}, True),
    ("mcp__fs__move_file", {"source": "/home/u/.local", "destination": "/tmp/x"}, True),
    ("mcp__fs__delete_directory", {"path": "/home/u/.local/state"}, True),
    ("mcp__fs__delete_directory", {"path": "~/.claude"}, True),
    ("save", {"files": [{"path": "/tmp/x"}, {"path": "/home/u/.gemini/settings.json"}]}, True),
    ("write", {"path": "/etc/callosum/tiers.json"}, True),
    ("apply_patch", {"input": "*** Begin Patch\n*** Update File: .claude/settings.json\n*** End Patch"}, True),
    ("shell", {"command": ["callosum", "off"]}, True),
    ("shell", {"command": ["bash", "-lc", "callosum off"]}, True),
    ("shell", {"command": "callosum", "args": ["off"]}, True),
    ("mcp__term__run", {"argv": ["callosum", "off"]}, True),
    ("mcp__py__execute", {"code": "from callosum import LocalGate\nLocalGate().observe(60)"}, True),
    ("mcp__py__execute", {"code": "import shutil\nshutil.rmtree('/home/u/.local')"}, True),
    ("run_javascript", {"code": "require('child_process').execSync('callosum off')"}, True),
    ("WebFetch", {"url": "http://127.0.0.1:7700/status"}, True),
    ("browser_navigate", {"url": "http://callosum-0123456789abcdef.localhost:40111/console"}, True),
    ("browser_navigate", {"url": "http://callosum\uff0d0123456789abcdef\u3002localhost:40111/console"}, True),
    ("browser_navigate", {"url": "http://callo%73um-0123456789abcdef.loc%61lhost:40111/console"}, True),
    ("browser_navigate", {"url": "http://callosum-01234567\n89abc\u00addef.localhost:40111/console"}, True),
    ("browser_navigate", {"url": "http://my-callosum.localhost:3000/"}, False),
    ("browser_navigate", {"url": "http://my%2Dcallosum\u3002localhost:3000/"}, False),
    ("http_request", {"method": "POST", "url": "http://localhost:7801/lock"}, True),
    ("WebFetch", {"url": "http://127.0.0.1:7700/indexes/films"}, False),
    ("Read", {"file_path": f"{STATE}/x"}, False),
    ("read", {"path": "/home/u/.claude/settings.json"}, False),
    ("mcp__fs__list_directory", {"path": "/home/u/.local"}, False),
    ("mcp__fs__create_directory", {"path": "/home/u/.local/share"}, False),
    ("mcp__fs__write_file", {"path": "/home/u/.local", "content": ""}, False),
    ("mcp__fs__copy_file", {"source": f"{STATE}/tiers.json", "destination": "/tmp/x"}, False),
    ("mcp__fs__delete_directory", {"path": "/home/u/project/build"}, False),
    ("Write", {"file_path": "/tmp/x", "content": "callosum off > ~/.claude/settings.json"}, False),
    ("message", {"action": "send", "target": "a", "message": "callosum off"}, False),
    ("Write", {"file_path": "/src/tiers.json"}, False),
    ("Write", {"file_path": "/home/u/.local/state/callosum-other"}, False),
    ("WebFetch", {"url": "https://example.com/callosum"}, False),
    ("mcp__py__execute", {"code": "print('callosum off')"}, False),
]


@pytest.mark.parametrize(("tool", "params", "blocked"), TOOLS)
def test_guard_checks_the_files_that_tools_write(tool: str, params: dict[str, Any], blocked: bool) -> None:
    seen = RULES.classify(Call("a", tool, params, cwd="/home/u"))
    assert (seen.verdict is Verdict.BLOCK) is blocked


@pytest.mark.parametrize(
    ("filler", "hidden"),
    [
        *((filler, "callosum off") for filler in ("echo 'a b' \"c\";", "x=1;", "(true);", "a $(b);", "\n", " ")),
        *(("x=1;", hidden) for hidden in ('c"all"osum off', f"rm -rf {STATE}", "sh -c 'callosum off'")),
    ],
)
def test_line_too_long_to_be_read_cannot_bypass_the_guard(filler: str, hidden: str) -> None:
    line = filler * (200_000 // len(filler))
    assert run(f"{line}\n{hidden}").verdict is Verdict.BLOCK
    assert run(f"{hidden}\n{line}").verdict is Verdict.BLOCK
    assert run(f"{line}\necho hello").rule != "self-guard"


def test_many_file_searches_in_a_line_take_bounded_time_and_hide_nothing() -> None:
    line = "find / -name x -exec rm {} +;" * 300
    assert run(line).rule != "self-guard"
    assert run(f"{line}find / -name gate.db -exec rm {{}} +").verdict is Verdict.BLOCK


def test_protected_path_is_found_in_every_spelling_of_home() -> None:
    rules = RuleSet.parse(
        protected={"/data/bob/state": "Callosum's state folder", "~/state": "Callosum's state folder"}
    )
    for command in ("rm -rf ~/state", "rm -rf $HOME/state", "rm -rf /data/bob/state", "rm -rf /data"):
        assert run(command, rules=rules).rule == "self-guard", command


def test_file_search_is_tested_against_the_real_files_of_a_state_folder(tmp_path: Path) -> None:
    with LocalGate(tmp_path) as gate:
        gate.intercept(
            Call("mira", "message", {"action": "send", "target": "andy", "message": "On it", "replyTo": "m"})
        )
        held = {one.name for one in tmp_path.rglob("*") if one.is_file()}
    assert held
    assert held <= {one.rsplit("/", 1)[-1] for one in lists.STATE_FILES}


def test_every_path_of_the_server_is_known_to_the_guard() -> None:
    """The guard distinguishes the gate from another service at the same port by its paths."""
    assert {one.path.split("/")[1] for one in SERVED} - lex.GATE_ENDPOINTS == {"health"}
